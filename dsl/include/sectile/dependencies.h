// Launches that overlap: a kernel that starts while the one ahead of it in the stream still runs.
#pragma once
#include <sectile/value.h>

namespace sectile {

// Waits until the kernels that this launch depends on are done and all they wrote is visible. A
// kernel launched with LaunchOptions{.dependent = true} that calls this waits here and not before
// anything else: before it, the kernel may not touch memory that an earlier kernel may write, nor
// write what one may still read. In other launches it does nothing.
void wait_dependencies(detail::Location where = detail::Location::current());

// Lets a dependent launch after this one start, once every program has come here or has ended.
// That launch's wait still covers what this kernel writes afterwards. A kernel without this call
// lets it start after its own wait.
void launch_dependents(detail::Location where = detail::Location::current());

} // namespace sectile
