// Programs in languages whose decimal point is a comma: what is computed and written is the same.
#include "autotune/Exchange.h"
#include "runtime/Numerals.h"
#include "tests/unit/CacheTest.h"
#include <algorithm>
#include <clocale>
#include <gmock/gmock.h>
#include <sectile/library.h>
#include <sectile/sectile.h>

using namespace sectile;
using runtime::numberIn;

namespace {

// The locale is made here, as few machines have one.
class WithAComma : public testing::Test {
protected:
  void SetUp() override {
    const std::string folder = testing::TempDir() + "/locales";
    std::filesystem::create_directories(folder);
    const std::string make =
        "localedef -i de_DE -f UTF-8 " + folder + "/de_DE.UTF-8 >/dev/null 2>&1";
    if (std::system(make.c_str()) == -1 || setenv("LOCPATH", folder.c_str(), 1) ||
        !std::setlocale(LC_ALL, "de_DE.UTF-8"))
      GTEST_SKIP() << "there is no localedef with German here";
    ASSERT_EQ(std::to_string(0.5), "0,500000");
  }
  void TearDown() override { std::setlocale(LC_ALL, "C"); }
};

TEST(Numerals, AreReadWhole) {
  EXPECT_EQ(numberIn("0.25"), 0.25);
  EXPECT_EQ(numberIn("+1e-05"), 1e-05);
  EXPECT_EQ(numberIn("-.5"), -0.5);
  for (const char *text : {"", "+", "0,25", "0.25x", " 1", "+-1", "1e999"})
    EXPECT_EQ(numberIn(text), std::nullopt) << text;
}

TEST_F(WithAComma, OptionsOfKernelsHaveTheirValues) {
  const Device device = Device::open("interpreter");
  const std::vector<float> ones(1000, 1.0f);
  auto x = device.upload(ones);
  auto dropped = run_kernel(device.stream(), "dropout", {{"x", tensor(x, {1000})}});
  auto y = Buffer<float>(dropped.at("y").as<float, 1>().memory()).download();
  EXPECT_NEAR(std::ranges::count(y, 0.0f), 500, 100); // by the default of p, 0.5
  auto half = run_kernel(device.stream(), "matmul",
                         {{"a", tensor(x, {1, 1})}, {"b", tensor(x, {1, 1})}}, {{"alpha", "0.5"}});
  EXPECT_EQ(Buffer<float>(half.at("c").as<float, 2>().memory()).download()[0], 0.5f);
}

TEST_F(WithAComma, MeasurementsAreExchanged) {
  autotune::Problem problem;
  problem.key.kernel = "k";
  autotune::Measurement &one = problem.measurements.emplace_back();
  one.config = "m=1";
  one.median = 12.5;
  const std::string text = autotune::toJson({problem});
  EXPECT_THAT(text, testing::HasSubstr("12.5"));
  auto read = autotune::fromJson(text);
  ASSERT_TRUE(static_cast<bool>(read)) << llvm::toString(read.takeError());
  EXPECT_EQ(read->front().measurements.front().median, 12.5);
}

} // namespace
