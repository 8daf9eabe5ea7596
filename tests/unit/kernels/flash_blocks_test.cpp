// flash::block_list: blocks of a mask, by lists that are made on the device, against sums in
// float64 and by what is read.
#include "FlashTest.h"
#include "tests/unit/Processes.h"

using namespace sectile;
using namespace sectile::test;
using testing::HasSubstr;

namespace {

// On AMD's blocks of any size, and with SECTILE_TEST_ALL=1 all.
class FlashBlocksOfAnySize : public OnDevice {};
SECTILE_INSTANTIATE_ON(FlashBlocksOfAnySize,
                       "interpreter,virtual:sm_80,virtual:sm_90a,virtual:gfx942");
class FlashBlocks : public OnDevice {
  void SetUp() override {
    if (GetParam() == "virtual:gfx942" && count(0, 1) == 0)
      GTEST_SKIP() << "lists are the same code there; it runs with SECTILE_TEST_ALL=1";
  }
};
SECTILE_INSTANTIATE_ON(FlashBlocks, "interpreter,virtual:sm_80,virtual:sm_90a,virtual:gfx942");

/// A mask of blocks, of about a third of them; the first row and column have none.
struct Blocks {
  std::int64_t batches, heads, blockQ, blockK, rows, columns;

  Blocks(const Sizes &of, std::int64_t blockQ, std::int64_t blockK, bool shared)
      : batches(shared ? 1 : of.batches), heads(shared ? 1 : of.heads), blockQ(blockQ),
        blockK(blockK), rows((of.queries + blockQ - 1) / blockQ),
        columns((of.keys + blockK - 1) / blockK) {}

  bool has(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j) const {
    return i > 0 && j > 0 && (i + 2 * j + (batches > 1 ? b : 0) + (heads > 1 ? h : 0)) % 3 == 0;
  }
  bool sees(const Place &at) const {
    return has(at.batch, at.head, at.query / blockQ, at.key / blockK);
  }
  Tensor<const bool, 4> mask(const Device &device) const {
    std::vector<std::uint8_t> all;
    for (std::int64_t b = 0; b < batches; ++b)
      for (std::int64_t h = 0; h < heads; ++h)
        for (std::int64_t i = 0; i < rows; ++i)
          for (std::int64_t j = 0; j < columns; ++j)
            all.push_back(has(b, h, i, j));
    const auto buffer = device.allocate<bool>(all.size());
    buffer.upload(std::span(reinterpret_cast<const bool *>(all.data()), all.size()));
    return tensor(buffer, {batches, heads, rows, columns});
  }
};

TEST_P(FlashBlocksOfAnySize, AreRight) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80");
  const Sizes shape{.queries = 170, .keys = 150};
  // Tiles are parts of blocks, and have parts of several.
  for (const auto &[blockQ, blockK] : {std::pair<int, int>{64, 64}, {24, 40}}) {
    const Blocks blocks(shape, blockQ, blockK, blockQ == 64);
    const auto mask = blocks.mask(device);
    check<half>(
        device, shape, flash::plain(), flash::block_list(mask, blockQ, blockK), unmodified,
        [&](const Place &at) { return blocks.sees(at); }, "blocks of " + std::to_string(blockQ));
  }
}

TEST_P(FlashBlocks, WithOthers) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80");
  const Sizes shape{.queries = 150, .keys = 170};
  const Blocks blocks(shape, 32, 64, false);
  const auto mask = blocks.mask(device);
  const auto list = flash::block_list(mask, 32, 64);
  const auto slopes = device.upload(std::vector<float>{0.5f, 0.25f, 0.125f, 0.0625f});
  check<half>(
      device, shape,
      flash::scores(
          [](flash::Score s, const flash::At &at, View<const float, 1> slopes) {
            return s - at.per_head(slopes) * at.distance();
          },
          slopes),
      list && flash::causal(),
      [](double s, const Place &at) { return Dual{s - 0.5 / double(1 << at.head) * at.distance}; },
      [&](const Place &at) { return blocks.sees(at) && at.distance >= 0; }, "alibi, causal");
  check<float>(
      device, shape, flash::plain(), flash::window(9, 0) || (flash::window(60, 5) && list),
      unmodified,
      [&](const Place &at) {
        return (at.distance >= 0 && at.distance <= 9) ||
               (at.distance >= -5 && at.distance <= 60 && blocks.sees(at));
      },
      "a window, and blocks of a wider one");
  const Sizes few{.queries = 3, .keys = 400, .width = 64, .valueWidth = 64};
  const Blocks ofFew(few, 2, 64, true);
  const auto maskOfFew = ofFew.mask(device);
  check<half>(
      device, few, flash::plain(), flash::block_list(maskOfFew, 2, 64), unmodified,
      [&](const Place &at) { return ofFew.sees(at); }, "few queries");
}

// Rows so wide have a warp that copies, on chips that can: it waits for the lists as the others do.
TEST_P(FlashBlocks, OfWideRows) {
  SECTILE_LEAVE_TO_OTHERS("interpreter", "virtual:sm_80", "virtual:gfx942");
  const Sizes shape{
      .batches = 1, .heads = 2, .kvHeads = 1, .queries = 70, .keys = 90, .width = 192};
  const Blocks blocks(shape, 32, 24, true);
  const auto mask = blocks.mask(device);
  check<half>(
      device, shape, flash::plain(), flash::block_list(mask, 32, 24), unmodified,
      [&](const Place &at) { return blocks.sees(at); }, "wide rows");
}

// A table's gradient goes over all blocks, one after the other.
TEST_P(FlashBlocks, LearnedOperands) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80");
  const Sizes shape{.batches = 1, .heads = 2, .kvHeads = 1, .queries = 130, .keys = 150};
  const auto &[B, H, KV, Sq, Sk, D, Dv] = shape;
  const Blocks blocks(shape, 32, 32, true);
  const Data<float> data(shape);
  const auto q = tensor(device.upload(data.q), {B, H, Sq, D});
  const auto k = tensor(device.upload(data.k), {B, KV, Sk, D});
  const auto v = tensor(device.upload(data.v), {B, KV, Sk, Dv});
  const auto dO = tensor(device.upload(data.dO), {B, H, Sq, Dv});
  const auto values = tensor(device.upload(std::vector<float>(14)), {1, H, 7});
  std::vector<std::vector<float>> gradients;
  const auto of = [&](const auto &visibility) {
    const auto gradient = device.allocate<float>(14);
    gradient.poison();
    const auto scores = flash::scores(
        [](flash::Score s, const flash::At &at, flash::Learned<flash::Along::distances> table) {
          return s + at.by_distance(table);
        },
        flash::learned(Tensor<const float, 3>(values), tensor(gradient, {1, H, 7})));
    const Stream stream = device.stream();
    const auto [o, lse] = flash::attend(stream, q, k, v, scores, visibility);
    flash::backward(stream, q, k, v, o, lse, dO, scores, visibility);
    gradients.push_back(gradient.download());
  };
  std::vector<std::uint8_t> pairs;
  for (std::int64_t i = 0; i < Sq; ++i)
    for (std::int64_t j = 0; j < Sk; ++j)
      pairs.push_back(blocks.sees({0, 0, i, j, 0}));
  const auto mask = device.allocate<bool>(pairs.size());
  mask.upload(std::span(reinterpret_cast<const bool *>(pairs.data()), pairs.size()));
  const auto list = blocks.mask(device);
  of(flash::block_list(list, 32, 32));
  of(flash::mask(tensor(mask, {1, 1, Sq, Sk})));
  for (std::size_t i = 0; i < gradients[0].size(); ++i)
    EXPECT_NEAR(gradients[0][i], gradients[1][i], 1e-4) << i;
}

// Keys and values of blocks that are not there may be anything: they are not read.
TEST_P(FlashBlocks, OthersAreNotVisited) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80");
  const Sizes shape{.batches = 1, .heads = 2, .kvHeads = 1, .queries = 256, .keys = 512};
  const auto &[B, H, KV, Sq, Sk, D, Dv] = shape;
  Data<half> data(shape);
  const auto absent = [](std::int64_t key) { return key / 128 % 2 == 0; };
  const auto seen = [&](const Place &at) { return !absent(at.key); };
  const Results wanted = expected(data, unmodified, seen, 0.25);
  for (std::int64_t j = 0; j < Sk; ++j)
    for (std::int64_t d = 0; d < std::max(D, Dv) && absent(j); ++d) {
      if (d < D)
        data.k[static_cast<std::size_t>(j * D + d)] = half(NAN);
      if (d < Dv)
        data.v[static_cast<std::size_t>(j * Dv + d)] = half(NAN);
    }
  std::vector<std::uint8_t> all;
  for (std::int64_t i = 0; i < 2; ++i)
    for (std::int64_t j = 0; j < 4; ++j)
      all.push_back(!absent(j * 128));
  const auto mask = device.allocate<bool>(all.size());
  mask.upload(std::span(reinterpret_cast<const bool *>(all.data()), all.size()));
  const auto visibility = flash::block_list(tensor(mask, {1, 1, 2, 4}), 128, 128);
  const auto q = tensor(device.upload(data.q), {B, H, Sq, D});
  const auto k = tensor(device.upload(data.k), {B, KV, Sk, D});
  const auto v = tensor(device.upload(data.v), {B, KV, Sk, Dv});
  const auto dO = tensor(device.upload(data.dO), {B, H, Sq, Dv});
  const Stream stream = device.stream();
  const auto [o, lse] = flash::attend(stream, q, k, v, flash::plain(), visibility, {.scale = 0.25});
  expectNear(o, wanted.o, 4e-3, "o");
  const auto gradients =
      flash::backward(stream, q, k, v, o, lse, dO, flash::plain(), visibility, {.scale = 0.25});
  expectNear(gradients.dq, wanted.dq, 4e-3, "dq");
}

// Empty, whole and other blocks, the last of which reach beyond the ends.
TEST_P(FlashBlocks, OfALambda) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80");
  const Sizes shape{.queries = 150, .keys = 170};
  std::vector<std::int32_t> kinds;
  for (std::int64_t j = 0; j < shape.keys; ++j)
    kinds.push_back(static_cast<std::int32_t>(j / 32 % 3));
  const auto ofKeys = tensor(device.upload(kinds), {1, shape.keys});
  // Of each 32 keys all, those that lie near, or none, the latter two at the first 64 queries.
  const auto lambda = flash::where(
      [](const flash::At &at, View<const std::int32_t, 2> kinds, Int near) {
        const auto kind = at.per_key(kinds);
        return kind == 0 || (at.query() >= 64 && at.head() > 0) ||
               (kind == 1 && abs(at.distance()) < cast<float>(near));
      },
      ofKeys, 20);
  const auto seen = [&](const Place &at) {
    const auto kind = kinds[static_cast<std::size_t>(at.key)];
    return kind == 0 || (at.query >= 64 && at.head > 0) ||
           (kind == 1 && std::fabs(at.distance) < 20);
  };
  const Stream stream = device.stream();
  const flash::Blocks blocks = flash::blocks_of(
      stream, lambda, {.heads = shape.heads, .queries = shape.queries, .keys = shape.keys}, 32, 32);
  const auto found = Buffer<bool>(blocks.kinds.memory()).download();
  const std::int64_t rows = 5, columns = 6;
  for (std::int64_t h = 0; h < shape.heads; ++h)
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t j = 0; j < columns; ++j) {
        bool some = false, all = true;
        for (std::int64_t q = i * 32; q < std::min(shape.queries, i * 32 + 32); ++q)
          for (std::int64_t k = j * 32; k < std::min(shape.keys, j * 32 + 32); ++k) {
            const bool sees = seen({0, h, q, k, double(q + shape.keys - shape.queries - k)});
            some = some || sees;
            all = all && sees;
          }
        const auto at = static_cast<std::size_t>(((h * rows + i) * columns + j) * 2);
        EXPECT_EQ(found[at], some) << h << " " << i << " " << j;
        EXPECT_EQ(found[at + 1], all) << h << " " << i << " " << j;
      }
  check<half>(device, shape, flash::plain(), flash::block_list(lambda, blocks), unmodified, seen,
              "a lambda's blocks");
  check<float>(
      device, shape, flash::plain(), flash::window(100, 9) && flash::block_list(lambda, blocks),
      unmodified,
      [&](const Place &at) { return at.distance <= 100 && at.distance >= -9 && seen(at); },
      "with a window");
  // Made of all of a term.
  const auto both = lambda && flash::causal();
  const flash::Blocks ofBoth = flash::blocks_of(
      stream, both, {.heads = shape.heads, .queries = shape.queries, .keys = shape.keys}, 48, 64);
  check<half>(
      device, shape, flash::plain(),
      flash::block_list(both, ofBoth) ||
          flash::key_lengths(tensor(device.upload(std::vector<std::int32_t>{0, 3}), {2})),
      unmodified,
      [&](const Place &at) {
        return (at.distance >= 0 && seen(at)) || (at.batch == 1 && at.key < 3);
      },
      "in causal order, or the first keys");
}

// Keys and values of blocks that are empty may be anything. In those that are whole nobody asks the
// lambda: its operand has changed meanwhile.
TEST_P(FlashBlocks, OfALambdaAreVisitedByTheirKinds) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_90a");
  const Sizes shape{.batches = 1, .heads = 2, .kvHeads = 1, .queries = 256, .keys = 512};
  const auto &[B, H, KV, Sq, Sk, D, Dv] = shape;
  Data<half> data(shape);
  const auto absent = [](std::int64_t key) { return key / 128 % 2 == 0; };
  const Results wanted =
      expected(data, unmodified, [&](const Place &at) { return !absent(at.key); }, 0.25);
  for (std::int64_t j = 0; j < Sk; ++j)
    for (std::int64_t d = 0; d < std::max(D, Dv) && absent(j); ++d) {
      if (d < D)
        data.k[static_cast<std::size_t>(j * D + d)] = half(NAN);
      if (d < Dv)
        data.v[static_cast<std::size_t>(j * Dv + d)] = half(NAN);
    }
  std::vector<std::int32_t> kinds;
  for (std::int64_t j = 0; j < Sk; ++j)
    kinds.push_back(absent(j) ? 0 : 1);
  const Buffer<std::int32_t> operand = device.upload(kinds);
  const auto lambda = flash::where(
      [](const flash::At &at, View<const std::int32_t, 2> kinds) { return at.per_key(kinds) != 0; },
      tensor(operand, {1, Sk}));
  const Stream stream = device.stream();
  const flash::Blocks blocks = flash::blocks_of(stream, lambda, {.queries = Sq, .keys = Sk});
  stream.synchronize();
  operand.upload(std::vector<std::int32_t>(kinds.size(), 0));
  const auto visibility = flash::block_list(lambda, blocks);
  const auto q = tensor(device.upload(data.q), {B, H, Sq, D});
  const auto k = tensor(device.upload(data.k), {B, KV, Sk, D});
  const auto v = tensor(device.upload(data.v), {B, KV, Sk, Dv});
  const auto dO = tensor(device.upload(data.dO), {B, H, Sq, Dv});
  const auto [o, lse] = flash::attend(stream, q, k, v, flash::plain(), visibility, {.scale = 0.25});
  expectNear(o, wanted.o, 4e-3, "o");
  const auto gradients =
      flash::backward(stream, q, k, v, o, lse, dO, flash::plain(), visibility, {.scale = 0.25});
  expectNear(gradients.dq, wanted.dq, 4e-3, "dq");
  expectNear(gradients.dk, wanted.dk, 4e-3, "dk");
  expectNear(gradients.dv, wanted.dv, 4e-3, "dv");
}

TEST(FlashBlocksCalls, BlocksOfALambdaThatDoNotFitAreRefused) {
  const Device device = Device::open("interpreter");
  const Stream stream = device.stream();
  const auto lambda = flash::where([](const flash::At &at) { return at.key() % 3 != 0; });
  const auto message = [](const auto &call) -> std::string {
    try {
      call();
    } catch (const LaunchError &error) {
      return error.what();
    }
    return "";
  };
  for (const std::int64_t size : {0, 24, 1040})
    EXPECT_THAT(message([&] {
                  (void)flash::blocks_of(stream, lambda, {.queries = 64, .keys = 64}, 64, size);
                }),
                HasSubstr("flash::blocks_of: blocks of 64 queries and " + std::to_string(size) +
                          " keys, but these have to be multiples of 16, up to 1024"));
  EXPECT_THAT(
      message([&] { (void)flash::blocks_of(stream, lambda, {.queries = -1, .keys = 64}); }),
      HasSubstr("flash::blocks_of: a number of batches, heads, queries or keys is negative"));
  const flash::Blocks blocks =
      flash::blocks_of(stream, lambda, {.queries = 64, .keys = 64}, 32, 32);
  const auto q = tensor(device.allocate<half>(96 * 16), {1, 1, 96, 16});
  EXPECT_THAT(message([&] {
                flash::attend(stream, q, q, q, flash::plain(), flash::block_list(lambda, blocks));
              }),
              HasSubstr("flash::block_list: an operand is [1, 1, 2, 2], but has to be [1 or 1, "));
}

TEST(FlashBlocksCalls, BlocksHaveAnExtent) {
  const Device device = Device::open("interpreter");
  const auto mask = tensor(device.allocate<bool>(1), {1, 1, 1, 1});
  try {
    (void)flash::block_list(mask, 0, 64);
    FAIL();
  } catch (const LaunchError &error) {
    EXPECT_THAT(error.what(), HasSubstr("flash::block_list: blocks of 0 queries"));
  }
}

} // namespace
