// What the kernels must compute, done plainly on the host.
#pragma once
#include "kernels/references/HostArray.h"
#include <functional>
#include <optional>
#include <sectile/reference.h>

namespace sectile {

struct Invocation;
// As KernelSpec::reference: gives a call's outputs for its inputs.
using ReferenceFunction = std::vector<HostArray>(const Invocation &, std::span<const HostArray>,
                                                 Arithmetic);

// z = x + y
HostArray vectorAddReference(const HostArray &x, const HostArray &y, Arithmetic arithmetic);

// Along the last axis. A row of -inf gives NaN, as in PyTorch.
HostArray softmaxReference(const HostArray &x, Arithmetic arithmetic);

struct LayerNormResult {
  HostArray y, mean, rstd;
};
// y = (x - mean) * rstd * w + b along the last axis; biased variance, eps added to it. w and b may
// be left out.
LayerNormResult layerNormReference(const HostArray &x, const HostArray &w, const HostArray &b,
                                   double eps, Arithmetic arithmetic);

struct MatmulReferenceOptions {
  bool tf32 = false; // for Arithmetic::own: operands cut to tf32, as tensor cores do
};
// c[M, N] = a[M, K] b[K, N]
HostArray matmulReference(const HostArray &a, const HostArray &b,
                          const MatmulReferenceOptions &options, Arithmetic arithmetic);

// A factor of scores, base + peak e^(-decay d), of a query and a key that are d places apart.
struct Nearness {
  double base = 1, peak = 0, decay = 0;
};
// A score, and what a change of the scaled product changes it by.
struct ModifiedScore {
  double value, slope;
};
using ScoreModifier = std::function<ModifiedScore(
    double product, std::int64_t batch, std::int64_t head, std::int64_t query, std::int64_t key)>;

// Options of attention as docs/kernels/attention.md has them. Arrays are of any float type.
struct AttentionSettings {
  bool causal = false;
  std::optional<double> scale = {};   // 1/sqrt(D) where not given
  std::int64_t left = -1, right = -1; // the window; -1: unbounded
  double cap = 0;                     // of the scores; 0: none
  double dropout = 0;
  std::uint64_t seed = 0;
  bool tf32 = false;                 // for Arithmetic::own: operands cut to tf32
  const HostArray *bias = nullptr;   // [1|B, 1|Hq, Sq, Sk]
  const HostArray *mask = nullptr;   // the same, of bools
  const HostArray *sinks = nullptr;  // [1|Hq, R]
  std::optional<Nearness> near = {}; // of scaled products
  ScoreModifier modified = {};       // of the same, by whatever formula
  // Queries and keys that far pairs have in place of the others: those that are so far apart.
  const HostArray *farQueries = nullptr, *farKeys = nullptr;
  std::int64_t far = 0;
  // [1|B, 1|Hq, ...] of bools, for blocks of so many queries and keys.
  const HostArray *blockMask = nullptr;
  std::int64_t blockQueries = 1, blockKeys = 1;
};
// Dropout of attention keeps what draws 16 bits of at least this; they are its upper half.
std::uint32_t weightThreshold(double probability);

struct AttentionResult {
  HostArray o, lse;
};
// q [B, Hq, Sq, D], k [B, Hkv, Sk, D], v [B, Hkv, Sk, Dv] -> o [B, Hq, Sq, Dv], lse [B, Hq, Sq]
// (natural logarithm, sinks included). A row whose scores are all -inf, or that sees no key, has
// o = 0, and lse = -inf if there are no sinks.
AttentionResult attentionReference(const HostArray &q, const HostArray &k, const HostArray &v,
                                   const AttentionSettings &settings, Arithmetic arithmetic);

} // namespace sectile
