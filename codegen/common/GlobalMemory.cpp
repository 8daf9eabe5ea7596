// Loads and stores of global memory, by pointers and at offsets in a buffer.
#include "codegen/common/Atomics.h"
#include "codegen/common/Words.h"
#include "passes/analysis/SharedMemory.h"

using namespace mlir;

namespace sectile {

/// How a thread's accesses of a tile of pointers, or of one pointer, come in groups.
struct KernelEmitter::AccessShape {
  const Layout *layout;      ///< nullptr for a scalar
  unsigned count, perAccess; ///< registers in all, and in one access
  llvm::Type *element;       ///< in memory
  llvm::Type *type;          ///< of one access: an integer or a vector of them
  unsigned bytes;            ///< of one access
};

/// Where the elements of an access are.
struct KernelEmitter::Places {
  Value tile;                  ///< of pointers or offsets
  llvm::Value *base = nullptr; ///< what offsets count from
  Type element;                ///< in memory

  Places(KernelEmitter &, tile::LoadOp op) : Places(op.getPtr()) {}
  Places(KernelEmitter &, tile::StoreOp op) : Places(op.getPtr()) {}
  Places(KernelEmitter &emitter, cta::BufferLoadOp op)
      : Places(emitter, op.getBase(), op.getOffsets()) {}
  Places(KernelEmitter &emitter, cta::BufferStoreOp op)
      : Places(emitter, op.getBase(), op.getOffsets()) {}

  /// Says where one register's element is.
  void set(KernelEmitter &emitter, ThreadAccess &access, unsigned reg) const {
    llvm::Value *place = emitter.registers(tile)[reg];
    access.pointer = base ? base : place;
    if (base)
      access.offset = emitter.b.CreateMul(place, emitter.b.getInt32(cta::elementBytes(element)));
  }

private:
  explicit Places(Value pointers)
      : tile(pointers),
        element(cast<tile::PtrType>(tile::elementType(pointers.getType())).getElement()) {}
  Places(KernelEmitter &emitter, TypedValue<tile::PtrType> from, Value offsets)
      : tile(offsets), base(emitter.scalar(from)), element(from.getType().getElement()) {}
};

KernelEmitter::AccessShape KernelEmitter::accessShape(Type tile, Type element,
                                                      std::optional<int32_t> vector) {
  AccessShape shape;
  shape.layout = cta::layoutOf(tile);
  shape.count = shape.layout ? shape.layout->numRegisters() : 1;
  shape.element = memoryTypeOf(element);
  unsigned bits = shape.element->getPrimitiveSizeInBits();
  shape.perAccess = std::min<unsigned>(shape.layout && vector ? *vector : 1,
                                       std::max(1u, target.maxVectorBits / bits));
  shape.type = wordsOf(shape.element, shape.perAccess);
  shape.bytes = bits * shape.perAccess / 8;
  return shape;
}

template <typename Op> LogicalResult KernelEmitter::emitLoad(Op op) {
  const Places places(*this, op);
  AccessShape shape = accessShape(op.getResult().getType(), places.element, op.getVector());
  llvm::Type *type = typeOf(tile::elementType(op.getResult().getType()));
  Registers *masks = op.getMask() ? &registers(op.getMask()) : nullptr;
  Registers *others = op.getOther() ? &registers(op.getOther()) : nullptr;
  ArrayRef<unsigned> first;
  if (shape.layout)
    first = firstCopies(*shape.layout);
  ThreadAccess access;
  access.align = llvm::Align(shape.bytes);
  access.cache = op.getCache();
  access.eviction = op.getEviction();
  if constexpr (std::is_same_v<Op, tile::LoadOp>)
    access.isVolatile = op.getIsVolatile();
  llvm::Value *reader = isDoneOnce(op) ? isWriter(op.getType()) : nullptr;
  Registers result(shape.count);
  for (unsigned reg = 0; reg < shape.count; reg += shape.perAccess) {
    if (!first.empty() && first[reg] < reg) {
      for (unsigned i = 0; i < shape.perAccess; ++i)
        result[reg + i] = result[first[reg + i]];
      continue;
    }
    places.set(*this, access, reg);
    access.predicate = masks ? (*masks)[reg] : nullptr;
    if (reader)
      access.predicate = access.predicate ? b.CreateAnd(reader, access.predicate) : reader;
    llvm::Value *other = nullptr;
    if (others) {
      SmallVector<llvm::Value *> elements;
      for (unsigned i = 0; i < shape.perAccess; ++i)
        elements.push_back(toMemory((*others)[reg + i]));
      other = packWords(b, elements, shape.type);
    } else if (access.predicate) {
      other = llvm::Constant::getNullValue(shape.type);
    }
    SmallVector<llvm::Value *> elements;
    unpackWords(b, hooks.load(b, access, shape.type, other), shape.element, shape.perAccess,
                elements);
    for (auto [i, element] : llvm::enumerate(elements))
      result[reg + i] = fromMemory(element, type);
  }
  if (isDoneOnce(op) && failed(shareResult(*this, op, result)))
    return failure();
  define(op.getResult(), std::move(result));
  return success();
}

template <typename Op> void KernelEmitter::emitStore(Op op) {
  const Places places(*this, op);
  AccessShape shape = accessShape(op.getValue().getType(), places.element, op.getVector());
  Registers &stored = registers(op.getValue());
  Registers *masks = op.getMask() ? &registers(op.getMask()) : nullptr;
  ArrayRef<unsigned> first;
  if (shape.layout)
    first = firstCopies(*shape.layout);
  llvm::Value *writer = isWriter(op.getValue().getType());
  ThreadAccess access;
  access.align = llvm::Align(shape.bytes);
  access.cache = op.getCache();
  access.eviction = op.getEviction();
  access.isVolatile = op.getCache() == tile::Cache::Volatile;
  for (unsigned reg = 0; reg < shape.count; reg += shape.perAccess) {
    if (!first.empty() && first[reg] < reg)
      continue;
    places.set(*this, access, reg);
    access.predicate = masks ? (*masks)[reg] : nullptr;
    if (writer)
      access.predicate = access.predicate ? b.CreateAnd(writer, access.predicate) : writer;
    SmallVector<llvm::Value *> elements;
    for (unsigned i = 0; i < shape.perAccess; ++i)
      elements.push_back(toMemory(stored[reg + i]));
    hooks.store(b, access, packWords(b, elements, shape.type));
  }
}

template LogicalResult KernelEmitter::emitLoad(tile::LoadOp);
template LogicalResult KernelEmitter::emitLoad(cta::BufferLoadOp);
template void KernelEmitter::emitStore(tile::StoreOp);
template void KernelEmitter::emitStore(cta::BufferStoreOp);

} // namespace sectile
