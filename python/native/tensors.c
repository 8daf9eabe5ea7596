// Tensors of NumPy, torch and every other framework, borrowed as DLPack's, and new ones for
// outputs.
#include "native.h"
#include <string.h>

static const struct {
  const char *name, *numpy;
  uint8_t code, bits;
} dtypes[] = {
    {"bool", "bool", kDLBool, 8},
    {"i8", "int8", kDLInt, 8},
    {"i16", "int16", kDLInt, 16},
    {"i32", "int32", kDLInt, 32},
    {"i64", "int64", kDLInt, 64},
    {"u8", "uint8", kDLUInt, 8},
    {"u16", "uint16", kDLUInt, 16},
    {"u32", "uint32", kDLUInt, 32},
    {"u64", "uint64", kDLUInt, 64},
    {"f16", "float16", kDLFloat, 16},
    {"bf16", "bfloat16", kDLBfloat, 16},
    {"f32", "float32", kDLFloat, 32},
    {"f64", "float64", kDLFloat, 64},
    {"f8e4m3", "float8_e4m3fn", kDLFloat8_e4m3fn, 8},
    {"f8e5m2", "float8_e5m2", kDLFloat8_e5m2, 8},
    {"f8e4m3fnuz", "float8_e4m3fnuz", kDLFloat8_e4m3fnuz, 8},
    {"f8e5m2fnuz", "float8_e5m2fnuz", kDLFloat8_e5m2fnuz, 8},
    {"f8e4m3b11fnuz", "float8_e4m3b11fnuz", kDLFloat8_e4m3b11fnuz, 8},
};
enum { dtype_count = sizeof dtypes / sizeof *dtypes };

int dtype_index(DLDataType type) {
  for (int i = 0; i < dtype_count; ++i)
    if (dtypes[i].code == type.code && dtypes[i].bits == type.bits && type.lanes == 1)
      return i;
  return -1;
}

const char *numpy_name(int dtype) { return dtypes[dtype].numpy; }

const char *dtype_name(DLDataType type) {
  const int i = dtype_index(type);
  return i < 0 ? NULL : dtypes[i].name;
}

bool find_dtype(const char *name, DLDataType *type) {
  for (int i = 0; i < dtype_count; ++i)
    if (strcmp(dtypes[i].name, name) == 0) {
      *type = (DLDataType){dtypes[i].code, dtypes[i].bits, 1};
      return true;
    }
  return false;
}

bool dtype_named(const char *name, DLDataType *type) {
  if (find_dtype(name, type))
    return true;
  PyErr_Format(PyExc_ValueError, "no dtype is called '%s'", name);
  return false;
}

// Producers ---------------------------------------------------------------------------------------

// Types of tensors are few and stay: what is known of each is kept, under the interpreter's lock.
static producer *producers[64];
static int producer_count;

PyObject *imported(const char *name) {
  return PyDict_GetItemString(PyImport_GetModuleDict(), name);
}

static bool has_attribute(PyTypeObject *type, const char *name) {
  PyObject *found = PyObject_GetAttrString((PyObject *)type, name);
  if (!found)
    PyErr_Clear();
  Py_XDECREF(found);
  return found != NULL;
}

static const DLPackExchangeAPI *exchange_api(PyTypeObject *type) {
  PyObject *capsule = PyObject_GetAttrString((PyObject *)type, "__dlpack_c_exchange_api__");
  if (!capsule) {
    PyErr_Clear();
    return NULL;
  }
  // Lives as long as the process, by DLPack's rules.
  const DLPackExchangeAPIHeader *api = PyCapsule_GetPointer(capsule, "dlpack_exchange_api");
  PyErr_Clear();
  Py_DECREF(capsule);
  while (api && api->version.major != DLPACK_MAJOR_VERSION)
    api = api->prev_api;
  const DLPackExchangeAPI *found = (const DLPackExchangeAPI *)api;
  return found && found->dltensor_from_py_object_no_sync ? found : NULL;
}

// Of arrays and of what stands for one while JAX looks into a program.
static bool is_array_of_jax(PyObject *object) {
  PyObject *jax = imported("jax");
  PyObject *array = jax ? PyObject_GetAttrString(jax, "Array") : NULL;
  const bool is = array && PyObject_IsInstance(object, array) == 1;
  Py_XDECREF(array);
  PyErr_Clear();
  return is;
}

static bool is_array_of_numpy(PyTypeObject *type) {
  PyObject *numpy = imported("numpy");
  PyObject *array = numpy ? PyObject_GetAttrString(numpy, "ndarray") : NULL;
  if (!array) {
    PyErr_Clear();
    return false;
  }
  const bool is = PyType_Check(array) && PyType_IsSubtype(type, (PyTypeObject *)array);
  Py_DECREF(array);
  return is;
}

// Whether a class of torch's tensors computes in a way of its own: it may have no memory at all.
static bool computes_its_own_way(PyTypeObject *type) {
  PyObject *torch = imported("torch");
  PyObject *tensor = torch ? PyObject_GetAttrString(torch, "Tensor") : NULL;
  PyObject *usual = tensor ? PyObject_GetAttrString(tensor, "__torch_dispatch__") : NULL;
  PyObject *own = usual ? PyObject_GetAttrString((PyObject *)type, "__torch_dispatch__") : NULL;
  PyErr_Clear();
  const bool is = own && own != usual;
  Py_XDECREF(own);
  Py_XDECREF(usual);
  Py_XDECREF(tensor);
  return is;
}

static bool is_class_of(PyTypeObject *type, const char *module, const char *name) {
  PyObject *imports = imported(module);
  PyObject *found = imports ? PyObject_GetAttrString(imports, name) : NULL;
  PyErr_Clear();
  Py_XDECREF(found);
  return found == (PyObject *)type; // which is alive
}

const producer *producer_of(PyObject *object, const char *name) {
  PyTypeObject *type = Py_TYPE(object);
  for (int i = 0; i < producer_count; ++i)
    if (producers[i]->type == type)
      return producers[i];
  producer found = {.type = type, .api = exchange_api(type)};
  if (is_array_of_jax(object))
    found.looked_into = "sectile.jax";
  if (found.api)
    found.kind = by_exchange_api;
  else if (is_array_of_numpy(type)) {
    found.kind = by_numpy;
    if (has_attribute(type, "mask")) {
      PyErr_Format(PyExc_TypeError, "%s is %R: no kernel knows of its mask, so give it filled",
                   name, type);
      return NULL;
    }
  } else if (has_attribute(type, "__dlpack__"))
    found.kind = by_protocol;
  else {
    PyErr_Format(
        PyExc_TypeError,
        "%s is %R: tensors of NumPy, torch, JAX and others that have __dlpack__ can be used", name,
        type);
    return NULL;
  }
  found.has_gradients = has_attribute(type, "requires_grad");
  if (found.has_gradients && computes_its_own_way(type))
    found.looked_into = "sectile.torch";
  found.is_negated = PyObject_GetAttrString((PyObject *)type, "is_neg");
  PyErr_Clear();
  found.is_plain =
      is_class_of(type, "torch", "Tensor") || is_class_of(type, "torch.nn.parameter", "Parameter");
  const int place = producer_count < 64 ? producer_count++ : 63;
  producer *kept = PyMem_Malloc(sizeof found);
  if (!kept)
    return (const producer *)PyErr_NoMemory();
  *kept = found;
  Py_INCREF(type);
  producers[place] = kept; // one that makes way stays in memory, as calls may use it
  return kept;
}

// Borrowing ---------------------------------------------------------------------------------------

static bool too_many_axes(const char *name, Py_ssize_t axes) {
  if (axes <= most_axes)
    return false;
  PyErr_Format(PyExc_ValueError, "%s has %zd axes, and %d are possible", name, axes,
               (int)most_axes);
  return true;
}

// The dtype of an array by NumPy's letters; by its name where these say only how large an element
// is.
static bool dtype_of_numpy(PyObject *array, const char *letters, const char *name, DLDataType *to) {
  static const char kinds[] = "biuf";
  static const uint8_t codes[] = {kDLBool, kDLInt, kDLUInt, kDLFloat};
  const char *kind = *letters && letters[1] ? strchr(kinds, letters[1]) : NULL;
  if (letters[0] != '>' && kind) {
    *to = (DLDataType){codes[kind - kinds], (uint8_t)(8 * atoi(letters + 2)), 1};
    return true;
  }
  PyObject *dtype = PyObject_GetAttrString(array, "dtype");
  PyObject *text = dtype ? PyObject_Str(dtype) : NULL;
  Py_XDECREF(dtype);
  const char *words = text ? PyUnicode_AsUTF8AndSize(text, NULL) : NULL;
  bool found = false;
  for (int i = 0; words && letters[0] != '>' && i < dtype_count && !found; ++i)
    if (strcmp(dtypes[i].numpy, words) == 0) {
      *to = (DLDataType){dtypes[i].code, dtypes[i].bits, 1};
      found = true;
    }
  if (words && !found)
    PyErr_Format(PyExc_TypeError, "%s has elements of type %s, which no kernel takes", name, words);
  Py_XDECREF(text);
  return found;
}

static bool numbers_of(PyObject *tuple, int64_t *to, int count, int64_t divisor, const char *name) {
  for (int i = 0; i < count; ++i) {
    to[i] = PyLong_AsLongLong(PyTuple_GetItem(tuple, i));
    if (PyErr_Occurred())
      return false;
    if (to[i] % divisor) {
      PyErr_Format(PyExc_ValueError,
                   "%s has elements that are no whole number of elements apart: copy it first",
                   name);
      return false;
    }
    to[i] /= divisor;
  }
  return true;
}

void dense_strides(const int64_t *shape, int axes, int64_t *strides) {
  for (int64_t stride = 1, i = axes; i-- > 0; stride *= shape[i] > 0 ? shape[i] : 1)
    strides[i] = stride;
}

static bool borrow_numpy(PyObject *array, const char *name, operand *to) {
  PyObject *interface = PyObject_GetAttrString(array, "__array_interface__");
  if (!interface)
    return false;
  PyObject *data = PyDict_GetItemString(interface, "data");
  PyObject *shape = PyDict_GetItemString(interface, "shape");
  PyObject *strides = PyDict_GetItemString(interface, "strides");
  PyObject *letters = PyDict_GetItemString(interface, "typestr");
  bool done = false;
  const char *text = letters ? PyUnicode_AsUTF8AndSize(letters, NULL) : NULL;
  if (data && PyTuple_Check(data) && shape && PyTuple_Check(shape) && text &&
      dtype_of_numpy(array, text, name, &to->tensor.dtype) &&
      !too_many_axes(name, PyTuple_Size(shape))) {
    const DLDataType type = to->tensor.dtype;
    to->tensor = (DLTensor){.device = {kDLCPU, 0}, .dtype = type};
    to->tensor.ndim = (int32_t)PyTuple_Size(shape);
    to->tensor.data = PyLong_AsVoidPtr(PyTuple_GetItem(data, 0));
    to->read_only = PyObject_IsTrue(PyTuple_GetItem(data, 1)) == 1;
    done = !PyErr_Occurred() && numbers_of(shape, to->shape, to->tensor.ndim, 1, name);
    if (done && strides && PyTuple_Check(strides))
      done = numbers_of(strides, to->strides, to->tensor.ndim, to->tensor.dtype.bits / 8, name);
    else if (done)
      dense_strides(to->shape, to->tensor.ndim, to->strides);
    to->tensor.shape = to->shape;
    to->tensor.strides = to->strides;
  } else if (!PyErr_Occurred())
    PyErr_Format(PyExc_TypeError, "%s has an __array_interface__ that cannot be read", name);
  Py_DECREF(interface);
  return done;
}

// The tensor in a capsule of DLPack, which keeps it; NULL with an exception set.
static const DLTensor *tensor_in(PyObject *capsule, const char *name, bool *read_only) {
  if (PyCapsule_IsValid(capsule, "dltensor_versioned")) {
    const DLManagedTensorVersioned *managed = PyCapsule_GetPointer(capsule, "dltensor_versioned");
    if (managed->version.major != DLPACK_MAJOR_VERSION) {
      PyErr_Format(PyExc_BufferError, "%s comes by version %u of DLPack, and %d can be read", name,
                   (unsigned)managed->version.major, DLPACK_MAJOR_VERSION);
      return NULL;
    }
    *read_only = managed->flags & DLPACK_FLAG_BITMASK_READ_ONLY;
    return &managed->dl_tensor;
  }
  if (PyCapsule_IsValid(capsule, "dltensor"))
    return &((const DLManagedTensor *)PyCapsule_GetPointer(capsule, "dltensor"))->dl_tensor;
  PyErr_Format(PyExc_BufferError, "%s: __dlpack__ gave no tensor of DLPack", name);
  return NULL;
}

// On a GPU, the framework's work so far comes before ours, which goes to the driver's default
// stream.
static PyObject *capsule_of(PyObject *object) {
  PyObject *device = PyObject_CallMethod(object, "__dlpack_device__", NULL);
  PyObject *first = device ? PySequence_GetItem(device, 0) : NULL;
  const long type = first ? PyLong_AsLong(first) : -1;
  Py_XDECREF(device);
  Py_XDECREF(first);
  PyObject *method = PyErr_Occurred() ? NULL : PyObject_GetAttrString(object, "__dlpack__");
  if (!method)
    return NULL;
  PyObject *none = PyTuple_New(0);
  PyObject *words =
      type == kDLCUDA   ? Py_BuildValue("{s:(ii),s:i}", "max_version", 1, 3, "stream", 1)
      : type == kDLROCM ? Py_BuildValue("{s:(ii),s:i}", "max_version", 1, 3, "stream", 0)
                        : Py_BuildValue("{s:(ii)}", "max_version", 1, 3);
  PyObject *capsule = none && words ? PyObject_Call(method, none, words) : NULL;
  if (!capsule && words && PyErr_ExceptionMatches(PyExc_TypeError)) { // from before DLPack 1.0
    PyErr_Clear();
    PyDict_DelItemString(words, "max_version");
    capsule = PyObject_Call(method, none, words);
  }
  Py_XDECREF(words);
  Py_XDECREF(none);
  Py_DECREF(method);
  return capsule;
}

static bool borrow_by_protocol(PyObject *object, const char *name, operand *to) {
  // Torch exports no tensor that wants a gradient; here nobody records one.
  PyObject *plain = to->from->has_gradients ? PyObject_CallMethod(object, "detach", NULL) : object;
  PyObject *capsule = plain ? capsule_of(plain) : NULL;
  if (plain != object)
    Py_XDECREF(plain);
  if (!capsule)
    return false;
  const DLTensor *tensor = tensor_in(capsule, name, &to->read_only);
  if (!tensor || too_many_axes(name, tensor->ndim)) {
    Py_DECREF(capsule);
    return false;
  }
  to->keep = capsule; // its destructor frees what nobody takes
  to->tensor = *tensor;
  if (!tensor->strides) {
    dense_strides(tensor->shape, tensor->ndim, to->strides);
    to->tensor.strides = to->strides;
  }
  return true;
}

static bool has_memory(const DLTensor *tensor, const char *name) {
  if (tensor->data || !library.sectile_tensor_bytes(tensor))
    return true;
  PyErr_Format(PyExc_ValueError, "%s has elements, but no memory", name);
  return false;
}

bool borrow(PyObject *object, const char *name, operand *to) {
  to->keep = NULL;
  to->read_only = false;
  to->from = producer_of(object, name);
  if (!to->from || !is_what_memory_holds(object, name, to->from))
    return false;
  switch (to->from->kind) {
  case by_exchange_api:
    if (to->from->api->dltensor_from_py_object_no_sync(object, &to->tensor) != 0) {
      if (!PyErr_Occurred())
        PyErr_Format(PyExc_BufferError, "%s cannot be used: its framework gives no memory", name);
      return false;
    }
    return !too_many_axes(name, to->tensor.ndim) && has_memory(&to->tensor, name);
  case by_numpy:
    return borrow_numpy(object, name, to);
  default:
    return borrow_by_protocol(object, name, to);
  }
}

void give_back(operand *borrowed) {
  Py_XDECREF(borrowed->keep);
  borrowed->keep = NULL;
}

// Outputs -----------------------------------------------------------------------------------------

static void set_error(void *unused, const char *kind, const char *message) {
  (void)unused;
  PyGILState_STATE state = PyGILState_Ensure();
  PyErr_Format(strcmp(kind, "MemoryError") == 0 ? PyExc_MemoryError : PyExc_RuntimeError, "%s",
               message);
  PyGILState_Release(state);
}

// The tensor is borrowed at once: it is as it was made.
static PyObject *allocate_by_api(const producer *from, const DLTensor *wanted, operand *to) {
  DLTensor prototype = *wanted;
  DLManagedTensorVersioned *managed = NULL;
  PyObject *object = NULL;
  if (from->is_plain && (object = allocate_by_torch(from, wanted, to)))
    return object;
  bool made = from->api->managed_tensor_allocator(&prototype, &managed, NULL, set_error) == 0;
  if (made) {
    to->tensor = managed->dl_tensor;
    to->tensor.shape = wanted->shape;
    for (int axis = 0; axis < wanted->ndim; ++axis)
      to->strides[axis] = managed->dl_tensor.strides ? managed->dl_tensor.strides[axis] : 0;
    if (!managed->dl_tensor.strides)
      dense_strides(wanted->shape, wanted->ndim, to->strides);
    to->tensor.strides = to->strides;
    made = from->api->managed_tensor_to_py_object_no_sync(managed, (void **)&object) == 0;
  }
  if (!made && !PyErr_Occurred())
    PyErr_SetString(PyExc_RuntimeError, "the framework of the inputs allocates no tensor");
  return made ? object : NULL;
}

static PyObject *allocate_by_numpy(const DLTensor *wanted, const char *name) {
  const int i = dtype_index(wanted->dtype);
  PyObject *numpy = i < 0 ? NULL : imported("numpy");
  if (!numpy) {
    PyErr_Format(PyExc_TypeError, "%s would have elements of a type that NumPy has not", name);
    return NULL;
  }
  PyObject *shape = PyTuple_New(wanted->ndim), *dtype = NULL, *array = NULL;
  for (int axis = 0; shape && axis < wanted->ndim; ++axis)
    PyTuple_SetItem(shape, axis, PyLong_FromLongLong(wanted->shape[axis]));
  if (wanted->dtype.code <= kDLFloat || wanted->dtype.code == kDLBool)
    dtype = PyUnicode_FromString(dtypes[i].numpy);
  else {
    PyObject *types = PyImport_ImportModule("ml_dtypes"); // whose types NumPy has for these
    dtype = types ? PyObject_GetAttrString(types, dtypes[i].numpy) : NULL;
    Py_XDECREF(types);
  }
  if (shape && dtype)
    array = PyObject_CallMethod(numpy, "empty", "OO", shape, dtype);
  Py_XDECREF(shape);
  Py_XDECREF(dtype);
  return array;
}

// A tensor of ours, which the framework takes over when it is written: its arrays may be immutable.
static void free_tensor(PyObject *capsule) {
  DLManagedTensorVersioned *managed = PyCapsule_GetPointer(capsule, PyCapsule_GetName(capsule));
  if (PyCapsule_IsValid(capsule, "dltensor_versioned") && managed->deleter)
    managed->deleter(managed);
}

static PyObject *allocate_ours(const DLTensor *wanted) {
  sectile_device *device = NULL;
  DLManagedTensorVersioned *managed = NULL;
  place where;
  if (!current_place(wanted->device, NULL, &where))
    return NULL;
  device = where.device;
  if (!succeeded(library.sectile_tensor_new(device, wanted, &managed)))
    return NULL;
  PyObject *capsule = PyCapsule_New(managed, "dltensor_versioned", free_tensor);
  if (!capsule)
    managed->deleter(managed);
  return capsule;
}

PyObject *allocate(const producer *from, PyObject *like, const DLTensor *wanted, const char *name,
                   operand *to) {
  (void)like;
  to->keep = NULL;
  to->from = from;
  to->read_only = false;
  if (from->kind == by_protocol) {
    PyObject *capsule = allocate_ours(wanted);
    if (capsule)
      to->tensor = ((DLManagedTensorVersioned *)PyCapsule_GetPointer(capsule, "dltensor_versioned"))
                       ->dl_tensor;
    return capsule;
  }
  if (from->kind == by_exchange_api)
    return allocate_by_api(from, wanted, to);
  PyObject *object = allocate_by_numpy(wanted, name);
  if (object && !borrow(object, name, to)) {
    Py_DECREF(object);
    return NULL;
  }
  return object;
}

// What from_dlpack() of a framework reads: an object with a tensor of ours.
typedef struct {
  PyObject_HEAD PyObject *capsule;
  int type, id;
} exported;

// On a GPU the stream of the one who asks waits for ours.
static PyObject *exported_dlpack(PyObject *self, PyObject *arguments, PyObject *words) {
  (void)arguments;
  exported *object = (exported *)self;
  PyObject *stream = words ? PyDict_GetItemString(words, "stream") : NULL;
  if (object->type != kDLCPU) {
    // DLPack's numbers: 0 to 2 are the driver's default streams, -1 wants no order.
    const long long number = stream && stream != Py_None ? PyLong_AsLongLong(stream) : 0;
    if (PyErr_Occurred())
      return NULL;
    if (number != -1 && !order_after_default((DLDevice){object->type, object->id},
                                             number > 2 ? (void *)(uintptr_t)number : NULL))
      return NULL;
  }
  Py_INCREF(object->capsule);
  return object->capsule;
}
static PyObject *exported_device(PyObject *self, PyObject *unused) {
  (void)unused;
  return Py_BuildValue("ii", ((exported *)self)->type, ((exported *)self)->id);
}
static void exported_free(PyObject *self) {
  PyTypeObject *type = Py_TYPE(self);
  Py_XDECREF(((exported *)self)->capsule);
  PyObject_Free(self);
  Py_DECREF(type);
}
static PyMethodDef exported_methods[] = {{"__dlpack__",
                                          (PyCFunction)(void (*)(void))exported_dlpack,
                                          METH_VARARGS | METH_KEYWORDS, NULL},
                                         {"__dlpack_device__", exported_device, METH_NOARGS, NULL},
                                         {0}};
static PyType_Slot exported_slots[] = {
    {Py_tp_dealloc, (void *)exported_free}, {Py_tp_methods, exported_methods}, {0}};
static PyType_Spec exported_spec = {"sectile._native.Exported", sizeof(exported), 0,
                                    Py_TPFLAGS_DEFAULT, exported_slots};

// The module that has from_dlpack() for arrays like this one.
static PyObject *namespace_of(PyObject *array) {
  PyObject *names = PyObject_CallMethod(array, "__array_namespace__", NULL);
  if (names)
    return names;
  PyErr_Clear();
  PyObject *module = PyObject_GetAttrString((PyObject *)Py_TYPE(array), "__module__");
  const char *text = module ? PyUnicode_AsUTF8AndSize(module, NULL) : NULL;
  if (text) {
    PyObject *root = PyUnicode_FromStringAndSize(text, (Py_ssize_t)strcspn(text, "."));
    names = root ? PyImport_Import(root) : NULL;
    Py_XDECREF(root);
  }
  Py_XDECREF(module);
  return names;
}

PyObject *finished(const producer *from, PyObject *like, PyObject *output) {
  static PyObject *type;
  if (from->kind != by_protocol || !PyCapsule_CheckExact(output))
    return output;
  const DLTensor *tensor =
      &((DLManagedTensorVersioned *)PyCapsule_GetPointer(output, "dltensor_versioned"))->dl_tensor;
  if (!type)
    type = PyType_FromSpec(&exported_spec);
  exported *object = type ? PyObject_New(exported, (PyTypeObject *)type) : NULL;
  if (!object) {
    Py_DECREF(output);
    return NULL;
  }
  object->capsule = output;
  object->type = tensor->device.device_type;
  object->id = tensor->device.device_id;
  PyObject *names = namespace_of(like);
  PyObject *array = names ? PyObject_CallMethod(names, "from_dlpack", "O", object) : NULL;
  Py_XDECREF(names);
  Py_DECREF(object);
  return array;
}
