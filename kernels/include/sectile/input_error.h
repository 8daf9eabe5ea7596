// InputError: what was given cannot be used.
#pragma once
#include <sectile/error.h>

namespace sectile {

// The fault of who calls, not of the work: a file, an argument, an option or the description of a
// kernel that cannot be used. run_kernel() and prepare_kernel() throw it as a LaunchError.
class InputError : public Error {
public:
  using Error::Error;
};

} // namespace sectile
