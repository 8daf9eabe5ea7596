// A device that does nothing: what is left of a launch is the host's part of it.
#ifndef SECTILE_BENCH_NULLDEVICE_H
#define SECTILE_BENCH_NULLDEVICE_H

#include "runtime/DeviceImpl.h"
#include <cstdlib>

namespace sectile::bench {

class NullDevice final : public runtime::DeviceImpl {
public:
  explicit NullDevice(const std::string &targetName) {
    name = "null";
    target = targetName;
  }
  static Device open(const std::string &target) {
    auto device = std::make_shared<NullDevice>(target);
    // Without a device of its own in it: nobody keeps this one open for ever.
    device->ownStream = Stream(std::make_shared<runtime::StreamImpl>(
        std::shared_ptr<DeviceImpl>(std::shared_ptr<void>(), device.get()), nullptr,
        runtime::StreamOwner::device));
    return Device(device);
  }

  MemoryInfo memory() override { return {}; }
  uint64_t allocate(size_t bytes) override {
    return reinterpret_cast<uint64_t>(std::aligned_alloc(256, (bytes + 255) / 256 * 256));
  }
  void free(uint64_t address) noexcept override { std::free(reinterpret_cast<void *>(address)); }
  void copyToDevice(uint64_t, const void *, size_t) override {}
  void copyToHost(void *, uint64_t, size_t) override {}
  void copyToDevice(uint64_t, const void *, size_t, void *) override {}
  void copyToHost(void *, uint64_t, size_t, void *) override {}
  void setAllocator(Allocator) override {}
  void copyOnDevice(uint64_t, uint64_t, size_t, void *) override {}
  void copyFromOther(uint64_t, DeviceImpl &, uint64_t, size_t, void *) override {}
  void fill(uint64_t, const void *, size_t, size_t, void *) override {}
  void synchronize() override {}
  void *createStream() override { return nullptr; }
  void destroyStream(void *) noexcept override {}
  void synchronizeStream(void *) override {}
  void *createEvent(bool) override { return nullptr; }
  void destroyEvent(void *) noexcept override {}
  void recordEvent(void *, void *) override {}
  void synchronizeEvent(void *) override {}
  bool eventDone(void *) override { return true; }
  void waitEvent(void *, void *) override {}
  float elapsedMilliseconds(void *, void *) override { return 0; }
  void beginCapture(void *) override {}
  void *endCapture(void *) override { return nullptr; }
  uint64_t captureOf(void *) override { return 0; }
  void launchGraph(void *, void *) override {}
  void destroyGraph(void *) noexcept override {}
  std::shared_ptr<runtime::LoadedKernel> load(const Artifact &artifact) override {
    return std::make_shared<runtime::LoadedKernel>(artifact);
  }
  void launch(const runtime::LoadedKernel &, const runtime::GridExtents &, void **,
              void *) override {
    ++launches;
  }

  size_t launches = 0;
};

} // namespace sectile::bench

#endif
