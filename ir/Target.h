// What a chip can do, as a value. Passes and code generation ask a Target; none compares
// architecture names.
#ifndef SECTILE_IR_TARGET_H
#define SECTILE_IR_TARGET_H

#include "ir/MmaInstruction.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <cstdint>
#include <string>
#include <vector>

namespace sectile {

enum class Vendor { Nvidia, Amd };

struct Target {
  std::string name; ///< as users write it: "sm_90a", "gfx942"
  Vendor vendor = Vendor::Nvidia;
  std::string triple;        ///< LLVM target triple
  std::string cpu;           ///< LLVM processor name
  std::string features;      ///< LLVM feature string
  bool isForOneChip = false; ///< its code runs on that chip alone, that of others on later ones too
  unsigned leastCuda = 0;    ///< the first CUDA whose driver takes its code, as 12040 for 12.4
  unsigned warpSize = 32;
  unsigned maxThreads = 1024;        ///< per block
  unsigned maxSharedBytes = 49152;   ///< usable by one block
  unsigned sharedBytesPerUnit = 0;   ///< of one multiprocessor or compute unit
  unsigned registersPerUnit = 65536; ///< 32-bit registers of one multiprocessor
  unsigned maxRegistersPerThread = 255;
  unsigned multiprocessors = 0; ///< of the usual product, for estimates
  unsigned sharedBanks = 32;    ///< each 4 bytes wide
  bool asyncCopy = false;       ///< global-to-shared copies in groups, waited for by count
  bool tensorCopy = false;      ///< copies of boxes by an engine (TMA), told by mbarriers
  /// Copies by the engine to both blocks of a cluster, at full speed.
  bool multicast = false;
  bool movesRegisters = false;      ///< setmaxnreg: warps take registers that others give up
  bool matrixLoad = false;          ///< ldmatrix: 8×8 tiles of 16-bit elements, shared to registers
  bool matrixStore = false;         ///< stmatrix: the same from registers to shared
  bool bf16Arithmetic = false;      ///< native bf16 add, multiply and fma
  bool barrierOrdersGlobal = false; ///< and not shared memory alone
  /// Loads and stores through a resource: a uniform address, and 32-bit offsets in bytes whose
  /// range the hardware checks.
  bool bufferAccess = false;
  bool dependentLaunch = false; ///< a kernel may start before the one ahead of it is done
  bool bf16Atomics = false;     ///< native atomic addition of bf16
  bool tanhInstruction = false;
  unsigned maxVectorBits = 128;        ///< of one memory access of one thread
  llvm::ArrayRef<MmaInstruction> mmas; ///< the preferred first among those of the same elements

  /// Accesses have another form where indices and strides are known to be from 0 to less than this;
  /// 0: they have none. A buffer's offsets stay below 2^31 bytes in a block of 256 rows of that
  /// many numbers of 8 bytes. A tensor map takes any stride of 32 bits that is not negative.
  int64_t indexBound() const {
    return bufferAccess ? int64_t(1) << 20 : tensorCopy ? int64_t(1) << 30 : 0;
  }

  /// Whether matrix instructions take operands of this element.
  bool multiplies(MmaElement element) const;

  /// The target of this name, or an error that lists the known names.
  static llvm::Expected<Target> get(llvm::StringRef name);
  /// Every known name, oldest first, NVIDIA before AMD.
  static llvm::ArrayRef<llvm::StringRef> names();
  /// The best known target whose code a chip of this CUDA compute capability runs; a newer chip
  /// gets its nearest known features. An error for a chip that is older than all.
  static llvm::Expected<Target> forComputeCapability(unsigned major, unsigned minor);
};

} // namespace sectile

#endif
