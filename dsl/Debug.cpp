// Assertions and prints.
#include "dsl/Trace.h"
#include "ir/tile/Tile.h"
#include <sectile/debug.h>

using namespace mlir;

namespace sectile::detail {

void deviceAssert(const Value &condition, const Message &message) {
  Trace &trace = Trace::current(message.where);
  tile::AssertOp::create(trace.builder, trace.location(message.where),
                         trace.get(condition, message.where), StringRef(message.text));
}

void deviceAssert(bool condition, const Message &message) {
  Trace::current(message.where);
  if (!condition)
    fail(message.where, "assertion failed while tracing: " + Twine(std::string(message.text)));
}

void devicePrint(const Message &message, std::span<const Printed> values) {
  Trace &trace = Trace::current(message.where);
  SmallVector<mlir::Value> printed;
  SmallVector<bool> isUnsigned;
  for (const Printed &value : values) {
    printed.push_back(trace.get(*value.value, message.where));
    isUnsigned.push_back(value.isUnsigned);
  }
  DenseBoolArrayAttr signs;
  if (llvm::is_contained(isUnsigned, true))
    signs = trace.builder.getDenseBoolArrayAttr(isUnsigned);
  tile::PrintOp::create(trace.builder, trace.location(message.where), StringRef(message.text),
                        message.hex, signs, printed);
}

} // namespace sectile::detail
