// The search for the cheapest layouts. Every proposal of a memory access or a dot, followed through
// the operations it reaches, is a label; growing a label's region node by node, uphill for a while,
// moves whole components together where single nodes would be stuck.
#include "passes/layouts/LayoutProblem.h"
#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Sequence.h"
#include <deque>

using namespace mlir;

namespace sectile {

// Differences below this are rounding.
static constexpr double epsilon = 1e-6;
// Steps uphill before a label's growth gives up. The addresses that a convolution loads from are
// made by some twenty operations in a loop, which gain together only.
static constexpr unsigned maxUphill = 100;
static constexpr unsigned maxRounds = 8;
// Fragments beyond this would not fit a thread's registers many times over.
static constexpr unsigned maxRegisters = 1024;

// With registers that hold what lies between neighbouring lanes shared out among the lanes that
// hold the same, so that each thread has a part of what it had: a reduction's result, or what is
// broadcast along rows, is in many lanes, and would be stored or loaded a register at a time.
static Layout withoutGaps(const Layout &layout) {
  const Layout lean = layout.withoutDuplicateRegisters();
  Layout::PackedBases bases = lean.packedBases();
  auto &registers = bases[unsigned(In::Register)], &lanes = bases[unsigned(In::Lane)];
  const uint32_t free = lean.freeBits(In::Lane);
  uint32_t farthest = 0;
  for (uint32_t lane : lanes)
    farthest = std::max(farthest, lane);
  for (unsigned bit = 0; bit < lanes.size(); ++bit)
    if (free >> bit & 1 && !registers.empty() && registers.front() < farthest) {
      lanes[bit] = registers.front();
      registers.erase(registers.begin());
    }
  return Layout::fromPacked(Layout::Kind::Distributed, layout.shape(), bases);
}

void LayoutProblem::addLabel(unsigned seed, unsigned layout) {
  // An earlier label says the same; but one that reached a dot on its way may have come from
  // elsewhere to what the dot adds to, and given that another layout.
  if (llvm::is_contained(nodes[seed].candidates, layout) &&
      !isa_and_nonnull<cta::DotOp>(nodes[seed].op))
    return;
  Label label{seed, std::vector<unsigned>(nodes.size(), none)};
  label.layouts[seed] = layout;
  std::deque<unsigned> reached{seed};
  auto reach = [&](unsigned index, unsigned id) {
    if (label.layouts[index] != none || !accepts(nodes[index], id) ||
        table[id].numRegisters() > maxRegisters)
      return;
    label.layouts[index] = id;
    reached.push_back(index);
  };
  for (; !reached.empty(); reached.pop_front()) {
    unsigned index = reached.front(), id = label.layouts[index];
    Node &node = nodes[index];
    auto addCandidate = [&](unsigned candidate) {
      if (!llvm::is_contained(node.candidates, candidate))
        node.candidates.push_back(candidate);
    };
    addCandidate(id);
    if (isa_and_nonnull<tile::LoadOp, tile::LoadBlockOp, tile::StoreOp, tile::StoreBlockOp>(
            node.op))
      addCandidate(table.idOf(withoutGaps(table[id])));
    for (OpOperand *operand : node.operands) {
      auto found = producer.find(operand->get());
      if (found == producer.end())
        continue;
      // The layout of what is reduced does not follow from the result's.
      if (!takesOwnLayout(nodes[found->second].op))
        reach(found->second, operandLayoutOf(*operand, index, id));
    }
    for (Value value : node.values) {
      unsigned own = valueLayout(index, id);
      for (OpOperand &use : value.getUses())
        if (auto found = consumer.find(&use); found != consumer.end())
          reach(found->second, followingLayout(use, found->second, own));
    }
  }
  labels.push_back(std::move(label));
}

void LayoutProblem::propose() {
  for (Node &node : nodes)
    if (node.op)
      for (const Layout &layout : costs.proposals(node.op))
        if (unsigned id = table.idOf(layout); !llvm::is_contained(node.proposals, id))
          node.proposals.push_back(id);
  // Dots first, then what runs most.
  auto order = llvm::to_vector(llvm::seq<unsigned>(0, nodes.size()));
  llvm::sort(order, [&](unsigned a, unsigned b) {
    auto key = [&](unsigned index) {
      const Node &node = nodes[index];
      return std::tuple(!isa_and_nonnull<cta::DotOp>(node.op), -node.weight, index);
    };
    return key(a) < key(b);
  });
  const auto addLabels = [&](llvm::ArrayRef<unsigned> indices) {
    for (unsigned index : indices)
      for (unsigned id : nodes[index].proposals)
        addLabel(index, id);
  };
  const size_t dots =
      llvm::count_if(nodes, [](const Node &node) { return isa_and_nonnull<cta::DotOp>(node.op); });
  addLabels(llvm::ArrayRef(order).take_front(dots));
  llvm::BitVector isOfDots(nodes.size());
  for (auto [index, node] : llvm::enumerate(nodes))
    if (!node.candidates.empty())
      isOfDots.set(index);
  addLabels(llvm::ArrayRef(order).drop_front(dots));
  for (unsigned index : order)
    if (nodes[index].candidates.empty()) {
      const Node &node = nodes[index];
      Value tile = takesOwnLayout(node.op) || node.values.empty() ? node.operands.front()->get()
                                                                  : node.values.front();
      Operation *op = node.op ? node.op : node.operands.front()->getOwner();
      addLabel(index, table.idOf(plain(cast<RankedTensorType>(tile.getType()), op)));
    }
  // A tile of pairs is larger than what was loaded: in the layouts of that, threads that share a
  // row or a column would all compute the same pairs. Those of a dot are chosen for it.
  for (unsigned index : order) {
    Node &node = nodes[index];
    auto broadcast = dyn_cast_or_null<tile::BroadcastOp>(node.op);
    if (!broadcast || isOfDots[index])
      continue;
    const Layout spread = plain(broadcast.getType(), broadcast);
    if (llvm::all_of(node.candidates,
                     [&](unsigned id) { return table[id].numRegisters() > spread.numRegisters(); }))
      addLabel(index, table.idOf(spread));
  }
}

// A start: every node takes the first (or last) label that reaches it.
void LayoutProblem::choose(bool reversed) {
  for (auto [index, node] : llvm::enumerate(nodes)) {
    node.layout = none;
    auto take = [&](const Label &label) {
      if (node.layout == none)
        node.layout = label.layouts[index];
    };
    if (reversed)
      llvm::for_each(llvm::reverse(labels), take);
    else
      llvm::for_each(labels, take);
  }
  noteWishes();
}

bool LayoutProblem::improveOne(unsigned index) {
  double best = epsilon;
  unsigned bestLayout = none;
  for (unsigned id : nodes[index].candidates)
    if (id != nodes[index].layout)
      if (double found = gain(index, id); found > best) {
        best = found;
        bestLayout = id;
      }
  if (bestLayout == none)
    return false;
  moveTo(index, bestLayout);
  return true;
}

bool LayoutProblem::grow(const Label &label) {
  std::vector<std::pair<unsigned, unsigned>> moved; // node, its layout before
  SmallVector<unsigned, 16> frontier;
  std::vector<bool> isInFrontier(nodes.size());
  // By the state that they were found in; no state is 0.
  std::vector<std::pair<uint64_t, double>> gains(nodes.size());
  auto addFrontier = [&](unsigned index) {
    for (unsigned other : neighbours(index))
      if (label.layouts[other] != none && nodes[other].layout != label.layouts[other] &&
          !isInFrontier[other]) {
        isInFrontier[other] = true;
        frontier.push_back(other);
      }
  };
  double total = 0, best = 0;
  size_t bestLength = 0;
  auto move = [&](unsigned index, double gained) {
    moved.push_back({index, nodes[index].layout});
    moveTo(index, label.layouts[index]);
    total += gained;
    if (total > best + epsilon) {
      best = total;
      bestLength = moved.size();
    }
    addFrontier(index);
  };
  for (unsigned index = 0; index < nodes.size(); ++index)
    if (nodes[index].layout == label.layouts[index])
      addFrontier(index);
  if (nodes[label.seed].layout != label.layouts[label.seed])
    move(label.seed, gain(label.seed, label.layouts[label.seed]));
  llvm::erase(frontier, label.seed);
  isInFrontier[label.seed] = false;
  for (unsigned uphill = 0; !frontier.empty() && uphill < maxUphill;) {
    // Everything that gains goes along; else the least loss.
    double least = 0;
    unsigned choice = none;
    for (unsigned i = 0; i < frontier.size(); ++i) {
      auto &[state, gained] = gains[frontier[i]];
      if (const uint64_t now = stateAround(frontier[i]); state != now) {
        state = now;
        gained = gain(frontier[i], label.layouts[frontier[i]]);
      }
      if (choice == none || gained > least) {
        least = gained;
        choice = i;
      }
      if (gained >= 0)
        break;
    }
    unsigned index = frontier[choice];
    frontier.erase(frontier.begin() + choice);
    isInFrontier[index] = false;
    uphill = least < 0 ? uphill + 1 : uphill;
    move(index, least);
  }
  while (moved.size() > bestLength) {
    moveTo(moved.back().first, moved.back().second);
    moved.pop_back();
  }
  return bestLength > 0;
}

void LayoutProblem::improve() {
  bool changed = true;
  for (unsigned round = 0; changed && round < maxRounds; ++round) {
    changed = false;
    for (const Label &label : labels)
      changed |= grow(label);
    for (unsigned index = 0; index < nodes.size(); ++index)
      changed |= improveOne(index);
  }
}

void LayoutProblem::solve() {
  propose();
  choose(/*reversed=*/false);
  improve();
  double cost = totalCost();
  std::vector<unsigned> first;
  for (const Node &node : nodes)
    first.push_back(node.layout);
  choose(/*reversed=*/true);
  improve();
  if (totalCost() + epsilon < cost)
    return;
  for (auto [node, layout] : llvm::zip_equal(nodes, first))
    node.layout = layout;
  noteWishes();
}

} // namespace sectile
