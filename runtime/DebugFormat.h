// The text of what kernels print, for every device and the interpreter, and its way to the handler.
#ifndef SECTILE_RUNTIME_DEBUGFORMAT_H
#define SECTILE_RUNTIME_DEBUGFORMAT_H

#include "runtime/DebugSite.h"
#include <sectile/report.h>

namespace sectile::runtime {

using ProgramId = std::array<unsigned, 3>;

/// Bytes of an element of a printed value, as memory holds it: a bool has one, a pointer eight.
size_t elementBytes(const DebugValue &value);
/// Where a site's value begins among the bytes of all of them, each at a multiple of 16; for the
/// number of values where they end.
size_t valueStart(const DebugSite &site, size_t value);

/// What one program prints at a site, lines that end with a newline. `values` has their elements in
/// row-major order, as valueStart says.
std::string formatPrint(std::string_view kernel, const ProgramId &program, const DebugSite &site,
                        const void *values);

/// A value with its type, lines that end with a newline; its elements in row-major order.
std::string formatValue(const DebugValue &value, const void *elements);

/// Gives text to the handler, or to standard output.
void deliverPrint(std::string_view text);

/// What a failed assertion is to the user. `index` counts the condition's elements in row-major
/// order.
AssertionError::Failure failureAt(std::string_view kernel, const ProgramId &program,
                                  const DebugSite &site, uint64_t index);

} // namespace sectile::runtime

#endif
