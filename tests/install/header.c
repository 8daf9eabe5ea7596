// Kernels of a bundle by the functions of its generated header, in C11 and, as header.cpp, in C++.
// header DEVICE  Prints "all right" at the end, or the line that was not.
#include "tests/capi/check.h"
#include <math.h>
#include <own_kernels.h>

enum { COUNT = 100, ROWS = 5, COLUMNS = 20 };

static DLDevice place;

static DLTensor tensor(void *data, uint8_t bits, int64_t *shape, int ndim) {
  DLTensor made;
  memset(&made, 0, sizeof made);
  made.device = place;
  made.data = data;
  made.ndim = ndim;
  made.dtype.code = kDLFloat;
  made.dtype.bits = bits;
  made.dtype.lanes = 1;
  made.shape = shape;
  return made;
}

// Two configurations: fields say which.
static void with_configurations(sectile_stream *stream, float *x, float *y) {
  int64_t count[] = {COUNT};
  const DLTensor a = tensor(x, 32, count, 1), b = tensor(y, 32, count, 1);
  const uint32_t grid[3] = {2, 1, 1};
  const sectile_option twice = {"twice", SECTILE_TEXT, {0}};
  sectile_option chosen = twice;
  FAILS(SECTILE_INVALID, "several configurations",
        own_kernels_axpy(stream, grid, &a, &b, 0.5, COUNT, NULL, 0));
  chosen.value.text = "1";
  OK(own_kernels_axpy(stream, grid, &a, &b, 0.5, COUNT, &chosen, 1));
  OK(sectile_stream_synchronize(stream));
  for (int i = 0; i < COUNT; ++i)
    EXPECT(y[i] == 2 * (1 + 0.5f * (float)i));
  chosen.value.text = "0";
  OK(own_kernels_axpy(stream, grid, &a, &b, 1, COUNT, &chosen, 1));
  OK(sectile_stream_synchronize(stream));
  for (int i = 0; i < COUNT; ++i)
    EXPECT(y[i] == 2 + 2 * (float)i);
}

static void of_doubles(sectile_stream *stream, double *x, double *y) {
  int64_t count[] = {COUNT};
  const DLTensor a = tensor(x, 64, count, 1), b = tensor(y, 64, count, 1);
  const uint32_t blocks = (COUNT + OWN_KERNELS_AXPY_2_SIZE - 1) / OWN_KERNELS_AXPY_2_SIZE;
  const uint32_t grid[3] = {blocks, 1, 1};
  EXPECT(OWN_KERNELS_AXPY_2_SIZE == 32);
  OK(own_kernels_axpy_2(stream, grid, &a, &b, -1, COUNT));
  OK(sectile_stream_synchronize(stream));
  for (int i = 0; i < COUNT; ++i)
    EXPECT(y[i] == 1 - i);
  FAILS(SECTILE_INVALID, "does not take these arguments",
        own_kernels_first(stream, grid, &a, &b, 1, 0, 0));
}

static void of_numbers(sectile_stream *stream, float *x, float *y) {
  int64_t shape[] = {ROWS, COLUMNS};
  const DLTensor a = tensor(x, 32, shape, 2), b = tensor(y, 32, shape, 2);
  const uint32_t grid[3] = {ROWS, 1, 1};
  OK(own_kernels_first(stream, grid, &a, &b, -3, 1, 1000));
  OK(sectile_stream_synchronize(stream));
  for (int row = 0; row < ROWS; ++row)
    EXPECT(y[row * COLUMNS] == -((float)(row * COLUMNS) + 997));
  FAILS(SECTILE_INVALID, "does not fit", own_kernels_first(stream, grid, &a, &b, 200, 0, 0));
}

static void of_the_library(sectile_stream *stream, float *x, float *y) {
  int64_t shape[] = {1, 64};
  const DLTensor a = tensor(x, 32, shape, 2), b = tensor(y, 32, shape, 2);
  double sum = 0;
  OK(own_kernels_softmax(stream, &a, &b, NULL, 0));
  OK(sectile_stream_synchronize(stream));
  for (int i = 0; i < 64; ++i)
    sum += y[i];
  EXPECT(fabs(sum - 1) < 1e-5);
  EXPECT(fabs(y[62] / y[63] - exp(-1.0)) < 1e-5);
}

int main(int count, char **arguments) {
  sectile_device *device = NULL;
  sectile_stream *stream = NULL;
  void *memory[4];
  EXPECT(count == 2);
  OK(sectile_device_open(arguments[1], &device));
  OK(sectile_stream_new(device, &stream));
  place.device_type = kDLCPU;
  // The memory of a virtual device can be read here.
  for (int i = 0; i < 4; ++i)
    OK(sectile_alloc(device, COUNT * sizeof(double), &memory[i]));
  {
    float x[COUNT], y[COUNT];
    double wide_x[COUNT], wide_y[COUNT];
    for (int i = 0; i < COUNT; ++i) {
      wide_x[i] = x[i] = (float)i;
      wide_y[i] = y[i] = 1;
    }
    OK(sectile_copy(stream, memory[0], x, sizeof x, SECTILE_TO_DEVICE));
    OK(sectile_copy(stream, memory[1], y, sizeof y, SECTILE_TO_DEVICE));
    OK(sectile_copy(stream, memory[2], wide_x, sizeof wide_x, SECTILE_TO_DEVICE));
    OK(sectile_copy(stream, memory[3], wide_y, sizeof wide_y, SECTILE_TO_DEVICE));
  }
  with_configurations(stream, (float *)memory[0], (float *)memory[1]);
  of_doubles(stream, (double *)memory[2], (double *)memory[3]);
  of_numbers(stream, (float *)memory[0], (float *)memory[1]);
  of_the_library(stream, (float *)memory[0], (float *)memory[1]);
  for (int i = 0; i < 4; ++i)
    OK(sectile_free(device, memory[i]));
  sectile_stream_release(stream);
  sectile_device_release(device);
  puts("all right");
  return 0;
}
