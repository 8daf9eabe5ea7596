// Devices of the C interface.
#include "capi/Handles.h"
#include "runtime/CompilerLink.h"
#include <cstdlib>
#include <cstring>
#include <vector>

using namespace sectile;

namespace {

bool runsOnHost(std::string_view name) {
  return name == "interpreter" || name.starts_with("virtual");
}

Device openDevice(const char *name) {
  try {
    return name ? Device::open(name) : Device::best();
  } catch (const DeviceError &error) {
    if (!runtime::compiler() && (!name || runsOnHost(name)))
      throw c::Refusal(SECTILE_UNSUPPORTED, error.what());
    throw;
  }
}

// The names that sectile_device_names() gave this thread.
struct Names {
  std::vector<std::string> texts;
  std::vector<const char *> list;
};

} // namespace

extern "C" {

sectile_status sectile_device_open(const char *name, sectile_device **device) {
  if (device)
    *device = nullptr;
  return c::guard([&] {
    c::require(device, "sectile_device_open: device");
    *device = new sectile_device(openDevice(name));
  });
}

sectile_status sectile_device_names(const char *const **names) {
  return c::guard([&] {
    c::require(names, "sectile_device_names: names");
    thread_local Names last;
    Names found;
    for (const Device &device : Device::all())
      found.texts.push_back(device.name());
    for (const std::string &text : found.texts)
      found.list.push_back(text.c_str());
    found.list.push_back(nullptr);
    last = std::move(found);
    *names = last.list.data();
  });
}

sectile_status sectile_device_wrap(void *context, sectile_device **device) {
  if (device)
    *device = nullptr;
  return c::guard([&] {
    c::require(device, "sectile_device_wrap: device");
    c::require(context, "sectile_device_wrap: context");
    *device = new sectile_device(Device::wrap(context));
  });
}

sectile_status sectile_device_from_dlpack(DLDevice dlpack, sectile_device **device) {
  if (device)
    *device = nullptr;
  return c::guard([&] {
    c::require(device, "sectile_device_from_dlpack: device");
    const std::string index = std::to_string(dlpack.device_id);
    std::string name;
    switch (static_cast<int>(dlpack.device_type)) {
    case kDLCUDA:
      name = "cuda:" + index;
      break;
    case kDLROCM:
      name = "hip:" + index;
      break;
    case kDLCPU: {
      const char *wanted = std::getenv("SECTILE_DEVICE");
      name = wanted && runsOnHost(wanted) ? wanted : "virtual:sm_90a";
      break;
    }
    default:
      throw c::Refusal(SECTILE_UNSUPPORTED,
                       "sectile_device_from_dlpack: no device of Sectile's has "
                       "tensors of DLPack's kind of device " +
                           std::to_string(static_cast<int>(dlpack.device_type)) +
                           ": it takes kDLCUDA, kDLROCM and kDLCPU");
    }
    *device = new sectile_device(openDevice(name.c_str()));
  });
}

void sectile_device_retain(sectile_device *device) {
  if (device)
    device->owners.fetch_add(1, std::memory_order_relaxed);
}

void sectile_device_release(sectile_device *device) {
  if (device && device->owners.fetch_sub(1, std::memory_order_acq_rel) == 1)
    delete device;
}

sectile_status sectile_device_info(sectile_device *device, sectile_device_info_t *info) {
  return c::guard(
      [&] {
        c::require(device, "sectile_device_info: device");
        c::require(info, "sectile_device_info: info");
        if (info->size < sizeof *info)
          throw c::Refusal(SECTILE_INVALID,
                           "sectile_device_info: info->size is " + std::to_string(info->size) +
                               "; set it to sizeof(sectile_device_info_t), which is " +
                               std::to_string(sizeof *info));
        const Device &of = device->device;
        const DeviceLimits &limits = of.limits();
        const MemoryInfo memory = of.memory();
        info->name = of.name().c_str();
        info->description = of.description().c_str();
        info->target = of.target().c_str();
        info->dlpack.device_type = static_cast<DLDeviceType>(of.impl()->dlpackDevice);
        info->dlpack.device_id = of.impl()->dlpackIndex;
        info->on_host = of.impl()->dlpackDevice == kDLCPU;
        info->warp_size = limits.warp_size;
        info->max_threads = limits.max_threads;
        info->multiprocessors = limits.multiprocessors;
        std::memcpy(info->max_grid, limits.max_grid, sizeof info->max_grid);
        info->max_shared_bytes = limits.max_shared_bytes;
        info->gigabytes_per_second = limits.memory_gigabytes;
        info->free_bytes = memory.free_bytes;
        info->total_bytes = memory.total_bytes;
      },
      c::implOf(device));
}

sectile_status sectile_device_synchronize(sectile_device *device) {
  return c::guard(
      [&] {
        c::require(device, "sectile_device_synchronize: device");
        device->device.synchronize();
      },
      c::implOf(device));
}

sectile_status sectile_device_set_allocator(sectile_device *device,
                                            const sectile_allocator *allocator) {
  return c::guard(
      [&] {
        c::require(device, "sectile_device_set_allocator: device");
        if (!allocator)
          return device->device.set_allocator({});
        if (allocator->size < sizeof *allocator)
          throw c::Refusal(SECTILE_INVALID, "sectile_device_set_allocator: allocator->size is " +
                                                std::to_string(allocator->size) +
                                                "; set it to sizeof(sectile_allocator), which is " +
                                                std::to_string(sizeof *allocator));
        c::require(reinterpret_cast<const void *>(allocator->allocate),
                   "sectile_device_set_allocator: allocator->allocate");
        c::require(reinterpret_cast<const void *>(allocator->free),
                   "sectile_device_set_allocator: allocator->free");
        device->device.set_allocator(
            {.allocate =
                 [own = *allocator](std::size_t bytes, void *stream) {
                   return reinterpret_cast<std::uint64_t>(own.allocate(bytes, stream, own.user));
                 },
             .free =
                 [own = *allocator](std::uint64_t address, std::size_t bytes, void *stream) {
                   own.free(reinterpret_cast<void *>(address), bytes, stream, own.user);
                 }});
      },
      c::implOf(device));
}

sectile_status sectile_device_trim(sectile_device *device) {
  return c::guard(
      [&] {
        c::require(device, "sectile_device_trim: device");
        device->device.trim();
      },
      c::implOf(device));
}

} // extern "C"
