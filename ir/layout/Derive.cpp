// Layouts derived from a layout: permuted, reshaped, broadcast, squeezed.
#include "ir/layout/Gf2.h"
#include "ir/layout/Layout.h"
#include "llvm/ADT/STLExtras.h"
#include <cassert>

namespace sectile {

// Every basis vector through `change`.
template <class Change> static Layout::PackedBases mapped(const Layout &layout, Change change) {
  Layout::PackedBases result = layout.packedBases();
  for (auto &vectors : result)
    for (uint32_t &vector : vectors)
      vector = change(vector);
  return result;
}

Layout Layout::permute(llvm::ArrayRef<int64_t> order) const {
  assert(order.size() == rank() && "one number per dimension");
  llvm::SmallVector<int64_t, 4> shape;
  for (int64_t d : order)
    shape.push_back(theShape[d]);
  Layout permuted(theKind, shape, {});
  auto permuteVector = [&](llvm::ArrayRef<int64_t> from) {
    Coordinates to;
    for (int64_t d : order)
      to.push_back(from[d]);
    return to;
  };
  permuted.bases =
      mapped(*this, [&](uint32_t vector) { return permuted.pack(permuteVector(unpack(vector))); });
  return permuted;
}

// A shape as the factors of its row-major index: alternately odd repeats and powers of two, without
// ones. Two shapes with the same factors enumerate repeats and cores alike.
static llvm::SmallVector<std::pair<bool, int64_t>, 8> indexFactors(llvm::ArrayRef<int64_t> shape) {
  llvm::SmallVector<std::pair<bool, int64_t>, 8> factors;
  auto add = [&](bool odd, int64_t extent) {
    if (extent == 1)
      return;
    if (!factors.empty() && factors.back().first == odd)
      factors.back().second *= extent;
    else
      factors.push_back({odd, extent});
  };
  for (int64_t extent : shape) {
    int64_t core = extent & -extent;
    add(true, extent / core);
    add(false, core);
  }
  return factors;
}

std::optional<Layout> Layout::reshape(llvm::ArrayRef<int64_t> shape) const {
  if (indexFactors(theShape) != indexFactors(shape))
    return std::nullopt;
  return Layout(theKind, shape, bases);
}

Layout Layout::expandDim(unsigned axis) const {
  llvm::SmallVector<int64_t, 4> shape = theShape;
  shape.insert(shape.begin() + axis, 1);
  return Layout(theKind, shape, bases);
}

uint32_t Layout::withoutDim(uint32_t packed, unsigned axis) const {
  unsigned low = shift(axis);
  uint64_t above = uint64_t(packed) >> (low + theCoreBits[axis]);
  return above << low | (packed & ((1u << low) - 1));
}

Layout Layout::squeeze(unsigned axis) const {
  llvm::SmallVector<int64_t, 4> shape = theShape;
  shape.erase(shape.begin() + axis);
  return Layout(theKind, shape,
                mapped(*this, [&](uint32_t vector) { return withoutDim(vector, axis); }));
}

Layout Layout::collapse(unsigned axis) const { return squeeze(axis).expandDim(axis); }

Layout Layout::broadcast(llvm::ArrayRef<int64_t> shape) const {
  Layout result(theKind, shape, {});
  result.bases = mapped(*this, [&](uint32_t vector) { return result.pack(unpack(vector)); });
  for (unsigned d = rank(); d-- > 0;)
    if (shape[d] != theShape[d]) {
      assert(theShape[d] == 1 && "a broadcast starts from an extent of one");
      for (unsigned b = 0; b < result.coreBits(d); ++b)
        result.bases[unsigned(In::Register)].push_back(1u << (result.shift(d) + b));
    }
  return result;
}

llvm::SmallVector<unsigned, 4> Layout::sliceBits(unsigned dim, unsigned count) const {
  llvm::SmallVector<unsigned, 4> found;
  const unsigned split = llvm::Log2_32(count);
  for (unsigned i = 0; i < split; ++i) {
    const uint32_t wanted = 1u << (shift(dim) + coreBits(dim) - split + i);
    for (In in : distributedIns)
      for (unsigned bit = 0; bit < bits(in); ++bit)
        if (in == In::Register && packed(in)[bit] == wanted)
          found.push_back(bit);
        else if (packed(in)[bit] & wanted)
          return {};
  }
  return found;
}

std::optional<Layout> Layout::slice(unsigned dim, unsigned count) const {
  if (!isDistributed() || count == 0 || count % repeats(dim) != 0)
    return std::nullopt;
  const auto ofCore = unsigned(count / repeats(dim));
  if (!llvm::isPowerOf2_32(ofCore) || core(dim) < ofCore)
    return std::nullopt;
  const llvm::SmallVector<unsigned, 4> dropped = sliceBits(dim, ofCore);
  if (dropped.size() != llvm::Log2_32(ofCore))
    return std::nullopt;
  CoordinateBases kept;
  for (In in : distributedIns)
    for (unsigned bit = 0; bit < bits(in); ++bit)
      if (in != In::Register || !llvm::is_contained(dropped, bit))
        kept[unsigned(in)].push_back(basis(in, bit));
  llvm::SmallVector<int64_t, 4> part(shape());
  part[dim] /= count;
  return make(Kind::Distributed, part, kept);
}

unsigned Layout::slicedRegister(unsigned dim, unsigned count, unsigned index, unsigned reg) const {
  const auto times = unsigned(repeats(dim)), ofCore = count / times;
  const llvm::SmallVector<unsigned, 4> dropped = sliceBits(dim, ofCore);
  llvm::SmallVector<unsigned, 4> ascending(dropped);
  llvm::sort(ascending);
  unsigned result = reg;
  for (unsigned bit : ascending)
    result = (result >> bit << (bit + 1)) | (result & ((1u << bit) - 1));
  for (auto [i, bit] : llvm::enumerate(dropped))
    result |= (index % ofCore >> i & 1) << bit;
  // A part has one repeat along the dimension, of those that this has.
  unsigned inner = 1;
  for (unsigned d = dim + 1; d < rank(); ++d)
    inner *= unsigned(repeats(d));
  const unsigned repeat = result / coreRegisters();
  return ((repeat / inner * times + index / ofCore) * inner + repeat % inner) * coreRegisters() +
         result % coreRegisters();
}

Layout Layout::withoutDuplicateRegisters() const {
  Layout result = *this;
  uint32_t free = freeBits(In::Register);
  auto &registers = result.bases[unsigned(In::Register)];
  registers.clear();
  for (auto [bit, vector] : llvm::enumerate(packed(In::Register)))
    if (!(free >> bit & 1))
      registers.push_back(vector);
  return result;
}

unsigned Layout::squeezedRegister(unsigned axis, unsigned reg) const {
  unsigned repeat = reg / coreRegisters(), inner = 1;
  for (unsigned d = axis + 1; d < rank(); ++d)
    inner *= repeats(d);
  repeat = repeat / (inner * repeats(axis)) * inner + repeat % inner;
  return repeat * coreRegisters() + reg % coreRegisters();
}

unsigned Layout::permutedRegister(llvm::ArrayRef<int64_t> order, unsigned reg) const {
  unsigned repeat = reg / coreRegisters(), permuted = 0;
  for (int64_t d : order) {
    unsigned inner = 1;
    for (unsigned e = d + 1; e < rank(); ++e)
      inner *= repeats(e);
    permuted = permuted * repeats(d) + repeat / inner % repeats(d);
  }
  return permuted * coreRegisters() + reg % coreRegisters();
}

} // namespace sectile
