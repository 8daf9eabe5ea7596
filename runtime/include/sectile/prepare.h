// Preparing: all that a launch does the first time (compile, load, choose a configuration, allocate
// scratch memory), done beforehand. What was prepared can be captured.
#pragma once
#include <initializer_list>
#include <sectile/kernel.h>

namespace sectile {

// While it lives, this thread's launches of kernels, those of library calls too, are prepared and
// not run.
class Preparing {
public:
  Preparing();
  Preparing(const Preparing &) = delete;
  ~Preparing();

private:
  const bool before_;
};

// Prepares what the function launches: prepare([&] { attention(stream, q, k, v); }).
template <class F> auto prepare(F &&launches) {
  const Preparing preparing;
  return launches();
}

// Prepares every version of the kernel that launches like this one can need as the integers among
// these arguments take other values, and the extents of views among them: arguments are counted
// from 0, fields of structs one by one. Kernels have versions for integers that are 1, multiples of
// 16, multiples of 8, and others; a Varying<T> has none. Throws LaunchError for an argument that
// the kernel does not have, and for more than 64 versions.
void prepare_versions(const Device &device, const detail::BoundLaunch &launch,
                      std::initializer_list<std::size_t> arguments);

// A launch of which all is settled: PreparedLaunch(device, kernel.bind(grid, x, y, n)). The kernel
// and what the arguments point to must be there when it is launched.
class PreparedLaunch {
public:
  PreparedLaunch(const Device &device, detail::BoundLaunch launch);

  void launch(const Stream &stream) const;

private:
  detail::BoundLaunch bound_;
  std::shared_ptr<const runtime::LoadedKernel> code_;
  std::shared_ptr<runtime::DeviceImpl> device_;
};

} // namespace sectile
