// Planted bugs that the virtual GPU must find, next to the correct kernels in which it must find
// nothing, under many schedules.
#include "VirtualTest.h"
#include "codegen/nvidia/Ptxas.h"
#include <climits>
#include <numeric>

using namespace sectile::vgpu;

namespace {

// 64 threads reverse 64 numbers through shared memory, twice, so that the second round writes what
// the first read.
const std::string reverse = std::string(nvidiaHead) + R"(
define ptx_kernel void @reverse(ptr addrspace(1) %x) {
entry:
  %i = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %j = sub i32 63, %i
  %p = getelementptr i32, ptr addrspace(1) %x, i32 %i
  %s = getelementptr i32, ptr addrspace(3) @sectile_shared, i32 %i
  %t = getelementptr i32, ptr addrspace(3) @sectile_shared, i32 %j
  br label %loop
loop:
  %n = phi i32 [ 0, %entry ], [ %m, %loop ]
  %v = load i32, ptr addrspace(1) %p, align 4 ;; 10
  store i32 %v, ptr addrspace(3) %s, align 4 ;; 11
  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0) ;; 12
  %w = load i32, ptr addrspace(3) %t, align 4 ;; 13
  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0) ;; 14
  store i32 %w, ptr addrspace(1) %p, align 4 ;; 15
  %m = add i32 %n, 1
  %more = icmp ult i32 %m, 2
  br i1 %more, label %loop, label %end
end:
  ret void
}
)";

std::vector<int> numbers(size_t count) {
  std::vector<int> values(count);
  std::iota(values.begin(), values.end(), 0);
  return values;
}

Runner reverseRunner(const std::string &text, uint64_t seed) {
  Runner runner(withLines(text));
  runner.shape.block[0] = 64;
  runner.shape.sharedBytes = 256;
  runner.options.seed = seed;
  return runner;
}

TEST(SharedMemory, CorrectKernelIsClean) {
  std::optional<Counters> first;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    Runner runner = reverseRunner(reverse, seed);
    int *x = runner.upload(numbers(64));
    Counters counters = runner.expectClean(x);
    EXPECT_EQ(std::vector<int>(x, x + 64), numbers(64));
    // The counters do not depend on the schedule.
    if (!first)
      first = counters;
    EXPECT_EQ(counters, *first);
    EXPECT_EQ(counters.barriers, 8u);
    EXPECT_EQ(counters.sharedLoad.requests, 4u);
    EXPECT_EQ(counters.sharedLoad.wavefronts, 4u);
  }
}

TEST(SharedMemory, RemovedFirstBarrierIsFound) {
  std::string text =
      replaced(reverse, "  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0) ;; 12\n", "");
  for (uint64_t seed = 0; seed < 10; ++seed) {
    Runner runner = reverseRunner(text, seed);
    LaunchResult result = runner.run(runner.upload(numbers(64)));
    ASSERT_TRUE(result.finding) << "seed " << seed;
    EXPECT_EQ(result.finding->kind, FindingKind::SharedRace) << result.finding->text();
    EXPECT_TRUE(result.finding->line == 11 || result.finding->line == 13) << result.finding->text();
  }
}

TEST(SharedMemory, RemovedSecondBarrierIsFound) {
  std::string text =
      replaced(reverse, "  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0) ;; 14\n", "");
  for (uint64_t seed = 0; seed < 10; ++seed) {
    Runner runner = reverseRunner(text, seed);
    runner.expectFinding(FindingKind::SharedRace, 0, runner.upload(numbers(64)));
  }
}

TEST(SharedMemory, ReadOfUnwrittenBytesIsFound) {
  std::string text = replaced(reverse, "  store i32 %v, ptr addrspace(3) %s, align 4 ;; 11\n", "");
  Runner runner = reverseRunner(text, 0);
  runner.expectFinding(FindingKind::Uninitialized, 13, runner.upload(numbers(64)));
}

TEST(SharedMemory, AddressBeyondTheArenaIsFound) {
  Runner runner = reverseRunner(reverse, 0);
  runner.shape.sharedBytes = 252;
  Finding finding =
      runner.expectFinding(FindingKind::BadSharedAddress, 11, runner.upload(numbers(64)));
  EXPECT_EQ(finding.thread, 63u);
}

TEST(SharedMemory, OrderWithinAWarpNeedsASync) {
  // One lane writes, its neighbour reads: bar.warp.sync orders them, a shuffle does not.
  std::string text = std::string(nvidiaHead) + R"(
define ptx_kernel void @k(ptr addrspace(1) %x) {
  %i = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %j = xor i32 %i, 1
  %s = getelementptr i32, ptr addrspace(3) @sectile_shared, i32 %i
  %t = getelementptr i32, ptr addrspace(3) @sectile_shared, i32 %j
  store i32 %i, ptr addrspace(3) %s, align 4 ;; 5
  call void @llvm.nvvm.bar.warp.sync(i32 -1) ;; 6
  %w = load i32, ptr addrspace(3) %t, align 4 ;; 7
  %p = getelementptr i32, ptr addrspace(1) %x, i32 %i
  store i32 %w, ptr addrspace(1) %p, align 4
  ret void
}
)";
  Runner good = reverseRunner(text, 0);
  good.shape.block[0] = 32;
  int *x = good.allocate<int>(32);
  good.expectClean(x);
  EXPECT_EQ(x[6], 7);
  Runner bad = reverseRunner(
      replaced(text, "call void @llvm.nvvm.bar.warp.sync(i32 -1)",
               "%u = call i32 @llvm.nvvm.shfl.sync.bfly.i32(i32 -1, i32 %i, i32 1, i32 31)"),
      0);
  bad.shape.block[0] = 32;
  bad.expectFinding(FindingKind::SharedRace, 7, bad.allocate<int>(32));
}

// Both ways in which kernels have atomic operations: LLVM's own, and PTX's under a predicate.
TEST(GlobalMemory, AtomicsAreCheckedAndCounted) {
  for (const char *add :
       {"atomicrmw add ptr addrspace(1) %p, i32 1 syncscope(\"agent\") monotonic, "
        "align 4 ;; 5",
        "call i32 @sectile.nv.atomic.gpu.add.u32(ptr addrspace(1) %p, i32 1, i1 "
        "true) ;; 5"}) {
    Runner runner = reverseRunner(std::string(nvidiaHead) + R"(
declare i32 @sectile.nv.atomic.gpu.add.u32(ptr addrspace(1), i32, i1)
define ptx_kernel void @k(ptr addrspace(1) %x, i32 %bytes) {
  %i = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %odd = and i32 %i, 1
  %o = mul i32 %odd, %bytes
  %p = getelementptr i8, ptr addrspace(1) %x, i32 %o
  %r = )" + add + R"(
  ret void
}
)",
                                  0);
    runner.shape.grid[0] = 50;
    runner.options.hostThreads = 4;
    int *x = runner.upload(std::vector<int>(2, 0));
    Counters counters = runner.expectClean(x, 4);
    EXPECT_EQ(x[0], 32 * 50);
    EXPECT_EQ(x[1], 32 * 50);
    EXPECT_EQ(counters.globalAtomic.requests, 2 * 50u);
    EXPECT_EQ(counters.globalAtomic.bytes, 64 * 4 * 50u);
    EXPECT_EQ(counters.globalAtomic.sectors, 2 * 50u);
    EXPECT_EQ(counters.globalStore.requests, 0u);
    EXPECT_NE(counters.text().find("global atomic"), std::string::npos);
    runner.expectFinding(FindingKind::Misaligned, 5, x, 2);
    Finding finding = runner.expectFinding(FindingKind::OutOfBounds, 5, x, 8);
    EXPECT_NE(finding.text().find("atomic of 4 bytes"), std::string::npos) << finding.text();
  }
}

TEST(SharedMemory, AtomicsDoNotRaceWithEachOther) {
  std::string text = std::string(nvidiaHead) + R"(
define ptx_kernel void @k(ptr addrspace(1) %x) {
  %i = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %first = icmp eq i32 %i, 0
  br i1 %first, label %init, label %go
init:
  store i32 0, ptr addrspace(3) @sectile_shared, align 4 ;; 3
  br label %go
go:
  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0) ;; 4
  %o = atomicrmw add ptr addrspace(3) @sectile_shared, i32 %i syncscope("block") monotonic, align 4 ;; 5
  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0) ;; 6
  %w = load i32, ptr addrspace(3) @sectile_shared, align 4 ;; 7
  %p = getelementptr i32, ptr addrspace(1) %x, i32 %i
  store i32 %w, ptr addrspace(1) %p, align 4 ;; 8
  ret void
}
)";
  Runner good = reverseRunner(text, 3);
  int *x = good.allocate<int>(64);
  good.expectClean(x);
  EXPECT_EQ(x[63], 63 * 32);
  Runner bad = reverseRunner(
      replaced(text, "  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0) ;; 6\n", ""), 3);
  bad.expectFinding(FindingKind::SharedRace, 0, bad.allocate<int>(64));
}

// Each thread copies 16 bytes to shared memory asynchronously and reads its neighbour's.
const std::string asyncCopy = std::string(nvidiaHead) + R"(
define ptx_kernel void @k(ptr addrspace(1) %x, ptr addrspace(1) %y, i32 %bytes) {
  %i = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %j = xor i32 %i, 33
  %p = getelementptr <4 x i32>, ptr addrspace(1) %x, i32 %i
  %q = getelementptr <4 x i32>, ptr addrspace(1) %y, i32 %i
  %s = getelementptr <4 x i32>, ptr addrspace(3) @sectile_shared, i32 %i
  %t = getelementptr <4 x i32>, ptr addrspace(3) @sectile_shared, i32 %j
  call void @llvm.nvvm.cp.async.cg.shared.global.16.s(ptr addrspace(3) %s, ptr addrspace(1) %p, i32 %bytes) ;; 5
  call void @llvm.nvvm.cp.async.commit.group()
  call void @llvm.nvvm.cp.async.commit.group()
  call void @llvm.nvvm.cp.async.wait.group(i32 1) ;; 6
  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0) ;; 7
  %w = load <4 x i32>, ptr addrspace(3) %t, align 16 ;; 8
  store <4 x i32> %w, ptr addrspace(1) %q, align 16 ;; 9
  ret void
}
)";

Runner asyncRunner(const std::string &text, uint64_t seed) {
  Runner runner = reverseRunner(text, seed);
  runner.shape.sharedBytes = 1024;
  return runner;
}

TEST(AsyncCopy, LandsWhenWaitedFor) {
  for (uint64_t seed = 0; seed < 10; ++seed) {
    Runner runner = asyncRunner(asyncCopy, seed);
    int *x = runner.upload(numbers(256)), *y = runner.allocate<int>(256);
    Counters counters = runner.expectClean(x, y, 16);
    for (int i = 0; i < 256; ++i)
      ASSERT_EQ(y[i], (i / 4 ^ 33) * 4 + i % 4);
    EXPECT_EQ(counters.asyncCopy.requests, 2u);
    EXPECT_EQ(counters.asyncCopy.sectors, 32u);
    EXPECT_EQ(counters.asyncCopy.bytes, 1024u);
    EXPECT_EQ(counters.asyncCopy.wavefronts, 8u);
    EXPECT_EQ(counters.asyncCopy.idealWavefronts, 8u);
  }
}

TEST(AsyncCopy, FillsTheRestWithZeros) {
  Runner runner = asyncRunner(asyncCopy, 0);
  // With eight bytes each, nothing beyond them is read: the last allocation may end there.
  int *x = runner.upload(numbers(254)), *y = runner.allocate<int>(256);
  runner.expectClean(x, y, 8);
  for (int i = 0; i < 256; ++i)
    ASSERT_EQ(y[i], i % 4 < 2 ? (i / 4 ^ 33) * 4 + i % 4 : 0);
  runner.expectClean(static_cast<int *>(nullptr), y, 0);
  EXPECT_EQ(y[100], 0);
  runner.expectFinding(FindingKind::OutOfBounds, 5, x, y, 16);
}

TEST(AsyncCopy, RemovedWaitIsFound) {
  std::string text =
      replaced(asyncCopy, "  call void @llvm.nvvm.cp.async.wait.group(i32 1) ;; 6\n", "");
  for (uint64_t seed = 0; seed < 10; ++seed) {
    Runner runner = asyncRunner(text, seed);
    runner.expectFinding(FindingKind::MissingWait, 8, runner.upload(numbers(256)),
                         runner.allocate<int>(256), 16);
  }
}

TEST(AsyncCopy, AWaitTooFewIsFound) {
  std::string text = replaced(asyncCopy, "wait.group(i32 1)", "wait.group(i32 2)");
  Runner runner = asyncRunner(text, 0);
  runner.expectFinding(FindingKind::MissingWait, 8, runner.upload(numbers(256)),
                       runner.allocate<int>(256), 16);
}

TEST(AsyncCopy, RemovedBarrierAfterTheWaitIsFound) {
  std::string text =
      replaced(asyncCopy, "  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0) ;; 7\n", "");
  for (uint64_t seed = 0; seed < 10; ++seed) {
    Runner runner = asyncRunner(text, seed);
    LaunchResult result = runner.run(runner.upload(numbers(256)), runner.allocate<int>(256), 16);
    ASSERT_TRUE(result.finding);
    EXPECT_TRUE(result.finding->kind == FindingKind::SharedRace ||
                result.finding->kind == FindingKind::MissingWait)
        << result.finding->text();
  }
}

// Without the checks a forgotten wait must not give the right result by luck.
TEST(AsyncCopy, UnlandedBytesAreGarbageWithoutChecks) {
  std::string text =
      replaced(asyncCopy, "  call void @llvm.nvvm.cp.async.wait.group(i32 1) ;; 6\n", "");
  Runner runner = asyncRunner(text, 0);
  runner.options.checks = false;
  int *x = runner.upload(numbers(256)), *y = runner.allocate<int>(256);
  runner.expectClean(x, y, 16);
  EXPECT_EQ(y[5], -1);
}

TEST(Barriers, AThreadThatLeavesIsFound) {
  // Threads with a negative argument exit before the barrier.
  std::string text =
      replaced(reverse, "  br label %loop\nloop:",
               "  %gone = icmp ugt i32 %i, 59\n  br i1 %gone, label %end, label %loop\nloop:");
  for (uint64_t seed = 0; seed < 5; ++seed) {
    Runner runner = reverseRunner(text, seed);
    Finding finding =
        runner.expectFinding(FindingKind::BarrierDivergence, 12, runner.upload(numbers(64)));
    EXPECT_NE(finding.message.find("60-63 have exited"), std::string::npos) << finding.text();
  }
}

TEST(Barriers, DifferentBarriersOfOneWarpAreFound) {
  std::string text = std::string(nvidiaHead) + R"(
define ptx_kernel void @k() {
  %i = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %low = icmp ult i32 %i, 16
  br i1 %low, label %one, label %two
one:
  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0) ;; 3
  br label %end
two:
  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0) ;; 5
  br label %end
end:
  ret void
}
)";
  Runner runner = reverseRunner(text, 0);
  runner.shape.block[0] = 32;
  Finding finding = runner.expectFinding(FindingKind::BarrierDivergence, 5);
  EXPECT_NE(finding.message.find("kernel.cpp:3"), std::string::npos) << finding.text();
}

TEST(Deadlock, SaysWhoWaitsForWhat) {
  // Warp 0 waits at barrier 1 for a second warp, which waits at barrier 2 for the first.
  std::string text = std::string(nvidiaHead) + R"(
define ptx_kernel void @k() {
  %i = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %low = icmp ult i32 %i, 32
  br i1 %low, label %one, label %two
one:
  call void @llvm.nvvm.barrier.cta.sync.aligned.count(i32 1, i32 64) ;; 3
  br label %end
two:
  %s = call i32 @llvm.nvvm.shfl.sync.idx.i32(i32 -1, i32 0, i32 0, i32 31)
  %half = icmp ult i32 %i, 48
  br i1 %half, label %some, label %end
some:
  call void @llvm.nvvm.bar.warp.sync(i32 -65536) ;; 5
  br label %end
end:
  ret void
}
)";
  Runner runner = reverseRunner(replaced(text, "i32 -65536", "i32 -1"), 0);
  // The upper half of warp 1 exits, so its lower half goes on; warp 0 never meets it.
  Finding left = runner.expectFinding(FindingKind::BarrierDivergence, 3);
  EXPECT_NE(left.message.find("32-63 have exited"), std::string::npos) << left.text();
  std::string stuck = replaced(
      text, "  br label %end\nend:",
      "  br label %wait\nwait:\n  %a = call i32 @llvm.nvvm.shfl.sync.idx.i32(i32 -1, i32 0, "
      "i32 0, i32 31) ;; 6\n  br label %end\nend:");
  stuck = replaced(stuck, "bar.warp.sync(i32 -65536)", "bar.warp.sync(i32 65535)");
  stuck = replaced(stuck, "label %some, label %end",
                   "label %some, label %other\nother:\n  call void "
                   "@llvm.nvvm.bar.warp.sync(i32 -1) ;; 7\n  br label %wait");
  stuck = replaced(stuck, "some:", "some:");
  Runner deadlocked = reverseRunner(stuck, 0);
  Finding finding = deadlocked.expectFinding(FindingKind::Deadlock, 0);
  EXPECT_NE(finding.message.find(
                "threads 0-31 wait at llvm.nvvm.barrier.cta.sync.aligned.count (kernel.cpp:3)"),
            std::string::npos)
      << finding.text();
  EXPECT_NE(finding.message.find("threads 48-63 wait at llvm.nvvm.bar.warp.sync (kernel.cpp:7)"),
            std::string::npos)
      << finding.text();
}

// Goes round for ever where %endless says so: without a call of the machine, and with a barrier.
const std::string endless = std::string(nvidiaHead) + R"(
define ptx_kernel void @k(ptr addrspace(1) %x, i32 %endless) {
entry:
  %i = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %b = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %base = mul i32 %b, 64
  %j = add i32 %base, %i
  %p = getelementptr i32, ptr addrspace(1) %x, i32 %j
  br label %loop
loop:
  %n = phi i32 [ 0, %entry ], [ %m, %loop ]
  %m = add i32 %n, 1 ;; 20
  %few = icmp ult i32 %m, 100 ;; 21
  %never = icmp ne i32 %endless, 0 ;; 21
  %more = or i1 %few, %never ;; 21
  br i1 %more, label %loop, label %end ;; 21
end:
  store i32 %m, ptr addrspace(1) %p, align 4
  ret void
}
)";

TEST(Deadline, EndsWhatNeverEnds) {
  const std::string withBarrier =
      replaced(endless, "  %m = add",
               "  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)\n"
               "  %m = add");
  for (const std::string &text : {endless, withBarrier})
    for (const bool checks : {false, true}) {
      Runner runner(withLines(text));
      runner.shape.block[0] = 64;
      runner.shape.grid[0] = 3;
      runner.options.checks = runner.options.counters = checks;
      runner.options.deadline = 0.2;
      int *x = runner.allocate<int>(3 * 64);
      const Finding finding = runner.expectFinding(FindingKind::TimedOut, 21, x, 1);
      EXPECT_NE(finding.text().find(": timed out: the launch did not end within 0.2 s"),
                std::string::npos)
          << finding.text();
      EXPECT_NE(finding.message.find(" is at loop (kernel.cpp:21); threads 0"), std::string::npos)
          << finding.text();
      EXPECT_NE(finding.message.find("; 0 of 3 blocks have ended"), std::string::npos)
          << finding.text();
      runner.expectClean(x, 0); // the machine is as good as before
      EXPECT_EQ(x[63], 100);
    }
}

// Whether accesses are counted or not: who polls does not keep the others from what it waits for.
TEST(Polling, LetsTheOthersRun) {
  const std::string text = std::string(nvidiaHead) + R"(
define ptx_kernel void @k(ptr addrspace(1) %x) {
entry:
  %i = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %waits = icmp eq i32 %i, 0
  br i1 %waits, label %poll, label %raise
poll:
  %flag = load volatile i32, ptr addrspace(1) %x, align 4
  %raised = icmp eq i32 %flag, 1
  br i1 %raised, label %end, label %poll
raise:
  store volatile i32 1, ptr addrspace(1) %x, align 4
  br label %end
end:
  ret void
}
)";
  for (const bool counters : {false, true}) {
    Runner runner(text);
    runner.shape.block[0] = 64;
    runner.options.checks = false; // they race
    runner.options.counters = counters;
    runner.options.deadline = 5;
    int *x = runner.upload(std::vector<int>{0});
    runner.expectClean(x);
    EXPECT_EQ(*x, 1);
  }
}

TEST(Deadline, IsThatOfAllBlocks) {
  Runner runner(withLines(endless));
  runner.shape.grid[1] = 1u << 30;
  runner.options.deadline = 0.2;
  runner.options.checks = false; // all write one element
  runner.expectFinding(FindingKind::TimedOut, 0, runner.allocate<int>(64), 0);
}

TEST(Global, MisalignedVectorsAreFound) {
  std::string text = std::string(nvidiaHead) + R"(
define ptx_kernel void @k(ptr addrspace(1) %x, i32 %offset) {
  %i = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %o = add i32 %i, %offset
  %p = getelementptr i32, ptr addrspace(1) %x, i32 %o
  %m = and i32 %i, 3
  %first = icmp eq i32 %m, 0
  br i1 %first, label %go, label %end
go:
  store <4 x i32> zeroinitializer, ptr addrspace(1) %p, align 16 ;; 4
  br label %end
end:
  ret void
}
)";
  Runner runner = reverseRunner(text, 0);
  int *x = runner.allocate<int>(128);
  runner.expectClean(x, 0);
  runner.expectClean(x, 4);
  Finding finding = runner.expectFinding(FindingKind::Misaligned, 4, x, 1);
  EXPECT_EQ(finding.thread, 0u);
}

TEST(Global, CountsSectorsOfStridedAccesses) {
  std::string text = std::string(nvidiaHead) + R"(
define ptx_kernel void @k(ptr addrspace(1) %x, i32 %stride) {
  %i = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %o = mul i32 %i, %stride
  %p = getelementptr float, ptr addrspace(1) %x, i32 %o
  store float 1.0, ptr addrspace(1) %p, align 4 ;; 4
  ret void
}
)";
  Runner runner = reverseRunner(text, 0);
  float *x = runner.allocate<float>(64 * 64);
  auto sectors = [&](int stride) {
    Counters counters = runner.expectClean(x, stride);
    EXPECT_EQ(counters.globalStore.requests, 2u);
    return counters.globalStore.sectors;
  };
  EXPECT_EQ(sectors(1), 8u);
  EXPECT_EQ(sectors(2), 16u);
  EXPECT_EQ(sectors(8), 64u);
  EXPECT_EQ(sectors(64), 64u);
  EXPECT_EQ(runner.expectClean(x, 64).globalStore.idealSectors, 8u);
  runner.options.checks = false; // all threads write one element
  EXPECT_EQ(sectors(0), 2u);
}

TEST(Shared, CountsBankConflicts) {
  std::string text = std::string(nvidiaHead) + R"(
define ptx_kernel void @k(i32 %stride) {
  %i = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %o = mul i32 %i, %stride
  %p = getelementptr TYPE, ptr addrspace(3) @sectile_shared, i32 %o
  store TYPE zeroinitializer, ptr addrspace(3) %p, align ALIGN ;; 4
  ret void
}
)";
  auto wavefronts = [&](const std::string &type, int align, int stride) {
    std::string variant = text;
    while (variant.find("TYPE") != std::string::npos)
      variant = replaced(variant, "TYPE", type);
    Runner runner = reverseRunner(replaced(variant, "ALIGN", std::to_string(align)), 0);
    runner.shape.block[0] = 32;
    runner.shape.sharedBytes = 65536;
    Counters counters = runner.expectClean(stride);
    EXPECT_EQ(counters.sharedStore.requests, 1u);
    EXPECT_EQ(counters.sharedStore.idealWavefronts, uint64_t(align) / 4) << type;
    return counters.sharedStore.wavefronts;
  };
  EXPECT_EQ(wavefronts("i32", 4, 1), 1u);
  EXPECT_EQ(wavefronts("i32", 4, 2), 2u);
  EXPECT_EQ(wavefronts("i32", 4, 32), 32u);
  EXPECT_EQ(wavefronts("i32", 4, 33), 1u);
  EXPECT_EQ(wavefronts("<2 x i32>", 8, 1), 2u);
  EXPECT_EQ(wavefronts("<2 x i32>", 8, 2), 4u);
  EXPECT_EQ(wavefronts("<4 x i32>", 16, 1), 4u);
  EXPECT_EQ(wavefronts("<4 x i32>", 16, 8), 32u);
  EXPECT_EQ(wavefronts("<4 x i32>", 16, 9), 4u);
}

TEST(Trap, NamesItsLine) {
  Runner runner = reverseRunner(
      replaced(reverse, "  br label %loop\nloop:",
               "  %odd = icmp eq i32 %i, 40\n  br i1 %odd, label %bad, label %loop\nbad:\n"
               "  call void @llvm.trap() ;; 20\n  unreachable\nloop:"),
      0);
  Finding finding = runner.expectFinding(FindingKind::Trap, 20, runner.upload(numbers(64)));
  EXPECT_EQ(finding.thread, 40u);
}

// The machine's own arithmetic would end the process.
TEST(Division, ByZeroIsATrap) {
  for (const char *operation : {"sdiv", "udiv", "srem", "urem"}) {
    const std::string text = withLines(std::string(nvidiaHead) + R"(
define ptx_kernel void @k(ptr addrspace(1) %x, i32 %by) {
  %i = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %p = getelementptr i32, ptr addrspace(1) %x, i32 %i
  %d = sub i32 %by, %i
  %v = )" + std::string(operation) +
                                       R"( i32 1000, %d ;; 10
  store i32 %v, ptr addrspace(1) %p, align 4
  ret void
}
)");
    for (const bool checks : {true, false}) {
      Runner runner(text);
      runner.onChip = false;
      runner.shape.block[0] = 32;
      runner.options.checks = runner.options.counters = checks;
      int *x = runner.allocate<int>(32);
      runner.expectClean(x, 100);
      const Finding finding = runner.expectFinding(FindingKind::Trap, 10, x, 5);
      EXPECT_EQ(finding.thread, 5u);
      EXPECT_EQ(finding.message, "an integer is divided by zero at division (kernel.cpp:10)");
    }
  }
}

TEST(Division, OfTheLowestByMinusOneIsATrap) {
  for (const char *operation : {"sdiv", "srem"}) {
    const std::string text = withLines(std::string(nvidiaHead) + R"(
define ptx_kernel void @k(ptr addrspace(1) %x, i32 %of, i32 %by) {
  %v = )" + std::string(operation) + R"( i32 %of, %by ;; 10
  store i32 %v, ptr addrspace(1) %x, align 4
  ret void
}
)");
    Runner runner(text);
    int *x = runner.allocate<int>(1);
    runner.expectClean(x, INT_MIN, 1);
    runner.expectClean(x, INT_MIN + 1, -1);
    runner.expectFinding(FindingKind::Trap, 10, x, INT_MIN, -1);
  }
}

// The finding is that of the first block, however many host threads there are.
TEST(Launch, FindingsAreDeterministic) {
  std::string text = std::string(nvidiaHead) + R"(
define ptx_kernel void @k(ptr addrspace(1) %x) {
  %i = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %p = getelementptr i32, ptr addrspace(1) %x, i32 %i
  store i32 %i, ptr addrspace(1) %p, align 4 ;; 4
  ret void
}
)";
  for (unsigned hostThreads : {1u, 2u, 4u})
    for (int round = 0; round < 5; ++round) {
      Runner runner = reverseRunner(text, 0);
      runner.shape.grid[0] = 300;
      runner.shape.block[0] = 1;
      runner.options.hostThreads = hostThreads;
      Finding finding = runner.expectFinding(FindingKind::OutOfBounds, 4, runner.allocate<int>(97));
      EXPECT_EQ(finding.block[0], 97u);
    }
}

// Of three warpgroups the first gives registers back, and the others take more of them.
const std::string registers = std::string(nvidiaHead) + R"(
define ptx_kernel void @k(ptr addrspace(1) %out) "nvvm.maxnreg"="168" {
  %i = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %few = icmp ult i32 %i, 128
  br i1 %few, label %give, label %take
give:
  call void @llvm.nvvm.setmaxnreg.dec.sync.aligned.u32(i32 40) ;; 10
  br label %end
take:
  call void @llvm.nvvm.setmaxnreg.inc.sync.aligned.u32(i32 232) ;; 11
  br label %end
end:
  %p = getelementptr i32, ptr addrspace(1) %out, i32 %i
  store i32 %i, ptr addrspace(1) %p, align 4
  ret void
}
)";

TEST(Registers, AreTakenFromThoseGivenBack) {
  auto expect = [](const std::string &text, std::optional<FindingKind> kind, uint32_t line) {
    for (uint64_t seed = 0; seed < 20; ++seed) {
      Runner runner(withLines(text));
      runner.chipTarget = "sm_90a";
      // The assembler drops the instructions from code that does not say how many it starts with.
      runner.onChip = text.find("maxnreg\"") != text.npos;
      runner.shape.block[0] = 384;
      runner.options.seed = seed;
      auto *out = runner.allocate<uint32_t>(384);
      if (kind)
        runner.expectFinding(*kind, line, out);
      else
        runner.expectClean(out);
    }
  };
  expect(registers, std::nullopt, 0);
  // The same without a statement: 65536 registers for 384 threads.
  expect(replaced(registers, " \"nvvm.maxnreg\"=\"168\"", ""), std::nullopt, 0);
  // Eight too many.
  expect(replaced(registers, "i32 40", "i32 48"), FindingKind::Deadlock, 11);
  expect(replaced(registers, "i32 232", "i32 240"), FindingKind::Deadlock, 11);
  expect(replaced(registers, "i32 232", "i32 160"), FindingKind::BadOperand, 11);
  expect(replaced(registers, "i32 40", "i32 176"), FindingKind::BadOperand, 10);
}

// The assembler may drop them, and then a chip has nothing to agree with.
TEST(Registers, Assemble) {
  if (!sectile::findPtxas())
    GTEST_SKIP() << "no ptxas";
  const sectile::Target target = llvm::cantFail(sectile::Target::get("sm_90a"));
  std::string entry;
  const auto result =
      llvm::cantFail(sectile::runPtxas(assemble(withLines(registers), target, entry), target));
  EXPECT_EQ(result.log.find("ignored"), std::string::npos) << result.log;
  EXPECT_EQ(result.registers, 168u);
}

} // namespace
