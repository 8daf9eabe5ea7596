// What the estimate of registers counts of LLVM IR.
#include "codegen/nvidia/RegisterEstimate.h"
#include "llvm/AsmParser/Parser.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/SourceMgr.h"
#include <gtest/gtest.h>

using namespace sectile;

namespace {

/// Of a kernel `k(ptr a, i32 n)` with this body.
nvidia::RegisterEstimate estimateOf(const std::string &body) {
  llvm::LLVMContext context;
  llvm::SMDiagnostic error;
  const auto module = llvm::parseAssemblyString(
      "target triple = \"nvptx64-nvidia-cuda\"\n"
      "target datalayout = \"e-p6:32:32-i64:64-i128:128-i256:256-v16:16-v32:32-n16:32:64\"\n"
      "@s = external addrspace(3) global [0 x i8]\n"
      "declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()\n"
      "declare void @llvm.nvvm.barrier.cta.sync.aligned.all(i32)\n"
      "define ptx_kernel void @k(ptr addrspace(1) %a, i32 %n) {\nentry:\n"
      "%tid = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()\n"
      "%q = getelementptr i8, ptr addrspace(3) @s, i32 %tid\n" +
          body + "\n}\n",
      error, context);
  if (!module)
    throw std::runtime_error(error.getMessage().str());
  return nvidia::estimateRegisters(*module);
}

/// Eight numbers, loaded one after the other and then stored, doubled.
std::string eightLoads(const std::string &between = "") {
  std::string loads, stores;
  for (int i = 0; i < 8; ++i) {
    const std::string n = std::to_string(i);
    loads += "%p" + n + " = getelementptr i8, ptr addrspace(3) %q, i32 " + std::to_string(4 * i) +
             "\n%x" + n + " = load float, ptr addrspace(3) %p" + n + "\n";
    stores += "%y" + n + " = fadd float %x" + n + ", %x" + n + "\nstore float %y" + n +
              ", ptr addrspace(1) %a\n";
  }
  return loads + between + stores + "ret void";
}

TEST(RegisterEstimate, CountsValuesByTheirBits) {
  const std::string none = "ret void";
  EXPECT_EQ(estimateOf(none).fewest, 0u);
  const std::string store = ", ptr addrspace(1) %a\nret void";
  const auto loaded = [&](const std::string &type) {
    return estimateOf("%x = load " + type +
                      ", ptr addrspace(3) %q\n"
                      "call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)\n"
                      "store " +
                      type + " %x" + store)
        .fewest;
  };
  EXPECT_EQ(loaded("half"), 1u);
  EXPECT_EQ(loaded("float"), 1u);
  EXPECT_EQ(loaded("i64"), 2u);
  EXPECT_EQ(loaded("ptr"), 2u);
  EXPECT_EQ(loaded("ptr addrspace(3)"), 1u);
  EXPECT_EQ(loaded("<4 x half>"), 2u);
  EXPECT_EQ(loaded("{i32, [3 x float], double}"), 6u);
  EXPECT_EQ(loaded("i1"), 0u) << "predicates have registers of their own";
}

TEST(RegisterEstimate, LoadsAreDoneWhenNeeded) {
  EXPECT_EQ(estimateOf(eightLoads()).fewest, 1u);
  EXPECT_EQ(
      estimateOf(eightLoads("call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)\n")).fewest,
      8u)
      << "not past a barrier";
}

TEST(RegisterEstimate, TheOrderAsWrittenCountsWhereItTakesLess) {
  // Sums of pairs take few registers as they are written. In the order of the stores, which begin
  // with the last, all that is loaded would be kept.
  std::string text, stores;
  for (int i = 0; i < 8; ++i) {
    const std::string n = std::to_string(i);
    text += "%x" + n + " = load <4 x float>, ptr addrspace(3) %q\n%e" + n +
            " = extractelement <4 x float> %x" + n + ", i32 0\n";
    stores += "store float %e" + n + ", ptr addrspace(1) %a\n";
  }
  const std::string barrier = "call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)\n";
  EXPECT_EQ(estimateOf(text + barrier + stores + "ret void").fewest, 11u) << "and not 32";
}

TEST(RegisterEstimate, IndicesAreComputedAnew) {
  const auto estimate = estimateOf("%wide = zext i32 %tid to i64\n"
                                   "br label %loop\nloop:\n"
                                   "%i = phi i64 [0, %entry], [%next, %loop]\n"
                                   "%p = getelementptr i32, ptr addrspace(1) %a, i64 %i\n"
                                   "store i32 %tid, ptr addrspace(1) %p\n"
                                   "%next = add i64 %i, %wide\n"
                                   "%again = icmp slt i64 %next, 1000\n"
                                   "br i1 %again, label %loop, label %end\nend:\nret void");
  EXPECT_EQ(estimate.fewest, 0u);
  EXPECT_GT(estimate.usual, 12u) << "but they are usually kept";
  // What is loaded is no index, nor what follows from it.
  EXPECT_EQ(estimateOf("%x = load i32, ptr addrspace(3) %q\n"
                       "%far = sext i32 %x to i64\n"
                       "%p = getelementptr i32, ptr addrspace(1) %a, i64 %far\n"
                       "store i32 %n, ptr addrspace(1) %p\nret void")
                .fewest,
            2u);
}

TEST(RegisterEstimate, LoopsKeepWhatTheyReadAgain) {
  const auto estimate = estimateOf("%f = load float, ptr addrspace(3) %q\n"
                                   "%wide = load <8 x float>, ptr addrspace(3) %q\n"
                                   "br label %loop\nloop:\n"
                                   "%i = phi i32 [0, %entry], [%next, %loop]\n"
                                   "%sum = phi float [0.0, %entry], [%more, %loop]\n"
                                   "%more = fadd float %sum, %f\n"
                                   "%next = add i32 %i, 1\n"
                                   "%again = icmp slt i32 %next, %n\n"
                                   "br i1 %again, label %loop, label %end\nend:\n"
                                   "store <8 x float> %wide, ptr addrspace(1) %a\n"
                                   "store float %more, ptr addrspace(1) %a\nret void");
  EXPECT_EQ(estimate.fewest, 10u) << "the sum, what is added, and what is stored afterwards";
}

// A wgmma changes sums where they are. Where they start at zero and are added to others, both kinds
// take registers.
TEST(RegisterEstimate, PromotedSumsTakeRegistersBesideTheOthers) {
  constexpr int count = 4; // of m64n8
  auto list = [](const std::string &type, const std::string &prefix) {
    std::string text;
    for (int i = 0; i < count; ++i)
      text += (i ? ", " : "") + type + (prefix.empty() ? "" : " " + prefix + std::to_string(i));
    return text;
  };
  auto loop = [&](bool promoted) {
    const std::string sums = "{" + list("float", "") + "}",
                      name = "@sectile.nv.wgmma.m64n8k32.f32.e4m3.e4m3.ss.00";
    std::string text = "%d = load i64, ptr addrspace(3) %q\nbr label %loop\nloop:\n"
                       "%i = phi i32 [0, %entry], [%next, %loop]\n";
    for (int i = 0; i < count; ++i) {
      const std::string n = std::to_string(i);
      text += "%s" + n + " = phi float [0.0, %entry], [%t" + n + ", %loop]\n";
    }
    text += "%p = call " + sums + " " + name + "(";
    for (int i = 0; i < count; ++i)
      text += promoted ? "float poison, " : "float %s" + std::to_string(i) + ", ";
    text += "i64 %d, i64 %d, i1 " + std::string(promoted ? "false" : "true") + ")\n";
    for (int i = 0; i < count; ++i) {
      const std::string n = std::to_string(i);
      text += "%e" + n + " = extractvalue " + sums + " %p, " + n + "\n";
    }
    text += "%w = call " + sums + " @sectile.nv.wgmma_wait.0.4f32(" + list("float", "%e") + ")\n";
    for (int i = 0; i < count; ++i) {
      const std::string n = std::to_string(i);
      text += "%x" + n + " = extractvalue " + sums + " %w, " + n + "\n%t" + n + " = fadd float %x" +
              n + ", " + (promoted ? "%s" + n : "0.0") + "\n";
    }
    text += "%next = add i32 %i, 1\n%again = icmp slt i32 %next, %n\n"
            "br i1 %again, label %loop, label %end\nend:\n";
    for (int i = 0; i < count; ++i)
      text += "store float %t" + std::to_string(i) + ", ptr addrspace(1) %a\n";
    return estimateOf(text + "ret void\n}\ndeclare " + sums + " " + name + "(" + list("float", "") +
                      ", i64, i64, i1)\ndeclare " + sums + " @sectile.nv.wgmma_wait.0.4f32(" +
                      list("float", "") + ")\ndefine void @unused() {\nret void")
        .fewest;
  };
  EXPECT_EQ(loop(true), loop(false) + count);
}

TEST(RegisterEstimate, LargeBlocksLeaveEachThreadFew) {
  const Target target = llvm::cantFail(Target::get("sm_80"));
  EXPECT_EQ(nvidia::registerLimit(target, 128), 255u);
  EXPECT_EQ(nvidia::registerLimit(target, 384), 168u);
  EXPECT_EQ(nvidia::registerLimit(target, 1024), 64u);
}

} // namespace
