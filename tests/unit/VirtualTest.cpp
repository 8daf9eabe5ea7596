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

llvm::Expected<VirtualObject> compileText(const std::string &text, const HostOptions &options) {
  llvm::LLVMContext context;
  llvm::SMDiagnostic diagnostic;
  std::unique_ptr<llvm::Module> module = llvm::parseAssemblyString(text, diagnostic, context);
  if (!module)
    return llvm::createStringError("line %d: %s", diagnostic.getLineNo(),
                                   diagnostic.getMessage().str().c_str());
  return compileForHost(*module, options);
}

std::string withLines(const std::string &text) {
  std::string result, metadata;
  int next = 100;
  for (size_t at = 0; at < text.size();) {
    size_t end = text.find('\n', at);
    std::string line = text.substr(at, end - at);
    size_t mark = line.find(" ;; ");
    if (mark != std::string::npos) {
      metadata += "!" + std::to_string(next) + " = !DILocation(line: " + line.substr(mark + 4) +
                  ", scope: !4)\n";
      line = line.substr(0, mark) + ", !dbg !" + std::to_string(next++);
    }
    result += line + "\n";
    at = end + 1;
  }
  size_t body = result.find(" {\n", result.find("define "));
  result.insert(body, " !dbg !4");
  return result + R"(
!llvm.dbg.cu = !{!0}
!llvm.module.flags = !{!3}
!0 = distinct !DICompileUnit(language: DW_LANG_C_plus_plus, file: !1, emissionKind: DebugDirectivesOnly)
!1 = !DIFile(filename: "kernel.cpp", directory: "/")
!3 = !{i32 2, !"Debug Info Version", i32 3}
!4 = distinct !DISubprogram(name: "k", file: !1, line: 1, type: !DISubroutineType(types: !{}), unit: !0, spFlags: DISPFlagDefinition)
)" + metadata;
}

std::string replaced(std::string text, const std::string &from, const std::string &to) {
  size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

Runner::Runner(const std::string &text, unsigned warpSize)
    : text(text), onChip(text.find("nvptx64") != std::string::npos),
      owned(std::make_unique<Machine>(warpSize)), machine(*owned) {
  // Tests run a kernel many times in a row, by other seeds. Variables of its own it may have
  // changed.
  static std::string textBefore;
  static std::shared_ptr<const Program> programBefore;
  if (programBefore && text == textBefore && programBefore->globals().empty()) {
    program = programBefore;
    return;
  }
  llvm::Expected<VirtualObject> object = compileText(text);
  if (!object) {
    ADD_FAILURE() << llvm::toString(object.takeError());
    std::abort();
  }
  program = Program::load(std::move(*object));
  textBefore = text;
  programBefore = program;
}

} // namespace sectile::vgpu
