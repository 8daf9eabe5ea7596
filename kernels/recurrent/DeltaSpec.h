// What the descriptions of the delta rule's kernels have in common: those of sequences by chunks,
// and those of a few steps with states in a pool.
#pragma once
#include "kernels/registry/Registry.h"
#include <limits>
#include <sectile/recurrent.h>

namespace sectile::delta {

struct DeltaForm {
  bool isByChannel = false; // g has a number for each channel of the keys
  bool isRwkv = false;
  bool hasPool = false; // of states [V, K], which the call changes
};

std::vector<ArgumentRow> inputs(const DeltaForm &form);
std::vector<OptionRow> options(const DeltaForm &form);
std::vector<std::string> storedStates(std::vector<std::string> axes, const OptionValues &options);
// The input b of RWKV-7 such that b a^T, or a b^T, shrinks the state, as in the model.
void sampleWrites(const Invocation &call, std::span<HostArray> inputs);
// Extents of heads and keys, and options that do not go with each other or with inputs.
void checkSteps(const Invocation &call);

// Whether the kernel's g is [B, T, Hv, K].
bool isByChannel(const Invocation &call);
// As the option says; of a kernel without it rwkv7.
StateRule ruleOf(const Invocation &call);
DecayGate gateOf(const Invocation &call);
double scaleOf(const Invocation &call);
std::int64_t widthOf(const Invocation &call); // K, up to the next multiple of 16
std::int64_t sequences(const Invocation &call);

// Within which dt_min and dt_max keep what the softplus of a gate gives.
struct Limits {
  double least = 0, most = std::numeric_limits<double>::infinity();
};
Limits limitsOf(const Invocation &call);

} // namespace sectile::delta
