// The loops of <sectile/flash/loops.h>.
#include "kernels/attention/Backward.h"
#include "kernels/attention/Forward.h"

using namespace sectile;
using namespace sectile::blockwise;

namespace {

// A query head of a batch.
template <class T>
QueryHead<T> queryHead(const LoopConfig &config, const flash::BackwardTensors<T> &of,
                       const Int &batch, const Int &head, const flash::Numbers &numbers,
                       const flash::Modifier &modifier, const flash::AnyVisibility &visibility,
                       bool keysFirst) {
  return {of.q.at(batch, head),
          of.dO.at(batch, head),
          of.logs.at(batch, head),
          of.delta.at(batch, head),
          {.config = config,
           .sequence = {batch, head, of.q.extent(2), of.k.extent(2)},
           .numbers = numbers,
           .modifier = modifier,
           .visibility = visibility,
           .coarse = sizeof(T) == 2,
           .keysFirst = keysFirst}};
}

} // namespace

template <class T, class Out>
void flash::traceForward(const LoopConfig &config, const ForwardTensors<T, Out> &tensors,
                         const Numbers &numbers, const Modifier &modifier,
                         const AnyVisibility &visibility) {
  const auto &[q, k, v, o, lse, sinks] = tensors;
  auto attendBlock = [&](const Int &block, const Int &head, const Int &batch) {
    const Scores scores{.config = config,
                        .sequence = {batch, head, q.extent(2), k.extent(2)},
                        .numbers = numbers,
                        .modifier = modifier,
                        .visibility = visibility,
                        .coarse = sizeof(T) == 2};
    const Int kvHead = head / numbers.group;
    attend<T>(block, q.at(batch, head), k.at(batch, kvHead), v.at(batch, kvHead), o.at(batch, head),
              lse.at(batch, head), scores, config.sinks ? sinks.at(head) : View<const float, 1>());
  };
  if (config.persistent) {
    const Blocks blocks(q.extent(0), q.extent(1), q.extent(2), config.m, config.pairs);
    for (auto i : range(0, blocks.size(), {.warp_specialize = config.overlap})) {
      const auto [block, head, batch] = blocks.at(i);
      attendBlock(block, head, batch);
    }
  } else {
    const auto [head, batch] = HeadAndBatch(q.extent(1), config.heads);
    attendBlock(queryBlock(1), head, batch);
  }
}

template <class T, class Out>
void flash::traceParts(const LoopConfig &config, const PartTensors<T, Out> &tensors,
                       const Numbers &numbers, const Modifier &modifier,
                       const AnyVisibility &visibility) {
  const auto &[q, k, v, o, lse, sinks] = tensors;
  const int m = config.m;
  const PackedRows packed{config.group};
  const auto parts = o.extent(0);
  auto part = program_id(0) % parts, block = program_id(0) / parts, head = program_id(1),
       batch = program_id(2), first = head * config.group;
  auto row = block * m + arange(0, m);
  auto exists = packed.query(row) < q.extent(2);
  // Of a view of heads, queries and elements.
  auto places = [&](const auto &view, int width) {
    return expand(packed.place(view, row), 1) +
           expand(cast<std::int64_t>(arange(0, width)) * view.stride(2), 0);
  };
  auto inside = [&](const auto &view, int width) {
    return expand(exists, 1) && expand(arange(0, width) < view.extent(2), 0);
  };
  auto ofHeads = [&](const auto &view) { return view.slice(0, first, config.group); };
  const auto queries = ofHeads(q.at(batch));
  auto query = load(queries.ptr() + places(queries, config.width), inside(queries, config.width));

  const Scores scores{.config = config,
                      .sequence = {batch, first, q.extent(2), k.extent(2)},
                      .numbers = numbers,
                      .modifier = modifier,
                      .visibility = visibility,
                      .coarse = sizeof(T) == 2};
  OnlineSoftmax softmax = softmaxFor(scores);
  if (config.sinks) {
    auto r = arange(0, config.sinks);
    const auto own = sinks.slice(0, first, config.group);
    softmax.enter(scores.beside(
        load(own.ptr() + expand(cast<std::int64_t>(row % config.group) * own.stride(0), 1) +
                 expand(cast<std::int64_t>(r) * own.stride(1), 0),
             expand(exists && part == 0, 1) && expand(r < own.extent(1), 0), -infinity)));
  }
  Visits steps = scores.keys(block, false);
  const Int start = steps.first, count = maximum(steps.end - start, 0);
  steps.first = start + count * part / parts;
  steps.end = start + count * (part + 1) / parts;
  takeIn(softmax, query, block, steps, k.at(batch, head), v.at(batch, head), scores);
  const auto to = ofHeads(o.at(part, batch));
  store(to.ptr() + places(to, config.valueWidth), softmax.result(), inside(to, config.valueWidth));
  const auto logs = ofHeads(lse.at(part, batch));
  store(logs.ptr() + packed.place(logs, row), softmax.logarithm(), exists);
}

template <class T>
void flash::traceQueryGradients(const LoopConfig &config, const BackwardTensors<T> &tensors,
                                const View<T, 4> &dq, const Numbers &numbers,
                                const Modifier &modifier, const AnyVisibility &visibility) {
  const auto [head, batch] = HeadAndBatch(tensors.q.extent(1), config.heads);
  const Int kvHead = head / numbers.group;
  queryGradients<T>(queryBlock(1),
                    queryHead(config, tensors, batch, head, numbers, modifier, visibility, false),
                    tensors.k.at(batch, kvHead), tensors.v.at(batch, kvHead), dq.at(batch, head));
}

template <class T, class Sum>
void flash::traceKeyGradients(const LoopConfig &config, const BackwardTensors<T> &tensors,
                              const View<Sum, 4> &dk, const View<Sum, 4> &dv,
                              const View<float, 4> &dqSums, const Numbers &numbers,
                              const Modifier &modifier, const AnyVisibility &visibility) {
  const auto [part, batch] = HeadAndBatch(dk.extent(1), config.heads);
  const Int kvHead = part / config.parts;
  keyGradients<T>(
      config, program_id(1), tensors.k.at(batch, kvHead), tensors.v.at(batch, kvHead),
      dk.at(batch, part), dv.at(batch, part), numbers.group, numbers.scale, [&](const Int &member) {
        const Int head = part * numbers.group + member;
        auto of = queryHead(config, tensors, batch, head, numbers, modifier, visibility, true);
        if (config.sumsQueries)
          of.dqSums = dqSums.at(batch, head);
        return of;
      });
}

#define SECTILE_TRACE_LOOPS(T)                                                                     \
  template void flash::traceQueryGradients(const LoopConfig &, const BackwardTensors<T> &,         \
                                           const View<T, 4> &, const Numbers &, const Modifier &,  \
                                           const AnyVisibility &);                                 \
  template void flash::traceKeyGradients(                                                          \
      const LoopConfig &, const BackwardTensors<T> &, const View<T, 4> &, const View<T, 4> &,      \
      const View<float, 4> &, const Numbers &, const Modifier &, const AnyVisibility &);
#define SECTILE_TRACE_FORWARD(T, Out)                                                              \
  template void flash::traceForward(const LoopConfig &, const ForwardTensors<T, Out> &,            \
                                    const Numbers &, const Modifier &, const AnyVisibility &);     \
  template void flash::traceParts(const LoopConfig &, const PartTensors<T, Out> &,                 \
                                  const Numbers &, const Modifier &, const AnyVisibility &);
#define SECTILE_TRACE_SUMS(T)                                                                      \
  template void flash::traceKeyGradients(const LoopConfig &, const BackwardTensors<T> &,           \
                                         const View<float, 4> &, const View<float, 4> &,           \
                                         const View<float, 4> &, const Numbers &,                  \
                                         const Modifier &, const AnyVisibility &);
SECTILE_TRACE_LOOPS(half)
SECTILE_TRACE_LOOPS(bfloat16)
SECTILE_TRACE_LOOPS(float)
SECTILE_TRACE_SUMS(half)
SECTILE_TRACE_SUMS(bfloat16)
SECTILE_TRACE_FORWARD(half, half)
SECTILE_TRACE_FORWARD(half, float)
SECTILE_TRACE_FORWARD(bfloat16, bfloat16)
SECTILE_TRACE_FORWARD(bfloat16, float)
SECTILE_TRACE_FORWARD(float, float)
#undef SECTILE_TRACE_LOOPS
#undef SECTILE_TRACE_SUMS
#undef SECTILE_TRACE_FORWARD
