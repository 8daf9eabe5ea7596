// The same LLVM IR on a chip, for the tests of the virtual GPU: where SECTILE_TEST_DEVICES names a
// CUDA device, what they run there must leave the memory that the virtual GPU leaves, bit for bit.
#pragma once
#include "ir/Target.h"
#include "runtime/virtual/Machine.h"
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace sectile::vgpu {

// Memory that a test gave a kernel, as it was before the launch.
struct Snapshot {
  unsigned char *address;
  std::vector<unsigned char> bytes;
};

// The module's kernel in the target's assembly; its name goes to `entry`.
std::string assemble(const std::string &text, const Target &target, std::string &entry);

class Chip {
public:
  // Null where no chip is asked for.
  static Chip *get();
  // As its device names it, "sm_90a".
  const std::string &target() const;

  // Runs the kernel of the module and compares what it leaves with the memory at the snapshots'
  // addresses. Words of `arguments` that are addresses of snapshots are translated. Where `ulps`
  // is not zero floats may differ by so many units in the last place, and NaNs in their payload.
  void compare(const std::string &text, const LaunchShape &shape,
               const std::vector<Snapshot> &before, std::vector<uint64_t> arguments, unsigned ulps);

private:
  struct State;
  explicit Chip(std::string device);
  std::shared_ptr<State> state;
};

} // namespace sectile::vgpu
