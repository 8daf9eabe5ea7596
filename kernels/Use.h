// What to do with a kernel and its arguments, so that each kernel of the registry states them once.
#pragma once
#include "kernels/Registry.h"
#include <algorithm>
#include <array>
#include <optional>
#include <sectile/sectile.h>

namespace sectile {

struct Use {
  const Stream *stream = nullptr;     // launch it there; or, without one,
  std::string target = "", form = ""; // give its code for this target in this form,
  std::string code = "";              // here; or
  std::optional<detail::BoundLaunch> *bound = nullptr; // keep the launch here

  template <class Kernel, class... Arguments>
  void operator()(const Kernel &kernel, Grid grid, const Arguments &...arguments) {
    if (bound)
      *bound = kernel.bind(grid, arguments...);
    else if (!stream)
      code = kernel.emit(target, form, arguments...);
    else
      kernel.launch(*stream, grid, arguments...);
  }
};

// Calls function with T{} of the list that dtype names.
template <class... T, class Function> void forDType(DType dtype, Function &&function) {
  (void)((dtype == dtype_of<T> && (function(T{}), true)) || ...);
}

template <Element T> Buffer<T> bufferOf(const detail::Memory &memory) { return Buffer<T>(memory); }

// Dense in row-major order; the memory may be none, where only code is asked for.
template <Element T, int N>
Tensor<T, N> tensorOf(const detail::Memory &memory, const std::array<std::int64_t, N> &extents) {
  std::array<std::int64_t, N> strides;
  std::int64_t stride = 1;
  for (std::size_t i = N; i-- > 0; stride *= std::max<std::int64_t>(extents[i], 1))
    strides[i] = stride;
  return {reinterpret_cast<T *>(memory.address()), extents, strides, memory};
}

constexpr std::int64_t ceilDiv(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

} // namespace sectile
