// Races in global memory and reads of what nothing wrote: planted, next to the correct kernels in
// which the virtual GPU must find nothing.
#include "VirtualTest.h"
#include <numeric>
#include <thread>

using namespace sectile::vgpu;

namespace {

constexpr char barrier[] = "  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)\n";
constexpr char warpSync[] = "  call void @llvm.nvvm.bar.warp.sync(i32 -1)\n";
constexpr char shuffle[] =
    "  %u = call i32 @llvm.nvvm.shfl.sync.bfly.i32(i32 -1, i32 %i, i32 1, i32 31)\n";

// A kernel over i32 *%x and *%y with this body; %i is the thread, %b the block, %p and %q are the
// addresses of %x[%i] and %y[%i].
std::string kernel(const std::string &body) {
  return withLines(std::string(nvidiaHead) + R"(
define ptx_kernel void @k(ptr addrspace(1) %x, ptr addrspace(1) %y) {
  %i = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %b = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %p = getelementptr i32, ptr addrspace(1) %x, i32 %i
  %q = getelementptr i32, ptr addrspace(1) %y, i32 %i
)" + body + "  ret void\n}\n");
}

std::vector<int> numbers(size_t count) {
  std::vector<int> values(count);
  std::iota(values.begin(), values.end(), 0);
  return values;
}

struct Launch {
  unsigned threads = 64, blocks = 1, hostThreads = 1;
  uint64_t seed = 0;
};

Runner runnerOf(const std::string &text, const Launch &how) {
  Runner runner(text);
  runner.shape.block[0] = how.threads;
  runner.shape.grid[0] = how.blocks;
  runner.shape.sharedBytes = 4096;
  runner.options.hostThreads = how.hostThreads;
  runner.options.seed = how.seed;
  return runner;
}

Finding findIn(const std::string &text, FindingKind kind, uint32_t line, const Launch &how = {}) {
  Runner runner = runnerOf(text, how);
  int *x = runner.upload(numbers(256)), *y = runner.upload(numbers(256));
  return runner.expectFinding(kind, line, x, y);
}

void expectClean(const std::string &text, const Launch &how = {}) {
  Runner runner = runnerOf(text, how);
  int *x = runner.upload(numbers(256)), *y = runner.upload(numbers(256));
  runner.expectClean(x, y);
}

// store(x + i, i); load(x + i + 1)
std::string shift(const std::string &between) {
  return kernel(R"(
  store i32 %i, ptr addrspace(1) %p, align 4 ;; 10
)" + between + R"(
  %next = getelementptr i32, ptr addrspace(1) %p, i32 1
  %v = load i32, ptr addrspace(1) %next, align 4 ;; 12
  store i32 %v, ptr addrspace(1) %q, align 4 ;; 13
)");
}

TEST(RacesInABlock, AShiftInPlaceNeedsABarrier) {
  for (uint64_t seed = 0; seed < 8; ++seed) {
    expectClean(shift(barrier), {.seed = seed});
    const Finding finding = findIn(shift(""), FindingKind::GlobalRace, 0, {.seed = seed});
    EXPECT_TRUE(finding.line == 10 || finding.line == 12) << finding.text();
  }
  const Finding finding = findIn(shift(""), FindingKind::GlobalRace, 10);
  EXPECT_EQ(finding.message,
            "store (kernel.cpp:10) of byte 4 of an allocation of 1024 is not ordered "
            "after a read by thread 0: load (kernel.cpp:12)");
}

TEST(RacesInABlock, WithinAWarpASyncIsEnoughAndAShuffleIsNot) {
  expectClean(shift(warpSync), {.threads = 32});
  findIn(shift(shuffle), FindingKind::GlobalRace, 0, {.threads = 32});
  findIn(shift(warpSync), FindingKind::GlobalRace, 0, {.threads = 64});
}

TEST(RacesInABlock, AReversalInPlaceNeedsABarrier) {
  auto reversal = [](const std::string &between) {
    return kernel(R"(
  %v = load i32, ptr addrspace(1) %p, align 4 ;; 10
)" + between + R"(
  %j = sub i32 63, %i
  %to = getelementptr i32, ptr addrspace(1) %x, i32 %j
  store i32 %v, ptr addrspace(1) %to, align 4 ;; 11
)");
  };
  expectClean(reversal(barrier));
  findIn(reversal(""), FindingKind::GlobalRace, 0);
}

TEST(RacesInABlock, ElementsOfATileThatMeet) {
  const std::string text = kernel(R"(
  %half = lshr i32 %i, 1
  %to = getelementptr i32, ptr addrspace(1) %x, i32 %half
  store i32 %i, ptr addrspace(1) %to, align 4 ;; 10
)");
  const Finding finding = findIn(text, FindingKind::GlobalRace, 10);
  EXPECT_EQ(finding.thread, 1u);
  EXPECT_EQ(finding.message,
            "store (kernel.cpp:10) of byte 0 of an allocation of 1024 is not ordered "
            "after a write by thread 0: store (kernel.cpp:10)");
}

TEST(RacesInABlock, BytesAreToldApart) {
  auto bytes = [](const std::string &between) {
    return kernel(R"(
  %to = getelementptr i8, ptr addrspace(1) %x, i32 %i
  %v = trunc i32 %i to i8
  store i8 %v, ptr addrspace(1) %to, align 1 ;; 10
)" + between + R"(
  %m = and i32 %i, 15
  %from = getelementptr <4 x i32>, ptr addrspace(1) %x, i32 0, i32 %m
  %w = load i32, ptr addrspace(1) %from, align 4 ;; 11
)");
  };
  expectClean(bytes(barrier));
  findIn(bytes(""), FindingKind::GlobalRace, 0);
}

TEST(RacesInABlock, ReadsByAllWarpsAreRemembered) {
  // Every thread reads x[0], then one of them writes it.
  for (int writer : {0, 40, 127}) {
    auto text = [&](const std::string &between) {
      return kernel(R"(
  %v = load i32, ptr addrspace(1) %x, align 4 ;; 10
)" + between + R"(
  %is = icmp eq i32 %i, )" +
                    std::to_string(writer) +
                    R"(
  br i1 %is, label %write, label %end
write:
  store i32 %v, ptr addrspace(1) %x, align 4 ;; 11
  br label %end
end:
)");
    };
    expectClean(text(barrier), {.threads = 128});
    findIn(text(""), FindingKind::GlobalRace, 0, {.threads = 128});
    findIn(text(warpSync), FindingKind::GlobalRace, 0, {.threads = 128});
  }
}

// Copies x[4 i …] to shared memory, and writes x between the two when `between` does.
std::string copies(const std::string &between, const std::string &after) {
  return kernel(R"(
  %i4 = mul i32 %i, 4
  %from = getelementptr i32, ptr addrspace(1) %x, i32 %i4
  %to = getelementptr i32, ptr addrspace(3) @sectile_shared, i32 %i4
  %k = xor i32 %i, OTHER
  %k4 = mul i32 %k, 4
  %other = getelementptr i32, ptr addrspace(1) %x, i32 %k4
  call void @llvm.nvvm.cp.async.cg.shared.global.16(ptr addrspace(3) %to, ptr addrspace(1) %from) ;; 10
)" + between + R"(
  call void @llvm.nvvm.cp.async.wait.all()
)" + after);
}

TEST(RacesInABlock, ACopyReadsUntilItHasLanded) {
  const std::string write = "  store i32 7, ptr addrspace(1) %other, align 4 ;; 11\n";
  for (const char *other : {"1", "0"}) { // another thread's source, and the own
    expectClean(replaced(copies("", barrier + write), "OTHER", other));
    const Finding finding = findIn(replaced(copies(barrier + write, barrier), "OTHER", other),
                                   FindingKind::GlobalRace, 10);
    EXPECT_NE(finding.message.find("a write by thread"), std::string::npos) << finding.text();
  }
  findIn(replaced(copies("", write), "OTHER", "1"), FindingKind::GlobalRace, 0);
}

TEST(RacesBetweenBlocks, OneElementWrittenByAll) {
  const std::string text = kernel("  store i32 %b, ptr addrspace(1) %x, align 4 ;; 10\n");
  for (unsigned hostThreads : {1u, 4u}) {
    const Launch how{.threads = 1, .blocks = 8, .hostThreads = hostThreads};
    const Finding finding = findIn(text, FindingKind::GlobalRace, 10, how);
    EXPECT_NE(finding.message.find("a write by thread 0 of block ("), std::string::npos)
        << finding.text();
  }
  expectClean(text, {.threads = 1});
}

TEST(RacesBetweenBlocks, ReadsThatAnotherBlockWrites) {
  // Block b writes x[b] and reads x[b + 1].
  const std::string text = kernel(R"(
  %own = getelementptr i32, ptr addrspace(1) %x, i32 %b
  %next = getelementptr i32, ptr addrspace(1) %own, i32 1
  %v = load i32, ptr addrspace(1) %next, align 4 ;; 10
  store i32 %b, ptr addrspace(1) %own, align 4 ;; 11
)");
  findIn(text, FindingKind::GlobalRace, 11, {.threads = 1, .blocks = 2});
  // It says more than that nothing had written what was read.
  Runner runner = runnerOf(text, {.threads = 1, .blocks = 2});
  int *x = runner.allocate<int>(256);
  runner.machine.memory().written(x + 2, 4);
  runner.expectFinding(FindingKind::GlobalRace, 11, x, x);
}

TEST(RacesBetweenBlocks, AtomicsRaceWithPlainAccessesOnly) {
  const std::string add =
      "  %old = atomicrmw add ptr addrspace(1) %x, i32 1 monotonic, align 4 ;; 10\n";
  const Launch how{.blocks = 4};
  expectClean(kernel(add), how);
  findIn(kernel(add + "  %v = load i32, ptr addrspace(1) %x, align 4 ;; 11\n"),
         FindingKind::GlobalRace, 0, how);
  findIn(kernel("  %v = load i32, ptr addrspace(1) %x, align 4 ;; 11\n" + add),
         FindingKind::GlobalRace, 0, how);
  // A volatile load is there to see what others write.
  expectClean(kernel(add + "  %v = load volatile i32, ptr addrspace(1) %x, align 4 ;; 11\n"), how);
}

// Block b writes y[b]; the last one to count in x[0] reads all of y.
const std::string lastBlock = R"(
  %own = getelementptr i32, ptr addrspace(1) %y, i32 %b
  store i32 %b, ptr addrspace(1) %own, align 4 ;; 10
  fence syncscope("device") release
  %old = atomicrmw add ptr addrspace(1) %x, i32 1 syncscope("device") monotonic, align 4 ;; 11
  fence syncscope("device") acquire
  %last = icmp eq i32 %old, 7
  br i1 %last, label %read, label %end
read:
  %v = load <4 x i32>, ptr addrspace(1) %y, align 16 ;; 12
  br label %end
end:
)";

TEST(RacesBetweenBlocks, ReleaseAndAcquireOrder) {
  for (unsigned hostThreads : {1u, 4u}) {
    const Launch how{.threads = 1, .blocks = 8, .hostThreads = hostThreads};
    expectClean(kernel(lastBlock), how);
    for (const char *fence :
         {"  fence syncscope(\"device\") release\n", "  fence syncscope(\"device\") acquire\n"}) {
      findIn(kernel(replaced(lastBlock, fence, "")), FindingKind::GlobalRace, 12, how);
      // Among one block's threads only.
      std::string narrow = fence;
      narrow = replaced(narrow, "device", "block");
      findIn(kernel(replaced(lastBlock, fence, narrow)), FindingKind::GlobalRace, 12, how);
    }
    // An order that the operation itself asks for.
    std::string whole = replaced(lastBlock, "  fence syncscope(\"device\") release\n", "");
    whole = replaced(whole, "  fence syncscope(\"device\") acquire\n", "");
    expectClean(kernel(replaced(whole, "monotonic", "acq_rel")), how);
    findIn(kernel(replaced(whole, "monotonic", "release")), FindingKind::GlobalRace, 12, how);
  }
}

// A block waits for what another one would do if that had not stopped with a finding.
TEST(Findings, EndBlocksThatWaitForTheOneThatHasStopped) {
  const std::string text = kernel(R"(
  %mine = getelementptr i32, ptr addrspace(1) %x, i32 %b
  store volatile i32 1, ptr addrspace(1) %mine, align 4
  %other = sub i32 1, %b
  %theirs = getelementptr i32, ptr addrspace(1) %x, i32 %other
  br label %meet
meet:
  %v = load volatile i32, ptr addrspace(1) %theirs, align 4
  %come = icmp eq i32 %v, 1
  br i1 %come, label %both, label %meet
both:
  %stops = icmp eq i32 %b, STOPS
  br i1 %stops, label %stop, label %wait
stop:
  %outside = getelementptr i32, ptr addrspace(1) %y, i32 -1
  store i32 1, ptr addrspace(1) %outside, align 4 ;; 20
  store volatile i32 2, ptr addrspace(1) %mine, align 4
  br label %end
wait:
  %w = load volatile i32, ptr addrspace(1) %theirs, align 4 ;; 21
  %done = icmp eq i32 %w, 2
  br i1 %done, label %end, label %wait
end:
)");
  for (const char *stops : {"0", "1"}) {
    Runner runner =
        runnerOf(replaced(text, "STOPS", stops), {.threads = 1, .blocks = 2, .hostThreads = 2});
    int *x = runner.upload(std::vector<int>(2)), *y = runner.upload(std::vector<int>(2));
    runner.expectFinding(FindingKind::OutOfBounds, 20, x, y);
  }
}

TEST(RacesBetweenBlocks, TheLastBlockMayResetTheCounter) {
  const std::string load = "  %v = load <4 x i32>, ptr addrspace(1) %y, align 16 ;; 12\n";
  const std::string reset =
      replaced(lastBlock, load, load + "  store i32 0, ptr addrspace(1) %x, align 4 ;; 13\n");
  for (unsigned hostThreads : {1u, 4u}) {
    const Launch how{.threads = 1, .blocks = 8, .hostThreads = hostThreads};
    expectClean(kernel(reset), how);
    findIn(
        kernel(replaced(replaced(reset, "  fence syncscope(\"device\") release\n", ""), load, "")),
        FindingKind::GlobalRace, 13, how);
  }
}

TEST(RacesBetweenBlocks, WhatComesAfterTheReleaseIsNotReleased) {
  const std::string store = "  store i32 %b, ptr addrspace(1) %own, align 4 ;; 10\n";
  const std::string fence = "  fence syncscope(\"device\") release\n";
  const std::string late = replaced(lastBlock, store + fence, fence + store);
  findIn(kernel(late), FindingKind::GlobalRace, 12, {.threads = 1, .blocks = 8});
}

TEST(RacesBetweenBlocks, BarriersPassOnWhatOneThreadAcquired) {
  // All threads write, the first one counts for the block, all threads of the last block read
  // what two blocks wrote, at least one of them another.
  auto text = [](const std::string &before, const std::string &after) {
    return kernel(R"(
  %base = mul i32 %b, 64
  %j = add i32 %base, %i
  %own = getelementptr i32, ptr addrspace(1) %y, i32 %j
  store i32 %b, ptr addrspace(1) %own, align 4 ;; 10
)" + before + R"(
  %first = icmp eq i32 %i, 0
  br i1 %first, label %count, label %counted
count:
  %old = atomicrmw add ptr addrspace(1) %x, i32 1 syncscope("device") acq_rel, align 4 ;; 11
  store i32 %old, ptr addrspace(3) @sectile_shared, align 4
  br label %counted
counted:
)" + after + R"(
  %found = load i32, ptr addrspace(3) @sectile_shared, align 4
  %last = icmp eq i32 %found, 3
  br i1 %last, label %read, label %end
read:
  %v = load i32, ptr addrspace(1) %q, align 4 ;; 12
  %second = getelementptr i32, ptr addrspace(1) %q, i32 64
  %w = load i32, ptr addrspace(1) %second, align 4 ;; 12
  br label %end
end:
)");
  };
  for (unsigned hostThreads : {1u, 3u}) {
    Runner clean = runnerOf(text(barrier, barrier), {.blocks = 4, .hostThreads = hostThreads});
    int *count = clean.upload(std::vector<int>{0}), *y = clean.allocate<int>(256);
    clean.expectClean(count, y);
    Runner racy = runnerOf(text("", barrier), {.blocks = 4, .hostThreads = hostThreads});
    count = racy.upload(std::vector<int>{0}), y = racy.allocate<int>(256);
    // Which of the two is the second one is decided by the host's threads.
    const Finding race =
        racy.expectFinding(FindingKind::GlobalRace, hostThreads == 1 ? 12 : 0, count, y);
    EXPECT_THAT(race.line, testing::AnyOf(10, 12)) << race.text();
  }
}

TEST(Launches, FollowEachOther) {
  // The second launch reads and writes what other threads wrote in the first.
  Runner runner = runnerOf(kernel(R"(
  %j = sub i32 63, %i
  %from = getelementptr i32, ptr addrspace(1) %y, i32 %j
  %v = load i32, ptr addrspace(1) %from, align 4 ;; 10
  store i32 %v, ptr addrspace(1) %p, align 4 ;; 11
)"),
                           {});
  int *x = runner.allocate<int>(64), *y = runner.upload(numbers(64));
  runner.expectClean(x, y);
  runner.expectClean(y, x);
  EXPECT_EQ(y[5], 5);
}

TEST(Uninitialised, ReadsAreFound) {
  const std::string text = kernel(R"(
  %v = load i32, ptr addrspace(1) %q, align 4 ;; 10
  store i32 %v, ptr addrspace(1) %p, align 4 ;; 11
)");
  Runner runner = runnerOf(text, {});
  int *x = runner.allocate<int>(64), *y = runner.allocate<int>(64);
  Finding finding = runner.expectFinding(FindingKind::Uninitialized, 10, x, y);
  EXPECT_EQ(finding.thread, 0u);
  EXPECT_EQ(finding.message,
            "load (kernel.cpp:10) of byte 0 of an allocation of 256, which nothing has written");
  DeviceMemory &memory = runner.machine.memory();
  memory.written(y, 4 * 40 + 2);
  finding = runner.expectFinding(FindingKind::Uninitialized, 10, x, y);
  EXPECT_EQ(finding.thread, 40u);
  EXPECT_NE(finding.message.find("byte 162 of"), std::string::npos) << finding.text();
  memory.written(y, 256);
  runner.expectClean(x, y); // and now a kernel has written x
  runner.expectClean(y, x);
  // Copies carry it along.
  int *z = runner.allocate<int>(64), *none = runner.allocate<int>(64);
  memory.copied(z, y, 256);
  runner.expectClean(x, z);
  memory.copied(z + 3, none, 4);
  finding = runner.expectFinding(FindingKind::Uninitialized, 10, x, z);
  EXPECT_EQ(finding.thread, 3u);
}

TEST(Uninitialised, WhatIsMaskedOffIsNotRead) {
  const std::string text = withLines(std::string(nvidiaHead) + R"(
declare i32 @sectile.nv.load.i32.0(ptr addrspace(1), i1, i32)
define ptx_kernel void @k(ptr addrspace(1) %x, i32 %n) {
  %i = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %p = getelementptr i32, ptr addrspace(1) %x, i32 %i
  %in = icmp slt i32 %i, %n
  %v = call i32 @sectile.nv.load.i32.0(ptr addrspace(1) %p, i1 %in, i32 0) ;; 10
  ret void
}
)");
  Runner runner = runnerOf(text, {});
  runner.onChip = false; // it has a pseudo-intrinsic
  int *x = runner.allocate<int>(64);
  runner.machine.memory().written(x, 4 * 20);
  runner.expectClean(x, 20);
  runner.expectFinding(FindingKind::Uninitialized, 10, x, 21);
}

TEST(WrittenBytes, CopiesOfAnyAlignment) {
  for (size_t to : {0u, 1u, 63u, 70u})
    for (size_t from : {0u, 5u, 64u, 90u}) {
      WrittenBytes bytes(400);
      bytes.mark(from, 100);
      bytes.mark(to, 200);
      WrittenBytes source(400);
      source.mark(from + 10, 130);
      bytes.copy(to, source, from, 150);
      EXPECT_EQ(bytes.firstUnwritten(to, 200), to);
      EXPECT_EQ(bytes.firstUnwritten(to + 10, 190), to + 140);
      EXPECT_EQ(bytes.firstUnwritten(to + 150, 50), to + 200);
    }
  WrittenBytes bytes(300); // onto itself
  bytes.mark(0, 100);
  bytes.copy(50, bytes, 0, 200);
  EXPECT_EQ(bytes.firstUnwritten(0, 300), 150u);
}

// A kernel of gfx942 that copies i32 *%x to *%y through resources, at the byte offset %from of the
// one and %to of the other.
std::string bufferKernel(const std::string &offsets) {
  return withLines(std::string(amdHead) + R"(
define amdgpu_kernel void @k(ptr addrspace(1) %x, ptr addrspace(1) %y) {
  %i = call i32 @llvm.amdgcn.workitem.id.x()
  %byte = shl i32 %i, 2
)" + offsets + R"(
  %r = call ptr addrspace(8) @llvm.amdgcn.make.buffer.rsrc.p8.p1(ptr addrspace(1) %x, i16 0, i64 2147483648, i32 159744)
  %s = call ptr addrspace(8) @llvm.amdgcn.make.buffer.rsrc.p8.p1(ptr addrspace(1) %y, i16 0, i64 2147483648, i32 159744)
  %v = call i32 @llvm.amdgcn.raw.ptr.buffer.load.i32(ptr addrspace(8) %r, i32 %from, i32 0, i32 0) ;; 20
  call void @llvm.amdgcn.raw.ptr.buffer.store.i32(i32 %v, ptr addrspace(8) %s, i32 %to, i32 0, i32 0) ;; 21
  ret void
}
)");
}

Runner bufferRunner(const std::string &text) {
  Runner runner(text, /*warpSize=*/64);
  runner.onChip = false;
  runner.shape.block[0] = 64;
  return runner;
}

const std::string ownBytes = "  %from = add i32 %byte, 0\n  %to = add i32 %byte, 0\n";

TEST(GlobalBuffers, BeyondTheirEndReadZeroAndDropStores) {
  // Lanes from 32 on read beyond the end, and those from 48 on store there. The last offset is one
  // byte too far for what it moves.
  Runner runner = bufferRunner(bufferKernel(R"(
  %reads = icmp ult i32 %i, 32
  %stores = icmp ult i32 %i, 48
  %last = icmp eq i32 %i, 63
  %beyond = select i1 %last, i32 2147483645, i32 -2147483648
  %from = select i1 %reads, i32 %byte, i32 %beyond
  %to = select i1 %stores, i32 %byte, i32 %beyond)"));
  int *x = runner.upload(numbers(32)), *y = runner.upload(std::vector<int>(64, -1));
  Counters counters = runner.expectClean(x, y);
  for (int i = 0; i < 64; ++i)
    EXPECT_EQ(y[i], i < 32 ? i : i < 48 ? 0 : -1) << i;
  EXPECT_EQ(counters.globalLoad.bytes, 4u * 32);
  EXPECT_EQ(counters.globalStore.bytes, 4u * 48);
  ASSERT_EQ(counters.lines.size(), 2u);
  EXPECT_EQ(counters.lines[0].line, 20u);
  EXPECT_EQ(counters.lines[1].line, 21u);
}

TEST(GlobalBuffers, SeveralWordsAreOneAccessAlignedToWords) {
  std::string text = bufferKernel(
      "  %byte12 = mul i32 %i, 12\n  %from = add i32 %byte12, 4\n  %to = add i32 %byte12, 0\n");
  text = replaced(text, "%v = call i32 @llvm.amdgcn.raw.ptr.buffer.load.i32",
                  "%v = call <3 x i32> @llvm.amdgcn.raw.ptr.buffer.load.v3i32");
  text = replaced(text, "store.i32(i32 %v", "store.v3i32(<3 x i32> %v");
  Runner runner = bufferRunner(text);
  int *x = runner.upload(numbers(193)), *y = runner.upload(std::vector<int>(192, -1));
  Counters counters = runner.expectClean(x, y);
  for (int i = 0; i < 192; ++i)
    EXPECT_EQ(y[i], i + 1) << i;
  EXPECT_EQ(counters.globalLoad.requests, 1u);
  EXPECT_EQ(counters.globalLoad.bytes, 12u * 64);
  // Half a word beside is not.
  Runner beside = bufferRunner(replaced(text, "%byte12, 4", "%byte12, 2"));
  x = beside.upload(numbers(193)), y = beside.upload(std::vector<int>(192, -1));
  beside.expectFinding(FindingKind::Misaligned, 20, x, y);
}

TEST(GlobalBuffers, OutsideOfAllocationsIsFound) {
  Runner runner = bufferRunner(bufferKernel(ownBytes));
  int *x = runner.upload(numbers(63)), *y = runner.upload(numbers(64));
  runner.expectFinding(FindingKind::OutOfBounds, 20, x, y);
}

TEST(GlobalBuffers, RacesAreFound) {
  Runner runner =
      bufferRunner(bufferKernel("  %from = add i32 %byte, 0\n  %to = and i32 %byte, 128\n"));
  int *x = runner.upload(numbers(64)), *y = runner.upload(numbers(64));
  runner.expectFinding(FindingKind::GlobalRace, 21, x, y);
}

TEST(GlobalBuffers, ReadsOfWhatNothingWroteAreFound) {
  Runner runner = bufferRunner(bufferKernel(ownBytes));
  int *x = runner.allocate<int>(64), *y = runner.upload(numbers(64));
  runner.expectFinding(FindingKind::Uninitialized, 20, x, y);
}

TEST(GlobalBuffers, OfAnotherSizeAreNotKnown) {
  auto compiled = compileText(replaced(bufferKernel(ownBytes), "i64 2147483648", "i64 4096"));
  ASSERT_FALSE(compiled);
  EXPECT_EQ(llvm::toString(compiled.takeError()),
            "the virtual GPU does not know llvm.amdgcn.make.buffer.rsrc.p8.p1");
}

// Each thread adds to its number; %more comes before.
std::string sumText(const std::string &more) {
  return withLines(std::string(nvidiaHead) + R"(
declare void @sectile.nv.launch_dependents()
declare void @sectile.nv.wait_dependencies()
define ptx_kernel void @k(ptr addrspace(1) %x) {
  %i = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %b = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %start = mul i32 %b, 64
  %at = add i32 %start, %i
  %p = getelementptr i32, ptr addrspace(1) %x, i32 %at
)" + more + R"(
  %v = load i32, ptr addrspace(1) %p, align 4 ;; 10
  call void @llvm.nvvm.nanosleep(i32 20000)
  %three = mul i32 %v, 3
  %w = add i32 %three, %at
  store i32 %w, ptr addrspace(1) %p, align 4
  ret void
}
)");
}

TEST(LaunchesThatOverlap, SeeWhatTheOnesAheadWrote) {
  const std::string start = "  call void @sectile.nv.launch_dependents()\n",
                    wait = "  call void @sectile.nv.wait_dependencies()\n";
  for (const std::string &order : {wait, start + wait, wait + start}) {
    Runner runner = runnerOf(sumText(order), {.blocks = 4});
    runner.chipTarget = "sm_90a";
    std::vector<int> expected = numbers(256);
    int *x = runner.upload(expected);
    constexpr int launches = 6;
    runner.expectCleanLaunches(launches, x);
    for (int launch = 0; launch < launches; ++launch)
      for (int i = 0; i < 256; ++i)
        expected[size_t(i)] = 3 * expected[size_t(i)] + i;
    EXPECT_TRUE(std::equal(expected.begin(), expected.end(), x)) << order;
  }
}

// The first launch writes y, the second has this body, and the third reads y. Each may start before
// the one ahead of it is done.
std::optional<Finding> findInThird(const std::string &second, bool thirdWaits = false) {
  const std::string bodies[] = {
      "  store i32 %i, ptr addrspace(1) %q, align 4 ;; 10\n", second,
      std::string(thirdWaits ? "  call void @llvm.nvvm.griddepcontrol.wait()\n" : "") +
          "  %v = load i32, ptr addrspace(1) %q, align 4 ;; 30\n"
          "  store i32 %v, ptr addrspace(1) %p, align 4\n"};
  Machine machine(32);
  std::vector<int *> arrays;
  for (int i = 0; i < 2; ++i) {
    arrays.push_back(static_cast<int *>(machine.memory().allocate(256)));
    machine.memory().written(arrays.back(), 256);
  }
  std::vector<std::unique_ptr<Program>> programs;
  LaunchOptions options;
  for (const std::string &body : bodies) {
    programs.push_back(Program::load(llvm::cantFail(compileText(kernel(body)))));
    const unsigned blocks = &body == &bodies[1] ? 2 : 1;
    void *arguments[] = {&arrays[0], &arrays[1]};
    LaunchResult result = machine.launch(
        *programs.back(), {.grid = {blocks, 1, 1}, .block = {64, 1, 1}}, arguments, options);
    if (result.finding) {
      EXPECT_EQ(&body, &bodies[2]) << result.finding->text();
      return result.finding;
    }
    options.overlapped = result.launched;
  }
  return std::nullopt;
}

TEST(LaunchesThatOverlap, WaitForTheOnesAhead) {
  const std::string wait = "  call void @llvm.nvvm.griddepcontrol.wait()\n",
                    start = "  call void @llvm.nvvm.griddepcontrol.launch.dependents()\n";
  // One block that waits before the next launch may start is enough.
  const std::string first = "  %isFirst = icmp eq i32 %b, 0\n"
                            "  br i1 %isFirst, label %waits, label %end\n"
                            "waits:\n" +
                            wait + "  br label %end\nend:\n";
  for (const std::string &second : {wait, wait + start, first})
    EXPECT_FALSE(findInThird(second)) << second;
  for (const std::string &second : {std::string(), start, start + wait}) {
    const auto finding = findInThird(second);
    ASSERT_TRUE(finding) << second;
    EXPECT_EQ(finding->kind, FindingKind::MissingWait);
    EXPECT_EQ(finding->line, 30u);
    EXPECT_EQ(finding->message, "load (kernel.cpp:30) of byte 0 of an allocation of 256, which "
                                "kernel k, launched before, may not have written yet: store "
                                "(kernel.cpp:10)");
    EXPECT_FALSE(findInThird(second, /*thirdWaits=*/true)) << second;
  }
}

} // namespace
