// The virtual GPU from end to end on small kernels: compile, load, launch, results, bounds.
#include "VirtualTest.h"
#include "codegen/virtual/HostLinker.h"
#include <numeric>

using namespace sectile::vgpu;

namespace {

// z[i] = x[i] + y[i] for i < n, with a source location on each access.
const std::string vectorAdd = R"(
define ptx_kernel void @vector_add(ptr addrspace(1) %x, ptr addrspace(1) %y, ptr addrspace(1) %z, i32 %n) #0 !dbg !4 {
  %tid = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %ntid = call i32 @llvm.nvvm.read.ptx.sreg.ntid.x()
  %ctaid = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %base = mul i32 %ctaid, %ntid
  %i = add i32 %base, %tid
  %inside = icmp slt i32 %i, %n
  br i1 %inside, label %body, label %exit
body:
  %px = getelementptr float, ptr addrspace(1) %x, i32 %i
  %py = getelementptr float, ptr addrspace(1) %y, i32 %i
  %pz = getelementptr float, ptr addrspace(1) %z, i32 %i
  %a = load float, ptr addrspace(1) %px, align 4, !dbg !5
  %b = load float, ptr addrspace(1) %py, align 4, !dbg !6
  %c = fadd float %a, %b
  store float %c, ptr addrspace(1) %pz, align 4, !dbg !7
  br label %exit
exit:
  ret void
}
attributes #0 = { "target-cpu"="sm_80" "target-features"="+ptx80" }
!llvm.dbg.cu = !{!0}
!llvm.module.flags = !{!3}
!0 = distinct !DICompileUnit(language: DW_LANG_C_plus_plus, file: !1, emissionKind: DebugDirectivesOnly)
!1 = !DIFile(filename: "kernel.cpp", directory: "/")
!3 = !{i32 2, !"Debug Info Version", i32 3}
!4 = distinct !DISubprogram(name: "vector_add", file: !1, line: 1, type: !DISubroutineType(types: !{}), unit: !0, spFlags: DISPFlagDefinition)
!5 = !DILocation(line: 11, column: 3, scope: !4)
!6 = !DILocation(line: 12, column: 3, scope: !4)
!7 = !DILocation(line: 13, column: 3, scope: !4)
)";

class VectorAdd : public ::testing::Test {
protected:
  Runner runner{nvidiaHead + vectorAdd};
  int n = 1000;
  std::vector<float> x = std::vector<float>(1000), y = std::vector<float>(1000, 0.5f);

  void SetUp() override {
    std::iota(x.begin(), x.end(), 0.0f);
    runner.shape.grid[0] = 8;
    runner.shape.block[0] = 128;
  }
};

TEST_F(VectorAdd, CountsWhatIsReadOfEachAllocation) {
  LaunchResult result =
      runner.run(runner.upload(x), runner.upload(y), runner.allocate<float>(1000), n);
  ASSERT_EQ(result.allocations.size(), 2u); // x and y, but not z
  for (const AllocationCounters &read : result.allocations)
    EXPECT_EQ(read.sectorsRead, 125u);
}

TEST_F(VectorAdd, GivesTheSum) {
  float *z = runner.allocate<float>(1000);
  Counters counters = runner.expectClean(runner.upload(x), runner.upload(y), z, n);
  for (int i = 0; i < n; ++i)
    ASSERT_EQ(z[i], float(i) + 0.5f);
  // 1000 threads of 4 bytes: 31 full warps, and one with 8 lanes.
  EXPECT_EQ(counters.globalLoad.requests, 64u);
  EXPECT_EQ(counters.globalLoad.bytes, 8000u);
  EXPECT_EQ(counters.globalLoad.sectors, 2 * 125u);
  EXPECT_EQ(counters.globalLoad.idealSectors, 2 * 125u);
  EXPECT_EQ(counters.globalStore.requests, 32u);
  EXPECT_EQ(counters.blocks, 8u);
  // 1024 threads run the first and the last block, 1000 the one between.
  EXPECT_EQ(counters.instructions, 1024u * (7 + 1) + 1000u * 8);
  ASSERT_EQ(counters.lines.size(), 3u);
  EXPECT_EQ(counters.lines[2].line, 13u);
  EXPECT_EQ(counters.lines[2].globalStore.bytes, 4000u);
}

TEST_F(VectorAdd, FindsAStoreOnePastTheEnd) {
  float *z = runner.allocate<float>(999);
  Finding finding =
      runner.expectFinding(FindingKind::OutOfBounds, 13, runner.upload(x), runner.upload(y), z, n);
  EXPECT_EQ(finding.block[0], 7u);
  EXPECT_EQ(finding.thread, 1000u - 7 * 128 - 1);
  EXPECT_NE(finding.text().find("0 bytes past the end of an allocation of 3996 bytes"),
            std::string::npos)
      << finding.text();
}

TEST_F(VectorAdd, FindsALoadOfFreedMemory) {
  float *z = runner.allocate<float>(1000), *gone = runner.upload(y);
  ASSERT_TRUE(runner.machine.memory().free(gone));
  runner.expectFinding(FindingKind::OutOfBounds, 12, runner.upload(x), gone, z, n);
}

TEST_F(VectorAdd, SurvivesSerialisation) {
  llvm::Expected<VirtualObject> object = compileText(nvidiaHead + vectorAdd);
  ASSERT_TRUE(bool(object));
  std::string bytes = object->serialize();
  auto again = VirtualObject::deserialize(bytes);
  ASSERT_TRUE(again);
  EXPECT_EQ(again->serialize(), bytes);
  EXPECT_EQ(again->kernel, "vector_add");
  EXPECT_FALSE(VirtualObject::deserialize(bytes.substr(0, bytes.size() - 1)));
  EXPECT_FALSE(VirtualObject::deserialize(bytes + "x"));
  EXPECT_FALSE(VirtualObject::deserialize("something else"));
  runner.program = Program::load(std::move(*again));
  float *z = runner.allocate<float>(1000);
  runner.expectClean(runner.upload(x), runner.upload(y), z, n);
  EXPECT_EQ(z[999], 999.5f);
}

// What a bundle has: it is linked, and imports nothing by name.
TEST_F(VectorAdd, ASharedObjectRunsAsTheOtherDoes) {
  const std::string text = nvidiaHead + vectorAdd;
  VirtualObject object = llvm::cantFail(compileText(text, {.cpu = portableCpu}));
  EXPECT_FALSE(object.isShared());
  object.object = llvm::cantFail(linkForBundle(object.object));
  object.hostCpu = portableHost();
  ASSERT_TRUE(object.isShared());
  // Several at once are several programs, and one that is gone leaves the others as they are.
  const auto first = Program::load(object);
  auto second = Program::load(object);
  EXPECT_NE(first->entry(), second->entry());
  second = Program::load(object);
  runner.program = std::move(second);
  float *z = runner.allocate<float>(1000);
  runner.expectClean(runner.upload(x), runner.upload(y), z, n);
  EXPECT_EQ(z[999], 999.5f);

  const auto refuses = [](VirtualObject given, const char *why) {
    try {
      Program::load(std::move(given));
      ADD_FAILURE() << why;
    } catch (const std::runtime_error &error) {
      EXPECT_NE(std::string(error.what()).find(why), std::string::npos) << error.what();
    }
  };
  VirtualObject other = object;
  other.hostCpu = std::string(portableCpu) + "-abi1";
  refuses(other, "it is for x86-64-v3-abi1");
  other = object;
  other.object.resize(100);
  refuses(other, "cannot");
  other = object;
  other.entry = "nothing";
  refuses(other, "it has no entry");
  other = llvm::cantFail(compileText(text, {.cpu = portableCpu}));
  refuses(other, "it was compiled for x86-64-v3"); // relocatable, and not for this machine
}

TEST(VirtualCompile, NamesWhatItDoesNotKnow) {
  auto fails = [](const std::string &body) {
    llvm::Expected<VirtualObject> object =
        compileText(std::string(nvidiaHead) +
                    "declare i32 @llvm.nvvm.read.ptx.sreg.pm0()\n"
                    "define ptx_kernel void @k() {\n" +
                    body + "  ret void\n}\n");
    return object ? std::string("compiled") : llvm::toString(object.takeError());
  };
  EXPECT_EQ(fails("  %1 = call i32 @llvm.nvvm.read.ptx.sreg.pm0()\n"),
            "the virtual GPU does not know llvm.nvvm.read.ptx.sreg.pm0");
  EXPECT_EQ(fails("  call void asm sideeffect \"nop;\", \"\"()\n"),
            "inline assembly cannot run on the virtual GPU: nop;");
  EXPECT_EQ(fails(""), "compiled");
}

} // namespace
