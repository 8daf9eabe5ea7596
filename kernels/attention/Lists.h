// Lists of the blocks that a block of queries or keys reaches, so that loops go over these and no
// others: how one of them is made.
#pragma once
#include "kernels/attention/Band.h"
#include <sectile/flash/loops.h>

namespace sectile::blockwise {

// The list of one block of a sequence, among the blocks from `from` up to, without it, `end`. Rows
// of config.group heads: a block is in the list if any of these reaches it; the first of them is
// the sequence's.
inline void listBlocks(const flash::ListConfig &config, const View<std::int32_t, 1> &to,
                       const flash::Sequence &sequence, const Int &block, const Int &from,
                       const Int &end, const flash::AnyVisibility &visibility) {
  constexpr int width = 256;
  const PackedRows packed{config.group};
  Int count = 0;
  for (auto chunk : range(0, cdiv(end - from, width))) {
    const Int other = from + chunk * width + arange(0, width);
    const Int own = broadcast_to(block, width), i = config.ofQueries ? own : other,
              j = config.ofQueries ? other : own, query = packed.query(i * config.m);
    const auto isReached = [&](const Int &head) {
      flash::Sequence ofHead = sequence;
      ofHead.head = head;
      return visibility.reaches({ofHead, query,
                                 minimum(query + packed.queries(config.m), sequence.queries) - 1,
                                 j * config.n, minimum((j + 1) * config.n, sequence.keys) - 1,
                                 packed.queries(config.m), config.n});
    };
    Bool present = isReached(sequence.head) && other < end;
    if (config.group > 1) {
      auto any = cast<std::int32_t>(present);
      for (auto h : range(1, config.group))
        any = any | cast<std::int32_t>(isReached(sequence.head + h) && other < end);
      present = any != 0;
    }
    const auto through = cumsum(cast<std::int32_t>(present), 0);
    store(to.ptr() + (through + count), cast<std::int32_t>(other), present);
    count += cast<Index>(sum(cast<std::int32_t>(present), 0));
  }
  store(to.ptr(), cast<std::int32_t>(count));
}

} // namespace sectile::blockwise
