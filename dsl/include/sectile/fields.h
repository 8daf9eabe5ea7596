// The fields of a user's struct by name: what SECTILE_CONFIG and SECTILE_STRUCT are made of.
#pragma once
#include <cstddef>
#include <string_view>
#include <tuple>
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

// Converts to whatever a field is, in the question of how many fields an aggregate has.
struct AnyField {
  template <class T> operator T() const;
};
template <class Struct, std::size_t... I> constexpr bool hasFields(std::index_sequence<I...>) {
  return requires { Struct{(static_cast<void>(I), AnyField{})...}; };
}

// Whether these are all fields of the struct, in the order of their declaration. What is not an
// aggregate has another message.
template <class Struct, class... Fields>
consteval bool namesEveryField(const std::tuple<Fields...> &fields) {
  if constexpr (!std::is_aggregate_v<Struct>) {
    return true;
  } else if constexpr (!hasFields<Struct>(std::make_index_sequence<sizeof...(Fields)>()) ||
                       hasFields<Struct>(std::make_index_sequence<sizeof...(Fields) + 1>())) {
    return false;
  } else {
    return std::apply(
        [](const auto &...field) {
          [[maybe_unused]] std::size_t end = 0;
          return ((field.offset >= std::exchange(end, field.offset + 1)) && ...);
        },
        fields);
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
// A std::tuple of a Field for each name.
#define SECTILE_DETAIL_FIELDS_OF(Type, ...)                                                        \
  std::make_tuple(__VA_OPT__(SECTILE_DETAIL_EXPAND(SECTILE_DETAIL_FIELDS(Type, __VA_ARGS__))))
// A type without the parentheses that its commas may need: (Pair<T, U>) or Plain.
#define SECTILE_DETAIL_TYPE(Type) SECTILE_DETAIL_TYPE1(SECTILE_DETAIL_TYPE3 Type)
#define SECTILE_DETAIL_TYPE1(...) SECTILE_DETAIL_TYPE2(__VA_ARGS__)
#define SECTILE_DETAIL_TYPE2(...) SECTILE_DETAIL_NO_##__VA_ARGS__
#define SECTILE_DETAIL_TYPE3(...) SECTILE_DETAIL_TYPE3 __VA_ARGS__
#define SECTILE_DETAIL_NO_SECTILE_DETAIL_TYPE3
