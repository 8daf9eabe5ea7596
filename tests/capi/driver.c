// sectile.h without the compiler, on a driver with two devices whose second launch faults: statuses
// that a working device does not give. driver BUNDLE  Prints "all right", or the line that was not.
#include "check.h"

static void otherDevices(sectile_stream *stream, sectile_stream *other) {
  sectile_event *from = NULL, *to = NULL, *untimed = NULL;
  OK(sectile_stream_record(stream, 1, &from));
  OK(sectile_stream_record(other, 1, &to));
  OK(sectile_stream_record(stream, 0, &untimed));
  float milliseconds = 0;
  FAILS(SECTILE_INVALID, "cuda:1", sectile_event_elapsed(from, to, &milliseconds));
  FAILS(SECTILE_INVALID, "timed", sectile_event_elapsed(from, untimed, &milliseconds));
  OK(sectile_stream_wait(other, from)); // of one driver's devices
  sectile_graph *graph = NULL;
  OK(sectile_capture_begin(stream));
  OK(sectile_capture_end(stream, &graph));
  FAILS(SECTILE_INVALID, "cuda:1", sectile_graph_launch(graph, other));
  sectile_graph_release(graph);
  sectile_event_release(from);
  sectile_event_release(to);
  sectile_event_release(untimed);
}

static void withoutCompiler(sectile_device *device) {
  const sectile_op *op = NULL;
  OK(sectile_op_find("vector_add", &op));
  int64_t shape[] = {64};
  DLTensor x;
  memset(&x, 0, sizeof x);
  x.ndim = 1;
  x.dtype.code = kDLFloat;
  x.dtype.bits = 32;
  x.dtype.lanes = 1;
  x.shape = shape;
  const DLTensor *arguments[] = {&x, &x, NULL};
  const char *json = NULL;
  FAILS(SECTILE_UNSUPPORTED, "compiler",
        sectile_tune(op, device, arguments, 3, NULL, 0, NULL, 0, &json));
  EXPECT(!json);
  FAILS(SECTILE_UNSUPPORTED, "compiler", sectile_tuning_export(&json));
  FAILS(SECTILE_UNSUPPORTED, "compiler", sectile_tuning_import("{}"));
}

static void lost(sectile_device *device, sectile_stream *stream) {
  const sectile_kernel *kernel = NULL;
  OK(sectile_kernel_find("axpy", &kernel));
  void *memory = NULL;
  OK(sectile_alloc(device, 4096, &memory));
  sectile_value arguments[4];
  memset(arguments, 0, sizeof arguments);
  int64_t shape[] = {64};
  DLTensor x;
  memset(&x, 0, sizeof x);
  sectile_device_info_t info;
  info.size = sizeof info;
  OK(sectile_device_info(device, &info));
  x.data = memory;
  x.device = info.dlpack;
  x.ndim = 1;
  x.dtype.code = kDLFloat;
  x.dtype.bits = 64;
  x.dtype.lanes = 1;
  x.shape = shape;
  arguments[0].kind = arguments[1].kind = SECTILE_TENSOR;
  arguments[0].value.tensor = arguments[1].value.tensor = &x;
  arguments[2].kind = SECTILE_DOUBLE;
  arguments[3].kind = SECTILE_INT64;
  const uint32_t grid[] = {1, 1, 1};
  OK(sectile_kernel_launch(kernel, stream, grid, arguments, 4, NULL, 0));
  FAILS(SECTILE_LOST, "ILLEGAL_ADDRESS",
        sectile_kernel_launch(kernel, stream, grid, arguments, 4, NULL, 0));
  FAILS(SECTILE_LOST, "ILLEGAL_ADDRESS", sectile_device_synchronize(device));
  FAILS(SECTILE_LOST, "ILLEGAL_ADDRESS", sectile_stream_synchronize(stream));
}

int main(int argc, char **argv) {
  EXPECT(argc == 2);
  OK(sectile_bundle_load(argv[1]));
  sectile_device *device = NULL, *second = NULL;
  OK(sectile_device_open("cuda:0", &device));
  OK(sectile_device_open("cuda:1", &second));
  sectile_stream *stream = NULL, *other = NULL;
  OK(sectile_stream_new(device, &stream));
  OK(sectile_stream_new(second, &other));
  otherDevices(stream, other);
  withoutCompiler(device);
  lost(device, stream);
  sectile_stream_release(stream);
  sectile_stream_release(other);
  sectile_device_release(device);
  sectile_device_release(second);
  puts("all right");
  return 0;
}
