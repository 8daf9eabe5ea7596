// Loops of products that skip some of their blocks, as those that a mask hides: what a block
// multiplies is copied ahead all the same, and nothing is read for one that is skipped.
#include "ops/Devices.h"
#include "tests/unit/LoopPlans.h"
#include "vgpu/VirtualDevice.h"
#include <gmock/gmock.h>

using namespace sectile;
using testing::HasSubstr;

namespace {

[[maybe_unused]] const bool plans = alwaysWithLoopPlans();

using In = View<const half, 2>;

struct Form {
  int loaded = 0;    ///< a number in memory says whether a block is there, not an argument
  int otherwise = 0; ///< where it is not, another one is
  int special = 0;   ///< warps of their own copy
  int pointers = 0;  ///< loads by pointers
  int m = 128, warps = 8, stages = 3;
};
SECTILE_CONFIG(Form, loaded, otherwise, special, pointers, m, warps, stages)

constexpr int n = 64, width = 64;

Kernel product{"skipped_blocks", [](In a, In b, Ptr<const int> places, View<float, 2> o, Int blocks,
                                    Int there, const Form &form) {
                 auto i = program_id(0);
                 auto sums = zeros<float>(form.m, n);
                 for (auto k : range(0, blocks, 1, {.warp_specialize = form.special != 0})) {
                   auto add = [&](const Int &block) {
                     const auto left = [&] {
                       const auto places = expand(i * form.m + arange(0, form.m), 1) * a.stride(0) +
                                           expand(block * width + arange(0, width), 0);
                       return form.pointers ? load(a.ptr() + places)
                                            : a.tile(form.m, width).load(i, block);
                     };
                     sums = dot(left(), b.tile(width, n).load(block, 0), sums);
                   };
                   Bool isThere = (there >> k) % 2 != 0;
                   if (form.loaded)
                     isThere = load(places + k) >= 0;
                   if (form.otherwise)
                     when(isThere, [&] { add(k); }, [&] { add(Int(0)); });
                   else
                     when(isThere, [&] { add(k); });
                 }
                 o.tile(form.m, n).store(i, 0, sums);
               }};

struct SkippedBlocks : test::OnDevice {
  static constexpr int rows = 2 * 128, blocks = 7, depth = blocks * width;
  std::vector<half> a, b;

  SkippedBlocks() {
    std::uint32_t state = 7;
    auto fill = [&](std::vector<half> &numbers, int count) {
      for (int i = 0; i < count; ++i) {
        state = state * 1664525 + 1013904223;
        numbers.push_back(half(float(int(state >> 29) - 4)));
      }
    };
    fill(a, rows * depth);
    fill(b, depth * n);
  }

  void check(const Form &form, int count, int there) {
    auto as = device.upload(a), bs = device.upload(b);
    std::vector<int> places;
    for (int k = 0; k < blocks; ++k)
      places.push_back(there >> k & 1 ? k : -1);
    auto ps = device.upload(places);
    auto results = device.upload(std::vector<float>(rows * n, -1));
    auto *machine = device.name().starts_with("virtual:")
                        ? static_cast<runtime::VirtualDevice *>(device.impl().get())
                        : nullptr;
    if (machine)
      machine->countAccesses();
    product.launch(device.stream(), {rows / form.m}, tensor(as, {rows, depth}),
                   tensor(bs, {depth, n}), ps, tensor(results, {rows, n}), count, there, form);
    const std::vector<float> found = results.download();
    std::vector<float> wanted(rows * n);
    int taken = 0;
    for (int k = 0; k < count; ++k) {
      const bool isThere = there >> k & 1;
      if (!isThere && !form.otherwise)
        continue;
      ++taken;
      const int first = isThere ? k * width : 0;
      for (int i = 0; i < rows; ++i)
        for (int c = first; c < first + width; ++c)
          for (int j = 0; j < n; ++j)
            wanted[std::size_t(i * n + j)] +=
                float(a[std::size_t(i * depth + c)]) * float(b[std::size_t(c * n + j)]);
    }
    ASSERT_EQ(found, wanted);
    if (!machine)
      return;
    for (const vgpu::AllocationCounters &each : machine->lastAllocations())
      if (each.address == as.memory().address()) {
        EXPECT_EQ(each.sectorsRead, std::uint64_t(taken) * rows * width * 2 / 32);
      }
  }
};
SECTILE_INSTANTIATE_ON(SkippedBlocks,
                       "interpreter,virtual:sm_80,virtual:sm_90a,virtual:gfx942,virtual:gfx1100");

TEST_P(SkippedBlocks, AnyOfThem) {
  for (const int there : {0b1011001, 0, 0b1111111, 0b1000000, 0b0000001})
    for (const int count : {0, 1, 2, 7}) {
      SCOPED_TRACE(testing::Message() << there << " of " << count);
      check({}, count, there);
    }
}

TEST_P(SkippedBlocks, InEveryForm) {
  for (const int loaded : {0, 1})
    for (const int otherwise : {0, 1})
      for (const int special : {0, 1})
        for (const int stages : {2, 3, 4}) {
          SCOPED_TRACE(testing::Message() << loaded << otherwise << special << " " << stages);
          check({.loaded = loaded, .otherwise = otherwise, .special = special, .stages = stages},
                blocks, 0b0110101);
        }
}

TEST_P(SkippedBlocks, ByPointers) {
  for (const int there : {0b0110101, 0, 0b1000000})
    check({.pointers = 1}, blocks, there);
}

TEST(SkippedBlocksCode, AreCopiedAhead) {
  const Device device = Device::open("interpreter");
  auto halves = device.upload(std::vector<half>(256 * 512));
  auto places = device.upload(std::vector<int>(8));
  auto results = device.upload(std::vector<float>(256 * n));
  for (const int loaded : {0, 1}) {
    const Form form{.loaded = loaded};
    auto code = [&](const char *target) {
      return product.emit(target, "cta", tensor(halves, {256, 512}), tensor(halves, {512, n}),
                          places, tensor(results, {256, n}), 8, 3, form);
    };
    // Nothing is copied for a block that is skipped.
    EXPECT_THAT(code("sm_80"), AllOf(HasSubstr("cta.async_wait"),
                                     testing::ContainsRegex("cta\\.async_copy .* filled ")));
    EXPECT_THAT(code("sm_90a"), testing::ContainsRegex("cta\\.tensor_copy .* filled "));
  }
}

} // namespace
