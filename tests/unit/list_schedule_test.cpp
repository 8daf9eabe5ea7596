// What LLVM IR takes of the registers, and orders of instructions that take few or many.
#include "codegen/Optimizer.h"
#include "codegen/nvidia/ListSchedule.h"
#include "codegen/nvidia/RegisterEstimate.h"
#include "llvm/AsmParser/Parser.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Target/TargetMachine.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <numeric>

using namespace sectile;
using namespace sectile::nvidia;
using testing::ElementsAre;

namespace {

/// A kernel `k(ptr a, i32 n)` with this body.
class Kernel {
public:
  explicit Kernel(const std::string &body, Room room = Room::Ample) {
    llvm::SMDiagnostic error;
    module = llvm::parseAssemblyString(
        "target triple = \"nvptx64-nvidia-cuda\"\n"
        "target datalayout = \"e-p6:32:32-i64:64-i128:128-i256:256-v16:16-v32:32-n16:32:64\"\n"
        "@s = external addrspace(3) global [0 x i8]\n"
        "declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()\n"
        "declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()\n"
        "declare void @llvm.nvvm.barrier.cta.sync.aligned.all(i32)\n"
        "define ptx_kernel void @k(ptr addrspace(1) %a, i32 %n) {\nentry:\n" +
            body + "\n}\n",
        error, context);
    if (!module)
      throw std::runtime_error(error.getMessage().str());
    graph = registerUnits(*module->getFunction("k"), room);
    live = livenessOf(graph);
  }

  const StepBlock &block(unsigned i = 0) const { return graph.blocks[i]; }
  unsigned peakAsWritten(unsigned i = 0) const {
    std::vector<unsigned> order(block(i).steps.size());
    std::iota(order.begin(), order.end(), 0u);
    return peakOf(block(i), live[i], order);
  }
  unsigned peakWithin(unsigned limit, unsigned i = 0) const {
    return peakOf(block(i), live[i], listSchedule(block(i), live[i], limit));
  }

  llvm::LLVMContext context;
  std::unique_ptr<llvm::Module> module;
  StepGraph graph;
  std::vector<Liveness> live;
};

/// Eight numbers, loaded one after the other and then stored, doubled.
std::string eightLoads() {
  std::string loads, stores;
  for (int i = 0; i < 8; ++i) {
    const std::string n = std::to_string(i), offset = std::to_string(4 * i);
    loads += "%p" + n + " = getelementptr i8, ptr addrspace(3) %q, i32 " + offset + "\n%x" + n +
             " = load float, ptr addrspace(3) %p" + n + "\n";
    stores += "%y" + n + " = fadd float %x" + n + ", %x" + n + "\nstore float %y" + n +
              ", ptr addrspace(1) %a\n";
  }
  return "%tid = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()\n"
         "%q = getelementptr i8, ptr addrspace(3) @s, i32 %tid\n" +
         loads + stores + "ret void";
}

TEST(RegisterUnits, ConstantsParametersAndWhatAWarpHasInCommonTakeNone) {
  const Kernel kernel("%id = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()\n"
                      "%i = mul i32 %id, %n\n"
                      "%p = getelementptr i32, ptr addrspace(1) %a, i32 %i\n"
                      "store i32 %n, ptr addrspace(1) %p\nret void");
  EXPECT_EQ(kernel.graph.units, 0u);
}

TEST(RegisterUnits, WideValuesTakeTwoAndPairsOfHalvesOne) {
  const Kernel kernel("%tid = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()\n"
                      "%p = getelementptr i32, ptr addrspace(1) %a, i32 %tid\n"
                      "%wide = load i64, ptr addrspace(1) %p\n"
                      "%pairs = load <4 x half>, ptr addrspace(1) %p\n"
                      "%flag = icmp eq i64 %wide, 0\n"
                      "%half = extractelement <4 x half> %pairs, i64 3\n"
                      "%one = select i1 %flag, half %half, half 0.0\n"
                      "store half %one, ptr addrspace(1) %p\nret void");
  std::vector<size_t> defined;
  for (const Step &step : kernel.block().steps)
    defined.push_back(step.defines.size());
  // tid, the address, both loads, the predicate, the choice, the store and the return
  EXPECT_THAT(defined, ElementsAre(1, 2, 2, 2, 0, 1, 0, 0));
  // The half is read where it is, in the second register of the load.
  EXPECT_THAT(kernel.block().steps[5].uses, ElementsAre(kernel.block().steps[3].defines[1]));
}

TEST(RegisterUnits, PackingTwoFloatsIsOneStep) {
  const Kernel kernel("%tid = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()\n"
                      "%x = sitofp i32 %tid to float\n"
                      "%y = fadd float %x, 1.0\n"
                      "%hx = fptrunc float %x to half\n"
                      "%hy = fptrunc float %y to half\n"
                      "%low = insertelement <2 x half> poison, half %hx, i64 0\n"
                      "%both = insertelement <2 x half> %low, half %hy, i64 1\n"
                      "store <2 x half> %both, ptr addrspace(1) %a\nret void");
  ASSERT_EQ(kernel.block().steps.size(), 6u);
  EXPECT_EQ(kernel.block().steps[3].uses.size(), 2u);
  EXPECT_EQ(kernel.block().steps[3].defines.size(), 1u);
}

TEST(RegisterUnits, WhereRegistersAreShortPlacesAndSharesOfAWarpAreComputedAnew) {
  // A row of the thread, and two addresses that differ in what the warp has in common.
  const std::string body = "%tid = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()\n"
                           "%row = lshr i32 %tid, 3\n"
                           "%x = load i32, ptr addrspace(1) %a\n"
                           "%far = sext i32 %x to i64\n"
                           "%wide = mul i64 %far, %far\n"
                           "%id = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()\n"
                           "%p = getelementptr i32, ptr addrspace(1) %a, i64 %wide\n"
                           "%base = getelementptr i32, ptr addrspace(1) %a, i32 %id\n"
                           "%q = getelementptr i32, ptr addrspace(1) %base, i64 %wide\n"
                           "store i32 %row, ptr addrspace(1) %p\n"
                           "store i32 %row, ptr addrspace(1) %q\nret void";
  EXPECT_EQ(Kernel(body).graph.units, 9u); // tid, row, x, and three pairs
  const Kernel shorter(body, Room::Short);
  EXPECT_EQ(shorter.graph.units, 3u); // x and one pair
  const std::vector<Step> &steps = shorter.block().steps;
  ASSERT_EQ(steps.size(), 5u); // the load, the product, the stores and the return
  EXPECT_EQ(steps[2].uses, steps[1].defines);
  EXPECT_EQ(steps[3].uses, steps[1].defines);
  EXPECT_EQ(steps[3].scratch, 3u); // the address and the row, as long as the store takes
}

TEST(RegisterUnits, WhatTakesSeveralPlacesOrIsWideIsKept) {
  const Kernel kernel("%tid = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()\n"
                      "%row = lshr i32 %tid, 3\n"
                      "%both = xor i32 %tid, %row\n"
                      "%wide = zext i32 %row to i64\n"
                      "%n64 = sext i32 %n to i64\n"
                      "%offset = mul i64 %wide, %n64\n"
                      "%p = getelementptr i32, ptr addrspace(1) %a, i64 %offset\n"
                      "store i32 %both, ptr addrspace(1) %p\nret void",
                      Room::Short);
  EXPECT_EQ(kernel.graph.units, 3u);
}

TEST(RegisterUnits, NothingMovesPastADivision) {
  std::string text = eightLoads();
  text.insert(text.find("%y0"), "%d = fdiv float %x0, %x1\nstore float %d, ptr addrspace(1) %a\n");
  const Kernel kernel(text);
  EXPECT_GE(kernel.peakWithin(0), 8u);
}

TEST(ListSchedule, TakesNoMoreThanTheLimitWhereThatCanBe) {
  const Kernel kernel(eightLoads());
  EXPECT_GE(kernel.peakAsWritten(), 8u);
  EXPECT_LE(kernel.peakWithin(0), 5u);
  EXPECT_GE(kernel.peakWithin(100), 8u);
  EXPECT_LE(kernel.peakWithin(7), 7u);
}

TEST(ListSchedule, KeepsLoadsAheadOfWhatMayChangeThem) {
  std::string text = eightLoads();
  text.insert(text.find("%y0"), "call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)\n");
  const Kernel kernel(text);
  EXPECT_GE(kernel.peakWithin(0), 8u);
  for (unsigned limit : {0, 100}) {
    const std::vector<unsigned> order = listSchedule(kernel.block(), kernel.live[0], limit);
    std::vector<unsigned> place(order.size());
    for (unsigned i = 0; i < order.size(); ++i)
      place[order[i]] = i;
    for (unsigned i = 0; i < order.size(); ++i)
      for (unsigned before : kernel.block().steps[i].after)
        EXPECT_LT(place[before], place[i]);
  }
}

TEST(Liveness, LoopsKeepWhatTheyReadAgain) {
  const Kernel kernel("%tid = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()\n"
                      "%f = sitofp i32 %tid to float\n"
                      "%g = fmul float %f, %f\n"
                      "br label %loop\nloop:\n"
                      "%i = phi i32 [0, %entry], [%next, %loop]\n"
                      "%sum = phi float [0.0, %entry], [%more, %loop]\n"
                      "%more = fadd float %sum, %g\n"
                      "%next = add i32 %i, 1\n"
                      "%again = icmp slt i32 %next, %n\n"
                      "br i1 %again, label %loop, label %end\nend:\n"
                      "store float %more, ptr addrspace(1) %a\nret void");
  EXPECT_EQ(kernel.live[1].in.count(), 2u); // the sum and what is added, not the counter
  EXPECT_EQ(kernel.live[1].out.count(), 2u);
  EXPECT_EQ(kernel.peakAsWritten(1), 2u);
  EXPECT_EQ(kernel.live[2].in.count(), 1u);
}

TEST(RegisterEstimate, StaysWithinWhatABlockLeavesEachThread) {
  const Target target = llvm::cantFail(Target::get("sm_80"));
  EXPECT_EQ(registerLimit(target, 128), 255u);
  EXPECT_EQ(registerLimit(target, 384), 168u);
  EXPECT_EQ(registerLimit(target, 1024), 64u);
  Kernel kernel(eightLoads());
  const auto machine = llvm::cantFail(createTargetMachine(target));
  const RegisterEstimate estimate = estimateRegisters(*kernel.module, *machine, target, 1024);
  EXPECT_LE(estimate.fewest, 10u);
  EXPECT_GE(estimate.usual, 14u); // all loads first, as that costs no block
  EXPECT_LE(estimate.usual, 32u);
}

} // namespace
