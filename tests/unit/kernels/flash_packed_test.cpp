// flash::attend and flash::backward over packed sequences: each is attention by itself.
#include "FlashTest.h"
#include "tests/unit/Processes.h"

using namespace sectile;
using namespace sectile::test;
using testing::HasSubstr;

namespace {

class FlashPacked : public OnDevice {};
SECTILE_INSTANTIATE_ON(FlashPacked, "interpreter,virtual:sm_80,virtual:sm_90a,virtual:gfx942");

struct Lengths {
  std::int64_t queries, keys;
};
// An empty one, and some whose queries see nothing.
const std::vector<Lengths> lengths{{17, 30}, {0, 9}, {70, 90}, {33, 5}, {1, 0}, {40, 40}};

// The sequences' rows [H, S, width] of each, as [T, H, width].
template <class T>
std::vector<T> packedRows(const std::vector<std::vector<T>> &of,
                          const std::vector<std::int64_t> &rows, std::int64_t heads,
                          std::int64_t width) {
  std::vector<T> all;
  for (std::size_t s = 0; s < of.size(); ++s)
    for (std::int64_t i = 0; i < rows[s]; ++i)
      for (std::int64_t h = 0; h < heads; ++h)
        for (std::int64_t d = 0; d < width; ++d)
          all.push_back(of[s][static_cast<std::size_t>((h * rows[s] + i) * width + d)]);
  return all;
}

// learned: gradients of operands, of which a second call gives the same bits.
template <class T, class F, flash::Visible V>
void check(const Device &device, const flash::Scores<F> &scores, const Arguments<V> &visibility,
           const ScoreReference &score, const VisibleReference &visible,
           const flash::Options &options = {}, const ScoreGradients &tell = {},
           const std::function<std::vector<float>()> &learned = {}) {
  constexpr std::int64_t H = 4, KV = 2, D = 32, Dv = 48;
  const double scale = options.scale.value_or(1 / std::sqrt(double(D)));
  std::vector<std::int64_t> queries, keys;
  std::vector<std::int32_t> queryStarts{0}, keyStarts{0};
  std::vector<std::vector<T>> q, k, v, dO;
  std::vector<std::vector<double>> o, dq, dk, dv, logs;
  for (const auto &[Sq, Sk] : lengths) {
    const auto s = static_cast<std::int64_t>(queries.size());
    const Data<T> data({1, H, KV, Sq, Sk, D, Dv});
    const auto here = [&](Place place) {
      place.batch = s;
      return place;
    };
    const Results own = expected(
        data, [&](double product, const Place &at) { return score(product, here(at)); },
        [&](const Place &at) { return visible(here(at)); }, scale,
        [&](const Place &at, double product, double ds) {
          if (tell)
            tell(here(at), product, ds);
        });
    queries.push_back(Sq);
    keys.push_back(Sk);
    queryStarts.push_back(queryStarts.back() + static_cast<std::int32_t>(Sq));
    keyStarts.push_back(keyStarts.back() + static_cast<std::int32_t>(Sk));
    for (auto [to, from] : {std::pair{&q, &data.q}, {&k, &data.k}, {&v, &data.v}, {&dO, &data.dO}})
      to->push_back(*from);
    for (auto [to, from] : {std::pair{&o, &own.o}, {&dq, &own.dq}, {&dk, &own.dk}, {&dv, &own.dv}})
      to->push_back(*from);
    logs.push_back(own.lse);
  }
  const std::int64_t Tq = queryStarts.back(), Tk = keyStarts.back();
  std::vector<double> lse; // [H, T]
  for (std::int64_t h = 0; h < H; ++h)
    for (std::size_t s = 0; s < logs.size(); ++s)
      lse.insert(lse.end(), logs[s].begin() + h * queries[s],
                 logs[s].begin() + (h + 1) * queries[s]);
  const Stream stream = device.stream();
  const auto put = [&](const auto &of, const auto &rows, std::int64_t heads, std::int64_t width,
                       std::int64_t total) {
    return tensor(device.upload(packedRows(of, rows, heads, width)), {total, heads, width});
  };
  const auto inQ = put(q, queries, H, D, Tq), inK = put(k, keys, KV, D, Tk),
             inV = put(v, keys, KV, Dv, Tk), inDO = put(dO, queries, H, Dv, Tq);
  const auto starts = [&](const std::vector<std::int32_t> &of) {
    return tensor(device.upload(of), {static_cast<std::int64_t>(of.size())});
  };
  const Tensor<const std::int32_t, 1> cuQ = starts(queryStarts), cuK = starts(keyStarts);
  const double bound = std::is_same_v<T, float> ? 2e-5 : 4e-3;
  const auto result = flash::attend(stream, inQ, inK, inV, cuQ, cuK, scores, visibility, options);
  expectNear(result.o, packedRows(o, queries, H, Dv), bound, "o");
  expectNear(result.lse, lse, 2e-5, "lse");
  const auto gradients = flash::backward(stream, inQ, inK, inV, cuQ, cuK, result.o, result.lse,
                                         inDO, scores, visibility, options);
  expectNear(gradients.dq, packedRows(dq, queries, H, D), bound, "dq");
  expectNear(gradients.dk, packedRows(dk, keys, KV, D), bound, "dk");
  expectNear(gradients.dv, packedRows(dv, keys, KV, Dv), bound, "dv");
  if (!learned)
    return;
  const std::vector<float> before = learned();
  flash::backward(stream, inQ, inK, inV, cuQ, cuK, result.o, result.lse, inDO, scores, visibility,
                  options);
  EXPECT_EQ(before, learned());
}

TEST_P(FlashPacked, SequencesAreByThemselves) {
  check<half>(device, flash::plain(), flash::causal(), unmodified, before);
  check<float>(device, flash::plain(), flash::everything(), unmodified, everywhere, {.scale = 0.5});
}

// The number of a sequence is its batch.
TEST_P(FlashPacked, ScoresAndVisibilitiesOfASequence) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80", "virtual:gfx942");
  const auto slopes = device.upload(std::vector<float>{0.5f, 0.25f, 0.125f, 0.0625f});
  const auto alibi = flash::scores(
      [](flash::Score s, const flash::At &at, Float cap, View<const float, 1> slopes) {
        return cap * tanh(s / cap) - at.per_head(slopes) * at.distance();
      },
      2.0f, slopes);
  const std::vector<std::int32_t> given{3, 1, 60, 4, 0, 7};
  const auto prefix = tensor(device.upload(given), {6});
  check<half>(
      device, alibi, flash::prefix(prefix),
      [](double s, const Place &at) {
        const double t = std::tanh(s / 2);
        return Dual{2 * t - at.distance * 0.5 / double(1 << at.head), 1 - t * t};
      },
      [&](const Place &at) {
        return at.distance >= 0 || at.key < given[static_cast<std::size_t>(at.batch)];
      });
  check<float>(device, flash::plain(),
               flash::window(20, 3) && flash::where([](const flash::At &at) {
                 return (at.query() + at.key()) % 3 != 0;
               }),
               unmodified, [](const Place &at) {
                 return at.distance <= 20 && at.distance >= -3 && (at.query + at.key) % 3 != 0;
               });
}

// Shared by all sequences, and by heads or not.
TEST_P(FlashPacked, LearnedOperandsHaveGradients) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_90a", "virtual:gfx942");
  using flash::Along, flash::Learned;
  std::mt19937 engine(9);
  std::uniform_real_distribution<float> uniform(-0.5f, 0.5f);
  LearnedOperand<3> slope({1, 4, 1}, engine, uniform), table({1, 1, 41}, engine, uniform);
  const auto entry = [](const Place &at) {
    return std::clamp<std::int64_t>(std::int64_t(-at.distance), -20, 20) + 20;
  };
  const auto ofSlope = slope.on(device), ofTable = table.on(device);
  const auto scores = flash::scores(
      [](flash::Score s, const flash::At &at, Learned<Along::heads> slope,
         Learned<Along::distances> table) {
        return s + at.by_distance(table) - at.per_head(slope) * at.distance();
      },
      ofSlope, ofTable);
  check<half>(
      device, scores, flash::causal(),
      [&](double s, const Place &at) {
        return Dual{s + table.value(0, at.head, entry(at)) -
                    slope.value(0, at.head, 0) * at.distance};
      },
      before, {},
      [&](const Place &at, double, double ds) {
        table.add(ds, 0, at.head, entry(at));
        slope.add(-ds * at.distance, 0, at.head, 0);
      });
  expectNear(ofSlope.gradient, slope.gradient, 4e-3, "of heads");
  expectNear(ofTable.gradient, table.gradient, 4e-3, "of distances");
}

// Of each sequence or of all; what an operand has behind the end of a sequence is not looked at,
// and has no gradient.
TEST_P(FlashPacked, LearnedOperandsOfQueriesKeysAndPairsHaveGradients) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80", "virtual:gfx942");
  using flash::Along, flash::Learned;
  constexpr std::int64_t mostQueries = 75, mostKeys = 97, reach = 9;
  const auto sequences = static_cast<std::int64_t>(lengths.size());
  std::mt19937 engine(10);
  std::uniform_real_distribution<float> uniform(-0.5f, 0.5f);
  LearnedOperand<3> queries({sequences, 4, mostQueries}, engine, uniform),
      keys({1, 4, mostKeys}, engine, uniform),
      table({sequences, 1, 2 * reach + 1}, engine, uniform);
  LearnedOperand<4> pairs({sequences, 1, mostQueries, mostKeys}, engine, uniform);
  for (std::int64_t s = 0; s < sequences; ++s)
    for (std::int64_t i = 0; i < mostQueries; ++i) {
      const auto &[ofQueries, ofKeys] = lengths[static_cast<std::size_t>(s)];
      for (std::int64_t h = 0; h < 4 && i >= ofQueries; ++h)
        queries.values[static_cast<std::size_t>((s * 4 + h) * mostQueries + i)] = NAN;
      for (std::int64_t j = 0; j < mostKeys; ++j)
        if (i >= ofQueries || j >= ofKeys)
          pairs.values[static_cast<std::size_t>((s * mostQueries + i) * mostKeys + j)] = NAN;
    }
  const auto entry = [=](const Place &at) {
    return std::clamp(std::int64_t(-at.distance), -reach, reach) + reach;
  };
  const auto ofQueries = queries.on(device), ofKeys = keys.on(device), ofTable = table.on(device);
  const auto ofPairs = pairs.on(device);
  const auto scores = flash::scores(
      [](flash::Score s, const flash::At &at, Learned<Along::queries> queries,
         Learned<Along::keys> keys, Learned<Along::pairs> pairs, Learned<Along::distances> table) {
        return s * at.per_query(queries) + at.per_key(keys) + at.per_pair(pairs) +
               at.by_distance(table);
      },
      ofQueries, ofKeys, ofPairs, ofTable);
  const auto factor = [&](const Place &at) { return queries.value(at.batch, at.head, at.query); };
  check<half>(
      device, scores, flash::window(30, 5),
      [&](double s, const Place &at) {
        return Dual{s * factor(at) + keys.value(0, at.head, at.key) +
                        pairs.value(at.batch, at.head, at.query, at.key) +
                        table.value(at.batch, at.head, entry(at)),
                    factor(at)};
      },
      [](const Place &at) { return at.distance <= 30 && at.distance >= -5; }, {},
      [&](const Place &at, double product, double ds) {
        queries.add(ds * product, at.batch, at.head, at.query);
        keys.add(ds, 0, at.head, at.key);
        pairs.add(ds, at.batch, at.head, at.query, at.key);
        table.add(ds, at.batch, at.head, entry(at));
      },
      [&] {
        std::vector<float> all;
        const auto add = [&](const auto &gradient) {
          const auto values = Buffer<float>(gradient.memory()).download();
          all.insert(all.end(), values.begin(), values.end());
        };
        add(ofQueries.gradient);
        add(ofKeys.gradient);
        add(ofPairs.gradient);
        add(ofTable.gradient);
        return all;
      });
  expectNear(ofQueries.gradient, queries.gradient, 4e-3, "of queries");
  expectNear(ofKeys.gradient, keys.gradient, 4e-3, "of keys");
  expectNear(ofPairs.gradient, pairs.gradient, 4e-3, "of pairs");
  expectNear(ofTable.gradient, table.gradient, 4e-3, "of distances");
}

// Sequences are of different lengths, and what lies behind a shorter one's keys is not looked at.
TEST_P(FlashPacked, DocumentsOfASequence) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_90a", "virtual:gfx942");
  constexpr std::int64_t most = 90;
  std::vector<std::int32_t> starts, ends;
  for (const auto &[queries, keys] : lengths)
    for (std::int64_t key = 0; key < most; ++key) {
      const std::int64_t start = key / 12 * 12;
      starts.push_back(key < keys ? static_cast<std::int32_t>(start) : 0);
      ends.push_back(key < keys ? static_cast<std::int32_t>(std::min(keys, start + 12)) : 0);
    }
  const auto sequences = static_cast<std::int64_t>(lengths.size());
  check<half>(device, flash::plain(),
              flash::documents(tensor(device.upload(starts), {sequences, most}),
                               tensor(device.upload(ends), {sequences, most})),
              unmodified, [](const Place &at) {
                const std::int64_t beside = at.key + std::int64_t(at.distance);
                return beside >= 0 && beside / 12 == at.key / 12;
              });
}

// Keys and values of blocks that are not there may be anything: lists leave them out.
TEST_P(FlashPacked, BlocksThatAreNotThereAreNotVisited) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80");
  constexpr std::int64_t H = 2, D = 32, size = 128, rows = 2, columns = 3;
  const std::vector<Lengths> lengths{{100, 300}, {0, 20}, {150, 140}, {30, 0}};
  const auto has = [](std::int64_t s, std::int64_t row, std::int64_t column) {
    return (s + row + column) % 2 != 0;
  };
  std::vector<std::int64_t> queries, keys;
  std::vector<std::int32_t> queryStarts{0}, keyStarts{0};
  std::vector<std::vector<half>> q, k, v, dO;
  std::vector<std::vector<double>> o, dq, dk, dv;
  std::vector<std::uint8_t> all;
  for (const auto &[Sq, Sk] : lengths) {
    const auto s = static_cast<std::int64_t>(queries.size());
    Data<half> data({1, H, 1, Sq, Sk, D, D});
    const Results own = expected(
        data, unmodified, [&](const Place &at) { return has(s, at.query / size, at.key / size); },
        0.25);
    const auto isSeen = [&](std::int64_t key) {
      return (Sq > 0 && has(s, 0, key / size)) || (Sq > size && has(s, 1, key / size));
    };
    for (std::int64_t j = 0; j < Sk; ++j)
      for (std::int64_t d = 0; d < D && !isSeen(j); ++d)
        data.k[static_cast<std::size_t>(j * D + d)] = data.v[static_cast<std::size_t>(j * D + d)] =
            half(NAN);
    queries.push_back(Sq);
    keys.push_back(Sk);
    queryStarts.push_back(queryStarts.back() + static_cast<std::int32_t>(Sq));
    keyStarts.push_back(keyStarts.back() + static_cast<std::int32_t>(Sk));
    for (auto [to, from] : {std::pair{&q, &data.q}, {&k, &data.k}, {&v, &data.v}, {&dO, &data.dO}})
      to->push_back(*from);
    for (auto [to, from] : {std::pair{&o, &own.o}, {&dq, &own.dq}, {&dk, &own.dk}, {&dv, &own.dv}})
      to->push_back(*from);
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t j = 0; j < columns; ++j)
        all.push_back(has(s, i, j));
  }
  const auto mask = device.allocate<bool>(all.size());
  mask.upload(std::span(reinterpret_cast<const bool *>(all.data()), all.size()));
  const auto visibility =
      flash::block_list(tensor(mask, {std::ssize(lengths), 1, rows, columns}), size, size);
  const auto put = [&](const auto &of, const auto &counts, std::int64_t heads) {
    const auto packed = packedRows(of, counts, heads, D);
    return tensor(device.upload(packed), {std::ssize(packed) / heads / D, heads, D});
  };
  const auto inQ = put(q, queries, H), inK = put(k, keys, 1), inV = put(v, keys, 1),
             inDO = put(dO, queries, H);
  const Tensor<const std::int32_t, 1> cuQ = tensor(device.upload(queryStarts),
                                                   {std::ssize(queryStarts)}),
                                      cuK =
                                          tensor(device.upload(keyStarts), {std::ssize(keyStarts)});
  const Stream stream = device.stream();
  const auto [out, lse] =
      flash::attend(stream, inQ, inK, inV, cuQ, cuK, flash::plain(), visibility, {.scale = 0.25});
  expectNear(out, packedRows(o, queries, H, D), 4e-3, "o");
  const auto gradients = flash::backward(stream, inQ, inK, inV, cuQ, cuK, out, lse, inDO,
                                         flash::plain(), visibility, {.scale = 0.25});
  expectNear(gradients.dq, packedRows(dq, queries, H, D), 4e-3, "dq");
  expectNear(gradients.dk, packedRows(dk, keys, 1, D), 4e-3, "dk");
  expectNear(gradients.dv, packedRows(dv, keys, 1, D), 4e-3, "dv");
}

// By the blocks that a lambda has of each sequence, whose last query lies beside its last key.
TEST_P(FlashPacked, BlocksOfALambda) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80", "virtual:sm_90a");
  const auto lambda = flash::where([](const flash::At &at) {
    return abs(at.distance()) < 9.0f || (at.key() / 32 + at.batch() + at.head()) % 3 == 0;
  });
  std::vector<std::int32_t> queries{0}, keys{0};
  for (const auto &[Sq, Sk] : lengths) {
    queries.push_back(queries.back() + static_cast<std::int32_t>(Sq));
    keys.push_back(keys.back() + static_cast<std::int32_t>(Sk));
  }
  const Tensor<const std::int32_t, 1> cuQ = tensor(device.upload(queries), {std::ssize(queries)}),
                                      cuK = tensor(device.upload(keys), {std::ssize(keys)});
  const flash::Blocks blocks = flash::blocks_of(
      device.stream(), lambda, {.heads = 4, .queries = 70, .keys = 90}, cuQ, cuK, 32, 32);
  check<half>(device, flash::plain(), flash::block_list(lambda, blocks) && flash::window(60, 50),
              unmodified, [](const Place &at) {
                return at.distance <= 60 && at.distance >= -50 &&
                       (std::fabs(at.distance) < 9 || (at.key / 32 + at.batch + at.head) % 3 == 0);
              });
}

TEST(FlashPackedCalls, WhatDoesNotFitIsRefused) {
  const Device device = Device::open("interpreter");
  const Stream stream = device.stream();
  const auto rows = [&](std::int64_t heads) {
    return tensor(device.allocate<half>(static_cast<std::size_t>(4 * heads * 16)), {4, heads, 16});
  };
  const auto starts = tensor(device.upload(std::vector<std::int32_t>{0, 4}), {2});
  const auto message = [&](auto call) -> std::string {
    try {
      call();
    } catch (const LaunchError &error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(message([&] {
                flash::attend(stream, rows(3), rows(2), rows(2), starts, starts, flash::plain(),
                              flash::causal());
              }),
              HasSubstr("flash::attend: Hq, the heads of q (3), must be a multiple of Hkv"));
  const auto lse = tensor(device.allocate<float>(8), {2, 4});
  const auto q = rows(2), o = rows(2);
  const auto gradients = [&](const auto &scores) {
    return message([&] {
      flash::backward(stream, q, rows(2), rows(2), starts, starts, o, lse, rows(2), scores,
                      flash::causal());
    });
  };
  const auto operand = [&](std::int64_t batches, std::int64_t width) {
    const auto values = device.allocate<float>(static_cast<std::size_t>(batches * width));
    return flash::learned(tensor(values, {batches, 1, width}), tensor(values, {batches, 1, width}));
  };
  EXPECT_THAT(gradients(flash::scores(
                  [](flash::Score s, const flash::At &at,
                     const flash::Learned<flash::Along::distances, 1> &table) {
                    return s + at.by_distance(table);
                  },
                  operand(2, 3))),
              HasSubstr("flash::backward: a learned operand is [2, 1, 3], but has to be [1 or B, 1 "
                        "or H, W] for B=1, H=2"));
  // Gradients in the memory of something else.
  const auto table = tensor(device.allocate<float>(6), {1, 2, 3}),
             other = tensor(device.allocate<float>(6), {1, 2, 3});
  const Tensor<float, 3> repeated(other.data(), {1, 2, 3}, {0, 0, 1}, other.memory());
  const auto learning = [&](const Tensor<float, 3> &first, const Tensor<float, 3> &second) {
    return gradients(flash::scores(
        [](flash::Score s, const flash::At &at, const flash::Learned<flash::Along::distances, 1> &a,
           const flash::Learned<flash::Along::distances, 2> &b) {
          return s + at.by_distance(a) * at.by_distance(b);
        },
        flash::learned(Tensor<const float, 3>(table), first),
        flash::learned(Tensor<const float, 3>(table), second)));
  };
  const auto fresh = [&] { return tensor(device.allocate<float>(6), {1, 2, 3}); };
  EXPECT_EQ(learning(other, fresh()), "");
  EXPECT_EQ(learning(other, other), "flash::backward: the gradient of a learned operand overlaps "
                                    "that of another in memory; it needs memory of its own");
  EXPECT_EQ(learning(fresh(), table), "flash::backward: the gradient of a learned operand overlaps "
                                      "the values of one in memory; it needs memory of its own");
  EXPECT_EQ(learning(fresh(), repeated),
            "flash::backward: elements of the gradient of a learned operand lie at one address by "
            "its strides [0, 0, 0, 1], but each element of an output needs its own");
}

} // namespace
