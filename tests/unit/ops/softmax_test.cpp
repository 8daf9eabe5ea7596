// softmax on every device, against C++ in double.
#include "Devices.h"
#include <cmath>

using namespace sectile;

SECTILE_ON_DEVICES(Softmax);

namespace {

template <class T> void check(const Device &device, int axis) {
  constexpr int rows = 3, columns = 80;
  std::vector<T> x;
  for (int i = 0; i < rows * columns; ++i)
    x.push_back(static_cast<T>(static_cast<float>(i * 37 % 101) * 0.25f - 10));
  Kernel kernel{"softmax", [axis](Ptr<const T> in, Ptr<T> out) {
                  auto at = expand(arange(0, rows), 1) * columns + arange(0, columns);
                  store(out + at, softmax(load(in + at), axis));
                }};
  auto out = device.allocate<T>(x.size());
  kernel.launch(device.stream(), 1, device.upload(x), out);
  const auto got = out.download();
  const double epsilon = std::max(static_cast<double>(std::numeric_limits<T>::epsilon()), 1e-14);
  for (int row = 0; row < rows; ++row)
    for (int column = 0; column < columns; ++column) {
      const bool isLast = axis == -1 || axis == 1;
      double total = 0, most = -INFINITY;
      auto value = [&](int i) {
        const int at = isLast ? row * columns + i : i * columns + column;
        return static_cast<double>(x[static_cast<size_t>(at)]);
      };
      for (int i = 0; i < (isLast ? columns : rows); ++i)
        most = std::max(most, value(i));
      for (int i = 0; i < (isLast ? columns : rows); ++i)
        total += std::exp(value(i) - most);
      const double want = std::exp(value(isLast ? column : row) - most) / total;
      ASSERT_NEAR(static_cast<double>(got[static_cast<size_t>(row * columns + column)]), want,
                  want * 8 * epsilon + 1e-7)
          << row << " " << column;
    }
}

TEST_P(Softmax, AlongEitherAxis) {
  for (int axis : {-1, 0, 1}) {
    check<float>(device, axis);
    check<half>(device, axis);
  }
  check<double>(device, 1);
  check<bfloat16>(device, -1);
}

TEST_P(Softmax, SpecialRows) {
  const float inf = INFINITY;
  const std::vector<float> x = {1000, 1000, -inf, 1000, -inf, -inf, -inf, -inf};
  Kernel kernel{"softmax", [](Ptr<const float> in, Ptr<float> out) {
                  auto at = expand(arange(0, 2), 1) * 4 + arange(0, 4);
                  store(out + at, softmax(load(in + at)));
                }};
  auto out = device.allocate<float>(8);
  kernel.launch(device.stream(), 1, device.upload(x), out);
  const auto got = out.download();
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_FLOAT_EQ(got[i], i == 2 ? 0 : 1 / 3.0f);
    EXPECT_TRUE(std::isnan(got[4 + i]));
  }
}

} // namespace
