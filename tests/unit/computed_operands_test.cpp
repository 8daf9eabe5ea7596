// Products whose left operand threads compute, written plainly: where a dot reads registers, the
// next iteration computes its operand beside the dot in flight. For any number of iterations, on
// every device.
#include "Processes.h"
#include "ops/Devices.h"
#include "tests/unit/LoopPlans.h"
#include <cmath>
#include <gmock/gmock.h>
#include <sectile/sectile.h>

using namespace sectile;
using testing::AllOf;
using testing::HasSubstr;

namespace {

[[maybe_unused]] const bool plans = alwaysWithLoopPlans();

using In = View<const half, 2>;
using Codes = View<const int8_t, 2>;

/// What an operand is made of.
enum Source { squared, fromCodes, sigmoids, products };

struct Form {
  int source = squared;
  int rescaled = 0; ///< the loop halves its sums first
  int tiles = 0;    ///< a program does one block after another
  int special = 1;  ///< warps of their own copy
  int m = 128, warps = 8, stages = 3;
};
SECTILE_CONFIG(Form, source, rescaled, tiles, special, m, warps, stages)

constexpr int n = 128, width = 64;

Kernel product{"computed_operand", [](In a, In others, Codes codes, In b, View<float, 2> o,
                                      Int blocks, const Form &form) {
                 auto operand = [&](const Int &i, const Int &k) -> Tile<half> {
                   if (form.source == fromCodes)
                     return cast<half>(codes.tile(form.m, width).load(i, k)) * 0.0625f;
                   Tile<half> x = a.tile(form.m, width).load(i, k);
                   switch (form.source) {
                   case squared:
                     return x * x;
                   case products:
                     return x * others.tile(form.m, width).load(i, k);
                   default:
                     return cast<half>(sigmoid(cast<float>(x)));
                   }
                 };
                 auto body = [&](const Int &i) {
                   auto sums = zeros<float>(form.m, n);
                   for (auto k : range(0, blocks, 1, {.warp_specialize = form.special != 0})) {
                     auto x = operand(i, k);
                     if (form.rescaled)
                       sums = sums * 0.5f;
                     sums = dot(x, b.tile(width, n).load(k, 0), sums);
                   }
                   o.tile(form.m, n).store(i, 0, sums);
                 };
                 if (form.tiles)
                   for (auto i : range(program_id(0), cdiv(a.extent(0), form.m), 2))
                     body(i);
                 else
                   body(program_id(0));
               }};

struct ComputedOperands : test::OnDevice {
  static constexpr int rows = 3 * 128, blocks = 5, depth = blocks * width - 24;
  std::vector<half> a, others, b;
  std::vector<int8_t> codes;

  ComputedOperands() {
    std::uint32_t state = 7;
    auto next = [&] {
      state = state * 1664525 + 1013904223;
      return int(state >> 24) - 128;
    };
    for (int i = 0; i < rows * depth; ++i) {
      a.push_back(half(float(next()) / 128));
      others.push_back(half(float(next()) / 128));
      codes.push_back(int8_t(next() / 8));
    }
    for (int i = 0; i < depth * n; ++i)
      b.push_back(half(float(next()) / 256));
  }

  std::vector<float> run(const Form &form, int count) {
    auto as = device.upload(a), os = device.upload(others), bs = device.upload(b);
    auto cs = device.upload(codes);
    auto results = device.upload(std::vector<float>(rows * n, -1));
    product.launch(device.stream(), {form.tiles ? 2 : rows / form.m}, tensor(as, {rows, depth}),
                   tensor(os, {rows, depth}), tensor(cs, {rows, depth}), tensor(bs, {depth, n}),
                   tensor(results, {rows, n}), count, form);
    return results.download();
  }

  double operand(const Form &form, int at) const {
    const double x = float(a[std::size_t(at)]);
    switch (form.source) {
    case squared:
      return float(half(float(x * x)));
    case fromCodes:
      return codes[std::size_t(at)] * 0.0625;
    case products:
      return float(half(float(x * float(others[std::size_t(at)]))));
    default:
      return 1 / (1 + std::exp(-x));
    }
  }

  void check(const Form &form, int count) {
    const std::vector<float> found = run(form, count);
    std::vector<double> wanted(rows * n);
    for (int i = 0; i < rows; ++i)
      for (int k = 0; k < std::min(count * width, depth); ++k) {
        if (k % width == 0 && form.rescaled)
          for (int j = 0; j < n; ++j)
            wanted[std::size_t(i * n + j)] *= 0.5;
        const double x = operand(form, i * depth + k);
        for (int j = 0; j < n; ++j)
          wanted[std::size_t(i * n + j)] += x * double(float(b[std::size_t(k * n + j)]));
      }
    // Sigmoids are rounded to halves: 2^-12 of each, times values of 0.25 in the mean.
    for (std::size_t i = 0; i < wanted.size(); ++i)
      ASSERT_NEAR(found[i], wanted[i], form.source == sigmoids ? 5e-3 : 1e-3)
          << "element " << i << " of " << count << " blocks";
  }
};
SECTILE_INSTANTIATE_ON(ComputedOperands, "interpreter,virtual:sm_80,virtual:sm_90a,virtual:gfx942");

TEST_P(ComputedOperands, AreRightForAnyNumberOfIterations) {
  SECTILE_LEAVE_TO_OTHERS("interpreter", "virtual:sm_80");
  for (int count = 0; count <= blocks; ++count)
    for (int special : {0, 1}) {
      check({.special = special}, count);
      check({.rescaled = 1, .special = special}, count);
    }
}

TEST_P(ComputedOperands, AreRightWhateverTheyAreMadeOf) {
  SECTILE_LEAVE_TO_OTHERS("interpreter", "virtual:sm_80");
  for (int source : {squared, fromCodes, sigmoids, products})
    for (int tiles : {0, 1}) {
      check({.source = source, .tiles = tiles}, blocks);
      check({.source = source, .tiles = tiles, .m = 64, .warps = 4, .stages = 4}, 4);
    }
}

TEST(ComputedOperandsCode, IsInFlightWhileTheNextIterationComputes) {
  auto device = Device::open("virtual:sm_90a");
  auto halves = device.allocate<half>(384 * 320);
  auto codes = device.allocate<int8_t>(384 * 320);
  auto sums = device.allocate<float>(384 * n);
  auto all = tensor(halves, {384, 320});
  // With so many registers as sigmoids take, one block less would share a multiprocessor.
  for (int source : {squared, fromCodes})
    for (int rescaled : {0, 1})
      EXPECT_THAT(product.emit("sm_90a", "cta", all, all, tensor(codes, {384, 320}),
                               tensor(halves, {320, n}), tensor(sums, {384, n}), 5,
                               Form{.source = source, .rescaled = rescaled, .special = 0}),
                  AllOf(HasSubstr("cta.dot_start"), HasSubstr(" behind ")))
          << source << rescaled;
}

} // namespace
