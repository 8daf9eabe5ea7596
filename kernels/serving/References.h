// What the kernels of this family must compute, done plainly on the host.
#pragma once
#include "kernels/references/References.h"

namespace sectile {

// o [P, B, Hq, Sq, D] and lse [P, B, Hq, Sq] of P parts of the keys -> o and lse of all of them.
// A part whose lse is -inf has seen nothing and counts nothing, whatever its o holds.
ReferenceFunction mergeReference;

struct PagedSettings {
  AttentionSettings attention;
  // Where the sequences' queries begin and end, [S + 1]; else each has `queries`.
  const HostArray *cu = nullptr;
  const HostArray *kScale = nullptr, *vScale = nullptr;   // [1|blocks, Hkv]
  const HostArray *kScales = nullptr, *vScales = nullptr; // [blocks, Hkv, page]
  std::int64_t queries = 1;
  std::int64_t chunk = 0;          // positions of one; 0: there are none
  const HostArray *tree = nullptr; // [T, words]: a bit for each of a sequence's last keys
  // [S]: how many of a sequence's first keys nobody sees. Chunks begin behind them.
  const HostArray *padding = nullptr;
  // [T, Hq, D]: scores are of (q, valueQueries) and (keys, values), side by side.
  const HostArray *valueQueries = nullptr;

  // The number of sequence s's first query.
  std::int64_t first(std::int64_t s) const {
    return cu ? cu->as<std::int32_t>()[static_cast<std::size_t>(s)] : s * queries;
  }
  std::int64_t paddingOf(std::int64_t s) const {
    return padding ? padding->as<std::int32_t>()[static_cast<std::size_t>(s)] : 0;
  }
};
// q [T, Hq, D], caches [blocks, Hkv, page, Dc], lengths [S], tables [S, max] -> o [T, Hq, Dv],
// lse [T, Hq]. Query i of n of a sequence sees key j where j <= i + length - n, if causal, and j >=
// i + length - n - left. Pages in which nothing is seen are not looked for.
AttentionResult pagedReference(const HostArray &q, const HostArray &kCache, const HostArray &vCache,
                               const HostArray &lengths, const HostArray &tables,
                               const PagedSettings &settings, Arithmetic arithmetic);

// A cache [blocks, page, Dc] of latents as keys [blocks, 1, page, D] and values [blocks, 1, page,
// latent], the first columns of those. scale: [1], or nothing.
struct LatentRows {
  HostArray keys, values;
};
LatentRows latentRows(const Invocation &call, const HostArray &cache, std::int64_t latent,
                      const HostArray &scale, Arithmetic arithmetic);
// Attention of q [T, Hq, D] over the rows indices [T, topk] of these, negative ones left out, of
// which lengths [T] count, if given -> o [T, Hq, latent], lse [T, Hq].
AttentionResult chosenRowsReference(const HostArray &q, const LatentRows &rows,
                                    const HostArray &indices, const HostArray *lengths,
                                    const PagedSettings &settings, Arithmetic arithmetic);
// Throws InputError for a length beyond topk, and for a row that there is not.
void checkIndices(const Invocation &call, const HostArray &indices, const HostArray *lengths);

// A plan [parts, 4] of sequences of these lengths: see Plan.h.
HostArray planReference(const HostArray &lengths, std::int64_t parts);
// Throws InputError for a plan that does not have each key of each sequence once.
void checkPlan(const Invocation &call, const HostArray &plan, const HostArray &lengths);

// Throws InputError for a length that the tables have no room for, and for the number of a block
// that is looked for and is not there.
void checkPagedContents(const Invocation &call, const HostArray &lengths, const HostArray &tables,
                        const PagedSettings &settings);

} // namespace sectile
