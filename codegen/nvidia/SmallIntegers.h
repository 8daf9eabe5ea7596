// Conversions of small integers to floats without the unit that converts.
#ifndef SECTILE_CODEGEN_NVIDIA_SMALLINTEGERS_H
#define SECTILE_CODEGEN_NVIDIA_SMALLINTEGERS_H

namespace llvm {
class Module;
}

namespace sectile {

/// Fewer instructions that convert begin in a clock than others. A float whose last bit counts ones
/// has a small integer for its last bits, so that an operation on integers and a subtraction
/// convert those, exactly: codes of 4 and 8 bits, above all. Two of them that become a pair of
/// 16-bit floats, scaled or not, are computed as such a pair, to the same bits.
void convertSmallIntegers(llvm::Module &module, bool hasBfloatPairs);

} // namespace sectile

#endif
