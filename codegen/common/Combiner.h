// The combiner of a reduction or a scan, applied to values of a thread.
#ifndef SECTILE_CODEGEN_COMMON_COMBINER_H
#define SECTILE_CODEGEN_COMMON_COMBINER_H

#include "codegen/common/KernelEmitter.h"

namespace sectile {

/// One partial result: a value per tile that is combined.
using Partial = llvm::SmallVector<llvm::Value *, 2>;

class Combiner {
public:
  Combiner(KernelEmitter &emitter, mlir::Region &region) : emitter(emitter), body(region.front()) {}

  mlir::FailureOr<Partial> operator()(const Partial &left, const Partial &right) const;

  /// Whether it is one operation that does not care which side is which.
  bool isCommutative() const;

private:
  KernelEmitter &emitter;
  mlir::Block &body;
};

} // namespace sectile

#endif
