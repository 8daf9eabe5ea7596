// Scan plans: who holds which bit of the coordinate along the axis, from the lowest.
#include "ir/layout/Scan.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Sequence.h"

namespace sectile {

// The input and the bit of it whose basis vector is `vector`.
static std::optional<std::pair<In, unsigned>> holderOf(const Layout &layout, uint32_t vector) {
  for (In in : {In::Register, In::Lane, In::Warp})
    for (auto [bit, held] : llvm::enumerate(layout.packed(in)))
      if (held == vector)
        return std::pair(in, unsigned(bit));
  return std::nullopt;
}

std::optional<ScanPlan> planScan(const Layout &given, unsigned axis) {
  ScanPlan plan;
  plan.layout = given.withoutDuplicateRegisters();
  plan.toGiven = *registersInThread(given, plan.layout);
  plan.ofGiven = *registersInThread(plan.layout, given);
  const Layout &layout = plan.layout;
  // As many vectors along the axis as it has bits, each of them along it alone.
  unsigned along = 0;
  for (In in : distributedIns)
    for (uint32_t vector : layout.packed(in))
      along += layout.along(vector, axis) != 0;
  if (along != layout.coreBits(axis))
    return std::nullopt;

  uint32_t inRun = 0, merged = 0;
  plan.run = {0};
  for (unsigned bit = 0; bit < layout.coreBits(axis); ++bit) {
    auto holder = holderOf(layout, 1u << (layout.shift(axis) + bit));
    if (!holder)
      return std::nullopt;
    auto [in, number] = *holder;
    if (in == In::Register && plan.levels.empty()) {
      inRun |= 1u << number;
      for (unsigned i = 0, size = plan.run.size(); i < size; ++i)
        plan.run.push_back(plan.run[i] | 1u << number);
      continue;
    }
    if (in == In::Warp && plan.acrossWarps()) {
      if (plan.levels.back().in != In::Warp)
        return std::nullopt;
      plan.levels.back().bits.push_back(number);
      continue;
    }
    plan.levels.push_back({in, {number}});
    if (in == In::Register) {
      merged |= 1u << number;
    } else if (in == In::Lane && !plan.acrossWarps()) {
      plan.lanesTogether |= 1u << number;
    } else if (in == In::Warp) {
      for (unsigned reg = 0; reg < layout.numRegisters(); ++reg)
        if (!(reg & (layout.coreRegisters() - 1) & (inRun | merged)))
          plan.totals.push_back(reg);
      plan.slotsPerTotal =
          (layout.numWarps() * layout.numLanes()) >> llvm::popcount(plan.lanesTogether);
    }
  }
  for (unsigned reg = 0; reg < layout.coreRegisters(); ++reg)
    if (!(reg & inRun))
      plan.runs.push_back(reg);
  return plan;
}

} // namespace sectile
