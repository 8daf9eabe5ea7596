// map, and what becomes a region in the same way.
#include "dsl/Mapping.h"
#include "dsl/SameCode.h"
#include "ir/tile/Tile.h"

using namespace mlir;

namespace sectile::detail {

/// The function works on numbers, and only computes.
static void checkFunction(Block &body, StringRef what, Location where) {
  body.walk([&](Operation *op) {
    for (mlir::Type type : llvm::concat<const mlir::Type>(llvm::to_vector(op->getOperandTypes()),
                                                          llvm::to_vector(op->getResultTypes())))
      if (isa<RankedTensorType>(type))
        fail(where, what + " works on single numbers, and this one uses a tile (at " +
                        describe(op->getLoc()) + "): make the tile an operand as well");
    if (!op->hasTrait<OpTrait::HasRecursiveMemoryEffects>() && !isMemoryEffectFree(op))
      fail(where, what + " only computes, and this one has an effect (at " +
                      describe(op->getLoc()) + "): load before it, store its result");
  });
}

static std::unique_ptr<Region> traceOnce(Trace &trace, const Mapping &function, size_t results,
                                         ArrayRef<mlir::Type> arguments, StringRef what,
                                         Location where) {
  mlir::Location loc = trace.location(where);
  OpenFrame open(trace, where);
  Trace::Frame &frame = open.frame;
  Block &body = frame.region->front();
  {
    std::vector<Value> in, out(results);
    for (mlir::Type type : arguments)
      in.push_back(trace.wrap(body.addArgument(type, loc)));
    function.call(function.object, in.data(), out.data());
    trace.rethrowPoison();
    in.clear();
    SmallVector<mlir::Value> yields;
    for (const Value &result : out) {
      yields.push_back(trace.get(result, where));
      if (isa<RankedTensorType>(yields.back().getType()))
        fail(where, what + " returns single numbers, not a tile of " +
                        shapeText(tile::shapeOf(yields.back().getType())));
    }
    for (Trace::Frame::Entry &entry : frame.entries)
      if (trace.valueOf(entry) != entry.before)
        fail(where, what + " may not assign the kernel's variables: return what it computes");
    tile::YieldOp::create(trace.builder, loc, yields);
  }
  checkFunction(body, what, where);
  open.closed();
  Region *region = frame.region.get();
  trace.close(frame, [&](mlir::Value value) {
    return region->isAncestor(value.getParentRegion()) ? mlir::Value() : value;
  });
  return std::move(frame.region);
}

std::unique_ptr<Region> traceMapping(Trace &trace, const Mapping &function, size_t results,
                                     ArrayRef<mlir::Type> arguments, StringRef what,
                                     Location where) {
  auto traced = traceOnce(trace, function, results, arguments, what, where);
  if (trace.tracesTwice()) {
    ++trace.repeats;
    auto again = traceOnce(trace, function, results, arguments, what, where);
    --trace.repeats;
    SameCode same;
    const bool isSame = same.compare(*traced, *again);
    noteTraces(trace, isSame, same, where, what);
  }
  return traced;
}

void map(std::span<const Value *const> sources, std::span<Value> results, const Mapping &function,
         Location where) {
  Trace &trace = Trace::current(where);
  mlir::Location loc = trace.location(where);
  SmallVector<mlir::Value> tiles;
  for (const Value *source : sources)
    tiles.push_back(trace.get(*source, where));
  SmallVector<int64_t> shape = broadcastShape(tiles, "sc::map", where);
  if (shape.empty()) { // one number: the function itself
    std::vector<Value> in;
    for (mlir::Value number : tiles)
      in.push_back(trace.wrap(number));
    function.call(function.object, in.data(), results.data());
    return;
  }
  SmallVector<mlir::Type> elements, types;
  for (mlir::Value &tile : tiles) {
    tile = broadcastTo(trace, loc, tile, shape);
    elements.push_back(getElementTypeOrSelf(tile.getType()));
  }
  auto region =
      traceMapping(trace, function, results.size(), elements, "the function of sc::map", where);
  for (mlir::Type type : region->front().getTerminator()->getOperandTypes())
    types.push_back(RankedTensorType::get(shape, type));
  auto op = tile::MapOp::create(trace.builder, loc, types, tiles);
  op.getFunction().takeBody(*region);
  for (size_t i = 0; i < results.size(); ++i)
    results[i] = trace.wrap(op.getResult(i));
}

} // namespace sectile::detail
