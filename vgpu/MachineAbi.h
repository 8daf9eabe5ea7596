// The contract between the host code generated from a kernel and the machine that runs it: the
// layout of a thread's header, the meaning of access words and operation codes, and the names of
// the machine's functions.
#pragma once
#include <cstdint>

namespace sectile::vgpu {

// Changes whenever this file does in a way that generated code sees, so that no cache mixes the
// two.
constexpr unsigned machineAbiVersion = 11;

// Shared-memory pointers are offsets into the block's arena. The first byte of a kernel's shared
// memory has this address: zero stays a null pointer, and a small negative index stays outside.
constexpr uint32_t sharedOrigin = 1024;
// An address in the shared memory of a cluster's block has the highest bit set, and the block's
// rank above an offset of this many bits. No offset of a block's own is as large.
constexpr uint32_t clusterTag = 1u << 31, clusterRankShift = 24;
constexpr bool isOfCluster(uint32_t address) { return address & clusterTag; }
constexpr uint32_t rankOf(uint32_t address) { return (address & ~clusterTag) >> clusterRankShift; }
constexpr uint32_t offsetOf(uint32_t address) {
  return isOfCluster(address) ? address & ((1u << clusterRankShift) - 1) : address;
}

// What generated code reads of its thread. The machine's own state of a thread follows behind it.
struct ThreadHeader {
  uint32_t thread[3];    // %tid, workitem.id
  uint32_t block[3];     // %ctaid, workgroup.id
  uint32_t blockSize[3]; // %ntid
  uint32_t gridSize[3];  // %nctaid, in blocks
  uint32_t lane;
  uint32_t warp;
  uint32_t warpCount;
  uint32_t warpSize;
  uint32_t sharedBytes; // dynamic part
  uint32_t clusterRank; // of the block in its cluster
  uint32_t clusterSize;
  uint32_t clusterBlock[3];  // %cluster_ctaid
  uint32_t clusterBlocks[3]; // %cluster_nctaid
  uint32_t cluster[3];       // %clusterid
  uint32_t clusters[3];      // %nclusterid
  uint32_t isExplicitCluster;
  uint32_t reserved;
  uint64_t instructions; // of the IR, executed so far: written by generated code
  uint64_t allowed;      // instructions after which a loop calls `overrun`
  uint64_t dispatch;     // what llvm.amdgcn.dispatch.ptr points to
  uint64_t implicitArgs; // what llvm.amdgcn.implicitarg.ptr points to
  char *shared;          // host address of shared address zero
};

// An access word: the width in bytes (which is also the alignment the access needs) and what is
// done.
constexpr uint32_t accessSizeMask = 0xffff;
constexpr uint32_t accessStore = 1u << 16;
constexpr uint32_t accessAtomic = 1u << 17;
constexpr uint32_t accessVolatile = 1u << 18;
constexpr uint32_t accessFenced = 1u << 19;  // atomic or volatile, in a kernel that has fences
constexpr uint32_t accessCluster = 1u << 21; // the address may be another block's
constexpr uint32_t accessWords = 1u << 20;   // one of several words of 4 bytes, aligned to these

// What a fence does.
constexpr uint32_t fenceAcquires = 1, fenceReleases = 2;
constexpr uint32_t fenceOfBlock = 4; // among the block's threads only

// What a fence for the asynchronous proxy is for: the mbarriers that the thread initialised, what
// it wrote to shared memory, what it has written or seen in global memory.
constexpr uint32_t proxyFenceMbarriers = 1, proxyFenceShared = 2, proxyFenceGlobal = 4;

// Operations at which the lanes of a warp meet. Operands and results pass through `registers`:
// every scalar is split into 32-bit words (64-bit values take two, smaller ones are zero-extended),
// arguments first, and the results overwrite them from the first word on.
enum class Op : uint32_t {
  WarpSync,
  ShuffleIdx,
  ShuffleUp,
  ShuffleDown,
  ShuffleXor,
  VoteAll,
  VoteAny,
  VoteUni,
  Ballot,
  MatchAny,
  MatchAll,
  Elect,
  ReduceAdd,
  ReduceMin,
  ReduceMax,
  ReduceUMin,
  ReduceUMax,
  ReduceAnd,
  ReduceOr,
  ReduceXor,
  ReduceFMin,
  ReduceFMax,
  Mma, // mma.sync
  Mfma,
  WmmaHalves, // WMMA of gfx11: the halves of a wave hold the same operands
  Wmma,       // of gfx12
  LdMatrix,
  StMatrix,
  ReadLane,
  ReadFirstLane,
  Permute,           // ds.permute: push to a lane
  BackPermute,       // ds.bpermute: pull from a lane
  Swizzle,           // ds.swizzle
  Dpp,               // update.dpp
  LaneSwap,          // permlane{16,32}.swap
  PermuteInRow,      // permlane16
  PermuteAcrossRows, // permlanex16
  Wgmma,             // at which four warps meet
  WgmmaFence,
  WgmmaCommit,
  WgmmaWait,
  SetMaxRegisters,
  Count
};

// Modifiers of ReduceFMin and ReduceFMax.
constexpr uint32_t reduceAbs = 1, reduceNaN = 2;
// Modifiers of LdMatrix and StMatrix: the number of matrices, and transposition.
constexpr uint32_t matrixTranspose = 1u << 8;
// Modifier of the match operations: 64-bit values.
constexpr uint32_t matchWide = 1;

enum class Element : uint32_t {
  F16,
  BF16,
  TF32,
  F32,
  F64,
  E4M3,
  E5M2,
  S8,
  U8,
  S32,
  E4M3FNUZ,
  E5M2FNUZ
};

// The modifier word of the matrix operations.
struct MmaShape {
  uint32_t m, n, k;
  Element a, b, accumulator;
  bool saturate;

  constexpr uint32_t encode() const {
    return m | n << 6 | k << 12 | uint32_t(a) << 19 | uint32_t(b) << 23 |
           uint32_t(accumulator) << 27 | uint32_t(saturate) << 31;
  }
  static constexpr MmaShape decode(uint32_t word) {
    return {word & 63,
            word >> 6 & 63,
            word >> 12 & 127,
            Element(word >> 19 & 15),
            Element(word >> 23 & 15),
            Element(word >> 27 & 15),
            bool(word >> 31)};
  }
};

// The modifier word of Wgmma; m is 64. Its registers are the sums, a (four words, or a descriptor's
// two), the descriptor of b, and whether the sums count. The results are the sums.
struct WgmmaShape {
  uint32_t n;
  Element a, b, accumulator;
  bool aInRegisters, transposeA, transposeB;

  constexpr uint32_t encode() const {
    return n / 8 | uint32_t(a) << 8 | uint32_t(b) << 12 | uint32_t(accumulator) << 16 |
           uint32_t(aInRegisters) << 20 | uint32_t(transposeA) << 21 | uint32_t(transposeB) << 22;
  }
  static constexpr WgmmaShape decode(uint32_t word) {
    return {(word & 63) * 8,          Element(word >> 8 & 15), Element(word >> 12 & 15),
            Element(word >> 16 & 15), bool(word >> 20 & 1),    bool(word >> 21 & 1),
            bool(word >> 22 & 1)};
  }
};
// The modifier word of WgmmaWait: how many words its registers are, and how many groups it leaves.
constexpr unsigned wgmmaWaitGroupsShift = 16;

// Modifiers of SetMaxRegisters: how many, and that it takes more than the warp has.
constexpr uint32_t registersIncrease = 1u << 16;

enum class BarrierKind : uint32_t {
  Sync,
  Arrive,
  ReduceAnd,
  ReduceOr,
  ReducePopcount,
  Signal,
  Wait
};
constexpr uint32_t barrierAligned = 1u << 8; // ORed to the kind

enum class MbarrierOp : uint32_t {
  Init, // operand: arrivals of each phase
  Invalidate,
  Arrive, // operand: how often; the result is the state before
  ArriveDrop,
  ArriveNoComplete,
  ExpectBytes, // operand: bytes
  CompleteBytes,
  ArriveExpectBytes,
  TestParity, // operand: the phase's parity; the result is whether it has completed
  TestState,  // operand: an arrival's result
  Wait,       // until the phase with the operand's parity has completed
  CopyArrive, // once the thread's cp.async have landed
  CopyArriveNoInc
};

// Bulk copies: from global memory to shared, back, or back combined with what is there.
enum class BulkOp : uint32_t { Load, Store, Add, Min, Max, Inc, Dec, And, Or, Xor };
constexpr uint32_t bulkOpBits = 8; // the rank of a tensor stands above the operation
constexpr unsigned tensorRanks = 5;

enum class SiteKind : uint8_t {
  GlobalLoad,
  GlobalStore,
  GlobalAtomic,
  SharedLoad,
  SharedStore,
  SharedAtomic,
  GenericLoad,
  GenericStore,
  GenericAtomic,
  AsyncCopy,
  AsyncWait,
  Barrier,
  Shuffle,
  Mma,
  MatrixLoad,
  MatrixStore,
  WarpOp,
  Trap,
  Loop
};

// The machine's functions. Generated code calls them as sectile_vg_<name>.
//   access_global(thread, address, access, site)
//   access_generic(thread, address, access, site)
//   access_shared(thread, shared address, access, site) -> host address
//   range(thread, address, bytes, access flags, site): a memcpy's or memset's side, generic
//   warp(thread, site, op, modifiers, member mask, registers)
//   barrier(thread, site, kind, id, count or 0 for all, predicate) -> result of the reduction
//   async_copy(thread, site, shared address, global address, bytes, source bytes)
//   async_commit(thread)
//   async_wait(thread, site, groups that may stay pending; ~0u: for all, committed or not)
//   wait_dependencies(thread), launch_dependents(thread)
//   fence(thread, what it does)
//   fence_proxy(thread, what for): that is there for the asynchronous proxy
//   tensor_copy(thread, site, BulkOp and rank, registers): shared address, mbarrier or 0, address
//   of
//     the tensor map (two words), the blocks of the cluster that get it or 0, coordinates
//   bulk_copy(thread, site, BulkOp, registers): shared address, mbarrier or 0, global address (two
//     words), the blocks or 0, bytes
//   bulk_commit(thread)
//   bulk_wait(thread, site, groups that may stay pending, whether only for their reads)
//   cluster_arrive(thread, site, whether what came before is released)
//   cluster_wait(thread, site)
//   mbarrier(thread, site, MbarrierOp, shared address, i64 operand) -> i64 result
//   trap(thread, site)
//   divisor_is_zero(thread, site): the code divides by something else instead
//   divide_by_zero(thread, site): the host would end the process
//   divide_overflows(thread, site): so it would, as the lowest integer is divided by -1
//   clock(thread) -> i64
//   active_lanes(thread) -> i64
//   overrun(thread, site): a loop goes round, with more than is allowed
#define SECTILE_VG_FUNCTIONS(X)                                                                    \
  X(access_global)                                                                                 \
  X(access_generic)                                                                                \
  X(access_shared)                                                                                 \
  X(range)                                                                                         \
  X(warp)                                                                                          \
  X(barrier)                                                                                       \
  X(async_copy)                                                                                    \
  X(async_commit)                                                                                  \
  X(async_wait)                                                                                    \
  X(wait_dependencies)                                                                             \
  X(launch_dependents)                                                                             \
  X(fence)                                                                                         \
  X(fence_proxy)                                                                                   \
  X(cluster_arrive)                                                                                \
  X(cluster_wait)                                                                                  \
  X(mbarrier)                                                                                      \
  X(tensor_copy)                                                                                   \
  X(bulk_copy)                                                                                     \
  X(bulk_commit)                                                                                   \
  X(bulk_wait)                                                                                     \
  X(trap)                                                                                          \
  X(divisor_is_zero)                                                                               \
  X(divide_by_zero)                                                                                \
  X(divide_overflows)                                                                              \
  X(clock)                                                                                         \
  X(active_lanes)                                                                                  \
  X(overrun)

} // namespace sectile::vgpu
