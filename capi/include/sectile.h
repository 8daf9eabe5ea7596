// Sectile from C and from everything that calls C: devices, streams, graphs, memory, the operations
// of the library and of yours, bundles. C11 or C++. Link libsectile, which compiles, or
// libsectile_kernels, which runs code of bundles and needs no LLVM; docs/c.md is the guide.
//
// Rules that hold for all functions:
// - A function returns a sectile_status, if it can fail. After any but SECTILE_OK, sectile_error()
//   says in words what was wrong; results are then not written, except that a handle is set to
//   NULL. No C++ exception leaves a function.
// - A handle that a function gives is the caller's, who ends it with the function of that name:
//   _release, _free, a DLPack tensor's deleter. All of these take NULL and then do nothing.
// - Any thread may call any function. One handle may be used in several threads at the same time,
//   but not after it was released; one sectile_call in one thread at a time.
// - Text is UTF-8 that ends with a 0 byte, and belongs to the library. Extents and strides count
//   elements, sizes bytes. `count` is always the number of elements of the array before it.
#ifndef SECTILE_H
#define SECTILE_H

#include <sectile/version.h>
#include <stddef.h>
#include <stdint.h>

#ifndef DLPACK_MAJOR_VERSION
#ifdef DLPACK_DLPACK_H_
#error                                                                                             \
    "<sectile.h> needs DLPack 1.0 or later: include it before the older dlpack.h, or include a newer one"
#endif
#include <sectile/c/dlpack.h>
#endif

#if defined(__GNUC__)
#define SECTILE_API __attribute__((visibility("default")))
#else
#define SECTILE_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

// Statuses and errors -----------------------------------------------------------------------------

typedef enum sectile_status {
  SECTILE_OK = 0,
  SECTILE_INVALID = 1,   // an argument, an option, a shape or a file cannot be used
  SECTILE_NO_CODE = 2,   // no bundle has code for this launch, and there is no compiler
  SECTILE_COMPILE = 3,   // a kernel does not compile; sectile_error_place() says where
  SECTILE_LAUNCH = 4,    // the device cannot launch this: its grid, its resources, its place
  SECTILE_DEVICE = 5,    // a device failed, or is not there
  SECTILE_ASSERTION = 6, // an assertion of a kernel did not hold; sectile_error_place() says which
  SECTILE_LOST = 7,      // the device is of no more use to this process
  SECTILE_MEMORY = 8,    // the device or the host has too little memory
  SECTILE_NOT_FOUND = 9, // nothing has this name
  SECTILE_UNSUPPORTED = 10, // this library, this version or this device cannot do it
  SECTILE_INTERNAL = 11     // a fault of Sectile's
} sectile_status;

// The version of the library that is loaded, in the form of SECTILE_VERSION: 10000 · major +
// 100 · minor + patch.
SECTILE_API uint32_t sectile_version(void);
// SECTILE_UNSUPPORTED if a program that was compiled with the header of this version
// (SECTILE_VERSION) cannot use the library that is loaded: it is older, or of another minor version
// while the major one is 0.
SECTILE_API sectile_status sectile_require(uint32_t header_version);
// What the last failure in this thread was, "" where there was none. Valid until the next failure.
SECTILE_API const char *sectile_error(void);
// The line of a kernel's source that the last failure in this thread names. SECTILE_NOT_FOUND where
// it names none. `file` is valid until the next failure.
SECTILE_API sectile_status sectile_error_place(const char **file, uint32_t *line);
// "SECTILE_OK" and so on; "SECTILE_UNKNOWN" for other numbers.
SECTILE_API const char *sectile_status_name(sectile_status status);

// Takes `length` bytes of text that kernels print. Called where the host waits for the kernel, by
// that thread. It must not call this library.
typedef void (*sectile_message_fn)(const char *text, size_t length, void *user);
// From now on and for the whole process; NULL: to standard output, as in the beginning.
SECTILE_API sectile_status sectile_on_message(sectile_message_fn message, void *user);

// Devices -----------------------------------------------------------------------------------------

typedef struct sectile_device sectile_device;
typedef struct sectile_stream sectile_stream;
typedef struct sectile_event sectile_event;
typedef struct sectile_graph sectile_graph;

// Opens "cuda:0", "hip:1", "virtual:sm_90a", "interpreter"; NULL: the device that SECTILE_DEVICE
// names, else the first CUDA device, the first HIP device, the virtual GPU. A device that is opened
// again is the same one. SECTILE_DEVICE where there is none such, SECTILE_UNSUPPORTED where it
// needs the compiler and this library has none.
SECTILE_API sectile_status sectile_device_open(const char *name, sectile_device **device);
// The names of all devices that open, which this call does; a list that ends with NULL, valid until
// this thread's next call of this function.
SECTILE_API sectile_status sectile_device_names(const char *const **names);
// On a context that another library made, a CUcontext, which has to outlive the process's use of
// it.
SECTILE_API sectile_status sectile_device_wrap(void *context, sectile_device **device);
// The device that holds such tensors: cuda:N for kDLCUDA, hip:N for kDLROCM. For kDLCPU, the one
// that SECTILE_DEVICE names if it runs on the host, else virtual:sm_90a. SECTILE_UNSUPPORTED for
// other kinds.
SECTILE_API sectile_status sectile_device_from_dlpack(DLDevice dlpack, sectile_device **device);
SECTILE_API void sectile_device_retain(sectile_device *device);
SECTILE_API void sectile_device_release(sectile_device *device);

// Set `size` to sizeof(sectile_device_info_t) before the call: later versions add fields behind.
typedef struct sectile_device_info_t {
  size_t size;
  const char *name; // as sectile_device_open() takes it; these three live as long as the process
  const char *description; // the product's name
  const char *target;      // what kernels are compiled for: "sm_90a", "gfx942"
  DLDevice dlpack;         // of tensors in its memory
  uint32_t on_host;        // 1: the device runs in this process and its memory is the host's
  uint32_t warp_size, max_threads, multiprocessors; // max_threads: of one block
  uint32_t max_grid[3];
  uint64_t max_shared_bytes;        // of one block
  double gigabytes_per_second;      // of its memory, as the driver says; 0 where it does not
  uint64_t free_bytes, total_bytes; // of its memory, now
} sectile_device_info_t;
SECTILE_API sectile_status sectile_device_info(sectile_device *device, sectile_device_info_t *info);
// Waits for all work on the device. Like all functions that wait, it gives the failures of kernels
// that ran until then.
SECTILE_API sectile_status sectile_device_synchronize(sectile_device *device);

// Where a device's memory comes from in place of the driver. Both functions may be called by any
// thread, and must not call this library.
typedef struct sectile_allocator {
  size_t size; // sizeof(sectile_allocator)
  // Device memory for work in `stream`, a native stream of the device; NULL where there is none.
  void *(*allocate)(size_t bytes, void *stream, void *user);
  // Called once all work has ended that uses the memory.
  void (*free)(void *memory, size_t bytes, void *stream, void *user);
  void *user; // must stay valid until all memory of this allocator was freed
} sectile_allocator;
// For allocations from now on; NULL: the driver's memory again.
SECTILE_API sectile_status sectile_device_set_allocator(sectile_device *device,
                                                        const sectile_allocator *allocator);
// Gives the driver back what the device keeps for allocations to come.
SECTILE_API sectile_status sectile_device_trim(sectile_device *device);

// Streams, events, graphs -------------------------------------------------------------------------

SECTILE_API sectile_status sectile_stream_new(sectile_device *device, sectile_stream **stream);
// A stream of another library, a CUstream or a hipStream_t (NULL: the driver's default stream),
// which has to be there until the handle is released. While a stream has a handle, it is wrapped as
// the same one.
SECTILE_API sectile_status sectile_stream_wrap(sectile_device *device, void *native,
                                               sectile_stream **stream);
// The driver's handle; NULL for NULL.
SECTILE_API void *sectile_stream_native(sectile_stream *stream);
SECTILE_API void sectile_stream_release(sectile_stream *stream);
SECTILE_API sectile_status sectile_stream_synchronize(sectile_stream *stream);
// What comes next in the stream starts after the event.
SECTILE_API sectile_status sectile_stream_wait(sectile_stream *stream, sectile_event *event);
// An event at the end of what is in the stream now. `timed`: 1 for sectile_event_elapsed(), else 0,
// which costs less.
SECTILE_API sectile_status sectile_stream_record(sectile_stream *stream, int timed,
                                                 sectile_event **event);
// Waits until the stream has come to the event.
SECTILE_API sectile_status sectile_event_synchronize(sectile_event *event);
// Waits for `to`, and gives the milliseconds from one timed event to a later one of the same
// device.
SECTILE_API sectile_status sectile_event_elapsed(sectile_event *from, sectile_event *to,
                                                 float *milliseconds);
SECTILE_API void sectile_event_release(sectile_event *event);
// Between these two, work in the stream is remembered and not run. A graph keeps memory that
// sectile_alloc() and sectile_tensor_new() gave, even if it is freed, and the code of its kernels.
// Code that was not launched before cannot be loaded in a capture: run the operation once before,
// or prepare it (sectile_call_prepare).
SECTILE_API sectile_status sectile_capture_begin(sectile_stream *stream);
SECTILE_API sectile_status sectile_capture_end(sectile_stream *stream, sectile_graph **graph);
SECTILE_API sectile_status sectile_graph_launch(sectile_graph *graph, sectile_stream *stream);
SECTILE_API void sectile_graph_release(sectile_graph *graph);

// Memory and tensors ------------------------------------------------------------------------------

// Device memory, contents undefined; NULL for 0 bytes.
SECTILE_API sectile_status sectile_alloc(sectile_device *device, size_t bytes, void **memory);
// Memory of sectile_alloc(). Work that uses it may still be under way; it is freed after that.
SECTILE_API sectile_status sectile_free(sectile_device *device, void *memory);

typedef enum sectile_direction {
  SECTILE_TO_DEVICE = 0, // these two wait for all work on the device, and are done when they return
  SECTILE_TO_HOST = 1,
  SECTILE_ON_DEVICE = 2 // work in the stream
} sectile_direction;
SECTILE_API sectile_status sectile_copy(sectile_stream *stream, void *to, const void *from,
                                        size_t bytes, sectile_direction direction);
// Writes a pattern of 1, 2, 4 or 8 bytes `count` times, as work in the stream. `pattern` is host
// memory that is read before the function returns.
SECTILE_API sectile_status sectile_fill(sectile_stream *stream, void *memory, const void *pattern,
                                        size_t pattern_bytes, size_t count);
// A new tensor in the device's memory with the dtype and the shape of `like`, dense in row-major
// order, contents undefined. Nothing else of `like` is read. Its deleter frees it.
SECTILE_API sectile_status sectile_tensor_new(sectile_device *device, const DLTensor *like,
                                              DLManagedTensorVersioned **tensor);
// Whether the elements lie one after the other in row-major order: 1 or 0.
SECTILE_API sectile_status sectile_tensor_dense(const DLTensor *tensor, int *is_dense);
// What the elements take, dense; 0 for NULL and for a negative extent or too large a tensor.
SECTILE_API size_t sectile_tensor_bytes(const DLTensor *tensor);

// Operations --------------------------------------------------------------------------------------

// A kernel of the library, or one that register_kernel() has added. Lives as long as the process.
typedef struct sectile_op sectile_op;

typedef enum sectile_kind {
  SECTILE_INT64 = 0,
  SECTILE_DOUBLE = 1,
  SECTILE_UINT64 = 2,
  SECTILE_TEXT = 3,
  SECTILE_TENSOR = 4, // these two of a sectile_value only
  SECTILE_ADDRESS = 5
} sectile_kind;

// An option of an operation. A flag takes 0 or 1 as SECTILE_INT64, a choice its text; a number
// takes integers and finite doubles. SECTILE_TEXT, as `sectile run --opt NAME=TEXT` takes it, is
// right for all.
typedef struct sectile_option {
  const char *name;
  sectile_kind kind;
  union {
    int64_t i;
    double d;
    uint64_t u;
    const char *text;
  } value;
} sectile_option;

SECTILE_API size_t sectile_op_count(void);
// Of the operations 0 … count - 1; NULL for others.
SECTILE_API const char *sectile_op_name(size_t index);
// SECTILE_NOT_FOUND for an unknown name; the error suggests one.
SECTILE_API sectile_status sectile_op_find(const char *name, const sectile_op **op);
// All that a binding needs to know, as JSON (docs/c.md lists the fields): arguments, options, texts
// for documentation, the operation of the gradients. Lives as long as the process.
SECTILE_API sectile_status sectile_op_describe(const sectile_op *op, const char **json);
// Checks a call's inputs and options, and says what its outputs must be. `arguments` are in the
// operation's order, inputs then outputs; an input that is left out is NULL. Of inputs dtype, ndim
// and shape are read, and no memory. Of outputs that are not NULL dtype, ndim and shape are set,
// data and strides to NULL; ndim is -1 for an output that this call does not have. Their shapes are
// valid until this thread's next call of this function.
SECTILE_API sectile_status sectile_op_infer(const sectile_op *op, DLTensor *const *arguments,
                                            size_t count, const sectile_option *options,
                                            size_t option_count);
// Runs the operation in the stream and does not wait. `arguments` are in the operation's order,
// inputs then outputs, on the stream's device, of any strides except along axes that the kernel
// takes as one (docs/kernels.md); NULL for an input that is left out and for an output that the
// call does not have. All other outputs are given, as sectile_op_infer() says. The tensors are only
// borrowed, but their memory must be there until the work is done. An output may not share memory
// with other arguments, unless the operation may overwrite just that input ("over" in its
// description).
SECTILE_API sectile_status sectile_op_run(const sectile_op *op, sectile_stream *stream,
                                          const DLTensor *const *arguments, size_t count,
                                          const sectile_option *options, size_t option_count);

// What sectile_op_run() says of outputs that share memory with each other, or of which two elements
// do: for callers that run the operation on copies of their tensors. Nothing else is checked, and
// the tensors may be anywhere.
SECTILE_API sectile_status sectile_op_check_outputs(const sectile_op *op,
                                                    const DLTensor *const *arguments, size_t count);

// The same call again and again, of which all is settled: the configuration, the code, scratch
// memory of its own. Its launches must not overlap: those in several streams must be ordered.
typedef struct sectile_call sectile_call;
SECTILE_API sectile_status sectile_call_prepare(const sectile_op *op, sectile_device *device,
                                                const DLTensor *const *arguments, size_t count,
                                                const sectile_option *options, size_t option_count,
                                                sectile_call **call);
// On the tensors that it was prepared with (`others` is NULL), or on others of the same shapes,
// strides and dtypes, in the same order and number.
SECTILE_API sectile_status sectile_call_run(sectile_call *call, sectile_stream *stream,
                                            const DLTensor *const *others);
SECTILE_API void sectile_call_release(sectile_call *call);

// Code and kernels of yours -----------------------------------------------------------------------

// Adds a bundle, a file of code that was compiled beforehand, to this process until it ends: a
// launch whose code it has takes that. SECTILE_INVALID for a file that cannot be read, that others
// could have written, or that is no bundle of this version.
SECTILE_API sectile_status sectile_bundle_load(const char *path);
// The same for one in memory, which must stay as it is. Errors call it `name`; NULL: none.
SECTILE_API sectile_status sectile_bundle_load_memory(const void *bundle, size_t bytes,
                                                      const char *name);
// Loads a shared library of kernels and has it register them (docs/own-kernels.md); they are
// operations from then on. SECTILE_INVALID for a file that is none.
SECTILE_API sectile_status sectile_load_library(const char *path);
// What is in a bundle, as JSON (docs/c.md lists the fields): a list with the bundle of this file,
// which is not loaded, or with all bundles of this process if `path` is NULL. Valid until this
// thread's next call of this function. Fails as sectile_bundle_load().
SECTILE_API sectile_status sectile_bundle_describe(const char *path, const char **json);

// A kernel that the bundles of this process have, to be launched without the host code that is
// written around it in C++. Lives as long as the process.
typedef struct sectile_kernel sectile_kernel;
// SECTILE_NOT_FOUND where no bundle has a kernel of this name; the error names those that there
// are. A bundle that is loaded later adds nothing to a handle: find the kernel again.
SECTILE_API sectile_status sectile_kernel_find(const char *name, const sectile_kernel **kernel);

// An argument of a kernel. A Ptr takes a dense tensor of its elements or an address, a View a
// tensor of its elements and its rank, with any strides. An Int and an integer take SECTILE_INT64
// or SECTILE_UINT64, another number SECTILE_DOUBLE too, which is rounded to its type; a bool takes
// 0 or 1. Fields of a struct are arguments, one after the other.
typedef struct sectile_value {
  sectile_kind kind;
  union {
    int64_t i;
    double d;
    uint64_t u;
    const DLTensor *tensor; // on the stream's device
    void *address;          // of the device's memory; NULL for none
  } value;
} sectile_value;

// Runs the kernel in the stream once for every place in the grid, and does not wait. The types of
// the arguments decide among kernels of one name. `config` has fields of the configuration, "warps"
// and "stages" among them, by name; as many as leave one of those that the bundles have code for.
// SECTILE_INVALID where arguments do not fit, or several configurations are left; SECTILE_NO_CODE
// where no bundle has this configuration, or code for such arguments or this chip.
SECTILE_API sectile_status sectile_kernel_launch(const sectile_kernel *kernel,
                                                 sectile_stream *stream, const uint32_t grid[3],
                                                 const sectile_value *arguments, size_t count,
                                                 const sectile_option *config, size_t config_count);

// Tuning: with the compiler, else SECTILE_UNSUPPORTED
// ----------------------------------------------

// Measures the configurations of a call (docs/autotuner.md) and keeps what it finds in the cache:
// later calls take the fastest. Of the arguments' inputs dtype, ndim and shape are read, and of
// outputs nothing; NULL for an input that is left out. `settings`: "strategy" (SECTILE_TEXT:
// exhaustive, random, halving), "candidates" (the most that are measured), "seed", "seconds" (after
// which none is begun), "deadline" (seconds of one run), "progress" (1: on standard error). `json`:
// the reports, as `sectile tune --json` prints them, valid until this thread's next call.
SECTILE_API sectile_status sectile_tune(const sectile_op *op, sectile_device *device,
                                        const DLTensor *const *arguments, size_t count,
                                        const sectile_option *options, size_t option_count,
                                        const sectile_option *settings, size_t setting_count,
                                        const char **json);
// What was measured, in the form of `sectile cache export` (docs/cache.md). Valid until this
// thread's next call of this function.
SECTILE_API sectile_status sectile_tuning_export(const char **json);
// Takes such measurements into the cache, all of them or none: SECTILE_INVALID where a word of them
// is wrong.
SECTILE_API sectile_status sectile_tuning_import(const char *json);

#ifdef __cplusplus
}
#endif
#endif
