// What the nodes of ggml's graphs are in calls of Sectile's operations.
#pragma once
#include <ggml.h>
#include <sectile.h>

namespace ggml_sectile {

// Whether run() can compute the node. Its tensors need no memory yet.
bool supports(sectile_device *device, const ggml_tensor &node);
// Puts the node's work into the stream. Throws std::runtime_error where Sectile refuses a call.
void run(sectile_device *device, sectile_stream *stream, const ggml_tensor &node);

} // namespace ggml_sectile
