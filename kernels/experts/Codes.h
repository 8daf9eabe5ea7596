// Experts' products of codes: fp8 operands with scales for blocks, and matrices of mxfp4.
// Arguments, options and checks of them, for moe_up and moe_down; lhs is `operand`, x or h, and rhs
// is w.
#pragma once
#include "kernels/matmul/Grouped.h"

namespace sectile {

bool isMx(const OptionValues &options); // w is pairs of e2m1
DType resultOf(const Invocation &call, const char *operand);

// The operand of these rows, and w.
std::vector<ArgumentRow> codedOperands(const char *operand, const char *rows, const char *doc,
                                       const char *matrices);
// To be added after the other inputs.
std::vector<ArgumentRow> codeScales(const char *operand, const char *rows);
// Adds options, the configuration, and extents that follow.
void specifyExperts(KernelSpec &spec, const char *operand);
// A part of KernelSpec::check.
void checkExperts(const Invocation &call, const char *operand);

// Refuses to decode first what is no code, or goes with codes.
void checkDecoding(const Use &use, DType operand);

// Calls launch(T(), W()) with the elements of the operand and of w.
template <class Launch> void forCodes(const Use &use, const char *operand, Launch &&launch) {
  const DType dtype = use.call.dtype(operand);
  checkDecoding(use, dtype);
  if (isMx(use.call.options))
    for_dtype<bfloat16, float8_e4m3>(dtype, [&](auto row) { launch(row, std::uint8_t()); });
  else
    for_dtype<half, bfloat16, float, float8_e4m3>(dtype, [&](auto row) { launch(row, row); });
}

} // namespace sectile
