// Checks and prints of what is known while a kernel is traced.
#include "dsl/Trace.h"
#include "ir/tile/Tile.h"
#include <iostream>
#include <sectile/static.h>

namespace sectile::detail {

std::string describeValue(const Value &value, Kind kind, Location where) {
  return typeText(kind, Trace::current(where).get(value, where).getType());
}

std::string describePointer(const Value &value, Kind element, Location where) {
  llvm::ArrayRef<int64_t> shape = tile::shapeOf(Trace::current(where).get(value, where).getType());
  std::string name(nameOf(element));
  return shape.empty() ? "pointer to " + name
                       : "tile of " + shapeText(shape) + " pointers to " + name;
}

void staticPrint(const std::string &text, Location where) {
  const Trace *trace = Trace::currentOrNull();
  if (trace && trace->functions && trace->functions->bodies != Bodies::Once)
    return; // it was printed when the kernel's code was traced
  std::cout << where.file_name() << ':' << where.line() << ": " << text << std::endl;
}

void staticFailure(std::string_view message, Location where) { fail(where, std::string(message)); }

} // namespace sectile::detail
