// Attention with scores and visibilities as functions, in float64, and what flash::attend and
// flash::backward give beside it.
#pragma once
#include "../ops/Devices.h"
#include <cmath>
#include <functional>
#include <gmock/gmock.h>
#include <random>
#include <sectile/flash.h>

namespace sectile::test {

struct Sizes {
  std::int64_t batches = 2, heads = 4, kvHeads = 2, queries = 70, keys = 90, width = 32,
               valueWidth = 48;
};

// A score of query i and key j of a head, and its derivative by the scaled product.
struct Dual {
  double value, slope = 1;
};
struct Place {
  std::int64_t batch, head, query, key;
  double distance; // of the key before the query
};
using ScoreReference = std::function<Dual(double product, const Place &)>;
using VisibleReference = std::function<bool(const Place &)>;
// Told of each pair that is seen, with its scaled product and the gradient of its score.
using ScoreGradients = std::function<void(const Place &, double product, double gradient)>;

template <class T> struct Data {
  Sizes shape;
  std::vector<T> q, k, v, dO;

  explicit Data(const Sizes &shape) : shape(shape) {
    std::mt19937 random(7);
    std::normal_distribution<float> normal;
    const auto draw = [&](std::int64_t count) {
      std::vector<T> values;
      for (std::int64_t i = 0; i < count; ++i)
        values.push_back(static_cast<T>(normal(random)));
      return values;
    };
    const auto &[b, h, kv, sq, sk, d, dv] = shape;
    q = draw(b * h * sq * d);
    k = draw(b * kv * sk * d);
    v = draw(b * kv * sk * dv);
    dO = draw(b * h * sq * dv);
  }
};

struct Results {
  std::vector<double> o, lse, dq, dk, dv;
};

inline double at(const auto &values, std::int64_t index) {
  return static_cast<double>(static_cast<float>(values[static_cast<std::size_t>(index)]));
}

template <class T>
Results expected(const Data<T> &data, const ScoreReference &score, const VisibleReference &visible,
                 double scale, const ScoreGradients &tell = {}) {
  const auto &[B, H, KV, Sq, Sk, D, Dv] = data.shape;
  const auto sized = [](std::int64_t count) {
    return std::vector<double>(static_cast<std::size_t>(count));
  };
  Results r{sized(B * H * Sq * Dv), sized(B * H * Sq), sized(B * H * Sq * D),
            sized(B * KV * Sk * D), sized(B * KV * Sk * Dv)};
  const auto to = [](std::vector<double> &values, std::int64_t index) -> double & {
    return values[static_cast<std::size_t>(index)];
  };
  for (std::int64_t b = 0; b < B; ++b)
    for (std::int64_t h = 0; h < H; ++h)
      for (std::int64_t i = 0; i < Sq; ++i) {
        const std::int64_t row = (b * H + h) * Sq + i, kvRow = (b * KV + h / (H / KV)) * Sk;
        std::vector<Dual> scores(static_cast<std::size_t>(Sk));
        std::vector<double> products(static_cast<std::size_t>(Sk));
        double largest = -INFINITY, total = 0;
        for (std::int64_t j = 0; j < Sk; ++j) {
          const Place place{b, h, i, j, double(i + Sk - Sq - j)};
          double product = 0;
          for (std::int64_t d = 0; d < D; ++d)
            product += at(data.q, row * D + d) * at(data.k, (kvRow + j) * D + d);
          products[static_cast<std::size_t>(j)] = product * scale;
          auto &own = scores[static_cast<std::size_t>(j)];
          own = visible(place) ? score(product * scale, place) : Dual{-INFINITY, 0};
          largest = std::max(largest, own.value);
        }
        for (const Dual &own : scores)
          total += largest == -INFINITY ? 0 : std::exp(own.value - largest);
        to(r.lse, row) = total == 0 ? -INFINITY : largest + std::log(total);
        if (total == 0)
          continue;
        double delta = 0;
        const auto weight = [&](std::int64_t j) {
          return std::exp(scores[static_cast<std::size_t>(j)].value - to(r.lse, row));
        };
        for (std::int64_t d = 0; d < Dv; ++d) {
          double sum = 0;
          for (std::int64_t j = 0; j < Sk; ++j)
            sum += weight(j) * at(data.v, (kvRow + j) * Dv + d);
          to(r.o, row * Dv + d) = sum;
          delta += sum * at(data.dO, row * Dv + d);
        }
        for (std::int64_t j = 0; j < Sk; ++j) {
          const double p = weight(j);
          double dp = 0;
          for (std::int64_t d = 0; d < Dv; ++d) {
            dp += at(data.dO, row * Dv + d) * at(data.v, (kvRow + j) * Dv + d);
            to(r.dv, (kvRow + j) * Dv + d) += p * at(data.dO, row * Dv + d);
          }
          const Place place{b, h, i, j, double(i + Sk - Sq - j)};
          if (tell && visible(place))
            tell(place, products[static_cast<std::size_t>(j)], p * (dp - delta));
          const double ds = p * (dp - delta) * scores[static_cast<std::size_t>(j)].slope * scale;
          for (std::int64_t d = 0; d < D; ++d) {
            to(r.dq, row * D + d) += ds * at(data.k, (kvRow + j) * D + d);
            to(r.dk, (kvRow + j) * D + d) += ds * at(data.q, row * D + d);
          }
        }
      }
  return r;
}

// A learned operand whose first axes may have extent 1, and what its gradient is to be.
template <int N> struct LearnedOperand {
  std::array<std::int64_t, N> extents;
  std::vector<float> values;
  std::vector<double> gradient;

  LearnedOperand(const std::array<std::int64_t, N> &extents, std::mt19937 &engine, auto &drawn)
      : extents(extents) {
    std::int64_t count = 1;
    for (const std::int64_t extent : extents)
      count *= extent;
    for (std::int64_t i = 0; i < count; ++i)
      values.push_back(drawn(engine));
    gradient.resize(values.size());
  }
  double value(auto... place) const { return double(values[index({place...})]); }
  void add(double part, auto... place) { gradient[index({place...})] += part; }
  auto on(const Device &device) const {
    const auto buffer = device.allocate<float>(values.size());
    buffer.poison();
    return flash::learned(Tensor<const float, N>(shaped(device.upload(values))), shaped(buffer));
  }

private:
  std::size_t index(const std::array<std::int64_t, N> &place) const {
    std::int64_t result = 0;
    for (std::size_t axis = 0; axis < N; ++axis)
      result = result * extents[axis] + (extents[axis] == 1 ? 0 : place[axis]);
    return static_cast<std::size_t>(result);
  }
  Tensor<float, N> shaped(const Buffer<float> &of) const {
    if constexpr (N == 3)
      return tensor(of, {extents[0], extents[1], extents[2]});
    else
      return tensor(of, {extents[0], extents[1], extents[2], extents[3]});
  }
};

template <class T, int N>
void expectNear(const Tensor<T, N> &got, const std::vector<double> &wanted, double relative,
                const std::string &what) {
  const std::vector<std::remove_const_t<T>> values =
      Buffer<std::remove_const_t<T>>(got.memory()).download();
  ASSERT_EQ(values.size(), wanted.size()) << what;
  double largest = 0;
  for (const double value : wanted)
    if (std::isfinite(value))
      largest = std::max(largest, std::fabs(value));
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const auto value = static_cast<double>(static_cast<float>(values[i]));
    if (std::isinf(wanted[i]))
      ASSERT_EQ(value, wanted[i]) << what << " at " << i;
    else
      ASSERT_NEAR(value, wanted[i], relative * std::max(largest, 1.0)) << what << " at " << i;
  }
}

// Forward and gradients, with tiles that do not divide the sequences and those of the library.
template <class T, class F, flash::Visible V>
void check(const Device &device, const Sizes &shape, const flash::Scores<F> &scores,
           const Arguments<V> &visibility, const ScoreReference &score,
           const VisibleReference &visible, const std::string &what, flash::Options options = {}) {
  const Data<T> data(shape);
  const auto &[B, H, KV, Sq, Sk, D, Dv] = shape;
  const double scale = options.scale.value_or(1 / std::sqrt(double(D)));
  const Results wanted = expected(data, score, visible, scale);
  const Stream stream = device.stream();
  const auto q = tensor(device.upload(data.q), {B, H, Sq, D});
  const auto k = tensor(device.upload(data.k), {B, KV, Sk, D});
  const auto v = tensor(device.upload(data.v), {B, KV, Sk, Dv});
  const auto dO = tensor(device.upload(data.dO), {B, H, Sq, Dv});
  // f16 and bf16 round weights and gradients of scores before the products that they go into.
  const double bound = std::is_same_v<T, float> ? 2e-5 : std::is_same_v<T, half> ? 4e-3 : 3e-2;
  const auto [o, lse] = flash::attend(stream, q, k, v, scores, visibility, options);
  expectNear(o, wanted.o, bound, what + ", o");
  expectNear(lse, wanted.lse, 2e-5, what + ", lse");
  const auto gradients = flash::backward(stream, q, k, v, o, lse, dO, scores, visibility, options);
  expectNear(gradients.dq, wanted.dq, bound, what + ", dq");
  expectNear(gradients.dk, wanted.dk, bound, what + ", dk");
  expectNear(gradients.dv, wanted.dv, bound, what + ", dv");
}

inline Dual unmodified(double score, const Place &) { return {score, 1}; }
inline bool everywhere(const Place &) { return true; }
inline bool before(const Place &at) { return at.distance >= 0; }

} // namespace sectile::test
