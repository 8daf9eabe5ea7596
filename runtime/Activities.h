// Telling of activities, cheap where nobody listens.
#ifndef SECTILE_RUNTIME_ACTIVITIES_H
#define SECTILE_RUNTIME_ACTIVITIES_H

#include "runtime/CompileOptions.h"
#include <chrono>
#include <sectile/activity.h>
#include <string_view>

namespace sectile::runtime {

/// Whether anybody listens, SECTILE_TRACE included.
bool listening();

void tell(const Activity &activity);

/// The steps of one piece of work, one after the other, from where it is made on.
class Activities {
public:
  using Clock = std::chrono::steady_clock;

  /// Where nobody listens, `configuration` is not asked.
  template <class Describe>
  Activities(std::string_view kernel, std::string_view device, Describe &&configuration)
      : active(listening()) {
    if (!active)
      return;
    step.kernel = kernel;
    step.device = device;
    step.configuration = configuration();
    begin();
  }

  explicit operator bool() const { return active; }
  /// The next step starts now.
  void begin() {
    if (active)
      step.start = Clock::now();
  }
  /// The step that began last is done, and the next begins.
  void done(Activity::Kind kind, std::string_view name, std::string_view note = "");
  /// So are these, which took so many milliseconds each and end now.
  void done(Activity::Kind kind, const CompileTimes &stages);

private:
  const bool active;
  Activity step{};
};

} // namespace sectile::runtime

#endif
