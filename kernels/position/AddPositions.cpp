// add_positions and sinusoidal: absolute positions added to hidden states, with layer norm after
// it where its weights are given.
#include "kernels/InputError.h"
#include "kernels/position/AbsoluteSpec.h"
#include "kernels/position/Family.h"
#include <bit>

using namespace sectile;

namespace {

template <class T>
Kernel addPositions{
    "add_positions", [](View<const T, 3> x, View<const T, 2> table,
                        View<const std::int32_t, 2> given, View<const T, 1> w, View<const T, 1> b,
                        View<T, 3> y, View<float, 2> means, View<float, 2> rstds, Int offset,
                        Float scale, Scalar<double> step, Float eps, const AbsoluteConfig &config) {
      const int block = config.block;
      const EmbeddedRows<T> rows(x, table, given, offset, scale, step, config);
      auto batch = program_id(1), group = program_id(0);
      auto width = x.extent(2), blocks = cdiv(width, block);
      auto to = y.at(batch).tile(config.m, block);
      if (!config.norm) {
        for (auto i : range(0, blocks))
          to.store(group, i, rows.sum(i * block));
        return;
      }

      auto count = cast<float>(width);
      // Columns beyond the row's end must not count as a distance from the mean.
      auto centred = [&](const Tile<float> &values, const Int &i, const Tile<float> &mean) {
        auto inside = expand(i * block + arange(0, block), 0) < width;
        return where(inside, values - expand(mean, 1), 0.0f);
      };
      auto write = [&](const Int &i, const Tile<float> &distance, const Tile<float> &rstd) {
        to.store(group, i,
                 distance * expand(rstd, 1) * cast<float>(expand(w.tile(block).load(i), 0)) +
                     cast<float>(expand(b.tile(block).load(i), 0)));
      };
      auto inside = [&](const Tile<float> &values, const Int &i) {
        return where(expand(i * block + arange(0, block), 0) < width, values, 0.0f);
      };
      auto statistics = [&](const Tile<float> &mean, const Tile<float> &rstd) {
        means.at(batch).tile(config.m).store(group, mean);
        rstds.at(batch).tile(config.m).store(group, rstd);
      };
      auto rstdOf = [&](const Tile<float> &squares) { return 1.0f / sqrt(squares / count + eps); };

      if (config.whole) {
        auto values = rows.sum(0);
        auto mean = sum(inside(values, 0), 1) / count;
        auto distance = centred(values, 0, mean);
        auto rstd = rstdOf(sum(distance * distance, 1));
        statistics(mean, rstd);
        write(0, distance, rstd);
        return;
      }
      auto total = zeros<float>(config.m, block);
      for (auto i : range(0, blocks))
        total += inside(rows.sum(i * block), i);
      auto mean = sum(total, 1) / count;
      auto squares = zeros<float>(config.m, block);
      for (auto i : range(0, blocks)) {
        auto distance = centred(rows.sum(i * block), i, mean);
        squares += distance * distance;
      }
      auto rstd = rstdOf(sum(squares, 1));
      statistics(mean, rstd);
      for (auto i : range(0, blocks))
        write(i, centred(rows.sum(i * block), i, mean), rstd);
    }};

KernelSpec forwardSpec(bool table) {
  KernelSpec spec = absoluteSpec(table ? "add_positions" : "sinusoidal", table);
  spec.summary = table ? "y = scale x + table[position], layer norm of it where w and b are given"
                       : "y = scale x + sines and cosines of the position, layer norm of it where "
                         "w and b are given";
  const std::vector<std::string> axes{"B", "S", "H"};
  spec.arguments = {{.name = "x",
                     .axes = axes,
                     .dtypes = {DType::float16, DType::bfloat16, DType::float32},
                     .doc = "hidden states"}};
  if (table)
    spec.arguments.push_back(
        {.name = "table", .axes = {"P", "H"}, .like = "x", .doc = "embedding of each position"});
  const std::vector<ArgumentSpec> others{
      positionsArgument(),
      {.name = "w", .optional = true, .axes = {"H"}, .like = "x", .doc = "weight of a layer norm"},
      {.name = "b", .optional = true, .axes = {"H"}, .like = "x", .doc = "its bias"},
      {.name = "y", .output = true, .axes = axes, .like = "x", .doc = "the sum, or its layer norm"},
      {.name = "mean",
       .output = true,
       .with = "w",
       .axes = {"B", "S"},
       .dtypes = {DType::float32},
       .doc = "of each sum"},
      {.name = "rstd",
       .output = true,
       .with = "w",
       .axes = {"B", "S"},
       .dtypes = {DType::float32},
       .doc = "1/sqrt(variance + eps) of each sum"}};
  spec.arguments.insert(spec.arguments.end(), others.begin(), others.end());
  spec.check = [common = spec.check](const Invocation &call) {
    common(call);
    if (call.has("w") != call.has("b"))
      throw InputError(call.kernel->name + ": w and b are given together or not at all");
  };
  spec.reference = [table](const Invocation &call, std::span<const HostArray> inputs,
                           Arithmetic arithmetic) {
    const auto &positions = inputs[call.index("positions")];
    const auto result = addPositionsReference(inputs[0], table ? inputs[1] : HostArray(), positions,
                                              inputs[call.index("w")], inputs[call.index("b")],
                                              absoluteOptions(call, table), arithmetic);
    return std::vector{result.y, result.mean, result.rstd};
  };
  spec.apply = [table](Use &use) {
    const AbsoluteConfig chosen = absoluteConfig(use, table);
    const AddPositionsOptions options = absoluteOptions(use.call, table);
    const Grid grid(ceilDiv(use.call.extent("S"), chosen.m), use.call.extent("B"));
    forDType<half, bfloat16, float>(use.call.dtype("x"), [&]<class T>(T) {
      use(addPositions<T>, grid, use.tensor<T, 3>("x"),
          table ? use.tensor<T, 2>("table") : nothing<T, 2>(),
          use.tensor<std::int32_t, 2>("positions"), use.tensor<T, 1>("w"), use.tensor<T, 1>("b"),
          use.tensor<T, 3>("y"), use.tensor<float, 2>("mean"), use.tensor<float, 2>("rstd"),
          options.offset, static_cast<float>(options.scale), absoluteStep(use.call, table),
          static_cast<float>(options.eps), chosen);
    });
  };
  return spec;
}

} // namespace

ArgumentSpec sectile::positionsArgument() {
  return {.name = "positions",
          .optional = true,
          .axes = {"B", "S"},
          .dtypes = {DType::int32},
          .sample =
              [](const Invocation &call, HostArray &array, std::mt19937_64 &random) {
                const auto known = call.extents.find("P");
                const std::int64_t most = known == call.extents.end() ? 1000 : known->second;
                for (std::int32_t &position : array.as<std::int32_t>())
                  position = static_cast<std::int32_t>(
                      random() % static_cast<std::uint64_t>(std::max<std::int64_t>(most, 1)));
              },
          .doc = "position of each row; offset, offset + 1, ... where not given"};
}

KernelSpec sectile::absoluteSpec(const std::string &name, bool table) {
  KernelSpec spec;
  spec.name = name;
  spec.options = {
      {.name = "scale",
       .kind = OptionSpec::number,
       .initial = "1",
       .samples = {"2.5"},
       .doc = "of x"},
      {.name = "offset",
       .kind = OptionSpec::integer,
       .initial = "0",
       .samples = {"3"},
       .doc = "position of the first row"},
      {.name = "eps",
       .kind = OptionSpec::number,
       .initial = "1e-5",
       .samples = {"0.01"},
       .doc = "added to the layer norm's variance"},
  };
  if (!table)
    spec.options.push_back({.name = "theta",
                            .kind = OptionSpec::number,
                            .initial = "10000",
                            .samples = {"100"},
                            .doc = "base of the frequencies, at least 1"});
  spec.config = {{"m", "rows of one program"},
                 {"block", "elements of a row held at once"},
                 {"warps", "warps of one program"}};
  spec.typical = {{"B", 16}, {"S", 512}, {"H", 768}};
  spec.small = {{"B", 2}, {"S", 11}, {"H", 100}};
  if (table) {
    spec.typical["P"] = 512;
    spec.small["P"] = 14;
  }
  spec.check = [table](const Invocation &call) {
    auto refuse = [&](const std::string &what) {
      throw InputError(call.kernel->name + ": " + what);
    };
    if (call.options.number("eps") < 0)
      refuse("option 'eps' cannot be negative");
    if (!table && call.options.number("theta") < 1)
      refuse("option 'theta' must be at least 1");
    if (std::abs(call.options.integer("offset")) > std::int64_t(1) << 40)
      refuse("option 'offset' must be within 2^40");
  };
  spec.defaults = [](const Invocation &call, const std::string &) {
    const auto block = static_cast<std::int64_t>(std::bit_ceil(
        static_cast<std::uint64_t>(std::clamp<std::int64_t>(call.extent("H"), 64, 2048))));
    return Config{
        {"m", std::clamp<std::int64_t>(2048 / block, 1, 16)}, {"block", block}, {"warps", 4}};
  };
  spec.spaces = {
      {.axes = {{"m", {1, 2, 4, 8, 16, 32}},
                {"block", {64, 128, 256, 512, 1024, 2048, 4096}},
                {"warps", {1, 2, 4, 8}}},
       .where = [](const Invocation &call, const std::string &target, const Config &config) {
         const std::int64_t block = config.at("block"),
                            threads = config.at("warps") * warpSize(target),
                            numbers = config.at("m") * block / threads;
         return numbers >= 1 && numbers <= 64 && (block == 64 || block < 2 * call.extent("H"));
       }}};
  return spec;
}

AddPositionsOptions sectile::absoluteOptions(const Invocation &call, bool table) {
  return {call.options.number("scale"), call.options.number("eps"),
          table ? 10000 : call.options.number("theta"), call.options.integer("offset")};
}

AbsoluteConfig sectile::absoluteConfig(const Use &use, bool table) {
  return {use.field("m"),
          use.field("block"),
          use.field("warps"),
          table,
          use.has("positions"),
          use.has("w"),
          use.call.extent("H") <= use.field("block")};
}

double sectile::absoluteStep(const Invocation &call, bool table) {
  return frequencyStep(absoluteOptions(call, table).theta, call.extent("H"));
}

KernelSpec sectile::addPositionsSpec() { return forwardSpec(true); }

KernelSpec sectile::sinusoidalSpec() { return forwardSpec(false); }
