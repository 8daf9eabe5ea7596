// sample: the next token of each row of logits. Of logits x, with what a row is told of bias,
// tokens that occurred and tokens that are allowed,
//   x' = x + bias; where a token occurred x' / r or x' r, whichever is less; - frequency n -
//   presence
// the tokens are in the order of x', the largest first and of equals the lowest index. Their
// weights are e^((x' - max) / temperature). A token stays if it is among the first top_k, if the
// weights before it sum to less than top_p of all (of the top_k's with the order `k_first`), and if
// its own is at least min_p of the largest. Of those that stay one is drawn by its weight; with a
// temperature below 1e-5 it is the first.
//
// A draw takes no random number for each token: of groups of tokens one is drawn by the sums of
// their weights, and of its tokens one by its own, each in a race (Race.h). What was drawn among
// all is right if it stays, which takes a pass to see. If it does not, one of those that stay is
// drawn anew: whoever wins a race among more wins among those, too, if it is one of them; so the
// race is run among those ahead of the last winner until one stays, as in the rejection of
// FlashInfer's sampler (Ye et al., arXiv 2501.01005). Nothing is sorted, and the result is that of
// a sort.
//
// Flat rows of which few tokens stay would take many such races. So tokens that top_k and min_p may
// leave are listed, too, above a bound: the k-th largest of the groups' maxima is one for the k-th
// largest logit. A list that fits one tile is sorted, and all cuts are made at once.
#include "kernels/references/Sample.h"
#include "kernels/sampling/Cuts.h"
#include "kernels/sampling/Family.h"
#include "kernels/sampling/Race.h"
#include "kernels/sampling/References.h"
#include <sectile/error.h>

using namespace sectile;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

struct SampleConfig {
  int block = 2048, warps = 4;          // of parts
  int row_block = 8192, row_warps = 16; // of a row by one program
  int slots = 64;                       // for the parts of a row
  int group = 256, groups = 512;        // tokens of a group, slots for the groups of a row
  int list = 1024;                      // tokens that a list has room for
  bool joint = false, logprobs = false;
  bool logit_bias = false, counts = false, penalties = false, bitmask = false, temperatures = false,
       top_ks = false, top_ps = false, min_ps = false, seeds = false, offsets = false;
  bool draws = true;      // a temperature may be above 0
  bool cuts = false;      // tokens may be left out
  bool cutsTwice = false; // by a top_p of the top_k
  bool lists = false;     // by top_k or min_p
  bool marked = false;    // counts are of lists of tokens
};

// Counts that lists of tokens are added to: how often a token was generated, and the sign for one
// that occurs in the prompt, so that the two may come in any order.
constexpr std::int32_t mostCounted = std::numeric_limits<std::int32_t>::max(),
                       inPrompt = std::numeric_limits<std::int32_t>::min();

struct MarkConfig {
  int block = 1024, warps = 4;
  bool given = false; // counts to begin with
  bool prompt = false;
};
struct MarkArguments {
  View<const std::int32_t, 2> counts, list;
  View<std::int32_t, 2> marks;
};

Kernel sampleBegin{"sample_begin", [](const MarkArguments &a, const MarkConfig &config) {
                     const Int block = program_id(0), row = program_id(1);
                     auto marks = zeros<std::int32_t>(config.block);
                     if (config.given) {
                       marks = a.counts.at(row).tile(config.block).load(block);
                       marks = where(marks < 0, inPrompt, marks);
                     }
                     a.marks.at(row).tile(config.block).store(block, marks);
                   }};
Kernel sampleMark{"sample_mark", [](const MarkArguments &a, const MarkConfig &config) {
                    const Int row = program_id(1);
                    const auto token =
                        a.list.at(row).tile(config.block).padding(-1).load(program_id(0));
                    const auto place = a.marks.at(row).ptr() + token;
                    const auto known = token >= 0 && token < cast<std::int32_t>(a.marks.extent(1));
                    if (config.prompt)
                      atomic_or(place, full<std::int32_t>(inPrompt, config.block), known,
                                {.order = MemoryOrder::relaxed});
                    else
                      atomic_add(place, full<std::int32_t>(1, config.block), known,
                                 {.order = MemoryOrder::relaxed});
                  }};

template <class T> struct SampleArguments {
  View<const T, 2> logits;
  View<const float, 2> logit_bias;
  View<const std::int32_t, 2> counts;
  View<const float, 2> penalties;
  View<const std::int32_t, 2> bitmask;
  View<const float, 1> temperatures;
  View<const std::int32_t, 1> top_ks;
  View<const float, 1> top_ps, min_ps;
  View<const std::int64_t, 1> seeds, offsets;
  Tile<std::int64_t> seed;
  Float temperature, top_p, min_p, repetition, frequency, presence;
  Int top_k;
  View<float, 2> maxima, totals; // [B, groups of all parts]: of logits; of weights, by the maximum
  View<float, 2> drawn;          // [B, 4]: largest logit, sum of weights, the drawn token's logit,
                                 // and what no logit is below that stays
  View<std::int32_t, 2> chosen;  // [B, 2]: the drawn token, how many tokens are listed
  View<std::int32_t, 2> ahead;   // [B, parts]: tokens ahead of the drawn one
  View<float, 2> massAhead;      // [B, parts]: their weights
  View<std::uint64_t, 2> list;   // [B, list]: of tokens that may stay, as long as they fit
  View<std::int32_t, 1> token, rank;
  View<float, 1> logprob;
};

// A row, of which a program holds so many logits at once.
template <class T> struct SampledRow {
  const SampleArguments<T> &a;
  const SampleConfig &config;
  int n;
  Int row, tokens;
  Float divisor; // the temperature, 1 where nothing is drawn
  Bool isDrawn;
  RowSeed seed;

  SampledRow(const SampleArguments<T> &a, const SampleConfig &config, int n, const Int &row)
      : a(a), config(config), n(n), row(row), tokens(a.logits.extent(1)),
        seed(row, a.seed, a.seeds, config.seeds, a.offsets, config.offsets) {
    const Float temperature = ofRow(a.temperatures, config.temperatures, a.temperature);
    isDrawn = temperature >= 1e-5f;
    divisor = where(isDrawn, temperature, 1.0f);
  }

  template <class U>
  Tile<U> ofRow(const View<const U, 1> &each, bool given, const Tile<U> &otherwise) const {
    return given ? load(each.ptr() + row * each.stride(0)) : otherwise;
  }
  Tile<std::int32_t> indices(const Int &block) const {
    return cast<std::int32_t>(block * n + arange(0, n));
  }

  // The logits x'; -inf behind the last.
  Tile<float> take(const Int &block) const {
    Tile<float> x = cast<float>(a.logits.at(row).tile(n).padding(-infinity).load(block));
    if (config.logit_bias)
      x = x + a.logit_bias.at(row).tile(n).load(block);
    if (config.counts) {
      const auto penalty = [&](int which, const Float &ofAll) {
        return config.penalties ? load(a.penalties.ptr() + row * a.penalties.stride(0) +
                                       which * a.penalties.stride(1))
                                : ofAll;
      };
      const Float repetition = penalty(0, a.repetition), frequency = penalty(1, a.frequency),
                  presence = penalty(2, a.presence);
      auto count = a.counts.at(row).tile(n).load(block);
      if (config.marked)
        count = where((count & mostCounted) != 0, count & mostCounted, count);
      x = where(count != 0, where(x > 0, x / repetition, x * repetition), x);
      x = where(count > 0, x - frequency * cast<float>(count) - presence, x);
    }
    if (config.bitmask) {
      const auto words = a.bitmask.at(row).tile(n / 32).load(block);
      x = where(unpack_bits(bitcast<std::uint32_t>(words)), x, -infinity);
    }
    return x;
  }
  // Their values in a race for the first draw or, among those that stay, for the second.
  Tile<float> race(const Tile<float> &x, const Int &block, Race of) const {
    return config.draws ? raceBy(x, seed.numbers(block, n, of)) : x;
  }
  Tile<float> raceBy(const Tile<float> &x, const Tile<float> &numbers) const {
    return x / divisor + where(isDrawn, numbers, 0.0f);
  }
  template <class Logits> Logits weights(const Logits &x, const Logits &largest) const {
    return exp((x - largest) / divisor);
  }
};

// What was drawn of a row.
struct Drawn {
  Float largest, total, logit, bound;
  Tile<std::int32_t> index, listed;

  template <class T> explicit Drawn(const SampledRow<T> &row) {
    const auto number = [&](int which) { return load(row.a.drawn.at(row.row).ptr() + which); };
    largest = number(0), total = number(1), logit = number(2), bound = number(3);
    index = load(row.a.chosen.at(row.row).ptr());
    listed = load(row.a.chosen.at(row.row).ptr() + 1);
  }
};
// There is something to draw from: no NaN, no infinity, and not only -inf.
Bool isProper(const Float &largest) { return largest < infinity && largest > -infinity; }

// Whether a logit comes before this one.
Bool isAhead(const Tile<float> &x, const Tile<std::int32_t> &index, const Float &logit,
             const Tile<std::int32_t> &place) {
  return x > logit || (x == logit && index < place);
}

// Tokens as numbers in their order, the first the largest.
Tile<std::uint64_t> keysOf(const Tile<float> &x, const Tile<std::int32_t> &index) {
  return (cast<std::uint64_t>(bitsInOrder(x)) << 32u) |
         cast<std::uint64_t>(bitcast<std::uint32_t>(~index));
}
Tile<float> logitsOf(const Tile<std::uint64_t> &keys) {
  return numberOf(cast<std::uint32_t>(keys >> 32u));
}
Tile<std::int32_t> indicesOf(const Tile<std::uint64_t> &keys) {
  return ~bitcast<std::int32_t>(cast<std::uint32_t>(keys));
}

// Of each group of a part of a row: the largest logit, and the sum of the weights by that.
template <class T>
Kernel sampleParts{"sample_parts", [](const SampleArguments<T> &a, const SampleConfig &config) {
                     const Int part = program_id(0);
                     const SampledRow<T> row(a, config, config.block, program_id(1));
                     const int groups = std::max(config.block / config.group, 1);
                     const auto x = reshape(row.take(part), groups, config.block / groups);
                     const auto largest = max(x, 1, Nan::propagate);
                     const auto base = expand(where(largest == -infinity, 0.0f, largest), 1);
                     a.maxima.at(row.row).tile(groups).store(part, largest);
                     a.totals.at(row.row).tile(groups).store(part,
                                                             sum(exp((x - base) / row.divisor), 1));
                   }};

// The first draw, among all tokens of a row, and a bound that no logit is below that stays.
template <class T>
Kernel sampleDraw{
    "sample_draw", [](const SampleArguments<T> &a, const SampleConfig &config) {
      const int n = config.groups;
      const SampledRow<T> row(a, config, config.group, program_id(0));
      wait_dependencies();
      const auto maxima = a.maxima.at(row.row).tile(n).padding(-infinity).load(0);
      const auto totals = a.totals.at(row.row).tile(n).load(0);
      const Float largest = max(maxima, 0, Nan::propagate);
      const Bool proper = isProper(largest);
      const Float total =
          sum(totals * exp((maxima - where(proper, largest, 0.0f)) / row.divisor), 0);

      auto values = maxima;
      if (config.draws)
        values = where(row.isDrawn,
                       maxima / row.divisor + log(totals) + row.seed.numbers(0, n, Race::Groups),
                       maxima);
      const auto groups = cast<std::int32_t>(arange(0, n));
      const auto best = winnerOf(values, groups, maxima).index;
      const Int group = cast<Index>(where(proper, best, 0));
      const auto x = row.take(group);
      const auto winner = winnerOf(row.race(x, group, Race::Tokens), row.indices(group), x);
      if (!config.cuts && !config.logprobs) {
        store(a.token.ptr() + row.row * a.token.stride(0), where(proper, winner.index, -1));
        return;
      }

      Float bound = -infinity;
      if (config.lists) {
        const auto k = row.ofRow(a.top_ks, config.top_ks, cast<std::int32_t>(a.top_k));
        const Float least = row.ofRow(a.min_ps, config.min_ps, a.min_p);
        const Float kth =
            max(where(groups == k - 1, sort(maxima, 0, /*descending=*/true), -infinity), 0);
        // Lower by more than what the exponential and the logarithm are off.
        const Float lowest = largest + row.divisor * (log(least) - 1e-3f) - 1e-5f * abs(largest);
        Bool counts = least > 0.0f;
        // A top_p of the top_k is of the weights of all of these.
        if (config.cutsTwice)
          counts = counts && (k <= 0 || row.ofRow(a.top_ps, config.top_ps, a.top_p) >= 1.0f);
        bound = maximum(where(k > 0, kth, -infinity), where(counts, lowest, -infinity));
        bound = minimum(bound, largest);
      }
      const auto put = [&](int which, const Float &value) {
        store(a.drawn.at(row.row).ptr() + which, value);
      };
      put(0, largest), put(1, total), put(2, winner.weight);
      put(3, where(proper, bound, infinity));
      store(a.chosen.at(row.row).ptr(), winner.index);
      store(a.chosen.at(row.row).ptr() + 1, 0);
    }};

// Of one part of each row: how many tokens come before the drawn one, and their weights; and those
// that may stay.
template <class T>
Kernel sampleAhead{"sample_ahead", [](const SampleArguments<T> &a, const SampleConfig &config) {
                     const Int part = program_id(0);
                     const SampledRow<T> row(a, config, config.block, program_id(1));
                     const auto x = row.take(part); // in flight while the launch before ends
                     wait_dependencies();
                     const Drawn drawn(row);
                     const auto ahead = isAhead(x, row.indices(part), drawn.logit, drawn.index);
                     store(a.ahead.at(row.row).ptr() + part, cast<std::int32_t>(sum(ahead, 0)));
                     store(a.massAhead.at(row.row).ptr() + part,
                           sum(where(ahead, row.weights(x, drawn.largest), 0.0f), 0));
                     if (!config.lists)
                       return;
                     const auto may = x >= drawn.bound && x > -infinity;
                     const auto upTo = cumsum(cast<std::int32_t>(may), 0);
                     const auto count = cast<std::int32_t>(sum(may, 0));
                     // Whoever comes first takes the first places: the list is sorted in any case.
                     when(count > 0, [&] {
                       const auto place =
                           atomic_add(a.chosen.at(row.row).ptr() + 1, count) + upTo - 1;
                       store(a.list.at(row.row).ptr() + place, keysOf(x, row.indices(part)),
                             may && place < config.list);
                     });
                   }};

// Whether a token stays, by what comes before it.
struct Cuts {
  Tile<std::int32_t> k;
  Float p, least; // p of `total`, and of the largest weight
  Float total;

  Tile<bool> keeps(const Tile<std::int32_t> &count, const Tile<float> &mass,
                   const Tile<float> &weight) const {
    return count == 0 ||
           ((k <= 0 || count < k) && (p >= 1.0f || mass < p * total) && weight >= least);
  }
};

// The rest, by one program for each row.
template <class T>
Kernel samplePick{
    "sample_pick", [](const SampleArguments<T> &a, const SampleConfig &config) {
      const SampledRow<T> row(a, config, config.row_block, program_id(0));
      const Int blocks = cdiv(row.tokens, config.row_block);
      const Drawn drawn(row);
      Float logit = drawn.logit;
      Tile<std::int32_t> index = drawn.index,
                         count = cast<std::int32_t>(
                             sum(a.ahead.at(row.row).tile(config.slots).load(0), 0));
      Float mass = sum(a.massAhead.at(row.row).tile(config.slots).load(0), 0);
      const Bool proper = isProper(drawn.largest);

      if (config.cuts) {
        const int n = config.row_block;
        Cuts cuts{row.ofRow(a.top_ks, config.top_ks, cast<std::int32_t>(a.top_k)),
                  row.ofRow(a.top_ps, config.top_ps, a.top_p),
                  row.ofRow(a.min_ps, config.min_ps, a.min_p), drawn.total};
        const auto weightOf = [&](const Float &x) {
          return exp((x - drawn.largest) / row.divisor);
        };
        Bool isListed = false;
        if (config.lists) {
          const auto listed = drawn.listed;
          isListed = proper && listed <= config.list;
          when(isListed, [&] {
            const auto at = cast<std::int32_t>(arange(0, config.list));
            const auto keys =
                sort(load(a.list.at(row.row).ptr() + at, at < listed, std::uint64_t(0)), 0,
                     /*descending=*/true);
            const auto x = where(at < listed, logitsOf(keys), -infinity);
            const auto places = indicesOf(keys);
            const auto weights = where(at < listed, row.weights(x, drawn.largest), 0.0f);
            if (config.cutsTwice)
              cuts.total = where(cuts.k > 0 && cuts.p < 1.0f,
                                 sum(where(at < cuts.k, weights, 0.0f), 0), cuts.total);
            const auto stay = at < listed && cuts.keeps(at, cumsum(weights, 0) - weights, weights);
            const auto values = row.raceBy(x, row.seed.numbersAt(places, Race::Stayed));
            const auto winner = winnerOf(where(stay, values, -infinity), places, x);
            const Bool stays = cuts.keeps(count, mass, weightOf(logit));
            logit = where(stays, logit, winner.weight);
            index = where(stays, index, winner.index);
            count = cast<std::int32_t>(
                sum(cast<std::int32_t>(at < listed && isAhead(x, places, logit, index)), 0));
          });
        }
        if (config.cutsTwice)
          when(proper && !isListed && cuts.k > 0 && cuts.k < cast<std::int32_t>(row.tokens) &&
                   cuts.p < 1.0f,
               [&] {
                 cuts.total = weightOfFirst(
                     cuts.k, blocks, n, [&](const Int &block) { return row.take(block); },
                     [&](const Tile<float> &x) { return row.weights(x, drawn.largest); });
               });
        Bool stays = !proper || isListed || cuts.keeps(count, mass, weightOf(logit));
        // Whether all that do not come before this logit and place are known to leave.
        Float bound = logit;
        Tile<std::int32_t> boundAt = index;
        loop_while([&] { return !stays; },
                   [&] {
                     auto best = full<float>(-infinity, n), bestLogits = full<float>(-infinity, n);
                     auto bestAt = full<std::int32_t>(noIndex, n);
                     for (auto block : range(0, blocks)) {
                       const auto x = row.take(block);
                       const auto at = row.indices(block);
                       const auto value = where(isAhead(x, at, bound, boundAt),
                                                row.race(x, block, Race::Stayed), -infinity);
                       const auto better = value > best;
                       best = where(better, value, best);
                       bestLogits = where(better, x, bestLogits);
                       bestAt = where(better, at, bestAt);
                     }
                     const auto winner = winnerOf(best, bestAt, bestLogits);
                     logit = winner.weight;
                     index = winner.index;
                     // What comes before the winner, and before all logits up to one further up,
                     // which ends the search sooner where few stay.
                     const Float further = 0.5f * (logit + drawn.largest);
                     auto counts = zeros<std::int32_t>(n), furtherCounts = zeros<std::int32_t>(n);
                     auto masses = zeros<float>(n), furtherMasses = zeros<float>(n);
                     for (auto block : range(0, blocks)) {
                       const auto x = row.take(block);
                       const auto weights = row.weights(x, drawn.largest);
                       const auto ahead = isAhead(x, row.indices(block), logit, index);
                       const auto above = x > further;
                       counts += cast<std::int32_t>(ahead);
                       furtherCounts += cast<std::int32_t>(above);
                       masses += where(ahead, weights, 0.0f);
                       furtherMasses += where(above, weights, 0.0f);
                     }
                     count = cast<std::int32_t>(sum(counts, 0));
                     mass = sum(masses, 0);
                     stays = cuts.keeps(count, mass, weightOf(logit));
                     const Bool skips = !cuts.keeps(cast<std::int32_t>(sum(furtherCounts, 0)),
                                                    sum(furtherMasses, 0), weightOf(further));
                     bound = where(skips, further, logit);
                     boundAt = where(skips, 0, index);
                   });
      }
      store(a.token.ptr() + row.row * a.token.stride(0), where(proper, index, -1));
      if (config.logprobs) {
        const Float logarithm = (logit - drawn.largest) / row.divisor - log(drawn.total);
        store(a.logprob.ptr() + row.row * a.logprob.stride(0),
              where(proper, logarithm, std::numeric_limits<float>::quiet_NaN()));
        store(a.rank.ptr() + row.row * a.rank.stride(0), where(proper, count + 1, 0));
      }
    }};

bool hasLists(const Invocation &call) {
  return call.has("prompt_tokens") || call.has("output_tokens");
}

void check(const Invocation &call) {
  const std::int64_t tokens = call.extent("V");
  checkTokens(call, tokens);
  const bool penalised = call.options.number("repetition") != 1 ||
                         call.options.number("frequency") != 0 ||
                         call.options.number("presence") != 0 || call.has("penalties");
  if (penalised && !call.has("counts") && !hasLists(call))
    refuse(call, "there are penalties, but no counts and no lists of the tokens that they are for");
  if (call.has("bitmask") && call.extent("words") != ceilDiv(tokens, 32))
    refuse(call, "bitmask has ", call.extent("words"), " words in a row, but must have ",
           ceilDiv(tokens, 32), ", with a bit for each of the ", tokens, " tokens");
}

SampleConfig configOf(const Use &use) {
  auto config = use.config_as<SampleConfig>();
  const auto number = [&](const char *name) { return use.call.options.number(name); };
  config.joint = use.call.options.choice("order") == "joint";
  config.marked = hasLists(use.call);
  config.counts = config.counts || config.marked;
  config.draws = config.temperatures || number("temperature") >= 1e-5;
  const bool k = config.top_ks || use.call.options.integer("top_k") > 0,
             p = config.top_ps || number("top_p") < 1, least = config.min_ps || number("min_p") > 0;
  // The largest stays in any case.
  config.cuts = config.draws && (k || p || least);
  config.cutsTwice = config.cuts && k && p && !config.joint;
  const std::int64_t tokens = use.extent("V");
  config.group = groupOf(tokens);
  config.groups =
      static_cast<int>(powerAtLeast(std::max<std::int64_t>(ceilDiv(tokens, config.group), 32)));
  // A part holds whole groups.
  config.block = std::max(
      config.block, static_cast<int>(std::min<std::int64_t>(config.group, powerAtLeast(tokens))));
  config.slots = slotsFor(tokens, config.block);
  config.lists = config.cuts && (k || least);
  config.list = static_cast<int>(powerAtLeast(std::clamp<std::int64_t>(tokens, 32, 1024)));
  return config;
}

} // namespace

KernelSpec sectile::sampleSpec() {
  KernelSpec spec;
  spec.name = "sample";
  spec.summary = "the next token of each row of logits: top-k, top-p, min-p, penalties, masks";
  const auto bits = [](const Invocation &, HostArray &array, std::mt19937_64 &random) {
    for (std::int32_t &word : array.as<std::int32_t>())
      word = static_cast<std::int32_t>(random() | random());
  };
  const auto occurred = [](const Invocation &, HostArray &array, std::mt19937_64 &random) {
    fillDrawn(array, [&] { return random() % 8 ? 0.0 : static_cast<double>(random() % 5) - 1; });
  };
  spec.add_arguments(
      {{"logits: [B, V] f32|f16|bf16", "of each row's next token", {.sample = sampleNormal(2)}},
       {"logit_bias?: [1|B, V] f32", "added to the logits"},
       {"counts?: [B, V] i32",
        "how often each token was generated; negative: it occurs in the prompt alone, where "
        "`repetition` counts and the others do not",
        {.sample = occurred}},
       {"penalties?: [B, 3] f32",
        "repetition, frequency and presence of each row, in place of the options",
        {.sample = sampleUniform(0.5, 1.5)}},
       {"bitmask?: [1|B, words] i32",
        "[.., V / 32], rounded up: bit v % 32 of word v / 32 is 1 for tokens that are allowed",
        {.sample = bits}},
       {"temperatures?: [B] f32",
        "of each row, in place of the option",
        {.sample = sampleUniform(0, 1.5)}},
       {"top_ks?: [B] i32", "likewise", {.sample = sampleIntegers(0, 40)}},
       {"top_ps?: [B] f32", "likewise", {.sample = sampleUniform(0.2, 1.1)}},
       {"min_ps?: [B] f32", "likewise", {.sample = sampleUniform(0, 0.2)}}});
  spec.add_arguments(seedArguments());
  const auto listed = [](const Invocation &call, HostArray &array, std::mt19937_64 &random) {
    const auto tokens = std::max<std::int64_t>(call.extent("V"), 1);
    fillDrawn(array, [&] {
      return random() % 4 ? static_cast<double>(random() % static_cast<std::uint64_t>(tokens)) : -1;
    });
  };
  spec.add_arguments(
      {{"prompt_tokens?: [B, P] i32",
        "tokens of each row's prompt, as negative counts; numbers that are no tokens are skipped",
        {.sample = listed}},
       {"output_tokens?: [B, G] i32",
        "tokens generated, each of which adds 1 to its count; likewise",
        {.sample = listed}},
       {"-> token: [B] i32", "-1 in rows of a NaN or of inf, and where all logits are -inf"},
       {"-> logprob: [B] f32 with logprobs",
        "logarithm of the token's probability at this temperature (at 1 where that is 0), before "
        "tokens are left out"},
       {"-> rank: [B] i32 with logprobs", "1 for the token of the largest logit"}});
  spec.add_options({{"temperature: number = 1 from 0 e.g. 0, 0.7",
                     "logits are divided by it; 0: the largest logit"}});
  spec.add_options(cutOptions());
  spec.add_options(
      {{"min_p: number = 0 from 0 e.g. 0.05", "least probability that stays, of the largest one"},
       {"repetition: number = 1 from 1e-3 e.g. 1.3",
        "divides positive logits of tokens that occurred, times others"},
       {"frequency: number = 0 e.g. 0.2",
        "taken from logits for each time that the token was generated"},
       {"presence: number = 0 e.g. -0.5", "taken from logits of tokens that were generated"},
       seedOption(),
       {"logprobs: flag = false", "logprob and rank are wanted"}});
  spec.config = partFields();
  spec.typical = {{"B", 64}, {"V", 128256}, {"P", 1024}, {"G", 256}};
  spec.small = {{"B", 5}, {"V", 300}, {"P", 40}, {"G", 90}};
  spec.follow = [](Invocation &call) { call.extents["words"] = ceilDiv(call.extent("V"), 32); };
  spec.check = check;
  spec.reference = sampleReference;
  spec.defaults = [](const Invocation &call, const std::string &target) {
    return rowsInParts(call.extent("V"), target);
  };
  spec.spaces = partSpaces("sample_parts", "sample_pick", /*inGroups=*/true);
  spec.apply = [](Use &use) {
    const SampleConfig config = configOf(use);
    const std::int64_t rows = use.extent("B"), parts = ceilDiv(use.extent("V"), config.block);
    const bool checks = config.cuts || config.logprobs;
    const std::int64_t groups = parts * std::max(config.block / config.group, 1);
    const auto maxima = use.workspace<float, 2>({rows, groups}),
               totals = use.workspace<float, 2>({rows, groups}),
               drawn = use.workspace<float, 2>({checks ? rows : 0, 4}),
               massAhead = use.workspace<float, 2>({checks ? rows : 0, parts});
    const auto chosen = use.workspace<std::int32_t, 2>({checks ? rows : 0, 2}),
               ahead = use.workspace<std::int32_t, 2>({checks ? rows : 0, parts});
    const auto list = use.workspace<std::uint64_t, 2>({config.lists ? rows : 0, config.list});
    auto counts = use.tensor<std::int32_t, 2>("counts");
    if (config.marked) {
      const auto marks = use.workspace<std::int32_t, 2>({rows, use.extent("V")});
      const MarkConfig begin{.given = use.has("counts")};
      use(sampleBegin, Grid(ceilDiv(use.extent("V"), begin.block), rows), begin,
          {{"counts", counts}, {"list", noTensor<std::int32_t, 2>()}, {"marks", marks}});
      for (const char *name : {"prompt_tokens", "output_tokens"}) {
        if (!use.has(name))
          continue;
        const auto list = use.tensor<std::int32_t, 2>(name);
        const MarkConfig mark{.prompt = name == std::string_view("prompt_tokens")};
        use(sampleMark, Grid(ceilDiv(list.extents()[1], mark.block), rows), mark,
            {{"counts", counts}, {"list", list}, {"marks", marks}});
      }
      counts = marks;
    }
    SampleConfig ofRows = config;
    ofRows.warps = config.row_warps;
    const auto seed = static_cast<std::int64_t>(use.call.options.seed("seed"));
    for_dtype<float, half, bfloat16>(use.call.dtype("logits"), [&]<class T>(T) {
      const auto launch = [&](auto &kernel, Grid grid, const SampleConfig &with) {
        use(kernel, grid, with,
            {{"counts", counts},
             {"maxima", maxima},
             {"totals", totals},
             {"drawn", drawn},
             {"chosen", chosen},
             {"ahead", ahead},
             {"massAhead", massAhead},
             {"list", list},
             {"seed", seed}});
      };
      launch(sampleParts<T>, Grid(parts, rows), config);
      launch(sampleDraw<T>, rows, config);
      if (checks) {
        launch(sampleAhead<T>, Grid(parts, rows), config);
        launch(samplePick<T>, rows, ofRows);
      }
    });
  };
  return spec;
}
