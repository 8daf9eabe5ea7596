// add_positions and sinusoidal: absolute positions added to hidden states, with layer norm after it
// where its weights are given:
//   z = scale x + table[p], or scale x + PE(p); y = z or layer_norm(z)
// with PE(p)[2i] = sin(p theta^(-2i/H)), PE(p)[2i+1] = cos of the same (Vaswani et al., arXiv
// 1706.03762, as are learned tables). A position that the table does not have adds 0. w without b
// and a negative eps are refused.
//
// Their gradients: of the hidden states, of the table and of the layer norm's weights. With dz =
// dy, or layer norm's dx as NormBackward.cpp has it:
//   dx = scale dz, dtable[p] = sum of dz over the tokens at position p,
// derived from the forward formula. Sums over rows are done in a fixed order. A NaN or an infinity
// in dy may reach the rows of dtable beside its own.
#include "kernels/blocks/RowBlocks.h"
#include "kernels/calls/Use.h"
#include "kernels/position/Angles.h"
#include "kernels/position/Family.h"
#include "kernels/position/References.h"
#include "kernels/references/Draw.h"

using namespace sectile;

namespace {

struct AbsoluteConfig {
  int m = 4, block = 1024, warps = 4;
  int batches = 1;    // of which a program has these rows
  bool table = true;  // else sines and cosines
  bool given = false; // positions are
  bool norm = false;  // layer norm follows
  bool whole = true;  // a row fits a block
};

// What is added to some rows of hidden states, which are rows of this batch, or of all of them
// where positions are not given.
template <class T> struct PositionEmbeddings {
  View<const T, 2> table;
  Tile<std::int64_t> positions; // of the rows
  Int firstPosition;            // where positions are not given
  Int width;                    // of a row
  Scalar<double> step;
  const AbsoluteConfig &config;

  PositionEmbeddings(const View<const T, 2> &table, const View<const std::int32_t, 2> &given,
                     const Int &group, const Int &batch, const Int &offset, const Int &width,
                     const Scalar<double> &step, const AbsoluteConfig &config)
      : table(table), firstPosition(group * config.m + offset), width(width), step(step),
        config(config) {
    if (config.given)
      positions = cast<std::int64_t>(given.at(batch).tile(config.m).load(group));
    else
      positions = cast<std::int64_t>(firstPosition + arange(0, config.m));
  }

  // [m, block] from this column on, a multiple of block.
  Tile<float> at(const Int &column) const {
    if (config.table) {
      const auto rows = table.tile(config.m, config.block);
      return cast<float>(config.given ? rows.gather_at(positions, column)
                                      : rows.load_at(firstPosition, column));
    }
    const auto pairs = column / 2 + arange(0, config.block / 2);
    const auto frequency = frequencies(pairs, width, step);
    const SinCos angles = sinCosOf(phase(expand(positions, 1), expand(frequency, 0)));
    return interleave(angles.sin, angles.cos);
  }
};

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

// Of each row; of w and b this program's part, which sumParts adds up.
template <class T>
Kernel rowGradients{
    "add_positions_backward",
    [](View<const T, 3> x, View<const T, 2> table, View<const std::int32_t, 2> given,
       View<const T, 1> w, View<const float, 2> means, View<const float, 2> rstds,
       View<const T, 3> dy, View<T, 3> dx, View<float, 3> dz, View<float, 3> parts, Int offset,
       Float scale, Scalar<double> step, const AbsoluteConfig &config) {
      const int m = config.m, block = config.block;
      auto batch = program_id(1), group = program_id(0);
      auto width = dy.extent(2), blocks = cdiv(width, block);
      auto from = dy.at(batch).tile(m, block);
      auto to = dx.at(batch).tile(m, block);
      if (!config.norm) {
        for (auto i : range(0, blocks))
          to.store(group, i, cast<float>(from.load(group, i)) * scale);
        return;
      }

      const PositionEmbeddings<T> embeddings(table, given, group, batch, offset, width, step,
                                             config);
      auto inputs = x.at(batch).tile(m, block);
      auto mean = means.at(batch).tile(m).load(group), rstd = rstds.at(batch).tile(m).load(group);
      // The normalised row and the gradient of it. Beyond the view's edges dy is 0, and so are w
      // and the products.
      auto normal = [&](const Int &i) {
        auto values = cast<float>(inputs.load(group, i)) * scale;
        return (values + embeddings.at(i * block) - expand(mean, 1)) * expand(rstd, 1);
      };
      auto gradient = [&](const Int &i) {
        return cast<float>(from.load(group, i)) * cast<float>(expand(w.tile(block).load(i), 0));
      };
      auto plain = zeros<float>(m, block), along = zeros<float>(m, block);
      for (auto i : range(0, blocks)) {
        auto g = gradient(i);
        plain += g;
        along += g * normal(i);
      }
      auto count = cast<float>(width);
      auto plainMean = expand(sum(plain, 1) / count, 1),
           alongMean = expand(sum(along, 1) / count, 1);
      auto part = parts.at(batch * num_programs(0) + group).tile(1, block);
      for (auto i : range(0, blocks)) {
        auto unit = normal(i);
        auto slope = expand(rstd, 1) * (gradient(i) - plainMean - unit * alongMean);
        to.store(group, i, slope * scale);
        if (config.table)
          dz.at(batch).tile(m, block).store(group, i, slope);
        auto given = cast<float>(from.load(group, i));
        part.store(0, i, expand(sum(given * unit, 0), 0));
        part.store(1, i, expand(sum(given, 0), 0));
      }
    }};

struct SumConfig {
  int m = 32, block = 32, warps = 4;
};

template <class T>
Kernel sumParts{"add_positions_weights", [](View<const float, 3> parts, View<T, 1> dw,
                                            View<T, 1> db, const SumConfig &config) {
                  for (int which : {0, 1}) {
                    auto rows = parts.fix(1, which).tile(config.m, config.block);
                    auto total = zeros<float>(config.m, config.block);
                    for (auto i : range(0, cdiv(parts.extent(0), config.m)))
                      total += rows.load(i, program_id(0));
                    (which ? db : dw).tile(config.block).store(program_id(0), sum(total, 0));
                  }
                }};

struct TableConfig {
  int m = 16, n = 64, block = 64, warps = 4;
  bool given = false;
};

// Some rows of the table: where positions are given, each block of tokens that has one of them
// is multiplied by zeros and ones; the order of the sums is that of the tokens.
template <class T, class U>
Kernel tableGradient{
    "add_positions_table", [](View<const U, 3> dz, View<const std::int32_t, 2> given,
                              View<T, 2> dtable, Int offset, const TableConfig &config) {
      const int m = config.m, n = config.n, block = config.block;
      auto group = program_id(0), column = program_id(1);
      auto total = zeros<float>(m, block);
      auto first = group * m;
      for (auto batch : range(0, dz.extent(0))) {
        if (!config.given) {
          total += cast<float>(dz.at(batch).tile(m, block).load_at(first - offset, column * block));
          continue;
        }
        auto positions = given.at(batch).tile(n).padding(-1);
        for (auto i : range(0, cdiv(dz.extent(1), n))) {
          auto p = positions.load(i);
          when(any(p >= first && p < first + m), [&] {
            auto equal = expand(first + arange(0, m), 1) == expand(p, 0);
            total = dot(cast<U>(cast<float>(equal)), dz.at(batch).tile(n, block).load(i, column),
                        total, Precision::ieee);
          });
        }
      }
      dtable.tile(m, block).store(group, column, total);
    }};

// Without a norm, and where all rows of a batch have positions of the table: some rows of dx in all
// batches, and of the table's gradient, which is their sum.
template <class T>
Kernel sharedGradients{"add_positions_backward",
                       [](View<const T, 3> dy, View<T, 3> dx, View<T, 2> dtable, Int offset,
                          Float scale, const AbsoluteConfig &config) {
                         constexpr int together = 4; // batches
                         const int m = config.m, block = config.block;
                         auto group = program_id(0), column = program_id(1);
                         auto row = group * m - offset;
                         auto from = dy.tile(together, m, block);
                         auto to = dx.tile(together, m, block);
                         auto total = zeros<float>(m, block);
                         for (auto i : range(0, cdiv(dy.extent(0), together))) {
                           auto first = i * together, place = column * block;
                           auto values = cast<float>(from.load_at(first, row, place));
                           total += sum(values, 0);
                           to.store_at(first, row, place, values * scale);
                         }
                         dtable.tile(m, block).store(group, column, total);
                       }};

bool hasTable(const Invocation &call) { return call.extents.contains("P"); }
template <class T> Tensor<T, 2> tableOf(const Use &use) {
  return hasTable(use.call) ? use.tensor<T, 2>("table") : noTensor<T, 2>();
}

AddPositionsOptions absoluteOptions(const Invocation &call) {
  return {call.options.number("scale"), call.options.number("eps"),
          hasTable(call) ? 10000 : call.options.number("theta"), call.options.integer("offset")};
}

AbsoluteConfig absoluteConfig(const Use &use) {
  return use.config_as(AbsoluteConfig{.table = hasTable(use.call),
                                      .given = use.has("positions"),
                                      .norm = use.has("w"),
                                      .whole = use.extent("H") <= use.field("block")});
}

double absoluteStep(const Invocation &call) {
  return frequencyStep(absoluteOptions(call).theta, call.extent("H"));
}

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

// What forward and backward have in common, whose first argument is `rows`.
KernelSpec absoluteSpec(const std::string &rows, const std::string &doc, bool table) {
  KernelSpec spec;
  spec.add_arguments({{rows + ": [B, S, H] f16|bf16|f32", doc}});
  if (table)
    spec.add_arguments({{"table: [P, H] like " + rows, "embedding of each position"}});
  const auto sample = sampleEach([](const Invocation &call, auto &random) {
    return drawBelow(random, hasTable(call) ? call.extent("P") : 1000);
  });
  spec.add_arguments({{"positions?: [B, S] i32",
                       "position of each row; offset, offset + 1, ... where not given",
                       {.sample = sample}}});
  spec.add_options({{"scale: number = 1 e.g. 2.5", "of x"},
                    {"offset: integer = 0 from -1099511627776 to 1099511627776 e.g. 3",
                     "position of the first row"},
                    {"eps: number = 1e-5 from 0 e.g. 0.01", "added to the layer norm's variance"}});
  if (!table)
    spec.add_options(
        {{"theta: number = 10000 from 1 e.g. 100", "base of the frequencies, at least 1"}});
  spec.config = {{"m", "rows of one program"},
                 {"block", "elements of a row held at once"},
                 {"warps", "warps of one program"}};
  spec.typical = {{"B", 16}, {"S", 512}, {"H", 768}};
  spec.small = {{"B", 2}, {"S", 11}, {"H", 100}};
  if (table) {
    spec.typical["P"] = 512;
    spec.small["P"] = 14;
  }
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
  spec.check = [](const Invocation &call) {
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

KernelSpec backwardSpec(bool table) {
  KernelSpec spec = absoluteSpec("dy", "gradient of y", table);
  const std::string forward = table ? "add_positions" : "sinusoidal";
  spec.name = forward + "_backward";
  spec.summary = "gradients of " + forward;
  spec.add_arguments(
      {{"x?: [B, S, H] like dy", "hidden states; with w"},
       {"w?: [H] like dy", "weight of the layer norm"},
       {"mean?: [B, S] f32", "of the forward kernel; with w", {.sample = sampleUniform(0.5, 1.5)}},
       {"rstd?: [B, S] f32", "of the forward kernel; with w", {.sample = sampleUniform(0.5, 1.5)}},
       {"-> dx: [B, S, H] like dy", "gradient of x"}});
  if (table)
    spec.add_gradients({"table"});
  spec.add_arguments({{"-> dw: [H] like dy with w", "gradient of the layer norm's"},
                      {"-> db: [H] like dy with w", "gradient of the layer norm's"}});
  spec.factor = 3;
  spec.check = [](const Invocation &call) {
    if (call.has("w"))
      for (const std::string name : {"x", "mean", "rstd"})
        if (!call.has(name))
          refuse(call, "the input '", name, "' is missing; w needs it");
  };
  spec.reference = [](const Invocation &call, std::span<const HostArray> inputs,
                      Arithmetic arithmetic) {
    return addPositionsBackwardReference(call, inputs, absoluteOptions(call), arithmetic);
  };
  spec.spaces.front().part = "add_positions_backward";
  spec.apply = [table](Use &use) {
    const AbsoluteConfig chosen = absoluteConfig(use);
    const AddPositionsOptions options = absoluteOptions(use.call);
    const std::int64_t batches = use.extent("B"), length = use.extent("S"), width = use.extent("H"),
                       groups = ceilDiv(length, chosen.m);
    for_dtype<half, bfloat16, float>(use.call.dtype("dy"), [&]<class T>(T) {
      const auto dy = use.tensor<T, 3>("dy");
      const auto positions = use.tensor<std::int32_t, 2>("positions");
      const bool norm = chosen.norm;
      const std::int64_t rows = table ? use.call.extent("P") : 0;
      if (table && !norm && !chosen.given && options.offset >= 0 &&
          options.offset + length <= rows) {
        use(sharedGradients<T>, Grid(ceilDiv(rows, chosen.m), ceilDiv(width, chosen.block)), dy,
            use.tensor<T, 3>("dx"), use.tensor<T, 2>("dtable"), options.offset,
            static_cast<float>(options.scale), chosen);
        return;
      }
      const auto parts = use.workspace<float, 3>({norm ? batches * groups : 0, 2, width});
      const auto dz = use.workspace<float, 3>({norm && table ? batches : 0, length, width});
      use(rowGradients<T>, Grid(groups, batches), norm ? use.tensor<T, 3>("x") : noTensor<T, 3>(),
          tableOf<T>(use), positions, use.tensor<T, 1>("w"), use.tensor<float, 2>("mean"),
          use.tensor<float, 2>("rstd"), dy, use.tensor<T, 3>("dx"), dz, parts, options.offset,
          static_cast<float>(options.scale), absoluteStep(use.call), chosen);
      if (norm)
        use(sumParts<T>, ceilDiv(width, SumConfig().block), parts, use.tensor<T, 1>("dw"),
            use.tensor<T, 1>("db"), SumConfig());
      if (!table)
        return;
      const TableConfig config{.given = chosen.given};
      const Grid grid(ceilDiv(rows, config.m), ceilDiv(width, config.block));
      const auto dtable = use.tensor<T, 2>("dtable");
      if (norm)
        use(tableGradient<T, float>, grid, dz, positions, dtable, options.offset, config);
      else
        use(tableGradient<T, T>, grid, dy, positions, dtable, options.offset, config);
    });
  };
  return spec;
}

} // namespace

KernelSpec sectile::addPositionsSpec() { return forwardSpec(true); }

KernelSpec sectile::sinusoidalSpec() { return forwardSpec(false); }

KernelSpec sectile::addPositionsBackwardSpec() { return backwardSpec(true); }

KernelSpec sectile::sinusoidalBackwardSpec() { return backwardSpec(false); }
