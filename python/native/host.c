// Calls on tensors in host memory. Devices that run on the host check each address against memory
// of their own, so they compute on copies, which are dense.
#include "native.h"
#include <stdlib.h>
#include <string.h>

enum { most_tensors = 64 };

// Between a dense buffer and a tensor of any strides, element by element.
static void copy_elements(const DLTensor *tensor, char *dense, bool to_dense) {
  const size_t size = tensor->dtype.bits / 8;
  char *const first = (char *)tensor->data + tensor->byte_offset;
  int64_t index[most_axes] = {0};
  for (int axis = 0; axis < tensor->ndim; ++axis)
    if (tensor->shape[axis] == 0)
      return;
  for (int axis = 0; axis >= 0; dense += size) {
    int64_t at = 0;
    for (axis = 0; axis < tensor->ndim; ++axis)
      at += index[axis] * tensor->strides[axis];
    char *element = first + at * (int64_t)size;
    memcpy(to_dense ? dense : element, to_dense ? element : dense, size);
    // The next index, with the last axis first; none after the last one.
    for (axis = tensor->ndim - 1; axis >= 0 && ++index[axis] == tensor->shape[axis]; --axis)
      index[axis] = 0;
  }
}

static sectile_status copy(const place *where, const DLTensor *tensor, DLTensor *own, bool to_own) {
  const size_t bytes = library.sectile_tensor_bytes(tensor);
  int is_dense = 1;
  if (!bytes)
    return SECTILE_OK;
  const sectile_status status = library.sectile_tensor_dense(tensor, &is_dense);
  if (status != SECTILE_OK)
    return status;
  char *memory = (char *)own->data + own->byte_offset;
  char *outside = is_dense ? (char *)tensor->data + tensor->byte_offset : malloc(bytes);
  if (!outside)
    return SECTILE_MEMORY;
  if (!is_dense && to_own)
    copy_elements(tensor, outside, true);
  sectile_status done =
      to_own ? library.sectile_copy(where->stream, memory, outside, bytes, SECTILE_TO_DEVICE)
             : library.sectile_copy(where->stream, outside, memory, bytes, SECTILE_TO_HOST);
  if (!is_dense) {
    if (!to_own && done == SECTILE_OK)
      copy_elements(tensor, outside, false);
    free(outside);
  }
  return done;
}

sectile_status run_on_host(const sectile_op *op, const place *where,
                           const DLTensor *const *arguments, size_t count, size_t inputs,
                           PyObject *const *given, const sectile_option *options,
                           size_t option_count) {
  DLManagedTensorVersioned *own[most_tensors] = {0};
  const DLTensor *copies[most_tensors] = {0};
  // Their copies have memory of their own. Inputs may share theirs: they are copied before.
  sectile_status status = library.sectile_op_check_outputs(op, arguments, count);
  for (size_t i = 0; i < count && status == SECTILE_OK; ++i) {
    if (!arguments[i])
      continue;
    status = library.sectile_tensor_new(where->device, arguments[i], &own[i]);
    if (status == SECTILE_OK && (i < inputs || (given && given[i - inputs])))
      status = copy(where, arguments[i], &own[i]->dl_tensor, true);
    copies[i] = status == SECTILE_OK ? &own[i]->dl_tensor : NULL;
  }
  if (status == SECTILE_OK)
    status = library.sectile_op_run(op, where->stream, copies, count, options, option_count);
  if (status == SECTILE_OK)
    status = library.sectile_stream_synchronize(where->stream);
  for (size_t i = inputs; i < count && status == SECTILE_OK; ++i)
    if (own[i])
      status = copy(where, arguments[i], &own[i]->dl_tensor, false);
  for (size_t i = 0; i < count; ++i)
    if (own[i])
      own[i]->deleter(own[i]);
  return status;
}
