// The pseudo-intrinsics: functions that stand for instructions which LLVM has no intrinsic
// for. They are plain declarations until the very end, when a chip gets inline assembly and the
// virtual GPU a call of its machine.
#ifndef SECTILE_CODEGEN_COMMON_PSEUDOINTRINSICS_H
#define SECTILE_CODEGEN_COMMON_PSEUDOINTRINSICS_H

#include "llvm/ADT/StringRef.h"
#include <cassert>
#include <cstdint>
#include <optional>

namespace llvm {
class Module;
} // namespace llvm

namespace sectile {

/// Replaces every pseudo-intrinsic of the module by inline assembly, as the last step before
/// instruction selection for a chip.
void lowerPseudoIntrinsics(llvm::Module &module);
void lowerNvidiaPseudoIntrinsics(llvm::Module &module);
void lowerAmdPseudoIntrinsics(llvm::Module &module);

} // namespace sectile

namespace sectile::pseudo {

inline constexpr llvm::StringLiteral prefix = "sectile.";

// What an instruction must know when it is compiled, its hints and scope, is part of the name: LLVM
// would make two calls in two branches one that chooses between their arguments.

/// T sectile.nv.load.<T>.<hints>(ptr addrspace(1) address, i1 predicate, T other)
/// Reads a T, aligned to its size; `other` and no access where the predicate is false. T is i8,
/// i16, i32, i64, v2i32, v4i32 or v2i64.
inline constexpr llvm::StringLiteral nvLoad = "sectile.nv.load.";

/// void sectile.nv.store.<T>.<hints>(ptr addrspace(1) address, T value, i1 predicate)
/// Writes a T, aligned to its size; no access where the predicate is false. T as in nvLoad.
inline constexpr llvm::StringLiteral nvStore = "sectile.nv.store.";

/// void sectile.nv.copy.<bytes>.<hints>(ptr addrspace(3) to, ptr addrspace(1) from, i32 read)
/// cp.async of 4, 8 or 16 bytes, of which `read` are read and the others zeros, with an eviction
/// priority.
inline constexpr llvm::StringLiteral nvCopy = "sectile.nv.copy.";

/// void sectile.nv.wait_dependencies(), void sectile.nv.launch_dependents() and
/// void sectile.nv.launch_dependents_of_few()
/// PTX's griddepcontrol, for which LLVM's intrinsics let accesses of memory move across; the last
/// only in grids of few programs.
inline constexpr llvm::StringLiteral nvWaitDependencies = "sectile.nv.wait_dependencies";
inline constexpr llvm::StringLiteral nvLaunchDependents = "sectile.nv.launch_dependents";
inline constexpr llvm::StringLiteral nvLaunchDependentsOfFew =
    "sectile.nv.launch_dependents_of_few";

/// T sectile.nv.atomic.<scope>.<operation>.<type>(ptr addrspace(1) address, T value, i1 predicate)
/// and T sectile.nv.cas.<scope>.<type>(address, T expected, T value, i1 predicate)
/// PTX's atom.relaxed.<scope>.global.<operation>.<type> and ….cas.<type>: what was there before,
/// zero and no access where the predicate is false. `scope` is cta, gpu or sys.
inline constexpr llvm::StringLiteral nvAtomic = "sectile.nv.atomic.";
inline constexpr llvm::StringLiteral nvCas = "sectile.nv.cas.";

/// {T x n} sectile.nv.wgmma.m64n<N>k<K>.<sum>.<a>.<b>.<ss|rs>.<transA><transB>
///     (T sum0, …, [i64 a | i32 a0, …, i32 a3], i64 b, i1 accumulate)
/// PTX's wgmma.mma_async by the four warps of a warpgroup. T is float for f32 sums; i32 for s32,
/// and for f16, of which it holds two. `ss` takes a from shared memory by a descriptor, `rs` from
/// registers. A digit 1 says that an operand in shared memory has its rows (m or n) side by side
/// instead of its columns (k). Where `accumulate` is false, the sums start at zero. The results are
/// not there before a wait that is given them. The function is convergent.
inline constexpr llvm::StringLiteral nvWgmma = "sectile.nv.wgmma.";

/// {T x n} sectile.nv.wgmma_wait.<groups>.<n><f32|b32>(T sum0, …)
/// wgmma.wait_group: all but the latest `groups` committed groups are done, and so are the sums of
/// those among the arguments. T is float for f32, i32 for b32; without arguments the result is
/// void. The function is convergent.
inline constexpr llvm::StringLiteral nvWgmmaWait = "sectile.nv.wgmma_wait.";

/// {T x n} sectile.nv.wgmma_sums.<n><f32|b32>(T value0, …)
/// The values themselves, in registers that a loop's wgmma add to from here on. LLVM knows no more
/// of them, and so does not set constants on a path around the loop. ptxas would see that next to
/// the wait behind the loop, and serialize every wgmma of the kernel (C7515).
inline constexpr llvm::StringLiteral nvWgmmaSums = "sectile.nv.wgmma_sums.";

/// {i32 x n} sectile.nv.wgmma_operand.<n>b32(i32 value0, …)
/// The values in registers of their own, which are written here and nowhere else: a `wgmma` may
/// read them until it is waited for, whatever becomes of those that they are copied from.
inline constexpr llvm::StringLiteral nvWgmmaOperand = "sectile.nv.wgmma_operand.";

/// void sectile.nv.mbarrier_wait(ptr addrspace(3) mbarrier, i32 parity)
/// Waits until the mbarrier's phase of this parity has completed: mbarrier.try_wait in a loop. The
/// function is convergent.
inline constexpr llvm::StringLiteral nvMbarrierWait = "sectile.nv.mbarrier_wait";

/// What the name of a wgmma says.
struct Wgmma {
  unsigned n = 0, k = 0;
  llvm::StringRef sum, a, b; ///< "f32", "e4m3", …
  bool aInRegisters = false, transposeA = false, transposeB = false;

  /// Of each thread, for its part of the sums.
  unsigned registers() const { return sum == "f16" ? n / 4 : n / 2; }
  /// Nothing where PTX has no such instruction.
  static std::optional<Wgmma> parse(llvm::StringRef name);
};

/// What the name of a wait for wgmma says.
struct WgmmaWait {
  unsigned groups = 0, registers = 0;
  bool isFloat = false;

  static std::optional<WgmmaWait> parse(llvm::StringRef name);
};

/// i32 sectile.amd.cvt.<i32 or u32>.<f32 or f64>(x)
/// AMD's v_cvt_<…>: toward zero, saturating, NaN to zero. LLVM selects the instruction for fptosi
/// and fptoui alone, which leave what is out of range undefined.
inline constexpr llvm::StringLiteral amdConvert = "sectile.amd.cvt.";

/// Bytes of every resource that AMD's buffer loads and stores are given: offsets in it have 31
/// bits, and what is masked off goes to this one.
inline constexpr uint64_t amdBufferBytes = uint64_t(1) << 31;

/// void sectile.divisor.<T>(T divisor): an integer is divided by it. Only for a machine that looks.
inline constexpr llvm::StringLiteral divisor = "sectile.divisor.";

/// The number `hints`: they change how fast, never what. The low four bits are a tile::Cache, the
/// next two a tile::Eviction, then one bit for volatile.
constexpr uint32_t packHints(uint32_t cache, uint32_t eviction, bool isVolatile) {
  return cache | eviction << 4 | uint32_t(isVolatile) << 6;
}
/// The hints that a function's name ends with.
inline uint32_t hintsOf(llvm::StringRef name) {
  uint32_t hints = 0;
  [[maybe_unused]] bool failed = name.rsplit('.').second.getAsInteger(10, hints);
  assert(!failed && "the name of an access ends with its hints");
  return hints;
}
constexpr uint32_t cacheOf(uint32_t hints) { return hints & 15; }
constexpr uint32_t evictionOf(uint32_t hints) { return hints >> 4 & 3; }
constexpr bool isVolatile(uint32_t hints) { return hints >> 6 & 1; }

} // namespace sectile::pseudo

#endif
