// The compiler driver end to end: a traced kernel to every form, and to a result on the virtual
// GPU.
#include "codegen/Compiler.h"
#include "codegen/nvidia/Ptxas.h"
#include "dsl/Trace.h"
#include "jit/Remarks.h"
#include "vgpu/Machine.h"
#include "vgpu/Program.h"
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <numeric>
#include <sectile/language.h>

using namespace sectile;
using testing::HasSubstr;

namespace {

struct Block {
  int size = 1024;
};

const auto vectorAdd = [](Ptr<const float> x, Ptr<const float> y, Ptr<float> z, Int n,
                          const Block &block) {
  auto i = program_id(0) * block.size + arange(0, block.size);
  auto inside = i < n;
  store(z + i, load(x + i, inside) + load(y + i, inside), inside);
};

mlir::OwningOpRef<mlir::ModuleOp> traceVectorAdd(mlir::MLIRContext *context) {
  using Signature = detail::Signature<decltype(vectorAdd)>;
  std::vector<detail::ArgSpecialization> specializations(4);
  for (auto &specialization : specializations)
    specialization.divisor = 16;
  Block block;
  return detail::trace(Signature::describe("vector_add", vectorAdd), specializations, &block,
                       context);
}

std::string emitted(const char *target, Form form) {
  ContextLease context;
  auto module = traceVectorAdd(context.get());
  return cantFail(compileTo(*module, cantFail(Target::get(target)), {}, form));
}

TEST(Compiler, EveryForm) {
  EXPECT_THAT(emitted("sm_80", Form::Tile), HasSubstr("tile.load"));
  EXPECT_THAT(emitted("sm_80", Form::Cta), HasSubstr("#cta.layout"));
  EXPECT_THAT(emitted("sm_80", Form::Llvm), HasSubstr("define"));
  EXPECT_THAT(emitted("gfx942", Form::Amdgcn), HasSubstr("s_endpgm"));
  EXPECT_EQ(emitted("gfx1100", Form::Hsaco).substr(1, 3), "ELF");
}

// The cache may have a kernel's code, and its remarks, from other lines.
TEST(Compiler, RemarksFollowTheirOperations) {
  const OperationLines before = {{"a.cpp", 3}, {"a.cpp", 5}, {"a.cpp", 5}, {"b.cpp", 9}};
  std::vector<Remark> remarks = {{"a.cpp", 5, "slow"}, {"b.cpp", 9, "slower"}, {"", 0, "all"}};
  attach(remarks, before);
  EXPECT_EQ(relocated(remarks, before), remarks);
  const std::vector<Remark> after =
      relocated(remarks, {{"c.cpp", 4}, {"c.cpp", 7}, {"c.cpp", 8}, {"b.cpp", 2}});
  EXPECT_EQ(runtime::textOf(after[0]), "c.cpp:7: remark: slow");
  EXPECT_EQ(runtime::textOf(after[1]), "b.cpp:2: remark: slower");
  EXPECT_EQ(runtime::textOf(after[2]), "remark: all");
}

TEST(Compiler, CtaSpellsEachLayoutOnce) {
  const std::string text = emitted("sm_80", Form::Cta);
  const auto [aliases, body] = llvm::StringRef(text).split("module attributes");
  EXPECT_TRUE(aliases.starts_with("#layout = #cta.layout<")) << aliases.str();
  EXPECT_TRUE(body.contains(", #layout>"));
  EXPECT_FALSE(body.contains("#cta.layout<"));
}

TEST(Compiler, PtxHasVectorsAndTheUsersLines) {
  std::string ptx = emitted("sm_90a", Form::Ptx);
  EXPECT_THAT(ptx, HasSubstr(".target sm_90a"));
  EXPECT_THAT(ptx, HasSubstr("ld.global.v4"));
  EXPECT_THAT(ptx, HasSubstr("compiler_test.cpp"));
  EXPECT_THAT(ptx, HasSubstr(".loc"));
  if (findPtxas()) {
    EXPECT_EQ(cantFail(assemble(ptx, cantFail(Target::get("sm_90a")), 0)).spillStoreBytes, 0u);
  }
}

class VirtualGpu : public testing::TestWithParam<const char *> {};

TEST_P(VirtualGpu, VectorAdd) {
  Target target = cantFail(Target::get(GetParam()));
  ContextLease context;
  auto module = traceVectorAdd(context.get());
  Artifact artifact = cantFail(compile(*module, target, {}, CodeFor::VirtualDevice));
  auto program = vgpu::Program::load(*vgpu::VirtualObject::deserialize(artifact.bytes));

  constexpr int n = 5008; // the specialisation promises a multiple of 16
  vgpu::Machine machine(target.warpSize);
  std::vector<float> x(n), y(n);
  std::iota(x.begin(), x.end(), 0.0f);
  std::iota(y.begin(), y.end(), 0.5f);
  auto allocate = [&](const std::vector<float> &data) {
    void *memory = machine.memory().allocate(n * sizeof(float));
    std::memcpy(memory, data.data(), n * sizeof(float));
    machine.memory().written(memory, n * sizeof(float));
    return static_cast<float *>(memory);
  };
  float *dx = allocate(x), *dy = allocate(y), *dz = allocate(std::vector<float>(n, -1.0f));
  int32_t count = n;
  void *arguments[] = {&dx, &dy, &dz, &count};
  vgpu::LaunchShape shape{{5, 1, 1}, {artifact.plan.threads, 1, 1}, artifact.plan.sharedBytes};
  vgpu::LaunchResult result = machine.launch(*program, shape, arguments);
  ASSERT_FALSE(result.finding) << result.finding->message;
  for (int i = 0; i < n; ++i)
    ASSERT_EQ(dz[i], x[i] + y[i]) << i;
  EXPECT_EQ(result.counters.globalLoad.sectors, result.counters.globalLoad.idealSectors);
}

INSTANTIATE_TEST_SUITE_P(Targets, VirtualGpu,
                         testing::Values("sm_80", "sm_90a", "gfx942", "gfx1100"),
                         [](const auto &info) { return std::string(info.param); });

} // namespace
