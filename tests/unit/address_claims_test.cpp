// The analysis of global memory's addresses: its claims hold on random programs, which are run
// element by element and thread by thread. addresses_test.cpp has what it must be able to tell.
#include "ir/Dialects.h"
#include "mlir/IR/Verifier.h"
#include "passes/analysis/Addresses.h"
#include "tests/unit/AddressMachine.h"
#include <gtest/gtest.h>

using namespace mlir;
using namespace sectile;
using test::Elements, test::Event, test::laneBits, test::Machine, test::warpBits;

namespace {

/// A context with the dialects that kernels use.
struct Context {
  Context() {
    DialectRegistry registry;
    registerDialects(registry);
    context.appendDialectRegistry(registry);
    context.loadAllAvailableDialects();
  }
  MLIRContext context;
};

/// Writes a random program that walks through memory, and runs it.
class RandomProgram : protected Context {
public:
  explicit RandomProgram(test::Random &random)
      : random(random), builder(&context), loc(builder.getUnknownLoc()) {
    int64_t sizes[] = {8, 16, 32, 64}, lengths[] = {1, 2, 8, 16, 12}, sides[] = {1, 2, 4, 8, 6};
    element = builder.getIntegerType(sizes[pick(4)]);
    otherElement = builder.getIntegerType(sizes[pick(4)]);
    shapes = {{lengths[pick(5)]}, {sides[pick(5)], sides[pick(5)]}};
    for (const Shape &shape : shapes)
      for (unsigned i = 0; i < 3; ++i)
        layouts.push_back(test::randomDistributed(random, shape, laneBits, warpBits));
    module = ModuleOp::create(loc);
    builder.setInsertionPointToEnd(module->getBody());
    Type i32 = builder.getI32Type(), i1 = builder.getI1Type(), ptr = tile::PtrType::get(element);
    SmallVector<Type> types = {
        ptr, ptr, tile::PtrType::get(i32), tile::PtrType::get(ptr), i32, i32, i32, i32, i1, i1};
    function = func::FuncOp::create(builder, loc, "f", builder.getFunctionType(types, {}));
    builder.setInsertionPointToEnd(function.addEntryBlock());
    for (auto [number, argument] : llvm::enumerate(function.getArguments())) {
      int64_t divisor = number < 4 ? 16 : number < 7 ? int64_t{1} << (2 * (number - 4)) : 1;
      function.setArgAttr(number, tile::divisibleAttr, builder.getI64IntegerAttr(divisor));
      int64_t value = divisor * (int64_t(pick(9)) - 3);
      if (number < 4)
        value += (number + 1) << 40; // arguments do not overlap
      else if (number == 7)
        value = 1 << pick(3); // the step of loops
      else if (number > 7)
        value = pick(2);
      arguments.push_back(value);
      if (number != 7)
        values.push_back(argument);
    }
    for (unsigned i = 0; i < 2; ++i)
      addView(shapes[1]);
    addView(shapes[0]);
    addBlock(3);
    func::ReturnOp::create(builder, loc);
  }

  /// Every claim about two accesses of a run that are not far from each other.
  void check() {
    ASSERT_TRUE(succeeded(verify(*module)));
    assignLayouts();
    AddressAnalysis analysis(function);
    std::map<Operation *, GlobalAccess> accesses;
    Machine machine(function, arguments, random);
    const std::vector<Event> &events = machine.events;
    for (const Event &event : events)
      if (event.access && !accesses.contains(event.access)) {
        GlobalAccess access = *analysis.accessOf(event.access);
        access.asynchronous = event.access->hasAttr("asynchronous");
        accesses[event.access] = std::move(access);
      }
    for (auto from = events.begin(); from != events.end(); ++from) {
      if (!from->access)
        continue;
      const GlobalAccess &first = accesses[from->access];
      EndedIterations ended = 0;
      for (auto to = from + 1; to != events.end() && to - from < 40; ++to)
        if (to->loop)
          ended |= analysis.bitOf(to->loop) & first.loops;
        else
          check(analysis, *from, *to, first, accesses[to->access], ended);
      if (testing::Test::HasFatalFailure())
        return;
    }
    checkFetches(analysis, events, accesses);
  }

  unsigned claims = 0; ///< questions about accesses with a common root
  unsigned apart = 0;  ///< of these, how many the analysis answered with "no overlap"
  unsigned own = 0;    ///< and with "a thread meets its own accesses only"

private:
  using Shape = SmallVector<int64_t, 2>;
  using Accesses = std::map<Operation *, GlobalAccess>;

  unsigned pick(unsigned n) { return random.below(n); }

  //===-- Claims ------------------------------------------------------------------------------===//

  void check(AddressAnalysis &analysis, const Event &from, const Event &to,
             const GlobalAccess &first, const GlobalAccess &second, EndedIterations ended) {
    auto [at, isNew] = answers.try_emplace({from.access, to.access, ended});
    if (isNew) {
      at->second.overlap = analysis.mayOverlap(first, second, ended);
      at->second.order = analysis.needsOrder(first, second, ended);
      if (llvm::any_of(first.roots,
                       [&](Value root) { return llvm::is_contained(second.roots, root); })) {
        ++claims;
        apart += !at->second.overlap;
        own += at->second.overlap && !at->second.order && (first.writes || second.writes);
      }
    }
    const Answer &answer = at->second;
    if (answer.overlap && answer.order)
      return;
    auto [common, byOthers] = meet(from, to);
    ASSERT_TRUE(answer.overlap || !common) << "overlap, " << text(from, to, ended);
    bool conflict = byOthers && (first.writes || second.writes) &&
                    !(first.commutes && first.commutes == second.commutes);
    ASSERT_TRUE(answer.order || !conflict) << "order, " << text(from, to, ended);
  }

  // What FetchAhead asks before it moves a load to an earlier iteration: it counts the iterations
  // of that loop only, wherever in it the other access is.
  void checkFetches(AddressAnalysis &analysis, const std::vector<Event> &events,
                    const Accesses &accesses) {
    for (auto from = events.begin(); from != events.end(); ++from) {
      if (!from->access)
        continue;
      const GlobalAccess &write = accesses.at(from->access);
      EndedIterations all = 0;
      for (auto to = from + 1; to != events.end() && to - from < 40; ++to) {
        if (to->loop) {
          all |= analysis.bitOf(to->loop);
          continue;
        }
        auto loop = dyn_cast<scf::ForOp>(to->access->getParentOp());
        if (!loop || !loop->isAncestor(from->access))
          continue;
        EndedIterations outer = 0;
        for (Operation *op = loop->getParentOp(); op; op = op->getParentOp())
          outer |= isa<LoopLikeOpInterface>(op) ? analysis.bitOf(op) : 0;
        if (all & outer)
          break;
        EndedIterations ended = all & analysis.bitOf(loop);
        bool apart = !analysis.mayOverlap(write, accesses.at(to->access), ended);
        ASSERT_FALSE(apart && meet(*from, *to).first) << "fetch, " << text(*from, *to, ended);
      }
    }
  }

  /// Whether there is a byte that both touch, and one that different threads do.
  static std::pair<bool, bool> meet(const Event &a, const Event &b) {
    bool common = false, byOthers = false;
    auto x = a.bytes.begin(), y = b.bytes.begin();
    while (x != a.bytes.end() && y != b.bytes.end()) {
      if (x->first == y->first) {
        common = true;
        byOthers |= x->second != y->second || !llvm::isPowerOf2_32(x->second);
      }
      bool next = x->first <= y->first;
      y += y->first <= x->first;
      x += next;
    }
    return {common, byOthers};
  }

  std::string text(const Event &from, const Event &to, EndedIterations ended) {
    std::string result;
    llvm::raw_string_ostream out(result);
    out << random.message() << ", ended " << ended << "\n"
        << *from.access << "\n"
        << *to.access << "\n"
        << *module;
    for (int64_t argument : arguments)
      out << argument << " ";
    return result;
  }

  //===-- Values ------------------------------------------------------------------------------===//

  RankedTensorType tileOf(ArrayRef<int64_t> shape, Type type) {
    return RankedTensorType::get(shape, type);
  }
  Type i32() { return builder.getI32Type(); }

  template <class Op, class... Args> Value add(Args &&...args) {
    Value value = Op::create(builder, loc, std::forward<Args>(args)...);
    values.push_back(value);
    return value;
  }

  /// A random value of this type, the last ones more often; null where there is none.
  Value find(Type type) {
    SmallVector<Value> found;
    for (Value value : values)
      if (value.getType() == type)
        found.push_back(value);
    if (found.empty())
      return {};
    return found[found.size() - 1 - std::min(pick(found.size()), pick(found.size()))];
  }

  int64_t constant() {
    int64_t columns = shapes[1][1], elements = shapes[1][0] * columns;
    int64_t numbers[] = {0,       1,        1,       2, 3, 4, 8, 16, -1, -4, shapes[0][0],
                         columns, -columns, elements};
    return numbers[pick(std::size(numbers))];
  }
  Value number(int64_t value) { return add<arith::ConstantOp>(builder.getI32IntegerAttr(value)); }
  Value all(ArrayRef<int64_t> shape, int64_t value) {
    return add<arith::ConstantOp>(
        DenseElementsAttr::get(tileOf(shape, i32()), builder.getI32IntegerAttr(value)));
  }

  Value number() {
    Value known = find(i32());
    switch (pick(10)) {
    case 0:
    case 1:
      return number(constant());
    case 2:
      return add<arith::MulIOp>(known, number(constant()));
    case 3:
      return add<arith::AddIOp>(known, number(constant()));
    case 4:
      return add<arith::AddIOp>(known, find(i32()));
    case 5:
      return binary(known, find(i32()));
    default:
      return known;
    }
  }

  Value binary(Value a, Value b) {
    Type type = a.getType();
    Value positive =
        isa<RankedTensorType>(type) ? all(tile::shapeOf(type), 1 + pick(3)) : number(1 + pick(3));
    switch (pick(9)) {
    case 0:
      return add<arith::MulIOp>(a, b);
    case 1:
      return add<arith::SubIOp>(a, b);
    case 2:
      return add<arith::ShLIOp>(a, positive);
    case 3:
      return add<arith::RemSIOp>(a, positive);
    case 4:
      return add<arith::DivSIOp>(a, positive);
    case 5:
      return add<arith::MinSIOp>(a, b);
    case 6:
      return add<arith::SelectOp>(condition(), a, b);
    default:
      return add<arith::AddIOp>(a, b);
    }
  }

  Value condition() {
    if (pick(2))
      return find(builder.getI1Type());
    return add<arith::CmpIOp>(pick(2) ? arith::CmpIPredicate::slt : arith::CmpIPredicate::eq,
                              find(i32()), find(i32()));
  }

  Value splat(Value scalar, ArrayRef<int64_t> shape) {
    return add<tile::SplatOp>(tileOf(shape, scalar.getType()), scalar);
  }

  /// `index` times something.
  Value scaled(Value index) {
    ArrayRef<int64_t> shape = tile::shapeOf(index.getType());
    switch (pick(4)) {
    case 0:
      return index;
    case 1:
      return add<arith::MulIOp>(index, splat(number(), shape));
    default:
      return add<arith::MulIOp>(index, all(shape, constant()));
    }
  }

  Value arange(int64_t extent) {
    return add<tile::ArangeOp>(tileOf({extent}, i32()), pick(4) ? 0 : int32_t(constant()));
  }

  /// A tile of indices.
  Value indices(ArrayRef<int64_t> shape) {
    if (Value known = find(tileOf(shape, i32())); known && pick(3) == 0)
      return pick(5) ? known : binary(known, find(known.getType()));
    Value result;
    if (shape.size() == 1) {
      result = pick(4) ? arange(shape[0]) : scaled(arange(shape[0]));
    } else if (pick(4) == 0) {
      Value turned = indices({shape[1], shape[0]});
      result = add<tile::PermuteOp>(tileOf(shape, i32()), turned, ArrayRef<int32_t>{1, 0});
    } else if (pick(3) == 0) {
      Value flat = arange(shape[0] * shape[1]);
      result = add<tile::ReshapeOp>(tileOf(shape, i32()), pick(2) ? flat : scaled(flat));
    } else {
      Value rows = add<tile::ExpandDimsOp>(tileOf({shape[0], 1}, i32()), arange(shape[0]), 1u);
      if (pick(4))
        rows = pick(2) ? add<arith::MulIOp>(rows, all({shape[0], 1}, shape[1])) : scaled(rows);
      Value columns = indices({shape[1]});
      columns = add<tile::ExpandDimsOp>(tileOf({1, shape[1]}, i32()), columns, 0u);
      rows = add<tile::BroadcastOp>(tileOf(shape, i32()), rows);
      columns = add<tile::BroadcastOp>(tileOf(shape, i32()), columns);
      result = add<arith::AddIOp>(rows, columns);
    }
    return pick(2) ? result : add<arith::AddIOp>(result, splat(number(), shape));
  }

  /// A number that the analysis does not know.
  Value hidden(int64_t value) { return add<arith::MinSIOp>(number(value), number(value + 1)); }

  /// A view whose elements have different addresses.
  void addView(const Shape &shape) {
    View view{function.getArgument(pick(2)), shape, {}, {}};
    SmallVector<int64_t> extents, strides(shape.size());
    for (int64_t extent : shape)
      extents.push_back(1 + pick(2 * extent + 2));
    int64_t reach = 1;
    const unsigned turned = pick(2);
    for (unsigned i = 0; i < shape.size(); ++i) {
      const unsigned axis = turned ? i : shape.size() - 1 - i;
      strides[axis] = reach + pick(3);
      reach += (extents[axis] - 1) * strides[axis];
      if (pick(8) == 0)
        strides[axis] = -strides[axis];
    }
    for (auto [extent, stride] : llvm::zip_equal(extents, strides)) {
      view.extents.push_back(pick(3) ? hidden(extent) : number(extent));
      view.strides.push_back(pick(3) ? hidden(stride) : number(stride));
    }
    views.push_back(std::move(view));
  }

  /// Pointers of a block of one of the views, or of a part of it that begins elsewhere.
  Value ofBlock() {
    const View &view = views[pick(views.size())];
    const Shape &shape = view.shape;
    Value base = view.base;
    if (pick(4) == 0)
      base = add<tile::AddPtrOp>(base, number());
    Value at = splat(base, shape);
    SmallVector<Value> offsets;
    for (auto [axis, extent] : llvm::enumerate(shape)) {
      const Value offset =
          pick(2) ? number() : add<arith::MulIOp>(number(), number(static_cast<int64_t>(extent)));
      offsets.push_back(offset);
      Value steps = add<tile::ArangeOp>(tileOf({extent}, i32()), 0);
      if (shape.size() == 2) {
        const bool isRow = axis == 0;
        steps = add<tile::ExpandDimsOp>(tileOf(isRow ? Shape{extent, 1} : Shape{1, extent}, i32()),
                                        steps, isRow ? 1u : 0u);
        steps = add<tile::BroadcastOp>(tileOf(shape, i32()), steps);
      }
      steps = add<arith::AddIOp>(steps, splat(offset, shape));
      at = add<tile::AddPtrOp>(at, add<arith::MulIOp>(steps, splat(view.strides[axis], shape)));
    }
    return add<cta::OfBlockOp>(at.getType(), at, base, view.extents, view.strides, offsets);
  }

  /// A pointer of the type that most have, or of another one.
  Value pointer() {
    auto type = tile::PtrType::get(element), other = tile::PtrType::get(otherElement);
    switch (pick(16)) {
    case 0:
      return add<arith::SelectOp>(condition(), find(type), find(type));
    case 1:
      return add<tile::IntToPtrOp>(
          other,
          add<tile::PtrToIntOp>(builder.getI64Type(), find(type)).getDefiningOp()->getResult(0));
    case 2:
      if (Value cast = find(other))
        return cast;
      return find(type);
    case 3:
      return loaded(tile::PtrType::get(type));
    case 4:
    case 5:
    case 6:
      return add<tile::AddPtrOp>(find(type), number());
    default:
      return pick(2) ? find(type) : Value(function.getArgument(pick(2)));
    }
  }

  /// A number, or a pointer, that is loaded.
  Value loaded(Type from) {
    Value address = add<tile::AddPtrOp>(find(from), number());
    return add<tile::LoadOp>(address);
  }

  Value pointers(const Shape &shape) {
    Type known = tileOf(shape, tile::PtrType::get(element));
    if (Value tile = find(known); tile && pick(2)) {
      if (pick(3))
        return tile;
      return add<tile::AddPtrOp>(tile, pick(2) ? indices(shape) : splat(number(), shape));
    }
    Value from = pointer();
    if (pick(6) == 0) {
      Value wide = add<arith::ExtSIOp>(tileOf(shape, builder.getI64Type()), indices(shape));
      return add<tile::AddPtrOp>(splat(from, shape), wide);
    }
    return add<tile::AddPtrOp>(splat(from, shape), indices(shape));
  }

  //===-- Operations --------------------------------------------------------------------------===//

  void addAccess() {
    Value at = pick(3) == 0 ? ofBlock() : pick(7) ? pointers(shapes[pick(2)]) : pointer();
    Type type = tile::withElementType(
        at.getType(), cast<tile::PtrType>(tile::elementType(at.getType())).getElement());
    unsigned kind = pick(16);
    bool atomic = kind < 2 && tile::elementType(type).getIntOrFloatBitWidth() >= 32;
    if (!atomic && kind < 9) {
      auto load = tile::LoadOp::create(builder, loc, at);
      if (kind == 3)
        load.setIsVolatile(true);
      else if (kind == 4 && isa<RankedTensorType>(type))
        load->setAttr("asynchronous", builder.getUnitAttr());
      return;
    }
    Value zero = arith::ConstantOp::create(builder, loc, builder.getZeroAttr(type));
    if (atomic)
      tile::AtomicRMWOp::create(builder, loc, type,
                                kind ? tile::AtomicKind::Add : tile::AtomicKind::Exchange, at, zero,
                                Value(), tile::Order::Relaxed, tile::Scope::Device, IntegerAttr());
    else
      tile::StoreOp::create(builder, loc, at, zero, Value());
  }

  // The same program with layouts, of which only those of the accesses matter.
  void assignLayouts() {
    function.walk([&](Operation *op) {
      if (!isa<tile::LoadOp, tile::StoreOp, tile::AtomicRMWOp>(op))
        return;
      auto type = dyn_cast<RankedTensorType>(op->getOperand(0).getType());
      if (!type)
        return;
      const Layout &layout = layouts[(type.getRank() - 1) * 3 + std::min(pick(3), pick(3))];
      builder.setInsertionPoint(op);
      auto block = op->getOperand(0).getDefiningOp<cta::OfBlockOp>();
      Value pointers = cta::ConvertLayoutOp::create(builder, loc, cta::withLayout(type, layout),
                                                    block ? block.getSource() : op->getOperand(0));
      if (block)
        pointers =
            cta::OfBlockOp::create(builder, loc, pointers.getType(), pointers, block.getBase(),
                                   block.getExtents(), block.getStrides(), block.getOffsets());
      op->setOperand(0, pointers);
    });
  }

  void addBlock(unsigned depth) {
    for (unsigned n = 2 + pick(4); n-- > 0;)
      switch (pick(depth ? 10 : 7)) {
      case 0:
        number();
        break;
      case 1:
        pick(3) ? pointers(shapes[pick(2)]) : loaded(tile::PtrType::get(i32()));
        break;
      case 7:
        addIf(depth - 1);
        break;
      case 8:
        pick(3) ? addFor(depth - 1) : addWhile(depth - 1);
        break;
      case 9:
        addFor(depth - 1);
        break;
      default:
        addAccess();
      }
  }

  /// Values that a loop starts with.
  SmallVector<Value> initial() {
    SmallVector<Value> result;
    for (unsigned n = pick(4); n-- > 0;) {
      Value value;
      if (unsigned kind = pick(6); kind == 0)
        value = number();
      else if (kind == 1)
        value = indices(shapes[pick(2)]);
      else if (kind < 4)
        value = find(tile::PtrType::get(element));
      else
        value = pointers(shapes[pick(2)]);
      result.push_back(value);
    }
    return result;
  }

  /// What a loop may add to the values that it carries; made before the loop.
  SmallVector<Value> steps(ArrayRef<Value> carried) {
    SmallVector<Value> result;
    for (Value value : carried) {
      ArrayRef<int64_t> shape = tile::shapeOf(value.getType());
      if (shape.empty())
        result.push_back(number());
      else if (unsigned kind = pick(4); kind == 0)
        result.push_back(indices(shape));
      else
        result.push_back(kind == 1 ? splat(number(), shape) : all(shape, constant()));
    }
    return result;
  }

  /// What a loop carries into the next iteration.
  Value next(Value carried, Value step) {
    ArrayRef<int64_t> shape = tile::shapeOf(carried.getType());
    switch (pick(8)) {
    case 0:
      return find(carried.getType());
    case 1:
      return carried;
    case 2: // differs from one iteration to the next
      step = shape.empty() ? number() : splat(number(), shape);
      break;
    default:
      break;
    }
    if (isa<tile::PtrType>(tile::elementType(carried.getType())))
      return add<tile::AddPtrOp>(carried, step);
    return pick(2) ? add<arith::AddIOp>(carried, step) : add<arith::AddIOp>(step, carried);
  }

  void addFor(unsigned depth) {
    Value lower = pick(2) ? number(constant()) : find(i32());
    Value step = pick(3) ? number(1 << pick(5)) : Value(function.getArgument(7));
    Value trips = number(1 + pick(4));
    Value upper = add<arith::AddIOp>(lower, add<arith::MulIOp>(step, trips));
    SmallVector<Value> inits = initial(), by = steps(inits);
    size_t outer = values.size();
    auto loop = scf::ForOp::create(builder, loc, lower, upper, step, inits);
    {
      OpBuilder::InsertionGuard guard(builder);
      builder.setInsertionPointToStart(loop.getBody());
      llvm::append_range(values, loop.getBody()->getArguments());
      addBlock(depth);
      SmallVector<Value> yielded;
      for (auto [carried, step] : llvm::zip_equal(loop.getRegionIterArgs(), by))
        yielded.push_back(next(carried, step));
      if (inits.empty())
        builder.setInsertionPointToEnd(loop.getBody());
      if (loop.getBody()->empty() || !loop.getBody()->back().hasTrait<OpTrait::IsTerminator>())
        scf::YieldOp::create(builder, loc, yielded);
    }
    values.resize(outer);
    llvm::append_range(values, loop.getResults());
  }

  void addWhile(unsigned depth) {
    Value limit = number(1 + pick(4));
    SmallVector<Value> inits = initial(), by = steps(inits);
    inits.insert(inits.begin(), number(0));
    size_t outer = values.size();
    auto types = ValueRange(inits).getTypes();
    SmallVector<Location> locations(inits.size(), loc);
    auto loop = scf::WhileOp::create(builder, loc, types, inits);
    {
      OpBuilder::InsertionGuard guard(builder);
      Block *before = builder.createBlock(&loop.getBefore(), {}, types, locations);
      llvm::append_range(values, before->getArguments());
      addBlock(0);
      Value more = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::slt,
                                         before->getArgument(0), limit);
      SmallVector<Value> passed{before->getArgument(0)};
      for (Value carried : before->getArguments().drop_front())
        passed.push_back(pick(2) ? carried : find(carried.getType()));
      scf::ConditionOp::create(builder, loc, more, passed);
      values.resize(outer);
      Block *after = builder.createBlock(&loop.getAfter(), {}, types, locations);
      llvm::append_range(values, after->getArguments());
      addBlock(depth);
      SmallVector<Value> yielded{add<arith::AddIOp>(after->getArgument(0), number(1))};
      for (auto [carried, step] : llvm::zip_equal(after->getArguments().drop_front(), by))
        yielded.push_back(next(carried, step));
      scf::YieldOp::create(builder, loc, yielded);
    }
    values.resize(outer);
    llvm::append_range(values, loop.getResults());
  }

  void addIf(unsigned depth) {
    SmallVector<Value> like = initial();
    auto branch = scf::IfOp::create(builder, loc, ValueRange(like).getTypes(), condition(), true);
    size_t outer = values.size();
    for (Block *block : {branch.thenBlock(), branch.elseBlock()}) {
      OpBuilder::InsertionGuard guard(builder);
      builder.setInsertionPointToStart(block);
      addBlock(depth);
      SmallVector<Value> yielded;
      for (Value value : like)
        yielded.push_back(find(value.getType()));
      if (block->empty() || !block->back().hasTrait<OpTrait::IsTerminator>())
        scf::YieldOp::create(builder, loc, yielded);
      values.resize(outer);
    }
    llvm::append_range(values, branch.getResults());
  }

  struct Answer {
    bool overlap = true, order = true;
  };

  test::Random &random;
  OpBuilder builder;
  Location loc;
  OwningOpRef<ModuleOp> module;
  func::FuncOp function;
  Type element, otherElement;
  std::vector<Shape> shapes;
  std::vector<Layout> layouts; ///< three for each shape
  std::vector<Value> values;   ///< in scope
  struct View {
    Value base;
    Shape shape; ///< of blocks
    SmallVector<Value> extents, strides;
  };
  std::vector<View> views;
  std::vector<int64_t> arguments;
  std::map<std::tuple<Operation *, Operation *, EndedIterations>, Answer> answers;
};

TEST(AddressClaims, HoldOnRandomPrograms) {
  test::Random random;
  unsigned claims = 0, apart = 0, own = 0;
  const unsigned programs = test::count(500, 500'000);
  for (unsigned i = 0; i < programs; ++i) {
    SCOPED_TRACE("program " + std::to_string(i));
    RandomProgram program(random);
    program.check();
    if (testing::Test::HasFatalFailure())
      return;
    claims += program.claims;
    apart += program.apart;
    own += program.own;
  }
  // The test would mean little if the analysis took everything to overlap.
  EXPECT_GT(apart, claims / 20);
  EXPECT_GT(own, claims / 50);
}

} // namespace
