// What the kernels of this family must compute, done plainly on the host.
#pragma once
#include "kernels/position/References.h"

namespace sectile {

struct Invocation;

// o [P, B, Hq, Sq, D] and lse [P, B, Hq, Sq] of P parts of the keys -> o and lse of all of them.
// A part whose lse is -inf has seen nothing and counts nothing, whatever its o holds.
AttentionResult mergeReference(const HostArray &o, const HostArray &lse, Arithmetic arithmetic);

struct PagedSettings {
  double scale = 1;
  double cap = 0;         // of the scores; 0: none
  std::int64_t left = -1; // the window; -1: unbounded
  bool causal = true;
  const HostArray *cu =
      nullptr; // where the sequences' queries begin and end, [S + 1]; else each has one
  const HostArray *sinks = nullptr;                     // [1|Hq, R]
  const HostArray *kScale = nullptr, *vScale = nullptr; // [1|blocks, Hkv]
};
// q [T, Hq, D], caches [blocks, Hkv, page, Dc], lengths [S], tables [S, max] -> o like q, lse
// [T, Hq]. Query i of n of a sequence sees key j where j <= i + length - n, if causal, and j >= i +
// length - n - left. Pages in which nothing is seen are not looked for.
AttentionResult pagedReference(const HostArray &q, const HostArray &kCache, const HostArray &vCache,
                               const HostArray &lengths, const HostArray &tables,
                               const PagedSettings &settings, Arithmetic arithmetic);

// Throws InputError for a length that the tables have no room for, and for the number of a block
// that is looked for and is not there.
void checkPagedContents(const Invocation &call, const HostArray &lengths, const HostArray &tables,
                        const PagedSettings &settings);

struct BlockSparseSettings {
  SchemeOptions scheme;
  std::int64_t blockQ = 64, blockK = 64;
  const HostArray *mask = nullptr; // [1|B, 1|Hq, Mq, Mk]
};
// As attention, of the keys in blocks that the mask has for a query's block.
AttentionResult blockSparseReference(const HostArray &q, const HostArray &k, const HostArray &v,
                                     const BlockSparseSettings &settings, Arithmetic arithmetic);
// inputs: q, k, v, mask, o, lse, do.
PositionGradients blockSparseBackwardReference(std::span<const HostArray> inputs,
                                               const BlockSparseSettings &settings,
                                               Arithmetic arithmetic);

} // namespace sectile
