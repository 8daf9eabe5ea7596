// Launches that overlap.
#include "dsl/Trace.h"
#include "ir/tile/Tile.h"
#include <sectile/dependencies.h>

namespace sectile {

void wait_dependencies(detail::Location where) {
  detail::Trace &trace = detail::Trace::current(where);
  tile::WaitDependenciesOp::create(trace.builder, trace.location(where));
}

void launch_dependents(detail::Location where) {
  detail::Trace &trace = detail::Trace::current(where);
  tile::LaunchDependentsOp::create(trace.builder, trace.location(where));
}

} // namespace sectile
