// What a chip is and has, as far as a launch or a kernel's host code asks: the part of a Target
// that needs no compiler.
#ifndef SECTILE_RUNTIME_CHIP_H
#define SECTILE_RUNTIME_CHIP_H

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace sectile {

enum class Vendor { Nvidia, Amd };

/// Element kinds of matrix instructions.
enum class MmaElement {
  F16,
  BF16,
  TF32,
  F32,
  F64,
  F8E4M3,
  F8E5M2,
  F8E4M3FNUZ,
  F8E5M2FNUZ,
  I8,
  I32
};

/// Chips whose matrix instructions are the same.
enum class MatrixUnits { Ampere, Ada, SinceHopper, Hopper, Cdna2, Cdna3, Cdna4, Rdna3, Rdna4 };

struct Chip {
  std::string name; ///< as users write it: "sm_90a", "gfx942"
  Vendor vendor = Vendor::Nvidia;
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
  unsigned maxVectorBits = 128; ///< of one memory access of one thread
  MatrixUnits matrixUnits = MatrixUnits::Ampere;

  /// Accesses have another form where indices and strides are known to be from 0 to less than this;
  /// 0: they have none. A buffer's offsets stay below 2^31 bytes in a block of 256 rows of that
  /// many numbers of 8 bytes. A tensor map takes any stride of 32 bits that is not negative.
  int64_t indexBound() const {
    return bufferAccess ? int64_t(1) << 20 : tensorCopy ? int64_t(1) << 30 : 0;
  }

  /// Whether matrix instructions take operands of this element.
  bool multiplies(MmaElement element) const;
  /// Whether instructions of a warpgroup do, from shared memory: with neighbours along K, or
  /// whichever way they lie.
  bool warpgroupMultiplies(MmaElement element, bool alongK) const;

  /// The chip of this name; null where there is none.
  static const Chip *find(std::string_view name);
  /// The chip of a name that is known to be one's.
  static const Chip &known(std::string_view name);
  /// Why there is none: the sentence lists those that there are.
  static std::string whyUnknown(std::string_view name);
  /// Every chip, oldest first, NVIDIA before AMD.
  static std::span<const Chip> all();
  /// The best chip whose code one of this CUDA compute capability runs; a newer one gets its
  /// nearest known features. Null for one that is older than all.
  static const Chip *forComputeCapability(unsigned major, unsigned minor);
};

} // namespace sectile

#endif
