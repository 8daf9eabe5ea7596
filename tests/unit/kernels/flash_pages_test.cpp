// flash::attend over keys in pages: each sequence is attention by itself, and what no query sees is
// not looked for.
#include "FlashTest.h"
#include "tests/unit/Processes.h"
#include <sectile/library.h>

using namespace sectile;
using namespace sectile::test;
using testing::HasSubstr;

namespace {

class FlashPages : public OnDevice {
protected:
  Buffer<float> slopes = device.upload(std::vector<float>{0.5f, 0.25f, 0.125f, 0.0625f});
};
SECTILE_INSTANTIATE_ON(FlashPages, "interpreter,virtual:sm_80,virtual:sm_90a,virtual:gfx942");

struct Lengths {
  std::int64_t queries, keys;
};
// None has more keys than a row of the table has room for.
constexpr std::int64_t room = 128, H = 4;
// Without keys, or without queries; some queries of a chunk lie before all keys.
const std::vector<Lengths> ofOne{{1, 70}, {1, 0}, {1, room}, {1, 1}, {1, 64}},
    ofChunks{{17, 30}, {0, 9}, {40, room}, {33, 5}, {1, 0}, {20, 77}};

// Codes of a cache, and the numbers that they stand for: of the caches' type, or times a scale.
template <class T, class C> struct Code {
  static C of(T value) { return value; }
  static T number(C code, float) { return code; }
};
template <class T> struct Code<T, std::int8_t> {
  static std::int8_t of(T value) {
    return static_cast<std::int8_t>(std::clamp(static_cast<float>(value) * 32, -127.0f, 127.0f));
  }
  static T number(std::int8_t code, float scale) {
    return static_cast<T>(static_cast<float>(code) * scale);
  }
};

struct Layout {
  std::int64_t width, page;
  bool chunks = false;
  // Whether the visibility consists of intervals, or of blocks that steps do not cross: pages that
  // it leaves out are then not looked for.
  bool intervals = true;
  std::int64_t kvHeads = 2;
  std::int64_t times = 1; // as many keys, and as much room
  std::int64_t parts = 0; // of a plan
};

template <class T, class C, class F, flash::Visible V>
void checkPages(const Device &device, const Layout &layout, const flash::Scores<F> &scores,
                const Arguments<V> &visibility, const ScoreReference &score,
                const VisibleReference &visible, const flash::Options &options = {}) {
  constexpr bool scaled = !std::is_same_v<T, C>;
  const std::int64_t D = layout.width, page = layout.page, KV = layout.kvHeads;
  const bool chunks = layout.chunks, intervals = layout.intervals;
  std::vector<Lengths> lengths = chunks ? ofChunks : ofOne;
  for (Lengths &own : lengths)
    own.keys *= layout.times;
  const std::int64_t room = ::room * layout.times;
  const auto S = static_cast<std::int64_t>(lengths.size());
  const std::int64_t max = room / page, blocks = S * max + 1;
  const auto index = [](std::int64_t i) { return static_cast<std::size_t>(i); };
  // What nothing is put into is no number, or the largest code.
  const C none = scaled ? static_cast<C>(127) : static_cast<C>(NAN);
  std::vector<C> keys(index(blocks * KV * page * D), none), values = keys;
  std::vector<std::int32_t> table, contexts, starts{0};
  std::vector<float> kScales, vScales;
  for (std::int64_t i = 0; i < blocks * KV; ++i) {
    kScales.push_back(scaled ? 1.0f / float(16 << i % 3) : 1);
    vScales.push_back(scaled ? 1.0f / float(32 << i % 2) : 1);
  }
  std::vector<T> queries;
  std::vector<double> o, lse;
  for (std::int64_t s = 0; s < S; ++s) {
    const std::int64_t Sq = lengths[index(s)].queries, Sk = lengths[index(s)].keys;
    Data<T> data({1, H, KV, Sq, Sk, D, D});
    const auto here = [&](Place place) {
      place.batch = s;
      return place;
    };
    for (std::int64_t p = 0; p < max; ++p) {
      bool wanted = false;
      // Keys that nobody sees are not put anywhere.
      std::vector<bool> isSeen(index(page));
      for (std::int64_t j = p * page; j < std::min(Sk, (p + 1) * page); ++j) {
        bool seen = !intervals && Sq > 0;
        for (std::int64_t i = 0; i < Sq; ++i)
          for (std::int64_t h = 0; h < H; ++h)
            seen = seen || visible({s, h, i, j, double(i + Sk - Sq - j)});
        isSeen[index(j % page)] = seen;
        wanted = wanted || seen;
      }
      // Each block is one page's, and neighbours lie apart.
      const std::int64_t block = (s * max + p) * 7 % (blocks - 1);
      table.push_back(wanted ? static_cast<std::int32_t>(block) : p % 2 ? -2000000000 : 2147483647);
      for (std::int64_t j = p * page; j < std::min(Sk, (p + 1) * page); ++j)
        for (std::int64_t h = 0; h < KV && isSeen[index(j % page)]; ++h)
          for (std::int64_t d = 0; d < D; ++d) {
            const auto to = index(((block * KV + h) * page + j % page) * D + d);
            const auto put = [&](std::vector<C> &cache, T &number, float scale) {
              cache[to] = Code<T, C>::of(number);
              number = Code<T, C>::number(cache[to], scale);
            };
            put(keys, data.k[index((h * Sk + j) * D + d)], kScales[index(block * KV + h)]);
            put(values, data.v[index((h * Sk + j) * D + d)], vScales[index(block * KV + h)]);
          }
    }
    const Results own = expected(
        data, [&](double product, const Place &at) { return score(product, here(at)); },
        [&](const Place &at) { return visible(here(at)); },
        options.scale.value_or(1 / std::sqrt(double(D))));
    for (std::int64_t i = 0; i < Sq; ++i)
      for (std::int64_t h = 0; h < H; ++h) {
        lse.push_back(own.lse[index(h * Sq + i)]);
        for (std::int64_t d = 0; d < D; ++d) {
          queries.push_back(data.q[index((h * Sq + i) * D + d)]);
          o.push_back(own.o[index((h * Sq + i) * D + d)]);
        }
      }
    // More than there is room for counts as that.
    contexts.push_back(static_cast<std::int32_t>(Sk == room ? room + 7 : Sk));
    starts.push_back(starts.back() + static_cast<std::int32_t>(Sq));
  }
  const Stream stream = device.stream();
  const auto q = tensor(device.upload(queries), {starts.back(), H, D});
  const auto ofCache = [&](const std::vector<C> &cache) {
    return tensor(device.upload(cache), {blocks, KV, page, D});
  };
  const auto ofScales = [&](const std::vector<float> &scales) {
    return scaled
               ? std::optional<Tensor<const float, 2>>(tensor(device.upload(scales), {blocks, KV}))
               : std::nullopt;
  };
  const auto contextLens = tensor(device.upload(contexts), {S});
  flash::Pages<C> pages =
      flash::pages(ofCache(keys), ofCache(values), tensor(device.upload(table), {S, max}),
                   contextLens, ofScales(kScales), ofScales(vScales));
  if (layout.parts > 0)
    pages.plan = run_kernel(stream, "paged_plan", {{"context_lens", contextLens}},
                            {{"parts", std::to_string(layout.parts)}})
                     .at("plan")
                     .template as<std::int32_t, 2>();
  const Tensor<const std::int32_t, 1> cu = tensor(device.upload(starts), {S + 1});
  const auto result = chunks ? flash::attend(stream, q, pages, cu, scores, visibility, options)
                             : flash::attend(stream, q, pages, scores, visibility, options);
  expectNear(result.o, o, std::is_same_v<T, float> ? 2e-5 : 4e-3, "o");
  expectNear(result.lse, lse, 2e-5, "lse");
}

auto alibi(const Buffer<float> &slopes) {
  return flash::scores(
      [](flash::Score s, const flash::At &at, Float cap, View<const float, 1> slopes) {
        return soft_cap(s, cap) - at.per_head(slopes) * at.distance();
      },
      2.0f, slopes);
}
Dual alibiReference(double s, const Place &at) {
  return {2 * std::tanh(s / 2) - at.distance * 0.5 / double(1 << at.head)};
}

TEST_P(FlashPages, OneQueryOfEachSequence) {
  checkPages<half, half>(device, {64, 16}, flash::plain(), flash::causal(), unmodified, before);
  checkPages<float, float>(device, {64, 64}, alibi(slopes), flash::everything(), alibiReference,
                           everywhere);
  // A warp of its own copies whole pages, where the chip can.
  checkPages<half, half>(device, {128, 64}, alibi(slopes), flash::window(90, 0), alibiReference,
                         [](const Place &at) { return at.distance <= 90; },
                         {.config = {{"splits", 1}}});
}

TEST_P(FlashPages, KeysAreSplit) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80", "virtual:gfx942");
  checkPages<half, half>(device, {64, 16}, alibi(slopes), flash::window(50, 3), alibiReference,
                         [](const Place &at) { return at.distance <= 50; },
                         {.config = {{"splits", 3}, {"n", 16}}});
  checkPages<half, half>(
      device, {64, 64, false, false}, flash::plain(),
      flash::where([](const flash::At &at, Int every) { return at.key() % every != 1; }, 3),
      unmodified, [](const Place &at) { return at.key % 3 != 1; },
      {.scale = 0.25, .config = {{"splits", 2}}});
}

// The number of a sequence is its batch, and the last query of a chunk lies beside the last key.
TEST_P(FlashPages, Chunks) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_90a", "virtual:gfx942");
  const std::vector<std::int32_t> given{3, 1, 60, 4, 0, 7};
  const auto prefix = tensor(device.upload(given), {6});
  const auto seen = [&](const Place &at) {
    return at.distance >= 0 || at.key < given[static_cast<std::size_t>(at.batch)];
  };
  checkPages<half, half>(device, {64, 64, true}, alibi(slopes), flash::prefix(prefix),
                         alibiReference, seen, {.config = {{"overlap", 1}}});
  // A table of pairs, for whatever sequence and head.
  const auto ofPair = [](std::int64_t i, std::int64_t j) {
    return static_cast<float>((i * 3 + j) % 7) / 4;
  };
  constexpr std::int64_t rows = 40;
  std::vector<float> table;
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < room; ++j)
      table.push_back(ofPair(i, j));
  checkPages<float, float>(
      device, {64, 16, true, false},
      flash::scores([](flash::Score s, const flash::At &at,
                       View<const float, 2> table) { return s + at.per_pair(table); },
                    tensor(device.upload(table), {rows, room})),
      flash::window(20, 3) && flash::where([](const flash::At &at) {
        return (at.query() + at.key() + at.head()) % 3 != 0;
      }),
      [&](double s, const Place &at) { return Dual{s + ofPair(at.query, at.key), 1}; },
      [](const Place &at) {
        return at.distance <= 20 && at.distance >= -3 && (at.query + at.key + at.head) % 3 != 0;
      });
  checkPages<half, half>(device, {64, 16, true}, flash::plain(),
                         flash::window(20, 3) && flash::causal(), unmodified,
                         [](const Place &at) { return at.distance <= 20 && at.distance >= 0; });
}

// Of heads that share keys, and of those that do not.
TEST_P(FlashPages, Masks) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80", "virtual:gfx942");
  constexpr std::int64_t sequences = 6, rows = 40;
  const auto sees = [](std::int64_t s, std::int64_t i, std::int64_t j) {
    return (s + i * 3 + j) % 4 != 0;
  };
  std::vector<std::uint8_t> all;
  for (std::int64_t s = 0; s < sequences; ++s)
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t j = 0; j < room; ++j)
        all.push_back(sees(s, i, j));
  const auto mask = device.allocate<bool>(all.size());
  mask.upload(std::span(reinterpret_cast<const bool *>(all.data()), all.size()));
  for (const std::int64_t kvHeads : {2, 4})
    checkPages<half, half>(
        device, {.width = 64, .page = 16, .chunks = true, .intervals = false, .kvHeads = kvHeads},
        flash::plain(), flash::mask(tensor(mask, {sequences, 1, rows, room})) && flash::causal(),
        unmodified,
        [&](const Place &at) { return at.distance >= 0 && sees(at.batch, at.query, at.key); });
  // Blocks of 4 queries and 16 keys.
  const auto has = [](std::int64_t s, std::int64_t i, std::int64_t j) {
    return (s + i / 4 + j / 16) % 3 != 0;
  };
  std::vector<std::uint8_t> ofBlocks;
  for (std::int64_t s = 0; s < sequences; ++s)
    for (std::int64_t i = 0; i < rows; i += 4)
      for (std::int64_t j = 0; j < room; j += 16)
        ofBlocks.push_back(has(s, i, j));
  const auto blocks = device.allocate<bool>(ofBlocks.size());
  blocks.upload(std::span(reinterpret_cast<const bool *>(ofBlocks.data()), ofBlocks.size()));
  checkPages<half, half>(
      device, {.width = 64, .page = 16, .chunks = true, .intervals = false}, flash::plain(),
      flash::block_list(tensor(blocks, {sequences, 1, rows / 4, room / 16}), 4, 16), unmodified,
      [&](const Place &at) { return has(at.batch, at.query, at.key); });
}

// Bits of each token, in two words, as there are chunks of up to 40.
TEST_P(FlashPages, Trees) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80", "virtual:sm_90a");
  std::vector<std::int64_t> starts{0};
  for (const Lengths &own : ofChunks)
    starts.push_back(starts.back() + own.queries);
  std::vector<std::int32_t> bits;
  std::mt19937 random(3);
  for (std::int64_t i = 0; i < 2 * starts.back(); ++i)
    bits.push_back(static_cast<std::int32_t>(random()));
  const auto words = tensor(device.upload(bits), {starts.back(), 2});
  const auto tree = flash::tree(words);
  const auto inTree = [&](const Place &at) {
    const Lengths &own = ofChunks[static_cast<std::size_t>(at.batch)];
    const std::int64_t node = at.key - (own.keys - own.queries),
                       row = starts[static_cast<std::size_t>(at.batch)] + at.query;
    return node < 0 ||
           (bits[static_cast<std::size_t>(2 * row + node / 32)] >> (node % 32) & 1) != 0;
  };
  checkPages<half, half>(device, {.width = 64, .page = 16, .chunks = true, .intervals = false},
                         flash::plain(), tree, unmodified, inTree);
  checkPages<half, half>(device, {.width = 64, .page = 64, .chunks = true, .intervals = false},
                         flash::plain(), flash::causal() && tree, unmodified,
                         [&](const Place &at) { return at.distance >= 0 && inTree(at); });
}

TEST_P(FlashPages, CodesWithScales) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_90a", "virtual:gfx942");
  checkPages<half, std::int8_t>(device, {64, 16}, alibi(slopes), flash::causal(), alibiReference,
                                before);
}

// By lists of blocks pages that no query of a program sees are not looked for.
TEST_P(FlashPages, ListsOfBlocks) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80", "virtual:gfx942");
  constexpr std::int64_t sequences = 6;
  // Of heads that share keys one sees what another does not.
  const auto has = [](std::int64_t s, std::int64_t h, std::int64_t i, std::int64_t j) {
    return j > 0 && (s + h + i + 2 * j) % 3 == 0;
  };
  std::vector<Buffer<bool>> masks;
  const auto list = [&](std::int64_t rows, std::int64_t columns, std::int64_t blockQ,
                        std::int64_t blockK, std::int64_t heads) {
    std::vector<std::uint8_t> all;
    for (std::int64_t s = 0; s < sequences; ++s)
      for (std::int64_t h = 0; h < heads; ++h)
        for (std::int64_t i = 0; i < rows; ++i)
          for (std::int64_t j = 0; j < columns; ++j)
            all.push_back(has(s, h, i, j));
    masks.push_back(device.allocate<bool>(all.size()));
    masks.back().upload(std::span(reinterpret_cast<const bool *>(all.data()), all.size()));
    return flash::block_list(tensor(masks.back(), {sequences, heads, rows, columns}), blockQ,
                             blockK);
  };
  const auto seen = [&](std::int64_t blockQ, std::int64_t blockK, std::int64_t heads) {
    return [=](const Place &at) {
      return has(at.batch, heads > 1 ? at.head : 0, at.query / blockQ, at.key / blockK);
    };
  };
  // Blocks of as many queries as a program has of each head.
  checkPages<half, half>(device, {.width = 64, .page = 16, .chunks = true}, alibi(slopes),
                         list(2, 8, 32, 16, H), alibiReference, seen(32, 16, H),
                         {.config = {{"m", 64}, {"n", 16}, {"warps", 4}}});
  checkPages<half, half>(device,
                         {.width = 128, .page = 64, .chunks = true, .intervals = false, .times = 3},
                         flash::plain(), list(1, 3, 64, 128, 1) && flash::window(200, 0),
                         unmodified, [&](const Place &at) {
                           return seen(64, 128, 1)(at) && at.distance >= 0 && at.distance <= 200;
                         });
}
TEST_P(FlashPages, ListsOfBlocksOfOneQuery) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80", "virtual:sm_90a");
  constexpr std::int64_t rows = 5, columns = 4; // a sequence each
  const auto has = [](std::int64_t s, std::int64_t j) { return (s + j) % 3 != 1; };
  std::vector<std::uint8_t> all;
  for (std::int64_t s = 0; s < rows; ++s)
    for (std::int64_t j = 0; j < columns; ++j)
      all.push_back(has(s, j));
  const auto mask = device.allocate<bool>(all.size());
  mask.upload(std::span(reinterpret_cast<const bool *>(all.data()), all.size()));
  const auto visibility = [&](std::int64_t blockK) {
    return flash::block_list(tensor(mask, {rows, 1, 1, columns}), 1, blockK) &&
           flash::window(90 * blockK / 32, 0);
  };
  const auto seen = [&](std::int64_t blockK) {
    return [=](const Place &at) {
      return has(at.batch, at.key / blockK) && at.distance <= double(90 * blockK / 32);
    };
  };
  // Without parts, with parts of equal lengths, and with those of a plan.
  checkPages<half, half>(device, {64, 16}, flash::plain(), visibility(32), unmodified, seen(32),
                         {.config = {{"splits", 1}, {"n", 32}}});
  checkPages<half, half>(device, {.width = 64, .page = 64, .times = 4}, flash::plain(),
                         visibility(128), unmodified, seen(128), {.config = {{"splits", 3}}});
  checkPages<half, half>(device, {.width = 128, .page = 64, .times = 8, .parts = 9}, flash::plain(),
                         visibility(256), unmodified, seen(256));
  checkPages<half, half>(device, {.width = 64, .page = 128, .times = 4, .parts = 8}, flash::plain(),
                         visibility(128), unmodified, seen(128),
                         {.config = {{"overlap", 0}, {"n", 32}}});
}

// By the blocks that a lambda has over pages of one query of each sequence, or of chunks.
TEST_P(FlashPages, BlocksOfALambda) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_90a", "virtual:gfx942");
  constexpr std::int64_t page = 16, width = 64, KV = 2;
  const auto lambda = flash::where([](const flash::At &at) {
    return at.distance() < 9.0f || (at.key() / 32 + at.batch() + at.head() / 2) % 3 == 0;
  });
  const auto seen = [](const Place &at) {
    return at.distance < 9 || (at.key / 32 + at.batch + at.head / 2) % 3 == 0;
  };
  const Stream stream = device.stream();
  const auto none = tensor(device.allocate<half>(KV * page * width), {1, KV, page, width});
  for (const bool chunks : {false, true}) {
    const auto &of = chunks ? ofChunks : ofOne;
    std::vector<std::int32_t> starts{0}, contexts;
    for (const auto &[Sq, Sk] : of) {
      starts.push_back(starts.back() + static_cast<std::int32_t>(Sq));
      contexts.push_back(static_cast<std::int32_t>(Sk));
    }
    const std::int64_t S = std::ssize(of);
    const auto tables =
        tensor(device.allocate<std::int32_t>(static_cast<std::size_t>(S * (room / page))),
               {S, room / page});
    const flash::Pages<half> pages =
        flash::pages(none, none, tables, tensor(device.upload(contexts), {S}));
    const Tensor<const std::int32_t, 1> cuQ = tensor(device.upload(starts), {S + 1});
    const flash::Blocks blocks =
        chunks ? flash::blocks_of(stream, lambda, {.heads = H, .queries = 40}, pages, cuQ, 16, 32)
               : flash::blocks_of(stream, lambda, {.heads = H}, pages, 16, 32);
    checkPages<half, half>(device,
                           {.width = width, .page = page, .chunks = chunks, .intervals = false},
                           flash::plain(), flash::block_list(lambda, blocks), unmodified, seen,
                           {.config = {{"n", 32}}});
  }
}

// The same as the library's kernel, whose reference its own tests compare it with.
TEST_P(FlashPages, SinksAndCachesAreThoseOfTheKernel) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80", "virtual:sm_90a");
  const Stream stream = device.stream();
  std::mt19937 random(5);
  const auto bits = []<class T, int N>(const Tensor<T, N> &tensor) {
    return Buffer<T>(tensor.memory()).download();
  };
  const auto q = tensor(device.upload(Data<half>({1, 2, 1, H, 1, 64, 64}).q), {2, H, 64});
  std::vector<std::int32_t> all;
  for (std::int32_t block = 0; block < 16; ++block)
    all.push_back(block * 5 % 16);
  const auto tables = tensor(device.upload(all), {2, 8});
  const auto lengths = tensor(device.upload(std::vector<std::int32_t>{100, 41}), {2});
  const auto sinks = tensor(device.upload(std::vector<float>{0.5f, -1, 2, 0.25f}), {H, 1});
  const Tensor<const float, 2> scale =
      tensor(device.upload(std::vector<float>{0.125f, 0.0625f}), {1, 2});
  const Tensor<const std::int32_t, 2> plan =
      run_kernel(stream, "paged_plan", {{"context_lens", lengths}}, {{"parts", "3"}})
          .at("plan")
          .as<std::int32_t, 2>();
  const auto compare = [&]<class C>(std::int64_t width, bool planned, auto draw) {
    const auto cache = [&] {
      std::vector<C> numbers;
      for (std::int64_t i = 0; i < 16 * 2 * 16 * width; ++i)
        numbers.push_back(draw());
      return tensor(device.upload(numbers), {16, 2, 16, width});
    };
    const auto keys = cache(), values = cache();
    auto pages = flash::pages(keys, values, tables, lengths, scale, scale);
    NamedTensors inputs{{"q", q},
                        {"k_cache", keys},
                        {"v_cache", values},
                        {"block_tables", tables},
                        {"context_lens", lengths},
                        {"k_scale", scale},
                        {"v_scale", scale},
                        {"sinks", sinks}};
    if (planned)
      inputs["plan"] = *(pages.plan = plan);
    const auto [o, lse] =
        flash::attend(stream, q, pages, flash::plain(), flash::window(30, std::nullopt),
                      {.sinks = Tensor<const float, 2>(sinks)});
    const NamedTensors known = run_kernel(stream, "paged_decode", inputs, {{"window_left", "30"}});
    EXPECT_EQ(bits(o), bits(known.at("o").template as<half, 3>()));
    EXPECT_EQ(bits(lse), bits(known.at("lse").template as<float, 2>()));
  };
  for (const bool planned : {false, true})
    compare.operator()<half>(64, planned,
                             [&] { return static_cast<half>(float(random() % 64) / 16 - 2); });
  compare.operator()<float8_e4m3>(
      64, false, [&] { return static_cast<float8_e4m3>(float(random() % 64) / 16 - 2); });
  compare.operator()<std::uint8_t>(32, true, [&] { return static_cast<std::uint8_t>(random()); });

  // Scales of each key and head.
  std::vector<float> numbers;
  for (int i = 0; i < 16 * 2 * 16; ++i)
    numbers.push_back(float(random() % 64 + 1) / 1024);
  const auto scales = tensor(device.upload(numbers), {16, 2, 16});
  const auto cache =
      tensor(device.upload(std::vector<std::int8_t>(16 * 2 * 16 * 64, 3)), {16, 2, 16, 64});
  const auto out =
      flash::attend(stream, q, flash::pages(cache, cache, tables, lengths, scales, scales),
                    flash::plain(), flash::window(30, std::nullopt));
  const NamedTensors known = run_kernel(stream, "paged_decode",
                                        {{"q", q},
                                         {"k_cache", cache},
                                         {"v_cache", cache},
                                         {"block_tables", tables},
                                         {"context_lens", lengths},
                                         {"k_scales", scales},
                                         {"v_scales", scales}},
                                        {{"window_left", "30"}});
  EXPECT_EQ(bits(out.o), bits(known.at("o").as<half, 3>()));
}

TEST(FlashPagesCalls, WhatDoesNotFitIsRefused) {
  const Device device = Device::open("interpreter");
  const Stream stream = device.stream();
  const auto rows = [&](std::int64_t heads, std::int64_t width) {
    return tensor(device.allocate<half>(static_cast<std::size_t>(2 * heads * width)),
                  {2, heads, width});
  };
  const auto cache = [&](std::int64_t heads, std::int64_t page, std::int64_t width) {
    return tensor(device.allocate<half>(static_cast<std::size_t>(3 * heads * page * width)),
                  {3, heads, page, width});
  };
  const auto numbers = [&](std::int64_t count) {
    return tensor(device.upload(std::vector<std::int32_t>(static_cast<std::size_t>(count))),
                  {count});
  };
  const auto tables = tensor(device.upload(std::vector<std::int32_t>(4)), {2, 2});
  const auto pages = [&](const Tensor<half, 4> &k, const Tensor<half, 4> &v,
                         std::int64_t sequences = 2) {
    return flash::pages(k, v, tables, numbers(sequences));
  };
  const auto message = [&](auto... given) -> std::string {
    try {
      flash::attend(stream, given...);
    } catch (const LaunchError &error) {
      return error.what();
    }
    return "";
  };
  const auto q = rows(4, 16);
  const auto fine = pages(cache(2, 16, 16), cache(2, 16, 16));
  const auto plain = flash::plain();
  const auto causal = flash::causal();
  EXPECT_EQ(message(q, fine, plain, causal), "");
  EXPECT_THAT(message(rows(3, 16), fine, plain, causal),
              HasSubstr("flash::attend: Hq, the heads of q (3), must be a multiple of Hkv"));
  EXPECT_THAT(message(rows(4, 32), fine, plain, causal), HasSubstr("flash::attend: "));
  EXPECT_THAT(message(q, pages(cache(2, 16, 16), cache(2, 32, 16)), plain, causal),
              HasSubstr("flash::attend: "));
  EXPECT_THAT(message(q, pages(cache(2, 0, 16), cache(2, 0, 16)), plain, causal),
              HasSubstr("flash::attend: a page is 0 keys"));
  EXPECT_THAT(message(q, pages(cache(2, 16, 16), cache(2, 16, 16), 3), plain, causal),
              HasSubstr("flash::attend: "));
  const Tensor<const std::int32_t, 1> two = numbers(2), three = numbers(3);
  EXPECT_EQ(message(q, fine, three, plain, causal), "");
  EXPECT_THAT(message(q, fine, two, plain, causal), HasSubstr("cu_seqlens_q has 2 numbers"));
  EXPECT_THAT(message(q, fine, plain, causal, flash::Options{.dropout = 0.5}),
              HasSubstr("flash::attend: there is no dropout over keys in pages"));
  EXPECT_THAT(message(q, fine, plain, causal, flash::Options{.tf32 = true}),
              HasSubstr("flash::attend: products with keys in pages are exact"));
  EXPECT_THAT(message(q, fine, three, plain, causal, flash::Options{.config = {{"splits", 2}}}),
              HasSubstr("flash::attend"));
}

} // namespace
