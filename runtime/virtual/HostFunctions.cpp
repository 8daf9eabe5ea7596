// Arithmetic that generated code calls: approximations of the hardware's functions, and conversions
// which the host's compiler expects from its runtime library.
#include "runtime/virtual/Symbols.h"
#include <bit>
#include <cmath>
#include <cstdint>
#include <iterator>

namespace sectile::vgpu {
namespace {

// Rounds to nearest even. A NaN stays a NaN.
uint16_t bfloatFromFloat(float value) {
  auto bits = std::bit_cast<uint32_t>(value);
  if (std::isnan(value))
    return uint16_t(bits >> 16 | 0x40);
  return uint16_t((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

// Rounding twice must not round up what the first rounding made a tie: round to odd first.
float oddFloatFromDouble(double value) {
  float nearest = float(value);
  if (std::isnan(value) || double(nearest) == value || std::isinf(nearest))
    return nearest;
  auto bits = std::bit_cast<uint32_t>(nearest);
  if (std::fabs(double(nearest)) > std::fabs(value))
    --bits; // toward zero
  return std::bit_cast<float>(bits | 1);
}
uint16_t bfloatFromDouble(double value) { return bfloatFromFloat(oddFloatFromDouble(value)); }

} // namespace

// The compiler's runtime returns __bf16 in a vector register.
#if defined(__x86_64__)
typedef float RegisterOfHalves __attribute__((vector_size(16)));
static RegisterOfHalves inRegister(uint16_t value) {
  return RegisterOfHalves{std::bit_cast<float>(uint32_t(value)), 0, 0, 0};
}
static RegisterOfHalves truncsfbf2(float value) { return inRegister(bfloatFromFloat(value)); }
static RegisterOfHalves truncdfbf2(double value) { return inRegister(bfloatFromDouble(value)); }
#endif

SymbolTable hostSymbols() {
  static const Symbol table[] = {
#if defined(__x86_64__)
      {"__truncsfbf2", reinterpret_cast<void *>(&truncsfbf2)},
      {"__truncdfbf2", reinterpret_cast<void *>(&truncdfbf2)},
#endif
  };
  return {table, std::size(table)};
}

} // namespace sectile::vgpu
