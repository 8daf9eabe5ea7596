// What assemblers take in different ways: forms of one kernel's PTX to choose from where its code
// spills, or takes a few registers too many for a second block.
#ifndef SECTILE_RUNTIME_PTXFORMS_H
#define SECTILE_RUNTIME_PTXFORMS_H

#include "runtime/Chip.h"
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sectile::runtime {

/// What otherForms() tries, for keys of what was chosen from.
inline constexpr std::string_view formsOfPtx = "index minnctapersm two";

/// The thread's index in $0, as inline assembly. ptxas from 13.0 to 13.2 may give the register of
/// %tid.x to a shift of it, and read it as the index afterwards. The result of an operation that
/// changes nothing, which they do not know, is a number like others.
inline constexpr std::string_view indexOfThread = "{\n\t"
                                                  ".reg .b32 index;\n\t"
                                                  "mov.u32 index, %tid.x;\n\t"
                                                  "and.b32 $0, index, 1023;\n\t"
                                                  "}";

/// The PTX of one kernel in forms that may take fewer registers, each of which computes the same:
/// with an index that the assembler may read again, and then also with its limit on registers
/// stated otherwise, unless it states one itself.
std::vector<std::string> otherForms(std::string_view ptx);

/// The PTX with a limit on registers that leaves a multiprocessor room for two blocks. None where
/// `registers` of each thread leave that room, where shared memory has none, where the limit is far
/// below them, or where the PTX states a limit itself. sharedBytes: of one block.
std::optional<std::string> formForTwo(std::string_view ptx, unsigned registers,
                                      unsigned sharedBytes, const Chip &chip);

/// Bytes that a thread may spill for that: attention of causal rows at width 64, as a user writes
/// it, spills 44 of them and takes 0.79 of the time (H200).
inline constexpr unsigned mostSpiltForTwo = 64;

/// How a remark says that code spills, and what helps.
std::string spillRemark(unsigned registers, unsigned spillBytes);

} // namespace sectile::runtime

#endif
