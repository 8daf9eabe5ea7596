// Random compositions of flash's scores and visibilities, on random shapes with random parameters,
// few queries over many keys among them, against sums in float64. SECTILE_FLASH_SEED draws others.
#include "FlashTest.h"

using namespace sectile;
using namespace sectile::test;

namespace {

class FlashRandom : public OnDevice {};
SECTILE_INSTANTIATE_ON(FlashRandom, "interpreter,virtual:sm_80,virtual:sm_90a,virtual:gfx942");

/// Draws what a case needs, and keeps its memory.
struct Draw {
  const Device &device;
  std::mt19937 engine;
  Sizes shape;
  std::string text;
  std::vector<AnyTensor> kept = {};

  std::int64_t number(std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(least, most)(engine);
  }
  template <class T, int N>
  Tensor<const T, N> upload(const std::vector<T> &values, const detail::Length (&extents)[N]) {
    const Tensor<const T, N> uploaded = tensor(device.upload(values), extents);
    kept.emplace_back(uploaded);
    return uploaded;
  }
};

template <flash::Visible V> struct Seen {
  Arguments<V> visibility;
  VisibleReference reference;
};

auto draw(Draw &of, std::type_identity<flash::Everything>) {
  of.text += " everything";
  return Seen<flash::Everything>{flash::everything(), everywhere};
}
auto draw(Draw &of, std::type_identity<flash::Causal>) {
  of.text += " causal";
  return Seen<flash::Causal>{flash::causal(), before};
}
auto draw(Draw &of, std::type_identity<flash::Window>) {
  const std::int64_t left = of.number(0, of.shape.keys), right = of.number(-3, 40);
  of.text += " window " + std::to_string(left) + " " + std::to_string(right);
  return Seen<flash::Window>{
      flash::window(left, right < 0 ? std::nullopt : std::optional(right)), [=](const Place &at) {
        return at.distance <= double(left) && (right < 0 || at.distance >= -double(right));
      }};
}
auto draw(Draw &of, std::type_identity<flash::Documents>) {
  const std::int64_t keys = of.shape.keys;
  std::vector<std::int32_t> starts, ends;
  for (std::int64_t b = 0; b < of.shape.batches; ++b)
    for (std::int64_t start = 0; start < keys;) {
      const std::int64_t end = std::min(keys, start + of.number(1, keys));
      for (std::int64_t key = start; key < end; ++key) {
        starts.push_back(static_cast<std::int32_t>(start));
        ends.push_back(static_cast<std::int32_t>(end));
      }
      start = end;
    }
  of.text += " documents";
  return Seen<flash::Documents>{flash::documents(of.upload(starts, {of.shape.batches, keys}),
                                                 of.upload(ends, {of.shape.batches, keys})),
                                [=](const Place &at) {
                                  const std::int64_t beside = at.key + std::int64_t(at.distance);
                                  if (beside < 0)
                                    return false;
                                  const auto i = static_cast<std::size_t>(at.batch * keys + beside);
                                  return starts[i] <= at.key && at.key < ends[i];
                                }};
}
auto draw(Draw &of, std::type_identity<flash::Prefix>) {
  std::vector<std::int32_t> lengths;
  for (std::int64_t b = 0; b < of.shape.batches; ++b)
    lengths.push_back(static_cast<std::int32_t>(of.number(0, of.shape.keys)));
  of.text += " prefix";
  return Seen<flash::Prefix>{
      flash::prefix(of.upload(lengths, {of.shape.batches})), [=](const Place &at) {
        return at.distance >= 0 || at.key < lengths[static_cast<std::size_t>(at.batch)];
      }};
}
auto draw(Draw &of, std::type_identity<flash::Chunked>) {
  const std::int64_t size = of.number(1, 70);
  of.text += " chunks of " + std::to_string(size);
  return Seen<flash::Chunked>{flash::chunked(size), [=](const Place &at) {
                                const std::int64_t beside = at.key + std::int64_t(at.distance);
                                return beside >= 0 && beside / size == at.key / size;
                              }};
}
auto draw(Draw &of, std::type_identity<flash::KeyLengths>) {
  std::vector<std::int32_t> lengths;
  for (std::int64_t b = 0; b < of.shape.batches; ++b)
    lengths.push_back(static_cast<std::int32_t>(of.number(0, of.shape.keys)));
  of.text += " lengths";
  return Seen<flash::KeyLengths>{
      flash::key_lengths(of.upload(lengths, {of.shape.batches})),
      [=](const Place &at) { return at.key < lengths[static_cast<std::size_t>(at.batch)]; }};
}
constexpr auto strided = [](const flash::At &at, Int every, Int heads) {
  return (at.query() + 2 * at.key() + at.head() * heads) % every != 0;
};
using Strided = flash::Where<std::remove_const_t<decltype(strided)>>;
auto draw(Draw &of, std::type_identity<Strided>) {
  const std::int64_t every = of.number(2, 6), heads = of.number(0, 2);
  of.text += " lambda";
  return Seen<Strided>{flash::where(strided, every, heads), [=](const Place &at) {
                         return (at.query + 2 * at.key + at.head * heads) % every != 0;
                       }};
}

template <class A, class B> auto draw(Draw &of, std::type_identity<flash::And<A, B>>) {
  const auto a = draw(of, std::type_identity<A>());
  of.text += " and";
  const auto b = draw(of, std::type_identity<B>());
  return Seen<flash::And<A, B>>{a.visibility && b.visibility, [=](const Place &at) {
                                  return a.reference(at) && b.reference(at);
                                }};
}
template <class A, class B> auto draw(Draw &of, std::type_identity<flash::Or<A, B>>) {
  const auto a = draw(of, std::type_identity<A>());
  of.text += " or";
  const auto b = draw(of, std::type_identity<B>());
  return Seen<flash::Or<A, B>>{a.visibility || b.visibility,
                               [=](const Place &at) { return a.reference(at) || b.reference(at); }};
}

/// The case's scores and element type.
template <flash::Visible V> void run(Draw &of, const Seen<V> &seen) {
  const auto with = [&](const auto &scores, const ScoreReference &reference, const char *name) {
    const std::string what = of.text + ", " + name;
    flash::Options options;
    if (of.number(0, 3) == 0)
      options.scale = double(of.number(-4, 4)) / 8;
    if (of.number(0, 1))
      check<half>(of.device, of.shape, scores, seen.visibility, reference, seen.reference, what,
                  options);
    else
      check<float>(of.device, of.shape, scores, seen.visibility, reference, seen.reference, what,
                   options);
  };
  std::vector<float> slopes;
  for (std::int64_t h = 0; h < of.shape.heads; ++h)
    slopes.push_back(float(of.number(-8, 8)) / 64);
  switch (of.number(0, 2)) {
  case 0:
    return with(flash::plain(), unmodified, "plain");
  case 1: {
    const auto values = of.device.upload(slopes);
    return with(
        flash::scores(
            [](flash::Score s, const flash::At &at, View<const float, 1> slopes) {
              return s - at.per_head(slopes) * at.distance();
            },
            values),
        [=](double s, const Place &at) {
          return Dual{s - double(slopes[static_cast<std::size_t>(at.head)]) * at.distance};
        },
        "alibi");
  }
  default: {
    std::vector<float> ofKeys, ofQueries;
    for (std::int64_t i = 0; i < of.shape.batches * of.shape.keys; ++i)
      ofKeys.push_back(float(of.number(-8, 8)) / 8);
    for (std::int64_t i = 0; i < of.shape.heads * of.shape.queries; ++i)
      ofQueries.push_back(float(of.number(-8, 8)) / 8);
    const std::int64_t keys = of.shape.keys, queries = of.shape.queries;
    return with(
        flash::scores(
            [](flash::Score s, const flash::At &at, View<const float, 2> ofKeys,
               View<const float, 3> ofQueries) {
              return soft_cap(s * at.per_query(ofQueries), 3.0f) + at.per_key(ofKeys);
            },
            of.upload(ofKeys, {of.shape.batches, keys}),
            of.upload(ofQueries, {1, of.shape.heads, queries})),
        [=](double s, const Place &at) {
          const double q =
              double(ofQueries[static_cast<std::size_t>(at.head * queries + at.query)]);
          const double t = std::tanh(s * q / 3);
          return Dual{3 * t + double(ofKeys[static_cast<std::size_t>(at.batch * keys + at.key)]),
                      (1 - t * t) * q};
        },
        "per query and key");
  }
  }
}

template <class... V> void runAny(Draw &of, std::size_t which) {
  std::size_t number = 0;
  ((number++ == which ? run(of, draw(of, std::type_identity<V>())) : void()), ...);
}

TEST_P(FlashRandom, CompositionsGiveWhatTheirFormulasSay) {
  using namespace flash;
  const char *chosen = std::getenv("SECTILE_FLASH_SEED");
  const unsigned seed = chosen ? static_cast<unsigned>(std::stoul(chosen)) : 1;
  for (unsigned index = 0; index < 10; ++index) {
    Draw of{.device = device, .engine = std::mt19937(seed * 1000 + index), .shape = {}, .text = ""};
    const std::int64_t group = of.number(1, 3), kvHeads = of.number(1, 2);
    const bool few = index % 3 == 2;
    of.shape = {.batches = of.number(1, 2),
                .heads = group * kvHeads,
                .kvHeads = kvHeads,
                .queries = few ? of.number(1, 16) : of.number(1, 150),
                .keys = few ? of.number(256, 600) : of.number(1, 150),
                .width = 8 * of.number(2, 9),
                .valueWidth = 8 * of.number(2, 9)};
    const auto &[B, H, KV, Sq, Sk, D, Dv] = of.shape;
    std::ostringstream shape;
    shape << "case " << index << " B=" << B << " H=" << H << "/" << KV << " Sq=" << Sq
          << " Sk=" << Sk << " D=" << D << "," << Dv << ":";
    of.text = shape.str();
    runAny<And<Causal, Documents>, Or<Causal, KeyLengths>, And<Window, Strided>,
           And<Prefix, Documents>, Or<And<Chunked, Causal>, Window>, And<KeyLengths, Causal>,
           Or<Strided, Documents>, Everything>(of, (index + seed * 10) % 8);
  }
}

} // namespace
