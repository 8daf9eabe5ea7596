// The cost model: what makes a launch slower makes its estimate larger.
#include "autotune/CostModel.h"
#include <gtest/gtest.h>

using namespace sectile;
using namespace sectile::autotune;

namespace {

// Much like a matmul of 2048 x 2048 x 2048 by tiles of 128 x 128.
LaunchProfile product() {
  LaunchProfile profile;
  profile.threads = 128;
  profile.sharedBytes = 48 * 1024;
  profile.registers = 230;
  profile.stages = 3;
  profile.footprint = uint64_t{3} * 2048 * 2048 * 2;
  vgpu::Counters &counters = profile.counters;
  counters.blocks = 256;
  counters.mmaKinds = {{"llvm.nvvm.mma.m16n8k16.row.col.f32.f32", 256u * 64 * 256}};
  counters.asyncCopy = {
      .requests = 256u * 64 * 32, .sectors = 256u * 64 * 512, .wavefronts = 256u * 64 * 128};
  counters.sharedLoad.wavefronts = 256u * 64 * 256;
  counters.globalStore.sectors = 2048u * 2048 * 2 / 32;
  counters.barriers = 256u * 64 * 4;
  counters.instructions = 256u * 64 * 128 * 150;
  return profile;
}

class CostModel : public testing::Test {
protected:
  double time(const LaunchProfile &profile) {
    return estimateMicroseconds(machineModel(target), target, profile);
  }
  Target target = llvm::cantFail(Target::get("sm_90a"));
  LaunchProfile profile = product();
};

TEST_F(CostModel, EveryTargetHasAMachine) {
  for (llvm::StringRef name : Target::names()) {
    const Target each = llvm::cantFail(Target::get(name));
    const MachineModel &machine = machineModel(each);
    EXPECT_EQ(machine.units, each.multiprocessors) << name.str();
    for (const MmaInstruction &instruction : each.mmas)
      EXPECT_GT(machine.perClock(instruction.a), 0u) << name.str();
  }
}

TEST_F(CostModel, IsOfTheSizeOfTheRoofline) {
  // 17.2 GFLOP at the peak of mma.sync, of 132 units of which 124 have work for a second block.
  const double roofline = 2.0 * 2048 * 2048 * 2048 / (132 * 1280 * 2 * 1.83e3);
  EXPECT_GT(time(profile), roofline);
  EXPECT_LT(time(profile), 5 * roofline);
}

TEST_F(CostModel, GrowsWithEachCost) {
  const double before = time(profile);
  auto grows = [&](auto change) {
    LaunchProfile changed = product();
    change(changed);
    EXPECT_GT(time(changed), before);
  };
  grows([](LaunchProfile &p) { p.counters.mmaKinds[0].count *= 2; });
  grows([](LaunchProfile &p) {
    p.counters.mmaKinds[0].name = "llvm.nvvm.mma.m16n8k16.row.col.tf32";
  });
  grows([](LaunchProfile &p) { p.counters.sharedLoad.wavefronts *= 4; });
  grows([](LaunchProfile &p) { p.counters.instructions *= 4; });
  grows([](LaunchProfile &p) { p.counters.globalLoad.sectors += 100'000'000; });
  grows([](LaunchProfile &p) { p.counters.barriers *= 8; });
  grows([](LaunchProfile &p) { p.counters.globalLoad.requests += 10'000'000; });
  grows([](LaunchProfile &p) { p.stages = 2; });
  grows([](LaunchProfile &p) { p.sharedBytes = 200 * 1024; });
}

TEST_F(CostModel, BlocksThatDoNotFillTheLastWaveCost) {
  LaunchProfile more = product();
  more.registers = 0;
  more.sharedBytes = 200 * 1024; // one block at a time
  more.counters.blocks = 132;
  const double full = time(more);
  for (uint64_t *count : {&more.counters.mmaKinds[0].count, &more.counters.instructions,
                          &more.counters.barriers, &more.counters.sharedLoad.wavefronts})
    *count = *count / 132 * 133;
  more.counters.blocks = 133;
  EXPECT_GT(time(more), 1.5 * full);
}

TEST_F(CostModel, OccupancyIsOfTheScarcestResource) {
  const MachineModel &machine = machineModel(target);
  LaunchProfile small;
  small.threads = 128;
  EXPECT_EQ(residentBlocks(machine, target, small), 16u) << "threads";
  small.threads = 32;
  EXPECT_EQ(residentBlocks(machine, target, small), 32u) << "blocks";
  small.sharedBytes = 56 * 1024;
  EXPECT_EQ(residentBlocks(machine, target, small), 4u) << "shared memory";
  small.threads = 256;
  small.registers = 128;
  EXPECT_EQ(residentBlocks(machine, target, small), 2u) << "registers";
  small.sharedBytes = 227 * 1024;
  EXPECT_EQ(residentBlocks(machine, target, small), 1u);
}

TEST_F(CostModel, AnEmptyLaunchTakesALaunch) {
  EXPECT_GT(time({}), 0);
  EXPECT_LT(time({}), 5);
}

} // namespace
