// Shapes of programs over rows.
#include "kernels/blocks/RowBlocks.h"
#include "kernels/calls/Use.h"
#include <algorithm>

using namespace sectile;

namespace {

constexpr std::int64_t factors[] = {1, 3, 5, 7};
constexpr std::int64_t cacheLine = 128, vectorBytes = 16;
constexpr std::int64_t narrowest = 32;

std::int64_t bytesOf(DType dtype) {
  switch (dtype) {
  case DType::float32:
  case DType::int32:
    return 4;
  default:
    return 2;
  }
}

// Threads of which each has a vector of its own: more would hold copies, or narrower vectors.
std::int64_t threadsFor(std::int64_t tile, DType dtype) {
  return (tile & -tile) * bytesOf(dtype) / vectorBytes;
}

} // namespace

std::int64_t sectile::blockFor(std::int64_t length, DType dtype) {
  std::int64_t best = std::max(powerAtLeast(length), narrowest);
  for (const std::int64_t factor : factors) {
    const std::int64_t core = powerAtLeast(ceilDiv(length, factor));
    if (core * bytesOf(dtype) >= cacheLine)
      best = std::min(best, factor * core);
  }
  return best;
}

bool sectile::isFittingBlock(std::int64_t block, std::int64_t length, DType dtype) {
  const std::int64_t width = ceilDiv(length, std::max<std::int64_t>(ceilDiv(length, block), 1));
  return (block >= length || block >= 1024) &&
         (block == blockFor(width, dtype) || block == std::max(powerAtLeast(width), narrowest));
}

std::vector<std::int64_t> sectile::rowBlocks() {
  std::vector<std::int64_t> all;
  for (std::int64_t power = narrowest; power <= 32768; power *= 2)
    for (const std::int64_t factor : factors)
      if (factor * power <= 32768)
        all.push_back(factor * power);
  std::ranges::sort(all);
  return all;
}

RowBlocks sectile::rowBlocksFor(std::int64_t count, std::int64_t length, std::int64_t longest,
                                DType dtype, const std::string &target, std::int64_t together,
                                int tensors) {
  const std::int64_t parts = std::max<std::int64_t>(ceilDiv(length, longest), 1);
  std::int64_t block = blockFor(ceilDiv(length, parts), dtype);
  // Of a row that is read in blocks a program waits for each: one that suits more threads is
  // better.
  if (parts > 1 && threadsFor(block, dtype) < block / 32 && powerAtLeast(block) * 7 <= block * 8)
    block = powerAtLeast(block);
  // Four programs and more for each multiprocessor come before several rows for each program.
  const std::int64_t spread = count / (4 * multiprocessors(target));
  const std::int64_t most =
      std::max(powerAtMost(std::max<std::int64_t>(std::min(together / block, spread), 1)),
               warpSize(target) / threadsFor(block, dtype));
  const std::int64_t rows = std::clamp<std::int64_t>(powerAtLeast(count), 1, most);
  const std::int64_t tile = block * rows;
  // Sixteen elements for a thread, or twice as many where that makes many threads: each has its own
  // registers for addresses and takes part in the row's sum.
  const std::int64_t wanted =
      std::max<std::int64_t>({tile / 32, std::min<std::int64_t>(tile / 16, 256), 1});
  std::int64_t threads = std::min(powerAtMost(wanted), threadsFor(tile, dtype));
  // Vectors of half the length are better than threads with so many elements of short rows (on
  // other vendors' chips that was not measured).
  if (target.starts_with("sm_") && rows > 1 && tile >= 24 * threads && threads <= 64)
    threads *= 2;
  // Many of the longest rows of 16 bits were faster by eight warps than by sixteen, of one tensor:
  // docs/performance.md.
  const std::int64_t mostWarps = bytesOf(dtype) == 2 && tensors == 1 && tile > 16384 &&
                                         tile <= 24576 && count > 2 * multiprocessors(target)
                                     ? 8
                                     : 16;
  return {block, rows, std::clamp<std::int64_t>(threads / warpSize(target), 1, mostWarps)};
}

std::int64_t sectile::warpsBesideOthers(const RowBlocks &of, std::int64_t count, DType dtype,
                                        const std::string &target) {
  const std::int64_t tile = of.block * of.rows, lanes = warpSize(target),
                     programs = ceilDiv(count, of.rows), processors = multiprocessors(target);
  // Where many programs share a multiprocessor, more of their threads only take registers.
  const std::int64_t elements = programs <= 2 * processors   ? 32 / bytesOf(dtype)
                                : programs <= 8 * processors ? 32
                                                             : tile,
                     mostWarps = programs <= processors || tile > 8192 ? 16 : 8,
                     mostThreads = 2 * threadsFor(tile, dtype);
  std::int64_t warps = of.warps;
  while (tile > elements * warps * lanes && 2 * warps <= mostWarps &&
         2 * warps * lanes <= mostThreads)
    warps *= 2;
  return warps;
}

void sectile::configureRows(KernelSpec &spec, const std::string &axis, std::int64_t longest,
                            std::int64_t together, int tensors) {
  spec.config = {{"block", "elements of a row held at once"},
                 {"rows", "rows held at once"},
                 {"warps", "warps of one program"}};
  spec.defaults = [axis, longest, together, tensors](const Invocation &call,
                                                     const std::string &target) {
    const DType dtype = call.tensors[0].dtype;
    const auto [block, rows, warps] =
        rowBlocksFor(elementCount(call.leading), call.extent(axis),
                     bytesOf(dtype) == 4 ? longest : std::min<std::int64_t>(2 * longest, 32768),
                     dtype, target, together, tensors);
    return Config{{"block", block}, {"rows", rows}, {"warps", warps}};
  };
  spec.spaces = {
      {.axes = {{"block", rowBlocks()},
                {"rows", {1, 2, 4, 8, 16, 32, 64}},
                {"warps", {1, 2, 4, 8, 16}}},
       .where = [axis](const Invocation &call, const std::string &target, const Config &config) {
         const std::int64_t block = config.at("block"), rows = config.at("rows"),
                            warps = config.at("warps"), tile = block * rows,
                            threads = warps * warpSize(target);
         // Four elements and more for a thread; no rows or columns that there are not.
         return (tile >= 4 * threads || (warps == 1 && tile >= threads)) && tile <= 64 * threads &&
                (warps == 1 || threads <= 2 * threadsFor(tile, call.tensors[0].dtype)) &&
                isFittingBlock(block, call.extent(axis), call.tensors[0].dtype) &&
                (rows == 1 || (tile <= 4096 && rows < 2 * elementCount(call.leading)));
       }}};
}

decltype(SearchSpace::where) sectile::tilesWithin(std::vector<std::string> fields,
                                                  std::int64_t least, std::int64_t most,
                                                  std::vector<TriedAlong> along,
                                                  std::string warps) {
  return [=](const Invocation &call, const std::string &target, const Config &config) {
    const std::int64_t threads = config.at(warps) * warpSize(target);
    std::int64_t elements = 1;
    for (const std::string &field : fields)
      elements *= config.at(field);
    return threads <= 1024 && elements >= least * threads && elements <= most * threads &&
           std::ranges::all_of(along, [&](const TriedAlong &one) {
             return config.at(one.field) <= one.smallest ||
                    config.at(one.field) < 2 * call.extent(one.axis);
           });
  };
}
