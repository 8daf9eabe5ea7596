// The layout class: properties on random layouts, and the named layouts against their definitions.
#include "ir/layout/MatrixDescriptor.h"
#include "ir/layout/Shared.h"
#include "tests/unit/MmaSync.h"
#include "tests/unit/layout_random.h"
#include <set>

using namespace sectile;
using namespace sectile::test;

namespace {

constexpr unsigned rounds = 300;

Layout anyLayout(Random &random) {
  return randomDistributed(random, randomShape(random, random.below(4), 9), random.between(2, 6),
                           random.below(3));
}

TEST(Layout, InverseFindsThePlaceOfEveryElement) {
  Random random;
  for (unsigned round = 0; round < rounds; ++round) {
    Layout layout = anyLayout(random);
    SCOPED_TRACE(random.message() + " " + layout.text());
    LayoutInverse inverse = layout.inverse();
    for (int64_t i = 0; i < layout.numElements(); ++i) {
      Coordinates coordinates = fromRowMajor(layout.shape(), i);
      Place place = inverse(coordinates);
      ASSERT_LT(place[In::Register], layout.numRegisters());
      ASSERT_LT(place[In::Lane], layout.numLanes());
      ASSERT_LT(place[In::Warp], layout.numWarps());
      ASSERT_EQ(layout.apply(place), coordinates);
    }
  }
}

TEST(Layout, PlacesWithoutFreeBitsHoldEveryElementOnce) {
  Random random;
  for (unsigned round = 0; round < rounds; ++round) {
    Layout layout = anyLayout(random);
    SCOPED_TRACE(random.message() + " " + layout.text());
    std::set<int64_t> seen, all;
    forEachPlace(layout, [&](Place place) {
      int64_t element = rowMajor(layout.shape(), layout.apply(place));
      all.insert(element);
      bool needed =
          !(place[In::Register] % layout.coreRegisters() & layout.freeBits(In::Register)) &&
          !(place[In::Lane] & layout.freeBits(In::Lane)) &&
          !(place[In::Warp] & layout.freeBits(In::Warp));
      if (needed) {
        EXPECT_TRUE(seen.insert(element).second);
      }
    });
    ASSERT_EQ(int64_t(seen.size()), layout.numElements());
    ASSERT_EQ(int64_t(all.size()), layout.numElements());
  }
}

TEST(Layout, TextRoundTrips) {
  Random random;
  for (unsigned round = 0; round < rounds; ++round) {
    Layout layout = anyLayout(random);
    std::string why;
    std::optional<Layout> parsed = Layout::parse(layout.text(), &why);
    ASSERT_TRUE(parsed) << layout.text() << ": " << why;
    EXPECT_EQ(*parsed, layout);
    EXPECT_EQ(hash_value(*parsed), hash_value(layout));
  }
  Layout shared = sharedSwizzled({64, 96}, {1, 0}, 8, 1, 4);
  EXPECT_EQ(Layout::parse(shared.text()), shared);
  EXPECT_EQ(Layout::parse(Layout().text()), Layout());
  EXPECT_EQ(blockedLayout({8, 4}, {1, 2}, {4, 2}, {2, 1}, {1, 0}).text(),
            "8x4, register [(0,1)], lane [(0,2) (1,0) (2,0)], warp [(4,0)]");
}

TEST(Layout, ParseErrorsSayWhatIsWrong) {
  auto errorOf = [](llvm::StringRef text) {
    std::string why;
    EXPECT_FALSE(Layout::parse(text, &why)) << text.str();
    return why;
  };
  EXPECT_EQ(errorOf("8xq"), "expected a shape like 128x64 before `q`");
  EXPECT_EQ(errorOf("8, thread [(1)]"),
            "expected register, lane, warp, block or shared before `thread [(1)]`");
  EXPECT_EQ(errorOf("8, lane [(1) (2) (4)"), "expected ( or ] at the end");
  EXPECT_EQ(errorOf("8, lane [(1)], lane [(2)]"), "expected only one list lane before `[(2)]`");
  EXPECT_EQ(errorOf("8, lane [(1) (2)]"),
            "no place holds the element at coordinate 4 of dimension 0 (zero elsewhere)");
  EXPECT_EQ(errorOf("24, lane [(8)]"),
            "lane bit 0 has coordinate 8 in dimension 0, whose power-of-two core is 8");
  EXPECT_EQ(errorOf("8, lane [(1,1)]"),
            "lane bit 0 has 2 coordinates, the tensor has 1 dimensions");
  EXPECT_EQ(errorOf("2, lane [(0)], shared [(1)]"), "a shared layout has no lane bits");
  EXPECT_EQ(errorOf("2, shared [(1) (0)]"),
            "offset bit 1 adds nothing: a shared layout holds each element of a block once");
  EXPECT_EQ(errorOf("4611686018427387904x8, lane [(1,1)]"),
            "a layout's power-of-two core may have at most 2^31 elements, this one has 2^65");
  EXPECT_EQ(errorOf("4611686018427387903x3"), "a layout may have at most 2^31 repeats of its core");
  EXPECT_EQ(errorOf("99999999999999999999"),
            "expected a shape like 128x64 before `99999999999999999999`");
  EXPECT_EQ(errorOf("0"), "a layout's extents must be positive, got 0");
}

TEST(Layout, PermuteMovesCoordinates) {
  Random random;
  for (unsigned round = 0; round < rounds; ++round) {
    Layout layout = anyLayout(random);
    SCOPED_TRACE(random.message() + " " + layout.text());
    auto order = llvm::to_vector(llvm::seq<int64_t>(0, layout.rank()));
    std::shuffle(order.begin(), order.end(), random.engine);
    // Registers count repeats row-major, so that a permutation renumbers the repeats.
    Layout permuted = layout.permute(order);
    for (unsigned warp = 0; warp < layout.numWarps(); ++warp)
      for (unsigned lane = 0; lane < layout.numLanes(); ++lane)
        for (unsigned reg = 0; reg < layout.numRegisters(); ++reg) {
          Coordinates from = layout.apply(reg, lane, warp), want;
          for (int64_t d : order)
            want.push_back(from[d]);
          ASSERT_EQ(permuted.apply(layout.permutedRegister(order, reg), lane, warp), want);
        }
  }
}

TEST(Layout, ReshapeKeepsRowMajorPositions) {
  Random random;
  unsigned reshaped = 0;
  for (unsigned round = 0; round < 4 * rounds; ++round) {
    Layout layout = anyLayout(random);
    llvm::SmallVector<int64_t, 4> shape;
    int64_t left = layout.numElements();
    while (left > 1 && random.below(4)) {
      int64_t factor = 1;
      for (int64_t f : {2, 2, 2, 3, 5})
        if (left % f == 0 && random.coin()) {
          factor *= f;
          left /= f;
        }
      shape.push_back(factor);
    }
    shape.push_back(left);
    std::optional<Layout> result = layout.reshape(shape);
    SCOPED_TRACE(random.message() + " " + layout.text());
    if (!result) {
      ASSERT_GT(layout.numRepeats(), 1u);
      continue;
    }
    ++reshaped;
    forEachPlace(layout, [&](Place place) {
      ASSERT_EQ(rowMajor(shape, result->apply(place)),
                rowMajor(layout.shape(), layout.apply(place)));
    });
  }
  EXPECT_GT(reshaped, rounds);
}

TEST(Layout, ReshapeWithRepeats) {
  Layout layout = blockedLayout({4, 96}, {1, 4}, {4, 8}, {1, 1}, {1, 0});
  EXPECT_TRUE(layout.reshape({4, 3, 32}));
  EXPECT_TRUE(layout.reshape({4, 6, 16}));
  EXPECT_TRUE(layout.reshape({2, 2, 96}));
  EXPECT_FALSE(layout.reshape({384}));
  EXPECT_FALSE(layout.reshape({4, 32, 3}));
}

TEST(Layout, SqueezeCollapseAndExpand) {
  Random random;
  for (unsigned round = 0; round < rounds; ++round) {
    Layout layout = randomDistributed(random, randomShape(random, random.between(1, 3), 9), 5, 2);
    SCOPED_TRACE(random.message() + " " + layout.text());
    unsigned axis = random.below(layout.rank());
    Layout squeezed = layout.squeeze(axis), collapsed = layout.collapse(axis);
    EXPECT_EQ(squeezed.expandDim(axis), collapsed);
    forEachPlace(layout, [&](Place place) {
      Coordinates want = layout.apply(place);
      want[axis] = 0;
      Place narrow = place;
      narrow[In::Register] = layout.squeezedRegister(axis, place[In::Register]);
      ASSERT_EQ(collapsed.apply(narrow), want);
      want.erase(want.begin() + axis);
      ASSERT_EQ(squeezed.apply(narrow), want);
    });
    Layout lean = squeezed.withoutDuplicateRegisters();
    EXPECT_EQ(lean.freeBits(In::Register), 0u);
    // The operand of a broadcast may be lean: every register is found in the thread.
    auto registers = broadcastRegisters(lean.expandDim(axis), layout);
    ASSERT_TRUE(registers);
    Layout operand = lean.expandDim(axis);
    forEachPlace(layout, [&](Place place) {
      Coordinates want = layout.apply(place);
      want[axis] = 0;
      ASSERT_EQ(operand.apply((*registers)[place[In::Register]], place[In::Lane], place[In::Warp]),
                want);
    });
  }
}

TEST(Layout, SlicesStayInTheirRegisters) {
  Random random;
  unsigned split = 0, ofRepeats = 0;
  for (unsigned round = 0; round < rounds; ++round) {
    Layout layout = randomDistributed(random, randomShape(random, random.between(1, 3), 9), 5, 2);
    SCOPED_TRACE(random.message() + " " + layout.text());
    const unsigned dim = random.below(layout.rank()),
                   count = random.below(4) == 0 ? random.between(2, 12)
                                                : unsigned(layout.repeats(dim)) << random.below(3);
    const std::optional<Layout> slice = layout.slice(dim, count);
    if (!slice)
      continue;
    ++split;
    ofRepeats += layout.repeats(dim) > 1;
    ASSERT_EQ(slice->shape()[dim] * count, layout.shape()[dim]);
    for (unsigned index = 0; index < count; ++index)
      forEachPlace(*slice, [&](Place place) {
        Coordinates want = slice->apply(place);
        want[dim] += index * slice->shape()[dim];
        place[In::Register] = layout.slicedRegister(dim, count, index, place[In::Register]);
        ASSERT_EQ(layout.apply(place), want);
      });
  }
  EXPECT_GT(split, rounds / 50);
  EXPECT_GT(ofRepeats, rounds / 200);
}

TEST(Layout, SlicesThatThreadsDoNotShareAlikeAreRefused) {
  auto slice = [](const char *text, unsigned dim, unsigned count) {
    return Layout::parse(text)->slice(dim, count);
  };
  EXPECT_TRUE(slice("8x4, register [(0,2) (4,0)], lane [(1,0) (2,0) (0,1)]", 0, 2));
  EXPECT_TRUE(slice("8x4, register [(0,2) (4,0)], lane [(1,0) (2,0) (0,1)]", 1, 2));
  // Lanes hold different halves, or a register moves between them.
  EXPECT_FALSE(slice("8x4, register [(0,2) (4,0)], lane [(1,0) (2,0) (0,1)]", 0, 4));
  EXPECT_FALSE(slice("8x4, register [(0,2) (4,2)], lane [(1,0) (2,0) (0,1)]", 1, 2));
  EXPECT_FALSE(slice("8x4, register [(0,2) (4,0)], lane [(1,0) (2,0) (0,1)]", 0, 3));
  // Thirds and sixths of three times 8, but no halves.
  EXPECT_TRUE(slice("24, register [(1) (2) (4)]", 0, 3));
  EXPECT_TRUE(slice("24, register [(1) (2) (4)]", 0, 6));
  EXPECT_FALSE(slice("24, register [(1) (2) (4)]", 0, 2));
}

TEST(Layout, BroadcastPutsNewElementsInRegisters) {
  Random random;
  for (unsigned round = 0; round < rounds; ++round) {
    llvm::SmallVector<int64_t, 4> shape = randomShape(random, 2, 6), wide = shape;
    shape[1] = 1;
    wide[1] = 12;
    Layout narrow = randomDistributed(random, shape, 5, 1);
    SCOPED_TRACE(random.message() + " " + narrow.text());
    Layout result = narrow.broadcast(wide);
    EXPECT_EQ(result.numRegisters(), narrow.numRegisters() * 12);
    auto registers = broadcastRegisters(narrow, result);
    ASSERT_TRUE(registers);
    forEachPlace(result, [&](Place place) {
      Coordinates want = result.apply(place);
      want[1] = 0;
      ASSERT_EQ(narrow.apply((*registers)[place[In::Register]], place[In::Lane], place[In::Warp]),
                want);
    });
  }
}

TEST(Layout, ComposeLeadsToTheSameElement) {
  Random random;
  for (unsigned round = 0; round < rounds; ++round) {
    auto shape = randomShape(random, 2, 9);
    Layout from = randomDistributed(random, shape, 5, 1),
           to = randomDistributed(random, shape, 6, 1);
    Layout shared = sharedSwizzled(shape, {1, 0}, 2, 1, 4);
    SCOPED_TRACE(random.message() + " " + from.text());
    PlaceMap places = PlaceMap::compose(from, to), offsets = PlaceMap::compose(from, shared);
    forEachPlace(from, [&](Place place) {
      ASSERT_EQ(to.apply(places(place)), from.apply(place));
      ASSERT_EQ(shared.apply(offsets(place)), from.apply(place));
    });
  }
}

TEST(Layout, RegistersInThreadHoldTheSameElements) {
  Random random;
  for (unsigned round = 0; round < rounds; ++round) {
    Layout from = anyLayout(random), to = from.withoutDuplicateRegisters();
    if (random.coin())
      std::swap(from, to);
    SCOPED_TRACE(random.message() + " " + from.text());
    auto registers = registersInThread(from, to);
    ASSERT_TRUE(registers);
    forEachPlace(to, [&](Place place) {
      ASSERT_EQ(from.apply((*registers)[place[In::Register]], place[In::Lane], place[In::Warp]),
                to.apply(place));
    });
  }
  EXPECT_FALSE(registersInThread(blockedLayout({64}, {2}, {32}, {1}, {0}),
                                 blockedLayout({64}, {1}, {32}, {1}, {0})));
}

TEST(Layout, ContiguityIsWhatTheThreadsHold) {
  Random random;
  for (unsigned round = 0; round < rounds; ++round) {
    Layout layout = random.coin() ? randomDistributed(random, randomShape(random, 2, 8), 4, 1)
                                  : blockedForAccess(randomShape(random, 2, 9),
                                                     1u << random.below(4), 16, 2, {1, 0});
    SCOPED_TRACE(random.message() + " " + layout.text());
    unsigned dim = random.below(2);
    // The longest aligned power of two, checked in every thread.
    unsigned longest = 1;
    for (unsigned length = 2; length <= layout.coreRegisters(); length *= 2) {
      bool all = true;
      forEachPlace(layout, [&](Place place) {
        unsigned reg = place[In::Register];
        if (reg % length)
          return;
        Coordinates first = layout.apply(place);
        all &= first[dim] % length == 0;
        for (unsigned i = 1; i < length; ++i) {
          Coordinates want = first;
          want[dim] += i;
          all &= layout.apply(reg + i, place[In::Lane], place[In::Warp]) == want;
        }
      });
      if (!all)
        break;
      longest = length;
    }
    EXPECT_EQ(layout.contiguousPerThread(dim), longest);
  }
}

TEST(Builders, BlockedHoldsWhatItSays) {
  Layout layout = blockedLayout({64, 96}, {2, 4}, {4, 8}, {2, 2}, {1, 0});
  EXPECT_EQ(layout.numLanes(), 32u);
  EXPECT_EQ(layout.numWarps(), 4u);
  EXPECT_EQ(layout.numRegisters(), 64u * 96 / 128 * 2); // warps along 1 replicate: its core is 32
  EXPECT_EQ(layout.contiguousPerThread(1), 4u);
  EXPECT_EQ(layout.freeBits(In::Warp), 1u);
  EXPECT_EQ(layout.apply(1, 0, 0), (Coordinates{0, 1}));
  EXPECT_EQ(layout.apply(4, 0, 0), (Coordinates{1, 0}));
  EXPECT_EQ(layout.apply(0, 9, 0), (Coordinates{2, 4}));
  EXPECT_EQ(layout.apply(0, 0, 2), (Coordinates{8, 0}));
  EXPECT_EQ(layout.apply(layout.coreRegisters(), 0, 0), (Coordinates{0, 32}));
}

TEST(Builders, SmallTensorsReplicate) {
  Layout layout = blockedForAccess({16}, 4, 32, 4, {0});
  EXPECT_EQ(layout.numRegisters(), 4u);
  EXPECT_EQ(layout.freeBits(In::Lane), 0b11100u);
  EXPECT_EQ(layout.freeBits(In::Warp), 0b11u);
  EXPECT_EQ(blockedForAccess({}, 4, 64, 4, {}).numRegisters(), 1u);
}

// The fragments as the PTX ISA tables them, for lane = 4 * group + inGroup.
// Read across lines of one buffer and written along those of another: no two words of a wavefront
// lie in one bank, but where lines are shorter than 128 bytes.
TEST(Builders, SquaresAreWordsInBanksOfTheirOwnBothWays) {
  for (const unsigned bits : {8, 32})
    for (const auto &[rows, columns] :
         {std::pair(128, 128), std::pair(128, 256), std::pair(384, 128), std::pair(128, 32),
          std::pair(32, 128), std::pair(64, 64), std::pair(32, 64), std::pair(96, 64)})
      for (const unsigned warps : {4, 8}) {
        SCOPED_TRACE(testing::Message() << rows << " by " << columns << " of " << bits << " bits, "
                                        << warps << " warps");
        const auto along = [&](unsigned axis) {
          return sharedForDescriptors({rows, columns}, axis, bits, 128);
        };
        const Layout squares = squaresLayout(along(1), along(0), 32, warps, bits);
        std::string why;
        EXPECT_TRUE(Layout::makePacked(Layout::Kind::Distributed, squares.shape(),
                                       squares.packedBases(), &why))
            << why;
        EXPECT_EQ(squares.numWarps(), warps);
        for (const unsigned axis : {0, 1}) {
          const SharedAccess access =
              planSharedAccess(along(axis), squares, bits, /*isStore=*/axis == 0);
          EXPECT_EQ(access.vector, 4u);
          // Threads have four neighbours of a line each, so lanes reach all banks where lines are
          // as long as these.
          const int shorter =
              1024 / int(bits) / std::min(128, axis ? columns & -columns : rows & -rows);
          EXPECT_LE(access.wavefronts, access.idealWavefronts * unsigned(std::max(shorter, 1)));
        }
      }
}

TEST(Builders, MmaFragmentsAreThoseOfPtx) {
  const MmaInstruction &half = mmaSync(16), &byte = mmaSync(8), &word = mmaSync(32),
                       &full = mmaSync(64);
  for (unsigned lane = 0; lane < 32; ++lane) {
    int64_t group = lane / 4, inGroup = lane % 4;
    Layout c = mmaAccumulator({16, 8}, half.sumFragment, {});
    for (unsigned i = 0; i < 4; ++i)
      EXPECT_EQ(c.apply(i, lane, 0),
                (Coordinates{i < 2 ? group : group + 8, inGroup * 2 + (i & 1)}));
    Layout a16 = mmaOperandA({16, 16}, half.aFragment, {}),
           b16 = mmaOperandB({16, 8}, half.bFragment, {});
    ASSERT_EQ(a16.numRegisters(), 8u);
    ASSERT_EQ(b16.numRegisters(), 4u);
    for (unsigned i = 0; i < 8; ++i)
      EXPECT_EQ(a16.apply(i, lane, 0), (Coordinates{i < 2 || (i >= 4 && i < 6) ? group : group + 8,
                                                    inGroup * 2 + (i & 1) + (i < 4 ? 0 : 8)}));
    for (unsigned i = 0; i < 4; ++i)
      EXPECT_EQ(b16.apply(i, lane, 0),
                (Coordinates{inGroup * 2 + (i & 1) + (i < 2 ? 0 : 8), group}));
    Layout a8 = mmaOperandA({16, 32}, byte.aFragment, {}),
           b8 = mmaOperandB({32, 8}, byte.bFragment, {});
    ASSERT_EQ(a8.numRegisters(), 16u);
    for (unsigned i = 0; i < 16; ++i)
      EXPECT_EQ(a8.apply(i, lane, 0), (Coordinates{i < 4 || (i >= 8 && i < 12) ? group : group + 8,
                                                   inGroup * 4 + (i & 3) + (i < 8 ? 0 : 16)}));
    for (unsigned i = 0; i < 8; ++i)
      EXPECT_EQ(b8.apply(i, lane, 0),
                (Coordinates{inGroup * 4 + (i & 3) + (i < 4 ? 0 : 16), group}));
    Layout a32 = mmaOperandA({16, 8}, word.aFragment, {}),
           b32 = mmaOperandB({8, 8}, word.bFragment, {});
    ASSERT_EQ(a32.numRegisters(), 4u);
    for (unsigned i = 0; i < 4; ++i)
      EXPECT_EQ(a32.apply(i, lane, 0),
                (Coordinates{i & 1 ? group + 8 : group, i < 2 ? inGroup : inGroup + 4}));
    for (unsigned i = 0; i < 2; ++i)
      EXPECT_EQ(b32.apply(i, lane, 0), (Coordinates{i ? inGroup + 4 : inGroup, group}));
    EXPECT_EQ(mmaOperandA({8, 4}, full.aFragment, {}).apply(0, lane, 0),
              (Coordinates{group, inGroup}));
    EXPECT_EQ(mmaOperandB({4, 8}, full.bFragment, {}).apply(0, lane, 0),
              (Coordinates{inGroup, group}));
    Layout c64 = mmaAccumulator({8, 8}, full.sumFragment, {});
    for (unsigned i = 0; i < 2; ++i)
      EXPECT_EQ(c64.apply(i, lane, 0), (Coordinates{group, inGroup * 2 + i}));
  }
}

TEST(Builders, MmaTilesSpreadOverWarpsAndRegisters) {
  const MmaInstruction &half = mmaSync(16);
  Layout c = mmaAccumulator({64, 176}, half.sumFragment, {.warpsM = 4, .warpsN = 2});
  EXPECT_EQ(c.numWarps(), 8u);
  EXPECT_EQ(c.numRegisters(), 64u * 176 / 256);
  EXPECT_EQ(c.apply(0, 0, 1), (Coordinates{16, 0}));
  EXPECT_EQ(c.apply(0, 0, 4), (Coordinates{0, 8}));
  Layout a = mmaOperandA({64, 32}, half.aFragment, {.warpsM = 4, .warpsN = 2});
  EXPECT_EQ(a.freeBits(In::Warp), 0b100u);
  EXPECT_EQ(a.apply(8, 0, 2), (Coordinates{32, 16}));
  Layout b = mmaOperandB({32, 176}, half.bFragment, {.warpsM = 4, .warpsN = 2});
  EXPECT_EQ(b.freeBits(In::Warp), 0b011u);
  // The accumulator of one product is, register for register, the A operand of the next.
  EXPECT_TRUE(registersInThread(mmaAccumulator({64, 64}, half.sumFragment, {.warpsM = 4}),
                                mmaOperandA({64, 64}, half.aFragment, {.warpsM = 4})));
}

TEST(Builders, SwizzleMovesVectorsWithinRows) {
  Layout shared = sharedSwizzled({16, 64}, {1, 0}, 8, 1, 8);
  LayoutInverse inverse = shared.inverse();
  for (int64_t row = 0; row < 16; ++row)
    for (int64_t column = 0; column < 64; ++column)
      EXPECT_EQ(inverse({row, column})[In::Offset],
                uint32_t(row * 64 + ((column / 8) ^ (row % 8)) * 8 + column % 8));
}

} // namespace
