// Accesses of shared buffers by vectors and by matrices, their wavefronts, and swizzles.
#include "ir/layout/Shared.h"
#include "ir/layout/Builders.h"
#include "ir/layout/Costs.h"
#include "ir/layout/Gf2.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Sequence.h"
#include <algorithm>
#include <cassert>

namespace sectile {

static unsigned log2Floor(unsigned value) { return llvm::bit_width(value) - 1; }

// The lanes' offsets and warps' offsets may not reach below bit `bits`.
static bool lowBitsAreFree(const PlaceMap &offsets, unsigned bits) {
  uint32_t low = (1u << bits) - 1;
  for (In in : {In::Lane, In::Warp, In::Block})
    for (unsigned bit = 0; bit < offsets.bits(in); ++bit)
      if (offsets.basis(in, bit)[In::Offset] & low)
        return false;
  return true;
}

// The widest vectors.
static SharedAccess planVectors(const Layout &shared, const Layout &distributed,
                                unsigned elementBits, bool isStore, const BankModel &banks,
                                unsigned maxVector) {
  PlaceMap offsets = PlaceMap::compose(distributed, shared);
  unsigned registerBits = distributed.bits(In::Register);
  llvm::SmallVector<uint32_t, 8> images;
  Gf2Basis space;
  for (unsigned bit = 0; bit < registerBits; ++bit) {
    images.push_back(offsets.basis(In::Register, bit)[In::Offset]);
    space.insert(images.back(), bit);
  }
  // The registers whose offsets are 1, 2, 4, … from the first.
  unsigned limit = std::min(maxVector, banks.maxVectorBytes / elementBytes(elementBits));
  llvm::SmallVector<uint32_t, 4> vectorMasks;
  while ((2u << vectorMasks.size()) <= limit && lowBitsAreFree(offsets, vectorMasks.size() + 1)) {
    std::optional<uint64_t> mask = space.express(uint64_t(1) << vectorMasks.size());
    if (!mask)
      break;
    vectorMasks.push_back(*mask);
  }
  SharedAccess access;
  access.vector = 1u << vectorMasks.size();
  // The others, each corrected to start a vector.
  Gf2Basis registers;
  for (uint32_t mask : vectorMasks)
    registers.insert(mask);
  uint32_t duplicates = isStore ? distributed.freeBits(In::Register) : 0;
  llvm::SmallVector<uint32_t, 8> starts;
  for (unsigned bit = 0; bit < registerBits; ++bit)
    if (!(duplicates >> bit & 1) && registers.insert(1u << bit))
      starts.push_back(1u << bit ^ gf2Combine(vectorMasks, images[bit] & (access.vector - 1)));
  for (uint32_t group = 0; group < 1u << starts.size(); ++group)
    for (uint32_t element = 0; element < access.vector; ++element)
      access.registers.push_back(gf2Combine(starts, group) ^ gf2Combine(vectorMasks, element));
  return access;
}

llvm::SmallVector<uint32_t, 6> accessingLanes(const Layout &distributed, bool isStore) {
  uint32_t idle = isStore ? distributed.freeBits(In::Lane) : 0;
  llvm::SmallVector<uint32_t, 6> lanes;
  for (auto [bit, element] : llvm::enumerate(distributed.packed(In::Lane)))
    if (!(idle >> bit & 1))
      lanes.push_back(element);
  return lanes;
}

// Bits of the number of lanes that one wavefront can serve at `vector` elements each.
static unsigned lanesPerWavefront(unsigned laneBits, unsigned elementBits, unsigned vector,
                                  const BankModel &banks) {
  unsigned bytes = std::max(elementBytes(elementBits) * vector, banks.bankBytes);
  return std::min(laneBits, log2Floor(banks.bytesPerWavefront() / bytes));
}

unsigned idealWavefronts(const Layout &distributed, unsigned elementBits, unsigned vector,
                         bool isStore, const BankModel &banks) {
  unsigned lanes = accessingLanes(distributed, isStore).size();
  return 1u << (lanes - lanesPerWavefront(lanes, elementBits, vector, banks));
}

unsigned wavefrontsPerInstruction(const Layout &shared, const Layout &distributed,
                                  unsigned elementBits, unsigned vector, bool isStore,
                                  const BankModel &banks) {
  PlaceMap offsets = PlaceMap::compose(distributed, shared);
  uint32_t idle = isStore ? distributed.freeBits(In::Lane) : 0;
  unsigned bytesLog = log2Floor(elementBytes(elementBits));
  unsigned wordLog = log2Floor(banks.bankBytes);
  unsigned group =
      lanesPerWavefront(accessingLanes(distributed, isStore).size(), elementBits, vector, banks);
  // Lanes of different words in one bank wait for each other. A vector's own words are in banks
  // of their own, so that only its first word counts.
  Gf2Basis words, bankBits;
  unsigned firstBit = std::max(wordLog, bytesLog + log2Floor(vector));
  for (unsigned bit = 0; bit < offsets.bits(In::Lane) && group; ++bit) {
    if (idle >> bit & 1)
      continue;
    --group;
    uint64_t word = (uint64_t(offsets.basis(In::Lane, bit)[In::Offset]) << bytesLog) >> firstBit;
    words.insert(word);
    bankBits.insert(word & ((banks.bytesPerWavefront() - 1) >> firstBit));
  }
  return idealWavefronts(distributed, elementBits, vector, isStore, banks)
         << (words.rank() - bankBits.rank());
}

unsigned bankConflicts(const Layout &shared, const Layout &distributed, unsigned elementBits,
                       unsigned vector, bool isStore, const BankModel &banks) {
  return wavefrontsPerInstruction(shared, distributed, elementBits, vector, isStore, banks) -
         idealWavefronts(distributed, elementBits, vector, isStore, banks);
}

Simultaneous simultaneousVectors(const Layout &distributed, unsigned dim, unsigned vector,
                                 unsigned elementBits, const BankModel &banks) {
  Simultaneous space;
  unsigned wordElements = std::max(1u, banks.bankBytes / elementBytes(elementBits));
  for (unsigned bit = 0; 1u << bit < std::max(vector, wordElements); ++bit)
    if (bit < distributed.coreBits(dim))
      space.push_back(1u << (distributed.shift(dim) + bit));
  unsigned lanes = lanesPerWavefront(distributed.bits(In::Lane), elementBits, vector, banks);
  Gf2Basis distinct;
  for (uint32_t element : space)
    distinct.insert(element);
  for (uint32_t element : distributed.packed(In::Lane))
    if (lanes && distinct.insert(element)) {
      space.push_back(element);
      --lanes;
    }
  return space;
}

Simultaneous simultaneousMatrixRows(const Layout &distributed, unsigned dim, unsigned elementBits) {
  Simultaneous space;
  if (distributed.bits(In::Lane) < 5)
    return space;
  unsigned rowElements = 16 / elementBytes(elementBits);
  uint32_t along = 0;
  for (unsigned bit = 0; 1u << bit < rowElements && bit < distributed.coreBits(dim); ++bit) {
    space.push_back(1u << (distributed.shift(dim) + bit));
    along |= space.back();
  }
  // What is not within a row numbers the eight rows: three bits of the lane, or, transposed, two
  // of them after the pair of elements in a register.
  unsigned rowBits = 0;
  for (unsigned bit = 0; bit < 5; ++bit)
    if (!(distributed.packed(In::Lane)[bit] & along)) {
      space.push_back(distributed.packed(In::Lane)[bit]);
      ++rowBits;
    }
  if (rowBits < 3 && distributed.bits(In::Register) &&
      !(distributed.packed(In::Register)[0] & along))
    space.push_back(distributed.packed(In::Register)[0]);
  return space;
}

Layout swizzledLayout(llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<uint32_t> vector,
                      llvm::ArrayRef<uint32_t> bank, llvm::ArrayRef<Row> rows,
                      llvm::ArrayRef<Simultaneous> accesses) {
  Layout::PackedBases bases;
  auto &offsets = bases[unsigned(In::Offset)];
  llvm::append_range(offsets, vector);
  llvm::append_range(offsets, bank);
  // Elements that differ by a combination of rows share a bank. An access is free of conflicts when
  // its space meets the rows' in nothing but zero; `taken` is what a further row must avoid.
  llvm::SmallVector<Gf2Basis, 4> taken(accesses.size());
  for (auto [space, access] : llvm::zip_equal(taken, accesses))
    for (uint32_t element : access)
      space.insert(element);
  for (const Row &row : rows) {
    uint32_t best = row.element;
    uint64_t bestFree = 0;
    for (uint32_t mix = 0; mix < 1u << row.addends.size(); ++mix) {
      uint32_t candidate = row.element ^ gf2Combine(row.addends, mix);
      uint64_t free = 0;
      for (const Gf2Basis &space : taken)
        free = free << 1 | !space.spans(candidate);
      if (free > bestFree) {
        bestFree = free;
        best = candidate;
      }
      if (bestFree == (uint64_t(1) << taken.size()) - 1)
        break;
    }
    offsets.push_back(best);
    for (Gf2Basis &space : taken)
      space.insert(best);
  }
  return Layout::fromPacked(Layout::Kind::Shared, shape, bases);
}

Layout chooseSharedLayout(llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<unsigned> order,
                          unsigned elementBits, unsigned vector,
                          llvm::ArrayRef<Simultaneous> accesses, const BankModel &banks) {
  Layout plain = sharedPlain(shape, order);
  llvm::ArrayRef<uint32_t> offsets = plain.packed(In::Offset);
  unsigned inVector = std::min<unsigned>(log2Floor(vector), offsets.size());
  unsigned inWavefront = std::clamp<unsigned>(
      log2Floor(banks.bytesPerWavefront() / elementBytes(elementBits)), inVector, offsets.size());
  llvm::ArrayRef<uint32_t> bank = offsets.slice(inVector, inWavefront - inVector);
  llvm::SmallVector<Row, 16> rows;
  for (uint32_t element : offsets.drop_front(inWavefront))
    rows.push_back({element, llvm::SmallVector<uint32_t, 8>(bank)});
  return swizzledLayout(shape, offsets.take_front(inVector), bank, rows, accesses);
}

Layout squaresLayout(const Layout &read, const Layout &written, unsigned numLanes,
                     unsigned numWarps, unsigned elementBits, const BankModel &banks) {
  assert(read.rank() == 2 && read.shape() == written.shape() && "a matrix in two buffers");
  constexpr unsigned side = 4;
  Layout::PackedBases bases;
  Gf2Basis held; // by what has a place already
  auto add = [&](In in, uint32_t element) {
    bases[unsigned(in)].push_back(element);
    held.insert(element);
  };
  llvm::SmallVector<uint32_t, 16> rest; // elements that begin squares
  for (const unsigned dim : {1, 0})
    for (unsigned bit = 0; bit < read.coreBits(dim); ++bit) {
      const uint32_t element = 1u << (read.shift(dim) + bit);
      if (1u << bit < side)
        add(In::Register, element);
      else
        rest.push_back(element);
    }
  // Which of the banks' vectors begins a square's line.
  const unsigned vectorBytes = side * elementBytes(elementBits);
  auto vectorOf = [&](const LayoutInverse &buffer, uint32_t element) {
    return uint64_t(buffer.ofPacked(element)[In::Offset] * elementBytes(elementBits)) %
           banks.bytesPerWavefront() / vectorBytes;
  };
  const LayoutInverse from(read), to(written);
  Gf2Basis vectorsRead, vectorsWritten;
  const unsigned together =
      lanesPerWavefront(log2Floor(numLanes), elementBits, side, banks); // lanes of one wavefront
  for (unsigned lane = 0; lane < log2Floor(numLanes); ++lane) {
    uint32_t best = 0;
    unsigned leastConflicts = ~0u;
    for (uint32_t mix = 1; mix < 1u << rest.size(); ++mix) {
      const uint32_t element = gf2Combine(rest, mix);
      if (held.spans(element))
        continue;
      const unsigned conflicts = lane < together ? vectorsRead.spans(vectorOf(from, element)) +
                                                       vectorsWritten.spans(vectorOf(to, element))
                                                 : 0;
      if (conflicts < leastConflicts) {
        leastConflicts = conflicts;
        best = element;
      }
      if (conflicts == 0)
        break;
    }
    add(In::Lane, best);
    vectorsRead.insert(vectorOf(from, best));
    vectorsWritten.insert(vectorOf(to, best));
  }
  llvm::erase_if(rest, [&](uint32_t element) { return !held.insert(element); });
  for (unsigned warp = 0; warp < log2Floor(numWarps); ++warp)
    bases[unsigned(In::Warp)].push_back(rest.empty() ? 0 : rest.pop_back_val());
  for (const uint32_t element : rest)
    bases[unsigned(In::Register)].push_back(element);
  return Layout::fromPacked(Layout::Kind::Distributed, read.shape(), bases);
}

// A bit of a register's or a lane's number.
using PlaceBit = std::pair<In, unsigned>;
// The places of a matrix' first row and those that begin rows 1, 2 and 4.
struct MatrixPlaces {
  bool transposed;
  llvm::SmallVector<PlaceBit, 4> row, rows;
};

// As the PTX ISA deals a matrix out: the words of a row to four lanes, and the rows to the next
// eight fours; transposed, the rows in pairs to four lanes.
static llvm::SmallVector<MatrixPlaces, 2> matrixPlaces(const Layout &distributed,
                                                       unsigned elementBits, bool isStore) {
  if (distributed.bits(In::Lane) != 5 || elementBits < 8 || elementBits > 32)
    return {};
  unsigned wordBits = log2Floor(32 / elementBits);
  if (distributed.bits(In::Register) < wordBits || distributed.freeBits(In::Lane) ||
      (isStore && distributed.freeBits(In::Register)))
    return {};
  llvm::SmallVector<PlaceBit, 4> words, fours{{In::Lane, 2}, {In::Lane, 3}, {In::Lane, 4}};
  for (unsigned bit = 0; bit < wordBits; ++bit)
    words.push_back({In::Register, bit});
  words.append({{In::Lane, 0}, {In::Lane, 1}});
  llvm::SmallVector<MatrixPlaces, 2> ways{{false, words, fours}};
  if (elementBits == 16)
    ways.push_back({true, fours, words});
  if (elementBits != 8)
    return ways;
  // The unit of 16 bits is a pair of one thread, before the pair of the second of eight fours.
  const uint32_t next = distributed.packed(In::Lane)[2];
  for (auto [bit, element] : llvm::enumerate(distributed.packed(In::Register)))
    for (unsigned dim = 0; dim < distributed.rank(); ++dim)
      if (element << 1 == next && distributed.along(element, dim) && distributed.along(next, dim)) {
        llvm::SmallVector<PlaceBit, 4> row{{In::Register, bit}};
        llvm::append_range(row, fours);
        ways.push_back(
            {true, row, {{In::Register, unsigned(bit == 0)}, {In::Lane, 0}, {In::Lane, 1}}});
      }
  return ways;
}

llvm::SmallVector<MatrixRows, 2> matrixRows(const Layout &distributed, unsigned elementBits,
                                            bool isStore) {
  llvm::SmallVector<MatrixRows, 2> ways;
  auto elementAt = [&](PlaceBit place) { return distributed.packed(place.first)[place.second]; };
  for (const MatrixPlaces &places : matrixPlaces(distributed, elementBits, isStore))
    ways.push_back({places.transposed, llvm::map_to_vector<4>(places.row, elementAt),
                    llvm::map_to_vector<3>(places.rows, elementAt)});
  return ways;
}

std::optional<MatrixAccess> planMatrixAccess(const Layout &shared, const Layout &distributed,
                                             unsigned elementBits, bool isStore) {
  PlaceMap offsets = PlaceMap::compose(distributed, shared);
  auto offsetOf = [&](PlaceBit place) {
    return offsets.basis(place.first, place.second)[In::Offset];
  };
  uint32_t inRow = 128 / elementBits - 1;
  auto beginsRow = [&](PlaceBit place) { return (offsetOf(place) & inRow) == 0; };
  auto ways = matrixPlaces(distributed, elementBits, isStore);
  const auto *way = llvm::find_if(ways, [&](const MatrixPlaces &places) {
    return llvm::all_of(
               llvm::enumerate(places.row),
               [&](auto place) { return offsetOf(place.value()) == 1u << place.index(); }) &&
           llvm::all_of(places.rows, beginsRow);
  });
  if (way == ways.end())
    return std::nullopt;
  // Those of a word's elements, of the matrices, and of the instructions.
  llvm::SmallVector<unsigned, 8> registerBits;
  for (const PlaceBit &place : llvm::concat<const PlaceBit>(way->row, way->rows))
    if (place.first == In::Register)
      registerBits.push_back(place.second);
  const unsigned wordBits = registerBits.size();
  for (unsigned bit = 0; bit < distributed.bits(In::Register); ++bit)
    if (!llvm::is_contained(llvm::ArrayRef(registerBits).take_front(wordBits), bit)) {
      if (!beginsRow({In::Register, bit}))
        return std::nullopt;
      registerBits.push_back(bit);
    }
  for (unsigned bit = 0; bit < offsets.bits(In::Warp); ++bit)
    if (!beginsRow({In::Warp, bit}))
      return std::nullopt;
  const unsigned matrixBits = std::min<unsigned>(2, registerBits.size() - wordBits);
  MatrixAccess access;
  access.transposed = way->transposed;
  access.elementsPerWord = 1u << wordBits;
  access.matrices = 1u << matrixBits;
  for (auto [bit, place] : llvm::enumerate(way->rows))
    access.laneOffsets[bit] = offsetOf(place);
  for (unsigned bit = 0; bit < matrixBits; ++bit)
    access.laneOffsets[3 + bit] = offsetOf({In::Register, registerBits[wordBits + bit]});
  for (unsigned moved = 0; moved < distributed.coreRegisters(); ++moved) {
    unsigned reg = 0;
    for (auto [bit, to] : llvm::enumerate(registerBits))
      reg |= (moved >> bit & 1) << to;
    access.registers.push_back(reg);
  }
  return access;
}

unsigned wavefrontsPerMatrix(const MatrixAccess &access, unsigned elementBits,
                             const BankModel &banks) {
  unsigned rowElements = 16 / elementBytes(elementBits);
  Gf2Basis rows, places;
  for (uint32_t offset : llvm::ArrayRef(access.laneOffsets).take_front(3)) {
    rows.insert(offset / rowElements);
    places.insert(offset / rowElements % (banks.bytesPerWavefront() / 16));
  }
  return 1u << (rows.rank() - places.rank());
}

double SharedAccess::cost() const {
  return numInstructions() * (cycles::instruction + wavefronts * cycles::wavefront) +
         conflicts() * cycles::conflict;
}

SharedAccess planSharedAccess(const Layout &shared, const Layout &distributed, unsigned elementBits,
                              bool isStore, const BankModel &banks, unsigned maxVector) {
  SharedAccess access = planVectors(shared, distributed, elementBits, isStore, banks, maxVector);
  access.idealWavefronts = idealWavefronts(distributed, elementBits, access.vector, isStore, banks);
  access.wavefronts =
      wavefrontsPerInstruction(shared, distributed, elementBits, access.vector, isStore, banks);
  if (!(isStore ? banks.matrixStores : banks.matrixLoads))
    return access;
  SharedAccess byMatrices;
  byMatrices.matrices = planMatrixAccess(shared, distributed, elementBits, isStore);
  if (!byMatrices.matrices)
    return access;
  byMatrices.vector = byMatrices.matrices->registersPerInstruction();
  byMatrices.registers = byMatrices.matrices->registers;
  byMatrices.idealWavefronts = byMatrices.matrices->matrices;
  byMatrices.wavefronts =
      byMatrices.idealWavefronts * wavefrontsPerMatrix(*byMatrices.matrices, elementBits, banks);
  return byMatrices.cost() < access.cost() ? byMatrices : access;
}

} // namespace sectile
