// Kernels that a program adds to the library's, and descriptions that cannot be used.
#include "kernels/registry/SpecCheck.h"
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

// The same, bound by names.
template <class T> struct ScaleArguments {
  View<const T, 2> x;
  View<const float, 1> w;
  View<T, 2> y;
  Float factor;
  Int N;
};
template <class T>
SECTILE_STRUCT(ScaleArguments<T>, x, w, y, factor, N)

template <class T>
Kernel scale{"scale", [](const ScaleArguments<T> &a, const Tile2 &tile) {
               auto row = program_id(0);
               for (auto i : range(0, cdiv(a.N, tile.block))) {
                 auto values = cast<float>(a.x.at(row).tile(tile.block).load(i)) * a.factor;
                 if (tile.fast) // there are weights
                   values *= a.w.tile(tile.block).load(i);
                 a.y.at(row).tile(tile.block).store(i, values);
               }
             }};

KernelSpec scaleSpec(std::string name) {
  KernelSpec spec;
  spec.name = std::move(name);
  spec.summary = "y = x * w * factor";
  spec.add_arguments(
      {{"x: [..., N] f32|f16"}, {"w?: [N] f32", "weight"}, {"-> y: [..., N] like x"}});
  spec.add_options({{"factor: number = 1 e.g. 3"}, {"mode: a|b = a"}, {"count: integer e.g. 2"}});
  spec.typical = {{"...", 4}, {"N", 100}};
  spec.config = {{"block"}};
  spec.defaults = [](const Invocation &, const std::string &) {
    return ConfigValues{{"block", 64}};
  };
  spec.apply = [](Use &use) {
    for_dtype<float, half>(use.call.dtype("x"), [&]<class T>(T) {
      use(scale<T>, use.extent("..."), use.config_as(Tile2{.fast = use.has("w")}));
    });
  };
  return spec;
}

// A configuration bound by names.
enum class Mode : std::uint8_t { a, b };
struct NamedConfig {
  int block = 1, count = 7, warps = 4;
  Mode mode = Mode::a;
  bool w = false, given = true;
  int factor = 5; // the option of this name is no integer
};
SECTILE_CONFIG(NamedConfig, block, count, warps, mode, w, given, factor)

struct SharedRows {
  View<const float, 2> x, rows;
  View<float, 2> y;
};
SECTILE_STRUCT(SharedRows, x, rows, y)

Kernel addRows{"add_rows", [](const SharedRows &a) {
                 auto row = program_id(0);
                 a.y.tile(1, 128).store(
                     row, 0, a.x.tile(1, 128).load(row, 0) + a.rows.tile(1, 128).load(row, 0));
               }};

// What registering says where the kernel's arguments are this struct.
template <class Struct> std::string refusedStruct(std::initializer_list<FieldValue> values = {}) {
  static const Kernel kernel{"refused", [](const Struct &) {}};
  KernelSpec spec = scaleSpec("scale_refused");
  spec.apply = [values](Use &use) { use(kernel, 1, values); };
  return message<InputError>([&] { register_kernel(std::move(spec)); });
}

template <class T> struct OfX {
  T x;
};
template <class T> SECTILE_STRUCT(OfX<T>, x) template <class T> struct OfMode {
  T mode;
};
template <class T> SECTILE_STRUCT(OfMode<T>, mode) template <class T> struct OfFactor {
  T factor;
};
template <class T> SECTILE_STRUCT(OfFactor<T>, factor) template <class T> struct OfCount {
  T count;
};
template <class T> SECTILE_STRUCT(OfCount<T>, count) template <class T> struct OfOther {
  T other;
};
template <class T>
SECTILE_STRUCT(OfOther<T>, other)

// y is x, but for a row of zeros.
struct ZeroArguments {
  View<float, 2> y;
  Int row;
};
SECTILE_STRUCT(ZeroArguments, y, row)
Kernel zeroRow{"zero_row", [](const ZeroArguments &a) {
                 a.y.at(a.row).tile(128).store(program_id(0), zeros<float>(128));
               }};
KernelSpec zeroSpec(std::string name) {
  KernelSpec spec;
  spec.name = std::move(name);
  spec.summary = "y = x with zeros in a row";
  spec.add_arguments({{"x: [M, N] f32"}, {"-> y: [M, N] like x updates x"}});
  spec.add_options({{"row: integer = 0 e.g. 1"}});
  spec.typical = {{"M", 4}, {"N", 100}};
  spec.config = {{"unused"}};
  spec.defaults = [](const Invocation &, const std::string &) {
    return ConfigValues{{"unused", 1}};
  };
  spec.apply = [](Use &use) { use(zeroRow, (use.extent("N") + 127) / 128); };
  return spec;
}

// y = x + 1, z = x + 2, by launches that read x before they wait for the kernel ahead of them.
struct EarlyArguments {
  View<const float, 1> x;
  View<float, 1> to;
  Int step;
};
SECTILE_STRUCT(EarlyArguments, x, to, step)
Kernel readEarly{"read_early", [](const EarlyArguments &a) {
                   auto values = a.x.tile(128).load(program_id(0));
                   wait_dependencies();
                   a.to.tile(128).store(program_id(0), values + cast<float>(a.step));
                 }};
KernelSpec earlySpec() {
  KernelSpec spec;
  spec.name = "read_early_twice";
  spec.summary = "y = x + 1, z = x + 2";
  spec.add_arguments({{"x: [N] f32"}, {"-> y: [N] like x"}, {"-> z: [N] like x"}});
  spec.typical = {{"N", 100}};
  spec.config = {{"unused"}};
  spec.defaults = [](const Invocation &, const std::string &) {
    return ConfigValues{{"unused", 1}};
  };
  spec.apply = [](Use &use) {
    for (const auto &[output, step] : {std::pair{"y", 1}, {"z", 2}})
      use(readEarly, (use.extent("N") + 127) / 128,
          {{"to", use.tensor<float, 1>(output)}, {"step", step}});
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

TEST(RegisterKernel, ADescriptionThatTakesAnArgumentForAnotherTypeIsRefused) {
  const auto apply = [](auto take) {
    return refusal([&](KernelSpec &spec) {
      spec.typical = {{"M", 3}, {"N", 4}};
      spec.apply = take;
    });
  };
  EXPECT_EQ(apply([](Use &use) { use.tensor<half, 2>("x"); }),
            "negate_refused: its description takes x as f16 with 2 axes, but it is f32 [3, 4]");
  EXPECT_EQ(apply([](Use &use) { use.tensor<float, 1>("y"); }),
            "negate_refused: its description takes y as f32 with 1 axis, but it is f32 [3, 4]");
  EXPECT_EQ(
      apply([](Use &use) { use.collapsed<float, 4>("y"); }),
      "negate_refused: its description takes y as f32 with 3 axes or more, but it is f32 [3, 4]");
}

TEST(RegisterKernel, BindsFieldsByTheirNames) {
  register_kernel(scaleSpec("scale_named"));
  const Device device = Device::open("virtual:sm_80");
  std::vector<half> values(2 * 3 * 100);
  std::vector<float> weights(100);
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = half(static_cast<float>(i % 50));
  for (std::size_t i = 0; i < weights.size(); ++i)
    weights[i] = static_cast<float>(i % 7);
  const Buffer<half> x = device.upload(values);
  const Buffer<float> w = device.upload(weights);
  for (const bool weighted : {false, true}) {
    NamedTensors inputs{{"x", tensor(x, {2, 3, 100})}};
    if (weighted)
      inputs.emplace("w", tensor(w, {100}));
    const NamedTensors outputs =
        run_kernel(device.stream(), "scale_named", inputs, {{"factor", "3"}});
    const std::vector<half> y = outputs.at("y").as<half, 3>().download();
    for (std::size_t i = 0; i < values.size(); ++i)
      ASSERT_EQ(static_cast<float>(y[i]),
                3 * static_cast<float>(values[i]) * (weighted ? weights[i % 100] : 1));
  }
}

TEST(RegisterKernel, BindsConfigurationsByTheirNames) {
  static NamedConfig plain, prefixed;
  KernelSpec spec = scaleSpec("scale_config");
  spec.config.push_back({"back_block"});
  spec.defaults = [](const Invocation &, const std::string &) {
    return ConfigValues{{"block", 64}, {"back_block", 32}};
  };
  spec.apply = [](Use &use) {
    plain = use.config_as<NamedConfig>();
    prefixed = use.config_as<NamedConfig>("back_");
  };
  register_kernel(std::move(spec));
  const Device device = Device::open("virtual:sm_80");
  const NamedTensors x{{"x", tensor(device.allocate<half>(300), {3, 100})}};
  run_kernel(device.stream(), "scale_config", x);
  EXPECT_EQ(describe(plain), "block=64 count=7 warps=4 mode=0 w=0 given=1 factor=5");
  NamedTensors both = x;
  both.emplace("w", tensor(device.allocate<float>(100), {100}));
  run_kernel(device.stream(), "scale_config", both, {{"mode", "b"}, {"count", "3"}});
  EXPECT_EQ(describe(plain), "block=64 count=3 warps=4 mode=1 w=1 given=1 factor=5");
  EXPECT_EQ(describe(prefixed), "block=32 count=3 warps=4 mode=1 w=1 given=1 factor=5");
}

TEST(RegisterKernel, OneForAllIsBoundAsAll) {
  KernelSpec spec;
  spec.name = "add_rows";
  spec.summary = "y = x + rows";
  spec.add_arguments({{"x: [M, N] f32"}, {"rows: [1|M, N] f32"}, {"-> y: [M, N] f32"}});
  spec.typical = {{"M", 4}, {"N", 100}};
  spec.defaults = [](const Invocation &, const std::string &) { return ConfigValues(); };
  spec.apply = [](Use &use) { use(addRows, use.extent("M")); };
  register_kernel(std::move(spec));
  const Device device = Device::open("virtual:sm_80");
  std::vector<float> values(3 * 100);
  std::iota(values.begin(), values.end(), 1.0f);
  const Buffer<float> x = device.upload(values);
  for (const std::int64_t rows : {1, 3}) {
    const NamedTensors outputs =
        run_kernel(device.stream(), "add_rows",
                   {{"x", tensor(x, {3, 100})}, {"rows", tensor(x, {rows, 100})}});
    const std::vector<float> y = outputs.at("y").as<float, 2>().download();
    for (std::size_t i = 0; i < values.size(); ++i)
      ASSERT_EQ(y[i], values[i] + values[rows == 1 ? i % 100 : i]);
  }
}

TEST(RegisterKernel, FieldsThatNothingFitsAreRefused) {
  const std::string field = "scale_refused: field '";
  EXPECT_EQ((refusedStruct<OfX<View<const half, 2>>>()),
            field +
                "x' of the kernel refused is f16 with 2 axes, but the argument is f32 [..., N]");
  EXPECT_EQ((refusedStruct<OfX<View<const float, 3>>>()),
            field +
                "x' of the kernel refused is f32 with 3 axes, but the argument is f32 [..., N]");
  EXPECT_EQ((refusedStruct<OfOther<View<const float, 1>>>()),
            field + "other' of the kernel refused is f32 with 1 axis, but no argument has this "
                    "name; the arguments are x, w, y");
  EXPECT_EQ(refusedStruct<OfOther<Int>>(),
            field + "other' of the kernel refused is a number of type i64, but no option or axis "
                    "has this name; the options are factor, mode, count, the axes N");
  EXPECT_EQ(refusedStruct<OfFactor<Int>>(),
            field + "factor' of the kernel refused is a number of type i64, but its value is a "
                    "floating-point number");
  EXPECT_EQ(refusedStruct<OfFactor<Bool>>({{"factor", 2}}),
            field + "factor' of the kernel refused is a number of type bool, but its value is an "
                    "integer");
  EXPECT_EQ(refusedStruct<OfMode<Int>>(),
            field + "mode' of the kernel refused is a number of type i64, but the option is a "
                    "choice");
  EXPECT_EQ(refusedStruct<OfCount<Int>>(),
            field + "count' of the kernel refused has no value: the option is not given, and has "
                    "no default");
  const Tensor<float, 1> none{nullptr, {0}, {1}};
  EXPECT_EQ((refusedStruct<OfX<View<const float, 2>>>({{"x", none}})),
            field + "x' of the kernel refused is f32 with 2 axes, but is set to a tensor of f32 "
                    "with 1 axis");
  EXPECT_EQ((refusedStruct<OfX<Ptr<const float>>>({{"x", 3}})),
            field + "x' of the kernel refused is f32 with 1 axis, but is set to a number");
  EXPECT_EQ(refusedStruct<OfCount<Int>>({{"count", none}}),
            field + "count' of the kernel refused is a number of type i64, but is set to a tensor");
  EXPECT_EQ(refusedStruct<OfCount<Int>>({{"count", 3}, {"counts", 3}}),
            "scale_refused: the kernel refused has no field 'counts' to set; its fields are count");
}

TEST(RegisterKernel, GradientsFollowFromInputs) {
  KernelSpec spec;
  spec.name = "backward";
  spec.add_arguments({{"x: [M, N] f32|f16"}, {"w?: [N] like x"}, {"scale?: [M] f32"}});
  spec.add_gradients({"x", "w", "scale"});
  ASSERT_EQ(spec.arguments.size(), 6u);
  const ArgumentSpec &x = spec.arguments[3], &w = spec.arguments[4], &scale = spec.arguments[5];
  EXPECT_TRUE(x.output && w.output && scale.output);
  EXPECT_EQ(x.name + w.name + scale.name, "dxdwdscale");
  EXPECT_EQ(x.axes, (std::vector<std::string>{"M", "N"}));
  EXPECT_EQ(x.like + w.like + scale.like, "xx");
  EXPECT_EQ(scale.dtypes, std::vector<DType>{DType::float32});
  EXPECT_EQ(x.with + w.with + scale.with, "wscale");
  EXPECT_EQ(w.doc, "gradient of w");
  for (const char *missing : {"y", "dx"})
    EXPECT_EQ(message<InputError>([&] { spec.add_gradients({missing}); }),
              "backward: there is no input '" + std::string(missing) + "' to have a gradient");
}

TEST(RegisterKernel, RowsOfTextAreRead) {
  KernelSpec spec;
  spec.name = "rows";
  const auto only = [](const Invocation &) { return DType::float16; };
  spec.add_arguments({{"a?:[M,1|N]  i64 | u8", "first"},
                      {"b: [] like a"},
                      {"->c: [..., 3] like a or f32|f64 over a, b with a", "third"},
                      {"-> d: [M]", "", {.dtype_by = only}},
                      {"-> e: [] like b updates b"}});
  ASSERT_EQ(spec.arguments.size(), 5u);
  const ArgumentSpec &a = spec.arguments[0], &c = spec.arguments[2];
  EXPECT_TRUE(a.optional && !a.output && c.output && !c.optional);
  EXPECT_EQ(a.axes, (std::vector<std::string>{"M", "1|N"}));
  EXPECT_EQ(a.dtypes, (std::vector{DType::int64, DType::uint8}));
  EXPECT_EQ(a.doc, "first");
  EXPECT_TRUE(spec.arguments[1].axes.empty());
  EXPECT_EQ(c.over, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(c.like + c.with, "aa");
  EXPECT_EQ(c.also, (std::vector{DType::float32, DType::float64}));
  EXPECT_EQ(spec.arguments[3].dtype_by({}), DType::float16);
  EXPECT_EQ(spec.arguments[4].over, (std::vector<std::string>{"b"}));
  EXPECT_TRUE(spec.arguments[4].updates && !c.updates);

  spec.add_options(
      {{"mode: mean|max = max", "how"}, {"eps: number = 1e-6 e.g. 0.1, 2"}, {"k: seed"}});
  ASSERT_EQ(spec.options.size(), 3u);
  EXPECT_EQ(spec.options[0].choices, (std::vector<std::string>{"mean", "max"}));
  EXPECT_EQ(spec.options[0].initial, "max");
  EXPECT_EQ(spec.options[1].samples, (std::vector<std::string>{"0.1", "2"}));
  EXPECT_EQ(spec.options[2].kind, OptionSpec::seed);
}

// Whatever the strides; and nothing is copied onto itself.
TEST(RegisterKernel, OutputsThatUpdateBeginAsTheirInput) {
  register_kernel(zeroSpec("zero_row_of"));
  const Device device = Device::open("virtual:sm_80");
  const auto numbers = [] {
    std::vector<float> values;
    for (int i = 0; i < 5 * 300; ++i)
      values.push_back(static_cast<float>(i + 1));
    return values;
  };
  const auto expectZeroed = [&](const std::vector<float> &y, std::size_t row, std::size_t stride,
                                std::size_t width) {
    std::vector<float> wanted = numbers();
    for (std::size_t column = 0; column < width; ++column)
      wanted[stride == 1 ? row + column * 5 : row * 300 + column] = 0;
    EXPECT_EQ(y, wanted);
  };
  const auto x = tensor(device.upload(numbers()), {5, 300});
  const auto fresh = run_kernel(device.stream(), "zero_row_of", {{"x", x}}, {{"row", "3"}});
  expectZeroed(fresh.at("y").as<float, 2>().download(), 3, 300, 300);
  EXPECT_EQ(x.download(), numbers());
  // Rows that lie apart, into such rows.
  const auto across = tensor(device.upload(numbers()), {300, 5}).permute({1, 0}),
             to = tensor(device.upload(numbers()), {300, 5}).permute({1, 0});
  Buffer<float>(to.memory()).poison();
  run_kernel(device.stream(), "zero_row_of", {{"x", across}}, {{"row", "2"}}, {{"y", to}});
  expectZeroed(to.permute({1, 0}).download(), 2, 1, 300);
  run_kernel(device.stream(), "zero_row_of", {{"x", x}}, {{"row", "1"}}, {{"y", x}});
  expectZeroed(x.download(), 1, 300, 300);
  const PreparedCall prepared = prepare_kernel(device, "zero_row_of", {{"x", across}});
  prepared.launch(device.stream());
  const auto y = prepared.outputs().at("y").as<float, 2>().download(), before = across.download();
  for (std::size_t i = 0; i < y.size(); ++i)
    ASSERT_EQ(y[i], i < 300 ? 0 : before[i]);
}

// Whatever wrote a call's inputs, its first launch has it done. The virtual GPU would report the
// launch otherwise.
TEST(RegisterKernel, AFirstLaunchThatReadsEarlyDoesNotStartEarly) {
  register_kernel(earlySpec());
  const Device device = Device::open("virtual:sm_90a");
  const auto from = tensor(device.upload(std::vector<float>(300, 5)), {1, 300}),
             x = tensor(device.allocate<float>(300), {1, 300});
  const auto writesX = [&] { negateRows.launch(device.stream(), 1, from, x, {}); };
  const auto expectRight = [](const NamedTensors &outputs) {
    EXPECT_THAT((outputs.at("y").as<float, 1>().download()), testing::Each(-4));
    EXPECT_THAT((outputs.at("z").as<float, 1>().download()), testing::Each(-3));
  };
  const NamedTensors inputs{{"x", tensor(Buffer<float>(x.memory()), {300})}};
  writesX();
  expectRight(run_kernel(device.stream(), "read_early_twice", inputs));
  const PreparedCall prepared = prepare_kernel(device, "read_early_twice", inputs);
  for (int round = 0; round < 2; ++round) {
    writesX();
    prepared.launch(device.stream());
  }
  expectRight(prepared.outputs());
}

TEST(RegisterKernel, RowsThatCannotBeReadAreRefused) {
  const auto argument = [](const char *row) {
    KernelSpec spec;
    spec.name = "k";
    return message<InputError>([&] { spec.add_arguments({{row}}); });
  };
  EXPECT_EQ(argument("w [N] f32"), "k: row 'w [N] f32': ':' is missing before '[N] f32'");
  EXPECT_EQ(argument(": [N] f32"),
            "k: row ': [N] f32': the argument's name is missing before ': [N] f32'");
  EXPECT_EQ(argument("w: [N, ] f32"), "k: row 'w: [N, ] f32': an axis is missing before '] f32'");
  EXPECT_EQ(argument("w: [N"), "k: row 'w: [N': ']' is missing at the end");
  EXPECT_EQ(argument("w: [N] f33"),
            "k: row 'w: [N] f33': 'f33' is no dtype, and not `like`, `over`, `updates` or `with` "
            "at the end");
  EXPECT_EQ(argument("w: [N] f32| over x"),
            "k: row 'w: [N] f32| over x': 'over' is no dtype, and not `like`, `over`, `updates` or "
            "`with` before 'x'");
  EXPECT_EQ(
      argument("w: [N] f32 f16"),
      "k: row 'w: [N] f32 f16': `or`, `over`, `updates`, `with` or the end is expected before "
      "'f16'");
  EXPECT_EQ(argument("w: [N] f32 over x, "),
            "k: row 'w: [N] f32 over x, ': an input is missing at the end");
  const auto option = [](const char *row) {
    KernelSpec spec;
    spec.name = "k";
    return message<InputError>([&] { spec.add_options({{row}}); });
  };
  EXPECT_EQ(option("p: numbr = 3"), "k: row 'p: numbr = 3': 'numbr' is not flag, number, integer, "
                                    "seed or choices as a|b before '= 3'");
  EXPECT_EQ(option("p: number ="), "k: row 'p: number =': the default is missing at the end");
  EXPECT_EQ(option("p: number 3"), "k: row 'p: number 3': `= default`, `from least`, `to most`, "
                                   "`e.g. sample` or the end is expected before '3'");
  EXPECT_EQ(option("p: number = 3 from"),
            "k: row 'p: number = 3 from': `= default`, `from least`, `to most`, `e.g. sample` or "
            "the end is expected before 'from'");
  EXPECT_EQ(option("p: number from 1 to "),
            "k: row 'p: number from 1 to ': the largest value is missing at the end");
}

TEST(RegisterKernel, DefaultsThatLeaveOutAFieldAreRefused) {
  EXPECT_EQ(refusal([](KernelSpec &spec) {
              spec.defaults = [](const Invocation &, const std::string &) {
                return ConfigValues{{"block", 64}};
              };
            }),
            "negate_refused: its defaults leave out the configuration field 'fast'");
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
  EXPECT_THAT(refusal([](KernelSpec &spec) { spec.arguments[0].axes = {"M", "m"}; }),
              HasSubstr("differ in upper and lower case only"));
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
  EXPECT_THAT(refusal([](KernelSpec &spec) { spec.options[1].most = "1"; }),
              HasSubstr("option 'on' cannot be from or to '1': bounds are numbers, of a number or "
                        "an integer"));
  EXPECT_THAT(refusal([](KernelSpec &spec) { spec.arguments.back().over = {"nothing"}; }),
              HasSubstr("may be over 'nothing': only outputs have `over`, and it names inputs"));
  EXPECT_THAT(refusal([](KernelSpec &spec) { spec.arguments.front().over = {"x"}; }),
              HasSubstr("only outputs have `over`, and it names inputs"));
  for (const auto &change :
       {+[](ArgumentSpec &y) { y.over = {}; }, +[](ArgumentSpec &y) { y.axes = {"N", "M"}; },
        +[](ArgumentSpec &y) {
          y.like = "";
          y.dtypes = {DType::float32};
        }})
    EXPECT_THAT(refusal([&](KernelSpec &spec) {
                  spec.arguments.back().over = {"x"};
                  spec.arguments.back().updates = true;
                  change(spec.arguments.back());
                }),
                HasSubstr("argument 'y' updates an input: `over` names that one, of its axes and"));
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
    EXPECT_NO_THROW(completeSpec(copy)) << kernel.name; // binds its launches, too
  }
}
