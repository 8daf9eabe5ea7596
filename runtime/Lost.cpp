// Tells errors of a driver that end its context from others.
#include "runtime/Lost.h"

namespace sectile::runtime {

// CUDA and HIP share these numbers.
static bool endsContext(int error) {
  switch (error) {
  case 214: // an uncorrectable error of memory
  case 220: // of NVLink
  case 226: // contained
  case 700: // an illegal address
  case 702: // a kernel that took too long
  case 709: // the context was destroyed
  case 710: // a device's assertion
  case 714: // the hardware's stack
  case 715: // an illegal instruction
  case 716: // a misaligned address
  case 717: // an address of another space
  case 718: // an invalid program counter
  case 719: // a failed launch
  case 721: // a leak of tensor memory
    return true;
  default:
    return false;
  }
}

void driver::throwDriverError(int error, const std::string &text) {
  if (endsContext(error))
    throw LostContext(text);
  throw DeviceError(text);
}

} // namespace sectile::runtime
