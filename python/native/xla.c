// The functions that XLA calls for operations of JAX's programs. They run in XLA's threads, without
// the interpreter.
#include "native.h"
#include "xla/ffi/api/c_api.h"
#include <string.h>

enum { most_tensors = 32, most_options = 32, most_bytes = 1024 };

static XLA_FFI_Error *refuse(const XLA_FFI_Api *api, XLA_FFI_Error_Code code, const char *message) {
  XLA_FFI_Error_Create_Args arguments = {
      .struct_size = XLA_FFI_Error_Create_Args_STRUCT_SIZE, .message = message, .errc = code};
  return api->XLA_FFI_Error_Create(&arguments);
}

static XLA_FFI_Error *failed(const XLA_FFI_Api *api, sectile_status status) {
  static const XLA_FFI_Error_Code codes[SECTILE_INTERNAL + 1] = {
      [SECTILE_INVALID] = XLA_FFI_Error_Code_INVALID_ARGUMENT,
      [SECTILE_NO_CODE] = XLA_FFI_Error_Code_NOT_FOUND,
      [SECTILE_MEMORY] = XLA_FFI_Error_Code_RESOURCE_EXHAUSTED,
      [SECTILE_NOT_FOUND] = XLA_FFI_Error_Code_NOT_FOUND,
      [SECTILE_UNSUPPORTED] = XLA_FFI_Error_Code_UNIMPLEMENTED,
  };
  const XLA_FFI_Error_Code code = (unsigned)status <= SECTILE_INTERNAL ? codes[status] : 0;
  return refuse(api, code ? code : XLA_FFI_Error_Code_INTERNAL, library.sectile_error());
}

static bool type_of(XLA_FFI_DataType from, DLDataType *to) {
  static const struct {
    XLA_FFI_DataType from;
    const char *name;
  } types[] = {
      {XLA_FFI_DataType_PRED, "bool"},
      {XLA_FFI_DataType_S8, "i8"},
      {XLA_FFI_DataType_S16, "i16"},
      {XLA_FFI_DataType_S32, "i32"},
      {XLA_FFI_DataType_S64, "i64"},
      {XLA_FFI_DataType_U8, "u8"},
      {XLA_FFI_DataType_U16, "u16"},
      {XLA_FFI_DataType_U32, "u32"},
      {XLA_FFI_DataType_U64, "u64"},
      {XLA_FFI_DataType_F16, "f16"},
      {XLA_FFI_DataType_BF16, "bf16"},
      {XLA_FFI_DataType_F32, "f32"},
      {XLA_FFI_DataType_F64, "f64"},
      {XLA_FFI_DataType_F8E4M3FN, "f8e4m3"},
      {XLA_FFI_DataType_F8E5M2, "f8e5m2"},
      {XLA_FFI_DataType_F8E4M3FNUZ, "f8e4m3fnuz"},
      {XLA_FFI_DataType_F8E5M2FNUZ, "f8e5m2fnuz"},
      {XLA_FFI_DataType_F8E4M3B11FNUZ, "f8e4m3b11fnuz"},
  };
  for (size_t i = 0; i < sizeof types / sizeof *types; ++i)
    if (types[i].from == from)
      return find_dtype(types[i].name, to);
  return false;
}

// What a call is besides its buffers: the operation, for each of its arguments whether there is a
// buffer, options.
typedef struct {
  char bytes[most_bytes]; // the texts, each with a 0 byte
  size_t used;
  const char *operation, *given;
  sectile_option options[most_options];
  int option_count;
} described;

static const char *keep(described *to, XLA_FFI_ByteSpan text) {
  if (text.len >= most_bytes - to->used)
    return NULL;
  char *kept = memcpy(to->bytes + to->used, text.ptr, text.len);
  kept[text.len] = 0;
  to->used += text.len + 1;
  return kept;
}

static bool read_attributes(const XLA_FFI_Attrs *from, described *to) {
  to->used = 0, to->option_count = 0, to->operation = to->given = NULL;
  for (int64_t i = 0; i < from->size; ++i) {
    if (from->types[i] != XLA_FFI_AttrType_STRING)
      return false;
    const char *name = keep(to, *from->names[i]),
               *value = keep(to, *(const XLA_FFI_ByteSpan *)from->attrs[i]);
    if (!name || !value)
      return false;
    if (strcmp(name, "operation") == 0)
      to->operation = value;
    else if (strcmp(name, "given") == 0)
      to->given = value;
    else if (strncmp(name, "option.", 7) == 0 && to->option_count < most_options)
      to->options[to->option_count++] = (sectile_option){name + 7, SECTILE_TEXT, {.text = value}};
    else
      return false;
  }
  return to->operation && to->given && strlen(to->given) <= most_tensors;
}

static XLA_FFI_Error *handle(XLA_FFI_CallFrame *frame, bool on_gpu) {
  if (frame->extension_start && frame->extension_start->type == XLA_FFI_Extension_Metadata) {
    XLA_FFI_Metadata *about = ((XLA_FFI_Metadata_Extension *)frame->extension_start)->metadata;
    about->api_version.major_version = XLA_FFI_API_MAJOR;
    about->api_version.minor_version = XLA_FFI_API_MINOR;
    about->traits = 0; // a first call compiles and loads code, which no command buffer can record
    return NULL;
  }
  const XLA_FFI_Api *api = frame->api;
  if (api->struct_size < XLA_FFI_Api_STRUCT_SIZE)
    return refuse(api, XLA_FFI_Error_Code_UNIMPLEMENTED,
                  "this jaxlib has an older interface than Sectile calls: update it");
  described call;
  if (!read_attributes(&frame->attrs, &call))
    return refuse(api, XLA_FFI_Error_Code_INVALID_ARGUMENT,
                  "a call of Sectile has attributes that sectile.jax does not make");
  DLDevice device = {kDLCPU, 0};
  void *native = NULL;
  if (on_gpu) {
    XLA_FFI_Stream_Get_Args stream = {.struct_size = XLA_FFI_Stream_Get_Args_STRUCT_SIZE,
                                      .ctx = frame->ctx};
    XLA_FFI_DeviceOrdinal_Get_Args ordinal = {
        .struct_size = XLA_FFI_DeviceOrdinal_Get_Args_STRUCT_SIZE, .ctx = frame->ctx};
    XLA_FFI_Error *error = api->XLA_FFI_Stream_Get(&stream);
    if (!error)
      error = api->XLA_FFI_DeviceOrdinal_Get(&ordinal);
    if (error)
      return error;
    native = stream.stream;
    device = (DLDevice){kDLCUDA, ordinal.device_ordinal};
  }
  DLTensor tensors[most_tensors];
  const DLTensor *arguments[most_tensors];
  int64_t input = 0, output = 0;
  size_t count = 0, inputs = 0;
  for (const char *given = call.given; *given; ++given, ++count) {
    const bool is_input = *given == 'i';
    arguments[count] = NULL;
    if (*given == '|') {
      inputs = count--;
      continue;
    }
    if (*given == '-')
      continue;
    if (is_input ? input >= frame->args.size : output >= frame->rets.size)
      return refuse(api, XLA_FFI_Error_Code_INVALID_ARGUMENT,
                    "a call of Sectile has too few buffers");
    const XLA_FFI_Buffer *buffer =
        is_input ? frame->args.args[input++] : frame->rets.rets[output++];
    DLTensor *tensor = &tensors[count];
    // No strides: XLA gives buffers in row-major order.
    *tensor = (DLTensor){.data = buffer->data,
                         .device = device,
                         .ndim = (int32_t)buffer->rank,
                         .shape = buffer->dims};
    if (!type_of(buffer->dtype, &tensor->dtype))
      return refuse(api, XLA_FFI_Error_Code_INVALID_ARGUMENT,
                    "a call of Sectile has an array of a dtype that no kernel takes");
    arguments[count] = tensor;
  }
  const sectile_op *op;
  place where;
  sectile_status status = library.sectile_op_find(call.operation, &op);
  if (status == SECTILE_OK)
    status = place_of(device, native, &where);
  if (status == SECTILE_OK)
    status = where.on_host ? run_on_host(op, &where, arguments, count, inputs, NULL, call.options,
                                         (size_t)call.option_count)
                           : library.sectile_op_run(op, where.stream, arguments, count,
                                                    call.options, (size_t)call.option_count);
  return status == SECTILE_OK ? NULL : failed(api, status);
}

static XLA_FFI_Error *handle_on_host(XLA_FFI_CallFrame *frame) { return handle(frame, false); }
static XLA_FFI_Error *handle_on_gpu(XLA_FFI_CallFrame *frame) { return handle(frame, true); }

PyObject *xla_handlers(PyObject *module, PyObject *unused) {
  (void)module, (void)unused;
  PyObject *host = PyCapsule_New((void *)handle_on_host, "xla._CUSTOM_CALL_TARGET", NULL);
  PyObject *gpu = PyCapsule_New((void *)handle_on_gpu, "xla._CUSTOM_CALL_TARGET", NULL);
  return host && gpu ? Py_BuildValue("{s:N,s:N}", "cpu", host, "CUDA", gpu) : NULL;
}
