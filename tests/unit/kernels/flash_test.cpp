// flash::attend and flash::backward: scores that are lambdas, visibilities put together, in every
// combination against sums in float64.
#include "FlashTest.h"
#include "tests/unit/Processes.h"

using namespace sectile;
using namespace sectile::test;
using testing::HasSubstr;

namespace {

// On AMD's the random compositions and the packed sequences, and with SECTILE_TEST_ALL=1 all.
class Flash : public OnDevice {
  void SetUp() override {
    if (GetParam() == "virtual:gfx942" && count(0, 1) == 0)
      GTEST_SKIP() << "it runs with SECTILE_TEST_ALL=1";
  }
};
SECTILE_INSTANTIATE_ON(Flash, "interpreter,virtual:sm_80,virtual:sm_90a,virtual:gfx942");

TEST_P(Flash, PlainScores) {
  check<half>(device, {}, flash::plain(), flash::everything(), unmodified, everywhere, "all");
  check<float>(device, {}, flash::plain(), flash::causal(), unmodified, before, "causal");
  check<half>(device, {}, flash::plain(), flash::causal(), unmodified, before, "negative scale",
              {.scale = -0.25});
}

TEST_P(Flash, AlibiAndSoftCap) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80");
  const auto slopes = device.upload(std::vector<float>{0.5f, 0.25f, 0.125f, 0.0625f});
  const auto alibi = flash::scores(
      [](flash::Score s, const flash::At &at, Float cap, View<const float, 1> slopes) {
        return cap * tanh(s / cap) - at.per_head(slopes) * at.distance();
      },
      2.0f, slopes);
  const ScoreReference reference = [](double s, const Place &at) {
    const double t = std::tanh(s / 2), slope = 0.5 / double(1 << at.head);
    return Dual{2 * t - slope * at.distance, 1 - t * t};
  };
  check<half>(device, {}, alibi, flash::causal(), reference, before, "f16");
  check<bfloat16>(device, {}, alibi, flash::causal(), reference, before, "bf16");
  check<float>(device, {}, alibi, flash::everything(), reference, everywhere, "f32");
}

// Of two batches.
const std::vector<std::int32_t> documentStarts{0, 25, 60}, otherStarts{0, 1, 64};
std::pair<std::vector<std::int32_t>, std::vector<std::int32_t>> documentsOf(std::int64_t keys) {
  std::vector<std::int32_t> starts, ends;
  for (std::vector<std::int32_t> list : {documentStarts, otherStarts}) {
    list.push_back(static_cast<std::int32_t>(keys));
    for (std::size_t d = 0; d + 1 < list.size(); ++d)
      for (std::int32_t j = list[d]; j < list[d + 1]; ++j) {
        starts.push_back(list[d]);
        ends.push_back(list[d + 1]);
      }
  }
  return {starts, ends};
}
bool sameDocument(const Place &at, std::int64_t queries, std::int64_t keys) {
  const auto &starts = at.batch == 0 ? documentStarts : otherStarts;
  const auto document = [&](std::int64_t key) {
    return std::upper_bound(starts.begin(), starts.end(), key) - starts.begin();
  };
  return document(at.query + keys - queries) == document(at.key);
}

TEST_P(Flash, Documents) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_90a");
  const Sizes shape;
  const auto [starts, ends] = documentsOf(shape.keys);
  const auto first = tensor(device.upload(starts), {2, shape.keys}),
             last = tensor(device.upload(ends), {2, shape.keys});
  const auto visibility = flash::documents(first, last);
  check<half>(
      device, shape, flash::plain(), visibility, unmodified,
      [&](const Place &at) { return sameDocument(at, shape.queries, shape.keys); }, "documents");
  check<float>(
      device, shape, flash::plain(), flash::causal() && visibility && flash::window(9, 4),
      unmodified,
      [&](const Place &at) {
        return sameDocument(at, shape.queries, shape.keys) && at.distance >= 0 && at.distance <= 9;
      },
      "documents in causal order within a window");
}

TEST_P(Flash, PrefixesChunksAndLengths) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80");
  const auto lengths = tensor(device.upload(std::vector<std::int32_t>{33, 0}), {2}),
             present = tensor(device.upload(std::vector<std::int32_t>{90, 41}), {2});
  const auto before33 = [](const Place &at) { return at.key < (at.batch == 0 ? 33 : 0); };
  check<half>(
      device, {}, flash::plain(), flash::prefix(lengths), unmodified,
      [&](const Place &at) { return at.distance >= 0 || before33(at); }, "prefix");
  check<half>(
      device, {}, flash::plain(), flash::causal() || flash::key_lengths(lengths), unmodified,
      [&](const Place &at) { return at.distance >= 0 || before33(at); },
      "causal or the first keys");
  check<half>(
      device, {.queries = 130, .keys = 110}, flash::plain(), flash::chunked(24) && flash::causal(),
      unmodified,
      [](const Place &at) {
        const std::int64_t beside = at.query - 20;
        return beside >= 0 && beside / 24 == at.key / 24 && at.key <= beside;
      },
      "chunks, of more queries than keys");
  check<float>(
      device, {}, flash::plain(), flash::key_lengths(present), unmodified,
      [](const Place &at) { return at.key < (at.batch == 0 ? 90 : 41); }, "lengths");
}

TEST_P(Flash, MasksAndLambdas) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80");
  const Sizes shape;
  std::vector<std::uint8_t> ofKeys, ofPairs;
  for (std::int64_t i = 0; i < 2 * shape.keys; ++i)
    ofKeys.push_back(i % 3 != 1);
  for (std::int64_t i = 0; i < shape.queries * shape.keys; ++i)
    ofPairs.push_back(i % 5 < 2);
  const auto asBools = [&](const std::vector<std::uint8_t> &values) {
    const auto buffer = device.allocate<bool>(values.size());
    std::vector<std::uint8_t> copy = values;
    buffer.upload(std::span(reinterpret_cast<const bool *>(copy.data()), copy.size()));
    return buffer;
  };
  const auto keyMask = tensor(asBools(ofKeys), {2, shape.keys});
  const auto mask = tensor(asBools(ofPairs), {1, 1, shape.queries, shape.keys});
  const auto keySeen = [&](const Place &at) { return (at.batch * shape.keys + at.key) % 3 != 1; };
  check<half>(device, shape, flash::plain(), flash::key_mask(keyMask), unmodified, keySeen,
              "key mask");
  check<half>(
      device, shape, flash::plain(), flash::mask(mask) && flash::causal(), unmodified,
      [&](const Place &at) { return (at.query * shape.keys + at.key) % 5 < 2 && at.distance >= 0; },
      "mask");
  check<float>(
      device, shape, flash::plain(),
      flash::where([](const flash::At &at,
                      Int every) { return (at.query() + at.key() + at.head()) % every != 0; },
                   3) &&
          flash::window(std::nullopt, 7),
      unmodified,
      [](const Place &at) { return (at.query + at.key + at.head) % 3 != 0 && at.distance >= -7; },
      "lambda");
}

TEST_P(Flash, Trees) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80");
  // Node i hangs from node (i - 1) / 2.
  const Sizes shape{.queries = 12, .keys = 40};
  std::vector<std::uint64_t> ancestors;
  for (int batch = 0; batch < 2; ++batch)
    for (int i = 0; i < 12; ++i) {
      std::uint64_t bits = 0;
      for (int node = i;; node = (node - 1) / 2) {
        bits |= std::uint64_t(1) << node;
        if (node == 0)
          break;
      }
      ancestors.push_back(bits);
    }
  const auto tree = tensor(device.upload(ancestors), {2, 12});
  check<half>(
      device, shape, flash::plain(), flash::tree(tree), unmodified,
      [&](const Place &at) {
        const std::int64_t node = at.key - 28;
        return node < 0 || (ancestors[static_cast<std::size_t>(at.query)] >> node & 1) != 0;
      },
      "tree");
  // All batches have the same words, some of which are not there.
  std::vector<std::int32_t> bits;
  for (int i = 0; i < 12; ++i)
    bits.push_back(static_cast<std::int32_t>(ancestors[static_cast<std::size_t>(i)]));
  check<half>(
      device, shape, flash::plain(), flash::tree(tensor(device.upload(bits), {12, 1})), unmodified,
      [&](const Place &at) {
        const std::int64_t node = at.key - 28;
        return node < 0 || (ancestors[static_cast<std::size_t>(at.query)] >> node & 1) != 0;
      },
      "tree of words");
}

// Queries of all heads that share keys are rows of one block, and the keys are split.
TEST_P(Flash, FewQueriesOverManyKeys) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_90a");
  const Sizes shape{.heads = 6, .queries = 3, .keys = 700, .width = 64, .valueWidth = 64};
  const auto slopes =
      device.upload(std::vector<float>{0.5f, 0.25f, 0.125f, 0.0625f, 0.03125f, 0.015625f});
  const auto alibi = flash::scores(
      [](flash::Score s, const flash::At &at, View<const float, 1> slopes) {
        return s - at.per_head(slopes) * at.distance();
      },
      slopes);
  check<half>(
      device, shape, alibi, flash::causal() && flash::window(400, 0),
      [](double s, const Place &at) { return Dual{s - 0.5 / double(1 << at.head) * at.distance}; },
      [](const Place &at) { return at.distance >= 0 && at.distance <= 400; },
      "alibi of few queries");
}

TEST_P(Flash, EveryOperationHasItsDerivative) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80");
  const auto check = [&](const auto &scores, const ScoreReference &reference, const char *what) {
    test::check<float>(device, {.batches = 1, .heads = 1, .kvHeads = 1, .queries = 20, .keys = 24},
                       scores, flash::everything(), reference, everywhere, what);
  };
  using flash::At, flash::Score;
  check(
      flash::scores([](Score s, const At &) { return exp(s * 0.25f) / (1.0f + exp(-s)); }),
      [](double s, const Place &) {
        const double e = std::exp(s / 4), n = 1 + std::exp(-s);
        return Dual{e / n, e / 4 / n + e * std::exp(-s) / (n * n)};
      },
      "exp and division");
  check(
      flash::scores([](Score s, const At &) { return 2.0f * log(1.0f + abs(s)) - s; }),
      [](double s, const Place &) {
        return Dual{2 * std::log(1 + std::fabs(s)) - s,
                    2 * (s > 0 ? 1.0 : -1.0) / (1 + std::fabs(s)) - 1};
      },
      "log and abs");
  check(
      flash::scores([](Score s, const At &at) {
        return maximum(s, 0.1f * s) * sigmoid(s) + minimum(s, 0.5f * at.distance());
      }),
      [](double s, const Place &at) {
        const double g = 1 / (1 + std::exp(-s)), m = std::max(s, 0.1 * s),
                     slope = s >= 0.1 * s ? 1 : 0.1;
        return Dual{m * g + std::min(s, 0.5 * at.distance),
                    slope * g + m * g * (1 - g) + (s <= 0.5 * at.distance ? 1 : 0)};
      },
      "maximum, minimum and sigmoid");
  check(
      flash::scores([](Score s, const At &at) {
        return where(at.query() % 2 == 0, soft_cap(s, 1.5f), s * s - 2.0f);
      }),
      [](double s, const Place &at) {
        const double t = std::tanh(s / 1.5);
        return at.query % 2 == 0 ? Dual{1.5 * t, 1 - t * t} : Dual{s * s - 2, 2 * s};
      },
      "where, soft cap and a square");
}

// One for each key, for each head, and for all.
TEST_P(Flash, ScoresWithoutProducts) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_90a");
  using flash::At, flash::Score;
  const Sizes shape{.batches = 1, .heads = 2, .kvHeads = 1, .queries = 20, .keys = 24};
  std::vector<float> values;
  for (std::int64_t j = 0; j < shape.keys; ++j)
    values.push_back(float(j * 7 % 5) / 4);
  const auto ofKeys = tensor(device.upload(values), {1, shape.keys});
  const auto ofHeads = tensor(device.upload(std::vector<float>{0.5f, -1}), {2});
  check<half>(
      device, shape,
      flash::scores([](Score, const At &at,
                       const View<const float, 2> &values) -> Score { return at.per_key(values); },
                    ofKeys),
      flash::causal(),
      [&](double, const Place &at) {
        return Dual{double(values[static_cast<std::size_t>(at.key)]), 0};
      },
      before, "of keys");
  check<float>(
      device, shape,
      flash::scores([](Score, const At &at,
                       const View<const float, 1> &values) -> Score { return at.per_head(values); },
                    ofHeads),
      flash::everything(), [](double, const Place &at) { return Dual{at.head ? -1.0 : 0.5, 0}; },
      everywhere, "of heads");
  check<half>(
      device, shape, flash::scores([](Score, const At &) -> Score { return 0.25f; }),
      flash::causal(), [](double, const Place &) { return Dual{0.25, 0}; }, before, "a number");
}

// Of rows of 128 keys, values and queries leave no room to fetch tables ahead that gradients are
// computed from.
TEST_P(Flash, TablesOfPairsBehindASoftCap) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80");
  const Sizes shape{.batches = 1,
                    .heads = 1,
                    .kvHeads = 1,
                    .queries = 131,
                    .keys = 21,
                    .width = 128,
                    .valueWidth = 128};
  std::vector<float> values;
  for (std::int64_t i = 0; i < shape.queries * shape.keys; ++i)
    values.push_back(float(i * 7 % 5) / 4);
  const auto table = tensor(device.upload(values), {1, 1, shape.queries, shape.keys});
  check<half>(
      device, shape,
      flash::scores(
          [](flash::Score s, const flash::At &at, const View<const float, 4> &table) {
            return soft_cap(s + at.per_pair(table), 4.0f);
          },
          table),
      flash::everything(),
      [&](double s, const Place &at) {
        const double t =
            std::tanh((s + double(values[static_cast<std::size_t>(at.query * 21 + at.key)])) / 4);
        return Dual{4 * t, 1 - t * t};
      },
      everywhere, "soft cap over a table");
}

TEST_P(Flash, ScoresThatAreInfiniteHideKeysWhateverTheseHold) {
  // Key 5 has a value that is no number, and a score of -inf.
  const Sizes shape{.batches = 1, .heads = 1, .kvHeads = 1, .queries = 20, .keys = 24};
  Data<float> data(shape);
  const auto hidden = [](flash::Score s, const flash::At &at) {
    return where(at.key() == 5, -std::numeric_limits<float>::infinity(), s);
  };
  const Results wanted = expected(
      data, [](double s, const Place &at) { return at.key == 5 ? Dual{-INFINITY, 0} : Dual{s}; },
      everywhere, 0.5);
  for (std::int64_t d = 0; d < shape.valueWidth; ++d)
    data.v[static_cast<std::size_t>(5 * shape.valueWidth + d)] = 0;
  const auto q = tensor(device.upload(data.q), {1, 1, 20, 32});
  const auto k = tensor(device.upload(data.k), {1, 1, 24, 32});
  const auto v = tensor(device.upload(data.v), {1, 1, 24, 48});
  const auto [o, lse] = flash::attend(device.stream(), q, k, v, flash::scores(hidden),
                                      flash::everything(), {.scale = 0.5});
  expectNear(o, wanted.o, 2e-5, "o");
  for (std::int64_t d = 0; d < shape.valueWidth; ++d)
    data.v[static_cast<std::size_t>(5 * shape.valueWidth + d)] = NAN;
  const auto broken = tensor(device.upload(data.v), {1, 1, 24, 48});
  const auto dO = tensor(device.upload(data.dO), {1, 1, 20, 48});
  const auto gradients =
      flash::backward(device.stream(), q, k, broken, o, lse, dO, flash::scores(hidden),
                      flash::everything(), {.scale = 0.5});
  expectNear(gradients.dq, wanted.dq, 2e-5, "dq");
}

// The same as the library's kernel, whose reference its own tests compare it with.
TEST_P(Flash, LearnedOperandsOfNoUseHaveGradientsOf0) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80");
  using flash::Along, flash::Learned;
  const auto x = tensor(device.upload(std::vector<float>(2 * 40 * 16, 0.5f)), {1, 2, 40, 16});
  const auto values = device.upload(std::vector<float>(3 * 40, 1.0f));
  const auto zeros = [&](int width, const auto &run) {
    const auto gradient = device.upload(std::vector<float>(static_cast<std::size_t>(width), NAN));
    const auto scores =
        run(flash::learned(tensor(values, {1, 1, width}), tensor(gradient, {1, 1, width})));
    const auto [o, lse] = flash::attend(device.stream(), x, x, x, scores, flash::causal());
    flash::backward(device.stream(), x, x, x, o, lse, x, scores, flash::causal());
    EXPECT_THAT(gradient.download(), testing::Each(0.0f)) << width;
  };
  zeros(1, [](const auto &given) {
    return flash::scores([](flash::Score s, const flash::At &, Learned<Along::heads>) { return s; },
                         given);
  });
  zeros(3, [](const auto &given) {
    return flash::scores(
        [](flash::Score s, const flash::At &, Learned<Along::distances>) { return s; }, given);
  });
  zeros(40, [](const auto &given) {
    return flash::scores(
        [](flash::Score s, const flash::At &, Learned<Along::queries>) { return s; }, given);
  });
  zeros(40, [](const auto &given) {
    return flash::scores([](flash::Score s, const flash::At &, Learned<Along::keys>) { return s; },
                         given);
  });
}

// All keys have one weight, in whatever step they come.
TEST_P(Flash, EqualScoresFarFromZero) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80");
  const std::int64_t keys = 1024, width = 16;
  std::vector<float> rising;
  for (std::int64_t j = 0; j < keys; ++j)
    rising.insert(rising.end(), static_cast<std::size_t>(width), float(j) / float(keys));
  const auto q = tensor(device.upload(std::vector<float>(16 * 16)), {1, 1, 16, width}),
             k = tensor(device.upload(std::vector<float>(rising.size())), {1, 1, keys, width}),
             v = tensor(device.upload(rising), {1, 1, keys, width});
  for (const float far : {3001.3f, -4001.7f, 65504.0f, -1e7f}) {
    const auto scores =
        flash::scores([](flash::Score s, const flash::At &, Float far) { return s + far; }, far);
    const auto [o, lse] = flash::attend(device.stream(), q, k, v, scores, flash::everything(),
                                        {.config = {{"n", 16}, {"overlap", 0}}});
    EXPECT_NEAR(double(o.download()[0]), double(keys - 1) / double(2 * keys), 1e-5) << far;
    EXPECT_NEAR(double(lse.download()[0]), double(far) + std::log(double(keys)),
                std::abs(double(far)) * 3e-7)
        << far;
  }
}

// As numbers are that take the place of -inf.
TEST_P(Flash, LowScoresHideKeys) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_90a");
  for (const float low : {-2e7f, -1e30f, std::numeric_limits<float>::lowest()}) {
    const auto scores = flash::scores(
        [](flash::Score s, const flash::At &at, Float low) {
          return where(at.query() == 3 || at.key() % 4 == 1, flash::Score(low), s);
        },
        low);
    const ScoreReference reference = [](double s, const Place &at) {
      return at.query == 3 || at.key % 4 == 1 ? Dual{-INFINITY, 0} : Dual{s};
    };
    check<half>(device, {}, scores, flash::causal(), reference, before, "f16");
    check<float>(device, {}, scores, flash::everything(), reference, everywhere, "f32");
  }
}

TEST_P(Flash, SinksAndDropoutAreThoseOfAttention) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_90a");
  const Sizes shape;
  const Data<half> data(shape);
  const auto &[B, H, KV, Sq, Sk, D, Dv] = shape;
  const auto q = tensor(device.upload(data.q), {B, H, Sq, D});
  const auto k = tensor(device.upload(data.k), {B, KV, Sk, D});
  const auto v = tensor(device.upload(data.v), {B, KV, Sk, Dv});
  const auto dO = tensor(device.upload(data.dO), {B, H, Sq, Dv});
  const auto sinks = tensor(device.upload(std::vector<float>{0.5f, -1, 2, 0.25f}), {H, 1});
  const Stream stream = device.stream();
  const auto [o, lse] =
      flash::attend(stream, q, k, v, flash::plain(), flash::causal(),
                    {.sinks = Tensor<const float, 2>(sinks), .dropout = 0.25, .seed = 11});
  AttentionOptions options{.causal = true, .dropout = 0.25, .seed = 11};
  options.sinks = sinks;
  const auto known = attention(stream, q, k, v, options);
  const auto bits = []<class T, int N>(const Tensor<T, N> &tensor) {
    return Buffer<T>(tensor.memory()).download();
  };
  EXPECT_EQ(bits(o), bits(known.o));
  EXPECT_EQ(bits(lse), bits(known.lse));
  const auto gradients =
      flash::backward(stream, q, k, v, o, lse, dO, flash::plain(), flash::causal(),
                      {.sinks = Tensor<const float, 2>(sinks), .dropout = 0.25, .seed = 11});
  const auto knownGradients = attention_backward(stream, q, k, v, o, lse, dO, options);
  EXPECT_EQ(bits(gradients.dq), bits(knownGradients.dq));
  EXPECT_EQ(bits(gradients.dk), bits(knownGradients.dk));
  ASSERT_TRUE(gradients.dsinks);
  EXPECT_EQ(bits(*gradients.dsinks), bits(*knownGradients.dsinks));
}

// All kinds of learned operands but those of pairs in one lambda, whose gradients are sums of those
// of the scores.
TEST_P(Flash, LearnedOperandsHaveGradients) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80");
  using flash::Along, flash::Learned;
  const auto scores = [](flash::Score s, const flash::At &at, Learned<Along::heads> slope,
                         Learned<Along::queries> query, Learned<Along::keys> key) {
    return s * at.per_query(query) + at.per_key(key) - at.per_head(slope) * at.distance();
  };
  const auto tables = [](flash::Score s, const flash::At &at, Learned<Along::distances> table,
                         Learned<Along::distances, 1> near) {
    return s + at.by_distance(table) + at.by_distance(near) * 2.0f;
  };
  // Tiles are as wide as high, higher, wider, and of the library; tables are wider and narrower
  // than the sequences, or there are none.
  const std::vector<std::array<std::int64_t, 3>> ways{{32, 32, 7}, {64, 32, 200}, {32, 64, 1},
                                                      {0, 0, 40},  {32, 64, 0},   {0, 0, 0}};
  for (const auto &[m, n, reach] : ways) {
    const Sizes shape{.batches = 2, .heads = 4, .kvHeads = 2, .queries = 70, .keys = 90};
    const auto &[B, H, KV, Sq, Sk, D, Dv] = shape;
    const Data<float> data(shape);
    std::mt19937 engine(3);
    std::uniform_real_distribution<float> uniform(-0.5f, 0.5f);
    const auto operand = [&](std::int64_t b, std::int64_t h, std::int64_t w) {
      return LearnedOperand<3>({b, h, w}, engine, uniform);
    };
    LearnedOperand<3> slope = operand(1, H, 1), query = operand(B, 1, Sq), key = operand(1, 1, Sk),
                      table = operand(1, H, 2 * reach + 1), near = operand(B, H, 5);
    const auto entry = [](const Place &at, std::int64_t reach) {
      return std::clamp<std::int64_t>(std::int64_t(-at.distance), -reach, reach) + reach;
    };
    const auto visible = [](const Place &at) { return at.distance >= -20; };
    const ScoreReference reference = [&, reach = reach](double s, const Place &at) {
      if (reach > 0)
        return Dual{s + table.value(at.batch, at.head, entry(at, reach)) +
                    2 * near.value(at.batch, at.head, entry(at, 2))};
      const double factor = query.value(at.batch, at.head, at.query);
      return Dual{s * factor + key.value(at.batch, at.head, at.key) -
                      slope.value(at.batch, at.head, 0) * at.distance,
                  factor};
    };
    const double scale = 1 / std::sqrt(double(D));
    const Results wanted =
        expected(data, reference, visible, scale, [&](const Place &at, double product, double ds) {
          slope.add(-ds * at.distance, at.batch, at.head, 0);
          query.add(ds * product, at.batch, at.head, at.query);
          key.add(ds, at.batch, at.head, at.key);
          table.add(ds, at.batch, at.head, entry(at, reach));
          near.add(2 * ds, at.batch, at.head, entry(at, 2));
        });
    const auto upload = [&](const LearnedOperand<3> &of) { return of.on(device); };
    const auto q = tensor(device.upload(data.q), {B, H, Sq, D});
    const auto k = tensor(device.upload(data.k), {B, KV, Sk, D});
    const auto v = tensor(device.upload(data.v), {B, KV, Sk, Dv});
    const auto dO = tensor(device.upload(data.dO), {B, H, Sq, Dv});
    const auto visibility = flash::window(std::nullopt, 20);
    const std::string what = "tiles " + std::to_string(m) + " by " + std::to_string(n);
    const auto compare = [&, m = m, n = n](const auto &call) {
      flash::Options options;
      const auto [o, lse] = flash::attend(device.stream(), q, k, v, call, visibility, options);
      if (m > 0)
        options.config = {{"q_m", m}, {"q_n", n}, {"q_warps", 4}};
      const auto gradients =
          flash::backward(device.stream(), q, k, v, o, lse, dO, call, visibility, options);
      expectNear(o, wanted.o, 2e-5, what + ", o");
      expectNear(gradients.dq, wanted.dq, 2e-5, what + ", dq");
      expectNear(gradients.dk, wanted.dk, 2e-5, what + ", dk");
    };
    if (reach > 0) {
      const auto ofTable = upload(table), ofNear = upload(near);
      compare(flash::scores(tables, ofTable, ofNear));
      expectNear(ofTable.gradient, table.gradient, 2e-5, what + ", of distances");
      expectNear(ofNear.gradient, near.gradient, 2e-5, what + ", of few distances");
    } else {
      const auto ofHeads = upload(slope), ofQueries = upload(query), ofKeys = upload(key);
      compare(flash::scores(scores, ofHeads, ofQueries, ofKeys));
      expectNear(ofHeads.gradient, slope.gradient, 2e-5, what + ", of heads");
      expectNear(ofQueries.gradient, query.gradient, 2e-5, what + ", of queries");
      expectNear(ofKeys.gradient, key.gradient, 2e-5, what + ", of keys");
    }
  }
}

// A bias of pairs, by itself or shared by batches or heads, beside another operand, and scaled.
TEST_P(Flash, LearnedOperandsOfPairsHaveGradients) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_90a");
  using flash::Along, flash::Learned;
  const auto biased = [](flash::Score s, const flash::At &at, Learned<Along::pairs> bias,
                         Learned<Along::heads> slope, Learned<Along::pairs, 1> factor) {
    return s * at.per_pair(factor) + at.per_pair(bias) * 2.0f - at.per_head(slope) * at.distance();
  };
  const Sizes shape{.batches = 2, .heads = 4, .kvHeads = 2, .queries = 70, .keys = 90};
  const auto &[B, H, KV, Sq, Sk, D, Dv] = shape;
  const Data<half> data(shape);
  for (const auto &[batches, heads] : {std::pair{B, H}, {1, H}, {B, 1}}) {
    std::mt19937 engine(5);
    std::uniform_real_distribution<float> uniform(-0.5f, 0.5f);
    LearnedOperand<4> bias({batches, heads, Sq, Sk}, engine, uniform),
        factor({1, heads, Sq, Sk}, engine, uniform);
    LearnedOperand<3> slope({1, H, 1}, engine, uniform);
    const auto visible = [](const Place &at) { return at.distance >= 0 && at.distance <= 40; };
    const ScoreReference reference = [&](double s, const Place &at) {
      const double by = factor.value(at.batch, at.head, at.query, at.key);
      return Dual{s * by + 2 * bias.value(at.batch, at.head, at.query, at.key) -
                      slope.value(at.batch, at.head, 0) * at.distance,
                  by};
    };
    const Results wanted =
        expected(data, reference, visible, 0.25, [&](const Place &at, double product, double ds) {
          bias.add(2 * ds, at.batch, at.head, at.query, at.key);
          factor.add(ds * product, at.batch, at.head, at.query, at.key);
          slope.add(-ds * at.distance, at.batch, at.head, 0);
        });
    const auto q = tensor(device.upload(data.q), {B, H, Sq, D});
    const auto k = tensor(device.upload(data.k), {B, KV, Sk, D});
    const auto v = tensor(device.upload(data.v), {B, KV, Sk, Dv});
    const auto dO = tensor(device.upload(data.dO), {B, H, Sq, Dv});
    const auto ofBias = bias.on(device), ofFactor = factor.on(device);
    const auto ofHeads = slope.on(device);
    const auto scores = flash::scores(biased, ofBias, ofHeads, ofFactor);
    const auto visibility = flash::causal() && flash::window(40, 0);
    const auto [o, lse] =
        flash::attend(device.stream(), q, k, v, scores, visibility, {.scale = 0.25});
    const auto gradients =
        flash::backward(device.stream(), q, k, v, o, lse, dO, scores, visibility, {.scale = 0.25});
    expectNear(o, wanted.o, 4e-3, "o");
    expectNear(gradients.dq, wanted.dq, 4e-3, "dq");
    expectNear(gradients.dv, wanted.dv, 4e-3, "dv");
    expectNear(ofBias.gradient, bias.gradient, 4e-3, "of pairs");
    expectNear(ofFactor.gradient, factor.gradient, 4e-3, "of shared pairs");
    expectNear(ofHeads.gradient, slope.gradient, 4e-3, "of heads");
  }
}

// An offset in device memory is a part of the seed, and a graph reads it when it is replayed.
TEST_P(Flash, SeedsHaveAnOffsetOnTheDevice) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80");
  const Sizes shape;
  const Data<half> data(shape);
  const auto &[B, H, KV, Sq, Sk, D, Dv] = shape;
  const auto q = tensor(device.upload(data.q), {B, H, Sq, D});
  const auto k = tensor(device.upload(data.k), {B, KV, Sk, D});
  const auto v = tensor(device.upload(data.v), {B, KV, Sk, Dv});
  const auto dO = tensor(device.upload(data.dO), {B, H, Sq, Dv});
  const auto offset = device.upload(std::vector<std::int64_t>{7});
  const Stream stream = device.stream();
  const auto results = [&](const flash::Options &options) {
    const auto [o, lse] = flash::attend(stream, q, k, v, flash::plain(), flash::causal(), options);
    const auto [dq, dk, dv, dbias, dsinks] =
        flash::backward(stream, q, k, v, o, lse, dO, flash::plain(), flash::causal(), options);
    std::vector<half> all;
    for (const auto &tensor : {o, dq, dk, dv})
      for (const half value : Buffer<half>(tensor.memory()).download())
        all.push_back(value);
    return all;
  };
  const flash::Options both{.dropout = 0.25, .seed = 4, .seed_offset = tensor(offset, {1})};
  const auto wanted = results({.dropout = 0.25, .seed = 11});
  EXPECT_EQ(results(both), wanted);
  offset.upload(std::vector<std::int64_t>{-5});
  EXPECT_EQ(results(both), results({.dropout = 0.25, .seed = std::uint64_t(-1)}));
  const auto to = attention(stream, q, k, v);
  AttentionOptions options{.causal = true, .dropout = 0.25, .seed = 4};
  options.seed_offset = tensor(offset, {1});
  attention(stream, q, k, v, options, to);
  offset.upload(std::vector<std::int64_t>{7});
  EXPECT_NE(Buffer<half>(to.o.memory()).download(),
            std::vector<half>(wanted.begin(), wanted.begin() + B * H * Sq * Dv));
  attention(stream, q, k, v, options, to);
  EXPECT_EQ(Buffer<half>(to.o.memory()).download(),
            std::vector<half>(wanted.begin(), wanted.begin() + B * H * Sq * Dv));
}

TEST(FlashCalls, WhatDoesNotFitIsRefusedByTheNameOfTheFunction) {
  const Device device = Device::open("interpreter");
  const auto message = [](const auto &call) -> std::string {
    try {
      call();
    } catch (const LaunchError &error) {
      return error.what();
    }
    return "";
  };
  const auto q = tensor(device.allocate<half>(2 * 32), {1, 1, 2, 32});
  const auto k = tensor(device.allocate<half>(2 * 48), {1, 1, 2, 48});
  const auto of = [&](const auto &visibility) {
    return message([&] { flash::attend(device.stream(), q, q, q, flash::plain(), visibility); });
  };
  EXPECT_THAT(
      message([&] { flash::attend(device.stream(), q, k, k, flash::plain(), flash::causal()); }),
      HasSubstr("flash::attend: "));
  const auto bools = device.allocate<bool>(24);
  const auto numbers = device.allocate<std::int32_t>(24);
  EXPECT_EQ(of(flash::causal() && flash::mask(tensor(bools, {1, 2, 2, 3}))),
            "flash::mask: an operand is [1, 2, 2, 3], but has to be [1 or 1, 1 or 1, 2, 2]");
  EXPECT_EQ(of(flash::window(1, 1) || flash::block_list(tensor(bools, {1, 1, 2, 2}), 1, 2)),
            "flash::block_list: an operand is [1, 1, 2, 2], but has to be [1 or 1, 1 or 1, 2, 1]");
  EXPECT_EQ(of(flash::documents(tensor(numbers, {1, 2}), tensor(numbers, {1, 3}))),
            "flash::documents: an operand is [1, 3], but has to be [1, 2]");
  EXPECT_EQ(of(flash::key_lengths(tensor(numbers, {2}))),
            "flash::key_lengths: an operand is [2], but has to be [1]");
  EXPECT_EQ(of(flash::prefix(tensor(numbers, {2}))),
            "flash::prefix: an operand is [2], but has to be [1]");
  EXPECT_EQ(of(flash::key_mask(tensor(bools, {1, 3}))),
            "flash::key_mask: an operand is [1, 3], but has to be [1 or 1, 2]");
  EXPECT_EQ(of(flash::tree(tensor(device.allocate<std::uint64_t>(3), {1, 3}))),
            "flash::tree: an operand is [1, 3], but has to be [1, 2]");
  EXPECT_EQ(of(flash::tree(tensor(device.allocate<std::int32_t>(3), {3, 1}))),
            "flash::tree: an operand is [3, 1], but has to be [2, words]");
  const auto rows = tensor(device.allocate<half>(65 * 16), {1, 1, 65, 16});
  EXPECT_EQ(message([&] {
              flash::attend(device.stream(), rows, rows, rows, flash::plain(),
                            flash::tree(tensor(device.allocate<std::uint64_t>(65), {1, 65})));
            }),
            "flash::tree: there are 65 queries, but there may be 64");
  EXPECT_EQ(message([&] {
              flash::learned(tensor(device.allocate<float>(6), {1, 2, 3}),
                             tensor(device.allocate<float>(6), {1, 1, 3}));
            }),
            "flash::learned: axis 1 of the values has extent 2, but that of the gradient 1");
  EXPECT_EQ(message([] { flash::chunked(0); }),
            "flash::chunked: chunks of 0 keys, but there has to be one at least");
  // Where no gradients are asked for, too.
  const auto slope = tensor(device.allocate<float>(2), {1, 2, 1});
  const auto learns =
      flash::scores([](flash::Score s, const flash::At &at,
                       flash::Learned<flash::Along::heads> of) { return s * at.per_head(of); },
                    flash::learned(slope, slope));
  const auto of3 = tensor(device.allocate<half>(2 * 32), {2, 1, 32});
  EXPECT_THAT(message([&] { flash::attend(device.stream(), q, q, q, learns, flash::causal()); }),
              HasSubstr("a learned operand is [1, 2, 1], but has to be [1 or B, 1 or H, W] for "
                        "B=1, H=1"));
  const auto pages = flash::pages(tensor(device.allocate<half>(16 * 32), {1, 1, 16, 32}),
                                  tensor(device.allocate<half>(16 * 32), {1, 1, 16, 32}),
                                  tensor(numbers, {2, 1}), tensor(numbers, {2}));
  EXPECT_THAT(
      message([&] { flash::attend(device.stream(), of3, pages, learns, flash::causal()); }),
      HasSubstr("a learned operand is [1, 2, 1], but has to be [1 or B, 1 or H, W] for B=2, H=1"));
}

} // namespace
