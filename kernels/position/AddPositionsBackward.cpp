// The gradients of add_positions and sinusoidal: of the hidden states, of the table and of the
// layer norm's weights. With dz = dy, or layer norm's dx as NormBackward.cpp has it:
//   dx = scale dz, dtable[p] = sum of dz over the tokens at position p,
// derived from the forward formula. Sums over rows are done in a fixed order. A NaN or an infinity
// in dy may reach the rows of dtable beside its own.
#include "kernels/position/AbsoluteSpec.h"
#include "kernels/position/Family.h"
#include "kernels/references/Sample.h"

using namespace sectile;

namespace {

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
SECTILE_CONFIG(SumConfig, m, block, warps)

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
SECTILE_CONFIG(TableConfig, m, n, block, warps, given)

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
  spec.check = [common = spec.check](const Invocation &call) {
    common(call);
    if (call.has("w"))
      for (const std::string name : {"x", "mean", "rstd"})
        if (!call.has(name))
          refuse(call, "the input '", name, "' is missing; w needs it");
  };
  spec.reference = [table](const Invocation &call, std::span<const HostArray> inputs,
                           Arithmetic arithmetic) {
    auto input = [&](const char *name) { return inputs[call.index(name)]; };
    auto result = addPositionsBackwardReference(
        input("x"), table ? inputs[1] : HostArray(), input("positions"), input("w"), input("mean"),
        input("rstd"), inputs[0], absoluteOptions(call), arithmetic);
    return table ? std::vector{result.dx, result.dtable, result.dw, result.db}
                 : std::vector{result.dx, result.dw, result.db};
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

KernelSpec sectile::addPositionsBackwardSpec() { return backwardSpec(true); }

KernelSpec sectile::sinusoidalBackwardSpec() { return backwardSpec(false); }
