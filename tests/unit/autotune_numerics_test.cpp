// The order of sums of configurations: what is kept of it, and the mode in which nothing but that
// of the reference configuration is chosen, whatever was measured and however large a batch is.
#include "autotune/Database.h"
#include "kernels/calls/Execute.h"
#include "kernels/calls/Use.h"
#include "kernels/tuning/Tune.h"
#include "tests/unit/Processes.h"
#include <algorithm>
#include <cstdlib>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <random>
#include <sectile/autotune.h>
#include <sectile/error.h>
#include <sectile/sectile.h>

using namespace sectile;
using testing::HasSubstr;

namespace {

const bool chosen =
    setenv("SECTILE_CACHE_DIR", "", 1) == 0 && setenv("SECTILE_AUTOTUNE", "on", 1) == 0;

// While one lives, the order of sums is fixed.
struct Fixed {
  Fixed() { set_numerics(Numerics::fixed); }
  ~Fixed() { set_numerics(Numerics::any); }
};

std::vector<float> numbers(std::size_t count) {
  std::vector<float> values(count);
  std::mt19937 random(7);
  for (float &value : values)
    value = std::normal_distribution<float>()(random);
  return values;
}

TEST(Numerics, AreTheFieldsThatAreNotNeutral) {
  using autotune::numericsOf;
  EXPECT_EQ(numericsOf("m=16 n=8 warps=4 stages=3", {"stages"}), "m=16 n=8 warps=4");
  EXPECT_EQ(numericsOf("m=16 n=8 warps=4 stages=3", {"n", "warps"}), "m=16 stages=3");
  EXPECT_EQ(numericsOf("m=16", {"m"}), "-");
  EXPECT_EQ(numericsOf("", {}), "-");
}

TEST(Numerics, TheEnvironmentSaysThem) {
  test::Child child([] {
    EXPECT_EQ(numerics(), Numerics::any);
    setenv("SECTILE_NUMERICS", "fixed", 1);
    EXPECT_EQ(numerics(), Numerics::fixed);
    setenv("SECTILE_NUMERICS", "same", 1);
    try {
      numerics();
      ADD_FAILURE() << "accepted";
    } catch (const LaunchError &error) {
      EXPECT_STREQ(error.what(), "SECTILE_NUMERICS is 'same'; it can be any or fixed");
    }
    set_numerics(Numerics::any);
    EXPECT_EQ(numerics(), Numerics::any) << "the program's word counts more";
    return testing::Test::HasFailure() ? 1 : 0;
  });
  EXPECT_EQ(child.wait(), 0);
}

//===-- A user's kernel -----------------------------------------------------------------------===//

struct Step {
  int size = 32, ahead = 1;
};
SECTILE_CONFIG(Step, size, ahead)

// The sum of a row, so many elements in a step; `ahead` changes nothing.
auto rowSum = [](View<const float, 2> x, Ptr<float> y, const Step &step) {
  auto rows = x.tile(1, step.size);
  auto sums = zeros<float>(1, step.size);
  for (auto j : range(0, cdiv(x.extent(1), step.size)))
    sums = sums + rows.load(program_id(0), j);
  store(y + program_id(0) + arange(0, 1), sum(sums, 1));
};

struct Sums {
  int rows = 4, columns = 4096;
  Device device = Device::open("virtual:sm_90a");
  Tensor<float, 2> x =
      tensor(device.upload(numbers(static_cast<std::size_t>(rows * columns))), {rows, columns});
  Buffer<float> y = device.allocate<float>(4);
  AutotuneOptions options;

  Sums() {
    options.quiet = true;
    options.neutral = {"ahead", "stages"};
  }
  template <class Tuned> TuneReport tune(Tuned &tuned) {
    return tuned.tune(device.stream(), Grid(unsigned(rows)), x, y);
  }
  template <class Tuned> std::vector<float> launch(Tuned &tuned) {
    tuned.launch(device.stream(), Grid(unsigned(rows)), x, y);
    return y.download();
  }
};

Space<Step> steps() {
  return space(&Step::size, {16, 32, 64, 256, 1024}) * space(&Step::ahead, {0, 1});
}

TEST(Numerics, FixedTakesNothingOfAnotherOrder) {
  Kernel kernel{"row_sums", rowSum};
  Sums sums;
  Autotuner any{kernel, steps(), sums.options};
  sums.options.numerics = Numerics::fixed;
  Autotuner fixed{kernel, steps(), sums.options};
  sums.options.mode = AutotuneMode::off;
  Autotuner own{kernel, steps(), sums.options};

  const TuneReport report = sums.tune(any);
  ASSERT_EQ(report.rows.size(), 10u);
  for (const TuneReport::Row &row : report.rows)
    EXPECT_EQ(row.numerics, autotune::numericsOf(row.config, sums.options.neutral));
  const std::vector<float> reference = sums.launch(own);
  ASSERT_NE(sums.launch(any), reference) << "the best sums in another order";
  EXPECT_EQ(sums.launch(fixed), reference);

  const TuneReport few = sums.tune(fixed);
  ASSERT_EQ(few.rows.size(), 2u) << few.text();
  for (const TuneReport::Row &row : few.rows) {
    EXPECT_EQ(row.numerics, few.rows[0].numerics);
    EXPECT_TRUE(row.known) << "the other tuning measured it";
  }
  EXPECT_EQ(sums.launch(fixed), reference);
}

TEST(Numerics, WhatIsNotNeutralIsFoundOutByItsBits) {
  Kernel kernel{"row_sums_said_neutral", rowSum};
  Sums sums;
  sums.options.neutral = {"size", "ahead", "stages"}; // size is not
  sums.options.numerics = Numerics::fixed;
  Autotuner tuned{kernel, steps(), sums.options};
  const TuneReport report = sums.tune(tuned);
  ASSERT_EQ(report.rows.size(), 10u);
  unsigned others = 0;
  for (const TuneReport::Row &row : report.rows) {
    EXPECT_EQ(row.verdict, TuneVerdict::good) << row.message;
    const bool same = row.config.starts_with("size=32 ");
    EXPECT_EQ(row.numerics, same ? "warps=4" : "warps=4, but other bits") << row.config;
    others += !same;
  }
  EXPECT_EQ(others, 8u);
  sums.options.mode = AutotuneMode::off;
  Autotuner own{kernel, steps(), sums.options};
  EXPECT_EQ(sums.launch(tuned), sums.launch(own));
  EXPECT_EQ(tuned.best(sums.device.stream(), sums.x, sums.y).config.size, 32);
}

// What was recorded before numerics were is no help where they count.
TEST(Numerics, WhatIsNotKnownIsNotTakenButMeasured) {
  Kernel kernel{"row_sums_of_old", rowSum};
  Sums sums;
  Autotuner any{kernel, steps(), sums.options};
  sums.tune(any);
  autotune::Database &database = autotune::Database::get();
  for (const auto &[key, measurements, origin] : database.problems("row_sums_of_old"))
    for (autotune::Measurement measurement : measurements) {
      measurement.numerics.clear();
      database.record(key, measurement);
    }
  sums.options.numerics = Numerics::fixed;
  Autotuner fixed{kernel, steps(), sums.options};
  for (const TuneReport::Row &row : sums.tune(fixed).rows)
    EXPECT_FALSE(row.known) << row.config;
}

//===-- The library's kernels -----------------------------------------------------------------===//

// Larger in every axis that is a batch's.
Invocation larger(const Invocation &call) {
  std::map<std::string, std::int64_t> extents;
  for (const auto &[axis, extent] : call.kernel->small) {
    const auto &batch = call.kernel->batch;
    extents[axis] =
        std::find(batch.begin(), batch.end(), axis) == batch.end() ? extent : 3 * extent + 1;
  }
  return resolveTypical(*call.kernel, "", extents, {});
}

TEST(Numerics, TheKernelsOwnChoiceIsOfOneOrderForEveryBatch) {
  unsigned others = 0;
  for (const KernelSpec &kernel : kernelRegistry())
    for (const char *target : {"sm_80", "sm_90a", "gfx942"}) {
      const Invocation few = resolveTypical(kernel, "", kernel.small, {});
      std::optional<Invocation> many;
      try {
        many = larger(few);
      } catch (const InputError &) {
        continue; // extents that follow from each other
      }
      others += ownChoice(few, target) != ownChoice(*many, target);
      const Fixed fixed;
      EXPECT_EQ(ownChoice(few, target), ownChoice(*many, target)) << kernel.name << " " << target;
    }
  EXPECT_GT(others, 10u) << "it depends on the batch where it may";
}

TEST(Numerics, NeutralFieldsAreFields) {
  for (const KernelSpec &kernel : kernelRegistry())
    for (const std::string &field : kernel.neutral)
      EXPECT_TRUE(field == "stages" ||
                  std::any_of(kernel.config.begin(), kernel.config.end(),
                              [&](const ConfigSpec &spec) { return spec.name == field; }))
          << kernel.name << " " << field;
}

// By the bits of each candidate's outputs.
TEST(Numerics, NeutralFieldsChangeNoBits) {
  const Device device = Device::open("virtual:sm_90a");
  const Fixed fixed;
  AutotuneOptions options;
  options.quiet = true;
  options.strategy = Strategy::random;
  options.candidates = test::count(1, 20);
  std::size_t compared = 0;
  for (const KernelSpec &kernel : kernelRegistry()) {
    const Invocation call = resolveTypical(kernel, "", kernel.small, {});
    // Most have no neutral field to try: their own choice would be compared with itself.
    if (std::ranges::none_of(kernel.spaces, [&](const SearchSpace &space) {
          return candidatesFor(call, space, device.target()).size() > 1;
        }))
      continue;
    for (const TuneReport &report : tuneKernel(call, device, options)) {
      for (const TuneReport::Row &row : report.rows)
        EXPECT_EQ(row.numerics, report.rows[0].numerics)
            << kernel.name << " " << row.config << ": " << row.message;
      compared += std::max<std::size_t>(report.rows.size(), 1) - 1;
    }
  }
  EXPECT_GE(compared, 20u);
}

// Outputs of a kernel for a batch of `count`, of which the first two are the same in every batch.
struct Batch {
  Invocation call;
  std::vector<HostArray> inputs;
  std::vector<HostArray> outputs;
};
Batch runBatch(const KernelSpec &kernel, const std::string &axis, std::int64_t count,
               const Batch *first) {
  std::map<std::string, std::int64_t> extents = kernel.small;
  extents[axis] = count;
  if (axis != "N" && extents.contains("N") && kernel.name != "speculative_verify") // N drafts
    extents["N"] = kernel.name == "reduce" ? 40000 : 1500; // long rows go in parts
  if (extents.contains("K"))
    extents["K"] = extents.contains("Hv") ? 80 : 300; // of states [K, V] of heads, many for a batch
  if (extents.contains("P"))
    extents["P"] = 200; // rows of a pool
  Batch batch;
  batch.call = resolveTypical(kernel, "", extents, {});
  batch.inputs = sampleInputs(batch.call, 1);
  for (std::size_t i = 0; first && i < batch.inputs.size(); ++i)
    if (const std::vector<std::byte> &data = first->inputs[i].data; !data.empty())
      std::copy(data.begin(), data.end(), batch.inputs[i].data.begin());
  const Device device = Device::open("virtual:sm_90a");
  batch.outputs =
      execute(device, batch.call, ownChoice(batch.call, device.target()), batch.inputs).outputs;
  return batch;
}

// Whether each argument either does not have the axis, or has it first.
bool leads(const KernelSpec &kernel, const std::string &axis) {
  bool any = false;
  for (const ArgumentSpec &spec : kernel.arguments)
    if (!spec.optional && spec.with.empty() &&
        std::find(spec.axes.begin(), spec.axes.end(), axis) != spec.axes.end()) {
      if (spec.axes.front() != axis || spec.stored)
        return false;
      any = true;
    }
  return any;
}

TEST(Numerics, RowsHaveTheSameBitsInEveryBatch) {
  const Fixed fixed;
  unsigned compared = 0;
  std::size_t place = 0;
  for (const KernelSpec &kernel : kernelRegistry()) {
    if (!test::isAmongAThird(place++))
      continue;
    for (const char *axis : {"...", "B", "M"}) {
      if (!kernel.small.contains(axis) || !leads(kernel, axis) ||
          std::find(kernel.batch.begin(), kernel.batch.end(), axis) == kernel.batch.end())
        continue;
      const Batch few = runBatch(kernel, axis, 2, nullptr),
                  // More programs than multiprocessors, of which heads make several.
          many = runBatch(kernel, axis, kernel.small.contains("Hv") ? 70 : 150, &few);
      std::size_t output = 0;
      for (const ArgumentSpec &spec : kernel.arguments) {
        if (!spec.output)
          continue;
        const std::vector<std::byte> &a = few.outputs[output].data, &b = many.outputs[output].data;
        ++output;
        if (spec.axes.empty() || spec.axes.front() != axis || a.empty())
          continue;
        EXPECT_TRUE(std::equal(a.begin(), a.end(), b.begin())) << kernel.name << " " << spec.name;
        ++compared;
      }
      break;
    }
  }
  EXPECT_GE(compared, test::count(7, 20));
}

TEST(Numerics, StreamKIsRefused) {
  const KernelSpec &kernel = findKernel("matmul");
  const Invocation call = resolveTypical(kernel, "", kernel.small, {{"schedule", "stream_k"}});
  EXPECT_NO_THROW(bindKernel(call, ownChoice(call, "sm_90a")));
  const Fixed fixed;
  try {
    bindKernel(call, ownChoice(call, "sm_90a"));
    ADD_FAILURE() << "accepted";
  } catch (const InputError &error) {
    EXPECT_THAT(error.what(), HasSubstr("stream_k"));
  }
}

} // namespace
