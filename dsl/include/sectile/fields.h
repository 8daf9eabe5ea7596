// The fields of a user's struct by name: what SECTILE_CONFIG and SECTILE_STRUCT are made of.
#pragma once
#include <cstddef>
#include <string_view>
#include <type_traits>
#include <utility>

namespace sectile::detail {

template <class Struct, class Value> struct Field {
  std::string_view name;
  Value Struct::*member;
  std::size_t offset; // in bytes
};
template <class Struct, class Value>
Field(const char *, Value Struct::*, std::size_t) -> Field<Struct, Value>;

// All fields of a struct, in order. Not a std::tuple: its constructors ask of each element what it
// converts to, which made half of the time that the launches of long structs took to compile.
template <std::size_t place, class F> struct FieldAt {
  F field;
};
template <class Places, class... F> struct FieldList;
template <std::size_t... place, class... F>
struct FieldList<std::index_sequence<place...>, F...> : FieldAt<place, F>... {
  static constexpr std::size_t count = sizeof...(F);

  // call(field...)
  template <class Call> constexpr decltype(auto) apply(Call &&call) const {
    return std::forward<Call>(call)(static_cast<const FieldAt<place, F> &>(*this).field...);
  }
};
template <class... F> constexpr auto fieldList(F... field) {
  return FieldList<std::index_sequence_for<F...>, F...>{{field}...};
}
// The fields of bases, for a struct that has those of all of them.
template <class First> constexpr First joinedFields(First first) { return first; }
template <class First, class... Others>
constexpr auto joinedFields(First first, const Others &...others) {
  return first.apply([&](auto... field) {
    return joinedFields(others...).apply(
        [&](auto... other) { return fieldList(field..., other...); });
  });
}

// Converts to whatever a field is, in the question of how many fields an aggregate has.
struct AnyField {
  template <class T> operator T() const;
};
template <class Struct, std::size_t... I> constexpr bool hasFields(std::index_sequence<I...>) {
  return requires { Struct{(static_cast<void>(I), AnyField{})...}; };
}

// Whether these are all fields of the struct, in the order of their declaration. What is not an
// aggregate has another message.
template <class Struct, class Fields> consteval bool namesEveryField(const Fields &fields) {
  if constexpr (!std::is_aggregate_v<Struct>) {
    return true;
  } else if constexpr (!hasFields<Struct>(std::make_index_sequence<Fields::count>()) ||
                       hasFields<Struct>(std::make_index_sequence<Fields::count + 1>())) {
    return false;
  } else {
    return fields.apply([](const auto &...field) {
      [[maybe_unused]] std::size_t end = 0;
      return ((field.offset >= std::exchange(end, field.offset + 1)) && ...);
    });
  }
}

} // namespace sectile::detail

// Enough for 50 fields.
#define SECTILE_DETAIL_EXPAND(...)                                                                 \
  SECTILE_DETAIL_EXPAND3(                                                                          \
      SECTILE_DETAIL_EXPAND3(SECTILE_DETAIL_EXPAND3(SECTILE_DETAIL_EXPAND3(__VA_ARGS__))))
#define SECTILE_DETAIL_EXPAND3(...)                                                                \
  SECTILE_DETAIL_EXPAND2(SECTILE_DETAIL_EXPAND2(SECTILE_DETAIL_EXPAND2(__VA_ARGS__)))
#define SECTILE_DETAIL_EXPAND2(...)                                                                \
  SECTILE_DETAIL_EXPAND1(SECTILE_DETAIL_EXPAND1(SECTILE_DETAIL_EXPAND1(__VA_ARGS__)))
#define SECTILE_DETAIL_EXPAND1(...) __VA_ARGS__
#define SECTILE_DETAIL_PARENTHESES ()
#define SECTILE_DETAIL_FIELDS(Type, field, ...)                                                    \
  ::sectile::detail::Field{#field, &Type::field, offsetof(Type, field)} __VA_OPT__(                \
      , SECTILE_DETAIL_FIELDS_AGAIN SECTILE_DETAIL_PARENTHESES(Type, __VA_ARGS__))
#define SECTILE_DETAIL_FIELDS_AGAIN() SECTILE_DETAIL_FIELDS
// A FieldList of a Field for each name.
#define SECTILE_DETAIL_FIELDS_OF(Type, ...)                                                        \
  ::sectile::detail::fieldList(                                                                    \
      __VA_OPT__(SECTILE_DETAIL_EXPAND(SECTILE_DETAIL_FIELDS(Type, __VA_ARGS__))))
// A type without the parentheses that its commas may need: (Pair<T, U>) or Plain.
#define SECTILE_DETAIL_TYPE(Type) SECTILE_DETAIL_TYPE1(SECTILE_DETAIL_TYPE3 Type)
#define SECTILE_DETAIL_TYPE1(...) SECTILE_DETAIL_TYPE2(__VA_ARGS__)
#define SECTILE_DETAIL_TYPE2(...) SECTILE_DETAIL_NO_##__VA_ARGS__
#define SECTILE_DETAIL_TYPE3(...) SECTILE_DETAIL_TYPE3 __VA_ARGS__
#define SECTILE_DETAIL_NO_SECTILE_DETAIL_TYPE3
