// The same LLVM IR on a chip, for the tests of the virtual GPU: where SECTILE_TEST_DEVICES names a
// CUDA device, what they run there must leave the memory that the virtual GPU leaves, bit for bit.
#pragma once
#include "ir/Target.h"
#include "vgpu/Machine.h"
#include "vgpu/TensorMap.h"
#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

namespace sectile::vgpu {

// Memory that a test gave a kernel, as it was before the launch.
struct Snapshot {
  unsigned char *address;
  std::vector<unsigned char> bytes;
};

// What a kernel takes: a scalar or an address in a word of its own, or a tensor map.
using Argument = std::variant<uint64_t, TensorMap>;

// The module's kernel in the target's assembly; its name goes to `entry`.
std::string assemble(const std::string &text, const Target &target, std::string &entry);

class Chip {
public:
  // Null where no chip is asked for.
  static Chip *get();
  // As its device names it, "sm_90a".
  const std::string &target() const;

  // Runs the kernel of the module, `launches` times one behind the other, each of which may start
  // before the one ahead is done, and compares what that leaves with the memory at the snapshots'
  // addresses; differences are failures of the test. Arguments that are addresses in snapshots are
  // translated, those in tensor maps too. Where `ulps` is not zero floats may differ by so many
  // units in the last place, and NaNs in their payload. Throws DeviceError where the driver refuses
  // something, and where the kernel faults or does not end: after these two the chip is lost to the
  // process, and every later call throws.
  void compare(const std::string &text, const LaunchShape &shape,
               const std::vector<Snapshot> &before, std::vector<Argument> arguments, unsigned ulps,
               unsigned launches = 1);

private:
  struct State;
  explicit Chip(std::string device);
  std::shared_ptr<State> state;
};

} // namespace sectile::vgpu
