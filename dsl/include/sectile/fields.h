// The fields of a plain struct, found without being named: what configurations, structs of traced
// values and typed functions' options and outputs have in common.
#pragma once
#include <array>
#include <concepts>
#include <cstddef>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

namespace sectile::detail {

// Converts to whatever a field is, in the question of how many fields an aggregate has.
struct AnyField {
  template <class T> operator T() const;
};
// To a base alone.
template <class Struct> struct AnyBase {
  template <class Base>
    requires(std::is_base_of_v<Base, Struct> && !std::same_as<Base, Struct>)
  operator Base() const;
};

constexpr std::size_t mostFields = 50; // of a struct

template <class Struct, class First, std::size_t... I>
constexpr bool takesFields(std::index_sequence<I...>) {
  return requires { Struct{First(), (static_cast<void>(I), AnyField())...}; };
}
// In parentheses elements of an array are no fields of the struct.
template <class Struct, std::size_t... I> constexpr bool isFlat(std::index_sequence<I...>) {
  return sizeof...(I) < 2 || requires { Struct((static_cast<void>(I), AnyField())...); };
}
// Fewer than all fields are enough only where the others have defaults.
template <class Struct, std::size_t from = 1, bool found = false>
consteval std::size_t countFields() {
  constexpr bool fits = takesFields<Struct, AnyField>(std::make_index_sequence<from - 1>());
  if constexpr (from > mostFields + 1)
    return 0;
  else if constexpr (found && !fits)
    return from - 1;
  else
    return countFields<Struct, from + 1, fits>();
}

// How many fields a struct has that has nothing else: neither bases nor arrays. 0 of all others.
template <class Struct> consteval std::size_t fieldCount() {
  if constexpr (std::is_class_v<Struct> && std::is_aggregate_v<Struct> &&
                !std::is_empty_v<Struct> && !requires { std::tuple_size<Struct>::value; }) {
    constexpr std::size_t count = countFields<Struct>();
    if constexpr (count > 0)
      if constexpr (isFlat<Struct>(std::make_index_sequence<count>()) &&
                    !takesFields<Struct, AnyBase<Struct>>(std::make_index_sequence<count - 1>()))
        return count;
  }
  return 0;
}

// Calls call(field...) with that many fields of a struct, which are all.
template <std::size_t count, class Struct, class Call>
constexpr decltype(auto) withFields([[maybe_unused]] Struct &value, Call &&call) {
  if constexpr (count == 0)
    return call();
#define SECTILE_DETAIL_BIND(number, ...)                                                           \
  else if constexpr (count == number) {                                                            \
    auto &[__VA_ARGS__] = value;                                                                   \
    return call(__VA_ARGS__);                                                                      \
  }
  // clang-format off
  SECTILE_DETAIL_BIND(1, a)
  SECTILE_DETAIL_BIND(2, a, b)
  SECTILE_DETAIL_BIND(3, a, b, c)
  SECTILE_DETAIL_BIND(4, a, b, c, d)
  SECTILE_DETAIL_BIND(5, a, b, c, d, e)
  SECTILE_DETAIL_BIND(6, a, b, c, d, e, f)
  SECTILE_DETAIL_BIND(7, a, b, c, d, e, f, g)
  SECTILE_DETAIL_BIND(8, a, b, c, d, e, f, g, h)
  SECTILE_DETAIL_BIND(9, a, b, c, d, e, f, g, h, i)
  SECTILE_DETAIL_BIND(10, a, b, c, d, e, f, g, h, i, j)
  SECTILE_DETAIL_BIND(11, a, b, c, d, e, f, g, h, i, j, k)
  SECTILE_DETAIL_BIND(12, a, b, c, d, e, f, g, h, i, j, k, l)
  SECTILE_DETAIL_BIND(13, a, b, c, d, e, f, g, h, i, j, k, l, m)
  SECTILE_DETAIL_BIND(14, a, b, c, d, e, f, g, h, i, j, k, l, m, n)
  SECTILE_DETAIL_BIND(15, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o)
  SECTILE_DETAIL_BIND(16, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p)
  SECTILE_DETAIL_BIND(17, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q)
  SECTILE_DETAIL_BIND(18, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r)
  SECTILE_DETAIL_BIND(19, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s)
  SECTILE_DETAIL_BIND(20, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t)
  SECTILE_DETAIL_BIND(21, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u)
  SECTILE_DETAIL_BIND(22, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v)
  SECTILE_DETAIL_BIND(23, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v, w)
  SECTILE_DETAIL_BIND(24, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v, w, x)
  SECTILE_DETAIL_BIND(25, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v, w, x,
                      y)
  SECTILE_DETAIL_BIND(26, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v, w, x,
                      y, z)
  SECTILE_DETAIL_BIND(27, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v, w, x,
                      y, z, A)
  SECTILE_DETAIL_BIND(28, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v, w, x,
                      y, z, A, B)
  SECTILE_DETAIL_BIND(29, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v, w, x,
                      y, z, A, B, C)
  SECTILE_DETAIL_BIND(30, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v, w, x,
                      y, z, A, B, C, D)
  SECTILE_DETAIL_BIND(31, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v, w, x,
                      y, z, A, B, C, D, E)
  SECTILE_DETAIL_BIND(32, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v, w, x,
                      y, z, A, B, C, D, E, F)
  SECTILE_DETAIL_BIND(33, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v, w, x,
                      y, z, A, B, C, D, E, F, G)
  SECTILE_DETAIL_BIND(34, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v, w, x,
                      y, z, A, B, C, D, E, F, G, H)
  SECTILE_DETAIL_BIND(35, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v, w, x,
                      y, z, A, B, C, D, E, F, G, H, I)
  SECTILE_DETAIL_BIND(36, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v, w, x,
                      y, z, A, B, C, D, E, F, G, H, I, J)
  SECTILE_DETAIL_BIND(37, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v, w, x,
                      y, z, A, B, C, D, E, F, G, H, I, J, K)
  SECTILE_DETAIL_BIND(38, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v, w, x,
                      y, z, A, B, C, D, E, F, G, H, I, J, K, L)
  SECTILE_DETAIL_BIND(39, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v, w, x,
                      y, z, A, B, C, D, E, F, G, H, I, J, K, L, M)
  SECTILE_DETAIL_BIND(40, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v, w, x,
                      y, z, A, B, C, D, E, F, G, H, I, J, K, L, M, N)
  SECTILE_DETAIL_BIND(41, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v, w, x,
                      y, z, A, B, C, D, E, F, G, H, I, J, K, L, M, N, O)
  SECTILE_DETAIL_BIND(42, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v, w, x,
                      y, z, A, B, C, D, E, F, G, H, I, J, K, L, M, N, O, P)
  SECTILE_DETAIL_BIND(43, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v, w, x,
                      y, z, A, B, C, D, E, F, G, H, I, J, K, L, M, N, O, P, Q)
  SECTILE_DETAIL_BIND(44, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v, w, x,
                      y, z, A, B, C, D, E, F, G, H, I, J, K, L, M, N, O, P, Q, R)
  SECTILE_DETAIL_BIND(45, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v, w, x,
                      y, z, A, B, C, D, E, F, G, H, I, J, K, L, M, N, O, P, Q, R, S)
  SECTILE_DETAIL_BIND(46, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v, w, x,
                      y, z, A, B, C, D, E, F, G, H, I, J, K, L, M, N, O, P, Q, R, S, T)
  SECTILE_DETAIL_BIND(47, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v, w, x,
                      y, z, A, B, C, D, E, F, G, H, I, J, K, L, M, N, O, P, Q, R, S, T, U)
  SECTILE_DETAIL_BIND(48, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v, w, x,
                      y, z, A, B, C, D, E, F, G, H, I, J, K, L, M, N, O, P, Q, R, S, T, U, V)
  SECTILE_DETAIL_BIND(49, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v, w, x,
                      y, z, A, B, C, D, E, F, G, H, I, J, K, L, M, N, O, P, Q, R, S, T, U, V, W)
  SECTILE_DETAIL_BIND(50, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v, w, x,
                      y, z, A, B, C, D, E, F, G, H, I, J, K, L, M, N, O, P, Q, R, S, T, U, V, W, X)
  // clang-format on
#undef SECTILE_DETAIL_BIND
}

// An object that exists nowhere: where its fields would be says what they are called.
template <class Struct> struct Nowhere {
  Struct value;
};
#ifdef __clang__
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wundefined-var-template"
#pragma clang diagnostic ignored "-Wundefined-internal"
#endif
template <class Struct> extern Nowhere<Struct> nowhere;

template <std::size_t place, class Value> struct PlaceOfField {
  Value *at;
};
template <class Indices, class... Values> struct PlacesOfFields;
template <std::size_t... I, class... Values>
struct PlacesOfFields<std::index_sequence<I...>, Values...> : PlaceOfField<I, Values>... {};

template <class Struct> consteval auto placesOfFields() {
  return withFields<fieldCount<Struct>()>(
      nowhere<Struct>.value, []<class... Values>(Values &...field) {
        return PlacesOfFields<std::index_sequence_for<Values...>, Values...>{{&field}...};
      });
}
#ifdef __clang__
#pragma clang diagnostic pop
#endif

// The compiler ends its text for a field of `nowhere` with ".field}]" or "::field)}; ...]".
template <class Value> struct FieldPlace {
  Value *at;
};
template <FieldPlace place> consteval std::string_view nameOfPlace() {
  std::string_view text = __PRETTY_FUNCTION__;
#ifdef __clang__
  text = text.substr(0, text.rfind('}'));
#else
  text = text.substr(0, text.rfind(")}"));
#endif
  return text.substr(text.find_last_of(".:") + 1);
}

template <class Struct, class Places> struct FieldsAt;
template <class Struct, std::size_t... I, class... Values>
struct FieldsAt<Struct, PlacesOfFields<std::index_sequence<I...>, Values...>> {
  static constexpr std::size_t count = sizeof...(Values);
  using Types = std::tuple<Values...>;
  static constexpr std::array<std::string_view, count> names = {nameOfPlace<FieldPlace<Values>{
      static_cast<const PlaceOfField<I, Values> &>(placesOfFields<Struct>()).at}>()...};

  // To{make(std::type_identity<type>(), name)...}
  template <class To, class Make> static To build([[maybe_unused]] Make &&make) {
    return To{make(std::type_identity<Values>(), names[I])...};
  }
  // call(std::type_identity<type>(), name) for each
  template <class Call> static constexpr void eachType([[maybe_unused]] Call &&call) {
    (call(std::type_identity<Values>(), names[I]), ...);
  }
  // call(name, field) for each
  template <class Own, class Call> static constexpr void each(Own &of, Call &&call) {
    std::conditional_t<std::is_const_v<Own>, const Struct, Struct> &value = of;
    withFields<count>(value, [&](auto &...field) { (call(names[I], field), ...); });
  }
};
// All fields of a plain struct, in order.
template <class Struct> struct Fields : FieldsAt<Struct, decltype(placesOfFields<Struct>())> {};

// Those of the bases of a struct that has no others.
template <class... Lists> struct JoinedFields {
  static constexpr std::size_t count = (0 + ... + Lists::count);

  template <class Struct, class Call> static constexpr void each(Struct &value, Call &&call) {
    (Lists::each(value, call), ...);
  }
};

// Whether a text "a, b" names all fields of a struct in the order of their declaration. What is not
// an aggregate has another message.
template <class Struct> consteval bool namesEveryField(std::string_view text) {
  if constexpr (std::is_aggregate_v<Struct>) {
    for (const std::string_view name : Fields<Struct>::names) {
      if (!text.starts_with(name))
        return false;
      text.remove_prefix(name.size());
      text.remove_prefix(text.starts_with(", ") ? 2 : 0);
    }
    return text.empty();
  }
  return true;
}

} // namespace sectile::detail

// A type without the parentheses that its commas may need: (Pair<T, U>) or Plain.
#define SECTILE_DETAIL_TYPE(Type) SECTILE_DETAIL_TYPE1(SECTILE_DETAIL_TYPE3 Type)
#define SECTILE_DETAIL_TYPE1(...) SECTILE_DETAIL_TYPE2(__VA_ARGS__)
#define SECTILE_DETAIL_TYPE2(...) SECTILE_DETAIL_NO_##__VA_ARGS__
#define SECTILE_DETAIL_TYPE3(...) SECTILE_DETAIL_TYPE3 __VA_ARGS__
#define SECTILE_DETAIL_NO_SECTILE_DETAIL_TYPE3
