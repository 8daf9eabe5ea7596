// moe_permute: the choices of moe_route in the order of their experts, and of equals by their own,
// which is what products by expert take. With the choices numbered t k + j, as they lie:
//   order = all of them by expert; inverse = where each is there; offsets = where each expert
//   begins.
// With `first` and `count` only those experts are there, and choices of others are left out.
//
// Choices are cut into blocks. Few are done by one program, in one launch; of many the blocks are
// counted, the counts summed, and each block sorted and put in its place.
#include "kernels/blocks/RowBlocks.h"
#include "kernels/calls/Use.h"
#include "kernels/experts/Family.h"
#include "kernels/experts/References.h"
#include <algorithm>
#include <sectile/error.h>

using namespace sectile;

namespace {

// Places within a block, behind the expert in one number.
constexpr int bitsOfPlace = 12;
// Choices that one program does.
constexpr std::int64_t fewChoices = 8192;

struct PermuteConfig {
  int block = 1024, warps = 4;
  int bins = 64; // for the experts and one more, which choices that are left out have
};

struct PermuteArguments {
  View<const std::int32_t, 2> experts;
  Int first, count;
  View<std::int32_t, 2> here, before; // [blocks, bins]: of each block, and of those ahead of it
  View<std::int32_t, 1> totals;       // [bins]
  View<std::int32_t, 1> counts, offsets, order, tokens;
  View<std::int32_t, 2> inverse;
};

struct Choices {
  const PermuteArguments &a;
  const PermuteConfig &config;
  Int each, all; // of a token, and in all

  Choices(const PermuteArguments &a, const PermuteConfig &config)
      : a(a), config(config), each(a.experts.extent(1)), all(a.experts.extent(0) * each) {}

  Int blocks() const { return cdiv(all, config.block); }
  // Experts from 0 on; `count` where a choice is left out, or none.
  Tile<std::int32_t> take(const Int &block) const {
    const Int index = block * config.block + arange(0, config.block);
    const auto expert =
        load(a.experts.ptr() + cast<std::int64_t>(index / each) * a.experts.stride(0) +
                 cast<std::int64_t>(index % each) * a.experts.stride(1),
             index < all, -1);
    const auto local = expert - cast<std::int32_t>(a.first);
    const auto count = cast<std::int32_t>(a.count);
    return where(expert >= cast<std::int32_t>(a.first) && local < count, local, count);
  }
  Tile<std::int32_t> countsOf(const Tile<std::int32_t> &local) const {
    return histogram(local, config.bins, local < cast<std::int32_t>(a.count));
  }
  static Tile<std::int32_t> startsOf(const Tile<std::int32_t> &counts) {
    return cast<std::int32_t>(cumsum(counts, 0)) - counts;
  }
  // Puts a block's choices where those of their experts begin for it, and -1 behind the last one.
  void put(const Int &block, const Tile<std::int32_t> &local, const Tile<std::int32_t> &counts,
           const Tile<std::int32_t> &starts, const Tile<std::int32_t> &total) const {
    const int n = config.block;
    const auto place = cast<std::int32_t>(arange(0, n));
    const auto sorted = sort(local << bitsOfPlace | place, 0);
    const auto expert = sorted >> bitsOfPlace;
    const Int choice = block * n + cast<Index>(sorted & ((1 << bitsOfPlace) - 1));
    const auto to = gather(starts - startsOf(counts), minimum(expert, config.bins - 1), 0) + place;
    const auto isIn = expert < cast<std::int32_t>(a.count);
    const auto number = cast<std::int32_t>(choice);
    store(a.order.ptr() + cast<std::int64_t>(to) * a.order.stride(0), number, isIn);
    store(a.tokens.ptr() + cast<std::int64_t>(to) * a.tokens.stride(0),
          cast<std::int32_t>(choice / each), isIn);
    store(a.inverse.ptr() + cast<std::int64_t>(choice / each) * a.inverse.stride(0) +
              cast<std::int64_t>(choice % each) * a.inverse.stride(1),
          where(isIn, to, -1), choice < all);
    const Int index = block * n + arange(0, n);
    const auto isBehind = index >= cast<Index>(total) && index < all;
    store(a.order.ptr() + cast<std::int64_t>(index) * a.order.stride(0), full<std::int32_t>(-1, n),
          isBehind);
    store(a.tokens.ptr() + cast<std::int64_t>(index) * a.tokens.stride(0),
          full<std::int32_t>(-1, n), isBehind);
  }
  void putTotals(const Tile<std::int32_t> &totals) const {
    a.counts.tile(config.bins).store(0, totals);
    const auto number = arange(0, config.bins);
    store(a.offsets.ptr() + cast<std::int64_t>(number) * a.offsets.stride(0), startsOf(totals),
          number <= a.count);
  }
};

Kernel permuteFew{"moe_permute", [](const PermuteArguments &a, const PermuteConfig &config) {
                    const Choices choices(a, config);
                    auto totals = zeros<std::int32_t>(config.bins);
                    for (auto block : range(0, choices.blocks()))
                      totals += choices.countsOf(choices.take(block));
                    choices.putTotals(totals);
                    auto starts = Choices::startsOf(totals);
                    const auto total = cast<std::int32_t>(sum(totals, 0));
                    for (auto block : range(0, choices.blocks())) {
                      const auto local = choices.take(block);
                      const auto counts = choices.countsOf(local);
                      choices.put(block, local, counts, starts, total);
                      starts = starts + counts;
                    }
                  }};

Kernel permuteCount{
    "moe_permute_count", [](const PermuteArguments &a, const PermuteConfig &config) {
      const Choices choices(a, config);
      const Int block = program_id(0);
      a.here.at(block).tile(config.bins).store(0, choices.countsOf(choices.take(block)));
    }};

constexpr int binsTogether = 32, blocksTogether = 32;

// How many choices of an expert the blocks before have, and all.
Kernel permuteSum{"moe_permute_sum", [](const PermuteArguments &a, const PermuteConfig &) {
                    const Int column = program_id(0);
                    const auto from = a.here.tile(blocksTogether, binsTogether);
                    const auto to = a.before.tile(blocksTogether, binsTogether);
                    auto before = zeros<std::int32_t>(binsTogether);
                    for (auto block : range(0, cdiv(a.here.extent(0), blocksTogether))) {
                      const auto here = from.load(block, column);
                      to.store(block, column,
                               cast<std::int32_t>(cumsum(here, 0)) - here + expand(before, 0));
                      before = before + cast<std::int32_t>(sum(here, 0));
                    }
                    a.totals.tile(binsTogether).store(column, before);
                  }};

Kernel permutePut{"moe_permute_put", [](const PermuteArguments &a, const PermuteConfig &config) {
                    const Choices choices(a, config);
                    const Int block = program_id(0);
                    const auto local = choices.take(block); // in flight while the sums are made
                    wait_dependencies();
                    const auto totals = a.totals.tile(config.bins).load(0);
                    choices.put(block, local, a.here.at(block).tile(config.bins).load(0),
                                Choices::startsOf(totals) +
                                    a.before.at(block).tile(config.bins).load(0),
                                cast<std::int32_t>(sum(totals, 0)));
                    when(block == 0, [&] { choices.putTotals(totals); });
                  }};

} // namespace

KernelSpec sectile::moePermuteSpec() {
  KernelSpec spec;
  spec.name = "moe_permute";
  spec.summary = "the choices of moe_route in the order of their experts, and where each is";
  const auto choices = [](const Invocation &call, HostArray &array, std::mt19937_64 &random) {
    const auto last = static_cast<std::uint64_t>(call.options.integer("first") +
                                                 call.options.integer("count") + 2);
    for (std::int32_t &expert : array.as<std::int32_t>())
      expert = static_cast<std::int32_t>(random() % last);
  };
  spec.add_arguments(
      {{"experts: [T, k] i32", "of each token, from moe_route", {.sample = choices}},
       {"-> counts: [C] i32", "choices of each expert: the groups' sizes of products"},
       {"-> offsets: [C1] i32", "[C + 1]: where each begins; the last is how many are there"},
       {"-> order: [P] i32", "[T k]: choices t k + j by expert; -1 behind the last"},
       {"-> tokens: [P] i32", "t of those: the rows that moe_up gathers; -1 behind the last"},
       {"-> inverse: [T, k] i32", "where each choice is in `order`; -1 if it is left out"}});
  spec.add_options(
      {{"count: integer = 8 from 1 to 1024 e.g. 1, 40", "experts that are there, 1 to 1024"},
       {"first: integer = 0 from 0 to 1073741824 e.g. 3", "the first of them"}});
  spec.config = {{"block", "choices of one program", 32, 1 << bitsOfPlace},
                 {"warps", "warps of one program"}};
  spec.typical = {{"T", 16384}, {"k", 8}};
  spec.small = {{"T", 60}, {"k", 3}};
  spec.check = [](const Invocation &call) {
    if (call.extent("T") * call.extent("k") >= std::int64_t(1) << 30)
      refuse(call, "there are ", call.extent("T") * call.extent("k"),
             " choices, but there must be fewer than 2^30");
  };
  spec.derive = [](Invocation &call) {
    call.extents["C"] = call.options.integer("count");
    call.extents["C1"] = call.extents["C"] + 1;
    call.extents["P"] = call.extent("T") * call.extent("k");
  };
  spec.reference = moePermuteReference;
  spec.batch = {"T"};
  spec.neutral = {"block", "warps"}; // there are no sums of floats
  spec.defaults = [](const Invocation &call, const std::string &target) {
    const std::int64_t choices = call.extent("T") * call.extent("k"),
                       block = powerAtLeast(std::clamp<std::int64_t>(choices, 64, 1024));
    return Config{{"block", block},
                  {"warps", std::clamp<std::int64_t>(block / warpSize(target) / 4, 1, 8)}};
  };
  spec.spaces = {
      {.part = "moe_permute, moe_permute_put",
       .axes = {{"block", {64, 256, 512, 1024, 2048, 4096}}, {"warps", {1, 2, 4, 8}}},
       .where = [](const Invocation &call, const std::string &target, const Config &config) {
         const std::int64_t block = config.at("block"),
                            threads = config.at("warps") * warpSize(target);
         return block >= threads && block <= 32 * threads &&
                (block == 64 || block < 2 * call.extent("T") * call.extent("k"));
       }}};
  spec.apply = [](Use &use) {
    auto config = use.config_as<PermuteConfig>();
    config.bins = static_cast<int>(
        powerAtLeast(std::max<std::int64_t>(use.call.options.integer("count") + 1, 32)));
    const std::int64_t choices = use.extent("T") * use.extent("k"),
                       blocks = ceilDiv(choices, config.block);
    const auto none = noTensor<std::int32_t, 2>();
    if (choices <= fewChoices) {
      use(permuteFew, 1, config,
          {{"here", none}, {"before", none}, {"totals", noTensor<std::int32_t, 1>()}});
      return;
    }
    const auto here = use.workspace<std::int32_t, 2>({blocks, config.bins}),
               before = use.workspace<std::int32_t, 2>({blocks, config.bins});
    const auto totals = use.workspace<std::int32_t, 1>({config.bins});
    const auto launch = [&](const auto &kernel, std::int64_t programs) {
      use(kernel, programs, config, {{"here", here}, {"before", before}, {"totals", totals}});
    };
    launch(permuteCount, blocks);
    launch(permuteSum, config.bins / binsTogether);
    launch(permutePut, blocks);
  };
  return spec;
}
