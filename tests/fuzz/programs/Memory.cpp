// Random work in memory: places, loads and stores there by pointers and views, and single steps
// whose order matters. Programs of the grid have memory of their own, and no store has two elements
// for one place, so that the language defines all that comes out.
#include "tests/fuzz/programs/Generator.h"

using namespace mlir;

namespace sectile::fuzz {

static constexpr tile::Cache loadCaches[] = {tile::Cache::Default, tile::Cache::Default,
                                             tile::Cache::Default, tile::Cache::AllLevels,
                                             tile::Cache::Global,  tile::Cache::Streaming,
                                             tile::Cache::Volatile},
                             storeCaches[] = {tile::Cache::Default,   tile::Cache::Default,
                                              tile::Cache::Default,   tile::Cache::Global,
                                              tile::Cache::Streaming, tile::Cache::WriteBack,
                                              tile::Cache::Volatile,  tile::Cache::WriteThrough};

/// What goes with a cache hint: an access that is no more than a hint may have a policy as well.
tile::Eviction Generator::someEviction(tile::Cache cache) {
  static constexpr tile::Eviction all[] = {tile::Eviction::Normal, tile::Eviction::Normal,
                                           tile::Eviction::Normal, tile::Eviction::First,
                                           tile::Eviction::Last};
  return cache == tile::Cache::Volatile ? tile::Eviction::Normal : oneOf(all);
}

//===-- Arenas --------------------------------------------------------------------------------===//

/// Of at least so many elements, in a buffer that kernels write to, or behind what they read of one
/// of the others. Without one where those are full.
std::optional<Generator::Arena> Generator::newArena(Type element, int64_t atLeast,
                                                    bool interleaved) {
  const int64_t n = int64_t(llvm::bit_ceil(uint64_t(std::max<int64_t>(atLeast, 16))));
  // A bool in a fresh output is neither true nor false.
  const bool inInput = element.isInteger(1) || coin();
  int64_t &next = (inInput ? storedInInputs : stored)[element];
  const int64_t first = int64_t(llvm::alignTo(next, n)), all = n * options.programs;
  if (first + all > (inInput ? arenaElements : outputElements))
    return std::nullopt;
  next = first + all;
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(&kernel.front());
  Value buffer = inInput ? input(element) : output(element);
  Value start = op<tile::ProgramIdOp>(i32(), 0);
  if (!interleaved)
    start = op<arith::MulIOp>(start, number(n));
  start = op<arith::AddIOp>(start, number(first + (inInput ? inputElements : 0)));
  Arena arena{element, op<tile::AddPtrOp>(buffer.getType(), buffer, start), n,
              interleaved ? options.programs : 1};
  // Buffers begin at multiples of 256 bytes, and arenas at multiples of their size.
  const int64_t unit = std::min<int64_t>(n, 16);
  if (!interleaved && coin())
    arena.base =
        op<tile::HintOp>(arena.base.getType(), arena.base, builder.getDenseI64ArrayAttr({unit}),
                         DenseI64ArrayAttr(), DenseI64ArrayAttr());
  return arena;
}

/// Another of the same kind, or the same.
Generator::Arena Generator::siblingOf(const Arena &arena) {
  std::vector<Arena> alike;
  for (const Arena &other : arenas)
    if (other.element == arena.element && other.elements == arena.elements &&
        other.stride == arena.stride)
      alike.push_back(other);
  if (alike.size() < 2 || pick(3) == 0)
    if (auto fresh = newArena(arena.element, arena.elements, arena.stride > 1)) {
      arenas.push_back(*fresh);
      alike.push_back(*fresh);
    }
  return alike.empty() ? arena : oneOf(alike);
}

/// Where the work in memory is; mostly where it was before, so that accesses meet.
Generator::Arena Generator::someArena() {
  if (arenas.empty() || pick(8) == 0) {
    Shape shape = someShape();
    const bool interleaved = options.programs > 1 && pick(4) == 0;
    // The first of a kernel finds room.
    if (auto fresh = newArena(someElement(), llvm::product_of(shape), interleaved))
      arenas.push_back(*fresh);
  }
  return oneOf(arenas);
}

/// One of those that fit into an arena.
Generator::Shape Generator::shapeWithin(const Arena &arena) {
  for (unsigned i = 0; i < 8; ++i)
    if (Shape shape = someShape(); llvm::product_of(shape) <= arena.elements)
      return shape;
  if (arena.elements >= 64 && coin())
    return {8, arena.elements / 8};
  return {arena.elements};
}

//===-- Places --------------------------------------------------------------------------------===//

/// The places of a tile's elements when its axes are laid out in some order, or backwards.
Value Generator::someOrder(ArrayRef<int64_t> shape) {
  if (pick(3) == 0)
    return rowMajor(shape);
  SmallVector<int64_t> axes = llvm::to_vector(llvm::seq<int64_t>(0, shape.size()));
  if (coin())
    std::shuffle(axes.begin(), axes.end(), random);
  Value index = constant(shape, i32(), 0);
  int64_t stride = 1;
  for (int64_t axis : llvm::reverse(axes)) {
    Value along = range(shape, axis, 0);
    if (pick(4) == 0)
      along = op<arith::SubIOp>(constant(shape, i32(), shape[axis] - 1), along);
    along = op<arith::MulIOp>(along, constant(shape, i32(), stride));
    index = op<arith::AddIOp>(index, along);
    stride *= shape[axis];
  }
  return index;
}

/// A number that only the running program knows: one that memory holds, or a scalar.
Value Generator::lateNumber() {
  if (coin())
    return oneOf(scalars);
  Value ptr = input(i32());
  ptr = op<tile::AddPtrOp>(ptr.getType(), ptr, number(pick(64)));
  return op<tile::LoadOp>(ptr);
}

/// True promises about the places of a tile in row-major order that begins at `start`.
Value Generator::promised(Value index, int64_t start) {
  ArrayRef<int64_t> shape = shapeOf(index);
  const int64_t last = shape.back();
  const int64_t run = last & -last;
  int64_t unit = run;
  while (start % unit)
    unit /= 2;
  SmallVector<int64_t> contiguous(shape.size(), 1), divisible(shape.size(), 1);
  contiguous.back() = coin() ? last : run;
  divisible.back() = unit;
  auto list = [&](ArrayRef<int64_t> numbers) {
    return pick(4) ? builder.getDenseI64ArrayAttr(numbers) : DenseI64ArrayAttr();
  };
  DenseI64ArrayAttr multiples = list(divisible), runs = list(contiguous);
  return op<tile::HintOp>(index.getType(), index, multiples, runs, DenseI64ArrayAttr());
}

/// Of a tile's elements, no two at one place.
Generator::Places Generator::distinct(ArrayRef<int64_t> shape, int64_t within) {
  const int64_t n = llvm::product_of(shape), room = within - n;
  auto same = [&](int64_t value) { return constant(shape, i32(), value); };
  auto wrap = [&](Value index) -> Value { return op<arith::AndIOp>(index, same(within - 1)); };
  Value index;
  Places places;
  switch (pick(9)) {
  case 0:
  case 1: {
    const int64_t start = room ? int64_t(pick(room + 1)) & (coin() ? -1 : -16) : 0;
    index = rowMajor(shape);
    index = op<arith::AddIOp>(index, same(start));
    if (coin())
      index = promised(index, start);
    break;
  }
  case 2: {
    Value by = splat(lateNumber(), shape);
    index = wrap(op<arith::AddIOp>(someOrder(shape), by));
    break;
  }
  case 3: {
    const int64_t step = 1 + pick(within / n);
    Value order = someOrder(shape);
    index = op<arith::MulIOp>(order, same(step));
    index = op<arith::AddIOp>(index, same(pick(within - (n - 1) * step)));
    break;
  }
  case 4: {
    const int64_t factor = 2 * pick(16) + 1;
    index = someOrder(shape);
    index = op<arith::MulIOp>(index, same(factor));
    index = op<arith::AddIOp>(index, same(pick(within)));
    index = wrap(index);
    break;
  }
  case 5: {
    Value with = coin() ? same(pick(within)) : splat(lateNumber(), shape);
    index = wrap(op<arith::XOrIOp>(someOrder(shape), with));
    break;
  }
  case 6:
  case 7: {
    // Beyond either end nothing is accessed.
    const int64_t most = std::min<int64_t>(within, 1 << pick(12));
    Value by = coin() ? same(int64_t(pick(2 * most)) - most) : splat(oneOf(scalars), shape);
    index = op<arith::AddIOp>(someOrder(shape), by);
    Value low = op<arith::CmpIOp>(arith::CmpIPredicate::sge, index, same(0));
    Value high = op<arith::CmpIOp>(arith::CmpIPredicate::slt, index, same(within));
    places.mask = op<arith::AndIOp>(low, high);
    break;
  }
  default:
    index = someOrder(shape);
  }
  places.index = index;
  return places;
}

/// What pointers of an arena point to these places.
Value Generator::pointers(const Arena &arena, Value index) {
  Shape shape(shapeOf(index));
  if (arena.stride > 1) {
    Value stride = shape.empty() ? number(arena.stride) : constant(shape, i32(), arena.stride);
    index = op<arith::MulIOp>(index, stride);
  }
  if (pick(4) == 0)
    index = op<arith::ExtSIOp>(tile::withElementType(index.getType(), builder.getI64Type()), index);
  Value ptr = shape.empty() ? arena.base : splat(arena.base, shape);
  return op<tile::AddPtrOp>(ptr.getType(), ptr, index);
}

/// A view of an arena, and where a block of it begins, which may be beyond an edge. For loads its
/// elements may overlap.
std::pair<Value, SmallVector<Value>> Generator::viewOf(const Arena &arena, ArrayRef<int64_t> shape,
                                                       bool overlapping) {
  const unsigned rank = shape.size();
  SmallVector<int64_t> extents(shape), strides(rank);
  SmallVector<int64_t> axes = llvm::to_vector(llvm::seq<int64_t>(0, rank));
  if (coin())
    std::shuffle(axes.begin(), axes.end(), random);
  // More than the block, or less.
  for (int64_t &extent : extents)
    if (pick(3) == 0)
      extent =
          coin() && llvm::product_of(extents) * 2 <= arena.elements ? extent * 2 : 1 + pick(extent);
  int64_t stride = 1, span = 0;
  for (int64_t axis : llvm::reverse(axes)) {
    strides[axis] = stride;
    span += (extents[axis] - 1) * stride;
    if (!overlapping || pick(3))
      stride *= extents[axis];
  }
  int64_t first = pick(arena.elements - span);
  if (coin())
    first &= -16;
  // Backwards along an axis.
  if (pick(8) == 0) {
    unsigned axis = pick(rank);
    first += (extents[axis] - 1) * strides[axis];
    strides[axis] = -strides[axis];
  }
  SmallVector<Value> sizes, steps, offsets;
  for (unsigned axis = 0; axis < rank; ++axis) {
    sizes.push_back(number(extents[axis]));
    steps.push_back(number(strides[axis] * arena.stride, pick(4) ? i32() : builder.getI64Type()));
    Value offset = number(0);
    if (pick(3) == 0)
      offset = coin() ? someScalar() : number(int64_t(pick(2 * extents[axis])) - extents[axis]);
    offsets.push_back(offset);
  }
  Value base = op<tile::AddPtrOp>(arena.base.getType(), arena.base, number(first * arena.stride));
  auto type = tile::ViewType::get(rank, arena.element);
  return {op<tile::MakeViewOp>(type, base, sizes, steps), offsets};
}

//===-- Accesses ------------------------------------------------------------------------------===//

Value Generator::loadAt(const Arena &arena, const Places &places) {
  Value ptr = pointers(arena, places.index), other;
  Type type = tile::withElementType(places.index.getType(), arena.element);
  if (places.mask && coin())
    other = cast(shapeOf(ptr).empty() ? someScalar() : splat(someScalar(), shapeOf(ptr)),
                 arena.element);
  tile::Cache cache = oneOf(loadCaches);
  tile::Eviction eviction = someEviction(cache);
  return op<tile::LoadOp>(type, ptr, places.mask, other, cache, eviction,
                          cache == tile::Cache::Volatile, IntegerAttr());
}

void Generator::storeAt(const Arena &arena, const Places &places, Value value) {
  Value ptr = pointers(arena, places.index), mask = places.mask;
  if (pick(6) == 0) {
    Value some = someMask(shapeOf(ptr));
    mask = mask ? Value(op<arith::AndIOp>(mask, some)) : some;
  }
  tile::Cache cache = oneOf(storeCaches);
  tile::Eviction eviction = someEviction(cache);
  tile::StoreOp::create(builder, loc, ptr, value, mask, cache, eviction, IntegerAttr());
}

/// A tile of what is in memory, from places in any order, also several times from one.
Value Generator::read(const Arena &arena, ArrayRef<int64_t> shape) {
  if (pick(3) == 0) {
    auto [view, offsets] = viewOf(arena, shape, /*overlapping=*/true);
    tile::Cache cache = oneOf(loadCaches);
    tile::Eviction eviction = someEviction(cache);
    return op<tile::LoadBlockOp>(tileOf(shape, arena.element), view, offsets, TypedAttr(), cache,
                                 eviction);
  }
  if (pick(4))
    return loadAt(arena, distinct(shape, arena.elements));
  Value index = someTileOf(shape, i32());
  index = op<arith::AndIOp>(index, constant(shape, i32(), arena.elements - 1));
  return loadAt(arena, {index, coin() ? someMask(shape) : Value()});
}

void Generator::write(const Arena &arena, Value tile) {
  tile = cast(tile, arena.element);
  ArrayRef<int64_t> shape = shapeOf(tile);
  if (pick(3)) {
    storeAt(arena, distinct(shape, arena.elements), tile);
    return;
  }
  auto [view, offsets] = viewOf(arena, shape, /*overlapping=*/false);
  tile::Cache cache = oneOf(storeCaches);
  tile::Eviction eviction = someEviction(cache);
  tile::StoreBlockOp::create(builder, loc, view, offsets, tile, cache, eviction);
}

//===-- Single steps --------------------------------------------------------------------------===//

/// Keeps what a step has loaded, and mostly shows it.
void Generator::observe(Value tile) {
  tiles.push_back(tile);
  if (pick(3))
    store(tile);
}

/// One number of what tiles write and read.
void Generator::scalarStep(const Arena &arena) {
  Value at = lateNumber();
  at = op<arith::AndIOp>(at, number(arena.elements - 1));
  if (coin()) {
    storeAt(arena, {at, {}}, cast(someScalar(), arena.element));
    return;
  }
  Value loaded = loadAt(arena, {at, {}});
  observe(splat(loaded, {oneOf(extents)}));
  if (arena.element.isInteger(32))
    keep(loaded);
}

/// In place: loads, changes and stores through one arena or two, there or elsewhere.
void Generator::moveStep(const Arena &arena) {
  Shape shape = shapeWithin(arena);
  Value tile = read(arena, shape);
  if (coin())
    tile = combine(tile, coin() ? read(arena, shape) : someTileOf(shape, arena.element));
  write(coin() ? arena : siblingOf(arena), tile);
}

/// The same load before and after a store, or the same store: neither stands for the other.
void Generator::repeatStep(const Arena &arena) {
  Shape shape = shapeWithin(arena);
  Places places = distinct(shape, arena.elements);
  Value ptr = pointers(arena, places.index);
  Value before = op<tile::LoadOp>(ptr, places.mask);
  if (coin())
    tile::StoreOp::create(builder, loc, ptr, someTileOf(shape, arena.element), places.mask);
  write(arena, someTileOf(shape, arena.element));
  if (coin())
    tile::StoreOp::create(builder, loc, ptr, before, places.mask);
  else
    observe(before);
  observe(op<tile::LoadOp>(ptr, places.mask));
}

/// Atomic operations in any order with the same outcome, and what orders the accesses around them.
void Generator::atomicStep(const Arena &arena) {
  using enum tile::AtomicKind;
  static constexpr tile::AtomicKind ofIntegers[] = {Add, Max, Min, UMax, UMin, And, Or, Xor},
                                    ofFloats[] = {FMax, FMin};
  const unsigned bits = arena.element.getIntOrFloatBitWidth();
  const bool isFloat = isa<FloatType>(arena.element);
  if (bits < 32 && !(isFloat && bits == 16))
    return moveStep(arena);
  tile::AtomicKind kind = isFloat ? oneOf(ofFloats) : oneOf(ofIntegers);
  // acq_rel is the one order that is both sides of a barrier.
  const bool ordered = coin(), apart = coin();
  if (!ordered)
    tile::BarrierOp::create(builder, loc);
  Shape shape = shapeWithin(arena);
  Value value = someTileOf(shape, arena.element), index, mask;
  if (apart) {
    Places places = distinct(shape, arena.elements);
    index = places.index;
    mask = places.mask;
    if (bits >= 32 && pick(4) == 0)
      kind = Exchange;
  } else {
    index = someTileOf(shape, i32());
    index = op<arith::AndIOp>(index, constant(shape, i32(), pick(arena.elements)));
    mask = coin() ? someMask(shape) : Value();
  }
  static constexpr tile::Order orders[] = {tile::Order::Relaxed, tile::Order::Acquire,
                                           tile::Order::Release};
  static constexpr tile::Scope scopes[] = {tile::Scope::Program, tile::Scope::Device,
                                           tile::Scope::System};
  tile::Order order = ordered ? tile::Order::AcquireRelease : oneOf(orders);
  tile::Scope scope = oneOf(scopes);
  Value before = op<tile::AtomicRMWOp>(value.getType(), kind, pointers(arena, index), value, mask,
                                       order, scope, IntegerAttr());
  if (apart && coin())
    observe(before);
  if (!ordered)
    tile::BarrierOp::create(builder, loc);
}

/// Moves elements between two arenas, or within one, in a function of pointers.
void Generator::callOnPointers(const Arena &arena) {
  Arena other = siblingOf(arena);
  Shape shape = shapeWithin(arena);
  Type ptr = arena.base.getType();
  func::FuncOp function;
  {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPoint(kernel);
    function = func::FuncOp::create(builder, loc, "moves" + std::to_string(pointerFunctions++),
                                    builder.getFunctionType({ptr, ptr, i32()}, {}));
    function.setPrivate();
    builder.setInsertionPointToEnd(function.addEntryBlock());
    // Places that depend on what memory holds would need the kernel's buffers.
    Value by = splat(function.getArgument(2), shape);
    auto at = [&](unsigned argument, bool shifted) -> Value {
      Value index = someOrder(shape);
      if (shifted)
        index = op<arith::AddIOp>(index, by);
      index = op<arith::AndIOp>(index, constant(shape, i32(), arena.elements - 1));
      Arena within = arena;
      within.base = function.getArgument(argument);
      return pointers(within, index);
    };
    Value loaded = op<tile::LoadOp>(at(0, coin()));
    tile::StoreOp::create(builder, loc, at(1, coin()), loaded, Value());
    if (coin()) {
      Value again = op<tile::LoadOp>(at(1, coin()));
      tile::StoreOp::create(builder, loc, at(0, coin()), again, Value());
    }
    func::ReturnOp::create(builder, loc);
  }
  for (unsigned times = 1 + pick(2); times-- > 0;) {
    Value from = coin() ? arena.base : other.base, to = coin() ? arena.base : other.base;
    Value by = someScalar();
    func::CallOp::create(builder, loc, function, ValueRange{from, to, by});
  }
}

void Generator::memoryStep(unsigned depth) {
  Arena arena = someArena();
  switch (pick(depth > 1 ? 12 : 24)) {
  case 0:
  case 1:
  case 2: {
    Shape shape = shapeWithin(arena);
    return write(arena, someTileOf(shape, arena.element));
  }
  case 3:
  case 4:
    return observe(read(arena, shapeWithin(arena)));
  case 5:
    return repeatStep(arena);
  case 6:
  case 7:
    return moveStep(arena);
  case 8:
    return scalarStep(arena);
  case 9:
    return atomicStep(arena);
  case 10:
    return callOnPointers(arena);
  case 11:
    tile::BarrierOp::create(builder, loc);
    return;
  case 12:
  case 13:
    return choosePointers(arena);
  case 14:
  case 15:
    return swapInLoop(arena);
  case 16:
    return doublingLoop(arena);
  case 17:
    return movingPointers(arena);
  case 18:
    return countDown(arena);
  case 21:
    return promise();
  case 19:
  case 20:
    return scratchMatmul();
  default:
    return loop(depth);
  }
}

} // namespace sectile::fuzz
