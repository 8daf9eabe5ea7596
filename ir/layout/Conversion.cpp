// Chooses among the ways of a conversion, and plans the round through shared memory.
#include "ir/layout/Conversion.h"
#include "ir/layout/Costs.h"
#include "ir/layout/Gf2.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Sequence.h"
#include <algorithm>
#include <cassert>

namespace sectile {

// Number of bits of an offset within one wavefront's bytes.
static unsigned wavefrontBits(unsigned elementBits, const BankModel &banks) {
  return llvm::bit_width(banks.bytesPerWavefront() / elementBytes(elementBits)) - 1;
}

// Number of bits of an offset within a bank's word.
static unsigned wordBits(unsigned elementBits, const BankModel &banks) {
  return llvm::bit_width(std::max(1u, banks.bankBytes / elementBytes(elementBits))) - 1;
}

// Basis of the space common to the registers of two layouts.
static llvm::SmallVector<uint32_t, 8> commonRegisters(const Layout &a, const Layout &b) {
  llvm::SmallVector<uint32_t, 8> common;
  Gf2Basis found, spaceOfB, both;
  for (uint32_t vector : b.packed(In::Register))
    spaceOfB.insert(vector);
  // Basis vectors of the one in the space of the other are preferred to their combinations.
  for (uint32_t vector : a.packed(In::Register))
    if (spaceOfB.spans(vector) && found.insert(vector))
      common.push_back(vector);
  unsigned number = 0;
  for (uint32_t vector : a.packed(In::Register))
    both.insert(vector, number++);
  for (uint32_t vector : b.packed(In::Register)) {
    if (std::optional<uint64_t> relation = both.express(vector)) {
      uint64_t ofA = *relation & ((uint64_t(1) << a.bits(In::Register)) - 1);
      uint32_t shared = gf2Combine(a.packed(In::Register), ofA);
      if (found.insert(shared))
        common.push_back(shared);
    }
    both.insert(vector, number++);
  }
  return common;
}

// What one side of a conversion moves in a wavefront: 1 << vectorBits consecutive elements for each
// combination of `lanes`.
struct Wavefront {
  unsigned vectorBits = 0;
  llvm::SmallVector<uint32_t, 6> lanes;
};

static Wavefront wavefrontOf(const Layout &side, unsigned vectorBits, bool isStore,
                             unsigned elementBits, const BankModel &banks) {
  Wavefront wavefront{vectorBits, accessingLanes(side, isStore)};
  unsigned total = wavefrontBits(elementBits, banks);
  unsigned bits = std::max(vectorBits, wordBits(elementBits, banks));
  wavefront.lanes.truncate(std::min<size_t>(wavefront.lanes.size(), total - std::min(total, bits)));
  return wavefront;
}

// A buffer with these vectors, in which the lanes of `first` fill the banks, and whose rows are
// chosen so that neither side has conflicts. The last elements of a vector, from the number
// `movable` on, may move within it.
static Layout bufferAround(const Layout &first, llvm::ArrayRef<uint32_t> vector, unsigned movable,
                           const Wavefront &firstWavefront, const Wavefront &secondWavefront,
                           unsigned elementBits, const BankModel &banks) {
  // What is touched together fills the banks.
  Gf2Basis space;
  for (uint32_t element : vector)
    space.insert(element);
  unsigned total = wavefrontBits(elementBits, banks);
  unsigned inBanks = total > vector.size() ? total - vector.size() : 0;
  llvm::SmallVector<uint32_t, 8> bank;
  for (uint32_t element : llvm::concat<const uint32_t>(
           firstWavefront.lanes, secondWavefront.lanes, first.packed(In::Lane),
           first.packed(In::Register), first.packed(In::Warp), first.packed(In::Block)))
    if (bank.size() < inBanks && space.insert(element))
      bank.push_back(element);
  // The rest are rows.
  llvm::SmallVector<Row, 24> rows;
  for (In in : {In::Lane, In::Register, In::Warp, In::Block})
    for (uint32_t element : first.packed(in))
      if (space.insert(element)) {
        Row &row = rows.emplace_back(Row{element, bank});
        if (in == In::Register)
          llvm::append_range(row.addends, vector.drop_front(movable));
      }
  // A wavefront also takes the rest of each word.
  auto touched = [&](const Wavefront &wavefront) {
    Simultaneous result;
    for (uint32_t element : llvm::concat<const uint32_t>(vector, bank))
      if (result.size() < std::max(wavefront.vectorBits, wordBits(elementBits, banks)))
        result.push_back(element);
    llvm::append_range(result, wavefront.lanes);
    return result;
  };
  llvm::SmallVector<int64_t, 4> core;
  for (unsigned d = 0; d < first.rank(); ++d)
    core.push_back(first.core(d));
  return swizzledLayout(core, vector, bank, rows,
                        {touched(firstWavefront), touched(secondWavefront)});
}

// The number of elements of a vector, from its first, that registers hold.
static unsigned heldOf(llvm::ArrayRef<uint32_t> vector, const Layout &layout) {
  Gf2Basis registers;
  for (uint32_t element : layout.packed(In::Register))
    registers.insert(element);
  const auto *end =
      llvm::find_if(vector, [&](uint32_t element) { return !registers.spans(element); });
  return end - vector.begin();
}

Layout coreOf(const Layout &layout) {
  llvm::SmallVector<int64_t, 4> core;
  for (unsigned d = 0; d < layout.rank(); ++d)
    core.push_back(layout.core(d));
  return Layout::fromPacked(layout.kind(), core, layout.packedBases());
}

// Whether each warp reads only what it wrote, alone.
static bool staysInWarps(const Layout &source, const Layout &destination) {
  if (source.packed(In::Warp) != destination.packed(In::Warp) || source.freeBits(In::Warp))
    return false;
  Gf2Basis own;
  for (In in : {In::Register, In::Lane})
    for (uint32_t vector : source.packed(in))
      own.insert(vector);
  return llvm::all_of(
      llvm::concat<const uint32_t>(destination.packed(In::Register), destination.packed(In::Lane)),
      [&](uint32_t vector) { return own.spans(vector); });
}

static double costOf(const ScratchPlan &plan, unsigned repeats) {
  double perRepeat = plan.store.cost() + plan.load.cost();
  double perPass = cycles::sharedLatency + (plan.withinWarps ? 1 : cycles::barrier);
  if (!plan.repeatsTakeTurns)
    return repeats * perRepeat + perPass;
  return repeats * (perRepeat + perPass) + (repeats - 1) * cycles::barrier;
}

ScratchPlan planScratch(const Layout &source, const Layout &destination, unsigned elementBits,
                        const ConversionOptions &options) {
  const BankModel &banks = options.banks;
  Layout from = coreOf(source), to = coreOf(destination);
  unsigned maxVectorBits = llvm::bit_width(banks.maxVectorBytes / elementBytes(elementBits)) - 1;
  std::optional<ScratchPlan> best;
  double bestCost = 0;
  auto consider = [&](Layout buffer) {
    ScratchPlan plan;
    plan.store = planSharedAccess(buffer, from, elementBits, /*isStore=*/true, banks);
    plan.load = planSharedAccess(buffer, to, elementBits, /*isStore=*/false, banks);
    plan.buffer = std::move(buffer);
    double cost = costOf(plan, 1);
    if (!best || cost < bestCost) {
      best = std::move(plan);
      bestCost = cost;
    }
  };
  // Wide on the one side as far as its registers go; the other side as wide as they have in common.
  // There, registers that only the one side holds may move within the vectors: then they are the
  // same in another order.
  unsigned common = std::min<unsigned>(commonRegisters(from, to).size(), maxVectorBits);
  for (bool storeFirst : {true, false}) {
    const Layout &first = storeFirst ? from : to, &second = storeFirst ? to : from;
    llvm::SmallVector<uint32_t, 8> registers = commonRegisters(first, second);
    Gf2Basis taken;
    for (uint32_t element : registers)
      taken.insert(element);
    for (uint32_t element : first.packed(In::Register))
      if (taken.insert(element))
        registers.push_back(element);
    for (unsigned bits = 0; bits <= std::min<size_t>(registers.size(), maxVectorBits); ++bits) {
      unsigned secondBits = std::min(bits, common);
      consider(bufferAround(first, llvm::ArrayRef(registers).take_front(bits), secondBits,
                            wavefrontOf(first, bits, storeFirst, elementBits, banks),
                            wavefrontOf(second, secondBits, !storeFirst, elementBits, banks),
                            elementBits, banks));
    }
  }
  // Rows of matrices, which need not be in registers of one thread; the other side in vectors.
  for (bool stores : {true, false}) {
    if (!(stores ? banks.matrixStores : banks.matrixLoads))
      continue;
    const Layout &matrices = stores ? from : to, &vectors = stores ? to : from;
    for (const MatrixRows &way : matrixRows(matrices, elementBits, stores)) {
      unsigned rowBits = way.row.size();
      Wavefront rows{rowBits, {way.rows.begin(), way.rows.end()}};
      consider(
          bufferAround(vectors, way.row, rowBits,
                       wavefrontOf(vectors, heldOf(way.row, vectors), !stores, elementBits, banks),
                       rows, elementBits, banks));
    }
  }
  ScratchPlan plan = *std::move(best);
  plan.withinWarps = staysInWarps(source, destination);
  unsigned coreBytes = from.coreSize() * elementBytes(elementBits);
  plan.repeatsTakeTurns =
      source.numRepeats() > 1 && coreBytes * source.numRepeats() > options.maxScratchBytes;
  plan.bytes = plan.repeatsTakeTurns ? coreBytes : coreBytes * source.numRepeats();
  if (!plan.repeatsTakeTurns)
    plan.buffer =
        Layout::fromPacked(Layout::Kind::Shared, source.shape(), plan.buffer.packedBases());
  return plan;
}

static double costOf(const ShufflePlan &plan, unsigned sourceRegisters,
                     unsigned destinationRegisters, unsigned elementBits) {
  double cost = 0;
  for (uint32_t change : plan.before)
    cost += change ? sourceRegisters * cycles::instruction : 0;
  for (uint32_t change : plan.after)
    cost += change ? destinationRegisters * cycles::instruction : 0;
  unsigned shuffles = 0;
  for (const ShufflePlan::Exchange &exchange : plan.exchanges)
    if (!plan.staysInLane(exchange))
      ++shuffles;
  unsigned words = std::max(1u, elementBits / 32);
  return cost + shuffles * words * (cycles::wavefront + cycles::instruction) +
         (shuffles ? cycles::sharedLatency : 0);
}

ConversionPlan planConversion(const Layout &source, const Layout &destination, unsigned elementBits,
                              const ConversionOptions &options) {
  assert(source.shape() == destination.shape() && "a conversion keeps the shape");
  assert(source.numLanes() == destination.numLanes() &&
         source.numWarps() == destination.numWarps() && "a conversion keeps the threads");
  assert(source.packed(In::Block) == destination.packed(In::Block) &&
         "a conversion stays within blocks");
  ConversionPlan plan;
  plan.source = source.withoutDuplicateRegisters();
  plan.destination = destination.withoutDuplicateRegisters();
  plan.sourceRegisters = *registersInThread(source, plan.source);
  plan.destinationRegisters = *registersInThread(plan.destination, destination);
  if (source == destination) {
    plan.registers = llvm::to_vector<16>(llvm::seq(0u, source.numRegisters()));
    return plan;
  }
  if (auto registers = registersInThread(source, destination)) {
    plan.registers = *std::move(registers);
    bool identity = plan.registers.size() == source.numRegisters() &&
                    llvm::equal(plan.registers, llvm::seq(0u, source.numRegisters()));
    plan.kind = identity ? ConversionPlan::Kind::None : ConversionPlan::Kind::Registers;
    plan.cost = identity ? 0 : plan.registers.size() * cycles::move;
    return plan;
  }
  unsigned repeats = source.numRepeats();
  plan.scratch = planScratch(plan.source, plan.destination, elementBits, options);
  plan.kind = ConversionPlan::Kind::Scratch;
  plan.cost = costOf(plan.scratch, repeats);
  if (auto shuffles = planShuffles(plan.source, plan.destination, elementBits)) {
    double cost = repeats * costOf(*shuffles, plan.source.coreRegisters(),
                                   plan.destination.coreRegisters(), elementBits);
    if (cost <= plan.cost) {
      plan.kind = ConversionPlan::Kind::Shuffles;
      plan.cost = cost;
      plan.shuffles = *std::move(shuffles);
    }
  }
  return plan;
}

double estimateConversion(const Layout &source, const Layout &destination, unsigned elementBits,
                          const ConversionOptions &options) {
  if (auto registers = registersInThread(source, destination))
    return source == destination ? 0 : registers->size() * cycles::move;
  Layout from = source.withoutDuplicateRegisters(), to = destination.withoutDuplicateRegisters();
  const BankModel &banks = options.banks;
  unsigned bytes = elementBytes(elementBits), widest = banks.maxVectorBytes / bytes;
  unsigned common = std::min<unsigned>(1u << commonRegisters(from, to).size(), widest);
  auto costOfSide = [&](const Layout &side, unsigned vector) {
    unsigned instructions = side.coreRegisters() / std::min(side.coreRegisters(), vector);
    unsigned distinctLanes = side.numLanes() >> llvm::popcount(side.freeBits(In::Lane));
    unsigned wavefronts = std::max(instructions, side.coreRegisters() * distinctLanes * bytes /
                                                     banks.bytesPerWavefront());
    return instructions * cycles::instruction + wavefronts * cycles::wavefront;
  };
  double perRepeat = std::min(costOfSide(from, common) + costOfSide(to, widest),
                              costOfSide(from, widest) + costOfSide(to, common));
  // Matrix loads are left out: they would favour conversions of operands that a loop computes,
  // whose barrier holds up more than this conversion.
  if (banks.matrixStores)
    for (const MatrixRows &way : matrixRows(from, elementBits, /*isStore=*/true))
      perRepeat =
          std::min(perRepeat, costOfSide(from, widest) + costOfSide(to, 1u << heldOf(way.row, to)));
  unsigned repeats = from.numRepeats();
  double cost = repeats * perRepeat + cycles::meeting;
  if (from.coreSize() * bytes > int64_t(options.spareScratchBytes))
    cost *= cycles::crowding;
  if (auto shuffles = planShuffles(from, to, elementBits))
    cost = std::min(
        cost, repeats * costOf(*shuffles, from.coreRegisters(), to.coreRegisters(), elementBits));
  return cost;
}

} // namespace sectile
