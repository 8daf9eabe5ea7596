// Stores to parts of one view: no barriers where the launch says that the view's elements have
// different addresses, and right results where rows overlap.
#include "Devices.h"
#include <algorithm>

namespace sc = sectile;
using sc::half;

namespace {

SECTILE_ON_DEVICES(OverlappingRows);

constexpr int rows = 2, columns = 64, width = 16;

// Adds 1 to each element of a view, a tile of columns after the other.
sc::Kernel addOne{"add_one", [](sc::View<float, 2> y) {
                    const auto blocks = y.tile(rows, width);
                    for (auto j : sc::range(0, sc::cdiv(y.extent(1), width)))
                      blocks.store(0, j, blocks.load(0, j) + 1.f);
                  }};

// The tile after the one that was stored is loaded: rows of one are columns of the other.
sc::Kernel shifted{"shifted", [](sc::View<float, 2> y) {
                     const auto blocks = y.tile(rows, width);
                     for (auto j : sc::range(0, sc::cdiv(y.extent(1), width) - 1))
                       blocks.store(0, j, blocks.load(0, j + 1));
                   }};

std::vector<float> expected(bool shifts, int stride) {
  std::vector<float> y((rows - 1) * stride + columns);
  for (std::size_t i = 0; i < y.size(); ++i)
    y[i] = static_cast<float>(i % 51);
  for (int j = 0; j < columns / width - shifts; ++j) {
    std::vector<float> tile;
    for (int row = 0; row < rows; ++row)
      for (int i = 0; i < width; ++i)
        tile.push_back(y[row * stride + (j + shifts) * width + i] + !shifts);
    for (int row = 0; row < rows; ++row)
      std::copy_n(&tile[row * width], width, &y[row * stride + j * width]);
  }
  return y;
}

TEST_P(OverlappingRows, AreStoredInOrder) {
  // Rows that overlap by whole tiles, and such that do not; in one process, each has its version.
  for (const int stride : {width, columns, 3 * width, columns + 8, 2 * width})
    for (const bool shifts : {false, true}) {
      std::vector<float> start((rows - 1) * stride + columns);
      for (std::size_t i = 0; i < start.size(); ++i)
        start[i] = static_cast<float>(i % 51);
      auto y = device.upload(start);
      const auto view = sc::Tensor<float, 2>(y.data(), {rows, columns}, {stride, 1});
      if (shifts)
        shifted.launch(device.stream(), 1, view);
      else
        addOne.launch(device.stream(), 1, view);
      EXPECT_EQ(y.download(), expected(shifts, stride)) << stride << (shifts ? " shifted" : "");
    }
}

// Of one matrix: RoPE's two halves, a loop over column tiles, an update in place.
sc::Kernel halves{"halves", [](sc::View<const half, 2> x, sc::View<half, 2> y) {
                    auto in = x.tile(16, 64);
                    auto out = y.tile(16, 64);
                    auto i = sc::program_id(0);
                    auto a = in.load(i, 0), b = in.load(i, 1);
                    out.store(i, 0, a - b);
                    out.store(i, 1, a + b);
                  }};
sc::Kernel looped{"looped", [](sc::View<const half, 2> x, sc::View<half, 2> y) {
                    auto in = x.tile(16, 64);
                    auto out = y.tile(16, 64);
                    for (auto j : sc::range(0, sc::cdiv(x.extent(1), 64)))
                      out.store(sc::program_id(0), j, in.load(sc::program_id(0), j) * 2.f);
                  }};
sc::Kernel inPlace{"in_place", [](sc::View<half, 2> y) {
                     auto out = y.tile(16, 64);
                     for (auto i : sc::range(0, sc::cdiv(y.extent(0), 16))) {
                       auto a = out.load(i, 0), b = out.load(i, 1);
                       out.store(i, 0, a - b);
                       out.store(i, 1, a + b);
                     }
                   }};
// Of one of many matrices, and with the axes the other way.
sc::Kernel ofMany{"of_many", [](sc::View<half, 3> y) {
                    auto out = y.at(sc::program_id(0)).transposed().tile(64, 16);
                    for (auto j : sc::range(0, sc::cdiv(y.extent(2), 64)))
                      out.store(j, 0, out.load(j, 0) * 2.f);
                  }};

int barriers(const std::string &text) {
  int count = 0;
  for (const char *word : {"bar.sync", "barrier.sync", "s_barrier"})
    for (auto at = text.find(word); at != std::string::npos; at = text.find(word, at + 1))
      ++count;
  return count;
}

TEST(DistinctElements, NeedNoBarrierBetweenPartsOfAView) {
  const auto counts = [](const char *target, const char *form, std::int64_t stride) {
    const sc::Tensor<half, 2> x(nullptr, {64, 128}, {stride, 1});
    const sc::Tensor<half, 3> many(nullptr, {4, 16, 128}, {16 * stride, stride, 1});
    return std::vector{
        barriers(halves.emit(target, form, x, x)), barriers(looped.emit(target, form, x, x)),
        barriers(inPlace.emit(target, form, x)), barriers(ofMany.emit(target, form, many))};
  };
  const std::pair<const char *, const char *> forms[] = {
      {"sm_80", "ptx"}, {"sm_90a", "ptx"}, {"gfx942", "amdgcn"}, {"gfx1100", "amdgcn"}};
  for (const auto &[target, form] : forms) {
    EXPECT_EQ(counts(target, form, 128), (std::vector{0, 0, 0, 0})) << target;
    EXPECT_EQ(counts(target, form, 136), (std::vector{0, 0, 0, 0})) << target;
    for (const int count : counts(target, form, 120))
      EXPECT_GT(count, 0) << target << ": rows overlap";
  }
}

} // namespace
