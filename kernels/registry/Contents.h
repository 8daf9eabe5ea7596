// Integer inputs that several kernels have, and their checks for KernelSpec::check and contents.
#pragma once
#include "kernels/registry/Registry.h"

namespace sectile {

// cu_seqlens, of sequences whose T steps are packed into one batch; this axis has one more than
// there are sequences.
ArgumentRow packedArgument(const std::string &axis);
// Refuses it beside several batches, and steps without a sequence.
void checkPacked(const Invocation &call, const std::string &axis);

// Where packed sequences begin, and the end of the last: from 0, never falling, to `end`. Nothing
// is checked where the argument is left out.
void checkBoundaries(const Invocation &call, std::span<const HostArray> inputs,
                     std::string_view argument, std::int64_t end);

// Rows of a pool of so many: none beyond it, and none twice. A negative one stands for none.
void checkRows(const Invocation &call, std::span<const HostArray> inputs, std::string_view argument,
               std::int64_t rows);

} // namespace sectile
