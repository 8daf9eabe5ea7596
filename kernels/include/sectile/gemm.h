// gemm(stream, a, b, c, epilogue, operands...): a matrix product whose epilogue is the caller's
// lambda over the tile of sums; emit_gemm(), its code. The kernels `matmul` and `batched_matmul`
// are made of the same.
#pragma once
#include <functional>
#include <map>
#include <sectile/kernel_of.h>
#include <sectile/library.h>
#include <sectile/sealed.h>
#include <sectile/sectile.h>
#include <string>
#include <tuple>
#include <vector>

namespace sectile {

// Where a tile of sums lies in the result.
struct GemmPosition {
  Int batch; // the matrix of the batch; 0 where there is only one
  Int i, j;  // the tile's row and column, counted in tiles
  // Rows and columns of a tile: the configuration's, or, where programs share its sums, of a slice
  // of it, whose extents divide those. What GemmOptions::config says of m or n holds for slices
  // too.
  int m = 0, n = 0;

  // The indices of the tile's rows, [m, 1], and of its columns, [1, n]. The last tiles reach beyond
  // the matrix: what is stored there is dropped.
  Int rows() const { return expand(i * m + arange(0, m), 1); }
  Int columns() const { return expand(j * n + arange(0, n), 0); }

  // The tile [m, n] of a matrix of the result's shape, the values of its rows, [m, 1], and of its
  // columns, [1, n]; 0 beyond the view's edge. A view with an axis more has one of them for each
  // matrix of the batch.
  template <class T> Tile<std::remove_const_t<T>> load(const View<T, 2> &matrix) const {
    return matrix.tile(m, n).load(i, j);
  }
  template <class T> Tile<std::remove_const_t<T>> load(const View<T, 3> &matrices) const {
    return load(matrices.at(batch));
  }
  template <class T> Tile<std::remove_const_t<T>> per_row(const View<T, 1> &values) const {
    return expand(values.tile(m).load(i), 1);
  }
  template <class T> Tile<std::remove_const_t<T>> per_row(const View<T, 2> &values) const {
    return per_row(values.at(batch));
  }
  template <class T> Tile<std::remove_const_t<T>> per_column(const View<T, 1> &values) const {
    return expand(values.tile(n).load(j), 0);
  }
  template <class T> Tile<std::remove_const_t<T>> per_column(const View<T, 2> &values) const {
    return per_column(values.at(batch));
  }

  template <class T, class U> void store(const View<T, 2> &matrix, const Tile<U> &tile) const {
    matrix.tile(m, n).store(i, j, tile);
  }
  template <class T, class U> void store(const View<T, 3> &matrices, const Tile<U> &tile) const {
    store(matrices.at(batch), tile);
  }
};

// A program for each tile of the result (and split of K), or a fixed number of programs that share
// the steps of the last waves of tiles evenly.
enum class GemmSchedule { tiles, stream_k };

struct GemmOptions {
  GemmSchedule schedule = GemmSchedule::tiles;
  bool exact = false; // f32 products are not rounded to tf32, sums of fp8 products are f32
  // Fields of the configuration (`sectile list matmul` shows them) that are not left to the
  // library.
  std::map<std::string, std::int64_t> config = {};
};

namespace detail {

template <class T> using GemmSum = Accumulator<T, T>;

// The configuration of the loop over K and of what is around it.
struct GemmConfig {
  int m = 128, n = 128, k = 32, group = 8, warps = 4, stages = 3, cluster = 1, splits = 1;
  bool persistent = false, batched = false, stream = false, exact = false;
  // Not 0 in the launch that adds up what splits left: the slices of tiles that its programs have.
  int sliceM = 0, sliceN = 0;
};

// And that of an epilogue.
template <class C> using GemmConfigWith = JoinedConfig<GemmConfig, C>;

// All that the kernel is given, apart from what only the epilogue uses. Extents: matrices, rows and
// columns of the result.
template <class T> struct GemmArguments {
  View<const T, 3> a, b;
  std::array<Int, 3> extents;
  View<GemmSum<T>, 3> parts;
  Ptr<std::int32_t> arrived;
  const GemmConfig &config;
};

// Traces the kernel. It calls `finish` wherever a tile's sum is complete, which may be at more than
// one place of the kernel.
template <class T>
void traceGemm(const GemmArguments<T> &arguments,
               const std::function<void(const GemmPosition &, const Tile<GemmSum<T>> &)> &finish);

template <class... T> struct TypeList {};

// The parameters of an epilogue's lambda after the sums and their position.
template <class List, class Indices> struct EpilogueParameters;
template <class List, std::size_t... I> struct EpilogueParameters<List, std::index_sequence<I...>> {
  using Operands = TypeList<typename List::template Type<I>...>;
  using Config = typename decltype(List::configType())::type;
  using KernelConfig = std::conditional_t<List::has_config, GemmConfigWith<Config>, GemmConfig>;
  static constexpr bool has_config = List::has_config;
  static constexpr std::size_t count = sizeof...(I);
  static_assert(
      !requires { &Config::warps; } && !requires { &Config::stages; },
      "warps and stages of a gemm are fields of GemmOptions::config, not of the "
      "epilogue's configuration");
};

template <class M> struct EpilogueSignature {
  static_assert(always_false<M>,
                "a gemm's epilogue is a lambda (const Tile<float> &sums, const GemmPosition &at, "
                "operands...), not mutable");
};
template <class R, class C, class Sums, class At, class... P>
  requires std::same_as<std::remove_cvref_t<At>, GemmPosition>
struct EpilogueSignature<R (C::*)(Sums, At, P...) const>
    : EpilogueParameters<
          ParameterList<std::remove_cvref_t<P>...>,
          std::make_index_sequence<ParameterList<std::remove_cvref_t<P>...>::args_count>> {
  using SumTile = std::remove_cvref_t<Sums>;
  static constexpr bool stores = std::is_void_v<R>;
};
template <class R, class C, class... P>
struct EpilogueSignature<R (C::*)(P...) const noexcept> : EpilogueSignature<R (C::*)(P...) const> {
};

template <class E> constexpr auto epilogueSignature() {
  static_assert(std::is_empty_v<E> && std::is_default_constructible_v<E>,
                "a gemm's epilogue captures nothing, because its kernel is compiled once: pass "
                "what it needs as operands");
  if constexpr (requires { &E::operator(); })
    return TypeBox<EpilogueSignature<decltype(&E::operator())>>{};
  else
    static_assert(always_false<E>,
                  "a gemm's epilogue is a lambda with typed parameters, not a generic one");
}
template <class E> using Epilogue = typename decltype(epilogueSignature<E>())::type;

// The kernel's function. C: the view of c, or nothing where the epilogue stores.
template <class T, class E, class C, class Operands> class GemmFunction;
template <class T, class E, class... C, class... P>
class GemmFunction<T, E, TypeList<C...>, TypeList<P...>> {
  using Config = typename Epilogue<E>::KernelConfig;
  using Sums = Tile<GemmSum<T>>;

public:
  void operator()(View<const T, 3> a, View<const T, 3> b, C... c, P... operands,
                  View<GemmSum<T>, 3> parts, Ptr<std::int32_t> arrived,
                  const Config &config) const {
    std::array<Int, 3> extents{a.extent(0), a.extent(1), b.extent(2)};
    ((extents = {c.extent(0), c.extent(1), c.extent(2)}), ...);
    traceGemm<T>({a, b, extents, parts, arrived, config},
                 [&](const GemmPosition &at, const Sums &sums) {
                   if constexpr (sizeof...(C) == 0)
                     call(sums, at, config, operands...);
                   else
                     (store(c.at(at.batch).tile(at.m, at.n), sums, at, config, operands...), ...);
                 });
  }

private:
  template <class To>
  static void store(const To &to, const Sums &sums, const GemmPosition &at, const Config &config,
                    const P &...operands) {
    to.store(at.i, at.j, call(sums, at, config, operands...));
  }
  static auto call(const Sums &sums, const GemmPosition &at, const Config &config,
                   const P &...operands) {
    if constexpr (Epilogue<E>::has_config)
      return E{}(asWanted(sums), at, operands...,
                 static_cast<const typename Epilogue<E>::Config &>(config));
    else
      return E{}(asWanted(sums), at, operands...);
  }
  // The sums of int8 as floats, where the epilogue takes those.
  static auto asWanted(const Sums &sums) {
    using Wanted = typename Epilogue<E>::SumTile;
    static_assert(std::same_as<Wanted, Sums> || std::same_as<Wanted, Tile<float>>,
                  "the sums that a gemm's epilogue takes are a Tile<float>; of int8 operands a "
                  "Tile<std::int32_t> or a Tile<float>");
    return cast<typename Wanted::value_type>(sums);
  }
};

template <class T, class E, class... C>
using GemmKernel = Kernel<GemmFunction<T, E, TypeList<C...>, typename Epilogue<E>::Operands>>;

// One for each type of an epilogue, whatever the calls.
template <class T, class E, class... C> const GemmKernel<T, E, C...> &gemmKernel() {
  return kernelOf<GemmFunction<T, E, TypeList<C...>, typename Epilogue<E>::Operands>>("gemm");
}

// With an axis for the batch in front, if it has none. One matrix for all is found at the same
// place each time.
template <int Rank, class T, int N> Tensor<T, Rank> asBatch(const Tensor<T, N> &tensor) {
  static_assert(N == Rank || N + 1 == Rank,
                "a gemm multiplies matrices, [M, K] and [K, N], or batches of them, [B, M, K] and "
                "[B, K, N]");
  std::array<std::int64_t, Rank> extents{1}, strides{0};
  for (int i = 0; i < N; ++i) {
    const auto axis = static_cast<std::size_t>(Rank - N + i);
    extents[axis] = tensor.extent(i);
    strides[axis] = tensor.stride(i);
  }
  if (extents[0] == 1)
    strides[0] = 0;
  return {tensor.data(), extents, strides, tensor.memory()};
}

// A view that the epilogue is given, as argument `number` of its operands.
struct GemmEpilogueView {
  std::size_t number = 0;
  AnyTensor tensor;
};
// What decides about a launch.
struct GemmCall {
  AnyTensor a, b, c;
  bool hasResult = true;  // c is given
  bool mayPersist = true; // as the epilogue's EpilogueNeeds say
  GemmOptions options = {};
  std::vector<GemmEpilogueView> views = {};
};
// An operand [B, M, K] or [B, K, N] of a launch: the call's, or a copy of it.
struct GemmOperand {
  bool copied = false;
  std::array<std::int64_t, 3> extents{}, strides{};
  Memory memory;

  template <class T> Tensor<T, 3> orElse(const Tensor<T, 3> &given) const {
    return copied ? Tensor<T, 3>(reinterpret_cast<T *>(memory.address()), extents, strides, memory)
                  : given;
  }
};
struct GemmLaunch {
  std::int64_t programs = 0;
  GemmConfig config;
  std::array<std::int64_t, 3> partExtents{}; // of the sums of splits
  Memory parts, arrived;
  GemmOperand a, b;
};
// Throws LaunchError for what does not fit. Calls `launch` for each launch of the call, in order.
void launchGemm(const Stream &stream, const GemmCall &call,
                const std::function<void(const GemmLaunch &)> &launch);
// The code of each launch of the call as `bind` keeps it, once where two launches have the same.
// Throws LaunchError for what does not fit, CompileError for what does not compile.
SECTILE_NEEDS_COMPILER
std::vector<std::string> emitGemm(std::string_view target, std::string_view form,
                                  const GemmCall &call,
                                  const std::function<BoundLaunch(const GemmLaunch &)> &bind);

// What an epilogue needs while the next tile is multiplied. Vectors and numbers leave a thread room
// for its sums; matrices that are read do not. One matrix that is stored, c or the epilogue's own,
// goes through shared memory beside the ring of operands, which has no room for two.
struct EpilogueNeeds {
  int read = 0, stored = 0; // matrices, and pointers, of which anything may be asked
  constexpr EpilogueNeeds operator+(const EpilogueNeeds &other) const {
    return {read + other.read, stored + other.stored};
  }
  constexpr bool mayPersist() const { return read == 0 && stored <= 1; }
};
template <int N, class P> constexpr EpilogueNeeds needsOf{};
template <int N, class T, int R>
constexpr EpilogueNeeds needsOf<N, View<T, R>>{.read = std::is_const_v<T> && R >= N,
                                               .stored = !std::is_const_v<T>};
template <int N, class T> constexpr EpilogueNeeds needsOf<N, Ptr<T>>{.read = 1};
template <int N, class... P> constexpr EpilogueNeeds needsOfAll(TypeList<P...>) {
  return (EpilogueNeeds() + ... + needsOf<N, P>);
}
template <int N, KernelStruct P>
constexpr EpilogueNeeds needsOf<N, P> =
    []<class... Fields>(std::type_identity<std::tuple<Fields...>>) {
      return needsOfAll<N>(TypeList<Fields...>());
    }(std::type_identity<StructTypes<P>>());

template <class T>
constexpr bool isGemmOperand =
    std::same_as<T, half> || std::same_as<T, bfloat16> || std::same_as<T, float> ||
    std::same_as<T, float8_e4m3> || std::same_as<T, float8_e5m2> || std::same_as<T, std::int8_t>;

// A call of gemm(). C: nothing, or the tensor c.
template <class E, class A, class B, int N, class Operands, class... C> class TypedGemm {
  using T = std::remove_const_t<A>;
  using Own = Epilogue<E>;
  static_assert(std::same_as<T, std::remove_const_t<B>>,
                "a and b of a gemm have elements of one type");
  static_assert(isGemmOperand<T>, "a gemm multiplies half, bfloat16, float, float8_e4m3, "
                                  "float8_e5m2 or std::int8_t");
  static constexpr std::size_t given = std::tuple_size_v<Operands>;
  static_assert(given == Own::count || (Own::has_config && given == Own::count + 1),
                "a gemm is given one operand for each parameter of its epilogue after the sums and "
                "the position");

public:
  TypedGemm(const GemmOptions &options, const Tensor<A, N> &a, const Tensor<B, N> &b,
            const Operands &operands, const Tensor<C, N> &...c)
      : a(a), b(b), operands(operands), c(c...) {
    call.options = options;
    call.a = a, call.b = b;
    ((call.c = c), ...);
    call.hasResult = sizeof...(C) == 1;
    call.mayPersist =
        (EpilogueNeeds{.stored = call.hasResult} + needsOfAll<N>(typename Own::Operands{}))
            .mayPersist();
    keepViews(typename Own::Operands{}, std::make_index_sequence<Own::count>{});
  }

  void launch(const Stream &stream) const {
    launchGemm(stream, call, [&](const GemmLaunch &chosen) {
      withArguments(chosen, [&](const auto &kernel, const auto &...arguments) {
        kernel.launch(stream, chosen.programs, arguments..., LaunchOptions{.dependent = true});
      });
    });
  }
  SECTILE_NEEDS_COMPILER
  std::vector<std::string> emit(std::string_view target, std::string_view form) const {
    return emitGemm(target, form, call, [&](const GemmLaunch &chosen) {
      BoundLaunch bound;
      withArguments(chosen, [&](const auto &kernel, const auto &...arguments) {
        bound = kernel.bind(chosen.programs, arguments..., LaunchOptions{.dependent = true});
      });
      return bound;
    });
  }

private:
  // Each field of a struct is an operand of its own.
  template <class... P, std::size_t... I>
  void keepViews(TypeList<P...>, std::index_sequence<I...>) {
    std::size_t number = 0;
    [[maybe_unused]] const auto keep = [&]<class Parameter>(const Argument<Parameter> &argument) {
      std::array<std::uint64_t, wordsOf<Parameter>> words;
      argument.pack(words.data());
      const std::uint64_t *next = words.data();
      for (const ArgSpec &spec : specsOf<Parameter>()) {
        if (spec.kind == ArgKind::view) {
          GemmEpilogueView &kept = call.views.emplace_back(number);
          kept.tensor.dtype = spec.dtype;
          kept.tensor.address = next[0];
          kept.tensor.extents.assign(next + 1, next + 1 + spec.rank);
          kept.tensor.strides.assign(next + 1 + spec.rank, next + 1 + 2 * spec.rank);
          kept.tensor.read_only = spec.readonly;
        }
        next += flattenedCount(spec);
        ++number;
      }
    };
    (keep.template operator()<P>(std::get<I>(operands)), ...);
  }
  // Calls use(kernel, arguments...) with a configuration as the last.
  template <class Use> void withArguments(const GemmLaunch &chosen, const Use &use) const {
    typename Own::KernelConfig config{};
    static_cast<GemmConfig &>(config) = chosen.config;
    if constexpr (given > Own::count)
      static_cast<typename Own::Config &>(config) = std::get<Own::count>(operands);
    const auto &extents = chosen.partExtents;
    const Tensor<GemmSum<T>, 3> parts(reinterpret_cast<GemmSum<T> *>(chosen.parts.address()),
                                      extents, {extents[1] * extents[2], extents[2], 1},
                                      chosen.parts);
    std::apply(
        [&](const Tensor<C, N> &...result) {
          [&]<std::size_t... I>(std::index_sequence<I...>) {
            use(gemmKernel<T, E, View<C, 3>...>(), chosen.a.orElse(asBatch<3>(a)),
                chosen.b.orElse(asBatch<3>(b)), asBatch<3>(result)..., std::get<I>(operands)...,
                parts, Buffer<std::int32_t>(chosen.arrived), config);
          }(std::make_index_sequence<Own::count>{});
        },
        c);
  }

  const Tensor<A, N> &a;
  const Tensor<B, N> &b;
  const Operands &operands;
  std::tuple<const Tensor<C, N> &...> c;
  GemmCall call;
};
template <class E, class A, class B, int N, class Operands, class... C>
TypedGemm<E, A, B, N, Operands, C...> typedGemm(const GemmOptions &options, const Tensor<A, N> &a,
                                                const Tensor<B, N> &b, const Operands &operands,
                                                const Tensor<C, N> &...c) {
  return {options, a, b, operands, c...};
}
template <class E, bool HasResult> constexpr void checkEpilogue() {
  static_assert(!HasResult || !Epilogue<E>::stores,
                "a gemm with a result needs an epilogue that returns it: leave c out where the "
                "epilogue stores");
  static_assert(HasResult || Epilogue<E>::stores,
                "a gemm without a result needs an epilogue that returns nothing");
}

} // namespace detail

// c = epilogue(a b, position, operands...), tile by tile: a is [M, K], b [K, N] and c [M, N], or
// [B, M, K], [B or 1, K, N] and [B, M, N], of any strides. The epilogue is a lambda that captures
// nothing; a kernel's lambda could be written in the same way:
//
//   gemm(stream, a, b, c,
//        [](const Tile<float> &sums, const GemmPosition &at, View<const half, 1> bias) {
//          return maximum(sums + at.per_column(bias), 0);
//        },
//        bias);
//
// What it returns goes to c as by a store. Each further parameter is given an operand after the
// lambda, as a kernel's is by launch(); a configuration comes last. Launches and does not wait.
// Throws LaunchError for what does not fit: among it memory of c, or of a view that is not of const
// elements, that is another argument's too, unless both are the same matrix of c's rank, as of a
// residual. What a Ptr points to is not looked at.
template <class A, class B, class C, int N, class E, class... Operands>
void gemm(const Stream &stream, const GemmOptions &options, const Tensor<A, N> &a,
          const Tensor<B, N> &b, const Tensor<C, N> &c, E, const Operands &...operands) {
  static_assert(!std::is_const_v<C>, "a gemm's result is no Tensor of const elements");
  detail::checkEpilogue<E, true>();
  detail::typedGemm<E>(options, a, b, std::tie(operands...), c).launch(stream);
}
template <class A, class B, class C, int N, class E, class... Operands>
void gemm(const Stream &stream, const Tensor<A, N> &a, const Tensor<B, N> &b, const Tensor<C, N> &c,
          E epilogue, const Operands &...operands) {
  gemm(stream, GemmOptions(), a, b, c, epilogue, operands...);
}

// The same for an epilogue that returns nothing and stores what it makes, as by at.store(view, x).
template <class A, class B, int N, class E, class... Operands>
void gemm(const Stream &stream, const GemmOptions &options, const Tensor<A, N> &a,
          const Tensor<B, N> &b, E, const Operands &...operands) {
  detail::checkEpilogue<E, false>();
  detail::typedGemm<E>(options, a, b, std::tie(operands...)).launch(stream);
}
template <class A, class B, int N, class E, class... Operands>
void gemm(const Stream &stream, const Tensor<A, N> &a, const Tensor<B, N> &b, E epilogue,
          const Operands &...operands) {
  gemm(stream, GemmOptions(), a, b, epilogue, operands...);
}

// The code of a gemm(), as Kernel::emit() gives that of a launch: for a target ("sm_90a") and in a
// form ("tile", "cta", "llvm", "ptx", "cubin", "amdgcn", "hsaco"). The arguments are gemm()'s
// without the stream. Needs no device; addresses may be null. One text for each different kernel
// of the call, in order: copies of operands (`copy_first`), the product, the sums of its `splits`.
// Fields that options.config leaves out are the library's own choice; what the autotuner knows of a
// device is left aside. Throws LaunchError for what does not fit, CompileError for what does not
// compile.
template <class A, class B, class C, int N, class E, class... Operands>
SECTILE_NEEDS_COMPILER std::vector<std::string>
emit_gemm(std::string_view target, std::string_view form, const GemmOptions &options,
          const Tensor<A, N> &a, const Tensor<B, N> &b, const Tensor<C, N> &c, E,
          const Operands &...operands) {
  static_assert(!std::is_const_v<C>, "a gemm's result is no Tensor of const elements");
  detail::checkEpilogue<E, true>();
  return detail::typedGemm<E>(options, a, b, std::tie(operands...), c).emit(target, form);
}
template <class A, class B, class C, int N, class E, class... Operands>
SECTILE_NEEDS_COMPILER std::vector<std::string>
emit_gemm(std::string_view target, std::string_view form, const Tensor<A, N> &a,
          const Tensor<B, N> &b, const Tensor<C, N> &c, E epilogue, const Operands &...operands) {
  return emit_gemm(target, form, GemmOptions(), a, b, c, epilogue, operands...);
}
template <class A, class B, int N, class E, class... Operands>
SECTILE_NEEDS_COMPILER std::vector<std::string>
emit_gemm(std::string_view target, std::string_view form, const GemmOptions &options,
          const Tensor<A, N> &a, const Tensor<B, N> &b, E, const Operands &...operands) {
  detail::checkEpilogue<E, false>();
  return detail::typedGemm<E>(options, a, b, std::tie(operands...)).emit(target, form);
}
template <class A, class B, int N, class E, class... Operands>
SECTILE_NEEDS_COMPILER std::vector<std::string>
emit_gemm(std::string_view target, std::string_view form, const Tensor<A, N> &a,
          const Tensor<B, N> &b, E epilogue, const Operands &...operands) {
  return emit_gemm(target, form, GemmOptions(), a, b, epilogue, operands...);
}

} // namespace sectile
