// Use: how a kernel's description launches it.
#pragma once
#include <array>
#include <initializer_list>
#include <optional>
#include <sectile/bind.h>
#include <sectile/library.h>

namespace sectile {

// The argument of KernelSpec::apply: the call, its arguments as tensors, and a way to launch.
// Sectile may run the launches at once, keep them for later or only compile them.
class Use {
public:
  const Invocation &call;
  const ConfigValues &config;

  struct State; // in the library
  Use(const Invocation &call, const ConfigValues &config, State &state)
      : call(call), config(config), state(state) {}

  int field(const char *name) const { return held<int>(name, config.at(name)); }
  // The configuration as a struct. Fields that the description does not have keep their values in
  // `derived`: config_as(Rows{.whole = true}).
  template <KernelConfig C> C config_as(C derived) const {
    for_each_field(derived, [&](std::string_view name, auto &value) {
      for (const auto &[field, chosen] : config)
        if (field == name)
          value = held<std::remove_reference_t<decltype(value)>>(name, chosen);
    });
    return derived;
  }
  // The same with every field bound by its name: to the description's field `prefix` + name, or
  // else to an option (an integer, a flag for a bool, a choice for an enumeration with the same
  // order), or for a bool to whether the optional argument is given. Other fields keep their
  // initial values.
  template <KernelConfig C> C config_as(std::string_view prefix = "") const {
    C result{};
    for_each_field(result, [&](std::string_view name, auto &value) {
      using V = std::remove_reference_t<decltype(value)>;
      constexpr OptionSpec::Kind kind = std::same_as<V, bool>   ? OptionSpec::flag
                                        : std::is_enum_v<V>     ? OptionSpec::choice
                                        : std::is_integral_v<V> ? OptionSpec::integer
                                                                : OptionSpec::number;
      if (const auto found = fieldByName(prefix, name, kind))
        value = held<V>(name, *found);
    });
    return result;
  }
  bool has(std::string_view argument) const { return call.has(argument); }
  // The extent of an axis; of "...", the product of the extents that it stands for.
  std::int64_t extent(std::string_view axis) const;

  // An argument, with its axes in the order of the specification. If the caller left it out, it has
  // no extent and no memory. This and the next two throw Error if the elements are not T, or the
  // number of axes does not fit.
  template <Element T, int N> Tensor<T, N> tensor(std::string_view argument) const {
    std::array<std::int64_t, N> extents{}, strides{};
    const std::size_t index = call.index(argument);
    lengths(index, dtype_of<T>, N, extents.data(), strides.data());
    return {reinterpret_cast<T *>(address(index)), extents, strides, memory(index)};
  }
  // An argument with all axes before the last N - 1 collapsed into one. Throws InputError if their
  // strides do not allow that.
  template <Element T, int N> Tensor<T, N> collapsed(std::string_view argument) const {
    std::array<std::int64_t, N> extents{}, strides{};
    const std::size_t index = call.index(argument);
    mergedLengths(index, dtype_of<T>, N, 0, extents.data(), strides.data());
    return {reinterpret_cast<T *>(address(index)), extents, strides, memory(index)};
  }
  // An argument with the axes of its "..." collapsed into one.
  template <Element T, int N> Tensor<T, N> merged(std::string_view argument) const {
    std::array<std::int64_t, N> extents{}, strides{};
    const std::size_t index = call.index(argument);
    mergedLengths(index, dtype_of<T>, N, placeOfDots(index), extents.data(), strides.data());
    return {reinterpret_cast<T *>(address(index)), extents, strides, memory(index)};
  }
  // The memory of an argument, from its first element on, with another shape. Nothing is checked.
  template <Element T, int N>
  Tensor<T, N> shaped(std::string_view argument, const std::array<std::int64_t, N> &extents,
                      const std::array<std::int64_t, N> &strides) const {
    const std::size_t index = call.index(argument);
    return {reinterpret_cast<T *>(address(index)), extents, strides, memory(index)};
  }
  // The rows along the last axis.
  template <Element T> Tensor<T, 2> rows(std::string_view argument) const {
    return collapsed<T, 2>(argument);
  }
  // All elements of a dense argument.
  template <Element T> Tensor<T, 1> elements(std::string_view argument) const {
    return collapsed<T, 1>(argument);
  }

  // Scratch memory until the last launch of this call, dense in row-major order.
  template <Element T, int N> Tensor<T, N> workspace(const std::array<std::int64_t, N> &extents) {
    return dense<T, N>(extents, false);
  }
  // The same, filled with zeros. The launches must restore the zeros, because they may be repeated.
  template <Element T, int N> Tensor<T, N> zeroed(const std::array<std::int64_t, N> &extents) {
    return dense<T, N>(extents, true);
  }

  // Launches a kernel; a configuration is its last argument. On chips that can, a launch may start
  // while the kernel ahead of it in the stream runs. A kernel waits for that one first, unless it
  // calls wait_dependencies(). One that does may read the call's inputs before that: behind another
  // launch of the call whatever wrote them has ended, and as the call's first it starts when the
  // kernel ahead has ended.
  template <class Kernel, class... Arguments>
    requires(!detail::NamedKernel<Kernel>)
  void operator()(const Kernel &kernel, Grid grid, const Arguments &...arguments) {
    launch(kernel, grid, arguments...);
  }
  // Launches a kernel whose arguments are the fields of one struct. Each field is bound by its
  // name: to the value given here, or else to the argument, option or axis of that name. The "..."
  // of an argument is always one axis of its view; a view with fewer axes takes the leading ones as
  // one. Of an input with an axis "1|B" the view has all of B, at a stride of 0 if there is one for
  // all. An argument that the caller left out is an empty view. Throws Error if nothing fits.
  template <detail::NamedKernel Kernel>
    requires(!Kernel::has_config)
  void operator()(const Kernel &kernel, Grid grid, std::initializer_list<FieldValue> values = {}) {
    launch(kernel, grid, bound(kernel, values));
  }
  template <detail::NamedKernel Kernel>
    requires Kernel::has_config
  void operator()(const Kernel &kernel, Grid grid, const typename Kernel::Config &chosen,
                  std::initializer_list<FieldValue> values = {}) {
    launch(kernel, grid, bound(kernel, values), chosen);
  }
  template <detail::NamedKernel Kernel>
    requires Kernel::has_config
  void operator()(const Kernel &kernel, Grid grid) {
    launch(kernel, grid, bound(kernel, {}), config_as<typename Kernel::Config>());
  }

  // Runs another kernel, by name, as a part of this one. All its outputs must be given.
  void run(std::string_view kernel, const NamedTensors &inputs, const KernelOptions &options,
           NamedTensors outputs, const ConfigValues &chosen);

private:
  friend class detail::Binding;

  template <detail::NamedKernel Kernel>
  auto bound(const Kernel &kernel, std::initializer_list<FieldValue> values) const {
    return detail::Binding(*this, kernel.name(), values)
        .all<typename Kernel::template Parameter<0>>();
  }
  template <class Kernel, class... Arguments>
  void launch(const Kernel &kernel, Grid grid, const Arguments &...arguments) {
    kernel.packed(arguments..., LaunchOptions{.dependent = true},
                  [&](const detail::PackedLaunch &packed) { launchOrKeep(kernel, grid, packed); });
  }
  void launchOrKeep(const detail::KernelBase &kernel, const Grid &grid,
                    const detail::PackedLaunch &packed);

  // A number as a field holds it. Throws InputError if it does not fit.
  template <class V> V held(std::string_view field, std::int64_t number) const {
    const V value = static_cast<V>(number);
    if constexpr (std::is_integral_v<V>)
      if (static_cast<std::int64_t>(value) != number)
        refuseNumber(field, number, sizeof(V));
    return value;
  }
  [[noreturn]] void refuseNumber(std::string_view field, std::int64_t number,
                                 std::size_t bytes) const;
  // An option of another kind is none.
  std::optional<std::int64_t> fieldByName(std::string_view prefix, std::string_view name,
                                          OptionSpec::Kind kind) const;
  detail::Memory memory(std::size_t argument) const;
  std::uint64_t address(std::size_t argument) const;
  void lengths(std::size_t argument, DType dtype, std::size_t rank, std::int64_t *extents,
               std::int64_t *strides) const;
  // With axes from this place on as one, as many as give the rank.
  void mergedLengths(std::size_t argument, DType dtype, std::size_t rank, std::size_t place,
                     std::int64_t *extents, std::int64_t *strides) const;
  std::size_t placeOfDots(std::size_t argument) const;
  detail::Memory allocate(std::size_t bytes, bool zero);

  template <Element T, int N>
  Tensor<T, N> dense(const std::array<std::int64_t, N> &extents, bool zero) {
    std::array<std::int64_t, N> strides;
    std::int64_t count = 1;
    for (std::size_t i = N; i-- > 0; count *= extents[i])
      strides[i] = count ? count : 1;
    const detail::Memory memory = allocate(static_cast<std::size_t>(count) * sizeof(T), zero);
    return {reinterpret_cast<T *>(memory.address()), extents, strides, memory};
  }

  State &state;
};

// Calls function(T{}) with the type T of the list that is the dtype; with none, does nothing.
template <class... T, class Function> void for_dtype(DType dtype, Function &&function) {
  (void)((dtype == dtype_of<T> && (function(T{}), true)) || ...);
}

} // namespace sectile
