// Artifact: one compiled kernel for one target, as code generation hands it on, the cache keeps it
// and a device loads it.
#ifndef SECTILE_RUNTIME_ARTIFACT_H
#define SECTILE_RUNTIME_ARTIFACT_H

#include "runtime/DebugSite.h"
#include "runtime/Remark.h"
#include "runtime/TensorNumber.h"
#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sectile {

/// What the code takes of a chip, as far as it is known before a driver has compiled it: of PTX
/// next to nothing.
struct Resources {
  unsigned registers = 0;         ///< of one thread; 0 where nobody knows
  unsigned spillBytes = 0;        ///< of one thread
  unsigned staticSharedBytes = 0; ///< of one block, beside what is given at the launch

  friend bool operator==(const Resources &, const Resources &) = default;
};

/// What the code takes for granted about one argument of a launch, as a 64-bit word: an integer, or
/// an address.
struct ArgumentFacts {
  uint64_t divisor = 1; ///< it is a multiple of this
  int64_t low = std::numeric_limits<int64_t>::min(), high = std::numeric_limits<int64_t>::max();
  /// It is the address of a view with so many axes, whose extents and then strides are the next
  /// arguments, and whose elements all have different addresses. 0: not known.
  unsigned distinct = 0;

  friend bool operator==(const ArgumentFacts &, const ArgumentFacts &) = default;
};

/// A tensor map, which a launch makes of other arguments: one that lies in memory with strides, of
/// which boxes are copied. The first dimension is the contiguous one.
struct TensorMapPlan {
  /// The constant, plus `factor` times another argument's value.
  struct Given {
    int32_t argument = -1; ///< negative: there is none
    unsigned bits = 64;    ///< of the argument
    int64_t constant = 0, factor = 1;

    friend bool operator==(const Given &, const Given &) = default;
  };
  unsigned pointer = 0; ///< the argument that is its address
  unsigned elementBytes = 0;
  TensorNumber number = TensorNumber::Bits;
  unsigned swizzle = 0;       ///< bytes: 0, 32, 64 or 128
  std::vector<Given> extents; ///< elements
  std::vector<Given> strides; ///< elements, of all dimensions but the first
  std::vector<unsigned> box;  ///< elements
  bool isWritten = false;     ///< else read

  friend bool operator==(const TensorMapPlan &, const TensorMapPlan &) = default;
};

/// A tensor map with its numbers, as cuTensorMapEncodeTiled takes it.
struct TensorMapValues {
  static constexpr unsigned mostDimensions = 5;
  uint64_t address = 0;
  unsigned rank = 0, elementBytes = 0, swizzle = 0;
  TensorNumber number = TensorNumber::Bits;
  uint64_t extents[mostDimensions] = {};
  uint64_t strides[mostDimensions] = {}; ///< bytes; strides[0] is that of dimension 1
  unsigned box[mostDimensions] = {};
  bool isWritten = false; ///< else read

  /// Whether it has no elements. The driver takes none without any: one that is read is a zero
  /// then, one that is written a place that nobody reads.
  bool isEmpty() const { return std::find(extents, extents + rank, 0u) != extents + rank; }

  friend bool operator==(const TensorMapValues &, const TensorMapValues &) = default;
};

/// The map for these arguments, each of them a 64-bit word that holds it.
TensorMapValues valuesOf(const TensorMapPlan &plan, void *const *arguments);

/// Where code waits for the kernel ahead of it in the stream. Code that does not must not be
/// launched before that kernel is done.
enum class WaitPoint : uint32_t {
  None,
  Start, ///< before it does anything else
  ByHand ///< where its author says, perhaps after it has read what other kernels wrote
};

/// What a launch of the code has to do, and what it may assume.
struct LaunchPlan {
  unsigned threads = 0;     ///< of one block
  unsigned sharedBytes = 0; ///< of one block, given at the launch
  unsigned cluster = 1;     ///< blocks along the grid's first axis that run side by side
  WaitPoint wait = WaitPoint::None;
  /// Of each argument of the compiled function; none where the code was compiled without any facts.
  std::vector<ArgumentFacts> arguments;
  unsigned firstTensorMap = 0; ///< the number of the argument that the first tensor map is
  std::vector<TensorMapPlan> tensorMaps; ///< of the last arguments

  friend bool operator==(const LaunchPlan &, const LaunchPlan &) = default;
};

/// Whether the elements of a tensor have different addresses: whether each stride, the smallest
/// first, goes beyond all that the smaller ones reach.
bool areDistinct(unsigned rank, const uint64_t *extents, const uint64_t *strides);

/// Which of a plan's facts does not hold of these arguments: "argument 3 is 17, no multiple of 16".
/// Empty when all do.
std::string brokenFact(const LaunchPlan &plan, std::span<const uint64_t> arguments);

struct Artifact {
  std::string target; ///< "sm_90a"
  std::string kind;   ///< "ptx", "cubin", "hsaco", or "virtual" for a vgpu::VirtualObject
  std::string entry;  ///< the kernel's name, of which symbolOf() makes the code's symbol
  std::string bytes;  ///< the code, in the form that kind says
  /// Of PTX, if somebody made it beforehand. serialize() leaves it out.
  std::string machineCode;
  LaunchPlan plan;
  Resources resources;
  std::string irHash;             ///< of the IR it was compiled from, without source locations
  double compileMilliseconds = 0; ///< that the compile took
  /// Where it asserts or prints: it then takes the debug log's address and a number for the launch
  /// as two more arguments.
  std::vector<DebugSite> debugSites;
  std::vector<Remark> remarks;
};

/// The artifact as bytes: a magic number, the format's version, a checksum, and the fields.
std::string serialize(const Artifact &artifact);

/// The artifact that these bytes hold, or nothing when they are not what serialize() wrote.
std::optional<Artifact> deserialize(std::string_view bytes);

} // namespace sectile

#endif
