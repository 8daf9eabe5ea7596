// A tile in shared memory in row-major order, whatever its extents.
#include "codegen/common/RowMajor.h"
#include "codegen/common/SharedTile.h"
#include "ir/layout/Builders.h"
#include "llvm/ADT/Sequence.h"

using namespace mlir;

namespace sectile {

RowMajorIndex::RowMajorIndex(KernelEmitter &emitter, const Layout &layout, ArrayRef<int64_t> shape)
    : emitter(emitter), layout(layout), strides(layout.rank(), 1) {
  for (unsigned dim = layout.rank(); dim-- > 1;)
    strides[dim - 1] = strides[dim] * shape[dim];
  for (unsigned dim = 0; dim < layout.rank(); ++dim) {
    auto along = [&](In in) {
      return llvm::map_to_vector(
          layout.packed(in), [&](uint32_t vector) { return uint32_t(layout.along(vector, dim)); });
    };
    parts.push_back(emitter.threadPart(along(In::Lane), along(In::Warp)));
  }
}

llvm::Value *RowMajorIndex::of(unsigned reg, int without) {
  llvm::IRBuilder<> &b = emitter.b;
  Coordinates inThreadZero = layout.apply(reg, 0, 0);
  llvm::Value *sum = nullptr;
  uint32_t fixed = 0;
  for (unsigned dim = 0; dim < layout.rank(); ++dim) {
    if (int(dim) == without)
      continue;
    uint32_t inCore = inThreadZero[dim] & (layout.core(dim) - 1);
    auto [variable, constant] = emitter.combine(parts[dim], inCore);
    fixed += (constant + (inThreadZero[dim] - inCore)) * strides[dim];
    if (!variable)
      continue;
    llvm::Value *scaled = b.CreateMul(variable, b.getInt32(strides[dim]), "", true, true);
    sum = sum ? b.CreateAdd(sum, scaled, "", true, true) : scaled;
  }
  if (!sum)
    return b.getInt32(fixed);
  return fixed ? b.CreateAdd(sum, b.getInt32(fixed), "", true, true) : sum;
}

static unsigned bytesOf(llvm::Type *type) { return type->getPrimitiveSizeInBits() / 8; }

static llvm::Value *addressOf(KernelEmitter &emitter, llvm::Value *number, llvm::Type *memoryType,
                              llvm::Value *base) {
  llvm::IRBuilder<> &b = emitter.b;
  llvm::Value *offset = b.CreateMul(number, b.getInt32(bytesOf(memoryType)), "", true, true);
  return b.CreateInBoundsGEP(b.getInt8Ty(), base, offset);
}

/// Where only the slowest dimension repeats its core, a layout can say what is where.
static std::optional<Layout> bufferOf(const Layout &layout) {
  for (unsigned dim = 1; dim < layout.rank(); ++dim)
    if (layout.repeats(dim) != 1)
      return std::nullopt;
  auto order = llvm::to_vector(llvm::reverse(llvm::seq(0u, layout.rank())));
  return sharedPlain(layout.shape(), order);
}

void storeRowMajor(KernelEmitter &emitter, ArrayRef<llvm::Value *> values, const Layout &layout,
                   Type element, llvm::Value *base) {
  Layout lean = layout.withoutDuplicateRegisters();
  Registers kept;
  auto leanRegisters = *registersInThread(layout, lean);
  for (unsigned reg : leanRegisters)
    kept.push_back(values[reg]);
  if (auto buffer = bufferOf(lean)) {
    storeShared(emitter, kept, lean, *buffer, element, base);
    return;
  }
  llvm::Type *memoryType = emitter.memoryTypeOf(element);
  RowMajorIndex index(emitter, lean, lean.shape());
  emitter.under(emitter.isWriter(lean), [&] {
    for (auto [reg, value] : llvm::enumerate(kept))
      emitter.b.CreateAlignedStore(emitter.toMemory(value),
                                   addressOf(emitter, index.of(reg), memoryType, base),
                                   llvm::Align(bytesOf(memoryType)));
  });
}

llvm::Value *loadElement(KernelEmitter &emitter, llvm::Value *number, Type element,
                         llvm::Value *base) {
  llvm::Type *memoryType = emitter.memoryTypeOf(element);
  llvm::Value *value = emitter.b.CreateAlignedLoad(
      memoryType, addressOf(emitter, number, memoryType, base), llvm::Align(bytesOf(memoryType)));
  return emitter.fromMemory(value, emitter.typeOf(element));
}

Registers loadRowMajor(KernelEmitter &emitter, const Layout &layout, Type element,
                       llvm::Value *base) {
  if (auto buffer = bufferOf(layout))
    return SharedReader(emitter, layout, *buffer, element, base).all();
  RowMajorIndex index(emitter, layout, layout.shape());
  ArrayRef<unsigned> first = emitter.firstCopies(layout);
  Registers values;
  for (unsigned reg = 0; reg < layout.numRegisters(); ++reg)
    values.push_back(!first.empty() && first[reg] < reg
                         ? values[first[reg]]
                         : loadElement(emitter, index.of(reg), element, base));
  return values;
}

} // namespace sectile
