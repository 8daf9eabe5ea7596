// Reductions and scans by combiners that are associative, most of which do not commute: along any
// axis of tiles of any shape, the order of elements decides what comes out.
#include "tests/fuzz/language/Cases.h"
#include <sectile/sectile.h>
#include <vector>

namespace sectile::fuzz {

namespace {

using Number = Tile<std::uint32_t>;

struct Combination {
  std::vector<std::int64_t> shape;
  int axis;
  unsigned combiner;
  bool scan, reverse;
};

// x -> a x + b, one after the other.
std::tuple<Number, Number> afterwards(Number a, Number b, Number c, Number d) {
  return {a * c, b * c + d};
}
// Sums that begin anew where the first number is odd.
std::tuple<Number, Number> segments(Number a, Number b, Number c, Number d) {
  return {a | c, where((c & 1u) == 1u, d, b + d)};
}
std::tuple<Number, Number> later(Number, Number, Number c, Number d) { return {c, d}; }
std::tuple<Number, Number> earlier(Number a, Number b, Number, Number) { return {a, b}; }
// The first of the largest.
std::tuple<Number, Number> largest(Number a, Number b, Number c, Number d) {
  return {where((a & 7u) >= (c & 7u), a, c), where((a & 7u) >= (c & 7u), b, d)};
}
std::tuple<Number, Number> sums(Number a, Number b, Number c, Number d) { return {a + c, b ^ d}; }

std::tuple<Number, Number> combined(const Combination &of, const Number &x, const Number &y) {
  static constexpr decltype(&afterwards) combiners[] = {afterwards, segments, later,
                                                        earlier,    largest,  sums};
  const auto combiner = combiners[of.combiner % std::size(combiners)];
  const std::tuple both(x, y);
  return of.scan ? associative_scan(both, of.axis, combiner, of.reverse)
                 : reduce(both, of.axis, combiner);
}

Int rowMajor(std::span<const std::int64_t> shape) {
  Int result = 0;
  std::int64_t stride = 1;
  for (std::size_t axis = shape.size(); axis-- > 0; stride *= shape[axis]) {
    Int along = arange(0, shape[axis]);
    for (std::size_t behind = axis + 1; behind < shape.size(); ++behind)
      along = expand(along, -1);
    result = result + along * stride;
  }
  return result;
}

} // namespace

std::optional<std::string> combiners(uint64_t seed, const std::string &device) {
  Draw draw(seed);
  static constexpr std::int64_t extents[] = {1, 2, 3, 4, 5, 7, 8, 12, 16, 20, 32, 48, 64, 256, 512};
  Combination of;
  std::int64_t elements = 1;
  do {
    of.shape.clear();
    elements = 1;
    for (std::size_t rank = 1 + draw.pick(3); rank > 0; --rank)
      elements *= of.shape.emplace_back(draw.oneOf(extents));
  } while (elements > 2048);
  of.axis = int(draw.pick(of.shape.size()));
  of.combiner = unsigned(draw.pick(6));
  of.scan = draw.pick(3) == 0;
  of.reverse = draw.coin();
  const unsigned warps = 1u << draw.pick(4);
  std::vector<std::uint32_t> numbers(static_cast<std::size_t>(2 * elements));
  for (std::uint32_t &number : numbers)
    number = static_cast<std::uint32_t>(draw.pick(std::size_t(1) << 32));

  Kernel kernel{"combiners", [of, elements](Ptr<const std::uint32_t> x, Ptr<std::uint32_t> y) {
                  const Int at = rowMajor(of.shape);
                  auto [a, b] = combined(of, load(x + at), load(x + (elements + at)));
                  const Int to = rowMajor(a.shape());
                  store(y + to, a);
                  store(y + (elements + to), b);
                }};
  std::vector<std::uint32_t> expected;
  try {
    for (const std::string &name : {std::string("interpreter"), device}) {
      Device on = Device::open(name);
      auto y = on.upload(std::vector<std::uint32_t>(numbers.size()));
      kernel.launch(on.stream(), 1, on.upload(numbers), y, {.warps = warps});
      if (expected.empty())
        expected = y.download();
      else if (y.download() != expected) {
        std::string shape;
        for (std::int64_t extent : of.shape)
          shape += " " + std::to_string(extent);
        return "wrong: combiner " + std::to_string(of.combiner) +
               (of.scan ? " scans" : " reduces") + (of.scan && of.reverse ? " in reverse" : "") +
               " axis " + std::to_string(of.axis) + " of" + shape + " with " +
               std::to_string(warps) + " warps\n  on " + name;
      }
    }
  } catch (const Error &error) {
    return error.what();
  }
  return std::nullopt;
}

} // namespace sectile::fuzz
