// The late passes together, on random kernels: what they make of a kernel computes the same, reads
// no address that the kernel does not read, and has no race.
#include "BlockMachine.h"
#include "ir/Dialects.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "passes/Passes.h"
#include <gmock/gmock.h>
#include <random>

using namespace mlir;
using namespace sectile;

namespace {

constexpr const char *prelude = R"(
#load = #cta.layout<"64x64, register [(0,1) (0,2) (0,4) (16,0) (32,0)], lane [(0,8) (0,16) (0,32) (1,0) (2,0)], warp [(4,0) (8,0)]">
#turned = #cta.layout<"64x64, register [(1,0) (2,0) (4,0) (0,16) (0,32)], lane [(8,0) (16,0) (32,0) (0,1) (0,2)], warp [(0,4) (0,8)]">
#flat = #cta.layout<"4096, register [(1) (2) (4) (1024) (2048)], lane [(8) (16) (32) (64) (128)], warp [(256) (512)]">
#acc = #cta.layout<"64x64, register [(0,1) (8,0) (0,16) (0,32) (32,0)], lane [(0,2) (0,4) (1,0) (2,0) (4,0)], warp [(16,0) (0,8)]">
#a = #cta.layout<"64x64, register [(0,1) (8,0) (0,8) (0,16) (0,32) (32,0)], lane [(0,2) (0,4) (1,0) (2,0) (4,0)], warp [(16,0) (0,0)]">
#b = #cta.layout<"64x64, register [(1,0) (8,0) (0,16) (0,32) (16,0) (32,0)], lane [(2,0) (4,0) (0,1) (0,2) (0,4)], warp [(0,0) (0,8)]">
!ptrs = tensor<64x64x!tile.ptr<f16>, #load>
!half = tensor<64x64xf16, #load>
!ints = tensor<64x64xi32, #load>
!acc = tensor<64x64xf32, #acc>
module attributes {cta.target = "sm_80"} {
func.func @kernel(%x: !tile.ptr<f16> {tile.divisible = 16 : i64}, %pages: !tile.ptr<i32>, %out: !tile.ptr<f32>,
                  %n0: i32, %n1: i32, %m0: i32, %m1: i32, %outer: i1, %inner: i1) attributes {cta.stages = STAGES : i32} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c64 = arith.constant 64 : i32
  %c4096 = arith.constant 4096 : i32
  %flat = tile.arange 0 : tensor<4096xi32, #flat>
  %index = tile.reshape %flat : tensor<4096xi32, #flat> -> !ints
  %xs = tile.splat %x : !tile.ptr<f16> -> !ptrs
  %p = tile.addptr %xs, %index : !ptrs, !ints
  %rows = arith.constant dense<4096> : !ints
  %acc0 = arith.constant dense<0.0> : !acc
  %v0 = tile.load %p : !ptrs -> !half
  %a = cta.convert_layout %v0 : !half -> tensor<64x64xf16, #a>
)";

/// Writes a random kernel: nested loops and branches around dots of loaded tiles.
class Writer {
public:
  explicit Writer(unsigned seed) : random(seed) {}

  std::string kernel() {
    std::string begin = prelude;
    begin.replace(begin.find("STAGES"), 6, std::to_string(pick(4) + 1));
    std::string acc = block(2, "%acc0", "%p", "%c1");
    line("%os = tile.splat %out : !tile.ptr<f32> -> tensor<64x64x!tile.ptr<f32>, #acc>");
    line("tile.store %os, " + acc + " : tensor<64x64x!tile.ptr<f32>, #acc>, !acc");
    return begin + text + "  return\n}\n}\n";
  }

private:
  unsigned pick(unsigned n) { return random() % n; }
  std::string fresh() { return "%t" + std::to_string(next++); }
  void line(const std::string &what) { text += "  " + what + "\n"; }
  std::string let(const std::string &what) {
    std::string name = fresh();
    line(name + " = " + what);
    return name;
  }

  // Some dots, loops and branches in a row. Gives the accumulator.
  std::string block(unsigned depth, std::string acc, const std::string &ptrs,
                    const std::string &i) {
    for (unsigned n = 1 + pick(3); n-- > 0;)
      switch (pick(depth ? 5 : 3)) {
      case 0:
      case 1:
        acc = dot(acc, ptrs, i);
        break;
      case 2:
        acc = pick(2) ? dot(acc, ptrs, i) : convert(acc);
        break;
      case 3:
        acc = loop(depth - 1, acc);
        break;
      case 4:
        acc = branch(depth - 1, acc, ptrs, i);
        break;
      }
    return acc;
  }

  std::string convert(const std::string &acc) {
    std::string there = let("cta.convert_layout " + acc + " : !acc -> tensor<64x64xf32, #load>");
    return let("cta.convert_layout " + there + " : tensor<64x64xf32, #load> -> !acc");
  }

  std::string loop(unsigned depth, const std::string &acc) {
    std::string result = fresh(), i = fresh(), inner = fresh(), ptrs = fresh();
    // Whether a loop runs says nothing of the loops in it.
    const std::string count = depth ? "%n" : "%m";
    line(result + ":2 = scf.for " + i + " = %c0 to " +
         (pick(2) ? count + "0 step %c1" : count + "1 step %c64") + " iter_args(" + inner + " = " +
         acc + ", " + ptrs + " = %p) -> (!acc, !ptrs) : i32 {");
    std::string last = block(depth, inner, ptrs, i);
    std::string moved = let("tile.addptr " + ptrs + ", %rows : !ptrs, !ints");
    line("scf.yield " + last + ", " + moved + " : !acc, !ptrs");
    line(pick(3) ? "}" : "} {cta.stages = " + std::to_string(1 + pick(4)) + " : i32}");
    return result + "#0";
  }

  std::string branch(unsigned depth, const std::string &acc, const std::string &ptrs,
                     const std::string &i) {
    std::string result = fresh();
    line(result + " = scf.if " + (depth ? "%outer" : "%inner") + " -> (!acc) {");
    std::string first = block(depth, acc, ptrs, i);
    line("scf.yield " + first + " : !acc");
    line("} else {");
    std::string second = block(depth, acc, ptrs, i);
    line("scf.yield " + second + " : !acc");
    line("}");
    return result;
  }

  // A load from somewhere, and a dot with it.
  std::string dot(const std::string &acc, const std::string &ptrs, const std::string &i) {
    std::string where = ptrs;
    std::string number = i;
    if (pick(3) == 0) {
      std::string page = let("tile.addptr %pages, " + i + " : !tile.ptr<i32>, i32");
      number = let("tile.load " + page + " : !tile.ptr<i32> -> i32");
    }
    if (pick(2)) {
      std::string offset = let("arith.muli " + number + ", %c4096 : i32");
      std::string offsets = let("tile.splat " + offset + " : i32 -> !ints");
      where = let("tile.addptr %p, " + offsets + " : !ptrs, !ints");
    }
    std::string tile;
    if (pick(3) == 0) {
      std::string few = let("arith.cmpi slt, " + i + ", %c64 : i32");
      std::string mask = let("tile.splat " + few + " : i1 -> tensor<64x64xi1, #load>");
      tile = let("tile.load " + where + " mask " + mask +
                 " : !ptrs mask tensor<64x64xi1, #load> -> !half");
    } else {
      tile = let("tile.load " + where + " : !ptrs -> !half");
    }
    if (pick(3) == 0) {
      tile = let("cta.convert_layout " + tile + " : !half -> tensor<64x64xf16, #turned>");
      tile = let("tile.permute " + tile + " [1, 0] : tensor<64x64xf16, #turned> -> !half");
    }
    std::string b = let("cta.convert_layout " + tile + " : !half -> tensor<64x64xf16, #b>");
    std::string result = acc;
    for (unsigned n = 1 + (pick(4) == 0); n-- > 0;)
      result = let("cta.dot %a, " + b + ", " + result +
                   " by [16, 8, 16] : tensor<64x64xf16, #a>, tensor<64x64xf16, #b>, !acc");
    return result;
  }

  std::mt19937 random;
  std::string text;
  unsigned next = 0;
};

/// On a chip with matrix instructions and asynchronous copies, and on one that has neither: there
/// dots read both operands from shared memory, and registers carry what is fetched ahead.
class StagingTest : public testing::TestWithParam<const char *> {
protected:
  StagingTest() {
    DialectRegistry registry;
    registerDialects(registry);
    context.appendDialectRegistry(registry);
    context.loadAllAvailableDialects();
    context.disableMultithreading();
  }

  static bool hasCopies() { return GetParam() == StringRef("sm_80"); }

  static std::string kernelOf(unsigned seed) {
    std::string text = Writer(seed).kernel();
    auto replaceAll = [&](StringRef from, StringRef to) {
      for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
        text.replace(at, from.size(), to);
    };
    replaceAll("sm_80", GetParam());
    if (!hasCopies())
      replaceAll(" by [16, 8, 16]", "");
    return text;
  }

  /// Runs the function of a module once.
  static BlockMachine execute(ModuleOp module, ArrayRef<int64_t> arguments) {
    BlockMachine machine;
    machine.run(*module.getOps<func::FuncOp>().begin(), arguments);
    return machine;
  }

  /// Addresses, lengths of loops and conditions of branches, in all mixtures.
  static std::vector<std::vector<int64_t>> argumentSets() {
    std::vector<std::vector<int64_t>> sets;
    for (auto [n0, m0] : {std::pair(0, 2), {1, 0}, {2, 5}, {5, 1}})
      for (auto [n1, m1] : {std::pair(0, 130), {70, 0}, {130, 320}, {320, 70}})
        for (int64_t conditions : {0, 1, 2, 3})
          sets.push_back({1 << 30, 5000, 7, n0, n1, m0, m1, conditions & 1, conditions >> 1});
    return sets;
  }

  OwningOpRef<ModuleOp> stage(ModuleOp module) {
    OwningOpRef<ModuleOp> copy = module.clone();
    PassManager manager(&context);
    OpPassManager &kernel = manager.nest<func::FuncOp>();
    kernel.addPass(createScheduleLoops());
    kernel.addPass(createStageOperands());
    kernel.addPass(createLowerChannels());
    kernel.addPass(createSimplify());
    kernel.addPass(createPlaceShared());
    kernel.addPass(createInsertBarriers());
    return succeeded(manager.run(*copy)) ? std::move(copy) : OwningOpRef<ModuleOp>();
  }

  MLIRContext context;
};

INSTANTIATE_TEST_SUITE_P(Targets, StagingTest, testing::Values("sm_80", "gfx1100"),
                         [](const auto &info) { return std::string(info.param); });

TEST_P(StagingTest, RandomKernelsComputeTheSameWithoutRaces) {
  unsigned copies = 0, channels = 0, compared = 0;
  for (unsigned seed = 0; seed < 300; ++seed) {
    std::string text = kernelOf(seed);
    OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(text, &context);
    ASSERT_TRUE(module) << text;
    OwningOpRef<ModuleOp> staged = stage(*module);
    if (!staged) // too many stages for the chip: an error of its own
      continue;
    staged->walk([&](cta::AsyncCopyOp) { ++copies; });
    staged->walk([&](cta::ChannelOp) { ++channels; });
    std::string result;
    llvm::raw_string_ostream(result) << *staged;
    for (const auto &arguments : argumentSets()) {
      BlockMachine before = execute(*module, arguments), after = execute(*staged, arguments);
      ASSERT_THAT(after.errors, testing::IsEmpty()) << "seed " << seed << "\n" << text << result;
      ASSERT_EQ(before.stores, after.stores) << "seed " << seed << "\n" << text << result;
      ASSERT_THAT(after.loaded, testing::IsSubsetOf(before.loaded)) << text << result;
      ++compared;
    }
  }
  // The test would say little if hardly any kernel got this far or had copies.
  EXPECT_GT(compared, 12000u);
  // Where registers fill them, many kernels have no room to keep all of their buffers.
  EXPECT_GT(channels, hasCopies() ? 250u : 80u);
  EXPECT_EQ(copies > 800, hasCopies()) << copies;
  EXPECT_EQ(copies == 0, !hasCopies()) << copies;
}

TEST_P(StagingTest, NoBarrierCanGo) {
  unsigned needed = 0, all = 0;
  for (unsigned seed = 0; seed < 100; ++seed) {
    OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(kernelOf(seed), &context);
    OwningOpRef<ModuleOp> staged = stage(*module);
    if (!staged)
      continue;
    SmallVector<cta::BarrierOp> barriers;
    staged->walk([&](cta::BarrierOp barrier) { barriers.push_back(barrier); });
    for (cta::BarrierOp barrier : barriers) {
      Operation *next = barrier->getNextNode();
      barrier->remove();
      needed += llvm::any_of(argumentSets(), [&](const auto &arguments) {
        return !execute(*staged, arguments).errors.empty();
      });
      ++all;
      next->getBlock()->getOperations().insert(Block::iterator(next), barrier);
    }
  }
  EXPECT_GT(all, 200u);
  EXPECT_EQ(needed, all);
}

} // namespace
