// SECTILE_CONFIG(Type, field, ...) tells Sectile the fields of a kernel's configuration: they are
// part of what a compiled kernel is kept under, and of messages. Write it after the struct, in the
// struct's namespace, once.
#pragma once
#include <cstdint>
#include <cstring>
#include <sectile/fields.h>
#include <string>

namespace sectile {

namespace detail {
template <class Places, class... Configs, class... Values>
consteval bool areConfigFields(const FieldList<Places, Field<Configs, Values>...> &) {
  return (((std::is_arithmetic_v<Values> || std::is_enum_v<Values>) && sizeof(Values) <= 8) && ...);
}
} // namespace detail

// A struct that SECTILE_CONFIG names the fields of.
template <class T>
concept KernelConfig = requires(std::type_identity<T> type) { sectileConfigFields(type); };

// The fields of a configuration: a list of {name, member pointer, offset}.
template <KernelConfig Config>
inline constexpr auto config_fields = sectileConfigFields(std::type_identity<Config>());

// Calls f(name, field) for every field, in the order of SECTILE_CONFIG.
template <class Config, class F>
  requires KernelConfig<std::remove_const_t<Config>>
constexpr void for_each_field(Config &config, F &&f) {
  config_fields<std::remove_const_t<Config>>.apply(
      [&](const auto &...field) { (f(field.name, config.*field.member), ...); });
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
inline constexpr std::size_t configWords = config_fields<Config>.count;

// Every field as a word: equal configurations and no others give equal words.
template <KernelConfig Config> void packConfig(const Config &config, std::uint64_t *words) {
  for_each_field(config, [&](std::string_view, const auto &value) {
    *words = 0;
    std::memcpy(words++, &value, sizeof value);
  });
}

} // namespace detail
} // namespace sectile

#define SECTILE_CONFIG(Type, ...)                                                                  \
  [[maybe_unused]] inline constexpr auto sectileConfigFields(                                      \
      std::type_identity<SECTILE_DETAIL_TYPE(Type)>) {                                             \
    using Config = SECTILE_DETAIL_TYPE(Type);                                                      \
    constexpr auto fields = SECTILE_DETAIL_FIELDS_OF(Config __VA_OPT__(, ) __VA_ARGS__);           \
    static_assert(std::is_aggregate_v<Config>,                                                     \
                  "a kernel's configuration is a plain struct with defaults");                     \
    static_assert(::sectile::detail::namesEveryField<Config>(fields),                              \
                  "SECTILE_CONFIG must name every field of the configuration, in their order");    \
    static_assert(::sectile::detail::areConfigFields(fields),                                      \
                  "a field of a kernel's configuration is a number, a bool or an enumeration");    \
    return fields;                                                                                 \
  }
