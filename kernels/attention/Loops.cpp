// The loops of <sectile/flash/loops.h>.
#include "kernels/attention/Backward.h"
#include "kernels/attention/Forward.h"
#include "kernels/attention/Lists.h"
#include "kernels/attention/Varlen.h"

using namespace sectile;
using namespace sectile::blockwise;

void flash::traceLists(const ListConfig &config, const View<std::int32_t, 4> &lists,
                       const Int &queries, const Int &keys, const AnyVisibility &visibility) {
  const auto block = program_id(0), head = program_id(1), batch = program_id(2);
  listBlocks(config, lists.at(batch, head, block), {batch, head, queries, keys}, block, 0,
             lists.extent(3) - 1, visibility);
}

void flash::tracePackedLists(const ListConfig &config, const View<std::int32_t, 4> &lists,
                             const View<const std::int32_t, 1> &queryStarts,
                             const View<const std::int32_t, 1> &keyStarts, const Int &queries,
                             const Int &keys, const AnyVisibility &visibility) {
  const auto program = program_id(0), head = program_id(1);
  const PackedBlock at = config.ofQueries ? packedBlock(queryStarts, queries, config.m, program)
                                          : packedBlock(keyStarts, keys, config.n, program);
  const PackedSequence own(at, queryStarts, keyStarts, queries, keys);
  // None where the block does not exist.
  const Int others =
      config.ofQueries ? cdiv(own.keys.length, config.n) : cdiv(own.queries.length, config.m);
  listBlocks(config, lists.at(0, head, program), own.of(head), at.block, 0,
             minimum(others, lists.extent(3) - 1), visibility);
}

void flash::traceBlockKinds(const BlockKindConfig &config, const View<bool, 5> &kinds,
                            const SequenceLengths &lengths, const Int &queries, const Int &keys,
                            const Int &blockQ, const Int &blockK, const AnyVisibility &visibility) {
  const Int columns = kinds.extent(3), row = program_id(0) / columns,
            column = program_id(0) % columns, head = program_id(1), batch = program_id(2);
  Sequence sequence{batch, head, queries, keys};
  const auto packed = [&](const View<const std::int32_t, 1> &starts, Int &first, Int &length) {
    // How many tokens all sequences have is not known: as many as there can be.
    const Tokens tokens = tokensOf(starts, batch, std::numeric_limits<std::int32_t>::max());
    first = tokens.first;
    length = minimum(length, tokens.length);
  };
  if (config.packedQueries)
    packed(lengths.queryStarts, sequence.firstQuery, sequence.queries);
  if (config.packedKeys)
    packed(lengths.keyStarts, sequence.firstKey, sequence.keys);
  if (config.pages) {
    const auto &of = lengths.keyLengths;
    const auto length = load(of.ptr() + cast<std::int64_t>(batch) * of.stride(0));
    sequence.keys = clamp(cast<Index>(length), 0, keys);
  }
  visibility.require(sequence);
  const auto tiles = [](const Int &block, const Int &size, int tile, const Int &extent) {
    return std::pair(block * size / tile, cdiv(minimum((block + 1) * size, extent), tile));
  };
  const auto [firstRow, endRow] = tiles(row, blockQ, config.m, sequence.queries);
  const auto [firstColumn, endColumn] = tiles(column, blockK, config.n, sequence.keys);
  const auto count = [](const Bool &of) {
    return cast<Index>(sum(sum(cast<std::int32_t>(of), 1), 0));
  };
  Int some = 0, hidden = 0;
  for (auto i : range(firstRow, endRow))
    for (auto j : range(firstColumn, endColumn)) {
      const At at{sequence, i * config.m, j * config.n, config.m, config.n};
      const Int query = at.query(), key = at.key();
      const Bool exists = query < sequence.queries && key < sequence.keys;
      const std::optional<Bool> sees = visibility.sees(at);
      some += count(exists && within(visibility.keysOf(sequence, query), key, sees));
      if (sees)
        hidden += count(exists && !*sees);
    }
  const auto to = kinds.at(batch, head).at(row, column);
  store(to.ptr(), some > 0);
  store(to.ptr() + 1, hidden == 0);
}

template <class T, class Out>
void flash::traceForward(const LoopConfig &config, const ForwardTensors<T, Out> &tensors,
                         const ScoreRules &given) {
  const auto &[q, k, v, o, lse, sinks] = tensors;
  const ScoreRules rules = seeded(config, given);
  auto attendBlock = [&](const Int &block, const Int &head, const Int &batch) {
    const Int kvHead = head / rules.numbers.group;
    attend<T>(block, q.at(batch, head), k.at(batch, kvHead), v.at(batch, kvHead), o.at(batch, head),
              lse.at(batch, head),
              scoresOf<T>(config, {batch, head, q.extent(2), k.extent(2)}, rules),
              config.sinks ? sinks.at(head) : View<const float, 1>());
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
                       const ScoreRules &given) {
  const auto &[q, k, v, o, lse, sinks] = tensors;
  const ScoreRules rules = seeded(config, given);
  const Int parts = o.extent(0), part = program_id(0) % parts, block = program_id(0) / parts,
            head = program_id(1) * config.group, kvHead = head / rules.numbers.group,
            batch = program_id(2);
  attendPart<T>(block, part, parts, q.at(batch), k.at(batch, kvHead), v.at(batch, kvHead),
                o.at(part, batch), lse.at(part, batch),
                scoresOf<T>(config, {batch, head, q.extent(2), k.extent(2)}, rules), sinks);
}

template <class T, class Sum>
void flash::traceQueryGradients(const LoopConfig &config, const BackwardTensors<T> &tensors,
                                const View<Sum, 4> &dq, const ScoreRules &rules) {
  const auto [head, batch] = HeadAndBatch(tensors.q.extent(1), config.heads);
  const Int kvHead = head / rules.numbers.group;
  queryGradients<T>(queryBlock(1), queryHead(config, tensors, batch, head, seeded(config, rules)),
                    tensors.k.at(batch, kvHead), tensors.v.at(batch, kvHead), dq.at(batch, head));
}

template <class T, class Sum>
void flash::traceKeyGradients(const LoopConfig &config, const BackwardTensors<T> &tensors,
                              const View<Sum, 4> &dk, const View<Sum, 4> &dv,
                              const View<float, 4> &dqSums, const ScoreRules &rules) {
  const auto [part, batch] = HeadAndBatch(dk.extent(1), config.heads);
  const Int kvHead = part / config.parts, &group = rules.numbers.group;
  keyGradients<T>(config, program_id(1), tensors.k.at(batch, kvHead), tensors.v.at(batch, kvHead),
                  dk.at(batch, part), dv.at(batch, part), group, rules.numbers.scale,
                  [&](const Int &member) {
                    const Int head = part * group + member;
                    auto of = queryHead(config, tensors, batch, head, seeded(config, rules), true);
                    if (config.sumsQueries)
                      of.dqSums = dqSums.at(batch, head);
                    return of;
                  });
}

template <class T>
void flash::tracePairGradients(const PairConfig &config, const BackwardTensors<T> &tensors,
                               const View<float, 4> &gradient, const ScoreRules &rules) {
  pairGradients<T>(config, tensors, gradient, rules, config.slot);
}

template <class T, class Out>
void flash::traceForward(const LoopConfig &config, const PackedForwardTensors<T, Out> &tensors,
                         const ScoreRules &given) {
  const auto &[q, k, v, queryStarts, keyStarts, o, lse, sinks, plan] = tensors;
  const ScoreRules rules = seeded(config, given);
  const Int parts = o.extent(0), part = config.split ? queryBlock() % parts : Int(0);
  auto attendBlock = [&](const PackedSequence &own, const Int &block, const Int &head) {
    const Int kvHead = head / rules.numbers.group;
    const Scores scores = scoresOf<T>(config, own.of(head), rules);
    rules.visibility.require(scores.sequence);
    const auto keys = own.keys.of(k.fix(1, kvHead)), values = own.keys.of(v.fix(1, kvHead));
    if (config.split)
      attendPart<T>(block, part, parts, own.queries.of(q).permuted({1, 0, 2}), keys, values,
                    own.queries.of(o.at(part)).permuted({1, 0, 2}),
                    lse.at(part).slice(1, own.queries.first, own.queries.length), scores, sinks);
    else
      attend<T>(block, own.queries.of(q.fix(1, head)), keys, values,
                own.queries.of(o.at(0).fix(1, head)), own.queries.of(lse.at(0, head)), scores,
                config.sinks ? sinks.at(head) : View<const float, 1>());
  };
  if (config.persistent) {
    const PackedBlocks blocks(plan, q.extent(1), q.extent(0), k.extent(0), config.pairs);
    for (auto i : range(0, blocks.size(), {.warp_specialize = config.overlap})) {
      const auto [sequence, block, head] = blocks.at(i);
      attendBlock(sequence, block, head);
    }
  } else {
    const Int number = config.split ? queryBlock() / parts : queryBlock();
    const PackedBlock at = packedBlock(queryStarts, q.extent(0), config.m, number, config.group);
    attendBlock({at, queryStarts, keyStarts, q.extent(0), k.extent(0)}, at.block,
                program_id(1) * config.group);
  }
}

template <class T>
void flash::traceQueryGradients(const LoopConfig &config, const PackedBackwardTensors<T> &tensors,
                                const View<T, 3> &dq, const ScoreRules &rules) {
  const Int head = program_id(1), kvHead = head / rules.numbers.group;
  const PackedBlock at =
      packedBlock(tensors.queryStarts, tensors.q.extent(0), config.m, queryBlock());
  const PackedSequence own(at, tensors);
  const Scores scores = scoresOf<T>(config, own.of(head), seeded(config, rules));
  rules.visibility.require(scores.sequence);
  QueryHead<T> of = packedHead(tensors, own, head, scores);
  of.part = queryBlock();
  queryGradients<T>(at.block, of, own.keys.of(tensors.k.fix(1, kvHead)),
                    own.keys.of(tensors.v.fix(1, kvHead)), own.queries.of(dq.fix(1, head)));
}

template <class T>
void flash::traceKeyGradients(const LoopConfig &config, const PackedBackwardTensors<T> &tensors,
                              const View<T, 3> &dk, const View<T, 3> &dv, const ScoreRules &rules) {
  const Int kvHead = program_id(1), &group = rules.numbers.group;
  const PackedBlock at =
      packedBlock(tensors.keyStarts, tensors.k.extent(0), config.n, program_id(0));
  const PackedSequence own(at, tensors);
  rules.visibility.require(own.of(kvHead * group));
  keyGradients<T>(
      config, at.block, own.keys.of(tensors.k.fix(1, kvHead)),
      own.keys.of(tensors.v.fix(1, kvHead)), own.keys.of(dk.fix(1, kvHead)),
      own.keys.of(dv.fix(1, kvHead)), group, rules.numbers.scale, [&](const Int &member) {
        const Int head = kvHead * group + member;
        return packedHead(tensors, own, head,
                          scoresOf<T>(config, own.of(head), seeded(config, rules), true));
      });
}

template <class T>
void flash::tracePairGradients(const PairConfig &config, const PackedBackwardTensors<T> &tensors,
                               const View<float, 4> &gradient, const ScoreRules &rules) {
  const Int columns = cdiv(gradient.extent(3), config.n), i = program_id(0) / columns,
            j = program_id(0) % columns, sequences = tensors.queryStarts.extent(0) - 1,
            batches = sequences / gradient.extent(0),
            heads = tensors.q.extent(1) / gradient.extent(1);
  auto sums = zeros<float>(config.m, config.n);
  for (auto b : range(0, batches)) {
    const Int batch = program_id(2) * batches + b;
    const auto isIn = [&](const View<const std::int32_t, 1> &starts, const Int &total,
                          const Int &first) {
      return first < tokensOf(starts, batch, total).length;
    };
    const Bool exists = isIn(tensors.queryStarts, tensors.q.extent(0), i * config.m) &&
                        isIn(tensors.keyStarts, tensors.k.extent(0), j * config.n);
    const PackedSequence own({batch, i, exists}, tensors);
    rules.visibility.require(own.of(program_id(1) * heads));
    for (auto h : range(0, heads)) {
      const Int head = program_id(1) * heads + h, kvHead = head / rules.numbers.group;
      const Scores scores = scoresOf<T>(config, own.of(head), seeded(config, rules));
      addPairGradient<T>(sums, i, j, packedHead(tensors, own, head, scores),
                         own.keys.of(tensors.k.fix(1, kvHead)),
                         own.keys.of(tensors.v.fix(1, kvHead)), config.slot);
    }
  }
  gradient.at(program_id(2), program_id(1)).tile(config.m, config.n).store(i, j, sums);
}

#define SECTILE_TRACE_SUMS(T, Sum)                                                                 \
  template void flash::traceQueryGradients(const LoopConfig &, const BackwardTensors<T> &,         \
                                           const View<Sum, 4> &, const ScoreRules &);              \
  template void flash::traceKeyGradients(const LoopConfig &, const BackwardTensors<T> &,           \
                                         const View<Sum, 4> &, const View<Sum, 4> &,               \
                                         const View<float, 4> &, const ScoreRules &);
#define SECTILE_TRACE_OUTPUTS(T, Out)                                                              \
  template void flash::traceForward(const LoopConfig &, const ForwardTensors<T, Out> &,            \
                                    const ScoreRules &);                                           \
  template void flash::traceForward(const LoopConfig &, const PackedForwardTensors<T, Out> &,      \
                                    const ScoreRules &);                                           \
  template void flash::traceParts(const LoopConfig &, const PartTensors<T, Out> &,                 \
                                  const ScoreRules &);
#define SECTILE_TRACE_LOOPS(T)                                                                     \
  SECTILE_TRACE_OUTPUTS(T, float)                                                                  \
  SECTILE_TRACE_SUMS(T, float)                                                                     \
  template void flash::tracePairGradients(const PairConfig &, const BackwardTensors<T> &,          \
                                          const View<float, 4> &, const ScoreRules &);             \
  template void flash::traceQueryGradients(const LoopConfig &, const PackedBackwardTensors<T> &,   \
                                           const View<T, 3> &, const ScoreRules &);                \
  template void flash::traceKeyGradients(const LoopConfig &, const PackedBackwardTensors<T> &,     \
                                         const View<T, 3> &, const View<T, 3> &,                   \
                                         const ScoreRules &);                                      \
  template void flash::tracePairGradients(const PairConfig &, const PackedBackwardTensors<T> &,    \
                                          const View<float, 4> &, const ScoreRules &);
SECTILE_TRACE_LOOPS(half)
SECTILE_TRACE_LOOPS(bfloat16)
SECTILE_TRACE_LOOPS(float)
SECTILE_TRACE_OUTPUTS(half, half)
SECTILE_TRACE_OUTPUTS(bfloat16, bfloat16)
SECTILE_TRACE_SUMS(half, half)
SECTILE_TRACE_SUMS(bfloat16, bfloat16)
#undef SECTILE_TRACE_LOOPS
#undef SECTILE_TRACE_OUTPUTS
#undef SECTILE_TRACE_SUMS
