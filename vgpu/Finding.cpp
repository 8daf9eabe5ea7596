// Findings as text.
#include "vgpu/Finding.h"

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
  case FindingKind::GlobalRace:
    return "global-memory race";
  case FindingKind::Uninitialized:
    return "uninitialised read";
  case FindingKind::MissingWait:
    return "missing wait";
  case FindingKind::MissingFence:
    return "missing wgmma.fence";
  case FindingKind::MissingProxyFence:
    return "missing fence.proxy.async";
  case FindingKind::BarrierDivergence:
    return "barrier divergence";
  case FindingKind::Deadlock:
    return "deadlock";
  case FindingKind::BadOperand:
    return "bad operand";
  case FindingKind::Trap:
    return "trap";
  case FindingKind::Overflow:
    return "overflow";
  case FindingKind::BadIndex:
    return "index out of range";
  case FindingKind::NotANumber:
    return "not a number";
  case FindingKind::BrokenPromise:
    return "broken promise";
  case FindingKind::TimedOut:
    return "timed out";
  }
  return "finding";
}

bool explainsUninitialized(FindingKind kind) {
  return kind == FindingKind::SharedRace || kind == FindingKind::GlobalRace ||
         kind == FindingKind::MissingWait || kind == FindingKind::MissingProxyFence;
}

std::string Finding::text() const {
  std::string result = "kernel " + kernel;
  if (!file.empty())
    result += ", " + file + ":" + std::to_string(line);
  result += ofThread ? ", block (" : ", program (";
  result += std::to_string(block[0]) + "," + std::to_string(block[1]) + "," +
            std::to_string(block[2]) + ")";
  if (ofThread)
    result += ", thread " + std::to_string(thread);
  if (!element.empty())
    result += ", element " + element;
  return result + ": " + kindName(kind) + ": " + message;
}

} // namespace sectile::vgpu
