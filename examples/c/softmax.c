// Softmax of two rows from C11: finds the operation, runs it on a device, prints the rows.
//   cc -std=c11 softmax.c -o softmax $(pkg-config --cflags --libs sectile)
#include <sectile.h>
#include <stdio.h>
#include <stdlib.h>

#define COLUMNS 4

// Ends the program where a call fails, with what the library says of it.
static void check(sectile_status status, const char *call) {
  if (status == SECTILE_OK)
    return;
  fprintf(stderr, "%s: %s: %s\n", call, sectile_status_name(status), sectile_error());
  exit(1);
}
#define CHECK(call) check(call, #call)

int main(void) {
  CHECK(sectile_require(SECTILE_VERSION));
  sectile_device *device;
  CHECK(sectile_device_open(NULL, &device)); // SECTILE_DEVICE names another
  sectile_device_info_t info = {.size = sizeof info};
  CHECK(sectile_device_info(device, &info));
  sectile_stream *stream;
  CHECK(sectile_stream_new(device, &stream));

  const float rows[2][COLUMNS] = {{0, 1, 2, 3}, {4, 4, 4, 4}};
  int64_t shape[] = {2, COLUMNS}, strides[] = {COLUMNS, 1};
  DLTensor x = {.device = info.dlpack,
                .ndim = 2,
                .dtype = {kDLFloat, 32, 1},
                .shape = shape,
                .strides = strides};
  CHECK(sectile_alloc(device, sizeof rows, &x.data));
  CHECK(sectile_copy(stream, x.data, rows, sizeof rows, SECTILE_TO_DEVICE));

  const sectile_op *softmax;
  CHECK(sectile_op_find("softmax", &softmax));
  DLTensor like; // what y must be
  DLTensor *call[] = {&x, &like};
  CHECK(sectile_op_infer(softmax, call, 2, NULL, 0));
  DLManagedTensorVersioned *y;
  CHECK(sectile_tensor_new(device, &like, &y));

  const DLTensor *arguments[] = {&x, &y->dl_tensor};
  CHECK(sectile_op_run(softmax, stream, arguments, 2, NULL, 0));
  float result[2][COLUMNS];
  CHECK(sectile_copy(stream, result, y->dl_tensor.data, sizeof result, SECTILE_TO_HOST));
  for (int row = 0; row < 2; ++row)
    printf("%.3f %.3f %.3f %.3f\n", result[row][0], result[row][1], result[row][2], result[row][3]);

  y->deleter(y);
  CHECK(sectile_free(device, x.data));
  sectile_stream_release(stream);
  sectile_device_release(device);
  return 0;
}
