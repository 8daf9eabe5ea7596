// add_positions and sinusoidal: absolute positions added to hidden states, with layer norm after it
// where its weights are given:
//   z = scale x + table[p], or scale x + PE(p); y = z or layer_norm(z)
// with PE(p)[2i] = sin(p theta^(-2i/H)), PE(p)[2i+1] = cos of the same (Vaswani et al., arXiv
// 1706.03762, as are learned tables). A position that the table does not have adds 0. w without b
// and a negative eps are refused.
#include "kernels/position/AbsoluteSpec.h"
#include "kernels/position/Family.h"
#include <bit>
#include <sectile/error.h>

using namespace sectile;

namespace {

// A program has the same rows of several batches: what is added to them is the same.
template <class T>
Kernel addPositions{
    "add_positions", [](View<const T, 3> x, View<const T, 2> table,
                        View<const std::int32_t, 2> given, View<const T, 1> w, View<const T, 1> b,
                        View<T, 3> y, View<float, 2> means, View<float, 2> rstds, Int offset,
                        Float scale, Scalar<double> step, Float eps, const AbsoluteConfig &config) {
      const int batches = config.batches, m = config.m, block = config.block;
      auto batch = program_id(1), group = program_id(0);
      auto width = x.extent(2), blocks = cdiv(width, block);
      const PositionEmbeddings<T> embeddings(table, given, group, batch, offset, width, step,
                                             config);
      auto from = x.tile(batches, m, block);
      auto to = y.tile(batches, m, block);
      auto sums = [&](const Int &i) {
        auto values = from.load(batch, group, i); // under way while the angles are made
        auto added = expand(embeddings.at(i * block), 0);
        return cast<float>(values) * scale + added;
      };
      if (!config.norm) {
        for (auto i : range(0, blocks))
          to.store(batch, group, i, sums(i));
        return;
      }

      auto count = cast<float>(width);
      // Columns beyond the row's end must not count as a distance from the mean.
      auto inside = [&](const Tile<float> &values, const Int &i) {
        auto columns = i * block + arange(0, block) < width;
        return where(expand(expand(columns, 0), 0), values, 0.0f);
      };
      auto centred = [&](const Tile<float> &values, const Int &i, const Tile<float> &mean) {
        return inside(values - expand(mean, 2), i);
      };
      auto alongRow = [&](const View<const T, 1> &numbers, const Int &i) {
        return expand(expand(cast<float>(numbers.tile(block).load(i)), 0), 0);
      };
      auto write = [&](const Int &i, const Tile<float> &distance, const Tile<float> &rstd) {
        auto scaled = distance * expand(rstd, 2) * alongRow(w, i);
        to.store(batch, group, i, scaled + alongRow(b, i));
      };
      auto statistics = [&](const Tile<float> &mean, const Tile<float> &rstd) {
        means.tile(batches, m).store(batch, group, mean);
        rstds.tile(batches, m).store(batch, group, rstd);
      };
      auto rstdOf = [&](const Tile<float> &squares) { return 1.0f / sqrt(squares / count + eps); };

      if (config.whole) {
        auto values = sums(0);
        auto mean = sum(inside(values, 0), 2) / count;
        auto distance = centred(values, 0, mean);
        auto rstd = rstdOf(sum(distance * distance, 2));
        statistics(mean, rstd);
        write(0, distance, rstd);
        return;
      }
      auto total = zeros<float>(batches, m, block);
      for (auto i : range(0, blocks))
        total += inside(sums(i), i);
      auto mean = sum(total, 2) / count;
      auto squares = zeros<float>(batches, m, block);
      for (auto i : range(0, blocks)) {
        auto distance = centred(sums(i), i, mean);
        squares += distance * distance;
      }
      auto rstd = rstdOf(sum(squares, 2));
      statistics(mean, rstd);
      for (auto i : range(0, blocks))
        write(i, centred(sums(i), i, mean), rstd);
    }};

std::int64_t powerOfTwo(std::int64_t least) {
  return static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(least)));
}

// Batches that have the same positions.
std::int64_t sharedBatches(const Invocation &call) {
  return call.has("positions") ? 1 : std::max<std::int64_t>(powerOfTwo(call.extent("B")), 1);
}

std::int64_t blockFor(const Invocation &call, std::int64_t most = 2048) {
  return powerOfTwo(std::clamp<std::int64_t>(call.extent("H"), 64, most));
}

bool isWorthTrying(const Invocation &call, const std::string &target, const Config &config,
                   std::int64_t batches) {
  const std::int64_t block = config.at("block"), threads = config.at("warps") * warpSize(target),
                     numbers = batches * config.at("m") * block / threads;
  return numbers >= 1 && numbers <= 64 && (block == 64 || block < 2 * call.extent("H"));
}

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
      {.name = "y",
       .output = true,
       .axes = axes,
       .like = "x",
       .over = {"x"},
       .doc = "the sum, or its layer norm"},
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
  spec.config.push_back({"batches", "batches of which a program has the same rows"});
  spec.defaults = [](const Invocation &call, const std::string &target) {
    // Rows that are read more than once fit a block where they can.
    const std::int64_t threads = 128, each = 64,
                       block = blockFor(call, call.has("w") ? threads * each : 2048);
    const std::int64_t size = static_cast<std::int64_t>(size_of(call.dtype("x"))),
                       shared = std::min<std::int64_t>(sharedBatches(call), 8);
    // 16 bytes of a row for each thread, and 32 to 64 elements of all.
    const std::int64_t m = std::clamp<std::int64_t>(
        std::max(threads * 16 / (block * size), threads * 32 / (block * shared)), 1, 16);
    const std::int64_t batches = std::min(shared, threads * each / (m * block));
    return Config{
        {"m", m}, {"batches", batches}, {"block", block}, {"warps", threads / warpSize(target)}};
  };
  spec.spaces[0].axes.push_back({"batches", {1, 2, 4, 8, 16}});
  spec.spaces[0].where = [](const Invocation &call, const std::string &target,
                            const Config &config) {
    const std::int64_t batches = config.at("batches");
    return batches <= sharedBatches(call) && isWorthTrying(call, target, config, batches);
  };
  spec.apply = [table](Use &use) {
    AbsoluteConfig chosen = absoluteConfig(use, table);
    chosen.batches = use.field("batches");
    if (chosen.batches > 1 && chosen.given)
      throw InputError(use.call.kernel->name + ": configuration field 'batches' is " +
                       std::to_string(chosen.batches) +
                       ", but with positions each batch has rows of its own");
    const AddPositionsOptions options = absoluteOptions(use.call, table);
    const Grid grid(ceilDiv(use.call.extent("S"), chosen.m),
                    ceilDiv(use.call.extent("B"), chosen.batches));
    for_dtype<half, bfloat16, float>(use.call.dtype("x"), [&]<class T>(T) {
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
    const std::int64_t block = blockFor(call);
    return Config{
        {"m", std::clamp<std::int64_t>(2048 / block, 1, 16)}, {"block", block}, {"warps", 4}};
  };
  spec.spaces = {
      {.axes = {{"m", {1, 2, 4, 8, 16, 32}},
                {"block", {64, 128, 256, 512, 1024, 2048, 4096, 8192}},
                {"warps", {1, 2, 4, 8}}},
       .where = [](const Invocation &call, const std::string &target, const Config &config) {
         return isWorthTrying(call, target, config, 1);
       }}};
  return spec;
}

AddPositionsOptions sectile::absoluteOptions(const Invocation &call, bool table) {
  return {call.options.number("scale"), call.options.number("eps"),
          table ? 10000 : call.options.number("theta"), call.options.integer("offset")};
}

AbsoluteConfig sectile::absoluteConfig(const Use &use, bool table) {
  return {.m = use.field("m"),
          .block = use.field("block"),
          .warps = use.field("warps"),
          .table = table,
          .given = use.has("positions"),
          .norm = use.has("w"),
          .whole = use.call.extent("H") <= use.field("block")};
}

double sectile::absoluteStep(const Invocation &call, bool table) {
  return frequencyStep(absoluteOptions(call, table).theta, call.extent("H"));
}

KernelSpec sectile::addPositionsSpec() { return forwardSpec(true); }

KernelSpec sectile::sinusoidalSpec() { return forwardSpec(false); }
