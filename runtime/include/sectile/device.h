// Devices: finding and opening them, what they can do, and the way to memory and streams on them.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <sectile/error.h>
#include <sectile/types.h>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sectile {

namespace runtime {
class DeviceImpl;
}
class Stream;
template <Element T> class Buffer;
template <Element T> class HostBuffer;

// What a launch on a device may ask for, and what the device has.
struct DeviceLimits {
  unsigned warp_size = 32;
  unsigned max_threads = 1024;          // of one block
  std::size_t max_shared_bytes = 49152; // of one block
  unsigned multiprocessors = 1;
  double memory_gigabytes = 0; // per second, as the driver says; 0 where it does not
  unsigned max_grid[3] = {0x7fff'ffff, 65535, 65535};
};

struct MemoryInfo {
  std::size_t free_bytes, total_bytes;
};

// Where a device's memory comes from in place of the driver: another library's allocator, say. Both
// functions may be called by any thread, and must not call Sectile.
struct Allocator {
  // Memory that is free for work in `stream`, a native stream of ours without any work of kernels.
  // The memory is then used in all streams. Throws where there is none.
  std::function<std::uint64_t(std::size_t bytes, void *stream)> allocate;
  // When all work has ended that uses it.
  std::function<void(std::uint64_t address, std::size_t bytes, void *stream)> free;
};

namespace detail {
// A container whose elements lie side by side in host memory.
template <class R>
concept HostRange = requires(const R &r) {
  { std::span(r) };
  requires Element<typename decltype(std::span(r))::element_type>;
};
template <HostRange R>
using HostElement =
    std::remove_cv_t<typename decltype(std::span(std::declval<const R &>()))::element_type>;
} // namespace detail

// A handle: copies are the same device. A name opened twice is the same device, too, and stays
// open until it is reset.
class Device {
public:
  // The first CUDA device, else the first HIP device, else the virtual GPU. SECTILE_DEVICE names
  // another.
  static Device best();
  // "cuda:0", "hip:1", "virtual:sm_90a", "virtual:gfx942" …, "interpreter"; throws DeviceError with
  // the reason, or the known names.
  static Device open(std::string_view name);
  // On a context that another library made, a CUcontext; for a green context what
  // cuCtxFromGreenCtx gives. It has to be there until the device is reset.
  static Device wrap(void *context);
  // Runs kernels as they are traced, one program at a time on the host: what the language means.
  static Device interpreter();
  // Every device that opens: the real ones, then a virtual one for each target, the interpreter.
  static std::vector<Device> all();

  const std::string &name() const;        // as open() takes it
  const std::string &description() const; // the product's name
  const std::string &target() const;      // what kernels are compiled for, as "sm_90a"
  const DeviceLimits &limits() const;
  MemoryInfo memory() const;

  const Stream &
  stream() const; // the device's own; launches and fills go there unless told otherwise
  Stream new_stream() const;
  void synchronize() const; // waits for all streams
  // Gives up all that the process has on the device: its memory, streams, code, of other libraries
  // too. Handles from before are of no more use; open() opens the device again, but for one of CUDA
  // after an error inside a kernel. A wrapped context is given up and not destroyed.
  void reset() const;

  template <Element T> Buffer<T> allocate(std::size_t count) const; // contents undefined
  template <detail::HostRange R> Buffer<detail::HostElement<R>> upload(const R &values) const;
  Buffer<bool> upload(const std::vector<bool> &values) const; // whose elements are no bytes

  // Host memory that the device copies from and to while the host goes on.
  template <Element T> HostBuffer<T> allocate_host(std::size_t count) const;
  // For allocations from now on; without functions: the driver's memory again.
  void set_allocator(Allocator allocator) const;
  // Gives the driver back what the device keeps for allocations to come.
  void trim() const;

  friend bool operator==(const Device &, const Device &) = default;

  explicit Device(std::shared_ptr<runtime::DeviceImpl> impl) : impl_(std::move(impl)) {}
  const std::shared_ptr<runtime::DeviceImpl> &impl() const { return impl_; }

private:
  std::shared_ptr<runtime::DeviceImpl> impl_;
};

} // namespace sectile
