// What only torch's tensors have, and no protocol tells of: gradients, tangents, views that are not
// what their memory holds, an allocator with an order of its own.
#define _GNU_SOURCE
#include "native.h"
#include <dlfcn.h>
#include <string.h>

// Attributes are looked up in each call: a name that is made once costs a fourth.
static PyObject *attribute(PyObject *of, PyObject **name, const char *text) {
  if (!*name && !(*name = PyUnicode_InternFromString(text)))
    return NULL;
  return PyObject_GetAttr(of, *name);
}

// A function of torch's, by the module that has it. NULL where there is none, as of another
// framework whose tensors have requires_grad.
static PyObject *function_of_torch(const char *module, const char *name) {
  PyObject *imports = imported(module);
  PyObject *function = imports ? PyObject_GetAttrString(imports, name) : NULL;
  PyErr_Clear();
  return function;
}

// Gradients ---------------------------------------------------------------------------------------

int records_gradients(void) {
  static PyObject *is_recorded; // torch's function
  if (!is_recorded && !(is_recorded = function_of_torch("torch", "is_grad_enabled")))
    return 0;
  PyObject *recorded = PyObject_CallObject(is_recorded, NULL);
  const int is = recorded ? PyObject_IsTrue(recorded) : -1;
  Py_XDECREF(recorded);
  return is;
}

int requires_gradient(PyObject *tensor) {
  static PyObject *name;
  PyObject *wanted = attribute(tensor, &name, "requires_grad");
  const int is = wanted ? PyObject_IsTrue(wanted) : -1;
  Py_XDECREF(wanted);
  return is;
}

bool tell_written(PyObject *object, const producer *from) {
  static PyObject *increment; // torch's function
  if (!from->has_gradients)
    return true;
  if (!increment && !(increment = function_of_torch("torch.autograd.graph", "increment_version")))
    return true;
  PyObject *done = PyObject_CallFunctionObjArgs(increment, object, NULL);
  Py_XDECREF(done);
  return done;
}

bool is_transformed(void) {
  static PyObject *is_active; // torch's function, or None
  if (!is_active) {
    PyObject *torch = PyImport_ImportModule("torch._C");
    is_active = torch ? PyObject_GetAttrString(torch, "_are_functorch_transforms_active") : NULL;
    Py_XDECREF(torch);
    if (!is_active) {
      PyErr_Clear();
      is_active = Py_None;
      Py_INCREF(is_active);
    }
  }
  if (is_active == Py_None)
    return false; // then the function that records asks itself
  PyObject *answer = PyObject_CallObject(is_active, NULL);
  const bool is = !answer || PyObject_IsTrue(answer) != 0;
  PyErr_Clear();
  Py_XDECREF(answer);
  return is;
}

// Views -------------------------------------------------------------------------------------------

// Whether a tensor of torch's has a tangent of forward-mode differentiation. -1 with an exception
// set.
static int has_tangent(PyObject *object) {
  static PyObject *modes, *level_name; // torch's module
  if (!modes && !(modes = imported("torch.autograd.forward_ad")))
    return 0;
  // Not public; it saves what the question costs where no such mode is on.
  PyObject *level = attribute(modes, &level_name, "_current_level");
  const bool is_off = level && PyLong_AsLong(level) < 0;
  Py_XDECREF(level);
  PyErr_Clear();
  if (is_off)
    return 0;
  PyObject *both = PyObject_CallMethod(modes, "unpack_dual", "O", object);
  PyObject *tangent = both ? PyObject_GetAttrString(both, "tangent") : NULL;
  const int has = tangent ? tangent != Py_None : -1;
  Py_XDECREF(tangent);
  Py_XDECREF(both);
  return has;
}

bool is_what_memory_holds(PyObject *object, const char *name, const producer *from) {
  if (!from->is_negated)
    return true;
  PyObject *answer = PyObject_CallFunctionObjArgs(from->is_negated, object, NULL);
  const int is_negated = answer ? PyObject_IsTrue(answer) : -1;
  Py_XDECREF(answer);
  if (is_negated > 0)
    PyErr_Format(PyExc_ValueError,
                 "%s is a view that negates what its memory holds: give what its resolve_neg() "
                 "returns",
                 name);
  const int is_dual = is_negated ? 0 : has_tangent(object);
  if (is_dual > 0)
    PyErr_Format(PyExc_NotImplementedError,
                 "%s has a tangent, but there are no gradients in forward mode: use backward()",
                 name);
  return is_negated == 0 && is_dual == 0;
}

// New tensors -------------------------------------------------------------------------------------

// Torch's functions of C, as its header shim.h has them, where a tensor is a handle; and one that
// makes an object of Python of it, which has a name of C++.
static struct {
  int32_t (*empty)(int64_t axes, const int64_t *shape, const int64_t *strides, int32_t dtype,
                   int32_t device, int32_t number, void **tensor);
  int32_t (*data)(void *tensor, void **address);
  int32_t (*free)(void *tensor);
  int32_t (*cpu)(void), (*cuda)(void);
  PyObject *(*wrap)(const void *tensor);
} torch;

static bool find_functions(void) {
  // Those that are loaded: a class of torch's was seen.
  void *library = dlopen("libtorch_cpu.so", RTLD_LAZY | RTLD_NOLOAD);
  void *python = dlopen("libtorch_python.so", RTLD_LAZY | RTLD_NOLOAD);
  if (!library || !python)
    return false;
  return (torch.empty = dlsym(library, "aoti_torch_empty_strided")) &&
         (torch.data = dlsym(library, "aoti_torch_get_data_ptr")) &&
         (torch.free = dlsym(library, "aoti_torch_delete_tensor_object")) &&
         (torch.cpu = dlsym(library, "aoti_torch_device_type_cpu")) &&
         (torch.cuda = dlsym(library, "aoti_torch_device_type_cuda")) &&
         (torch.wrap = dlsym(python, "_Z16THPVariable_WrapRKN2at10TensorBaseE"));
}

// Torch's number of a dtype, -1 where it has none. Names are NumPy's.
static int32_t number_of(const char *dtype) {
  char name[64] = "aoti_torch_dtype_";
  void *library = dlopen("libtorch_cpu.so", RTLD_LAZY | RTLD_NOLOAD);
  int32_t (*number)(void) = NULL;
  if (library && strlen(name) + strlen(dtype) < sizeof name)
    number = dlsym(library, strcat(name, dtype));
  return number ? number() : -1;
}

// Whether the object is the tensor that it was made of: what stands for one is torch's own affair.
static bool is_alike(PyObject *object, const producer *from, const DLTensor *tensor) {
  DLTensor seen;
  if (from->api->dltensor_from_py_object_no_sync(object, &seen) != 0) {
    PyErr_Clear();
    return false;
  }
  return seen.data == tensor->data && seen.ndim == tensor->ndim &&
         seen.dtype.code == tensor->dtype.code && seen.dtype.bits == tensor->dtype.bits &&
         memcmp(seen.shape, tensor->shape, sizeof *seen.shape * (size_t)seen.ndim) == 0;
}

PyObject *allocate_by_torch(const producer *from, const DLTensor *wanted, operand *to) {
  static enum { unknown, absent, seen, checked } functions;
  static int32_t numbers[256]; // of dtypes, 1 more than torch's; -1: it has none
  if (functions == unknown)
    functions = find_functions() ? seen : absent;
  if (functions == absent)
    return NULL;
  const int dtype = dtype_index(wanted->dtype);
  if (dtype < 0)
    return NULL;
  if (!numbers[dtype]) {
    const int32_t number = number_of(numpy_name(dtype));
    numbers[dtype] = number < 0 ? -1 : number + 1;
  }
  void *tensor, *address;
  if (numbers[dtype] < 0)
    return NULL;
  dense_strides(wanted->shape, wanted->ndim, to->strides);
  const bool on_host = wanted->device.device_type == kDLCPU;
  // The caller's other way reports what fails here.
  if (torch.empty(wanted->ndim, wanted->shape, to->strides, numbers[dtype] - 1,
                  on_host ? torch.cpu() : torch.cuda(), wanted->device.device_id, &tensor) != 0)
    return NULL;
  PyObject *object = torch.data(tensor, &address) == 0 ? torch.wrap(tensor) : NULL;
  torch.free(tensor);
  if (!object) {
    PyErr_Clear();
    return NULL;
  }
  to->tensor = *wanted;
  to->tensor.data = address;
  to->tensor.strides = to->strides;
  to->tensor.byte_offset = 0;
  if (functions == seen && !is_alike(object, from, &to->tensor)) {
    functions = absent;
    return NULL;
  }
  functions = checked;
  return object;
}
