// How kernels over rows cut them: the elements of a row and the rows that a program holds at once,
// and its warps.
#pragma once
#include "kernels/registry/Registry.h"
#include <bit>

namespace sectile {

// Powers of two.
constexpr std::int64_t powerAtLeast(std::int64_t least) {
  return static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(least)));
}
constexpr std::int64_t powerAtMost(std::int64_t most) { // 0 of 0
  return static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(most)));
}

struct RowBlocks {
  std::int64_t block, rows, warps;
};

// The narrowest block that holds so many elements of a row: 1, 3, 5 or 7 times a power of two.
// Threads share the power of two, which is therefore a cache line or more.
std::int64_t blockFor(std::int64_t length, DType dtype);

// For the spaces of searches: all blocks, and whether a row is worth cutting into this one, because
// it fits or is much longer, and no narrower one of its kind does as well.
std::vector<std::int64_t> rowBlocks();
bool isFittingBlock(std::int64_t block, std::int64_t length, DType dtype);

// For SearchSpace::where: the tiles whose extents these fields are have `least` to `most` elements
// for each thread, and a field beyond the smallest value tried is less than twice its axis.
struct TriedAlong {
  std::string field;
  std::int64_t smallest;
  std::string axis;
};
decltype(SearchSpace::where) tilesWithin(std::vector<std::string> fields, std::int64_t least,
                                         std::int64_t most, std::vector<TriedAlong> along = {},
                                         std::string warps = "warps");

// Elements of short rows that share a program. A multiprocessor has room for so many programs only:
// of one warp each they leave it half empty.
constexpr std::int64_t elementsTogether = 4096;
// Where what all rows have in common, such as weights, would be exchanged between many warps.
constexpr std::int64_t elementsTogetherWithWeights = 1536;

// Elements of the longest rows that a program of 512 threads holds in registers, of two tensors in
// f32 too, and so reads once: 0.57 to 0.67 of the time of programs that read them twice.
constexpr std::int64_t longestWhole = 28672;

// For `count` rows of `length` elements, of so many tensors that a program holds at once. A row
// beyond `longest` goes in equal blocks; short rows share a program, `together` elements at most or
// a warp's.
RowBlocks rowBlocksFor(std::int64_t count, std::int64_t length, std::int64_t longest, DType dtype,
                       const std::string &target, std::int64_t together = elementsTogether,
                       int tensors = 1);

// Warps for these blocks where a thread loads other numbers beside each element of a row, such as a
// weight and a bias: threads with half as many elements wait for less.
std::int64_t warpsBesideOthers(const RowBlocks &of, std::int64_t count, DType dtype,
                               const std::string &target);

// The configuration of a kernel over rows along this axis, of which a program holds at most
// `longest` elements of f32 at once, or of 16 bits twice as many up to 32768: its fields, their
// defaults, and a search space of rows that are whole in the registers of the threads or in large
// parts. `tensors`: whose rows it holds.
void configureRows(KernelSpec &spec, const std::string &axis, std::int64_t longest = 8192,
                   std::int64_t together = elementsTogether, int tensors = 1);

} // namespace sectile
