// Whether two traces built the same code.
#include "dsl/SameCode.h"
#include "ir/tile/Tile.h"

using namespace mlir;

namespace sectile::detail {

bool SameCode::isSame(mlir::Value a, mlir::Value b) const {
  auto found = map.find(a);
  return found != map.end() ? found->second == b : a == b;
}

static bool isSameButForExtents(Type left, Type right) {
  auto x = dyn_cast<RankedTensorType>(left), y = dyn_cast<RankedTensorType>(right);
  return left == right ||
         (x && y && x.getRank() == y.getRank() && x.getElementType() == y.getElementType());
}

static bool sameButForExtents(TypeRange a, TypeRange b) {
  return llvm::all_of_zip(a, b, isSameButForExtents);
}

/// The attributes that say what an operation computes: dots in flight are numbered as they are
/// made.
static DictionaryAttr meaningOf(Operation &op) {
  NamedAttrList attributes(op.getAttrDictionary());
  attributes.erase(tile::inFlightAttr);
  return attributes.getDictionary(op.getContext());
}

bool SameCode::isAlike(Operation &a, Operation &b) {
  if (a.getName() != b.getName() || a.getNumOperands() != b.getNumOperands() ||
      !sameButForExtents(a.getResultTypes(), b.getResultTypes()))
    return false;
  for (auto [left, right] : llvm::zip_equal(a.getOperands(), b.getOperands())) {
    if (isSame(left, right))
      continue;
    if (!isSameButForExtents(left.getType(), right.getType()))
      return false;
    otherValues = true;
    if (!otherOperands)
      otherOperands = &b;
  }
  return true;
}

bool SameCode::compare(Operation &a, Operation &b) {
  if (!isAlike(a, b)) {
    otherOperation = b.hasTrait<OpTrait::IsTerminator>() ? &a : &b; // it has a line of its own
    return false;
  }
  for (auto [left, right] : llvm::zip_equal(a.getResults(), b.getResults()))
    map[left] = right;
  const bool isLeftOut = b.hasAttr(bodyLeftOut);
  if (!otherNumbers &&
      (a.getResultTypes() != b.getResultTypes() || (!isLeftOut && meaningOf(a) != meaningOf(b))))
    otherNumbers = &b;
  if (isLeftOut)
    return true;
  return a.getNumRegions() == b.getNumRegions() &&
         llvm::all_of_zip(a.getRegions(), b.getRegions(),
                          [&](Region &left, Region &right) { return compare(left, right); });
}

bool SameCode::compare(ArrayRef<mlir::Value> a, ArrayRef<mlir::Value> b) {
  for (auto [left, right] : llvm::zip_equal(a, b)) {
    if (!left != !right)
      return false;
    otherValues |= left && !isSame(left, right);
  }
  return true;
}

bool SameCode::compare(Block &a, Block &b) {
  if (!sameButForExtents(a.getArgumentTypes(), b.getArgumentTypes()))
    return false;
  for (auto [left, right] : llvm::zip_equal(a.getArguments(), b.getArguments()))
    map[left] = right;
  auto at = a.begin(), other = b.begin();
  for (; at != a.end() && other != b.end(); ++at, ++other)
    if (!compare(*at, *other))
      return false;
  if (at != a.end() || other != b.end())
    otherOperation = at != a.end() ? &*at : &*other;
  return !otherOperation;
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
