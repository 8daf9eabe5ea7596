// Atomic operations through pointers, and the barrier.
#include "dsl/Memory.h"
#include "ir/tile/Tile.h"

using namespace mlir;

namespace sectile::detail {

tile::Order orderOf(Atomic how) { return static_cast<tile::Order>(how.order); }
tile::Scope scopeOf(Atomic how) { return static_cast<tile::Scope>(how.scope); }
static_assert(static_cast<int>(MemoryOrder::acq_rel) ==
              static_cast<int>(tile::Order::AcquireRelease));
static_assert(static_cast<int>(MemoryScope::system) == static_cast<int>(tile::Scope::System));

tile::AtomicKind atomicKindOf(AtomicOp op, Kind kind) {
  using tile::AtomicKind;
  auto choose = [&](AtomicKind floats, AtomicKind naturals, AtomicKind integers) {
    return isFloat(kind) ? floats : isUnsigned(kind) ? naturals : integers;
  };
  switch (op) {
  case AtomicOp::add:
    return isFloat(kind) ? AtomicKind::FAdd : AtomicKind::Add;
  case AtomicOp::max:
    return choose(AtomicKind::FMax, AtomicKind::UMax, AtomicKind::Max);
  case AtomicOp::min:
    return choose(AtomicKind::FMin, AtomicKind::UMin, AtomicKind::Min);
  case AtomicOp::bit_and:
    return AtomicKind::And;
  case AtomicOp::bit_or:
    return AtomicKind::Or;
  case AtomicOp::bit_xor:
    return AtomicKind::Xor;
  case AtomicOp::exchange:
    return AtomicKind::Exchange;
  }
  llvm_unreachable("all operations are covered");
}

static StringRef nameOf(AtomicOp op) {
  static constexpr StringLiteral names[] = {
      "sc::atomic_add", "sc::atomic_max", "sc::atomic_min",     "sc::atomic_and",
      "sc::atomic_or",  "sc::atomic_xor", "sc::atomic_exchange"};
  return names[static_cast<size_t>(op)];
}

static mlir::Value given(Trace &trace, mlir::Location loc, Kind kind, const Operand &value,
                         mlir::Value ptr, StringRef name, StringRef which, Location where) {
  if (value.none)
    fail(where, name + " has no " + which);
  return valueForMemory(trace, loc, kind, value, tile::shapeOf(ptr.getType()),
                        (name + ": the " + which).str());
}

Value atomic(AtomicOp op, const Value &ptr, Kind kind, const Operand &value, const Operand &mask,
             Atomic how, Location where) {
  Trace &trace = Trace::current(where);
  mlir::Location loc = trace.location(where);
  mlir::Value to = trace.get(ptr, where);
  mlir::Value maskValue = maskFor(trace, loc, to, mask, where);
  mlir::Value by = given(trace, loc, kind, value, to, nameOf(op), "value", where);
  return trace.wrap(tile::AtomicRMWOp::create(trace.builder, loc, by.getType(),
                                              atomicKindOf(op, kind), to, by, maskValue,
                                              orderOf(how), scopeOf(how),
                                              /*vector=*/IntegerAttr()));
}

Value atomicCas(const Value &ptr, Kind kind, const Operand &expected, const Operand &value,
                const Operand &mask, Atomic how, Location where) {
  Trace &trace = Trace::current(where);
  mlir::Location loc = trace.location(where);
  mlir::Value to = trace.get(ptr, where);
  mlir::Value maskValue = maskFor(trace, loc, to, mask, where);
  StringRef name = "sc::atomic_cas";
  mlir::Value before = given(trace, loc, kind, expected, to, name, "expected value", where);
  mlir::Value by = given(trace, loc, kind, value, to, name, "value", where);
  return trace.wrap(tile::AtomicCasOp::create(trace.builder, loc, by.getType(), to, before, by,
                                              maskValue, orderOf(how), scopeOf(how)));
}

} // namespace sectile::detail

namespace sectile {

void barrier(detail::Location where) {
  detail::Trace &trace = detail::Trace::current(where);
  tile::BarrierOp::create(trace.builder, trace.location(where));
}

} // namespace sectile
