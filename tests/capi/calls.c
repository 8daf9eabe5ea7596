// sectile.h from C11: a call of each function, every status that a program can provoke, threads.
// calls DEVICE LIBRARY Prints "all right" at the end, or the line that was not.
#include "check.h"
#include <pthread.h>

enum { ROWS = 3, COLUMNS = 64, COUNT = ROWS * COLUMNS };

static DLTensor matrix(DLDevice device, void *data, int64_t *shape) {
  DLTensor tensor;
  memset(&tensor, 0, sizeof tensor);
  tensor.device = device;
  tensor.data = data;
  tensor.ndim = 2;
  tensor.dtype.code = kDLFloat;
  tensor.dtype.bits = 32;
  tensor.dtype.lanes = 1;
  tensor.shape = shape;
  return tensor;
}

static void versionsAndErrors(void) {
  EXPECT(sectile_version() == SECTILE_VERSION);
  OK(sectile_require(SECTILE_VERSION));
  FAILS(SECTILE_UNSUPPORTED, "version", sectile_require(SECTILE_VERSION + 100));
  FAILS(SECTILE_UNSUPPORTED, "version", sectile_require(SECTILE_VERSION + 1));
  EXPECT(!strcmp(sectile_status_name(SECTILE_OK), "SECTILE_OK"));
  EXPECT(!strcmp(sectile_status_name(SECTILE_INTERNAL), "SECTILE_INTERNAL"));
  EXPECT(!strcmp(sectile_status_name((sectile_status)1000), "SECTILE_UNKNOWN"));
}

static void devices(sectile_device *device) {
  sectile_device *other = NULL;
  FAILS(SECTILE_DEVICE, "nonsense", sectile_device_open("nonsense", &other));
  EXPECT(!other);
  const char *const *names = NULL;
  OK(sectile_device_names(&names));
  int found = 0;
  for (; *names; ++names)
    found |= !strcmp(*names, "interpreter");
  EXPECT(found);
  sectile_device_info_t info;
  memset(&info, 0, sizeof info);
  FAILS(SECTILE_INVALID, "size", sectile_device_info(device, &info));
  info.size = sizeof info;
  OK(sectile_device_info(device, &info));
  EXPECT(info.on_host == 1 && info.warp_size > 0 && info.total_bytes > 0);
  sectile_device_retain(device);
  sectile_device_release(device);
  DLDevice alien = {kDLVulkan, 0};
  FAILS(SECTILE_UNSUPPORTED, "", sectile_device_from_dlpack(alien, &other));
  OK(sectile_device_from_dlpack(info.dlpack, &other));
  sectile_device_release(other);
  OK(sectile_device_synchronize(device));
  OK(sectile_device_trim(device));
  sectile_device_release(NULL);
}

static void memory(sectile_device *device, sectile_stream *stream) {
  void *place = NULL, *another = NULL;
  OK(sectile_alloc(device, 0, &place));
  EXPECT(!place);
  OK(sectile_free(device, NULL));
  FAILS(SECTILE_MEMORY, "bytes", sectile_alloc(device, (size_t)1 << 60, &place));
  OK(sectile_alloc(device, 400, &place));
  OK(sectile_alloc(device, 400, &another));
  const float pattern = 2.5f;
  float host[100] = {0};
  OK(sectile_fill(stream, place, &pattern, sizeof pattern, 100));
  FAILS(SECTILE_INVALID, "1, 2, 4 or 8", sectile_fill(stream, place, &pattern, 3, 1));
  OK(sectile_copy(stream, another, place, 400, SECTILE_ON_DEVICE));
  OK(sectile_copy(stream, host, another, 400, SECTILE_TO_HOST));
  EXPECT(host[0] == 2.5f && host[99] == 2.5f);
  FAILS(SECTILE_INVALID, "", sectile_free(device, host));
  OK(sectile_free(device, place));
  OK(sectile_free(device, another));
}

// A softmax by one call, by one that is prepared, and by a graph; then in several streams' threads.
typedef struct Softmax {
  sectile_device *device;
  sectile_stream *stream;
  DLTensor x, y;
  int64_t shape[2];
} Softmax;

static void expectRows(const Softmax *of) {
  float result[COUNT];
  OK(sectile_copy(of->stream, result, of->y.data, sizeof result, SECTILE_TO_HOST));
  for (int row = 0; row < ROWS; ++row) {
    float sum = 0;
    for (int column = 0; column < COLUMNS; ++column)
      sum += result[row * COLUMNS + column];
    EXPECT(sum > 0.9999f && sum < 1.0001f);
    // Elements rise by 1/8 along a row.
    EXPECT(result[row * COLUMNS + 1] > 1.1331f * result[row * COLUMNS] &&
           result[row * COLUMNS + 1] < 1.1332f * result[row * COLUMNS]);
  }
}

static void clear(const Softmax *of) {
  const uint32_t nothing = 0;
  OK(sectile_fill(of->stream, of->y.data, &nothing, 4, COUNT));
}

static void begin(Softmax *of, sectile_device *device) {
  sectile_device_info_t info;
  info.size = sizeof info;
  OK(sectile_device_info(device, &info));
  of->device = device;
  of->shape[0] = ROWS, of->shape[1] = COLUMNS;
  OK(sectile_stream_new(device, &of->stream));
  float rows[COUNT];
  for (int i = 0; i < COUNT; ++i)
    rows[i] = (float)(i % COLUMNS) / 8;
  of->x = matrix(info.dlpack, NULL, of->shape);
  of->y = of->x;
  OK(sectile_alloc(device, sizeof rows, &of->x.data));
  OK(sectile_alloc(device, sizeof rows, &of->y.data));
  OK(sectile_copy(of->stream, of->x.data, rows, sizeof rows, SECTILE_TO_DEVICE));
  clear(of);
}

static void end(Softmax *of) {
  OK(sectile_free(of->device, of->x.data));
  OK(sectile_free(of->device, of->y.data));
  sectile_stream_release(of->stream);
}

static void operations(sectile_device *device) {
  const sectile_op *op = NULL;
  FAILS(SECTILE_NOT_FOUND, "softmax", sectile_op_find("sofmax", &op));
  EXPECT(!op);
  int found = 0;
  for (size_t i = 0; i < sectile_op_count(); ++i)
    found |= !strcmp(sectile_op_name(i), "softmax");
  EXPECT(found && !sectile_op_name(sectile_op_count()));
  OK(sectile_op_find("softmax", &op));
  const char *json = NULL;
  OK(sectile_op_describe(op, &json));
  EXPECT(strstr(json, "\"name\":\"softmax\"") && strstr(json, "softmax_backward"));

  Softmax of;
  begin(&of, device);
  DLTensor like;
  DLTensor *shapes[] = {&of.x, &like};
  OK(sectile_op_infer(op, shapes, 2, NULL, 0));
  EXPECT(like.ndim == 2 && like.shape[0] == ROWS && like.shape[1] == COLUMNS && !like.data);
  DLManagedTensorVersioned *made = NULL;
  OK(sectile_tensor_new(device, &like, &made));
  int dense = 0;
  OK(sectile_tensor_dense(&made->dl_tensor, &dense));
  EXPECT(dense && sectile_tensor_bytes(&made->dl_tensor) == sizeof(float[COUNT]));
  EXPECT(sectile_tensor_bytes(NULL) == 0);
  made->deleter(made);

  const DLTensor *call[] = {&of.x, &of.y};
  OK(sectile_op_run(op, of.stream, call, 2, NULL, 0));
  expectRows(&of);
  FAILS(SECTILE_INVALID, "", sectile_op_run(op, of.stream, call, 1, NULL, 0));
  const sectile_option none = {"no_such_option", SECTILE_INT64, {1}};
  FAILS(SECTILE_INVALID, "no_such_option", sectile_op_run(op, of.stream, call, 2, &none, 1));
  DLTensor wrong = of.y;
  int64_t shape[] = {ROWS, COLUMNS + 1};
  wrong.shape = shape;
  const DLTensor *refused[] = {&of.x, &wrong};
  FAILS(SECTILE_INVALID, "y", sectile_op_run(op, of.stream, refused, 2, NULL, 0));
  wrong = of.y;
  int64_t none_apart[] = {0, 1};
  wrong.strides = none_apart;
  FAILS(SECTILE_INVALID, "one address", sectile_op_run(op, of.stream, refused, 2, NULL, 0));
  FAILS(SECTILE_INVALID, "one address", sectile_op_check_outputs(op, refused, 2));
  const DLTensor *in_place[] = {&of.x, &of.x};
  OK(sectile_op_check_outputs(op, in_place, 2));

  clear(&of);
  sectile_call *prepared = NULL;
  OK(sectile_call_prepare(op, device, call, 2, NULL, 0, &prepared));
  OK(sectile_call_run(prepared, of.stream, NULL));
  expectRows(&of);
  clear(&of);
  sectile_graph *graph = NULL;
  OK(sectile_capture_begin(of.stream));
  OK(sectile_call_run(prepared, of.stream, call));
  OK(sectile_capture_end(of.stream, &graph));
  sectile_event *from = NULL, *to = NULL;
  OK(sectile_stream_record(of.stream, 1, &from));
  OK(sectile_graph_launch(graph, of.stream));
  OK(sectile_stream_record(of.stream, 1, &to));
  OK(sectile_event_synchronize(to));
  float milliseconds = -1;
  OK(sectile_event_elapsed(from, to, &milliseconds));
  EXPECT(milliseconds >= 0);
  sectile_stream *second = NULL;
  OK(sectile_stream_new(device, &second));
  OK(sectile_stream_wait(second, to));
  OK(sectile_stream_synchronize(second));
  expectRows(&of);
  sectile_stream_release(second);
  sectile_event_release(from);
  sectile_event_release(to);
  sectile_graph_release(graph);
  sectile_call_release(prepared);
  sectile_call_release(NULL);
  end(&of);
}

// Measurements by the cost model, which later calls take.
static void tuning(sectile_device *device) {
  const sectile_op *op = NULL;
  OK(sectile_op_find("softmax", &op));
  sectile_device_info_t info;
  info.size = sizeof info;
  OK(sectile_device_info(device, &info));
  int64_t shape[2] = {ROWS, COLUMNS};
  DLTensor x = matrix(info.dlpack, NULL, shape);
  const DLTensor *call[] = {&x, NULL};
  const char *json = NULL;
  const sectile_option wrong[] = {{"strategies", SECTILE_TEXT, {.text = "random"}}},
                       none[] = {{"strategy", SECTILE_TEXT, {.text = "guess"}}},
                       few[] = {{"candidates", SECTILE_INT64, {1}},
                                {"strategy", SECTILE_TEXT, {.text = "random"}}};
  FAILS(SECTILE_INVALID, "strategy, candidates",
        sectile_tune(op, device, call, 2, NULL, 0, wrong, 1, &json));
  FAILS(SECTILE_INVALID, "halving", sectile_tune(op, device, call, 2, NULL, 0, none, 1, &json));
  OK(sectile_tune(op, device, call, 2, NULL, 0, few, 2, &json));
  EXPECT(strstr(json, "\"candidates\":[{") && strstr(json, "\"simulated\":true"));
  OK(sectile_tuning_export(&json));
  EXPECT(strstr(json, "sectile measurements") && strstr(json, "softmax"));
  OK(sectile_tuning_import(json));
  FAILS(SECTILE_INVALID, "format", sectile_tuning_import("{\"problems\": []}"));
}

// An event of one device says nothing to a stream of another kind of device.
static void otherDevices(sectile_stream *stream) {
  sectile_device *other = NULL;
  OK(sectile_device_open("cuda:0", &other));
  sectile_stream *far = NULL;
  OK(sectile_stream_new(other, &far));
  sectile_event *event = NULL;
  OK(sectile_stream_record(far, 0, &event));
  FAILS(SECTILE_INVALID, "cuda:0", sectile_stream_wait(stream, event));
  sectile_event_release(event);
  sectile_stream_release(far);
  sectile_device_release(other);
}

static void code(const char *library) {
  FAILS(SECTILE_INVALID, "nothing.sectile", sectile_bundle_load("nothing.sectile"));
  FAILS(SECTILE_INVALID, "path", sectile_bundle_load(NULL));
  const char text[] =
      "no bundle, but as long as the head of one would have to be, and then a bit more";
  FAILS(SECTILE_INVALID, "text of ours",
        sectile_bundle_load_memory(text, sizeof text, "text of ours"));
  FAILS(SECTILE_INVALID, "nothing.so", sectile_load_library("./nothing.so"));
  const size_t before = sectile_op_count();
  OK(sectile_load_library(library));
  EXPECT(sectile_op_count() > before);
  const sectile_op *op = NULL;
  OK(sectile_op_find("scale_rows", &op));
}

static void *thread(void *device) {
  const sectile_op *op = NULL;
  OK(sectile_op_find("softmax", &op));
  Softmax of;
  begin(&of, device);
  const DLTensor *call[] = {&of.x, &of.y};
  for (int i = 0; i < 20; ++i) {
    clear(&of);
    OK(sectile_op_run(op, of.stream, call, 2, NULL, 0));
    expectRows(&of);
    // The failures of other threads are not this one's.
    FAILS(SECTILE_NOT_FOUND, "nothing_like_it", sectile_op_find("nothing_like_it", &op));
    OK(sectile_op_find("softmax", &op));
  }
  end(&of);
  return NULL;
}

int main(int argc, char **argv) {
  EXPECT(argc == 3);
  versionsAndErrors();
  sectile_device *device = NULL;
  OK(sectile_device_open(argv[1], &device));
  sectile_stream *stream = NULL;
  OK(sectile_stream_new(device, &stream));
  devices(device);
  memory(device, stream);
  operations(device);
  otherDevices(stream);
  if (strcmp(argv[1], "interpreter")) // which has one configuration
    tuning(device);
  code(argv[2]);
  pthread_t threads[4];
  for (int i = 0; i < 4; ++i)
    EXPECT(!pthread_create(&threads[i], NULL, thread, device));
  for (int i = 0; i < 4; ++i)
    EXPECT(!pthread_join(threads[i], NULL));
  sectile_stream_release(stream);
  sectile_device_release(device);
  puts("all right");
  return 0;
}
