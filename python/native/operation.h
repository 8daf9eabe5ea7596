// An operation as a function of Python, and a call of it: what calls and prepared calls share.
#pragma once
#include "native.h"

enum { most_arguments = 32, most_options = 32 };

typedef struct {
  const sectile_op *op;
  char *name;
  int inputs, required, outputs, options;
  bool asks_for_gradients;
  // Interned. Inputs as the function takes them: those that must be given first.
  PyObject **words;                   // of inputs, then options
  const char **texts, **option_names; // for messages; as the library calls an option
  const char **output_names;
  int *place;              // of an input, among the operation's arguments
  PyObject *result;        // the type of results, where there are several
  PyObject *with_gradient; // torch's function of such calls, once there was one
  PyMethodDef method;
} operation;

// The name of capsules that hold operations: functions have one for __self__.
static const char operation_capsule[] = "sectile.operation";

// A call, as it is worked out.
typedef struct {
  PyObject *inputs[most_arguments], *outputs[most_arguments];
  PyObject *made[most_arguments];   // owned: outputs, for the caller
  operand operands[most_arguments]; // by place
  const DLTensor *tensors[most_arguments];
  DLTensor wanted[most_arguments];
  int64_t shapes[most_arguments][most_axes]; // of outputs, as wanted
  sectile_option options[most_options];
  int option_count, borrowed[most_arguments], borrowed_count;
  bool as_tuple; // what several outputs are returned as, in place of a named tuple
} call;

// Takes arguments by place and name; `settled`: of a prepared call, which has its options and needs
// no input. All functions here are false or NULL with an exception set.
bool read_words(const operation *self, PyObject *const *values, Py_ssize_t count, PyObject *words,
                bool settled, call *to);
void begin_call(const operation *self, call *of);
// Borrows the object as the argument of a place.
bool take(call *of, PyObject *object, const char *name, int place);
// Whether an argument lies where the first one does.
bool goes_with(const operation *self, const call *of, int first, int place, const char *name);
// 1: some input wants a gradient, which is being recorded. -1 with an exception set. All inputs are
// known to be tensors.
int wants_gradient(const operation *self, const call *of);
// Whether a result that the caller has may be written.
bool may_be_written(const operation *self, const operand *output, PyObject *object,
                    const char *name);
// The module of the first input whose framework looks into calls, NULL where there is none.
bool looked_into(const operation *self, const call *of, const char **module);
// Borrows all inputs. `first`: the place of the first one, `like`: the object.
bool take_inputs(const operation *self, call *of, int *first, PyObject **like);
// Borrows outputs that the caller has, and makes the others.
bool make_outputs(const operation *self, call *of, int first, PyObject *like);
PyObject *result_of(const operation *self, call *of, const producer *from, PyObject *like);
void end_call(const operation *self, call *of);
// A call from start to end, with a plain tuple of several outputs.
PyObject *tuple_of_call(operation *self, PyObject *const *values, Py_ssize_t count,
                        PyObject *words);
