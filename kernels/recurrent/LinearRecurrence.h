// What the forward and the backward kernels of the linear recurrence share: a chunk's decays, the
// pass over chunks that leaves the state before each, and the arguments.
#pragma once
#include "kernels/calls/Slice.h"
#include "kernels/calls/Use.h"
#include <algorithm>
#include <cmath>
#include <concepts>
#include <limits>
#include <sectile/error.h>

namespace sectile::recurrence {

struct ChunkConfig {
  int chunk = 64, dv = 32, warps = 4;
  int width = 64; // Dk, up to the next multiple of 16
  // Which of these arguments are given.
  bool g = false, gk = false, initial_state = false, dfinal_state = false;
};

// Products with a state, which is float: 11 bits of each factor are as many as half has, and no
// state is beyond their range.
template <class T>
constexpr Precision statePrecision = std::same_as<T, float> ? Precision::ieee : Precision::tf32;

// Logarithms of the decay of steps first to first + rows - 1, by key channel: [rows, width].
inline Tile<float> channelLogs(const View<const float, 1> &g, const View<const float, 2> &gk,
                               const Int &first, int rows, const ChunkConfig &config) {
  auto logs = gk.tile(rows, config.width).load_at(first, 0);
  if (config.g)
    logs += expand(g.tile(rows).load_at(first), 1);
  return logs;
}

// How much of what was there remains, within one chunk. Each is the exponential of a sum over the
// steps in between, never of a difference of two sums: that would lose digits, and make NaN of a
// decay to nothing, whose logarithm is -inf.
struct Decay {
  Tile<float> fromStart; // the state before the chunk, at each step: [chunk, 1] or [chunk, width]
  Tile<float> toEnd;     // what each step adds, at the end: of the same shape
  Tile<float> whole;     // the state before the chunk, at the end: [1] or [width]
};

// Of step j at step i, for i >= j, else 0: [chunk, chunk]. Where decays differ by channel there is
// no such matrix; see forEachStep.
inline Tile<float> pairwise(const View<const float, 1> &g, const Int &number,
                            const ChunkConfig &config) {
  auto i = expand(arange(0, config.chunk), 1), j = expand(arange(0, config.chunk), 0);
  if (!config.g)
    return cast<float>(i >= j);
  auto logs = expand(g.tile(config.chunk).load(number), 1);
  return where(i >= j, exp(cumsum(where(i > j, logs, 0.0f), 0)), 0.0f);
}

inline Decay decayOf(const View<const float, 1> &g, const View<const float, 2> &gk,
                     const Int &number, const ChunkConfig &config) {
  const int chunk = config.chunk;
  if (config.gk) {
    auto first = number * chunk;
    auto logs = channelLogs(g, gk, first, chunk, config);
    auto isLast = expand(arange(0, chunk), 1) == chunk - 1;
    auto later = where(isLast, 0.0f, channelLogs(g, gk, first + 1, chunk, config));
    return {exp(cumsum(logs, 0)), exp(cumsum(later, 0, true)), exp(sum(logs, 0))};
  }
  if (!config.g)
    return {full<float>(1, chunk, 1), full<float>(1, chunk, 1), full<float>(1, 1)};
  auto logs = g.tile(chunk).load(number);
  auto i = expand(arange(0, chunk), 1), j = expand(arange(0, chunk), 0);
  auto after = sum(where(i > j, expand(logs, 1), 0.0f), 0);
  return {expand(exp(cumsum(logs, 0)), 1), expand(exp(after), 1),
          full<float>(exp(sum(logs, 0)), 1)};
}

// Calls body(j, key j [1, width], decay of step j at each step of the chunk [chunk, width], 0
// before it) for the steps of a chunk, the last first, so that sums of logarithms only grow by
// steps.
template <class T, class Body>
void forEachStep(const View<const T, 2> &k, const View<const float, 1> &g,
                 const View<const float, 2> &gk, const Int &number, const ChunkConfig &config,
                 Body &&body) {
  auto i = expand(arange(0, config.chunk), 1);
  auto logs = zeros<float>(config.chunk, config.width);
  for (auto step : range(0, config.chunk)) {
    auto j = config.chunk - 1 - step;
    auto position = number * config.chunk + j;
    auto key = cast<float>(k.tile(1, config.width).load_at(position, 0));
    body(j, key, where(i >= j, exp(logs), 0.0f));
    logs = where(i >= j, logs + channelLogs(g, gk, position, 1, config), logs);
  }
}

// States wait in memory for the pass over all chunks, and are most of what is moved: in f16 they
// are half as much. They then lie in units of a power of two, by which the largest number of
// a block of columns is near f16's largest: `units` has one for each block.
template <class U>
void keepState(const View<U, 2> &states, const View<float, 1> &units, const Int &column,
               const Tile<float> &state, int width, int columns) {
  const auto to = states.tile(width, columns);
  if constexpr (std::same_as<U, float>) {
    to.store(0, column, state);
  } else {
    auto size = abs(state);
    Float largest = max(where(size < std::numeric_limits<float>::infinity(), size, 0.0f));
    Float power = bitcast<float>(bitcast<std::int32_t>(maximum(largest, 0x1p-100f)) & 0x7f800000);
    Float unit = power * 0x1p-14f;
    to.store(0, column, state * (1.0f / unit));
    store(units.ptr() + column * units.stride(0), unit);
  }
}

// Of one chunk and head.
template <class U> struct KeptState {
  View<const U, 2> values;
  View<const float, 1> units;

  Tile<U> load(const Int &column, int width, int columns) const {
    return values.tile(width, columns).load(0, column);
  }
  Float unit(const Int &column) const {
    return sectile::load(units.ptr() + column * units.stride(0));
  }
};

// Leaves the state before each chunk in `states`, and the last one in `last`.
template <class T, class U>
const Kernel statesKernel{
    "linear_recurrence_states",
    [](View<const T, 4> k, View<const T, 4> v, View<const float, 3> g, View<const float, 4> gk,
       View<const float, 4> initial, View<U, 5> states, View<float, 4> units, View<float, 4> last,
       const ChunkConfig &config) {
      const int chunk = config.chunk, width = config.width, dv = config.dv;
      auto column = program_id(0), head = program_id(1), batch = program_id(2);
      auto keys = k.at(batch, head).tile(chunk, width);
      auto values = v.at(batch, head).tile(chunk, dv);
      auto state = zeros<float>(width, dv);
      if (config.initial_state)
        state = initial.at(batch, head).tile(width, dv).load(0, column);
      // A chunk's steps are in flight while the one before is computed and its state written.
      auto nextKey = keys.load(0, 0);
      auto nextValue = values.load(0, column);
      for (auto number : range(0, cdiv(k.extent(2), chunk))) {
        auto key = nextKey, value = nextValue;
        nextKey = keys.load(number + 1, 0);
        nextValue = values.load(number + 1, column);
        keepState(states.at(batch, head, number), units.at(batch, head, number), column, state,
                  width, dv);
        auto decay = decayOf(g.at(batch, head), gk.at(batch, head), number, config);
        auto late = cast<T>(cast<float>(key) * decay.toEnd);
        state = dot(trans(late), value, state * expand(decay.whole, 1), Precision::ieee);
      }
      last.at(batch, head).tile(width, dv).store(0, column, state);
    }};

// The tensor with one axis the other way round.
template <class T, int N> Tensor<T, N> flipped(const Tensor<T, N> &tensor, int axis) {
  auto strides = tensor.strides();
  const std::int64_t steps = std::max<std::int64_t>(tensor.extent(axis) - 1, 0);
  auto &stride = strides[static_cast<std::size_t>(axis)];
  const auto address = reinterpret_cast<std::uintptr_t>(tensor.data()) +
                       static_cast<std::uintptr_t>(steps * stride) * sizeof(T);
  stride = -stride;
  return {reinterpret_cast<T *>(address), tensor.extents(), strides, tensor.memory()};
}

// An argument with time along axis 2, in the order in which it is gone through.
template <class T, int N> Tensor<T, N> timed(const Use &use, std::string_view argument) {
  auto tensor = use.tensor<T, N>(argument);
  return use.has(argument) && use.call.options.flag("reverse") ? flipped(tensor, 2) : tensor;
}

inline float scaleOf(const Invocation &call) {
  if (call.options.given("scale"))
    return static_cast<float>(call.options.number("scale"));
  // Of keys without channels nothing comes, whatever its factor; infinity would make it NaN.
  const auto width = static_cast<double>(std::max<std::int64_t>(call.extent("Dk"), 1));
  return static_cast<float>(1 / std::sqrt(width));
}

inline int widthOf(const Invocation &call) {
  return static_cast<int>(std::max<std::int64_t>(ceilDiv(call.extent("Dk"), 16), 1) * 16);
}

inline ChunkConfig chunkConfig(const Use &use) {
  auto config = use.config_as<ChunkConfig>();
  config.width = widthOf(use.call);
  return config;
}

// What the descriptions of both have in common, with the forward kernel's inputs.
KernelSpec commonSpec(const char *name, const char *summary);

} // namespace sectile::recurrence
