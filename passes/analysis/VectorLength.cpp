// How many elements of one thread a memory access can move at once.
#include "passes/analysis/VectorLength.h"

using namespace mlir;

namespace sectile {

static int64_t powerOfTwoIn(int64_t n) { return n & -n; }

unsigned vectorLength(const AccessContiguity &access, unsigned dim) {
  const Run &run = access.pointers[dim];
  int64_t length = std::min(powerOfTwoIn(run.contiguity), run.divisibility / access.elementBytes);
  if (access.mask)
    length = std::min(length, powerOfTwoIn((*access.mask)[dim].constancy));
  return std::max<int64_t>(length, 1);
}

unsigned vectorLength(const AccessContiguity &access, const Layout &layout, const Target &target) {
  unsigned longest = std::max<unsigned>(target.maxVectorBits / 8 / access.elementBytes, 1),
           length = 1;
  for (unsigned dim = 0; dim < layout.rank(); ++dim)
    length = std::max(length, std::min(layout.contiguousPerThread(dim), vectorLength(access, dim)));
  return std::min(length, longest);
}

unsigned copiedAtOnce(Operation *load, const ContiguityAnalysis &contiguity, const Target &target) {
  return vectorLength(contiguityOf(contiguity, load), *cta::layoutOf(load->getResult(0).getType()),
                      target);
}

} // namespace sectile
