// Kernels that a program adds to the library's, and descriptions that cannot be used.
#include "kernels/SpecCheck.h"
#include "tests/unit/Message.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sectile/register_kernel.h>

using namespace sectile;
using sectile::test::message;
using testing::HasSubstr;

namespace {

enum class Order { rows, columns };
struct Tile2 {
  int block = 128;
  bool fast = false;
  Order order = Order::columns;
};
SECTILE_CONFIG(Tile2, block, fast, order)

Kernel negateRows{"negate_rows", [](View<const float, 2> x, View<float, 2> y, const Tile2 &tile) {
                    auto row = program_id(0);
                    auto from = x.at(row).tile(tile.block);
                    auto to = y.at(row).tile(tile.block);
                    for (auto i : range(0, cdiv(x.extent(1), tile.block)))
                      to.store(i, -from.load(i));
                  }};

// A whole description of a kernel that changes signs.
KernelSpec negate(std::string name) {
  KernelSpec spec;
  spec.name = std::move(name);
  spec.summary = "y = -x";
  spec.arguments = {{.name = "x", .axes = {"M", "N"}, .dtypes = {DType::float32}},
                    {.name = "y", .output = true, .axes = {"M", "N"}, .like = "x"}};
  spec.options = {
      {.name = "mode", .kind = OptionSpec::choice, .initial = "a", .choices = {"a", "b"}},
      {.name = "on", .kind = OptionSpec::flag, .initial = "false"}};
  spec.typical = {{"M", 4}, {"N", 100}};
  spec.configure<Tile2>({"elements of a row"});
  spec.spaces = {{.axes = {{"block", {64, 128}}, {"fast", {0, 1}}}}};
  spec.apply = [](Use &use) {
    use(negateRows, Grid(use.call.extent("M")), use.tensor<float, 2>("x"),
        use.tensor<float, 2>("y"), use.config_as<Tile2>());
  };
  return spec;
}

// What register_kernel says of the description after `change`.
template <class Change> std::string refusal(Change change) {
  KernelSpec spec = negate("negate_refused");
  change(spec);
  return message<InputError>([&] { register_kernel(std::move(spec)); });
}

} // namespace

TEST(RegisterKernel, IsFoundByName) {
  register_kernel(negate("negate"), "signs");
  const Device device = Device::open("virtual:sm_80");
  std::vector<float> values(2 * 300);
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(i) - 100;
  const Buffer<float> x = device.upload(values);
  const NamedTensors outputs = run_kernel(device.stream(), "negate", {{"x", tensor(x, {2, 300})}});
  const std::vector<float> y = outputs.at("y").as<float, 2>().download();
  for (std::size_t i = 0; i < values.size(); ++i)
    ASSERT_EQ(y[i], -values[i]);
  EXPECT_EQ(message<InputError>([] { register_kernel(negate("negate")); }),
            "there is a kernel 'negate' already");
  EXPECT_EQ(message<InputError>([] { register_kernel(negate("softmax")); }),
            "there is a kernel 'softmax' already");
  EXPECT_THAT(message<LaunchError>(
                  [&] { run_kernel(device.stream(), "negat", {{"x", tensor(x, {2, 300})}}); }),
              HasSubstr("is it 'negate'?"));
}

TEST(RegisterKernel, TakesFieldsAndDefaultsFromTheConfiguration) {
  const KernelSpec spec = negate("negate_config");
  ASSERT_EQ(spec.config.size(), 3u);
  EXPECT_EQ(spec.config[0].name, "block");
  EXPECT_EQ(spec.config[0].doc, "elements of a row");
  EXPECT_EQ(spec.config[0].least, 1);
  EXPECT_EQ(spec.config[1].least, 0);
  const ConfigValues expected{{"block", 128}, {"fast", 0}, {"order", 1}};
  EXPECT_EQ(spec.defaults({}, ""), expected);
}

TEST(RegisterKernel, ADescriptionThatTakesAnArgumentForAnotherTypeIsAnError) {
  const auto apply = [](const char *name, auto take) {
    KernelSpec spec = negate(name);
    spec.typical = {{"M", 3}, {"N", 4}};
    spec.apply = take;
    register_kernel(std::move(spec));
    const Device device = Device::open("virtual:sm_80");
    const Buffer<float> x = device.allocate<float>(12);
    return message<Error>([&] { run_kernel(device.stream(), name, {{"x", tensor(x, {3, 4})}}); });
  };
  EXPECT_EQ(apply("negate_halves", [](Use &use) { use.tensor<half, 2>("x"); }),
            "negate_halves: its description takes x as f16 with 2 axes, but it is f32 [3, 4]");
  EXPECT_EQ(apply("negate_flat", [](Use &use) { use.tensor<float, 1>("y"); }),
            "negate_flat: its description takes y as f32 with 1 axis, but it is f32 [3, 4]");
  EXPECT_EQ(
      apply("negate_deep", [](Use &use) { use.collapsed<float, 4>("y"); }),
      "negate_deep: its description takes y as f32 with 3 axes or more, but it is f32 [3, 4]");
}

TEST(RegisterKernel, DefaultsThatLeaveOutAFieldAreRefused) {
  KernelSpec spec = negate("negate_defaults");
  spec.defaults = [](const Invocation &, const std::string &) {
    return ConfigValues{{"block", 64}};
  };
  register_kernel(std::move(spec));
  const Device device = Device::open("virtual:sm_80");
  const Buffer<float> x = device.allocate<float>(12);
  EXPECT_EQ(message<LaunchError>([&] {
              run_kernel(device.stream(), "negate_defaults", {{"x", tensor(x, {3, 4})}});
            }),
            "negate_defaults: its defaults leave out the configuration field 'fast'");
}

TEST(RegisterKernel, DescriptionsThatAreNotWholeAreRefused) {
  EXPECT_THAT(refusal([](KernelSpec &spec) { spec.name = "2 rows"; }),
              HasSubstr("'2 rows' cannot be a kernel's name: use letters"));
  EXPECT_THAT(refusal([](KernelSpec &spec) { spec.apply = nullptr; }), HasSubstr("no `apply`"));
  EXPECT_THAT(refusal([](KernelSpec &spec) { spec.arguments.pop_back(); }),
              HasSubstr("it has no output"));
  EXPECT_THAT(refusal([](KernelSpec &spec) {
                std::swap(spec.arguments[0], spec.arguments[1]);
                spec.arguments[0].like = "";
                spec.arguments[0].dtypes = {DType::float32};
                spec.derive = [](Invocation &) {};
              }),
              HasSubstr("argument 'x' is an input after an output"));
  EXPECT_THAT(refusal([](KernelSpec &spec) { spec.arguments[1].name = "x"; }),
              HasSubstr("the argument name 'x' is used twice"));
  EXPECT_THAT(refusal([](KernelSpec &spec) { spec.arguments[0].dtypes.clear(); }),
              HasSubstr("argument 'x' must set exactly one of dtypes, like and dtype_by"));
  EXPECT_THAT(refusal([](KernelSpec &spec) { spec.arguments[1].like = "z"; }),
              HasSubstr("is like 'z', which is no argument before it"));
  EXPECT_THAT(refusal([](KernelSpec &spec) { spec.arguments[1].with = "bias"; }),
              HasSubstr("argument 'y' has `with` = 'bias'"));
  EXPECT_THAT(refusal([](KernelSpec &spec) { spec.arguments[1].with = "mode"; }),
              HasSubstr("it names an optional input or a flag"));
  EXPECT_EQ(refusal([](KernelSpec &spec) {
              spec.name = "negate_with";
              spec.arguments[1].with = "on";
            }),
            "nothing was thrown");
  EXPECT_THAT(refusal([](KernelSpec &spec) { spec.typical.erase("N"); }),
              HasSubstr("axis N of argument 'x' has no typical extent"));
  EXPECT_THAT(refusal([](KernelSpec &spec) { spec.arguments[1].axes = {"M", "K"}; }),
              HasSubstr("axis K of argument 'y' is an axis of no input"));
  EXPECT_THAT(refusal([](KernelSpec &spec) { spec.arguments[0].axes = {"...", "M", "..."}; }),
              HasSubstr("more than one axis '...'"));
  EXPECT_THAT(refusal([](KernelSpec &spec) { spec.arguments[0].axes = {"M", "-3"}; }),
              HasSubstr("an axis '-3', which is no name"));
  EXPECT_THAT(refusal([](KernelSpec &spec) { spec.options[0].initial = "c"; }),
              HasSubstr("option 'mode' cannot be 'c'; it can be a, b"));
  EXPECT_THAT(refusal([](KernelSpec &spec) {
                spec.options[1].initial_by = [](const Invocation &) { return "true"; };
              }),
              HasSubstr("option 'on' has both `initial` and `initial_by`"));
  EXPECT_THAT(refusal([](KernelSpec &spec) { spec.arguments.back().over = {"nothing"}; }),
              HasSubstr("may be over 'nothing': only outputs have `over`, and it names inputs"));
  EXPECT_THAT(refusal([](KernelSpec &spec) { spec.arguments.front().over = {"x"}; }),
              HasSubstr("only outputs have `over`, and it names inputs"));
  EXPECT_THAT(refusal([](KernelSpec &spec) { spec.options[1].initial = ""; }),
              HasSubstr("option 'on' is a flag"));
  EXPECT_THAT(refusal([](KernelSpec &spec) { spec.options[1].name = "mode"; }),
              HasSubstr("the option name 'mode' is used twice"));
  EXPECT_THAT(refusal([](KernelSpec &spec) { spec.defaults = nullptr; }),
              HasSubstr("no `defaults`"));
  EXPECT_THAT(refusal([](KernelSpec &spec) { spec.spaces[0].axes[0].first = "blocks"; }),
              HasSubstr("an axis 'blocks', which is no field of the configuration"));
  EXPECT_THAT(refusal([](KernelSpec &spec) { spec.spaces[0].axes[0].second = {0}; }),
              HasSubstr("block=0, which the field may not be"));
}

TEST(RegisterKernel, OtherHeadersAreRefused) {
  KernelSpec spec = negate("negate_other");
  EXPECT_THAT(message<InputError>(
                  [&] { detail::registerKernel(spec, "signs", detail::descriptionLayout + 1); }),
              HasSubstr("build its library again"));
}

// The library holds itself to what it asks of others.
TEST(RegisterKernel, TheLibrarysOwnDescriptionsAreWhole) {
  for (const KernelSpec &kernel : kernelRegistry()) {
    KernelSpec copy = kernel;
    EXPECT_NO_THROW(completeSpec(copy)) << kernel.name;
  }
}
