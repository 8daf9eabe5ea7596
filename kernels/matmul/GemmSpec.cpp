// Arguments, options and configurations of the matrix products, and what their options say.
#include "kernels/matmul/Gemm.h"
#include "kernels/matmul/Operands.h"
#include "kernels/matmul/ProductModel.h"
#include "kernels/references/Sample.h"
#include <algorithm>
#include <bit>

using namespace sectile;

namespace {

// The dtype that `out` says.
DType outputType(const Invocation &call, bool hasEpilogue) {
  const DType operands = call.dtype("a");
  const std::string &out = call.options.choice("out");
  if (out != "same")
    return *parseDType(out);
  return operands != DType::int8 ? operands : hasEpilogue ? DType::float32 : DType::int32;
}
DType resultType(const Invocation &call) {
  return outputType(call, epilogueParts(call).any() || call.has("residual"));
}
// What is added to the sums has the result's dtype.
DType addendType(const Invocation &call) { return outputType(call, true); }

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
          .acrossK = !call.options.flag("trans_b"),
          .streamed = call.options.choice("schedule") == "stream_k",
          .promotes = isFp8(call.dtype("a")),
          .resultBytes = std::int64_t(size_of(resultType(call)))};
}

bool isInWarpgroups(const Invocation &call, const std::string &target) {
  const bool isByPrecision = isFp8(call.dtype("a")) || call.dtype("a") == DType::float32;
  return hasWarpgroupUnits(target, call.dtype("a"), /*alongK=*/true) &&
         (!isByPrecision || call.options.choice("precision") == "tf32") &&
         std::min(call.extent("M"), call.extent("N")) > 32;
}

// Where tiles of 128 and 256 columns leave multiprocessors idle in the last wave, these often do
// not. Streams leave none idle, and share their sums slowly.
constexpr ProductTile betweenTiles[] = {{128, 160, 8, 4}, {128, 192, 8, 3}, {128, 224, 8, 3},
                                        {128, 96, 8, 4},  {64, 96, 4, 4},   {64, 192, 4, 4}};
constexpr auto tilesOf16Bits = [] {
  std::array<ProductTile, std::size(productTiles) + std::size(betweenTiles)> tiles{};
  std::ranges::copy(betweenTiles, std::ranges::copy(productTiles, tiles.begin()).out);
  return tiles;
}();

// Columns that become rows of the chip's instructions: 64 for each warpgroup read b the least
// often.
constexpr ProductTile exchangedTiles[] = {{256, 128, 8, 3}, {192, 128, 8, 3}, {128, 128, 8, 4},
                                          {64, 128, 4, 4},  {128, 64, 4, 4},  {64, 64, 4, 6},
                                          {64, 32, 4, 6, 2}};

struct ProductChoice {
  Config fields;
  double microseconds;
};
ProductChoice choiceForWarpgroups(const Invocation &call, const std::string &target,
                                  const ProductShape &shape) {
  std::span<const ProductTile> tiles = productTiles;
  if (shape.bytes == 2 && !shape.streamed)
    tiles = tilesOf16Bits;
  else if (shape.bytes != 2 && shape.turnsB && !shape.turnsA)
    tiles = exchangedTiles;
  // Threads store rows that are no multiple of 16 bytes, which takes as long as multiplying where a
  // program has the sums of the largest tile, in f32.
  else if (shape.bytes == 4 && shape.columns % 4 != 0)
    tiles = tiles.subspan(1);
  // A residual may be stored over, so that threads would store, and takes more registers than
  // others leave.
  const bool mayPersist = !epilogueParts(call).residual;
  const ProductConfig best = fastestProduct(tiles, shape,
                                            {.persistent = !mayPersist      ? ProductForms::never
                                                           : shape.streamed ? ProductForms::always
                                                                            : ProductForms::maybe,
                                             .clusters = true,
                                             .deeperRings = true,
                                             .mostSplits = 16},
                                            target);
  return {productFields(call, best, target), productMicroseconds(shape, best, target)};
}

Config defaultsForWarpgroups(const Invocation &call, const std::string &target) {
  const ProductShape shape = shapeOf(call);
  ProductChoice choice = choiceForWarpgroups(call, target, asItLies(call, shape)),
                copied = choiceForWarpgroups(call, target, shape);
  if (!isWorthCopying(call, target, choice.microseconds, copied.microseconds))
    return choice.fields;
  copied.fields["copy_first"] = 1;
  return copied.fields;
}

// How many programs share a tile's sum, so that there is one for each multiprocessor, with as many
// steps each.
std::int64_t splitsFor(std::int64_t programs, std::int64_t tiles, std::int64_t steps,
                       std::int64_t leastSteps) {
  constexpr std::int64_t mostSplits = 16;
  return std::clamp<std::int64_t>(
      std::min(programs / std::max<std::int64_t>(tiles, 1), steps / leastSteps), 1, mostSplits);
}

Config defaultsFor(const Invocation &call, const std::string &target) {
  const ProductShape shape = shapeOf(call);
  const std::int64_t units = multiprocessors(target);
  if (isInWarpgroups(call, target))
    return defaultsForWarpgroups(call, target);
  const bool matrices = hasMatrixUnits(target, call.dtype("a")),
             small = std::max(shape.rows, shape.columns) <= 256;
  // Threads load b by elements where its rows are no multiple of 16 bytes.
  const bool isFew = shape.rows <= fewRows ||
                     (shape.columns <= fewRows &&
                      (call.options.flag("trans_b") || shape.columns * shape.bytes % 16 == 0));
  if (matrices && isFew && target.starts_with("sm_")) {
    ProductShape fewer = shape;
    const bool isTurned = shape.rows > fewRows;
    if (isTurned) {
      std::swap(fewer.rows, fewer.columns);
      fewer.acrossK = call.options.flag("trans_a");
    }
    ProductConfig best = fastestOfFewRows(fewer, target);
    if (isTurned)
      std::swap(best.m, best.n);
    return productFields(call, best, target);
  }
  const std::int64_t most = small || !matrices ? 64 : 128;
  // Few rows or columns: tiles no larger than they are.
  const std::int64_t side = std::clamp<std::int64_t>(std::min(shape.rows, shape.columns), 1, most);
  const std::int64_t tile =
      matrices ? std::max<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(side)), 32) : most;
  const std::int64_t tiles =
      ceilDiv(shape.rows, tile) * ceilDiv(shape.columns, tile) * shape.batches;
  // Waiting for memory is what takes the time then, and where there is less than a tile for each
  // multiprocessor: more of it is in flight in longer steps and by more programs.
  const bool waits = matrices && !small && (tile < most || tiles <= units);
  const bool skinny = waits && tile < most;
  const std::int64_t depth = (call.dtype("a") == DType::float32 ? 16 : 32) * (waits ? 2 : 1);
  // Where there are few tiles and long sums, several programs share each.
  const ProductConfig config{.m = tile,
                             .n = tile,
                             .k = depth,
                             .warps = waits && tile == 128 ? 8 : 4,
                             .stages = skinny ? 4 : 3,
                             .splits = splitsFor(units * (skinny ? 4 : 1), tiles,
                                                 ceilDiv(shape.inner, depth), /*leastSteps=*/16)};
  return productFields(call, config, target);
}

bool isWorthTrying(const Invocation &call, const std::string &target, const Config &config) {
  const std::int64_t sums = sumsOfThread(config, target);
  // A line of shared memory holds 128 numbers of 8 bits.
  const bool narrow = config.at("m") == narrowRows;
  const std::int64_t deepest = std::min(call.extent("M"), call.extent("N")) <= fewRows ? 256
                               : size_of(call.dtype("a")) == 1                         ? 128
                                                                                       : 64;
  const bool suitsRows = !narrow || call.extent("M") <= narrowRows;
  const bool suitsColumns =
      std::has_single_bit(static_cast<std::uint64_t>(config.at("n"))) ||
      (size_of(call.dtype("a")) == 2 && config.at("m") == 128 && isInWarpgroups(call, target));
  return suitsRows && suitsColumns && sums >= (narrow ? 4 : 8) &&
         sums <= (hasMatrixUnits(target, call.dtype("a")) ? 128 : 64) && config.at("k") <= deepest;
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

OptionRow sectile::activationOption() {
  std::string choices;
  for (const std::string &name : epilogueActivations())
    (choices += choices.empty() ? "" : "|") += name;
  return {"activation: " + choices + " = none", "the last step; gelu is the exact one"};
}

std::vector<ArgumentRow> sectile::scaledResult(const char *doc) {
  const auto type = [](const Invocation &call) { return *parseDType(call.options.choice("out")); };
  return {{"bias?: [N]", "c's dtype", {.dtype_by = type}},
          {"-> c: [M, N]", doc, {.dtype_by = type}}};
}

std::vector<OptionRow> sectile::scaledResultOptions() {
  return {activationOption(), {"out: bf16|f16|f32 = bf16", "c's dtype"}};
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
  // One for all matrices of a batch, or one each.
  const std::string each = batched ? "B, " : "", any = batched ? "1|B, " : "";
  const auto scales = sampleUniform(0.5, 2);
  // Integers of at most 8 bits, so that sums keep all of theirs.
  const auto operands = sampleNormal(1);
  spec.add_arguments(
      {{"a: [" + each + "M, K] f16|bf16|f32|f8e4m3|f8e5m2|i8",
        "last two axes the other way round with trans_a",
        {.stored = swappedBy("trans_a"), .sample = operands}},
       {"b: [" + any + "K, N] like a",
        "last two axes the other way round with trans_b, as is the default of fp8 and int8",
        {.stored = swappedBy("trans_b"), .sample = operands}},
       {"bias?: [" + any + "N]", "added to each row; c's dtype", {.dtype_by = addendType}},
       {"residual?: [" + each + "M, N]",
        "beta times it is added; not read with beta 0; c's dtype",
        {.dtype_by = addendType}},
       {"row_scale?: [" + any + "M] f32",
        "each row of the product is multiplied by its own",
        {.sample = scales}},
       {"column_scale?: [" + any + "N] f32", "each column likewise", {.sample = scales}},
       {"-> c: [" + each + "M, N] over residual",
        "accumulated in f32, of i8 in i32",
        {.dtype_by = resultType}}});
  // Matrix units multiply 8 bits along K alone.
  const auto transB = [](const Invocation &call) {
    return size_of(call.dtype("a")) == 1 ? "true" : "false";
  };
  spec.add_options(
      {{"trans_a: flag = false", "a is stored transposed"},
       {"trans_b: flag", "b is stored transposed; default true for fp8 and int8, else false",
        transB},
       {"precision: tf32|exact = tf32",
        "exact: f32 products not through tf32, fp8 products summed in f32"},
       activationOption(),
       {"alpha: number = 1 e.g. 0.5", "of the product"},
       {"beta: number = 1 e.g. -2, 0", "of the residual"},
       {"out: same|f32|f16|bf16 = same",
        "c's dtype; same is a's; for i8 i32, or f32 with an epilogue"},
       {"schedule: tiles|stream_k = tiles",
        "a program per tile (and split), or a fixed number of programs that share the steps of "
        "the last waves of tiles evenly"}});
  spec.config =
      productFieldSpecs("group", "depth of one step",
                        {clusterField,
                         {"splits", "programs that share the sums of one tile"},
                         persistentField,
                         {"programs", "programs of stream_k, and where they are persistent"},
                         copyFirstField});
  spec.neutral = {"group", "stages", "cluster", "persistent"};
  spec.reference = gemmReference;
  spec.flops = [batched](const Invocation &call) {
    return productFlops(call, {"M", "N", "K"}) * (batched ? double(call.extent("B")) : 1);
  };
  spec.defaults = defaultsFor;
  spec.predict = predictProduct([](const Invocation &call, const std::string &target,
                                   const Config &) { return isInWarpgroups(call, target); },
                                [](const Invocation &call, const Config &config) {
                                  return config.at("copy_first") ? shapeOf(call)
                                                                 : asItLies(call, shapeOf(call));
                                });
  spec.spaces = {{.part = spec.name,
                  .axes = {{"m", {16, 32, 64, 128, 256}},
                           {"n", {32, 64, 96, 128, 160, 192, 224, 256}},
                           {"k", {16, 32, 64, 128, 256}},
                           {"warps", {4, 8}},
                           {"stages", {2, 3, 4, 5, 6}}},
                  .where = isWorthTrying}};
}
