// Reduction plans: the kernel of the squeezed layout, sorted by what its vectors cross.
#include "ir/layout/Reduction.h"
#include "ir/layout/Gf2.h"
#include "llvm/ADT/STLExtras.h"
#include <algorithm>
#include <cassert>

namespace sectile {

ReductionPlan planReduction(const Layout &given, unsigned axis) {
  assert(given.numBlocks() == 1 && "parts in other blocks would be left out");
  ReductionPlan plan;
  Layout source = given.withoutDuplicateRegisters();
  Layout squeezed = source.squeeze(axis);
  plan.result = squeezed.withoutDuplicateRegisters();

  // Within threads: registers of one coordinate in the result. The register of the result is the
  // one that holds the coordinate in this thread.
  llvm::SmallVector<unsigned, 16> given2lean = *registersInThread(given, source);
  llvm::SmallVector<unsigned, 16> toResult = *registersInThread(plan.result, squeezed);
  plan.registers.resize(plan.result.numRegisters());
  llvm::SmallVector<int64_t, 16> positions;
  for (unsigned reg = 0; reg < source.numRegisters(); ++reg) {
    plan.registers[toResult[source.squeezedRegister(axis, reg)]].push_back(reg);
    positions.push_back(source.apply(reg, 0, 0)[axis]);
  }
  for (auto &group : plan.registers) {
    llvm::sort(group, [&](unsigned a, unsigned b) { return positions[a] < positions[b]; });
    for (unsigned &reg : group)
      reg = given2lean[reg];
  }

  // Between threads: combinations of bits that move along the axis alone, found as dependences
  // among the squeezed vectors. `covered` is spanned by the elements they lead to: one whose
  // element is there already leads to a copy, which must not count twice.
  Gf2Basis places, covered;
  llvm::SmallVector<Place, 24> numbered;
  llvm::SmallVector<uint32_t, 24> elements; // in the source's packing
  unsigned numCovered = 0;
  // The combination that ends in this bit, if there is one, and the element it leads to.
  auto combination = [&](In in, unsigned bit) -> std::optional<std::pair<Place, uint32_t>> {
    Place place;
    place[in] = 1u << bit;
    uint32_t element = source.packed(in)[bit], vector = squeezed.packed(in)[bit];
    std::optional<uint64_t> relation = places.express(vector);
    places.insert(vector, numbered.size());
    numbered.push_back(place);
    elements.push_back(element);
    if (!relation)
      return std::nullopt;
    place ^= gf2Combine(numbered, *relation);
    return std::pair(place, element ^ gf2Combine(elements, *relation));
  };
  for (unsigned bit = 0; bit < source.bits(In::Register); ++bit)
    if (auto found = combination(In::Register, bit))
      covered.insert(found->second, numCovered++);
  auto valueOf = [&](uint32_t reg) { return toResult[reg] % plan.result.coreRegisters(); };
  for (unsigned bit = 0; bit < source.bits(In::Lane); ++bit)
    if (auto found = combination(In::Lane, bit);
        found && covered.insert(found->second, numCovered)) {
      ++numCovered;
      const Place &place = found->first;
      plan.laneSteps.push_back({place[In::Lane], valueOf(place[In::Register])});
    }
  // Warps: the part of a copy is that of what it copies.
  unsigned firstPart = numCovered;
  llvm::SmallVector<uint32_t, 4> partOfWarp(source.bits(In::Warp), 0);
  for (unsigned bit = 0; bit < source.bits(In::Warp); ++bit)
    if (auto found = combination(In::Warp, bit)) {
      if (auto copied = covered.express(found->second)) {
        partOfWarp[bit] = *copied >> firstPart;
      } else {
        partOfWarp[bit] = 1u << (numCovered - firstPart);
        covered.insert(found->second, numCovered++);
      }
    }
  if (numCovered == firstPart)
    return plan;

  plan.numPartials = 1u << (numCovered - firstPart);
  llvm::SmallVector<int64_t, 4> shape{plan.numPartials};
  llvm::append_range(shape, plan.result.shape());
  Layout::PackedBases partial = plan.result.packedBases();
  for (auto [bit, part] : llvm::enumerate(partOfWarp))
    partial[unsigned(In::Warp)][bit] |= part << plan.result.coreBits();
  plan.partial = Layout::fromPacked(Layout::Kind::Distributed, shape, partial);
  plan.gathered = plan.result.expandDim(0).broadcast(shape);
  plan.gatheredRegisters.resize(plan.result.numRegisters());
  unsigned core = plan.result.coreRegisters();
  for (unsigned reg = 0; reg < plan.gathered.numRegisters(); ++reg) {
    unsigned repeat = reg / plan.gathered.coreRegisters(),
             inCore = reg % plan.gathered.coreRegisters();
    plan.gatheredRegisters[repeat * core + inCore % core].push_back(reg);
  }
  return plan;
}

} // namespace sectile
