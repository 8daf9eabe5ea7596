// Checks of the tensors that are handed to kernels, and copies of tensors with strides.
#include <algorithm>
#include <cstring>
#include <limits>
#include <sectile/argument.h>
#include <sectile/tensor.h>

namespace sectile::detail {

static std::string listOf(const int64_t *lengths, int rank) {
  std::string text = "[";
  for (int i = 0; i < rank; ++i)
    text += (i ? ", " : "") + std::to_string(lengths[i]);
  return text + "]";
}

static std::string nameOf(const TensorPlace &place) {
  return "a tensor of extents " + listOf(place.extents, place.rank) + " and strides " +
         listOf(place.strides, place.rank);
}

static bool isEmpty(const TensorPlace &place) {
  return std::find(place.extents, place.extents + place.rank, 0) != place.extents + place.rank;
}

size_t countElements(const TensorPlace &place) {
  if (isEmpty(place))
    return 0;
  size_t count = 1;
  for (int i = 0; i < place.rank; ++i)
    if (place.extents[i] < 0 || __builtin_mul_overflow(count, size_t(place.extents[i]), &count) ||
        count > size_t(PTRDIFF_MAX) / place.elementBytes)
      throw LaunchError(
          nameOf(place) + " has " +
          (place.extents[i] < 0 ? "a negative extent" : "more elements than any host's memory"));
  return count;
}

void throwElementsMismatch(const char *what, const TensorPlace &place, size_t given) {
  throw DeviceError(
      std::string(what) + ": a tensor of extents " + listOf(place.extents, place.rank) + " has " +
      std::to_string(countElements(place)) + " elements, " + std::to_string(given) + " were given");
}

// The stretch of memory from the tensor's lowest element to its highest.
struct Stretch {
  Memory memory;
  size_t first; // bytes before the first element
};
static Stretch stretchOf(const TensorPlace &place) {
  if (!place.memory.owner())
    throw LaunchError(nameOf(place) + " was made of a bare address, of which no device is known: "
                                      "make it of a Buffer to copy it");
  int64_t low = 0, high = 0;
  bool overflows = false;
  for (int i = 0; i < place.rank; ++i) {
    int64_t span;
    int64_t &end = place.strides[i] < 0 ? low : high;
    overflows |= __builtin_mul_overflow(place.extents[i] - 1, place.strides[i], &span) ||
                 __builtin_add_overflow(end, span, &end);
  }
  const auto size = static_cast<int64_t>(place.elementBytes);
  const auto start = static_cast<int64_t>(place.address - place.memory.address());
  int64_t lowest, end;
  overflows |= __builtin_mul_overflow(low, size, &lowest) ||
               __builtin_add_overflow(lowest, start, &lowest) ||
               __builtin_add_overflow(high, 1, &end) || __builtin_mul_overflow(end, size, &end) ||
               __builtin_add_overflow(end, start, &end);
  if (overflows || lowest < 0 || static_cast<uint64_t>(end) > place.memory.bytes())
    throw LaunchError(nameOf(place) + " reaches beyond its " +
                      std::to_string(place.memory.bytes()) + " bytes of memory");
  return {place.memory.slice(static_cast<size_t>(lowest), static_cast<size_t>(end - lowest)),
          static_cast<size_t>(start - lowest)};
}

static bool isDense(const TensorPlace &place) {
  int64_t stride = 1;
  for (int i = place.rank; i-- > 0; stride *= place.extents[i])
    if (place.extents[i] != 1 && place.strides[i] != stride)
      return false;
  return true;
}

// Calls function(offset) with each element's distance from the first in bytes, in row-major order.
template <class Function> static void eachElement(const TensorPlace &place, Function &&function) {
  std::vector<int64_t> at(static_cast<size_t>(place.rank), 0);
  const auto size = static_cast<int64_t>(place.elementBytes);
  int64_t offset = 0;
  for (int axis = 0; axis >= 0;) {
    function(offset);
    for (axis = place.rank - 1; axis >= 0; --axis) {
      offset += place.strides[axis] * size;
      if (++at[size_t(axis)] < place.extents[axis])
        break;
      offset -= place.extents[axis] * place.strides[axis] * size;
      at[size_t(axis)] = 0;
    }
  }
}

void downloadTensor(const TensorPlace &place, void *target) {
  if (isEmpty(place))
    return;
  const auto [memory, first] = stretchOf(place);
  if (isDense(place))
    return memory.download(target);
  std::vector<char> bytes(memory.bytes());
  memory.download(bytes.data());
  char *to = static_cast<char *>(target);
  const char *const from = bytes.data() + first;
  eachElement(place, [&](int64_t offset) {
    std::memcpy(to, from + offset, place.elementBytes);
    to += place.elementBytes;
  });
}

void uploadTensor(const TensorPlace &place, const void *source) {
  if (isEmpty(place))
    return;
  const auto [memory, first] = stretchOf(place);
  if (isDense(place))
    return memory.upload(source);
  std::vector<bool> isTaken(memory.bytes() / place.elementBytes);
  eachElement(place, [&](int64_t offset) {
    const size_t element = (first + static_cast<size_t>(offset)) / place.elementBytes;
    if (isTaken[element])
      throw LaunchError("upload: elements of " + nameOf(place) + " share memory");
    isTaken[element] = true;
  });
  std::vector<char> bytes(memory.bytes());
  if (countElements(place) < isTaken.size())
    memory.download(bytes.data());
  const char *from = static_cast<const char *>(source);
  char *const to = bytes.data() + first;
  eachElement(place, [&](int64_t offset) {
    std::memcpy(to + offset, from, place.elementBytes);
    from += place.elementBytes;
  });
  memory.upload(bytes.data());
}

Memory copyTensor(const TensorPlace &place, const Device &device, uint64_t &address) {
  if (isEmpty(place)) {
    const Memory none(device, 0);
    address = none.address();
    return none;
  }
  const auto [memory, first] = stretchOf(place);
  const Memory copy(device, memory.bytes());
  copy.copy_from(memory, nullptr);
  address = copy.address() + first;
  return copy;
}

void checkTensor(const int64_t *extents, const int64_t *strides, int rank, size_t size) {
  auto fail = [&](const std::string &why) {
    throw LaunchError("a tensor of extents " + listOf(extents, rank) + " and strides " +
                      listOf(strides, rank) + " " + why);
  };
  bool empty = false;
  for (int i = 0; i < rank; ++i) {
    if (extents[i] < 0)
      fail("has a negative extent");
    empty |= extents[i] == 0;
  }
  if (empty)
    return;
  // The lowest and the highest element, with overflow seen.
  int64_t low = 0, high = 0;
  for (int i = 0; i < rank; ++i) {
    int64_t span;
    int64_t &end = strides[i] < 0 ? low : high;
    if (__builtin_mul_overflow(extents[i] - 1, strides[i], &span) ||
        __builtin_add_overflow(end, span, &end))
      fail("reaches beyond 64 bits");
  }
  if (low < 0)
    fail("reaches before the start of its buffer");
  if (static_cast<uint64_t>(high) >= size)
    fail("reaches element " + std::to_string(high) + " of a buffer of " + std::to_string(size));
}

// DLPack's codes for kinds of elements.
std::optional<DType> dtypeOfDLPack(int code, int bits) {
  auto integer = [&](DType smallest) -> std::optional<DType> {
    for (int log = 0; log < 4; ++log)
      if (bits == 8 << log)
        return static_cast<DType>(static_cast<int>(smallest) + log);
    return std::nullopt;
  };
  switch (code) {
  case 0:
    return integer(DType::int8);
  case 1:
    return integer(DType::uint8);
  case 2:
    return bits == 16   ? std::optional(DType::float16)
           : bits == 32 ? std::optional(DType::float32)
           : bits == 64 ? std::optional(DType::float64)
                        : std::nullopt;
  case 4:
    return bits == 16 ? std::optional(DType::bfloat16) : std::nullopt;
  case 6:
    return bits == 8 ? std::optional(DType::boolean) : std::nullopt;
  case 9:
    return bits == 8 ? std::optional(DType::float8_e4m3b11fnuz) : std::nullopt;
  case 10:
    return bits == 8 ? std::optional(DType::float8_e4m3) : std::nullopt;
  case 11:
    return bits == 8 ? std::optional(DType::float8_e4m3fnuz) : std::nullopt;
  case 12:
    return bits == 8 ? std::optional(DType::float8_e5m2) : std::nullopt;
  case 13:
    return bits == 8 ? std::optional(DType::float8_e5m2fnuz) : std::nullopt;
  default:
    return std::nullopt;
  }
}

void checkDLPack(int code, int bits, int lanes, int rank, DType dtypeWanted, int rankWanted) {
  const std::optional<DType> dtype = lanes == 1 ? dtypeOfDLPack(code, bits) : std::nullopt;
  if (dtype != dtypeWanted)
    throw LaunchError("a DLPack tensor of " +
                      (dtype
                           ? std::string(name_of(*dtype))
                           : "type code " + std::to_string(code) + " with " + std::to_string(bits) +
                                 " bits and " + std::to_string(lanes) + " lanes") +
                      " was given where the kernel takes " + std::string(name_of(dtypeWanted)));
  if (rankWanted >= 0 && rank != rankWanted)
    throw LaunchError("a DLPack tensor of rank " + std::to_string(rank) +
                      " was given where the kernel takes rank " + std::to_string(rankWanted));
}

void checkDLPackDense(const int64_t *extents, const int64_t *strides, int rank) {
  if (!strides || std::find(extents, extents + rank, 0) != extents + rank)
    return;
  int64_t dense = 1;
  for (int i = rank; i-- > 0; dense *= extents[i])
    if (extents[i] != 1 && strides[i] != dense)
      throw LaunchError("a Ptr takes a DLPack tensor whose elements lie one after the other in "
                        "row-major order, not one of extents " +
                        listOf(extents, rank) + " and strides " + listOf(strides, rank));
}

} // namespace sectile::detail
