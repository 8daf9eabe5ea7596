// SECTILE_CONFIG(Type, field, ...) tells Sectile the fields of a kernel's configuration: they are
// part of what a compiled kernel is kept under, and of messages. Write it after the struct, in the
// struct's namespace, once.
#pragma once
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

namespace sectile {

namespace detail {

template <class Config, class Value> struct ConfigField {
  std::string_view name;
  Value Config::*member;
};
template <class Config, class Value>
ConfigField(const char *, Value Config::*) -> ConfigField<Config, Value>;

// Converts to whatever a field is, in the question of how many fields an aggregate has.
struct AnyField {
  template <class T> operator T() const;
};
template <class Config, std::size_t... I> constexpr bool hasFields(std::index_sequence<I...>) {
  return requires { Config{(static_cast<void>(I), AnyField{})...}; };
}

template <class Config, class... Fields>
consteval bool isWholeConfig(const std::tuple<Fields...> &) {
  static_assert(std::is_aggregate_v<Config>,
                "a kernel's configuration is a plain struct with defaults");
  static_assert(hasFields<Config>(std::make_index_sequence<sizeof...(Fields)>()) &&
                    !hasFields<Config>(std::make_index_sequence<sizeof...(Fields) + 1>()),
                "SECTILE_CONFIG must name every field of the configuration");
  return true;
}
template <class Config, class Value> constexpr void checkField(const ConfigField<Config, Value> &) {
  static_assert((std::is_arithmetic_v<Value> || std::is_enum_v<Value>) && sizeof(Value) <= 8,
                "a field of a kernel's configuration is a number, a bool or an enumeration");
}

} // namespace detail

// A struct that SECTILE_CONFIG names the fields of.
template <class T>
concept KernelConfig = requires(const T *type) { sectileConfigFields(type); };

// The fields of a configuration: a tuple of {name, member pointer}.
template <KernelConfig Config>
inline constexpr auto config_fields = sectileConfigFields(static_cast<const Config *>(nullptr));

// Calls f(name, field) for every field, in the order of SECTILE_CONFIG.
template <class Config, class F>
  requires KernelConfig<std::remove_const_t<Config>>
constexpr void for_each_field(Config &config, F &&f) {
  std::apply([&](const auto &...field) { (f(field.name, config.*field.member), ...); },
             config_fields<std::remove_const_t<Config>>);
}

// "m=128 n=64", for keys and messages.
template <KernelConfig Config> std::string describe(const Config &config) {
  std::string text;
  for_each_field(config, [&](std::string_view name, auto value) {
    (text += text.empty() ? "" : " ") += name;
    if constexpr (std::is_enum_v<decltype(value)>)
      (text += '=') += std::to_string(static_cast<std::underlying_type_t<decltype(value)>>(value));
    else
      (text += '=') += std::to_string(value);
  });
  return text;
}

namespace detail {

template <KernelConfig Config>
inline constexpr std::size_t configWords =
    std::tuple_size_v<std::remove_const_t<decltype(config_fields<Config>)>>;

// Every field as a word: equal configurations and no others give equal words.
template <KernelConfig Config> void packConfig(const Config &config, std::uint64_t *words) {
  for_each_field(config, [&](std::string_view, const auto &value) {
    *words = 0;
    std::memcpy(words++, &value, sizeof value);
  });
}

} // namespace detail
} // namespace sectile

#define SECTILE_DETAIL_EXPAND(...)                                                                 \
  SECTILE_DETAIL_EXPAND3(SECTILE_DETAIL_EXPAND3(SECTILE_DETAIL_EXPAND3(__VA_ARGS__)))
#define SECTILE_DETAIL_EXPAND3(...)                                                                \
  SECTILE_DETAIL_EXPAND2(SECTILE_DETAIL_EXPAND2(SECTILE_DETAIL_EXPAND2(__VA_ARGS__)))
#define SECTILE_DETAIL_EXPAND2(...)                                                                \
  SECTILE_DETAIL_EXPAND1(SECTILE_DETAIL_EXPAND1(SECTILE_DETAIL_EXPAND1(__VA_ARGS__)))
#define SECTILE_DETAIL_EXPAND1(...) __VA_ARGS__
#define SECTILE_DETAIL_PARENTHESES ()
#define SECTILE_DETAIL_FIELDS(Type, field, ...)                                                    \
  ::sectile::detail::ConfigField{#field, &Type::field} __VA_OPT__(                                 \
      , SECTILE_DETAIL_FIELDS_AGAIN SECTILE_DETAIL_PARENTHESES(Type, __VA_ARGS__))
#define SECTILE_DETAIL_FIELDS_AGAIN() SECTILE_DETAIL_FIELDS

#define SECTILE_CONFIG(Type, ...)                                                                  \
  [[maybe_unused]] inline constexpr auto sectileConfigFields(const Type *) {                       \
    constexpr auto fields =                                                                        \
        std::make_tuple(SECTILE_DETAIL_EXPAND(SECTILE_DETAIL_FIELDS(Type, __VA_ARGS__)));          \
    static_assert(::sectile::detail::isWholeConfig<Type>(fields));                                 \
    std::apply([](const auto &...field) { (::sectile::detail::checkField(field), ...); }, fields); \
    return fields;                                                                                 \
  }
