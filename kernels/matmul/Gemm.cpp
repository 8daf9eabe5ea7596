// The general matrix product: batches, an epilogue, and sums that several programs share, split
// along K or by Stream-K (Osama et al., arXiv 2301.03598).
#include "kernels/matmul/Gemm.h"
#include "kernels/calls/Emit.h"
#include "kernels/calls/Overlap.h"
#include "kernels/matmul/Operands.h"
#include "kernels/matmul/SharedSums.h"
#include "kernels/matmul/TileOrder.h"
#include "kernels/tuning/Choices.h"
#include "runtime/Chip.h"
#include <algorithm>
#include <sectile/error.h>
#include <sectile/tuning.h>

using namespace sectile;
using detail::GemmConfig, detail::GemmKernel, detail::GemmSum;

// A tile's sum over K may be cut into parts. With `splits` every tile is cut into as many, and a
// second launch, with slices, adds them up. With
// `stream` each program does whole tiles like a persistent one, except in the last waves: where the
// tiles do not fill the last wave, its steps and those of the wave before are dealt out evenly,
// whatever the tiles. That leaves a program two tiles' steps at most, and a tile two parts at most,
// unless there are fewer tiles than programs.
template <class T>
void detail::traceGemm(
    const GemmArguments<T> &arguments,
    const std::function<void(const GemmPosition &, const Tile<GemmSum<T>> &)> &finish) {
  using Sum = GemmSum<T>;
  const auto &[a, b, extents, parts, arrived, config] = arguments;
  program_clusters(config.cluster);
  const int m = config.m, n = config.n, depth = config.k;
  const TileOrder order(cdiv(extents[1], m), cdiv(extents[2], n), config.group, config.cluster);
  const Int area = order.count();
  // One at least: with K = 0 it adds nothing.
  const Int steps = maximum(cdiv(a.extent(2), depth), 1);

  // One matrix begins where its argument does, which the copy engine has to know.
  auto placeOf = [&](const Int &tile) {
    auto [i, j] = order.at(config.batched ? tile % area : tile);
    return GemmPosition{config.batched ? tile / area : Int(0), i, j, m, n};
  };
  auto multiply = [&](const GemmPosition &at, const Int &from, const Int &to) {
    auto left = a.at(at.batch).tile(m, depth);
    auto right = b.at(at.batch).tile(depth, n);
    auto sums = zeros<Sum>(m, n);
    for (auto step : range(from, to, copiedApart(config.persistent || config.splits > 1))) {
      if constexpr (std::is_same_v<Sum, float>)
        sums = dot(left.load(at.i, step), right.load(step, at.j), sums,
                   config.exact ? Precision::ieee : Precision::tf32);
      else
        sums = dot(left.load(at.i, step), right.load(step, at.j), sums);
    }
    return sums;
  };

  const PartLayout layout(m, n);
  if (config.sliceM) {
    const SplitSlice slice = splitSlice(m, n, config.sliceM, config.sliceN);
    GemmPosition at = placeOf(slice.tile);
    at = {at.batch, at.i * (m / slice.rows) + slice.i, at.j * (n / slice.columns) + slice.j,
          slice.rows, slice.columns};
    finish(at, sumOfSplits(parts, layout, config.splits, slice));
    return;
  }

  const Int program = order.first(), programs = order.step(), tiles = extents[0] * area;
  if (config.stream) {
    const Int rest = tiles % programs;
    const Int streamed = where(rest == 0, Int(0), minimum(tiles, rest + programs));
    const Int waves = (tiles - streamed) / programs;
    // The first `more` programs have one step more than the others.
    const Int total = streamed * steps, each = total / programs, more = total % programs;
    const Int begin = program * each + minimum(program, more);
    const Int end = begin + each + where(program < more, Int(1), Int(0));
    const Int pieces = where(begin < end, cdiv(end, steps) - begin / steps, 0);
    auto ownerOf = [&](const Int &step) {
      const Int behind = step - more * (each + 1);
      return where(behind < 0, step / (each + 1), more + behind / maximum(each, 1));
    };
    // First, so that the steps of whole tiles keep the others busy while parts are put together.
    for (auto piece : range(0, pieces + waves)) {
      const auto isStreamed = piece < pieces;
      const Int shared = begin / steps + piece,
                whole = streamed + (piece - pieces) * programs + program;
      // Engines store no tile whose number may be negative.
      const Int tile = maximum(where(isStreamed, shared, whole), 0);
      const Int from = maximum(begin - shared * steps, 0); // 0 in whole tiles
      const Int to = where(isStreamed, minimum(end - shared * steps, steps), steps);
      const GemmPosition at = placeOf(tile);
      auto sums = multiply(at, from, to);
      auto isWhole = to - from == steps;
      when(!isWhole, [&] {
        // A program begins at most one tile that it does not end, and ends at most one that it did
        // not begin.
        const Int first = ownerOf(tile * steps), last = ownerOf(tile * steps + steps - 1);
        isWhole =
            shareSums(parts, arrived, order.ownOf(tile), sums, program - first, last - first + 1,
                      [&](const Int &part) {
                        return 2 * order.ownOf(first + part) + where(part == 0, Int(1), Int(0));
                      });
      });
      when(isWhole, [&] { finish(at, sums); });
    }
    return;
  }
  if (config.persistent) {
    for (auto tile : range(program, tiles, programs)) {
      const GemmPosition at = placeOf(tile);
      finish(at, multiply(at, 0, steps));
    }
    return;
  }
  const Int part = program % config.splits;
  const GemmPosition at = placeOf(program / config.splits);
  const auto sums = multiply(at, part * steps / config.splits, (part + 1) * steps / config.splits);
  if (config.splits == 1)
    finish(at, sums);
  else
    layout.store(parts.at(program), sums);
}

#ifndef SECTILE_SEALED
// The sums of each kind of operand, for epilogues of other libraries and programs too.
#define SECTILE_TRACE_GEMM(T)                                                                      \
  template void detail::traceGemm(                                                                 \
      const GemmArguments<T> &,                                                                    \
      const std::function<void(const GemmPosition &, const Tile<GemmSum<T>> &)> &);
SECTILE_TRACE_GEMM(half)
SECTILE_TRACE_GEMM(bfloat16)
SECTILE_TRACE_GEMM(float)
SECTILE_TRACE_GEMM(float8_e4m3)
SECTILE_TRACE_GEMM(float8_e5m2)
SECTILE_TRACE_GEMM(std::int8_t)
#undef SECTILE_TRACE_GEMM
#endif

namespace {

// What the options and optional inputs of the command line's names make of the sums.
template <class T, class Out> struct NamedEpilogue {
  auto operator()(const Tile<GemmSum<T>> &sums, const GemmPosition &at, View<const Out, 2> bias,
                  View<const Out, 3> residual, View<const float, 2> rowScale,
                  View<const float, 2> columnScale, Float alpha, Float beta,
                  const EpilogueParts &parts) const {
    if constexpr (std::is_same_v<Out, std::int32_t>) {
      return sums;
    } else {
      const EpilogueOperands<Out> operands{bias.at(at.batch),
                                           residual.at(at.batch),
                                           rowScale.at(at.batch),
                                           columnScale.at(at.batch),
                                           alpha,
                                           beta};
      return finishSums(cast<float>(sums), operands, parts, at);
    }
  }
};

template <class T, class Out>
using NamedKernel = GemmKernel<T, NamedEpilogue<T, Out>, View<Out, 3>>;
template <class T, class Out> NamedKernel<T, Out> matmul{"matmul", {}};
template <class T, class Out> NamedKernel<T, Out> batchedMatmul{"batched_matmul", {}};

// The programs of a call, and how they share sums.
struct Schedule {
  GemmConfig config;
  std::int64_t programs = 0, tiles = 0, slots = 0;

  template <class Launch>
  void launch(const Launch &launch, int leastRows = 1, int leastColumns = 1) const {
    forSplits(config, programs, tiles, launch, leastRows, leastColumns);
  }
};

Schedule scheduleOf(const Use &use, bool batched) {
  const Invocation &call = use.call;
  Schedule result{use.config_as<GemmConfig>()};
  GemmConfig &chosen = result.config;
  chosen.batched = batched;
  chosen.stream = call.options.choice("schedule") == "stream_k";
  chosen.exact = call.options.choice("precision") == "exact";
  if (chosen.stream && numerics() == Numerics::fixed)
    refuse(call, "schedule=stream_k shares sums by how many tiles there "
                 "are, which no fixed order of sums goes with");
  if (chosen.stream)
    chosen.splits = 1;
  // Of programs that begin at different depths, or in different matrices, none share their loads.
  if (batched || chosen.splits > 1)
    chosen.cluster = 1;
  chosen.persistent = chosen.persistent && chosen.splits == 1;
  const std::int64_t tiles = result.tiles =
      (batched ? call.extent("B") : 1) * clusteredTiles(call, chosen);
  const std::int64_t steps = std::max<std::int64_t>(1, ceilDiv(call.extent("K"), chosen.k));
  const auto programs = [&](std::int64_t count) {
    return persistentPrograms(count, use.field("programs"), chosen.cluster);
  };
  result.programs = chosen.persistent ? programs(tiles) : tiles;
  if (chosen.stream) {
    result.programs = programs(tiles * steps);
    result.slots = 2 * result.programs;
  } else if (chosen.splits > 1) {
    result.programs = result.slots = tiles * chosen.splits;
  }
  return result;
}

template <class T, int N>
Tensor<T, N> stacked(const Use &use, std::string_view name, bool batched) {
  return batched ? detail::asBatch<N>(use.tensor<T, N>(name))
                 : detail::asBatch<N>(use.tensor<T, N - 1>(name));
}

// How many parts of each tile a stream's programs have stored.
Tensor<std::int32_t, 1> arrivals(Use &use, const Schedule &schedule) {
  return use.zeroed<std::int32_t, 1>({schedule.config.stream ? schedule.tiles : 0});
}

} // namespace

std::int64_t sectile::programsFor(const Use &use, std::int64_t tiles, int cluster) {
  return use.field("persistent") ? persistentPrograms(tiles, use.field("programs"), cluster)
                                 : tiles;
}

void sectile::launchGemm(Use &use, bool batched) {
  const EpilogueParts parts = epilogueParts(use.call);
  const Schedule schedule = scheduleOf(use, batched);
  auto launch = [&]<class T, class Out>(T, Out) {
    const auto sums =
        partsOfSums<GemmSum<T>>(use, schedule.slots, schedule.config.m, schedule.config.n);
    const auto arrived = arrivals(use, schedule);
    const auto a = leftOperand(use, stacked<T, 3>(use, "a", batched)),
               b = rightOperand(use, stacked<T, 3>(use, "b", batched));
    schedule.launch([&](std::int64_t programs, const GemmConfig &config) {
      use(batched ? batchedMatmul<T, Out> : matmul<T, Out>, programs, a, b,
          stacked<Out, 3>(use, "c", batched), stacked<Out, 2>(use, "bias", batched),
          stacked<Out, 3>(use, "residual", batched), stacked<float, 2>(use, "row_scale", batched),
          stacked<float, 2>(use, "column_scale", batched),
          static_cast<float>(use.call.options.number("alpha")),
          static_cast<float>(use.call.options.number("beta")), sums, arrived,
          detail::GemmConfigWith<EpilogueParts>{config, parts});
    });
  };
  const DType out = use.call.dtype("c");
  for_dtype<half, bfloat16, float, float8_e4m3, float8_e5m2, std::int8_t>(
      use.call.dtype("a"), [&]<class T>(T operand) {
        const auto launchFor = [&](auto result) { launch(operand, result); };
        for_dtype<half, bfloat16, float>(out, launchFor);
        if constexpr (std::is_same_v<T, std::int8_t>)
          for_dtype<std::int32_t>(out, launchFor);
        else if constexpr (sizeof(T) == 1)
          for_dtype<T>(out, launchFor);
      });
}

namespace {

// `matmul` under the name that messages to callers of gemm() have.
const KernelSpec &specOf(bool batched) {
  static const auto named = [](const char *kernel) {
    KernelSpec spec = findKernel(kernel);
    spec.name = "gemm";
    return spec;
  };
  static const KernelSpec matrices = named("matmul"), batches = named("batched_matmul");
  return batched ? batches : matrices;
}

// A tensor of two or three axes as a batch.
template <class T> Tensor<T, 3> batchOf(const AnyTensor &tensor) {
  const auto as = [&]<int N>(std::integral_constant<int, N>) {
    std::array<std::int64_t, N> extents{}, strides{};
    std::copy_n(tensor.extents.begin(), N, extents.begin());
    std::copy_n(tensor.strides.begin(), N, strides.begin());
    return detail::asBatch<3>(
        Tensor<T, N>(reinterpret_cast<T *>(tensor.address), extents, strides, tensor.memory));
  };
  return tensor.extents.size() == 2 ? as(std::integral_constant<int, 2>{})
                                    : as(std::integral_constant<int, 3>{});
}

template <class T>
detail::GemmOperand copyOf(const Tensor<T, 3> &taken, const Tensor<T, 3> &given) {
  // Without memory, as for code that is only shown, a copy differs in how it lies.
  if (taken.data() == given.data() && taken.extents() == given.extents() &&
      taken.strides() == given.strides())
    return {};
  return {true, taken.extents(), taken.strides(), taken.memory()};
}

// Programs run in any order, so none may store an element that another reads or stores. Elements of
// one matrix of c's rank may be read and stored, as a residual in c's memory is: one program has
// both. Elements of a vector are read by many programs.
void checkOverlap(const detail::GemmCall &given) {
  struct Named {
    std::string name;
    const AnyTensor *tensor;
    bool isStored;

    StridedArray layout() const {
      return {tensor->address, size_of(tensor->dtype), tensor->extents, tensor->strides};
    }
  };
  std::vector<Named> results;
  if (given.hasResult)
    results.push_back({"c", &given.c, true});
  for (const detail::GemmEpilogueView &view : given.views)
    results.push_back({"argument " + std::to_string(view.number) + " of the epilogue", &view.tensor,
                       !view.tensor.read_only});
  for (std::size_t i = 0; i < results.size(); ++i) {
    const Named &one = results[i];
    const auto overlaps = [&](const AnyTensor &other) {
      return one.tensor->address != 0 && other.address != 0 &&
             overlap(one.layout(), Named{"", &other, false}.layout());
    };
    if (one.isStored && overlapsItself(one.tensor->extents, one.tensor->strides))
      throw InputError("gemm: " + itselfText(one.name, one.tensor->strides));
    if (one.isStored)
      for (const AnyTensor *operand : {&given.a, &given.b})
        if (overlaps(*operand))
          throw InputError("gemm: " + one.name + " overlaps " + (operand == &given.a ? "a" : "b") +
                           " in memory; it needs memory of its own");
    for (std::size_t j = 0; j < i; ++j) {
      const Named &other = results[j];
      const bool mayBeSame = one.tensor->extents.size() >= given.a.extents.size();
      if ((one.isStored || other.isStored) && overlaps(*other.tensor) &&
          !(mayBeSame && isSame(one.layout(), other.layout())))
        throw InputError("gemm: " + one.name + " overlaps " + other.name +
                         " in memory; it needs memory of its own" +
                         (mayBeSame ? ", or exactly the elements of " + other.name : ""));
    }
  }
}

Invocation resolveGemm(const detail::GemmCall &given, bool batched) {
  const GemmOptions &options = given.options;
  Invocation call =
      resolve(specOf(batched),
              {{"a", {{given.a.dtype, given.a.extents}, ""}},
               {"b", {{given.b.dtype, given.b.extents}, ""}}},
              {{"trans_b", "false"},
               {"precision", options.exact ? "exact" : "tf32"},
               {"schedule", options.schedule == GemmSchedule::stream_k ? "stream_k" : "tiles"}});
  if (given.hasResult) {
    Shape wanted{call.extent("M"), call.extent("N")};
    if (batched)
      wanted.insert(wanted.begin(), call.extent("B"));
    if (given.c.extents != wanted)
      throw InputError("gemm: c is " + toString(given.c.extents) + ", but a " +
                       toString(given.a.extents) + " times b " + toString(given.b.extents) +
                       " is " + toString(wanted));
  }
  checkOverlap(given);
  // How an operand is stored shows in its strides, and settles what suits it.
  auto isTransposed = [](const AnyTensor &matrix) {
    const std::size_t rank = matrix.strides.size();
    return matrix.strides[rank - 1] != 1 && matrix.strides[rank - 2] == 1;
  };
  call.options.values["trans_a"] = isTransposed(given.a) ? "true" : "false";
  call.options.values["trans_b"] = isTransposed(given.b) ? "true" : "false";
  return call;
}

} // namespace

namespace {

bool isBatched(const detail::GemmCall &given) { return given.a.extents.size() == 3; }

// The call as one of the kernel that the library has by name, and its fields that the caller gives.
struct ResolvedGemm {
  Invocation call;
  Config own;

  explicit ResolvedGemm(const detail::GemmCall &given)
      : call(resolveGemm(given, isBatched(given))) {
    Assignments fields;
    for (const auto &[name, value] : given.options.config)
      fields.emplace_back(name, std::to_string(value));
    own = parseConfig(specOf(isBatched(given)), fields);
    // What was measured of the products is kept under their own names.
    call.kernel = &findKernel(isBatched(given) ? "batched_matmul" : "matmul");
  }
  // The library's choice as this epilogue takes it, and as the caller says.
  Config complete(Config chosen, const detail::GemmCall &given) const {
    if (!given.mayPersist)
      chosen["persistent"] = 0, chosen["cluster"] = 1;
    for (const auto &[name, value] : own)
      chosen[name] = value;
    return chosen;
  }
};

void eachLaunch(Use &use, const detail::GemmCall &given, const Config &own,
                const std::function<void(const detail::GemmLaunch &)> &launch) {
  const Schedule schedule = scheduleOf(use, isBatched(given));
  const GemmConfig &chosen = schedule.config;
  const auto parts = partsOfSums<float>(use, schedule.slots, chosen.m, chosen.n);
  const auto arrived = arrivals(use, schedule);
  detail::GemmOperand a, b;
  for_dtype<half, bfloat16, float, float8_e4m3, float8_e5m2, std::int8_t>(
      given.a.dtype, [&]<class T>(T) {
        const auto left = batchOf<T>(given.a), right = batchOf<T>(given.b);
        a = copyOf(leftOperand(use, left), left);
        b = copyOf(rightOperand(use, right), right);
      });
  schedule.launch(
      [&](std::int64_t programs, const GemmConfig &each) {
        launch({programs, each, parts.extents(), parts.memory(), arrived.memory(), a, b});
      },
      own.contains("m") ? chosen.m : 1, own.contains("n") ? chosen.n : 1);
}

} // namespace

void detail::launchGemm(const Stream &stream, const GemmCall &given,
                        const std::function<void(const GemmLaunch &)> &launch) {
  try {
    const ResolvedGemm resolved(given);
    const Config config = resolved.complete(configFor(resolved.call, stream.device()), given);
    withUse(resolved.call, config, stream,
            [&](Use &use) { eachLaunch(use, given, resolved.own, launch); });
  } catch (const InputError &error) {
    throw LaunchError(error.what());
  }
}

#ifndef SECTILE_SEALED
std::vector<std::string>
detail::emitGemm(std::string_view target, std::string_view form, const GemmCall &given,
                 const std::function<BoundLaunch(const GemmLaunch &)> &bind) {
  try {
    const std::string name(target);
    if (!Chip::find(name))
      throw CompileError(Chip::whyUnknown(name));
    const ResolvedGemm resolved(given);
    const Config config = resolved.complete(ownChoice(resolved.call, name), given);
    BoundKernel kept;
    Use::State state{.bound = &kept};
    Use use(resolved.call, config, state);
    eachLaunch(use, given, resolved.own,
               [&](const GemmLaunch &each) { kept.launches.push_back(bind(each)); });
    std::vector<std::string> texts;
    for (KernelCode &code : emitLaunches(kept.launches, name, std::string(form)))
      texts.push_back(std::move(code.code));
    return texts;
  } catch (const InputError &error) {
    throw LaunchError(error.what());
  }
}
#endif
