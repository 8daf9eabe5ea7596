// Random layouts and a printed seed for the layout property tests.
#pragma once

#include "ir/layout/Builders.h"
#include "ir/layout/Layout.h"
#include "tests/unit/Processes.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Sequence.h"
#include <algorithm>
#include <cstdlib>
#include <gtest/gtest.h>
#include <random>

namespace sectile::test {

/// A generator whose seed is in every failure's message: the same in each run, or with
/// SECTILE_TEST_ALL=1 a new one; SECTILE_TEST_SEED repeats a run.
class Random {
public:
  Random() {
    const char *given = std::getenv("SECTILE_TEST_SEED");
    seed = given ? std::strtoull(given, nullptr, 10) : count(1, 0);
    if (!seed)
      seed = std::random_device{}();
    engine.seed(seed);
    testing::Test::RecordProperty("seed", std::to_string(seed));
  }
  unsigned below(unsigned n) { return engine() % n; }
  unsigned between(unsigned low, unsigned high) { return low + below(high - low + 1); }
  bool coin() { return engine() & 1; }
  std::string message() const { return "SECTILE_TEST_SEED=" + std::to_string(seed); }

  uint64_t seed;
  std::mt19937_64 engine;
};

/// A shape of up to `maxBits` core bits; with repeats one time in three.
inline llvm::SmallVector<int64_t, 4> randomShape(Random &random, unsigned rank, unsigned maxBits) {
  llvm::SmallVector<int64_t, 4> shape(rank, 1);
  if (!rank)
    return shape;
  for (unsigned i = random.below(maxBits + 1); i-- > 0;)
    shape[random.below(rank)] *= 2;
  if (random.below(3) == 0)
    shape[random.below(rank)] *= random.coin() ? 3 : 5;
  return shape;
}

/// A distributed layout: the unit vectors of the core and some replication or wild extras dealt to
/// registers, lanes and warps, then mixed by random xors.
inline Layout randomDistributed(Random &random, llvm::ArrayRef<int64_t> shape, unsigned laneBits,
                                unsigned warpBits) {
  unsigned coreBits = 0;
  for (int64_t extent : shape)
    coreBits += llvm::countr_zero(uint64_t(extent));
  unsigned threads = laneBits + warpBits;
  unsigned registers = (coreBits > threads ? coreBits - threads : 0) + random.below(3);
  llvm::SmallVector<uint32_t, 32> vectors;
  for (unsigned b = 0; b < coreBits; ++b)
    vectors.push_back(1u << b);
  if (registers + threads < coreBits)
    registers = coreBits - threads;
  while (vectors.size() < registers + threads)
    vectors.push_back(random.coin() ? 0 : random.below(1u << coreBits));
  std::shuffle(vectors.begin(), vectors.end(), random.engine);
  if (random.coin())
    for (unsigned i = random.below(6); i-- > 0;) {
      unsigned to = random.below(vectors.size()), from = random.below(vectors.size());
      if (to != from)
        vectors[to] ^= vectors[from];
    }
  Layout::PackedBases bases;
  for (auto [i, vector] : llvm::enumerate(vectors)) {
    In in = i < registers ? In::Register : i < registers + laneBits ? In::Lane : In::Warp;
    bases[unsigned(in)].push_back(vector);
  }
  return Layout::fromPacked(Layout::Kind::Distributed, shape, bases);
}

/// Calls `visit(place)` for every register, lane and warp.
template <class Visit> void forEachPlace(const Layout &layout, Visit visit) {
  for (unsigned warp = 0; warp < layout.numWarps(); ++warp)
    for (unsigned lane = 0; lane < layout.numLanes(); ++lane)
      for (unsigned reg = 0; reg < layout.numRegisters(); ++reg)
        visit(Place::of(reg, lane, warp));
}

/// Row-major position of coordinates in the whole tensor.
inline int64_t rowMajor(llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<int64_t> coordinates) {
  int64_t index = 0;
  for (auto [extent, coordinate] : llvm::zip_equal(shape, coordinates))
    index = index * extent + coordinate;
  return index;
}

inline Coordinates fromRowMajor(llvm::ArrayRef<int64_t> shape, int64_t index) {
  Coordinates coordinates(shape.size());
  for (unsigned d = shape.size(); d-- > 0;) {
    coordinates[d] = index % shape[d];
    index /= shape[d];
  }
  return coordinates;
}

} // namespace sectile::test
