// Takes a kernel's lambda apart into its typed parameters, and describes it without its type, so
// that the library can trace it. Kernel is made of this.
#pragma once
#include <array>
#include <optional>
#include <sectile/config.h>
#include <sectile/struct.h>
#include <string_view>
#include <tuple>

namespace sectile::detail {

enum class ArgKind : std::uint8_t { pointer, view, scalar, index };

// One argument of a kernel: a parameter, or a field of a parameter that is a struct.
struct ArgSpec {
  ArgKind kind = ArgKind::scalar;
  DType dtype = DType::boolean; // int64 for index
  std::uint8_t rank = 0;        // of a view
  bool readonly = false;        // Ptr<const T>, View<const T, N>
  bool varying = false;         // Varying<T>

  friend bool operator==(const ArgSpec &, const ArgSpec &) = default;
};

// How many arguments of the compiled function an argument becomes, in this order: the address; the
// value; of a view the address, the extents, the strides (in elements). All of them are passed,
// whatever they are specialised to. An index, an extent or a stride is passed as i32 where its
// specialisation says `is32bit`, else as i64; a bool as i8.
constexpr int flattenedCount(const ArgSpec &spec) {
  return spec.kind == ArgKind::view ? 1 + 2 * spec.rank : 1;
}

// What the compiled function may assume of one flattened argument.
struct ArgSpecialization {
  int divisor = 1;        // the address in bytes, the integer: a multiple of this, 1, 8 or 16
  bool is32bit = true;    // of index, extent, stride: fits_index32(value)
  std::int64_t below = 0; // of index, stride: from 0 to less than this; 0: not known
  std::optional<std::int64_t> value = std::nullopt; // of integers: known to be this (1, as a rule)
  bool distinct = false; // of a view's address: its elements all have different addresses

  friend bool operator==(const ArgSpecialization &, const ArgSpecialization &) = default;
};

// Int has 32 bits only where every index of the launch is small enough that sums and products
// around it (n + block, program_id * block) stay in 32 bits.
constexpr bool fits_index32(std::int64_t value) {
  return value >= -(std::int64_t{1} << 30) && value <= (std::int64_t{1} << 30);
}

// The flattened arguments of the kernel that is being traced.
class TraceArguments {
public:
  TraceArguments(Trace &trace, void *const *values) : trace_(trace), values_(values) {}
  Value at(std::size_t index) const;

private:
  Trace &trace_;
  void *const *values_;
};

struct KernelDesc {
  std::string_view name;
  std::span<const ArgSpec> args;
  // Calls the lambda at `function` with the arguments and the configuration (null if it has none).
  // Null in a sealed program.
  void (*body)(const void *function, const TraceArguments &arguments, const void *config);
  const void *function;
  Location where = Location::current(); // of the kernel's definition
  bool stateless = false;               // the lambda captures nothing
};

// One parameter: its specification, and how it is made of flattened arguments. A class that is none
// of the types below is the configuration. specsOf has the specification of structs.
struct NoConfig {};
template <class T> struct Parameter {
  static_assert(std::is_class_v<T>,
                "a kernel's parameter is a Ptr, a View, an Int, a Tile<T> (one number), a struct "
                "of these or, at the end, a configuration struct");
  static constexpr bool is_config = true;
};
template <class T> struct Parameter<Ptr<T>> {
  static constexpr bool is_config = false;
  static constexpr ArgSpec spec{ArgKind::pointer, dtype_of<T>, 0, std::is_const_v<T>};
  static Ptr<T> make(const TraceArguments &arguments, std::size_t first) {
    return Ptr<T>(arguments.at(first));
  }
};
template <class T> struct Parameter<Tile<T>> {
  static constexpr bool is_config = false;
  static constexpr ArgSpec spec{ArgKind::scalar, dtype_of<T>, 0, true};
  static Tile<T> make(const TraceArguments &arguments, std::size_t first) {
    return Tile<T>(arguments.at(first));
  }
};
template <> struct Parameter<Int> {
  static constexpr bool is_config = false;
  static constexpr ArgSpec spec{ArgKind::index, DType::int64, 0, true};
  static Int make(const TraceArguments &arguments, std::size_t first) {
    return Int(arguments.at(first));
  }
};
template <class T, int N> struct Parameter<View<T, N>> {
  static constexpr bool is_config = false;
  static constexpr ArgSpec spec{ArgKind::view, dtype_of<T>, N, std::is_const_v<T>};
  static View<T, N> make(const TraceArguments &arguments, std::size_t first) {
    View<T, N> view;
    view.ptr_ = arguments.at(first);
    for (Value &extent : view.extents_)
      extent = arguments.at(++first);
    for (Value &stride : view.strides_)
      stride = arguments.at(++first);
    return view;
  }
};

template <class T> struct Parameter<Varying<T>> {
  static constexpr bool is_config = false;
  static constexpr ArgSpec spec = [] {
    ArgSpec spec = Parameter<T>::spec;
    spec.varying = true;
    return spec;
  }();
  static Varying<T> make(const TraceArguments &arguments, std::size_t first) {
    return Varying<T>(Parameter<T>::make(arguments, first));
  }
};

template <std::size_t... N> constexpr auto joined(const std::array<ArgSpec, N> &...parts) {
  std::array<ArgSpec, (0 + ... + N)> all{};
  [[maybe_unused]] auto to = all.begin();
  [[maybe_unused]] const auto append = [&](const auto &part) {
    for (const ArgSpec &spec : part)
      *to++ = spec;
  };
  (append(parts), ...);
  return all;
}
// Of what a parameter is given: of a struct's fields one after the other.
template <class P> constexpr auto specsOf() {
  if constexpr (KernelStruct<P>)
    return []<class... Fields>(std::type_identity<std::tuple<Fields...>>) {
      return joined(specsOf<Fields>()...);
    }(std::type_identity<StructTypes<P>>());
  else
    return std::array{Parameter<P>::spec};
}
// How many flattened arguments a parameter has.
template <class P>
inline constexpr std::size_t wordsOf = [] {
  std::size_t words = 0;
  for (const ArgSpec &spec : specsOf<P>())
    words += static_cast<std::size_t>(flattenedCount(spec));
  return words;
}();

template <KernelStruct T> struct Parameter<T> {
  static constexpr bool is_config = false;
  static T make(const TraceArguments &arguments, std::size_t first) {
    return makeStruct<T>([&]<class Field>(std::type_identity<Field>) {
      return Parameter<Field>::make(arguments, std::exchange(first, first + wordsOf<Field>));
    });
  }
};

template <class... P> struct ParameterList {
  using Types = std::tuple<P...>;
  static constexpr std::size_t count = sizeof...(P);
  static constexpr bool has_config = [] {
    if constexpr (count == 0)
      return false;
    else
      return Parameter<std::tuple_element_t<count - 1, Types>>::is_config;
  }();
  static constexpr std::size_t args_count = count - (has_config ? 1 : 0);
  static_assert((0 + ... + (Parameter<P>::is_config ? 1 : 0)) == (has_config ? 1 : 0),
                "a kernel's configuration is one struct, and its last parameter; the others are "
                "Ptr, View, Int, Tile<T> and plain structs of these");
  template <std::size_t I> using Type = std::tuple_element_t<I, Types>;

  static constexpr auto configType() {
    if constexpr (has_config)
      return TypeBox<Type<count - 1>>{};
    else
      return TypeBox<NoConfig>{};
  }
};

template <class M> struct CallOperator {
  static_assert(always_false<M>,
                "a kernel's lambda is not mutable: it keeps nothing between calls");
};
template <class R, class C, class... P> struct CallOperator<R (C::*)(P...) const> {
  static_assert(std::is_void_v<R>, "a kernel returns nothing: store its results");
  using List = ParameterList<std::remove_cvref_t<P>...>;
};
template <class R, class C, class... P>
struct CallOperator<R (C::*)(P...) const noexcept> : CallOperator<R (C::*)(P...) const> {};

template <class F> constexpr auto parametersOf() {
  if constexpr (requires { &F::operator(); })
    return TypeBox<typename CallOperator<decltype(&F::operator())>::List>{};
  else
    static_assert(always_false<F>, "a kernel is a lambda with typed parameters, not a generic one");
}

template <class F> struct Signature {
  using List = typename decltype(parametersOf<F>())::type;
  using Config = typename decltype(List::configType())::type; // NoConfig where there is none
  static constexpr bool has_config = List::has_config;
  static constexpr std::size_t args_count = List::args_count;
  template <std::size_t I> using Arg = typename List::template Type<I>;

  // Of all arguments: a struct's fields count one by one.
  static constexpr auto args = []<std::size_t... I>(std::index_sequence<I...>) {
    return joined(specsOf<Arg<I>>()...);
  }(std::make_index_sequence<args_count>{});

  // Where each parameter's first flattened argument is, and how many there are.
  static constexpr std::array<std::size_t, args_count + 1> first =
      []<std::size_t... I>(std::index_sequence<I...>) {
        std::array<std::size_t, args_count + 1> result{};
        ((result[I + 1] = result[I] + wordsOf<Arg<I>>), ...);
        return result;
      }(std::make_index_sequence<args_count>{});

  static void body(const void *function, const TraceArguments &arguments, const void *config) {
    const F &lambda = *static_cast<const F *>(function);
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      if constexpr (has_config)
        lambda(Parameter<Arg<I>>::make(arguments, first[I])...,
               *static_cast<const Config *>(config));
      else
        lambda(Parameter<Arg<I>>::make(arguments, first[I])...);
    }(std::make_index_sequence<args_count>{});
  }

  static KernelDesc describe(std::string_view name, const F &function,
                             Location where = Location::current()) {
#ifdef SECTILE_SEALED
    // Without its address, no code is made of the lambda, and the program needs no language.
    return {name, args, nullptr, &function, where, std::is_empty_v<F>};
#else
    return {name, args, &Signature::body, &function, where, std::is_empty_v<F>};
#endif
  }
};

} // namespace sectile::detail
