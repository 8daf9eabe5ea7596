// What a matrix instruction multiplies and where its operands lie, as a value: all that passes and
// code generation know of one.
#ifndef SECTILE_IR_MMAINSTRUCTION_H
#define SECTILE_IR_MMAINSTRUCTION_H

#include "ir/layout/Layout.h"
#include "runtime/Chip.h"
#include <vector>

namespace sectile {

/// Where an instruction takes an operand from.
enum class OperandHome { Registers, Shared, Either };

/// Where an instruction adds to its sums.
enum class SumHome { Registers, TensorMemory };

/// Who issues an instruction: one thread for its block, or all lanes of one warp or of four.
enum class Issuer { Thread, Warp, Warpgroup };

/// When an instruction is complete: its threads go on with the sums, or wait for the group that it
/// was committed in, or at an mbarrier.
enum class Completion { AtOnce, Groups, Mbarrier };

/// One matrix instruction, D[m,n] = A[m,k] · B[k,n] + C[m,n]. Where several warps issue it together
/// each does its part of the rows. A fragment is the layout of what one warp has of such a matrix
/// over its registers and lanes, a register for each element: several small ones share a 32-bit
/// word of the chip. A matrix that is never in registers has none.
struct MmaInstruction {
  MmaElement a, b, sum;
  unsigned m, n, k;
  Layout aFragment, bFragment, sumFragment;
  Issuer issuer = Issuer::Warp;
  Completion completion = Completion::AtOnce;
  SumHome sumHome = SumHome::Registers;
  OperandHome aHome = OperandHome::Registers, bHome = OperandHome::Registers;
  bool onlyAlongK =
      false; ///< operands in shared memory have neighbours along K, or else either way
  /// Sums that keep fewer bits than f32 are added to others, in f32, after so much of K, and start
  /// anew; 0: sums keep what their type does.
  unsigned promotionInterval = 0;

  /// Of A (0) or B (1).
  const Layout &operandFragment(unsigned operand) const { return operand ? bFragment : aFragment; }
  OperandHome home(unsigned operand) const { return operand ? bHome : aHome; }
  /// Warps whose threads take part.
  unsigned warps() const { return issuer == Issuer::Warpgroup ? 4 : 1; }
  /// Whether threads do other work until they wait for it.
  bool isAsynchronous() const { return completion != Completion::AtOnce; }
};

/// The instructions of the chips that share them, the preferred first among those of the same
/// elements.
namespace mma {
const std::vector<MmaInstruction> &ampere();      ///< mma.sync since sm_80
const std::vector<MmaInstruction> &ada();         ///< with 8-bit floats, since sm_89
const std::vector<MmaInstruction> &sinceHopper(); ///< with larger ones of f64, since sm_90
const std::vector<MmaInstruction> &hopper();      ///< with wgmma, of sm_90a
const std::vector<MmaInstruction> &cdna2();       ///< MFMA of gfx90a
const std::vector<MmaInstruction> &cdna3();       ///< of gfx942
const std::vector<MmaInstruction> &cdna4();       ///< of gfx950
const std::vector<MmaInstruction> &rdna3();       ///< WMMA of gfx11
const std::vector<MmaInstruction> &rdna4();       ///< of gfx12
} // namespace mma

} // namespace sectile

#endif
