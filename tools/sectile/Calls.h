// Calls of kernels as lines of a file, and what a line leaves out.
#pragma once
#include "kernels/registry/Registry.h"
#include <string>
#include <vector>

namespace sectile::tool {

// Every input that may have this dtype has it; the others have their usual ones. "f16,k=i8" gives
// the input k another.
std::string dtypesFor(const KernelSpec &kernel, const std::string &names);

struct Case {
  Invocation call;
  Config given = {}; // what the line sets of the configuration
};

// The calls of a file, those of these kernels alone where some are named, one a line:
// KERNEL [AXIS=EXTENT,...] [dtype DTYPE] [with NAMES] [opt KEY=VALUE...] [config KEY=VALUE...].
// What follows a # does not count. Throws InputError that names the line.
std::vector<Case> readCases(const std::string &path, const std::vector<std::string> &kernels,
                            const std::string &dtype);

// The calls of a file that SECTILE_RECORD wrote. Throws InputError.
std::vector<Invocation> readRecordedCalls(const std::string &path);

} // namespace sectile::tool
