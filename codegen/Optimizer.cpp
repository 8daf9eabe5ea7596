// LLVM's optimiser and code generators for the chips we target.
#include "codegen/Optimizer.h"
#include "codegen/common/PseudoIntrinsics.h"
#include "codegen/nvidia/SmallIntegers.h"
#include "llvm/Analysis/TargetTransformInfo.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/SmallVectorMemoryBuffer.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"
#include <mutex>

using namespace llvm;

namespace sectile {

static void initialize(Vendor vendor) {
  static std::once_flag nvidia, amd;
  if (vendor == Vendor::Nvidia)
    std::call_once(nvidia, [] {
      LLVMInitializeNVPTXTargetInfo();
      LLVMInitializeNVPTXTarget();
      LLVMInitializeNVPTXTargetMC();
      LLVMInitializeNVPTXAsmPrinter();
    });
  else
    std::call_once(amd, [] {
      LLVMInitializeAMDGPUTargetInfo();
      LLVMInitializeAMDGPUTarget();
      LLVMInitializeAMDGPUTargetMC();
      LLVMInitializeAMDGPUAsmPrinter();
      LLVMInitializeAMDGPUAsmParser();
    });
}

Expected<std::unique_ptr<TargetMachine>> createTargetMachine(const Target &target) {
  initialize(target.vendor);
  Triple triple(target.triple);
  std::string why;
  const llvm::Target *found = TargetRegistry::lookupTarget(triple, why);
  if (!found)
    return createStringError("LLVM has no code generator for " + target.triple + ": " + why);
  llvm::TargetOptions options;
  std::unique_ptr<TargetMachine> machine(
      found->createTargetMachine(triple, target.cpu, target.features, options, Reloc::PIC_,
                                 std::nullopt, CodeGenOptLevel::Aggressive));
  if (!machine)
    return createStringError("LLVM cannot generate code for " + target.name);
  return machine;
}

void optimize(Module &module, TargetMachine &machine) {
  LoopAnalysisManager loops;
  FunctionAnalysisManager functions;
  CGSCCAnalysisManager callGraph;
  ModuleAnalysisManager modules;
  PipelineTuningOptions tuning;
  // Tiles are already as wide as the memory accesses; what is left scalar stays so.
  tuning.SLPVectorization = false;
  tuning.LoopVectorization = false;
  // Nor are they taken apart: this pass makes loads of single elements of what is read as a vector
  // and used by its elements.
  PassInstrumentationCallbacks callbacks;
  callbacks.registerShouldRunOptionalPassCallback(
      [](StringRef pass, Any) { return pass != "VectorCombinePass"; });
  PassBuilder builder(&machine, tuning, std::nullopt, &callbacks);
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(callGraph);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, callGraph, modules);
  builder.buildPerModuleDefaultPipeline(OptimizationLevel::O3).run(module, modules);
  // Last: the optimiser knows conversions, and not what they become.
  if (machine.getTargetTriple().isNVPTX()) {
    unsigned version = 0; // of "sm_90a"
    machine.getTargetCPU().drop_front(3).consumeInteger(10, version);
    convertSmallIntegers(module, version >= 90);
  }
}

static Expected<std::string> emit(Module &module, TargetMachine &machine, CodeGenFileType type) {
  lowerPseudoIntrinsics(module);
  SmallVector<char, 0> bytes;
  raw_svector_ostream out(bytes);
  legacy::PassManager passes;
  passes.add(createTargetTransformInfoWrapperPass(machine.getTargetIRAnalysis()));
  if (machine.addPassesToEmitFile(passes, out, nullptr, type))
    return createStringError("LLVM cannot emit this file type for " +
                             machine.getTargetTriple().str());
  passes.run(module);
  return std::string(bytes.begin(), bytes.end());
}

Expected<std::string> emitAssembly(Module &module, TargetMachine &machine) {
  // NVPTX numbers values once more before it selects instructions, in a time that grows with the
  // square of a block's loads. It seldom finds any, and in so much code the assembler does.
  constexpr unsigned mostForAnotherRound = 8000;
  if (machine.getTargetTriple().isNVPTX() && module.getInstructionCount() > mostForAnotherRound)
    machine.setOptLevel(CodeGenOptLevel::Default);
  return emit(module, machine, CodeGenFileType::AssemblyFile);
}

Expected<std::string> emitObject(Module &module, TargetMachine &machine) {
  return emit(module, machine, CodeGenFileType::ObjectFile);
}

} // namespace sectile
