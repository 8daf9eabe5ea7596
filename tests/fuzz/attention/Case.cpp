// A call is drawn, run, and judged by the rules of the library's kernels, with the library's
// references.
#include "tests/fuzz/attention/Case.h"
#include "kernels/attention/References.h"
#include "kernels/references/Check.h"
#include "tests/fuzz/Isolation.h"
#include "tests/fuzz/attention/Traced.h"
#include <map>
#include <sectile/library.h>
#include <sstream>

namespace sectile::fuzz {

namespace {

enum class Form { Dense, Packed, OneQuery, Chunks }; // the last two: over pages

using Arrays = std::map<std::string, HostArray>;

struct Case {
  Form form;
  DType dtype;
  Sizes sizes;
  bool gradients = false, plain = false, causal = false, tokensFirst = false;
  std::vector<flash::Along> learned = {};
  ScoreTables tables = {};
  ScoreTerm score = {};
  SightTerm sight = {};
  std::optional<double> scale = {};
  int64_t page = 16;
  DType cache = DType::float16;                ///< of pages; uint8: two numbers of 4 bits
  bool hasScales = false, blockScales = false; ///< of caches: of heads, and of each block
  int zeroScales = 0; ///< one of so many scales is 0, as of blocks of zeros; 0: none
  std::optional<HostArray> sinks = {};
  double dropout = 0;
  uint64_t seed = 0;
  bool tf32 = false;
  std::map<std::string, int64_t> config = {}, gradientConfig = {};
  std::optional<int64_t> parts = {}; ///< of a plan, over pages

  bool paged() const { return form == Form::OneQuery || form == Form::Chunks; }
  bool packed() const { return form != Form::Dense; } // as the reference takes them
  int64_t queries() const { return total(&Length::queries); }
  int64_t keys() const { return total(&Length::keys); }
  std::vector<int32_t> starts(int64_t Length::*of) const {
    std::vector<int32_t> result{0};
    for (const Length &length : sizes.sequences)
      result.push_back(result.back() + int32_t(length.*of));
    return result;
  }
  int64_t pagesOfEach() const { return sizes.mostKeys() / page + 1; }
  int64_t blocks() const { return sizes.batches() * pagesOfEach() + 1; }
  /// Pages lie apart.
  int64_t blockOf(int64_t sequence, int64_t number) const {
    return blocks() - 1 - (sequence * pagesOfEach() + number);
  }
  /// What the numbers of a cache are multiplied by: powers of two, so that products are exact.
  float cacheScale(bool values, int64_t block, int64_t head) const {
    if (!hasScales)
      return 1;
    const int64_t by = (blockScales ? block : 0) + head + (values ? 1 : 0);
    if (zeroScales && by % zeroScales == 0)
      return 0;
    return std::ldexp(1.0f, -int(by % 3) - (cache == DType::int8    ? 4
                                            : cache == DType::uint8 ? 1
                                                                    : 0));
  }
  std::string describe() const;

private:
  int64_t total(int64_t Length::*of) const { return starts(of).back(); }
};

std::string Case::describe() const {
  static constexpr const char *forms[] = {"dense", "packed", "pages, one query each",
                                          "pages, chunks"};
  static constexpr const char *alongs[] = {"heads", "queries", "keys", "distances", "pairs"};
  std::ostringstream text;
  text << forms[int(form)] << (tokensFirst ? " [B, S, H, D]" : "") << ", " << name_of(dtype)
       << (tf32 ? " by tf32" : "") << (gradients ? ", with gradients" : "")
       << "\n  H=" << sizes.heads << "/" << sizes.kvHeads << " D=" << sizes.width << ","
       << sizes.valueWidth;
  for (const Length &length : sizes.sequences)
    text << " " << length.queries << "x" << length.keys;
  if (paged())
    text << " page=" << page << " of " << (cache == DType::uint8 ? "4 bits" : name_of(cache))
         << (blockScales ? " with scales of blocks"
             : hasScales ? " with scales of heads"
                         : "")
         << (zeroScales ? ", some of them 0" : "");
  if (parts)
    text << " planned in " << *parts;
  if (scale)
    text << " scale=" << *scale;
  if (sinks)
    text << " sinks[" << sinks->shape[0] << "," << sinks->shape[1] << "]";
  if (dropout > 0)
    text << " dropout=" << dropout << " seed=" << seed;
  for (const auto *fields : {&config, &gradientConfig})
    for (const auto &[name, value] : *fields)
      text << " " << name << "=" << value;
  for (size_t i = 0; i < tables.learned.size(); ++i) {
    const Shape &shape = tables.learned[i].table.shape;
    text << " learned" << i << "=" << alongs[int(learned[i])] << "[" << shape[0] << "," << shape[1]
         << "," << shape[3] << "]";
  }
  text << "\n  score: " << (plain ? "plain()" : fuzz::describe(score))
       << "\n  visibility: " << (causal ? "causal() && " : "") << fuzz::describe(sight);
  return text.str();
}

/// Schedules that the library would choose for other calls, of tiles that fit any chip; with a
/// warp of its own for copies where the device has that.
void drawSchedules(Draw &draw, Case &of, bool overlaps) {
  const bool wide = std::max(of.sizes.width, of.sizes.valueWidth) > 128,
             large = wide || of.dtype == DType::float32;
  const size_t tiles = wide && of.dtype == DType::float32 ? 1 : large ? 2 : 3;
  const auto draws = [&](std::map<std::string, int64_t> &fields, const std::string &prefix) {
    if (overlaps && of.dtype != DType::float32 && draw.coin()) {
      for (const auto &[name, value] :
           std::map<std::string, int64_t>{{"m", prefix.empty() ? 128 : 64},
                                          {"n", 64},
                                          {"warps", 8},
                                          {"stages", 2},
                                          {"overlap", prefix.empty() ? draw.number(1, 2) : 1}})
        fields[prefix + name] = value;
      return;
    }
    for (const char *tile : {"m", "n"})
      fields[prefix + tile] = int64_t(16) << draw.pick(tiles);
    fields[prefix + "warps"] = 4;
    fields[prefix + "stages"] = large ? 1 : draw.number(1, 2);
    fields[prefix + "overlap"] = 0;
  };
  if (draw.pick(4) == 0)
    draws(of.config, "");
  if (draw.pick(5) == 0)
    of.config.insert({{"persistent", 1}, {"programs", draw.number(1, 5)}});
  else if (draw.pick(5) == 0)
    of.config.insert({{"packed", 1}, {"splits", draw.number(1, 4)}});
  if (draw.pick(4) == 0)
    for (const char *prefix : {"q_", "kv_"})
      draws(of.gradientConfig, prefix);
  if (of.form == Form::Dense && draw.pick(4) == 0)
    of.gradientConfig["kv_parts"] = of.sizes.heads / of.sizes.kvHeads;
}

Case drawCase(Draw &draw, const std::string &device) {
  static constexpr Form forms[] = {Form::Dense,  Form::Dense,  Form::Dense,    Form::Dense,
                                   Form::Packed, Form::Packed, Form::OneQuery, Form::Chunks};
  static constexpr DType dtypes[] = {DType::float16, DType::float16, DType::bfloat16,
                                     DType::float32};
  Case of{.form = draw.oneOf(forms), .dtype = draw.oneOf(dtypes), .sizes = {}};
  Sizes &sizes = of.sizes;
  sizes.kvHeads = draw.number(1, 2);
  sizes.heads = sizes.kvHeads * draw.number(1, 3);
  const auto width = [&] {
    return draw.pick(4) == 0 ? draw.number(16, 128) : 8 * draw.number(2, draw.coin() ? 8 : 16);
  };
  const auto wideWidth = [&] {
    static constexpr int64_t widths[] = {136, 144, 160, 192, 192, 256, 256};
    return draw.pick(3) == 0 ? draw.number(129, 256) : draw.oneOf(widths);
  };
  const bool wide = draw.pick(6) == 0;
  sizes.width = wide ? wideWidth() : width();
  sizes.valueWidth = of.paged() || draw.coin() ? sizes.width
                     : wide && draw.coin()     ? wideWidth()
                                               : width();
  // Wide ones take long.
  const auto few = [&](int64_t most) {
    return draw.number(1, draw.coin() ? (wide ? most / 2 : most) : most / 8);
  };
  const bool longKeys = !of.paged() && draw.pick(4) == 0;
  if (of.form == Form::Dense) {
    const Length length = {longKeys ? draw.number(1, 16) : few(200),
                           longKeys ? draw.number(256, 500) : few(200)};
    sizes.sequences.assign(size_t(draw.number(1, 2)),
                           draw.pick(4) ? length : Length{length.queries, length.queries});
  } else
    for (size_t i = draw.pick(4) + 1; i-- > 0;) {
      const bool none = draw.pick(8) == 0;
      // Parts of a plan have 256 keys and more.
      const bool isLong = longKeys || (of.form == Form::OneQuery && draw.pick(3) == 0);
      const int64_t keys = none ? 0 : isLong ? draw.number(200, 900) : few(200);
      // Chunks are the last queries of their sequences.
      sizes.sequences.push_back({of.form == Form::OneQuery ? 1
                                 : of.form == Form::Chunks ? draw.number(0, keys)
                                 : draw.pick(8) == 0       ? 0
                                 : longKeys                ? draw.number(1, 16)
                                                           : few(150),
                                 keys});
    }
  of.gradients = !of.paged() && draw.pick(3) != 0;
  of.tokensFirst = of.form == Form::Dense && draw.pick(3) == 0;
  const bool blocks = draw.pick(of.paged() ? 3 : 4) == 0;
  of.causal = !blocks && draw.pick(4) == 0;
  of.sight = drawSight(draw, sizes, of.packed(), blocks);
  of.plain = draw.pick(6) == 0;
  if (!of.plain && !of.causal && draw.pick(3) == 0) {
    using enum flash::Along;
    static const std::vector<flash::Along> sets[] = {
        {heads}, {queries}, {keys}, {distances}, {pairs}, {heads, distances}, {queries, keys}};
    of.learned = draw.oneOf(sets);
  }
  of.tables = drawTables(draw, sizes, of.learned);
  of.score = drawScore(draw, of.tables);
  if (draw.pick(4) == 0)
    of.scale = double(draw.number(-8, 12)) / 8 / std::sqrt(double(sizes.width));
  if (draw.pick(4) == 0) {
    std::vector<double> values;
    const Shape shape{draw.coin() ? sizes.heads : 1, draw.number(1, 3)};
    for (int64_t i = 0; i < shape[0] * shape[1]; ++i)
      values.push_back(double(draw.number(-16, 16)) / 8);
    of.sinks = HostArray(DType::float32, shape, values);
  }
  if (!of.paged() && draw.pick(4) == 0) {
    static constexpr double probabilities[] = {0.1, 0.25, 0.5, 0.9};
    of.dropout = draw.oneOf(probabilities);
    of.seed = draw.coin() ? draw.pick(1000) : draw.pick(~size_t(0));
  }
  of.tf32 = !of.paged() && of.dtype == DType::float32 && draw.pick(4) == 0;
  of.page = draw.oneOf(std::to_array<int64_t>({16, 16, 32, 64, 1, 24}));
  of.cache = of.dtype;
  if (of.paged() && !of.causal && of.learned.empty() && draw.coin()) {
    of.cache = draw.oneOf(std::to_array({DType::float8_e4m3, DType::int8, DType::uint8}));
    if (of.cache == DType::uint8 && sizes.width % 2)
      of.cache = DType::int8;
    of.hasScales = draw.pick(4) != 0;
    of.blockScales = of.hasScales && draw.coin();
    if (of.hasScales && draw.pick(4) == 0)
      of.zeroScales = int(draw.number(1, 4));
  }
  if (of.form == Form::OneQuery) {
    const size_t how = draw.pick(3);
    if (how == 0)
      of.parts = sizes.batches() + draw.number(0, 6);
    else if (how == 1)
      of.config["splits"] = draw.number(1, 4);
  }
  if (!of.paged())
    drawSchedules(draw, of, device == "virtual:sm_90a");
  return of;
}

HostArray drawArray(Draw &draw, DType dtype, Shape shape) {
  std::mt19937_64 random(draw.pick(~size_t(0)));
  std::normal_distribution<double> normal;
  HostArray array(dtype, std::move(shape));
  std::vector<double> values(static_cast<size_t>(array.count()));
  for (double &value : values)
    value = normal(random);
  array.assign(values);
  return array;
}

/// k or v [T, Hkv, D] of numbers that a quantised cache has.
HostArray drawCached(Draw &draw, const Case &of, bool values) {
  const Sizes &sizes = of.sizes;
  HostArray array = drawArray(draw, of.dtype, {of.keys(), sizes.kvHeads, sizes.width});
  std::vector<double> numbers = array.to_double();
  size_t at = 0;
  for (int64_t s = 0; s < sizes.batches(); ++s)
    for (int64_t j = 0; j < sizes.sequences[size_t(s)].keys; ++j)
      for (int64_t h = 0; h < sizes.kvHeads; ++h)
        for (int64_t d = 0; d < sizes.width; ++d, ++at) {
          const double scale = double(of.cacheScale(values, of.blockOf(s, j / of.page), h));
          double &number = numbers[at];
          if (scale == 0)
            number = 0;
          else if (of.cache == DType::float8_e4m3)
            number = double(float8_e4m3(number / scale)) * scale;
          else
            number = std::clamp(std::round(number / scale), of.cache == DType::int8 ? -128.0 : -8.0,
                                of.cache == DType::int8 ? 127.0 : 7.0) *
                     scale;
        }
  array.assign(numbers);
  return array;
}

/// q, k, v and do, as the reference takes them.
Arrays drawInputs(Draw &draw, const Case &of) {
  const Sizes &sizes = of.sizes;
  const auto array = [&](int64_t heads, int64_t tokens, int64_t width) {
    return drawArray(draw, of.dtype,
                     of.packed() ? Shape{tokens, heads, width}
                                 : Shape{sizes.batches(), heads, tokens, width});
  };
  const int64_t Sq = of.packed() ? of.queries() : sizes.mostQueries(),
                Sk = of.packed() ? of.keys() : sizes.mostKeys();
  Arrays result;
  result["q"] = array(sizes.heads, Sq, sizes.width);
  result["k"] = array(sizes.kvHeads, Sk, sizes.width);
  result["v"] = array(sizes.kvHeads, Sk, sizes.valueWidth);
  result["do"] = array(sizes.heads, Sq, sizes.valueWidth);
  if (of.cache != of.dtype)
    for (const char *name : {"k", "v"})
      result[name] = drawCached(draw, of, name[0] == 'v');
  return result;
}

/// Which pairs are seen, [B, H, Sq, Sk] or, packed, [H, Tq, Sk].
HostArray maskOf(const Case &of) {
  const Sizes &sizes = of.sizes;
  const int64_t B = sizes.batches(), H = sizes.heads, Sk = sizes.mostKeys();
  HostArray mask(DType::boolean,
                 of.packed() ? Shape{H, of.queries(), Sk} : Shape{B, H, sizes.mostQueries(), Sk});
  const auto starts = of.starts(&Length::queries);
  for (int64_t b = 0; b < B; ++b) {
    const auto &[queries, keys] = sizes.sequences[size_t(b)];
    for (int64_t h = 0; h < H; ++h)
      for (int64_t i = 0; i < queries; ++i) {
        const int64_t row =
            of.packed() ? h * of.queries() + starts[size_t(b)] + i : (b * H + h) * queries + i;
        for (int64_t j = 0; j < keys; ++j) {
          const Pair pair{b, h, i, j, i + keys - queries - j};
          mask.as<bool>()[size_t(row * Sk + j)] =
              (!of.causal || pair.distance >= 0) && of.sight.sees(pair);
        }
      }
  }
  return mask;
}

HostArray intArray(const std::vector<int32_t> &values) {
  HostArray array(DType::int32, {int64_t(values.size())});
  std::ranges::copy(values, array.as<int32_t>().begin());
  return array;
}

/// What all outputs should be. Gradients are those of the o and lse that `in` has.
/// rounding: as evaluate() takes it, of the plain formula's terms.
Arrays reference(const Case &of, const Arrays &in, Arithmetic arithmetic,
                 std::optional<uint64_t> rounding = {}) {
  const Sizes &sizes = of.sizes;
  const HostArray mask = maskOf(of), &q = in.at("q"), &k = in.at("k"), &v = in.at("v");
  AttentionSettings settings{.scale = of.scale,
                             .dropout = of.dropout,
                             .seed = of.seed,
                             .tf32 = of.tf32,
                             .mask = &mask,
                             .sinks = of.sinks ? &*of.sinks : nullptr};
  const auto first = of.starts(&Length::queries);
  const auto place = [&](const Pair &at) {
    if (of.packed())
      return size_t((at.head * of.queries() + first[size_t(at.batch)] + at.query) *
                        sizes.mostKeys() +
                    at.key);
    return size_t(((at.batch * sizes.heads + at.head) * sizes.mostQueries() + at.query) *
                      sizes.mostKeys() +
                  at.key);
  };
  // Of each pair by the learned operands; the score's own go through the reference.
  std::vector<std::array<double, 2>> slopes(of.learned.empty() ? 0 : size_t(mask.count()));
  const auto modified = [&]<class Number>(Number product, const Pair &at) {
    const Dual<Number> dual = evaluate<Number>(
        of.score, of.tables, product, at, std::is_same_v<Number, float> ? rounding : std::nullopt);
    if (!slopes.empty())
      slopes[place(at)] = {double(dual.slopes[1]), double(dual.slopes[2])};
    return ModifiedScore{double(dual.value), double(dual.slopes[0])};
  };
  if (!of.plain)
    settings.modified = [&](double product, int64_t b, int64_t h, int64_t i, int64_t j) {
      const auto &[queries, keys] = sizes.sequences[size_t(b)];
      const Pair at{b, h, i, j, i + keys - queries - j};
      return arithmetic == Arithmetic::exact ? modified(product, at) : modified(float(product), at);
    };
  // Its gradient is that of each score.
  const HostArray bias(of.dtype, mask.shape);
  const HostArray starts = intArray(first), keyStarts = intArray(of.starts(&Length::keys));
  const ReferenceLayout layout =
      of.packed() ? packedLayout(q, k, v, starts, keyStarts) : denseLayout(q, k, v);
  const AttentionResult forward = attentionReference(layout, q, k, v, settings, arithmetic);
  Arrays result{{"o", forward.o}, {"lse", forward.lse}};
  if (of.paged()) { // whose tokens come first
    const std::vector<double> logs = forward.lse.to_double();
    std::vector<double> turned;
    for (int64_t t = 0; t < of.queries(); ++t)
      for (int64_t h = 0; h < sizes.heads; ++h)
        turned.push_back(logs[size_t(h * of.queries() + t)]);
    result["lse"] = HostArray(forward.lse.dtype, {of.queries(), sizes.heads}, turned);
  }
  if (!in.contains("o"))
    return result;
  if (!of.learned.empty())
    settings.bias = &bias;
  const HostArray &o = in.at("o"), &lse = in.at("lse"), &dO = in.at("do");
  const AttentionReferenceGradients backward =
      attentionBackwardReference(layout, q, k, v, o, lse, dO, settings, arithmetic);
  result["dq"] = backward.dq;
  result["dk"] = backward.dk;
  result["dv"] = backward.dv;
  if (of.sinks)
    result["dsinks"] = backward.dsinks;
  for (size_t operand = 0; operand < of.learned.size(); ++operand) {
    const LearnedTable &table = of.tables.learned[operand];
    std::vector<double> sums(table.table.values.size());
    const std::vector<double> ofScores = backward.dbias.to_double();
    for (int64_t b = 0; b < sizes.batches(); ++b) {
      const auto &[queries, keys] = sizes.sequences[size_t(b)];
      for (int64_t h = 0; h < sizes.heads; ++h)
        for (int64_t i = 0; i < queries; ++i)
          for (int64_t j = 0; j < keys; ++j) {
            const Pair at{b, h, i, j, i + keys - queries - j};
            if (const double ds = ofScores[place(at)]; ds != 0)
              sums[table.place(at)] += ds * slopes[place(at)][operand];
          }
    }
    Shape shape = table.table.shape;
    if (table.along != flash::Along::pairs)
      shape.erase(shape.begin() + 2);
    result["learned" + std::to_string(operand)] =
        HostArray(arithmetic == Arithmetic::exact ? DType::float64 : DType::float32, shape, sums);
  }
  return result;
}

template <class T> Buffer<T> upload(const Device &device, std::span<const T> values) {
  Buffer<T> buffer = device.allocate<T>(values.size());
  buffer.upload(values);
  return buffer;
}
template <class T, size_t N>
Tensor<const T, int(N)> upload(const Device &device, const std::vector<T> &values,
                               const detail::Length (&extents)[N]) {
  return tensor(device.upload(values), extents);
}
template <class T, int N> HostArray download(const Tensor<T, N> &from) {
  HostArray array(dtype_of<T>, Shape(from.extents().begin(), from.extents().end()));
  Buffer<T>(from.memory()).download(array.as<T>());
  return array;
}
template <class T> Tensor<T, 3> upload3(const Device &device, const HostArray &array) {
  const Shape &s = array.shape;
  return tensor(upload<T>(device, array.as<T>()), {s[0], s[1], s[2]});
}
/// tokensFirst: stored as [B, S, H, D].
template <class T>
Tensor<T, 4> upload4(const Device &device, const HostArray &array, bool tokensFirst) {
  const Shape &s = array.shape;
  if (!tokensFirst)
    return tensor(upload<T>(device, array.as<T>()), {s[0], s[1], s[2], s[3]});
  const auto from = array.as<T>();
  std::vector<T> turned;
  turned.reserve(from.size());
  for (int64_t b = 0; b < s[0]; ++b)
    for (int64_t i = 0; i < s[2]; ++i)
      for (int64_t h = 0; h < s[1]; ++h)
        for (int64_t d = 0; d < s[3]; ++d)
          turned.push_back(from[size_t(((b * s[1] + h) * s[2] + i) * s[3] + d)]);
  return tensor(device.upload(turned), {s[0], s[1], s[2], s[3]},
                {s[1] * s[2] * s[3], s[3], s[1] * s[3], 1});
}

/// A case on a device, with elements T.
template <class T> class Run {
public:
  Run(const Device &device, const Case &of, const Arrays &in) : device(device), of(of), in(in) {
    options.scale = of.scale;
    options.dropout = of.dropout;
    options.seed = of.seed;
    options.tf32 = of.tf32;
    options.config = of.config;
    if (of.sinks)
      options.sinks = tensor(upload<float>(device, of.sinks->as<float>()),
                             {of.sinks->shape[0], of.sinks->shape[1]});
    gradientOptions = options;
    gradientOptions.config = of.gradientConfig;
  }

  Arrays outputs() {
    if (of.plain) {
      withSight(flash::plain());
    } else if (of.learned.empty()) {
      const auto &[slopes, queries, keys, pairs, learned] = of.tables;
      const Shape &q = queries.shape, &p = pairs.shape;
      withSight(flash::scores(TracedScore(), slopesOf(),
                              upload(device, queries.values, {q[0], q[1], q[2]}),
                              upload(device, keys.values, {keys.shape[0], keys.shape[3]}),
                              upload(device, pairs.values, {p[0], p[1], p[2], p[3]})));
    } else {
      using enum flash::Along;
      if (of.learned.size() == 1) {
        switch (of.learned.front()) {
        case heads:
          learned<heads>();
          break;
        case queries:
          learned<queries>();
          break;
        case keys:
          learned<keys>();
          break;
        case distances:
          learned<distances>();
          break;
        case pairs:
          learned<pairs>();
          break;
        }
      } else if (of.learned.front() == heads) {
        learned<heads, distances>();
      } else {
        learned<queries, keys>();
      }
    }
    for (size_t i = 0; of.gradients && i < given.size(); ++i)
      results["learned" + std::to_string(i)] = given[i]();
    return std::move(results);
  }

private:
  Tensor<const float, 1> slopesOf() {
    return upload(device, of.tables.slopes.values, {of.sizes.heads});
  }
  template <flash::Along... A> void learned() {
    const auto operands = [&]<size_t... I>(std::index_sequence<I...>) {
      return std::tuple{operand<A>(of.tables.learned[I].table)...};
    }(std::make_index_sequence<sizeof...(A)>());
    std::apply(
        [&](const auto &...of) {
          withSight(flash::scores(TracedLearned<A...>(), slopesOf(), of...));
        },
        operands);
  }
  template <flash::Along A> auto operand(const Table &table) {
    const Shape &s = table.shape;
    const Buffer<float> gradient = device.allocate<float>(table.values.size());
    gradient.poison();
    const auto learned = [&] {
      if constexpr (A == flash::Along::pairs)
        return flash::learned(upload(device, table.values, {s[0], s[1], s[2], s[3]}),
                              tensor(gradient, {s[0], s[1], s[2], s[3]}));
      else
        return flash::learned(upload(device, table.values, {s[0], s[1], s[3]}),
                              tensor(gradient, {s[0], s[1], s[3]}));
    }();
    given.push_back([gradient = learned.gradient] { return download(gradient); });
    return learned;
  }

  template <class F> void withSight(const flash::Scores<F> &scores) {
    const SightTerm &sight = of.sight;
    const Buffer<int32_t> numbers = device.upload(sight.numbers);
    const auto flags = [&](const std::vector<uint8_t> &values) {
      const Buffer<bool> buffer = device.allocate<bool>(values.size());
      buffer.upload(std::span(reinterpret_cast<const bool *>(values.data()), values.size()));
      return buffer;
    };
    const Buffer<bool> masks = flags(sight.masks), blocks = flags(sight.blocks);
    const Buffer<int32_t> bits = device.upload(sight.bits);
    const Buffer<uint64_t> ancestors = device.upload(sight.ancestors);
    const Arguments<TracedSight> plain{numbers, bits, masks, ancestors};
    if (sight.listed >= 0) {
      const flash::Blocks found = blocksOf({numbers, bits, masks, ancestors});
      return withForm(scores, Arguments<TracedBlocks>{numbers, bits, masks, ancestors, blocks,
                                                      found.kinds.data()});
    }
    if (!sight.blocks.empty())
      return withForm(scores,
                      Arguments<TracedBlocks>{numbers, bits, masks, ancestors, blocks, blocks});
    if constexpr (std::is_same_v<F, TracedScore> || std::is_same_v<F, flash::detail::Plain>)
      if (of.causal)
        return withForm(scores, flash::causal() && plain);
    withForm(scores, plain);
  }

  flash::Blocks blocksOf(const Arguments<TracedListed> &listed) {
    const SightTerm &sight = of.sight;
    const flash::BlocksFor call{sight.listedBatches, sight.listedHeads, of.sizes.mostQueries(),
                                of.sizes.mostKeys()};
    const Stream stream = device.stream();
    const Tensor<const int32_t, 1> cuQ = startsOf(&Length::queries);
    switch (of.form) {
    case Form::Dense:
      break;
    case Form::Packed:
      return flash::blocks_of(stream, listed, call, cuQ, startsOf(&Length::keys), sight.listedQ,
                              sight.listedK);
    case Form::OneQuery:
      return flash::blocks_of(stream, listed, call, inPages<T>(), sight.listedQ, sight.listedK);
    case Form::Chunks:
      return flash::blocks_of(stream, listed, call, inPages<T>(), cuQ, sight.listedQ,
                              sight.listedK);
    }
    return flash::blocks_of(stream, listed, call, sight.listedQ, sight.listedK);
  }
  Tensor<const int32_t, 1> startsOf(int64_t Length::*which) const {
    return upload(device, of.starts(which), {of.sizes.batches() + 1});
  }

  template <class F, flash::Visible V>
  void withForm(const flash::Scores<F> &scores, const Arguments<V> &visibility) {
    const Stream stream = device.stream();
    if (of.form == Form::Dense) {
      const auto four = [&](const char *name) {
        return upload4<T>(device, in.at(name), of.tokensFirst);
      };
      const Tensor<T, 4> q = four("q"), k = four("k"), v = four("v"), dO = four("do");
      const auto [o, lse] = flash::attend(stream, q, k, v, scores, visibility, options);
      results = {{"o", download(o)}, {"lse", download(lse)}};
      if (of.gradients)
        keep(flash::backward(stream, q, k, v, o, lse, dO, scores, visibility, gradientOptions));
    } else {
      const auto three = [&](const char *name) { return upload3<T>(device, in.at(name)); };
      const Tensor<T, 3> q = three("q");
      const Tensor<const int32_t, 1> cuQ = startsOf(&Length::queries);
      if (of.form == Form::Packed) {
        const Tensor<const int32_t, 1> cuK = startsOf(&Length::keys);
        const Tensor<T, 3> k = three("k"), v = three("v"), dO = three("do");
        const auto [o, lse] = flash::attend(stream, q, k, v, cuQ, cuK, scores, visibility, options);
        results = {{"o", download(o)}, {"lse", download(lse)}};
        if (of.gradients)
          keep(flash::backward(stream, q, k, v, cuQ, cuK, o, lse, dO, scores, visibility,
                               gradientOptions));
      } else {
        const auto with = [&](auto pages) {
          if (of.parts)
            pages.plan = run_kernel(stream, "paged_plan", {{"context_lens", pages.lengths}},
                                    {{"parts", std::to_string(*of.parts)}})
                             .at("plan")
                             .template as<int32_t, 2>();
          const auto [o, lse] =
              of.form == Form::Chunks
                  ? flash::attend(stream, q, pages, cuQ, scores, visibility, options)
                  : flash::attend(stream, q, pages, scores, visibility, options);
          results = {{"o", download(o)}, {"lse", download(lse)}};
        };
        if constexpr ((std::is_same_v<V, TracedSight> || std::is_same_v<V, TracedBlocks>) &&
                      !flash::detail::learns<F>) {
          if (of.cache == DType::float8_e4m3)
            return with(inPages<float8_e4m3>());
          if (of.cache == DType::int8)
            return with(inPages<int8_t>());
          if (of.cache == DType::uint8)
            return with(inPages<uint8_t>());
        }
        with(inPages<T>());
      }
    }
  }

  void keep(const auto &gradients) {
    results["dq"] = download(gradients.dq);
    results["dk"] = download(gradients.dk);
    results["dv"] = download(gradients.dv);
    if (gradients.dsinks)
      results["dsinks"] = download(*gradients.dsinks);
  }

  /// Places that no key has hold no numbers, or the largest code; nor do scales of such blocks.
  template <class C> flash::Pages<C> inPages() {
    constexpr bool pairs = std::is_same_v<C, uint8_t>;
    const int64_t S = of.sizes.batches(), H = of.sizes.kvHeads, page = of.page,
                  most = of.pagesOfEach(), blocks = of.blocks(),
                  D = of.sizes.width / (pairs ? 2 : 1);
    const auto starts = of.starts(&Length::keys);
    std::vector<int32_t> table, lengths;
    std::vector<bool> used(static_cast<size_t>(blocks));
    for (int64_t s = 0; s < S; ++s) {
      const int64_t keys = of.sizes.sequences[size_t(s)].keys;
      lengths.push_back(int32_t(keys));
      for (int64_t p = 0; p < most; ++p) {
        const bool wanted = p * page < keys;
        table.push_back(wanted ? int32_t(of.blockOf(s, p)) : -2000000000);
        if (wanted)
          used[size_t(table.back())] = true;
      }
    }
    const auto cache = [&](bool ofValues) {
      std::vector<C> values(size_t(blocks * H * page * D), none<C>());
      const std::vector<double> from = in.at(ofValues ? "v" : "k").to_double();
      for (int64_t s = 0; s < S; ++s)
        for (int64_t j = 0; j < of.sizes.sequences[size_t(s)].keys; ++j)
          for (int64_t h = 0; h < H; ++h)
            for (int64_t d = 0; d < D; ++d) {
              const int64_t block = table[size_t(s * most + j / page)];
              const auto number = [&](int64_t column) {
                const int64_t columns = of.sizes.width;
                const double scale = double(of.cacheScale(ofValues, block, h));
                return scale == 0
                           ? 0
                           : from[size_t(((starts[size_t(s)] + j) * H + h) * columns + column)] /
                                 scale;
              };
              C &to = values[size_t(((block * H + h) * page + j % page) * D + d)];
              if constexpr (pairs)
                to = C((int(number(2 * d)) & 15) | (int(number(2 * d + 1)) & 15) << 4);
              else
                to = static_cast<C>(number(d));
            }
      return tensor(device.upload(values), {blocks, H, page, D});
    };
    const auto scales = [&](bool ofValues) -> std::optional<Tensor<const float, 2>> {
      if (!of.hasScales)
        return std::nullopt;
      std::vector<float> values;
      const int64_t rows = of.blockScales ? blocks : 1;
      for (int64_t block = 0; block < rows; ++block)
        for (int64_t h = 0; h < H; ++h)
          values.push_back(
              of.blockScales && !used[size_t(block)] ? NAN : of.cacheScale(ofValues, block, h));
      return tensor(device.upload(values), {rows, H});
    };
    return flash::pages(cache(false), cache(true), upload(device, table, {S, most}),
                        upload(device, lengths, {S}), scales(false), scales(true));
  }
  template <class C> static C none() {
    if constexpr (std::is_same_v<C, int8_t>)
      return 127;
    else if constexpr (std::is_same_v<C, uint8_t>)
      return 0x77;
    else
      return static_cast<C>(NAN);
  }

  const Device &device;
  const Case &of;
  const Arrays &in;
  flash::Options options, gradientOptions;
  std::vector<std::function<HostArray()>> given; // gradients of learned operands
  Arrays results;
};

Arrays outputsOf(const std::string &name, const Case &of, const Arrays &in) {
  const Device device = Device::open(name);
  if (of.dtype == DType::float16)
    return Run<half>(device, of, in).outputs();
  if (of.dtype == DType::bfloat16)
    return Run<bfloat16>(device, of, in).outputs();
  return Run<float>(device, of, in).outputs();
}

/// What is too far from the exact result, by the rules of checkNearby().
std::string judged(const Case &of, const Arrays &in, const Arrays &outputs) {
  // Terms are no chains of kernels whose every step is rounded as the plain formula's is.
  constexpr double factor = 4;
  struct Judged {
    std::string name;
    Accuracy accuracy;
  };
  const auto verdicts = [&](const Arrays &inputs, std::optional<uint64_t> rounding) {
    const Arrays exact = reference(of, inputs, Arithmetic::exact),
                 own = reference(of, inputs, Arithmetic::own, rounding);
    std::vector<Judged> result;
    for (const auto &[name, output] : outputs) {
      Accuracy accuracy = judge(output, exact.at(name), own.at(name), factor);
      // Chips' exponentials and logarithms are good to 2^-22, also where rows have few terms and
      // those of the plain formula happen to be better.
      if (name == "lse") {
        accuracy.maxBound += 0x1p-20;
        accuracy.rmsBound += 0x1p-20;
      }
      result.push_back({name, accuracy});
    }
    return result;
  };
  std::vector<Judged> found = verdicts(in, {});
  const auto isFine = [](const Judged &judged) { return judged.accuracy.ok(); };
  if (std::ranges::all_of(found, isFine))
    return "";
  // Neighbours of the inputs, and of what the term's nodes give.
  std::mt19937_64 random(1);
  for (int neighbour = 0; neighbour < (of.tf32 ? 16 : 4); ++neighbour) {
    Arrays nearby = in;
    for (auto &[name, array] : nearby)
      array = neighbourOf(array, of.tf32 ? 0x1p-10 : 0, random);
    const std::vector<Judged> there = verdicts(nearby, random());
    for (size_t i = 0; i < found.size(); ++i) {
      Accuracy &own = found[i].accuracy;
      own.maxBound = std::max(own.maxBound, there[i].accuracy.maxBound);
      own.rmsBound = std::max(own.rmsBound, there[i].accuracy.rmsBound);
    }
  }
  std::string wrong;
  for (const Judged &judged : found)
    if (!isFine(judged))
      wrong += "\n  " + judged.name + ": " + judged.accuracy.describe();
  return wrong;
}

} // namespace

std::optional<std::string> attentionCase(uint64_t seed, const std::string &device, Spoilt what) {
  Draw draw(seed);
  const Case of = drawCase(draw, device);
  Arrays in = drawInputs(draw, of);
  const int64_t queries = of.form == Form::OneQuery ? 1 : of.sizes.mostQueries(),
                keys = of.paged() ? of.pagesOfEach() * of.page : of.sizes.mostKeys();
  Traced terms{what == Spoilt::Score ? spoilt(of.score, draw) : of.score,
               what == Spoilt::Sight ? spoilt(of.sight, draw) : of.sight, queries, keys};
  if (of.packed())
    terms.sight.listedBatches = of.sizes.batches();
  traced = &terms;
  const std::string text = "\n  on " + device + ", " + of.describe();
  noteInput(text);
  std::string wrong;
  try {
    const Arrays outputs = outputsOf(device, of, in);
    reachedDepth();
    if (of.gradients) {
      in["o"] = outputs.at("o");
      in["lse"] = outputs.at("lse");
    }
    wrong = judged(of, in, outputs);
    if (!wrong.empty())
      wrong = "wrong:" + wrong;
  } catch (const Error &error) {
    wrong = error.what();
  }
  if (wrong.empty())
    return std::nullopt;
  return wrong + text;
}

} // namespace sectile::fuzz
