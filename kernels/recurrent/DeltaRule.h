// What the launches of the delta rule share: where the chunks of a sequence lie, the decays within
// a chunk, and the inverse of a triangle.
#pragma once
#include "kernels/blocks/Activations.h"
#include "kernels/blocks/PackedTokens.h"
#include "kernels/recurrent/DeltaGates.h"
#include "kernels/recurrent/DeltaSpec.h"
#include "kernels/recurrent/LinearRecurrence.h"

namespace sectile::delta {

struct DeltaConfig {
  int chunk = 64, columns = 32, warps = 4;
  int width = 64;       // K, up to the next multiple of 16
  bool corrects = true; // a step adds its value less what the state has for its key
  bool direct = false;  // of decays by channel: values enter the state as they are
  // Which of these arguments are given.
  bool beta = false, g = false, gk = false, D = false, z = false, initial_state = false,
       packed = false;
  bool l2norm = false; // keys and queries are normalised
  bool backward = false, dfinal_state = false;
};

// Of all chunks in memory those of a sequence have neighbouring numbers, from `slot` on.
struct Sequence {
  Int batch, slot;
  blockwise::Tokens tokens;

  // Rows of one head of a tensor [B, T, H, …].
  template <class T> View<T, 2> rows(const View<T, 4> &x, const Int &head) const {
    return tokens.of(x.at(batch).fix(1, head));
  }
  template <class T> View<T, 1> numbers(const View<T, 3> &x, const Int &head) const {
    return tokens.of(x.at(batch).fix(1, head));
  }
};

// Sequence `number` of the call; `length` is T.
inline Sequence sequenceOf(const View<const std::int32_t, 1> &starts, const Int &number,
                           const Int &length, const DeltaConfig &config) {
  if (!config.packed)
    return {number, number * cdiv(length, config.chunk), {0, length}};
  const auto tokens = blockwise::tokensOf(starts, number, length);
  return {0, tokens.first / config.chunk + number, tokens};
}

// Calls body(sequence, number) for the chunk that lies in this slot, if a sequence has it.
template <class Body>
void withChunk(const View<const std::int32_t, 1> &starts, const Int &slot, const Int &length,
               const DeltaConfig &config, Body &&body) {
  if (!config.packed) {
    const Int chunks = cdiv(length, config.chunk);
    return body(sequenceOf(starts, slot / chunks, length, config), slot % chunks);
  }
  const auto block = blockwise::packedBlock(starts, length, config.chunk, slot);
  when(block.exists,
       [&] { body(sequenceOf(starts, block.sequence, length, config), block.block); });
}

// How much of what was there remains within one chunk. Differences of sums of logarithms in double
// have the digits of float, so all pairs cost one sum by step. A decay to nothing, whose logarithm
// is -inf, counts as one that float has no number for.
class Decays {
public:
  Decays(const View<const float, 1> &logs, const Int &number, const DeltaConfig &config)
      : config(config), fromStart(full<float>(1, config.chunk)),
        toEnd(full<float>(1, config.chunk)), whole(1.0f) {
    if (!config.g)
      return;
    const auto each = logs.tile(config.chunk).load(number);
    const auto sums = cumsum(cast<double>(where(each < -1e6f, -1e6f, each)), 0);
    const auto last = sum(where(arange(0, config.chunk) == config.chunk - 1, sums, 0.0), 0);
    high = cast<float>(sums);
    low = cast<float>(sums - cast<double>(high));
    fromStart = exp(high);
    toEnd = exp(cast<float>(last - sums));
    whole = exp(cast<float>(last));
  }

  // Of step j at step i, for i >= j, else 0: [chunk, chunk].
  Tile<float> between() const {
    const auto i = expand(arange(0, config.chunk), 1), j = expand(arange(0, config.chunk), 0);
    if (!config.g)
      return cast<float>(i >= j);
    const auto logs = (expand(high, 1) - expand(high, 0)) + (expand(low, 1) - expand(low, 0));
    return where(i >= j, exp(logs), 0.0f);
  }

private:
  DeltaConfig config;
  Tile<float> high, low; // the sums up to each step

public:
  Tile<float> fromStart; // the state before the chunk, at each step: [chunk]
  Tile<float> toEnd;     // what each step adds, at the end: [chunk]
  Float whole;           // the state before the chunk, at the end
};

// By how much each step adds: [chunk].
inline Tile<float> strengthsOf(const View<const float, 1> &beta, const Int &number,
                               const DeltaConfig &config) {
  return config.beta ? beta.tile(config.chunk).load(number) : full<float>(1, config.chunk);
}

// By which each row is multiplied where rows are normalised: [chunk].
template <class T> Tile<float> factors(const Tile<T> &rows, const DeltaConfig &config) {
  if (!config.l2norm)
    return full<float>(1, config.chunk);
  const auto wide = cast<float>(rows);
  return rsqrt(sum(wide * wide, 1) + 1e-6f);
}

// Products with a state, or another float side: tf32 has the digits of half, and float's range.
template <class T>
constexpr Precision statePrecision = std::same_as<T, float> ? Precision::ieee : Precision::tf32;

// How states and gradients enter products: bfloat16 has their range, half does not.
template <class T> using Ranged = std::conditional_t<std::same_as<T, bfloat16>, bfloat16, float>;

// The product of two matrices for inputs of type T, of which one is a state or a gradient.
template <class T, class A, class B>
Tile<float> rangedDot(const Tile<A> &a, const Tile<B> &b, const Tile<float> &acc) {
  return dot(cast<Ranged<T>>(a), cast<Ranged<T>>(b), acc,
             std::same_as<T, bfloat16> ? Precision::ieee : statePrecision<T>);
}

// That of rows of the inputs with a state or its gradient.
template <class T>
Tile<float> withState(const Tile<T> &rows, const Tile<float> &state, const Tile<float> &acc) {
  return rangedDot<T>(rows, state, acc);
}

// A float matrix as the sum of two of T's digits each, the first cut off, which is cheaper than
// rounding it.
template <class T> struct Parts {
  Tile<T> most, rest;

  explicit Parts(const Tile<float> &x) {
    constexpr std::int32_t digits = std::same_as<T, half> ? ~0x1fff : ~0xffff;
    const auto cut = bitcast<float>(bitcast<std::int32_t>(x) & digits);
    most = cast<T>(cut);
    rest = cast<T>(x - cut);
  }
};

// The product of a float matrix with rows of the inputs, which stay as they are.
template <class T>
Tile<float> withRows(const Tile<float> &matrix, const Tile<T> &rows, const Tile<float> &zero) {
  if constexpr (std::same_as<T, float>) {
    return dot(matrix, rows, zero, Precision::ieee);
  } else {
    const Parts<T> parts(matrix);
    return dot(parts.most, rows, dot(parts.rest, rows, zero, Precision::ieee), Precision::ieee);
  }
}

// Of two blocks of the inverse, whose terms may cancel out.
template <class T>
Tile<float> ofBlocks(const Tile<float> &a, const Tile<float> &b, const Tile<float> &zero) {
  if constexpr (std::same_as<T, float>) {
    return dot(a, b, zero, Precision::ieee);
  } else {
    const Parts<bfloat16> left(a), right(b);
    const auto small = dot(left.rest, right.most, zero, Precision::ieee);
    return dot(left.most, right.most, dot(left.most, right.rest, small, Precision::ieee),
               Precision::ieee);
  }
}

// (I + lower)^-1, where `lower` is 0 on the diagonal and above: blocks of 16 on the diagonal by
// substitution, then twice as large ones of two each, whose lower left is -T2 L T1. A product of
// powers of `lower` would be shorter, but overflows where keys are alike.
template <class T> class Inverse {
public:
  Inverse(const Tile<float> &lower, int chunk) : lower(lower), blocks(chunk / size) {}

  Tile<float> operator()() { return of(0, blocks); }

private:
  static constexpr int size = 16;

  // Of the blocks on the diagonal, all at once: [blocks, size, size]. Steps double the width of the
  // blocks that are inverted, as below, but for all and by products of whole blocks.
  Tile<float> small() const {
    const auto at = expand(expand(expand(arange(0, blocks), 1), 2), 3),
               with = expand(expand(expand(arange(0, blocks), 1), 0), 0);
    const auto own = sum(where(at == with, reshape(lower, blocks, size, blocks, size), 0.0f), 2);
    const auto apart = expand(expand(arange(0, size), 1) ^ expand(arange(0, size), 0), 0);
    const auto zero = zeros<float>(blocks, size, size);
    auto result = where(apart < 2, cast<float>(apart == 0) - own, zero);
    for (int width = 2; width < size; width *= 2) {
      const auto corner = where((apart >= width) & (apart < 2 * width), own, 0.0f);
      result -= ofBlocks<T>(ofBlocks<T>(result, corner, zero), result, zero);
    }
    return result;
  }

  // Of the square of so many blocks from `first` on.
  Tile<float> of(int first, int count) {
    if (count == 1) {
      if (first == 0)
        diagonal = small();
      return reshape(slice(diagonal, 0, first, 1), size, size);
    }
    const int half = count / 2, extent = half * size;
    const auto upper = of(first, half), below = of(first + half, half);
    const auto beside =
        slice(slice(lower, 0, (first + half) * size, extent), 1, first * size, extent);
    const auto zero = zeros<float>(extent, extent);
    const auto left = ofBlocks<T>(below, beside, zero);
    const auto corner = ofBlocks<T>(left, upper, zero);
    return cat(cat(upper, zero, 1), cat(zero - corner, below, 1), 0);
  }

  Tile<float> lower, diagonal;
  int blocks;
};

// What each step of a chunk takes of each step up to it, times `scale`, else 0: [chunk, chunk].
template <class T>
Tile<float> scoresOf(const Tile<T> &query, const Tile<T> &key, const Decays &decays,
                     const Float &scale, const DeltaConfig &config) {
  const int chunk = config.chunk;
  const auto i = expand(arange(0, chunk), 1), j = expand(arange(0, chunk), 0);
  const auto scores = dot(query, trans(key), zeros<float>(chunk, chunk), Precision::ieee) *
                      decays.between() * expand(factors(query, config) * scale, 1) *
                      expand(factors(key, config), 0);
  return where(i >= j, scores, 0.0f);
}

// Stores some columns of o, with what D and z make of them.
template <class T>
void storeOutput(const Sequence &sequence, const Int &number, const Int &head, const Int &column,
                 Tile<float> result, const View<const T, 4> &v, const View<const float, 1> &D,
                 const View<const T, 4> &z, const View<T, 4> &o, const DeltaConfig &config) {
  const int chunk = config.chunk, columns = config.columns;
  if (config.D)
    result += cast<float>(sequence.rows(v, head).tile(chunk, columns).load(number, column)) *
              load(D.ptr() + cast<std::int64_t>(head) * D.stride(0));
  if (config.z)
    result *=
        activate(Activation::silu,
                 cast<float>(sequence.rows(z, head).tile(chunk, columns).load(number, column)));
  sequence.rows(o, head).tile(chunk, columns).store(number, column, result);
}

// What the launches of a call share.
struct DeltaCall {
  std::int64_t heads, k, v, count; // Hv, K, V, N
  float scale;
  DeltaConfig states, wide; // of the pass over the states, and of launches over all chunks
  std::int64_t slots;       // of chunks
  Tensor<std::int32_t, 1> starts;
  Tensor<float, 3> beta, g, remaining; // the last: of each step at the end of its chunk
  Tensor<float, 4> gk;                 // decays by channel
  Tensor<float, 2> whole;              // of the state before a chunk at its end

  explicit DeltaCall(Use &use, bool backward = false);
};

// Launches what leaves the state before each chunk in `kept` [slots, Hv, K, V], the last ones in
// `last`. Where steps are corrected, also what each adds in `added` [slots, Hv, chunk, V]; with
// DeltaConfig::backward the inverses, too. What steps add without a state waits in `values`
// [B, T, Hv, V], an output that is written later. Gives what the steps take of the state before the
// chunk [slots, Hv, chunk, K].
template <class T>
Tensor<T, 4> launchStates(Use &use, const DeltaCall &call, const Tensor<T, 4> &values,
                          const Tensor<T, 4> &added, const Tensor<float, 4> &inverses,
                          const Tensor<Ranged<T>, 4> &kept, const Tensor<float, 4> &last);

// Launches what makes o of states and what steps add; with `gated` by silu(z), too.
template <class T>
void launchOutputs(Use &use, const DeltaCall &call, const Tensor<T, 4> &added,
                   const Tensor<Ranged<T>, 4> &kept, const Tensor<T, 4> &o, bool gated);

// Extents, checks and configurations. The two launches are those that are tuned: over the states,
// and over all chunks.
void completeSpec(KernelSpec &spec, const char *statesPart, const char *chunksPart);
// How many columns of a state a program has: wider parts read keys less often, so as many, up to
// `most`, as leave no multiprocessor idle.
std::int64_t stateColumns(const Invocation &call, std::int64_t most, const std::string &target);

} // namespace sectile::delta
