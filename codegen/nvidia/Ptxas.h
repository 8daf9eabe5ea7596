// NVIDIA's assembler, where one is installed. Nothing needs it: the driver compiles PTX itself.
#ifndef SECTILE_CODEGEN_NVIDIA_PTXAS_H
#define SECTILE_CODEGEN_NVIDIA_PTXAS_H

#include "ir/Target.h"
#include "llvm/Support/Error.h"
#include <optional>
#include <string>

namespace sectile {

/// The path of ptxas: $SECTILE_PTXAS (empty for none), else the first on the PATH, else in
/// /usr/local/cuda/bin.
std::optional<std::string> findPtxas();

struct PtxasVersion {
  std::string release; ///< "13.0"
  std::string text;    ///< "V13.0.88 cuda_13.0.r13.0/compiler.36424714_0"
};
/// What findPtxas() says it is; it is asked once in a process. Nothing where there is none.
std::optional<PtxasVersion> ptxasVersion();

/// What ptxas made of a kernel and says about it.
struct PtxasResult {
  std::string cubin;
  unsigned registers = 0;       ///< per thread
  unsigned spillStoreBytes = 0; ///< per thread
  unsigned spillLoadBytes = 0;  ///< per thread
  unsigned sharedBytes = 0;     ///< static, per block
  /// ptxas gave up on overlapping asynchronous matrix instructions: the kernel is right but slow.
  bool serializedWgmma = false;
  std::string log;
};

/// Assembles PTX. Fails with ptxas's own words, or when no ptxas is found.
llvm::Expected<PtxasResult> runPtxas(llvm::StringRef ptx, const Target &target);

/// The same; where the code spills, also in other forms (runtime/PtxForms.h), and gives what spills
/// least. ptxas may leave a thread of a large block few of the registers that it could have. Where
/// registers alone keep a second block of so many bytes of shared memory off a multiprocessor, it
/// gives what takes fewer, if next to nothing spills then.
llvm::Expected<PtxasResult> assemble(llvm::StringRef ptx, const Target &target,
                                     unsigned sharedBytes);

} // namespace sectile

#endif
