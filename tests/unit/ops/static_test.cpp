// What happens while a kernel is traced, on every device: loops over host numbers, checks, prints.
#include "TileRun.h"

using namespace sectile;
using namespace sectile::test;
using testing::HasSubstr;

namespace {

SECTILE_ON_DEVICES(Static);

TEST_P(Static, RangeOfExtents) {
  Kernel kernel{"static", [](Ptr<const std::int32_t> x, Ptr<std::int32_t> y) {
                  std::array<Tile<std::int32_t>, 4> sums;
                  for (auto i : static_range(4)) // an index of an array
                    sums[static_cast<std::size_t>(i)] = 0;
                  for (auto n : static_range(48, 0, -16)) // an extent, the largest first
                    sums[static_cast<std::size_t>(n / 16)] += sum(load(x + arange(0, n)));
                  for (auto n : static_range(3, 3))
                    sums[0] += n;
                  for (auto i : static_range(4))
                    store(y + i, sums[static_cast<std::size_t>(i)]);
                }};
  std::vector<std::int32_t> in(48);
  for (int i = 0; i < 48; ++i)
    in[static_cast<std::size_t>(i)] = i;
  auto out = device.allocate<std::int32_t>(4);
  kernel.launch(device.stream(), 1, device.upload(in), out);
  EXPECT_EQ(out.download(), (std::vector<std::int32_t>{0, 15 * 8, 31 * 16, 47 * 24}));
}

TEST_P(Static, CheckEndsTheTrace) {
  unsigned line = 0;
  auto doubled = [&](int extent) {
    const std::vector<float> in(static_cast<std::size_t>(extent), 2);
    return runOn<float>(device, in, {extent}, in.size(), [&](auto x) {
      line = __LINE__ + 1;
      static_check(x.extent(0) % 16 == 0, "extents are multiples of 16");
      return x * 2;
    });
  };
  EXPECT_EQ(doubled(32), std::vector<float>(32, 4));
  try {
    doubled(24);
    ADD_FAILURE() << "the check does not end the trace";
  } catch (const CompileError &error) {
    EXPECT_THAT(error.what(), HasSubstr("static_test.cpp"));
    EXPECT_THAT(error.what(), HasSubstr("extents are multiples of 16"));
    EXPECT_EQ(error.line(), line);
  }
}

TEST_P(Static, PrintsWhenTracedOnly) {
  Kernel kernel{"printing", [](Ptr<float> out) {
                  auto x = zeros<float>(8, 16);
                  static_print({"x is", x});
                  store(out + program_id(0), sum(x) + 1);
                }};
  auto out = device.allocate<float>(3);
  testing::internal::CaptureStdout();
  kernel.launch(device.stream(), 3, out);
  kernel.launch(device.stream(), 3, out);
  EXPECT_EQ(out.download(), (std::vector<float>{1, 1, 1}));
  const std::string text = testing::internal::GetCapturedStdout();
  const std::string line = "x is f32 tile of [8, 16]\n";
  EXPECT_THAT(text, HasSubstr("static_test.cpp:"));
  EXPECT_THAT(text, testing::EndsWith(line));
  EXPECT_EQ(text.find(line), text.rfind(line)) << text;
}

} // namespace
