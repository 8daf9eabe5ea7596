// Values while they are interpreted: a shape and the bits of the elements. Scalars have rank 0.
#ifndef SECTILE_JIT_INTERPRETER_ELEMENTS_H
#define SECTILE_JIT_INTERPRETER_ELEMENTS_H

#include "jit/interpreter/Floats.h"
#include "mlir/IR/Types.h"
#include "llvm/ADT/SmallVector.h"
#include <memory>
#include <span>
#include <vector>

namespace sectile::interpreter {

using Shape = llvm::SmallVector<int64_t, 4>;

/// What an element is. Integers, and pointers, have no float format.
struct ElementType {
  unsigned bits = 0;
  const FloatFormat *format = nullptr;
  bool isPointer = false;

  static ElementType of(mlir::Type type);
  uint64_t mask() const { return bits >= 64 ? ~uint64_t(0) : (uint64_t(1) << bits) - 1; }
  /// In memory.
  uint64_t bytes() const { return (bits + 7) / 8; }
};

struct Elements {
  ElementType type;
  Shape shape;
  std::vector<uint64_t> words; ///< above the type's bits they are zero
  /// 1 for what comes of arithmetic that did not fit though it is marked to (ir/tile/Overflow.h);
  /// empty: none.
  std::vector<uint8_t> wrapped;
  std::vector<double> bounds; ///< how far off a device may be; empty: not at all

  Elements() = default;
  Elements(ElementType type, llvm::ArrayRef<int64_t> shape);
  static Elements scalar(ElementType type, uint64_t word);

  size_t size() const { return words.size(); }
  uint64_t operator[](size_t i) const { return words[i]; }
  int64_t asSigned(size_t i) const {
    const unsigned unused = 64 - type.bits;
    return static_cast<int64_t>(words[i] << unused) >> unused;
  }
  double asDouble(size_t i) const { return type.format->decode(words[i]); }
  std::vector<double> asDoubles() const;
  void setDoubles(std::span<const double> values);
  bool wrappedAt(size_t i) const { return !wrapped.empty() && wrapped[i]; }
  void setWrapped(size_t i) {
    wrapped.resize(size());
    wrapped[i] = 1;
  }
  double boundAt(size_t i) const { return bounds.empty() ? 0 : bounds[i]; }

  /// Elements of this one in another order: element i of the result is from[i] here.
  Elements pick(llvm::ArrayRef<int64_t> newShape, std::span<const size_t> from) const;
  /// The same elements in another shape.
  Elements reshaped(llvm::ArrayRef<int64_t> newShape) const;
  /// One element, repeated.
  Elements repeated(llvm::ArrayRef<int64_t> newShape) const;
};

using ElementsRef = std::shared_ptr<const Elements>;

size_t countOf(llvm::ArrayRef<int64_t> shape);
/// Distances in row-major order.
Shape stridesOf(llvm::ArrayRef<int64_t> shape);
/// "[3, 5]": the place of an element; empty for a scalar.
std::string placeText(size_t element, llvm::ArrayRef<int64_t> shape);

} // namespace sectile::interpreter

#endif
