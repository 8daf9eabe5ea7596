// Inline assembly and functions of bitcode libraries.
#include "dsl/Mapping.h"
#include "ir/tile/Assembly.h"
#include "ir/tile/Tile.h"
#include <sectile/escape.h>

using namespace mlir;

namespace sectile::detail {

/// Operands of one shape.
static SmallVector<mlir::Value> broadcastAll(Trace &trace, std::span<const Value *const> operands,
                                             StringRef what, Location where,
                                             SmallVectorImpl<int64_t> &shape) {
  SmallVector<mlir::Value> values;
  for (const Value *operand : operands)
    values.push_back(trace.get(*operand, where));
  shape = broadcastShape(values, what, where);
  for (mlir::Value &value : values)
    value = broadcastTo(trace, trace.location(where), value, shape);
  return values;
}

void inlineAsm(const Text &text, std::string_view constraints, AsmOptions options,
               std::span<const Value *const> operands, std::span<const Kind> kinds,
               std::span<Value> results, const Mapping *meaning) {
  Trace &trace = Trace::current(text.where);
  if (options.pack < 1)
    fail(text.where, "sc::inline_asm: a run of the text takes one element at least, not " +
                         Twine(options.pack));
  if (kinds.empty() && options.pure)
    fail(text.where, "sc::inline_asm without results would be left out: say {.pure = false}");
  SmallVector<int64_t> shape;
  auto values = broadcastAll(trace, operands, "sc::inline_asm", text.where, shape);
  SmallVector<mlir::Type> types;
  for (Kind kind : kinds)
    types.push_back(tensorOrScalar(shape, elementTypeOf(trace, kind)));
  std::string why;
  if (!tile::AssemblyRegisters::get(constraints, static_cast<unsigned>(options.pack), types,
                                    TypeRange(ValueRange(values)), why))
    fail(text.where, "sc::inline_asm: " + why);
  std::unique_ptr<Region> region;
  if (meaning) {
    auto elements = llvm::map_to_vector(
        values, [](mlir::Value value) { return getElementTypeOrSelf(value.getType()); });
    region = traceMapping(trace, *meaning, results.size(), elements,
                          "the meaning of sc::inline_asm", text.where);
  }
  auto op = tile::InlineAsmOp::create(trace.builder, trace.location(text.where), types, text.text,
                                      constraints, static_cast<uint32_t>(options.pack),
                                      options.pure, values);
  if (region)
    op.getMeaning().takeBody(*region);
  for (size_t i = 0; i < results.size(); ++i)
    results[i] = trace.wrap(op.getResult(i));
}

Value externCall(const Text &symbol, std::string_view library, ExternOptions options,
                 std::span<const Value *const> operands, Kind result) {
  Trace &trace = Trace::current(symbol.where);
  if (symbol.text.empty() || symbol.text.starts_with("llvm.") || symbol.text.starts_with("sectile"))
    fail(symbol.where, "sc::extern_call: '" + Twine(std::string(symbol.text)) +
                           "' is not the name of a function of a library");
  SmallVector<int64_t> shape;
  auto values = broadcastAll(trace, operands, "sc::extern_call", symbol.where, shape);
  return trace.wrap(tile::ExternCallOp::create(trace.builder, trace.location(symbol.where),
                                               tensorOrScalar(shape, elementTypeOf(trace, result)),
                                               symbol.text, library, options.pure, values));
}

} // namespace sectile::detail
