// The places of small integers in the order of the integers, equals in the order of their places:
// by their digits of eight bits, the lowest first. Each pass counts how often each digit is in each
// chunk, adds the counts up, and moves every chunk's elements, sorted by the digit, to where they
// go. Nothing depends on which program is first, so the order is the same every time.
#pragma once
#include "kernels/calls/Use.h"
#include <bit>

namespace sectile {

struct SortPlacesConfig {
  int chunk = 1024, warps = 4;
  int shift = 0;     // of the digit
  bool first = true; // elements lie at their places
};

constexpr int sortDigits = 256;

template <class Number> Int digitsOf(const Tile<Number> &numbers, const SortPlacesConfig &config) {
  return cast<Index>(cast<std::int32_t>(numbers) >> config.shift & (sortDigits - 1));
}

// counts is [digits][chunks].
template <class Number>
inline const Kernel sortCount{
    "sort_count",
    [](View<const Number, 1> numbers, Ptr<std::int32_t> counts, const SortPlacesConfig &config) {
      auto chunk = program_id(0);
      auto inside = chunk * config.chunk + arange(0, config.chunk) < numbers.extent(0);
      auto digits = digitsOf(numbers.tile(config.chunk).load(chunk), config);
      store(counts + arange(0, sortDigits) * num_programs(0) + chunk,
            histogram(digits, sortDigits, inside));
    }};

// Each count becomes the sum of those before it.
inline const Kernel sortOffsets{
    "sort_offsets", [](View<std::int32_t, 1> counts, const SortPlacesConfig &config) {
      Scalar<std::int32_t> before = 0;
      for (auto block : range(0, cdiv(counts.extent(0), config.chunk))) {
        auto own = counts.tile(config.chunk).load(block);
        counts.tile(config.chunk).store(block, cumsum(own, 0) - own + before);
        before += sum(own, 0);
      }
    }};

template <class Number>
inline const Kernel sortMove{
    "sort_move", [](View<const Number, 1> numbers, View<const std::int32_t, 1> places,
                    Ptr<const std::int32_t> offsets, Ptr<std::int32_t> toNumbers,
                    Ptr<std::int32_t> toPlaces, const SortPlacesConfig &config) {
      const int n = config.chunk;
      auto chunk = program_id(0);
      auto at = arange(0, n);
      auto inside = chunk * n + at < numbers.extent(0);
      auto own = numbers.tile(n).load(chunk);
      auto digits = digitsOf(own, config);
      auto counts = histogram(digits, sortDigits, inside);
      auto before = cumsum(counts, 0) - counts; // in this chunk
      auto place = config.first ? cast<std::int32_t>(chunk * n + at) : places.tile(n).load(chunk);
      auto keys = where(inside, cast<std::int32_t>(digits), sortDigits);
      auto [digit, number, from] = sort(std::tuple(keys, cast<std::int32_t>(own), place), 0);
      auto there = digit < sortDigits;
      auto known = minimum(digit, sortDigits - 1);
      auto to =
          load(offsets + known * cast<std::int32_t>(num_programs(0)) + cast<std::int32_t>(chunk),
               there) +
          cast<std::int32_t>(at) - gather(before, known, 0);
      store(toNumbers + to, number, there);
      store(toPlaces + to, from, there);
    }};

// Where the numbers 0, 1, … count − 1 begin among the sorted ones, and where the last one ends.
inline const Kernel sortStarts{
    "sort_starts", [](View<const std::int32_t, 1> numbers, View<std::int32_t, 1> starts, Int steps,
                      const SortPlacesConfig &config) {
      // Places and numbers have 32 bits, whatever the width of an extent.
      auto number = cast<std::int32_t>(program_id(0) * config.chunk + arange(0, config.chunk));
      auto low = zeros_like(number);
      auto high = full_like(number, cast<std::int32_t>(numbers.extent(0)));
      for ([[maybe_unused]] auto step : range(0, steps)) {
        auto middle = low + (high - low) / 2;
        auto open = low < high;
        auto less = load(numbers.ptr() + middle, open) < number;
        low = where(open && less, middle + 1, low);
        high = where(open && !less, middle, high);
      }
      starts.tile(config.chunk).store(program_id(0), low);
    }};

struct SortedPlaces {
  Tensor<std::int32_t, 1> places, starts;
};

// Of numbers in [0, count).
template <class Number>
SortedPlaces sortPlaces(Use &use, const Tensor<Number, 1> &numbers, std::int64_t count) {
  SortPlacesConfig config;
  const std::int64_t length = numbers.extent(0), chunks = ceilDiv(length, config.chunk);
  const auto counts = use.workspace<std::int32_t, 1>({sortDigits * chunks});
  std::vector<Tensor<std::int32_t, 1>> keys, places;
  for (int i = 0; i < 2; ++i) {
    keys.push_back(use.workspace<std::int32_t, 1>({length}));
    places.push_back(use.workspace<std::int32_t, 1>({length}));
  }
  const int bits = std::bit_width(static_cast<std::uint64_t>(std::max<std::int64_t>(count, 2) - 1));
  std::size_t to = 0;
  auto pass = [&](const auto &from) {
    using Kind = std::remove_const_t<std::remove_pointer_t<decltype(from.data())>>;
    use(sortCount<Kind>, chunks, from, counts, config);
    use(sortOffsets, 1, counts, config);
    use(sortMove<Kind>, chunks, from, places[1 - to], counts, keys[to], places[to], config);
  };
  pass(numbers);
  for (config.first = false, config.shift = 8; config.shift < bits; config.shift += 8) {
    to = 1 - to;
    pass(keys[1 - to]);
  }
  const auto starts = use.workspace<std::int32_t, 1>({count + 1});
  use(sortStarts, ceilDiv(count + 1, config.chunk), keys[to], starts,
      std::bit_width(static_cast<std::uint64_t>(length)), config);
  return {places[to], starts};
}

} // namespace sectile
