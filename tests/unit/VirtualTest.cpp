// Running hand-written LLVM IR on the virtual GPU.
#include "VirtualTest.h"
#include "llvm/AsmParser/Parser.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/SourceMgr.h"

namespace sectile::vgpu {

const char nvidiaHead[] = R"(
target datalayout = "e-p6:32:32-i64:64-i128:128-i256:256-v16:16-v32:32-n16:32:64"
target triple = "nvptx64-nvidia-cuda"
@sectile_shared = external addrspace(3) global [0 x i8], align 1024
)";

const char amdHead[] = R"(
target datalayout = "e-p:64:64-p1:64:64-p2:32:32-p3:32:32-p4:64:64-p5:32:32-p6:32:32-p7:160:256:256:32-p8:128:128:128:48-p9:192:256:256:32-i64:64-v16:16-v24:32-v32:32-v48:64-v96:128-v192:256-v256:256-v512:512-v1024:1024-v2048:2048-n32:64-S32-A5-G1-ni:7:8:9"
target triple = "amdgcn-amd-amdhsa"
@sectile_shared = external addrspace(3) global [0 x i8], align 1024
)";

llvm::Expected<VirtualObject> compileText(const std::string &text) {
  llvm::LLVMContext context;
  llvm::SMDiagnostic diagnostic;
  std::unique_ptr<llvm::Module> module = llvm::parseAssemblyString(text, diagnostic, context);
  if (!module)
    return llvm::createStringError("line %d: %s", diagnostic.getLineNo(),
                                   diagnostic.getMessage().str().c_str());
  return compileForHost(*module);
}

Runner::Runner(const std::string &text, unsigned warpSize)
    : text(text), onChip(text.find("nvptx64") != std::string::npos),
      owned(std::make_unique<Machine>(warpSize)), machine(*owned) {
  llvm::Expected<VirtualObject> object = compileText(text);
  if (!object) {
    ADD_FAILURE() << llvm::toString(object.takeError());
    std::abort();
  }
  llvm::Expected<std::unique_ptr<Program>> loaded = Program::load(std::move(*object));
  if (!loaded) {
    ADD_FAILURE() << llvm::toString(loaded.takeError());
    std::abort();
  }
  program = std::move(*loaded);
}

} // namespace sectile::vgpu
