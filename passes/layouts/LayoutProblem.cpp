// Builds the problem: cheap tiles, nodes, and what layouts mean along the edges between them.
#include "passes/layouts/LayoutProblem.h"
#include "ir/layout/Costs.h"
#include "passes/Kernel.h"
#include "passes/analysis/LayoutRules.h"
#include "passes/analysis/SharedMemory.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace sectile {

static bool isTile(Value value) { return isa<RankedTensorType>(value.getType()); }

unsigned LayoutTable::idOf(const Layout &layout) {
  auto [entry, isNew] = ids.try_emplace(layout, layouts.size());
  if (isNew)
    layouts.push_back(&entry->first);
  return entry->second;
}

// How often an operation runs, against the kernel's top level.
static double weightOf(Operation *op) {
  double weight = 1;
  for (Operation *parent = op->getParentOp(); parent; parent = parent->getParentOp()) {
    if (isa<LoopLikeOpInterface>(parent))
      weight *= 10;
    else if (isa<scf::IfOp>(parent))
      weight /= 2;
  }
  return weight;
}

static double weightOf(Value value) {
  if (Operation *op = value.getDefiningOp())
    return weightOf(op);
  return weightOf(&value.getParentBlock()->front());
}

LayoutProblem::LayoutProblem(func::FuncOp kernel, const Target &target)
    : kernel(kernel), costs(target, kernel) {
  findCheapTiles();
  addNodes();
}

// Instructions per element to make a tile from scalars, beyond which it is computed once.
static constexpr unsigned cheapLimit = 40;

// A row that masks others on both sides of a loop with dots: it is converted itself, where it is
// not cheap, as the mask would take registers beside the loop's.
static bool isRowOfMask(Operation *op) {
  auto expand = dyn_cast<tile::ExpandDimsOp>(op);
  if (!expand || cast<RankedTensorType>(expand.getSource().getType()).getRank() != 1 ||
      !tile::elementType(expand.getType()).isInteger(1))
    return false;
  for (Operation *later = op->getNextNode(); later; later = later->getNextNode())
    if (isa<LoopLikeOpInterface>(later) && anyIn(later, [](cta::DotOp) { return true; }))
      return !op->getParentOfType<LoopLikeOpInterface>();
  return false;
}

void LayoutProblem::findCheapTiles() {
  llvm::DenseMap<Value, unsigned> effort;
  kernel.walk<WalkOrder::PreOrder>([&](Operation *op) {
    if (op->getNumResults() != 1 || !isTile(op->getResult(0)) || op->getNumRegions() > 0)
      return;
    bool isSimple =
        isa<tile::ArangeOp, tile::SplatOp, tile::ExpandDimsOp, tile::BroadcastOp, tile::PermuteOp,
            tile::AddPtrOp, tile::HintOp, tile::MinimumNumberOp, tile::MaximumNumberOp>(op) ||
        (isa<tile::ReshapeOp>(op) && staysInThreads(cast<tile::ReshapeOp>(op))) ||
        (isa<arith::ArithDialect>(op->getDialect()) &&
         !isa<arith::DivSIOp, arith::DivUIOp, arith::RemSIOp, arith::RemUIOp, arith::DivFOp>(op));
    if (!isSimple)
      return;
    const bool isRow = isRowOfMask(op);
    unsigned total = 1;
    for (Value operand : op->getOperands())
      if (isTile(operand)) {
        auto known = effort.find(operand);
        if (known != effort.end())
          total += known->second;
        else if (!isRow)
          return;
      }
    if (total > cheapLimit)
      return;
    effort[op->getResult(0)] = total;
    cheap.insert(op->getResult(0));
  });
}

void LayoutProblem::addCarried(ArrayRef<Value> values, ArrayRef<OpOperand *> operands,
                               double weight) {
  if (!isTile(values.front()))
    return;
  Node node;
  node.values.assign(values.begin(), values.end());
  node.operands.assign(operands.begin(), operands.end());
  node.weight = weight;
  for (Value value : values)
    producer[value] = nodes.size();
  for (OpOperand *operand : operands)
    consumer[operand] = nodes.size();
  nodes.push_back(std::move(node));
}

void LayoutProblem::addNodes() {
  kernel.walk<WalkOrder::PreOrder>([&](Operation *op) {
    double weight = weightOf(op);
    if (auto loop = dyn_cast<scf::ForOp>(op)) {
      for (auto [init, argument, yielded, result] :
           llvm::zip(loop.getInitArgsMutable(), loop.getRegionIterArgs(),
                     *loop.getYieldedValuesMutable(), loop.getResults()))
        addCarried({argument, result}, {&init, &yielded}, weight);
      return;
    }
    if (auto loop = dyn_cast<scf::WhileOp>(op)) {
      for (auto [init, argument, yielded] :
           llvm::zip(loop.getInitsMutable(), loop.getBeforeArguments(),
                     loop.getYieldOp().getResultsMutable()))
        addCarried({argument}, {&init, &yielded}, weight);
      for (auto [passed, argument, result] : llvm::zip(loop.getConditionOp().getArgsMutable(),
                                                       loop.getAfterArguments(), loop.getResults()))
        addCarried({argument, result}, {&passed}, weight);
      return;
    }
    if (auto branch = dyn_cast<scf::IfOp>(op)) {
      if (op->getNumResults() > 0)
        for (auto [result, then, otherwise] :
             llvm::zip(branch.getResults(), branch.thenYield().getResultsMutable(),
                       branch.elseYield().getResultsMutable()))
          addCarried({result}, {&then, &otherwise}, weight);
      return;
    }
    if (op->hasTrait<OpTrait::IsTerminator>() ||
        (op->getNumResults() == 1 && isCheap(op->getResult(0))))
      return;
    Node node;
    node.op = op;
    node.weight = weight;
    for (Value result : op->getResults())
      if (isTile(result))
        node.values.push_back(result);
    for (OpOperand &operand : op->getOpOperands())
      if (isTile(operand.get()))
        node.operands.push_back(&operand);
    if (node.values.empty() && node.operands.empty())
      return;
    for (Value value : node.values)
      producer[value] = nodes.size();
    for (OpOperand *operand : node.operands)
      consumer[operand] = nodes.size();
    if (auto dot = dyn_cast<cta::DotOp>(op))
      node.onlyProposals = dot.getInstruction().has_value();
    else if (auto alongK = dyn_cast<cta::AlongKOp>(op))
      node.onlyProposals = !alongK.getStays();
    nodes.push_back(std::move(node));
  });
}

const Layout &LayoutProblem::layoutOf(Value tile) {
  unsigned node = producer.lookup(tile);
  return table[valueLayout(node, nodes[node].layout)];
}

const Layout *LayoutProblem::required(OpOperand &operand) {
  auto owner = consumer.find(&operand);
  if (owner == consumer.end())
    return nullptr;
  unsigned id = operandLayoutOf(operand, owner->second, nodes[owner->second].layout);
  return id == none ? nullptr : &table[id];
}

unsigned LayoutProblem::valueLayout(unsigned node, unsigned layout) {
  Operation *op = nodes[node].op;
  if (auto histogram = dyn_cast_or_null<tile::HistogramOp>(op))
    return table.idOf(plain(histogram.getType(), histogram));
  auto reduce = dyn_cast_or_null<tile::ReduceOp>(op);
  if (!reduce)
    return layout;
  auto [entry, isNew] = reducedMemo.try_emplace({layout, reduce.getAxis()}, none);
  if (isNew) {
    unsigned id = table.idOf(table[layout].squeeze(reduce.getAxis()).withoutDuplicateRegisters());
    reducedMemo[{layout, reduce.getAxis()}] = id;
    return id;
  }
  return entry->second;
}

bool LayoutProblem::takesOwnLayout(Operation *op) {
  return op && isa<tile::ReduceOp, tile::HistogramOp, tile::StoreOp, tile::StoreBlockOp,
                   cta::AllocOp, cta::LocalStoreOp>(op);
}

unsigned LayoutProblem::operandLayoutOf(OpOperand &operand, unsigned node, unsigned layout) {
  Operation *op = nodes[node].op;
  if (!op || takesOwnLayout(op))
    return layout;
  auto [entry, isNew] = requiredMemo.try_emplace({&operand, layout}, none);
  if (!isNew)
    return entry->second;
  std::optional<Layout> required = sectile::operandLayout(operand, table[layout]);
  unsigned id = required ? table.idOf(*required) : none;
  requiredMemo[{&operand, layout}] = id;
  return id;
}

unsigned LayoutProblem::followingLayout(OpOperand &operand, unsigned node, unsigned layout) {
  Operation *op = nodes[node].op;
  if (!op || takesOwnLayout(op))
    return layout;
  std::optional<Layout> following = resultLayout(op, operand, table[layout]);
  return following ? table.idOf(*following) : none;
}

bool LayoutProblem::accepts(const Node &node, unsigned layout) const {
  if (layout == none || (node.op && !canRunIn(node.op, table[layout])))
    return false;
  return !node.onlyProposals || llvm::is_contained(node.proposals, layout);
}

double LayoutProblem::costOfNode(unsigned index, unsigned layout) {
  Node &node = nodes[index];
  if (!node.op)
    return 0;
  auto [entry, isNew] = node.costs.try_emplace(layout, 0);
  if (isNew)
    entry->second = node.weight * costs.of(node.op, table[layout]);
  return entry->second;
}

double LayoutProblem::costOfConversion(unsigned from, unsigned to, unsigned bits,
                                       unsigned spareBytes) {
  auto [entry, isNew] = conversionMemo.try_emplace({from, to, bits, spareBytes}, 0);
  if (isNew)
    entry->second = costs.ofConversion(table[from], table[to], bits, spareBytes);
  return entry->second;
}

double LayoutProblem::costOfValue(Value value) {
  unsigned node = producer.lookup(value);
  unsigned layout = valueLayout(node, nodes[node].layout);
  ++weighed;
  const Wishes &all = wishes[valueNumbers.lookup(value)];
  // Each layout once, by the first of those that want it.
  SmallVector<std::pair<unsigned, unsigned>, 4> wanted;
  for (auto &[id, users] : all.usesOf)
    wanted.push_back({*users.begin(), id});
  llvm::sort(wanted);
  double cost = 0;
  for (auto [first, id] : wanted) {
    const auto &[operand, ahead, mayStay, alongK] = all.uses[first];
    if (alongK)
      continue;
    if (id == layout)
      cost += ahead ? cycles::exposedLatency : 0;
    else
      cost += costOfConversion(layout, id, cta::elementBits(value.getType()),
                               costs.spareBytesFor(value)) *
              (ahead || mayStay ? 0.5 : 1);
  }
  return cost ? cost * weightOf(value) : 0;
}

void LayoutProblem::noteWishes() {
  if (wishes.empty())
    for (Node &node : nodes)
      for (Value value : node.values) {
        node.around.push_back(valueNumbers[value] = wishes.size());
        Wishes &all = wishes.emplace_back();
        for (OpOperand &use : value.getUses())
          if (consumer.contains(&use)) {
            useNumbers[&use] = all.uses.size();
            all.uses.push_back(
                {&use, costs.canGoAhead(use), costs.mayStay(use), costs.isReadAlongK(use)});
            const Use &first = all.uses.front(), &last = all.uses.back();
            all.isMixed |= last.canGoAhead != first.canGoAhead || last.mayStay != first.mayStay ||
                           last.isReadAlongK != first.isReadAlongK;
          }
      }
  for (Node &node : nodes)
    for (OpOperand *operand : node.operands)
      if (auto number = valueNumbers.find(operand->get());
          number != valueNumbers.end() && !llvm::is_contained(node.around, number->second))
        node.around.push_back(number->second);
  for (Wishes &all : wishes) {
    all.usesOf.clear();
    ++all.state;
    for (auto [number, use] : llvm::enumerate(all.uses)) {
      const unsigned user = consumer.lookup(use.operand);
      if (unsigned id = operandLayoutOf(*use.operand, user, nodes[user].layout); id != none)
        all.usesOf[id].insert(number);
    }
  }
}

void LayoutProblem::setLayout(unsigned index, unsigned layout) {
  Node &node = nodes[index];
  for (OpOperand *operand : node.operands) {
    auto number = useNumbers.find(operand);
    if (number == useNumbers.end())
      continue;
    const unsigned before = operandLayoutOf(*operand, index, node.layout),
                   after = operandLayoutOf(*operand, index, layout);
    if (before == after)
      continue;
    auto &usesOf = wishes[valueNumbers.lookup(operand->get())].usesOf;
    if (before != none) {
      auto users = usesOf.find(before);
      users->second.erase(number->second);
      if (users->second.empty())
        usesOf.erase(users);
    }
    if (after != none)
      usesOf[after].insert(number->second);
  }
  node.layout = layout;
}

void LayoutProblem::moveTo(unsigned index, unsigned layout) {
  Node &node = nodes[index];
  // What another user gains depends on whether it is alone in what it wants or may come to want.
  const auto change = [&](Wishes &all, unsigned id) {
    auto users = all.usesOf.find(id);
    const size_t count = users == all.usesOf.end() ? 0 : users->second.size();
    all.state += count <= 2 || all.isMixed;
  };
  const unsigned old = node.layout;
  setLayout(index, layout);
  for (Value value : node.values)
    ++wishes[valueNumbers.lookup(value)].state;
  for (OpOperand *operand : node.operands) {
    if (!useNumbers.contains(operand))
      continue;
    Wishes &all = wishes[valueNumbers.lookup(operand->get())];
    const unsigned before = operandLayoutOf(*operand, index, old),
                   after = operandLayoutOf(*operand, index, layout);
    if (before == after)
      continue;
    change(all, before);
    change(all, after);
  }
}

uint64_t LayoutProblem::stateAround(unsigned index) const {
  // States only grow, so the sum is the same only where each is.
  uint64_t sum = 0;
  for (unsigned number : nodes[index].around)
    sum += wishes[number].state;
  return sum;
}

double LayoutProblem::costAround(unsigned index) {
  const Node &node = nodes[index];
  SmallVector<Value, 8> values(node.values.begin(), node.values.end());
  for (OpOperand *operand : node.operands)
    if (!isCheap(operand->get()) && !llvm::is_contained(values, operand->get()))
      values.push_back(operand->get());
  double cost = costOfNode(index, node.layout);
  for (Value value : values)
    cost += costOfValue(value);
  return cost;
}

double LayoutProblem::gain(unsigned index, unsigned layout) {
  unsigned old = nodes[index].layout;
  double before = costAround(index);
  setLayout(index, layout);
  double after = costAround(index);
  setLayout(index, old);
  return before - after;
}

double LayoutProblem::totalCost() {
  double total = 0;
  for (unsigned index = 0; index < nodes.size(); ++index) {
    total += costOfNode(index, nodes[index].layout);
    for (Value value : nodes[index].values)
      total += costOfValue(value);
  }
  return total;
}

SmallVector<unsigned, 8> LayoutProblem::neighbours(unsigned index) const {
  llvm::SmallSetVector<unsigned, 8> result;
  auto add = [&](unsigned other) {
    if (other != index)
      result.insert(other);
  };
  for (OpOperand *operand : nodes[index].operands)
    if (auto found = producer.find(operand->get()); found != producer.end())
      add(found->second);
  for (Value value : nodes[index].values)
    for (OpOperand &use : value.getUses())
      if (auto found = consumer.find(&use); found != consumer.end())
        add(found->second);
  return result.takeVector();
}

} // namespace sectile
