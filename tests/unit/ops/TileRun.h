// Runs a function of tiles in a kernel: whole tiles in, a whole tile out.
#pragma once
#include "Apply.h"
#include <gmock/gmock.h>

namespace sectile::test {

using Shape = std::vector<std::int64_t>;

// Calls function(line) for every line of the tile along the axis.
template <class T, class F>
void forLines(std::vector<T> &values, const Shape &shape, std::size_t axis, F function) {
  std::size_t inner = 1;
  for (std::size_t d = axis + 1; d < shape.size(); ++d)
    inner *= static_cast<std::size_t>(shape[d]);
  const std::size_t extent = static_cast<std::size_t>(shape[axis]);
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (i / inner % extent != 0)
      continue;
    std::vector<T> line;
    for (std::size_t j = 0; j < extent; ++j)
      line.push_back(values[i + j * inner]);
    function(line);
    for (std::size_t j = 0; j < extent; ++j)
      values[i + j * inner] = line[j];
  }
}

inline std::size_t elementsOf(std::span<const std::int64_t> shape) {
  std::size_t count = 1;
  for (std::int64_t extent : shape)
    count *= static_cast<std::size_t>(extent);
  return count;
}

// Row-major numbers of a tile's elements.
inline Int numbersOf(std::span<const std::int64_t> shape) {
  Int result = 0;
  std::int64_t stride = 1;
  for (std::size_t d = shape.size(); d-- > 0; stride *= shape[d]) {
    Int along = arange(0, shape[d]);
    for (std::size_t behind = d + 1; behind < shape.size(); ++behind)
      along = expand(along, -1);
    result = result + along * stride;
  }
  return result;
}

// function(tile) of a tile of `shape` that holds `in`; the result's elements, row-major.
template <class Out, class In, class F>
std::vector<Out> runOn(const Device &device, const std::vector<In> &in, const Shape &shape,
                       std::size_t results, F function, unsigned warps = 4) {
  using Stored = std::conditional_t<std::same_as<Out, bool>, std::uint8_t, Out>;
  Kernel kernel{"tiles", [=](Ptr<const In> x, Ptr<Stored> y) {
                  auto result = function(load(x + numbersOf(shape)));
                  if constexpr (std::same_as<Stored, Out>)
                    store(y + numbersOf(result.shape()), result);
                  else
                    store(y + numbersOf(result.shape()), cast<Stored>(result));
                }};
  auto out = device.allocate<Stored>(results);
  kernel.launch(device.stream(), 1, device.upload(in), out, {.warps = warps});
  const std::vector<Stored> got = out.download();
  return std::vector<Out>(got.begin(), got.end());
}

} // namespace sectile::test
