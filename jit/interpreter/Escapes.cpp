// Promises and assertions, which the interpreter verifies, and prints.
#include "codegen/DebugSites.h"
#include "ir/tile/Tile.h"
#include "jit/interpreter/Elementwise.h"
#include "runtime/DebugFormat.h"
#include <cstring>

using namespace mlir;

namespace sectile::interpreter {
namespace {

void assume(Run &run, Operation &op) {
  if (!run.word(op.getOperand(0)))
    run.fail(vgpu::FindingKind::BrokenPromise, op, "what sc::assume promises does not hold");
}

/// Checks a promise about one axis of a tile: f(first element of a run, element) holds for all
/// elements of each run of that many.
template <class F>
void checkRuns(Run &run, Operation &op, const Elements &tile, size_t axis, int64_t length,
               const char *promise, F holds) {
  const size_t stride = tile.shape.empty() ? 1 : size_t(stridesOf(tile.shape)[axis]);
  const size_t extent = tile.shape.empty() ? 1 : size_t(tile.shape[axis]);
  for (size_t i = 0; i < tile.size(); ++i) {
    const size_t within = i / stride % extent % size_t(length);
    if (!holds(i - within * stride, i, within))
      run.fail(vgpu::FindingKind::BrokenPromise, op,
               std::string(promise) + " " + std::to_string(length) + ", but the element is " +
                   std::to_string(tile.asSigned(i)),
               placeText(i, tile.shape));
  }
}

void hint(Run &run, Operation &op) {
  auto hint = cast<tile::HintOp>(op);
  const Elements &tile = run.get(hint.getSource());
  const int64_t unit =
      tile.type.isPointer
          ? int64_t(
                ElementType::of(cast<tile::PtrType>(tile::elementType(hint.getType())).getElement())
                    .bytes())
          : 1;
  auto numbers = [](std::optional<ArrayRef<int64_t>> list, size_t axis, int64_t otherwise) {
    return list ? (*list)[axis] : otherwise;
  };
  for (size_t axis = 0; axis < std::max<size_t>(1, tile.shape.size()); ++axis) {
    const int64_t contiguous = numbers(hint.getContiguous(), axis, 1),
                  constant = numbers(hint.getConstant(), axis, 1),
                  divisible = numbers(hint.getDivisible(), axis, 1);
    checkRuns(run, op, tile, axis, contiguous, "sc::contiguous promises runs of",
              [&](size_t first, size_t i, size_t within) {
                return tile.asSigned(i) == tile.asSigned(first) + int64_t(within) * unit;
              });
    checkRuns(run, op, tile, axis, constant, "sc::constant promises runs of",
              [&](size_t first, size_t i, size_t) { return tile[i] == tile[first]; });
    for (size_t i = 0; i < tile.size(); ++i) {
      const size_t stride = tile.shape.empty() ? 1 : size_t(stridesOf(tile.shape)[axis]);
      const size_t at = tile.shape.empty() ? 0 : i / stride % size_t(tile.shape[axis]);
      if (at % size_t(divisible) == 0 && tile.asSigned(i) % (divisible * unit) != 0)
        run.fail(vgpu::FindingKind::BrokenPromise, op,
                 "sc::multiple_of promises multiples of " + std::to_string(divisible) +
                     ", but the element is " + std::to_string(tile.asSigned(i)),
                 placeText(i, tile.shape));
    }
  }
  run.set(op.getResult(0), run.share(op.getOperand(0)));
}

void assertion(Run &run, Operation &op) {
  run.requireCertain(op, op.getOperand(0));
  const Elements &condition = run.get(op.getOperand(0));
  for (size_t i = 0; i < condition.size(); ++i)
    if (!condition[i])
      throw FailedAssertion{runtime::failureAt(run.kernelName(), {run.id.x, run.id.y, run.id.z},
                                               debugSiteOf(cast<tile::AssertOp>(op)), i)};
}

void print(Run &run, Operation &op) {
  const DebugSite site = debugSiteOf(cast<tile::PrintOp>(op));
  std::vector<char> bytes(runtime::valueStart(site, site.values.size()));
  for (auto [v, operand] : llvm::enumerate(op.getOperands())) {
    const Elements &value = run.get(operand);
    const size_t size = runtime::elementBytes(site.values[v]), start = runtime::valueStart(site, v);
    for (size_t i = 0; i < value.size(); ++i)
      std::memcpy(&bytes[start + i * size], &value.words[i], size);
  }
  const std::string text =
      runtime::formatPrint(run.kernelName(), {run.id.x, run.id.y, run.id.z}, site, bytes.data());
  run.options.print ? run.options.print(text) : runtime::deliverPrint(text);
}

/// A function of a library, compiled for the host, for each element.
void externCall(Run &run, Operation &op) {
  const vgpu::HostLibraries::Function function = run.hostFunction(op);
  Elements result = resultFor(run, op);
  std::vector<Lanes> operands;
  for (Value operand : op.getOperands())
    operands.emplace_back(run.get(operand));
  std::vector<uint64_t> arguments(operands.size());
  for (size_t i = 0; i < result.size(); ++i) {
    for (size_t j = 0; j < operands.size(); ++j)
      arguments[j] = operands[j][i];
    function(arguments.data(), &result.words[i]);
  }
  run.set(op.getResult(0), std::move(result));
}

} // namespace

void addEscapes(Table &table) {
  table["tile.assume"] = assume;
  table["tile.hint"] = hint;
  table["tile.extern_call"] = externCall;
  table["tile.assert"] = assertion;
  table["tile.print"] = print;
}

} // namespace sectile::interpreter
