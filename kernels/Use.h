// What is done with a kernel's launches (run them, keep them, give their code), so that each kernel
// of the registry states its launches once.
#pragma once
#include "kernels/Registry.h"
#include <algorithm>
#include <array>
#include <sectile/library.h>
#include <sectile/sectile.h>

namespace sectile {

// The code of one launch.
struct KernelCode {
  std::string name; // of the kernel
  std::string code;
};

// Launches that can be repeated, with the memory that they share.
struct BoundKernel {
  std::vector<detail::BoundLaunch> launches;
  std::vector<detail::Memory> workspaces;

  // The launch of this name; the only one where the name is empty.
  const detail::BoundLaunch *find(std::string_view name) const; // none: null
  const detail::BoundLaunch &part(std::string_view name) const;
};

// `memory` is that of all arguments, in order; it may be none where nothing is run. Where arguments
// do not begin where their memory does, or have none that is known, `addresses` says where.
void launchKernel(const Invocation &call, const Config &config,
                  std::span<const detail::Memory> memory, const Stream &stream,
                  std::span<const std::uint64_t> addresses = {});
// Calls `launch` with what launches in the stream. Scratch memory is its own until it returns.
void withUse(const Invocation &call, const Config &config, const Stream &stream,
             const std::function<void(Use &)> &launch, std::span<const detail::Memory> memory = {},
             std::span<const std::uint64_t> addresses = {});
// Where the arguments of a call lie, in order.
struct Placement {
  std::vector<detail::Memory> memory;
  std::vector<std::uint64_t> addresses;
};
// The call that takes these inputs, and writes those of its outputs that are given; the others are
// dense. Throws InputError for what the kernel does not take.
Invocation callOn(const KernelSpec &kernel, const NamedTensors &inputs,
                  const KernelOptions &options, const NamedTensors &outputs);
// Tensors of that call's types. An output that is not among `outputs` is put there as `allocate`
// makes it.
Placement placeArguments(const Invocation &call, const NamedTensors &inputs, NamedTensors &outputs,
                         const std::function<AnyTensor(const TensorType &)> &allocate);

// Takes those of the workspaces given that are large enough, in order, and allocates the others.
BoundKernel bindKernel(const Invocation &call, const Config &config,
                       std::span<const detail::Memory> memory = {},
                       std::span<const detail::Memory> workspaces = {});
// With scratch memory of its own.
BoundKernel bindCall(const Invocation &call, const Placement &placed, const Config &config,
                     const Device &device);
// Each kernel that is launched, once.
std::vector<KernelCode> emitKernel(const Invocation &call, const Config &config,
                                   const std::string &target, const std::string &form);

// Those of a dense array where the type has none.
Shape stridesOf(const TensorType &type);

// What KernelSpec::apply is given.
class Use {
public:
  const Invocation &call;
  const Config &config;

  int field(const char *name) const { return static_cast<int>(config.at(name)); }
  bool has(std::string_view argument) const { return call.has(argument); }

  // An argument, its axes in the specification's order; of no extent and no memory if it is left
  // out.
  template <Element T, int N> Tensor<T, N> tensor(std::string_view argument) const {
    std::array<std::int64_t, N> extents{}, strides{};
    const std::size_t index = call.index(argument);
    lengths(index, N, extents.data(), strides.data());
    return {reinterpret_cast<T *>(address(index)), extents, strides, memory(index)};
  }
  // An argument with all axes before its last `inner` ones as one.
  template <Element T, int N> Tensor<T, N> collapsed(std::string_view argument) const {
    std::array<std::int64_t, N> extents{}, strides{};
    const std::size_t index = call.index(argument);
    mergedLengths(index, N, 0, extents.data(), strides.data());
    return {reinterpret_cast<T *>(address(index)), extents, strides, memory(index)};
  }
  // An argument with the axes that its "..." stands for as one.
  template <Element T, int N> Tensor<T, N> merged(std::string_view argument) const {
    std::array<std::int64_t, N> extents{}, strides{};
    const std::size_t index = call.index(argument);
    mergedLengths(index, N, placeOfDots(index), extents.data(), strides.data());
    return {reinterpret_cast<T *>(address(index)), extents, strides, memory(index)};
  }
  // An argument's memory from its first element on, seen otherwise.
  template <Element T, int N>
  Tensor<T, N> shaped(std::string_view argument, const std::array<std::int64_t, N> &extents,
                      const std::array<std::int64_t, N> &strides) const {
    const std::size_t index = call.index(argument);
    return {reinterpret_cast<T *>(address(index)), extents, strides, memory(index)};
  }
  // Rows of the last axis.
  template <Element T> Tensor<T, 2> rows(std::string_view argument) const {
    return collapsed<T, 2>(argument);
  }
  // All elements of an argument that is dense.
  template <Element T> Tensor<T, 1> elements(std::string_view argument) const {
    return collapsed<T, 1>(argument);
  }

  // Memory that lasts from here to the last of this kernel's launches, dense in row-major order.
  template <Element T, int N> Tensor<T, N> workspace(const std::array<std::int64_t, N> &extents) {
    return dense<T, N>(extents, false);
  }
  // The same filled with zeros. The launches must leave it so: they may be repeated.
  template <Element T, int N> Tensor<T, N> zeroed(const std::array<std::int64_t, N> &extents) {
    return dense<T, N>(extents, true);
  }

  // The first launch of a call is one like any other; the later ones may start while the one ahead
  // of them runs. A kernel that calls wait_dependencies() may therefore read the call's inputs
  // before it: what wrote them was done when the first launch began, which later ones follow.
  template <class Kernel, class... Arguments>
  void operator()(const Kernel &kernel, Grid grid, const Arguments &...arguments) {
    if (stream)
      kernel.launch(*stream, grid, arguments..., LaunchOptions{.dependent = hasLaunched});
    else
      bound->launches.push_back(kernel.bind(grid, arguments...));
    hasLaunched |= grid.x && grid.y && grid.z;
  }

  // Another kernel of the library as a part of this one, with all its outputs.
  void run(std::string_view kernel, const NamedTensors &inputs, const KernelOptions &options,
           NamedTensors outputs, const Config &chosen);

private:
  friend void withUse(const Invocation &, const Config &, const Stream &,
                      const std::function<void(Use &)> &, std::span<const detail::Memory>,
                      std::span<const std::uint64_t>);
  friend BoundKernel bindKernel(const Invocation &, const Config &, std::span<const detail::Memory>,
                                std::span<const detail::Memory>);
  friend BoundKernel bindCall(const Invocation &, const Placement &, const Config &,
                              const Device &);

  Use(const Invocation &call, const Config &config, std::span<const detail::Memory> memories)
      : call(call), config(config), memories(memories) {}

  detail::Memory memory(std::size_t argument) const {
    return memories.empty() ? detail::Memory() : memories[argument];
  }
  std::uint64_t address(std::size_t argument) const {
    return addresses.empty() ? memory(argument).address() : addresses[argument];
  }
  void lengths(std::size_t argument, std::size_t rank, std::int64_t *extents,
               std::int64_t *strides) const;
  // With axes from this place on as one, as many as give the rank.
  void mergedLengths(std::size_t argument, std::size_t rank, std::size_t place,
                     std::int64_t *extents, std::int64_t *strides) const;
  std::size_t placeOfDots(std::size_t argument) const;
  detail::Memory allocate(std::size_t bytes, bool zero);

  template <Element T, int N>
  Tensor<T, N> dense(const std::array<std::int64_t, N> &extents, bool zero) {
    std::array<std::int64_t, N> strides;
    std::int64_t count = 1;
    for (std::size_t i = N; i-- > 0; count *= extents[i])
      strides[i] = std::max<std::int64_t>(count, 1);
    const detail::Memory memory = allocate(static_cast<std::size_t>(count) * sizeof(T), zero);
    return {reinterpret_cast<T *>(memory.address()), extents, strides, memory};
  }

  std::span<const detail::Memory> memories;
  std::span<const std::uint64_t> addresses;
  const Stream *stream = nullptr;             // launch it there; or
  BoundKernel *bound = nullptr;               // keep the launches here
  bool hasLaunched = false;                   // anything yet, as a part of this call
  class Workspace *arena = nullptr;           // of the stream
  std::span<const detail::Memory> workspaces; // of an earlier BoundKernel
  const Device *device = nullptr;             // of workspaces; without it that of an argument
};

// Calls function with T{} of the list that dtype names.
template <class... T, class Function> void forDType(DType dtype, Function &&function) {
  (void)((dtype == dtype_of<T> && (function(T{}), true)) || ...);
}

// For a kernel's parameter that this launch does not read.
template <Element T, int N> Tensor<T, N> noTensor() { return {nullptr, {}, {}}; }

constexpr std::int64_t ceilDiv(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

} // namespace sectile
