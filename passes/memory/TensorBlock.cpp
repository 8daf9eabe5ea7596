// Blocks of views as the copy engine accesses them: boxes of the tensor that is a whole argument.
// The launch makes a tensor map of arguments and constants alone; what else a view's address and
// extents are computed from becomes coordinates.
#include "passes/memory/TensorBlock.h"
#include "ir/cta/TensorMap.h"
#include "ir/layout/TensorBoxes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "passes/analysis/Clusters.h"
#include "passes/analysis/Contiguity.h"
#include "passes/analysis/SharedMemory.h"

using namespace mlir;

namespace sectile {

namespace {

/// Bytes that the copy engine moves at once, at multiples of so many.
constexpr int64_t engineGranule = 16;

/// An argument or a constant, which a launch knows; null for other values. Sign extensions are
/// looked through.
Value given(Value value) {
  if (auto extension = value.getDefiningOp<arith::ExtSIOp>())
    value = extension.getIn();
  auto argument = dyn_cast<BlockArgument>(value);
  const bool isArgument = argument && isa<func::FuncOp>(argument.getOwner()->getParentOp());
  return isArgument || constantInt(value) ? value : Value();
}

/// The address of a view of one matrix of many: an argument, and in each dimension that the view
/// has not itself where the matrix lies (32 bits), and that dimension's stride.
struct ViewOrigin {
  Value base;
  SmallVector<Value> coordinates, strides;
};
std::optional<ViewOrigin> originOfView(Value address) {
  ViewOrigin origin;
  while (auto add = address.getDefiningOp<tile::AddPtrOp>()) {
    auto step = add.getOffset().getDefiningOp<arith::MulIOp>();
    if (!step || !step.getType().isInteger(64))
      return std::nullopt;
    Value coordinate = step.getLhs(), stride = given(step.getRhs());
    if (!stride) {
      coordinate = step.getRhs();
      stride = given(step.getLhs());
    }
    auto wide = coordinate.getDefiningOp<arith::ExtSIOp>();
    if (!stride || !wide || !wide.getIn().getType().isInteger(32))
      return std::nullopt;
    origin.coordinates.push_back(wide.getIn());
    origin.strides.push_back(stride);
    address = add.getPtr();
  }
  origin.base = given(address);
  return origin.base ? std::optional(origin) : std::nullopt;
}

/// The first dimension of a view whose extent the kernel computes.
std::optional<unsigned> computedDimension(tile::MakeViewOp view) {
  for (auto [d, extent] : llvm::enumerate(view.getExtents()))
    if (!given(extent))
      return d;
  return std::nullopt;
}

/// Which of an origin's steps goes along this dimension of the view.
std::optional<unsigned> stepAlong(tile::MakeViewOp view, unsigned dim, const ViewOrigin &origin) {
  Value stride = given(view.getStrides()[dim]);
  for (auto [i, other] : llvm::enumerate(origin.strides))
    if (other == stride || (constantInt(stride) && constantInt(other) == constantInt(stride)))
      return i;
  return std::nullopt;
}

/// Whether a length is zero, or no more than what is left after `begin` of an extent that
/// coordinates reach. Where it is zero the segment may begin anywhere.
bool isRestOfExtent(Value length, Value begin, const ContiguityAnalysis &contiguity) {
  if (auto clamped = length.getDefiningOp<arith::MaxSIOp>();
      clamped && constantInt(clamped.getRhs()) == 0)
    length = clamped.getLhs();
  auto least = length.getDefiningOp<arith::MinSIOp>();
  return least && llvm::any_of(least->getOperands(), [&](Value operand) {
           auto rest = operand.getDefiningOp<arith::SubIOp>();
           return rest && rest.getRhs() == begin &&
                  contiguity[rest.getLhs()].place.high < cta::TensorMap::unbounded;
         });
}

/// Why the engine cannot end a view where the kernel says; empty when it can, or the launch knows
/// where it ends.
std::string whyNoSegment(const ViewBlock &block, const ViewOrigin &origin,
                         const ContiguityAnalysis &contiguity) {
  tile::MakeViewOp view = block.view;
  std::optional<unsigned> dim = computedDimension(view);
  if (!dim)
    return "";
  if (llvm::count_if(view.getExtents(), [](Value extent) { return !given(extent); }) > 1)
    return "the kernel computes more than one extent of its view";
  if (denseDimension(view) == dim)
    return "the kernel computes the extent of its view along the rows, not the number of rows";
  Value length = view.getExtents()[*dim];
  const Interval lengths = contiguity[length].place;
  if (!length.getType().isInteger(32) || lengths.high >= cta::TensorMap::segmentRows)
    return "the extent that the kernel computes is not known to be below 2^30";
  if (std::optional<unsigned> step = stepAlong(view, *dim, origin)) {
    Value begin = origin.coordinates[*step];
    if (contiguity[begin].place.high + lengths.high >= cta::TensorMap::unbounded &&
        !isRestOfExtent(length, begin, contiguity))
      return "the end that the kernel computes is not known to have 31 bits";
  }
  const Contiguity &row = contiguity[block.offsets[*dim]];
  if (!row.place.isNonNegative() && row.dims[0].divisibility % block.shape()[*dim])
    return "its block may begin below the view, and end in it";
  if (contiguity[view.getStrides()[*dim]].place.high * cta::elementBytes(block.tile) >
      cta::TensorMap::vanishingStride)
    return "its stride is not known to be 2^34 bytes at most";
  return "";
}

/// Lets a view end where the kernel says. A map's extents are given by the launch, but coordinates
/// are not: the row is counted from where it is `length` below the end of a dimension of 2^30 rows.
/// Two dimensions more, of one position each, take the address back: the segment's end, and 2^30
/// rows less, which no coordinate can say. So that one's stride is 2^34 bytes less a row's, as 2^30
/// times 2^34 is nothing to an address of 64 bits. Coordinates follow from the view, which a loop
/// may make anew in each iteration; strides follow from arguments and come where `builder` is.
TensorBlock::Segment cutSegment(OpBuilder &builder, const ViewBlock &block, unsigned dim,
                                ViewOrigin &origin, const ContiguityAnalysis &contiguity) {
  tile::MakeViewOp view = block.view;
  const Location loc = view.getLoc();
  OpBuilder atView(view);
  auto coordinate = [&](int64_t value) -> Value {
    return arith::ConstantIntOp::create(atView, loc, value, 32);
  };
  auto number = [&](int64_t value) -> Value {
    return arith::ConstantIntOp::create(builder, loc, value, 64);
  };
  Value length = view.getExtents()[dim], stride = given(view.getStrides()[dim]);
  if (!contiguity[length].place.isNonNegative())
    length = arith::MaxSIOp::create(atView, loc, length, coordinate(0));
  if (std::optional<unsigned> step = stepAlong(view, dim, origin)) {
    Value &begin = origin.coordinates[*step];
    begin = arith::AddIOp::create(atView, loc, begin, length);
  } else {
    origin.coordinates.push_back(length);
    origin.strides.push_back(stride);
  }
  Value wide = stride;
  if (std::optional<int64_t> constant = constantInt(stride))
    wide = number(*constant);
  else if (!stride.getType().isInteger(64))
    wide = arith::ExtSIOp::create(builder, loc, builder.getI64Type(), stride);
  origin.coordinates.push_back(coordinate(cta::TensorMap::segmentRows));
  origin.strides.push_back(arith::SubIOp::create(
      builder, loc, number(cta::TensorMap::vanishingStride / cta::elementBytes(block.tile)), wide));
  Value first = arith::SubIOp::create(atView, loc, coordinate(cta::TensorMap::segmentRows), length);
  const Interval rows = contiguity[block.offsets[dim]].place;
  return {dim, first, !rows.isNonNegative() || rows.high >= cta::TensorMap::segmentRows};
}

/// The view with the dimensions of its origin before its own. How many matrices there are nobody
/// knows here: as many as coordinates can tell apart.
Value wholeView(OpBuilder &builder, tile::MakeViewOp view, const ViewOrigin &origin) {
  const Location loc = view.getLoc();
  auto number = [&](int64_t value) -> Value {
    return arith::ConstantIntOp::create(builder, loc, value, 64);
  };
  SmallVector<Value> extents, strides;
  auto add = [&](SmallVector<Value> &to, Value value) {
    std::optional<int64_t> constant = constantInt(value);
    to.push_back(constant ? number(*constant) : value);
  };
  for (Value stride : origin.strides) {
    extents.push_back(number(cta::TensorMap::unbounded));
    add(strides, stride);
  }
  for (auto [extent, stride] : llvm::zip_equal(view.getExtents(), view.getStrides())) {
    if (Value known = given(extent))
      add(extents, known);
    else
      extents.push_back(number(cta::TensorMap::segmentRows));
    add(strides, given(stride));
  }
  auto type = tile::ViewType::get(view.getContext(), extents.size(), view.getType().getElement());
  return tile::MakeViewOp::create(builder, loc, type, origin.base, extents, strides);
}

} // namespace

static Value withoutConversions(Value tile) {
  while (auto convert = tile.getDefiningOp<cta::ConvertLayoutOp>())
    tile = convert.getSource();
  return tile;
}

/// Whether one tile has two dimensions, the other more, and both the same lines.
static bool haveSameLines(Value lines, Value block) {
  auto flat = cast<RankedTensorType>(lines.getType()),
       type = cast<RankedTensorType>(block.getType());
  return flat.getRank() == 2 && type.getRank() > 2 &&
         flat.getShape().back() == type.getShape().back();
}

Value blockOfLines(Value tile) {
  auto reshape = withoutConversions(tile).getDefiningOp<tile::ReshapeOp>();
  if (!reshape || !haveSameLines(reshape.getResult(), reshape.getSource()))
    return {};
  return withoutConversions(reshape.getSource());
}

Value linesOf(Value block) {
  auto reshape = withoutConversions(block).getDefiningOp<tile::ReshapeOp>();
  if (!reshape || !haveSameLines(reshape.getSource(), reshape.getResult()))
    return {};
  return withoutConversions(reshape.getSource());
}

DenseI64ArrayAttr extentsOfLines(RankedTensorType block) {
  return DenseI64ArrayAttr::get(block.getContext(), block.getShape().drop_back());
}

std::optional<unsigned> denseDimension(tile::MakeViewOp view) {
  for (unsigned d = view.getStrides().size(); d-- > 0;)
    if (constantInt(view.getStrides()[d]) == 1)
      return d;
  return std::nullopt;
}

void moveOutsideUnless(OpBuilder &builder, Location loc, Value inside,
                       MutableArrayRef<Value> coordinates) {
  constexpr int64_t beforeAll = -(int64_t(1) << 30);
  Value beyond = arith::ConstantIntOp::create(builder, loc, beforeAll, 32);
  coordinates.back() =
      builder.createOrFold<arith::SelectOp>(loc, inside, coordinates.back(), beyond);
}

bool isSharedInCluster(tile::LoadBlockOp load, Operation *copy, const TensorBlock &block,
                       cta::BufferType buffer, const Target &target) {
  auto kernel = load->getParentOfType<func::FuncOp>();
  const unsigned cluster = clusterOf(kernel);
  if (cluster == 1 || !target.multicast || mayAwaitPrograms(kernel) ||
      !planTensorBoxes(buffer.getLayout().getLayout(), cta::elementBits(buffer))->half())
    return false;
  ClusterValues values(cluster);
  return values.runAlike(copy) && values.areAlike(load.getOffsets()) &&
         values.areAlike(block.coordinates) && (!load.getWhen() || values.areAlike(load.getWhen()));
}

// CUDA driver API, cuTensorMapEncodeTiled.
std::string whyNoTensorBlock(const ViewBlock &block, const ContiguityAnalysis &contiguity) {
  constexpr int64_t mostStride = int64_t(1) << 40, mostExtent = int64_t(1) << 32;
  constexpr int64_t mostOfBox = 256;
  const unsigned rank = block.tile.getRank();
  if (rank == 0)
    return "it has no dimension";
  const BlockContiguity known = block.contiguity(contiguity);
  const int64_t bytes = cta::elementBytes(block.tile);
  tile::MakeViewOp view = block.view;
  std::optional<ViewOrigin> origin = originOfView(view.getPtr());
  if (!origin || !llvm::all_of(view.getStrides(), given))
    return "its view is not of arguments alone";
  for (Value coordinate : origin->coordinates)
    if (!contiguity[coordinate].place.isNonNegative())
      return "its view is not known to begin at or after its argument";
  unsigned dimensions = origin->strides.size() + rank;
  if (std::optional<unsigned> dim = computedDimension(view); dim && rank > 2)
    return "the kernel computes an extent of its view, and its block has more than two dimensions";
  else if (dim)
    dimensions += stepAlong(view, *dim, *origin) ? 1 : 2;
  if (dimensions > cta::TensorMap::mostDimensions)
    return "its argument has too many dimensions";
  if (std::string why = whyNoSegment(block, *origin, contiguity); !why.empty())
    return why;
  if (contiguity[origin->base].dims[0].divisibility % engineGranule)
    return "its address is not known to be a multiple of 16 bytes";
  auto isPitch = [&](const Contiguity &stride) {
    return stride.dims[0].divisibility * bytes % engineGranule == 0 && stride.place.low >= 0 &&
           stride.place.high * bytes < mostStride;
  };
  for (Value stride : origin->strides)
    if (!isPitch(contiguity[stride]))
      return "its stride is not known to be a multiple of 16 bytes, and not negative";
  std::optional<unsigned> dense = denseDimension(view);
  if (!dense)
    return "its rows are not dense";
  if (rank > 2 && dense != rank - 1)
    return "its rows do not lie along the last of more than two dimensions";
  for (unsigned d = 0; d < rank; ++d) {
    if (rank > 2 && d != *dense && block.shape()[d] > mostOfBox)
      return "it has more than 256 elements in a dimension";
    if (d != *dense && !isPitch(*known.strides[d]))
      return "its stride is not known to be a multiple of 16 bytes, and not negative";
    if (known.extents[d]->place.high >= mostExtent)
      return "its extent is not known to have 32 bits";
    if (!block.offsets[d].getType().isInteger(32))
      return "it begins at a number of 64 bits";
  }
  if (block.shape()[*dense] * bytes < 2 * engineGranule)
    return "its rows are shorter than 32 bytes";
  // An illegal instruction on the chip.
  if (known.offsets[*dense]->dims[0].divisibility * bytes % engineGranule)
    return "it is not known to begin at a multiple of 16 bytes of its rows";
  return "";
}

std::string whyNoTensorStore(const ViewBlock &block, const ContiguityAnalysis &contiguity) {
  std::string why = whyNoTensorBlock(block, contiguity);
  if (!why.empty())
    return why;
  const BlockContiguity known = block.contiguity(contiguity);
  // The engine writes all of the 16 bytes that a row ends in.
  if (known.extents[*denseDimension(block.view)]->dims[0].divisibility *
      cta::elementBytes(block.tile) % engineGranule)
    return "its rows are not known to end at a multiple of 16 bytes";
  // Also an illegal instruction. Blocks below a segment move beyond its end.
  const std::optional<unsigned> computed = computedDimension(block.view);
  for (auto [d, offset] : llvm::enumerate(known.offsets))
    if (d != computed && !offset->place.isNonNegative())
      return "it may begin before its view does";
  return "";
}

TensorBlock makeTensorBlock(OpBuilder &builder, const ViewBlock &block,
                            const ContiguityAnalysis &contiguity) {
  ViewOrigin origin = *originOfView(tile::MakeViewOp(block.view).getPtr());
  TensorBlock result;
  if (std::optional<unsigned> dim = computedDimension(block.view))
    result.segment = cutSegment(builder, block, *dim, origin, contiguity);
  result.view = wholeView(builder, block.view, origin);
  result.coordinates = std::move(origin.coordinates);
  return result;
}

SmallVector<Value> TensorBlock::coordinatesOf(OpBuilder &builder, Location loc, ValueRange offsets,
                                              const IRMapping &map) const {
  SmallVector<Value> all;
  for (Value coordinate : coordinates)
    all.push_back(map.lookupOrDefault(coordinate));
  llvm::append_range(all, offsets);
  if (segment) {
    Value &row = all[coordinates.size() + segment->dim];
    // As an unsigned number a row below the first is one beyond the last. The sum has 31 bits then:
    // a store may not begin at a negative coordinate.
    if (segment->mayBeOutside)
      row = arith::MinUIOp::create(
          builder, loc, row,
          arith::ConstantIntOp::create(builder, loc, cta::TensorMap::segmentRows - 1, 32));
    row = arith::AddIOp::create(builder, loc, map.lookupOrDefault(segment->first), row);
  }
  return all;
}

} // namespace sectile
