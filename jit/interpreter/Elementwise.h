// What the families of element-by-element operations share.
#ifndef SECTILE_JIT_INTERPRETER_ELEMENTWISE_H
#define SECTILE_JIT_INTERPRETER_ELEMENTWISE_H

#include "jit/interpreter/Run.h"

namespace sectile::interpreter {

/// An operand of which scalars stand for tiles: a combiner's constants meet whole slices.
class Lanes {
public:
  explicit Lanes(const Elements &elements)
      : elements(elements), step(elements.shape.empty() ? 0 : 1) {}
  uint64_t operator[](size_t i) const { return elements.words[i * step]; }
  int64_t asSigned(size_t i) const { return elements.asSigned(i * step); }
  bool wrapped(size_t i) const { return elements.wrappedAt(i * step); }
  size_t index(size_t i) const { return i * step; }

private:
  const Elements &elements;
  size_t step;
};

/// The shape that an elementwise operation works in.
inline llvm::ArrayRef<int64_t> shapeFor(const Run &run, mlir::Operation &op) {
  for (mlir::Value operand : op.getOperands())
    if (const Elements &elements = run.get(operand); !elements.shape.empty())
      return elements.shape;
  return {};
}

/// Elements of a result's type in that shape.
inline Elements resultFor(const Run &run, mlir::Operation &op, unsigned result = 0) {
  return Elements(ElementType::of(op.getResult(result).getType()), shapeFor(run, op));
}

} // namespace sectile::interpreter

#endif
