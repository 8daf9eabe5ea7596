// mbarriers: arrivals, phases, states and expected bytes on correct kernels under many schedules,
// and the mistakes that the virtual GPU must find.
#include "VirtualTest.h"
#include "codegen/nvidia/Ptxas.h"
#include <algorithm>

using namespace sectile::vgpu;

namespace {

constexpr uint64_t seeds = 20;

// Warp 0 hands 32 numbers to warp 1, eight times, through one buffer and two mbarriers: `full` at
// byte 128, `empty` at byte 136. Warp 1 adds up what it reads.
const std::string ring = std::string(nvidiaHead) + R"(
declare void @sectile.nv.mbarrier_wait(ptr addrspace(3), i32) convergent
define ptx_kernel void @ring(ptr addrspace(1) %out, ptr addrspace(1) %in) {
entry:
  %i = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %lane = and i32 %i, 31
  %full = getelementptr i8, ptr addrspace(3) @sectile_shared, i32 128
  %empty = getelementptr i8, ptr addrspace(3) @sectile_shared, i32 136
  %s = getelementptr i32, ptr addrspace(3) @sectile_shared, i32 %lane
  %mirror = sub i32 31, %lane
  %t = getelementptr i32, ptr addrspace(3) @sectile_shared, i32 %mirror
  %g = getelementptr i32, ptr addrspace(1) %in, i32 %lane
  %first = icmp eq i32 %i, 0
  br i1 %first, label %init, label %ready
init:
  call void @llvm.nvvm.mbarrier.init.shared(ptr addrspace(3) %full, i32 32) ;; 10
  call void @llvm.nvvm.mbarrier.init.shared(ptr addrspace(3) %empty, i32 32) ;; 11
  ; INIT
  br label %ready
ready:
  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0) ;; 12
  %produces = icmp ult i32 %i, 32
  br i1 %produces, label %produce, label %consume
produce:
  %n = phi i32 [ 0, %ready ], [ %m, %produce ]
  %odd = and i32 %n, 1
  %before = xor i32 %odd, 1
  call void @sectile.nv.mbarrier_wait(ptr addrspace(3) %empty, i32 %before) ;; 20
  %value = shl i32 %lane, %n
  store i32 %value, ptr addrspace(3) %s, align 4 ;; 21
  %state = call i64 @llvm.nvvm.mbarrier.arrive.shared(ptr addrspace(3) %full) ;; 22
  %m = add i32 %n, 1
  %more = icmp ult i32 %m, 8
  br i1 %more, label %produce, label %end
consume:
  %k = phi i32 [ 0, %ready ], [ %l, %consume ]
  %sum = phi i32 [ 0, %ready ], [ %next, %consume ]
  %parity = and i32 %k, 1
  call void @sectile.nv.mbarrier_wait(ptr addrspace(3) %full, i32 %parity) ;; 30
  %read = load i32, ptr addrspace(3) %t, align 4 ;; 31
  %next = add i32 %sum, %read
  %other = call i64 @llvm.nvvm.mbarrier.arrive.shared(ptr addrspace(3) %empty) ;; 32
  %l = add i32 %k, 1
  %again = icmp ult i32 %l, 8
  br i1 %again, label %consume, label %write
write:
  %p = getelementptr i32, ptr addrspace(1) %out, i32 %lane
  store i32 %next, ptr addrspace(1) %p, align 4
  br label %end
end:
  ret void
}
)";

const char waitEmpty[] =
    "  call void @sectile.nv.mbarrier_wait(ptr addrspace(3) %empty, i32 %before) ;; 20\n";
const char waitFull[] =
    "  call void @sectile.nv.mbarrier_wait(ptr addrspace(3) %full, i32 %parity) ;; 30\n";
const char store[] = "  store i32 %value, ptr addrspace(3) %s, align 4 ;; 21\n";
const char arriveFull[] =
    "  %state = call i64 @llvm.nvvm.mbarrier.arrive.shared(ptr addrspace(3) %full) ;; 22\n";
const char arriveEmpty[] =
    "  %other = call i64 @llvm.nvvm.mbarrier.arrive.shared(ptr addrspace(3) %empty) ;; 32\n";

Runner ringRunner(const std::string &text, uint64_t seed = 0) {
  Runner runner(withLines(text));
  runner.shape.block[0] = 64;
  runner.shape.sharedBytes = 256;
  runner.options.seed = seed;
  runner.chipTarget = "sm_90a";
  return runner;
}

std::vector<int> numbers() {
  std::vector<int> values(32);
  for (int i = 0; i < 32; ++i)
    values[size_t(i)] = 1000 + i;
  return values;
}

// What warp 1 adds up: eight times the number of the lane on the other side, shifted.
void expectRing(const std::string &text) {
  for (uint64_t seed = 0; seed < seeds; ++seed) {
    Runner runner = ringRunner(text, seed);
    auto *out = runner.allocate<int>(32);
    runner.expectClean(out, runner.upload(numbers()));
    for (int lane = 0; lane < 32; ++lane)
      ASSERT_EQ(out[lane], 255 * (31 - lane)) << "seed " << seed << ", lane " << lane;
  }
}

Finding expectMistake(const std::string &text, FindingKind kind, uint32_t line) {
  Finding last;
  for (uint64_t seed = 0; seed < seeds; ++seed) {
    Runner runner = ringRunner(text, seed);
    last = runner.expectFinding(kind, line, runner.allocate<int>(32), runner.upload(numbers()));
  }
  return last;
}

// Which of the mistake's signs is seen first depends on the schedule.
void expectOneOf(const std::string &text, std::initializer_list<FindingKind> kinds) {
  for (uint64_t seed = 0; seed < seeds; ++seed) {
    Runner runner = ringRunner(text, seed);
    const LaunchResult result = runner.run(runner.allocate<int>(32), runner.upload(numbers()));
    ASSERT_TRUE(result.finding) << "seed " << seed;
    EXPECT_NE(std::find(kinds.begin(), kinds.end(), result.finding->kind), kinds.end())
        << result.finding->text();
  }
}

TEST(Mbarrier, RingIsClean) { expectRing(ring); }

TEST(Mbarrier, PollingIsClean) {
  // A loop around try_wait in the producer, around test_wait in the consumer.
  std::string text = replaced(
      ring, "  call void @sectile.nv.mbarrier_wait(ptr addrspace(3) %empty, i32 %before) ;; 20\n",
      R"(  br label %poll
poll:
  %done = call i1 @llvm.nvvm.mbarrier.try.wait.parity.scope.cta.space.cta(ptr addrspace(3) %empty, i32 %before) ;; 20
  br i1 %done, label %got, label %poll
got:
)");
  text = replaced(text, "[ %m, %produce ]", "[ %m, %got ]");
  text = replaced(text, waitFull, R"(  br label %ask
ask:
  %came = call i1 @llvm.nvvm.mbarrier.test.wait.parity.scope.cta.space.cta(ptr addrspace(3) %full, i32 %parity) ;; 30
  br i1 %came, label %take, label %ask
take:
)");
  text = replaced(text, "[ %l, %consume ]", "[ %l, %take ]");
  text = replaced(text, "[ %next, %consume ]", "[ %next, %take ]");
  expectRing(text);
}

TEST(Mbarrier, AThreadMayAskInVain) {
  // The consumer asks once, counts in shared memory that it has, and waits only then; the producer
  // stores meanwhile.
  const std::string text = replaced(
      ring, waitFull,
      "  %early = call i1 @llvm.nvvm.mbarrier.try.wait.parity.scope.cta.space.cta(ptr addrspace(3) "
      "%full, i32 %parity)\n" +
          std::string(waitFull));
  expectRing(text);
}

TEST(Mbarrier, StatesOfArrivals) {
  // All 64 threads meet at one mbarrier, each waiting for the phase that it arrived in.
  const std::string text = std::string(nvidiaHead) + R"(
define ptx_kernel void @k(ptr addrspace(1) %out, ptr addrspace(1) %in) {
entry:
  %i = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %b = getelementptr i8, ptr addrspace(3) @sectile_shared, i32 256
  %s = getelementptr i32, ptr addrspace(3) @sectile_shared, i32 %i
  %j = sub i32 63, %i
  %t = getelementptr i32, ptr addrspace(3) @sectile_shared, i32 %j
  %first = icmp eq i32 %i, 0
  br i1 %first, label %init, label %ready
init:
  call void @llvm.nvvm.mbarrier.init.shared(ptr addrspace(3) %b, i32 128)
  br label %ready
ready:
  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)
  store i32 %i, ptr addrspace(3) %s, align 4 ;; 5
  %part = call i64 @llvm.nvvm.mbarrier.arrive.noComplete.shared(ptr addrspace(3) %b, i32 1)
  %state = call i64 @llvm.nvvm.mbarrier.arrive.shared(ptr addrspace(3) %b)
  br label %ask
ask:
  %done = call i1 @llvm.nvvm.mbarrier.test.wait.shared(ptr addrspace(3) %b, i64 %state)
  br i1 %done, label %go, label %ask
go:
  %v = load i32, ptr addrspace(3) %t, align 4 ;; 6
  %p = getelementptr i32, ptr addrspace(1) %out, i32 %i
  store i32 %v, ptr addrspace(1) %p, align 4
  ret void
}
)";
  for (uint64_t seed = 0; seed < seeds; ++seed) {
    Runner runner = ringRunner(text, seed);
    runner.shape.sharedBytes = 264;
    auto *out = runner.allocate<int>(64);
    runner.expectClean(out, nullptr);
    for (int i = 0; i < 64; ++i)
      ASSERT_EQ(out[i], 63 - i);
  }
  // Who does not listen to the answer is found out as soon as it is no.
  for (uint64_t seed = 1; seed < seeds; ++seed) {
    Runner runner = ringRunner(
        replaced(text, "br i1 %done, label %go, label %ask", "br i1 true, label %go, label %ask"),
        seed);
    runner.shape.sharedBytes = 264;
    EXPECT_TRUE(runner.run(runner.allocate<int>(64), nullptr).finding) << "seed " << seed;
  }
}

TEST(Mbarrier, MissingReleaseIsFound) {
  // The slot is written while it may still be read.
  expectOneOf(replaced(ring, waitEmpty, ""), {FindingKind::SharedRace, FindingKind::Deadlock});
}

TEST(Mbarrier, AWaitOnePhaseEarlyIsFound) {
  std::string text = replaced(ring, "%full, i32 %parity) ;; 30", "%full, i32 %early) ;; 30");
  text = replaced(text, "  %parity = and i32 %k, 1\n",
                  "  %parity = and i32 %k, 1\n  %early = xor i32 %parity, 1\n");
  expectOneOf(text, {FindingKind::SharedRace, FindingKind::Uninitialized, FindingKind::Deadlock});
}

TEST(Mbarrier, AnArrivalBeforeTheStoreIsFound) {
  expectMistake(replaced(replaced(ring, arriveFull, ""), store, arriveFull + std::string(store)),
                FindingKind::SharedRace, 0);
}

TEST(Mbarrier, DeadlockSaysWhoWaitsForWhat) {
  std::string message =
      expectMistake(replaced(ring, arriveEmpty, ""), FindingKind::Deadlock, 20).message;
  EXPECT_NE(message.find("threads 0-31 wait at"), std::string::npos) << message;
  EXPECT_NE(message.find("the mbarrier at shared byte 136"), std::string::npos) << message;
  EXPECT_NE(message.find("lacks 32 arrivals"), std::string::npos) << message;
  // Threads that poll are stuck as well.
  std::string text = replaced(ring, waitFull, R"(  br label %ask
ask:
  %came = call i1 @llvm.nvvm.mbarrier.try.wait.parity.scope.cta.space.cta(ptr addrspace(3) %full, i32 %parity) ;; 30
  br i1 %came, label %take, label %ask
take:
)");
  text = replaced(text, "[ %l, %consume ]", "[ %l, %take ]");
  text = replaced(text, "[ %next, %consume ]", "[ %next, %take ]");
  expectMistake(replaced(text, arriveFull, ""), FindingKind::Deadlock, 0);
}

TEST(Mbarrier, OutstandingBytesAreDiagnosed) {
  const std::string init = "  call void @llvm.nvvm.mbarrier.expect.tx.scope.cta.space.cta(ptr "
                           "addrspace(3) %full, i32 512) ;; 13\n";
  std::string message =
      expectMistake(replaced(ring, "  ; INIT\n", init), FindingKind::Deadlock, 0).message;
  EXPECT_NE(message.find("512 bytes"), std::string::npos) << message;
  const std::string complete =
      "  call void @llvm.nvvm.mbarrier.complete.tx.scope.cta.space.cta(ptr "
      "addrspace(3) %full, i32 512)\n";
  expectRing(replaced(ring, "  ; INIT\n", init + complete));
  message = expectMistake(replaced(ring, "  ; INIT\n", complete), FindingKind::Deadlock, 0).message;
  EXPECT_NE(message.find("512 bytes have come unexpected"), std::string::npos) << message;
  expectMistake(replaced(ring, "  ; INIT\n", replaced(init, "512", "1048576")),
                FindingKind::BadOperand, 13);
}

TEST(Mbarrier, TooManyArrivalsAreFound) {
  expectMistake(replaced(ring, arriveFull,
                         "  %state = call i64 @llvm.nvvm.mbarrier.arrive.scope.cta.space.cta(ptr "
                         "addrspace(3) %full, i32 33) ;; 22\n"),
                FindingKind::BadOperand, 22);
}

TEST(Mbarrier, UninitialisedIsFound) {
  expectMistake(
      replaced(
          ring,
          "  call void @llvm.nvvm.mbarrier.init.shared(ptr addrspace(3) %full, i32 32) ;; 10\n",
          ""),
      FindingKind::BadOperand, 0);
  expectMistake(replaced(ring, "  ; INIT\n",
                         "  call void @llvm.nvvm.mbarrier.init.shared(ptr addrspace(3) %empty, i32 "
                         "32) ;; 13\n"),
                FindingKind::BadOperand, 13);
}

TEST(Mbarrier, InitialisationIsToBeOrdered) {
  // Under some schedules it has not even been initialised.
  expectOneOf(
      replaced(ring, "  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0) ;; 12\n", ""),
      {FindingKind::SharedRace, FindingKind::BadOperand});
}

TEST(Mbarrier, NothingElseTouchesItsBytes) {
  const std::string load = "  %bits = load i64, ptr addrspace(3) %full, align 8 ;; 13\n"
                           "  store volatile i64 %bits, ptr addrspace(1) %out, align 8\n";
  expectMistake(replaced(ring, "  ; INIT\n", load), FindingKind::BadOperand, 13);
  // Until it is one no more.
  const std::string reused =
      "  call void @llvm.nvvm.mbarrier.inval.shared(ptr addrspace(3) %full)\n"
      "  store i64 0, ptr addrspace(3) %full, align 8\n"
      "  call void @llvm.nvvm.mbarrier.init.shared(ptr addrspace(3) %full, i32 32)\n";
  expectRing(replaced(ring, "  ; INIT\n", reused));
}

// Warp 0 reads rows by `ldmatrix`, and its first lane says so at `empty` for all of them; warp 1
// then writes there. Before, that lane alone has arrived elsewhere.
const std::string matrixRing = std::string(nvidiaHead) + R"(
declare void @sectile.nv.mbarrier_wait(ptr addrspace(3), i32) convergent
declare { i32, i32, i32, i32 } @llvm.nvvm.ldmatrix.sync.aligned.m8n8.x4.b16.p3(ptr addrspace(3))
define ptx_kernel void @ring(ptr addrspace(1) %out) {
entry:
  %i = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %lane = and i32 %i, 31
  %other = getelementptr i8, ptr addrspace(3) @sectile_shared, i32 512
  %empty = getelementptr i8, ptr addrspace(3) @sectile_shared, i32 520
  %row = getelementptr <4 x i32>, ptr addrspace(3) @sectile_shared, i32 %lane
  %p = getelementptr i32, ptr addrspace(1) %out, i32 %lane
  %isFirst = icmp eq i32 %i, 0
  br i1 %isFirst, label %init, label %made
init:
  call void @llvm.nvvm.mbarrier.init.shared(ptr addrspace(3) %other, i32 1)
  call void @llvm.nvvm.mbarrier.init.shared(ptr addrspace(3) %empty, i32 1)
  br label %made
made:
  %reads = icmp ult i32 %i, 32
  br i1 %reads, label %fill, label %ready
fill:
  store <4 x i32> <i32 1, i32 2, i32 3, i32 4>, ptr addrspace(3) %row, align 16
  br label %ready
ready:
  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)
  br i1 %reads, label %first, label %write
first:
  br i1 %isFirst, label %tell, label %read
tell:
  %state = call i64 @llvm.nvvm.mbarrier.arrive.shared(ptr addrspace(3) %other)
  br label %read
read:
  call void @llvm.nvvm.bar.warp.sync(i32 -1) ;; 20
  %d = call { i32, i32, i32, i32 } @llvm.nvvm.ldmatrix.sync.aligned.m8n8.x4.b16.p3(ptr addrspace(3) %row) ;; 21
  %r = extractvalue { i32, i32, i32, i32 } %d, 0
  store i32 %r, ptr addrspace(1) %p, align 4
  call void @llvm.nvvm.bar.warp.sync(i32 -1) ;; 22
  br i1 %isFirst, label %arrive, label %end
arrive:
  %next = call i64 @llvm.nvvm.mbarrier.arrive.shared(ptr addrspace(3) %empty) ;; 23
  br label %end
write:
  call void @sectile.nv.mbarrier_wait(ptr addrspace(3) %empty, i32 0) ;; 30
  store <4 x i32> zeroinitializer, ptr addrspace(3) %row, align 16 ;; 31
  br label %end
end:
  ret void
}
)";

TEST(Mbarrier, OneLaneArrivesForAllThatReadAMatrix) {
  // `ldmatrix` itself brings the lanes together.
  const std::string apart =
      replaced(matrixRing, "  call void @llvm.nvvm.bar.warp.sync(i32 -1) ;; 20\n", "");
  for (const std::string &text : {matrixRing, apart})
    for (uint64_t seed = 0; seed < seeds; ++seed) {
      Runner runner = ringRunner(text, seed);
      runner.shape.sharedBytes = 528;
      auto *out = runner.allocate<int>(32);
      runner.expectClean(out);
      for (int lane = 0; lane < 32; ++lane)
        ASSERT_EQ(out[lane], 1 + lane % 4) << "seed " << seed << ", lane " << lane;
    }
}

TEST(Mbarrier, OneLanesArrivalIsNoneOfTheOthersThatReadAMatrix) {
  const std::string text =
      replaced(matrixRing, "  call void @llvm.nvvm.bar.warp.sync(i32 -1) ;; 22\n", "");
  for (uint64_t seed = 0; seed < seeds; ++seed) {
    Runner runner = ringRunner(text, seed);
    runner.shape.sharedBytes = 528;
    runner.expectFinding(FindingKind::SharedRace, 31, runner.allocate<int>(32));
  }
}

const std::string copies =
    "  call void @llvm.nvvm.cp.async.ca.shared.global.4(ptr addrspace(3) %s, ptr addrspace(1) %g) "
    ";; 21\n";

std::string copied(const std::string &arrival) {
  return replaced(replaced(ring, store, copies), arriveFull, arrival);
}

const char arriveCopies[] =
    "  call void @llvm.nvvm.cp.async.mbarrier.arrive.noinc.shared(ptr addrspace(3) %full) ;; 22\n";

TEST(Mbarrier, CopiesArrive) {
  // With and without an arrival of their own, which is one more.
  for (const std::string &arrival :
       {std::string(arriveCopies),
        "  call void @llvm.nvvm.cp.async.mbarrier.arrive.shared(ptr addrspace(3) %full)\n" +
            std::string(arriveFull)})
    for (uint64_t seed = 0; seed < seeds; ++seed) {
      Runner runner = ringRunner(copied(arrival), seed);
      auto *out = runner.allocate<int>(32);
      runner.expectClean(out, runner.upload(numbers()));
      for (int lane = 0; lane < 32; ++lane)
        ASSERT_EQ(out[lane], 8 * (1000 + 31 - lane)) << "seed " << seed << ", lane " << lane;
    }
}

TEST(Mbarrier, AnArrivalOfTheThreadIsNoneOfItsCopies) {
  expectMistake(copied(arriveFull), FindingKind::MissingWait, 0);
}

TEST(Mbarrier, Assembles) {
  if (!sectile::findPtxas())
    GTEST_SKIP() << "no ptxas";
  const sectile::Target target = llvm::cantFail(sectile::Target::get("sm_90a"));
  for (const std::string &text : {ring, copied(arriveCopies)}) {
    std::string entry;
    const std::string ptx = assemble(text, target, entry);
    EXPECT_NE(ptx.find("mbarrier.try_wait.parity.shared::cta.b64"), std::string::npos) << ptx;
    auto result = sectile::runPtxas(ptx, target);
    EXPECT_TRUE(bool(result)) << llvm::toString(result.takeError()) << ptx;
  }
}

} // namespace
