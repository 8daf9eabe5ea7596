// paged_slots: where the last tokens of sequences lie in a cache in pages. Of a sequence with n new
// tokens and context_len keys, these included, new token i has position p = context_len - n + i and
//   slots = block_tables[s, p / page] page + p % page.
// Both are -1 where there is no such sequence, position, page or block. Refused: empty pages, T
// other than S without cu_seqlens_q, tokens without a sequence where there is none, tables for 2^30
// keys; from the host also lengths that the tables have no room for, and boundaries that fall.
#include "kernels/blocks/RowBlocks.h"
#include "kernels/registry/Contents.h"
#include "kernels/serving/Family.h"
#include "kernels/serving/Paged.h"
#include <algorithm>

using namespace sectile;

namespace {

struct SlotsConfig {
  int m = 128, warps = 4;
  int page = 16;
  bool packed = false;
};

struct SlotsArguments {
  View<const std::int32_t, 1> context_lens;
  View<const std::int32_t, 2> block_tables;
  View<const std::int32_t, 1> cu_seqlens_q;
  View<std::int32_t, 1> slots, positions;
};

Kernel pagedSlots{
    "paged_slots", [](const SlotsArguments &a, const SlotsConfig &config) {
      const int m = config.m;
      const Int token = program_id(0) * m + arange(0, m), tokens = a.slots.extent(0),
                sequences = a.context_lens.extent(0);
      const Bool exists = token < tokens && sequences > 0;
      const auto numberAt = [&](const View<const std::int32_t, 1> &view, const Int &at) {
        return cast<Index>(load(view.ptr() + cast<std::int64_t>(at) * view.stride(0), exists, 0));
      };
      // The last sequence that begins at the token or before it, by halves.
      Int sequence = token, place = broadcast_to(Int(0), m), count = broadcast_to(Int(1), m);
      if (config.packed) {
        Int low = broadcast_to(Int(0), m), high = broadcast_to(maximum(sequences, 1), m);
        loop_while([&] { return max(high - low, 0) > 1; },
                   [&] {
                     const Int middle = (low + high) / 2;
                     const Bool isAfter = numberAt(a.cu_seqlens_q, middle) > token;
                     const Bool isOpen = high - low > 1;
                     high = where(isOpen && isAfter, middle, high);
                     low = where(isOpen && !isAfter, middle, low);
                   });
        sequence = low;
        const Int first = numberAt(a.cu_seqlens_q, sequence);
        place = token - first;
        count = numberAt(a.cu_seqlens_q, sequence + 1) - first;
      }
      const Int position = numberAt(a.context_lens, sequence) - count + place,
                column = position / config.page;
      const Bool hasPage =
          exists && place < count && position >= 0 && column < a.block_tables.extent(1);
      const auto block =
          load(a.block_tables.ptr() + cast<std::int64_t>(sequence) * a.block_tables.stride(0) +
                   cast<std::int64_t>(column) * a.block_tables.stride(1),
               hasPage, -1);
      const Bool isKnown = hasPage && block >= 0;
      const auto at = program_id(0);
      a.slots.tile(m).store(
          at, where(isKnown, block * config.page + cast<std::int32_t>(position % config.page), -1));
      a.positions.tile(m).store(at, where(isKnown, cast<std::int32_t>(position), -1));
    }};

std::int64_t pageOf(const Invocation &call) { return call.options.integer("page"); }

std::vector<HostArray> reference(const Invocation &call, std::span<const HostArray> in,
                                 Arithmetic) {
  const std::int64_t tokens = call.extent("T"), sequences = call.extent("S"),
                     max = call.extent("max"), page = pageOf(call);
  const auto lengths = in[0].as<std::int32_t>(), tables = in[1].as<std::int32_t>();
  HostArray slots(DType::int32, {tokens}), positions(DType::int32, {tokens});
  for (HostArray *array : {&slots, &positions})
    std::ranges::fill(array->as<std::int32_t>(), -1);
  for (std::int64_t s = 0; s < sequences; ++s) {
    const auto at = static_cast<std::size_t>(s);
    std::int64_t first = s, end = s + 1;
    if (isPacked(call)) {
      const auto bounds = in[2].as<std::int32_t>();
      first = bounds[at];
      end = bounds[at + 1];
    }
    for (std::int64_t t = first; t < end; ++t) {
      const std::int64_t position = lengths[at] - (end - t);
      if (position < 0 || position / page >= max)
        continue;
      const std::int64_t block = tables[static_cast<std::size_t>(s * max + position / page)];
      if (block < 0)
        continue;
      slots.as<std::int32_t>()[static_cast<std::size_t>(t)] =
          static_cast<std::int32_t>(block * page + position % page);
      positions.as<std::int32_t>()[static_cast<std::size_t>(t)] =
          static_cast<std::int32_t>(position);
    }
  }
  return {slots, positions};
}

void check(const Invocation &call) {
  const std::int64_t sequences = call.extent("S"), tokens = call.extent("T");
  serving::checkRoom(call, pageOf(call));
  if (!isPacked(call)) {
    if (tokens != sequences)
      refuse(call, "option 'tokens' is ", tokens,
             ", but without cu_seqlens_q "
             "each of the ",
             sequences, " sequences has one token");
    return;
  }
  serving::checkStarts(call);
  if (sequences == 0 && tokens != 0)
    refuse(call, "there are tokens, but there is no sequence");
}

} // namespace

KernelSpec sectile::pagedSlotsSpec() {
  KernelSpec spec;
  spec.name = "paged_slots";
  spec.summary = "slots and positions of new tokens of sequences in pages, for kv_append";
  const auto lengths = sampleEach([](const Invocation &call, auto &random) {
    return drawBelow(random, call.extent("max") * pageOf(call) + 1);
  });
  // Of every other call some tokens are of no sequence.
  const auto boundaries = [](const Invocation &call, HostArray &array, std::mt19937_64 &random) {
    sampleBoundaries("T")(call, array, random);
    const auto ends = array.as<std::int32_t>();
    if (ends.size() > 1 && random() % 2)
      ends.back() -=
          static_cast<std::int32_t>(drawBelow(random, ends.back() - ends[ends.size() - 2] + 1));
  };
  spec.add_arguments(
      {{"context_lens: [S] i32",
        "keys of each sequence, the new tokens' included",
        {.sample = lengths}},
       {"block_tables: [S, max] i32",
        "position p of sequence s is in block block_tables[s, p / page]; negative: it has none",
        {.sample = sampleIntegers(-1, 4000)}},
       {"cu_seqlens_q?: [ends] i32",
        "[S + 1]: sequence s has the new tokens cu_seqlens_q[s] to cu_seqlens_q[s + 1] - 1; one "
        "token each where not given",
        {.sample = boundaries}},
       {"-> slots: [T] i32", "block * page + place in it; -1 where there is none"},
       {"-> positions: [T] i32", "of each token in its sequence; -1 where it has no slot"}});
  spec.add_options({{"page: integer = 16 from 1 to 1073741823 e.g. 5, 64, 300", "keys of a page"},
                    {"tokens: integer from 0 to 2147483647 e.g. 5, 8",
                     "T, of all sequences or more; S if not given"}});
  spec.config = {{"m", "tokens of one program"}, {"warps", "warps of one program"}};
  spec.typical = {{"S", 256}, {"max", 512}};
  spec.small = {{"S", 5}, {"max", 4}};
  spec.follow = [](Invocation &call) { call.extents["ends"] = call.extent("S") + 1; };
  spec.derive = [](Invocation &call) {
    call.extents["T"] =
        call.options.given("tokens") ? call.options.integer("tokens") : call.extent("S");
  };
  spec.check = check;
  spec.contents = [](const Invocation &call, std::span<const HostArray> inputs) {
    if (isPacked(call)) {
      const std::int64_t end = inputs[call.index("cu_seqlens_q")].as<std::int32_t>().back();
      checkBoundaries(call, inputs, "cu_seqlens_q", std::min(end, call.extent("T")));
    }
    const std::int64_t most = call.extent("max") * pageOf(call);
    const auto lengths = inputs[0].as<std::int32_t>();
    for (std::size_t s = 0; s < lengths.size(); ++s)
      if (lengths[s] < 0 || lengths[s] > most)
        refuse(call, "context_lens[", s, "] is ", lengths[s], ", but must be from 0 to ", most,
               ", the keys that a row of block_tables has room for");
  };
  spec.reference = reference;
  spec.defaults = [](const Invocation &call, const std::string &target) {
    const std::int64_t m =
        powerAtLeast(std::clamp<std::int64_t>(call.extent("T"), warpSize(target), 256));
    return Config{{"m", m}, {"warps", std::max<std::int64_t>(m / warpSize(target) / 2, 1)}};
  };
  spec.spaces = {{.axes = {{"m", {32, 64, 128, 256, 512}}, {"warps", {1, 2, 4, 8}}},
                  .where = [](const Invocation &, const std::string &target, const Config &config) {
                    return config.at("m") >= config.at("warps") * warpSize(target);
                  }}};
  spec.neutral = {"m", "warps"}; // there are no sums
  spec.apply = [](Use &use) {
    auto chosen = use.config_as<SlotsConfig>();
    chosen.packed = isPacked(use.call);
    use(pagedSlots, Grid(ceilDiv(use.extent("T"), chosen.m)), chosen);
  };
  return spec;
}
