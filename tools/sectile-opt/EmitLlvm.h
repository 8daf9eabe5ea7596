// sectile-opt --emit-llvm and its kin: from cta IR to LLVM IR and assembly, for tests.
#ifndef SECTILE_TOOLS_SECTILE_OPT_EMITLLVM_H
#define SECTILE_TOOLS_SECTILE_OPT_EMITLLVM_H

namespace sectile {

/// Runs `sectile-opt --emit-llvm|--emit-optimized|--emit-assembly FILE` and gives the exit status.
int emitLlvmMain(int argc, char **argv);

} // namespace sectile

#endif
