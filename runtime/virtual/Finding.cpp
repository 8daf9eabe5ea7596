// Findings as text.
#include "runtime/virtual/Finding.h"

namespace sectile::vgpu {

const char *kindName(FindingKind kind) {
  switch (kind) {
  case FindingKind::OutOfBounds:
    return "out-of-bounds access";
  case FindingKind::Misaligned:
    return "misaligned access";
  case FindingKind::BadSharedAddress:
    return "bad shared address";
  case FindingKind::SharedRace:
    return "shared-memory race";
  case FindingKind::Uninitialized:
    return "uninitialised shared read";
  case FindingKind::MissingWait:
    return "missing wait";
  case FindingKind::BarrierDivergence:
    return "barrier divergence";
  case FindingKind::Deadlock:
    return "deadlock";
  case FindingKind::BadOperand:
    return "bad operand";
  case FindingKind::Trap:
    return "trap";
  }
  return "finding";
}

std::string Finding::text() const {
  std::string result = "kernel " + kernel;
  if (!file.empty())
    result += ", " + file + ":" + std::to_string(line);
  result += ", block (" + std::to_string(block[0]) + "," + std::to_string(block[1]) + "," +
            std::to_string(block[2]) + "), thread " + std::to_string(thread);
  return result + ": " + kindName(kind) + ": " + message;
}

} // namespace sectile::vgpu
