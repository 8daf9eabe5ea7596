// What the typed functions are made of: a call by name of a kernel, the fields of a struct for its
// outputs, and options that add words and inputs to it.
#pragma once
#include <optional>
#include <sectile/fields.h>
#include <sectile/library.h>

namespace sectile::detail {

// An output, or what may be given to be written as one.
template <class T, int N> using KernelOutput = Tensor<std::remove_const_t<T>, N>;
template <class Outputs> using KernelTo = std::type_identity_t<std::optional<Outputs>>;

struct TypedCall {
  std::string kernel;
  NamedTensors inputs;
  KernelOptions options = {};
};

std::string wordOf(double value); // with all digits

// For each struct of options of the typed functions, in the library: adds what its fields say.
template <class Options>
concept TypedOptions =
    requires(TypedCall &call, const Options &options) { addOptions(call, options); };

// The outputs that SECTILE_OUTPUTS names.
template <class Outputs>
inline constexpr auto outputFields = sectileOutputFields(std::type_identity<Outputs>());

template <class Value> struct OutputAs;
template <> struct OutputAs<AnyTensor> {
  static AnyTensor from(const AnyTensor &tensor) { return tensor; }
};
template <class T, int N> struct OutputAs<Tensor<T, N>> {
  static Tensor<T, N> from(const AnyTensor &tensor) { return tensor.as<T, N>(); }
};

// Adds what is there.
template <class Value>
void addTensor(NamedTensors &tensors, std::string_view name, const Value &tensor) {
  if constexpr (requires { OutputAs<Value>(); })
    tensors.emplace(name, tensor);
  else if (tensor)
    tensors.emplace(name, *tensor);
}
template <class Value> Value takeTensor(const NamedTensors &tensors, std::string_view name) {
  if constexpr (requires { OutputAs<Value>(); })
    return OutputAs<Value>::from(tensors.at(std::string(name)));
  else if (tensors.contains(name))
    return takeTensor<typename Value::value_type>(tensors, name);
  else
    return std::nullopt;
}

// The tensors of a struct of outputs by their names, and back.
template <class Outputs> NamedTensors namedOutputs(const std::optional<Outputs> &to) {
  NamedTensors given;
  if (to)
    outputFields<Outputs>.apply(
        [&](const auto &...field) { (addTensor(given, field.name, (*to).*field.member), ...); });
  return given;
}
template <class Outputs> Outputs outputsOf(const NamedTensors &tensors) {
  return outputFields<Outputs>.apply([&]<class... Values>(const Field<Outputs, Values> &...field) {
    return Outputs{takeTensor<Values>(tensors, field.name)...};
  });
}

// Runs a call, with options or without, for a struct of outputs or for one output.
template <TypedOptions Options>
NamedTensors run(const Stream &stream, TypedCall call, const Options &options,
                 const NamedTensors &given) {
  addOptions(call, options);
  return run_kernel(stream, call.kernel, call.inputs, call.options, given);
}
template <class Outputs>
Outputs callFor(const Stream &stream, const TypedCall &call, const std::optional<Outputs> &to) {
  return outputsOf<Outputs>(
      run_kernel(stream, call.kernel, call.inputs, call.options, namedOutputs(to)));
}
template <TypedOptions Options, class Outputs>
Outputs callFor(const Stream &stream, TypedCall call, const Options &options,
                const std::optional<Outputs> &to) {
  addOptions(call, options);
  return callFor(stream, call, to);
}
template <class T, int N>
Tensor<T, N> callFor(const char *output, const Stream &stream, const TypedCall &call,
                     const std::optional<Tensor<T, N>> &to, NamedTensors given = {}) {
  addTensor(given, output, to);
  return takeTensor<Tensor<T, N>>(run_kernel(stream, call.kernel, call.inputs, call.options, given),
                                  output);
}
template <TypedOptions Options, class T, int N>
Tensor<T, N> callFor(const char *output, const Stream &stream, TypedCall call,
                     const Options &options, const std::optional<Tensor<T, N>> &to,
                     const NamedTensors &given = {}) {
  addOptions(call, options);
  return callFor(output, stream, call, to, given);
}

} // namespace sectile::detail

// SECTILE_OUTPUTS(Type, field, ...); says that the fields of a struct of tensors are the outputs of
// their names; with template <...> before it, of a class template.
#define SECTILE_OUTPUTS(Type, ...)                                                                 \
  inline constexpr auto sectileOutputFields(std::type_identity<SECTILE_DETAIL_TYPE(Type)>) {       \
    using Outputs = SECTILE_DETAIL_TYPE(Type);                                                     \
    constexpr auto fields = SECTILE_DETAIL_FIELDS_OF(Outputs, __VA_ARGS__);                        \
    static_assert(::sectile::detail::namesEveryField<Outputs>(fields),                             \
                  "SECTILE_OUTPUTS must name every field of the struct, in their order");          \
    return fields;                                                                                 \
  }                                                                                                \
  static_assert(true, "a declaration that ends with a semicolon")
