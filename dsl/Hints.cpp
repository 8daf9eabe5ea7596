// Promises about values.
#include "dsl/Trace.h"
#include "ir/tile/Tile.h"
#include <sectile/hints.h>

using namespace mlir;

namespace sectile::detail {

void assume(const Value &condition, Location where) {
  Trace &trace = Trace::current(where);
  mlir::Value value = trace.get(condition, where);
  if (isa<RankedTensorType>(value.getType()))
    fail(where, "sc::assume takes one condition, not a tile of " +
                    shapeText(tile::shapeOf(value.getType())) + ": write sc::assume(sc::all(x))");
  tile::AssumeOp::create(trace.builder, trace.location(where), value);
}

void assume(bool condition, Location where) {
  Trace::current(where);
  if (!condition)
    fail(where, "sc::assume: the condition is false already while tracing");
}

void trustHostVariables(Location where) {
  if (TracedFunctions *functions = Trace::current(where).functions)
    functions->isNotJudged = true;
}

Value promise(Promise what, const Value &x, std::initializer_list<Extent> numbers, Location where) {
  static constexpr StringRef names[] = {"sc::multiple_of", "sc::contiguous", "sc::constant"};
  StringRef name = names[static_cast<int>(what)];
  Trace &trace = Trace::current(where);
  mlir::Value source = trace.get(x, where);
  SmallVector<int64_t> given;
  for (const Extent &number : numbers)
    if (!number.none)
      given.push_back(number.number);
  ArrayRef<int64_t> shape = tile::shapeOf(source.getType());
  size_t axes = std::max<size_t>(shape.size(), 1);
  if (given.size() != axes)
    fail(where, name + " of a value of shape " + shapeText(shape) + " takes " + Twine(axes) +
                    (axes == 1 ? " number, not " : " numbers, not ") + Twine(given.size()));
  for (auto [axis, number] : llvm::enumerate(given)) {
    if (number < 1)
      fail(where, name + ": " + Twine(number) + " is no length: write 1 to promise nothing");
    int64_t extent = shape.empty() ? 1 : shape[axis];
    if (what != Promise::multiple && extent % number != 0)
      fail(where, name + ": runs of " + Twine(number) + " do not divide axis " + Twine(axis) +
                      ", which has " + Twine(extent) + " elements");
  }
  auto attr = trace.builder.getDenseI64ArrayAttr(given);
  DenseI64ArrayAttr attrs[3];
  // One operation has all promises about a value: what is a multiple of how much depends on its
  // runs.
  if (auto before = source.getDefiningOp<tile::HintOp>()) {
    attrs[0] = before.getDivisibleAttr();
    attrs[1] = before.getContiguousAttr();
    attrs[2] = before.getConstantAttr();
    if (!attrs[static_cast<int>(what)])
      source = before.getSource();
    else
      std::ranges::fill(attrs, nullptr);
  }
  attrs[static_cast<int>(what)] = attr;
  return trace.wrap(tile::HintOp::create(trace.builder, trace.location(where), source.getType(),
                                         source, attrs[0], attrs[1], attrs[2]));
}

} // namespace sectile::detail
