// What the options of typed functions add to a call by name. A field is an option or an input of
// its name: an optional one adds nothing where it is none, a struct of options adds its own fields.
#pragma once
#include <sectile/typed_call.h>
#include <vector>

namespace sectile::detail {

void addFlag(TypedCall &call, std::string_view field, bool value);

// The words for an enumeration's values, in order, and their option where that has another name
// than the field: a function wordsOf() beside each enumeration's options.
struct ChoiceWords {
  std::vector<const char *> words;
  std::string_view option = {};
};
void addChoice(TypedCall &call, std::string_view field, const ChoiceWords &choice,
               std::size_t value);

template <class Value> inline constexpr bool isOptional = false;
template <class Value> inline constexpr bool isOptional<std::optional<Value>> = true;

template <class Value> void addField(TypedCall &call, std::string_view field, const Value &value) {
  if constexpr (isOptional<Value>) {
    if (value)
      addField(call, field, *value);
  } else if constexpr (std::same_as<Value, bool>) {
    addFlag(call, field, value);
  } else if constexpr (std::is_enum_v<Value>) {
    addChoice(call, field, wordsOf(value), static_cast<std::size_t>(value));
  } else if constexpr (std::floating_point<Value>) {
    call.options.emplace(field, wordOf(value));
  } else if constexpr (std::integral<Value>) {
    call.options.emplace(field, std::to_string(value));
  } else if constexpr (std::convertible_to<Value, AnyTensor>) {
    call.inputs.emplace(field, value);
  } else {
    addOptions(call, value);
  }
}
template <class Options> void addFields(TypedCall &call, const Options &options) {
  static_assert(Fields<Options>::count > 0);
  Fields<Options>::each(
      options, [&](std::string_view name, const auto &value) { addField(call, name, value); });
}

template <class Options> void addOptions(TypedCall &call, const Options &options) {
  addFields(call, options);
}

} // namespace sectile::detail
