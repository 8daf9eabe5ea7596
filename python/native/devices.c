// Devices, and streams of frameworks: each gets one handle of the library, which is kept.
#include "native.h"
#include <pthread.h>
#include <stdlib.h>

typedef struct {
  DLDevice dlpack;
  void *native;
  place where;
} known;
static known *knowns;
static size_t known_count, known_room;
static sectile_device *host_device;                      // NULL: the library's choice
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; // of all these

static sectile_status learn(DLDevice dlpack, void *native, place *to) {
  sectile_status status = SECTILE_OK;
  if (known_count == known_room) {
    known *more = realloc(knowns, sizeof *knowns * (2 * known_room + 8));
    if (!more)
      return SECTILE_MEMORY;
    knowns = more;
    known_room = 2 * known_room + 8;
  }
  if (dlpack.device_type == kDLCPU && host_device)
    to->device = host_device;
  else if ((status = library.sectile_device_from_dlpack(dlpack, &to->device)) != SECTILE_OK)
    return status;
  // Nothing else is asked of the device: the stream may be in a capture that the library has not
  // been told of yet.
  to->on_host = dlpack.device_type == kDLCPU;
  status = to->on_host ? library.sectile_stream_new(to->device, &to->stream)
                       : library.sectile_stream_wrap(to->device, native, &to->stream);
  if (status == SECTILE_OK)
    knowns[known_count++] = (known){dlpack, native, *to};
  return status;
}

sectile_status place_of(DLDevice device, void *native, place *to) {
  pthread_mutex_lock(&lock);
  size_t i = 0;
  while (i < known_count &&
         (knowns[i].native != native || knowns[i].dlpack.device_type != device.device_type ||
          knowns[i].dlpack.device_id != device.device_id))
    ++i;
  sectile_status status = SECTILE_OK;
  if (i < known_count)
    *to = knowns[i].where;
  else
    status = learn(device, native, to);
  pthread_mutex_unlock(&lock);
  return status;
}

bool order_after_default(DLDevice device, void *native) {
  place ours, other;
  sectile_event *event = NULL;
  if (!native)
    return true;
  const bool done = succeeded(place_of(device, NULL, &ours)) &&
                    succeeded(place_of(device, native, &other)) &&
                    succeeded(library.sectile_stream_record(ours.stream, 0, &event)) &&
                    succeeded(library.sectile_stream_wait(other.stream, event));
  library.sectile_event_release(event);
  return done;
}

bool current_place(DLDevice device, const producer *from, place *to) {
  void *native = NULL;
  if (device.device_type != kDLCPU && from && from->kind == by_exchange_api &&
      from->api->current_work_stream &&
      from->api->current_work_stream(device.device_type, device.device_id, &native) != 0) {
    if (!PyErr_Occurred())
      PyErr_SetString(PyExc_RuntimeError, "the framework of the inputs has no current stream");
    return false;
  }
  return succeeded(place_of(device, native, to));
}

bool set_host_device(const char *name) {
  sectile_device *device = NULL;
  if (name) {
    if (!succeeded(library.sectile_device_open(name, &device)))
      return false;
    sectile_device_info_t info = {.size = sizeof info};
    if (!succeeded(library.sectile_device_info(device, &info)))
      return false;
    if (!info.on_host) {
      PyErr_Format(PyExc_ValueError,
                   "%s does not run on the host: give it tensors in its own memory", name);
      return false;
    }
  }
  pthread_mutex_lock(&lock);
  host_device = device;
  // Handles of the old one stay with calls that are under way.
  size_t kept = 0;
  for (size_t i = 0; i < known_count; ++i)
    if (knowns[i].dlpack.device_type != kDLCPU)
      knowns[kept++] = knowns[i];
  known_count = kept;
  pthread_mutex_unlock(&lock);
  return true;
}
