// Random kernels in the language: what their builders and the explicit level do is not in `tile` IR
// as the program fuzzer makes it. Each case follows from its seed.
#pragma once
#include "tests/fuzz/Draw.h"
#include <cstdint>
#include <optional>
#include <string>

namespace sectile::fuzz {

// Each gives what is wrong, or nothing. `device` is the name of a virtual one.

/// What a schedule may do wrong on purpose.
enum class Mistake {
  None,
  ReleasesEarly, ///< hands slots back that a dot in flight still reads
  KeepsSlots,    ///< hands none back
  FillsTwice,    ///< copies or stores a tile of a slot twice
};
/// A schedule of copies and dots that the kernel states, against the interpreter.
std::optional<std::string> explicitSchedule(uint64_t seed, const std::string &device,
                                            Mistake mistake = Mistake::None);
/// A name as kernelName draws it.
std::string someName(Draw &draw);
/// What is wrong with the name of the entry in a kernel's PTX.
std::optional<std::string> faultOfEntry(const std::string &ptx);
/// A kernel of any name: it runs, its code has a symbol that assemblers take, and dumps stay in
/// their folder, which is below `folder`.
std::optional<std::string> kernelName(uint64_t seed, const std::string &device,
                                      const std::string &folder);
/// Operations on constants beside the same ones on numbers from memory.
std::optional<std::string> foldedConstants(uint64_t seed, const std::string &device);
/// A reduction or a scan by a combiner that may not commute, against the interpreter.
std::optional<std::string> combiners(uint64_t seed, const std::string &device);
/// Blocks of a view that are read and written in place, against the interpreter.
std::optional<std::string> views(uint64_t seed, const std::string &device);
/// What the host may take for something else on purpose.
enum class HostSlip {
  None,
  LessForLessOrEqual,
  UnsignedShift,
  RoundedCast,
  PositiveRest,
  OneTripMore,
  LastTripLost,
  OtherBranchSkipped,
};
/// Loops, branches and arithmetic of all types, against the same program run by the host.
std::optional<std::string> controlFlow(uint64_t seed, const std::string &device,
                                       HostSlip slip = HostSlip::None);

} // namespace sectile::fuzz
