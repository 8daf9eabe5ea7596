// Pointers, views, loads and stores.
#include "ir/tile/Tile.h"
#include "jit/interpreter/Bounds.h"
#include "jit/interpreter/Elementwise.h"

using namespace mlir;

namespace sectile::interpreter {
namespace {

constexpr char overflow[] = "an Int that this address is computed from did not fit into its "
                            "bits: compute it in 64 bits, as in sc::cast<std::int64_t>(i) * n, or "
                            "use a view";

ElementType pointee(Type pointers) {
  return ElementType::of(cast<tile::PtrType>(tile::elementType(pointers)).getElement());
}

void addPtr(Run &run, Operation &op) {
  Elements result = resultFor(run, op);
  const Elements &pointers = run.get(op.getOperand(0)), &offsets = run.get(op.getOperand(1));
  const uint64_t bytes = pointee(op.getOperand(0).getType()).bytes();
  const Lanes ptr(pointers), offset(offsets);
  for (size_t i = 0; i < result.size(); ++i) {
    result.words[i] = ptr[i] + uint64_t(offset.asSigned(i)) * bytes;
    if (ptr.wrapped(i) || offset.wrapped(i))
      result.setWrapped(i);
  }
  run.set(op.getResult(0), std::move(result));
}

void load(Run &run, Operation &op) {
  auto load = cast<tile::LoadOp>(op);
  const Elements &pointers = run.get(load.getPtr());
  const Elements *mask = load.getMask() ? &run.get(load.getMask()) : nullptr;
  const Elements *other = load.getOther() ? &run.get(load.getOther()) : nullptr;
  run.requireCertain(op, load.getPtr());
  Elements result(ElementType::of(op.getResult(0).getType()), pointers.shape);
  for (size_t i = 0; i < result.size(); ++i) {
    if (mask && !(*mask)[i]) {
      result.words[i] = other ? (*other)[i] : 0;
      continue;
    }
    checkOffset(run, op, pointers, i);
    result.words[i] = run.read(op, pointers[i], result.type, i, pointers.shape);
    if (run.bounds())
      setBound(result, i, run.bounds()->at(pointers[i]));
  }
  if (run.bounds())
    for (size_t i = 0; i < result.size(); ++i) {
      if (mask && mask->boundAt(i) != 0)
        setBound(result, i, anything);
      else if (mask && !(*mask)[i] && other)
        setBound(result, i, other->boundAt(i));
    }
  run.set(op.getResult(0), std::move(result));
}

void store(Run &run, Operation &op) {
  auto store = cast<tile::StoreOp>(op);
  const Elements &pointers = run.get(store.getPtr()), &value = run.get(store.getValue());
  const Elements *mask = store.getMask() ? &run.get(store.getMask()) : nullptr;
  run.requireCertain(op, store.getPtr());
  for (size_t i = 0; i < pointers.size(); ++i) {
    const bool writes = !mask || (*mask)[i], certain = !mask || mask->boundAt(i) == 0;
    if (writes) {
      checkOffset(run, op, pointers, i);
      run.write(op, pointers[i], value.type, value[i], i, pointers.shape);
    }
    if (run.bounds() && (writes || !certain))
      run.bounds()->set(pointers[i], certain ? value.boundAt(i) : anything);
  }
}

/// A view's value: its address, extents and strides, as 64-bit numbers.
void makeView(Run &run, Operation &op) {
  Elements view({64}, {int64_t(op.getNumOperands())});
  for (auto [i, operand] : llvm::enumerate(op.getOperands())) {
    const Elements &part = run.get(operand);
    if (part.wrappedAt(0))
      run.fail(vgpu::FindingKind::Overflow, op, overflow);
    view.words[i] = uint64_t(part.asSigned(0));
  }
  run.set(op.getResult(0), std::move(view));
}

void loadBlock(Run &run, Operation &op) {
  auto load = cast<tile::LoadBlockOp>(op);
  Elements result(ElementType::of(load.getType()), load.getType().getShape());
  uint64_t padding = 0;
  if (auto integer = dyn_cast_if_present<IntegerAttr>(load.getPaddingAttr()))
    padding = integer.getValue().getZExtValue();
  else if (auto number = dyn_cast_if_present<FloatAttr>(load.getPaddingAttr()))
    padding = number.getValue().bitcastToAPInt().getZExtValue();
  std::fill(result.words.begin(), result.words.end(), padding);
  if (load.getWhen())
    run.requireCertain(op, load.getWhen());
  if (!load.getWhen() || run.get(load.getWhen())[0])
    eachInside(run, op, load.getView(), load.getOffsets(), result.shape,
               [&](size_t i, uint64_t address) {
                 result.words[i] = run.read(op, address, result.type, i, result.shape);
                 if (run.bounds())
                   setBound(result, i, run.bounds()->at(address));
               });
  run.set(op.getResult(0), std::move(result));
}

void storeBlock(Run &run, Operation &op) {
  auto store = cast<tile::StoreBlockOp>(op);
  const Elements &value = run.get(store.getValue());
  eachInside(run, op, store.getView(), store.getOffsets(), value.shape,
             [&](size_t i, uint64_t address) {
               run.write(op, address, value.type, value[i], i, value.shape);
               if (run.bounds())
                 run.bounds()->set(address, value.boundAt(i));
             });
}

/// One program at a time is in order with itself.
void nothing(Run &, Operation &) {}

} // namespace

void checkOffset(Run &run, Operation &op, const Elements &pointers, size_t i) {
  if (pointers.wrappedAt(i))
    run.fail(vgpu::FindingKind::Overflow, op, overflow, placeText(i, pointers.shape));
}

void eachInside(Run &run, Operation &op, Value viewed, ValueRange offsets, ArrayRef<int64_t> shape,
                llvm::function_ref<void(size_t, uint64_t)> access) {
  const Elements &view = run.get(viewed);
  const size_t rank = shape.size();
  const uint64_t bytes =
      ElementType::of(cast<tile::ViewType>(viewed.getType()).getElement()).bytes();
  SmallVector<int64_t, 4> start, at(rank, 0);
  for (Value offset : offsets) {
    run.requireCertain(op, offset);
    if (run.get(offset).wrappedAt(0))
      run.fail(vgpu::FindingKind::Overflow, op, overflow);
    start.push_back(run.number(offset));
  }
  for (size_t i = 0, count = countOf(shape); i < count; ++i) {
    bool inside = true;
    uint64_t address = view[0];
    for (size_t d = 0; d < rank; ++d) {
      const int64_t index = start[d] + at[d];
      inside &= index >= 0 && index < view.asSigned(1 + d);
      address += uint64_t(index) * view[1 + rank + d] * bytes;
    }
    if (inside)
      access(i, address);
    for (size_t d = rank; d-- > 0;) {
      if (++at[d] < shape[d])
        break;
      at[d] = 0;
    }
  }
}

void addMemory(Table &table) {
  table["tile.addptr"] = addPtr;
  table["tile.load"] = load;
  table["tile.store"] = store;
  table["tile.make_view"] = makeView;
  table["tile.load_block"] = loadBlock;
  table["tile.store_block"] = storeBlock;
  table["tile.barrier"] = nothing;
  table["tile.wait_dependencies"] = nothing;
  table["tile.launch_dependents"] = nothing;
}

} // namespace sectile::interpreter
