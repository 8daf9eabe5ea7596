// Kernels of a bundle from C11, without their host code, and what a bundle says of itself.
// kernels DEVICE BUNDLE  Prints "all right" at the end, or the line that was not.
#include "check.h"

enum { COUNT = 100, ROWS = 5, COLUMNS = 20 };

static DLTensor tensor(DLDevice device, void *data, uint8_t code, uint8_t bits, int64_t *shape,
                       int ndim, int64_t *strides) {
  DLTensor made;
  memset(&made, 0, sizeof made);
  made.device = device;
  made.data = data;
  made.ndim = ndim;
  made.dtype.code = code;
  made.dtype.bits = bits;
  made.dtype.lanes = 1;
  made.shape = shape;
  made.strides = strides;
  return made;
}

static sectile_value of_tensor(const DLTensor *given) {
  sectile_value value;
  value.kind = SECTILE_TENSOR;
  value.value.tensor = given;
  return value;
}
static sectile_value of_address(void *address) {
  sectile_value value;
  value.kind = SECTILE_ADDRESS;
  value.value.address = address;
  return value;
}
static sectile_value of_integer(int64_t given) {
  sectile_value value;
  value.kind = SECTILE_INT64;
  value.value.i = given;
  return value;
}
static sectile_value of_number(double given) {
  sectile_value value;
  value.kind = SECTILE_DOUBLE;
  value.value.d = given;
  return value;
}

static void axpy(sectile_stream *stream, DLDevice where, float *x, float *y) {
  const sectile_kernel *kernel = NULL;
  OK(sectile_kernel_find("axpy", &kernel));
  int64_t count[] = {COUNT};
  const DLTensor a = tensor(where, x, kDLFloat, 32, count, 1, NULL),
                 b = tensor(where, y, kDLFloat, 32, count, 1, NULL);
  sectile_value arguments[] = {of_tensor(&a), of_tensor(&b), of_number(0.5), of_integer(COUNT)};
  const uint32_t grid[] = {2, 1, 1};
  // Three configurations: fields say which.
  const sectile_option once[] = {{"twice", SECTILE_INT64, {0}}, {"warps", SECTILE_INT64, {4}}},
                       twice[] = {{"twice", SECTILE_TEXT, {.text = "1"}}},
                       other[] = {{"size", SECTILE_INT64, {32}}},
                       unknown[] = {{"sizes", SECTILE_INT64, {64}}};
  FAILS(SECTILE_INVALID, "several configurations",
        sectile_kernel_launch(kernel, stream, grid, arguments, 4, NULL, 0));
  FAILS(SECTILE_NO_CODE, "size=64",
        sectile_kernel_launch(kernel, stream, grid, arguments, 4, other, 1));
  FAILS(SECTILE_INVALID, "sizes",
        sectile_kernel_launch(kernel, stream, grid, arguments, 4, unknown, 1));
  float host[COUNT];
  for (int i = 0; i < COUNT; ++i)
    host[i] = (float)i;
  OK(sectile_copy(stream, x, host, sizeof host, SECTILE_TO_DEVICE));
  OK(sectile_copy(stream, y, host, sizeof host, SECTILE_TO_DEVICE));
  OK(sectile_kernel_launch(kernel, stream, grid, arguments, 4, once, 2));
  OK(sectile_copy(stream, host, y, sizeof host, SECTILE_TO_HOST));
  for (int i = 0; i < COUNT; ++i)
    EXPECT(host[i] == (float)i * 1.5f);
  OK(sectile_kernel_launch(kernel, stream, grid, arguments, 4, twice, 1));
  OK(sectile_copy(stream, host, y, sizeof host, SECTILE_TO_HOST));
  for (int i = 0; i < COUNT; ++i)
    EXPECT(host[i] == (float)i * 4.0f);
  // Code that assumes nothing of its arguments takes an address that is not aligned.
  arguments[0] = of_address(x + 1);
  arguments[3] = of_integer(1);
  OK(sectile_kernel_launch(kernel, stream, grid, arguments, 4, once, 2));
  OK(sectile_copy(stream, host, y, sizeof host, SECTILE_TO_HOST));
  EXPECT(host[0] == 0.5f && host[1] == 4.0f);

  // Types choose among kernels of one name; addresses alone do not.
  arguments[1] = of_address(y);
  FAILS(SECTILE_INVALID, "give tensors",
        sectile_kernel_launch(kernel, stream, grid, arguments, 4, once, 2));
  arguments[1] = of_tensor(&b);
  arguments[3] = of_number(1);
  FAILS(SECTILE_INVALID, "argument 3 is no integer",
        sectile_kernel_launch(kernel, stream, grid, arguments, 4, once, 2));
  FAILS(SECTILE_INVALID, "3 arguments were given",
        sectile_kernel_launch(kernel, stream, grid, arguments, 3, once, 2));
  int64_t two[] = {10, 10}, gaps[] = {20, 1};
  const DLTensor apart = tensor(where, x, kDLFloat, 32, two, 2, gaps);
  arguments[0] = of_tensor(&apart);
  FAILS(SECTILE_INVALID, "dense",
        sectile_kernel_launch(kernel, stream, grid, arguments, 4, once, 2));
  arguments[0] = of_tensor(NULL);
  FAILS(SECTILE_INVALID, "NULL",
        sectile_kernel_launch(kernel, stream, grid, arguments, 4, once, 2));
  // Of a negative number of elements there are none.
  const int64_t fewest[] = {-COUNT, INT64_MIN};
  arguments[0] = of_tensor(&a);
  for (int i = 0; i < 2; ++i) {
    arguments[3] = of_integer(fewest[i]);
    OK(sectile_kernel_launch(kernel, stream, grid, arguments, 4, once, 2));
  }
  OK(sectile_copy(stream, host, y, sizeof host, SECTILE_TO_HOST));
  EXPECT(host[0] == 0.5f && host[1] == 4.0f);
  // An empty grid runs nothing.
  const uint32_t none[] = {0, 1, 1};
  arguments[0] = of_tensor(&a);
  arguments[3] = of_integer(COUNT);
  OK(sectile_kernel_launch(kernel, stream, none, arguments, 4, once, 2));
}

static void views(sectile_stream *stream, DLDevice where, float *x, float *y) {
  const sectile_kernel *kernel = NULL;
  OK(sectile_kernel_find("first", &kernel));
  float host[ROWS * COLUMNS];
  for (int i = 0; i < ROWS * COLUMNS; ++i)
    host[i] = (float)i;
  OK(sectile_copy(stream, x, host, sizeof host, SECTILE_TO_DEVICE));
  int64_t shape[] = {ROWS, COLUMNS}, column[] = {ROWS, 1}, strides[] = {1, ROWS};
  const DLTensor rows = tensor(where, x, kDLFloat, 32, shape, 2, NULL),
                 turned = tensor(where, x, kDLFloat, 32, shape, 2, strides),
                 out = tensor(where, y, kDLFloat, 32, column, 2, NULL);
  sectile_value arguments[] = {of_tensor(&rows), of_tensor(&out), of_integer(-3), of_integer(1)};
  const uint32_t grid[] = {ROWS, 1, 1};
  OK(sectile_kernel_launch(kernel, stream, grid, arguments, 4, NULL, 0));
  OK(sectile_copy(stream, host, y, ROWS * sizeof *host, SECTILE_TO_HOST));
  for (int row = 0; row < ROWS; ++row)
    EXPECT(host[row] == 3.0f - (float)(row * COLUMNS));
  arguments[0] = of_tensor(&turned);
  arguments[3] = of_integer(0);
  OK(sectile_kernel_launch(kernel, stream, grid, arguments, 4, NULL, 0));
  OK(sectile_copy(stream, host, y, ROWS * sizeof *host, SECTILE_TO_HOST));
  for (int row = 0; row < ROWS; ++row)
    EXPECT(host[row] == (float)row - 3.0f);
  arguments[2] = of_integer(128);
  FAILS(SECTILE_INVALID, "does not fit into i8",
        sectile_kernel_launch(kernel, stream, grid, arguments, 4, NULL, 0));
  arguments[2] = of_integer(-128);
  arguments[3] = of_integer(2);
  FAILS(SECTILE_INVALID, "does not fit into bool",
        sectile_kernel_launch(kernel, stream, grid, arguments, 4, NULL, 0));
  arguments[3] = of_integer(0);
  arguments[0] = of_address(x);
  FAILS(SECTILE_INVALID, "is no tensor",
        sectile_kernel_launch(kernel, stream, grid, arguments, 4, NULL, 0));
}

static void descriptions(const char *bundle) {
  const char *json = NULL;
  OK(sectile_bundle_describe(bundle, &json));
  EXPECT(strstr(json, "\"name\":\"axpy\"") && strstr(json, "\"kind\":\"view\"") &&
         strstr(json, "size=64 twice=1"));
  FAILS(SECTILE_INVALID, "nothing.sectile", sectile_bundle_describe("nothing.sectile", &json));
  EXPECT(!json);
  OK(sectile_bundle_describe(NULL, &json));
  EXPECT(!strcmp(json, "[]"));
  const sectile_kernel *kernel = NULL;
  FAILS(SECTILE_NOT_FOUND, "sectile_bundle_load", sectile_kernel_find("axpy", &kernel));
  OK(sectile_bundle_load(bundle));
  OK(sectile_bundle_describe(NULL, &json));
  EXPECT(strstr(json, "\"name\":\"axpy\""));
  FAILS(SECTILE_NOT_FOUND, "first", sectile_kernel_find("second", &kernel));
  EXPECT(!kernel);
}

int main(int argc, char **argv) {
  EXPECT(argc == 3);
  descriptions(argv[2]);
  sectile_device *device = NULL;
  OK(sectile_device_open(argv[1], &device));
  sectile_stream *stream = NULL;
  OK(sectile_stream_new(device, &stream));
  sectile_device_info_t info;
  info.size = sizeof info;
  OK(sectile_device_info(device, &info));
  void *x = NULL, *y = NULL;
  OK(sectile_alloc(device, COUNT * sizeof(float), &x));
  OK(sectile_alloc(device, COUNT * sizeof(float), &y));
  axpy(stream, info.dlpack, x, y);
  views(stream, info.dlpack, x, y);
  OK(sectile_free(device, x));
  OK(sectile_free(device, y));
  sectile_stream_release(stream);
  sectile_device_release(device);

  // A chip that the bundle has no code for.
  const sectile_kernel *kernel = NULL;
  OK(sectile_kernel_find("first", &kernel));
  OK(sectile_device_open("interpreter", &device));
  OK(sectile_stream_new(device, &stream));
  int64_t shape[] = {1, 1};
  DLTensor one = tensor(info.dlpack, NULL, kDLFloat, 32, shape, 2, NULL);
  OK(sectile_alloc(device, sizeof(float), &one.data));
  const sectile_value arguments[] = {of_tensor(&one), of_tensor(&one), of_integer(0),
                                     of_integer(0)};
  const uint32_t grid[] = {1, 1, 1};
  FAILS(SECTILE_NO_CODE, "no bundle has code of it for",
        sectile_kernel_launch(kernel, stream, grid, arguments, 4, NULL, 0));
  OK(sectile_free(device, one.data));
  sectile_stream_release(stream);
  sectile_device_release(device);
  puts("all right");
  return 0;
}
