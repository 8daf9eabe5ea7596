// Every target's LLVM back end, assembler and linker, fed with a small LLVM module.
#include "codegen/Optimizer.h"
#include "codegen/amd/CodeObject.h"
#include "codegen/nvidia/Ptxas.h"
#include "llvm/AsmParser/Parser.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Target/TargetMachine.h"
#include <gtest/gtest.h>

using namespace sectile;

namespace {

std::unique_ptr<llvm::Module> parse(const Target &target, llvm::LLVMContext &context) {
  std::string convention = target.vendor == Vendor::Nvidia ? "ptx_kernel" : "amdgpu_kernel";
  std::string text = "define " + convention + R"( void @twice(ptr addrspace(1) %p) {
    %x = load float, ptr addrspace(1) %p
    %y = fadd float %x, %x
    store float %y, ptr addrspace(1) %p
    ret void
  })";
  llvm::SMDiagnostic error;
  auto module = llvm::parseAssemblyString(text, error, context);
  EXPECT_TRUE(module) << error.getMessage().str();
  module->setTargetTriple(llvm::Triple(target.triple));
  return module;
}

class EveryTarget : public testing::TestWithParam<std::string> {};

TEST_P(EveryTarget, GivesLoadableCode) {
  Target target = cantFail(Target::get(GetParam()));
  llvm::LLVMContext context;
  auto module = parse(target, context);
  auto machine = cantFail(createTargetMachine(target));
  module->setDataLayout(machine->createDataLayout());
  optimize(*module, *machine);
  if (target.vendor == Vendor::Amd) {
    std::string object = cantFail(emitObject(*module, *machine));
    std::string linked = cantFail(linkCodeObject(object));
    EXPECT_EQ(linked.substr(0, 4), "\x7f"
                                   "ELF");
    EXPECT_NE(linked.find("twice.kd"), std::string::npos);
    return;
  }
  std::string ptx = cantFail(emitAssembly(*module, *machine));
  EXPECT_NE(ptx.find(".target " + target.cpu), std::string::npos) << ptx;
  if (!findPtxas())
    GTEST_SKIP() << "no ptxas on this machine";
  auto result = cantFail(runPtxas(ptx, target));
  EXPECT_GT(result.registers, 0u) << result.log;
  EXPECT_EQ(result.spillStoreBytes, 0u);
  EXPECT_EQ(result.cubin.substr(1, 3), "ELF");
}

std::vector<std::string> allTargets() {
  std::vector<std::string> names;
  for (llvm::StringRef name : Target::names())
    names.push_back(name.str());
  return names;
}
INSTANTIATE_TEST_SUITE_P(Targets, EveryTarget, testing::ValuesIn(allTargets()),
                         [](const auto &info) { return info.param; });

TEST(Ptxas, SaysWhatIsWrong) {
  if (!findPtxas())
    GTEST_SKIP() << "no ptxas on this machine";
  auto result = runPtxas("this is not PTX", cantFail(Target::get("sm_80")));
  ASSERT_FALSE(result);
  EXPECT_NE(toString(result.takeError()).find("ptxas failed"), std::string::npos);
}

TEST(TargetTable, UnknownNamesListTheKnown) {
  auto target = Target::get("sm_42");
  ASSERT_FALSE(target);
  std::string text = toString(target.takeError());
  EXPECT_NE(text.find("unknown target 'sm_42'"), std::string::npos);
  EXPECT_NE(text.find("gfx942"), std::string::npos);
}

TEST(TargetTable, NewerChipsGetTheNearestKnownFeatures) {
  const auto targetOf = [](unsigned major, unsigned minor) {
    return Chip::forComputeCapability(major, minor)->name;
  };
  EXPECT_EQ(targetOf(8, 7), "sm_86");
  EXPECT_EQ(targetOf(9, 0), "sm_90a");
  EXPECT_EQ(targetOf(10, 0), "sm_100a");
  EXPECT_EQ(targetOf(10, 3), "sm_103a");
  EXPECT_EQ(targetOf(12, 0), "sm_120a");
  // Code for one chip alone is not for its neighbours.
  EXPECT_EQ(targetOf(9, 1), "sm_90");
  EXPECT_EQ(targetOf(10, 1), "sm_100");
  EXPECT_EQ(targetOf(11, 0), "sm_100");
  EXPECT_EQ(targetOf(12, 1), "sm_120");
  EXPECT_EQ(targetOf(13, 0), "sm_120");
  EXPECT_EQ(Chip::forComputeCapability(7, 5), nullptr);
}

// A chip says what its instructions multiply, for those who have no table of instructions.
TEST(TargetTable, ChipsMultiplyWhatTheirInstructionsDo) {
  for (llvm::StringRef name : Target::names()) {
    const Target target = cantFail(Target::get(name));
    for (int element = 0; element <= static_cast<int>(MmaElement::I32); ++element) {
      const auto some = [&](auto &&condition) {
        return llvm::any_of(target.mmas, [&](const MmaInstruction &each) {
          return each.a == MmaElement(element) && condition(each);
        });
      };
      EXPECT_EQ(target.multiplies(MmaElement(element)), some([](auto &) { return true; }))
          << name.str() << " " << element;
      for (bool alongK : {false, true})
        EXPECT_EQ(target.warpgroupMultiplies(MmaElement(element), alongK),
                  some([&](const MmaInstruction &each) {
                    return each.warps() > 1 && (alongK || !each.onlyAlongK);
                  }))
            << name.str() << " " << element;
    }
  }
}

TEST(TargetTable, CodeForOneChipIsNamedSo) {
  for (llvm::StringRef name : Target::names())
    EXPECT_EQ(cantFail(Target::get(name)).isForOneChip,
              name.starts_with("sm_") && name.ends_with("a"))
        << name.str();
}

// Code generation waits for sums in registers, at once or for groups, and has warps issue them.
TEST(TargetTable, InstructionsAreThoseThatCodeIsMadeFor) {
  for (llvm::StringRef name : Target::names()) {
    const Target target = cantFail(Target::get(name));
    for (const MmaInstruction &each : target.mmas) {
      EXPECT_EQ(each.sumHome, SumHome::Registers) << name.str();
      EXPECT_NE(each.issuer, Issuer::Thread) << name.str();
      EXPECT_NE(each.completion, Completion::Mbarrier) << name.str();
      EXPECT_EQ(each.isAsynchronous(), each.issuer == Issuer::Warpgroup) << name.str();
      EXPECT_EQ(each.isAsynchronous(), each.bHome == OperandHome::Shared) << name.str();
    }
  }
}

} // namespace
