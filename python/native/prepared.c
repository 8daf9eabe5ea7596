// Prepared calls: one operation on the same tensors again and again, of which all is settled.
#include "operation.h"

typedef struct {
  operation *self;
  call of; // owns what it borrows, and references to the tensors
  DLDevice device;
  const producer *from;
  sectile_call *handle; // NULL on the host, whose calls work on copies
  PyObject *words;      // values of options, whose texts the call has
  PyObject *result;
} prepared;

static const char prepared_capsule[] = "sectile.prepared";

static void free_prepared(PyObject *capsule) {
  prepared *one = PyCapsule_GetPointer(capsule, prepared_capsule);
  library.sectile_call_release(one->handle);
  end_call(one->self, &one->of);
  for (int i = 0; i < one->self->inputs; ++i)
    Py_XDECREF(one->of.inputs[i]);
  for (int i = 0; i < one->self->outputs; ++i)
    Py_XDECREF(one->of.outputs[i]);
  Py_XDECREF(one->words);
  Py_XDECREF(one->result);
  PyMem_Free(one);
}

// Whether a prepared call can have these inputs.
static bool may_have(const operation *self, const call *of) {
  const char *module;
  for (int i = 0; i < self->inputs; ++i) {
    const producer *from = of->inputs[i] ? producer_of(of->inputs[i], self->texts[i]) : NULL;
    if (!of->inputs[i])
      continue;
    if (!from)
      return false;
    if (from->kind == by_protocol) {
      PyErr_Format(PyExc_TypeError,
                   "prepare(): %s is %R: prepared calls take tensors of torch and NumPy",
                   self->texts[i], from->type);
      return false;
    }
  }
  if (!looked_into(self, of, &module))
    return false;
  if (module) {
    PyErr_Format(PyExc_TypeError,
                 "prepare(): %s() got a tensor that its framework looks into: call the function",
                 self->name);
    return false;
  }
  const int wants = wants_gradient(self, of);
  if (wants > 0)
    PyErr_Format(PyExc_ValueError,
                 "prepare(): an input of %s() requires a gradient, which prepared calls do not "
                 "record: detach it, or use torch.no_grad()",
                 self->name);
  return wants == 0;
}

// The tensors of a call on others, and which outputs are the caller's: those that it names, and the
// prepared ones for the rest.
static bool take_others(const prepared *one, call *others, const DLTensor **tensors,
                        PyObject **outputs) {
  const operation *self = one->self;
  for (int i = 0; i < self->outputs; ++i)
    outputs[i] = others->outputs[i] ? others->outputs[i] : one->of.outputs[i];
  for (int i = 0; i < self->inputs + self->outputs; ++i)
    tensors[i] = one->of.tensors[i];
  for (int i = 0; i < self->inputs + self->outputs; ++i) {
    const bool is_input = i < self->inputs;
    const int place = is_input ? self->place[i] : i;
    PyObject *object = is_input ? others->inputs[i] : others->outputs[i - self->inputs];
    const char *name = is_input ? self->texts[i] : self->output_names[i - self->inputs];
    if (!object)
      continue;
    if (!one->of.tensors[place]) {
      PyErr_Format(PyExc_ValueError, "%s() was prepared without %s", self->name, name);
      return false;
    }
    if (!take(others, object, name, place))
      return false;
    const operand *given = &others->operands[place];
    if (given->tensor.device.device_type != one->device.device_type ||
        given->tensor.device.device_id != one->device.device_id ||
        given->from->kind != one->from->kind) {
      PyErr_Format(PyExc_ValueError,
                   "%s(): %s is of another device or framework than the call was prepared with",
                   self->name, name);
      return false;
    }
    if (!is_input && !may_be_written(self, given, object, name))
      return false;
    tensors[place] = &given->tensor;
  }
  return true;
}

static bool is_written(const operation *self, const call *others) {
  for (int i = 0; i < self->outputs; ++i)
    if (others->outputs[i])
      return true;
  return false;
}

// The prepared result, with what the caller gave for some outputs.
static PyObject *result_with(const prepared *one, const call *others) {
  const operation *self = one->self;
  if (!is_written(self, others)) {
    Py_INCREF(one->result);
    return one->result;
  }
  if (self->outputs == 1) {
    Py_INCREF(others->outputs[0]);
    return others->outputs[0];
  }
  PyObject *result = PyStructSequence_New((PyTypeObject *)self->result);
  for (int i = 0; result && i < self->outputs; ++i) {
    PyObject *item =
        others->outputs[i] ? others->outputs[i] : PyStructSequence_GetItem(one->result, i);
    Py_INCREF(item);
    PyStructSequence_SetItem(result, i, item);
  }
  return result;
}

static bool launch(const prepared *one, const DLTensor *const *tensors, PyObject *const *outputs) {
  place where;
  if (!current_place(one->device, one->from, &where))
    return false;
  if (one->handle) // does not wait
    return succeeded(library.sectile_call_run(one->handle, where.stream,
                                              tensors == one->of.tensors ? NULL : tensors));
  const operation *self = one->self;
  PyThreadState *state = PyEval_SaveThread();
  const sectile_status status =
      run_on_host(self->op, &where, tensors, (size_t)(self->inputs + self->outputs),
                  (size_t)self->inputs, outputs, one->of.options, (size_t)one->of.option_count);
  PyEval_RestoreThread(state);
  return succeeded(status);
}

// The result, once its tensors are written. Steals the reference.
static PyObject *written(const prepared *one, PyObject *result) {
  if (!result || !one->from->has_gradients)
    return result;
  for (int i = 0; i < one->self->outputs; ++i) {
    PyObject *tensor = one->self->outputs > 1 ? PyStructSequence_GetItem(result, i) : result;
    if (tensor != Py_None && !tell_written(tensor, one->from)) {
      Py_DECREF(result);
      return NULL;
    }
  }
  return result;
}

static PyObject *call_prepared(PyObject *capsule, PyObject *const *values, Py_ssize_t count,
                               PyObject *words) {
  const prepared *one = PyCapsule_GetPointer(capsule, prepared_capsule);
  if (!count && !words) {
    if (!launch(one, one->of.tensors, one->of.outputs))
      return NULL;
    Py_INCREF(one->result);
    return written(one, one->result);
  }
  call others;
  const DLTensor *tensors[most_arguments];
  PyObject *outputs[most_arguments], *result = NULL;
  begin_call(one->self, &others);
  if (read_words(one->self, values, count, words, /*settled=*/true, &others) &&
      may_have(one->self, &others) && take_others(one, &others, tensors, outputs) &&
      launch(one, tensors, outputs))
    result = written(one, result_with(one, &others));
  end_call(one->self, &others);
  return result;
}

static bool settle(prepared *one, PyObject *const *values, Py_ssize_t count, PyObject *words) {
  operation *self = one->self;
  call *of = &one->of;
  const bool done = read_words(self, values, count, words, /*settled=*/false, of);
  // The call ends with these.
  for (int i = 0; i < self->inputs; ++i)
    Py_XINCREF(of->inputs[i]);
  for (int i = 0; i < self->outputs; ++i)
    Py_XINCREF(of->outputs[i]);
  if (!done || !may_have(self, of))
    return false;
  const Py_ssize_t named = words ? PyTuple_Size(words) : 0;
  if (!(one->words = PyTuple_New(named)))
    return false;
  for (Py_ssize_t i = 0; i < named; ++i) {
    Py_INCREF(values[count + i]);
    PyTuple_SetItem(one->words, i, values[count + i]);
  }
  int first;
  PyObject *like;
  place where;
  if (!take_inputs(self, of, &first, &like))
    return false;
  one->device = of->operands[first].tensor.device;
  one->from = of->operands[first].from;
  if (!current_place(one->device, one->from, &where) || !make_outputs(self, of, first, like))
    return false;
  if (!where.on_host) {
    PyThreadState *state = PyEval_SaveThread(); // it may have to be compiled
    const sectile_status status = library.sectile_call_prepare(
        self->op, where.device, of->tensors, (size_t)(self->inputs + self->outputs), of->options,
        (size_t)of->option_count, &one->handle);
    PyEval_RestoreThread(state);
    if (!succeeded(status))
      return false;
  }
  return (one->result = result_of(self, of, one->from, like));
}

PyObject *prepare(PyObject *module, PyObject *const *values, Py_ssize_t count, PyObject *words) {
  static PyMethodDef method = {"prepared", (PyCFunction)(void (*)(void))call_prepared,
                               METH_FASTCALL | METH_KEYWORDS,
                               "The call on the tensors that it was prepared with, or on others."};
  (void)module;
  PyObject *bound = count ? PyObject_GetAttrString(values[0], "__self__") : NULL;
  PyErr_Clear();
  if (!bound || !PyCapsule_IsValid(bound, operation_capsule)) {
    Py_XDECREF(bound);
    PyErr_SetString(PyExc_TypeError,
                    "prepare() takes a function of this module or its name, then its arguments");
    return NULL;
  }
  prepared *one = PyMem_Calloc(1, sizeof *one);
  PyObject *capsule = one ? PyCapsule_New(one, prepared_capsule, free_prepared) : NULL;
  if (!capsule) {
    PyMem_Free(one);
    Py_DECREF(bound);
    return PyErr_NoMemory();
  }
  one->self = PyCapsule_GetPointer(bound, operation_capsule); // lives for ever
  Py_DECREF(bound);
  begin_call(one->self, &one->of);
  PyObject *function =
      settle(one, values + 1, count - 1, words) ? PyCFunction_NewEx(&method, capsule, NULL) : NULL;
  Py_DECREF(capsule);
  return function;
}
