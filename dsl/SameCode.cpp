// Whether two traces built the same code.
#include "dsl/SameCode.h"

using namespace mlir;

namespace sectile::detail {

bool SameCode::compare(mlir::Value a, mlir::Value b) const {
  auto found = map.find(a);
  return found != map.end() ? found->second == b : a == b;
}

bool SameCode::compare(Operation &a, Operation &b) {
  if (a.getName() != b.getName() || a.getNumOperands() != b.getNumOperands() ||
      a.getResultTypes() != b.getResultTypes())
    return false;
  for (auto [left, right] : llvm::zip_equal(a.getOperands(), b.getOperands()))
    if (!compare(left, right))
      return false;
  for (auto [left, right] : llvm::zip_equal(a.getResults(), b.getResults()))
    map[left] = right;
  if (b.hasAttr(bodyLeftOut))
    return true;
  if (a.getAttrDictionary() != b.getAttrDictionary() || a.getNumRegions() != b.getNumRegions())
    return false;
  for (auto [left, right] : llvm::zip_equal(a.getRegions(), b.getRegions()))
    if (!compare(left, right))
      return false;
  return true;
}

bool SameCode::compare(Block &a, Block &b) {
  if (a.getArgumentTypes() != b.getArgumentTypes())
    return false;
  for (auto [left, right] : llvm::zip_equal(a.getArguments(), b.getArguments()))
    map[left] = right;
  auto at = a.begin(), other = b.begin();
  for (; at != a.end() && other != b.end(); ++at, ++other)
    if (!compare(*at, *other)) {
      if (!different)
        different = &*other;
      return false;
    }
  if (at == a.end() && other == b.end())
    return true;
  different = other == b.end() ? &*at : &*other;
  return false;
}

bool SameCode::compare(Region &a, Region &b) {
  if (llvm::range_size(a) != llvm::range_size(b))
    return false;
  for (auto [left, right] : llvm::zip_equal(a, b))
    if (!compare(left, right))
      return false;
  return true;
}

} // namespace sectile::detail
