// add_positions and sinusoidal: absolute positions added to hidden states, with layer norm after it
// where its weights are given:
//   z = scale x + table[p], or scale x + PE(p); y = z or layer_norm(z)
// with PE(p)[2i] = sin(p theta^(-2i/H)), PE(p)[2i+1] = cos of the same (Vaswani et al., arXiv
// 1706.03762, as are learned tables). A position that the table does not have adds 0. w without b
// and a negative eps are refused.
#include "kernels/blocks/RowBlocks.h"
#include "kernels/position/AbsoluteSpec.h"
#include "kernels/position/Family.h"

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
        auto values = from.load(batch, group, i); // in flight while the angles are made
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

// Batches that have the same positions.
std::int64_t sharedBatches(const Invocation &call) {
  return call.has("positions") ? 1 : powerAtLeast(std::max<std::int64_t>(call.extent("B"), 1));
}

std::int64_t blockOf(const Invocation &call, std::int64_t most = 2048) {
  return powerAtLeast(std::clamp<std::int64_t>(call.extent("H"), 64, most));
}

bool isWorthTrying(const Invocation &call, const std::string &target, const Config &config,
                   std::int64_t batches) {
  const std::int64_t block = config.at("block"), threads = config.at("warps") * warpSize(target),
                     numbers = batches * config.at("m") * block / threads;
  return numbers >= 1 && numbers <= 64 && (block == 64 || block < 2 * call.extent("H"));
}

KernelSpec forwardSpec(bool table) {
  KernelSpec spec = absoluteSpec("x", "hidden states", table);
  spec.name = table ? "add_positions" : "sinusoidal";
  spec.summary = std::string("y = scale x + ") +
                 (table ? "table[position]" : "sines and cosines of the position") +
                 ", layer norm of it where w and b are given";
  spec.add_arguments({{"w?: [H] like x", "weight of a layer norm"},
                      {"b?: [H] like x", "its bias"},
                      {"-> y: [B, S, H] like x over x", "the sum, or its layer norm"},
                      {"-> mean: [B, S] f32 with w", "of each sum"},
                      {"-> rstd: [B, S] f32 with w", "1/sqrt(variance + eps) of each sum"}});
  spec.check = [common = spec.check](const Invocation &call) {
    common(call);
    if (call.has("w") != call.has("b"))
      refuse(call, "w and b are given together or not at all");
  };
  spec.reference = [](const Invocation &call, std::span<const HostArray> inputs,
                      Arithmetic arithmetic) {
    const auto input = [&](const char *name) { return inputs[call.index(name)]; };
    const auto result = addPositionsReference(inputs[0], hasTable(call) ? inputs[1] : HostArray(),
                                              input("positions"), input("w"), input("b"),
                                              absoluteOptions(call), arithmetic);
    return std::vector{result.y, result.mean, result.rstd};
  };
  spec.config.push_back({"batches", "batches of which a program has the same rows"});
  spec.defaults = [](const Invocation &call, const std::string &target) {
    // Rows that are read more than once fit a block where they can.
    const std::int64_t threads = 128, each = 64,
                       block = blockOf(call, call.has("w") ? threads * each : 2048);
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
  spec.apply = [](Use &use) {
    const AbsoluteConfig chosen = absoluteConfig(use);
    if (chosen.batches > 1 && chosen.given)
      refuse(use.call, "configuration field 'batches' is ", chosen.batches,
             ", but with positions each batch has rows of its own");
    const AddPositionsOptions options = absoluteOptions(use.call);
    const Grid grid(ceilDiv(use.extent("S"), chosen.m), ceilDiv(use.extent("B"), chosen.batches));
    for_dtype<half, bfloat16, float>(use.call.dtype("x"), [&]<class T>(T) {
      use(addPositions<T>, grid, use.tensor<T, 3>("x"), tableOf<T>(use),
          use.tensor<std::int32_t, 2>("positions"), use.tensor<T, 1>("w"), use.tensor<T, 1>("b"),
          use.tensor<T, 3>("y"), use.tensor<float, 2>("mean"), use.tensor<float, 2>("rstd"),
          options.offset, static_cast<float>(options.scale), absoluteStep(use.call),
          static_cast<float>(options.eps), chosen);
    });
  };
  return spec;
}

} // namespace

KernelSpec sectile::absoluteSpec(const std::string &rows, const std::string &doc, bool table) {
  KernelSpec spec;
  spec.add_arguments({{rows + ": [B, S, H] f16|bf16|f32", doc}});
  if (table)
    spec.add_arguments({{"table: [P, H] like " + rows, "embedding of each position"}});
  const auto sample = [](const Invocation &call, HostArray &array, std::mt19937_64 &random) {
    const std::int64_t most = hasTable(call) ? call.extent("P") : 1000;
    for (std::int32_t &position : array.as<std::int32_t>())
      position = static_cast<std::int32_t>(
          random() % static_cast<std::uint64_t>(std::max<std::int64_t>(most, 1)));
  };
  spec.add_arguments({{"positions?: [B, S] i32",
                       "position of each row; offset, offset + 1, ... where not given",
                       {.sample = sample}}});
  spec.add_options({{"scale: number = 1 e.g. 2.5", "of x"},
                    {"offset: integer = 0 e.g. 3", "position of the first row"},
                    {"eps: number = 1e-5 e.g. 0.01", "added to the layer norm's variance"}});
  if (!table)
    spec.add_options({{"theta: number = 10000 e.g. 100", "base of the frequencies, at least 1"}});
  spec.config = {{"m", "rows of one program"},
                 {"block", "elements of a row held at once"},
                 {"warps", "warps of one program"}};
  spec.typical = {{"B", 16}, {"S", 512}, {"H", 768}};
  spec.small = {{"B", 2}, {"S", 11}, {"H", 100}};
  if (table) {
    spec.typical["P"] = 512;
    spec.small["P"] = 14;
  }
  spec.check = [](const Invocation &call) {
    if (call.options.number("eps") < 0)
      refuse(call, "option 'eps' cannot be negative");
    if (absoluteOptions(call).theta < 1)
      refuse(call, "option 'theta' must be at least 1");
    if (std::abs(call.options.integer("offset")) > std::int64_t(1) << 40)
      refuse(call, "option 'offset' must be within 2^40");
  };
  spec.defaults = [](const Invocation &call, const std::string &) {
    const std::int64_t block = blockOf(call);
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

AddPositionsOptions sectile::absoluteOptions(const Invocation &call) {
  return {call.options.number("scale"), call.options.number("eps"),
          hasTable(call) ? 10000 : call.options.number("theta"), call.options.integer("offset")};
}

AbsoluteConfig sectile::absoluteConfig(const Use &use) {
  return use.config_as(AbsoluteConfig{.table = hasTable(use.call),
                                      .given = use.has("positions"),
                                      .norm = use.has("w"),
                                      .whole = use.extent("H") <= use.field("block")});
}

double sectile::absoluteStep(const Invocation &call) {
  return frequencyStep(absoluteOptions(call).theta, call.extent("H"));
}

KernelSpec sectile::addPositionsSpec() { return forwardSpec(true); }

KernelSpec sectile::sinusoidalSpec() { return forwardSpec(false); }
