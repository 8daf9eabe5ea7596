// Elements as the words that memory instructions and shuffles move.
#include "codegen/common/Words.h"

using namespace llvm;

namespace sectile {

Type *wordsOf(Type *element, unsigned count) {
  unsigned elementBits = element->getPrimitiveSizeInBits(), bits = elementBits * count;
  LLVMContext &context = element->getContext();
  if (bits <= 32)
    return IntegerType::get(context, bits);
  unsigned word = elementBits == 64 ? 64 : 32;
  Type *type = IntegerType::get(context, word);
  return bits == word ? type : FixedVectorType::get(type, bits / word);
}

Value *packWords(IRBuilder<> &b, ArrayRef<Value *> elements, Type *words) {
  if (elements.size() == 1)
    return b.CreateBitCast(elements.front(), words);
  Type *type = elements.front()->getType();
  Value *vector = PoisonValue::get(FixedVectorType::get(type, elements.size()));
  for (auto [i, element] : enumerate(elements))
    vector = b.CreateInsertElement(vector, element, i);
  return b.CreateBitCast(vector, words);
}

void unpackWords(IRBuilder<> &b, Value *words, Type *element, unsigned count,
                 SmallVectorImpl<Value *> &elements) {
  if (count == 1) {
    elements.push_back(b.CreateBitCast(words, element));
    return;
  }
  Value *vector = b.CreateBitCast(words, FixedVectorType::get(element, count));
  for (unsigned i = 0; i < count; ++i)
    elements.push_back(b.CreateExtractElement(vector, i));
}

} // namespace sectile
