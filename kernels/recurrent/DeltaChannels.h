// What kda, rwkv7 and their gradients share: logarithms of decays by channel, what the launches
// leave of each chunk, and the inputs and options.
#pragma once
#include "kernels/recurrent/DeltaRule.h"

namespace sectile::delta {

// Logarithms of the decays of some steps and channels.
class Logs {
public:
  Logs(const View<const float, 2> &g, const Int &number, int block, const DeltaConfig &config)
      : config(config), g(g), number(number), block(block) {}

  // Of each of the chunk's steps, or with `shift` 1 of the one after it, with -1 of that before.
  Tile<float> of(const Int &part, int shift = 0) const {
    if (!config.gk)
      return zeros<float>(config.chunk, block);
    return g.tile(config.chunk, block).load_at(number * config.chunk + shift, part * block);
  }

  // Sums within blocks of `size` steps up to each step.
  Tile<float> upTo(const Tile<float> &each, int size) const {
    return size == 1 ? each : sums(each, size, false);
  }
  // The same without the step itself, of what of(part, -1) gives.
  Tile<float> before(const Tile<float> &earlier, int size) const {
    if (size == 1)
      return zeros<float>(config.chunk, block);
    return sums(where((steps() & (size - 1)) == 0, 0.0f, earlier), size, false);
  }
  // From the step after each to the block's end, of what of(part, 1) gives.
  Tile<float> after(const Tile<float> &later, int size) const {
    if (size == 1)
      return zeros<float>(config.chunk, block);
    return sums(where((steps() & (size - 1)) == size - 1, 0.0f, later), size, true);
  }

private:
  Tile<Index> steps() const { return expand(arange(0, config.chunk), 1); }
  Tile<float> sums(const Tile<float> &each, int size, bool reverse) const {
    return reshape(cumsum(reshape(each, config.chunk / size, size, block), 1, reverse),
                   config.chunk, block);
  }

  DeltaConfig config;
  View<const float, 2> g;
  Int number;
  int block;
};

// Adds what two sets of rows have in common, by pairs of steps: [chunk, chunk].
template <class T>
Tile<float> common(const Tile<float> &a, const Tile<float> &b, const Tile<float> &sum) {
  return dot(a, trans(b), sum, statePrecision<T>);
}

// What the first launch leaves of each chunk [slots, Hv, chunk, K], one after another: queries on
// the state before the chunk; the rows that carry what steps add, and those that carry v, to its
// end; and what steps take of the state before it.
struct Places {
  int queries = 0, ofAdded = 1, ofValues, reads;

  explicit Places(const DeltaConfig &config)
      : ofValues(config.corrects ? 2 : 1), reads(ofValues + config.direct) {}
  int count(const DeltaConfig &config) const { return reads + config.corrects; }
};

// What launchChannelStates leaves of all chunks.
template <class T> struct ChannelChunks {
  Tensor<T, 5> rows, scores; // by Places; of queries on what steps add, then on v
  Tensor<float, 3> whole;    // how much of the state before a chunk remains at its end
  Tensor<T, 4> added;        // what its steps add
};

// Launches what leaves the state before each chunk in `kept` [slots, Hv, K, V], the last ones in
// `last`, and where steps read it what they add in `added` [slots, Hv, chunk, V]. With
// DeltaConfig::backward also the inverses, and with rwkv7 a third array of scores: of what steps
// read on v. `values` is as of launchStates.
template <class T, class U>
ChannelChunks<T> launchChannelStates(Use &use, const DeltaCall &call, const Tensor<T, 4> &values,
                                     const Tensor<T, 4> &added, const Tensor<float, 4> &inverses,
                                     const Tensor<U, 4> &kept, const Tensor<float, 4> &last);

// Launches what makes o of that; with `gated` by silu(z), too.
template <class T, class U>
void launchChannelOutputs(Use &use, const DeltaCall &call, const ChannelChunks<T> &chunks,
                          const Tensor<U, 4> &kept, const Tensor<T, 4> &o, bool gated);

// The inputs and options of kda or rwkv7.
void addInputsByChannel(KernelSpec &spec, bool isRwkv);

} // namespace sectile::delta
