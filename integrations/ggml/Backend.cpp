// A ggml backend over sectile.h: the registry, devices, buffers and streams that ggml asks for.
// What a node of a graph is in calls of Sectile is in Operations.h.
#include "Operations.h"
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ggml-backend-impl.h>
#include <memory>
#include <sectile/register_kernel.h>
#include <string>
#include <vector>

namespace {

// ggml frees neither devices nor what it knows of them: all this lives as long as the process.
struct Device {
  // All work on a device is in one stream, so that buffers and graphs need no events between them.
  ggml_sectile::Place place;
  std::string name, description;
  ggml_backend_device ggml{};
  ggml_backend_buffer_type buffers{};
};

Device &deviceOf(ggml_backend_dev_t device) { return *static_cast<Device *>(device->context); }
Device &deviceOf(ggml_backend_buffer_t buffer) { return deviceOf(buffer->buft->device); }
Device &deviceOf(ggml_backend_t backend) { return deviceOf(backend->device); }

void log(ggml_log_level level, const std::string &text) {
  ggml_log_callback callback = nullptr;
  void *user = nullptr;
  ggml_log_get(&callback, &user);
  callback(level, ("Sectile: " + text + "\n").c_str(), user);
}

// Where ggml's interface has no way to tell of a failure, the process ends, as with ggml's own
// backends.
void expect(sectile_status status, const char *what) {
  if (status != SECTILE_OK)
    GGML_ABORT("Sectile: %s: %s: %s", what, sectile_status_name(status), sectile_error());
}

// Buffers

void freeBuffer(ggml_backend_buffer_t buffer) {
  expect(sectile_free(deviceOf(buffer).place.device, buffer->context), "freeing a buffer");
}

void *baseOf(ggml_backend_buffer_t buffer) { return buffer->context; }

void *at(const ggml_tensor *tensor, size_t offset) {
  return static_cast<char *>(tensor->data) + offset;
}

void fill(ggml_backend_buffer_t buffer, void *memory, uint8_t value, size_t bytes) {
  Device &device = deviceOf(buffer);
  expect(sectile_fill(device.place.stream, memory, &value, 1, bytes), "filling memory");
  expect(sectile_stream_synchronize(device.place.stream), "filling memory");
}

void setMemory(ggml_backend_buffer_t buffer, ggml_tensor *tensor, uint8_t value, size_t offset,
               size_t bytes) {
  fill(buffer, at(tensor, offset), value, bytes);
}

void setTensor(ggml_backend_buffer_t buffer, ggml_tensor *tensor, const void *data, size_t offset,
               size_t bytes) {
  expect(sectile_copy(deviceOf(buffer).place.stream, at(tensor, offset), data, bytes,
                      SECTILE_TO_DEVICE),
         "a copy to the device");
}

void getTensor(ggml_backend_buffer_t buffer, const ggml_tensor *tensor, void *data, size_t offset,
               size_t bytes) {
  expect(
      sectile_copy(deviceOf(buffer).place.stream, data, at(tensor, offset), bytes, SECTILE_TO_HOST),
      "a copy to the host");
}

bool copyTensor(ggml_backend_buffer_t buffer, const ggml_tensor *from, ggml_tensor *to) {
  const ggml_backend_buffer_t source = from->view_src ? from->view_src->buffer : from->buffer;
  if (source->buft != buffer->buft)
    return false;
  sectile_stream *stream = deviceOf(buffer).place.stream;
  expect(sectile_copy(stream, to->data, from->data, ggml_nbytes(from), SECTILE_ON_DEVICE),
         "a copy on the device");
  expect(sectile_stream_synchronize(stream), "a copy on the device");
  return true;
}

void clear(ggml_backend_buffer_t buffer, uint8_t value) {
  fill(buffer, buffer->context, value, buffer->size);
}

const ggml_backend_buffer_i bufferFunctions{.free_buffer = freeBuffer,
                                            .get_base = baseOf,
                                            .init_tensor = nullptr,
                                            .memset_tensor = setMemory,
                                            .set_tensor = setTensor,
                                            .get_tensor = getTensor,
                                            .set_tensor_2d = nullptr,
                                            .get_tensor_2d = nullptr,
                                            .cpy_tensor = copyTensor,
                                            .clear = clear,
                                            .reset = nullptr};

const char *bufferTypeName(ggml_backend_buffer_type_t type) {
  return deviceOf(type->device).name.c_str();
}

ggml_backend_buffer_t allocate(ggml_backend_buffer_type_t type, size_t bytes) {
  void *memory = nullptr;
  if (sectile_alloc(deviceOf(type->device).place.device, std::max<size_t>(bytes, 1), &memory) !=
      SECTILE_OK) {
    log(GGML_LOG_LEVEL_ERROR, sectile_error());
    return nullptr;
  }
  return ggml_backend_buffer_init(type, bufferFunctions, memory, bytes);
}

size_t alignment(ggml_backend_buffer_type_t) { return 256; }

// Backends

ggml_guid *guid() {
  static ggml_guid id{0x5e, 0xc7, 0x11, 0x1e, 0x9d, 0x02, 0x4b, 0x61,
                      0xa3, 0x58, 0x0f, 0x7a, 0xc4, 0x36, 0xe2, 0x90};
  return &id;
}

const char *backendName(ggml_backend_t backend) { return deviceOf(backend).name.c_str(); }

void freeBackend(ggml_backend_t backend) {
  expect(sectile_stream_synchronize(deviceOf(backend).place.stream), "the end of a backend");
  delete backend;
}

void synchronize(ggml_backend_t backend) {
  expect(sectile_stream_synchronize(deviceOf(backend).place.stream), "waiting for the device");
}

ggml_status compute(ggml_backend_t backend, ggml_cgraph *graph) {
  Device &device = deviceOf(backend);
  for (int i = 0; i < ggml_graph_n_nodes(graph); ++i) {
    const ggml_tensor *node = ggml_graph_node(graph, i);
    if (!(node->flags & GGML_TENSOR_FLAG_COMPUTE))
      continue;
    try {
      ggml_sectile::run(device.place, *node);
    } catch (const std::exception &error) {
      log(GGML_LOG_LEVEL_ERROR,
          std::string(ggml_op_desc(node)) + " (" + node->name + "): " + error.what());
      return GGML_STATUS_FAILED;
    }
  }
  return GGML_STATUS_SUCCESS;
}

// Devices

const char *deviceName(ggml_backend_dev_t device) { return deviceOf(device).name.c_str(); }
const char *deviceDescription(ggml_backend_dev_t device) {
  return deviceOf(device).description.c_str();
}

void deviceMemory(ggml_backend_dev_t device, size_t *free, size_t *total) {
  sectile_device_info_t info{};
  info.size = sizeof info;
  expect(sectile_device_info(deviceOf(device).place.device, &info), "asking for a device's memory");
  *free = info.free_bytes;
  *total = info.total_bytes;
}

enum ggml_backend_dev_type deviceType(ggml_backend_dev_t) { return GGML_BACKEND_DEVICE_TYPE_GPU; }

void deviceProperties(ggml_backend_dev_t device, ggml_backend_dev_props *properties) {
  *properties = {};
  properties->name = deviceName(device);
  properties->description = deviceDescription(device);
  properties->type = deviceType(device);
  deviceMemory(device, &properties->memory_free, &properties->memory_total);
}

ggml_backend_t initBackend(ggml_backend_dev_t device, const char *) {
  ggml_backend_i functions{};
  functions.get_name = backendName;
  functions.free = freeBackend;
  functions.synchronize = synchronize;
  functions.graph_compute = compute;
  return new ggml_backend{.guid = guid(), .iface = functions, .device = device, .context = nullptr};
}

ggml_backend_buffer_type_t bufferType(ggml_backend_dev_t device) {
  return &deviceOf(device).buffers;
}

bool supportsOperation(ggml_backend_dev_t device, const ggml_tensor *node) {
  return ggml_sectile::supports(deviceOf(device).place, *node);
}

bool supportsBufferType(ggml_backend_dev_t device, ggml_backend_buffer_type_t type) {
  return type == &deviceOf(device).buffers;
}

// The registry

const char *registryName(ggml_backend_reg_t) { return "Sectile"; }

std::unique_ptr<Device> open(const std::string &name, size_t number, ggml_backend_reg_t registry) {
  auto device = std::make_unique<Device>();
  sectile_device_info_t info{};
  info.size = sizeof info;
  if (sectile_device_open(name.c_str(), &device->place.device) != SECTILE_OK ||
      sectile_stream_new(device->place.device, &device->place.stream) != SECTILE_OK ||
      sectile_device_info(device->place.device, &info) != SECTILE_OK) {
    log(GGML_LOG_LEVEL_ERROR, sectile_error());
    return nullptr;
  }
  device->place.dlpack = info.dlpack;
  device->name = "Sectile" + std::to_string(number);
  device->description = std::string(info.description) + " (" + info.name + ")";
  ggml_backend_device_i functions{};
  functions.get_name = deviceName;
  functions.get_description = deviceDescription;
  functions.get_memory = deviceMemory;
  functions.get_type = deviceType;
  functions.get_props = deviceProperties;
  functions.init_backend = initBackend;
  functions.get_buffer_type = bufferType;
  functions.supports_op = supportsOperation;
  functions.supports_buft = supportsBufferType;
  device->ggml = {.iface = functions, .reg = registry, .context = device.get()};
  ggml_backend_buffer_type_i buffers{};
  buffers.get_name = bufferTypeName;
  buffers.alloc_buffer = allocate;
  buffers.get_alignment = alignment;
  device->buffers = {.iface = buffers, .device = &device->ggml, .context = nullptr};
  return device;
}

// SECTILE_GGML_DEVICE names the devices, separated by commas; else all GPUs, as a CPU is better off
// without the virtual ones.
std::vector<std::string> wantedDevices() {
  std::vector<std::string> names;
  if (const char *wanted = std::getenv("SECTILE_GGML_DEVICE"); wanted && *wanted) {
    const std::string list = wanted;
    for (size_t begin = 0; begin <= list.size();) {
      const size_t end = std::min(list.find(',', begin), list.size());
      names.push_back(list.substr(begin, end - begin));
      begin = end + 1;
    }
    return names;
  }
  const char *const *all = nullptr;
  if (sectile_device_names(&all) != SECTILE_OK) {
    log(GGML_LOG_LEVEL_ERROR, sectile_error());
    return names;
  }
  for (; *all; ++all)
    if (!std::strncmp(*all, "cuda:", 5) || !std::strncmp(*all, "hip:", 4))
      names.emplace_back(*all);
  return names;
}

struct Registry {
  ggml_backend_reg ggml{};
  std::vector<std::unique_ptr<Device>> devices;

  Registry();
};

Registry &registry() {
  static auto *const only = new Registry;
  return *only;
}

size_t deviceCount(ggml_backend_reg_t) { return registry().devices.size(); }
ggml_backend_dev_t deviceAt(ggml_backend_reg_t, size_t index) {
  return &registry().devices.at(index)->ggml;
}

Registry::Registry() {
  ggml.api_version = GGML_BACKEND_API_VERSION;
  ggml.iface.get_name = registryName;
  ggml.iface.get_device_count = deviceCount;
  ggml.iface.get_device = deviceAt;
  if (sectile_require(SECTILE_VERSION) != SECTILE_OK) {
    log(GGML_LOG_LEVEL_ERROR, sectile_error());
    return;
  }
  try {
    sectile_register_kernels();
  } catch (const std::exception &error) {
    log(GGML_LOG_LEVEL_ERROR, error.what());
    return;
  }
  for (const std::string &name : wantedDevices())
    if (auto device = open(name, devices.size(), &ggml))
      devices.push_back(std::move(device));
}

} // namespace

extern "C" {
GGML_BACKEND_API ggml_backend_reg_t ggml_backend_init() { return &registry().ggml; }
// 0 where there is nothing to run on: ggml then goes on without this backend.
GGML_BACKEND_API int ggml_backend_score() { return registry().devices.empty() ? 0 : 1; }
}
