// List scheduling with an eye on registers.
#include "codegen/nvidia/ListSchedule.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"
#include <limits>
#include <set>

using namespace llvm;

namespace sectile::nvidia {

std::vector<Liveness> livenessOf(const StepGraph &graph) {
  const size_t count = graph.blocks.size();
  std::vector<Liveness> live(count);
  std::vector<BitVector> reads(count, BitVector(graph.units)), makes(count, BitVector(graph.units));
  for (auto [i, block] : enumerate(graph.blocks)) {
    live[i].in.resize(graph.units);
    live[i].out.resize(graph.units);
    for (unsigned unit : block.arguments)
      makes[i].set(unit);
    for (const Step &step : block.steps) {
      for (unsigned unit : step.uses)
        if (!makes[i].test(unit))
          reads[i].set(unit);
      for (unsigned unit : step.defines)
        makes[i].set(unit);
    }
  }
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t i = count; i-- > 0;) {
      BitVector out(graph.units);
      for (const auto &edge : graph.blocks[i].successors) {
        BitVector in = live[edge.block].in;
        for (unsigned unit : graph.blocks[edge.block].arguments)
          in.reset(unit);
        out |= in;
        for (unsigned unit : edge.uses)
          out.set(unit);
      }
      BitVector in = out;
      in.reset(makes[i]);
      in |= reads[i];
      if (in != live[i].in || out != live[i].out) {
        live[i].in = std::move(in);
        live[i].out = std::move(out);
        changed = true;
      }
    }
  }
  for (auto [i, block] : enumerate(graph.blocks))
    for (unsigned unit : block.arguments)
      live[i].in.set(unit);
  return live;
}

namespace {

/// Which units are alive as steps are taken one by one.
class Running {
public:
  Running(const StepBlock &block, const Liveness &live) : out(live.out) {
    for (const Step &step : block.steps)
      for (unsigned unit : step.uses)
        ++usesLeft[unit];
    for (unsigned unit : live.in.set_bits())
      now += out.test(unit) || usesLeft.lookup(unit);
    most = now;
  }

  /// How many more are alive behind a step than before it.
  int growth(const Step &step) const {
    int growth = 0;
    for (unsigned unit : step.uses)
      growth -= !out.test(unit) && usesLeft.lookup(unit) == 1;
    for (unsigned unit : step.defines)
      growth += out.test(unit) || usesLeft.lookup(unit);
    return growth;
  }

  void take(const Step &step) {
    most = std::max(most, now + step.scratch);
    now += growth(step);
    for (unsigned unit : step.uses)
      --usesLeft[unit];
    most = std::max(most, now);
  }

  unsigned now = 0, most = 0;

private:
  const BitVector &out;
  DenseMap<unsigned, unsigned> usesLeft;
};

/// Steps that must come before each, by data or by memory.
std::vector<SmallVector<unsigned, 4>> predecessors(const StepBlock &block) {
  DenseMap<unsigned, unsigned> maker;
  std::vector<SmallVector<unsigned, 4>> before(block.steps.size());
  for (auto [i, step] : enumerate(block.steps)) {
    for (unsigned unit : step.uses)
      if (auto found = maker.find(unit); found != maker.end())
        before[i].push_back(found->second);
    before[i].append(step.after.begin(), step.after.end());
    llvm::sort(before[i]);
    before[i].erase(llvm::unique(before[i]), before[i].end());
    for (unsigned unit : step.defines)
      maker[unit] = i;
  }
  return before;
}

} // namespace

unsigned peakOf(const StepBlock &block, const Liveness &live, ArrayRef<unsigned> order) {
  Running running(block, live);
  for (unsigned step : order)
    running.take(block.steps[step]);
  return running.most;
}

std::vector<unsigned> listSchedule(const StepBlock &block, const Liveness &live, unsigned limit) {
  constexpr unsigned window = 48; // steps that are ready and looked at
  const size_t count = block.steps.size();
  const auto before = predecessors(block);
  std::vector<SmallVector<unsigned, 4>> behind(count);
  std::vector<unsigned> waits(count), height(count);
  for (size_t i = count; i-- > 0;) {
    height[i] += block.steps[i].latency;
    for (unsigned other : before[i]) {
      behind[other].push_back(i);
      height[other] = std::max(height[other], height[i]);
    }
    waits[i] = before[i].size();
  }
  using Ready = std::pair<long, unsigned>;
  std::set<Ready> byHeight, byAge; // the newest first: chains are followed to their ends
  std::vector<long> age(count);
  auto ready = [&](unsigned i, long now) {
    age[i] = -now;
    byHeight.insert({-long(height[i]), i});
    byAge.insert({age[i], i});
  };
  for (unsigned i = 0; i < count; ++i)
    if (!waits[i])
      ready(i, 0);
  Running running(block, live);
  std::vector<unsigned> order;
  order.reserve(count);
  while (!byAge.empty()) {
    unsigned best = byHeight.begin()->second;
    if (running.now + std::max(running.growth(block.steps[best]), 0) > limit) {
      int least = std::numeric_limits<int>::max();
      unsigned looked = 0;
      for (auto [unused, i] : byAge) {
        const int growth = running.growth(block.steps[i]);
        if (growth < least) {
          least = growth;
          best = i;
        }
        if (least < 0 || ++looked == window)
          break;
      }
    }
    byHeight.erase({-long(height[best]), best});
    byAge.erase({age[best], best});
    running.take(block.steps[best]);
    order.push_back(best);
    for (unsigned i : behind[best])
      if (--waits[i] == 0)
        ready(i, long(order.size()));
  }
  return order;
}

} // namespace sectile::nvidia
