// Runs a function of tiles on a device, element by element over vectors of any length.
#pragma once
#include "Devices.h"
#include <array>
#include <vector>

namespace sectile::test {

template <class T, class F> void eachOf(const Tile<T> &tile, F use) { use(tile); }
template <class T, std::size_t N, class F> void eachOf(const std::array<T, N> &tiles, F use) {
  for (const T &tile : tiles)
    use(tile);
}

// What f(tiles...) gives for these elements: one tile of R, or an array of them, whose elements
// then follow each other in the result.
template <class R, class F, class First, class... T>
std::vector<R> apply(const Device &device, F f, const std::vector<First> &first,
                     const std::vector<T> &...rest) {
  constexpr int block = 256;
  const auto n = static_cast<std::int64_t>(first.size());
  int results = 0;
  Kernel kernel{"apply",
                [f, &results](Ptr<const First> x, Ptr<const T>... xs, Ptr<R> out, Int count) {
                  auto i = program_id(0) * block + arange(0, block);
                  auto inside = i < count;
                  results = 0;
                  eachOf(f(load(x + i, inside), load(xs + i, inside)...), [&](const auto &tile) {
                    store(out + (count * results++ + i), cast<R>(tile), inside);
                  });
                }};
  constexpr std::size_t most = 4;
  auto out = device.allocate<R>(first.size() * most);
  kernel.launch(device.stream(), {static_cast<unsigned>(cdiv(n, block))}, device.upload(first),
                device.upload(rest)..., out, n);
  std::vector<R> all = out.download();
  all.resize(first.size() * static_cast<std::size_t>(results));
  return all;
}

} // namespace sectile::test
