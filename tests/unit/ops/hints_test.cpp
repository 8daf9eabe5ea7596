// Promises about values: what they change in the code, and what the checked mode says where they do
// not hold.
#include "Devices.h"
#include "vgpu/HostDevice.h"
#include <gmock/gmock.h>
#include <numeric>

using namespace sectile;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

namespace {

// Said in every launch, whatever the environment says.
LaunchOptions checked() { return {.checked = true}; }
LaunchOptions unchecked() { return {.checked = false}; }

/// What a launch and the wait for it say: an assertion, or what the interpreter finds by itself.
struct Report {
  std::string text;
  unsigned line = 0;
  std::vector<std::int64_t> index;
};
template <class F> Report reportOf(const Device &device, F &&launch) {
  try {
    launch();
    device.synchronize();
  } catch (const AssertionError &error) {
    return {error.message(), error.line(), error.index()};
  } catch (const runtime::FoundFault &fault) {
    return {fault.finding.message, fault.finding.line, {}};
  }
  return {};
}

//===-- What promises change
//-----------------------------------------------------------------------===//

TEST(Hints, MultipleOfWidensLoads) {
  auto body = [](bool promised) {
    return [promised](Ptr<const float> x, Ptr<float> y, Ptr<const int> start) {
      Tile<int> first = load(start);
      if (promised)
        first = multiple_of(first, 4);
      store(y + arange(0, 512), load(x + (first + arange(0, 512))));
    };
  };
  Kernel plain{"plain", body(false)}, promised{"promised", body(true)};
  const float *x = nullptr;
  float *y = nullptr;
  const int *start = nullptr;
  EXPECT_THAT(plain.emit("sm_80", "ptx", x, y, start, unchecked()), Not(HasSubstr("ld.global.v4")));
  EXPECT_THAT(promised.emit("sm_80", "ptx", x, y, start, unchecked()), HasSubstr("ld.global.v4"));
}

// A promise about a value that a loop carries: what comes back need not keep it.
TEST(Hints, LoopsMayAssumeOfWhatTheyCarry) {
  Kernel kernel{"chunks", [](Ptr<int> y, Int count, Int n) {
                  Int left = count;
                  for (auto j : range(0, 8)) {
                    assume(left >= 0);
                    store(y + (j * 64 + arange(0, 64)), minimum(left, n) + arange(0, 64) * 0);
                    left = left - n;
                  }
                  store(y + 512, left / 16);
                }};
  for (const std::string &name : test::devices()) {
    SCOPED_TRACE(name);
    const Device device = Device::open(name);
    auto y = device.allocate<int>(513);
    kernel.launch(device.stream(), 1, y, 7 * 12 + 3, 12);
    const auto got = y.download();
    EXPECT_EQ(got[0], 12);
    EXPECT_EQ(got[7 * 64], 3);
    EXPECT_EQ(got[512], 0) << "what is left afterwards, -9, may be negative";
  }
}

TEST(Hints, RunsWidenLoadsInEitherOrder) {
  auto body = [](auto hint) {
    return [hint](Ptr<const half> x, Ptr<half> y, Ptr<const int> places) {
      store(y + arange(0, 512), load(x + hint(load(places + arange(0, 512)))));
    };
  };
  Kernel plain{"plain", body([](auto i) { return i; })};
  Kernel one{"one", body([](auto i) { return contiguous(multiple_of(i, 8), 8); })};
  Kernel other{"other", body([](auto i) { return multiple_of(contiguous(i, 8), 8); })};
  Kernel unaligned{"unaligned", body([](auto i) { return contiguous(i, 8); })};
  const half *x = nullptr;
  half *y = nullptr;
  const int *places = nullptr;
  // Four halves of a thread in one access.
  auto ptx = [&](const auto &kernel) {
    return kernel.emit("sm_80", "ptx", x, y, places, unchecked());
  };
  EXPECT_THAT(ptx(plain), Not(HasSubstr("ld.global.v2")));
  EXPECT_THAT(ptx(unaligned), Not(HasSubstr("ld.global.v2")));
  EXPECT_THAT(ptx(one), HasSubstr("ld.global.v2"));
  EXPECT_THAT(ptx(other), HasSubstr("ld.global.v2"));
}

TEST(Hints, ConstantRunsWidenMaskedAccesses) {
  auto body = [](bool promised) {
    return [promised](Ptr<float> y, Int n) {
      auto group = arange(0, 512) / n;
      if (promised)
        group = constant(group, 4);
      store(y + arange(0, 512), 1.0f, group % 2 == 0);
    };
  };
  Kernel plain{"plain", body(false)}, promised{"promised", body(true)};
  float *y = nullptr;
  EXPECT_THAT(plain.emit("sm_80", "ptx", y, 36, unchecked()), Not(HasSubstr("st.global.v4")));
  EXPECT_THAT(promised.emit("sm_80", "ptx", y, 36, unchecked()), HasSubstr("st.global.v4"));
}

TEST(Hints, AssumptionsWidenAccesses) {
  auto body = [](bool promised) {
    return [promised](Ptr<const float> x, Ptr<float> y, Int n, Int stride) {
      if (promised) {
        assume(n % 16 == 0 && (stride & 3) == 0 && stride >= 0);
        assume(true);
      }
      auto i = arange(0, 512);
      store(y + i, load(x + stride + i, i < n), i < n);
    };
  };
  Kernel plain{"plain", body(false)}, promised{"promised", body(true)};
  const float *x = nullptr;
  float *y = nullptr;
  EXPECT_THAT(plain.emit("sm_80", "ptx", x, y, 511, 3, unchecked()), Not(HasSubstr(".v4")));
  const std::string ptx = promised.emit("sm_80", "ptx", x, y, 511, 3, unchecked());
  EXPECT_THAT(ptx, HasSubstr("ld.global.v4"));
  EXPECT_THAT(ptx, HasSubstr("st.global.v4"));
}

//===-- What promises mean
//-------------------------------------------------------------------------===//

SECTILE_ON_DEVICES(Promises);

TEST_P(Promises, ThatHoldChangeNoResult) {
  Kernel kernel{"copy", [](Ptr<const int> x, Ptr<int> y, Int n) {
                  assume(n % 16 == 0);
                  auto i = multiple_of(contiguous(arange(0, 64), 16), 16);
                  auto j = constant(arange(0, 4) / 4, 4);
                  auto places =
                      multiple_of(contiguous(expand(i, 0) + expand(j, 1) * 64, 1, 16), 1, 16);
                  store(y + (expand(i, 0) + expand(arange(0, 4), 1) * 64),
                        load(contiguous(x + places, 1, 4), places < n) + 1, places < n);
                }};
  auto x = device.upload(std::vector<int>(64, 4)), y = device.upload(std::vector<int>(256));
  for (bool check : {false, true}) {
    kernel.launch(device.stream(), 1, x, y, 48, LaunchOptions{.checked = check});
    std::vector<int> expected(256);
    for (int i = 0; i < 256; ++i)
      expected[i] = i % 64 < 48 ? 5 : 0;
    EXPECT_EQ(y.download(), expected);
  }
}

TEST_P(Promises, AreVerifiedWhereChecked) {
  Kernel kernel{"promises", [](Ptr<const int> x, Int n) {
                  assume(n < 5);
                  auto values = load(x + arange(0, 32));
                  (void)multiple_of(values, 4);
                  (void)contiguous(values, 8);
                  (void)constant(expand(values, 0), 1, 2);
                }};
  auto run = [&](const std::vector<int> &values, int n, LaunchOptions options) {
    auto x = device.upload(values);
    return reportOf(device, [&] { kernel.launch(device.stream(), 1, x, n, options); }).text;
  };
  std::vector<int> all(32);
  if (GetParam() != "interpreter") { // which always verifies
    EXPECT_EQ(run(all, 5, unchecked()), "");
  }
  EXPECT_EQ(run(all, 5, checked()), "what sc::assume promises does not hold");
  EXPECT_THAT(run(all, 4, checked()), HasSubstr("sc::contiguous promises"));
  for (int i = 0; i < 32; ++i)
    all[static_cast<size_t>(i)] = 100 + i;
  EXPECT_THAT(run(all, 4, checked()), HasSubstr("sc::constant promises"));
  all[4] = 99;
  EXPECT_THAT(run(all, 4, checked()), HasSubstr("sc::multiple_of promises"));
}

TEST_P(Promises, AboutPointersAreVerifiedToo) {
  Kernel kernel{"pointers", [](Ptr<float> x, Int offset, Int stride) {
                  auto p = contiguous(x + offset + arange(0, 32) * stride, 4);
                  store(multiple_of(p, 4), 1.0f);
                }};
  auto x = device.allocate<float>(100);
  auto run = [&](int offset, int stride) {
    return reportOf(device,
                    [&] { kernel.launch(device.stream(), 1, x, offset, stride, checked()); })
        .text;
  };
  EXPECT_EQ(run(4, 1), "");
  EXPECT_THAT(run(3, 1), HasSubstr("sc::multiple_of promises"));
  EXPECT_THAT(run(4, 2), HasSubstr("sc::contiguous promises"));
}

//===-- 32-bit arithmetic of addresses
//--------------------------------------------------------------===//

SECTILE_ON_DEVICES(CheckedOffsets);

TEST_P(CheckedOffsets, AProductThatOverflowsIsFound) {
  constexpr unsigned line = __LINE__ + 3;
  Kernel kernel{"rows", [](Ptr<float> x, Int row, Int stride) {
                  auto i = arange(0, 32);
                  auto start = row * stride;
                  auto offset = start + i;
                  store(x + offset, 1.0f);
                }};
  auto x = device.allocate<float>(1024);
  kernel.launch(device.stream(), 1, x, 3, 16, checked());
  device.synchronize();
  EXPECT_EQ(x.download()[3 * 16 + 31], 1.0f);
  const Report report =
      reportOf(device, [&] { kernel.launch(device.stream(), 1, x, 70'000, 70'000, checked()); });
  if (GetParam() == "interpreter") { // where the address is used
    EXPECT_EQ(report.line, line + 2);
    EXPECT_THAT(report.text, HasSubstr("did not fit"));
    EXPECT_THAT(report.text, HasSubstr("sc::cast<std::int64_t>"));
    return;
  }
  EXPECT_EQ(report.line, line);
  EXPECT_THAT(report.text, HasSubstr("a product of 32 bits that feeds an address overflows"));
  EXPECT_THAT(report.text, HasSubstr("sc::cast<std::int64_t>"));
}

TEST_P(CheckedOffsets, OfATileThroughLoopsAndBranches) {
  constexpr unsigned line = __LINE__ + 4;
  Kernel kernel{"loop", [](Ptr<const int> x, Ptr<int> y, Int n, Int step) {
                  auto offset = arange(0, 16);
                  for (auto k : range(0, n)) {
                    when(k > 0, [&] { offset += step; });
                  }
                  store(y + arange(0, 16), load(x + offset, offset < 64));
                }};
  std::vector<int> values(64);
  std::iota(values.begin(), values.end(), 0);
  auto x = device.upload(values);
  auto y = device.allocate<int>(16);
  kernel.launch(device.stream(), 1, x, y, 4, 10, checked());
  EXPECT_EQ(y.download(), std::vector<int>(values.begin() + 30, values.begin() + 46));
  // The third step takes the last element beyond 2^31.
  const int third = 715'827'882;
  kernel.launch(device.stream(), 1, x, y, 3, third, checked());
  device.synchronize();
  const Report report =
      reportOf(device, [&] { kernel.launch(device.stream(), 1, x, y, 4, third, checked()); });
  if (GetParam() == "interpreter") {
    EXPECT_EQ(report.line, line + 2);
    EXPECT_THAT(report.text, HasSubstr("did not fit"));
    return;
  }
  EXPECT_EQ(report.line, line);
  EXPECT_THAT(report.text, HasSubstr("a sum of 32 bits"));
  EXPECT_THAT(report.index, ElementsAre(2));
}

TEST_P(CheckedOffsets, WhatAMaskHidesMayOverflow) {
  Kernel kernel{"masked", [](Ptr<const int> x, Ptr<int> y, Int row, Int stride) {
                  auto i = arange(0, 32);
                  auto taken = i == 0 || i == row;
                  auto offset = expand(i * stride, 1) + expand(i, 0) * 2;
                  auto value = load(x + offset, expand(taken, 1));
                  store(y + where(i == 0, i * stride, 0), sum(value, 1), i == 0);
                }};
  auto x = device.upload(std::vector<int>(64, 3)), y = device.upload(std::vector<int>(1));
  constexpr int stride = 1 << 30;
  kernel.launch(device.stream(), 1, x, y, 0, stride, checked());
  EXPECT_THAT(y.download(), ElementsAre(96));
  // Four times the stride is 2^32, which would be taken for 0.
  const Report report =
      reportOf(device, [&] { kernel.launch(device.stream(), 1, x, y, 4, stride, checked()); });
  EXPECT_THAT(report.text,
              testing::AnyOf(HasSubstr("a product of 32 bits"), HasSubstr("did not fit")));
}

TEST_P(CheckedOffsets, WhatIsHashedMayWrap) {
  Kernel kernel{"hash", [](Ptr<int> x, Tile<std::uint32_t> key) {
                  auto hashed = (cast<std::uint32_t>(arange(0, 32)) + key) * 2654435761u;
                  store(x + hashed % 64u, 1);
                  store(x + (hashed >> 26), 1);
                }};
  auto x = device.upload(std::vector<int>(64));
  kernel.launch(device.stream(), 1, x, 12345u, checked());
  const std::vector<int> got = x.download();
  for (std::uint32_t i = 0; i < 32; ++i) {
    const std::uint32_t hashed = (i + 12345u) * 2654435761u;
    EXPECT_EQ(got[hashed % 64], 1);
    EXPECT_EQ(got[hashed >> 26], 1);
  }
}

TEST_P(CheckedOffsets, WhatIsWideOrSmallHasNoChecks) {
  Kernel kernel{"wide", [](Ptr<float> x, Int row, Int stride) {
                  auto i = arange(0, 32) + arange(0, 32) * 7 + program_id(1) * 64;
                  store(x + (cast<std::int64_t>(row) * stride + i), 1.0f);
                }};
  EXPECT_THAT(kernel.emit("sm_80", "tile", static_cast<float *>(nullptr), 3, 4, checked()),
              Not(HasSubstr("cta.assert")));
  Kernel narrow{"narrow", [](Ptr<float> x, Int row, Int stride) { store(x + row * stride, 1.0f); }};
  EXPECT_THAT(narrow.emit("sm_80", "tile", static_cast<float *>(nullptr), 3, 4, checked()),
              HasSubstr("cta.assert"));
  EXPECT_THAT(narrow.emit("sm_80", "tile", static_cast<float *>(nullptr), 3, 4, unchecked()),
              Not(HasSubstr("cta.assert")));
}

// Only Int has to fit (wrapping_test.cpp has what typed integers do).
TEST_P(CheckedOffsets, TypedIntegersWrap) {
  Kernel kernel{"naturals", [](Ptr<float> x, Tile<std::uint32_t> a, Tile<std::uint32_t> b) {
                  store(x - 3'000'000'000 + (a + b), 1.0f);
                }};
  for (const auto [a, b] :
       {std::pair(2'000'000'000u, 1'000'000'001u), std::pair(4'000'000'000u, 3'294'967'297u)}) {
    auto x = device.upload(std::vector<float>(2));
    kernel.launch(device.stream(), 1, x, a, b, checked());
    EXPECT_EQ(x.download()[1], 1.0f);
  }
}

// An Int that overflowed is found where it is divided, too, unless it is a hash.
TEST_P(CheckedOffsets, AQuotientOfWhatOverflowedIsFound) {
  if (GetParam() == "interpreter")
    GTEST_SKIP() << "the interpreter takes what is divided as it has wrapped";
  Kernel kernel{"rows", [](Ptr<float> x, Int block) { store(x + block * 64 / 1024 % 32, 1.0f); }};
  auto x = device.upload(std::vector<float>(32));
  kernel.launch(device.stream(), 1, x, 1000, checked());
  device.synchronize();
  const Report report =
      reportOf(device, [&] { kernel.launch(device.stream(), 1, x, 1 << 26, checked()); });
  EXPECT_THAT(report.text, HasSubstr("a product of 32 bits"));
  Kernel hash{"hash",
              [](Ptr<float> x, Int block) { store(x + abs(block * 1103515245 % 32), 1.0f); }};
  hash.launch(device.stream(), 1, x, 1 << 26, checked());
  device.synchronize();
}

// Offsets inside views have 64 bits, checked or not. The view has 2^38 elements, of which one row
// is where x points.
TEST_P(CheckedOffsets, OfViewsDoNotOverflow) {
  Kernel kernel{"view", [](Ptr<float> x, Int rows, Int stride, Tile<int> block) {
                  auto first = cast<std::int64_t>(block) * 64;
                  View<float, 2> view(x - first * stride, {rows, 32}, {stride, 1});
                  view.tile(64, 32).store(block, 0, expand(cast<float>(arange(0, 64)), 1) + 1.0f);
                }};
  constexpr std::int64_t rows = std::int64_t{1} << 33, stride = 32;
  constexpr int block = (1 << 27) - 1;
  auto x = device.upload(std::vector<float>(64 * 32));
  for (bool check : {false, true}) {
    x.upload(std::vector<float>(64 * 32));
    kernel.launch(device.stream(), 1, x, rows, stride, block, LaunchOptions{.checked = check});
    const std::vector<float> got = x.download();
    EXPECT_EQ(got[0], 1.0f);
    EXPECT_EQ(got[31], 1.0f);
    EXPECT_EQ(got[64 * 32 - 1], 64.0f);
  }
}

} // namespace
