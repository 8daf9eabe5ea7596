// trace(): a kernel's function, its arguments as specialised, and its body.
#include "dsl/Trace.h"
#include "ir/tile/Tile.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Verifier.h"

using namespace mlir;

namespace sectile::detail {

Value TraceArguments::at(std::size_t index) const {
  return trace_.wrap(mlir::Value::getFromOpaquePointer(values_[index]));
}

namespace {
/// A flattened argument: its type as passed, and whether it counts as an index.
struct FlatArgument {
  mlir::Type type;
  Kind kind; ///< index for what an Int, an extent or a stride is
  bool pointer = false;
  bool stride = false;
};
} // namespace

static mlir::Type storedType(Trace &trace, DType dtype) {
  // Memory holds a bool as a byte.
  return dtype == DType::boolean ? trace.builder.getI8Type()
                                 : elementTypeOf(trace, static_cast<Kind>(dtype));
}

static SmallVector<FlatArgument> flatten(Trace &trace, const KernelDesc &kernel,
                                         ArrayRef<ArgSpecialization> specializations) {
  SmallVector<FlatArgument> flat;
  auto indexType = [&]() -> mlir::Type {
    return trace.builder.getIntegerType(specializations[flat.size()].is32bit ? 32 : 64);
  };
  for (const ArgSpec &spec : kernel.args) {
    mlir::Type element = storedType(trace, spec.dtype);
    switch (spec.kind) {
    case ArgKind::pointer:
      flat.push_back({tile::PtrType::get(element), Kind::index, true});
      break;
    case ArgKind::scalar:
      flat.push_back({element, static_cast<Kind>(spec.dtype)});
      break;
    case ArgKind::index:
      flat.push_back({indexType(), Kind::index});
      break;
    case ArgKind::view:
      flat.push_back({tile::PtrType::get(element), Kind::index, true});
      for (int i = 0; i < 2 * spec.rank; ++i)
        flat.push_back({indexType(), Kind::index, false, i >= spec.rank});
      break;
    }
  }
  return flat;
}

/// The value that the body sees for an argument.
static mlir::Value prologue(Trace &trace, mlir::Location loc, const FlatArgument &flat,
                            const ArgSpecialization &specialization, mlir::Value argument) {
  OpBuilder &builder = trace.builder;
  if (flat.pointer)
    return argument;
  mlir::Type type = flat.type;
  if (flat.kind == Kind::index && !flat.stride)
    type = builder.getIntegerType(trace.indexWidth);
  if (flat.kind == Kind::boolean)
    return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ne, argument,
                                 constantOf(trace, loc, type, 0));
  if (specialization.value && isInteger(flat.kind))
    return constantOf(trace, loc, type, *specialization.value);
  if (type != flat.type)
    return arith::ExtSIOp::create(builder, loc, type, argument);
  return argument;
}

/// The strides of the view whose address is the argument at `first`, 0 where they are not known.
static DenseI64ArrayAttr knownStrides(Trace &trace, ArrayRef<FlatArgument> flat,
                                      ArrayRef<ArgSpecialization> specializations, size_t first) {
  SmallVector<int64_t> strides;
  for (size_t i = first + 1; i < flat.size() && !flat[i].pointer; ++i)
    if (flat[i].stride)
      strides.push_back(specializations[i].value.value_or(0));
    else if (!strides.empty())
      break; // of another parameter
  return trace.builder.getDenseI64ArrayAttr(strides);
}

OwningOpRef<ModuleOp> trace(const KernelDesc &kernel, ArrayRef<ArgSpecialization> specializations,
                            const void *config, MLIRContext *context, bool *stateless,
                            unsigned longAxis) {
  TracedFunctions functions;
  functions.longAxis = longAxis;
  OwningOpRef<ModuleOp> module = traceWith(functions, kernel, specializations, config, context);
  std::string complaint;
  ScopedDiagnosticHandler collect(context, [&](Diagnostic &diagnostic) {
    if (complaint.empty())
      complaint = describe(diagnostic.getLocation()) + ": " + diagnostic.str();
    return success();
  });
  if (failed(verify(*module)))
    throw CompileError("a fault of the compiler, not of the kernel " + std::string(kernel.name) +
                       ": its trace is not valid. " + complaint);
  if (stateless)
    *stateless = kernel.stateless && functions.stateless;
  return module;
}

OwningOpRef<ModuleOp> traceWith(TracedFunctions &functions, const KernelDesc &kernel,
                                ArrayRef<ArgSpecialization> specializations, const void *config,
                                MLIRContext *context) {
  context->loadDialect<arith::ArithDialect, func::FuncDialect, math::MathDialect, scf::SCFDialect,
                       tile::TileDialect>();
  // The module outlives the trace, whose unfinished frames may use its values.
  OwningOpRef<ModuleOp> module;
  Trace trace(context, &functions);
  mlir::Location loc = trace.location(kernel.where);
  module = ModuleOp::create(loc);
  functions.module = *module;

  size_t count = 0;
  for (const ArgSpec &spec : kernel.args)
    count += flattenedCount(spec);
  if (count != specializations.size())
    throw Error("kernel " + std::string(kernel.name) + " has " + std::to_string(count) +
                " flattened arguments, but " + std::to_string(specializations.size()) +
                " specializations were given");
  SmallVector<FlatArgument> flat = flatten(trace, kernel, specializations);
  SmallVector<mlir::Type> types;
  for (auto [argument, specialization] : llvm::zip(flat, specializations)) {
    types.push_back(argument.type);
    if (argument.type.isInteger(64) && argument.kind == Kind::index && !argument.stride)
      trace.indexWidth = 64;
  }

  OpBuilder &builder = trace.builder;
  builder.setInsertionPointToEnd(module->getBody());
  // MLIR prints no symbol without a name.
  const StringRef name = kernel.name.empty() ? StringRef("unnamed") : StringRef(kernel.name);
  auto function = func::FuncOp::create(builder, loc, name, builder.getFunctionType(types, {}));
  function->setAttr(tile::kernelAttr, builder.getUnitAttr());
  Block *entry = function.addEntryBlock();
  builder.setInsertionPointToEnd(entry);
  SmallVector<void *> values;
  for (auto [i, argument] : llvm::enumerate(flat)) {
    const int divisor = specializations[i].divisor;
    if (divisor > 1 && (argument.pointer || argument.type.isIntOrIndex()))
      function.setArgAttr(i, tile::divisibleAttr, builder.getI64IntegerAttr(divisor));
    if (specializations[i].below && argument.kind == Kind::index && !argument.pointer)
      function.setArgAttr(i, tile::belowAttr, builder.getI64IntegerAttr(specializations[i].below));
    if (specializations[i].distinct && argument.pointer)
      function.setArgAttr(i, tile::distinctAttr, knownStrides(trace, flat, specializations, i));
    values.push_back(prologue(trace, loc, argument, specializations[i], entry->getArgument(i))
                         .getAsOpaquePointer());
  }

  kernel.body(kernel.function, TraceArguments(trace, values.data()), config);
  trace.rethrowPoison();
  func::ReturnOp::create(builder, loc);
  return module;
}

} // namespace sectile::detail
