// The assembler's choice, foreseen: it orders instructions so that they wait little, but does not
// take so many registers for it that fewer blocks would be resident.
#include "codegen/nvidia/RegisterEstimate.h"
#include "codegen/nvidia/ListSchedule.h"
#include "llvm/IR/Module.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/Transforms/Scalar/EarlyCSE.h"
#include "llvm/Transforms/Scalar/SeparateConstOffsetFromGEP.h"
#include <numeric>

using namespace llvm;

namespace sectile::nvidia {
namespace {

/// What the calling convention, addresses of parameters and the gaps that wide values leave take.
constexpr unsigned always = 7;

/// Takes constants out of addresses as the code generator does, so that those that differ in one
/// have a base in common.
void shareAddresses(Module &module, TargetMachine &machine) {
  LoopAnalysisManager loops;
  FunctionAnalysisManager functions;
  CGSCCAnalysisManager callGraph;
  ModuleAnalysisManager modules;
  PassBuilder builder(&machine);
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(callGraph);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, callGraph, modules);
  FunctionPassManager passes;
  passes.addPass(SeparateConstOffsetFromGEPPass());
  passes.addPass(EarlyCSEPass());
  for (Function &function : module)
    if (!function.isDeclaration())
      passes.run(function, functions);
}

/// The most that does not lower how many blocks are resident below what `needed` allows.
unsigned atNoCost(unsigned needed, const Target &target, unsigned threads) {
  constexpr unsigned mostThreads = 2048, mostBlocks = 32;
  unsigned most = registerLimit(target, threads);
  for (unsigned blocks = 2; blocks <= std::min(mostBlocks, mostThreads / threads); ++blocks) {
    const unsigned each = registerLimit(target, threads * blocks);
    if (each < needed)
      break;
    most = each;
  }
  return most;
}

/// Whether it is a loop that the assembler does several iterations of at once: a short one.
bool isUnrolled(const StepGraph &graph, const StepBlock &block) {
  constexpr unsigned longest = 80; // steps
  return block.steps.size() <= longest && any_of(block.successors, [&](const auto &edge) {
           return &graph.blocks[edge.block] == &block;
         });
}

/// Of several iterations at once, where one takes so many.
unsigned sideBySide(const Liveness &alive, unsigned once) {
  constexpr unsigned iterations = 4;
  BitVector through = alive.in;
  through &= alive.out;
  const unsigned shared = through.count();
  return shared + iterations * (once - shared);
}

/// In the block that takes the most, of the orders that take the fewest.
unsigned fewestUnits(const StepGraph &graph, unsigned limit) {
  unsigned fewest = 0;
  for (auto [block, alive] : zip_equal(graph.blocks, livenessOf(graph))) {
    std::vector<unsigned> asWritten(block.steps.size());
    std::iota(asWritten.begin(), asWritten.end(), 0u);
    unsigned best = peakOf(block, alive, asWritten);
    for (unsigned within : {0u, limit})
      best = std::min(best, peakOf(block, alive, listSchedule(block, alive, within)));
    fewest = std::max(fewest, best);
  }
  return fewest;
}

/// Where waiting is avoided as long as no more than so many are alive.
unsigned usualUnits(const StepGraph &graph, unsigned most) {
  unsigned usual = 0;
  for (auto [block, alive] : zip_equal(graph.blocks, livenessOf(graph))) {
    const unsigned once = peakOf(block, alive, listSchedule(block, alive, most));
    usual = std::max(usual, isUnrolled(graph, block) ? sideBySide(alive, once) : once);
  }
  return usual;
}

} // namespace

unsigned registerLimit(const Target &target, unsigned threads) {
  constexpr unsigned granularity = 8;
  return std::min(target.maxRegistersPerThread,
                  target.registersPerUnit / threads / granularity * granularity);
}

RegisterEstimate estimateRegisters(Module &module, TargetMachine &machine, const Target &target,
                                   unsigned threads) {
  const unsigned limit = registerLimit(target, threads);
  shareAddresses(module, machine);
  RegisterEstimate estimate;
  for (const Function &function : module) {
    if (function.isDeclaration())
      continue;
    const unsigned fewest = fewestUnits(registerUnits(function, Room::Short), limit);
    const unsigned most = atNoCost(fewest + always, target, threads);
    const unsigned usual =
        std::max(fewest, usualUnits(registerUnits(function, Room::Ample), most - always));
    estimate.fewest = std::max(estimate.fewest, fewest + always);
    estimate.usual = std::max(estimate.usual, std::min(usual + always, most));
  }
  return estimate;
}

} // namespace sectile::nvidia
