// Operations as functions of Python: arguments by place and name, outputs that the inputs'
// framework allocates.
#include "operation.h"
#include <string.h>

static PyObject *word_out;

// Options and arguments ---------------------------------------------------------------------------

static bool read_float(const char *word, PyObject *value, sectile_option *to) {
  PyObject *number = PyNumber_Float(value); // a scalar of NumPy
  if (!number) {
    PyErr_Clear();
    PyErr_Format(PyExc_TypeError, "%s must be a number or text, not %R", word, Py_TYPE(value));
    return false;
  }
  to->kind = SECTILE_DOUBLE;
  to->value.d = PyFloat_AsDouble(number);
  Py_DECREF(number);
  return true;
}

static bool read_option(const char *word, const char *name, PyObject *value, sectile_option *to) {
  to->name = name;
  if (PyBool_Check(value)) {
    to->kind = SECTILE_INT64;
    to->value.i = value == Py_True;
  } else if (PyUnicode_Check(value)) {
    to->kind = SECTILE_TEXT;
    to->value.text = PyUnicode_AsUTF8AndSize(value, NULL);
    return to->value.text;
  } else if (PyFloat_Check(value)) {
    to->kind = SECTILE_DOUBLE;
    to->value.d = PyFloat_AsDouble(value);
  } else {
    // Arrays have the way to an index by their type, and floats do not come by it.
    PyObject *number = PyIndex_Check(value) ? PyNumber_Index(value) : NULL;
    PyErr_Clear();
    if (!number)
      return read_float(word, value, to);
    int overflow = 0;
    to->kind = SECTILE_INT64;
    to->value.i = PyLong_AsLongLongAndOverflow(number, &overflow);
    if (overflow > 0) {
      to->kind = SECTILE_UINT64;
      to->value.u = PyLong_AsUnsignedLongLong(number);
    }
    Py_DECREF(number);
    if (overflow < 0 || PyErr_Occurred()) {
      PyErr_Clear();
      PyErr_Format(PyExc_OverflowError, "%s: %R is no number of 64 bits", word, value);
      return false;
    }
  }
  return true;
}

static int word_index(const operation *self, PyObject *word) {
  const int count = self->inputs + self->options;
  for (int i = 0; i < count; ++i)
    if (self->words[i] == word)
      return i;
  for (int i = 0; i < count; ++i)
    if (PyUnicode_Compare(self->words[i], word) == 0)
      return i;
  return -1;
}

static bool read_out(const operation *self, PyObject *value, call *to) {
  if (value == Py_None)
    return true;
  if (!PyTuple_Check(value) && !PyList_Check(value)) {
    if (self->outputs > 1) {
      PyErr_Format(PyExc_TypeError,
                   "%s() has %d outputs: out must be a tuple of as many, None for those that are "
                   "to be allocated",
                   self->name, self->outputs);
      return false;
    }
    to->outputs[0] = value;
    return true;
  }
  if (PySequence_Size(value) != self->outputs) {
    PyErr_Format(PyExc_ValueError, "%s() has %d outputs, and out has %zd", self->name,
                 self->outputs, PySequence_Size(value));
    return false;
  }
  for (int i = 0; i < self->outputs; ++i) {
    PyObject *item = PySequence_GetItem(value, i);
    if (!item)
      return false;
    to->outputs[i] = item == Py_None ? NULL : item;
    Py_DECREF(item); // the sequence keeps it
  }
  return true;
}

// With the arguments that there are, so that a caller need not look them up.
static void refuse_word(const operation *self, PyObject *word) {
  PyObject *names = PyList_New(0), *comma = PyUnicode_FromString(", "), *known = NULL;
  for (int i = 0; names && i < self->inputs + self->options; ++i)
    if (PyList_Append(names, self->words[i]))
      goto end;
  if (!names || !comma || PyList_Append(names, word_out))
    goto end;
  known = PyUnicode_Join(comma, names);
  if (known)
    PyErr_Format(PyExc_TypeError, "%s() has no argument %R; it has %U", self->name, word, known);
end:
  Py_XDECREF(names);
  Py_XDECREF(comma);
  Py_XDECREF(known);
}

bool read_words(const operation *self, PyObject *const *values, Py_ssize_t count, PyObject *words,
                bool settled, call *to) {
  if (count > self->inputs) {
    PyErr_Format(PyExc_TypeError,
                 "%s() takes %d positional tensor%s, and %zd were given; options go by name",
                 self->name, self->inputs, self->inputs == 1 ? "" : "s", count);
    return false;
  }
  for (Py_ssize_t i = 0; i < count; ++i)
    to->inputs[i] = values[i] == Py_None ? NULL : values[i];
  const Py_ssize_t named = words ? PyTuple_Size(words) : 0;
  for (Py_ssize_t i = 0; i < named; ++i) {
    PyObject *word = PyTuple_GetItem(words, i), *value = values[count + i];
    const int at = word_index(self, word);
    if (at < 0) {
      if (PyUnicode_Compare(word, word_out) != 0) {
        refuse_word(self, word);
        return false;
      }
      if (!read_out(self, value, to))
        return false;
    } else if (at < self->inputs) {
      if (at < count) {
        PyErr_Format(PyExc_TypeError, "%s() got %R twice", self->name, word);
        return false;
      }
      to->inputs[at] = value == Py_None ? NULL : value;
    } else if (settled) {
      PyErr_Format(PyExc_TypeError, "%s() was prepared, and %R with it: prepare another call",
                   self->name, word);
      return false;
    } else if (value != Py_None) {
      if (!read_option(self->texts[at], self->option_names[at - self->inputs], value,
                       &to->options[to->option_count]))
        return false;
      ++to->option_count;
    }
  }
  for (int i = 0; i < self->required && !settled; ++i)
    if (!to->inputs[i]) {
      PyErr_Format(PyExc_TypeError, "%s() needs %s", self->name, self->texts[i]);
      return false;
    }
  return true;
}

// Gradients ---------------------------------------------------------------------------------------

// The module of the first input whose framework looks into calls, NULL where there is none. False
// with an exception set.
bool looked_into(const operation *self, const call *of, const char **module) {
  *module = NULL;
  for (int i = 0; i < self->inputs && !*module; ++i) {
    const producer *from = of->inputs[i] ? producer_of(of->inputs[i], self->texts[i]) : NULL;
    if (of->inputs[i] && !from)
      return false;
    *module = from ? from->looked_into : NULL;
  }
  if (!*module || self->asks_for_gradients)
    return true;
  PyErr_Format(PyExc_TypeError, "%s() got a tensor without memory", self->name);
  return false;
}

// 1: some input wants a gradient, which is being recorded. -1 with an exception set. All inputs are
// known to be tensors.
int wants_gradient(const operation *self, const call *of) {
  if (!self->asks_for_gradients)
    return 0;
  bool able = false;
  for (int i = 0; i < self->inputs && !able; ++i)
    able = of->inputs[i] && producer_of(of->inputs[i], self->texts[i])->has_gradients;
  if (!able)
    return 0;
  int is = records_gradients();
  if (is <= 0)
    return is;
  for (int i = 0; i < self->inputs; ++i)
    if (of->inputs[i] && producer_of(of->inputs[i], self->texts[i])->has_gradients &&
        (is = requires_gradient(of->inputs[i])) != 0)
      return is;
  return 0;
}

bool may_be_written(const operation *self, const operand *output, PyObject *object,
                    const char *name) {
  if (output->read_only) {
    PyErr_Format(PyExc_ValueError, "%s(): %s is read-only", self->name, name);
    return false;
  }
  if (!output->from->has_gradients)
    return true;
  int is = requires_gradient(object);
  if (is > 0 && (is = records_gradients()) > 0)
    PyErr_Format(PyExc_ValueError,
                 "%s(): %s requires a gradient, which nothing records of a given result: detach "
                 "it, or use torch.no_grad()",
                 self->name, name);
  return is == 0;
}

static PyObject *call_operator(const operation *self, const char *module, PyObject *const *values,
                               Py_ssize_t count, PyObject *words) {
  PyObject *imports = PyImport_ImportModule(module);
  PyObject *functions = imports ? PyObject_GetAttrString(imports, "_functions_by_name") : NULL;
  PyObject *function = functions ? PyMapping_GetItemString(functions, self->name) : NULL;
  Py_XDECREF(functions);
  Py_XDECREF(imports);
  PyObject *arguments = function ? PyTuple_New(count) : NULL, *named = NULL, *result = NULL;
  for (Py_ssize_t i = 0; arguments && i < count; ++i) {
    Py_INCREF(values[i]);
    PyTuple_SetItem(arguments, i, values[i]);
  }
  if (arguments)
    named = PyDict_New();
  for (Py_ssize_t i = 0; named && words && i < PyTuple_Size(words); ++i)
    PyDict_SetItem(named, PyTuple_GetItem(words, i), values[count + i]);
  if (named)
    result = PyObject_Call(function, arguments, named);
  Py_XDECREF(named);
  Py_XDECREF(arguments);
  Py_XDECREF(function);
  return result;
}

// Whether torch's function can have the call: it writes to no given tensors, and looks into none.
static bool is_plain(const operation *self, const call *of) {
  for (int i = 0; i < self->outputs; ++i)
    if (of->outputs[i])
      return false;
  for (int i = 0; i < self->inputs; ++i)
    if (of->inputs[i] && !producer_of(of->inputs[i], self->texts[i])->is_plain)
      return false;
  return true;
}

// Those that are given; nobody writes into the dict.
static PyObject *options_by_word(const operation *self, PyObject *const *values, Py_ssize_t count,
                                 PyObject *words) {
  static PyObject *none;
  if (!words && (none || (none = PyDict_New()))) {
    Py_INCREF(none);
    return none;
  }
  PyObject *options = PyDict_New();
  for (Py_ssize_t i = 0; options && words && i < PyTuple_Size(words); ++i) {
    PyObject *word = PyTuple_GetItem(words, i), *value = values[count + i];
    if (value != Py_None && word_index(self, word) >= self->inputs &&
        PyDict_SetItem(options, word, value) != 0) {
      Py_DECREF(options);
      return NULL;
    }
  }
  return options;
}

// The named tuple of a tuple, which it steals.
static PyObject *named_result(const operation *self, PyObject *tuple) {
  if (!tuple || self->outputs == 1)
    return tuple;
  PyObject *result = PyStructSequence_New((PyTypeObject *)self->result);
  for (int i = 0; result && i < self->outputs; ++i) {
    PyObject *item = PyTuple_GetItem(tuple, i);
    Py_INCREF(item);
    PyStructSequence_SetItem(result, i, item);
  }
  Py_DECREF(tuple);
  return result;
}

// The call as torch records it, without an operator's cost.
static PyObject *call_with_gradient(operation *self, const call *of, PyObject *const *values,
                                    Py_ssize_t count, PyObject *words) {
  if (!self->with_gradient) {
    PyObject *imports = PyImport_ImportModule("sectile.torch");
    self->with_gradient =
        imports ? PyObject_CallMethod(imports, "_gradient_of", "s", self->name) : NULL;
    Py_XDECREF(imports);
    if (!self->with_gradient)
      return NULL;
  }
  PyObject *arguments = PyTuple_New(1 + self->inputs);
  PyObject *options = arguments ? options_by_word(self, values, count, words) : NULL;
  if (!options) {
    Py_XDECREF(arguments);
    return NULL;
  }
  PyTuple_SetItem(arguments, 0, options);
  for (int i = 0; i < self->inputs; ++i) {
    PyObject *input = of->inputs[i] ? of->inputs[i] : Py_None;
    Py_INCREF(input);
    PyTuple_SetItem(arguments, 1 + i, input);
  }
  PyObject *result = PyObject_CallObject(self->with_gradient, arguments);
  Py_DECREF(arguments);
  return named_result(self, result);
}

// The call ----------------------------------------------------------------------------------------

bool take(call *of, PyObject *object, const char *name, int place) {
  if (!borrow(object, name, &of->operands[place]))
    return false;
  of->borrowed[of->borrowed_count++] = place;
  of->tensors[place] = &of->operands[place].tensor;
  return true;
}

// All tensors have to be on one device, and on a GPU of one framework, whose stream the call is in.
bool goes_with(const operation *self, const call *of, int first, int place, const char *name) {
  const DLDevice a = of->operands[first].tensor.device, b = of->operands[place].tensor.device;
  if (a.device_type != b.device_type || a.device_id != b.device_id) {
    PyErr_Format(PyExc_ValueError,
                 "%s(): %s lies on another device than the first tensor: DLPack's device %d, %d "
                 "beside %d, %d",
                 self->name, name, (int)b.device_type, (int)b.device_id, (int)a.device_type,
                 (int)a.device_id);
    return false;
  }
  if (a.device_type != kDLCPU && of->operands[first].from->kind != of->operands[place].from->kind) {
    PyErr_Format(
        PyExc_TypeError,
        "%s(): %s is of another framework than the first tensor, and on a GPU the two have "
        "no order: convert it first",
        self->name, name);
    return false;
  }
  return true;
}

bool make_outputs(const operation *self, call *of, int first, PyObject *like) {
  const int count = self->inputs + self->outputs;
  DLTensor *types[most_arguments];
  for (int i = 0; i < count; ++i) {
    if (i >= self->inputs)
      of->wanted[i] = (DLTensor){0};
    types[i] = i < self->inputs ? (DLTensor *)of->tensors[i] : &of->wanted[i];
  }
  int missing = 0;
  for (int i = 0; i < self->outputs; ++i)
    missing += !of->outputs[i];
  // With all of them given, the call itself checks them.
  if (missing && !output_types(self->op, types, self->inputs, self->outputs, of->options,
                               of->option_count, of->shapes))
    return false;
  for (int i = 0; i < self->outputs; ++i) {
    const int place = self->inputs + i;
    DLTensor *wanted = &of->wanted[place];
    if (of->outputs[i]) {
      if (!take(of, of->outputs[i], self->output_names[i], place) ||
          !goes_with(self, of, first, place, self->output_names[i]))
        return false;
      if (!may_be_written(self, &of->operands[place], of->outputs[i], self->output_names[i]))
        return false;
      Py_INCREF(of->outputs[i]);
      of->made[i] = of->outputs[i];
    } else if (wanted->ndim >= 0) {
      wanted->device = of->operands[first].tensor.device;
      of->made[i] = allocate(of->operands[first].from, like, wanted, self->output_names[i],
                             &of->operands[place]);
      if (!of->made[i])
        return false;
      of->borrowed[of->borrowed_count++] = place;
      of->tensors[place] = &of->operands[place].tensor;
    }
  }
  return true;
}

PyObject *result_of(const operation *self, call *of, const producer *from, PyObject *like) {
  PyObject *result = NULL;
  if (self->outputs > 1) {
    result = of->as_tuple ? PyTuple_New(self->outputs)
                          : PyStructSequence_New((PyTypeObject *)self->result);
    if (!result)
      return NULL;
  }
  for (int i = 0; i < self->outputs; ++i) {
    PyObject *made = of->made[i];
    of->made[i] = NULL;
    if (!made) {
      made = Py_None;
      Py_INCREF(made);
    } else if (!of->outputs[i] && !(made = finished(from, like, made))) {
      Py_XDECREF(result);
      return NULL;
    }
    if (self->outputs == 1)
      return made;
    if (of->as_tuple)
      PyTuple_SetItem(result, i, made);
    else
      PyStructSequence_SetItem(result, i, made);
  }
  return result;
}

bool take_inputs(const operation *self, call *of, int *first, PyObject **like) {
  *first = -1;
  for (int i = 0; i < self->inputs; ++i) {
    if (!of->inputs[i])
      continue;
    if (!take(of, of->inputs[i], self->texts[i], self->place[i]))
      return false;
    if (*first < 0) {
      *first = self->place[i];
      *like = of->inputs[i];
    } else if (!goes_with(self, of, *first, self->place[i], self->texts[i]))
      return false;
  }
  return true;
}

static PyObject *run(operation *self, call *of, PyObject *const *values, Py_ssize_t count,
                     PyObject *words) {
  if (!read_words(self, values, count, words, /*settled=*/false, of))
    return NULL;
  const char *module;
  if (!looked_into(self, of, &module))
    return NULL;
  if (module)
    return call_operator(self, module, values, count, words);
  switch (wants_gradient(self, of)) {
  case 1:
    if (is_plain(self, of) && !is_transformed())
      return call_with_gradient(self, of, values, count, words);
    return call_operator(self, "sectile.torch", values, count, words);
  case -1:
    return NULL;
  }
  int first;
  PyObject *like;
  place where;
  if (!take_inputs(self, of, &first, &like) ||
      !current_place(of->operands[first].tensor.device, of->operands[first].from, &where) ||
      !make_outputs(self, of, first, like))
    return NULL;
  const size_t all = (size_t)(self->inputs + self->outputs);
  // A kernel may have to be compiled first, and the virtual GPU computes here.
  PyThreadState *state = PyEval_SaveThread();
  sectile_status status =
      where.on_host ? run_on_host(self->op, &where, of->tensors, all, (size_t)self->inputs,
                                  of->outputs, of->options, (size_t)of->option_count)
                    : library.sectile_op_run(self->op, where.stream, of->tensors, all, of->options,
                                             (size_t)of->option_count);
  // Such a framework does not know when its memory is free again.
  if (status == SECTILE_OK && !where.on_host && of->operands[first].from->kind == by_protocol)
    status = library.sectile_stream_synchronize(where.stream);
  PyEval_RestoreThread(state);
  if (!succeeded(status))
    return NULL;
  for (int i = 0; i < self->outputs; ++i)
    if (of->outputs[i] && !tell_written(of->outputs[i], of->operands[self->inputs + i].from))
      return NULL;
  return result_of(self, of, of->operands[first].from, like);
}

void begin_call(const operation *self, call *of) {
  memset(of->inputs, 0, sizeof *of->inputs * (size_t)self->inputs);
  memset(of->outputs, 0, sizeof *of->outputs * (size_t)self->outputs);
  memset(of->made, 0, sizeof *of->made * (size_t)self->outputs);
  memset(of->tensors, 0, sizeof *of->tensors * (size_t)(self->inputs + self->outputs));
  of->option_count = of->borrowed_count = 0;
  of->as_tuple = false;
}

void end_call(const operation *self, call *of) {
  for (int i = 0; i < of->borrowed_count; ++i)
    give_back(&of->operands[of->borrowed[i]]);
  for (int i = 0; i < self->outputs; ++i)
    Py_XDECREF(of->made[i]);
}

static PyObject *call_operation(PyObject *capsule, PyObject *const *values, Py_ssize_t count,
                                PyObject *words) {
  operation *self = PyCapsule_GetPointer(capsule, operation_capsule);
  call of; // large: what is read is set first
  begin_call(self, &of);
  PyObject *result = run(self, &of, values, count, words);
  end_call(self, &of);
  return result;
}

PyObject *tuple_of_call(operation *self, PyObject *const *values, Py_ssize_t count,
                        PyObject *words) {
  call of;
  begin_call(self, &of);
  of.as_tuple = true;
  PyObject *result = run(self, &of, values, count, words);
  end_call(self, &of);
  return result;
}

// Making functions --------------------------------------------------------------------------------

// The texts live as long as the tuple, which the operation keeps.
static bool texts_of(PyObject *tuple, const char **to) {
  for (Py_ssize_t i = 0; i < PyTuple_Size(tuple); ++i)
    if (!(to[i] = PyUnicode_AsUTF8AndSize(PyTuple_GetItem(tuple, i), NULL)))
      return false;
  return true;
}

// make_function(name, doc, inputs, places, required, options, option_names, outputs,
// asks_for_gradients). The arguments live for ever, as operations do.
PyObject *make_function(PyObject *module, PyObject *arguments) {
  const char *name, *doc;
  PyObject *inputs, *places, *options, *option_names, *outputs;
  int required, asks_for_gradients;
  if (!PyArg_ParseTuple(arguments, "ssO!O!iO!O!O!p", &name, &doc, &PyTuple_Type, &inputs,
                        &PyTuple_Type, &places, &required, &PyTuple_Type, &options, &PyTuple_Type,
                        &option_names, &PyTuple_Type, &outputs, &asks_for_gradients))
    return NULL;
  const Py_ssize_t in = PyTuple_Size(inputs), out = PyTuple_Size(outputs),
                   set = PyTuple_Size(options);
  if (in + out > most_arguments || set > most_options || !out || !required ||
      PyTuple_Size(places) != in || PyTuple_Size(option_names) != set || required > in) {
    PyErr_Format(PyExc_ValueError, "%s has arguments or options that no function can have", name);
    return NULL;
  }
  operation *self = PyMem_Calloc(1, sizeof *self);
  if (!self)
    return PyErr_NoMemory();
  Py_INCREF(arguments);
  if (!succeeded(library.sectile_op_find(name, &self->op)))
    return NULL;
  self->inputs = (int)in, self->outputs = (int)out, self->options = (int)set,
  self->required = required;
  self->asks_for_gradients = asks_for_gradients;
  self->name = (char *)name;
  self->words = PyMem_Calloc((size_t)(in + set), sizeof *self->words);
  self->texts = PyMem_Calloc((size_t)(in + set), sizeof *self->texts);
  self->option_names = PyMem_Calloc((size_t)set + 1, sizeof *self->option_names);
  self->output_names = PyMem_Calloc((size_t)out, sizeof *self->output_names);
  self->place = PyMem_Calloc((size_t)in, sizeof *self->place);
  if (!self->words || !self->texts || !self->option_names || !self->output_names || !self->place)
    return PyErr_NoMemory();
  if (!texts_of(inputs, self->texts) || !texts_of(options, self->texts + in) ||
      !texts_of(option_names, self->option_names) || !texts_of(outputs, self->output_names))
    return NULL;
  for (Py_ssize_t i = 0; i < in + set; ++i)
    if (!(self->words[i] = PyUnicode_InternFromString(self->texts[i])))
      return NULL;
  for (Py_ssize_t i = 0; i < in; ++i) {
    self->place[i] = (int)PyLong_AsLong(PyTuple_GetItem(places, i));
    if (self->place[i] < 0 || self->place[i] >= in) {
      PyErr_Format(PyExc_ValueError, "%s has no input %zd", name, i);
      return NULL;
    }
  }
  if (!word_out && !(word_out = PyUnicode_InternFromString("out")))
    return NULL;
  if (out > 1) {
    PyStructSequence_Field *fields = PyMem_Calloc((size_t)out + 1, sizeof *fields);
    for (Py_ssize_t i = 0; fields && i < out; ++i)
      fields[i].name = self->output_names[i];
    PyObject *type_name = PyUnicode_FromFormat("sectile.%s_result", name);
    PyStructSequence_Desc description = {
        type_name ? PyUnicode_AsUTF8AndSize(type_name, NULL) : NULL, NULL, fields, (int)out};
    if (!fields || !description.name ||
        !(self->result = (PyObject *)PyStructSequence_NewType(&description)))
      return NULL;
  }
  self->method = (PyMethodDef){name, (PyCFunction)(void (*)(void))call_operation,
                               METH_FASTCALL | METH_KEYWORDS, doc};
  PyObject *capsule = PyCapsule_New(self, operation_capsule, NULL);
  PyObject *module_name = capsule ? PyUnicode_FromString("sectile") : NULL;
  (void)module;
  return module_name ? PyCFunction_NewEx(&self->method, capsule, module_name) : NULL;
}

// infer_types(name, arguments, options): arguments in the operation's order, each None or (dtype,
// shape); options as pairs of name and value. The types of the outputs in the same form.
PyObject *infer_types(PyObject *module, PyObject *arguments) {
  (void)module;
  const char *name;
  PyObject *inputs, *options;
  int outputs;
  if (!PyArg_ParseTuple(arguments, "sO!iO!", &name, &PyTuple_Type, &inputs, &outputs, &PyTuple_Type,
                        &options))
    return NULL;
  const int in = (int)PyTuple_Size(inputs), set = (int)PyTuple_Size(options);
  const sectile_op *op;
  if (!succeeded(library.sectile_op_find(name, &op)))
    return NULL;
  if (in + outputs > most_arguments || set > most_options || outputs < 0) {
    PyErr_Format(PyExc_ValueError, "%s() has not so many arguments", name);
    return NULL;
  }
  DLTensor tensors[most_arguments] = {0}, *all[most_arguments] = {0};
  int64_t shapes[most_arguments][most_axes];
  for (int i = 0; i < in; ++i) {
    PyObject *item = PyTuple_GetItem(inputs, i), *shape;
    const char *dtype;
    if (item == Py_None)
      continue;
    if (!PyArg_ParseTuple(item, "sO!", &dtype, &PyTuple_Type, &shape) ||
        !dtype_named(dtype, &tensors[i].dtype))
      return NULL;
    if (PyTuple_Size(shape) > most_axes) {
      PyErr_Format(PyExc_ValueError, "%s() got a tensor of more than %d axes", name,
                   (int)most_axes);
      return NULL;
    }
    for (Py_ssize_t axis = 0; axis < PyTuple_Size(shape); ++axis)
      shapes[i][axis] = PyLong_AsLongLong(PyTuple_GetItem(shape, axis));
    if (PyErr_Occurred())
      return NULL;
    tensors[i].ndim = (int32_t)PyTuple_Size(shape);
    tensors[i].shape = shapes[i];
    tensors[i].device = (DLDevice){kDLCPU, 0};
    all[i] = &tensors[i];
  }
  for (int i = in; i < in + outputs; ++i)
    all[i] = &tensors[i];
  sectile_option given[most_options];
  for (int i = 0; i < set; ++i) {
    const char *option;
    PyObject *value;
    if (!PyArg_ParseTuple(PyTuple_GetItem(options, i), "sO", &option, &value) ||
        !read_option(option, option, value, &given[i]))
      return NULL;
  }
  if (!succeeded(library.sectile_op_infer(op, all, (size_t)(in + outputs), given, (size_t)set)))
    return NULL;
  PyObject *types = PyTuple_New(outputs);
  for (int i = 0; types && i < outputs; ++i) {
    const DLTensor *type = &tensors[in + i];
    PyObject *item = Py_None;
    if (type->ndim < 0)
      Py_INCREF(item);
    else {
      PyObject *shape = PyTuple_New(type->ndim);
      for (int axis = 0; shape && axis < type->ndim; ++axis)
        PyTuple_SetItem(shape, axis, PyLong_FromLongLong(type->shape[axis]));
      item = shape ? Py_BuildValue("sN", dtype_name(type->dtype), shape) : NULL;
    }
    if (!item) {
      Py_DECREF(types);
      return NULL;
    }
    PyTuple_SetItem(types, i, item);
  }
  return types;
}
