// What the handle of an operation is, and a call of one, settled.
#pragma once
#include "capi/Replay.h"
#include "capi/Status.h"
#include "kernels/calls/Use.h"
#include <mutex>

struct sectile_op {
  explicit sectile_op(const sectile::KernelSpec &kernel) : kernel(kernel) {}

  const sectile::KernelSpec &kernel;
  std::once_flag described; // guards what follows
  std::string json;
};

namespace sectile::c {

// What C gave of a call.
struct GivenCall {
  const sectile_op *op;
  const DLTensor *const *arguments;
  std::size_t count;
  const sectile_option *options;
  std::size_t optionCount;
};

// Of one call that is replayed.
inline constexpr std::size_t mostArguments = 64;

// Throws Refusal where the number of arguments is not the operation's, or an array is NULL.
void checkGiven(const GivenCall &given, const char *function);
// The value of an option as text; `who` is what messages call it. Throws Refusal.
std::string textOf(const sectile_option &option, const std::string &who);
// As names and texts. Throws Refusal.
KernelOptions optionsOf(const GivenCall &given);

// The call on dense tensors of the inputs' types. Throws InputError, Refusal.
Invocation resolveShapes(const GivenCall &given);

// What is worked out once for all calls on tensors of the same types.
struct Settled {
  Invocation call;
  Config config;
  struct Span { // of the bytes of an argument, from its address on; empty of one left out
    std::int64_t low = 0, high = 0;
  };
  std::vector<Span> spans;
  std::vector<std::size_t> outputs; // that the call has
  std::optional<Replay> replay;     // none where its launches cannot be repeated by addresses alone
};

// The settled call on tensors of this device. Throws InputError, Refusal.
std::shared_ptr<const Settled> settle(const Device &device, const GivenCall &given);

// The tensors' memory and addresses. They have to be of the settled call's types.
Placement placementOf(const Device &device, const GivenCall &given);

// Whether no output has bytes between the first and the last one of another argument.
bool isApart(const Settled &settled, const DLTensor *const *arguments);

} // namespace sectile::c
