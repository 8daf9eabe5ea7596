// A wrapper for each function, linked with the libraries and compiled by LLVM's JIT.
#include "codegen/virtual/HostLibraries.h"
#include "codegen/UserCode.h"
#include "llvm/ExecutionEngine/Orc/LLJIT.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/Support/TargetSelect.h"
#include <mutex>

using namespace llvm;

namespace sectile::vgpu {

HostLibraries::HostLibraries() = default;
HostLibraries::~HostLibraries() = default;

/// A function's name for the JIT: calls of one symbol from one library are one.
static std::string wrapperName(tile::ExternCallOp call) {
  return "sectile_call " + call.getLibrary().str() + " " + call.getSymbol().str();
}

/// void wrapper(const uint64_t *arguments, uint64_t *result)
static void addWrapper(Module &module, tile::ExternCallOp call, FunctionType *type) {
  std::string name = wrapperName(call);
  if (module.getFunction(name))
    return;
  LLVMContext &context = module.getContext();
  IRBuilder<> b(context);
  Type *word = b.getInt64Ty(), *pointer = b.getPtrTy();
  auto *wrapper = Function::Create(FunctionType::get(b.getVoidTy(), {pointer, pointer}, false),
                                   Function::ExternalLinkage, name, module);
  b.SetInsertPoint(BasicBlock::Create(context, "entry", wrapper));
  auto bitsOf = [&](Type *number) { return b.getIntNTy(number->getPrimitiveSizeInBits()); };
  SmallVector<Value *> arguments;
  for (auto [i, number] : enumerate(type->params())) {
    Value *at = b.CreateConstInBoundsGEP1_32(word, wrapper->getArg(0), unsigned(i));
    Value *bits = b.CreateTrunc(b.CreateLoad(word, at), bitsOf(number));
    arguments.push_back(b.CreateBitCast(bits, number));
  }
  FunctionCallee callee = module.getOrInsertFunction(nameOfCallee(call), type);
  Value *result = b.CreateCall(callee, arguments);
  result = b.CreateZExt(b.CreateBitCast(result, bitsOf(type->getReturnType())), word);
  b.CreateStore(result, wrapper->getArg(1));
  b.CreateRetVoid();
}

Expected<std::unique_ptr<HostLibraries>> HostLibraries::compile(mlir::ModuleOp module) {
  SmallVector<tile::ExternCallOp> calls;
  module.walk([&](tile::ExternCallOp call) { calls.push_back(call); });
  std::unique_ptr<HostLibraries> libraries;
  if (calls.empty())
    return libraries;
  static std::once_flag once;
  std::call_once(once, [] {
    InitializeNativeTarget();
    InitializeNativeTargetAsmPrinter();
  });
  libraries.reset(new HostLibraries);
  auto jit = orc::LLJITBuilder().create();
  if (!jit)
    return jit.takeError();
  libraries->jit = std::move(*jit);

  auto context = std::make_unique<LLVMContext>();
  auto code = std::make_unique<Module>("libraries", *context);
  code->setTargetTriple(libraries->jit->getTargetTriple());
  code->setDataLayout(libraries->jit->getDataLayout());
  for (tile::ExternCallOp call : calls)
    addWrapper(*code, call, typeOfCall(call, *context));
  if (Error error = linkLibraries(module, *code))
    return error;
  if (Error error =
          libraries->jit->addIRModule(orc::ThreadSafeModule(std::move(code), std::move(context))))
    return error;
  for (tile::ExternCallOp call : calls) {
    std::string name = wrapperName(call);
    auto address = libraries->jit->lookup(name);
    if (!address)
      return address.takeError();
    libraries->functions[name] = address->toPtr<Function>();
  }
  return libraries;
}

HostLibraries::Function HostLibraries::function(mlir::Operation &call) const {
  return functions.lookup(wrapperName(cast<tile::ExternCallOp>(call)));
}

} // namespace sectile::vgpu
