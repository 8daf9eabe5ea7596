// The layout algebra: a layout is a linear map over GF(2) from hardware bits (register, lane, warp,
// block; or the offset in a shared buffer) to the coordinates of a tensor. See docs/layouts.md.
#pragma once

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/Hashing.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include <array>
#include <cstdint>
#include <optional>
#include <string>

namespace sectile {

/// The inputs of a layout. Distributed layouts use Register to Block, shared ones Offset and Block.
enum class In : uint8_t { Register, Lane, Warp, Block, Offset };
inline constexpr unsigned numIns = 5;
inline constexpr In distributedIns[] = {In::Register, In::Lane, In::Warp, In::Block};

using Coordinates = llvm::SmallVector<int64_t, 4>;

/// A place in the hardware: a number per input. Within a tensor's core places combine by xor.
struct Place {
  std::array<uint32_t, numIns> at{};

  static Place of(uint32_t reg, uint32_t lane = 0, uint32_t warp = 0, uint32_t block = 0) {
    return {{reg, lane, warp, block, 0}};
  }
  static Place ofOffset(uint32_t offset, uint32_t block = 0) { return {{0, 0, 0, block, offset}}; }
  uint32_t &operator[](In in) { return at[unsigned(in)]; }
  uint32_t operator[](In in) const { return at[unsigned(in)]; }
  Place &operator^=(const Place &other) {
    for (unsigned i = 0; i < numIns; ++i)
      at[i] ^= other.at[i];
    return *this;
  }
  bool operator==(const Place &) const = default;
};

class LayoutInverse;
class PlaceMap;

/// A layout of a tensor of a given shape. The extent of dimension d is core(d) * repeats(d) with an
/// odd number of repeats; the linear map acts within the core, and the repeats are outermost in the
/// registers (or in the offset), row-major over the dimensions: register = repeat * coreRegisters +
/// coreRegister. Every element of the core has at least one place; a basis vector of zero
/// replicates.
///
/// Bases are packed: the row-major index, within the core, of the coordinates. Since the core's
/// extents are powers of two, xor of packed vectors is xor of coordinates.
class Layout {
public:
  enum class Kind : uint8_t { Distributed, Shared };
  using PackedBases = std::array<llvm::SmallVector<uint32_t, 8>, numIns>;
  using CoordinateBases = std::array<llvm::SmallVector<Coordinates, 8>, numIns>;

  /// The distributed layout of a rank-0 tensor in one thread.
  Layout() = default;

  /// A layout from basis vectors. When they are no layout of the shape, says why and returns
  /// nothing.
  static std::optional<Layout> make(Kind kind, llvm::ArrayRef<int64_t> shape,
                                    const CoordinateBases &bases, std::string *why = nullptr);
  static std::optional<Layout> makePacked(Kind kind, llvm::ArrayRef<int64_t> shape,
                                          const PackedBases &bases, std::string *why = nullptr);
  /// As makePacked, for bases that are right by construction.
  static Layout fromPacked(Kind kind, llvm::ArrayRef<int64_t> shape, const PackedBases &bases);

  Kind kind() const { return theKind; }
  bool isShared() const { return theKind == Kind::Shared; }
  bool isDistributed() const { return theKind == Kind::Distributed; }

  llvm::ArrayRef<int64_t> shape() const { return theShape; }
  unsigned rank() const { return theShape.size(); }
  int64_t numElements() const { return int64_t(numRepeats()) << coreBits(); }
  /// Extent, in bits and in elements, of the core along a dimension and in all.
  unsigned coreBits(unsigned dim) const { return theCoreBits[dim]; }
  unsigned coreBits() const;
  int64_t core(unsigned dim) const { return int64_t(1) << theCoreBits[dim]; }
  int64_t coreSize() const { return int64_t(1) << coreBits(); }
  /// Odd factor of the extent along a dimension, and the product of all.
  int64_t repeats(unsigned dim) const { return theShape[dim] >> theCoreBits[dim]; }
  unsigned numRepeats() const;

  /// Number of bits of an input, and of values it takes within the core.
  unsigned bits(In in) const { return bases[unsigned(in)].size(); }
  unsigned size(In in) const { return 1u << bits(in); }
  unsigned coreRegisters() const { return size(In::Register); }
  unsigned numRegisters() const { return numRepeats() * coreRegisters(); }
  unsigned numLanes() const { return size(In::Lane); }
  unsigned numWarps() const { return size(In::Warp); }
  unsigned numBlocks() const { return size(In::Block); }
  /// Elements a shared buffer of this layout takes in each block.
  unsigned numOffsets() const { return numRepeats() * size(In::Offset); }

  llvm::ArrayRef<uint32_t> packed(In in) const { return bases[unsigned(in)]; }
  const PackedBases &packedBases() const { return bases; }
  Coordinates basis(In in, unsigned bit) const { return unpack(packed(in)[bit]); }
  /// A basis vector's coordinate along one dimension.
  int64_t basis(In in, unsigned bit, unsigned dim) const { return along(packed(in)[bit], dim); }

  /// Between coordinates within the core and their packed form.
  uint32_t pack(llvm::ArrayRef<int64_t> coordinates) const;
  Coordinates unpack(uint32_t packed) const;
  int64_t along(uint32_t packed, unsigned dim) const {
    return (packed >> shift(dim)) & uint32_t(core(dim) - 1);
  }
  /// Position of a dimension's lowest bit in packed vectors.
  unsigned shift(unsigned dim) const;

  /// The packed coordinate of a place within the core.
  uint32_t applyPacked(const Place &place) const;
  /// The coordinates at a place; the register (or offset) number includes the repeat.
  Coordinates apply(const Place &place) const;
  Coordinates apply(unsigned reg, unsigned lane, unsigned warp, unsigned block = 0) const {
    return apply(Place::of(reg, lane, warp, block));
  }
  /// The coordinates at an offset of a shared layout.
  Coordinates applyOffset(unsigned offset) const { return apply(Place::ofOffset(offset)); }

  /// From coordinates to their canonical place: the one whose free bits (see freeBits) are zero.
  LayoutInverse inverse() const;

  /// The bits of an input that are free: places that differ only there hold elements that are found
  /// at other places too, and the places whose free bits are all zero hold every element once.
  /// An earlier input's bit counts as needed before a later one's.
  uint32_t freeBits(In in) const;

  // Layouts derived from this one. Registers keep their numbers unless it says otherwise.

  /// Dimension i of the result is dimension order[i] of this. Renumbers the repeats, see
  /// permutedRegister.
  Layout permute(llvm::ArrayRef<int64_t> order) const;
  /// The same places for the tensor reshaped row-major; nothing when the repeats do not line up.
  std::optional<Layout> reshape(llvm::ArrayRef<int64_t> shape) const;
  /// With a dimension of extent one inserted before `axis`.
  Layout expandDim(unsigned axis) const;
  /// Without dimension `axis`: the layout of a reduction's result or of an expand's operand. The
  /// registers lose the repeats along the axis (see squeezedRegister); those that now hold the same
  /// stay as duplicates.
  Layout squeeze(unsigned axis) const;
  /// As squeeze, but the dimension stays with extent one: the layout of a broadcast's operand.
  Layout collapse(unsigned axis) const;
  /// The given shape where this has extents of one there: new elements go to new registers.
  Layout broadcast(llvm::ArrayRef<int64_t> shape) const;
  /// One of `count` equal parts along a dimension, in the registers that hold it; nothing where
  /// some thread does not hold as much of every part. As many as the dimension has repeats, or a
  /// power of two times as many.
  std::optional<Layout> slice(unsigned dim, unsigned count) const;
  /// Which register of this holds what register `reg` of part `index` of slice(dim, count) does.
  unsigned slicedRegister(unsigned dim, unsigned count, unsigned index, unsigned reg) const;
  /// Without the register bits that are free (distributed layouts).
  Layout withoutDuplicateRegisters() const;
  /// Which register of squeeze(axis) or collapse(axis) goes with register `reg` of this.
  unsigned squeezedRegister(unsigned axis, unsigned reg) const;
  /// Which register of permute(order) holds what register `reg` of this does.
  unsigned permutedRegister(llvm::ArrayRef<int64_t> order, unsigned reg) const;

  /// Elements that consecutive registers hold consecutively along a dimension, aligned to their
  /// number, in every thread: a power of two.
  unsigned contiguousPerThread(unsigned dim) const;

  /// Text as in `128x64, register [(0,1) (0,2)], lane [(0,4) …], warp [(16,0)]`; parse reads it.
  std::string text() const;
  static std::optional<Layout> parse(llvm::StringRef text, std::string *why = nullptr);

  bool operator==(const Layout &other) const {
    return theKind == other.theKind && theShape == other.theShape && bases == other.bases;
  }
  friend llvm::hash_code hash_value(const Layout &layout);

private:
  Layout(Kind kind, llvm::ArrayRef<int64_t> shape, const PackedBases &bases);
  // The register bits that tell `count` parts along a dimension apart, lowest first; as many as
  // there are only if no other bit moves between parts.
  llvm::SmallVector<unsigned, 4> sliceBits(unsigned dim, unsigned count) const;
  // Drops dimension `axis`'s bits from a packed vector.
  uint32_t withoutDim(uint32_t packed, unsigned axis) const;

  Kind theKind = Kind::Distributed;
  llvm::SmallVector<int64_t, 4> theShape;
  llvm::SmallVector<uint8_t, 4> theCoreBits;
  PackedBases bases;
};

/// Finds the canonical place of coordinates.
class LayoutInverse {
public:
  explicit LayoutInverse(const Layout &layout);
  /// Within the core, of packed coordinates.
  Place ofPacked(uint32_t packed) const;
  /// Of any coordinates of the tensor; the register (or offset) number includes the repeat.
  Place operator()(llvm::ArrayRef<int64_t> coordinates) const;

private:
  Layout layout;
  llvm::SmallVector<Place, 24> columns; // one per packed bit
};

/// A linear map from the places of one layout to those of another of the same shape: where the
/// element at a place is found in the other layout. Repeats pass through: repeat r of the one is
/// repeat r of the other.
class PlaceMap {
public:
  /// `to`'s inverse after `from`.
  static PlaceMap compose(const Layout &from, const Layout &to);

  const Place &basis(In in, unsigned bit) const { return bases[unsigned(in)][bit]; }
  unsigned bits(In in) const { return bases[unsigned(in)].size(); }
  /// Within the core.
  Place core(const Place &place) const;
  /// Anywhere; register and offset numbers include the repeat.
  Place operator()(const Place &place) const;

private:
  std::array<llvm::SmallVector<Place, 8>, numIns> bases;
  In repeatedFrom = In::Register, repeatedTo = In::Register;
  unsigned toSize = 1;
};

/// For each register of `to`, the register of `from` which holds the same element in the same
/// thread, whatever the thread; nothing when some element would have to come from another thread or
/// a register that depends on the thread. The shapes must agree.
std::optional<llvm::SmallVector<unsigned, 16>> registersInThread(const Layout &from,
                                                                 const Layout &to);

/// The same for a broadcast from `operand`, whose extents are one where the result's are greater.
std::optional<llvm::SmallVector<unsigned, 16>> broadcastRegisters(const Layout &operand,
                                                                  const Layout &result);

} // namespace sectile
