// What is done with a kernel's launches (run them, keep them), so that each kernel of the registry
// states its launches once.
#pragma once
#include "kernels/registry/Registry.h"
#include <sectile/use.h>

namespace sectile {

// Launches that can be repeated, with the memory that they share.
struct BoundKernel {
  std::vector<detail::BoundLaunch> launches;
  std::vector<detail::Memory> workspaces;

  // The first launch of one of these names, "a, b"; where there are none, the only launch.
  const detail::BoundLaunch *find(std::string_view names) const; // none: null
  const detail::BoundLaunch &part(std::string_view names) const;
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

// Launches what `apply` says of a call on tensors; outputs that are not given are allocated, and
// all are given. Throws InputError where they overlap.
NamedTensors runCall(const Stream &stream, const Invocation &call, const Config &config,
                     const NamedTensors &inputs, NamedTensors outputs,
                     const std::function<void(Use &)> &apply);

// Takes those of the workspaces given that are large enough, in order, and allocates the others.
BoundKernel bindKernel(const Invocation &call, const Config &config,
                       std::span<const detail::Memory> memory = {},
                       std::span<const detail::Memory> workspaces = {});
// With scratch memory of its own.
BoundKernel bindCall(const Invocation &call, const Placement &placed, const Config &config,
                     const Device &device);
// Those of a dense array where the type has none.
Shape stridesOf(const TensorType &type);

struct Use::State {
  std::span<const detail::Memory> memories = {}; // of all arguments, or none
  std::span<const std::uint64_t> addresses = {};
  const Stream *stream = nullptr;                  // launch it there; or
  BoundKernel *bound = nullptr;                    // keep the launches here
  class Workspace *arena = nullptr;                // of the stream
  std::span<const detail::Memory> workspaces = {}; // of an earlier BoundKernel
  const Device *device = nullptr;                  // of workspaces; without it that of an argument
};

// For a kernel's parameter that this launch does not read.
template <Element T, int N> Tensor<T, N> noTensor() { return {nullptr, {}, {}}; }

// Of kernels with products of f32. A configuration's field of this name is a Precision.
inline const OptionRow precisionOption{"precision: tf32|exact = tf32",
                                       "of f32 products: through tf32 on tensor cores, or exact"};

// The elements of a tensor, from its first one on, with other axes.
template <int N, int M, class T>
Tensor<T, N> withAxes(const Tensor<T, M> &x, const std::int64_t (&extents)[N],
                      const std::int64_t (&strides)[N]) {
  return {x.data(), std::to_array(extents), std::to_array(strides), x.memory()};
}

// A tensor as one part of several that a launch may write.
template <class T, int N> Tensor<T, N + 1> asOnePart(const Tensor<T, N> &tensor) {
  std::array<std::int64_t, N + 1> extents{1}, strides{};
  std::ranges::copy(tensor.extents(), extents.begin() + 1);
  std::ranges::copy(tensor.strides(), strides.begin() + 1);
  return {tensor.data(), extents, strides, tensor.memory()};
}

constexpr std::int64_t ceilDiv(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

} // namespace sectile
