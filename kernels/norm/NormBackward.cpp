// dx, dw and db of a normalisation along the last axis. With n = (x - mean) rstd and g = dy w, or
// dy (w + weight_offset):
//   dx = rstd (g - mean(g) - n mean(g n)), dw = sum of dy n over the rows, db = sum of dy
// and without a mean the same less its terms; dh, where it is given, is added to dx. Derived from
// the forward formulas. That mean and rstd are x's is not checked. A program does many rows, with
// its part of dw and db in registers; a second launch adds the programs' parts. Of few rows dw and
// db are summed by programs of their own, which read x and dy again, in the same launch: a second
// one would take longer. Where dx takes dy's place they have to be first, in a launch of their own.
#include "kernels/norm/NormBackward.h"
#include "kernels/blocks/RowBlocks.h"
#include "kernels/norm/NormReferences.h"
#include "kernels/norm/SumRows.h"
#include "kernels/references/Sample.h"
#include <algorithm>

using namespace sectile;

namespace {

struct NormBackwardConfig {
  int block = 1024, rows = 1, warps = 4;
  bool whole = true;   // a row fits a block; else its two means are known from a launch before
  bool centred = true; // a mean was taken away
  bool added = false;  // dh is added to dx
  bool scaled = true;  // there is w, and dw is wanted
  bool moved = false;  // there is b, and db is wanted
  bool offset = false; // weight_offset is added to w
  bool shares = true;  // programs of rows have their parts of dw and db
  bool ofRows = true, ofColumns = false; // programs there are; the latter sum dw and db, of
  int sumRows = 1, sumColumns = 32;      // so many rows and columns at once
};

template <class T> struct NormBackwardArguments {
  View<const T, 2> x;
  View<const T, 1> w;
  View<const float, 1> mean, rstd;
  View<const T, 2> dy, dh;
  View<const float, 2> means;
  View<T, 2> dx;
  View<float, 2> dw_parts, db_parts; // of each program
  View<T, 1> dw, db;                 // where programs of columns sum them
  Float weight_offset;
};

template <class T>
Tile<float> withOffset(const Tile<T> &weight, const Float &offset,
                       const NormBackwardConfig &config) {
  auto result = cast<float>(weight);
  if (config.offset)
    result += offset;
  return result;
}

// (x - mean) rstd of a tile.
template <class T>
Tile<float> normalised(const NormBackwardArguments<T> &a, const NormBackwardConfig &config,
                       const Tile<T> &x, const Tile<float> &rstd, const Int &row) {
  auto normal = cast<float>(x);
  if (config.centred)
    normal -= expand(a.mean.tile(static_cast<int>(x.extent(0))).load(row), 1);
  return normal * rstd;
}

// Beyond a row's end x counts as 0, which is not the mean; but dy is 0 there too, and with it all
// terms. So it is with rows beyond the last.
template <class T>
void gradientOfRows(const NormBackwardArguments<T> &a, const NormBackwardConfig &config,
                    const Int &column, const Int &program, const Int &programs) {
  const int m = config.rows, n = config.block;
  const bool sumsWeight = config.scaled && config.shares, sumsBias = config.moved && config.shares;
  auto length = cast<float>(a.x.extent(1));
  Tile<float> weight;
  if (config.scaled)
    weight = expand(withOffset(a.w.tile(n).load(column), a.weight_offset, config), 0);
  auto weightSum = zeros<float>(m, n), biasSum = zeros<float>(m, n);
  for (auto row : range(program, cdiv(a.x.extent(0), m), programs)) {
    const auto scale = expand(a.rstd.tile(m).load(row), 1);
    const auto normal = normalised(a, config, a.x.tile(m, n).load(row, column), scale, row);
    auto gradient = cast<float>(a.dy.tile(m, n).load(row, column));
    if (sumsBias)
      biasSum += gradient;
    if (sumsWeight)
      weightSum += gradient * normal;
    if (config.scaled)
      gradient *= weight;
    auto along = zeros<float>(m), across = zeros<float>(m);
    if (config.whole) {
      along = sum(gradient * normal, 1) / length;
      if (config.centred)
        across = sum(gradient, 1) / length;
    } else {
      along = a.means.fix(1, 0).tile(m).load(row);
      across = a.means.fix(1, 1).tile(m).load(row);
    }
    auto result = gradient - normal * expand(along, 1);
    if (config.centred)
      result -= expand(across, 1);
    result *= scale;
    if (config.added)
      result += cast<float>(a.dh.tile(m, n).load(row, column));
    a.dx.tile(m, n).store(row, column, result);
  }
  if (sumsWeight)
    a.dw_parts.at(program).tile(n).store(column, sum(weightSum, 0));
  if (sumsBias)
    a.db_parts.at(program).tile(n).store(column, sum(biasSum, 0));
}

template <class T>
void sumsOfColumns(const NormBackwardArguments<T> &a, const NormBackwardConfig &config,
                   const Int &column) {
  const int m = config.sumRows, n = config.sumColumns;
  auto weightSum = zeros<float>(m, n), biasSum = zeros<float>(m, n);
  for (auto row : range(0, cdiv(a.x.extent(0), m))) {
    const auto gradient = cast<float>(a.dy.tile(m, n).load(row, column));
    if (config.scaled)
      weightSum += gradient * normalised(a, config, a.x.tile(m, n).load(row, column),
                                         expand(a.rstd.tile(m).load(row), 1), row);
    if (config.moved)
      biasSum += gradient;
  }
  if (config.scaled)
    a.dw.tile(n).store(column, sum(weightSum, 0));
  if (config.moved)
    a.db.tile(n).store(column, sum(biasSum, 0));
}

template <class T>
Kernel normBackward{
    "norm_backward", [](const NormBackwardArguments<T> &a, const NormBackwardConfig &config) {
      if (!config.ofColumns) {
        gradientOfRows(a, config, program_id(0), program_id(1), num_programs(1));
        return;
      }
      const Int program = program_id(0), columns = cdiv(a.x.extent(1), config.sumColumns);
      if (!config.ofRows) {
        sumsOfColumns(a, config, program);
        return;
      }
      when(
          program < columns, [&] { sumsOfColumns(a, config, program); },
          [&] { gradientOfRows(a, config, 0, program - columns, num_programs(0) - columns); });
    }};

template <class T> struct NormBackwardMeansArguments {
  View<const T, 2> x;
  View<const T, 1> w;
  View<const float, 1> mean, rstd;
  View<const T, 2> dy;
  View<float, 2> means;
  Float weight_offset;
};

// Of rows beyond a block: mean(g n) and mean(g).
template <class T>
Kernel normBackwardMeans{"norm_backward_means", [](const NormBackwardMeansArguments<T> &a,
                                                   const NormBackwardConfig &config) {
                           const auto &[x, w, mean, rstd, dy, means, weight_offset] = a;
                           const int n = config.block;
                           auto row = program_id(0);
                           auto at = [&](const View<const float, 1> &numbers) {
                             return load(numbers.ptr() + row * numbers.stride(0));
                           };
                           auto from = x.at(row).tile(n), gradients = dy.at(row).tile(n),
                                weights = w.tile(n);
                           Float centre = 0.0f;
                           if (config.centred)
                             centre = at(mean);
                           auto scale = at(rstd);
                           auto along = zeros<float>(n), across = zeros<float>(n);
                           for (auto block : range(0, cdiv(x.extent(1), n))) {
                             auto gradient = cast<float>(gradients.load(block));
                             if (config.scaled)
                               gradient *= withOffset(weights.load(block), weight_offset, config);
                             along += gradient * ((cast<float>(from.load(block)) - centre) * scale);
                             across += gradient;
                           }
                           auto length = cast<float>(x.extent(1));
                           store(means.ptr() + row * 2, sum(along, 0) / length);
                           store(means.ptr() + row * 2 + 1, sum(across, 0) / length);
                         }};

Config defaultsFor(const Invocation &call, const std::string &target, bool hasSums,
                   std::int64_t longest) {
  const std::int64_t n = call.extent("N"), units = multiprocessors(target);
  const std::int64_t count = elementCount(call.leading);
  const std::int64_t block = n <= longest ? blockFor(n, call.dtype("x")) : 1024;
  const std::int64_t rows = std::clamp<std::int64_t>(
      powerAtLeast(count), 1, powerAtMost(std::max<std::int64_t>(1024 / block, 1)));
  // Sixteen elements of each array for a thread or fewer, unless its vectors would then be short of
  // four; programs for 512 threads of a multiprocessor, but each with some rows, that its part of
  // dw and db is little beside them.
  const std::int64_t tile = rows * block, held = 16 * warpSize(target);
  const std::int64_t warps = std::clamp<std::int64_t>(
      std::min((tile & -tile) / (4 * warpSize(target)), powerAtLeast(ceilDiv(tile, held))), 1, 16);
  const std::int64_t most = units * std::max<std::int64_t>(16 * held / tile, 1) /
                            std::max<std::int64_t>(ceilDiv(n, block), 1);
  // Few rows do not wait for each other, and rows that leave no sums need not share a program.
  const std::int64_t all = ceilDiv(count, rows);
  const std::int64_t programs =
      hasSums ? std::clamp<std::int64_t>(std::max(ceilDiv(all, 4), std::min(all, units)), 1,
                                         std::max<std::int64_t>(most, 1))
              : std::clamp<std::int64_t>(all, 1, 65535);
  // Long rows: programs of the second stage enough for each multiprocessor, not many times more.
  const std::int64_t columns = std::clamp<std::int64_t>(powerAtMost(n / (4 * units)), 32, 256);
  return Config{{"block", block},
                {"rows", rows},
                {"warps", warps},
                {"programs", programs},
                {"columns", columns}};
}

bool isWorthTrying(const Invocation &call, const std::string &target, const Config &config) {
  const std::int64_t n = call.extent("N"), block = config.at("block"),
                     tile = block * config.at("rows"),
                     threads = config.at("warps") * warpSize(target);
  return isFittingBlock(block, n, call.dtype("x")) && (block >= n || n > 8192) && tile >= threads &&
         tile <= (tile > 16384 ? 64 : 32) * threads;
}

// Rows whose columns programs sum: of more it takes longer than another launch.
constexpr std::int64_t mostBeside = 256;

void launch(Use &use, bool centred) {
  const bool replaced = !centred && use.has("h");
  const double offset = centred ? 0 : use.call.options.number("weight_offset");
  const std::int64_t n = use.extent("N"), count = use.extent("...");
  const auto config = use.config_as(NormBackwardConfig{.whole = n <= use.field("block"),
                                                       .centred = centred,
                                                       .added = !centred && use.has("dh"),
                                                       .scaled = use.has("w"),
                                                       .moved = centred && use.has("b"),
                                                       .offset = offset != 0});
  for_dtype<float, half, bfloat16>(use.call.dtype("x"), [&]<class T>(T) {
    const auto x = use.rows<T>(replaced ? "h" : "x");
    const auto mean = centred ? use.elements<float>("mean") : noTensor<float, 1>();
    const auto dh = config.added ? use.rows<T>("dh") : noTensor<T, 2>();
    auto means = noTensor<float, 2>();
    if (!config.whole) {
      means = use.workspace<float, 2>({count, 2});
      // A program has its row to itself, and nothing but loads to wait for.
      NormBackwardConfig wide = config;
      wide.block = 8192;
      wide.warps = 16;
      use(normBackwardMeans<T>, count, wide,
          {{"x", x}, {"mean", mean}, {"means", means}, {"weight_offset", offset}});
    }
    const auto run = [&](Grid grid, const NormBackwardConfig &chosen, const Tensor<float, 2> &dw,
                         const Tensor<float, 2> &db) {
      use(normBackward<T>, grid, chosen,
          {{"x", x},
           {"mean", mean},
           {"dh", dh},
           {"means", means},
           {"dw_parts", dw},
           {"db_parts", db},
           {"dw", config.scaled ? use.tensor<T, 1>("dw") : noTensor<T, 1>()},
           {"db", config.moved ? use.tensor<T, 1>("db") : noTensor<T, 1>()},
           {"weight_offset", offset}});
    };
    const std::int64_t ofRows = ceilDiv(count, config.rows);
    std::int64_t parts = use.field("programs");
    if (parts == 0 && config.whole) {
      NormBackwardConfig rows = config;
      rows.shares = false;
      NormBackwardConfig columns = rows;
      columns.ofRows = false;
      columns.ofColumns = true;
      columns.sumColumns = use.field("columns");
      // As many rows at once as leave a thread 32 numbers.
      columns.sumRows = static_cast<int>(
          std::clamp<std::int64_t>(powerAtMost(1024 * config.warps / columns.sumColumns), 1,
                                   powerAtLeast(std::max<std::int64_t>(count, 1))));
      NormBackwardConfig both = columns;
      both.ofRows = true;
      const std::int64_t ofColumns = ceilDiv(n, columns.sumColumns);
      const auto none = noTensor<float, 2>();
      // Where code is only compiled there are no addresses, and either may be needed.
      const void *dx = use.rows<T>("dx").data(), *dy = use.rows<T>("dy").data();
      const bool isOpen = dx == nullptr, replaces = dx == dy;
      if (!replaces || isOpen)
        run(ofColumns + ofRows, both, none, none);
      if (replaces || isOpen) {
        run(ofColumns, columns, none, none);
        run(Grid(1, ofRows), rows, none, none);
      }
      return;
    }
    parts = count == 0 ? 0 : parts == 0 ? std::clamp<std::int64_t>(ofRows, 1, mostBeside) : parts;
    const PartialSums<T> sums(use, parts, n, config.scaled ? "dw" : nullptr,
                              config.moved ? "db" : nullptr);
    run(Grid(ceilDiv(n, config.block), parts), config, sums.of("dw"), sums.of("db"));
    sums.add();
  });
}

} // namespace

void sectile::configureNormBackward(KernelSpec &spec,
                                    std::function<bool(const Invocation &)> hasSums,
                                    const char *part, std::int64_t longest,
                                    std::int64_t longestWithout) {
  spec.config = {{"block", "elements of a row held at once"},
                 {"rows", "rows held at once"},
                 {"warps", "warps of one program"},
                 {"programs", "programs that share the rows"},
                 sumColumns};
  spec.defaults = [=](const Invocation &call, const std::string &target) {
    const bool sums = hasSums(call);
    return defaultsFor(call, target, sums, sums ? longest : longestWithout);
  };
  spec.spaces = {{.part = part,
                  .axes = {{"block", rowBlocks()},
                           {"rows", {1, 2, 4, 8, 16}},
                           {"warps", {1, 2, 4, 8, 16}},
                           {"programs", {64, 128, 256, 512, 1024}}},
                  .where = isWorthTrying}};
}

namespace {

// Few rows have their sums beside them, and are tuned so: of other launches the second is not seen.
void addBeside(KernelSpec &spec, const std::function<bool(const Invocation &)> &hasSums) {
  const auto isBeside = [hasSums](const Invocation &call, const Config &config) {
    return hasSums(call) && elementCount(call.leading) <= mostBeside &&
           call.extent("N") <= config.at("block");
  };
  spec.config[3].least = 0;
  spec.config[3].doc += "; 0: each row has its own, and others sum dw and db";
  spec.defaults = [=, shared = spec.defaults](const Invocation &call, const std::string &target) {
    Config config = shared(call, target);
    if (!isBeside(call, config))
      return config;
    // All rows at once and 16 numbers for a thread, but whole sectors of memory; of fewer numbers
    // than threads several would read the same ones.
    const std::int64_t sector = 32 / static_cast<std::int64_t>(size_of(call.dtype("x"))),
                       rows = powerAtLeast(std::max<std::int64_t>(elementCount(call.leading), 1));
    config["programs"] = 0;
    config["columns"] =
        std::clamp(16 * config["warps"] * warpSize(target) / rows, sector, std::int64_t(512));
    return config;
  };
  SearchSpace &space = spec.spaces.front();
  space.axes[3].second.push_back(0);
  space.where = [=, shared = space.where](const Invocation &call, const std::string &target,
                                          const Config &config) {
    return shared(call, target, config) && isBeside(call, config) == (config.at("programs") == 0);
  };
}

} // namespace

KernelSpec sectile::normBackwardSpec(const std::string &forward, bool centred) {
  KernelSpec spec;
  spec.name = forward + "_backward";
  spec.add_arguments({{"x: [..., N] f32|f16|bf16",
                       centred ? "as in " + forward : "what was normalised; with h, x is not read"},
                      {"w?: [N] like x", "weight"}});
  if (centred)
    spec.add_arguments({{"mean: [...] f32", "of each row, from " + forward}});
  spec.add_arguments({{"rstd: [...] f32", "from " + forward, {.sample = sampleUniform(0.5, 2)}},
                      {"dy: [..., N] like x", "gradient of y"}});
  if (centred)
    spec.add_arguments(
        {{"b?: [N] like x", "as in " + forward + "; only whether it is given matters"},
         {"-> dx: [..., N] like x over dy", "gradient of x"},
         {"-> dw: [N] like x with w", "gradient of w"},
         {"-> db: [N] like x with b", "gradient of b"}});
  else
    spec.add_arguments(
        {{"h?: [..., N] like x",
          "x + residual, from " + forward + ": what was normalised instead of x"},
         {"dh?: [..., N] like x", "gradient of h from its other uses"},
         {"-> dx: [..., N] like x over dy, dh", "gradient of x, and of the residual: the same"},
         {"-> dw: [N] like x with w", "gradient of w"}});
  if (!centred)
    spec.add_options({{"weight_offset: number = 0 e.g. 1", "as in " + forward}});
  spec.reference = [centred](const Invocation &call, std::span<const HostArray> in,
                             Arithmetic arithmetic) {
    auto given = [&](const char *name) -> const HostArray * {
      return call.has(name) ? &in[call.index(name)] : nullptr;
    };
    const HostArray *h = centred ? nullptr : given("h");
    auto result = normBackwardReference(
        h ? *h : in[0], centred ? in[1] : movedWeight(in[1], call.options.number("weight_offset")),
        centred ? given("mean") : nullptr, in[call.index("rstd")], in[call.index("dy")],
        centred ? nullptr : given("dh"), arithmetic);
    return centred ? std::vector{result.dx, result.dw, result.db}
                   : std::vector{result.dx, result.dw};
  };
  spec.factor = 3;
  const auto hasSums = [centred](const Invocation &call) {
    return call.has("w") || (centred && call.has("b"));
  };
  configureNormBackward(spec, hasSums, "norm_backward");
  addBeside(spec, hasSums);
  spec.typical = {{"...", 4096}, {"N", 1024}};
  spec.small = {{"...", 5}, {"N", 300}};
  spec.apply = [centred](Use &use) { launch(use, centred); };
  return spec;
}
