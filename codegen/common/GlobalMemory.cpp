// tile.load and tile.store: global memory.
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

KernelEmitter::AccessShape KernelEmitter::accessShape(Type pointers,
                                                      std::optional<int32_t> vector) {
  AccessShape shape;
  shape.layout = cta::layoutOf(pointers);
  shape.count = shape.layout ? shape.layout->numRegisters() : 1;
  shape.element = memoryTypeOf(cast<tile::PtrType>(tile::elementType(pointers)).getElement());
  unsigned bits = shape.element->getPrimitiveSizeInBits();
  shape.perAccess = std::min<unsigned>(shape.layout && vector ? *vector : 1,
                                       std::max(1u, target.maxVectorBits / bits));
  shape.type = wordsOf(shape.element, shape.perAccess);
  shape.bytes = bits * shape.perAccess / 8;
  return shape;
}

LogicalResult KernelEmitter::emitLoad(tile::LoadOp op) {
  AccessShape shape = accessShape(op.getPtr().getType(), op.getVector());
  llvm::Type *type = typeOf(tile::elementType(op.getResult().getType()));
  Registers &pointers = registers(op.getPtr());
  Registers *masks = op.getMask() ? &registers(op.getMask()) : nullptr;
  Registers *others = op.getOther() ? &registers(op.getOther()) : nullptr;
  ArrayRef<unsigned> first;
  if (shape.layout)
    first = firstCopies(*shape.layout);
  GlobalAccess access;
  access.align = llvm::Align(shape.bytes);
  access.cache = op.getCache();
  access.eviction = op.getEviction();
  access.isVolatile = op.getIsVolatile();
  llvm::Value *reader = isDoneOnce(op) ? isWriter(op.getType()) : nullptr;
  Registers result(shape.count);
  for (unsigned reg = 0; reg < shape.count; reg += shape.perAccess) {
    if (!first.empty() && first[reg] < reg) {
      for (unsigned i = 0; i < shape.perAccess; ++i)
        result[reg + i] = result[first[reg + i]];
      continue;
    }
    access.pointer = pointers[reg];
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

void KernelEmitter::emitStore(tile::StoreOp op) {
  AccessShape shape = accessShape(op.getPtr().getType(), op.getVector());
  Registers &pointers = registers(op.getPtr()), &stored = registers(op.getValue());
  Registers *masks = op.getMask() ? &registers(op.getMask()) : nullptr;
  ArrayRef<unsigned> first;
  if (shape.layout)
    first = firstCopies(*shape.layout);
  llvm::Value *writer = isWriter(op.getPtr().getType());
  GlobalAccess access;
  access.align = llvm::Align(shape.bytes);
  access.cache = op.getCache();
  access.eviction = op.getEviction();
  access.isVolatile = op.getCache() == tile::Cache::Volatile;
  for (unsigned reg = 0; reg < shape.count; reg += shape.perAccess) {
    if (!first.empty() && first[reg] < reg)
      continue;
    access.pointer = pointers[reg];
    access.predicate = masks ? (*masks)[reg] : nullptr;
    if (writer)
      access.predicate = access.predicate ? b.CreateAnd(writer, access.predicate) : writer;
    SmallVector<llvm::Value *> elements;
    for (unsigned i = 0; i < shape.perAccess; ++i)
      elements.push_back(toMemory(stored[reg + i]));
    hooks.store(b, access, packWords(b, elements, shape.type));
  }
}

} // namespace sectile
