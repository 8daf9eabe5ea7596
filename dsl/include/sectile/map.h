// map: a function of single numbers, with branches and loops of its own for each element.
#pragma once
#include <sectile/control.h>
#include <sectile/math.h>
#include <tuple>

namespace sectile {

namespace detail {
// A function without its type: one number per tile in, one per result out.
struct Mapping {
  void *object;
  void (*call)(void *object, const Value *in, Value *out);
};
void map(std::span<const Value *const> sources, std::span<Value> results, const Mapping &function,
         Location where);

template <class R> struct Mapped {
  static_assert(always_false<R>, "the function of sc::map returns a number of the kernel, or a "
                                 "std::tuple of them, as in [](sc::Float x) { return x * x; }");
};
template <class T> struct Mapped<Tile<T>> {
  static constexpr std::size_t count = 1;
  static void spread(const Tile<T> &result, Value *out) { *out = result.handle(); }
  static Tile<T> gather(const Value *in) { return Tile<T>(*in); }
};
template <class... T> struct Mapped<std::tuple<Tile<T>...>> {
  static constexpr std::size_t count = sizeof...(T);
  static void spread(const std::tuple<Tile<T>...> &result, Value *out) {
    std::apply([&](const auto &...tile) { ((*out++ = tile.handle()), ...); }, result);
  }
  static std::tuple<Tile<T>...> gather(const Value *in) {
    return [&]<std::size_t... I>(std::index_sequence<I...>) {
      return std::tuple<Tile<T>...>(Tile<T>(in[I])...);
    }(std::index_sequence_for<T...>());
  }
};

template <class... T, class F> Mapping mappingOf(F &f) {
  using Shape = Mapped<std::remove_cvref_t<std::invoke_result_t<F &, T...>>>;
  return {&f, [](void *object, [[maybe_unused]] const Value *in, Value *out) {
            [&]<std::size_t... I>(std::index_sequence<I...>) {
              Shape::spread((*static_cast<F *>(object))(T(in[I])...), out);
            }(std::index_sequence_for<T...>());
          }};
}

template <class F, class... T> auto mapTiles(F &f, Location where, const Tile<T> &...tiles) {
  static_assert(std::is_invocable_v<F &, Tile<T>...>,
                "the function of sc::map takes one number of each tile's element type");
  using Shape = Mapped<std::remove_cvref_t<std::invoke_result_t<F &, Tile<T>...>>>;
  const Value *sources[] = {&tiles.handle()...};
  Value results[Shape::count];
  map(sources, results, mappingOf<Tile<T>...>(f), where);
  return Shape::gather(results);
}
} // namespace detail

// f(x, y, …) of each element of the tiles, which broadcast: f takes one number per tile and returns
// one, or a std::tuple of them. Unlike arithmetic on tiles it may use when, loop_while and range,
// each element on its own way; it may read the kernel's numbers, but no tiles, and no memory.
template <class F, class A>
auto map(F f, const Tile<A> &a, detail::Location where = detail::Location::current()) {
  return detail::mapTiles(f, where, a);
}
template <class F, class A, class B>
auto map(F f, const Tile<A> &a, const Tile<B> &b,
         detail::Location where = detail::Location::current()) {
  return detail::mapTiles(f, where, a, b);
}
template <class F, class A, class B, class C>
auto map(F f, const Tile<A> &a, const Tile<B> &b, const Tile<C> &c,
         detail::Location where = detail::Location::current()) {
  return detail::mapTiles(f, where, a, b, c);
}
template <class F, class A, class B, class C, class D>
auto map(F f, const Tile<A> &a, const Tile<B> &b, const Tile<C> &c, const Tile<D> &d,
         detail::Location where = detail::Location::current()) {
  return detail::mapTiles(f, where, a, b, c, d);
}

} // namespace sectile
