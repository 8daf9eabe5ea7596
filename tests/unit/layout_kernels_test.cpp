// Layouts at work: kernels whose shapes, warps and targets make every kind of conversion, reduction
// and dot, run on the virtual GPU with its checks on, with results that are exact.
#include "ops/Devices.h"
#include "tests/unit/layout_random.h"
#include <sectile/sectile.h>

using namespace sectile;

namespace {

struct Matrix {
  int rows = 1, columns = 1, warps = 4;
};
SECTILE_CONFIG(Matrix, rows, columns, warps)

struct Cube {
  int x = 1, y = 1, z = 1, axis = 0, warps = 4;
};
SECTILE_CONFIG(Cube, x, y, z, axis, warps)

struct Product {
  int m = 16, n = 16, k = 16, steps = 1, warps = 4;
};
SECTILE_CONFIG(Product, m, n, k, steps, warps)

Kernel transposed{"transposed", [](Ptr<const float> x, Ptr<float> y, const Matrix &size) {
                    auto from = expand(arange(0, size.rows), 1) * size.columns +
                                expand(arange(0, size.columns), 0);
                    auto to = expand(arange(0, size.columns), 1) * size.rows +
                              expand(arange(0, size.rows), 0);
                    store(y + to, trans(load(x + from)));
                  }};

// Of each element the distance from the sum along an axis; and the sums.
Kernel deviations{
    "deviations", [](Ptr<const int> x, Ptr<int> y, Ptr<int> sums, const Cube &size) {
      auto at =
          expand(expand(arange(0, size.x), 1) * size.y + expand(arange(0, size.y), 0), 2) * size.z +
          expand(expand(arange(0, size.z), 0), 0);
      auto value = load(x + at);
      auto total = sum(value, size.axis);
      store(y + at, value - expand(total, size.axis));
      int first = size.axis == 0 ? size.y : size.x, second = size.axis == 2 ? size.y : size.z;
      store(sums + expand(arange(0, first), 1) * second + expand(arange(0, second), 0), total);
    }};

template <class T>
Kernel product{"product", [](Ptr<const T> a, Ptr<const T> b, Ptr<float> c, const Product &size) {
                 auto m = expand(arange(0, size.m), 1), n = expand(arange(0, size.n), 0);
                 auto kRow = expand(arange(0, size.k), 0), kColumn = expand(arange(0, size.k), 1);
                 const int depth = size.k * size.steps;
                 auto sums = zeros<float>(size.m, size.n);
                 for (auto step : range(size.steps)) {
                   auto x = load(a + m * depth + (kRow + step * size.k));
                   auto y = load(b + (kColumn + step * size.k) * size.n + n);
                   sums = dot(x, y, sums, Precision::ieee);
                 }
                 store(c + m * size.n + n, sums);
               }};

// A product of a product, whose operand is the first one's accumulator less its rows' maximum.
Kernel chained{
    "chained", [](Ptr<const half> a, Ptr<const half> b, Ptr<float> c, const Product &size) {
      auto m = expand(arange(0, size.m), 1);
      auto x = load(a + m * size.k + expand(arange(0, size.k), 0));
      auto y = load(b + expand(arange(0, size.n), 1) * size.k + expand(arange(0, size.k), 0));
      auto first = dot(x, trans(y));
      auto rest = first - expand(max(first, 1), 1);
      auto second = dot(cast<half>(rest), y);
      store(c + m * size.k + expand(arange(0, size.k), 0), second);
    }};

class LayoutKernels : public test::OnDevice {
protected:
  test::Random random;

  template <class T> std::vector<T> numbers(size_t count, int limit) {
    std::vector<T> result(count);
    for (T &number : result)
      number = T(float(int(random.below(2 * limit + 1)) - limit));
    return result;
  }
};
SECTILE_INSTANTIATE_ON(LayoutKernels, "virtual:sm_80,virtual:sm_90,virtual:gfx942,virtual:gfx1100");

TEST_P(LayoutKernels, Transpose) {
  for (auto [rows, columns] :
       {std::pair(64, 64), {96, 32}, {40, 24}, {3, 5}, {1, 128}, {176, 16}, {2, 2}})
    for (int warps : {1, 4}) {
      SCOPED_TRACE(std::to_string(rows) + "x" + std::to_string(columns) + " by " +
                   std::to_string(warps) + ", " + random.message());
      auto host = numbers<float>(size_t(rows) * columns, 1000);
      auto x = device.upload(host);
      auto y = device.allocate<float>(host.size());
      y.poison();
      transposed.launch(device.stream(), 1, x, y,
                        {.rows = rows, .columns = columns, .warps = warps});
      auto got = y.download();
      for (int i = 0; i < rows; ++i)
        for (int j = 0; j < columns; ++j)
          ASSERT_EQ(got[j * rows + i], host[i * columns + j]) << i << ", " << j;
    }
}

TEST_P(LayoutKernels, ReduceAndBroadcast) {
  for (auto [x, y, z] : {std::tuple(4, 8, 64), {3, 16, 10}, {64, 2, 6}, {1, 1, 48}, {24, 5, 8}})
    for (int axis : {0, 1, 2})
      for (int warps : {1, 8}) {
        SCOPED_TRACE(std::to_string(x) + "x" + std::to_string(y) + "x" + std::to_string(z) +
                     " along " + std::to_string(axis) + " by " + std::to_string(warps) + ", " +
                     random.message());
        auto host = numbers<int>(size_t(x) * y * z, 1000);
        const int extents[] = {x, y, z};
        auto source = device.upload(host);
        auto distances = device.allocate<int>(host.size());
        auto sums = device.allocate<int>(host.size() / extents[axis]);
        distances.poison();
        sums.poison();
        deviations.launch(device.stream(), 1, source, distances, sums,
                          {.x = x, .y = y, .z = z, .axis = axis, .warps = warps});
        std::vector<int> want(sums.size());
        auto place = [&](size_t i) {
          int at[] = {int(i) / z / y, int(i) / z % y, int(i) % z};
          size_t index = 0;
          for (int d = 0; d < 3; ++d)
            if (d != axis)
              index = index * extents[d] + at[d];
          return index;
        };
        for (size_t i = 0; i < host.size(); ++i)
          want[place(i)] += host[i];
        ASSERT_EQ(sums.download(), want);
        auto got = distances.download();
        for (size_t i = 0; i < host.size(); ++i)
          ASSERT_EQ(got[i], host[i] - want[place(i)]) << i;
      }
}

template <class T>
void checkProduct(Device &device, const std::vector<T> &a, const std::vector<T> &b, Product size) {
  SCOPED_TRACE(std::to_string(size.m) + "x" + std::to_string(size.n) + "x" +
               std::to_string(size.k) + " by " + std::to_string(size.warps));
  auto c = device.allocate<float>(size_t(size.m) * size.n);
  c.poison();
  product<T>.launch(device.stream(), 1, device.upload(a), device.upload(b), c, size);
  auto got = c.download();
  const int depth = size.k * size.steps;
  for (int i = 0; i < size.m; ++i)
    for (int j = 0; j < size.n; ++j) {
      float want = 0;
      for (int k = 0; k < depth; ++k)
        want += float(a[i * depth + k]) * float(b[k * size.n + j]);
      ASSERT_EQ(got[i * size.n + j], want) << i << ", " << j;
    }
}

TEST_P(LayoutKernels, Dot) {
  for (Product size : {Product{16, 8, 16}, Product{64, 64, 32, 3}, Product{48, 176, 48, 1, 2},
                       Product{128, 96, 48, 2, 8}, Product{4, 4, 4}, Product{32, 40, 12, 2}}) {
    SCOPED_TRACE(random.message());
    const size_t depth = size_t(size.k) * size.steps;
    checkProduct(device, numbers<half>(size.m * depth, 4), numbers<half>(depth * size.n, 4), size);
    checkProduct(device, numbers<float>(size.m * depth, 4), numbers<float>(depth * size.n, 4),
                 size);
  }
}

TEST_P(LayoutKernels, ChainedDots) {
  for (Product size :
       {Product{64, 64, 32}, Product{128, 32, 48, 1, 8}, Product{16, 16, 16, 1, 2}}) {
    SCOPED_TRACE(random.message());
    auto a = numbers<half>(size_t(size.m) * size.k, 2),
         b = numbers<half>(size_t(size.n) * size.k, 2);
    auto c = device.allocate<float>(a.size());
    c.poison();
    chained.launch(device.stream(), 1, device.upload(a), device.upload(b), c, size);
    auto got = c.download();
    for (int i = 0; i < size.m; ++i) {
      std::vector<float> row(size.n);
      for (int j = 0; j < size.n; ++j)
        for (int k = 0; k < size.k; ++k)
          row[j] += float(a[i * size.k + k]) * float(b[j * size.k + k]);
      const float most = *std::max_element(row.begin(), row.end());
      for (int k = 0; k < size.k; ++k) {
        float want = 0;
        for (int j = 0; j < size.n; ++j)
          want += (row[j] - most) * float(b[j * size.k + k]);
        ASSERT_EQ(got[i * size.k + k], want) << i << ", " << k;
      }
    }
  }
}

} // namespace
