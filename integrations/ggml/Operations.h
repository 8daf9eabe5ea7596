// What the nodes of ggml's graphs are in calls of Sectile's operations.
#pragma once
#include <ggml.h>
#include <sectile.h>

namespace ggml_sectile {

// Where nodes are computed.
struct Place {
  sectile_device *device = nullptr;
  sectile_stream *stream = nullptr;
  DLDevice dlpack{};
};

// Whether run() can compute the node. Its tensors need no memory yet.
bool supports(const Place &place, const ggml_tensor &node);
// Puts the node's work into the stream. Throws std::runtime_error where Sectile refuses a call.
void run(const Place &place, const ggml_tensor &node);

} // namespace ggml_sectile
