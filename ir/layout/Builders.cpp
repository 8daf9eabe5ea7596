// Blocked, mma and shared layouts.
#include "ir/layout/Builders.h"
#include "llvm/ADT/STLExtras.h"
#include <algorithm>
#include <cassert>

namespace sectile {

namespace {

// Builds a layout by handing out each dimension's bits from the lowest.
class Filler {
public:
  Filler(Layout::Kind kind, llvm::ArrayRef<int64_t> shape)
      : kind(kind), shape(shape), next(shape.size(), 0) {
    for (int64_t extent : shape)
      bitsOf.push_back(llvm::countr_zero(uint64_t(extent)));
  }

  /// The next `count` bits of a dimension to an input. Beyond the tensor's end lanes and warps
  /// replicate, registers and offsets are not needed.
  void add(In in, unsigned dim, unsigned count) {
    for (unsigned i = 0; i < count; ++i)
      take(in, dim, next[dim] + i);
    next[dim] += count;
  }
  /// One bit of a dimension.
  void take(In in, unsigned dim, unsigned bit) {
    if (bit < bitsOf[dim]) {
      bases[unsigned(in)].push_back(1u << (shift(dim) + bit));
    } else if (in == In::Lane || in == In::Warp) {
      bases[unsigned(in)].push_back(0);
    }
  }
  void replicate(In in, unsigned count) { bases[unsigned(in)].append(count, 0); }
  /// The lowest bits of the last two dimensions as a matrix has them.
  void addFragment(const Layout &fragment) {
    unsigned rows = shape.size() - 2, columns = rows + 1;
    for (In in : {In::Register, In::Lane})
      for (unsigned bit = 0; bit < fragment.bits(in); ++bit)
        bases[unsigned(in)].push_back(uint32_t(fragment.basis(in, bit, 0)) << shift(rows) |
                                      uint32_t(fragment.basis(in, bit, 1)) << shift(columns));
    next[rows] = fragment.coreBits(0);
    next[columns] = fragment.coreBits(1);
  }
  /// What is left, one dimension after the other.
  void addRest(In in, llvm::ArrayRef<unsigned> order) {
    for (unsigned dim : order)
      for (; next[dim] < bitsOf[dim]; ++next[dim])
        take(in, dim, next[dim]);
  }
  unsigned left(unsigned dim) const {
    return bitsOf[dim] > next[dim] ? bitsOf[dim] - next[dim] : 0;
  }
  unsigned shift(unsigned dim) const {
    unsigned below = 0;
    for (unsigned d = dim + 1; d < bitsOf.size(); ++d)
      below += bitsOf[d];
    return below;
  }
  Layout finish() const { return Layout::fromPacked(kind, shape, bases); }

  Layout::PackedBases bases;

private:
  Layout::Kind kind;
  llvm::ArrayRef<int64_t> shape;
  llvm::SmallVector<unsigned, 4> bitsOf, next;
};

} // namespace

static unsigned log2Exact(uint64_t value) {
  assert(llvm::has_single_bit(value) && "a power of two");
  return llvm::countr_zero(value);
}

Layout blockedLayout(llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<unsigned> elementsPerThread,
                     llvm::ArrayRef<unsigned> lanesPerDim, llvm::ArrayRef<unsigned> warpsPerDim,
                     llvm::ArrayRef<unsigned> order) {
  Filler filler(Layout::Kind::Distributed, shape);
  for (unsigned dim : order)
    filler.add(In::Register, dim, log2Exact(elementsPerThread[dim]));
  for (unsigned dim : order)
    filler.add(In::Lane, dim, log2Exact(lanesPerDim[dim]));
  for (unsigned dim : order)
    filler.add(In::Warp, dim, log2Exact(warpsPerDim[dim]));
  filler.addRest(In::Register, order);
  return filler.finish();
}

Layout blockedForAccess(llvm::ArrayRef<int64_t> shape, unsigned elementsPerThread,
                        unsigned numLanes, unsigned numWarps, llvm::ArrayRef<unsigned> order) {
  Filler filler(Layout::Kind::Distributed, shape);
  if (!order.empty())
    filler.add(In::Register, order.front(),
               std::min(log2Exact(elementsPerThread), filler.left(order.front())));
  for (auto [in, count] :
       {std::pair(In::Lane, log2Exact(numLanes)), std::pair(In::Warp, log2Exact(numWarps))}) {
    unsigned wanted = count;
    for (unsigned dim : order) {
      unsigned here = std::min(wanted, filler.left(dim));
      filler.add(in, dim, here);
      wanted -= here;
    }
    filler.replicate(in, wanted);
  }
  filler.addRest(In::Register, order);
  return filler.finish();
}

// Fragments of an instruction next to each other: within a warp, then over the warps, then over
// registers. A dimension of -1 has no warps of its own: they replicate.
static Layout tileMma(llvm::ArrayRef<int64_t> shape, const Layout &fragment, int warpDimM,
                      int warpDimN, MmaTiling tiling) {
  assert(shape.size() >= 2 && fragment.rank() == 2);
  unsigned rank = shape.size();
  Filler filler(Layout::Kind::Distributed, shape);
  filler.addFragment(fragment);
  filler.add(In::Register, rank - 1, log2Exact(tiling.beside));
  auto addWarps = [&](int dim, unsigned count) {
    if (dim < 0)
      filler.replicate(In::Warp, log2Exact(count));
    else
      filler.add(In::Warp, dim, log2Exact(count));
  };
  addWarps(rank > 2 ? 0 : -1, tiling.warpsBatch);
  addWarps(warpDimM, tiling.warpsM);
  addWarps(warpDimN, tiling.warpsN);
  llvm::SmallVector<unsigned, 4> order{rank - 1, rank - 2};
  if (tiling.rowsFirst)
    std::swap(order[0], order[1]);
  for (unsigned d = rank - 2; d-- > 0;)
    order.push_back(d);
  filler.addRest(In::Register, order);
  return filler.finish();
}

Layout mmaAccumulator(llvm::ArrayRef<int64_t> shape, const Layout &fragment, MmaTiling tiling) {
  return tileMma(shape, fragment, int(shape.size()) - 2, int(shape.size()) - 1, tiling);
}

Layout mmaOperandA(llvm::ArrayRef<int64_t> shape, const Layout &fragment, MmaTiling tiling) {
  return tileMma(shape, fragment, int(shape.size()) - 2, -1, tiling);
}

Layout mmaOperandB(llvm::ArrayRef<int64_t> shape, const Layout &fragment, MmaTiling tiling) {
  return tileMma(shape, fragment, -1, int(shape.size()) - 1, tiling);
}

Layout sharedPlain(llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<unsigned> order) {
  Filler filler(Layout::Kind::Shared, shape);
  filler.addRest(In::Offset, order);
  return filler.finish();
}

Layout sharedSwizzled(llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<unsigned> order,
                      unsigned vector, unsigned perPhase, unsigned maxPhase) {
  assert(order.size() >= 2 && "a swizzle permutes the rows of a matrix");
  Filler filler(Layout::Kind::Shared, shape);
  filler.addRest(In::Offset, order);
  unsigned columnBits = llvm::countr_zero(uint64_t(shape[order[0]]));
  unsigned rowBits = llvm::countr_zero(uint64_t(shape[order[1]]));
  unsigned firstRow = log2Exact(perPhase), firstVector = log2Exact(vector);
  auto &offsets = filler.bases[unsigned(In::Offset)];
  for (unsigned i = 0; i < log2Exact(maxPhase); ++i)
    if (firstRow + i < rowBits && firstVector + i < columnBits)
      offsets[columnBits + firstRow + i] |= 1u << (filler.shift(order[0]) + firstVector + i);
  return filler.finish();
}

} // namespace sectile
