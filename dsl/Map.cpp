// map: the function is traced into the operation's region.
#include "dsl/Trace.h"
#include "ir/tile/Tile.h"
#include <sectile/map.h>

using namespace mlir;

namespace sectile::detail {

/// The function works on numbers, and only computes.
static void checkFunction(Block &body, Location where) {
  body.walk([&](Operation *op) {
    for (mlir::Type type : llvm::concat<const mlir::Type>(llvm::to_vector(op->getOperandTypes()),
                                                          llvm::to_vector(op->getResultTypes())))
      if (isa<RankedTensorType>(type))
        fail(where,
             "the function of sc::map works on single numbers, and this one uses a tile (at " +
                 describe(op->getLoc()) + "): pass the tile to sc::map as well");
    if (!op->hasTrait<OpTrait::HasRecursiveMemoryEffects>() && !isMemoryEffectFree(op))
      fail(where, "the function of sc::map only computes, and this one has an effect (at " +
                      describe(op->getLoc()) + "): load before it, store its result");
  });
}

void map(std::span<const Value *const> sources, std::span<Value> results, const Mapping &function,
         Location where) {
  Trace &trace = Trace::current(where);
  OpBuilder &builder = trace.builder;
  mlir::Location loc = trace.location(where);
  SmallVector<mlir::Value> tiles;
  for (const Value *source : sources)
    tiles.push_back(trace.get(*source, where));
  SmallVector<int64_t> shape = broadcastShape(tiles, "sc::map", where);
  std::vector<Value> in;
  if (shape.empty()) { // one number: the function itself
    for (mlir::Value number : tiles)
      in.push_back(trace.wrap(number));
    function.call(function.object, in.data(), results.data());
    return;
  }
  for (mlir::Value &tile : tiles)
    tile = broadcastTo(trace, loc, tile, shape);

  OpenFrame open(trace, where);
  Trace::Frame &frame = open.frame;
  Block &body = frame.region->front();
  SmallVector<mlir::Type> types;
  {
    std::vector<Value> out(results.size());
    for (mlir::Value tile : tiles)
      in.push_back(trace.wrap(body.addArgument(getElementTypeOrSelf(tile.getType()), loc)));
    function.call(function.object, in.data(), out.data());
    trace.rethrowPoison();
    in.clear();
    SmallVector<mlir::Value> yields;
    for (const Value &result : out) {
      mlir::Value value = trace.get(result, where);
      if (isa<RankedTensorType>(value.getType()))
        fail(where, "the function of sc::map returns single numbers, not a tile of " +
                        shapeText(tile::shapeOf(value.getType())));
      yields.push_back(value);
      types.push_back(RankedTensorType::get(shape, value.getType()));
    }
    for (Trace::Frame::Entry &entry : frame.entries)
      if (trace.valueOf(entry) != entry.before)
        fail(where, "the function of sc::map may not assign the kernel's variables: return what "
                    "it computes");
    tile::YieldOp::create(builder, loc, yields);
  }
  checkFunction(body, where);
  open.closed();
  Region *region = frame.region.get();
  trace.close(frame, [&](mlir::Value value) {
    return region->isAncestor(value.getParentRegion()) ? mlir::Value() : value;
  });
  auto op = tile::MapOp::create(builder, loc, types, tiles);
  op.getFunction().takeBody(*frame.region);
  for (size_t i = 0; i < results.size(); ++i)
    results[i] = trace.wrap(op.getResult(i));
}

} // namespace sectile::detail
