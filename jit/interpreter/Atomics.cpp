// Atomic operations. Programs run one after the other, so that reading and writing back is enough.
#include "ir/tile/Tile.h"
#include "jit/interpreter/Bounds.h"
#include <cmath>

using namespace mlir;

namespace sectile::interpreter {
namespace {

/// What memory holds afterwards.
uint64_t combine(tile::AtomicKind kind, const ElementType &type, uint64_t before, uint64_t value) {
  Elements both(type, {2});
  both.words = {before, value};
  using enum tile::AtomicKind;
  auto asFloat = [&](auto f) { return type.format->encode(f(both.asDouble(0), both.asDouble(1))); };
  switch (kind) {
  case Add:
    return (before + value) & type.mask();
  case FAdd:
    return asFloat([](double a, double b) { return a + b; });
  case FMax:
    return asFloat([](double a, double b) { return std::fmax(a, b); });
  case FMin:
    return asFloat([](double a, double b) { return std::fmin(a, b); });
  case Max:
    return both.asSigned(0) > both.asSigned(1) ? before : value;
  case Min:
    return both.asSigned(0) < both.asSigned(1) ? before : value;
  case UMax:
    return std::max(before, value);
  case UMin:
    return std::min(before, value);
  case And:
    return before & value;
  case Or:
    return before | value;
  case Xor:
    return before ^ value;
  case Exchange:
    return value;
  }
  llvm_unreachable("every kind is listed");
}

/// With bounds: what memory holds after an update, and the result, which depends on the order of
/// all programs' updates.
void boundUpdate(Run &run, tile::AtomicKind kind, Elements &result, const Elements &value, size_t i,
                 uint64_t address) {
  if (!run.bounds())
    return;
  MemoryBounds &memory = *run.bounds();
  using enum tile::AtomicKind;
  setBound(result, i, anything);
  const double before = memory.at(address), added = value.boundAt(i);
  double bound = before == 0 && added == 0 ? 0 : anything;
  if (!memory.update(address, int(kind), kind != Exchange)) {
    bound = anything;
  } else if (kind == FAdd) {
    // All summands count: those of a small sum may be large in another order.
    std::shared_ptr<SumBound> &sum = memory.sumAt(address);
    if (!sum) {
      sum = std::make_shared<SumBound>(*value.type.format);
      sum->add(result.asDouble(i), before);
    }
    sum->add(value.asDouble(i), added);
    bound = sum->of(result.asDouble(i) + value.asDouble(i));
  } else if (kind == FMax || kind == FMin) {
    bound = std::max(before, added);
  } else if (kind == Exchange) {
    bound = added;
  }
  memory.keep(address, bound);
}

/// The same of a swap that took place or did not.
void boundSwap(Run &run, Elements &result, const Elements &value, const Elements &expected,
               size_t i, uint64_t address) {
  if (!run.bounds())
    return;
  MemoryBounds &memory = *run.bounds();
  constexpr int swap = -1; // no AtomicKind
  setBound(result, i, anything);
  const bool certain = memory.update(address, swap, /*commute=*/false) && memory.at(address) == 0 &&
                       expected.boundAt(i) == 0;
  const bool swapped = result[i] == expected[i];
  memory.keep(address, !certain ? anything : swapped ? value.boundAt(i) : 0);
}

/// Calls f(element, address) where pointers are not masked off.
template <class F> void eachPointer(Run &run, const Elements &pointers, Value mask, F f) {
  const Elements *on = mask ? &run.get(mask) : nullptr;
  for (size_t i = 0; i < pointers.size(); ++i)
    if (!on || (*on)[i])
      f(i, pointers[i]);
}

void update(Run &run, Operation &op) {
  auto atomic = cast<tile::AtomicRMWOp>(op);
  const Elements &pointers = run.get(atomic.getPtr()), &value = run.get(atomic.getValue());
  for (Value decides : {Value(atomic.getPtr()), atomic.getMask()})
    if (decides)
      run.requireCertain(op, decides);
  Elements result(value.type, pointers.shape);
  eachPointer(run, pointers, atomic.getMask(), [&](size_t i, uint64_t address) {
    checkOffset(run, op, pointers, i);
    result.words[i] = run.read(op, address, value.type, i, pointers.shape);
    run.write(op, address, value.type, combine(atomic.getKind(), value.type, result[i], value[i]),
              i, pointers.shape);
    boundUpdate(run, atomic.getKind(), result, value, i, address);
  });
  run.set(op.getResult(0), std::move(result));
}

void compareAndSwap(Run &run, Operation &op) {
  auto atomic = cast<tile::AtomicCasOp>(op);
  const Elements &pointers = run.get(atomic.getPtr()), &value = run.get(atomic.getValue()),
                 &expected = run.get(atomic.getExpected());
  for (Value decides : {Value(atomic.getPtr()), atomic.getMask()})
    if (decides)
      run.requireCertain(op, decides);
  Elements result(value.type, pointers.shape);
  eachPointer(run, pointers, atomic.getMask(), [&](size_t i, uint64_t address) {
    checkOffset(run, op, pointers, i);
    result.words[i] = run.read(op, address, value.type, i, pointers.shape);
    if (result[i] == expected[i])
      run.write(op, address, value.type, value[i], i, pointers.shape);
    boundSwap(run, result, value, expected, i, address);
  });
  run.set(op.getResult(0), std::move(result));
}

void updateBlock(Run &run, Operation &op) {
  auto atomic = cast<tile::AtomicBlockOp>(op);
  const Elements &value = run.get(atomic.getValue());
  Elements result(value.type, value.shape);
  eachInside(
      run, op, atomic.getView(), atomic.getOffsets(), value.shape, [&](size_t i, uint64_t address) {
        result.words[i] = run.read(op, address, value.type, i, value.shape);
        run.write(op, address, value.type,
                  combine(atomic.getKind(), value.type, result[i], value[i]), i, value.shape);
        boundUpdate(run, atomic.getKind(), result, value, i, address);
      });
  run.set(op.getResult(0), std::move(result));
}

} // namespace

void addAtomics(Table &table) {
  table["tile.atomic_rmw"] = update;
  table["tile.atomic_cas"] = compareAndSwap;
  table["tile.atomic_block"] = updateBlock;
}

} // namespace sectile::interpreter
