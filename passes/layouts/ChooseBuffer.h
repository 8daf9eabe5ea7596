// Layouts of buffers in shared memory, for who writes and who reads them.
#ifndef SECTILE_PASSES_LAYOUTS_CHOOSEBUFFER_H
#define SECTILE_PASSES_LAYOUTS_CHOOSEBUFFER_H

#include "ir/Target.h"
#include "ir/cta/Cta.h"
#include <optional>
#include <string>

namespace sectile {

/// Who reads a tile from shared memory.
struct BufferReaders {
  llvm::SmallVector<Layout, 2> readers; ///< in the tile's axes
  bool byDescriptor = false;            ///< instructions or the copy engine read it themselves
  std::optional<unsigned> along;        ///< the axis of which they need neighbours
};

/// As descriptors say where an instruction reads it itself. Else rows of vectors as the writer
/// has them, swizzled for all readers and for the writer, which copies `copied` elements at once,
/// or as many as there are together. Narrower vectors leave more bits to swizzle; they are used
/// where a reader gains nothing from wide ones.
cta::BufferType chooseBuffer(mlir::RankedTensorType type, const BufferReaders &tile,
                             const Target &target, std::optional<unsigned> copied = std::nullopt);

/// The axis along which threads hold neighbours, or else lanes do.
unsigned fastestAxis(const Layout &layout);

/// Whether matrix instructions and the copy engine can access a tile that has neighbours along an
/// axis: its lines have a power of two of elements, and 32 bytes at least.
bool hasPanels(mlir::RankedTensorType type, unsigned along);

/// A buffer that the copy engine fills or reads in as few boxes as can be, with neighbours along
/// an axis; none where that has no panels.
std::optional<cta::BufferType> engineBuffer(mlir::RankedTensorType type, unsigned along);

/// Estimated cycles that a warp takes to read a buffer by each of these layouts.
double costOfReads(cta::BufferType buffer, llvm::ArrayRef<Layout> readers, const Target &target);

/// Why the copy engine cannot fill or read such a buffer; empty when it can.
std::string whyNoBoxes(mlir::RankedTensorType type, unsigned along);

} // namespace sectile

#endif
