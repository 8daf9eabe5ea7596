// What the C interface's handles are.
#pragma once
#include "capi/Status.h"
#include <atomic>
#include <memory>
#include <sectile/stream.h>

struct sectile_device {
  explicit sectile_device(sectile::Device device) : device(std::move(device)) {}

  const sectile::Device device;
  std::atomic<unsigned> owners = 1;
};

struct sectile_stream {
  explicit sectile_stream(sectile::Stream stream) : stream(std::move(stream)) {}

  const sectile::Stream stream;
  unsigned owners = 1; // of a wrapped stream; guarded by the list of these
  bool isWrapped = false;
};

struct sectile_event {
  sectile::Event event;
};

struct sectile_graph {
  sectile::Graph graph;
  const std::shared_ptr<sectile::runtime::DeviceImpl> device;
};

namespace sectile::c {

inline const runtime::DeviceImpl *implOf(const sectile_device *device) {
  return device ? device->device.impl().get() : nullptr;
}
inline const runtime::DeviceImpl *implOf(const sectile_stream *stream) {
  return stream ? stream->stream.impl()->device.get() : nullptr;
}

} // namespace sectile::c
