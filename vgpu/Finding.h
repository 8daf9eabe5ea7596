// What the virtual GPU and the interpreter report when a kernel does something wrong.
#pragma once
#include <cstdint>
#include <string>

namespace sectile::vgpu {

enum class FindingKind {
  OutOfBounds,      // a global or generic access outside every allocation
  Misaligned,       // an address that is no multiple of the access's width
  BadSharedAddress, // a shared access outside the block's shared memory
  SharedRace,       // two accesses of shared memory without an order, one of them a write
  GlobalRace,       // the same of global memory, by threads of one block or of several
  Uninitialized,    // a read of shared or global memory that nothing wrote
  MissingWait,  // something asynchronous that is not waited for: an access to the destination of
                // a copy that has not landed, sums that were never waited for
  MissingFence, // registers used by a wgmma without wgmma.fence
  MissingProxyFence, // the asynchronous proxy reads or overwrites what threads wrote without
                     // fence.proxy.async
  BarrierDivergence, // threads that exit, or wait elsewhere, while others wait at a barrier
  Deadlock,          // no thread of the block can go on
  BadOperand,        // an instruction used against its rules
  Trap,              // the kernel stopped itself, or did what no number comes of
  Overflow,          // an address from an integer that did not fit
  BadIndex,          // an index outside of the tile that it is taken from
  NotANumber,        // the first NaN, where these are watched for
  BrokenPromise,     // what an assumption or a hint says does not hold
  TimedOut           // the launch had a deadline, and was not done by then
};

// The kind as a word for messages and tests: "out-of-bounds access".
const char *kindName(FindingKind kind);
// Whether it may be why something read what nothing had written yet.
bool explainsUninitialized(FindingKind kind);

struct Finding {
  FindingKind kind = FindingKind::Trap;
  uint32_t block[3] = {};
  bool ofThread = true; // else of the whole program
  uint32_t thread = 0;  // linear index within the block
  std::string element;  // place in the tile, "[3, 5]"; empty where it has none
  std::string kernel;
  std::string file; // of the instruction; empty where the kernel carries no locations
  uint32_t line = 0;
  std::string message; // one sentence without the place

  // "kernel softmax, file.cpp:12, block (0,0,0), thread 5: out-of-bounds access: ..."; without
  // threads "…, program (0,0,0), element [3, 5]: …"
  std::string text() const;
};

} // namespace sectile::vgpu
