// Copies of what a kernel writes, so that candidates run on the same input and the user's memory
// stays as it is; and whether two candidates wrote the same.
#ifndef SECTILE_AUTOTUNE_OUTPUTS_H
#define SECTILE_AUTOTUNE_OUTPUTS_H

#include <optional>
#include <sectile/buffer.h>
#include <sectile/kernel.h>
#include <sectile/tuning.h>
#include <span>

namespace sectile::autotune {

/// One argument that the kernel writes, and the whole memory it lies in.
struct OutputMemory {
  size_t argument; ///< its position
  DType dtype;
  uint64_t address;
  size_t bytes;
  bool alone = true; ///< no other argument lies in it
};

/// The outputs of a launch: those that the options name, else all that are not const. Throws
/// LaunchError where one is memory of unknown size, or no memory at all, or where an argument lies
/// on another device.
std::vector<OutputMemory> outputsOf(const detail::BoundLaunch &launch, const Device &device,
                                    const AutotuneOptions &options);

/// What all outputs hold, in order.
using OutputBytes = std::vector<std::vector<char>>;

/// What outputs are filled with to find out what a launch writes: NaN in floats, zeros elsewhere,
/// where a lock or an index may be. What other arguments lie in stays as it is.
OutputBytes spoiled(const std::vector<OutputMemory> &outputs, const OutputBytes &before);

/// `before`, but with what `spoil` has wherever a launch left the same on both, and not by leaving
/// it alone: who does not write there is found out.
OutputBytes spoiledWhereWritten(const OutputBytes &before, const OutputBytes &after,
                                const OutputBytes &spoil, const OutputBytes &afterSpoil,
                                const std::vector<OutputMemory> &outputs);

/// Which of a launch's words are addresses.
std::vector<size_t> addressWords(std::span<const detail::ArgSpec> specs);

class OutputCopies {
public:
  OutputCopies(const Device &device, std::vector<OutputMemory> outputs);

  /// The launch with its outputs in the copies, and everything else that lies in the same memory.
  detail::BoundLaunch redirected(detail::BoundLaunch launch) const;
  /// Where an address of the user's memory is in the copies; itself where that is not copied.
  uint64_t redirected(uint64_t address) const;
  /// Fills the copies with what the user's memory holds.
  void restore(const Stream &stream) const;
  /// Fills them with other bytes. This and `download` wait for all work of the device.
  void upload(const OutputBytes &bytes) const;
  OutputBytes download() const;

  const std::vector<OutputMemory> &outputs() const { return list; }

private:
  /// Memory of the user's that outputs share, and its copy.
  struct Region {
    uint64_t begin, end;
    detail::Memory memory;
    uint64_t copy; ///< as far from a multiple of 256 as `begin`
  };
  const Region *find(uint64_t address) const;

  Device device;
  std::vector<OutputMemory> list;
  std::vector<Region> regions;
};

/// What all outputs have to be.
class ExpectedOutputs {
public:
  ExpectedOutputs() = default;
  ExpectedOutputs(std::vector<OutputMemory> outputs, OutputBytes bytes);

  bool sameBits(const OutputBytes &actual) const { return actual == expected; }
  /// Nothing where `actual` is as good, else what is wrong with it, in a sentence.
  std::optional<std::string> compare(const OutputBytes &actual,
                                     std::optional<double> tolerance) const;

private:
  std::vector<OutputMemory> outputs;
  OutputBytes expected;
  std::vector<double> typical; ///< root mean square of each output's finite elements
};

/// The usual tolerance of an element type.
double toleranceOf(DType dtype);

} // namespace sectile::autotune

#endif
