// The types of a call's outputs. The library works them out of names and texts; a call like an
// earlier one finds them here in a fraction of a microsecond.
#include "native.h"
#include <string.h>

enum { places = 1024, most_words = 256 };

// What the types follow from, as words: types of inputs, options.
typedef struct {
  uint64_t words[most_words];
  size_t count;
  bool too_long;
} key;

typedef struct {
  const sectile_op *op;
  uint64_t *words; // owned
  size_t count;
  DLTensor *outputs; // owned, with their shapes
} remembered;
static remembered table[places]; // under the interpreter's lock; a call takes the place of another

static void add(key *to, uint64_t word) {
  if (to->count == most_words)
    to->too_long = true;
  else
    to->words[to->count++] = word;
}

static void add_text(key *to, const char *text) {
  const size_t length = strlen(text);
  add(to, length);
  for (size_t i = 0; i < length; i += sizeof(uint64_t)) {
    uint64_t word = 0;
    memcpy(&word, text + i, length - i < sizeof word ? length - i : sizeof word);
    add(to, word);
  }
}

static void describe(key *to, DLTensor *const *types, int inputs, const sectile_option *options,
                     int option_count) {
  to->count = 0;
  to->too_long = false;
  for (int i = 0; i < inputs; ++i) {
    const DLTensor *type = types[i];
    if (!type) {
      add(to, UINT64_MAX);
      continue;
    }
    add(to, (uint64_t)type->dtype.code | (uint64_t)type->dtype.bits << 8 |
                (uint64_t)type->dtype.lanes << 16 | (uint64_t)type->ndim << 32);
    for (int axis = 0; axis < type->ndim; ++axis)
      add(to, (uint64_t)type->shape[axis]);
  }
  for (int i = 0; i < option_count; ++i) {
    add(to, (uint64_t)(uintptr_t)options[i].name); // lives as long as the operation
    add(to, options[i].kind);
    if (options[i].kind == SECTILE_TEXT)
      add_text(to, options[i].value.text);
    else
      add(to, options[i].value.u);
  }
}

static remembered *place_for(const sectile_op *op, const key *of) {
  uint64_t hash = 0xcbf29ce484222325u ^ (uint64_t)(uintptr_t)op;
  for (size_t i = 0; i < of->count; ++i)
    hash = (hash ^ of->words[i]) * 0x9e3779b97f4a7c15u;
  return &table[hash >> 54];
}

static void remember(remembered *at, const sectile_op *op, const key *of, DLTensor *const *types,
                     int outputs) {
  size_t axes = 0;
  for (int i = 0; i < outputs; ++i)
    axes += types[i]->ndim > 0 ? (size_t)types[i]->ndim : 0;
  uint64_t *words = PyMem_Malloc(sizeof *words * of->count + 1);
  DLTensor *kept = PyMem_Malloc(sizeof *kept * (size_t)outputs + sizeof(int64_t) * axes);
  if (!words || !kept) { // the next such call asks again
    PyMem_Free(words);
    PyMem_Free(kept);
    return;
  }
  memcpy(words, of->words, sizeof *words * of->count);
  int64_t *shape = (int64_t *)(kept + outputs);
  for (int i = 0; i < outputs; ++i) {
    kept[i] = *types[i];
    kept[i].shape = shape;
    for (int axis = 0; axis < kept[i].ndim; ++axis)
      *shape++ = types[i]->shape[axis];
  }
  PyMem_Free(at->words);
  PyMem_Free(at->outputs);
  *at = (remembered){op, words, of->count, kept};
}

bool output_types(const sectile_op *op, DLTensor *const *types, int inputs, int outputs,
                  const sectile_option *options, int option_count, int64_t (*shapes)[most_axes]) {
  key of;
  describe(&of, types, inputs, options, option_count);
  remembered *at = of.too_long ? NULL : place_for(op, &of);
  const bool known = at && at->op == op && at->count == of.count &&
                     memcmp(at->words, of.words, sizeof *of.words * of.count) == 0;
  if (!known && !succeeded(library.sectile_op_infer(op, types, (size_t)(inputs + outputs), options,
                                                    (size_t)option_count)))
    return false;
  for (int i = 0; i < outputs; ++i) {
    DLTensor *type = types[inputs + i];
    if (known)
      *type = at->outputs[i];
    if (type->ndim > most_axes) {
      PyErr_Format(PyExc_ValueError, "an output would have %d axes, and %d are possible",
                   (int)type->ndim, (int)most_axes);
      return false;
    }
  }
  if (at && !known)
    remember(at, op, &of, types + inputs, outputs);
  // A call's own, as another thread's call may take the place.
  for (int i = 0; i < outputs; ++i) {
    DLTensor *type = types[inputs + i];
    for (int axis = 0; axis < type->ndim; ++axis)
      shapes[i][axis] = type->shape[axis];
    type->shape = shapes[i];
  }
  return true;
}
