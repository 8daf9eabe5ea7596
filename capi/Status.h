// How the C interface tells of failures: no exception leaves one of its functions, and each thread
// keeps what its last failure was.
#pragma once
#include "runtime/DeviceImpl.h"
#include <sectile.h>
#include <string>

namespace sectile::c {

// What a function of the interface refuses by itself.
class Refusal : public Error {
public:
  Refusal(sectile_status status, const std::string &what) : Error(what), status(status) {}
  const sectile_status status;
};

// Calls body(data), and makes a status of what it throws. Failures of `device`, where there is one,
// are told apart from its loss.
sectile_status guarded(void (*body)(void *data), void *data,
                       const runtime::DeviceImpl *device) noexcept;

template <class Body>
sectile_status guard(Body &&body, const runtime::DeviceImpl *device = nullptr) noexcept {
  return guarded([](void *data) { (*static_cast<std::remove_reference_t<Body> *>(data))(); }, &body,
                 device);
}

// Throws Refusal where the pointer is NULL; `what` is "sectile_alloc: memory".
void require(const void *pointer, const char *what);

} // namespace sectile::c
