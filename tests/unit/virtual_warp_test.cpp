// Warp and wave operations, and barriers, of both vendors.
#include "VirtualTest.h"
#include <numeric>

using namespace sectile::vgpu;

namespace {

// A kernel of one warp whose lanes read an i32, compute %r from %v and %lane, and write it.
std::string laneKernel(const std::string &body, bool amd = false) {
  std::string lane = amd ? "llvm.amdgcn.workitem.id.x" : "llvm.nvvm.read.ptx.sreg.tid.x";
  return std::string(amd ? amdHead : nvidiaHead) + "define " +
         (amd ? "amdgpu_kernel" : "ptx_kernel") +
         " void @k(ptr addrspace(1) %in, ptr addrspace(1) %out) {\n  %lane = call i32 @" + lane +
         "()\n" + R"(
  %p = getelementptr i32, ptr addrspace(1) %in, i32 %lane
  %q = getelementptr i32, ptr addrspace(1) %out, i32 %lane
  %v = load i32, ptr addrspace(1) %p, align 4
)" + body +
         R"(
  store i32 %r, ptr addrspace(1) %q, align 4
  ret void
}
)";
}

std::vector<int> runLanes(const std::string &text, std::vector<int> in, unsigned warpSize = 32,
                          uint64_t seed = 0) {
  Runner runner(text, warpSize);
  runner.shape.block[0] = uint32_t(in.size());
  runner.options.seed = seed;
  int *out = runner.allocate<int>(in.size());
  runner.expectClean(runner.upload(in), out);
  return {out, out + in.size()};
}

std::vector<int> counting(size_t count = 32) {
  std::vector<int> values(count);
  std::iota(values.begin(), values.end(), 100);
  return values;
}

TEST(Shuffle, ButterflyUpDownAndIndex) {
  struct Case {
    const char *mode, *operand, *clamp;
    int (*source)(int lane);
  };
  const Case cases[] = {
      {"bfly", "5", "31", [](int lane) { return lane ^ 5; }},
      {"up", "3", "0", [](int lane) { return lane < 3 ? lane : lane - 3; }},
      {"down", "4", "31", [](int lane) { return lane > 27 ? lane : lane + 4; }},
      {"idx", "7", "31", [](int) { return 7; }},
      // Segments of eight lanes: the mask is 24, so the clamp word is 0x181f.
      {"idx", "2", "6175", [](int lane) { return lane / 8 * 8 + 2; }},
      {"down", "4", "6175", [](int lane) { return lane % 8 < 4 ? lane + 4 : lane; }},
      {"up", "3", "6144", [](int lane) { return lane % 8 < 3 ? lane : lane - 3; }},
      {"bfly", "8", "6175",
       [](int lane) { return (lane ^ 8) > (lane / 8 * 8 | 7) ? lane : lane ^ 8; }},
  };
  for (const Case &each : cases) {
    std::string text =
        laneKernel(std::string("  %r = call i32 @llvm.nvvm.shfl.sync.") + each.mode +
                   ".i32(i32 -1, i32 %v, i32 " + each.operand + ", i32 " + each.clamp + ")\n");
    std::vector<int> out = runLanes(text, counting());
    for (int lane = 0; lane < 32; ++lane)
      EXPECT_EQ(out[size_t(lane)], 100 + each.source(lane))
          << each.mode << " " << each.clamp << ", lane " << lane;
  }
}

TEST(Shuffle, SaysWhetherTheSourceWasInside) {
  std::vector<int> out = runLanes(laneKernel(R"(
  %s = call { i32, i1 } @llvm.nvvm.shfl.sync.down.i32p(i32 -1, i32 %v, i32 16, i32 31)
  %inside = extractvalue { i32, i1 } %s, 1
  %r = zext i1 %inside to i32
)"),
                                  counting());
  for (size_t lane = 0; lane < 32; ++lane)
    EXPECT_EQ(out[lane], lane < 16);
}

TEST(Shuffle, ReadingAnAbsentLaneIsReported) {
  Runner runner(laneKernel(R"(
  %low = icmp ult i32 %lane, 16
  br i1 %low, label %some, label %end
some:
  %s = call i32 @llvm.nvvm.shfl.sync.idx.i32(i32 65535, i32 %v, i32 20, i32 31)
  br label %end
end:
  %r = phi i32 [ %s, %some ], [ 0, %0 ]
)"));
  runner.shape.block[0] = 32;
  Finding finding = runner.expectFinding(FindingKind::BadOperand, 0, runner.upload(counting()),
                                         runner.allocate<int>(32));
  EXPECT_NE(finding.message.find("lane 20"), std::string::npos) << finding.text();
}

TEST(Vote, CountsAndDecides) {
  std::string odd = "  %b = and i32 %v, 1\n  %odd = icmp ne i32 %b, 0\n";
  EXPECT_EQ(
      runLanes(laneKernel(odd + "  %r = call i32 @llvm.nvvm.vote.ballot.sync(i32 -1, i1 %odd)\n"),
               counting())[3],
      int(0xaaaaaaaa));
  auto decide = [&](const char *mode, std::vector<int> in) {
    return runLanes(laneKernel(odd + "  %d = call i1 @llvm.nvvm.vote." + mode +
                               ".sync(i32 -1, i1 %odd)\n  %r = zext i1 %d to i32\n"),
                    std::move(in))[31];
  };
  std::vector<int> ones(32, 1), zeros(32, 0);
  EXPECT_EQ(decide("all", counting()), 0);
  EXPECT_EQ(decide("all", ones), 1);
  EXPECT_EQ(decide("any", counting()), 1);
  EXPECT_EQ(decide("any", zeros), 0);
  EXPECT_EQ(decide("uni", counting()), 0);
  EXPECT_EQ(decide("uni", zeros), 1);
}

TEST(Match, FindsEqualLanes) {
  std::string third = "  %t = urem i32 %lane, 3\n";
  std::vector<int> out = runLanes(
      laneKernel(third + "  %r = call i32 @llvm.nvvm.match.any.sync.i32(i32 -1, i32 %t)\n"),
      counting());
  EXPECT_EQ(out[0], 0x49249249);
  EXPECT_EQ(out[4], int(0x92492492));
}

TEST(Elect, ChoosesTheLowestLane) {
  std::vector<int> out = runLanes(laneKernel(R"(
  %e = call { i32, i1 } @llvm.nvvm.elect.sync(i32 -1)
  %leader = extractvalue { i32, i1 } %e, 1
  %r = zext i1 %leader to i32
)"),
                                  counting());
  EXPECT_EQ(std::accumulate(out.begin(), out.end(), 0), 1);
  EXPECT_EQ(out[0], 1);
}

TEST(Redux, CombinesAllLanes) {
  auto reduce = [](const char *op, std::vector<int> in) {
    return runLanes(laneKernel(std::string("  %r = call i32 @llvm.nvvm.redux.sync.") + op +
                               "(i32 %v, i32 -1)\n"),
                    std::move(in))[9];
  };
  std::vector<int> values = counting();
  values[7] = -5;
  EXPECT_EQ(reduce("add", values), 3200 + 496 - 107 - 5);
  EXPECT_EQ(reduce("min", values), -5);
  EXPECT_EQ(reduce("umin", values), 100);
  EXPECT_EQ(reduce("max", values), 131);
  EXPECT_EQ(reduce("umax", values), -5);
  EXPECT_EQ(reduce("xor", std::vector<int>(32, 7)), 0);
}

TEST(Amd, WavesOfBothSizes) {
  for (unsigned size : {32u, 64u}) {
    std::vector<int> in = counting(size);
    std::string ballot = size == 64 ? R"(
  %big = icmp sgt i32 %v, 131
  %m = call i64 @llvm.amdgcn.ballot.i64(i1 %big)
  %h = lshr i64 %m, 32
  %r = trunc i64 %h to i32
)"
                                    : R"(
  %big = icmp sgt i32 %v, 115
  %r = call i32 @llvm.amdgcn.ballot.i32(i1 %big)
)";
    EXPECT_EQ(runLanes(laneKernel(ballot, true), in, size)[5], size == 64 ? -1 : int(0xffff0000));
    EXPECT_EQ(runLanes(laneKernel("  %r = call i32 @llvm.amdgcn.readfirstlane.i32(i32 %v)\n", true),
                       in, size)[30],
              100);
    EXPECT_EQ(
        runLanes(laneKernel("  %r = call i32 @llvm.amdgcn.readlane.i32(i32 %v, i32 9)\n", true), in,
                 size)[0],
        109);
    std::vector<int> out = runLanes(laneKernel(R"(
  %x = xor i32 %lane, 17
  %a = shl i32 %x, 2
  %r = call i32 @llvm.amdgcn.ds.bpermute(i32 %a, i32 %v)
)",
                                               true),
                                    in, size);
    std::vector<int> identity = runLanes(laneKernel(R"(
  %l = call i32 @llvm.amdgcn.mbcnt.lo(i32 -1, i32 0)
  %r = call i32 @llvm.amdgcn.mbcnt.hi(i32 -1, i32 %l)
)",
                                                    true),
                                         in, size);
    for (int lane = 0; lane < int(size); ++lane) {
      EXPECT_EQ(out[size_t(lane)], 100 + (lane ^ 17));
      EXPECT_EQ(identity[size_t(lane)], lane);
    }
  }
}

// An optimiser may let lanes leave a loop in different iterations where what the others compute
// there is for nothing. They wait for each other where the loop ends, wherever its blocks stand.
TEST(Amd, LanesMeetAgainAfterALoop) {
  const std::string text = laneKernel(R"(
  %x1 = xor i32 %lane, 1
  %a1 = shl i32 %x1, 2
  %x2 = xor i32 %lane, 2
  %a2 = shl i32 %x2, 2
  br label %loop
end:
  %f = call i32 @llvm.amdgcn.ds.bpermute(i32 %a1, i32 %v)
  %s = add i32 %v, %f
  %g = call i32 @llvm.amdgcn.ds.bpermute(i32 %a2, i32 %s)
  %t = add i32 %s, %g
  %r = add i32 %t, %count
  br label %last
loop:
  %i = phi i32 [ 0, %0 ], [ %next, %loop ]
  %count = phi i32 [ 0, %0 ], [ %both, %loop ]
  %here = call i32 @llvm.amdgcn.ds.bpermute(i32 %a1, i32 1)
  %both = add i32 %count, %here
  %next = add i32 %i, 1
  %few = and i32 %lane, 3
  %more = icmp ule i32 %next, %few
  br i1 %more, label %loop, label %end
last:)",
                                      true);
  for (uint64_t seed = 0; seed < 4; ++seed) {
    const std::vector<int> out = runLanes(text, counting(64), 64, seed);
    for (int lane = 0; lane < 64; ++lane) {
      const int sum = 4 * (100 + lane / 4 * 4) + 6;
      // How often the neighbour was there before the last time: lanes stay for lane % 4 + 1.
      const int together = std::min(lane % 4, (lane ^ 1) % 4 + 1);
      EXPECT_EQ(out[size_t(lane)], sum + together) << lane;
    }
  }
}

TEST(Amd, DataParallelMoves) {
  auto dpp = [](const char *control, bool boundZero) {
    return runLanes(
        laneKernel(std::string("  %r = call i32 @llvm.amdgcn.update.dpp.i32(i32 -7, i32 %v, i32 ") +
                       control + ", i32 15, i32 15, i1 " + (boundZero ? "true" : "false") + ")\n",
                   true),
        counting());
  };
  EXPECT_EQ(dpp("273", false)[17], 116); // row_shr:1
  EXPECT_EQ(dpp("273", false)[16], -7);
  EXPECT_EQ(dpp("273", true)[16], 0);
  EXPECT_EQ(dpp("257", false)[3], 104);  // row_shl:1
  EXPECT_EQ(dpp("320", false)[18], 129); // row_mirror
  EXPECT_EQ(dpp("177", false)[6], 107);  // quad_perm:[1,0,3,2]
  EXPECT_EQ(dpp("322", false)[20], 115); // row_bcast:15
}

TEST(Amd, PermutationsOfRows) {
  const auto permute = [](const char *name, const char *lanes) {
    return runLanes(laneKernel(std::string("  %r = call i32 @llvm.amdgcn.") + name +
                                   ".i32(i32 -7, i32 %v, i32 " + lanes + ", i1 false, i1 false)\n",
                               true),
                    counting());
  };
  const std::vector<int> same = permute("permlane16", "1985229328, i32 -19088744");
  EXPECT_EQ(same[3], 103);
  EXPECT_EQ(same[30], 130);
  const std::vector<int> beside = permute("permlanex16", "1985229328, i32 -19088744");
  EXPECT_EQ(beside[3], 119);
  EXPECT_EQ(beside[30], 114);
  EXPECT_EQ(permute("permlane16", "2, i32 16")[0], 102);
  EXPECT_EQ(permute("permlanex16", "2, i32 16")[25], 101);
}

TEST(Amd, SizesOfTheLaunch) {
  std::string text = laneKernel(R"(
  %d = call ptr addrspace(4) @llvm.amdgcn.dispatch.ptr()
  %dp = getelementptr i8, ptr addrspace(4) %d, i64 4
  %threads = load i16, ptr addrspace(4) %dp, align 4
  %i = call ptr addrspace(4) @llvm.amdgcn.implicitarg.ptr()
  %blocks = load i32, ptr addrspace(4) %i, align 4
  %t = zext i16 %threads to i32
  %s = shl i32 %blocks, 16
  %r = or i32 %t, %s
)",
                                true);
  EXPECT_EQ(runLanes(text, counting())[0], 32 | 1 << 16);
}

TEST(Barrier, ReductionsAndNamedBarriers) {
  // 64 threads: popcount of odd values; then warp 0 arrives and warp 1 waits at barrier 3.
  std::string text = laneKernel(R"(
  %b = and i32 %v, 1
  %odd = icmp ne i32 %b, 0
  %r = call i32 @llvm.nvvm.barrier.cta.red.popc.aligned.all(i32 0, i1 %odd)
  %s = getelementptr i32, ptr addrspace(3) @sectile_shared, i32 %lane
  %first = icmp ult i32 %lane, 32
  br i1 %first, label %produce, label %consume
produce:
  store i32 %v, ptr addrspace(3) %s, align 4
  call void @llvm.nvvm.barrier.cta.arrive.aligned.count(i32 3, i32 64)
  br label %end
consume:
  call void @llvm.nvvm.barrier.cta.sync.aligned.count(i32 3, i32 64)
  %from = getelementptr i32, ptr addrspace(3) %s, i32 -32
  %got = load i32, ptr addrspace(3) %from, align 4
  store i32 %got, ptr addrspace(1) %p, align 4
  br label %end
end:
)");
  for (uint64_t seed : {0, 1, 2, 3}) {
    Runner runner(text);
    runner.shape.block[0] = 64;
    runner.shape.sharedBytes = 128;
    runner.options.seed = seed;
    int *in = runner.upload(counting(64)), *out = runner.allocate<int>(64);
    Counters counters = runner.expectClean(in, out);
    EXPECT_EQ(out[50], 32);
    EXPECT_EQ(in[40], 108);
    EXPECT_EQ(counters.barriers, 4u);
  }
}

} // namespace
