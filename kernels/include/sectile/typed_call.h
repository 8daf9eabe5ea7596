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

// Adds what the fields of a struct of options say; in the library, for each of the structs. Some
// have a function of their own of this name.
template <class Options> void addOptions(TypedCall &call, const Options &options);

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
    Fields<Outputs>::each(
        *to, [&](std::string_view name, const auto &tensor) { addTensor(given, name, tensor); });
  return given;
}
template <class Outputs> Outputs outputsOf(const NamedTensors &tensors) {
  return Fields<Outputs>::template build<Outputs>(
      [&]<class Value>(std::type_identity<Value>, std::string_view name) {
        return takeTensor<Value>(tensors, name);
      });
}

// Runs a call, with options or without, for a struct of outputs or for one output.
template <class Options>
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
template <class Options, class Outputs>
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
template <class Options, class T, int N>
Tensor<T, N> callFor(const char *output, const Stream &stream, TypedCall call,
                     const Options &options, const std::optional<Tensor<T, N>> &to,
                     const NamedTensors &given = {}) {
  addOptions(call, options);
  return callFor(output, stream, call, to, given);
}

} // namespace sectile::detail
