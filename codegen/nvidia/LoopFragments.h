// A repair for an error of NVIDIA's assembler.
#ifndef SECTILE_CODEGEN_NVIDIA_LOOPFRAGMENTS_H
#define SECTILE_CODEGEN_NVIDIA_LOOPFRAGMENTS_H

namespace llvm {
class Module;
} // namespace llvm

namespace sectile {

/// Copies the fragments of a that wgmma takes from registers within the innermost loop around it,
/// where the loop does not make them itself. For modules whose wgmma are pseudo-intrinsics still.
void makeFragmentsInLoops(llvm::Module &module);

} // namespace sectile

#endif
