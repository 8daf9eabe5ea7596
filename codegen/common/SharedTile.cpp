// A tile in shared memory as the threads of a distributed layout see it.
#include "codegen/common/SharedTile.h"
#include "codegen/common/Words.h"
#include "passes/Kernel.h"

using namespace mlir;

namespace sectile {

//===-- Addresses -----------------------------------------------------------------------------===//

SharedPlaces::SharedPlaces(KernelEmitter &emitter, const Layout &distributed, const Layout &buffer,
                           unsigned elementBytes, llvm::Value *base, ThreadPart moving)
    : emitter(emitter), map(PlaceMap::compose(distributed, buffer)), elementBytes(elementBytes),
      coreRegisters(distributed.coreRegisters()), coreBytes(buffer.size(In::Offset) * elementBytes),
      base(base), moving(moving) {
  SmallVector<uint32_t> lanes, warps;
  for (unsigned bit = 0; bit < map.bits(In::Lane); ++bit)
    lanes.push_back(image(In::Lane, bit));
  for (unsigned bit = 0; bit < map.bits(In::Warp); ++bit)
    warps.push_back(image(In::Warp, bit));
  own = emitter.threadPart(lanes, warps);
}

llvm::Value *SharedPlaces::address(unsigned reg) { return address(reg, own); }

llvm::Value *SharedPlaces::address(unsigned reg, const ThreadPart &part) {
  uint32_t fixed = map.core(Place::of(reg % coreRegisters))[In::Offset] * elementBytes;
  auto [variable, constant] = emitter.combine(part, fixed);
  if (moving.value) {
    variable = move(variable, part.bits, constant & moving.bits);
    constant &= ~moving.bits;
  }
  constant += reg / coreRegisters * coreBytes;
  llvm::IRBuilder<> &b = emitter.b;
  llvm::Value *start = base;
  if (variable) {
    llvm::Value *&known = starts[{variable, b.GetInsertBlock()}];
    if (!known)
      known = b.CreateInBoundsGEP(b.getInt8Ty(), base, variable);
    start = known;
  }
  return constant ? b.CreateConstInBoundsGEP1_32(b.getInt8Ty(), start, constant) : start;
}

ThreadPart SharedPlaces::rowsOf(const MatrixAccess &matrices) const {
  SmallVector<uint32_t> lanes, warps;
  for (uint32_t offset : matrices.laneOffsets)
    lanes.push_back(offset * elementBytes);
  for (unsigned bit = 0; bit < map.bits(In::Warp); ++bit)
    warps.push_back(image(In::Warp, bit));
  return emitter.threadPart(lanes, warps);
}

/// The thread's part with what moves; `constant` has only bits of the latter.
llvm::Value *SharedPlaces::move(llvm::Value *variable, uint32_t variableBits, uint32_t constant) {
  llvm::Value *&known = moved[{variable, constant}];
  if (known)
    return known;
  llvm::IRBuilder<> &b = emitter.b;
  known = constant ? b.CreateXor(moving.value, constant) : moving.value;
  if (variable)
    known = variableBits & moving.bits ? b.CreateXor(variable, known)
                                       : b.CreateOr(variable, known, "", /*IsDisjoint=*/true);
  return known;
}

//===-- Reading -------------------------------------------------------------------------------===//

static unsigned bytesOf(llvm::Type *memoryType) { return memoryType->getPrimitiveSizeInBits() / 8; }

SharedReader::SharedReader(KernelEmitter &emitter, const Layout &distributed, const Layout &buffer,
                           Type element, llvm::Value *base, ThreadPart moving)
    : emitter(emitter), layout(distributed), type(emitter.typeOf(element)),
      memoryType(emitter.memoryTypeOf(element)),
      places(emitter, distributed, buffer, bytesOf(memoryType), base, moving),
      loaded(distributed.numRegisters()) {
  access = planSharedAccess(buffer, distributed, 8 * bytesOf(memoryType), /*isStore=*/false,
                            banksOf(emitter.target));
  if (access.matrices) {
    matrixRows = places.rowsOf(*access.matrices);
    words.resize(layout.numRegisters() / access.matrices->elementsPerWord);
  }
  groupOf.resize(layout.coreRegisters());
  for (auto [i, reg] : llvm::enumerate(access.registers))
    groupOf[reg] = i / access.vector;
}

void SharedReader::load(unsigned reg) {
  llvm::IRBuilder<> &b = emitter.b;
  unsigned core = layout.coreRegisters(), repeat = reg / core * core;
  ArrayRef<unsigned> group =
      ArrayRef(access.registers).slice(groupOf[reg % core] * access.vector, access.vector);
  auto unpack = [&](llvm::Value *value, ArrayRef<unsigned> registers) {
    SmallVector<llvm::Value *> elements;
    unpackWords(b, value, memoryType, registers.size(), elements);
    for (auto [element, to] : llvm::zip_equal(elements, registers))
      loaded[repeat + to] = emitter.fromMemory(element, type);
  };
  if (const auto &matrices = access.matrices) {
    const unsigned count = matrices->elementsPerWord;
    auto parts = emitter.hooks.matrixLoad(b, places.address(repeat + group.front(), matrixRows),
                                          matrices->matrices, matrices->transposed);
    for (auto [i, part] : llvm::enumerate(parts)) {
      ArrayRef<unsigned> inWord = group.slice(i * count, count);
      if (inWord.back() - inWord.front() == count - 1)
        words[(repeat + inWord.front()) / count] = part;
      else
        unpack(part, inWord);
    }
    return;
  }
  unpack(b.CreateAlignedLoad(wordsOf(memoryType, access.vector),
                             places.address(repeat + group.front()),
                             llvm::Align(access.vector * bytesOf(memoryType))),
         group);
}

llvm::Value *SharedReader::get(unsigned reg) {
  const unsigned count = access.matrices ? access.matrices->elementsPerWord : 1;
  if (!loaded[reg] && !(access.matrices && words[reg / count]))
    load(reg);
  if (loaded[reg])
    return loaded[reg];
  const unsigned first = reg - reg % count;
  SmallVector<llvm::Value *> elements;
  unpackWords(emitter.b, words[reg / count], memoryType, count, elements);
  for (auto [i, element] : llvm::enumerate(elements))
    loaded[first + i] = emitter.fromMemory(element, type);
  return loaded[reg];
}

llvm::Value *SharedReader::word(unsigned reg) {
  unsigned count = std::max(1u, 4 / bytesOf(memoryType));
  if (access.matrices) {
    if (!loaded[reg] && !words[reg / count])
      load(reg);
    if (words[reg / count])
      return words[reg / count];
  }
  SmallVector<llvm::Value *> elements;
  for (unsigned i = 0; i < count; ++i)
    elements.push_back(emitter.toMemory(get(reg + i)));
  if (bytesOf(memoryType) == 8)
    return elements.front();
  return packWords(emitter.b, elements, emitter.b.getInt32Ty());
}

Registers SharedReader::all() {
  Registers values;
  for (unsigned reg = 0; reg < layout.numRegisters(); ++reg)
    values.push_back(get(reg));
  return values;
}

//===-- Writing -------------------------------------------------------------------------------===//

void storeShared(KernelEmitter &emitter, ArrayRef<llvm::Value *> values, const Layout &distributed,
                 const Layout &buffer, Type element, llvm::Value *base) {
  llvm::IRBuilder<> &b = emitter.b;
  llvm::Type *memoryType = emitter.memoryTypeOf(element);
  SharedAccess access = planSharedAccess(buffer, distributed, 8 * bytesOf(memoryType),
                                         /*isStore=*/true, banksOf(emitter.target));
  emitter.under(emitter.isWriter(distributed), [&] {
    SharedPlaces places(emitter, distributed, buffer, bytesOf(memoryType), base);
    auto storeVector = [&](unsigned first, ArrayRef<llvm::Value *> elements) {
      b.CreateAlignedStore(packWords(b, elements, wordsOf(memoryType, access.vector)),
                           places.address(first), llvm::Align(access.vector * bytesOf(memoryType)));
    };
    auto storeMatrices = [&](unsigned first, ArrayRef<llvm::Value *> elements) {
      SmallVector<llvm::Value *> matrices;
      for (; !elements.empty(); elements = elements.drop_front(access.matrices->elementsPerWord))
        matrices.push_back(
            packWords(b, elements.take_front(access.matrices->elementsPerWord), b.getInt32Ty()));
      emitter.hooks.matrixStore(b, places.address(first, places.rowsOf(*access.matrices)), matrices,
                                access.matrices->transposed);
    };
    for (unsigned repeat = 0; repeat < distributed.numRepeats(); ++repeat) {
      unsigned first = repeat * distributed.coreRegisters();
      for (unsigned i = 0; i < access.registers.size(); i += access.vector) {
        SmallVector<llvm::Value *> elements;
        for (unsigned reg : ArrayRef(access.registers).slice(i, access.vector))
          elements.push_back(emitter.toMemory(values[first + reg]));
        if (access.matrices)
          storeMatrices(first + access.registers[i], elements);
        else
          storeVector(first + access.registers[i], elements);
      }
    }
  });
}

} // namespace sectile
