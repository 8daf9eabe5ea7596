// Whether copying operands first pays for a product, and the kernel that copies them.
#include "kernels/matmul/Operands.h"
#include "kernels/registry/Registry.h"
#include "kernels/tuning/Choices.h"
#include "runtime/Chip.h"
#include "runtime/MachineModel.h"

using namespace sectile;

namespace {

constexpr std::int64_t engineBytes = 16; // of which the copy engine wants multiples
constexpr std::int64_t lineBytes = 128;

struct OperandTile {
  int rows = 64, depth = 64, warps = 4;
};

template <class T> struct OperandArguments {
  View<const T, 3> operand;
  View<T, 3> copy;
};

template <class T>
Kernel operandCopy{
    "matmul_operand", [](const OperandArguments<T> &arguments, const OperandTile &tile) {
      const auto &[operand, copy] = arguments;
      const Int rows = cdiv(copy.extent(1), tile.rows), columns = cdiv(copy.extent(2), tile.depth),
                area = rows * columns, batch = program_id(0) / area, at = program_id(0) % area,
                i = at / columns, k = at % columns;
      copy.at(batch)
          .tile(tile.rows, tile.depth)
          .store(i, k, operand.at(batch).tile(tile.rows, tile.depth).load(i, k));
    }};

template <class T> bool needsAlongK() { return sizeof(T) != 2; }

bool isSet(const Invocation &call, const char *flag) {
  return call.options.values.contains(flag) && call.options.flag(flag);
}

} // namespace

ProductShape sectile::asItLies(const Invocation &call, ProductShape shape) {
  const bool onlyAlongK = size_of(call.dtype("a")) != 2;
  shape.turnsA = onlyAlongK && isSet(call, "trans_a");
  shape.turnsB = onlyAlongK && !isSet(call, "trans_b");
  return shape;
}

bool sectile::isWorthCopying(const Invocation &call, const std::string &target, double lying,
                             double copied) {
  const DType dtype = call.dtype("a");
  const auto bytes = std::int64_t(size_of(dtype));
  const ProductShape shape = asItLies(call, {});
  const auto batches = call.extents.find("B");
  double moved = 0, launches = 0;
  bool byThreads = false; // the engine cannot copy its rows
  const auto consider = [&](const char *rows, bool liesAlongK, bool isTurned) {
    const bool isBroken = call.extent(liesAlongK ? "K" : rows) * bytes % engineBytes != 0;
    byThreads |= isBroken;
    if (!isTurned && !isBroken)
      return;
    moved += double(call.extent(rows)) * double(call.extent("K")) * double(bytes) *
             (batches == call.extents.end() ? 1 : double(batches->second));
    ++launches;
  };
  consider("M", !isSet(call, "trans_a"), shape.turnsA);
  consider("N", isSet(call, "trans_b"), shape.turnsB);
  constexpr double launch = 2.5, reached = 0.75;
  // Such products took 1.5 to 2 times as long on an H100, and where they turn, or read words into
  // registers, 2.3 to 6 times. With few rows they take as long as threads take to copy b.
  constexpr double byElements = 0.6e6; // bytes that they copy in a microsecond
  if (byThreads)
    lying = std::max(lying * (bytes == 1 || shape.turnsA || shape.turnsB ? 2.5 : 1.55),
                     launch + moved / byElements);
  const double bytesPerMicrosecond =
      machineModel(Chip::known(target)).memoryGigabytes * 1e3 * reached;
  return launches > 0 && copied + launches * launch + 2 * moved / bytesPerMicrosecond <= lying;
}

template <class T> Tensor<T, 3> sectile::leftOperand(Use &use, const Tensor<T, 3> &operand) {
  constexpr std::int64_t size = sizeof(T);
  const auto isWhole = [](std::int64_t bytes) { return bytes % engineBytes == 0; };
  const bool liesAlongK = operand.stride(2) == 1;
  const std::int64_t rowStride = operand.stride(liesAlongK ? 1 : 2),
                     otherStride = operand.stride(liesAlongK ? 2 : 1);
  const bool isTaken = otherStride == 1 && (liesAlongK || !needsAlongK<T>()) &&
                       isWhole(operand.extent(liesAlongK ? 2 : 1) * size) &&
                       isWhole(rowStride * size) && isWhole(operand.stride(0) * size) &&
                       isWhole(reinterpret_cast<std::intptr_t>(operand.data()));
  if (!use.field("copy_first") || isTaken)
    return operand;
  // One matrix for all batches is copied once. Behind its last column a copy has zeros up to the
  // end of a line, as the copy engine wants rows of whole pieces.
  const std::int64_t batches = operand.stride(0) == 0 ? 1 : operand.extent(0),
                     rows = operand.extent(1), depth = operand.extent(2),
                     padded = ceilDiv(depth * size, lineBytes) * lineBytes / size;
  const Tensor<T, 3> copy = use.workspace<T, 3>({batches, rows, padded});
  const Tensor<const T, 3> from{
      operand.data(), {batches, rows, depth}, operand.strides(), operand.memory()};
  const OperandTile tile;
  use(operandCopy<T>, batches * ceilDiv(rows, tile.rows) * ceilDiv(padded, tile.depth), tile,
      {{"operand", from}, {"copy", copy}});
  return {copy.data(),
          {operand.extent(0), rows, padded},
          {operand.stride(0) == 0 ? 0 : copy.stride(0), padded, 1},
          copy.memory()};
}

#define SECTILE_OPERANDS(T) template Tensor<T, 3> sectile::leftOperand(Use &, const Tensor<T, 3> &);
SECTILE_OPERANDS(half)
SECTILE_OPERANDS(bfloat16)
SECTILE_OPERANDS(float)
SECTILE_OPERANDS(float8_e4m3)
SECTILE_OPERANDS(float8_e5m2)
SECTILE_OPERANDS(std::int8_t)
#undef SECTILE_OPERANDS
