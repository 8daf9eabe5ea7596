// Ways out of the language: the chip's assembly, and functions of LLVM bitcode libraries.
#pragma once
#include <sectile/map.h>
#include <string>
#include <string_view>
#include <tuple>

namespace sectile {

struct AsmOptions {
  int pack = 1;     // how many elements of every operand one run of the text takes
  bool pure = true; // no effects beside its results: it may be moved, repeated and left out
};
struct ExternOptions {
  bool pure = true; // no effects beside its result
};

namespace detail {
// A text and the line it was written in.
struct Text {
  Text(const char *text, Location where = Location::current()) : text(text), where(where) {}
  Text(const std::string &text, Location where = Location::current()) : text(text), where(where) {}
  std::string_view text;
  Location where;
};

void inlineAsm(const Text &text, std::string_view constraints, AsmOptions options,
               std::span<const Value *const> operands, std::span<const Kind> kinds,
               std::span<Value> results, const Mapping *meaning = nullptr);
Value externCall(const Text &symbol, std::string_view library, ExternOptions options,
                 std::span<const Value *const> operands, Kind result);

// What stands before the operands and is no operand.
template <class F>
concept Meaning =
    !std::same_as<F, AsmOptions> && !requires(const F &f) { []<class T>(const Tile<T> &) {}(f); };

template <class... R, class... A>
auto assembly(const Text &text, std::string_view constraints, AsmOptions options,
              const Mapping *meaning, const Tile<A> &...operands) {
  const Value *values[sizeof...(A) + 1] = {&operands.handle()...};
  const Kind kinds[sizeof...(R) + 1] = {kindOf<R>()...};
  Value results[sizeof...(R) + 1];
  inlineAsm(text, constraints, options, {values, sizeof...(A)}, {kinds, sizeof...(R)},
            {results, sizeof...(R)}, meaning);
  if constexpr (sizeof...(R) == 1)
    return Tile<R...>(results[0]);
  else if constexpr (sizeof...(R) > 1)
    return [&]<std::size_t... I>(std::index_sequence<I...>) {
      return std::tuple<Tile<R>...>(Tile<R>(results[I])...);
    }(std::index_sequence_for<R...>());
}
} // namespace detail

// inline_asm<R...>(text, constraints, {.pack, .pure}, operands...): the text runs for every element
// of the operands, which broadcast, or for `pack` of them at once. Constraints are LLVM's, results
// first: "=r,r,r". $0, $1, … in the text are the registers, results first; elements below 32 bits
// share registers of 32 bits, the first in the lowest bits. Gives a tile, or a std::tuple of tiles,
// of the element types R.
template <class... R, class... A>
auto inline_asm(detail::Text text, std::string_view constraints, AsmOptions options,
                const Tile<A> &...operands) {
  return detail::assembly<R...>(text, constraints, options, nullptr, operands...);
}
template <class... R, class... A>
auto inline_asm(detail::Text text, std::string_view constraints, const Tile<A> &...operands) {
  return detail::assembly<R...>(text, constraints, AsmOptions{}, nullptr, operands...);
}

// inline_asm<R...>(text, constraints, {.pack, .pure}, meaning, operands...): meaning(x, …) computes
// for one number of each operand what the text does, as the function of sc::map. It runs where the
// text cannot: on the interpreter, the virtual GPU and the other vendor's chips.
template <class... R, detail::Meaning F, class... A>
auto inline_asm(detail::Text text, std::string_view constraints, AsmOptions options, F meaning,
                const Tile<A> &...operands) {
  static_assert(sizeof...(R) > 0, "the meaning of sc::inline_asm says what its results are, and "
                                  "this text has none");
  static_assert(std::is_invocable_v<F &, Tile<A>...>,
                "the meaning of sc::inline_asm stands before the operands and takes one number of "
                "each one's element type, as in [](sc::Float x) { return x * x; }");
  using Returned = std::remove_cvref_t<std::invoke_result_t<F &, Tile<A>...>>;
  static_assert(std::same_as<std::tuple<Returned>, std::tuple<Tile<R>...>> ||
                    std::same_as<Returned, std::tuple<Tile<R>...>>,
                "the meaning of sc::inline_asm returns a number of the result's type, or a "
                "std::tuple of one for each result");
  const detail::Mapping mapping = detail::mappingOf<Tile<A>...>(meaning);
  return detail::assembly<R...>(text, constraints, options, &mapping, operands...);
}
template <class... R, detail::Meaning F, class... A>
auto inline_asm(detail::Text text, std::string_view constraints, F meaning,
                const Tile<A> &...operands) {
  return inline_asm<R...>(text, constraints, AsmOptions{}, meaning, operands...);
}

// extern_call<R>(symbol, library, {.pure}, operands...): a function of numbers from a file of LLVM
// bitcode, for each element of the operands, which broadcast. It becomes part of the kernel.
template <class R, class... A>
Tile<R> extern_call(detail::Text symbol, std::string_view library, ExternOptions options,
                    const Tile<A> &...operands) {
  static_assert(sizeof...(A) > 0, "sc::extern_call takes a tile at least");
  const detail::Value *values[] = {&operands.handle()...};
  return Tile<R>(detail::externCall(symbol, library, options, values, detail::kindOf<R>()));
}
template <class R, class... A>
Tile<R> extern_call(detail::Text symbol, std::string_view library, const Tile<A> &...operands) {
  return extern_call<R>(symbol, library, ExternOptions{}, operands...);
}

} // namespace sectile
