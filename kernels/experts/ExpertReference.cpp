// Mixtures of experts on the host.
#include "kernels/experts/Codes.h"
#include "kernels/experts/Gates.h"
#include "kernels/experts/References.h"
#include "kernels/matmul/ReferenceProducts.h"
#include <algorithm>
#include <cmath>
#include <numeric>

using namespace sectile;

namespace {

// Softmax, sigmoid or the logits of a row.
template <class Number>
std::vector<Number> scoresOf(std::span<const Number> x, const std::string &scoring) {
  std::vector<Number> scores(x.begin(), x.end());
  if (scoring == "sigmoid")
    for (Number &score : scores)
      score = activation::logistic(score);
  if (scoring != "softmax" || x.empty())
    return scores;
  Number largest = x[0];
  for (const Number value : x)
    largest = largerOrNan(value, largest);
  Number total = 0;
  for (Number &score : scores)
    total += score = std::exp(score - largest);
  for (Number &score : scores)
    score /= total;
  return scores;
}

// Numbers of the k largest, NaN above all, of equals the first.
template <class Number>
std::vector<std::size_t> largestOf(const std::vector<Number> &keys, std::size_t k) {
  std::vector<std::size_t> order(keys.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    const bool isA = std::isnan(keys[a]), isB = std::isnan(keys[b]);
    if (isA || isB)
      return isA != isB ? isA : a < b;
    return keys[a] > keys[b] || (keys[a] == keys[b] && a < b);
  });
  order.resize(std::min(k, order.size()));
  return order;
}

template <class Number>
void leaveBestGroups(std::vector<Number> &keys, std::size_t groups, std::size_t kept,
                     bool hasBias) {
  const std::size_t size = keys.size() / groups;
  std::vector<Number> scores;
  for (std::size_t i = 0; i < groups; ++i) {
    const std::vector<Number> own(keys.begin() + static_cast<std::ptrdiff_t>(i * size),
                                  keys.begin() + static_cast<std::ptrdiff_t>((i + 1) * size));
    Number score = 0;
    for (const std::size_t best : largestOf(own, hasBias ? 2 : 1))
      score += own[best];
    scores.push_back(score);
  }
  const std::vector<std::size_t> best = largestOf(scores, kept);
  for (std::size_t i = 0; i < keys.size(); ++i)
    if (std::ranges::find(best, i / size) == best.end())
      keys[i] = -std::numeric_limits<Number>::infinity();
}

// What a row's weights are made of its chosen scores.
template <class Number> void makeWeights(std::vector<Number> &weights, const Invocation &call) {
  if (call.options.choice("scoring") == "chosen") {
    weights = scoresOf<Number>(weights, "softmax");
  } else if (call.options.flag("renormalize")) {
    const Number total = std::accumulate(weights.begin(), weights.end(), Number{0});
    for (Number &weight : weights)
      weight /= total;
  }
  for (Number &weight : weights)
    weight *= static_cast<Number>(call.options.number("scale"));
}

// Calls body(expert, row) for each row that belongs to an expert.
template <class Body> void forRows(const HostArray &counts, std::int64_t rows, Body &&body) {
  std::int64_t row = 0;
  const auto lengths = counts.as<std::int32_t>();
  for (std::size_t expert = 0; expert < lengths.size(); ++expert)
    for (std::int32_t i = 0; i < lengths[expert] && row < rows; ++i)
      body(static_cast<std::int64_t>(expert), row++);
}

// Rows of an operand times the matrices of experts, with the scales of both.
template <class Numbers> class ExpertProducts {
public:
  using Number = typename Numbers::Number;

  ExpertProducts(const Numbers &numbers, const Invocation &call, std::span<const HostArray> in,
                 const std::string &operand, Arithmetic arithmetic)
      : numbers(numbers), k(call.extent("K")), n(call.extent("N")), hasMx(isMx(call.options)),
        isRounded(arithmetic == Arithmetic::own && isFp8(call.dtype(operand)) && !hasMx) {
    const auto input = [&](const std::string &name) -> const HostArray & {
      return in[call.index(name)];
    };
    rows = loadOperand(numbers, call, input(operand), arithmetic);
    rowScales = numbers.load(input(operand + "_scales"));
    bias = numbers.load(input("bias"));
    if (hasMx) {
      decode(input("w"), input("w_scales"));
    } else {
      matrices = loadOperand(numbers, call, input("w"), arithmetic);
      matrixScales = numbers.load(input("w_scales"));
    }
  }

  // The product of a row and an expert's matrix [N], with its bias.
  std::vector<Number> of(std::int64_t row, std::int64_t expert) const {
    std::vector<Number> sums(static_cast<std::size_t>(n));
    const bool isScaled = !rowScales.empty() || !matrixScales.empty();
    const std::int64_t depth = isScaled ? scaleBlock : std::max<std::int64_t>(k, 1),
                       blocks = ceilDiv(k, depth), across = ceilDiv(n, scaleBlock);
    for (std::int64_t block = 0; block < blocks; ++block) {
      const std::int64_t first = block * depth;
      std::vector<Number> own(sums.size());
      addCodes(own,
               rowOf(rows, row, k)
                   .subspan(static_cast<std::size_t>(first),
                            static_cast<std::size_t>(std::min(depth, k - first))),
               matrices.data() + (expert * k + first) * n);
      for (std::int64_t j = 0; j < n; ++j) {
        Number scale = 1;
        if (!rowScales.empty())
          scale *= rowScales[static_cast<std::size_t>(row * blocks + block)];
        if (!matrixScales.empty())
          scale *= matrixScales[static_cast<std::size_t>((expert * blocks + block) * across +
                                                         j / scaleBlock)];
        sums[static_cast<std::size_t>(j)] += own[static_cast<std::size_t>(j)] * scale;
      }
    }
    for (std::size_t j = 0; j < sums.size(); ++j) {
      sums[j] = numbers.store(sums[j]);
      if (!bias.empty())
        sums[j] = numbers.store(sums[j] + bias[static_cast<std::size_t>(expert * n) + j]);
    }
    return sums;
  }

private:
  void addCodes(std::span<Number> sums, std::span<const Number> row, const Number *columns) const {
    if constexpr (std::is_same_v<Number, float>)
      if (isRounded)
        return addProductsOfFp8(row, columns, n, sums);
    addProducts<Number>(row, columns, sums);
  }

  // [G, K / 2, N] of pairs along K, [G, ceil(K / 32), N] of scales.
  void decode(const HostArray &codes, const HostArray &scales) {
    matrices.resize(static_cast<std::size_t>(codes.count() * 2));
    const auto pairs = codes.as<std::uint8_t>(), exponents = scales.as<std::uint8_t>();
    const std::int64_t blocks = ceilDiv(k, mxBlock);
    for (std::size_t i = 0; i < matrices.size(); ++i) {
      const auto at = static_cast<std::int64_t>(i);
      const std::int64_t expert = at / (k * n), p = at / n % k, j = at % n;
      const unsigned pair = pairs[static_cast<std::size_t>((expert * k + p) / 2 * n + j)];
      matrices[i] = static_cast<Number>(
          decodeE2m1(p % 2 ? pair >> 4 : pair & 15) *
          decodeE8m0(exponents[static_cast<std::size_t>((expert * blocks + p / mxBlock) * n + j)]));
    }
  }

  const Numbers &numbers;
  std::int64_t k, n;
  bool hasMx, isRounded;
  std::vector<Number> rows, rowScales, matrices, matrixScales, bias;
};

template <class Numbers, class Number>
std::vector<Number> combined(const Numbers &numbers, const Invocation &call,
                             const std::vector<Number> &parts, std::span<const std::int32_t> places,
                             const std::vector<Number> &weights,
                             const std::vector<Number> &addend) {
  const std::int64_t tokens = call.extent("T"), k = call.extent("C"), n = call.extent("N");
  std::vector<Number> y(static_cast<std::size_t>(tokens * n));
  std::copy(addend.begin(), addend.end(), y.begin());
  for (std::int64_t choice = 0; choice < tokens * k; ++choice) {
    const auto at = static_cast<std::size_t>(choice);
    if (places[at] < 0)
      continue;
    for (std::int64_t j = 0; j < n; ++j) {
      const Number part = parts[static_cast<std::size_t>(places[at] * n + j)];
      y[static_cast<std::size_t>(choice / k * n + j)] +=
          weights.empty() ? part : numbers.store(part * weights[at]);
    }
  }
  return y;
}

} // namespace

std::vector<HostArray> sectile::moeRouteReference(const Invocation &call,
                                                  std::span<const HostArray> in,
                                                  Arithmetic arithmetic) {
  return with_arithmetic(in[0].dtype, arithmetic, [&]<class Number>(NumbersOf<Number> numbers) {
    const std::int64_t tokens = call.extent("T"), experts = call.extent("E"), k = call.extent("K");
    const auto logits = numbers.load(in[0]), bias = numbers.load(in[1]);
    std::vector<Number> weights, fraction(static_cast<std::size_t>(experts)), mean = fraction;
    HostArray chosen(DType::int32, {tokens, k});
    for (std::int64_t row = 0; row < tokens; ++row) {
      const auto scores =
          scoresOf<Number>(rowOf(logits, row, experts), call.options.choice("scoring"));
      std::vector<Number> keys = scores;
      for (std::size_t i = 0; i < bias.size(); ++i)
        keys[i] += bias[i];
      if (call.options.integer("n_group") > 1)
        leaveBestGroups(keys, static_cast<std::size_t>(call.options.integer("n_group")),
                        static_cast<std::size_t>(call.options.integer("topk_group")),
                        call.has("bias"));
      const auto best = largestOf(keys, static_cast<std::size_t>(k));
      std::vector<Number> own;
      for (std::size_t j = 0; j < best.size(); ++j) {
        own.push_back(scores[best[j]]);
        chosen.as<std::int32_t>()[static_cast<std::size_t>(row * k) + j] =
            static_cast<std::int32_t>(best[j]);
        fraction[best[j]] += 1;
      }
      makeWeights(own, call);
      weights.insert(weights.end(), own.begin(), own.end());
      for (std::size_t i = 0; i < scores.size(); ++i)
        mean[i] += scores[i];
    }
    for (std::size_t i = 0; i < mean.size(); ++i) {
      fraction[i] /= static_cast<Number>(tokens * k);
      mean[i] /= static_cast<Number>(tokens);
    }
    return outputsOf(call, numbers, weights, chosen, fraction, mean);
  });
}

std::vector<HostArray> sectile::moeRouteBackwardReference(const Invocation &call,
                                                          std::span<const HostArray> in,
                                                          Arithmetic arithmetic) {
  return with_arithmetic(in[0].dtype, arithmetic, [&]<class Number>(NumbersOf<Number> numbers) {
    const std::int64_t tokens = call.extent("T"), experts = call.extent("E"), k = call.extent("K");
    const auto logits = numbers.load(in[0]), dweights = numbers.load(in[2]),
               dmean = numbers.load(in[3]);
    const auto chosen = in[1].template as<std::int32_t>();
    const std::string &scoring = call.options.choice("scoring");
    std::vector<Number> result(logits.size());
    for (std::int64_t row = 0; row < tokens; ++row) {
      const auto scores = scoresOf<Number>(rowOf(logits, row, experts), scoring);
      const auto at = static_cast<std::size_t>(row * k);
      std::vector<Number> own, gradient, of(scores.size());
      for (std::size_t j = 0; j < static_cast<std::size_t>(k); ++j) {
        own.push_back(scores[static_cast<std::size_t>(chosen[at + j])]);
        gradient.push_back(dweights[at + j] * static_cast<Number>(call.options.number("scale")));
      }
      const auto dot = [](const std::vector<Number> &a, const std::vector<Number> &b) {
        return std::inner_product(a.begin(), a.end(), b.begin(), Number{0});
      };
      if (scoring == "chosen") {
        const auto weights = scoresOf<Number>(own, "softmax");
        const Number along = dot(weights, gradient);
        for (std::size_t j = 0; j < own.size(); ++j)
          gradient[j] = weights[j] * (gradient[j] - along);
      } else if (call.options.flag("renormalize")) {
        const Number total = std::accumulate(own.begin(), own.end(), Number{0}),
                     along = dot(gradient, own) / total;
        for (Number &value : gradient)
          value = (value - along) / total;
      }
      for (std::size_t j = 0; j < own.size(); ++j)
        of[static_cast<std::size_t>(chosen[at + j])] += gradient[j];
      for (std::size_t i = 0; i < dmean.size(); ++i)
        of[i] += dmean[i] / static_cast<Number>(tokens);
      const Number along = scoring == "softmax" ? dot(of, scores) : 0;
      for (std::size_t i = 0; i < scores.size(); ++i)
        result[static_cast<std::size_t>(row * experts) + i] =
            scoring == "softmax" ? scores[i] * (of[i] - along)
            : scoring == "sigmoid"
                ? of[i] * scores[i] *
                      activation::logistic(-logits[static_cast<std::size_t>(row * experts) + i])
                : of[i];
    }
    return outputsOf(call, numbers, result);
  });
}

std::vector<HostArray> sectile::moePermuteReference(const Invocation &call,
                                                    std::span<const HostArray> in, Arithmetic) {
  const std::int64_t tokens = call.extent("T"), k = call.extent("k"),
                     first = call.options.integer("first"), count = call.extent("C");
  const auto experts = in[0].as<std::int32_t>();
  HostArray counts(DType::int32, {count}), offsets(DType::int32, {count + 1}),
      order(DType::int32, {tokens * k}), ofTokens(DType::int32, {tokens * k}),
      inverse(DType::int32, {tokens, k});
  for (HostArray *array : {&order, &ofTokens, &inverse})
    std::ranges::fill(array->as<std::int32_t>(), -1);
  std::int32_t place = 0;
  for (std::int64_t expert = 0; expert < count; ++expert) {
    for (std::size_t choice = 0; choice < experts.size(); ++choice)
      if (experts[choice] == first + expert) {
        const auto at = static_cast<std::size_t>(place);
        order.as<std::int32_t>()[at] = static_cast<std::int32_t>(choice);
        ofTokens.as<std::int32_t>()[at] =
            static_cast<std::int32_t>(static_cast<std::int64_t>(choice) / k);
        inverse.as<std::int32_t>()[choice] = place++;
      }
    const auto at = static_cast<std::size_t>(expert);
    offsets.as<std::int32_t>()[at + 1] = place;
    counts.as<std::int32_t>()[at] = place - offsets.as<std::int32_t>()[at];
  }
  return {counts, offsets, order, ofTokens, inverse};
}

std::vector<HostArray> sectile::moeUpReference(const Invocation &call,
                                               std::span<const HostArray> in,
                                               Arithmetic arithmetic) {
  const std::int64_t m = call.extent("M"), width = call.extent("I");
  const GroupedEpilogue epilogue = gateOf(call);
  const auto rows = in[3].as<std::int32_t>();
  return with_arithmetic(call.dtype("h"), arithmetic, [&]<class Number>(NumbersOf<Number> numbers) {
    const ExpertProducts products(numbers, call, in, "x", arithmetic);
    std::vector<Number> result(static_cast<std::size_t>(m * width));
    forRows(in[2], m, [&](std::int64_t expert, std::int64_t row) {
      const auto sums = products.of(rows[static_cast<std::size_t>(row)], expert);
      for (std::int64_t j = 0; j < width; ++j) {
        const auto at = [&](std::int64_t column) { return sums[static_cast<std::size_t>(column)]; };
        result[static_cast<std::size_t>(row * width + j)] =
            epilogue.gate == Gate::none          ? activate(epilogue.activation, at(j))
            : epilogue.gate == Gate::interleaved ? gatedNumber(epilogue, at(2 * j), at(2 * j + 1))
                                                 : gatedNumber(epilogue, at(j), at(width + j));
      }
    });
    return outputsOf(call, numbers, result);
  });
}

std::vector<HostArray> sectile::moeDownReference(const Invocation &call,
                                                 std::span<const HostArray> in,
                                                 Arithmetic arithmetic) {
  const std::int64_t n = call.extent("N"), m = call.extent("M");
  return with_arithmetic(call.dtype("y"), arithmetic, [&]<class Number>(NumbersOf<Number> numbers) {
    const ExpertProducts products(numbers, call, in, "h", arithmetic);
    const auto weights = numbers.load(in[4]), addend = numbers.load(in[6]);
    std::vector<Number> parts(static_cast<std::size_t>(m * n));
    forRows(in[2], m, [&](std::int64_t expert, std::int64_t row) {
      std::ranges::copy(products.of(row, expert), rowOf(parts, row, n).begin());
    });
    return outputsOf(
        call, numbers,
        combined(numbers, call, parts, in[3].template as<std::int32_t>(), weights, addend));
  });
}

std::vector<HostArray> sectile::moeCombineReference(const Invocation &call,
                                                    std::span<const HostArray> in,
                                                    Arithmetic arithmetic) {
  return with_arithmetic(call.dtype("y"), arithmetic, [&](auto numbers) {
    return outputsOf(call, numbers,
                     combined(numbers, call, numbers.load(in[0]), in[1].template as<std::int32_t>(),
                              numbers.load(in[2]), numbers.load(in[3])));
  });
}

std::vector<HostArray> sectile::moeCombineBackwardReference(const Invocation &call,
                                                            std::span<const HostArray> in,
                                                            Arithmetic arithmetic) {
  const std::int64_t tokens = call.extent("T"), each = call.extent("C"), n = call.extent("N"),
                     m = call.extent("M");
  const auto places = in[1].as<std::int32_t>();
  return with_arithmetic(in[0].dtype, arithmetic, [&]<class Number>(NumbersOf<Number> numbers) {
    const auto parts = numbers.load(in[0]), weights = numbers.load(in[2]), dy = numbers.load(in[3]);
    std::vector<Number> dparts(static_cast<std::size_t>(m * n)), dweights(weights.size());
    for (std::int64_t choice = 0; choice < tokens * each; ++choice) {
      const auto at = static_cast<std::size_t>(choice);
      if (places[at] < 0)
        continue;
      for (std::int64_t j = 0; j < n; ++j) {
        const Number gradient = dy[static_cast<std::size_t>(choice / each * n + j)];
        const auto part = static_cast<std::size_t>(places[at] * n + j);
        dparts[part] += weights.empty() ? gradient : numbers.store(gradient * weights[at]);
        if (!weights.empty())
          dweights[at] += numbers.store(gradient * parts[part]);
      }
    }
    return outputsOf(call, numbers, dparts, dweights);
  });
}
