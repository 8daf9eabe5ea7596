// Sampling on the host, by sorting.
#include "kernels/calls/Use.h"
#include "kernels/references/ReferenceArithmetic.h"
#include "kernels/sampling/Race.h"
#include "kernels/sampling/References.h"
#include <algorithm>
#include <cmath>
#include <numeric>

using namespace sectile;

namespace {

// A number of each row, from an optional input in place of an option.
double ofRow(const Invocation &call, std::span<const HostArray> in, const char *input,
             const char *option, std::int64_t row) {
  return call.has(input) ? in[call.index(input)].to_double()[static_cast<std::size_t>(row)]
                         : static_cast<double>(static_cast<float>(call.options.number(option)));
}
std::int64_t topKOf(const Invocation &call, std::span<const HostArray> in, std::int64_t row) {
  return call.has("top_ks")
             ? in[call.index("top_ks")].as<std::int32_t>()[static_cast<std::size_t>(row)]
             : call.options.integer("top_k");
}

// How often a row's tokens were generated, -1 for those in the prompt alone; none if nobody says.
std::vector<std::int64_t> countsOf(const Invocation &call, std::span<const HostArray> in,
                                   std::int64_t row) {
  const auto has = [&](const char *name) { return call.has(name); };
  if (!has("counts") && !has("prompt_tokens") && !has("output_tokens"))
    return {};
  const std::int64_t tokens = call.extent("V");
  std::vector<std::int64_t> counts(static_cast<std::size_t>(tokens));
  const auto rowOf = [&](const char *name) {
    const HostArray &array = in[call.index(name)];
    const auto length = static_cast<std::size_t>(array.shape[1]);
    return array.as<std::int32_t>().subspan(static_cast<std::size_t>(row) * length, length);
  };
  if (has("counts"))
    std::ranges::copy(rowOf("counts"), counts.begin());
  if (has("output_tokens"))
    for (const std::int64_t token : rowOf("output_tokens"))
      if (token >= 0 && token < tokens)
        counts[static_cast<std::size_t>(token)] =
            std::max<std::int64_t>(counts[static_cast<std::size_t>(token)], 0) + 1;
  if (has("prompt_tokens"))
    for (const std::int64_t token : rowOf("prompt_tokens"))
      if (token >= 0 && token < tokens && counts[static_cast<std::size_t>(token)] == 0)
        counts[static_cast<std::size_t>(token)] = -1;
  return counts;
}

// The tokens by their numbers, of which none is NaN, the largest first and equals by their places.
template <class Number> std::vector<std::int64_t> inOrder(std::span<const Number> numbers) {
  std::vector<std::int64_t> order(numbers.size());
  std::iota(order.begin(), order.end(), std::int64_t{0});
  std::sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
    const Number left = numbers[static_cast<std::size_t>(a)],
                 right = numbers[static_cast<std::size_t>(b)];
    return left > right || (left == right && a < b);
  });
  return order;
}

// How many of weights in order stay.
template <class Number>
std::size_t countOfKept(const std::vector<Number> &weights, std::int64_t k, double p, bool joint) {
  const std::size_t first =
      k > 0 ? std::min(static_cast<std::size_t>(k), weights.size()) : weights.size();
  if (p >= 1)
    return first;
  const auto end = weights.begin() + static_cast<std::ptrdiff_t>(joint ? weights.size() : first);
  const Number bound = static_cast<Number>(p) * std::accumulate(weights.begin(), end, Number{0});
  std::size_t kept = 0;
  for (Number mass = 0; kept < first && (kept == 0 || mass < bound); ++kept)
    mass += weights[kept];
  return kept;
}

} // namespace

std::vector<HostArray> sectile::sampleReference(const Invocation &call,
                                                std::span<const HostArray> in,
                                                Arithmetic arithmetic) {
  const auto input = [&](const char *name) -> const HostArray & { return in[call.index(name)]; };
  return with_arithmetic(in[0].dtype, arithmetic, [&]<class Number>(NumbersOf<Number> numbers) {
    const std::int64_t rows = call.extent("B"), tokens = call.extent("V");
    const auto logits = numbers.load(in[0]);
    const auto biases = numbers.load(input("logit_bias"));
    HostArray token(DType::int32, {rows}), rank(DType::int32, {rows});
    std::vector<Number> logarithms(static_cast<std::size_t>(rows));
    const auto penalty = [&](std::int64_t row, int which, const char *option) {
      return static_cast<Number>(
          call.has("penalties")
              ? input("penalties").as<float>()[static_cast<std::size_t>(row * 3 + which)]
              : static_cast<float>(call.options.number(option)));
    };
    for (std::int64_t row = 0; row < rows; ++row) {
      const auto at = static_cast<std::size_t>(row);
      std::vector<Number> x(logits.begin() + row * tokens, logits.begin() + (row + 1) * tokens);
      const std::vector<std::int64_t> counts = countsOf(call, in, row);
      const bool penalised = !counts.empty();
      for (std::int64_t v = 0; v < tokens; ++v) {
        Number &logit = x[static_cast<std::size_t>(v)];
        if (call.has("logit_bias"))
          logit += biases[static_cast<std::size_t>(
              (input("logit_bias").shape[0] == 1 ? 0 : row * tokens) + v)];
        if (penalised) {
          const std::int64_t count = counts[static_cast<std::size_t>(v)];
          const Number r = penalty(row, 0, "repetition");
          if (count != 0)
            logit = logit > 0 ? logit / r : logit * r;
          if (count > 0)
            logit -= penalty(row, 1, "frequency") * static_cast<Number>(count) +
                     penalty(row, 2, "presence");
        }
        if (call.has("bitmask")) {
          const std::int64_t words = call.extent("words"),
                             first = input("bitmask").shape[0] == 1 ? 0 : row * words;
          const auto word =
              input("bitmask").as<std::int32_t>()[static_cast<std::size_t>(first + v / 32)];
          if (!(static_cast<std::uint32_t>(word) >> (v % 32) & 1))
            logit = -std::numeric_limits<Number>::infinity();
        }
      }
      const Number largest = *std::ranges::max_element(x);
      if (std::ranges::any_of(x, [](Number one) { return std::isnan(one); }) ||
          std::isinf(largest)) {
        token.as<std::int32_t>()[at] = -1;
        logarithms[at] = std::numeric_limits<Number>::quiet_NaN();
        continue;
      }
      const auto order = inOrder<Number>(x);
      const double temperature = ofRow(call, in, "temperatures", "temperature", row);
      const bool isDrawn = temperature >= 1e-5f;
      const auto divisor = isDrawn ? static_cast<Number>(temperature) : Number{1};
      std::vector<Number> weights;
      for (const std::int64_t v : order)
        weights.push_back(std::exp((x[static_cast<std::size_t>(v)] - largest) / divisor));
      const Number total = std::accumulate(weights.begin(), weights.end(), Number{0});
      std::size_t kept = 1;
      if (isDrawn) {
        kept = countOfKept(weights, topKOf(call, in, row), ofRow(call, in, "top_ps", "top_p", row),
                           call.options.choice("order") == "joint");
        const auto least = static_cast<Number>(ofRow(call, in, "min_ps", "min_p", row));
        while (kept > 1 && weights[kept - 1] < least)
          --kept;
      }
      const HostRowSeed seed(call, input("seeds"), input("offsets"), row);
      std::size_t chosen = 0;
      if (isDrawn) {
        std::vector<std::size_t> places(order.size());
        for (std::size_t i = 0; i < order.size(); ++i)
          places[static_cast<std::size_t>(order[i])] = i;
        const auto valueOf = [&](std::int64_t v, Race race) {
          return static_cast<double>(x[static_cast<std::size_t>(v)] / divisor) +
                 seed.number(v, race);
        };
        // Of many, by `valueOf`, the first of the largest.
        const auto winner = [](std::int64_t begin, std::int64_t end, auto &&value) {
          std::int64_t best = begin;
          double most = -std::numeric_limits<double>::infinity();
          for (std::int64_t i = begin; i < end; ++i)
            if (const double one = value(i); one > most)
              best = i, most = one;
          return best;
        };
        const std::int64_t size = groupOf(tokens);
        const std::int64_t group = winner(0, ceilDiv(tokens, size), [&](std::int64_t g) {
          Number weight = 0;
          for (std::int64_t v = g * size; v < std::min((g + 1) * size, tokens); ++v)
            weight += weights[places[static_cast<std::size_t>(v)]];
          return std::log(static_cast<double>(weight)) + seed.number(g, Race::Groups);
        });
        const std::int64_t first = winner(group * size, std::min((group + 1) * size, tokens),
                                          [&](std::int64_t v) { return valueOf(v, Race::Tokens); });
        chosen = places[static_cast<std::size_t>(first)];
        if (chosen >= kept)
          chosen = places[static_cast<std::size_t>(winner(0, tokens, [&](std::int64_t v) {
            return places[static_cast<std::size_t>(v)] < kept
                       ? valueOf(v, Race::Stayed)
                       : -std::numeric_limits<double>::infinity();
          }))];
      }
      token.as<std::int32_t>()[at] = static_cast<std::int32_t>(order[chosen]);
      rank.as<std::int32_t>()[at] = static_cast<std::int32_t>(chosen) + 1;
      logarithms[at] =
          (x[static_cast<std::size_t>(order[chosen])] - largest) / divisor - std::log(total);
    }
    return outputsOf(call, numbers, token, logarithms, rank);
  });
}

std::vector<HostArray> sectile::renormalizeReference(const Invocation &call,
                                                     std::span<const HostArray> in,
                                                     Arithmetic arithmetic) {
  return with_arithmetic(in[0].dtype, arithmetic, [&]<class Number>(NumbersOf<Number> numbers) {
    const std::int64_t rows = call.extent("B"), tokens = call.extent("V");
    const auto probs = numbers.load(in[0]);
    std::vector<Number> result(probs.size());
    for (std::int64_t row = 0; row < rows; ++row) {
      const std::span<const Number> x(probs.data() + row * tokens,
                                      static_cast<std::size_t>(tokens));
      Number *const y = result.data() + row * tokens;
      const Number total = std::accumulate(x.begin(), x.end(), Number{0});
      if (!(total > 0) || !std::isfinite(total)) {
        std::fill_n(y, tokens, std::numeric_limits<Number>::quiet_NaN());
        continue;
      }
      const auto order = inOrder<Number>(x);
      std::vector<Number> weights;
      for (const std::int64_t v : order)
        weights.push_back(x[static_cast<std::size_t>(v)]);
      const std::size_t kept =
          countOfKept(weights, topKOf(call, in, row), ofRow(call, in, "top_ps", "top_p", row),
                      call.options.choice("order") == "joint");
      const Number mass = std::accumulate(
          weights.begin(), weights.begin() + static_cast<std::ptrdiff_t>(kept), Number{0});
      for (std::size_t i = 0; i < kept; ++i)
        y[order[i]] = weights[i] / mass;
    }
    return outputsOf(call, numbers, result);
  });
}

std::vector<HostArray> sectile::speculativeVerifyReference(const Invocation &call,
                                                           std::span<const HostArray> in,
                                                           Arithmetic) {
  const std::int64_t rows = call.extent("B"), drafts = call.extent("N"), most = drafts + 1,
                     vocabulary = call.extent("V");
  const auto draft = in[call.index("draft_tokens")].as<std::int32_t>();
  const auto target = in[call.index("target_probs")].to_double(),
             drafted = in[call.index("draft_probs")].to_double(),
             uniform = in[call.index("u")].to_double();
  HostArray tokens(DType::int32, {rows, most}), accepted(DType::int32, {rows}),
      emitted(DType::int32, {rows});
  for (std::int64_t row = 0; row < rows; ++row) {
    const auto tokensOf = tokens.as<std::int32_t>().subspan(static_cast<std::size_t>(row * most),
                                                            static_cast<std::size_t>(most));
    std::ranges::fill(tokensOf, -1);
    const auto probOf = [&](const std::vector<double> &probs, std::int64_t places, std::int64_t i,
                            std::int64_t v) {
      return probs[static_cast<std::size_t>((row * places + i) * vocabulary + v)];
    };
    std::int64_t first = drafts, count = 0;
    for (std::int64_t i = 0; i < drafts; ++i) {
      const auto at = static_cast<std::size_t>(row * drafts + i);
      const std::int64_t v = draft[at];
      const bool isToken = v >= 0 && v < vocabulary;
      const double p = isToken ? probOf(target, most, i, v) : 0,
                   q = !call.has("draft_probs") ? 1
                       : isToken                ? probOf(drafted, drafts, i, v)
                                                : 0;
      if (uniform[at] * q < p)
        ++count;
      else
        first = std::min(first, i);
    }
    for (std::int64_t i = 0; i < first; ++i)
      tokensOf[static_cast<std::size_t>(i)] = draft[static_cast<std::size_t>(row * drafts + i)];
    const HostRowSeed seed(call, in[call.index("seeds")], in[call.index("offsets")], row);
    // What is left of the target's probabilities; the probabilities where nothing is.
    std::int64_t chosen = -1;
    bool isProper = true;
    for (const bool leaves : {true, false}) {
      double best = -std::numeric_limits<double>::infinity();
      for (std::int64_t v = 0; v < vocabulary; ++v) {
        double weight = probOf(target, most, first, v);
        isProper = isProper && weight >= 0 && std::isfinite(weight);
        if (leaves && first < drafts)
          weight -= call.has("draft_probs") ? probOf(drafted, drafts, first, v)
                    : v == draft[static_cast<std::size_t>(row * drafts + first)] ? weight
                                                                                 : 0;
        if (!(weight > 0))
          continue;
        if (const double value = std::log(weight) + seed.number(v); value > best)
          best = value, chosen = v;
      }
      if (chosen >= 0)
        break;
    }
    tokensOf[static_cast<std::size_t>(first)] = isProper ? static_cast<std::int32_t>(chosen) : -1;
    accepted.as<std::int32_t>()[static_cast<std::size_t>(row)] = static_cast<std::int32_t>(count);
    emitted.as<std::int32_t>()[static_cast<std::size_t>(row)] = static_cast<std::int32_t>(first);
  }
  return {tokens, accepted, emitted};
}
