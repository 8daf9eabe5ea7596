// The `cta` dialect: registration, the layout attribute, types, verifiers.
#include "ir/cta/Cta.h"
#include "ir/cta/TensorMap.h"
#include "ir/layout/Shared.h"
#include "ir/layout/TensorBoxes.h"
#include "ir/tile/Verify.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace sectile::cta;

#include "ir/cta/CtaDialect.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "ir/cta/CtaAttrs.cpp.inc"
#define GET_TYPEDEF_CLASSES
#include "ir/cta/CtaTypes.cpp.inc"
#define GET_OP_CLASSES
#include "ir/cta/CtaOps.cpp.inc"

namespace sectile::cta {

namespace {
/// Layouts are long and many types share them. Each is printed once, at the top, and named by what
/// it places: `#layout`, `#layout1`, ... say which threads hold a tile, `#shared`, ... where a
/// buffer keeps it.
struct LayoutAliases : OpAsmDialectInterface {
  using OpAsmDialectInterface::OpAsmDialectInterface;
  AliasResult getAlias(Attribute attribute, raw_ostream &out) const override {
    auto layout = dyn_cast<LayoutAttr>(attribute);
    if (!layout)
      return AliasResult::NoAlias;
    out << (layout.getLayout().isShared() ? "shared" : "layout");
    return AliasResult::FinalAlias;
  }
};
} // namespace

void CtaDialect::initialize() {
  addInterfaces<LayoutAliases>();
  addAttributes<
#define GET_ATTRDEF_LIST
#include "ir/cta/CtaAttrs.cpp.inc"
      >();
  addTypes<
#define GET_TYPEDEF_LIST
#include "ir/cta/CtaTypes.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "ir/cta/CtaOps.cpp.inc"
      >();
}

Operation *CtaDialect::materializeConstant(OpBuilder &builder, Attribute value, Type type,
                                           Location loc) {
  return arith::ConstantOp::materialize(builder, value, type, loc);
}

Type tileOf(Type type) {
  auto dot = dyn_cast<InFlightType>(type);
  return dot ? dot.getTile() : type;
}

const Layout *layoutOf(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  auto attr = tensor ? dyn_cast_if_present<LayoutAttr>(tensor.getEncoding()) : LayoutAttr();
  return attr ? &attr.getLayout() : nullptr;
}

RankedTensorType withLayout(RankedTensorType type, const Layout &layout) {
  return RankedTensorType::get(type.getShape(), type.getElementType(),
                               LayoutAttr::get(type.getContext(), layout));
}

Type elementOf(Type type) {
  auto buffer = dyn_cast<BufferType>(type);
  return buffer ? buffer.getElement() : tile::elementType(type);
}

unsigned elementBits(Type type) {
  Type element = elementOf(type);
  return isa<tile::PtrType>(element) ? 64 : element.getIntOrFloatBitWidth();
}

unsigned elementBytes(Type type) { return sectile::elementBytes(elementBits(type)); }

ArrayRef<int64_t> shapeOf(Type type) {
  auto buffer = dyn_cast<BufferType>(type);
  return buffer ? buffer.getShape() : cast<RankedTensorType>(type).getShape();
}

//===-- Attribute and types
//-----------------------------------------------------------------------------------------===//

Attribute LayoutAttr::parse(AsmParser &parser, Type) {
  std::string text;
  if (parser.parseLess() || parser.parseString(&text) || parser.parseGreater())
    return {};
  std::string why;
  std::optional<Layout> layout = Layout::parse(text, &why);
  if (!layout) {
    parser.emitError(parser.getNameLoc(), why);
    return {};
  }
  return get(parser.getContext(), *layout);
}

void LayoutAttr::print(AsmPrinter &printer) const {
  printer << "<\"" << getLayout().text() << "\">";
}

LogicalResult LayoutAttr::verifyEncoding(ArrayRef<int64_t> shape, Type,
                                         function_ref<InFlightDiagnostic()> emitError) const {
  if (!getLayout().isDistributed())
    return emitError()
           << "a tensor's layout says which threads hold it, not where in shared memory it is";
  if (getLayout().shape() != shape)
    return emitError() << "the layout is one of " << tile::shapeText(getLayout().shape())
                       << ", the tensor is " << tile::shapeText(shape);
  return success();
}

LogicalResult BufferType::verify(function_ref<InFlightDiagnostic()> emitError,
                                 ArrayRef<int64_t> shape, Type element, LayoutAttr layout,
                                 MemorySpace) {
  if (!isa<IntegerType, FloatType, tile::PtrType>(element))
    return emitError() << "shared memory does not hold " << element;
  if (!layout.getLayout().isShared())
    return emitError()
           << "a buffer's layout says where in shared memory it is, not which threads hold it";
  if (layout.getLayout().shape() != shape)
    return emitError() << "the layout is one of " << tile::shapeText(layout.getLayout().shape())
                       << ", the buffer is " << tile::shapeText(shape);
  return success();
}

Type BufferType::parse(AsmParser &parser) {
  SmallVector<int64_t> shape;
  Type element;
  Attribute layout;
  if (parser.parseLess() || parser.parseDimensionList(shape, /*allowDynamic=*/false) ||
      parser.parseType(element) || parser.parseComma() || parser.parseAttribute(layout))
    return {};
  const bool isTensor = succeeded(parser.parseOptionalComma());
  if ((isTensor && parser.parseKeyword("tensor")) || parser.parseGreater())
    return {};
  auto layoutAttr = dyn_cast<LayoutAttr>(layout);
  if (!layoutAttr) {
    parser.emitError(parser.getNameLoc(), "a buffer's layout is a #cta.layout");
    return {};
  }
  return parser.getChecked<BufferType>(parser.getContext(), shape, element, layoutAttr,
                                       isTensor ? MemorySpace::Tensor : MemorySpace::Shared);
}

void BufferType::print(AsmPrinter &printer) const {
  printer << '<';
  for (int64_t extent : getShape())
    printer << extent << 'x';
  printer << getElement() << ", " << getLayout() << (isShared() ? ">" : ", tensor>");
}

int64_t BufferType::getNumElements() const {
  int64_t n = 1;
  for (int64_t extent : getShape())
    n *= extent;
  return n;
}

int64_t BufferType::getBytes() const { return getNumElements() * elementBytes(getElement()); }

//===-- Verifiers
//---------------------------------------------------------------------------------------------------===//

LogicalResult ConvertLayoutOp::verify() {
  auto from = getSource().getType(), to = getResult().getType();
  if (from.getShape() != to.getShape() || from.getElementType() != to.getElementType())
    return emitOpError("changes the layout only, not ") << from << " to " << to;
  if (!layoutOf(from) || !layoutOf(to))
    return emitOpError("needs layouts on both sides");
  return success();
}

void ExtractSliceOp::build(OpBuilder &builder, OperationState &state, Value source, unsigned dim,
                           unsigned count, unsigned index) {
  auto type = cast<RankedTensorType>(source.getType());
  const Layout slice = *layoutOf(type)->slice(dim, count);
  build(builder, state,
        RankedTensorType::get(slice.shape(), type.getElementType(),
                              LayoutAttr::get(builder.getContext(), slice)),
        source, dim, count, index);
}

LogicalResult OfBlockOp::verify() {
  const size_t rank = tile::shapeOf(getType()).size();
  if (!rank || getExtents().size() != rank || getStrides().size() != rank ||
      getOffsets().size() != rank)
    return emitOpError("takes one extent, stride and offset for each dimension of the tile");
  return success();
}

LogicalResult ExtractSliceOp::verify() {
  auto from = getSource().getType(), to = getType();
  const Layout *layout = layoutOf(from), *result = layoutOf(to);
  if (!layout || !result)
    return emitOpError("needs layouts on both sides");
  if (getDim() >= from.getRank() || getIndex() >= getCount())
    return emitOpError("has no such dimension or part");
  const std::optional<Layout> slice = layout->slice(getDim(), getCount());
  if (!slice)
    return emitOpError("cannot split ") << from << " within its threads";
  if (*slice != *result || from.getElementType() != to.getElementType())
    return emitOpError("gives a tile of layout ") << slice->text();
  return success();
}

OpFoldResult ConvertLayoutOp::fold(FoldAdaptor adaptor) {
  if (getSource().getType() == getType())
    return getSource();
  if (auto splat = dyn_cast_if_present<SplatElementsAttr>(adaptor.getSource()))
    return SplatElementsAttr::get(getType(), splat.getSplatValue<Attribute>());
  return {};
}

/// Of acc + a · b, by instructions of [m, n, k] where it has them.
static LogicalResult verifyDot(Operation *op, Type aType, Type bType, RankedTensorType accType,
                               std::optional<ArrayRef<int32_t>> instruction) {
  ArrayRef<int64_t> a = shapeOf(aType), b = shapeOf(bType), acc = accType.getShape();
  auto column = [](ArrayRef<int64_t> shape) { return shape.back(); };
  auto row = [](ArrayRef<int64_t> shape) { return shape[shape.size() - 2]; };
  auto batch = [](ArrayRef<int64_t> shape) { return shape.drop_back(2); };
  if (a.size() < 2 || b.size() != a.size() || acc.size() != a.size() || column(a) != row(b) ||
      row(acc) != row(a) || column(acc) != column(b) || batch(a) != batch(acc) ||
      batch(b) != batch(acc))
    return op->emitOpError("shapes do not match: ") << aType << " · " << bType << " + " << accType;
  if (!instruction)
    return success();
  if (instruction->size() != 3 || llvm::any_of(*instruction, [](int32_t n) { return n <= 0; }))
    return op->emitOpError("instruction is [m, n, k]");
  if (row(a) % (*instruction)[0] || column(b) % (*instruction)[1] || column(a) % (*instruction)[2])
    return op->emitOpError("of ") << tile::shapeText(a) << " and " << tile::shapeText(b)
                                  << " cannot be made of instructions of "
                                  << tile::shapeText(SmallVector<int64_t>(*instruction));
  return success();
}

template <class Dot>
static void
addReadsOf(Dot dot, SmallVectorImpl<SideEffects::EffectInstance<MemoryEffects::Effect>> &effects) {
  for (OpOperand *operand : {&dot.getAMutable(), &dot.getBMutable()})
    if (isa<BufferType>(operand->get().getType()))
      effects.emplace_back(MemoryEffects::Read::get(), operand, SharedMemory::get());
}

LogicalResult DotOp::verify() {
  return verifyDot(*this, getA().getType(), getB().getType(), getAcc().getType(), getInstruction());
}

void DotOp::getEffects(
    SmallVectorImpl<SideEffects::EffectInstance<MemoryEffects::Effect>> &effects) {
  addReadsOf(*this, effects);
}

/// What nobody waits for is lost, and what two wait for is read twice.
static LogicalResult verifyOneUser(Operation *op, Value inFlight) {
  return inFlight.hasOneUse() ? success()
                              : op->emitOpError("is in flight for one user, and has ")
                                    << std::distance(inFlight.use_begin(), inFlight.use_end());
}

LogicalResult DotStartOp::verify() {
  RankedTensorType sums = getType().getTile();
  if (tileOf(getAcc().getType()) != sums)
    return emitOpError("adds to ") << getAcc().getType() << " and gives " << getType();
  if (failed(verifyOneUser(*this, getResult())))
    return failure();
  return verifyDot(*this, getA().getType(), getB().getType(), sums, getInstruction());
}

// Two dots alike are two in flight: each has its own wait.
void DotStartOp::getEffects(
    SmallVectorImpl<SideEffects::EffectInstance<MemoryEffects::Effect>> &effects) {
  effects.emplace_back(MemoryEffects::Allocate::get(), getOperation()->getOpResult(0),
                       Accumulators::get());
  addReadsOf(*this, effects);
}

LogicalResult DotWaitOp::verify() {
  const Value before = getBefore(), after = getAfter();
  if (bool(before) != bool(after) || (before && before.getType() != after.getType()))
    return emitOpError("gives other tiles behind the wait than it takes before it");
  auto isNumber = [](Type type) { return elementOf(type).isIntOrFloat(); };
  // Threads hold it in words of the sums' size.
  auto isWhole = [&](Type tile) {
    const Layout *layout = layoutOf(tile);
    const unsigned bits = elementBits(tile), word = elementBits(getSums().getType());
    return word % bits == 0 && (!layout || layout->numRegisters() * bits % word == 0);
  };
  if (before &&
      (!isNumber(before.getType()) || !isNumber(getSums().getType()) || !isWhole(before.getType())))
    return emitOpError("takes tiles of ")
           << elementOf(before.getType()) << " with sums of " << elementOf(getSums().getType());
  return verifyOneUser(*this, getDot());
}

static LogicalResult verifyContents(Operation *op, RankedTensorType tile, BufferType buffer) {
  if (tile.getShape() != buffer.getShape() || tile.getElementType() != buffer.getElement())
    return op->emitOpError() << "tile " << tile << " does not fit the buffer " << buffer;
  return success();
}

LogicalResult AllocOp::verify() {
  return getInit() ? verifyContents(*this, cast<RankedTensorType>(getInit().getType()), getType())
                   : success();
}

LogicalResult LocalLoadOp::verify() {
  return verifyContents(*this, getType(), getBuffer().getType());
}

LogicalResult LocalStoreOp::verify() {
  return verifyContents(*this, getValue().getType(), getBuffer().getType());
}

LogicalResult PermuteBufferOp::verify() {
  BufferType from = getSource().getType(), to = getType();
  ArrayRef<int32_t> order = getOrder();
  SmallVector<bool> seen(from.getShape().size(), false);
  if (order.size() != seen.size())
    return emitOpError("order has ") << order.size() << " axes, the buffer has " << seen.size();
  for (int32_t axis : order) {
    if (axis < 0 || static_cast<size_t>(axis) >= seen.size() || seen[axis])
      return emitOpError("order is not a permutation of the axes");
    seen[axis] = true;
  }
  // Repeats along two axes lie in memory in an order that a layout of the permuted axes cannot say.
  if (llvm::count_if(from.getShape(), [](int64_t extent) { return !llvm::isPowerOf2_64(extent); }) >
          1 &&
      !llvm::is_sorted(order))
    return emitOpError("cannot reorder the axes of ")
           << tile::shapeText(from.getShape()) << ", of which two are no powers of two";
  SmallVector<int64_t> axes(order);
  if (from.getElement() != to.getElement() || from.getSpace() != to.getSpace() ||
      to.getLayout().getLayout() != from.getLayout().getLayout().permute(axes))
    return emitOpError("result ") << to << " is not the permuted " << from;
  return success();
}

static LogicalResult verifySlot(Operation *op, ChannelType channel, Type buffer) {
  if (buffer != channel.getBuffer())
    return op->emitOpError() << "gives " << buffer << ", but the channel has slots of "
                             << channel.getBuffer();
  return success();
}

LogicalResult AcquireOp::verify() {
  return verifySlot(*this, getChannel().getType(), getBuffer().getType());
}

uint32_t positionOf(uint32_t use, uint32_t slots) {
  return llvm::isPowerOf2_32(slots) ? use : use % slots + (use / slots << roundShift);
}
uint32_t slotAt(uint32_t position, uint32_t slots) {
  return llvm::isPowerOf2_32(slots) ? position % slots : position & ((1 << roundShift) - 1);
}
static uint32_t roundAt(uint32_t position, uint32_t slots) {
  return llvm::isPowerOf2_32(slots) ? position / slots : position >> roundShift;
}

uint32_t RingAdvanceOp::resultOf(uint32_t position) {
  const uint32_t slots = getSlots();
  return positionOf(roundAt(position, slots) * slots + slotAt(position, slots) + getBy(), slots);
}
uint32_t RingSlotOp::resultOf(uint32_t position) { return slotAt(position, getSlots()); }
uint32_t RingParityOp::resultOf(uint32_t position) {
  return (roundAt(position, getSlots()) + getBefore()) & 1;
}

LogicalResult SlotOp::verify() {
  return verifySlot(*this, getChannel().getType(), getBuffer().getType());
}

LogicalResult WaitOp::verify() {
  if (getChannels().size() != getBuffers().size())
    return emitOpError("waits for ")
           << getChannels().size() << " channels and gives " << getBuffers().size() << " buffers";
  for (auto [channel, buffer] : llvm::zip(getChannels(), getBuffers())) {
    auto type = cast<ChannelType>(channel.getType());
    if (failed(verifySlot(*this, type, buffer.getType())))
      return failure();
  }
  return success();
}

LogicalResult AsyncCopyOp::verify() {
  auto ptr = cast<RankedTensorType>(getPtr().getType());
  BufferType buffer = getBuffer().getType();
  if (ptr.getShape() != buffer.getShape() ||
      cast<tile::PtrType>(ptr.getElementType()).getElement() != buffer.getElement())
    return emitOpError("pointers ") << ptr << " do not fit the buffer " << buffer;
  if (getMask() && failed(tile::sameTile(*this, ptr, getMask().getType(), "pointers and mask")))
    return failure();
  return tile::verifyVector(*this, getVector());
}

LogicalResult AsyncCopyBlockOp::verify() {
  BufferType buffer = getBuffer().getType();
  tile::ViewType view = getView().getType();
  const Layout &layout = getLayout().getLayout();
  if (view.getRank() != buffer.getShape().size() || getOffsets().size() != view.getRank() ||
      view.getElement() != buffer.getElement())
    return emitOpError("block of ") << view << " at " << getOffsets().size()
                                    << " offsets does not fit the buffer " << buffer;
  if (!layout.isDistributed() || layout.shape() != buffer.getShape())
    return emitOpError("layout is none of threads that hold ")
           << tile::shapeText(buffer.getShape());
  return tile::verifyVector(*this, getVector());
}

/// A block of a view, and the buffer for its last dimensions.
template <typename Op> static LogicalResult verifyTensorBlock(Op op) {
  BufferType buffer = op.getBuffer().getType();
  tile::ViewType view = op.getView().getType();
  if (view.getRank() < buffer.getShape().size() || op.getOffsets().size() != view.getRank() ||
      view.getElement() != buffer.getElement())
    return op.emitOpError("block of ") << view << " at " << op.getOffsets().size()
                                       << " offsets does not fit the buffer " << buffer;
  const std::optional<TensorBoxes> boxes =
      planTensorBoxes(buffer.getLayout().getLayout(), elementBits(buffer));
  if (!boxes)
    return op.emitOpError("cannot move blocks by ") << buffer;
  const std::optional<ArrayRef<int64_t>> lines = op.getLines();
  if (!lines)
    return success();
  if (buffer.getShape().size() != 2 || lines->size() + 1 > view.getRank())
    return op.emitOpError("has ") << lines->size() << " extents of lines for " << view << " and "
                                  << buffer;
  int64_t count = 1;
  for (int64_t extent : *lines)
    count *= extent;
  if (count != buffer.getShape()[0] || !boxes->hasWholeColumns())
    return op.emitOpError("cannot move ") << count << " lines of a block by " << buffer;
  return success();
}

template <typename Op> static LogicalResult verifyTensorBoxes(Op op) {
  BufferType buffer = op.getBuffer().getType();
  if (op.getCoordinates().size() < buffer.getShape().size() ||
      op.getCoordinates().size() > TensorMap::mostDimensions)
    return op.emitOpError("at ") << op.getCoordinates().size()
                                 << " coordinates does not fit the buffer " << buffer;
  if (!planTensorBoxes(buffer.getLayout().getLayout(), elementBits(buffer)))
    return op.emitOpError("cannot move the buffer ") << buffer;
  return success();
}

LogicalResult TensorCopyBlockOp::verify() { return verifyTensorBlock(*this); }
LogicalResult TensorCopyOp::verify() { return verifyTensorBoxes(*this); }
template <typename Op> static LogicalResult verifyAddition(Op op) {
  const Type element = op.getBuffer().getType().getElement();
  if (op.getAdds() && !addedAs(element))
    return op.emitOpError("adds no ") << element;
  return success();
}

LogicalResult TensorStoreBlockOp::verify() {
  return failed(verifyTensorBlock(*this)) ? failure() : verifyAddition(*this);
}
LogicalResult TensorStoreOp::verify() {
  return failed(verifyTensorBoxes(*this)) ? failure() : verifyAddition(*this);
}

template <typename Op> static LogicalResult verifyBufferAccess(Op op, Type tile) {
  if (tile::elementType(tile) != op.getBase().getType().getElement())
    return op.emitOpError("of ") << op.getBase().getType() << " takes or gives no " << tile;
  if (failed(tile::sameTile(op, op.getOffsets().getType(), tile, "offsets and elements")) ||
      (op.getMask() &&
       failed(tile::sameTile(op, tile, op.getMask().getType(), "elements and mask"))))
    return failure();
  return tile::verifyVector(op, op.getVector());
}

LogicalResult BufferLoadOp::verify() {
  if (getOther() && (!getMask() || getOther().getType() != getType()))
    return emitOpError("has `other` of another type, or without a mask");
  return verifyBufferAccess(*this, getType());
}

LogicalResult BufferStoreOp::verify() { return verifyBufferAccess(*this, getValue().getType()); }

LogicalResult RecordOp::verify() {
  if (getStarts().size() != getValues().size())
    return emitOpError("has ") << getStarts().size() << " starts for " << getValues().size()
                               << " values";
  return success();
}

} // namespace sectile::cta
