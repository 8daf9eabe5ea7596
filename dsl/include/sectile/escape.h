// Ways out of the language: the chip's assembly, and functions of LLVM bitcode libraries.
#pragma once
#include <sectile/tile.h>
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
               std::span<Value> results);
Value externCall(const Text &symbol, std::string_view library, ExternOptions options,
                 std::span<const Value *const> operands, Kind result);
} // namespace detail

// inline_asm<R...>(text, constraints, {.pack, .pure}, operands...): the text runs for every element
// of the operands, which broadcast, or for `pack` of them at once. Constraints are LLVM's, results
// first: "=r,r,r". $0, $1, … in the text are the registers, results first; elements below 32 bits
// share registers of 32 bits, the first in the lowest bits. Gives a tile, or a std::tuple of tiles,
// of the element types R.
template <class... R, class... A>
auto inline_asm(detail::Text text, std::string_view constraints, AsmOptions options,
                const Tile<A> &...operands) {
  const detail::Value *values[sizeof...(A) + 1] = {&operands.handle()...};
  const detail::Kind kinds[sizeof...(R) + 1] = {detail::kindOf<R>()...};
  detail::Value results[sizeof...(R) + 1];
  detail::inlineAsm(text, constraints, options, {values, sizeof...(A)}, {kinds, sizeof...(R)},
                    {results, sizeof...(R)});
  if constexpr (sizeof...(R) == 1)
    return Tile<R...>(results[0]);
  else if constexpr (sizeof...(R) > 1)
    return [&]<std::size_t... I>(std::index_sequence<I...>) {
      return std::tuple<Tile<R>...>(Tile<R>(results[I])...);
    }(std::index_sequence_for<R...>());
}
template <class... R, class... A>
auto inline_asm(detail::Text text, std::string_view constraints, const Tile<A> &...operands) {
  return inline_asm<R...>(text, constraints, AsmOptions{}, operands...);
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
