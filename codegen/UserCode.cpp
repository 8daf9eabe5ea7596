// Checks and links what a kernel brings along.
#include "codegen/UserCode.h"
#include "codegen/KernelError.h"
#include "ir/tile/Assembly.h"
#include "ir/tile/Tile.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Bitcode/BitcodeReader.h"
#include "llvm/IR/DebugInfo.h"
#include "llvm/IR/DiagnosticHandler.h"
#include "llvm/IR/DiagnosticInfo.h"
#include "llvm/IR/DiagnosticPrinter.h"
#include "llvm/IR/Instructions.h"
#include "llvm/Linker/Linker.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/SHA256.h"
#include <map>

using namespace mlir;
using llvm::Error, llvm::StringRef;

namespace sectile {

static Error wrong(Location where, const Twine &message) {
  auto line = where->findInstanceOf<FileLineColLoc>();
  return llvm::make_error<KernelError>(KernelError::Kind::Kernel,
                                       line ? line.getFilename().str() : std::string(),
                                       line ? line.getLine() : 0, message.str());
}

/// Why the assembly does not run; empty if it does.
static std::string whyNot(tile::InlineAsmOp op, const Target &target, bool forVirtualDevice) {
  std::optional<Vendor> vendor = tile::vendorOfConstraints(op.getConstraints());
  auto nameOf = [](Vendor vendor) { return vendor == Vendor::Nvidia ? "NVIDIA" : "AMD"; };
  if (vendor && vendor != target.vendor)
    return ("the constraints \"" + op.getConstraints() + "\" name registers of " + nameOf(*vendor) +
            "'s chips, and " + target.name + " is one of " + nameOf(target.vendor) + "'s")
        .str();
  return forVirtualDevice ? "the virtual GPU does not read assembly" : "";
}

/// A function of elements where the assembly was.
static void replaceByMeaning(tile::InlineAsmOp op) {
  OpBuilder builder(op);
  if (isa<RankedTensorType>(op.getResult(0).getType())) {
    auto map = tile::MapOp::create(builder, op.getLoc(), op.getResultTypes(), op.getOperands());
    map.getFunction().takeBody(op.getMeaning());
    op->replaceAllUsesWith(map);
  } else { // numbers: the function's operations themselves
    Block &body = op.getMeaning().front();
    for (auto [argument, operand] : llvm::zip_equal(body.getArguments(), op.getOperands()))
      argument.replaceAllUsesWith(operand);
    Operation *yield = body.getTerminator();
    op->replaceAllUsesWith(yield->getOperands());
    yield->erase();
    op->getBlock()->getOperations().splice(op->getIterator(), body.getOperations());
  }
  op.erase();
}

Error resolveAssembly(ModuleOp module, const Target &target, bool forVirtualDevice) {
  SmallVector<tile::InlineAsmOp> texts;
  module.walk<WalkOrder::PreOrder>([&](tile::InlineAsmOp op) { texts.push_back(op); });
  llvm::SmallPtrSet<Operation *, 4> gone; // in meanings that no one needs
  for (tile::InlineAsmOp op : texts) {
    if (gone.contains(op))
      continue;
    const std::string why = whyNot(op, target, forVirtualDevice);
    if (why.empty()) {
      op.getMeaning().walk([&](tile::InlineAsmOp inner) { gone.insert(inner); });
      op.getMeaning().getBlocks().clear();
    } else if (!op.getMeaning().empty()) {
      replaceByMeaning(op);
    } else {
      return wrong(op.getLoc(), "sc::inline_asm: " + why +
                                    "; say what the text computes by a function before the "
                                    "operands, and it runs there too");
    }
  }
  return Error::success();
}

AssemblerErrors::AssemblerErrors(llvm::LLVMContext &context) {
  struct Handler : llvm::DiagnosticHandler {
    explicit Handler(std::shared_ptr<Report> report) : report(std::move(report)) {}
    bool handleDiagnostics(const llvm::DiagnosticInfo &info) override {
      if (info.getSeverity() != llvm::DS_Error)
        return false;
      if (report->message.empty()) {
        llvm::raw_string_ostream out(report->message);
        if (const auto *text = llvm::dyn_cast<llvm::DiagnosticInfoSrcMgr>(&info)) {
          report->line = text->getLocCookie();
          out << text->getSMDiag().getMessage();
        } else {
          llvm::DiagnosticPrinterRawOStream printer(out);
          info.print(printer);
        }
      }
      return true;
    }
    std::shared_ptr<Report> report;
  };
  context.setDiagnosticHandler(std::make_unique<Handler>(report));
}

Error AssemblerErrors::take(ModuleOp module) {
  if (report->message.empty())
    return Error::success();
  Location where = module.getLoc();
  module.walk([&](tile::InlineAsmOp op) {
    auto line = op.getLoc()->findInstanceOf<FileLineColLoc>();
    if (line && line.getLine() == report->line)
      where = op.getLoc();
  });
  return wrong(where, "sc::inline_asm: the assembler says '" + report->message + "'");
}

//===-- Libraries -----------------------------------------------------------------------------===//

namespace {

std::string signature(llvm::FunctionType *type) {
  std::string text;
  llvm::raw_string_ostream out(text);
  out << *type;
  return text;
}

llvm::Type *numberType(Type element, llvm::LLVMContext &context) {
  if (element.isF16())
    return llvm::Type::getHalfTy(context);
  if (element.isBF16())
    return llvm::Type::getBFloatTy(context);
  if (element.isF32())
    return llvm::Type::getFloatTy(context);
  if (element.isF64())
    return llvm::Type::getDoubleTy(context);
  return llvm::Type::getIntNTy(context, element.getIntOrFloatBitWidth());
}

constexpr llvm::StringLiteral calleePrefix = "sectile.extern.";

/// Parts of the kernel from now on: for its chip, its own, and inlined.
void adopt(llvm::Module &library, const llvm::Module &code) {
  library.setTargetTriple(code.getTargetTriple());
  library.setDataLayout(code.getDataLayout());
  for (StringRef name : {"llvm.used", "llvm.compiler.used"})
    if (llvm::GlobalVariable *used = library.getGlobalVariable(name))
      used->eraseFromParent();
  llvm::StripDebugInfo(library);
  while (!library.named_metadata_empty())
    library.named_metadata_begin()->eraseFromParent();
  for (llvm::GlobalVariable &variable : library.globals())
    if (!variable.isDeclaration())
      variable.setLinkage(llvm::GlobalValue::InternalLinkage);
  for (llvm::Function &function : library) {
    for (StringRef name : {"target-cpu", "target-features", "tune-cpu", "probe-stack",
                           "stack-protector-buffer-size"})
      function.removeFnAttr(name);
    function.setComdat(nullptr);
    if (function.isDeclaration())
      continue;
    function.removeFnAttr(llvm::Attribute::NoInline);
    function.removeFnAttr(llvm::Attribute::OptimizeNone);
    function.addFnAttr(llvm::Attribute::AlwaysInline);
    function.setCallingConv(llvm::CallingConv::C);
    if (!function.getName().starts_with(calleePrefix))
      function.setLinkage(llvm::GlobalValue::InternalLinkage);
  }
}

} // namespace

std::string nameOfCallee(tile::ExternCallOp call) {
  return (calleePrefix + call.getSymbol()).str();
}

llvm::FunctionType *typeOfCall(tile::ExternCallOp call, llvm::LLVMContext &context) {
  llvm::SmallVector<llvm::Type *> types;
  for (Value operand : call.getOperands())
    types.push_back(numberType(tile::elementType(operand.getType()), context));
  return llvm::FunctionType::get(numberType(tile::elementType(call.getType()), context), types,
                                 /*isVarArg=*/false);
}

Error linkLibraries(ModuleOp module, llvm::Module &code) {
  std::map<std::string, llvm::SmallVector<tile::ExternCallOp>> byLibrary;
  module.walk([&](tile::ExternCallOp op) { byLibrary[op.getLibrary().str()].push_back(op); });
  for (auto &[path, calls] : byLibrary) {
    Location first = calls.front().getLoc();
    auto file = llvm::MemoryBuffer::getFile(path, /*IsText=*/false);
    if (!file)
      return wrong(first, "sc::extern_call: the library " + path +
                              " cannot be read: " + file.getError().message());
    auto library = llvm::parseBitcodeFile(**file, code.getContext());
    if (!library)
      return wrong(first, "sc::extern_call: " + path +
                              " is not LLVM bitcode of a version that is "
                              "understood: " +
                              llvm::toString(library.takeError()));
    for (tile::ExternCallOp op : calls) {
      llvm::Function *callee = (*library)->getFunction(op.getSymbol());
      if (!callee) // renamed for an earlier call
        callee = (*library)->getFunction(nameOfCallee(op));
      if (!callee || callee->isDeclaration())
        return wrong(op.getLoc(),
                     "sc::extern_call: " + path + " defines no function '" + op.getSymbol() + "'");
      if (llvm::FunctionType *type = typeOfCall(op, code.getContext());
          type != callee->getFunctionType())
        return wrong(op.getLoc(), "sc::extern_call: '" + op.getSymbol() + "' is " +
                                      signature(callee->getFunctionType()) + " in " + path +
                                      ", and is called as " + signature(type));
      callee->setName(nameOfCallee(op));
      llvm::Function *declared = code.getFunction(nameOfCallee(op));
      if (!declared)
        continue; // its result is not used
      // Two libraries may not both define what the kernel calls.
      if (!declared->isDeclaration())
        return wrong(op.getLoc(), "sc::extern_call: '" + op.getSymbol() +
                                      "' comes from two libraries: " + path + " and another");
    }
    std::vector<std::string> before;
    for (llvm::Function &function : code)
      if (!function.isDeclaration())
        before.push_back(function.getName().str());
    adopt(**library, code);
    if (llvm::Linker::linkModules(code, std::move(*library), llvm::Linker::Flags::LinkOnlyNeeded))
      return wrong(first, "sc::extern_call: " + path + " does not link with the kernel");
    for (llvm::GlobalObject &object : code.global_objects())
      if (!object.isDeclaration() && !llvm::is_contained(before, object.getName()))
        object.setLinkage(llvm::GlobalValue::InternalLinkage);
    for (llvm::Function &function : code)
      if (function.isDeclaration() && !function.isIntrinsic() && !function.use_empty() &&
          !function.getName().starts_with("sectile"))
        if (auto *call = dyn_cast<llvm::CallInst>(*function.user_begin());
            call && !llvm::is_contained(before, call->getFunction()->getName()))
          return wrong(first, "sc::extern_call: " + path + " calls '" + function.getName() +
                                  "', which it does not define");
  }
  return Error::success();
}

std::string describeLibraries(ModuleOp module) {
  std::map<std::string, std::string> hashes;
  module.walk([&](tile::ExternCallOp op) {
    std::string &hash = hashes[op.getLibrary().str()];
    if (!hash.empty())
      return;
    auto file = llvm::MemoryBuffer::getFile(op.getLibrary(), /*IsText=*/false);
    hash = "unreadable";
    if (file) {
      llvm::SHA256 sha;
      sha.update((*file)->getBuffer());
      hash = llvm::toHex(sha.final(), /*LowerCase=*/true);
    }
  });
  std::string text;
  for (const auto &[path, hash] : hashes)
    text += " library " + path + " " + hash;
  return text;
}

} // namespace sectile
