// Addresses as sums of products: how they are found, and what the difference of two of them tells.
#include "passes/analysis/Addresses.h"
#include "mlir/IR/Matchers.h"
#include "passes/Kernel.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"
#include <numeric>

using namespace mlir;

namespace sectile {

namespace {

/// Products beyond which an address is taken as one value that nothing is known of.
constexpr size_t mostProducts = 24;
/// Coefficients beyond which an address is such a value too.
constexpr int64_t mostCoefficient = int64_t{1} << 48;
/// Bytes beyond which a product counts as unbounded: sums over the products of two addresses cannot
/// overflow then.
constexpr int64_t mostDistance = int64_t{1} << 56;

/// Loops from this one on share a bit.
constexpr unsigned lastLoop = 63;

/// Adds a · b times a product, or says that this is too much.
bool addTerm(Address &sum, const AddressProduct &product, int64_t a, int64_t b = 1) {
  int64_t more = 0;
  auto at = sum.try_emplace(product, 0).first;
  if (llvm::MulOverflow(a, b, more) || llvm::AddOverflow(at->second, more, at->second) ||
      at->second > mostCoefficient || at->second < -mostCoefficient)
    return false;
  if (!at->second)
    sum.erase(at);
  return true;
}

std::optional<Address> plus(Address a, const Address &b, int64_t times = 1) {
  for (auto &[product, coefficient] : b)
    if (!addTerm(a, product, coefficient, times))
      return std::nullopt;
  return a;
}

std::optional<Address> product(const Address &a, const Address &b) {
  Address result;
  for (auto &[x, xs] : a)
    for (auto &[y, ys] : b) {
      AddressProduct factors = x;
      factors.insert(factors.end(), y.begin(), y.end());
      llvm::sort(factors);
      if (!addTerm(result, factors, xs, ys))
        return std::nullopt;
    }
  return result;
}

/// The same values with axis i of the tile as axis to(i).
template <class To> Address withAxes(const Address &address, To to) {
  Address result;
  for (auto &[product, coefficient] : address) {
    AddressProduct factors = product;
    for (AddressFactor &factor : factors)
      for (int &axis : factor.axes)
        axis = axis < 0 ? axis : int(to(axis));
    llvm::sort(factors);
    addTerm(result, factors, coefficient);
  }
  return result;
}

/// A value as itself.
Address opaque(Value value) {
  AddressFactor factor;
  factor.value = value.getAsOpaquePointer();
  if (auto tile = dyn_cast<RankedTensorType>(value.getType()))
    for (auto [axis, extent] : llvm::enumerate(tile.getShape()))
      factor.axes.push_back(extent == 1 ? -1 : int(axis));
  return {{{factor}, 1}};
}

/// What begins as `start` and grows by `step` with every iteration.
std::optional<Address> fromStart(const Address &start, const Address &step, scf::ForOp loop) {
  AddressFactor counter;
  counter.value = loop.getInductionVar().getAsOpaquePointer();
  counter.isCounter = true;
  std::optional<Address> steps = product(step, {{{counter}, 1}});
  return steps ? plus(start, *steps) : std::nullopt;
}

AddressProduct indexAlong(int axis) {
  AddressFactor index;
  index.axes.push_back(axis);
  return {index};
}

bool hasAxes(const AddressProduct &product) {
  return llvm::any_of(product, [](const AddressFactor &factor) { return !factor.axes.empty(); });
}

/// The axis that a product is the index along, and nothing else.
std::optional<int> plainIndex(const AddressProduct &product) {
  if (product.size() == 1 && product.front().isIndex())
    return product.front().axes.front();
  return std::nullopt;
}

bool isDefinedIn(Operation *loop, Value value) {
  return loop->isProperAncestor(value.getParentBlock()->getParentOp()) ||
         loop == value.getParentBlock()->getParentOp();
}

} // namespace

AddressAnalysis::AddressAnalysis(func::FuncOp kernel) : kernel(kernel) {
  kernel.walk<WalkOrder::PreOrder>([&](Operation *op) {
    if (isa<LoopLikeOpInterface>(op))
      loopNumbers.try_emplace(op, std::min<unsigned>(loopNumbers.size(), lastLoop));
  });
  kernel.walk<WalkOrder::PreOrder>([&](LoopLikeOpInterface loop) {
    EndedIterations ended = 0;
    loop->walk([&](LoopLikeOpInterface inner) { ended |= bitOf(inner); });
    times.push_back(ended);
  });
}

EndedIterations AddressAnalysis::bitOf(Operation *loop) const {
  return EndedIterations{1} << loopNumbers.lookup(loop);
}

EndedIterations AddressAnalysis::loopsAround(Value value) const {
  EndedIterations loops = 0;
  for (Operation *op = value.getParentBlock()->getParentOp(); op; op = op->getParentOp())
    if (loopNumbers.contains(op))
      loops |= bitOf(op);
  return loops;
}

EndedIterations AddressAnalysis::loopsIn(const AddressProduct &product) const {
  EndedIterations loops = 0;
  for (const AddressFactor &factor : product)
    if (factor.value)
      loops |= loopsAround(Value::getFromOpaquePointer(factor.value));
  return loops;
}

//===-- Addresses ---------------------------------------------------------------------------===//

const Address &AddressAnalysis::addressOf(Value value) {
  void *key = value.getAsOpaquePointer();
  if (auto found = addresses.find(key); found != addresses.end())
    return found->second;
  std::optional<Address> address = infer(value);
  if (!address || address->size() > mostProducts)
    address = opaque(value);
  return addresses[key] = *std::move(address);
}

// What a loop adds to a value that it carries is the same in each iteration, or nothing is known.
std::optional<Address> AddressAnalysis::carried(scf::ForOp loop, unsigned index) {
  Value argument = loop.getRegionIterArgs()[index], at = loop.getYieldedValues()[index];
  std::optional<Address> step = Address();
  while (at != argument) {
    Operation *op = at.getDefiningOp();
    if (!op || !isa<tile::AddPtrOp, arith::AddIOp>(op))
      return std::nullopt;
    // A sum may have what is carried on either side, a pointer on the left.
    unsigned other = 1;
    if (isa<arith::AddIOp>(op) && !isDefinedIn(loop, op->getOperand(0)))
      other = 0;
    Value by = op->getOperand(other);
    if (isDefinedIn(loop, by))
      return std::nullopt;
    step =
        plus(*std::move(step), addressOf(by), isa<tile::AddPtrOp>(op) ? stepOf(at.getType()) : 1);
    if (!step)
      return std::nullopt;
    at = op->getOperand(1 - other);
  }
  return fromStart(addressOf(loop.getInitArgs()[index]), *step, loop);
}

// A value as itself where nothing better is returned.
std::optional<Address> AddressAnalysis::infer(Value value) {
  Type element = tile::elementType(value.getType());
  // Narrower numbers wrap.
  bool isNumber = element.isIndex() || element.isInteger(32) || element.isInteger(64);
  if (!isNumber && !isa<tile::PtrType>(element))
    return std::nullopt;
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    auto loop = dyn_cast<scf::ForOp>(argument.getOwner()->getParentOp());
    if (!loop)
      return std::nullopt;
    if (argument == loop.getInductionVar())
      return fromStart(addressOf(loop.getLowerBound()), addressOf(loop.getStep()), loop);
    return carried(loop, argument.getArgNumber() - 1);
  }
  Operation *op = value.getDefiningOp();
  auto operand = [&](unsigned i) -> const Address & { return addressOf(op->getOperand(i)); };
  return llvm::TypeSwitch<Operation *, std::optional<Address>>(op)
      .Case([&](arith::ConstantOp) -> std::optional<Address> {
        APInt number;
        if (!matchPattern(value, m_ConstantInt(&number)) || number.getSignificantBits() > 48)
          return std::nullopt;
        return plus({}, {{{}, number.getSExtValue()}});
      })
      .Case([&](tile::ArangeOp range) {
        Address index;
        if (range.getType().getDimSize(0) > 1)
          index = {{indexAlong(0), 1}};
        return plus(index, {{{}, int32_t(range.getStart())}});
      })
      .Case<tile::SplatOp, tile::BroadcastOp, tile::HintOp, cta::ConvertLayoutOp, cta::OfBlockOp,
            arith::ExtSIOp>([&](auto) { return operand(0); })
      .Case([&](tile::ExpandDimsOp expand) {
        return withAxes(operand(0),
                        [&](int axis) { return axis + (axis >= int(expand.getAxis())); });
      })
      .Case([&](tile::PermuteOp permute) {
        return withAxes(operand(0), [&](int axis) {
          return llvm::find(permute.getOrder(), axis) - permute.getOrder().begin();
        });
      })
      .Case([&](arith::AddIOp) { return plus(operand(0), operand(1)); })
      .Case([&](arith::SubIOp) { return plus(operand(0), operand(1), -1); })
      .Case([&](arith::MulIOp) { return product(operand(0), operand(1)); })
      // A flat index is the sum of the axes' indices, each times the extents after its axis.
      .Case([&](tile::ReshapeOp reshape) -> std::optional<Address> {
        if (reshape.getSource().getType().getRank() != 1)
          return std::nullopt;
        Address result;
        ArrayRef<int64_t> shape = reshape.getType().getShape();
        for (auto &[product, coefficient] : operand(0)) {
          if (!hasAxes(product)) {
            addTerm(result, product, coefficient);
            continue;
          }
          if (!plainIndex(product))
            return std::nullopt;
          int64_t stride = 1;
          for (int axis = shape.size(); axis-- > 0; stride *= shape[axis])
            if (shape[axis] > 1 && !addTerm(result, indexAlong(axis), coefficient, stride))
              return std::nullopt;
        }
        return result;
      })
      .Case([&](arith::ShLIOp) -> std::optional<Address> {
        APInt by;
        if (!matchPattern(op->getOperand(1), m_ConstantInt(&by)) || by.uge(32))
          return std::nullopt;
        return plus({}, operand(0), int64_t{1} << by.getZExtValue());
      })
      .Case([&](tile::AddPtrOp add) { return plus(operand(0), operand(1), stepOf(add.getType())); })
      .Default([](Operation *) { return std::nullopt; });
}

//===-- What pointers are made from ---------------------------------------------------------===//

ArrayRef<Value> AddressAnalysis::rootsOf(Value pointer) {
  if (auto found = roots.find(pointer); found != roots.end())
    return found->second;
  SmallVector<Value, 2> result;
  DenseSet<Value> seen;
  SmallVector<Value> work{pointer};
  bool anything = false;
  auto follow = [&](Value value) {
    if (seen.insert(value).second)
      work.push_back(value);
  };
  seen.insert(pointer);
  while (!work.empty() && !anything) {
    Value at = work.pop_back_val();
    if (auto argument = dyn_cast<BlockArgument>(at)) {
      Operation *parent = argument.getOwner()->getParentOp();
      unsigned number = argument.getArgNumber();
      if (parent == kernel.getOperation()) {
        result.push_back(argument);
      } else if (auto loop = dyn_cast<scf::ForOp>(parent)) {
        follow(loop.getInitArgs()[number - 1]);
        follow(loop.getYieldedValues()[number - 1]);
      } else if (auto loop = dyn_cast<scf::WhileOp>(parent)) {
        bool before = argument.getOwner() == loop.getBeforeBody();
        if (before)
          follow(loop.getInits()[number]);
        follow(before ? loop.getYieldOp().getOperand(number)
                      : loop.getConditionOp().getArgs()[number]);
      } else {
        anything = true;
      }
      continue;
    }
    Operation *op = at.getDefiningOp();
    unsigned number = cast<OpResult>(at).getResultNumber();
    if (auto loop = dyn_cast<scf::ForOp>(op)) {
      follow(loop.getInitArgs()[number]);
      follow(loop.getYieldedValues()[number]);
    } else if (auto loop = dyn_cast<scf::WhileOp>(op)) {
      follow(loop.getConditionOp().getArgs()[number]);
    } else if (auto branch = dyn_cast<scf::IfOp>(op)) {
      follow(branch.thenYield().getOperand(number));
      follow(branch.elseYield().getOperand(number));
    } else if (isa<cta::RecordOp>(op)) {
      result.push_back(op->getResult(0)); // its own memory, one for all its results
    } else {
      // Pointers that were loaded, or made from numbers, may point anywhere.
      bool moved = isMemoryEffectFree(op) && op->getNumRegions() == 0;
      anything = true;
      for (Value from : op->getOperands())
        if (moved && isa<tile::PtrType>(tile::elementType(from.getType()))) {
          follow(from);
          anything = false;
        }
    }
  }
  if (anything)
    result.clear();
  return roots[pointer] = std::move(result);
}

std::optional<Address> AddressAnalysis::addressOf(const ViewBlock &block) {
  tile::MakeViewOp view = block.view;
  std::optional<Address> address = addressOf(view.getPtr());
  for (auto [d, extent] : llvm::enumerate(block.shape())) {
    Address along;
    if (extent > 1)
      along = {{indexAlong(d), 1}};
    std::optional<Address> steps = plus(std::move(along), addressOf(block.offsets[d]));
    if (steps)
      steps = product(*steps, addressOf(view.getStrides()[d]));
    if (!address || !steps)
      return std::nullopt;
    address = plus(*std::move(address), *steps, cta::elementBytes(block.tile));
  }
  if (address && address->size() > mostProducts)
    return std::nullopt;
  return address;
}

std::optional<PlaceInView> AddressAnalysis::placeIn(Value base, ValueRange extents,
                                                    ValueRange strides, ValueRange offsets,
                                                    ArrayRef<int64_t> shape) {
  PlaceInView place;
  place.base = addressOf(base);
  for (Value size : llvm::concat<Value>(SmallVector<Value>(extents), SmallVector<Value>(strides))) {
    while (auto wider = size.getDefiningOp<arith::ExtSIOp>())
      size = wider.getIn();
    place.sizes.push_back(size);
  }
  for (auto [d, extent] : llvm::enumerate(shape)) {
    Address along;
    if (extent > 1)
      along = {{indexAlong(d), 1}};
    std::optional<Address> at = plus(std::move(along), addressOf(offsets[d]));
    if (!at)
      return std::nullopt;
    place.places.push_back(*std::move(at));
  }
  return place;
}

bool AddressAnalysis::areInOneView(const GlobalAccess &first, const GlobalAccess &second,
                                   EndedIterations ended) const {
  if (!first.inView || !second.inView || first.bytes != second.bytes ||
      first.inView->sizes != second.inView->sizes || first.inView->base != second.inView->base)
    return false;
  return llvm::all_of(first.inView->base,
                      [&](auto &term) { return !(loopsIn(term.first) & ended); });
}

/// The pointers that an access goes by, if it does.
static Value pointersOf(Operation *op) {
  return llvm::TypeSwitch<Operation *, Value>(op)
      .Case<tile::LoadOp, tile::StoreOp, tile::AtomicRMWOp, tile::AtomicCasOp, cta::AsyncCopyOp>(
          [](auto access) { return access.getPtr(); })
      .Default([](Operation *) { return Value(); });
}

std::optional<GlobalAccess> AddressAnalysis::accessOf(Operation *op) {
  GlobalAccess access;
  access.op = op;
  llvm::TypeSwitch<Operation *>(op)
      .Case<tile::LoadOp, tile::LoadBlockOp, cta::BufferLoadOp>([&](auto) {
        access.reads = true;
        access.once = isVolatileLoad(op);
      })
      .Case<tile::StoreOp, tile::StoreBlockOp, cta::BufferStoreOp>(
          [&](auto) { access.writes = access.once = true; })
      .Case([&](cta::TensorStoreBlockOp store) {
        access.writes = access.once = true;
        if (!store.getAdds())
          return;
        access.reads = true;
        access.commutes = tile::AtomicKind::FAdd;
      })
      .Case<cta::AsyncCopyOp, cta::AsyncCopyBlockOp>(
          [&](auto) { access.reads = access.asynchronous = true; })
      .Case<tile::AtomicRMWOp, tile::AtomicBlockOp>([&](auto atomic) {
        access.reads = access.writes = access.once = true;
        if (atomic.getKind() != tile::AtomicKind::Exchange)
          access.commutes = atomic.getKind();
      })
      .Case([&](tile::AtomicCasOp) { access.reads = access.writes = access.once = true; })
      .Case<tile::InlineAsmOp, tile::ExternCallOp>([&](auto call) {
        if (isMemoryEffectFree(call))
          return;
        access.reads = access.writes = true;
      });
  if (!access.reads && !access.writes)
    return std::nullopt;
  Type type;
  if (std::optional<ViewBlock> block = blockOf(op)) {
    type = block->tile;
    llvm::append_range(access.roots, rootsOf(block->view.getPtr()));
    std::optional<Address> address = addressOf(*block);
    if (!address)
      return access; // anywhere in what it is made from
    access.address = *std::move(address);
    access.bytes = cta::elementBytes(block->tile);
    if (hasDistinctElements(block->view))
      access.inView = placeIn(block->view.getPtr(), block->view.getExtents(),
                              block->view.getStrides(), block->offsets, block->shape());
  } else if (isa<cta::BufferLoadOp, cta::BufferStoreOp>(op)) {
    Value base = op->getOperand(0), offsets = op->getOperand(1);
    type = offsets.getType();
    llvm::append_range(access.roots, rootsOf(base));
    const int64_t step = stepOf(base.getType());
    std::optional<Address> address = plus(addressOf(base), addressOf(offsets), step);
    if (!address || address->size() > mostProducts)
      return access;
    access.address = *std::move(address);
    access.bytes = step;
  } else if (Value pointers = pointersOf(op)) {
    type = pointers.getType();
    llvm::append_range(access.roots, rootsOf(pointers));
    access.address = addressOf(pointers);
    access.bytes = stepOf(type);
  } else {
    return access;
  }
  access.shape = tile::shapeOf(type);
  Value goesBy =
      isa<cta::BufferLoadOp, cta::BufferStoreOp>(op) ? op->getOperand(1) : pointersOf(op);
  if (auto block = goesBy ? goesBy.getDefiningOp<cta::OfBlockOp>() : cta::OfBlockOp())
    access.inView = placeIn(block.getBase(), block.getExtents(), block.getStrides(),
                            block.getOffsets(), access.shape);
  const auto addLoops = [&](const Address &address) {
    for (auto &[product, coefficient] : address)
      access.loops |= loopsIn(product);
  };
  addLoops(access.address);
  if (access.inView) {
    addLoops(access.inView->base);
    llvm::for_each(access.inView->places, addLoops);
  }
  access.layout = cta::layoutOf(type);
  return access;
}

//===-- Comparison --------------------------------------------------------------------------===//

int64_t AddressAnalysis::divisorOf(const AddressProduct &product) {
  int64_t divisor = 1;
  for (const AddressFactor &factor : product) {
    if (!factor.value || factor.isCounter || !factor.axes.empty())
      continue;
    if (!contiguity)
      contiguity = std::make_unique<ContiguityAnalysis>(kernel);
    // Powers of two: the smaller one divides the greater one.
    const int64_t more = (*contiguity)[Value::getFromOpaquePointer(factor.value)][0].divisibility;
    divisor = more > mostCoefficient / divisor ? mostCoefficient : divisor * more;
  }
  return divisor;
}

/// The second address less the first one, of any two elements: `constant`, and what is indexed in
/// `least` … `most`, and either nothing else, or `step` times 1, 2, …, or a multiple of `divisor`.
struct AddressAnalysis::Distance {
  bool bounded = true; ///< least and most are known
  bool sameIndices = true;
  int64_t constant = 0, least = 0, most = 0, step = 0, divisor = 0;
  int64_t low = 0, high = 0; ///< where they meet: what is not indexed is from low to high

  bool mayMeet() const { return !bounded || canBeIn(low, high); }
  /// Whether elements with other indices may meet. Else those that meet have the same ones.
  bool mayMeetElsewhere() const { return !bounded || !sameIndices || canBeIn(low, high, 0); }

  /// Whether what is not indexed can be in an interval, `except` one number of it.
  bool canBeIn(int64_t low, int64_t high, std::optional<int64_t> except = std::nullopt) const {
    if (!step && !divisor)
      return low <= constant && constant <= high && constant != except;
    // Numbers that count down are those that count up, seen from the other side.
    int64_t sign = step < 0 ? -1 : 1, by = step ? std::abs(step) : divisor;
    if (sign < 0)
      std::tie(low, high) = std::pair(-high, -low);
    int64_t value = sign * constant + llvm::divideCeilSigned(low - sign * constant, by) * by;
    if (step)
      value = std::max(value, sign * constant + by);
    if (except && value == sign * *except)
      value += by;
    return value <= high;
  }
};

AddressAnalysis::Distance AddressAnalysis::distance(const Side &first, const Side &second,
                                                    EndedIterations ended) {
  Distance result;
  int64_t divisor = 0;
  unsigned others = 0;
  auto multiples = [&](const AddressProduct &product, int64_t coefficient) {
    int64_t multiple = 0;
    if (llvm::MulOverflow(coefficient, divisorOf(product), multiple) || multiple > mostDistance ||
        multiple < -mostDistance)
      multiple = coefficient;
    divisor = std::gcd(divisor, multiple);
    ++others;
  };
  auto bound = [&](const Side &access, const AddressProduct &product, int64_t coefficient) {
    std::optional<int> axis = plainIndex(product);
    int64_t reach = 0;
    if (!axis || llvm::MulOverflow(coefficient, access.shape[*axis] - 1, reach) ||
        reach > mostDistance || reach < -mostDistance) {
      result.bounded = false;
      return;
    }
    (reach < 0 ? result.least : result.most) += reach;
  };
  auto visit = [&](const AddressProduct &product, int64_t before, int64_t after) {
    EndedIterations changed = loopsIn(product) & ended;
    if (hasAxes(product)) {
      result.sameIndices &= before == after && !changed;
      if (after)
        bound(second, product, after);
      if (before)
        bound(first, product, -before);
      return;
    }
    if (product.empty()) {
      result.constant = after - before;
    } else if (!changed) {
      if (before != after)
        multiples(product, after - before);
    } else if (product.size() == 1 && product.front().isCounter && before == after &&
               changed != EndedIterations{1} << lastLoop &&
               changed == bitOf(Value::getFromOpaquePointer(product.front().value)
                                    .getParentBlock()
                                    ->getParentOp())) {
      // The loop itself went on, and none around it.
      multiples(product, after);
      result.step = after;
    } else {
      if (before)
        multiples(product, before);
      if (after)
        multiples(product, after);
    }
  };
  auto at = first.address.begin(), atEnd = first.address.end();
  auto to = second.address.begin(), toEnd = second.address.end();
  while (at != atEnd || to != toEnd)
    if (to == toEnd || (at != atEnd && at->first < to->first)) {
      visit(at->first, at->second, 0);
      ++at;
    } else if (at == atEnd || to->first < at->first) {
      visit(to->first, 0, to->second);
      ++to;
    } else {
      visit(at->first, at->second, to->second);
      ++at;
      ++to;
    }
  if (result.step && others == 1)
    divisor = 0;
  else
    result.step = 0;
  result.divisor = others ? std::max<int64_t>(divisor, result.step ? 0 : 1) : 0;
  result.low = -result.most - second.bytes + 1;
  result.high = -result.least + first.bytes - 1;
  return result;
}

AddressAnalysis::Distance AddressAnalysis::distanceAlong(unsigned dim, const GlobalAccess &first,
                                                         const GlobalAccess &second,
                                                         EndedIterations ended) {
  constexpr int64_t oneElement = 1;
  return distance({first.inView->places[dim], first.shape, oneElement},
                  {second.inView->places[dim], second.shape, oneElement}, ended);
}

bool AddressAnalysis::mayOverlap(const GlobalAccess &first, const GlobalAccess &second,
                                 EndedIterations ended) {
  bool anything = first.roots.empty() || second.roots.empty();
  if (!anything && llvm::none_of(first.roots, [&](Value root) {
        return llvm::is_contained(second.roots, root);
      }))
    return false;
  if (!first.bytes || !second.bytes)
    return true;
  if (!distance(sideOf(first), sideOf(second), ended).mayMeet())
    return false;
  if (!areInOneView(first, second, ended))
    return true;
  for (unsigned dim = 0; dim < first.inView->places.size(); ++dim)
    if (!distanceAlong(dim, first, second, ended).mayMeet())
      return false;
  return true;
}

bool AddressAnalysis::mayEverOverlap(const GlobalAccess &first, const GlobalAccess &second) {
  return llvm::any_of(times, [&](EndedIterations ended) {
    return mayOverlap(first, second, ended) || mayOverlap(second, first, ended);
  });
}

bool AddressAnalysis::mayBeWritten(Operation *load) {
  const std::optional<GlobalAccess> read = accessOf(load);
  return anyIn(kernel, [&](Operation *op) {
    const std::optional<GlobalAccess> access = accessOf(op);
    return access && access->writes && (!read || mayEverOverlap(*access, *read));
  });
}

bool AddressAnalysis::mayShareArgument(Operation *load) {
  SmallVector<Value, 2> read;
  if (std::optional<ViewBlock> block = blockOf(load))
    llvm::append_range(read, rootsOf(block->view.getPtr()));
  else if (Value pointers = pointersOf(load))
    llvm::append_range(read, rootsOf(pointers));
  return anyIn(kernel, [&](Operation *op) {
    const std::optional<GlobalAccess> access = accessOf(op);
    return access && access->writes &&
           (read.empty() || access->roots.empty() || llvm::any_of(access->roots, [&](Value root) {
              return llvm::is_contained(read, root);
            }));
  });
}

/// Whether no two elements of a tile of pointers share a byte; its indices' reach is bounded.
static bool isInjective(const GlobalAccess &access) {
  SmallVector<std::pair<int64_t, int64_t>> strides; // and extents
  unsigned axes = 0;
  for (auto &[product, coefficient] : access.address) {
    if (!hasAxes(product))
      continue;
    std::optional<int> axis = plainIndex(product);
    if (!axis)
      return false;
    strides.push_back({std::abs(coefficient), access.shape[*axis]});
  }
  for (int64_t extent : access.shape)
    axes += extent > 1;
  if (strides.size() != axes)
    return false;
  llvm::sort(strides);
  int64_t reach = access.bytes;
  for (auto [stride, extent] : strides) {
    if (stride < reach)
      return false;
    reach += stride * (extent - 1);
  }
  return true;
}

/// Whether elements at the same place of both tiles are accessed by the same one thread.
static bool inTheSameThreads(const GlobalAccess &a, const GlobalAccess &b) {
  if (a.asynchronous || b.asynchronous)
    return false;
  bool once = a.once && b.once;
  if (!a.layout || !b.layout)
    return once && a.shape.empty() && b.shape.empty(); // all have a scalar, the first stores it
  return *a.layout == *b.layout &&
         (once || (a.layout->freeBits(In::Lane) == 0 && a.layout->freeBits(In::Warp) == 0));
}

bool AddressAnalysis::needsOrder(const GlobalAccess &first, const GlobalAccess &second,
                                 EndedIterations ended) {
  if ((!first.writes && !second.writes) || (first.commutes && first.commutes == second.commutes) ||
      !mayOverlap(first, second, ended))
    return false;
  if (!first.bytes || first.bytes != second.bytes || first.shape != second.shape ||
      !inTheSameThreads(first, second))
    return true;
  // Scalars are one thread's wherever they are; tiles where elements that meet have one place.
  if (!first.layout)
    return false;
  if (!distance(sideOf(first), sideOf(second), ended).mayMeetElsewhere() && isInjective(first))
    return false;
  if (!areInOneView(first, second, ended))
    return true;
  for (unsigned dim = 0; dim < first.inView->places.size(); ++dim)
    if (distanceAlong(dim, first, second, ended).mayMeetElsewhere())
      return true;
  return false;
}

} // namespace sectile
