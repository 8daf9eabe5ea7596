// What a fault of channels is, in words.
#include "passes/checks/ChannelFaults.h"
#include "ir/cta/Cta.h"
#include "mlir/IR/Diagnostics.h"
#include "passes/Kernel.h"

using namespace mlir;

namespace sectile {

using Event = ChannelRun::Event;

Operation *operationOf(const Event &event) {
  return static_cast<Operation *>(const_cast<void *>(event.tag));
}

void report(const ChannelRun::Fault &fault, uint32_t ring) {
  using Fault = ChannelRun::Fault;
  auto isByHand = [](const Event &event) {
    auto barriers = dyn_cast_if_present<cta::MbarriersOp>(
        static_cast<Operation *>(const_cast<void *>(event.owner)));
    return barriers && barriers.getByHand();
  };
  auto slot = [&](const Event &event) {
    return event.position < 0
               ? std::string("its bytes")
               : (isByHand(event) ? "mbarrier " : "slot ") + std::to_string(event.position);
  };
  auto when = [](const Event &event) {
    return event.trips ? " in iteration " + std::to_string(event.iteration) + " of " +
                             std::to_string(event.trips)
                       : std::string();
  };
  const Event &at = fault.at;
  auto use = [&] {
    if (isByHand(at))
      return " (phase " + std::to_string(fault.round) + ")";
    const int64_t number = int64_t(fault.round) * ring + std::max(at.position, 0);
    // Before a cell's first use there is none.
    return at.position < 0 || int32_t(fault.round) < 0 ? std::string()
                                                       : " (use " + std::to_string(number) + ")";
  };
  InFlightDiagnostic error = channelError(operationOf(at));
  const char *other = "here";
  switch (fault.kind) {
  case Fault::Deadlock:
    error << "waits for ever" << when(at);
    if (at.kind == Event::BarrierWait)
      error << ": fewer warps come to this barrier than it counts";
    if (at.kind == Event::WaitPhase)
      error << ": nobody completes the phase of " << slot(at) << use();
    break;
  case Fault::PassesEarly:
    error << "passes one phase early" << when(at) << ", at " << slot(at) << use();
    other = "this would read what is not there yet";
    break;
  case Fault::Overrun:
    error << "may complete the phase of " << slot(at) << when(at) << use()
          << " before all have seen the one before";
    other = "this may wait for ever";
    break;
  case Fault::ArrivesEarly:
    if (at.kind == Event::BarrierArrive) {
      error << "comes to a barrier again" << when(at)
            << ", where it may still be counted for the turn before";
      other = "this came last";
      break;
    }
    error << "may count for an earlier phase of " << slot(at) << when(at) << use();
    other = "as this does";
    break;
  case Fault::ReadsEarly:
    error << "reads " << slot(at) << when(at) << " before "
          << (fault.other ? "its bytes are there" : "anything was written there") << use();
    other = "these are written here";
    break;
  case Fault::Overwrites:
    error << "overwrites " << slot(at) << when(at) << use();
    other = fault.other->kind == Event::Read || fault.other->kind == Event::QueuedRead
                ? "while this may still read it"
                : "while this may still write it";
    break;
  case Fault::Replaced:
    error << "reads " << slot(at) << when(at) << ", which was overwritten";
    break;
  case Fault::Hidden:
    error << "does not see " << slot(at) << when(at) << " as it was written, without a fence"
          << use();
    other = "by this";
    break;
  case Fault::FewerBytes:
    error << "expects " << fault.bytes << " bytes more than are copied to " << slot(at) << when(at)
          << use();
    other = "this waits for them for ever";
    break;
  case Fault::MoreBytes:
    error << "copies " << fault.bytes << " bytes more than are expected to " << slot(at) << when(at)
          << use();
    break;
  case Fault::Abandoned:
    error << "copies to " << slot(at) << when(at) << use() << ", for which nobody waits";
    break;
  }
  if (fault.other)
    error.attachNote(operationOf(*fault.other)->getLoc()) << other << when(*fault.other);
}

} // namespace sectile
