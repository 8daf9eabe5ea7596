// What the sources of the module sectile._native share: the library's functions, tensors of Python
// as DLPack's, errors.
#pragma once
#define Py_LIMITED_API 0x030A0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <sectile.h>
#include <stdbool.h>

// The library is opened at run time: which one is the user's choice, and it has a C++ library of
// its own.
#define LIBRARY_FUNCTIONS(X)                                                                       \
  X(sectile_version)                                                                               \
  X(sectile_require)                                                                               \
  X(sectile_error)                                                                                 \
  X(sectile_error_place)                                                                           \
  X(sectile_device_open)                                                                           \
  X(sectile_device_names)                                                                          \
  X(sectile_device_from_dlpack)                                                                    \
  X(sectile_device_info)                                                                           \
  X(sectile_device_synchronize)                                                                    \
  X(sectile_device_release)                                                                        \
  X(sectile_stream_new)                                                                            \
  X(sectile_stream_wrap)                                                                           \
  X(sectile_stream_synchronize)                                                                    \
  X(sectile_stream_wait)                                                                           \
  X(sectile_stream_record)                                                                         \
  X(sectile_event_release)                                                                         \
  X(sectile_stream_release)                                                                        \
  X(sectile_copy)                                                                                  \
  X(sectile_tensor_bytes)                                                                          \
  X(sectile_tensor_dense)                                                                          \
  X(sectile_tensor_new)                                                                            \
  X(sectile_op_count)                                                                              \
  X(sectile_op_name)                                                                               \
  X(sectile_op_find)                                                                               \
  X(sectile_op_describe)                                                                           \
  X(sectile_op_infer)                                                                              \
  X(sectile_op_check_outputs)                                                                      \
  X(sectile_op_run)                                                                                \
  X(sectile_call_prepare)                                                                          \
  X(sectile_call_run)                                                                              \
  X(sectile_call_release)                                                                          \
  X(sectile_bundle_load)                                                                           \
  X(sectile_bundle_describe)                                                                       \
  X(sectile_load_library)

typedef struct {
#define X(name) __typeof__(&name) name;
  LIBRARY_FUNCTIONS(X)
#undef X
} library_functions;
extern library_functions library;

// False, with an exception set, unless the status is SECTILE_OK.
bool succeeded(sectile_status status);

// Tensors -----------------------------------------------------------------------------------------

enum { most_axes = 32 };

// Where a tensor comes from, and with it where outputs are allocated.
typedef enum {
  no_tensors = 0,
  by_exchange_api, // DLPack's C exchange API: torch
  by_numpy,
  by_protocol // __dlpack__: JAX, CuPy and others of the array interface
} producer_kind;

typedef struct {
  PyTypeObject *type;
  producer_kind kind;
  const DLPackExchangeAPI *api; // of by_exchange_api
  bool has_gradients;           // its tensors have an attribute requires_grad
  bool is_plain;                // torch's own class, or its parameters
  PyObject *is_negated; // torch's method: of views whose numbers are not those in memory; or NULL
  const char *looked_into; // NULL, or the module for tensors that may have no memory: some part of
                           // the framework looks into calls and has to be told of operations
} producer;

// A tensor as it is borrowed for a call.
typedef struct {
  DLTensor tensor;
  int64_t shape[most_axes], strides[most_axes]; // where the producer has none that last
  const producer *from;
  PyObject *keep; // owned: the capsule that holds the memory, or NULL
  bool read_only;
} operand;

// A module that the program has imported, borrowed, or NULL: without it there is no object of its
// framework.
PyObject *imported(const char *name);
// NULL, with an exception set, for objects that are no tensors.
const producer *producer_of(PyObject *object, const char *name);
// Fills `to`; `name` is the argument's, for messages. False with an exception set.
bool borrow(PyObject *object, const char *name, operand *to);
void give_back(operand *borrowed);
void dense_strides(const int64_t *shape, int axes, int64_t *strides);
// A new tensor of the dtype and shape, in the framework and on the device of `like`. `wanted` has
// strides and data of it afterwards; `to` has to be given back. NULL with an exception set.
PyObject *allocate(const producer *from, PyObject *like, const DLTensor *wanted, const char *name,
                   operand *to);
// What an output becomes for the caller, once it is written: the object itself, or an array of its
// framework over it. Steals the reference.
PyObject *finished(const producer *from, PyObject *like, PyObject *output);

// The place of a type among those that Sectile has, -1 for others; what NumPy and torch call it.
int dtype_index(DLDataType type);
const char *numpy_name(int dtype);
// "f32" and so on; NULL for types that Sectile has no name for.
const char *dtype_name(DLDataType type);
// False for an unknown name; the second sets an exception then.
bool find_dtype(const char *name, DLDataType *type);
bool dtype_named(const char *name, DLDataType *type);

// Torch -------------------------------------------------------------------------------------------

// These two: 1, 0, or -1 with an exception set. Whether gradients are being recorded, and whether a
// tensor wants one.
int records_gradients(void);
int requires_gradient(PyObject *tensor);
// Tells torch, whose recorded gradients may need what a tensor held before.
bool tell_written(PyObject *object, const producer *from);
// Whether a transform of torch.func is on, which has to see calls: they go by its own way then.
bool is_transformed(void);
// Of torch's tensors DLPack has no word for those that are more than their memory: the imaginary
// part of a conjugate negates it, and a dual number has a tangent. False with an exception set.
bool is_what_memory_holds(PyObject *object, const char *name, const producer *from);
// A new tensor as torch itself makes it, which costs half of the way by DLPack, and in whose memory
// torch's allocator keeps an order of streams. NULL, without an exception, where it makes none.
PyObject *allocate_by_torch(const producer *from, const DLTensor *wanted, operand *to);

// Devices and streams -----------------------------------------------------------------------------

typedef struct {
  sectile_device *device;
  sectile_stream *stream;
  bool on_host;
} place;
// The device of such tensors, and a stream of the driver's there; on the host a stream of ours.
// Needs no interpreter.
sectile_status place_of(DLDevice device, void *native, place *to);
// The device of such tensors and the stream that is current there, as `from` says. False with an
// exception set.
bool current_place(DLDevice device, const producer *from, place *to);
// Makes a native stream wait for what is in the driver's default stream.
bool order_after_default(DLDevice device, void *native);
// Of tensors in host memory; NULL: the library's choice again.
bool set_host_device(const char *name);

// Operations --------------------------------------------------------------------------------------

// sectile_op_run() on tensors in host memory, of a device that runs on the host; the results are
// there when it returns. Of outputs with an object in `given` (NULL: of none), what the operation
// does not write stays. At most 64 arguments; needs no interpreter.
sectile_status run_on_host(const sectile_op *op, const place *where,
                           const DLTensor *const *arguments, size_t count, size_t inputs,
                           PyObject *const *given, const sectile_option *options,
                           size_t option_count);

// sectile_op_infer(), which remembers. `types`: inputs, then outputs, whose shapes are in `shapes`
// afterwards.
bool output_types(const sectile_op *op, DLTensor *const *types, int inputs, int outputs,
                  const sectile_option *options, int option_count, int64_t (*shapes)[most_axes]);

PyObject *make_function(PyObject *module, PyObject *arguments);
PyObject *infer_types(PyObject *module, PyObject *arguments);
// prepare(function, ...): a function of the call with these arguments.
PyObject *prepare(PyObject *module, PyObject *const *values, Py_ssize_t count, PyObject *words);
// make_recorder(function, kept, zeros): what torch's autograd calls in place of the function.
PyObject *make_recorder(PyObject *module, PyObject *arguments);

// JAX ---------------------------------------------------------------------------------------------

// The functions that XLA calls, as capsules by the platform's name.
PyObject *xla_handlers(PyObject *module, PyObject *unused);
