// The library's kernels from C++, by name: tensors of any kind in, tensors out.
#pragma once
#include <cstdint>
#include <map>
#include <sectile/tensor.h>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace sectile {

// A Tensor<T, N> of any T and N. A handle on its memory, like those. Extents and strides count
// elements.
struct AnyTensor {
  DType dtype = DType::float32;
  std::uint64_t address = 0;
  std::vector<std::int64_t> extents, strides;
  detail::Memory memory = {};
  bool read_only = false; // made of a Tensor<const T, N>, or of constant memory by from_dlpack()

  AnyTensor() = default;
  template <Element T, int N>
  AnyTensor(const Tensor<T, N> &tensor)
      : dtype(dtype_of<std::remove_const_t<T>>),
        address(reinterpret_cast<std::uintptr_t>(tensor.data())),
        extents(tensor.extents().begin(), tensor.extents().end()),
        strides(tensor.strides().begin(), tensor.strides().end()), memory(tensor.memory()),
        read_only(std::is_const_v<T>) {}

  // Throws LaunchError if its elements or its rank are others, or if it is read-only and T is not
  // const.
  template <Element T, int N> Tensor<T, N> as() const {
    check(dtype_of<std::remove_const_t<T>>, N, !std::is_const_v<T>);
    std::array<std::int64_t, N> lengths, steps;
    for (std::size_t i = 0; i < N; ++i) {
      lengths[i] = extents[i];
      steps[i] = strides[i];
    }
    return {reinterpret_cast<T *>(address), lengths, steps, memory};
  }

private:
  void check(DType wanted, int rank, bool isWritten) const;
};

namespace detail {
// An input of a typed function, which takes no part in finding T.
template <class T, int N>
using KernelInput = std::type_identity_t<Tensor<const std::remove_const_t<T>, N>>;
} // namespace detail

using NamedTensors = std::map<std::string, AnyTensor, std::less<>>;
using KernelOptions = std::map<std::string, std::string, std::less<>>;

// Runs a kernel of the library: `sectile list NAME` says its inputs, outputs and options. Inputs
// may have any strides where the kernel's page does not say otherwise; optional ones may be left
// out. Outputs are allocated on the stream's device, dense, except those in `given`. Launches and
// does not wait. The configuration is the best known for such shapes, else the kernel's own choice;
// SECTILE_AUTOTUNE=off takes always that. Throws LaunchError for arguments that the kernel does not
// take, and for a given output that shares memory with another output or with an input, unless it
// is exactly an input that the kernel may overwrite (docs/kernels.md).
NamedTensors run_kernel(const Stream &stream, std::string_view kernel, const NamedTensors &inputs,
                        const KernelOptions &options = {}, const NamedTensors &given = {});

// A call of which all is settled: the configuration, the code, the scratch memory, the outputs. A
// handle, which keeps them and the inputs' memory.
class PreparedCall {
public:
  // The call, on the tensors that it was prepared with. Launches and does not wait. All launches of
  // one call share its scratch memory: those in several streams must be ordered.
  void launch(const Stream &stream) const;
  const NamedTensors &outputs() const;

  struct State;
  explicit PreparedCall(std::shared_ptr<const State> state) : state_(std::move(state)) {}

private:
  std::shared_ptr<const State> state_;
};

// What run_kernel does with these arguments, but for the launch.
PreparedCall prepare_kernel(const Device &device, std::string_view kernel,
                            const NamedTensors &inputs, const KernelOptions &options = {},
                            const NamedTensors &given = {});

} // namespace sectile
