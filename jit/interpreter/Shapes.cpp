// Operations that make tiles, change shapes and move elements.
#include "ir/tile/Tile.h"
#include "jit/interpreter/Bounds.h"

using namespace mlir;

namespace sectile::interpreter {
namespace {

ArrayRef<int64_t> resultShape(Operation &op) { return tile::shapeOf(op.getResult(0).getType()); }

/// Calls f with every place of a shape in row-major order.
template <class F> void eachPlace(ArrayRef<int64_t> shape, F f) {
  Shape at(shape.size(), 0);
  for (size_t i = 0, count = countOf(shape); i < count; ++i) {
    f(ArrayRef<int64_t>(at), i);
    for (size_t d = shape.size(); d-- > 0;) {
      if (++at[d] < shape[d])
        break;
      at[d] = 0;
    }
  }
}

/// Each element of the result is one of the source: that at the place's product with strides.
void pickByStrides(Run &run, Operation &op, ArrayRef<int64_t> strides) {
  std::vector<size_t> from(countOf(resultShape(op)));
  eachPlace(resultShape(op), [&](ArrayRef<int64_t> at, size_t i) {
    int64_t element = 0;
    for (auto [coordinate, stride] : llvm::zip_equal(at, strides))
      element += coordinate * stride;
    from[i] = size_t(element);
  });
  run.set(op.getResult(0), run.get(op.getOperand(0)).pick(resultShape(op), from));
}

void programId(Run &run, Operation &op) {
  const unsigned ids[] = {run.id.x, run.id.y, run.id.z};
  run.set(op.getResult(0), Elements::scalar({32}, ids[cast<tile::ProgramIdOp>(op).getAxis()]));
}

void numPrograms(Run &run, Operation &op) {
  const unsigned extents[] = {run.launch.grid.x, run.launch.grid.y, run.launch.grid.z};
  run.set(op.getResult(0),
          Elements::scalar({32}, extents[cast<tile::NumProgramsOp>(op).getAxis()]));
}

void arange(Run &run, Operation &op) {
  Elements result({32}, resultShape(op));
  const uint32_t start = cast<tile::ArangeOp>(op).getStart();
  for (size_t i = 0; i < result.size(); ++i)
    result.words[i] = uint32_t(start + i);
  run.set(op.getResult(0), std::move(result));
}

void splat(Run &run, Operation &op) {
  run.set(op.getResult(0), run.get(op.getOperand(0)).repeated(resultShape(op)));
}

void reshape(Run &run, Operation &op) {
  run.set(op.getResult(0), run.get(op.getOperand(0)).reshaped(resultShape(op)));
}

void broadcast(Run &run, Operation &op) {
  ArrayRef<int64_t> shape = tile::shapeOf(op.getOperand(0).getType());
  Shape strides = stridesOf(shape);
  for (auto [stride, extent] : llvm::zip_equal(strides, shape))
    stride = extent == 1 ? 0 : stride;
  pickByStrides(run, op, strides);
}

void permute(Run &run, Operation &op) {
  const Shape source = stridesOf(tile::shapeOf(op.getOperand(0).getType()));
  Shape strides;
  for (int32_t axis : cast<tile::PermuteOp>(op).getOrder())
    strides.push_back(source[size_t(axis)]);
  pickByStrides(run, op, strides);
}

void join(Run &run, Operation &op) {
  const Elements &a = run.get(op.getOperand(0)), &b = run.get(op.getOperand(1));
  Elements both = a;
  both.words.insert(both.words.end(), b.words.begin(), b.words.end());
  auto append = [&](auto member) {
    if ((a.*member).empty() && (b.*member).empty())
      return;
    (both.*member).resize(a.size());
    (both.*member).insert((both.*member).end(), (b.*member).begin(), (b.*member).end());
    (both.*member).resize(2 * a.size());
  };
  append(&Elements::wrapped);
  append(&Elements::bounds);
  std::vector<size_t> from;
  for (size_t i = 0; i < a.size(); ++i)
    from.insert(from.end(), {i, a.size() + i});
  run.set(op.getResult(0), both.pick(resultShape(op), from));
}

void split(Run &run, Operation &op) {
  const ElementsRef source = run.share(op.getOperand(0));
  for (size_t half : {0, 1}) {
    std::vector<size_t> from;
    for (size_t i = half; i < source->size(); i += 2)
      from.push_back(i);
    run.set(op.getResult(unsigned(half)), source->pick(resultShape(op), from));
  }
}

void gather(Run &run, Operation &op) {
  auto gather = cast<tile::GatherOp>(op);
  const Elements &source = run.get(gather.getSource()), &indices = run.get(gather.getIndices());
  const size_t axis = gather.getAxis();
  const Shape strides = stridesOf(source.shape);
  std::vector<size_t> from(indices.size());
  eachPlace(resultShape(op), [&](ArrayRef<int64_t> at, size_t i) {
    const int64_t index = indices.asSigned(i);
    if (index < 0 || index >= source.shape[axis])
      run.fail(vgpu::FindingKind::BadIndex, op,
               "index " + std::to_string(index) + " of an axis of extent " +
                   std::to_string(source.shape[axis]),
               placeText(i, indices.shape));
    int64_t element = 0;
    for (size_t d = 0; d < at.size(); ++d)
      element += (d == axis ? index : at[d]) * strides[d];
    from[i] = size_t(element);
  });
  Elements result = source.pick(resultShape(op), from);
  if (!indices.bounds.empty()) {
    result.bounds.resize(result.size());
    for (size_t i = 0; i < result.size(); ++i)
      if (indices.boundAt(i) != 0)
        result.bounds[i] = anything;
  }
  run.set(op.getResult(0), std::move(result));
}

} // namespace

void addShapes(Table &table) {
  table["tile.program_id"] = programId;
  table["tile.num_programs"] = numPrograms;
  table["tile.arange"] = arange;
  table["tile.splat"] = splat;
  table["tile.expand_dims"] = reshape;
  table["tile.reshape"] = reshape;
  table["tile.broadcast"] = broadcast;
  table["tile.permute"] = permute;
  table["tile.join"] = join;
  table["tile.split"] = split;
  table["tile.gather"] = gather;
}

} // namespace sectile::interpreter
