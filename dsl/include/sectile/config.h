// Configurations of kernels: plain structs of numbers, bools and enumerations, with defaults. The
// fields are part of what a compiled kernel is kept under, and of messages. SECTILE_CONFIG(Type,
// field, ...) may follow one: it checks what it says of the struct, where it is written.
#pragma once
#include <cstdint>
#include <cstring>
#include <sectile/fields.h>
#include <string>

namespace sectile {

// A configuration that has the fields of several.
template <class... Parts> struct JoinedConfig : Parts... {};

namespace detail {

template <class Config> struct ConfigFields : Fields<Config> {};
template <class... Parts>
struct ConfigFields<JoinedConfig<Parts...>> : JoinedFields<ConfigFields<Parts>...> {};

template <class... Values>
consteval bool areConfigFields(std::type_identity<std::tuple<Values...>>) {
  return (((std::is_arithmetic_v<Values> || std::is_enum_v<Values>) && sizeof(Values) <= 8) && ...);
}
template <class T>
inline constexpr bool isConfig = [] {
  if constexpr (requires { sectileConfigFields(std::type_identity<T>()); })
    return true;
  else if constexpr (fieldCount<T>() > 0)
    return areConfigFields(std::type_identity<typename Fields<T>::Types>());
  else
    return false;
}();
template <class... Parts>
inline constexpr bool isConfig<JoinedConfig<Parts...>> = (isConfig<Parts> && ...);

} // namespace detail

// What may be a kernel's configuration.
template <class T>
concept KernelConfig = detail::isConfig<T>;

// Calls f(name, field) for every field, in the order of their declaration.
template <class Config, class F>
  requires KernelConfig<std::remove_const_t<Config>>
constexpr void for_each_field(Config &config, F &&f) {
  detail::ConfigFields<std::remove_const_t<Config>>::each(config, f);
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
inline constexpr std::size_t configWords = ConfigFields<Config>::count;

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
    static_assert(std::is_aggregate_v<Config>,                                                     \
                  "a kernel's configuration is a plain struct with defaults");                     \
    static_assert(::sectile::detail::namesEveryField<Config>(#__VA_ARGS__),                        \
                  "SECTILE_CONFIG must name every field of the configuration, in their order");    \
    static_assert(::sectile::detail::areConfigFields(                                              \
                      std::type_identity<typename ::sectile::detail::Fields<Config>::Types>()),    \
                  "a field of a kernel's configuration is a number, a bool or an enumeration");    \
  }
