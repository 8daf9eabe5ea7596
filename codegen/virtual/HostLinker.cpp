// Each function that the object calls becomes one beside it that jumps through a slot; a table
// names the slots, for whoever opens the shared object.
#include "codegen/virtual/HostLinker.h"
#include "codegen/common/Lld.h"
#include "codegen/virtual/HostCompiler.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/Object/ObjectFile.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Target/TargetMachine.h"

using namespace llvm;

namespace sectile::vgpu {
namespace {

Expected<std::vector<std::string>> undefinedSymbols(StringRef object) {
  auto file = object::ObjectFile::createObjectFile(MemoryBufferRef(object, "object"));
  if (!file)
    return file.takeError();
  std::vector<std::string> names;
  for (const object::SymbolRef &symbol : (*file)->symbols()) {
    auto flags = symbol.getFlags();
    auto name = symbol.getName();
    if (!flags || !name)
      return joinErrors(flags.takeError(), name.takeError());
    // lld defines the table of global offsets itself.
    if (*flags & object::SymbolRef::SF_Undefined && !name->empty() &&
        *name != "_GLOBAL_OFFSET_TABLE_")
      names.push_back(name->str());
  }
  return names;
}

// Passes on whatever arguments it is called with.
void makeJump(Module &module, StringRef name, GlobalVariable *slot) {
  LLVMContext &context = module.getContext();
  auto *type = FunctionType::get(Type::getVoidTy(context), /*isVarArg=*/true);
  Function *jump = Function::Create(type, GlobalValue::ExternalLinkage, name, module);
  jump->setVisibility(GlobalValue::HiddenVisibility);
  jump->addFnAttr("thunk");
  jump->addFnAttr(Attribute::NoUnwind);
  IRBuilder<> b(BasicBlock::Create(context, "", jump));
  CallInst *call = b.CreateCall(type, b.CreateLoad(PointerType::get(context, 0), slot));
  call->setTailCallKind(CallInst::TCK_MustTail);
  b.CreateRetVoid();
}

} // namespace

Expected<std::string> linkForBundle(StringRef object) {
  auto names = undefinedSymbols(object);
  if (!names)
    return names.takeError();
  // No vector of the plain processor is wider than an argument: the others stay as they are.
  auto machine = hostMachine({.cpu = plainHostCpu});
  if (!machine)
    return machine.takeError();
  LLVMContext context;
  Module module("imports", context);
  module.setTargetTriple((*machine)->getTargetTriple());
  module.setDataLayout((*machine)->createDataLayout());
  auto *pointer = PointerType::get(context, 0);
  auto *null = ConstantPointerNull::get(pointer);
  auto *entry = StructType::get(pointer, pointer);
  IRBuilder<> b(context);
  SmallVector<Constant *> table;
  for (const std::string &name : *names) {
    auto *slot = new GlobalVariable(module, pointer, /*isConstant=*/false,
                                    GlobalValue::InternalLinkage, null, "slot." + name);
    // Whoever opens the object writes to it.
    slot->setExternallyInitialized(true);
    makeJump(module, name, slot);
    table.push_back(ConstantStruct::get(
        entry, b.CreateGlobalString(name, "name." + name, /*AddressSpace=*/0, &module), slot));
  }
  table.push_back(ConstantStruct::get(entry, null, null));
  auto *tableType = ArrayType::get(entry, table.size());
  new GlobalVariable(module, tableType, /*isConstant=*/true, GlobalValue::ExternalLinkage,
                     ConstantArray::get(tableType, table),
                     StringRef(importsSymbol.data(), importsSymbol.size()));
  auto imports = emitHostObject(module, **machine);
  if (!imports)
    return imports.takeError();
  return linkShared({object, *imports}, {"--strip-all", "--build-id=none", "-znoseparate-code"});
}

} // namespace sectile::vgpu
