// Candidates for a buffer's layout, by the bank conflicts and the time of all accesses to it.
#include "passes/layouts/ChooseBuffer.h"
#include "ir/layout/Costs.h"
#include "ir/layout/MatrixDescriptor.h"
#include "ir/layout/TensorBoxes.h"
#include "passes/Kernel.h"
#include "passes/analysis/LayoutRules.h"

using namespace mlir;

namespace sectile {

unsigned fastestAxis(const Layout &layout) {
  unsigned fastest = layout.rank() - 1;
  for (unsigned axis = layout.rank(); axis-- > 0;)
    if (layout.contiguousPerThread(axis) > layout.contiguousPerThread(fastest))
      fastest = axis;
  if (layout.contiguousPerThread(fastest) > 1)
    return fastest;
  for (unsigned axis = layout.rank(); axis-- > 0;)
    if (layout.bits(In::Lane) && layout.basis(In::Lane, 0, axis))
      fastest = axis;
  return fastest;
}

cta::BufferType chooseBuffer(RankedTensorType type, const BufferReaders &tile, const Target &target,
                             std::optional<unsigned> copied) {
  const Layout &writer = *cta::layoutOf(type);
  unsigned bits = cta::elementBits(type), fastest = tile.along.value_or(fastestAxis(writer));
  SmallVector<unsigned> order{fastest};
  for (unsigned axis = writer.rank(); axis-- > 0;)
    if (axis != fastest)
      order.push_back(axis);
  unsigned widest = target.maxVectorBits / std::max(bits, 8u);
  const BankModel banks = banksOf(target);
  BankModel writerBanks = banks;
  unsigned written = copied.value_or(widest);
  if (copied) // from global memory, not registers
    writerBanks.matrixStores = false;
  auto choose = [&](unsigned vector, bool matrixLoads) {
    SmallVector<Simultaneous> accesses;
    for (const Layout &reader : tile.readers) {
      Simultaneous rows;
      if (matrixLoads)
        rows = simultaneousMatrixRows(reader, fastest, bits);
      if (rows.empty())
        rows = simultaneousVectors(
            reader, fastest, std::min(reader.contiguousPerThread(fastest), vector), bits, banks);
      accesses.push_back(std::move(rows));
    }
    accesses.push_back(simultaneousVectors(
        writer, fastest, std::min({writer.contiguousPerThread(fastest), vector, written}), bits,
        banks));
    return chooseSharedLayout(type.getShape(), order, bits, vector, accesses, banks);
  };
  std::optional<Layout> best;
  double leastCost = 0;
  unsigned conflictsOfBest = 0;
  // Of one core.
  auto consider = [&](const Layout &layout) {
    SharedAccess access =
        planSharedAccess(layout, writer, bits, /*isStore=*/true, writerBanks, written);
    double cost = access.cost();
    unsigned conflicts = access.conflicts();
    for (const Layout &reader : tile.readers) {
      access = planSharedAccess(layout, reader, bits, /*isStore=*/false, banks, widest);
      cost += access.cost();
      conflicts += access.conflicts();
    }
    if (!best || cost < leastCost) {
      best = layout;
      leastCost = cost;
      conflictsOfBest = conflicts;
    }
  };
  for (unsigned line : {128, 64, 32})
    if (tile.byDescriptor && (!best || conflictsOfBest))
      consider(sharedForDescriptors(type.getShape(), fastest, bits, line));
  for (unsigned vector = widest; vector >= copied.value_or(1); vector /= 2)
    for (bool matrixLoads : {true, false}) {
      if (tile.byDescriptor || (matrixLoads && !target.matrixLoad) || (best && !conflictsOfBest))
        continue;
      consider(choose(vector, matrixLoads));
    }
  return cta::BufferType::get(type.getContext(), type.getShape(), type.getElementType(),
                              cta::LayoutAttr::get(type.getContext(), *best));
}

bool hasPanels(RankedTensorType type, unsigned along) {
  const int64_t extent = type.getShape()[along];
  return (extent & -extent) * cta::elementBytes(type) >= leastDescriptorLine;
}

std::optional<cta::BufferType> engineBuffer(RankedTensorType type, unsigned along) {
  constexpr unsigned widestLine = 128;
  if (type.getRank() == 1)
    return cta::BufferType::get(
        type.getContext(), type.getShape(), type.getElementType(),
        cta::LayoutAttr::get(type.getContext(), sharedPlain(type.getShape(), {0})));
  if (!hasPanels(type, along))
    return std::nullopt;
  const Layout layout =
      sharedForDescriptors(type.getShape(), along, cta::elementBits(type), widestLine);
  return cta::BufferType::get(type.getContext(), type.getShape(), type.getElementType(),
                              cta::LayoutAttr::get(type.getContext(), layout));
}

double costOfReads(cta::BufferType buffer, ArrayRef<Layout> readers, const Target &target) {
  const unsigned bits = cta::elementBits(buffer);
  double cost = 0;
  for (const Layout &reader : readers)
    cost += planSharedAccess(buffer.getLayout().getLayout(), reader, bits, /*isStore=*/false,
                             banksOf(target), target.maxVectorBits / std::max(bits, 8u))
                .cost();
  return cost;
}

std::string whyNoBoxes(RankedTensorType type, unsigned along) {
  if (type.getRank() > 2)
    return "it has more than two dimensions";
  const std::optional<cta::BufferType> buffer = engineBuffer(type, along);
  if (!buffer)
    return "its rows are no multiple of 32 bytes";
  return planTensorBoxes(buffer->getLayout().getLayout(), cta::elementBits(type)) ? ""
         : type.getRank() == 1 ? "it is longer than 256 elements, or no multiple of 128 bytes"
                               : "its extents are no multiples of eight";
}

} // namespace sectile
