// What kda, rwkv7 and their gradients share: decays by channel, what the launches
// leave of each chunk, and the inputs and options.
#pragma once
#include "kernels/recurrent/DeltaRule.h"

namespace sectile::delta {

// What scans along time, within blocks of steps, add or multiply.
struct Scan {
  bool multiplies = false;
  bool reverse = false;   // from the block's end
  bool exclusive = false; // without the step itself
};
// Scans of `x` [steps, channels] within blocks of `size` steps.
inline Tile<float> scanned(const Tile<float> &x, int size, const Scan &scan) {
  const int steps = static_cast<int>(x.extent(0)), channels = static_cast<int>(x.extent(1));
  const auto combine = [&](const auto &a, const auto &b) {
    return scan.multiplies ? a * b : a + b;
  };
  const auto blocks = reshape(x, steps / size, size, channels);
  if (!scan.exclusive)
    return reshape(associative_scan(blocks, 1, combine, scan.reverse), steps, channels);
  // Each step's number beside what is before it, of which it has nothing by itself.
  const auto nothing = full<float>(scan.multiplies ? 1.0f : -0.0f, steps / size, size, channels);
  const auto [all, before] = associative_scan(
      std::tuple(blocks, nothing), 1,
      [&](const auto &a, const auto &, const auto &b, const auto &beforeB) {
        return std::tuple(combine(a, b), combine(a, beforeB));
      },
      scan.reverse);
  return reshape(before, steps, channels);
}

// Decays of some steps and channels, for inputs of type T. What remains over several steps is a
// product of factors from 0 to 1, so that what decays to nothing is 0, and no exponential is taken
// twice. For float, whose digits the errors of many factors would show in, it is the exponential of
// a sum.
template <class T> class ChannelDecays {
public:
  ChannelDecays(const View<const float, 2> &logs, const Int &number, const Int &part, int block,
                const DeltaConfig &config) {
    if (config.gk)
      each = logs.tile(config.chunk, block).load(number, part);
    else
      each = zeros<float>(config.chunk, block);
    if (multiplies)
      each = exp(each);
  }

  // Within blocks of `size` steps up to each step.
  Tile<float> upTo(int size) const {
    return decayed(scanned(each, size, {.multiplies = multiplies}));
  }
  // The same without the step itself.
  Tile<float> before(int size) const {
    return decayed(scanned(each, size, {.multiplies = multiplies, .exclusive = true}));
  }
  // From the step after each to the block's end.
  Tile<float> after(int size) const {
    return decayed(
        scanned(each, size, {.multiplies = multiplies, .reverse = true, .exclusive = true}));
  }
  // Over all steps: [block].
  Tile<float> whole() const {
    if (!multiplies)
      return exp(sum(each, 0));
    return reduce(each, 0, [](const auto &a, const auto &b) { return a * b; });
  }

private:
  static constexpr bool multiplies = !std::same_as<T, float>;

  static Tile<float> decayed(const Tile<float> &x) { return multiplies ? x : exp(x); }

  Tile<float> each; // factors, or logarithms
};

// Adds what two sets of decayed rows have in common, by pairs of steps: [chunk, chunk]. As no decay
// is above 1, rows stay within the range of the inputs that they are made of.
template <class T>
Tile<float> common(const Tile<float> &a, const Tile<float> &b, const Tile<float> &sum) {
  return dot(cast<T>(a), cast<T>(trans(b)), sum, Precision::ieee);
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
