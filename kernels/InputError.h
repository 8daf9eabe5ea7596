// The fault of who calls, not of the work: a file, an argument or an option that cannot be used.
#pragma once
#include <sectile/error.h>

namespace sectile {

class InputError : public Error {
public:
  using Error::Error;
};

} // namespace sectile
