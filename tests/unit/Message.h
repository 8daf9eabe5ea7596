// What an exception that is expected says.
#pragma once
#include <string>

namespace sectile::test {

/// The message of the E that f throws. Other exceptions pass.
template <class E, class F> std::string message(F &&f) {
  try {
    f();
  } catch (const E &error) {
    return error.what();
  }
  return "nothing was thrown";
}

} // namespace sectile::test
