// Pseudo-intrinsics become inline assembly, as the last step before instruction selection.
#ifndef SECTILE_CODEGEN_NVIDIA_LOWERPSEUDOINTRINSICS_H
#define SECTILE_CODEGEN_NVIDIA_LOWERPSEUDOINTRINSICS_H

namespace llvm {
class Module;
} // namespace llvm

namespace sectile {

/// Replaces every pseudo-intrinsic of the module; see codegen/common/PseudoIntrinsics.h. Modules
/// for other vendors have none and stay as they are.
void lowerPseudoIntrinsics(llvm::Module &module);

} // namespace sectile

#endif
