// What torch's autograd calls for a call that it records: the result, and what the backward pass
// needs. Without a frame of Python, which costs as much as a small operation.
#include "operation.h"

static const char recorder_capsule[] = "sectile.recorder";

// Of what the backward pass reads.
typedef struct {
  bool is_output;
  int at;
} kept;

typedef struct {
  operation *self;
  int kept_count, zero_count;
  kept keeps[2 * most_arguments];
  int zeros[most_arguments]; // outputs whose gradient is zero where nothing depends on them
  PyMethodDef method;
} recorder;

// Names of what a context of torch's has.
static PyObject *word_to_save, *word_materialize, *word_options, *word_shapes, *word_shape,
    *word_dtype;

static PyObject *item_of(const recorder *one, PyObject *result, int at) {
  return one->self->outputs == 1 ? result : PyTuple_GetItem(result, at);
}

static bool save(const recorder *one, PyObject *context, PyObject *const *inputs, Py_ssize_t count,
                 PyObject *result) {
  PyObject *tensors = PyTuple_New(one->kept_count);
  for (int i = 0; tensors && i < one->kept_count; ++i) {
    const int at = one->keeps[i].at;
    PyObject *tensor = one->keeps[i].is_output ? item_of(one, result, at)
                       : at < count            ? inputs[at]
                                               : Py_None;
    Py_INCREF(tensor);
    PyTuple_SetItem(tensors, i, tensor);
  }
  const bool done = tensors && PyObject_SetAttr(context, word_to_save, tensors) == 0;
  Py_XDECREF(tensors);
  return done;
}

// (shape, dtype) by place.
static bool save_shapes(const recorder *one, PyObject *context, PyObject *result) {
  PyObject *shapes = PyDict_New();
  bool done = shapes;
  for (int i = 0; done && i < one->zero_count; ++i) {
    PyObject *tensor = item_of(one, result, one->zeros[i]);
    if (tensor == Py_None)
      continue;
    PyObject *shape = PyObject_GetAttr(tensor, word_shape),
             *dtype = shape ? PyObject_GetAttr(tensor, word_dtype) : NULL,
             *both = dtype ? PyTuple_Pack(2, shape, dtype) : NULL,
             *place = both ? PyLong_FromLong(one->zeros[i]) : NULL;
    done = place && PyDict_SetItem(shapes, place, both) == 0;
    Py_XDECREF(place);
    Py_XDECREF(both);
    Py_XDECREF(dtype);
    Py_XDECREF(shape);
  }
  done = done && PyObject_SetAttr(context, word_shapes, shapes) == 0;
  Py_XDECREF(shapes);
  return done;
}

// Options as a call has them: values after the inputs, and a tuple of their words.
static PyObject *result_with(const recorder *one, PyObject *const *inputs, Py_ssize_t count,
                             PyObject *options) {
  PyObject *values[most_arguments + most_options], *word, *value;
  const Py_ssize_t named = PyDict_Size(options);
  if (named < 0 || named > most_options || count > most_arguments) {
    PyErr_Format(PyExc_TypeError, "%s() got more than it has arguments", one->self->name);
    return NULL;
  }
  PyObject *words = PyTuple_New(named);
  for (Py_ssize_t i = 0; i < count; ++i)
    values[i] = inputs[i];
  for (Py_ssize_t i = 0, at = 0; words && PyDict_Next(options, &at, &word, &value); ++i) {
    Py_INCREF(word);
    PyTuple_SetItem(words, i, word);
    values[count + i] = value;
  }
  PyObject *result = words ? tuple_of_call(one->self, values, count, words) : NULL;
  Py_XDECREF(words);
  return result;
}

// record(context, options, input...)
static PyObject *record(PyObject *capsule, PyObject *const *values, Py_ssize_t count) {
  const recorder *one = PyCapsule_GetPointer(capsule, recorder_capsule);
  if (count < 2 || !PyDict_Check(values[1])) {
    PyErr_SetString(PyExc_TypeError, "a recorded call takes a context, options and tensors");
    return NULL;
  }
  PyObject *const context = values[0], *const options = values[1], *const *inputs = values + 2;
  const bool has_options = PyDict_Size(options) > 0;
  PyObject *result = has_options ? result_with(one, inputs, count - 2, options)
                                 : tuple_of_call(one->self, inputs, count - 2, NULL);
  if (result &&
      ((has_options && PyObject_SetAttr(context, word_options, options) != 0) ||
       (one->self->outputs > 1 && PyObject_SetAttr(context, word_materialize, Py_False) != 0) ||
       (one->kept_count && !save(one, context, inputs, count - 2, result)) ||
       (one->zero_count && !save_shapes(one, context, result)))) {
    Py_DECREF(result);
    return NULL;
  }
  return result;
}

static bool intern(PyObject **name, const char *text) {
  return *name || (*name = PyUnicode_InternFromString(text));
}

// make_recorder(function, kept, zeros): kept are pairs of whether it is an output, and its place.
PyObject *make_recorder(PyObject *module, PyObject *arguments) {
  (void)module;
  PyObject *function, *keeps, *zeros;
  if (!PyArg_ParseTuple(arguments, "OO!O!", &function, &PyList_Type, &keeps, &PyList_Type, &zeros))
    return NULL;
  if (!intern(&word_to_save, "to_save") || !intern(&word_materialize, "materialize_grads") ||
      !intern(&word_options, "options") || !intern(&word_shapes, "shapes") ||
      !intern(&word_shape, "shape") || !intern(&word_dtype, "dtype"))
    return NULL;
  PyObject *bound = PyObject_GetAttrString(function, "__self__");
  recorder *one = bound ? PyMem_Calloc(1, sizeof *one) : NULL;
  if (!one) {
    Py_XDECREF(bound);
    return PyErr_Occurred() ? NULL : PyErr_NoMemory();
  }
  // Both live for ever, as operations do.
  one->self = PyCapsule_GetPointer(bound, operation_capsule);
  Py_DECREF(bound);
  if (!one->self || PyList_Size(keeps) > 2 * most_arguments || PyList_Size(zeros) > most_arguments)
    return PyErr_Occurred() ? NULL : PyErr_NoMemory();
  one->kept_count = (int)PyList_Size(keeps);
  one->zero_count = (int)PyList_Size(zeros);
  for (int i = 0; i < one->kept_count; ++i) {
    int is_output;
    if (!PyArg_ParseTuple(PyList_GetItem(keeps, i), "pi", &is_output, &one->keeps[i].at))
      return NULL;
    one->keeps[i].is_output = is_output;
  }
  for (int i = 0; i < one->zero_count; ++i)
    one->zeros[i] = (int)PyLong_AsLong(PyList_GetItem(zeros, i));
  if (PyErr_Occurred())
    return NULL;
  one->method = (PyMethodDef){one->self->name, (PyCFunction)(void (*)(void))record, METH_FASTCALL,
                              "The call as torch's autograd records it."};
  PyObject *capsule = PyCapsule_New(one, recorder_capsule, NULL);
  return capsule ? PyCFunction_NewEx(&one->method, capsule, NULL) : NULL;
}
