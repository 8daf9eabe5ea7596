// The combiner of a reduction or a scan, applied to values of a thread.
#include "codegen/common/Combiner.h"

using namespace mlir;

namespace sectile {

FailureOr<Partial> Combiner::operator()(const Partial &left, const Partial &right) const {
  for (unsigned i = 0; i < left.size(); ++i) {
    emitter.define(body.getArgument(i), {left[i]});
    emitter.define(body.getArgument(left.size() + i), {right[i]});
  }
  if (failed(emitter.emitBlock(body)))
    return failure();
  Partial result;
  for (Value value : cast<tile::YieldOp>(body.getTerminator()).getValues())
    result.push_back(emitter.scalar(value));
  return result;
}

bool Combiner::isCommutative() const {
  if (body.getNumArguments() != 2 || !llvm::hasNItems(body, 2))
    return false;
  Operation &first = body.front();
  return first.hasTrait<OpTrait::IsCommutative>() && first.getNumOperands() == 2 &&
         first.getOperand(0) != first.getOperand(1);
}

} // namespace sectile
