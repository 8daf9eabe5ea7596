// What options say of a gate.
#include "kernels/experts/Gates.h"
#include <sectile/error.h>

using namespace sectile;

std::vector<OptionRow> sectile::gateOptions() {
  return {{"gate: none|interleaved|concatenated = concatenated",
           "w's columns are gates and what they multiply: in turn, or in two halves"},
          {"activation: none|relu|relu_squared|gelu|gelu_tanh|silu|sigmoid|tanh|softplus = silu",
           "of the gate, or of all columns without one; gelu is the exact one"},
          {"alpha: number = 1 e.g. 1.702", "silu is x sigmoid(alpha x)"},
          {"limit: number = 0 from 0 e.g. 0.5",
           "largest gate, and largest magnitude of what it multiplies; 0: none"},
          {"up_offset: number = 0 e.g. 1", "added to what a gate multiplies"}};
}

bool sectile::hasGate(const Invocation &call) { return call.options.choice("gate") != "none"; }

GroupedEpilogue sectile::gateOf(const Invocation &call) {
  const std::string &gate = call.options.choice("gate");
  return {gate == "none"          ? Gate::none
          : gate == "interleaved" ? Gate::interleaved
                                  : Gate::concatenated,
          activationOf(call.options.choice("activation")),
          {call.options.number("alpha"), call.options.number("limit"),
           call.options.number("up_offset")}};
}

void sectile::checkGate(const Invocation &call) {
  if (hasGate(call) && call.extent("N") % 2 != 0)
    refuse(call, "w has ", call.extent("N"), " columns, but a gate needs an even number");
  const GateNumbers numbers = gateOf(call).numbers;
  if (numbers.alpha != 1 && call.options.choice("activation") != "silu")
    refuse(call, "option 'alpha' is of activation=silu alone, not of ",
           call.options.choice("activation"));
  if (!hasGate(call) && (numbers.alpha != 1 || numbers.limit != 0 || numbers.offset != 0))
    refuse(call, "options 'alpha', 'limit' and 'up_offset' are of a gate, but gate=none");
}
