// What the tests of typed functions share: arrays to call them with, and that they do what calls by
// name do, in the memory that they are given.
#pragma once
#include "../ops/Devices.h"
#include "tests/unit/Message.h"
#include <cmath>
#include <gmock/gmock.h>
#include <sectile/kernels.h>

namespace sectile::test {

class Typed : public OnDevice {
protected:
  const Stream &stream = device.stream();

  template <class T = float, std::size_t N>
  Tensor<T, static_cast<int>(N)> numbers(const detail::Length (&extents)[N], int seed = 1) {
    std::size_t count = 1;
    for (const detail::Length &extent : extents)
      count *= static_cast<std::size_t>(extent.value);
    std::vector<T> values;
    for (std::size_t i = 0; i < count; ++i)
      values.push_back(T(
          static_cast<float>((i * 37 + static_cast<std::size_t>(seed) * 11) % 29) * 0.125f - 1.5f));
    return tensor(device.upload(values), extents);
  }
  template <class T = float, std::size_t N>
  Tensor<T, static_cast<int>(N)> room(const detail::Length (&extents)[N]) {
    const auto result = numbers<T>(extents);
    Buffer<T>(result.memory()).poison();
    return result;
  }
};

template <class T, int N>
void expectSame(const Tensor<T, N> &typed, const NamedTensors &named, const char *name) {
  const auto got = typed.download(), want = named.at(name).as<T, N>().download();
  ASSERT_EQ(got.size(), want.size()) << name;
  for (std::size_t i = 0; i < got.size(); ++i) {
    ASSERT_TRUE(std::isfinite(static_cast<double>(want[i]))) << name;
    ASSERT_EQ(static_cast<double>(got[i]), static_cast<double>(want[i])) << name << " " << i;
  }
}

// Given and returned are the same memory.
template <class T, int N> void expectPlace(const Tensor<T, N> &typed, const Tensor<T, N> &given) {
  EXPECT_EQ(typed.data(), given.data());
  EXPECT_EQ(typed.strides(), given.strides());
}

} // namespace sectile::test
