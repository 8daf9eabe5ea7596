// grouped_matmul: rows of one matrix, group by group, times each group's own matrix, as in mixtures
// of experts; and grouped_matmul_drhs, the gradient of those matrices:
//   c[row] = lhs[row] rhs[g] for the rows of group g, drhs[g] = lhs^T dc over those rows,
// as jax.lax.ragged_dot; the gradient is derived from it. The gradient of the rows is
// grouped_matmul itself with trans_rhs the other way round. Rows without any group are refused.
// Sizes below 0 and of another sum than M are refused from the host; on the device rows behind the
// last group are not written, and negative sizes are undefined.
//
// How long the groups are is read on the device. Either the grid is the most tiles that any lengths
// need, and each program finds its own tile; or programs are persistent and go through the groups.
#include "kernels/blocks/RoundedActivations.h"
#include "kernels/calls/Use.h"
#include "kernels/matmul/BlockScales.h"
#include "kernels/matmul/Family.h"
#include "kernels/matmul/Grouped.h"
#include "kernels/matmul/TileOrder.h"
#include <algorithm>
#include <functional>
#include <sectile/dot_scaled.h>
#include <sectile/error.h>

using namespace sectile;

namespace {

struct GroupedConfig {
  int m = 64, n = 128, k = 32, group = 8, warps = 4, stages = 3;
  bool persistent = false;
  Precision precision = Precision::tf32;
  bool gathered = false, biased = false; // rows and a bias are given
  Gate gate = Gate::none;
  Activation activation = Activation::none;
  bool limited = false, scaled = false; // the gate has a limit, and an alpha other than 1
  bool lhsScaled = false, rhsScaled = false;
  bool oneScale = false; // the columns of a tile share their scales of rhs
};

// Lengths of groups that are looked at together.
constexpr int lengthsAtOnce = 128;

// What a length given as negative, or beyond the rows there are, must not do to memory.
Int rowsWithin(const Int &size, const Int &start, const Int &rows) {
  return maximum(0, minimum(size, rows - start));
}

// The rows of one group.
struct Segment {
  Int group, start, size;
};

// The tiles of all groups, those of each in a row of its own, are one row, of which each program
// does every so many. Groups come one by one, without a search: what a program needs of them are
// numbers that warps which only copy can compute as well.
template <class Count, class Do>
void forEachTile(View<const std::int32_t, 1> sizes, const Int &rows, Count &&count, Do &&visit) {
  Int tile = program_id(0); // the next one, counted from the group's first
  Int start = 0;
  for (auto group : range(0, sizes.extent(0))) {
    const Int size =
        rowsWithin(cast<Index>(load(sizes.ptr() + group * sizes.stride(0))), start, rows);
    const Int tiles = count(size);
    for (auto number : range(tile, tiles, num_programs(0))) {
      visit(Segment{group, start, size}, number);
      tile += num_programs(0);
    }
    tile = maximum(0, tile - tiles);
    start = minimum(rows, start + size);
  }
}

// The sums of one tile over so many steps; load(step) gives a step's part of the left operand.
template <class Load, class Right>
Tile<float> multiply(Load &&load, const Right &right, const Int &j, const Int &steps,
                     const GroupedConfig &config) {
  auto sums = zeros<float>(config.m, config.n);
  for (auto step : range(0, steps, copiedApart(config.persistent)))
    sums = dot(load(step), right.load(step, j), sums, config.precision);
  return sums;
}

template <class T, class W> struct GroupedArguments {
  using Tensors = GroupedTensors<T, W>;

  View<const T, 2> lhs;
  View<const W, 3> rhs;
  View<const float, 2> lhs_scales;
  View<const typename Tensors::Scale, 3> rhs_scales;
  View<const std::int32_t, 1> group_sizes, rows;
  View<const typename Tensors::Result, 2> bias;
  View<typename Tensors::Result, 2> c;
  Int rowTiles;
  Float alpha, limit, offset;
};

template <class T, class W>
Tile<float> throughGate(Tile<float> gate, Tile<float> up, const GroupedArguments<T, W> &a,
                        const GroupedConfig &config) {
  using Result = GroupedResult<T>;
  if (config.limited) {
    gate = minimum(gate, a.limit, Nan::propagate);
    up = clamp(up, -a.limit, a.limit, Nan::propagate);
  }
  const Tile<float> active = config.scaled
                                 ? gate * activateFor<Result>(Activation::sigmoid, gate * a.alpha)
                                 : activateFor<Result>(config.activation, gate);
  return active * (up + a.offset);
}

// The rows of a tile of lhs: how they are loaded, and their scales.
template <class T> struct GroupedRows {
  std::function<Tile<T>(const Int &step)> load;
  std::function<Tile<float>(const Int &block)> scales;
  Tile<bool> areThere;
};

// The parts of a group's matrix that tiles are multiplied by, each a half of its columns or all.
template <class T, class W> class GroupedColumns {
public:
  GroupedColumns(const GroupedArguments<T, W> &a, const Int &group, const Int &j,
                 const GroupedConfig &config)
      : a(a), group(group), j(j), config(config), parts(config.gate == Gate::concatenated ? 2 : 1),
        n(config.n / parts) {
    const auto matrix = a.rhs.at(group);
    columns = matrix.extent(1);
    if (parts == 2)
      columns = columns / 2;
    for (int part = 0; part < parts; ++part) {
      if constexpr (isMx) {
        tiles.push_back(half(matrix.transposed(), 0, part).tile(n, config.k / 2));
        mxScales.push_back(
            half(a.rhs_scales.at(group).transposed(), 0, part).tile(n, config.k / mxBlock));
      } else {
        tiles.push_back(half(matrix, 1, part).tile(config.k, n));
      }
    }
  }

  // The sums of each part.
  std::vector<Tile<float>> product(const GroupedRows<T> &rows, const Int &steps) const {
    const LoopOptions options = copiedApart(config.persistent);
    if (!config.lhsScaled && (isMx || !config.rhsScaled))
      return unscaled(rows, 0, steps, options);
    const auto scales = [&] {
      if constexpr (isMx)
        return View<const float, 2>();
      else
        return a.rhs_scales.at(group);
    }();
    const ColumnScales columnScales{scales, scaleBlock, n, config.oneScale};
    const int each = scaleBlock / config.k;
    return sumsOfBlocks(
        {.parts = parts,
         .m = config.m,
         .n = n,
         .first = 0,
         .end = cdiv(a.lhs.extent(1), scaleBlock),
         .options = options,
         .ahead = config.persistent ? 2 : 1,
         .hasRows = config.lhsScaled,
         .hasColumns = !isMx && config.rhsScaled},
        rows.scales,
        [&](const Int &block, int part) {
          return columnScales.load(block, first(part) + j * n, first(part) + columns,
                                   config.persistent ? std::optional(rows.areThere) : std::nullopt);
        },
        [&](const Int &block) { return unscaled(rows, block * each, (block + 1) * each, {}); });
  }

  Tile<float> bias(int part) const {
    return expand(cast<float>(a.bias.at(group).slice(0, first(part), columns).tile(n).load(j)), 0);
  }

private:
  static constexpr bool isMx = GroupedTensors<T, W>::isMx;

  Int first(int part) const { return part == 0 ? Int(0) : columns; }
  template <class V> auto half(const V &view, int axis, int part) const {
    return parts == 1 ? view : view.slice(axis, first(part), columns);
  }

  std::vector<Tile<float>> unscaled(const GroupedRows<T> &rows, const Int &from, const Int &to,
                                    const LoopOptions &options) const {
    std::vector<Tile<float>> sums(static_cast<std::size_t>(parts), zeros<float>(config.m, n));
    for (auto step : range(from, to, options)) {
      const auto left = rows.load(step);
      for (std::size_t part = 0; part < tiles.size(); ++part)
        if constexpr (isMx)
          sums[part] = dot_scaled(left, no_scale, trans(tiles[part].load(j, step)),
                                  mxScales[part].load(j, step), sums[part]);
        else
          sums[part] = dot(left, tiles[part].load(step, j), sums[part], config.precision);
    }
    return sums;
  }

  const GroupedArguments<T, W> &a;
  const Int &group, &j;
  const GroupedConfig &config;
  int parts, n; // n: columns of a part's tile
  Int columns;  // of a part
  std::vector<TiledView<const W, 2>> tiles;
  std::vector<TiledView<const std::uint8_t, 2>> mxScales;
};

// Columns j of a tile of the result, of a group's rows, [m, n] or of a gate [m, n / 2].
template <class T, class W>
Tile<float> finished(const GroupedArguments<T, W> &a, const Int &group, const GroupedRows<T> &rows,
                     const Int &j, const Int &steps, const GroupedConfig &config) {
  const GroupedColumns<T, W> columns(a, group, j, config);
  std::vector<Tile<float>> sums = columns.product(rows, steps);
  if (config.biased)
    for (std::size_t part = 0; part < sums.size(); ++part)
      sums[part] = sums[part] + columns.bias(static_cast<int>(part));
  if (config.gate == Gate::concatenated)
    return throughGate(sums[0], sums[1], a, config);
  if (config.gate == Gate::interleaved) {
    const auto [gate, up] = split(reshape(sums[0], config.m, config.n / 2, 2));
    return throughGate(gate, up, a, config);
  }
  return activateFor<GroupedResult<T>>(config.activation, sums[0]);
}

template <class T, class W>
Kernel groupedMatmul{
    "grouped_matmul", [](const GroupedArguments<T, W> &a, const GroupedConfig &config) {
      const auto &lhs = a.lhs;
      const auto &sizes = a.group_sizes;
      const auto &c = a.c;
      const auto &rowTiles = a.rowTiles;
      const int m = config.m, depth = config.k,
                n = config.gate == Gate::none ? config.n : config.n / 2; // of c
      const Int columns = cdiv(c.extent(1), n), steps = cdiv(lhs.extent(1), depth);
      auto finish = [&](const Segment &rows, const Int &i, const Int &j) {
        const auto store = [&](const GroupedRows<T> &tile) {
          c.slice(0, rows.start, rows.size)
              .tile(m, n)
              .store(i, j, finished(a, rows.group, tile, j, steps, config));
        };
        const auto areThere = [&] { return i * m + arange(0, m) < rows.size; };
        if (config.gathered) {
          const auto numbers = a.rows.slice(0, rows.start, rows.size).tile(m).padding(-1).load(i);
          const auto left = lhs.tile(m, depth);
          const auto scales = a.lhs_scales.tile(m, 1);
          store({[&](const Int &step) { return left.gather(numbers, step); },
                 [&](const Int &block) { return scales.gather(numbers, block); },
                 config.rhsScaled ? areThere() : Tile<bool>()});
        } else {
          const auto left = lhs.slice(0, rows.start, rows.size).tile(m, depth);
          store({[&](const Int &step) { return left.load(i, step); },
                 [&](const Int &block) {
                   return a.lhs_scales.slice(0, rows.start, rows.size).tile(m, 1).load(i, block);
                 },
                 config.rhsScaled ? areThere() : Tile<bool>()});
        }
      };
      if (config.persistent) {
        forEachTile(
            sizes, c.extent(0), [&](const Int &size) { return cdiv(size, m) * columns; },
            [&](const Segment &rows, const Int &tile) {
              auto [i, j] = grouped_order(tile, {cdiv(rows.size, m), columns}, config.group);
              finish(rows, i, j);
            });
        return;
      }
      auto [tile, j] = grouped_order(program_id(0), {rowTiles, columns}, config.group);

      // The group whose tiles of rows include this one; there is none behind the last.
      Int group = 0, first = 0, start = 0, size = 0, tilesBefore = 0, rowsBefore = 0;
      auto numbers = arange(0, lengthsAtOnce);
      for (auto block : range(0, cdiv(sizes.extent(0), lengthsAtOnce))) {
        auto lengths = maximum(0, cast<Index>(sizes.tile(lengthsAtOnce).load(block)));
        auto tiles = cdiv(lengths, m);
        auto ends = cumsum(tiles, 0) + tilesBefore;
        auto rowEnds = cumsum(lengths, 0) + rowsBefore;
        auto mine = tile < ends && tile >= ends - tiles;
        group += sum(where(mine, block * lengthsAtOnce + numbers, 0), 0);
        first += sum(where(mine, ends - tiles, 0), 0);
        start += sum(where(mine, rowEnds - lengths, 0), 0);
        size += sum(where(mine, lengths, 0), 0);
        tilesBefore += sum(tiles, 0);
        rowsBefore += sum(lengths, 0);
      }
      size = rowsWithin(size, start, c.extent(0));
      when(size > 0, [&] { finish({group, start, size}, tile - first, j); });
    }};

template <class T> struct GroupedDrhsArguments {
  View<const T, 2> lhs, dc;
  View<const std::int32_t, 1> group_sizes;
  View<T, 3> drhs;
};

template <class T>
Kernel groupedMatmulDrhs{
    "grouped_matmul_drhs", [](const GroupedDrhsArguments<T> &a, const GroupedConfig &config) {
      const auto &[lhs, dc, sizes, drhs] = a;
      const int m = config.m, n = config.n, depth = config.k;
      const Int rowTiles = cdiv(drhs.extent(1), m), columnTiles = cdiv(drhs.extent(2), n);
      const Int area = rowTiles * columnTiles;
      auto finish = [&](const Segment &rows, const Int &tile) {
        auto [i, j] = grouped_order(tile, {rowTiles, columnTiles}, config.group);
        auto left = lhs.slice(0, rows.start, rows.size).transposed().tile(m, depth);
        auto right = dc.slice(0, rows.start, rows.size).tile(depth, n);
        drhs.at(rows.group)
            .tile(m, n)
            .store(i, j,
                   multiply([&](const Int &step) { return left.load(i, step); }, right, j,
                            cdiv(rows.size, depth), config));
      };
      if (config.persistent) {
        forEachTile(sizes, lhs.extent(0), [&](const Int &) { return area; }, finish);
        return;
      }
      const Int group = program_id(0) / area;
      Int start = 0, size = 0;
      for (auto block : range(0, cdiv(group + 1, lengthsAtOnce))) {
        auto lengths = maximum(0, cast<Index>(sizes.tile(lengthsAtOnce).load(block)));
        auto number = block * lengthsAtOnce + arange(0, lengthsAtOnce);
        start += sum(where(number < group, lengths, 0), 0);
        size += sum(where(number == group, lengths, 0), 0);
      }
      finish({group, start, rowsWithin(size, start, lhs.extent(0))}, program_id(0) % area);
    }};

// Lengths that sum to M, every third group empty.
void sampleSizes(const Invocation &call, HostArray &array, std::mt19937_64 &random) {
  std::vector<double> sizes(static_cast<std::size_t>(array.count()));
  const auto last = static_cast<std::int64_t>(sizes.size()) - 1;
  std::int64_t rest = call.extent("M");
  for (std::int64_t i = 0; i <= last; ++i) {
    const std::int64_t even = 2 * ceilDiv(rest, last - i + 1);
    std::uniform_int_distribution<std::int64_t> some(0, std::min(rest, even));
    const std::int64_t size = i == last ? rest : i % 3 == 1 ? 0 : some(random);
    sizes[static_cast<std::size_t>(i)] = static_cast<double>(size);
    rest -= size;
  }
  array.assign(sizes);
}

} // namespace

void sectile::specifyGrouped(KernelSpec &spec, const std::string &operand, bool isGradient,
                             std::function<GroupedCoding(const Invocation &)> codingOf) {
  std::vector<ConfigSpec> fields{persistentField,
                                 {"programs", "programs where they are persistent"}};
  const bool mayBeCodes = bool(codingOf);
  if (mayBeCodes)
    fields.push_back(decodeFirstField);
  else
    codingOf = [](const Invocation &) { return GroupedCoding(); };
  spec.config = productFieldSpecs("group", "depth of one step", fields);
  spec.neutral = {"group", "stages", "persistent", "programs"};
  spec.typical = {{"M", 4096}, {"K", 1024}, {"N", 1024}, {"G", 8}};
  spec.flops = [](const Invocation &call) { return productFlops(call, {"M", "N", "K"}); };
  spec.small = {{"M", 150}, {"K", 40}, {"N", 50}, {"G", 5}};
  const auto shapeOf = [isGradient, operand, codingOf](const Invocation &call) {
    // Rows of a group count on average.
    const std::int64_t groups = call.extent("G"),
                       average = call.extent("M") / std::max<std::int64_t>(groups, 1);
    const bool isFp8Codes = isFp8(call.dtype(operand));
    return ProductShape{.batches = groups,
                        .rows = isGradient ? call.extent("K") : average,
                        .columns = call.extent("N"),
                        .inner = isGradient ? average : call.extent("K"),
                        .bytes = isFp8Codes ? 1 : 2,
                        .promotes = isFp8Codes,
                        .scales = isFp8Codes,
                        .turnsB = isFp8Codes && !codingOf(call).liesAlongK};
  };
  // Without decoding.
  const auto isInWarpgroups = [operand, codingOf](const Invocation &call,
                                                  const std::string &target) {
    const DType dtype = call.dtype(operand);
    return !codingOf(call).isMx && hasWarpgroupUnits(target, dtype, /*alongK=*/isFp8(dtype)) &&
           (!isFp8(dtype) || call.options.choice("precision") == "tf32");
  };
  // What all rows of a group save together is more than decoding takes, and room for it.
  const auto decodesFirst = [operand, codingOf, shapeOf](const Invocation &call,
                                                         const std::string &target) {
    constexpr std::int64_t leastRows = 384, mostBytes = std::int64_t(2) << 30;
    const ProductShape shape = shapeOf(call);
    return codingOf(call).isMx && call.dtype(operand) == DType::bfloat16 &&
           hasWarpgroupUnits(target, DType::bfloat16, /*alongK=*/true) && shape.rows >= leastRows &&
           double(shape.batches) * double(shape.columns) * double(shape.inner) * 2 <= mostBytes;
  };
  // Decoded codes are bf16.
  const auto multiplied = [operand](const Invocation &call, const GroupedCoding &coding) {
    return coding.isMx ? DType::bfloat16 : call.dtype(operand);
  };
  spec.predict =
      predictProduct([=](const Invocation &call, const std::string &target,
                         const Config &) { return isInWarpgroups(call, target); },
                     [=](const Invocation &call, const Config &) { return shapeOf(call); });
  spec.defaults = [=](const Invocation &call, const std::string &target) {
    const ProductShape shape = shapeOf(call);
    const GroupedCoding coding = codingOf(call);
    const bool wide = call.dtype(operand) == DType::float32;
    const bool decodeFirst = decodesFirst(call, target);
    const auto fields = [&](const ProductConfig &config) {
      Config result = productFields(call, config, target);
      if (mayBeCodes)
        result["decode_first"] = decodeFirst;
      return result;
    };
    if (decodeFirst || isInWarpgroups(call, target))
      return fields(fastestProduct(
          coding.isScaled ? std::span<const ProductTile>(scaledTiles) : productTiles, shape,
          {.persistent = wide ? ProductForms::never : ProductForms::maybe}, target));
    const bool units = hasMatrixUnits(target, multiplied(call, coding)),
               // Two sets of sums leave no room for larger tiles.
        larger = units && !coding.isScaled && shape.rows > 128;
    return fields({.m = coding.isMx && shape.rows <= 16 ? 16
                        : larger                        ? 128
                                                        : 64,
                   .n = units && shape.columns > 128 ? 128 : 64,
                   .k = wide                              ? 16
                        : coding.isMx || shape.bytes == 1 ? 64
                                                          : 32,
                   // Each code is decoded by one program for all of its rows.
                   .warps = coding.isMx && larger ? 8 : 4,
                   .stages = 3});
  };
  spec.spaces = {
      {.axes = {{"m", {16, 32, 64, 128}},
                {"n", {32, 64, 128, 256}},
                {"k", {16, 32, 64, 128}},
                {"warps", {4, 8}},
                {"stages", {2, 3, 4, 6}}},
       .where = [=](const Invocation &call, const std::string &target, const Config &config) {
         GroupedCoding coding = codingOf(call);
         coding.isMx &= !(mayBeCodes && config.at("decode_first"));
         const bool isNarrow = coding.isMx || isFp8(call.dtype(operand));
         const std::int64_t sums = sumsOfThread(config, target), k = config.at("k");
         const bool mayBeMany =
             !coding.isScaled && hasMatrixUnits(target, multiplied(call, coding));
         return sums >= (coding.isMx ? 4 : 8) && sums <= (mayBeMany ? 128 : 64) &&
                k <= (isNarrow ? 128 : 64) && k >= (isNarrow ? mxBlock : 16);
       }}};
}

ArgumentRow sectile::groupSizes(const char *name) {
  return {std::string(name) + ": [G] i32",
          "rows of each group; they sum to M; groups may be empty",
          {.sample = sampleSizes}};
}

void sectile::checkGroupSizes(const Invocation &call, std::span<const HostArray> inputs,
                              const char *argument) {
  std::int64_t sum = 0;
  for (const std::int32_t size : inputs[call.index(argument)].as<std::int32_t>()) {
    if (size < 0)
      refuse(call, argument, " has ", size, ", but a group has 0 rows or more");
    sum += size;
  }
  if (sum != call.extent("M"))
    refuse(call, argument, " sum to ", sum, ", but must sum to M, the rows of all groups (",
           call.extent("M"), ")");
}

namespace {

// What a launch is decided by, whatever the types.
struct GroupedShape {
  std::int64_t rows, columns, groups; // of c
  bool isMx, gathered, biased, lhsScaled, rhsScaled;
};
struct GroupedPlan {
  GroupedConfig config;
  std::int64_t rowTiles, programs;
};

GroupedPlan planGrouped(const Use &use, const GroupedShape &shape,
                        const GroupedEpilogue &epilogue) {
  auto config = use.config_as<GroupedConfig>();
  config.gathered = shape.gathered;
  config.biased = shape.biased;
  config.lhsScaled = shape.lhsScaled;
  config.rhsScaled = shape.rhsScaled;
  config.gate = epilogue.gate;
  config.activation = epilogue.activation;
  config.limited = epilogue.numbers.limit > 0;
  config.scaled = epilogue.numbers.alpha != 1;
  const auto refuseDepth = [&](const std::string &why) {
    refuse(use.call, "configuration field 'k' is ", config.k, ", which ", why);
  };
  if ((config.lhsScaled || config.rhsScaled) && scaleBlock % config.k != 0)
    refuseDepth("does not divide a block of " + std::to_string(scaleBlock));
  if (shape.isMx && config.k % mxBlock != 0)
    refuseDepth("is no multiple of a block of " + std::to_string(mxBlock));
  const std::int64_t columns = config.gate == Gate::none ? config.n : config.n / 2;
  // Tiles begin at multiples of their width within each half of a matrix.
  const std::int64_t width = config.gate == Gate::concatenated ? columns : config.n;
  config.oneScale =
      scaleBlock % width == 0 && (config.gate != Gate::concatenated || shape.columns % width == 0);
  // Every group may end with a tile that is not full.
  const std::int64_t rowTiles = ceilDiv(shape.rows, config.m) + shape.groups;
  return {config, rowTiles, programsFor(use, rowTiles * ceilDiv(shape.columns, columns))};
}

} // namespace

template <class T, class W>
void sectile::launchGrouped(Use &use, const GroupedTensors<T, W> &tensors,
                            const GroupedEpilogue &epilogue) {
  // Codes of lhs keep those of rhs company.
  if constexpr (GroupedTensors<T, W>::isMx && std::is_same_v<T, bfloat16>)
    if (use.field("decode_first")) {
      const auto alongK = [](const Tensor<std::uint8_t, 3> &x) { return x.permute({0, 2, 1}); };
      const auto rhs = decodedMx(use, alongK(tensors.rhs), alongK(tensors.rhsScales));
      launchGrouped<T, T>(use,
                          {tensors.lhs, rhs.permute({0, 2, 1}), tensors.sizes, tensors.rows,
                           tensors.bias, tensors.c},
                          epilogue);
      return;
    }
  const GroupedPlan plan =
      planGrouped(use,
                  {.rows = tensors.c.extent(0),
                   .columns = tensors.c.extent(1),
                   .groups = tensors.rhs.extent(0),
                   .isMx = GroupedTensors<T, W>::isMx,
                   .gathered = tensors.rows.data() != nullptr || tensors.rows.extent(0) > 0,
                   .biased = tensors.bias.extent(0) > 0,
                   .lhsScaled = tensors.lhsScales.extent(0) > 0,
                   .rhsScaled = tensors.rhsScales.extent(0) > 0},
                  epilogue);
  const GateNumbers &numbers = epilogue.numbers;
  use(groupedMatmul<T, W>, plan.programs, plan.config,
      {{"lhs", tensors.lhs},
       {"rhs", tensors.rhs},
       {"lhs_scales", tensors.lhsScales},
       {"rhs_scales", tensors.rhsScales},
       {"group_sizes", tensors.sizes},
       {"rows", tensors.rows},
       {"bias", tensors.bias},
       {"c", tensors.c},
       {"rowTiles", plan.rowTiles},
       {"alpha", numbers.alpha},
       {"limit", numbers.limit},
       {"offset", numbers.offset}});
}
#define SECTILE_LAUNCH_GROUPED(T, W)                                                               \
  template void sectile::launchGrouped(Use &, const GroupedTensors<T, W> &,                        \
                                       const GroupedEpilogue &);
SECTILE_LAUNCH_GROUPED(half, half)
SECTILE_LAUNCH_GROUPED(bfloat16, bfloat16)
SECTILE_LAUNCH_GROUPED(float, float)
SECTILE_LAUNCH_GROUPED(float8_e4m3, float8_e4m3)
SECTILE_LAUNCH_GROUPED(bfloat16, std::uint8_t)
SECTILE_LAUNCH_GROUPED(float8_e4m3, std::uint8_t)
#undef SECTILE_LAUNCH_GROUPED

static KernelSpec grouped(bool isGradient) {
  KernelSpec spec;
  spec.add_options({{"trans_rhs: flag = false", "the matrices of the groups are stored transposed"},
                    precisionOption});
  specifyGrouped(spec, "lhs", isGradient);
  spec.check = [](const Invocation &call) {
    if (call.extent("G") == 0 && call.extent("M") != 0)
      refuse(call, "lhs has rows, but there is no group");
  };
  spec.contents = [](const Invocation &call, std::span<const HostArray> inputs) {
    checkGroupSizes(call, inputs, "group_sizes");
  };
  return spec;
}

KernelSpec sectile::groupedMatmulSpec() {
  KernelSpec spec = grouped(/*isGradient=*/false);
  spec.name = "grouped_matmul";
  spec.summary = "rows of each group times the group's own matrix";
  spec.add_arguments(
      {{"lhs: [M, K] f16|bf16|f32", "rows, group by group"},
       {"rhs: [G, K, N] like lhs", "[G, N, K] with trans_rhs", {.stored = swappedBy("trans_rhs")}},
       groupSizes("group_sizes"),
       {"-> c: [M, N] like lhs",
        "accumulated in f32; rows behind the last group are not written"}});
  spec.reference = groupedMatmulReference;
  spec.apply = [](Use &use) {
    for_dtype<half, bfloat16, float>(use.call.dtype("lhs"), [&]<class T>(T) {
      launchGrouped<T, T>(use,
                          {use.tensor<T, 2>("lhs"), use.tensor<T, 3>("rhs"),
                           use.tensor<std::int32_t, 1>("group_sizes"), noTensor<std::int32_t, 1>(),
                           noTensor<T, 2>(), use.tensor<T, 2>("c")},
                          {});
    });
  };
  return spec;
}

KernelSpec sectile::groupedMatmulDrhsSpec() {
  KernelSpec spec = grouped(/*isGradient=*/true);
  spec.name = "grouped_matmul_drhs";
  spec.summary = "gradient of grouped_matmul's matrices";
  spec.add_arguments({{"lhs: [M, K] f16|bf16|f32", "as grouped_matmul takes it"},
                      groupSizes("group_sizes"),
                      {"dc: [M, N] like lhs", "gradient of grouped_matmul's c"},
                      {"-> drhs: [G, K, N] like lhs",
                       "accumulated in f32; 0 for empty groups",
                       {.stored = swappedBy("trans_rhs")}}});
  spec.factor = 3;
  spec.reference = groupedMatmulDrhsReference;
  spec.apply = [](Use &use) {
    const auto config = use.config_as<GroupedConfig>();
    const std::int64_t tiles =
        use.extent("G") * ceilDiv(use.extent("K"), config.m) * ceilDiv(use.extent("N"), config.n);
    for_dtype<half, bfloat16, float>(use.call.dtype("lhs"), [&]<class T>(T) {
      use(groupedMatmulDrhs<T>, programsFor(use, tiles), config);
    });
  };
  return spec;
}
