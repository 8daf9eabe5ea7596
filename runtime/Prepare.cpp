// Launches that are prepared, and not run or run later.
#include "runtime/LaunchAccess.h"
#include <sectile/prepare.h>

namespace sectile {

Preparing::Preparing() : before_(runtime::exchangePreparing(true)) {}
Preparing::~Preparing() { runtime::exchangePreparing(before_); }

PreparedLaunch::PreparedLaunch(const Device &device, detail::BoundLaunch launch)
    : bound_(std::move(launch)), device_(device.impl()) {
  runtime::LaunchAccess::checkOwners(bound_, device);
  code_ = runtime::LaunchAccess::prepare(bound_, device).shared_from_this();
}

void PreparedLaunch::launch(const Stream &stream) const {
  if (stream.impl()->device != device_)
    throw LaunchError("kernel '" + code_->name + "' was prepared for " + device_->name +
                      ", the stream is one of " + stream.impl()->device->name);
  runtime::LaunchAccess::launch(bound_, *code_, stream);
}

} // namespace sectile
