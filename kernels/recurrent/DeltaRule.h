// What the launches of the delta rule share: where the chunks of a sequence lie, the decays within
// a chunk, and the inverse of a triangle.
#pragma once
#include "kernels/blocks/PackedTokens.h"
#include "kernels/recurrent/DeltaGates.h"
#include "kernels/recurrent/LinearRecurrence.h"

namespace sectile::delta {

struct DeltaConfig {
  int chunk = 64, columns = 32, warps = 4;
  int width = 64; // K, up to the next multiple of 16
  // Which of these arguments are given.
  bool g = false, initial_state = false, packed = false;
  bool l2norm = false; // keys and queries are normalised
  bool backward = false, dfinal_state = false;
};
SECTILE_CONFIG(DeltaConfig, chunk, columns, warps, width, g, initial_state, packed, l2norm,
               backward, dfinal_state)

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

// The decays as the linear recurrence has them.
inline recurrence::ChunkConfig decays(const DeltaConfig &config) {
  return {.chunk = config.chunk, .width = config.width, .g = config.g};
}

// By which each row is multiplied where rows are normalised: [chunk].
template <class T> Tile<float> factors(const Tile<T> &rows, const DeltaConfig &config) {
  if (!config.l2norm)
    return full<float>(1, config.chunk);
  const auto wide = cast<float>(rows);
  return rsqrt(sum(wide * wide, 1) + 1e-6f);
}

// Products whose left side is float: of a state, or of the inverse. tf32 has the digits of half,
// and float's range.
template <class T>
constexpr Precision statePrecision = std::same_as<T, float> ? Precision::ieee : Precision::tf32;

// Of the inverse itself, whose terms may cancel out.
template <class T>
constexpr Precision inversePrecision = std::same_as<T, float> ? Precision::ieee : Precision::tf32x3;

// (I + lower)^-1, where `lower` is 0 on the diagonal and above: blocks of 16 on the diagonal by
// substitution, then twice as large ones of two each, whose lower left is -T2 L T1. A product of
// powers of `lower` would be shorter, but overflows where keys are alike.
template <class T> class Inverse {
public:
  Inverse(const Tile<float> &lower, int chunk) : lower(lower), blocks(chunk / size) {}

  Tile<float> operator()() { return of(0, blocks); }

private:
  static constexpr int size = 16;

  // Of the blocks on the diagonal, all at once: [blocks, size, size].
  Tile<float> small() const {
    const auto at = expand(expand(expand(arange(0, blocks), 1), 2), 3),
               with = expand(expand(expand(arange(0, blocks), 1), 0), 0);
    const auto own = sum(where(at == with, reshape(lower, blocks, size, blocks, size), 0.0f), 2);
    const auto row = expand(arange(0, size), 1), column = expand(arange(0, size), 0);
    auto result = broadcast_to(expand(cast<float>(row == column), 0), blocks, size, size);
    // Row s is done when those above it are subtracted; it then leaves those below.
    for (auto s : range(0, size - 1)) {
      const auto factor = sum(where(expand(column == s, 0), own, 0.0f), 2),
                 done = sum(where(expand(row == s, 0), result, 0.0f), 1);
      result -= expand(factor, 2) * expand(done, 1);
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
    const auto left = dot(below, beside, zero, inversePrecision<T>);
    const auto corner = dot(left, upper, zero, inversePrecision<T>);
    return cat(cat(upper, zero, 1), cat(zero - corner, below, 1), 0);
  }

  Tile<float> lower, diagonal;
  int blocks;
};

// What each step of a chunk takes of each step up to it, times `scale`, else 0: [chunk, chunk].
template <class T>
Tile<float> scoresOf(const Tile<T> &query, const Tile<T> &key, const View<const float, 1> &logs,
                     const Int &number, const Float &scale, const DeltaConfig &config) {
  const int chunk = config.chunk;
  const auto i = expand(arange(0, chunk), 1), j = expand(arange(0, chunk), 0);
  const auto scores = dot(query, trans(key), zeros<float>(chunk, chunk), Precision::ieee) *
                      recurrence::pairwise(logs, number, decays(config)) *
                      expand(factors(query, config) * scale, 1) * expand(factors(key, config), 0);
  return where(i >= j, scores, 0.0f);
}

// What the launches of a call share.
struct DeltaCall {
  std::int64_t heads, k, v, count; // Hv, K, V, N
  float scale;
  DeltaConfig states, wide; // of the pass over the states, and of launches over all chunks
  std::int64_t slots;       // of chunks
  Tensor<std::int32_t, 1> starts;
  Tensor<float, 3> beta, g, remaining; // the last: of each step at the end of its chunk
  Tensor<float, 2> whole;              // of the state before a chunk at its end

  explicit DeltaCall(Use &use, bool backward = false);
};

// Launches what leaves the state before each chunk in `kept` [slots, Hv, K, V], the last ones in
// `last`, and what each step adds in `values` [slots, Hv, chunk, V]; with DeltaConfig::backward the
// inverses, too. Gives what the steps take of the state before the chunk [slots, Hv, chunk, K].
template <class T, class U>
Tensor<T, 4> launchStates(Use &use, const DeltaCall &call, const Tensor<T, 4> &values,
                          const Tensor<float, 4> &inverses, const Tensor<U, 4> &kept,
                          const Tensor<float, 4> &last);

// What the specifications of both have in common.
std::vector<ArgumentRow> inputs();
std::vector<OptionRow> options();
std::vector<std::string> storedStates(std::vector<std::string> axes, const OptionValues &options);
std::int64_t sequences(const Invocation &call);
void check(const Invocation &call);
// Extents, checks and configurations. The two launches are those that are tuned: over the states,
// and over all chunks.
void completeSpec(KernelSpec &spec, const char *statesPart, const char *chunksPart);

} // namespace sectile::delta
