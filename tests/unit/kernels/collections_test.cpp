// reduce, scan, sort, argsort, topk and histogram.
#include "KernelTest.h"
#include "tests/unit/Processes.h"
#include "vgpu/VirtualDevice.h"
#include <cmath>
#include <limits>
#include <sectile/error.h>
#include <sectile/library.h>

using namespace sectile;
using namespace sectile::test;

class Collections : public OnDevice {};
SECTILE_INSTANTIATE_ON(Collections, "virtual:sm_80,virtual:sm_90a");
class CollectionsElsewhere : public OnDevice {};
SECTILE_INSTANTIATE_ON(CollectionsElsewhere, "interpreter,virtual:gfx942,virtual:gfx1100");

namespace {

constexpr float notANumber = std::numeric_limits<float>::quiet_NaN();
constexpr float infinity = std::numeric_limits<float>::infinity();
const char *const dtypes[] = {"f32", "f16", "bf16", "i32"};
const char *const reductions[] = {"sum", "mean", "prod", "max", "min", "argmax", "argmin"};
const char *const scans[] = {"cumsum", "cumprod", "cummax", "cummin"};

bool isDefined(const char *op, std::string_view dtype) {
  return std::string_view(op) != "mean" || dtype != "i32";
}

// Close to 1, so that products of many stay finite; of integers 1, -1 and now and then 2.
void nearOne(const Invocation &, std::vector<HostArray> &inputs) {
  std::vector<double> values = inputs[0].to_double();
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = is_floating(inputs[0].dtype) ? 1 + 0.01 * values[i]
                : i % 37 == 5                ? 2
                : i % 3                      ? 1
                                             : -1;
  inputs[0].assign(values);
}

// Many equals, NaN, infinities and both zeros.
void special(const Invocation &, std::vector<HostArray> &inputs) {
  const double choices[] = {1, -0.0, 0.0, infinity, -infinity, notANumber, 2, -3, 1, 2};
  std::vector<double> values(static_cast<std::size_t>(inputs[0].count()));
  std::mt19937_64 random(3);
  for (double &value : values)
    do
      value = choices[random() % std::size(choices)];
    while (!is_floating(inputs[0].dtype) && !std::isfinite(value));
  inputs[0].assign(values);
}

KernelCase rowsCase(const char *kernel, std::int64_t n, Assignments options, const char *dtype) {
  KernelCase test{kernel, {{"...", 3}, {"N", n}}, std::move(options), {}, dtype};
  for (const auto &[name, value] : test.options)
    if (value.ends_with("prod"))
      test.prepare = nearOne;
  return test;
}

// Orders are exact: every bit but a NaN's.
std::vector<HostArray> expectSame(const Device &device, const KernelCase &test) {
  const auto outputs = expectRight(device, test);
  const Invocation call = resolveCase(test);
  auto inputs = sampleInputs(call, test.seed);
  if (test.prepare)
    test.prepare(call, inputs);
  const auto exact = referenceOutputs(call, inputs, Arithmetic::exact);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const auto got = outputs[i].to_double(), wanted = exact[i].to_double();
    for (std::size_t j = 0; j < got.size(); ++j) {
      const bool same = std::isnan(wanted[j]) ? std::isnan(got[j])
                                              : got[j] == wanted[j] &&
                                                    std::signbit(got[j]) == std::signbit(wanted[j]);
      EXPECT_TRUE(same) << device.name() << " " << test.describe() << " output " << i << " at " << j
                        << ": " << got[j] << " instead of " << wanted[j];
      if (!same)
        break;
    }
  }
  return outputs;
}

} // namespace

TEST_P(Collections, ReductionsOfAllTypes) {
  for (const char *dtype : dtypes)
    for (const char *op : reductions)
      if (isDefined(op, dtype))
        expectRight(device, rowsCase("reduce", 200, {{"op", op}}, dtype));
}

TEST_P(Collections, ReductionsOfAllLengths) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80");
  for (const char *op : reductions) {
    for (std::int64_t n : {1, 63, 64, 65})
      expectRight(device, rowsCase("reduce", n, {{"op", op}}, "f32"));
    // Parts of a row in programs of their own.
    KernelCase parts = rowsCase("reduce", 40001, {{"op", op}}, "f16");
    parts.config = {{"block", 512}, {"warps", 1}};
    expectRight(device, parts);
    parts.extents["..."] = 1;
    expectRight(device, parts);
    // Several rows in a program, of which the last is not full.
    for (std::int64_t n : {1, 40, 96, 300}) {
      KernelCase many = rowsCase("reduce", n, {{"op", op}}, "f16");
      many.extents["..."] = 37;
      expectRight(device, many);
    }
    parts.extents["..."] = 5;
    parts.config = {{"block", 768}, {"rows", 2}, {"warps", 2}};
    expectRight(device, parts);
    KernelCase none = rowsCase("reduce", 5, {{"op", op}}, "f32");
    none.extents["..."] = 0;
    expectRight(device, none);
  }
  for (const char *op : {"sum", "mean", "prod"}) // 0, NaN, 1
    expectRight(device, {"reduce", {{"N", 0}}, {{"op", op}}});
  expectRightWithStrides(device, {"reduce"});
}

TEST_P(Collections, ReductionsMeetNanAndTies) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_90a");
  for (const char *op : {"max", "min", "argmax", "argmin"})
    for (const char *dtype : dtypes)
      for (std::int64_t n : {100, 1000}) {
        KernelCase test = rowsCase("reduce", n, {{"op", op}}, dtype);
        test.config = {{"block", 64}, {"rows", n == 100 ? 4 : 1}, {"warps", 1}};
        test.prepare = special;
        expectRight(device, test);
        // Without a NaN: of equals the first.
        test.prepare = [](const Invocation &, std::vector<HostArray> &inputs) {
          fillIntegers(inputs[0], 3, 5);
        };
        expectSame(device, test);
      }
  for (const char *op : {"argmax", "argmin"}) { // all equal to what fills blocks up
    KernelCase test = rowsCase("reduce", 70, {{"op", op}}, "f32");
    test.prepare = [op](const Invocation &, std::vector<HostArray> &inputs) {
      const double worst = std::string_view(op) == "argmax" ? -infinity : infinity;
      inputs[0].assign(std::vector<double>(static_cast<std::size_t>(inputs[0].count()), worst));
    };
    for (double place : expectRight(device, test)[0].to_double())
      EXPECT_EQ(place, 0);
  }
}

TEST_P(Collections, SumsOfIntegersAreExact) {
  // Beyond 32 bits.
  KernelCase test{"reduce", {{"...", 2}, {"N", 500}}, {{"op", "sum"}}, {}, "i32"};
  test.prepare = [](const Invocation &, std::vector<HostArray> &inputs) {
    fillIntegers(inputs[0], 2000000000, 1);
  };
  expectExact(device, test);
  test.kernel = "scan";
  test.options = {{"op", "cumsum"}};
  expectExact(device, test);
  // Beyond 64 bits they wrap.
  test.options = {{"op", "cumprod"}};
  expectExact(device, test);
  test.kernel = "reduce";
  test.options = {{"op", "prod"}};
  expectExact(device, test);
}

TEST_P(Collections, Scans) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80");
  for (const char *op : scans)
    for (const char *reverse : {"false", "true"}) {
      for (const char *dtype : dtypes)
        expectRight(device, rowsCase("scan", 200, {{"op", op}, {"reverse", reverse}}, dtype));
      for (std::int64_t n : {0, 1, 64, 65, 300, 700}) {
        KernelCase test = rowsCase("scan", n, {{"op", op}, {"reverse", reverse}}, "f32");
        test.config = {{"block", 64}, {"warps", 1}};
        expectRight(device, test);
        if (std::string_view(op).starts_with("cumm")) {
          test.prepare = special;
          expectRight(device, test);
        }
      }
      // Several rows in a program, of which the last is not full; one block and three.
      for (std::int64_t n : {40, 300}) {
        KernelCase many = rowsCase("scan", n, {{"op", op}, {"reverse", reverse}}, "f16");
        many.extents["..."] = 21;
        expectRight(device, many);
        many.config = {{"block", 128}, {"rows", 2}, {"warps", 2}};
        expectRight(device, many);
      }
    }
  expectRightWithStrides(device, {"scan"});
}

TEST_P(Collections, Sorts) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_90a");
  for (const char *kernel : {"sort", "argsort"})
    for (const char *descending : {"false", "true"}) {
      for (const char *dtype : dtypes) {
        KernelCase test = rowsCase(kernel, 100, {{"descending", descending}}, dtype);
        expectSame(device, test);
        test.prepare = special;
        expectSame(device, test);
      }
      for (std::int64_t n : {0, 1, 2, 63, 64, 65})
        expectSame(device, rowsCase(kernel, n, {{"descending", descending}}, "f32"));
    }
  expectRightWithStrides(device, {"sort"});
}

// Rows longer than a block, digit by digit.
TEST_P(Collections, SortsLongRows) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80");
  for (const char *kernel : {"sort", "argsort"})
    for (const char *descending : {"false", "true"})
      for (const char *dtype : dtypes) {
        KernelCase test = rowsCase(kernel, 200, {{"descending", descending}}, dtype);
        test.config = {{"block", 64}, {"warps", 1}};
        test.prepare = special;
        expectSame(device, test);
      }
  for (std::int64_t n : {65, 1000}) {
    KernelCase test = rowsCase("sort", n, {}, "f16");
    test.config = {{"block", 64}, {"warps", 1}};
    expectSame(device, test);
  }
  expectSame(device, rowsCase("sort", 5000, {}, "bf16"));
}

TEST_P(Collections, Topk) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80");
  for (const char *largest : {"false", "true"}) {
    for (const char *dtype : dtypes) {
      KernelCase test = rowsCase("topk", 100, {{"largest", largest}}, dtype);
      expectSame(device, test);
      test.prepare = special;
      expectSame(device, test);
    }
    for (const char *k : {"1", "7", "64"})
      for (std::int64_t n : {64, 65, 500}) {
        KernelCase test = rowsCase("topk", n, {{"largest", largest}, {"k", k}}, "f32");
        test.config = {{"block", 64}, {"warps", 1}};
        test.prepare = special;
        expectSame(device, test);
      }
  }
  expectRightWithStrides(device, {"topk"});
}

// The last of the best by its digits, of a block, of parts, and of parts that are several blocks.
TEST_P(Collections, TopkByDigits) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80");
  for (const char *largest : {"false", "true"})
    for (const char *dtype : dtypes) {
      KernelCase test = rowsCase("topk", 300, {{"largest", largest}, {"k", "37"}}, dtype);
      test.config = {{"block", 512}, {"warps", 2}, {"digits", 1}};
      expectSame(device, test);
      test.prepare = special;
      expectSame(device, test);
      test.config = {{"block", 128}, {"warps", 2}, {"digits", 1}};
      expectSame(device, test);
    }
  KernelCase several = rowsCase("topk", 4200, {{"k", "64"}}, "f16");
  several.config = {{"block", 64}, {"warps", 1}, {"digits", 1}};
  expectSame(device, several);
  several.prepare = special;
  expectSame(device, several);
  for (const char *k : {"1", "300"}) { // all of a row, and one
    KernelCase test = rowsCase("topk", 300, {{"k", k}}, "f32");
    test.config = {{"block", 512}, {"warps", 4}, {"digits", 1}};
    test.prepare = special;
    expectSame(device, test);
  }
  expectSame(device, rowsCase("topk", 1100, {{"k", "33"}}, "f32")); // so by default
  KernelCase strided = rowsCase("topk", 600, {{"k", "40"}}, "f16");
  strided.config = {{"block", 256}, {"warps", 1}, {"digits", 1}};
  expectRightWithStrides(device, strided, Spread::everywhere);
}

TEST_P(Collections, Histograms) {
  for (const char *bins : {"1", "31", "64", "300"})
    for (std::int64_t n : {0, 1, 1000})
      expectExact(device, {"histogram", {{"N", n}}, {{"bins", bins}}});
  KernelCase shared{"histogram", {{"N", 3001}}, {}, {}, "", {{"block", 64}, {"warps", 1}}};
  expectRight(device, shared);
}

TEST_P(CollectionsElsewhere, Work) {
  for (const char *op : {"sum", "argmax"})
    expectRight(device, rowsCase("reduce", 100, {{"op", op}}, "f16"));
  expectRight(device, rowsCase("scan", 100, {{"reverse", "true"}}, "f16"));
  KernelCase sorted = rowsCase("sort", 150, {}, "f32");
  sorted.config = {{"block", 64}, {"warps", 1}};
  sorted.prepare = special;
  expectSame(device, sorted);
  expectSame(device, rowsCase("topk", 100, {}, "f32"));
  expectExact(device, {"histogram"});
}

TEST_P(Collections, AnExample) {
  // [example]
  const std::vector<float> values{3, 1, 4, 1, 5, 9, 2, 6};
  auto x = device.upload(values);
  auto out = sectile::run_kernel(device.stream(), "topk", {{"x", tensor(x, {2, 4})}}, {{"k", "2"}});
  device.synchronize();
  auto y = out.at("y").as<float, 2>();                  // 4 3, 9 6
  auto where = out.at("indices").as<std::int64_t, 2>(); // 2 0, 1 3
  // [/example]
  EXPECT_EQ(Buffer<float>(y.memory()).download(), (std::vector<float>{4, 3, 9, 6}));
  EXPECT_EQ(Buffer<std::int64_t>(where.memory()).download(),
            (std::vector<std::int64_t>{2, 0, 1, 3}));
}

// As PyTorch documents them.
TEST(CollectionsReference, NanAndTiesByHand) {
  auto run = [](const char *kernel, const Assignments &options, std::vector<double> x,
                std::size_t output = 0) {
    KernelCase test{kernel, {{"...", 1}, {"N", static_cast<std::int64_t>(x.size())}}, options};
    const Invocation call = resolveCase(test);
    auto inputs = sampleInputs(call, 1);
    inputs[0].assign(x);
    return referenceOutputs(call, inputs, Arithmetic::exact)[output].to_double();
  };
  using List = std::vector<double>;
  EXPECT_EQ(run("reduce", {{"op", "argmax"}}, {1, 5, 2, 5}), (List{1}));
  EXPECT_EQ(run("reduce", {{"op", "argmin"}}, {1, notANumber, 0, notANumber}), (List{1}));
  EXPECT_TRUE(std::isnan(run("reduce", {{"op", "max"}}, {1, notANumber, 2})[0]));
  EXPECT_EQ(run("sort", {}, {notANumber, 2, -1, 2}, 1), (List{2, 1, 3, 0}));
  EXPECT_EQ(run("sort", {{"descending", "true"}}, {2, notANumber, -1, 2}, 1), (List{1, 0, 3, 2}));
  EXPECT_EQ(run("scan", {{"op", "cumsum"}, {"reverse", "true"}}, {1, 2, 3}), (List{6, 5, 3}));
  EXPECT_EQ(run("topk", {{"k", "2"}, {"largest", "false"}}, {3, 1, notANumber, 1}, 1),
            (List{1, 3}));
  EXPECT_EQ(run("topk", {{"k", "1"}}, {-0.0, 0.0}, 1), (List{1}));
  EXPECT_EQ(run("topk", {{"k", "1"}, {"largest", "false"}}, {0.0, -0.0}, 1), (List{1}));
}

// A tie the wrong way round, an element that is left out: the harness must see it.
TEST(CollectionsReference, PlantedBugsAreCaught) {
  for (const KernelCase &test :
       {KernelCase{"reduce", {}, {{"op", "argmax"}}}, KernelCase{"argsort"},
        KernelCase{"histogram"}, KernelCase{"scan"}}) {
    const Invocation call = resolveCase(test);
    const auto inputs = sampleInputs(call, 1);
    auto outputs = referenceOutputs(call, inputs, Arithmetic::own);
    std::vector<double> values = outputs[0].to_double();
    values[0] += 1;
    outputs[0].assign(values);
    EXPECT_FALSE(check(call, inputs, outputs)[0].accuracy.ok()) << test.kernel;
  }
}

TEST(CollectionsErrors, SayWhatIsWrong) {
  EXPECT_THROW(resolveCase({"reduce", {{"N", 0}}, {{"op", "max"}}}), InputError);
  EXPECT_THROW(resolveCase({"reduce", {}, {{"op", "mean"}}, {}, "i32"}), InputError);
  EXPECT_THROW(resolveCase({"topk", {{"N", 5}}, {{"k", "6"}}}), InputError);
  EXPECT_THROW(resolveCase({"topk", {}, {{"k", "0"}}}), InputError);
  EXPECT_THROW(resolveCase({"histogram", {}, {{"bins", "5000"}}}), InputError);
}

TEST(CollectionsCounters, RowsAreReadOnce) {
  for (const char *target : {"virtual:sm_80", "virtual:sm_90a"})
    for (const char *kernel : {"reduce", "scan", "sort", "topk"}) {
      SCOPED_TRACE(std::string(kernel) + " on " + target);
      const Device device = Device::open(target);
      const Invocation call = resolveCase({kernel, {{"...", 4}, {"N", 512}}});
      auto &machine = static_cast<runtime::VirtualDevice &>(*device.impl());
      machine.countAccesses();
      execute(device, call, completeConfig(call, device.target(), {}), sampleInputs(call, 1));
      const auto &counters = machine.lastCounters();
      EXPECT_EQ(counters.globalLoad.bytes + counters.asyncCopy.bytes, 4 * 512 * 4u);
      EXPECT_EQ(counters.globalLoad.sectors, counters.globalLoad.idealSectors);
    }
}
