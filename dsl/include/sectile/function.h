// sc::Function: a function of the kernel, traced once for each set of types and constants that it
// is called with.
#pragma once
#include <sectile/signature.h>
#include <string>
#include <vector>

namespace sectile {

namespace detail {

// What the trace knows a function by.
struct FunctionDesc {
  std::string name;
  std::uint64_t id; // one for each sc::Function; copies share it
  Location where;   // of its definition
  bool stateless;   // the lambda captures nothing
};

// The lambda without its type: makes its parameters of the function's arguments, calls it, and
// leaves the handles of its results in `out`.
struct FunctionBody {
  void *object;
  void (*call)(void *object, const TraceArguments &in, Value *out);
};

std::uint64_t newFunctionId();
void callFunction(const FunctionDesc &function, std::span<const Value *const> arguments,
                  std::span<const std::uint64_t> constants, const FunctionBody &body,
                  std::span<Value> results, Location where);

// How a parameter or a result lies in the flat list of the function's values: `count` of them.
template <class T> struct Passed {
  static constexpr std::size_t count = 0; // a constant
  static void flatten(const T &, const Value **) {}
};
template <class T> struct Passed<Tile<T>> {
  static constexpr std::size_t count = 1;
  static void flatten(const Tile<T> &tile, const Value **to) { *to = &tile.handle(); }
  static Tile<T> make(const Value *from) { return Tile<T>(*from); }
};
template <class T> struct Passed<Ptr<T>> {
  static constexpr std::size_t count = 1;
  static void flatten(const Ptr<T> &ptr, const Value **to) { *to = &ptr.handle(); }
  static Ptr<T> make(const Value *from) { return Ptr<T>(*from); }
};
template <class T, int N> struct Passed<View<T, N>> {
  static constexpr std::size_t count = 1 + 2 * N;
  static void flatten(const View<T, N> &view, const Value **to) {
    const ViewHandle handle = view.handle();
    *to++ = &handle.ptr;
    for (const Value &extent : handle.extents)
      *to++ = &extent;
    for (const Value &stride : handle.strides)
      *to++ = &stride;
  }
  static View<T, N> make(const Value *from) {
    std::array<Int, N> extents;
    std::array<Tile<std::int64_t>, N> strides;
    for (int axis = 0; axis < N; ++axis) {
      extents[axis] = Int(from[1 + axis]);
      strides[axis] = Tile<std::int64_t>(from[1 + N + axis]);
    }
    return View<T, N>(Ptr<T>(from[0]), extents, strides);
  }
};

template <KernelStruct T> struct Passed<T> {
  static constexpr std::size_t count = wordsOf<T>;
  static void flatten(const T &value, const Value **to) {
    Fields<T>::each(value, [&](std::string_view, const auto &field) { flattenNext(field, to); });
  }
  static T make(const Value *from) {
    return makeStruct<T>([&]<class Field>(std::type_identity<Field>) {
      return Passed<Field>::make(std::exchange(from, from + Passed<Field>::count));
    });
  }

private:
  template <class Field> static void flattenNext(const Field &field, const Value **&to) {
    Passed<Field>::flatten(field, to);
    to += Passed<Field>::count;
  }
};

// What a lambda returns: nothing, one traced value or a std::tuple of them.
template <class R> struct Results {
  static_assert(isTraced<R>, "a function of a kernel returns nothing, a Tile, a Ptr, a "
                             "View, a struct of these, or a "
                             "std::tuple of such");
  static constexpr std::size_t count = Passed<R>::count;
  static void flatten(const R &result, const Value **to) { Passed<R>::flatten(result, to); }
  static R make(const Value *from) { return Passed<R>::make(from); }
};
template <> struct Results<void> {
  static constexpr std::size_t count = 0;
};
template <class... R> struct Results<std::tuple<R...>> {
  static_assert((isTraced<R> && ...), "a function of a kernel returns traced values: "
                                      "the elements of the std::tuple are Tile, Ptr, "
                                      "View or structs of these");
  static constexpr std::size_t count = (0 + ... + Passed<R>::count);
  static void flatten(const std::tuple<R...> &results, const Value **to) {
    std::apply(
        [&](const R &...result) {
          ((Passed<R>::flatten(result, to), to += Passed<R>::count), ...);
        },
        results);
  }
  static std::tuple<R...> make(const Value *from) {
    // Braces, since the order of evaluation is that of the list.
    return std::tuple<R...>{Passed<R>::make(std::exchange(from, from + Passed<R>::count))...};
  }
};

// A constant as words: equal constants and no others give equal words.
template <class T> void addConstant(const T &value, std::vector<std::uint64_t> &words) {
  if constexpr (KernelConfig<T>) {
    words.resize(words.size() + configWords<T>);
    packConfig(value, words.data() + words.size() - configWords<T>);
  } else if constexpr (!isTraced<T>) {
    static_assert(
        (std::is_arithmetic_v<T> || std::is_enum_v<T>) && sizeof(T) <= 8,
        "a parameter of a function of a kernel is a Tile, a Ptr, a View, a struct of "
        "these, or a constant: a number, a bool, an enumeration or a plain struct of such");
    words.push_back(0);
    std::memcpy(&words.back(), &value, sizeof value);
  }
}

template <class M> struct FunctionCall {
  static_assert(always_false<M>,
                "the lambda of a function of a kernel is not mutable: it keeps nothing between "
                "calls");
};
template <class R, class C, class... P> class FunctionCall<R (C::*)(P...) const> {
public:
  FunctionCall(std::string_view name, C lambda, Location where)
      : desc_{std::string(name), newFunctionId(), where, std::is_empty_v<C>},
        lambda_(std::move(lambda)) {}

  R operator()(const std::remove_cvref_t<P> &...argument,
               Location where = Location::current()) const {
    return call(std::index_sequence_for<P...>{}, where, argument...);
  }

private:
  template <std::size_t I>
  using Parameter_ = std::remove_cvref_t<std::tuple_element_t<I, std::tuple<P...>>>;
  static constexpr std::array<std::size_t, sizeof...(P) + 1> first = [] {
    std::array<std::size_t, sizeof...(P) + 1> result{};
    std::size_t i = 0;
    ((result[i + 1] = result[i] + Passed<std::remove_cvref_t<P>>::count, ++i), ...);
    return result;
  }();

  // A parameter as the body sees it: made of the function's arguments, or the constant itself.
  template <class T>
  static decltype(auto) parameter(const T &argument, const TraceArguments &in, std::size_t at) {
    if constexpr (isTraced<T>)
      return Parameter<T>::make(in, at);
    else
      return (argument);
  }

  template <std::size_t... I>
  R call(std::index_sequence<I...>, Location where,
         const std::remove_cvref_t<P> &...argument) const {
    std::array<const Value *, first.back()> arguments;
    (Passed<Parameter_<I>>::flatten(argument, arguments.data() + first[I]), ...);
    std::vector<std::uint64_t> constants;
    (addConstant(argument, constants), ...);
    auto body = [&](const TraceArguments &in, Value *out) {
      if constexpr (std::is_void_v<R>) {
        lambda_(parameter(argument, in, first[I])...);
      } else {
        const R result = lambda_(parameter(argument, in, first[I])...);
        std::array<const Value *, Results<R>::count> values;
        Results<R>::flatten(result, values.data());
        for (const Value *value : values)
          *out++ = *value;
      }
    };
    std::array<Value, Results<R>::count> results;
    callFunction(desc_, arguments, constants,
                 {&body, [](void *object, const TraceArguments &in,
                            Value *out) { (*static_cast<decltype(body) *>(object))(in, out); }},
                 results, where);
    if constexpr (!std::is_void_v<R>)
      return Results<R>::make(results.data());
  }

  FunctionDesc desc_;
  C lambda_;
};
template <class R, class C, class... P>
class FunctionCall<R (C::*)(P...) const noexcept> : public FunctionCall<R (C::*)(P...) const> {
  using FunctionCall<R (C::*)(P...) const>::FunctionCall;
};

template <class F> constexpr auto callOf() {
  if constexpr (requires { &F::operator(); })
    return TypeBox<FunctionCall<decltype(&F::operator())>>{};
  else
    static_assert(always_false<F>,
                  "a function of a kernel is a lambda with typed parameters, not a generic one");
}

} // namespace detail

// sc::Function silu{"silu", [](sc::Tile<float> x) { return x * sc::sigmoid(x); }};
// y = silu(x);
//
// The first call with parameters of given types and shapes, and given constants, traces the lambda;
// later ones call what it became. The lambda sees its parameters only, not the kernel's values.
template <class F> class Function : public decltype(detail::callOf<F>())::type {
public:
  Function(std::string_view name, F lambda, detail::Location where = detail::Location::current())
      : decltype(detail::callOf<F>())::type(name, std::move(lambda), where) {}
};

} // namespace sectile
