// Latent attention (MLA, DeepSeek-V2: arXiv 2405.04434) over a cache whose rows hold a latent,
// which is both the start of the key and the value, and columns that only the key has: the loop,
// and what the kernels share on the host.
#pragma once
#include "kernels/attention/Options.h"
#include "kernels/serving/Paged.h"

namespace sectile {
namespace serving {

struct LatentRowConfig {
  int rest = 64;        // columns of keys beyond the latent, up to the next multiple of 16
  bool grouped = false; // each 128 numbers of a latent have a scale in the cache
  bool scaled = false;  // all numbers have one scale
  bool causal = false;  // a query sees keys up to its own
  bool listed = false;  // tables have slots of keys, of each query; negative ones are left out
  bool counted = false; // and not all of them count
};
using LatentConfig = JoinedConfig<flash::LoopConfig, flash::PageConfig, LatentRowConfig>;

// As flash::PagedTensors, of one head of keys.
template <class T, class C, class R, class Out> struct LatentTensors {
  View<const T, 3> q;                      // [Tq, H, L + R]
  View<const C, 3> latents;                // [blocks, page, L]
  View<const R, 3> rest;                   // [blocks, page, R]
  View<const float, 3> groups;             // [blocks, page, L / 128]
  View<const float, 1> scale;              // [1]
  View<const std::int32_t, 1> lengths;     // [S]
  View<const std::int32_t, 2> tables;      // [S, max]: blocks, or slots
  View<const std::int32_t, 1> queryStarts; // [S + 1]
  View<const std::int32_t, 2> plan;        // [parts, 4]
  View<const float, 2> sinks;              // [H, N]
  View<Out, 4> o;                          // [splits, Tq, H, L]
  View<float, 3> lse;                      // [splits, Tq, H]
  Int queries;
};

// A program has rows of all heads of a sequence's queries. The latents of a step are one tile, of
// keys and of values.
template <class T, class C, class R, class Out>
void traceLatent(const LatentConfig &config, const LatentTensors<T, C, R, Out> &tensors,
                 const flash::Numbers &numbers);

} // namespace serving
} // namespace sectile
