// A table of functions that say a node of ggml's in calls of Sectile's operations. The same function checks and runs:
// a check asks sectile_op_infer() whether each call can be, a run makes the calls.
#include "Operations.h"
#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ggml-backend.h>
#include <initializer_list>
#include <mutex>
#include <numbers>
#include <optional>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <vector>

namespace {

constexpr int maxAxes = 6;

struct Refused : std::runtime_error {
  using std::runtime_error::runtime_error;
};

void require(bool condition, const char *what) {
  if (!condition)
    throw Refused(what);
}

// A tensor as Sectile counts its axes: the last one first.
struct Array {
  void *data = nullptr;
  DLDataType type{};
  int rank = 0;
  std::array<int64_t, maxAxes> shape{}, strides{}; // in elements

  int64_t elements() const {
    int64_t count = 1;
    for (int i = 0; i < rank; ++i)
      count *= shape[i];
    return count;
  }
  size_t bytes() const { return type.bits / 8; }
  // One place along the first axis.
  Array at(int64_t index) const {
    Array part = *this;
    part.data = static_cast<char *>(data) + index * strides[0] * static_cast<int64_t>(bytes());
    std::copy(shape.begin() + 1, shape.end(), part.shape.begin());
    std::copy(strides.begin() + 1, strides.end(), part.strides.begin());
    --part.rank;
    return part;
  }
  Array permuted(std::initializer_list<int> axes) const {
    Array result = *this;
    int to = 0;
    for (int from : axes) {
      result.shape[to] = shape[from];
      result.strides[to++] = strides[from];
    }
    return result;
  }
  // `count` elements along an axis, from `begin` on.
  Array part(int axis, int64_t begin, int64_t count) const {
    Array result = *this;
    result.data = static_cast<char *>(data) + begin * strides[axis] * static_cast<int64_t>(bytes());
    result.shape[axis] = count;
    return result;
  }
  bool sameShape(const Array &other) const { return rank == other.rank && std::equal(shape.begin(), shape.begin() + rank, other.shape.begin()); }
};

constexpr DLDataType float32{kDLFloat, 32, 1}, float16{kDLFloat, 16, 1}, bfloat16{kDLBfloat, 16, 1}, int32{kDLInt, 32, 1},
    int64{kDLInt, 64, 1}, uint8{kDLUInt, 8, 1};

bool operator==(const DLDataType &a, const DLDataType &b) { return a.code == b.code && a.bits == b.bits; }

DLDataType typeOf(ggml_type type) {
  switch (type) {
  case GGML_TYPE_F32: return float32;
  case GGML_TYPE_F16: return float16;
  case GGML_TYPE_BF16: return bfloat16;
  case GGML_TYPE_I32: return int32;
  case GGML_TYPE_I64: return int64;
  default: throw Refused("a type that Sectile does not have");
  }
}

Array arrayOf(const ggml_tensor *tensor) {
  require(tensor, "a tensor is missing");
  Array array{.data = tensor->data, .type = typeOf(tensor->type), .rank = 4, .shape = {}, .strides = {}};
  for (int i = 0; i < 4; ++i) {
    array.shape[3 - i] = tensor->ne[i];
    require(tensor->nb[i] % array.bytes() == 0, "a step between elements that is no multiple of their size");
    array.strides[3 - i] = static_cast<int64_t>(tensor->nb[i] / array.bytes());
  }
  return array;
}

// Of the shape of another one, in memory that is there or not yet.
Array dense(DLDataType type, const Array &like, void *data = nullptr) {
  Array array{.data = data, .type = type, .rank = like.rank, .shape = like.shape, .strides = {}};
  for (int64_t i = array.rank, step = 1; i-- > 0; step *= array.shape[i])
    array.strides[i] = step;
  return array;
}

sectile_option number(const char *name, double value) { return {name, SECTILE_DOUBLE, {.d = value}}; }
sectile_option text(const char *name, const char *value) { return {name, SECTILE_TEXT, {.text = value}}; }
sectile_option integer(const char *name, int64_t value) { return {name, SECTILE_INT64, {.i = value}}; }

// The calls of one node, checked or run.
class Work {
public:
  // Without a stream: only checks.
  Work(sectile_device *device, sectile_stream *stream) : device(device), stream(stream) {
    sectile_device_info_t info{};
    info.size = sizeof info;
    expect(sectile_device_info(device, &info));
    place = info.dlpack;
  }
  ~Work() {
    for (void *memory : scratches)
      sectile_free(device, memory);
  }
  Work(const Work &) = delete;
  Work &operator=(const Work &) = delete;

  // Memory until the work of this node is done.
  Array scratch(DLDataType type, const Array &like) {
    Array array = dense(type, like);
    if (stream) {
      expect(sectile_alloc(device, static_cast<size_t>(array.elements()) * array.bytes(), &array.data));
      scratches.push_back(array.data);
    }
    return array;
  }

  // Inputs, then outputs; null for an input that is left out.
  void call(const char *name, std::initializer_list<const Array *> arguments,
            std::initializer_list<sectile_option> options = {}) {
    const sectile_op *operation = find(name);
    std::array<DLTensor, 16> tensors{};
    std::array<DLTensor *, 16> given{};
    std::array<std::array<int64_t, maxAxes>, 16> shapes{}, strides{};
    size_t count = 0;
    for (const Array *array : arguments) {
      if (array) {
        shapes[count] = array->shape;
        strides[count] = array->strides;
        tensors[count] = {.data = array->data, .device = place, .ndim = array->rank, .dtype = array->type,
                          .shape = shapes[count].data(), .strides = strides[count].data(), .byte_offset = 0};
        given[count] = &tensors[count];
      }
      ++count;
    }
    if (stream) {
      expect(sectile_op_run(operation, stream, given.data(), count, options.begin(), options.size()));
      return;
    }
    if (sectile_op_infer(operation, given.data(), count, options.begin(), options.size()) != SECTILE_OK)
      throw Refused(sectile_error());
  }

private:
  static void expect(sectile_status status) {
    if (status != SECTILE_OK)
      throw std::runtime_error(sectile_error());
  }
  static const sectile_op *find(const char *name) {
    static std::mutex mutex;
    static std::unordered_map<std::string, const sectile_op *> found;
    const std::lock_guard lock(mutex);
    const sectile_op *&operation = found[name];
    if (!operation)
      expect(sectile_op_find(name, &operation));
    return operation;
  }

  sectile_device *device;
  sectile_stream *stream;
  DLDevice place{};
  std::vector<void *> scratches;
};

float parameter(const ggml_tensor &node, int index) {
  float value;
  std::memcpy(&value, node.op_params + index, sizeof value);
  return value;
}

// Axes that lie evenly in all of these arrays of one shape become one, from the last on; four are left. Kernels over
// elements then have long rows.
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

// y = f(x) by the kernel of this file's own.
void map(Work &work, Array x, Array y, const char *function, float a = 0, float b = 0) {
  if (x.sameShape(y))
    merge({&x, &y});
  work.call("ggml_map", {&x, &y, &y}, {text("kind", function), number("a", a), number("b", b)});
}

// The same numbers in another type.
Array converted(Work &work, const Array &x, DLDataType type) {
  if (x.type == type)
    return x;
  const Array y = work.scratch(type, x);
  map(work, x, y, "copy");
  return y;
}

// The table's functions -----------------------------------------------------------------------------------------------

void copy(Work &work, const ggml_tensor &node) {
  Array x = arrayOf(node.src[0]), y = arrayOf(&node);
  if (!x.sameShape(y)) {
    // One of them dense: it can have the other's shape.
    const bool denseX = ggml_is_contiguous(node.src[0]);
    require(denseX || ggml_is_contiguous(&node), "a copy between other shapes, neither of them dense");
    if (denseX)
      x = dense(x.type, y, x.data);
    else
      y = dense(y.type, x, y.data);
  }
  map(work, x, y, "copy");
}

void unary(Work &work, const ggml_tensor &node) {
  static const std::unordered_map<int, const char *> inLibrary = {
      {GGML_UNARY_OP_GELU, "gelu_tanh"}, {GGML_UNARY_OP_GELU_ERF, "gelu"}, {GGML_UNARY_OP_SILU, "silu"},
      {GGML_UNARY_OP_RELU, "relu"},      {GGML_UNARY_OP_TANH, "tanh"},     {GGML_UNARY_OP_SIGMOID, "sigmoid"},
      {GGML_UNARY_OP_SOFTPLUS, "softplus"}};
  const ggml_unary_op which = ggml_get_unary_op(&node);
  Array x = arrayOf(node.src[0]), y = arrayOf(&node);
  if (const auto found = inLibrary.find(which); found != inLibrary.end() && x.type == y.type) {
    merge({&x, &y});
    for (int64_t i = 0; i < x.shape[0]; ++i) {
      const Array from = x.at(i), to = y.at(i);
      work.call("activation", {&from, &to}, {text("kind", found->second)});
    }
    return;
  }
  std::string name = ggml_unary_op_name(which);
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
  map(work, x, y, name.c_str());
}

template <const char *function, int first, int second> void mapped(Work &work, const ggml_tensor &node) {
  map(work, arrayOf(node.src[0]), arrayOf(&node), function, first < 0 ? 0 : parameter(node, first),
      second < 0 ? 0 : parameter(node, second));
}

void repeat(Work &work, const ggml_tensor &node) {
  map(work, arrayOf(node.src[0]), arrayOf(&node), "copy");
}

// z = f(x, y), with y repeated.
void pair(Work &work, Array x, Array y, Array z, const char *function, float a = 0, float b = 0) {
  bool isSame = x.sameShape(z), stretches = true;
  require(isSame, "the first operand is repeated");
  for (int i = 0; i < 4; ++i) {
    stretches &= y.shape[i] == z.shape[i] || y.shape[i] == 1;
    require(y.shape[i] && z.shape[i] % y.shape[i] == 0, "an extent is no multiple of the other operand's");
  }
  if (stretches) { // a step of 0 repeats an axis of one element
    for (int i = 0; i < 4; ++i)
      if (y.shape[i] != z.shape[i]) {
        y.shape[i] = z.shape[i];
        y.strides[i] = 0;
      }
    merge({&x, &y, &z});
    if (!std::strcmp(function, "add") && x.type == y.type && x.type == z.type) {
      for (int64_t i = 0; i < z.shape[0]; ++i) {
        const Array left = x.at(i), right = y.at(i), sum = z.at(i);
        work.call("vector_add", {&left, &right, &sum});
      }
      return;
    }
  }
  work.call("ggml_pair", {&x, &y, &z}, {text("kind", function), number("a", a), number("b", b)});
}

template <const char *function> void paired(Work &work, const ggml_tensor &node) {
  pair(work, arrayOf(node.src[0]), arrayOf(node.src[1]), arrayOf(&node), function);
}

void gated(Work &work, const ggml_tensor &node) {
  Array gate = arrayOf(node.src[0]), y = arrayOf(&node), up = gate;
  if (node.src[1]) {
    up = arrayOf(node.src[1]);
  } else {
    const int64_t half = gate.shape[3] / 2;
    const bool swapped = node.op_params[1];
    up = gate.part(3, swapped ? 0 : half, half);
    gate = gate.part(3, swapped ? half : 0, half);
  }
  require(gate.sameShape(y) && up.sameShape(y), "a gate of another shape");
  const ggml_glu_op which = ggml_get_glu_op(&node);
  const auto library = [&](const char *name, std::initializer_list<sectile_option> options) {
    merge({&gate, &up, &y});
    for (int64_t i = 0; i < y.shape[0]; ++i) {
      const Array a = gate.at(i), b = up.at(i), c = y.at(i);
      work.call(name, {&a, &b, &c}, options);
    }
  };
  switch (which) {
  case GGML_GLU_OP_SWIGLU: return library("swiglu", {});
  case GGML_GLU_OP_GEGLU: return library("geglu", {text("approximate", "tanh")});
  case GGML_GLU_OP_GEGLU_ERF: return library("geglu", {});
  case GGML_GLU_OP_REGLU: return pair(work, gate, up, y, "reglu");
  case GGML_GLU_OP_GEGLU_QUICK: return pair(work, gate, up, y, "geglu_quick");
  case GGML_GLU_OP_SWIGLU_OAI:
    return pair(work, gate, up, y, "swiglu_oai", parameter(node, 2), parameter(node, 3));
  default: throw Refused("another gate");
  }
}

// Calls do(x, y) with as many rows at once as lie evenly in both: kernels over rows take no others.
template <class Do> void overRows(const Array &x, const Array &y, const Do &call) {
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

// A number for each row.
Array forRows(Work &work, const Array &x, DLDataType type = float32) {
  Array result = x;
  result.rank = x.rank - 1;
  return work.scratch(type, result);
}

void rmsNorm(Work &work, const ggml_tensor &node) {
  overRows(arrayOf(node.src[0]), arrayOf(&node), [&](const Array &x, const Array &y) {
    const Array rstd = forRows(work, x);
    work.call("rms_norm", {&x, nullptr, nullptr, &y, nullptr, &rstd}, {number("eps", parameter(node, 0))});
  });
}

void layerNorm(Work &work, const ggml_tensor &node) {
  overRows(arrayOf(node.src[0]), arrayOf(&node), [&](const Array &x, const Array &y) {
    const Array mean = forRows(work, x), rstd = forRows(work, x);
    work.call("layer_norm", {&x, nullptr, nullptr, &y, &mean, &rstd}, {number("eps", parameter(node, 0))});
  });
}

// The name of a quantised type's format in the kernels; null for others.
const char *formatOf(ggml_type type) {
  switch (type) {
  case GGML_TYPE_Q4_0: return "q4_0";
  case GGML_TYPE_Q4_1: return "q4_1";
  case GGML_TYPE_Q5_0: return "q5_0";
  case GGML_TYPE_Q5_1: return "q5_1";
  case GGML_TYPE_Q8_0: return "q8_0";
  case GGML_TYPE_Q4_K: return "q4_k";
  case GGML_TYPE_Q5_K: return "q5_k";
  case GGML_TYPE_Q6_K: return "q6_k";
  default: return nullptr;
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
Array numbersOf(Work &work, const ggml_tensor *tensor, DLDataType type = float16) {
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

// dst[i, n, m] = sum over k of src0[i', m, k] src1[i, n, k], with as many i for each i' as src1 has more matrices.
void matMul(Work &work, const ggml_tensor &node) {
  const Array c = arrayOf(&node);
  const Array b = numbersOf(work, node.src[0]);
  Array a = arrayOf(node.src[1]);
  require(c.type == float32, "a product of another type than f32");
  // Operands of one type, that of the weights: f16 and bf16 have products of their own.
  a = converted(work, a, b.type);
  const bool exact = node.op_params[0] == GGML_PREC_F32;
  const int64_t more2 = a.shape[1] / b.shape[1], more3 = a.shape[0] / b.shape[0];
  for (int64_t i = 0; i < a.shape[0]; ++i) {
    const Array rows = a.at(i), columns = b.at(i / more3).permuted({0, 2, 1}), sums = c.at(i);
    // Matrices that share one of src0 are `more2` in a row: one call has one of each such run.
    const bool shared = b.shape[1] == 1;
    for (int64_t j = 0; j < (shared ? 1 : more2); ++j) {
      const auto every = [&](const Array &x) {
        Array part = shared ? x : x.part(0, j, b.shape[1]);
        if (!shared)
          part.strides[0] *= more2;
        return part;
      };
      const Array left = every(rows), sum = every(sums);
      if (left.shape[0] == 1) {
        const Array x = left.at(0), y = columns.at(0), z = sum.at(0);
        work.call("matmul", {&x, &y, nullptr, nullptr, nullptr, nullptr, &z},
                  {text("out", "f32"), text("precision", exact ? "exact" : "tf32")});
      } else {
        work.call("batched_matmul", {&left, &columns, nullptr, nullptr, nullptr, nullptr, &sum},
                  {text("out", "f32"), text("precision", exact ? "exact" : "tf32")});
      }
    }
  }
}

// The bases of ALiBi's slopes for so many heads.
struct Slopes {
  int64_t heads; // how many heads have the first base
  double base, between;

  Slopes(int64_t all, double most) : heads(1) {
    while (heads * 2 <= all)
      heads *= 2;
    base = std::exp2(-most / static_cast<double>(heads));
    between = std::exp2(-most / 2 / static_cast<double>(heads));
  }
};

void softMax(Work &work, const ggml_tensor &node) {
  const Array x = arrayOf(node.src[0]), y = arrayOf(&node);
  const float scale = parameter(node, 0), most = parameter(node, 1);
  if (!node.src[1] && !node.src[2] && scale == 1)
    return overRows(x, y, [&](const Array &from, const Array &to) { work.call("softmax", {&from, &to}); });
  std::optional<Array> mask, sinks;
  if (node.src[1]) {
    mask = arrayOf(node.src[1]).part(2, 0, x.shape[2]); // it may have more rows
    require(x.shape[0] % mask->shape[0] == 0 && x.shape[1] % mask->shape[1] == 0, "a mask for other heads");
  }
  if (node.src[2])
    sinks = arrayOf(node.src[2]).at(0).at(0).at(0);
  const Slopes slopes(x.shape[1], most);
  work.call("ggml_softmax", {&x, mask ? &*mask : nullptr, sinks ? &*sinks : nullptr, &y},
            {number("scale", scale), number("slope", slopes.base), number("slope_between", slopes.between),
             integer("heads", mask && most > 0 ? slopes.heads : 0)});
}

void flashAttention(Work &work, const ggml_tensor &node) {
  // The keys' type is that of all products; queries of llama.cpp are f32 beside keys of f16.
  Array k = numbersOf(work, node.src[1]);
  const Array q = converted(work, arrayOf(node.src[0]), k.type), v = converted(work, numbersOf(work, node.src[2]), k.type);
  const Array result = arrayOf(&node).permuted({0, 2, 1, 3});
  const float most = parameter(node, 1);
  std::optional<Array> bias, sinks;
  if (node.src[3]) {
    bias = converted(work, arrayOf(node.src[3]).part(2, 0, q.shape[2]), k.type);
    if (most > 0) {
      const Slopes slopes(q.shape[1], most);
      Array shape = *bias;
      shape.shape[1] = q.shape[1];
      const Array sloped = work.scratch(k.type, shape);
      work.call("ggml_alibi", {&*bias, &sloped, &sloped},
                {number("slope", slopes.base), number("slope_between", slopes.between), integer("heads", slopes.heads)});
      bias = sloped;
    }
  }
  if (node.src[4]) {
    sinks = arrayOf(node.src[4]).at(0).at(0).permuted({1, 0}); // a score for each head
    sinks->rank = 2;
  }
  const Array o = result.type == k.type ? result : work.scratch(k.type, result), lse = forRows(work, result);
  work.call("attention",
            {&q, &k, &v, bias ? &*bias : nullptr, nullptr, sinks ? &*sinks : nullptr, nullptr, &o, &lse},
            {number("scale", parameter(node, 0)), number("softcap", parameter(node, 2))});
  if (o.type != result.type)
    map(work, o, result, "copy");
}

// A pair's number at which its wavelength is so many turns over the original context, as in YaRN.
double pairOfTurns(int dims, int context, double turns, double base) {
  return dims * std::log(context / (turns * 2 * std::numbers::pi)) / (2 * std::log(base));
}

template <bool isForward> void rope(Work &work, const ggml_tensor &node) {
  const Array x = arrayOf(node.src[0]), y = arrayOf(&node), positions = arrayOf(node.src[1]).at(0).at(0).at(0);
  std::optional<Array> factors;
  if (node.src[2])
    factors = arrayOf(node.src[2]).at(0).at(0).at(0);
  const int32_t *parameters = node.op_params;
  const int dims = parameters[1], mode = parameters[2], context = parameters[4];
  const double base = parameter(node, 5), scale = parameter(node, 6), mix = parameter(node, 7);
  double magnitude = parameter(node, 8), low = 0, high = 0;
  if (mix != 0) {
    // Infinite without a context or turns; an option is finite, and this is as far as any pair.
    const auto pairOf = [&](double turns) { return std::clamp(pairOfTurns(dims, context, turns, base), -1e6, 1e6); };
    low = std::max(0.0, std::floor(pairOf(parameter(node, 9))));
    high = std::min(dims - 1.0, std::ceil(pairOf(parameter(node, 10))));
    magnitude *= 1 + 0.1 * std::log(1 / scale);
  }
  const char *kind = mode == GGML_ROPE_TYPE_NORMAL   ? "normal"
                     : mode == GGML_ROPE_TYPE_NEOX   ? "neox"
                     : mode == GGML_ROPE_TYPE_MROPE  ? "mrope"
                     : mode == GGML_ROPE_TYPE_IMROPE ? "imrope"
                     : mode == GGML_ROPE_TYPE_VISION ? "vision"
                                                     : nullptr;
  require(kind, "another kind of rotation");
  work.call("ggml_rope", {&x, &positions, factors ? &*factors : nullptr, &y},
            {text("kind", kind), integer("dims", dims), integer("first", parameters[15]), integer("time", parameters[11]),
             integer("height", parameters[12]), integer("width", parameters[13]), integer("other", parameters[14]),
             number("base", base), number("scale", scale), number("low", low), number("high", high), number("mix", mix),
             number("magnitude", magnitude), number("sign", isForward ? 1 : -1)});
}

void getRows(Work &work, const ggml_tensor &node) {
  const char *format = formatOf(node.src[0]->type);
  const Array table = format ? bytesOf(node.src[0]) : arrayOf(node.src[0]), indices = arrayOf(node.src[1]).at(0),
              y = arrayOf(&node);
  if (table.type == y.type && table.type == float32 && table.shape[0] * table.shape[1] == 1) {
    const Array rows = table.at(0).at(0), numbers = indices.at(0).at(0), result = y.at(0).at(0);
    return work.call("embedding", {&rows, &numbers, &result});
  }
  work.call("ggml_get_rows", {&table, &indices, &y, &y}, {text("format", format ? format : "plain")});
}

void setRows(Work &work, const ggml_tensor &node) {
  const Array x = arrayOf(node.src[0]), indices = arrayOf(node.src[1]).at(0), y = arrayOf(&node);
  require(indices.shape[0] && indices.shape[1] && x.shape[0] % indices.shape[0] == 0 && x.shape[1] % indices.shape[1] == 0,
          "numbers for other rows");
  work.call("ggml_set_rows", {&x, &indices, &y, &y});
}

constexpr char scaleName[] = "scale", clampName[] = "clamp", leakyName[] = "leaky_relu", sqrName[] = "sqr", sqrtName[] = "sqrt",
               logName[] = "log", sinName[] = "sin", cosName[] = "cos", addName[] = "add", subName[] = "sub", mulName[] = "mul",
               divName[] = "div";

void nothing(Work &, const ggml_tensor &) {}

using Translation = void (*)(Work &, const ggml_tensor &);

Translation translationOf(ggml_op operation) {
  switch (operation) {
  case GGML_OP_NONE:
  case GGML_OP_RESHAPE:
  case GGML_OP_VIEW:
  case GGML_OP_PERMUTE:
  case GGML_OP_TRANSPOSE: return nothing;
  case GGML_OP_DUP:
  case GGML_OP_CONT:
  case GGML_OP_CPY: return copy;
  case GGML_OP_REPEAT: return repeat;
  case GGML_OP_SCALE: return mapped<scaleName, 0, 1>;
  case GGML_OP_CLAMP: return mapped<clampName, 0, 1>;
  case GGML_OP_LEAKY_RELU: return mapped<leakyName, 0, -1>;
  case GGML_OP_SQR: return mapped<sqrName, -1, -1>;
  case GGML_OP_SQRT: return mapped<sqrtName, -1, -1>;
  case GGML_OP_LOG: return mapped<logName, -1, -1>;
  case GGML_OP_SIN: return mapped<sinName, -1, -1>;
  case GGML_OP_COS: return mapped<cosName, -1, -1>;
  case GGML_OP_UNARY: return unary;
  case GGML_OP_ADD: return paired<addName>;
  case GGML_OP_SUB: return paired<subName>;
  case GGML_OP_MUL: return paired<mulName>;
  case GGML_OP_DIV: return paired<divName>;
  case GGML_OP_GLU: return gated;
  case GGML_OP_NORM: return layerNorm;
  case GGML_OP_RMS_NORM: return rmsNorm;
  case GGML_OP_MUL_MAT: return matMul;
  case GGML_OP_SOFT_MAX: return softMax;
  case GGML_OP_FLASH_ATTN_EXT: return flashAttention;
  case GGML_OP_ROPE: return rope<true>;
  case GGML_OP_ROPE_BACK: return rope<false>;
  case GGML_OP_GET_ROWS: return getRows;
  case GGML_OP_SET_ROWS: return setRows;
  default: return nullptr;
  }
}

} // namespace

bool ggml_sectile::supports(sectile_device *device, const ggml_tensor &node) {
  const Translation translation = translationOf(node.op);
  if (!translation)
    return false;
  try {
    Work work(device, nullptr);
    translation(work, node);
    return true;
  } catch (const std::exception &error) {
    // What a model's layers run into is of interest once; a scheduler asks again and again.
    static const bool explains = std::getenv("SECTILE_GGML_EXPLAIN");
    if (explains)
      std::fprintf(stderr, "Sectile: %s is refused: %s\n", ggml_op_desc(&node), error.what());
    return false;
  }
}

void ggml_sectile::run(sectile_device *device, sectile_stream *stream, const ggml_tensor &node) {
  if (ggml_is_empty(&node))
    return;
  Work work(device, stream);
  translationOf(node.op)(work, node);
}
