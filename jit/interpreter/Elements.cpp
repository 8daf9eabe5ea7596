// Values while they are interpreted.
#include "jit/interpreter/Elements.h"
#include <bit>

namespace sectile::interpreter {

size_t countOf(llvm::ArrayRef<int64_t> shape) {
  size_t count = 1;
  for (int64_t extent : shape)
    count *= size_t(extent);
  return count;
}

Shape stridesOf(llvm::ArrayRef<int64_t> shape) {
  Shape strides(shape.size(), 1);
  for (size_t d = shape.size(); d-- > 1;)
    strides[d - 1] = strides[d] * shape[d];
  return strides;
}

std::string placeText(size_t element, llvm::ArrayRef<int64_t> shape) {
  if (shape.empty())
    return "";
  std::string text;
  for (int64_t stride : stridesOf(shape)) {
    text += (text.empty() ? "[" : ", ") + std::to_string(element / size_t(stride));
    element %= size_t(stride);
  }
  return text + "]";
}

Elements::Elements(ElementType type, llvm::ArrayRef<int64_t> shape)
    : type(type), shape(shape), words(countOf(shape)) {}

Elements Elements::scalar(ElementType type, uint64_t word) {
  Elements result(type, {});
  result.words[0] = word & type.mask();
  return result;
}

std::vector<double> Elements::asDoubles() const {
  std::vector<double> values(size());
  if (type.format == &f32Format)
    for (size_t i = 0; i < size(); ++i)
      values[i] = std::bit_cast<float>(static_cast<uint32_t>(words[i]));
  else
    for (size_t i = 0; i < size(); ++i)
      values[i] = type.format->decode(words[i]);
  return values;
}

void Elements::setDoubles(std::span<const double> values) {
  for (size_t i = 0; i < size(); ++i)
    words[i] = type.format->encode(values[i]);
}

Elements Elements::pick(llvm::ArrayRef<int64_t> newShape, std::span<const size_t> from) const {
  Elements result(type, newShape);
  for (size_t i = 0; i < result.size(); ++i)
    result.words[i] = words[from[i]];
  if (!wrapped.empty()) {
    result.wrapped.resize(result.size());
    for (size_t i = 0; i < result.size(); ++i)
      result.wrapped[i] = wrapped[from[i]];
  }
  if (!bounds.empty()) {
    result.bounds.resize(result.size());
    for (size_t i = 0; i < result.size(); ++i)
      result.bounds[i] = bounds[from[i]];
  }
  return result;
}

Elements Elements::reshaped(llvm::ArrayRef<int64_t> newShape) const {
  Elements result = *this;
  result.shape.assign(newShape.begin(), newShape.end());
  return result;
}

Elements Elements::repeated(llvm::ArrayRef<int64_t> newShape) const {
  return pick(newShape, std::vector<size_t>(countOf(newShape), 0));
}

} // namespace sectile::interpreter
