// Prints and assertions of kernels: their text, their order, and how they come to the host.
#include "Devices.h"
#include <gmock/gmock.h>

using namespace sectile;
using testing::ElementsAre;
using testing::HasSubstr;

namespace {

/// What kernels print while it lives.
class Printed {
public:
  Printed() {
    before = set_print_handler([this](std::string_view more) { text += more; });
  }
  ~Printed() { set_print_handler(before); }

  std::string take() { return std::exchange(text, ""); }

private:
  std::string text;
  PrintHandler before;
};

SECTILE_ON_DEVICES(DevicePrint);

TEST_P(DevicePrint, ScalarsOfEachProgramInOrder) {
  Printed printed;
  Kernel kernel{"scalars", [](Int n, Float x) {
                  device_print("n and x: ", n + program_id(0), x);
                  device_print("done");
                }};
  kernel.launch(device.stream(), {2, 2}, 5, 0.5f);
  device.stream().synchronize();
  EXPECT_EQ(printed.take(), "scalars (0, 0, 0): n and x: 5, 0.5\n"
                            "scalars (0, 0, 0): done\n"
                            "scalars (1, 0, 0): n and x: 6, 0.5\n"
                            "scalars (1, 0, 0): done\n"
                            "scalars (0, 1, 0): n and x: 5, 0.5\n"
                            "scalars (0, 1, 0): done\n"
                            "scalars (1, 1, 0): n and x: 6, 0.5\n"
                            "scalars (1, 1, 0): done\n");
  device.stream().synchronize();
  EXPECT_EQ(printed.take(), "");
}

TEST_P(DevicePrint, WholeTilesInOrder) {
  Printed printed;
  Kernel kernel{"tiles", [] {
                  auto i = arange(0, 4), j = arange(0, 20);
                  device_print("x = ", expand(i, 1) * 100 + expand(j, 0));
                  device_print("i = ", cast<float>(i) / 2);
                }};
  kernel.launch(device.stream(), 1);
  device.synchronize();
  EXPECT_EQ(printed.take(),
            "tiles (0, 0, 0): x = i32[4, 20]\n"
            "  [0, 0]     0   1   2   3   4   5   6   7   8   9  10  11  12  13  14  15\n"
            "  [0, 16]   16  17  18  19\n"
            "  [1, 0]   100 101 102 103 104 105 106 107 108 109 110 111 112 113 114 115\n"
            "  [1, 16]  116 117 118 119\n"
            "  [2, 0]   200 201 202 203 204 205 206 207 208 209 210 211 212 213 214 215\n"
            "  [2, 16]  216 217 218 219\n"
            "  [3, 0]   300 301 302 303 304 305 306 307 308 309 310 311 312 313 314 315\n"
            "  [3, 16]  316 317 318 319\n"
            "tiles (0, 0, 0): i = f32[4]\n"
            "  [0]    0 0.5   1 1.5\n");
}

TEST_P(DevicePrint, EveryType) {
  Printed printed;
  Kernel kernel{"types", [](Ptr<float> p) {
                  auto i = arange(0, 2);
                  auto x = cast<float>(i) - 0.5f;
                  device_print("integers", i == 1, cast<std::int8_t>(x * 4),
                               cast<std::uint8_t>(i + 254), cast<std::int16_t>(i - 300),
                               cast<std::uint32_t>(i - 1), cast<std::int64_t>(i - 1) << 40,
                               cast<std::uint64_t>(i - 1));
                  device_print("floats", cast<half>(x), cast<bfloat16>(x), cast<float8_e4m3>(x),
                               cast<float8_e5m2>(x), cast<double>(x) / 3, log(x));
                  device_print(hex("bits"), i + 10, cast<half>(x), i == 0);
                  device_print("pointers", p + i);
                  device_print("pointer", p);
                }};
  auto buffer = device.allocate<float>(2);
  kernel.launch(device.stream(), 1, buffer);
  device.synchronize();
  auto address = [&](uint64_t offset) {
    char text[32];
    std::snprintf(text, sizeof text, "0x%016llx",
                  static_cast<unsigned long long>(buffer.memory().address() + offset));
    return std::string(text);
  };
  EXPECT_EQ(printed.take(), "types (0, 0, 0): integers \n"
                            " #0 bool[2]\n  [0]  false  true\n"
                            " #1 i8[2]\n  [0]  -2  2\n"
                            " #2 u8[2]\n  [0]  254 255\n"
                            " #3 i16[2]\n  [0]  -300 -299\n"
                            " #4 u32[2]\n  [0]  4294967295          0\n"
                            " #5 i64[2]\n  [0]  -1099511627776              0\n"
                            " #6 u64[2]\n  [0]  18446744073709551615                    0\n"
                            "types (0, 0, 0): floats \n"
                            " #0 f16[2]\n  [0]  -0.5  0.5\n"
                            " #1 bf16[2]\n  [0]  -0.5  0.5\n"
                            " #2 f8e4m3[2]\n  [0]  -0.5  0.5\n"
                            " #3 f8e5m2[2]\n  [0]  -0.5  0.5\n"
                            " #4 f64[2]\n  [0]  -0.16666666666666666  0.16666666666666666\n"
                            " #5 f32[2]\n  [0]         nan -0.6931472\n"
                            "types (0, 0, 0): bits \n"
                            " #0 i32[2]\n  [0]  0x0000000a 0x0000000b\n"
                            " #1 f16[2]\n  [0]  0xb800 0x3800\n"
                            " #2 bool[2]\n  [0]  0x01 0x00\n"
                            "types (0, 0, 0): pointers ptr[2]\n  [0]  " +
                                address(0) + " " + address(4) + "\n" + "types (0, 0, 0): pointer " +
                                address(0) + "\n");
}

TEST_P(DevicePrint, LoopsAndBranchesPrintInTheirOrder) {
  Printed printed;
  Kernel kernel{"loop", [](Int n) {
                  for (auto k : range(0, n)) {
                    when(k % 2 == 1, [&] { device_print("odd ", k, arange(0, 4) + k); });
                    device_print("k = ", k);
                  }
                }};
  kernel.launch(device.stream(), 1, 3);
  device.synchronize();
  EXPECT_EQ(printed.take(), "loop (0, 0, 0): k = 0\n"
                            "loop (0, 0, 0): odd \n #0 i32 1\n #1 i32[4]\n  [0]  1 2 3 4\n"
                            "loop (0, 0, 0): k = 1\n"
                            "loop (0, 0, 0): k = 2\n");
}

TEST_P(DevicePrint, WhatIsTooMuchIsCounted) {
  if (GetParam() == "interpreter")
    GTEST_SKIP() << "prints without a log";
  Printed printed;
  Kernel kernel{"much", [] { device_print("x", zeros<float>(64, 128)); }};
  kernel.launch(device.stream(), 40);
  device.synchronize();
  const std::string text = printed.take();
  EXPECT_THAT(text, HasSubstr("much (0, 0, 0)"));
  EXPECT_THAT(text, HasSubstr("9 prints were dropped: the log of 1024 KiB was full\n"));
  Kernel little{"little", [] { device_print("again"); }};
  little.launch(device.stream(), 1);
  device.synchronize();
  EXPECT_EQ(printed.take(), "little (0, 0, 0): again\n");
}

TEST_P(DevicePrint, CanBeLeftOut) {
  Printed printed;
  Kernel kernel{"quiet", [](Ptr<int> p) {
                  device_print("x", arange(0, 4));
                  device_assert(program_id(0) > 5, "never");
                  store(p, 7);
                }};
  auto result = device.allocate<int>(1);
  kernel.launch(device.stream(), 1, result, LaunchOptions{.debug = false});
  EXPECT_THAT(result.download(), ElementsAre(7));
  EXPECT_EQ(printed.take(), "");
  kernel.launch(device.stream(), 1, result, LaunchOptions{.debug = true});
  EXPECT_THROW(device.synchronize(), AssertionError);
  EXPECT_NE(printed.take(), "");
}

//===-- Assertions
//--------------------------------------------------------------------------------===//

SECTILE_ON_DEVICES(DeviceAssert);

/// What waiting throws; fails the test where it throws nothing.
template <class F> AssertionError thrownBy(F &&wait) {
  try {
    wait();
  } catch (const AssertionError &error) {
    return error;
  }
  ADD_FAILURE() << "no AssertionError";
  return AssertionError({}, 0);
}

/// Programs from 2 on end before they store; the others do.
constexpr unsigned lineOfAssert = __LINE__ + 4;
auto &upToTwo() {
  static Kernel kernel{"up_to_two", [](Ptr<int> p, Int limit) {
                         auto id = program_id(0);
                         device_assert(id < limit, "the program is one of the first");
                         store(p + id, id + 100);
                       }};
  return kernel;
}

TEST_P(DeviceAssert, EndsTheProgramAndThrowsAtTheNextWait) {
  auto result = device.upload(std::vector<int>(5, -1));
  upToTwo().launch(device.stream(), 5, result, 2);
  const AssertionError error = thrownBy([&] { device.stream().synchronize(); });
  EXPECT_EQ(error.message(), "the program is one of the first");
  EXPECT_EQ(error.kernel(), "up_to_two");
  EXPECT_EQ(error.file(), __FILE__);
  EXPECT_EQ(error.line(), lineOfAssert);
  EXPECT_THAT(error.program(), ElementsAre(2, 0, 0));
  EXPECT_THAT(error.index(), ElementsAre());
  EXPECT_EQ(error.others(), 2u);
  EXPECT_EQ(std::string(error.what()),
            std::string(__FILE__) + ":" + std::to_string(lineOfAssert) +
                ": assertion failed in kernel 'up_to_two', program (2, 0, 0): the program is one "
                "of the first (2 more programs failed)");
  // Reported once; the device works as before, and the other programs' results are there.
  device.stream().synchronize();
  EXPECT_THAT(result.download(), ElementsAre(100, 101, -1, -1, -1));
  upToTwo().launch(device.stream(), 5, result, 5);
  EXPECT_THAT(result.download(), ElementsAre(100, 101, 102, 103, 104));
}

TEST_P(DeviceAssert, OfATileTellsTheFirstElement) {
  Kernel kernel{"tile", [](Ptr<const int> p, Int columns) {
                  auto i = arange(0, 48), j = arange(0, 80);
                  auto x = load(p + (expand(i, 1) * 80 + expand(j, 0)));
                  device_assert(x >= 0, "x is not negative");
                  device_assert(load(p + arange(0, 3)) < columns, "x is a column");
                }};
  std::vector<int> values(48 * 80, 3);
  values[17 * 80 + 9] = values[17 * 80 + 11] = values[30 * 80 + 2] = -1;
  auto x = device.upload(values);
  kernel.launch(device.stream(), 1, x, 80);
  EXPECT_THAT(thrownBy([&] { device.synchronize(); }).index(), ElementsAre(17, 9));
  values.assign(48 * 80, 0);
  values[2] = 80;
  x.upload(values);
  kernel.launch(device.stream(), 1, x, 80);
  const AssertionError error = thrownBy([&] { device.synchronize(); });
  EXPECT_THAT(error.index(), ElementsAre(2));
  EXPECT_EQ(error.message(), "x is a column");
  x.upload(std::vector<int>(48 * 80, 79));
  kernel.launch(device.stream(), 1, x, 80);
  device.synchronize();
}

TEST_P(DeviceAssert, EveryWayOfWaitingReports) {
  auto result = device.allocate<int>(3);
  const Stream stream = device.new_stream();
  upToTwo().launch(stream, 3, result, 2);
  EXPECT_THROW(stream.synchronize(), AssertionError);
  upToTwo().launch(stream, 3, result, 2);
  const Event event = stream.record();
  EXPECT_THROW(event.synchronize(), AssertionError);
  upToTwo().launch(stream, 3, result, 2);
  EXPECT_THROW(device.synchronize(), AssertionError);
  upToTwo().launch(stream, 3, result, 2);
  EXPECT_THROW(result.download(), AssertionError);
  upToTwo().launch(stream, 3, result, 2);
  EXPECT_THROW(result.upload(std::vector<int>(3)), AssertionError);
  device.synchronize();
}

TEST_P(DeviceAssert, IsOfItsStream) {
  auto result = device.allocate<int>(3);
  const Stream one = device.new_stream(), other = device.new_stream();
  upToTwo().launch(one, 3, result, 2);
  upToTwo().launch(other, 3, result, 3);
  other.synchronize();
  device.stream().synchronize();
  EXPECT_THAT(thrownBy([&] { one.synchronize(); }).program(), ElementsAre(2, 0, 0));
  {
    const Stream gone = device.new_stream();
    upToTwo().launch(gone, 3, result, 0);
  }
  one.synchronize();
  EXPECT_THAT(thrownBy([&] { device.synchronize(); }).program(), ElementsAre(0, 0, 0));
}

TEST_P(DeviceAssert, InLoopsAndBranches) {
  Kernel kernel{"search", [](Ptr<int> p, Int n) {
                  for (auto k : range(0, n)) {
                    when(k == 3, [&] { device_assert(load(p + k) == 0, "p[3] is zero"); });
                    store(p + k, 7);
                  }
                }};
  auto p = device.upload(std::vector<int>{0, 0, 0, 5, 0});
  kernel.launch(device.stream(), 1, p, 5);
  EXPECT_THROW(device.synchronize(), AssertionError);
  EXPECT_THAT(p.download(), ElementsAre(7, 7, 7, 5, 0));
}

// The loads of a pipelined loop are not issued before the assertion that guards them.
TEST_P(DeviceAssert, GuardsLoadsOfALoop) {
  Kernel kernel{"guarded", [](View<const half, 2> a, View<float, 2> c, Int blocks, Int limit) {
                  auto acc = zeros<float>(32, 32);
                  for (auto k : range(0, blocks, {.stages = 3})) {
                    device_assert(k < limit, "in range");
                    auto x = load(a.ptr() + (expand(arange(0, 32), 1) * 32 +
                                             expand(arange(0, 32), 0) + k * 1024));
                    acc = dot(x, x, acc);
                  }
                  c.tile(32, 32).store(0, 0, acc);
                }};
  auto a = device.upload(std::vector<half>(3 * 1024, half(1)));
  auto c = device.upload(std::vector<float>(1024, -1));
  auto launch = [&](int blocks) {
    kernel.launch(device.stream(), 1, tensor(a, {96, 32}), tensor(c, {32, 32}), blocks, 3);
  };
  launch(5);
  EXPECT_THROW(device.synchronize(), AssertionError);
  EXPECT_EQ(c.download()[0], -1);
  launch(3);
  EXPECT_EQ(c.download()[0], 96);
}

TEST_P(DeviceAssert, InFunctionsAndWhileLoops) {
  constexpr unsigned line = __LINE__ + 3;
  const Function digit{"digit", [](Tile<int> n, Int place) {
                         auto value = n % 10;
                         device_assert(value != 7, "no sevens");
                         device_print("digit ", place, value);
                         return value;
                       }};
  Kernel kernel{"digits", [&](Ptr<int> sums, Tile<int> n) {
                  Tile<int> sum = 0;
                  Int place = 0;
                  loop_while([&] { return n > 0; },
                             [&] {
                               sum += digit(n, place);
                               n = n / 10;
                               place += 1;
                             });
                  store(sums, sum);
                }};
  Printed printed;
  auto sums = device.upload(std::vector<int>{-1});
  kernel.launch(device.stream(), 1, sums, 321);
  EXPECT_THAT(sums.download(), ElementsAre(6));
  EXPECT_EQ(printed.take(), "digits (0, 0, 0): digit 0, 1\n"
                            "digits (0, 0, 0): digit 1, 2\n"
                            "digits (0, 0, 0): digit 2, 3\n");
  kernel.launch(device.stream(), 1, sums, 271);
  EXPECT_EQ(thrownBy([&] { device.synchronize(); }).line(), line);
  EXPECT_EQ(printed.take(), "digits (0, 0, 0): digit 0, 1\n");
  EXPECT_THAT(sums.download(), ElementsAre(6));
}

TEST_P(DeviceAssert, OfCapturedLaunches) {
  auto result = device.upload(std::vector<int>(3));
  const Stream stream = device.new_stream();
  const auto launch = [&] { upToTwo().launch(stream, 3, result, 1); };
  prepare(launch); // the log, too
  stream.begin_capture();
  launch();
  const Graph graph = stream.end_capture();
  stream.synchronize();
  graph.launch(device.stream());
  EXPECT_THAT(thrownBy([&] { device.stream().synchronize(); }).program(), ElementsAre(1, 0, 0));
  graph.launch(device.stream());
  EXPECT_THROW(result.download(), AssertionError);
  device.synchronize();
}

TEST_P(DeviceAssert, BesideAFault) {
  if (!GetParam().starts_with("virtual:"))
    GTEST_SKIP() << "a chip loses the device";
  Printed printed;
  Kernel kernel{"faulty", [](Ptr<int> p) {
                  auto id = program_id(0);
                  device_print("id = ", id);
                  device_assert(id != 0, "not the first");
                  store(p + id * 2, 1); // beyond the end
                }};
  auto p = device.upload(std::vector<int>(2));
  std::string fault;
  try {
    kernel.launch(device.stream(), 2, p);
  } catch (const AssertionError &) {
    fault = "an assertion's";
  } catch (const DeviceError &error) {
    fault = error.what();
  }
  EXPECT_THAT(fault, HasSubstr("store of"));
  EXPECT_THAT(printed.take(), HasSubstr("faulty (1, 0, 0): id = 1\n"));
  EXPECT_EQ(thrownBy([&] { device.stream().synchronize(); }).message(), "not the first");
  EXPECT_THAT(p.download(), ElementsAre(0, 0));
}

} // namespace
