// Code of the user's for each element: functions with control flow, inline assembly, functions of
// bitcode libraries.
#include "codegen/UserCode.h"
#include "codegen/common/KernelEmitter.h"
#include "ir/tile/Assembly.h"
#include "llvm/IR/InlineAsm.h"

using namespace mlir;

namespace sectile {

SmallVector<unsigned> KernelEmitter::distinctRegisters(Type type) {
  const Layout *layout = cta::layoutOf(type);
  if (!layout)
    return {0};
  ArrayRef<unsigned> first = firstCopies(*layout);
  SmallVector<unsigned> distinct;
  for (unsigned reg = 0; reg < layout->numRegisters(); ++reg)
    if (first.empty() || first[reg] == reg)
      distinct.push_back(reg);
  return distinct;
}

void KernelEmitter::copyRegisters(Type type, Registers &values) {
  if (const Layout *layout = cta::layoutOf(type))
    for (auto [reg, first] : llvm::enumerate(firstCopies(*layout)))
      values[reg] = values[first];
}

//===-- Functions -----------------------------------------------------------------------------===//

LogicalResult KernelEmitter::emitMap(tile::MapOp op) {
  Block &body = op.getFunction().front();
  Type type = op.getResult(0).getType();
  SmallVector<Registers> results(op.getNumResults(),
                                 Registers(cta::layoutOf(type)->numRegisters()));
  for (unsigned reg : distinctRegisters(type)) {
    for (auto [source, argument] : llvm::zip_equal(op.getSources(), body.getArguments()))
      define(argument, {registers(source)[reg]});
    if (failed(emitBlock(body)))
      return failure();
    auto yield = cast<tile::YieldOp>(body.getTerminator());
    for (auto [result, value] : llvm::zip_equal(results, yield.getValues()))
      result[reg] = scalar(value);
  }
  for (auto [result, values] : llvm::zip_equal(op.getResults(), results)) {
    copyRegisters(type, values);
    define(result, std::move(values));
  }
  return success();
}

//===-- Assembly ------------------------------------------------------------------------------===//

/// Elements that share registers of the text, as what the constraint asks for.
static llvm::Value *packOperand(llvm::IRBuilder<> &b, ArrayRef<llvm::Value *> elements,
                                char letter) {
  llvm::Type *type = elements.front()->getType();
  unsigned bits = type->isIntegerTy(1) ? 8 : type->getPrimitiveSizeInBits();
  llvm::Value *word = nullptr;
  if (bits >= 32) {
    word = b.CreateBitCast(elements.front(), b.getIntNTy(bits));
  } else {
    word = b.getInt32(0);
    for (auto [i, element] : llvm::enumerate(elements)) {
      llvm::Value *piece = element;
      if (!type->isIntegerTy())
        piece = b.CreateBitCast(piece, b.getIntNTy(bits));
      piece = b.CreateShl(b.CreateZExt(piece, b.getInt32Ty()), i * bits);
      word = b.CreateOr(word, piece);
    }
  }
  return letter == 'f'   ? b.CreateBitCast(word, b.getFloatTy())
         : letter == 'd' ? b.CreateBitCast(word, b.getDoubleTy())
                         : word;
}

static llvm::Value *unpackResult(llvm::IRBuilder<> &b, llvm::Value *word, unsigned position,
                                 llvm::Type *type) {
  unsigned bits = type->isIntegerTy(1) ? 8 : type->getPrimitiveSizeInBits();
  if (!word->getType()->isIntegerTy())
    word = b.CreateBitCast(word, b.getIntNTy(word->getType()->getPrimitiveSizeInBits()));
  word = b.CreateTrunc(b.CreateLShr(word, uint64_t(position) * bits), b.getIntNTy(bits));
  return type->isIntegerTy(1) ? b.CreateTrunc(word, type) : b.CreateBitCast(word, type);
}

LogicalResult KernelEmitter::emitInlineAsm(tile::InlineAsmOp op) {
  std::string why;
  auto plan = tile::AssemblyRegisters::get(op.getConstraints(), op.getPack(), op.getResultTypes(),
                                           op.getOperandTypes(), why);
  if (!plan)
    return op.emitError(why);
  unsigned pack = op.getPack();
  SmallVector<llvm::Type *> wordTypes;
  for (const tile::AssemblyRegisters::Value &value : plan->results)
    for (char letter : value.letters)
      wordTypes.push_back(letter == 'f'      ? b.getFloatTy()
                          : letter == 'd'    ? b.getDoubleTy()
                          : value.bits == 64 ? llvm::Type::getInt64Ty(b.getContext())
                                             : llvm::Type::getInt32Ty(b.getContext()));
  llvm::Type *outcome = wordTypes.empty()       ? b.getVoidTy()
                        : wordTypes.size() == 1 ? wordTypes.front()
                                                : llvm::StructType::get(b.getContext(), wordTypes);

  Value shaped = op.getNumResults()    ? Value(op.getResult(0))
                 : op.getNumOperands() ? op.getOperand(0)
                                       : Value();
  SmallVector<unsigned> distinct =
      shaped ? distinctRegisters(shaped.getType()) : SmallVector<unsigned>{0};
  SmallVector<Registers> results;
  for (Value result : op.getResults()) {
    const Layout *layout = cta::layoutOf(result.getType());
    results.emplace_back(layout ? layout->numRegisters() : 1);
  }
  for (unsigned start = 0; start < distinct.size(); start += pack) {
    // The last run may have fewer elements than it takes: it gets the last one again.
    SmallVector<unsigned> run;
    for (unsigned i = 0; i < pack; ++i)
      run.push_back(distinct[std::min<size_t>(start + i, distinct.size() - 1)]);
    SmallVector<llvm::Value *> arguments;
    SmallVector<llvm::Type *> types;
    for (auto [operand, value] : llvm::zip_equal(op.getOperands(), plan->operands)) {
      Registers &from = registers(operand);
      for (auto [word, letter] : llvm::enumerate(value.letters)) {
        SmallVector<llvm::Value *> elements;
        for (unsigned i = word * value.perWord;
             i < std::min<size_t>((word + 1) * value.perWord, pack); ++i)
          elements.push_back(from[run[i]]);
        arguments.push_back(packOperand(b, elements, letter));
        types.push_back(arguments.back()->getType());
      }
    }
    auto *assembly = llvm::InlineAsm::get(llvm::FunctionType::get(outcome, types, false),
                                          op.getText(), op.getConstraints(), !op.getPure());
    llvm::CallInst *call = b.CreateCall(assembly, arguments);
    call->setDoesNotThrow();
    if (op.getPure())
      call->setDoesNotAccessMemory();
    if (auto line = op.getLoc()->findInstanceOf<FileLineColLoc>())
      call->setMetadata(
          "srcloc", llvm::MDNode::get(b.getContext(),
                                      llvm::ConstantAsMetadata::get(b.getInt64(line.getLine()))));
    unsigned word = 0;
    for (auto [into, value, result] : llvm::zip_equal(results, plan->results, op.getResults())) {
      llvm::Type *type = typeOf(tile::elementType(result.getType()));
      for (unsigned i = 0; i < pack; ++i) {
        unsigned at = word + i / value.perWord;
        llvm::Value *got = wordTypes.size() == 1 ? call : b.CreateExtractValue(call, at);
        if (start + i < distinct.size())
          into[run[i]] = unpackResult(b, got, i % value.perWord, type);
      }
      word += value.letters.size();
    }
  }
  for (auto [result, values] : llvm::zip_equal(op.getResults(), results)) {
    copyRegisters(result.getType(), values);
    define(result, std::move(values));
  }
  return success();
}

//===-- Libraries -----------------------------------------------------------------------------===//

void KernelEmitter::emitExternCall(tile::ExternCallOp op) {
  llvm::FunctionCallee callee =
      module.getOrInsertFunction(nameOfCallee(op), typeOfCall(op, b.getContext()));
  const Layout *layout = cta::layoutOf(op.getType());
  Registers values(layout ? layout->numRegisters() : 1);
  for (unsigned reg : distinctRegisters(op.getType())) {
    SmallVector<llvm::Value *> arguments;
    for (Value operand : op.getOperands())
      arguments.push_back(registers(operand)[reg]);
    llvm::CallInst *call = b.CreateCall(callee, arguments);
    call->setDoesNotThrow();
    if (op.getPure()) {
      call->setDoesNotAccessMemory();
      call->addFnAttr(llvm::Attribute::WillReturn);
    }
    values[reg] = call;
  }
  copyRegisters(op.getType(), values);
  define(op.getResult(), std::move(values));
}

} // namespace sectile
