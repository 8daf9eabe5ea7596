// Arguments, options and configurations of the matrix products, and what their options say.
#include "kernels/Sample.h"
#include "kernels/matmul/Gemm.h"
#include "kernels/matmul/ProductModel.h"
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

using namespace sectile;

namespace {

// Numbers that need no more than 8 bits each, so that sums keep theirs.
void sampleBytes(const Invocation &, HostArray &array, std::mt19937_64 &random) {
  std::normal_distribution<double> normal;
  std::uniform_int_distribution<int> integer(-127, 127);
  fillDrawn(array, [&] { return array.dtype == DType::int8 ? integer(random) : normal(random); });
}

void sampleScales(const Invocation &, HostArray &array, std::mt19937_64 &random) {
  std::uniform_real_distribution<double> scale(0.5, 2);
  fillDrawn(array, [&] { return scale(random); });
}

// What is added to the sums has the result's dtype.
DType addendType(const Invocation &call) { return outputType(call.dtype("a"), call.options, true); }

ProductShape shapeOf(const Invocation &call) {
  const auto batch = call.extents.find("B");
  const auto bytes = std::int64_t(size_of(call.dtype("a")));
  const std::int64_t row = call.extent(call.options.flag("trans_b") ? "K" : "N");
  return {.batches = batch == call.extents.end() ? 1 : batch->second,
          .rows = call.extent("M"),
          .columns = call.extent("N"),
          .inner = call.extent("K"),
          .bytes = bytes,
          .isAligned = row * bytes % 128 == 0,
          .streamed = call.options.choice("schedule") == "stream_k",
          .promotes = isFp8(call.dtype("a"))};
}

bool isInWarpgroups(const Invocation &call, const std::string &target) {
  const bool alongK = !call.options.flag("trans_a") && call.options.flag("trans_b");
  const bool isByPrecision = isFp8(call.dtype("a")) || call.dtype("a") == DType::float32;
  return hasWarpgroupUnits(target, call.dtype("a"), alongK) &&
         (!isByPrecision || call.options.choice("precision") == "tf32") &&
         std::min(call.extent("M"), call.extent("N")) > 32;
}

// Where tiles of 256 columns leave multiprocessors idle, this one often fills the chip once.
// Streams leave none idle, and share its sums slowly.
constexpr ProductTile betweenTile{128, 192, 8, 3};
constexpr auto tilesOf16Bits = [] {
  std::array<ProductTile, std::size(productTiles) + 1> tiles{};
  std::copy(std::begin(productTiles), std::end(productTiles), tiles.begin());
  tiles.back() = betweenTile;
  return tiles;
}();

Config defaultsForWarpgroups(const Invocation &call, const std::string &target) {
  const ProductShape shape = shapeOf(call);
  const std::span<const ProductTile> tiles = shape.bytes == 2 && !shape.streamed
                                                 ? std::span<const ProductTile>(tilesOf16Bits)
                                                 : productTiles;
  // A residual may be stored over, so that threads would store, and takes more registers than
  // others leave.
  const bool mayPersist = shape.bytes == 2 && !epilogueParts(call).residual;
  const ProductConfig best = fastestProduct(tiles, shape,
                                            {.persistent = !mayPersist      ? ProductForms::never
                                                           : shape.streamed ? ProductForms::always
                                                                            : ProductForms::maybe,
                                             .clusters = true,
                                             .deeperRings = true,
                                             .mostSplits = 16},
                                            target);
  return {{"m", best.m},
          {"n", best.n},
          {"k", best.k},
          {"group", 8},
          {"warps", best.warps},
          {"stages", best.stages},
          {"cluster", best.cluster},
          {"splits", best.splits},
          {"persistent", best.persistent},
          {"programs", multiprocessors(target)}};
}

// What a warp of NVIDIA's multiplies at least.
constexpr std::int64_t narrowRows = 16;

// Reading the weights is what takes the time: lines of 256 bytes, and as many of them under way as
// there is room for.
Config defaultsForFewRows(std::int64_t batches, std::int64_t columns, std::int64_t inner,
                          std::int64_t units, std::int64_t bytes) {
  const std::int64_t n = batches * ceilDiv(columns, 64) >= units ? 64 : 32;
  const std::int64_t depth = std::min<std::int64_t>(256 / bytes, 128);
  constexpr std::int64_t leastSteps = 8, mostSplits = 16;
  const std::int64_t tiles = std::max<std::int64_t>(batches * ceilDiv(columns, n), 1);
  const std::int64_t splits = std::clamp<std::int64_t>(
      std::min(units / tiles, ceilDiv(inner, depth) / leastSteps), 1, mostSplits);
  return {{"m", narrowRows}, {"n", n},           {"k", depth},   {"group", 8},
          {"warps", 4},      {"stages", 6},      {"cluster", 1}, {"splits", splits},
          {"persistent", 0}, {"programs", units}};
}

Config defaultsFor(const Invocation &call, const std::string &target) {
  const std::int64_t rows = call.extent("M"), columns = call.extent("N"), inner = call.extent("K");
  const auto batch = call.extents.find("B");
  const std::int64_t batches = batch == call.extents.end() ? 1 : batch->second;
  const std::int64_t units = multiprocessors(target);
  if (isInWarpgroups(call, target))
    return defaultsForWarpgroups(call, target);
  const bool matrices = hasMatrixUnits(target, call.dtype("a")),
             small = std::max(rows, columns) <= 256;
  if (matrices && !small && rows <= narrowRows && target.starts_with("sm_"))
    return defaultsForFewRows(batches, columns, inner, units,
                              std::int64_t(size_of(call.dtype("a"))));
  const std::int64_t most = small || !matrices ? 64 : 128;
  // Few rows or columns: tiles no larger than they are.
  const std::int64_t side = std::clamp<std::int64_t>(std::min(rows, columns), 1, most);
  const std::int64_t tile =
      matrices ? std::max<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(side)), 32) : most;
  const std::int64_t tiles = ceilDiv(rows, tile) * ceilDiv(columns, tile) * batches;
  // Waiting for memory is what takes the time then, and where there is less than a tile for each
  // multiprocessor: more of it is under way in longer steps and by more programs.
  const bool waits = matrices && !small && (tile < most || tiles <= units);
  const bool skinny = waits && tile < most;
  const std::int64_t depth = (call.dtype("a") == DType::float32 ? 16 : 32) * (waits ? 2 : 1);
  // Where there are few tiles and long sums, several programs share each.
  constexpr std::int64_t leastSteps = 16, mostSplits = 16;
  const std::int64_t splits =
      std::clamp<std::int64_t>(std::min(units * (skinny ? 4 : 1) / std::max<std::int64_t>(tiles, 1),
                                        ceilDiv(inner, depth) / leastSteps),
                               1, mostSplits);
  return {{"m", tile},
          {"n", tile},
          {"k", depth},
          {"group", 8},
          {"warps", waits && tile == 128 ? 8 : 4},
          {"stages", skinny ? 4 : 3},
          {"cluster", 1},
          {"splits", splits},
          {"persistent", 0},
          {"programs", units}};
}

double predict(const Invocation &call, const std::string &target, const Config &config) {
  return isInWarpgroups(call, target)
             ? productMicroseconds(shapeOf(call), productConfig(config), target)
             : 0;
}

} // namespace

std::function<std::vector<std::string>(std::vector<std::string>, const OptionValues &)>
sectile::swappedBy(const char *flag) {
  return [flag](std::vector<std::string> axes, const OptionValues &options) {
    if (options.flag(flag))
      std::swap(axes[axes.size() - 1], axes[axes.size() - 2]);
    return axes;
  };
}

std::vector<ArgumentSpec> sectile::epilogueInputs(const std::vector<std::string> &axes) {
  // One for all matrices of a batch, or one each.
  auto along = [&](const char *axis) {
    return axes.size() == 2 ? std::vector<std::string>{axis}
                            : std::vector<std::string>{"1|" + axes[0], axis};
  };
  return {{.name = "bias",
           .optional = true,
           .axes = along("N"),
           .dtype_by = addendType,
           .doc = "added to each row; c's dtype"},
          {.name = "residual",
           .optional = true,
           .axes = axes,
           .dtype_by = addendType,
           .doc = "beta times it is added; not read with beta 0; c's dtype"},
          {.name = "row_scale",
           .optional = true,
           .axes = along("M"),
           .dtypes = {DType::float32},
           .sample = sampleScales,
           .doc = "each row of the product is multiplied by its own"},
          {.name = "column_scale",
           .optional = true,
           .axes = along("N"),
           .dtypes = {DType::float32},
           .sample = sampleScales,
           .doc = "each column likewise"}};
}

OptionSpec sectile::activationOption() {
  return {.name = "activation",
          .kind = OptionSpec::choice,
          .initial = "none",
          .choices = epilogueActivations(),
          .doc = "the last step; gelu is the exact one"};
}

std::vector<ArgumentSpec> sectile::scaledResult(const char *doc) {
  auto type = [](const Invocation &call) { return *parseDType(call.options.choice("out")); };
  return {{.name = "bias", .optional = true, .axes = {"N"}, .dtype_by = type, .doc = "c's dtype"},
          {.name = "c", .output = true, .axes = {"M", "N"}, .dtype_by = type, .doc = doc}};
}

std::vector<OptionSpec> sectile::scaledResultOptions() {
  return {activationOption(),
          {.name = "out",
           .kind = OptionSpec::choice,
           .initial = "bf16",
           .choices = {"bf16", "f16", "f32"},
           .doc = "c's dtype"}};
}

std::vector<OptionSpec> sectile::epilogueOptions() {
  return {activationOption(),
          {.name = "alpha",
           .kind = OptionSpec::number,
           .initial = "1",
           .samples = {"0.5"},
           .doc = "of the product"},
          {.name = "beta",
           .kind = OptionSpec::number,
           .initial = "1",
           .samples = {"-2"},
           .doc = "of the residual"},
          {.name = "out",
           .kind = OptionSpec::choice,
           .initial = "same",
           .choices = {"same", "f32", "f16", "bf16"},
           .doc = "c's dtype; same is a's; for i8 i32, or f32 with an epilogue"}};
}

DType sectile::outputType(DType operands, const OptionValues &options, bool epilogue) {
  const std::string &out = options.choice("out");
  if (out != "same")
    return *parseDType(out);
  return operands != DType::int8 ? operands : epilogue ? DType::float32 : DType::int32;
}

EpilogueParts sectile::epilogueParts(const Invocation &call) {
  return {activationOf(call.options.choice("activation")),
          call.options.number("alpha") != 1,
          call.has("bias"),
          call.has("residual") && call.options.number("beta") != 0,
          call.has("row_scale"),
          call.has("column_scale")};
}

void sectile::specifyGemm(KernelSpec &spec, bool batched) {
  auto stack = [&](const char *batch, const char *rows, const char *columns) {
    return batched ? std::vector<std::string>{batch, rows, columns}
                   : std::vector<std::string>{rows, columns};
  };
  spec.arguments = {{.name = "a",
                     .axes = stack("B", "M", "K"),
                     .stored = swappedBy("trans_a"),
                     .dtypes = {DType::float16, DType::bfloat16, DType::float32, DType::float8_e4m3,
                                DType::float8_e5m2, DType::int8},
                     .sample = sampleBytes,
                     .doc = "last two axes the other way round with trans_a"},
                    {.name = "b",
                     .axes = stack("1|B", "K", "N"),
                     .stored = swappedBy("trans_b"),
                     .like = "a",
                     .sample = sampleBytes,
                     .doc = "last two axes the other way round with trans_b, as is the default of "
                            "fp8 and int8"}};
  for (ArgumentSpec &argument : epilogueInputs(stack("B", "M", "N")))
    spec.arguments.push_back(std::move(argument));
  spec.arguments.push_back({.name = "c",
                            .output = true,
                            .axes = stack("B", "M", "N"),
                            .dtype_by =
                                [](const Invocation &call) {
                                  return outputType(call.dtype("a"), call.options,
                                                    epilogueParts(call).any());
                                },
                            .over = {"residual"},
                            .doc = "accumulated in f32, of i8 in i32"});
  spec.options = {
      {.name = "trans_a",
       .kind = OptionSpec::flag,
       .initial = "false",
       .doc = "a is stored transposed"},
      {.name = "trans_b",
       .kind = OptionSpec::flag,
       .initial = "",
       // Matrix units multiply 8 bits along K alone.
       .initial_by =
           [](const Invocation &call) { return size_of(call.dtype("a")) == 1 ? "true" : "false"; },
       .doc = "b is stored transposed; default true for fp8 and int8, else false"},
      {.name = "precision",
       .kind = OptionSpec::choice,
       .initial = "tf32",
       .choices = {"tf32", "exact"},
       .doc = "exact: f32 products not through tf32, fp8 products summed in f32"}};
  for (OptionSpec &option : epilogueOptions())
    spec.options.push_back(std::move(option));
  spec.options.push_back({.name = "schedule",
                          .kind = OptionSpec::choice,
                          .initial = "tiles",
                          .choices = {"tiles", "stream_k"},
                          .doc = "a program per tile (and split), or a fixed number of programs "
                                 "that share the steps of the last waves of tiles evenly"});
  spec.config = {{"m", "rows of one program's tile"},
                 {"n", "columns of one program's tile"},
                 {"k", "depth of one step"},
                 {"group", "tile rows that neighbouring programs share"},
                 {"warps", "warps of one program"},
                 {"stages", "steps in flight"},
                 {"cluster", "programs that share what they load of b: 1 or 2", 1, 2},
                 {"splits", "programs that share the sums of one tile"},
                 {"persistent", "1: each program does one tile after another", 0, 1},
                 {"programs", "programs of stream_k, and where they are persistent"}};
  spec.neutral = {"group", "stages", "cluster", "persistent"};
  spec.reference = [](const Invocation &call, std::span<const HostArray> inputs,
                      Arithmetic arithmetic) {
    return std::vector{gemmReference(call, inputs, arithmetic)};
  };
  spec.flops = [batched](const Invocation &call) {
    const double sums = double(call.extent("M")) * double(call.extent("N"));
    return 2 * sums * double(call.extent("K")) * (batched ? double(call.extent("B")) : 1);
  };
  spec.defaults = defaultsFor;
  spec.predict = predict;
  spec.spaces = {
      {.axes = {{"m", {16, 32, 64, 128, 256}},
                {"n", {32, 64, 128, betweenTile.n, 256}},
                {"k", {16, 32, 64, 128}},
                {"warps", {4, 8}},
                {"stages", {2, 3, 4, 5, 6}}},
       // What keeps each thread busy without more sums than it has registers for.
       .where = [](const Invocation &call, const std::string &target, const Config &config) {
         const std::int64_t sums =
             config.at("m") * config.at("n") / (config.at("warps") * warpSize(target));
         // A line of shared memory holds 128 numbers of 8 bits.
         const bool narrow = config.at("m") == narrowRows;
         const std::int64_t deepest = narrow || size_of(call.dtype("a")) == 1 ? 128 : 64;
         const bool suitsRows = !narrow || call.extent("M") <= narrowRows;
         const bool suitsColumns =
             config.at("n") != betweenTile.n ||
             (size_of(call.dtype("a")) == 2 && config.at("m") == betweenTile.m &&
              isInWarpgroups(call, target));
         return suitsRows && suitsColumns && sums >= (narrow ? 4 : 8) &&
                sums <= (hasMatrixUnits(target, call.dtype("a")) ? 128 : 64) &&
                config.at("k") <= deepest;
       }}};
}
