// The module sectile._native: opens the library and gives Python its functions. The package sectile
// is what users see.
#include "native.h"
#include <dlfcn.h>
#include <string.h>

library_functions library;
static PyObject *error_classes[SECTILE_INTERNAL + 1];

bool succeeded(sectile_status status) {
  if (status == SECTILE_OK)
    return true;
  const char *file = NULL;
  uint32_t line = 0;
  const bool placed = library.sectile_error_place(&file, &line) == SECTILE_OK;
  const int number = status > 0 && status <= SECTILE_INTERNAL ? (int)status : SECTILE_INTERNAL;
  PyObject *kind = error_classes[number] ? error_classes[number] : PyExc_RuntimeError;
  PyObject *error = PyObject_CallFunction(kind, "s", library.sectile_error());
  if (!error)
    return false;
  if (placed) {
    PyObject *name = PyUnicode_DecodeFSDefault(file),
             *number_of_line = PyLong_FromUnsignedLong(line);
    if (name && number_of_line) {
      PyObject_SetAttrString(error, "file", name);
      PyObject_SetAttrString(error, "line", number_of_line);
    }
    Py_XDECREF(name);
    Py_XDECREF(number_of_line);
  }
  PyErr_SetObject((PyObject *)Py_TYPE(error), error);
  Py_DECREF(error);
  return false;
}

static PyObject *load(PyObject *module, PyObject *arguments) {
  (void)module;
  const char *path;
  PyObject *classes;
  if (!PyArg_ParseTuple(arguments, "sO!", &path, &PyTuple_Type, &classes))
    return NULL;
  if (library.sectile_version) {
    PyErr_SetString(PyExc_ImportError, "a library of Sectile is open already");
    return NULL;
  }
  void *opened = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!opened) {
    PyErr_Format(PyExc_ImportError, "the library of Sectile cannot be opened: %s", dlerror());
    return NULL;
  }
  library_functions found;
#define X(name)                                                                                    \
  if (!(found.name = (__typeof__(found.name))dlsym(opened, #name))) {                              \
    PyErr_Format(PyExc_ImportError,                                                                \
                 "%s is no library of Sectile " SECTILE_VERSION_STRING ": it has no function %s",  \
                 path, #name);                                                                     \
    return NULL;                                                                                   \
  }
  LIBRARY_FUNCTIONS(X)
#undef X
  library = found;
  for (Py_ssize_t i = 0; i < PyTuple_Size(classes) && i <= SECTILE_INTERNAL; ++i) {
    error_classes[i] = PyTuple_GetItem(classes, i);
    Py_INCREF(error_classes[i]);
  }
  if (!succeeded(library.sectile_require(SECTILE_VERSION)))
    return NULL;
  return PyLong_FromUnsignedLong(library.sectile_version());
}

static PyObject *op_names(PyObject *module, PyObject *unused) {
  (void)module, (void)unused;
  PyObject *names = PyList_New(0);
  const char *name;
  for (size_t i = 0; names && (name = library.sectile_op_name(i)); ++i) {
    PyObject *text = PyUnicode_FromString(name);
    if (!text || PyList_Append(names, text) != 0) {
      Py_XDECREF(text);
      Py_DECREF(names);
      return NULL;
    }
    Py_DECREF(text);
  }
  return names;
}

static PyObject *describe(PyObject *module, PyObject *name) {
  (void)module;
  const char *text = PyUnicode_AsUTF8AndSize(name, NULL), *json;
  const sectile_op *op;
  if (!text || !succeeded(library.sectile_op_find(text, &op)) ||
      !succeeded(library.sectile_op_describe(op, &json)))
    return NULL;
  return PyUnicode_FromString(json);
}

static PyObject *device_names(PyObject *module, PyObject *unused) {
  (void)module, (void)unused;
  const char *const *names;
  if (!succeeded(library.sectile_device_names(&names)))
    return NULL;
  PyObject *list = PyList_New(0);
  for (; list && *names; ++names) {
    PyObject *text = PyUnicode_FromString(*names);
    if (!text || PyList_Append(list, text) != 0) {
      Py_XDECREF(text);
      Py_DECREF(list);
      return NULL;
    }
    Py_DECREF(text);
  }
  return list;
}

static PyObject *device_info(PyObject *module, PyObject *name) {
  (void)module;
  const char *text = name == Py_None ? NULL : PyUnicode_AsUTF8AndSize(name, NULL);
  sectile_device *device;
  if (PyErr_Occurred() || !succeeded(library.sectile_device_open(text, &device)))
    return NULL;
  sectile_device_info_t info = {.size = sizeof info};
  const bool known = succeeded(library.sectile_device_info(device, &info));
  library.sectile_device_release(device);
  if (!known)
    return NULL;
  return Py_BuildValue(
      "{s:s,s:s,s:s,s:O,s:k,s:k,s:k,s:K,s:d,s:K,s:K}", "name", info.name, "description",
      info.description, "target", info.target, "on_host", info.on_host ? Py_True : Py_False,
      "warp_size", (unsigned long)info.warp_size, "max_threads", (unsigned long)info.max_threads,
      "multiprocessors", (unsigned long)info.multiprocessors, "max_shared_bytes",
      (unsigned long long)info.max_shared_bytes, "gigabytes_per_second", info.gigabytes_per_second,
      "free_bytes", (unsigned long long)info.free_bytes, "total_bytes",
      (unsigned long long)info.total_bytes);
}

static PyObject *use_host_device(PyObject *module, PyObject *name) {
  (void)module;
  const char *text = name == Py_None ? NULL : PyUnicode_AsUTF8AndSize(name, NULL);
  if (PyErr_Occurred() || !set_host_device(text))
    return NULL;
  Py_RETURN_NONE;
}

static PyObject *load_library(PyObject *module, PyObject *path) {
  (void)module;
  const char *text = PyUnicode_AsUTF8AndSize(path, NULL);
  if (!text || !succeeded(library.sectile_load_library(text)))
    return NULL;
  Py_RETURN_NONE;
}

static PyObject *load_bundle(PyObject *module, PyObject *path) {
  (void)module;
  const char *text = PyUnicode_AsUTF8AndSize(path, NULL);
  if (!text || !succeeded(library.sectile_bundle_load(text)))
    return NULL;
  Py_RETURN_NONE;
}

static PyObject *describe_bundles(PyObject *module, PyObject *path) {
  (void)module;
  const char *text = path == Py_None ? NULL : PyUnicode_AsUTF8AndSize(path, NULL), *json;
  if (PyErr_Occurred() || !succeeded(library.sectile_bundle_describe(text, &json)))
    return NULL;
  return PyUnicode_FromString(json);
}

static PyMethodDef methods[] = {
    {"load", load, METH_VARARGS,
     "load(path, error_classes): opens the library; gives its version."},
    {"op_names", op_names, METH_NOARGS, "The names of all operations."},
    {"describe", describe, METH_O, "What an operation is, as JSON."},
    {"load_library", load_library, METH_O, "Adds the kernels of a library of the user's."},
    {"load_bundle", load_bundle, METH_O, "Adds code that was compiled beforehand."},
    {"describe_bundles", describe_bundles, METH_O,
     "What a bundle has, or, of None, all that are loaded, as JSON."},
    {"make_function", make_function, METH_VARARGS, "An operation as a function."},
    {"prepare", (PyCFunction)(void (*)(void))prepare, METH_FASTCALL | METH_KEYWORDS,
     "A call of a function with these arguments, as a function."},
    {"make_recorder", make_recorder, METH_VARARGS,
     "What torch's autograd calls in place of a function."},
    {"infer_types", infer_types, METH_VARARGS, "The types of an operation's outputs."},
    {"device_names", device_names, METH_NOARGS, "The names of all devices that open."},
    {"device_info", device_info, METH_O, "What a device is."},
    {"use_host_device", use_host_device, METH_O,
     "The device for tensors in host memory; None: the default."},
    {"xla_handlers", xla_handlers, METH_NOARGS, "What XLA calls, by platform."},
    {0}};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "sectile._native",
                                        .m_size = -1, .m_methods = methods};

PyMODINIT_FUNC PyInit__native(void) { return PyModule_Create(&definition); }
