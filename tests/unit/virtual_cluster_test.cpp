// Clusters: their registers, distributed shared memory, barriers, mbarriers of other blocks and
// multicast loads, under many schedules and on a chip, and the mistakes that the virtual GPU must
// find.
#include "VirtualTest.h"
#include "codegen/nvidia/Ptxas.h"
#include "vgpu/TensorMap.h"
#include <algorithm>

using namespace sectile::vgpu;

namespace {

constexpr uint64_t seeds = 20;

Runner clusterRunner(const std::string &text, uint64_t seed = 0, uint32_t size = 2,
                     uint32_t blocks = 4) {
  Runner runner(withLines(text));
  runner.chipTarget = "sm_90a";
  runner.shape.grid[0] = blocks;
  runner.shape.cluster[0] = size;
  runner.shape.block[0] = 32;
  runner.shape.sharedBytes = 4096 + 16;
  runner.options.seed = seed;
  runner.options.hostThreads = 1;
  return runner;
}

class ClusterShape : public ::testing::TestWithParam<std::pair<uint32_t, uint32_t>> {};

TEST_P(ClusterShape, RegistersSayWhereABlockIs) {
  const auto [width, height] = GetParam();
  const char *names[] = {"cluster.ctarank", "cluster.nctarank", "cluster.ctaid.x",
                         "cluster.ctaid.y", "cluster.nctaid.x", "cluster.nctaid.y",
                         "clusterid.x",     "clusterid.y",      "nclusterid.x",
                         "nclusterid.y"};
  std::string text = std::string(nvidiaHead) + R"(
define ptx_kernel void @k(ptr addrspace(1) %out) {
  %x = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %y = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.y()
  %down = mul i32 %y, 4
  %block = add i32 %down, %x
  %at = mul i32 %block, 10
)";
  for (int i = 0; i < 10; ++i) {
    const std::string n = std::to_string(i);
    text += "  %v" + n + " = call i32 @llvm.nvvm.read.ptx.sreg." + names[i] + "()\n  %i" + n +
            " = add i32 %at, " + n + "\n  %p" + n +
            " = getelementptr i32, ptr addrspace(1) %out, i32 %i" + n + "\n  store i32 %v" + n +
            ", ptr addrspace(1) %p" + n + ", align 4\n";
  }
  Runner runner(text + "  ret void\n}\n");
  runner.chipTarget = "sm_90a";
  runner.shape.grid[0] = 4;
  runner.shape.grid[1] = 6;
  runner.shape.cluster[0] = width;
  runner.shape.cluster[1] = height;
  auto *out = runner.allocate<uint32_t>(24 * 10);
  runner.expectClean(out);
  for (uint32_t y = 0; y < 6; ++y)
    for (uint32_t x = 0; x < 4; ++x) {
      const uint32_t expected[] = {x % width + y % height * width,
                                   width * height,
                                   x % width,
                                   y % height,
                                   width,
                                   height,
                                   x / width,
                                   y / height,
                                   4 / width,
                                   6 / height};
      EXPECT_TRUE(std::equal(expected, expected + 10, out + (y * 4 + x) * 10))
          << "block " << x << ", " << y;
    }
}

INSTANTIATE_TEST_SUITE_P(Shapes, ClusterShape,
                         ::testing::Values(std::pair(2u, 1u), std::pair(1u, 2u), std::pair(4u, 2u),
                                           std::pair(2u, 3u)));

// Each thread stores a number, and reads that of the lane in the other block of its cluster.
const std::string exchange = std::string(nvidiaHead) + R"(
define ptx_kernel void @k(ptr addrspace(1) %out, ptr addrspace(1) %more) {
  %i = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %block = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %rank = call i32 @llvm.nvvm.read.ptx.sreg.cluster.ctarank()
  %other = xor i32 %rank, 1
  %s = getelementptr i32, ptr addrspace(3) @sectile_shared, i32 %i
  %high = shl i32 %block, 8
  %value = or i32 %high, %i
  store i32 %value, ptr addrspace(3) %s, align 4 ;; 10
  call void @llvm.nvvm.barrier.cluster.arrive.aligned() ;; 11
  call void @llvm.nvvm.barrier.cluster.wait.aligned() ;; 12
  %t = call ptr addrspace(7) @llvm.nvvm.mapa.shared.cluster(ptr addrspace(3) %s, i32 %other)
  %v = load i32, ptr addrspace(7) %t, align 4 ;; 13
  ; BEFORE
  call void @llvm.nvvm.barrier.cluster.arrive.aligned() ;; 14
  call void @llvm.nvvm.barrier.cluster.wait.aligned() ;; 15
  %wide = shl i32 %block, 5
  %at = or i32 %wide, %i
  %p = getelementptr i32, ptr addrspace(1) %out, i32 %at
  store i32 %v, ptr addrspace(1) %p, align 4
  ret void
}
)";

const char firstArrive[] = "  call void @llvm.nvvm.barrier.cluster.arrive.aligned() ;; 11\n";
const char firstWait[] = "  call void @llvm.nvvm.barrier.cluster.wait.aligned() ;; 12\n";
const char lastArrive[] = "  call void @llvm.nvvm.barrier.cluster.arrive.aligned() ;; 14\n";
const char lastWait[] = "  call void @llvm.nvvm.barrier.cluster.wait.aligned() ;; 15\n";

void expectExchange(const std::string &text) {
  for (uint64_t seed = 0; seed < seeds; ++seed) {
    Runner runner = clusterRunner(text, seed);
    auto *out = runner.allocate<int>(128);
    runner.expectClean(out, runner.upload(std::vector<int>(128)));
    for (int i = 0; i < 128; ++i)
      ASSERT_EQ(out[i], ((i / 32) ^ 1) << 8 | i % 32) << "seed " << seed;
  }
}

// The kinds of findings that the mistake has under the schedules, which all find it unless
// `isLucky` lets some pass.
void expectMistake(const std::string &text, std::initializer_list<FindingKind> kinds,
                   bool isLucky = false) {
  unsigned found = 0;
  for (uint64_t seed = 0; seed < seeds; ++seed) {
    Runner runner = clusterRunner(text, seed);
    const LaunchResult result =
        runner.run(runner.allocate<int>(128), runner.upload(std::vector<int>(128)));
    found += bool(result.finding);
    if (result.finding) {
      EXPECT_NE(std::find(kinds.begin(), kinds.end(), result.finding->kind), kinds.end())
          << result.finding->text();
    }
  }
  if (isLucky) {
    EXPECT_GT(found, 0u);
  } else {
    EXPECT_EQ(found, seeds);
  }
}

TEST(Cluster, BlocksReadEachOthersSharedMemory) { expectExchange(exchange); }

TEST(Cluster, SharedMemoryOfOthersIsChecked) {
  const std::string none = replaced(replaced(exchange, firstArrive, ""), firstWait, "");
  expectMistake(none, {FindingKind::SharedRace, FindingKind::Uninitialized});
  // An arrival that releases nothing.
  expectMistake(replaced(exchange, firstArrive,
                         "  call void @llvm.nvvm.barrier.cluster.arrive.relaxed.aligned() ;; 11\n"),
                {FindingKind::SharedRace, FindingKind::Uninitialized});
  // A write of what the other block reads.
  const std::string store = "  store i32 0, ptr addrspace(3) %s, align 4 ;; 20\n";
  expectMistake(replaced(exchange, "  ; BEFORE\n", store), {FindingKind::SharedRace});
  expectExchange(replaced(exchange, lastWait, lastWait + store));
  // A rank that there is not.
  expectMistake(replaced(exchange, "%other = xor i32 %rank, 1", "%other = add i32 %rank, 2"),
                {FindingKind::BadSharedAddress});
}

TEST(Cluster, ABlockMustNotEndWhileItIsRead) {
  const std::string text = replaced(replaced(exchange, lastArrive, ""), lastWait, "");
  expectMistake(text, {FindingKind::BadSharedAddress}, /*isLucky=*/true);
}

TEST(Cluster, ArrivalsAndWaitsTakeTurns) {
  expectMistake(replaced(exchange, firstArrive, ""), {FindingKind::BadOperand});
  expectMistake(replaced(exchange, firstWait, ""),
                {FindingKind::BadOperand, FindingKind::SharedRace, FindingKind::Uninitialized});
  // One block that arrives less often.
  const std::string text = replaced(
      exchange, firstArrive,
      "  %isFirst = icmp eq i32 %rank, 0\n  br i1 %isFirst, label %go, label %end\nend:\n  ret "
      "void\ngo:\n" +
          std::string(firstArrive));
  expectMistake(text, {FindingKind::BadSharedAddress});
}

TEST(Cluster, OrdersGlobalMemory) {
  // The other block's number by way of global memory.
  std::string text = replaced(
      exchange, "  store i32 %value, ptr addrspace(3) %s, align 4 ;; 10\n",
      "  %mine = shl i32 %block, 5\n  %here = or i32 %mine, %i\n  %g = getelementptr i32, "
      "ptr addrspace(1) %more, i32 %here\n  store i32 %value, ptr addrspace(1) %g, align 4\n");
  text =
      replaced(text, "  %v = load i32, ptr addrspace(7) %t, align 4 ;; 13\n",
               "  %away = xor i32 %here, 32\n  %h = getelementptr i32, ptr addrspace(1) %more, i32 "
               "%away\n  %v = load i32, ptr addrspace(1) %h, align 4\n");
  expectExchange(text);
  expectMistake(replaced(replaced(text, firstArrive, ""), firstWait, ""),
                {FindingKind::GlobalRace});
}

TEST(Cluster, MustDivideTheGrid) {
  Runner runner = clusterRunner(exchange, 0, 3, 4);
  runner.expectFinding(FindingKind::BadOperand, 0, runner.allocate<int>(128), nullptr);
}

// The other block's stores are acquired from the cluster; @sectile.nv.mbarrier_wait acquires only
// what the own block and bulk copies have written.
const char pushWait[] = R"(
  br label %ask
ask:
  %done = call i1 @llvm.nvvm.mbarrier.try.wait.parity.scope.cluster.space.cta(ptr addrspace(3) %bar, i32 0) ;; 15
  br i1 %done, label %go, label %ask
go:
)";

// Each block stores to the other's shared memory, and arrives at the mbarrier there.
const std::string push = std::string(nvidiaHead) + R"(
define ptx_kernel void @k(ptr addrspace(1) %out, ptr addrspace(1) %more) {
entry:
  %i = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %block = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %rank = call i32 @llvm.nvvm.read.ptx.sreg.cluster.ctarank()
  %other = xor i32 %rank, 1
  %bar = getelementptr i8, ptr addrspace(3) @sectile_shared, i32 4096
  %s = getelementptr i32, ptr addrspace(3) @sectile_shared, i32 %i
  %high = shl i32 %block, 8
  %value = or i32 %high, %i
  %first = icmp eq i32 %i, 0
  br i1 %first, label %init, label %ready
init:
  call void @llvm.nvvm.mbarrier.init.shared(ptr addrspace(3) %bar, i32 32)
  call void @llvm.nvvm.fence.mbarrier_init.release.cluster()
  br label %ready
ready:
  call void @llvm.nvvm.barrier.cluster.arrive.aligned() ;; 11
  call void @llvm.nvvm.barrier.cluster.wait.aligned() ;; 12
  %t = call ptr addrspace(7) @llvm.nvvm.mapa.shared.cluster(ptr addrspace(3) %s, i32 %other)
  %away = call ptr addrspace(7) @llvm.nvvm.mapa.shared.cluster(ptr addrspace(3) %bar, i32 %other)
  store i32 %value, ptr addrspace(7) %t, align 4 ;; 13
  call void @llvm.nvvm.mbarrier.arrive.scope.cluster.space.cluster(ptr addrspace(7) %away, i32 1) ;; 14)" +
                         std::string(pushWait) + R"(
  %v = load i32, ptr addrspace(3) %s, align 4 ;; 16
  %wide = shl i32 %block, 5
  %at = or i32 %wide, %i
  %p = getelementptr i32, ptr addrspace(1) %out, i32 %at
  store i32 %v, ptr addrspace(1) %p, align 4
  ret void
}
)";

TEST(Cluster, ArrivalsAtOtherBlocksMbarriers) {
  expectExchange(push);
  expectMistake(replaced(push, pushWait, ""), {FindingKind::SharedRace, FindingKind::Uninitialized,
                                               FindingKind::BadSharedAddress});
  expectMistake(replaced(replaced(push, firstArrive, ""), firstWait, ""),
                {FindingKind::SharedRace, FindingKind::BadOperand});
}

// Rank 0 loads a tile into both blocks, each of which waits at its own mbarrier.
const std::string multicast = std::string(nvidiaHead) + R"(
declare void @sectile.nv.mbarrier_wait(ptr addrspace(3), i32) convergent
define ptx_kernel void @k(ptr byval([128 x i8]) align 64 "nvvm.grid_constant" %map, ptr addrspace(1) %out) {
entry:
  %i = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %block = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %rank = call i32 @llvm.nvvm.read.ptx.sreg.cluster.ctarank()
  %bar = getelementptr i8, ptr addrspace(3) @sectile_shared, i32 4096
  %s = getelementptr <4 x i32>, ptr addrspace(3) @sectile_shared, i32 %i
  %first = icmp eq i32 %i, 0
  br i1 %first, label %init, label %ready
init:
  call void @llvm.nvvm.mbarrier.init.shared(ptr addrspace(3) %bar, i32 1)
  call void @llvm.nvvm.fence.mbarrier_init.release.cluster() ;; 10
  %state = call i64 @llvm.nvvm.mbarrier.arrive.expect.tx.scope.cta.space.cta(ptr addrspace(3) %bar, i32 512)
  br label %ready
ready:
  call void @llvm.nvvm.barrier.cluster.arrive.aligned() ;; 11
  call void @llvm.nvvm.barrier.cluster.wait.aligned() ;; 12
  %either = or i32 %i, %rank
  %loads = icmp eq i32 %either, 0
  br i1 %loads, label %load, label %wait
load:
  %to = addrspacecast ptr addrspace(3) @sectile_shared to ptr addrspace(7)
  call void @llvm.nvvm.cp.async.bulk.tensor.g2s.tile.2d(ptr addrspace(7) %to, ptr addrspace(3) %bar, ptr %map, i32 0, i32 0, i16 3, i64 0, i1 true, i1 false, i32 0) ;; 13
  br label %wait
wait:
  call void @sectile.nv.mbarrier_wait(ptr addrspace(3) %bar, i32 0) ;; 14
  %v = load <4 x i32>, ptr addrspace(3) %s, align 16 ;; 15
  %wide = shl i32 %block, 5
  %at = or i32 %wide, %i
  %p = getelementptr <4 x i32>, ptr addrspace(1) %out, i32 %at
  store <4 x i32> %v, ptr addrspace(1) %p, align 16
  ret void
}
)";

// The map of a plane of 16 by 16 numbers, all of which the box covers.
TensorMap planeOfNumbers(Runner &runner) {
  std::vector<uint16_t> in(256);
  for (size_t i = 0; i < in.size(); ++i)
    in[i] = uint16_t(i * 3);
  TensorMap map;
  map.type = TensorType::U16;
  map.rank = 2;
  map.address = reinterpret_cast<uint64_t>(runner.upload(in));
  map.extents[0] = map.extents[1] = map.box[0] = map.box[1] = 16;
  map.strides[0] = 32;
  return TensorMap::encode(map);
}

TEST(Cluster, LoadsGoToSeveralBlocks) {
  for (uint64_t seed = 0; seed < seeds; ++seed) {
    Runner runner = clusterRunner(multicast, seed);
    const TensorMap map = planeOfNumbers(runner);
    auto *out = runner.allocate<uint16_t>(4 * 256);
    const Counters counters = runner.expectClean(map, out);
    for (size_t i = 0; i < 4 * 256; ++i)
      ASSERT_EQ(out[i], i % 256 * 3) << "seed " << seed << ", element " << i;
    // Global memory is read once for both.
    EXPECT_EQ(counters.asyncCopy.bytes, 2u * 512);
  }
}

TEST(Cluster, LoadsToSeveralBlocksAreChecked) {
  auto expectKind = [&](const std::string &text, FindingKind kind) {
    for (uint64_t seed = 0; seed < seeds; ++seed) {
      Runner runner = clusterRunner(text, seed);
      const TensorMap map = planeOfNumbers(runner);
      const LaunchResult result = runner.run(map, runner.allocate<uint16_t>(4 * 256));
      ASSERT_TRUE(result.finding) << "seed " << seed;
      EXPECT_EQ(kindName(result.finding->kind), std::string(kindName(kind)))
          << result.finding->text();
    }
  };
  expectKind(replaced(multicast, "i16 3, i64 0, i1 true", "i16 7, i64 0, i1 true"),
             FindingKind::BadOperand);
  // The mbarrier is to be the other block's as well.
  expectKind(replaced(replaced(multicast, "i16 3, i64 0, i1 true", "i16 0, i64 0, i1 false"),
                      "%to = addrspacecast ptr addrspace(3) @sectile_shared to ptr addrspace(7)",
                      "%to = call ptr addrspace(7) @llvm.nvvm.mapa.shared.cluster(ptr "
                      "addrspace(3) @sectile_shared, i32 1)"),
             FindingKind::BadOperand);
  // Only the own block gets it.
  expectKind(replaced(multicast, "i16 3, i64 0, i1 true", "i16 1, i64 0, i1 true"),
             FindingKind::Deadlock);
  expectKind(replaced(multicast,
                      "  call void @llvm.nvvm.fence.mbarrier_init.release.cluster() ;; 10\n", ""),
             FindingKind::MissingProxyFence);
}

TEST(Cluster, Assembles) {
  if (!sectile::findPtxas())
    GTEST_SKIP() << "no ptxas";
  const sectile::Target target = llvm::cantFail(sectile::Target::get("sm_90a"));
  for (const std::string &text : {exchange, push, multicast}) {
    std::string entry;
    const std::string ptx = assemble(text, target, entry);
    auto result = sectile::runPtxas(ptx, target);
    EXPECT_TRUE(bool(result)) << llvm::toString(result.takeError()) << ptx;
  }
}

} // namespace
