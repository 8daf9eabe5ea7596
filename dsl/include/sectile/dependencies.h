// Launches that overlap: a kernel that starts while the one ahead of it in the stream still runs.
#pragma once
#include <sectile/value.h>

namespace sectile {

// Waits until the kernels that this launch depends on are done and all they wrote is seen. A kernel
// launched with LaunchOptions{.dependent = true} calls it before it first touches memory that an
// earlier kernel may write, or may still read where this one writes; in other launches it does
// nothing.
void wait_dependencies(detail::Location where = detail::Location::current());

// Lets a dependent launch behind this one start, once every program has come here or has ended.
// What this kernel writes afterwards is still seen behind the other's wait_dependencies().
void launch_dependents(detail::Location where = detail::Location::current());

} // namespace sectile
