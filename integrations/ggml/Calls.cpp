// Tensors and calls of Sectile as the translation of ggml's nodes needs them.
#include "Calls.h"
#include <ggml-backend.h>
#include <mutex>
#include <string>
#include <unordered_map>

namespace ggml_sectile {

namespace {

DLDataType typeOf(ggml_type type) {
  switch (type) {
  case GGML_TYPE_F32:
    return float32;
  case GGML_TYPE_F16:
    return float16;
  case GGML_TYPE_BF16:
    return bfloat16;
  case GGML_TYPE_I32:
    return int32;
  case GGML_TYPE_I64:
    return int64;
  default:
    throw Refused("a type that Sectile does not have");
  }
}

void expect(sectile_status status) {
  if (status != SECTILE_OK)
    throw std::runtime_error(sectile_error());
}

const sectile_op *find(const char *name) {
  static std::mutex mutex;
  static std::unordered_map<std::string, const sectile_op *> found;
  const std::lock_guard lock(mutex);
  const sectile_op *&operation = found[name];
  if (!operation)
    expect(sectile_op_find(name, &operation));
  return operation;
}

} // namespace

int64_t Array::elements() const {
  int64_t count = 1;
  for (int i = 0; i < rank; ++i)
    count *= shape[i];
  return count;
}

bool Array::sameShape(const Array &other) const {
  return rank == other.rank && std::equal(shape.begin(), shape.begin() + rank, other.shape.begin());
}

Array Array::at(int64_t index) const {
  Array part = *this;
  part.data = static_cast<char *>(data) + index * strides[0] * bytesOfElement();
  std::copy(shape.begin() + 1, shape.end(), part.shape.begin());
  std::copy(strides.begin() + 1, strides.end(), part.strides.begin());
  --part.rank;
  return part;
}

Array Array::inner(int axes) const {
  Array result = *this;
  while (result.rank > axes) {
    require(result.shape[0] == 1, "more axes than an operation has");
    result = result.at(0);
  }
  return result;
}

Array Array::permuted(std::initializer_list<int> axes) const {
  Array result = *this;
  result.rank = 0;
  for (int from : axes) {
    result.shape[result.rank] = shape[from];
    result.strides[result.rank++] = strides[from];
  }
  return result;
}

Array Array::part(int axis, int64_t begin, int64_t count) const {
  Array result = *this;
  result.data = static_cast<char *>(data) + begin * strides[axis] * bytesOfElement();
  result.shape[axis] = count;
  return result;
}

Array arrayOf(const ggml_tensor *tensor) {
  require(tensor, "a tensor is missing");
  Array array{
      .data = tensor->data, .type = typeOf(tensor->type), .rank = 4, .shape = {}, .strides = {}};
  const auto bytes = static_cast<size_t>(array.bytesOfElement());
  for (int i = 0; i < 4; ++i) {
    array.shape[3 - i] = tensor->ne[i];
    require(tensor->nb[i] % bytes == 0,
            "a step between elements that is no multiple of their size");
    array.strides[3 - i] = static_cast<int64_t>(tensor->nb[i] / bytes);
  }
  return array;
}

Array dense(DLDataType type, const Array &like, void *data) {
  Array array{.data = data, .type = type, .rank = like.rank, .shape = like.shape, .strides = {}};
  for (int64_t i = array.rank, step = 1; i-- > 0; step *= array.shape[i])
    array.strides[i] = step;
  return array;
}

Array dense(DLDataType type, std::initializer_list<int64_t> shape, void *data) {
  Array like{.data = nullptr,
             .type = type,
             .rank = static_cast<int>(shape.size()),
             .shape = {},
             .strides = {}};
  std::copy(shape.begin(), shape.end(), like.shape.begin());
  return dense(type, like, data);
}

Work::~Work() {
  for (void *memory : scratches)
    sectile_free(place.device, memory);
}

Array Work::scratch(DLDataType type, const Array &like) {
  Array array = dense(type, like);
  if (place.stream) {
    expect(sectile_alloc(
        place.device, static_cast<size_t>(array.elements() * array.bytesOfElement()), &array.data));
    scratches.push_back(array.data);
  }
  return array;
}

Array Work::scratch(DLDataType type, std::initializer_list<int64_t> shape) {
  return scratch(type, dense(type, shape));
}

Array Work::filled(float value, int64_t count) {
  const Array array = scratch(float32, {count});
  if (place.stream)
    expect(
        sectile_fill(place.stream, array.data, &value, sizeof value, static_cast<size_t>(count)));
  return array;
}

void Work::call(const char *name, std::initializer_list<const Array *> arguments,
                std::initializer_list<sectile_option> options) {
  const sectile_op *operation = find(name);
  std::array<DLTensor, 20> tensors{};
  std::array<DLTensor *, 20> given{};
  std::array<std::array<int64_t, maxAxes>, 20> shapes{}, strides{};
  size_t count = 0;
  for (const Array *array : arguments) {
    if (array) {
      shapes[count] = array->shape;
      strides[count] = array->strides;
      tensors[count] = {.data = array->data,
                        .device = place.dlpack,
                        .ndim = array->rank,
                        .dtype = array->type,
                        .shape = shapes[count].data(),
                        .strides = strides[count].data(),
                        .byte_offset = 0};
      given[count] = &tensors[count];
    }
    ++count;
  }
  if (place.stream) {
    expect(sectile_op_run(operation, place.stream, given.data(), count, options.begin(),
                          options.size()));
    return;
  }
  if (sectile_op_infer(operation, given.data(), count, options.begin(), options.size()) !=
      SECTILE_OK)
    throw Refused(sectile_error());
  // Outputs have got the shapes that they must have.
  for (size_t i = 0; i < count; ++i)
    if (given[i] && !tensors[i].strides)
      require(
          tensors[i].ndim == arguments.begin()[i]->rank &&
              std::equal(tensors[i].shape, tensors[i].shape + tensors[i].ndim, shapes[i].begin()),
          "a result of another shape");
}

void merge(std::initializer_list<Array *> arrays) {
  const Array &shape = **arrays.begin();
  for (int axis = shape.rank - 1, last = axis; axis-- > 0;) {
    bool even = true;
    for (const Array *array : arrays)
      even &= array->shape[axis] == 1 || array->shape[last] == 1 ||
              array->strides[axis] == array->shape[last] * array->strides[last];
    if (!even) {
      last = axis;
      continue;
    }
    for (Array *array : arrays) {
      if (array->shape[last] == 1)
        array->strides[last] = array->strides[axis];
      array->shape[last] *= array->shape[axis];
      array->shape[axis] = 1;
    }
  }
}

void map(Work &work, Array x, Array y, const char *function, float a, float b) {
  if (x.sameShape(y))
    merge({&x, &y});
  work.call("ggml_map", {&x, &y, &y}, {text("kind", function), number("a", a), number("b", b)});
}

Array converted(Work &work, const Array &x, DLDataType type) {
  if (isSame(x.type, type))
    return x;
  const Array y = work.scratch(type, x);
  map(work, x, y, "copy");
  return y;
}

void overRows(const Array &x, const Array &y,
              const std::function<void(const Array &, const Array &)> &call) {
  const auto even = [](const Array &array) {
    for (int axis = array.rank - 2, last = axis; axis-- > 0;) {
      if (array.shape[last] == 1) {
        last = axis;
      } else if (array.shape[axis] != 1) {
        int64_t rows = 1;
        for (int i = axis + 1; i <= last; ++i)
          rows *= array.shape[i];
        if (array.strides[axis] != rows * array.strides[last])
          return false;
      }
    }
    return true;
  };
  if (even(x) && even(y))
    return call(x, y);
  for (int64_t i = 0; i < x.shape[0]; ++i)
    overRows(x.at(i), y.at(i), call);
}

void multiply(Work &work, const Array &a, const Array &b, const Array &c, bool exact) {
  const int64_t more2 = a.shape[1] / b.shape[1], more3 = a.shape[0] / b.shape[0];
  const auto options = {text("out", "f32"), text("precision", exact ? "exact" : "tf32")};
  for (int64_t i = 0; i < a.shape[0]; ++i) {
    const Array left = a.at(i), right = b.at(i / more3), sums = c.at(i);
    // Matrices that share one of b are `more2` in a row: one call has one of each such run, or all.
    const bool shared = b.shape[1] == 1;
    const auto every = [&](const Array &x, int64_t first) {
      Array part = shared ? x : x.part(0, first, b.shape[1]);
      if (!shared)
        part.strides[0] *= more2;
      return part;
    };
    for (int64_t j = 0; j < (shared ? 1 : more2); ++j) {
      const Array x = every(left, j), z = every(sums, j);
      if (x.shape[0] == 1) {
        const Array x0 = x.at(0), y0 = right.at(0), z0 = z.at(0);
        work.call("matmul", {&x0, &y0, nullptr, nullptr, nullptr, nullptr, &z0}, options);
      } else {
        work.call("batched_matmul", {&x, &right, nullptr, nullptr, nullptr, nullptr, &z}, options);
      }
    }
  }
}

// The name of a quantised type's format in the kernels; null for others.
const char *formatOf(ggml_type type) {
  switch (type) {
  case GGML_TYPE_Q4_0:
    return "q4_0";
  case GGML_TYPE_Q4_1:
    return "q4_1";
  case GGML_TYPE_Q5_0:
    return "q5_0";
  case GGML_TYPE_Q5_1:
    return "q5_1";
  case GGML_TYPE_Q8_0:
    return "q8_0";
  case GGML_TYPE_Q4_K:
    return "q4_k";
  case GGML_TYPE_Q5_K:
    return "q5_k";
  case GGML_TYPE_Q6_K:
    return "q6_k";
  default:
    return nullptr;
  }
}

// The bytes of quantised rows.
Array bytesOf(const ggml_tensor *tensor) {
  Array array{.data = tensor->data, .type = uint8, .rank = 4, .shape = {}, .strides = {}};
  require(tensor->nb[0] == ggml_type_size(tensor->type), "quantised rows that are not dense");
  for (int i = 1; i < 4; ++i) {
    array.shape[3 - i] = tensor->ne[i];
    array.strides[3 - i] = static_cast<int64_t>(tensor->nb[i]);
  }
  array.shape[3] = static_cast<int64_t>(ggml_row_size(tensor->type, tensor->ne[0]));
  array.strides[3] = 1;
  return array;
}

// A tensor as numbers: quantised ones are decoded into scratch memory.
Array numbersOf(Work &work, const ggml_tensor *tensor, DLDataType type) {
  require(tensor, "a tensor is missing");
  const char *format = formatOf(tensor->type);
  if (!format)
    return arrayOf(tensor);
  const Array bytes = bytesOf(tensor);
  Array shape = bytes;
  shape.shape[3] = tensor->ne[0];
  const Array y = work.scratch(type, shape);
  work.call("ggml_decode", {&bytes, &y, &y}, {text("format", format)});
  return y;
}

// A number for each row.
Array forRows(Work &work, const Array &x, DLDataType type) {
  Array result = x;
  result.rank = x.rank - 1;
  return work.scratch(type, result);
}

} // namespace ggml_sectile
