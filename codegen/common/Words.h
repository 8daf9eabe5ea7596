// Elements as the words that memory instructions and shuffles move.
#ifndef SECTILE_CODEGEN_COMMON_WORDS_H
#define SECTILE_CODEGEN_COMMON_WORDS_H

#include "llvm/IR/IRBuilder.h"

namespace sectile {

/// The type of one access of `count` elements: an integer up to 32 bits, else a vector of 32-bit
/// words (of 64-bit ones for elements of that size).
llvm::Type *wordsOf(llvm::Type *element, unsigned count);

/// Elements as such a type, and back.
llvm::Value *packWords(llvm::IRBuilder<> &b, llvm::ArrayRef<llvm::Value *> elements,
                       llvm::Type *words);
void unpackWords(llvm::IRBuilder<> &b, llvm::Value *words, llvm::Type *element, unsigned count,
                 llvm::SmallVectorImpl<llvm::Value *> &elements);

} // namespace sectile

#endif
