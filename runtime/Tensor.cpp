// Checks of the tensors that are handed to kernels.
#include <algorithm>
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
static std::optional<DType> dtypeOfDLPack(int code, int bits) {
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
