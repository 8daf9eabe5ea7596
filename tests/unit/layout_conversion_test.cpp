// Conversion and reduction plans, executed on arrays of (warp, lane, register) and checked element
// by element.
#include "ir/layout/Conversion.h"
#include "ir/layout/Costs.h"
#include "ir/layout/Reduction.h"
#include "tests/unit/MmaSync.h"
#include "tests/unit/layout_random.h"
#include <map>
#include <set>

using namespace sectile;
using namespace sectile::test;

namespace {

constexpr int64_t nothing = -1;

// What every place of a block holds: numbers by warp, lane and register.
struct Machine {
  std::vector<std::vector<std::vector<int64_t>>> at;

  Machine(const Layout &layout)
      : at(layout.numWarps(),
           std::vector(layout.numLanes(), std::vector<int64_t>(layout.numRegisters(), nothing))) {}

  // Every element where the layout has it, as its row-major number.
  static Machine holding(const Layout &layout) {
    Machine machine(layout);
    forEachPlace(layout, [&](Place place) {
      machine[place] = rowMajor(layout.shape(), layout.apply(place));
    });
    return machine;
  }
  int64_t &operator[](Place place) {
    return at[place[In::Warp]][place[In::Lane]][place[In::Register]];
  }
};

void exchangeRegisters(Machine &machine, const Layout &layout, llvm::ArrayRef<uint32_t> changes) {
  Machine old = machine;
  forEachPlace(layout, [&](Place place) {
    Place from = place;
    for (auto [bit, change] : llvm::enumerate(changes))
      if (place[In::Lane] >> bit & 1)
        from[In::Register] ^= change;
    machine[place] = old[from];
  });
}

Machine runShuffles(const ShufflePlan &plan, const Layout &source, const Layout &destination,
                    Machine machine) {
  exchangeRegisters(machine, source, plan.before);
  Machine result(destination);
  for (unsigned warp = 0; warp < source.numWarps(); ++warp)
    for (unsigned lane = 0; lane < source.numLanes(); ++lane)
      for (const ShufflePlan::Exchange &exchange : plan.exchanges) {
        unsigned from = exchange.laneXor;
        for (auto [bit, column] : llvm::enumerate(plan.laneColumns))
          if (lane >> bit & 1)
            from ^= column;
        EXPECT_EQ(exchange.from.size(), exchange.to.size());
        for (unsigned repeat = 0; repeat < source.numRepeats(); ++repeat)
          for (auto [a, b] : llvm::zip(exchange.from, exchange.to))
            result.at[warp][lane][repeat * destination.coreRegisters() + b] =
                machine.at[warp][from][repeat * source.coreRegisters() + a];
      }
  exchangeRegisters(result, destination, plan.after);
  return result;
}

// One matrix instruction as the PTX ISA describes it, for one warp, with the core registers that
// access.registers has from `first` on, and those before them: calls move(offset, place) for every
// element.
void runMatrices(const MatrixAccess &access, const PlaceMap &offsets, unsigned before,
                 unsigned first, unsigned warp,
                 llvm::function_ref<void(unsigned offset, Place place)> move) {
  unsigned perWord = access.elementsPerWord, perUnit = std::max(1u, perWord / 2);
  auto rowOffset = [&](unsigned lane) {
    uint32_t offset = offsets(Place::of(before + access.registers[first], 0, warp))[In::Offset];
    for (unsigned bit = 0; bit < 5; ++bit)
      if (lane >> bit & 1)
        offset ^= access.laneOffsets[bit];
    return offset;
  };
  for (unsigned lane = 0; lane < 32; ++lane)
    for (unsigned matrix = 0; matrix < access.matrices; ++matrix)
      for (unsigned i = 0; i < perWord; ++i) {
        unsigned row = lane / 4, element = lane % 4 * perWord + i;
        if (access.transposed) {
          row = lane % 4 * 2 + i / perUnit;
          element = lane / 4 * perUnit + i % perUnit;
        }
        uint32_t offset = rowOffset(matrix * 8 + row);
        EXPECT_EQ(offset % (4 * perWord), 0u) << "a row begins at 16 bytes";
        unsigned moved = access.registers[first + matrix * perWord + i];
        move(offset + element, Place::of(before + moved, lane, warp));
      }
}

Machine runScratch(const ScratchPlan &plan, const Layout &source, const Layout &destination,
                   Machine machine) {
  Machine result(destination);
  unsigned passes = plan.repeatsTakeTurns ? source.numRepeats() : 1;
  unsigned perPass = source.numRepeats() / passes;
  auto withBufferShape = [&](const Layout &layout) {
    return Layout::fromPacked(layout.kind(), plan.buffer.shape(), layout.packedBases());
  };
  PlaceMap storeAt = PlaceMap::compose(withBufferShape(source), plan.buffer),
           loadAt = PlaceMap::compose(withBufferShape(destination), plan.buffer);
  for (unsigned pass = 0; pass < passes; ++pass) {
    std::vector<int64_t> buffer(plan.buffer.numOffsets(), nothing);
    std::vector<unsigned> writer(plan.buffer.numOffsets());
    auto each = [&](const Layout &layout, const SharedAccess &access, const PlaceMap &offsets,
                    bool isStore, auto move) {
      EXPECT_EQ(access.registers.size() % access.vector, 0u);
      for (unsigned warp = 0; access.matrices && warp < layout.numWarps(); ++warp) {
        if (isStore && (warp & layout.freeBits(In::Warp)))
          continue;
        for (unsigned repeat = 0; repeat < perPass; ++repeat)
          for (unsigned i = 0; i < access.registers.size(); i += access.vector)
            runMatrices(*access.matrices, offsets, repeat * layout.coreRegisters(), i, warp,
                        [&](unsigned offset, Place place) {
                          place[In::Register] += pass * perPass * layout.coreRegisters();
                          move(offset, warp, place);
                        });
      }
      for (unsigned warp = 0; !access.matrices && warp < layout.numWarps(); ++warp)
        for (unsigned lane = 0; lane < layout.numLanes(); ++lane) {
          if (isStore && ((warp & layout.freeBits(In::Warp)) || (lane & layout.freeBits(In::Lane))))
            continue;
          for (unsigned repeat = 0; repeat < perPass; ++repeat)
            for (unsigned i = 0; i < access.registers.size(); ++i) {
              unsigned first = access.registers[i / access.vector * access.vector];
              unsigned base = repeat * layout.coreRegisters();
              unsigned offset =
                  offsets(Place::of(base + first, lane, warp))[In::Offset] + i % access.vector;
              EXPECT_EQ((offset - i % access.vector) % access.vector, 0u);
              move(offset, warp,
                   Place::of(pass * perPass * layout.coreRegisters() + base + access.registers[i],
                             lane, warp));
            }
        }
    };
    each(source, plan.store, storeAt, true, [&](unsigned offset, unsigned warp, Place place) {
      EXPECT_EQ(buffer[offset], nothing) << "two threads store one element";
      buffer[offset] = machine[place];
      writer[offset] = warp;
    });
    each(destination, plan.load, loadAt, false, [&](unsigned offset, unsigned warp, Place place) {
      result[place] = buffer[offset];
      if (plan.withinWarps) {
        EXPECT_EQ(writer[offset], warp);
      }
    });
  }
  return result;
}

Machine run(const ConversionPlan &plan, const Layout &source, const Layout &destination) {
  Machine given = Machine::holding(source), result(destination);
  if (plan.kind == ConversionPlan::Kind::None || plan.kind == ConversionPlan::Kind::Registers) {
    forEachPlace(destination, [&](Place place) {
      Place from = place;
      from[In::Register] = plan.registers[place[In::Register]];
      result[place] = given[from];
    });
    return result;
  }
  Machine lean(plan.source);
  forEachPlace(plan.source, [&](Place place) {
    Place from = place;
    from[In::Register] = plan.sourceRegisters[place[In::Register]];
    lean[place] = given[from];
  });
  Machine moved = plan.kind == ConversionPlan::Kind::Shuffles
                      ? runShuffles(plan.shuffles, plan.source, plan.destination, lean)
                      : runScratch(plan.scratch, plan.source, plan.destination, lean);
  forEachPlace(destination, [&](Place place) {
    Place from = place;
    from[In::Register] = plan.destinationRegisters[place[In::Register]];
    result[place] = moved[from];
  });
  return result;
}

// Brute force: wavefronts of one instruction, from the addresses of a warp's lanes.
unsigned countWavefronts(const Layout &shared, const Layout &distributed, unsigned bits,
                         const SharedAccess &access, unsigned instruction, bool isStore) {
  PlaceMap offsets = PlaceMap::compose(distributed, shared);
  unsigned bytes = elementBytes(bits) * access.vector;
  std::vector<unsigned> lanes; // one of those that would store the same
  for (unsigned lane = 0; lane < distributed.numLanes(); ++lane)
    if (!isStore || !(lane & distributed.freeBits(In::Lane)))
      lanes.push_back(lane);
  unsigned lanesAtOnce = 128 / std::max(4u, bytes), total = 0;
  for (unsigned first = 0; first < lanes.size(); first += lanesAtOnce) {
    std::map<unsigned, std::set<unsigned>> wordsOfBank;
    for (unsigned i = first; i < std::min<size_t>(first + lanesAtOnce, lanes.size()); ++i) {
      unsigned lane = lanes[i];
      unsigned reg = access.registers[instruction * access.vector];
      unsigned byte = offsets(Place::of(reg, lane))[In::Offset] * elementBytes(bits);
      for (unsigned i = 0; i < std::max(1u, bytes / 4); ++i)
        wordsOfBank[(byte / 4 + i) % 32].insert(byte / 4 + i);
    }
    size_t most = 0;
    for (auto &[bank, words] : wordsOfBank)
      most = std::max(most, words.size());
    total += most;
  }
  return total;
}

unsigned randomBits(Random &random) { return 8u << random.below(4); }

TEST(Conversion, PlansMoveEveryElement) {
  Random random;
  std::map<ConversionPlan::Kind, unsigned> kinds;
  for (unsigned round = 0; round < 1500; ++round) {
    unsigned lanes = random.between(2, 6), warps = random.below(3), bits = randomBits(random);
    auto shape = randomShape(random, random.below(4), 10);
    Layout source = randomDistributed(random, shape, lanes, warps),
           destination = randomDistributed(random, shape, lanes, warps);
    if (random.below(4) == 0) // the same but for some registers and lanes
      destination = source.withoutDuplicateRegisters();
    if (random.below(4) == 0) {
      auto bases = source.packedBases();
      auto &lane = bases[unsigned(In::Lane)], &reg = bases[unsigned(In::Register)];
      std::shuffle(lane.begin(), lane.end(), random.engine);
      if (!reg.empty())
        std::swap(lane[random.below(lane.size())], reg[random.below(reg.size())]);
      destination = Layout::fromPacked(Layout::Kind::Distributed, shape, bases);
    }
    SCOPED_TRACE(random.message() + " " + source.text() + " -> " + destination.text());
    ConversionOptions options;
    options.maxScratchBytes = random.coin() ? 1u << 16 : 1;
    options.banks.matrixLoads = random.coin();
    options.banks.matrixStores = random.coin();
    ConversionPlan plan = planConversion(source, destination, bits, options);
    ++kinds[plan.kind];
    Machine result = run(plan, source, destination), want = Machine::holding(destination);
    ASSERT_EQ(result.at, want.at) << int(plan.kind);
    // The ways not chosen have to be right as well.
    Layout from = source.withoutDuplicateRegisters(), to = destination.withoutDuplicateRegisters();
    if (auto shuffles = planShuffles(from, to, bits)) {
      ASSERT_EQ(runShuffles(*shuffles, from, to, Machine::holding(from)).at,
                Machine::holding(to).at);
      for (const ShufflePlan::Exchange &exchange : shuffles->exchanges)
        ASSERT_LE(exchange.from.size() * bits, std::max(32u, bits));
    }
    ScratchPlan scratch = planScratch(from, to, bits, options);
    ASSERT_EQ(runScratch(scratch, from, to, Machine::holding(from)).at, Machine::holding(to).at);
  }
  EXPECT_EQ(kinds.size(), 4u) << random.message();
}

// Scratch beyond what is to spare is dear, and nothing else is.
TEST(Conversion, ScratchThatTakesTheRoomOfOthersIsDear) {
  const llvm::SmallVector<int64_t, 2> shape{128, 256};
  const Layout rows = blockedLayout(shape, {1, 4}, {1, 32}, {8, 1}, {1, 0}),
               columns = blockedLayout(shape, {4, 1}, {32, 1}, {1, 8}, {0, 1});
  auto cost = [&](const Layout &to, unsigned spare) {
    ConversionOptions options;
    options.spareScratchBytes = spare;
    return estimateConversion(rows, to, 32, options);
  };
  constexpr unsigned bytes = 128 * 256 * 4;
  EXPECT_EQ(cost(columns, bytes), cost(columns, ~0u));
  EXPECT_EQ(cost(columns, bytes - 1), cycles::crowding * cost(columns, bytes));
  EXPECT_EQ(cost(rows, 0), 0);
}

TEST(Conversion, WithinWarpsShufflesArePossibleWheneverNothingIsReplicated) {
  Random random;
  for (unsigned round = 0; round < 500; ++round) {
    auto shape = randomShape(random, 2, 4);
    shape[0] *= 8;
    shape[1] *= 8;
    auto deal = [&] {
      llvm::SmallVector<uint32_t, 16> vectors;
      unsigned coreBits = sharedPlain(shape, {0, 1}).coreBits();
      for (unsigned bit = 0; bit < coreBits; ++bit)
        vectors.push_back(1u << bit);
      std::shuffle(vectors.begin(), vectors.end(), random.engine);
      Layout::PackedBases bases;
      for (auto [i, vector] : llvm::enumerate(vectors))
        bases[unsigned(i < 5 ? In::Lane : In::Register)].push_back(vector);
      return Layout::fromPacked(Layout::Kind::Distributed, shape, bases);
    };
    Layout source = deal(), destination = deal();
    SCOPED_TRACE(random.message() + " " + source.text() + " -> " + destination.text());
    auto plan = planShuffles(source, destination, 32);
    ASSERT_TRUE(plan);
    ASSERT_EQ(runShuffles(*plan, source, destination, Machine::holding(source)).at,
              Machine::holding(destination).at);
    EXPECT_LE(plan->exchanges.size(), destination.coreRegisters());
  }
}

TEST(Conversion, WavefrontsAreThoseOfTheAddresses) {
  Random random;
  for (unsigned round = 0; round < 500; ++round) {
    auto shape = randomShape(random, 2, 10);
    unsigned bits = randomBits(random);
    Layout distributed = randomDistributed(random, shape, random.between(2, 6), 0);
    Layout shared =
        random.coin() ? sharedPlain(shape, {1, 0}) : sharedSwizzled(shape, {1, 0}, 4, 1, 8);
    SCOPED_TRACE(random.message() + " " + distributed.text() + " in " + shared.text());
    bool isStore = random.coin();
    SharedAccess access = planSharedAccess(shared, distributed, bits, isStore);
    for (unsigned i = 0; i < access.numInstructions(); ++i)
      ASSERT_EQ(countWavefronts(shared, distributed, bits, access, i, isStore),
                wavefrontsPerInstruction(shared, distributed, bits, access.vector, isStore));
  }
}

// Without matrix instructions, with loads, and with loads and stores.
const BankModel bankModels[] = {
    {}, {.matrixLoads = true}, {.matrixLoads = true, .matrixStores = true}};

// The layouts that real kernels convert between, with the conflict-free wide accesses they deserve.
TEST(Conversion, ScratchHasNoConflictsBetweenUsualLayouts) {
  for (unsigned bits : {8u, 16u, 32u, 64u})
    for (auto [rows, columns] : {std::pair(128, 128), {64, 256}, {32, 32}, {128, 96}, {16, 64}}) {
      llvm::SmallVector<int64_t, 2> shape{rows, columns};
      unsigned vector = 128 / bits;
      const Layout layouts[] = {blockedForAccess(shape, vector, 32, 4, {1, 0}),
                                blockedForAccess(shape, vector, 32, 4, {0, 1}),
                                blockedForAccess(shape, 1, 32, 4, {1, 0}),
                                mmaAccumulator(shape, mmaSync(16).sumFragment, {2, 2}),
                                mmaOperandA(shape, mmaSync(bits).aFragment, {2, 2})};
      for (const Layout &source : layouts)
        for (const Layout &destination : layouts) {
          if (registersInThread(source, destination))
            continue;
          SCOPED_TRACE(source.text() + " -> " + destination.text() + " bits " +
                       std::to_string(bits));
          for (const BankModel &banks : bankModels) {
            ScratchPlan plan = planScratch(source, destination, bits, {.banks = banks});
            EXPECT_EQ(plan.store.conflicts(), 0u);
            EXPECT_EQ(plan.load.conflicts(), 0u);
            ASSERT_EQ(runScratch(plan, source, destination, Machine::holding(source)).at,
                      Machine::holding(destination).at);
          }
        }
    }
}

// Every bit of the coordinates to some bit of the registers, the lanes or the warps.
Layout dealt(Random &random, llvm::ArrayRef<int64_t> shape, unsigned lanes, unsigned warps) {
  unsigned coreBits = 0;
  for (int64_t extent : shape)
    coreBits += llvm::countr_zero(uint64_t(extent));
  llvm::SmallVector<uint32_t, 32> vectors(std::max(coreBits, lanes + warps + random.below(3)), 0);
  for (unsigned bit = 0; bit < coreBits; ++bit)
    vectors[bit] = 1u << bit;
  std::shuffle(vectors.begin(), vectors.end(), random.engine);
  Layout::PackedBases bases;
  for (auto [i, vector] : llvm::enumerate(vectors)) {
    In in = i < lanes ? In::Lane : i < lanes + warps ? In::Warp : In::Register;
    bases[unsigned(in)].push_back(vector);
  }
  return Layout::fromPacked(Layout::Kind::Distributed, shape, bases);
}

// A layout as real kernels have, or may have.
Layout randomSide(Random &random, llvm::ArrayRef<int64_t> shape, unsigned lanes, unsigned warps) {
  const bool rowsFirst = random.coin();
  const llvm::SmallVector<unsigned, 2> order{rowsFirst ? 1u : 0u, rowsFirst ? 0u : 1u};
  const unsigned vector = 1u << random.below(4);
  switch (random.below(4)) {
  case 0:
    return blockedForAccess(shape, vector, 1u << lanes, 1u << warps, order);
  case 1: {
    unsigned laneRows = random.below(lanes + 1), warpRows = random.below(warps + 1);
    return blockedLayout(shape, {1, vector}, {1u << laneRows, 1u << (lanes - laneRows)},
                         {1u << warpRows, 1u << (warps - warpRows)}, order);
  }
  case 2:
    if (unsigned warpRows = random.below(warps + 1); lanes == 5 && shape[0] >= 16 && shape[1] >= 8)
      return mmaAccumulator(shape, mmaSync(16).sumFragment,
                            {.warpsM = 1u << warpRows, .warpsN = 1u << (warps - warpRows)});
    [[fallthrough]];
  default:
    return dealt(random, shape, lanes, warps);
  }
}

// Between any two such layouts whose lanes all hold something else. Where lanes hold the same, a
// wide access by few of them may be worth a conflict of the other side.
TEST(Conversion, ScratchHasNoConflictsBetweenAnyLayouts) {
  Random random;
  unsigned tried = 0;
  for (unsigned round = 0; round < 1000; ++round) {
    llvm::SmallVector<int64_t, 2> shape{int64_t(1) << random.below(8), int64_t(1)
                                                                           << random.between(3, 9)};
    unsigned bits = randomBits(random), lanes = random.between(5, 6), warps = random.below(4);
    Layout source = randomSide(random, shape, lanes, warps).withoutDuplicateRegisters();
    Layout destination = randomSide(random, shape, lanes, warps).withoutDuplicateRegisters();
    if (source.freeBits(In::Lane) || destination.freeBits(In::Lane))
      continue;
    ++tried;
    SCOPED_TRACE(random.message() + " " + source.text() + " -> " + destination.text() + " bits " +
                 std::to_string(bits));
    ScratchPlan plan = planScratch(source, destination, bits);
    for (bool isStore : {true, false}) {
      const SharedAccess &access = isStore ? plan.store : plan.load;
      const Layout &side = isStore ? source : destination;
      for (unsigned i = 0; i < access.numInstructions(); ++i)
        ASSERT_EQ(countWavefronts(plan.buffer, side, bits, access, i, isStore),
                  idealWavefronts(side, bits, access.vector, isStore))
            << (isStore ? "store" : "load") << " of " << access.vector << " in "
            << plan.buffer.text();
    }
  }
  EXPECT_GT(tried, 100u);
}

// The queries of a block as they are loaded, to the operand that all of its warps need: only
// registers that move within the wide vectors of the one side leave the other without conflicts.
TEST(Conversion, RegistersMoveWithinVectors) {
  Layout source = *Layout::parse("32x64, register [(0,1) (0,2) (0,4)], lane [(0,8) (0,16) (0,32) "
                                 "(1,0) (2,0)], warp [(4,0) (8,0) (16,0)]");
  Layout destination =
      *Layout::parse("32x64, register [(0,1) (8,0) (0,8) (0,16) (0,32) (16,0)], lane [(0,2) (0,4) "
                     "(1,0) (2,0) (4,0)], warp [(0,0) (0,0) (0,0)]");
  ScratchPlan plan = planScratch(source, destination, 16);
  EXPECT_EQ(plan.store.conflicts(), 0u);
  EXPECT_EQ(plan.load.conflicts(), 0u);
  EXPECT_EQ(plan.load.vector, 8u);
}

TEST(Conversion, AccumulatorRowsAreWrittenBackWide) {
  Layout accumulator = mmaAccumulator({128, 128}, mmaSync(16).sumFragment, {2, 2});
  Layout access = blockedForAccess({128, 128}, 8, 32, 4, {1, 0});
  ConversionPlan plan = planConversion(accumulator, access, 16);
  ASSERT_EQ(plan.kind, ConversionPlan::Kind::Scratch);
  // Both sides: the accumulator's rows and tiles that the access' threads hold as well are vectors.
  EXPECT_EQ(plan.scratch.load.vector, 8u);
  EXPECT_EQ(plan.scratch.store.vector, 8u);
  EXPECT_EQ(plan.scratch.bytes, 128u * 128 * 2);
}

// The sums of a warpgroup have few registers in common with whole lines of the output: vectors of
// both sides are shorter than 16 bytes, but rows of matrices are not.
TEST(Conversion, SumsOfWarpgroupsAreWrittenByMatrices) {
  Layout sums = mmaAccumulator({128, 256}, mmaSync(16).sumFragment, {8, 1});
  Layout access = blockedForAccess({128, 256}, 8, 32, 8, {1, 0});
  ScratchPlan vectors = planScratch(sums, access, 16);
  EXPECT_EQ(vectors.store.numInstructions() + vectors.load.numInstructions(), 16u + 32);
  for (const BankModel &banks : bankModels) {
    ScratchPlan plan = planScratch(sums, access, 16, {.banks = banks});
    EXPECT_EQ(plan.store.conflicts() + plan.load.conflicts(), 0u);
    if (!banks.matrixLoads)
      continue;
    // Each side moves 16 bytes of a thread at once. Loads alone serve as well: the lines' words
    // are the matrices' then.
    EXPECT_EQ(plan.store.numInstructions(), 16u);
    EXPECT_EQ(plan.load.numInstructions(), 16u);
    EXPECT_EQ(bool(plan.store.matrices), banks.matrixStores);
    EXPECT_EQ(bool(plan.load.matrices), !banks.matrixStores);
    if (banks.matrixStores) {
      EXPECT_LT(estimateConversion(sums, access, 16, {.banks = banks}),
                estimateConversion(sums, access, 16));
    }
  }
}

// Down the columns a thread holds one element of a run: one side of vectors would be 4 bytes wide.
TEST(Conversion, SumsAreWrittenTransposed) {
  Layout sums = mmaAccumulator({128, 16}, mmaSync(16).sumFragment, {4, 1});
  Layout columns = blockedForAccess({128, 16}, 8, 32, 4, {0, 1});
  ScratchPlan vectors = planScratch(sums, columns, 16);
  EXPECT_EQ(vectors.store.numInstructions() + vectors.load.numInstructions(), 2u + 8);
  ScratchPlan plan = planScratch(sums, columns, 16, {.banks = {.matrixStores = true}});
  ASSERT_TRUE(plan.store.matrices);
  EXPECT_TRUE(plan.store.matrices->transposed);
  EXPECT_EQ(plan.store.numInstructions(), 2u);
  EXPECT_EQ(plan.load.numInstructions(), 2u);
  EXPECT_EQ(plan.store.conflicts() + plan.load.conflicts(), 0u);
}

// A store must not write an element twice: copies in other lanes and registers are none for
// matrices, those in other warps are.
TEST(Conversion, MatricesHoldNoElementTwice) {
  Layout sums = mmaAccumulator({64, 64}, mmaSync(16).sumFragment, {4, 1});
  EXPECT_EQ(matrixRows(sums, 16, /*isStore=*/true).size(), 2u);
  EXPECT_EQ(matrixRows(sums, 32, /*isStore=*/true).size(), 1u);
  EXPECT_EQ(matrixRows(sums, 64, /*isStore=*/true).size(), 0u);
  auto with = [&](In in, unsigned bit) {
    auto bases = sums.packedBases();
    bases[unsigned(In::Register)].push_back(std::exchange(bases[unsigned(in)][bit], 0));
    return Layout::fromPacked(Layout::Kind::Distributed, sums.shape(), bases);
  };
  EXPECT_TRUE(matrixRows(with(In::Lane, 4), 16, /*isStore=*/true).empty());
  EXPECT_TRUE(matrixRows(with(In::Register, 3), 16, /*isStore=*/true).empty());
  EXPECT_EQ(matrixRows(with(In::Register, 3), 16, /*isStore=*/false).size(), 2u);
  EXPECT_EQ(matrixRows(with(In::Warp, 1), 16, /*isStore=*/true).size(), 2u);
}

TEST(Conversion, EstimatesAreNearThePlans) {
  Random random;
  for (unsigned round = 0; round < 300; ++round) {
    auto shape = randomShape(random, 2, 11);
    Layout source = randomDistributed(random, shape, 5, 2),
           destination = randomDistributed(random, shape, 5, 2);
    SCOPED_TRACE(random.message() + " " + source.text() + " -> " + destination.text());
    double cost = planConversion(source, destination, 32).cost,
           estimate = estimateConversion(source, destination, 32);
    EXPECT_LE(estimate, 2 * cost);
    EXPECT_GE(estimate, cost / 4);
  }
}

TEST(Conversion, LanesThatHoldTheSameAreOneWavefront) {
  Layout source =
      *Layout::parse("320x32, register [(0,8) (2,0) (1,0) (16,0) (0,16) (32,0)], lane [(8,0) (0,0) "
                     "(4,0) (0,1) (0,0)], warp [(0,2) (0,4)]");
  Layout destination =
      *Layout::parse("320x32, register [(49,0) (0,2) (4,0) (0,0) (0,16)], lane [(8,0) (1,0) (0,4) "
                     "(2,0) (32,0)], warp [(0,8) (0,1)]");
  EXPECT_EQ(estimateConversion(source, destination, 32),
            planConversion(source, destination, 32).cost);
}

TEST(Conversion, NothingToDoCostsNothing) {
  Layout layout = blockedForAccess({64, 64}, 4, 32, 4, {1, 0});
  ConversionPlan plan = planConversion(layout, layout, 32);
  EXPECT_EQ(plan.kind, ConversionPlan::Kind::None);
  EXPECT_EQ(plan.cost, 0);
  // Also where registers are duplicates of each other.
  Layout copies = layout.collapse(0);
  EXPECT_EQ(planConversion(copies, copies, 32).kind, ConversionPlan::Kind::None);
}

TEST(Staging, OperandBuffersHaveNoConflicts) {
  for (unsigned columns : {32, 64, 128, 96, 16}) {
    llvm::SmallVector<int64_t, 2> shape{128, columns};
    for (unsigned bits : {8u, 16u, 32u}) {
      unsigned vector = 128 / bits;
      if (columns < vector || (columns == 16 && bits == 8))
        continue;
      SCOPED_TRACE(std::to_string(columns) + " x " + std::to_string(bits));
      Layout writer = blockedForAccess(shape, vector, 32, 4, {1, 0});
      // K along the rows of the buffer: plain matrix loads; across them: transposed ones.
      Layout a = mmaOperandA(shape, mmaSync(bits).aFragment, {2, 2}),
             b = mmaOperandB(shape, mmaSync(bits).bFragment, {2, 2});
      for (const Layout &reader : {a, b}) {
        Layout shared = chooseSharedLayout(shape, {1, 0}, bits, vector,
                                           {simultaneousMatrixRows(reader, 1, bits),
                                            simultaneousVectors(writer, 1, vector, bits)});
        EXPECT_EQ(bankConflicts(shared, writer, bits, vector, /*isStore=*/true), 0u);
        auto plan = planMatrixAccess(shared, reader, bits, /*isStore=*/false);
        if (reader == b && bits != 16) {
          EXPECT_FALSE(plan);
          continue;
        }
        ASSERT_TRUE(plan);
        EXPECT_EQ(plan->transposed, reader == b);
        EXPECT_EQ(wavefrontsPerMatrix(*plan, bits), 1u);
        // Each matrix: eight rows of 16 bytes in all 32 banks.
        PlaceMap offsets = PlaceMap::compose(reader, shared);
        for (unsigned matrix = 0; matrix < plan->matrices; ++matrix) {
          std::set<unsigned> banks;
          for (unsigned lane = matrix * 8; lane < matrix * 8 + 8; ++lane) {
            unsigned offset = 0;
            for (unsigned bit = 0; bit < 5; ++bit)
              if (lane >> bit & 1)
                offset ^= plan->laneOffsets[bit];
            banks.insert(offset * elementBytes(bits) / 16 % 8);
          }
          EXPECT_EQ(banks.size(), 8u);
        }
      }
    }
  }
}

// Executes ldmatrix as the PTX ISA describes it and compares with what the layout says.
TEST(Staging, MatrixLoadsFillTheFragment) {
  unsigned planned = 0;
  for (unsigned bits : {8u, 16u, 32u})
    for (bool isA : {true, false})
      for (bool transposedBuffer : {true, false})
        for (unsigned k : {16, 32, 64, 96}) {
          if (k < mmaSync(bits).k)
            continue;
          llvm::SmallVector<int64_t, 2> shape{isA ? 64 : k, isA ? k : 64};
          MmaTiling tiling{2, 2, isA};
          Layout reader = isA ? mmaOperandA(shape, mmaSync(bits).aFragment, tiling)
                              : mmaOperandB(shape, mmaSync(bits).bFragment, tiling);
          llvm::SmallVector<unsigned, 2> order{1, 0};
          if (transposedBuffer)
            std::swap(order[0], order[1]);
          Layout shared = chooseSharedLayout(shape, order, bits, 128 / bits,
                                             {simultaneousMatrixRows(reader, order[0], bits)});
          auto plan = planMatrixAccess(shared, reader, bits, /*isStore=*/false);
          if (!plan)
            continue;
          ++planned;
          SCOPED_TRACE(reader.text() + " in " + shared.text());
          ASSERT_EQ(plan->elementsPerWord, 32 / bits);
          PlaceMap offsets = PlaceMap::compose(reader, shared);
          for (unsigned warp = 0; warp < reader.numWarps(); ++warp)
            for (unsigned first = 0; first < reader.numRegisters();
                 first += plan->registersPerInstruction())
              runMatrices(*plan, offsets, first / reader.coreRegisters() * reader.coreRegisters(),
                          first % reader.coreRegisters(), warp, [&](unsigned offset, Place place) {
                            EXPECT_EQ(shared.applyOffset(offset), reader.apply(place));
                          });
        }
  EXPECT_EQ(planned, 3u * 2 + 4u * (4 + 2));
}

// Bytes across K whose rows are interleaved, so that a thread holds pairs of neighbours.
TEST(Staging, TransposedMatrixLoadsOfBytes) {
  for (unsigned k : {32, 64, 128}) {
    const Layout operand = mmaOperandA({64, k}, mmaSync(8).aFragment, {2, 2});
    const Layout reader = *operand.reshape({4, 2, 8, k})->permute({0, 2, 1, 3}).reshape({64, k});
    const Layout shared =
        chooseSharedLayout({64, k}, {0, 1}, 8, 16, {simultaneousMatrixRows(reader, 0, 8)});
    SCOPED_TRACE(reader.text() + " in " + shared.text());
    EXPECT_EQ(matrixRows(reader, 8, /*isStore=*/false).size(), 2u);
    EXPECT_EQ(matrixRows(operand, 8, /*isStore=*/false).size(), 1u);
    const auto plan = planMatrixAccess(shared, reader, 8, /*isStore=*/false);
    ASSERT_TRUE(plan);
    EXPECT_TRUE(plan->transposed);
    EXPECT_EQ(wavefrontsPerMatrix(*plan, 8), 1u);
    EXPECT_FALSE(planMatrixAccess(shared, operand, 8, /*isStore=*/false));
    const PlaceMap offsets = PlaceMap::compose(reader, shared);
    for (unsigned warp = 0; warp < reader.numWarps(); ++warp)
      for (unsigned first = 0; first < reader.numRegisters();
           first += plan->registersPerInstruction())
        runMatrices(*plan, offsets, 0, first, warp, [&](unsigned offset, Place place) {
          EXPECT_EQ(shared.applyOffset(offset), reader.apply(place));
        });
  }
}

TEST(Reduction, PlansCombineEveryElementOnce) {
  Random random;
  unsigned acrossWarps = 0, acrossLanes = 0;
  for (unsigned round = 0; round < 600; ++round) {
    Layout layout = randomDistributed(random, randomShape(random, random.between(1, 3), 9),
                                      random.between(2, 6), random.below(3));
    unsigned axis = random.below(layout.rank());
    SCOPED_TRACE(random.message() + " axis " + std::to_string(axis) + " of " + layout.text());
    ReductionPlan plan = planReduction(layout, axis);
    ASSERT_EQ(plan.result, layout.squeeze(axis).withoutDuplicateRegisters());
    // The sum of squares tells a missing or doubled element.
    auto valueOf = [&](int64_t element) { return element * element + 1; };
    std::map<int64_t, int64_t> want;
    for (int64_t i = 0; i < layout.numElements(); ++i) {
      Coordinates coordinates = fromRowMajor(layout.shape(), i);
      coordinates.erase(coordinates.begin() + axis);
      want[rowMajor(plan.result.shape(), coordinates)] += valueOf(i);
    }
    Machine given = Machine::holding(layout), partial(plan.result);
    forEachPlace(plan.result, [&](Place place) {
      partial[place] = 0;
      for (unsigned reg : plan.registers[place[In::Register]])
        partial[place] += valueOf(given[Place::of(reg, place[In::Lane], place[In::Warp])]);
    });
    for (ReductionPlan::LaneStep step : plan.laneSteps) {
      ++acrossLanes;
      Machine old = partial;
      forEachPlace(plan.result, [&](Place place) {
        Place other = place;
        other[In::Lane] ^= step.laneXor;
        other[In::Register] ^= step.registerXor;
        partial[place] += old[other];
      });
    }
    if (plan.numPartials > 1) {
      ++acrossWarps;
      ConversionPlan conversion = planConversion(plan.partial, plan.gathered, 64);
      Machine numbers = run(conversion, plan.partial, plan.gathered), old = partial;
      // The conversion moves element numbers; look the values up.
      std::map<int64_t, int64_t> parts;
      forEachPlace(plan.partial, [&](Place place) {
        auto [entry, isNew] =
            parts.insert({rowMajor(plan.partial.shape(), plan.partial.apply(place)), old[place]});
        ASSERT_EQ(entry->second, old[place]) << "copies of a part differ";
      });
      forEachPlace(plan.result, [&](Place place) {
        partial[place] = 0;
        ASSERT_EQ(plan.gatheredRegisters[place[In::Register]].size(), plan.numPartials);
        for (unsigned reg : plan.gatheredRegisters[place[In::Register]])
          partial[place] += parts[numbers[Place::of(reg, place[In::Lane], place[In::Warp])]];
      });
    }
    forEachPlace(plan.result, [&](Place place) {
      ASSERT_EQ(partial[place], want[rowMajor(plan.result.shape(), plan.result.apply(place))]);
    });
  }
  EXPECT_GT(acrossWarps, 0u);
  EXPECT_GT(acrossLanes, 0u);
}

TEST(Reduction, RowsOfAnAccumulatorTakeTwoSteps) {
  ReductionPlan plan = planReduction(mmaAccumulator({64, 128}, mmaSync(16).sumFragment, {4, 1}), 1);
  EXPECT_EQ(plan.laneSteps.size(), 2u);
  EXPECT_EQ(plan.numPartials, 1u);
  EXPECT_EQ(plan.registers.size(), 2u);
  EXPECT_EQ(plan.registers[0].size(), 32u);
}

} // namespace
