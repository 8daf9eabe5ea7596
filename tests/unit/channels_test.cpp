// Channels that live as long as the kernel: what the late passes make of them, run block by block.
// The checks must find what is planted.
#include "BlockMachine.h"
#include "ir/Dialects.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "passes/Passes.h"
#include <gmock/gmock.h>
#include <set>

using namespace mlir;
using namespace sectile;

namespace {

/// A ring over two loops: each inner loop goes on with the uses where the one before it stopped,
/// and copies two uses ahead, past its own end too.
constexpr const char *nested = R"(
#load = #cta.layout<"64x64, register [(0,1) (0,2) (0,4) (16,0) (32,0)], lane [(0,8) (0,16) (0,32) (1,0) (2,0)], warp [(4,0) (8,0)]">
#rows = #cta.layout<"64x64, shared [(0,1) (0,2) (0,4) (0,8) (0,16) (0,32) (1,8) (2,16) (4,32) (8,0) (16,0) (32,0)]">
!ptrs = tensor<64x64x!tile.ptr<f16>, #load>
!half = tensor<64x64xf16, #load>
!buffer = !cta.buffer<64x64xf16, #rows>
!ring = !cta.channel<3, !buffer>
module attributes {cta.target = "sm_80"} {
func.func @kernel(%x: !tile.ptr<f16>, %out: !tile.ptr<f16>, %n: i32, %m: i32) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  %k = cta.channel : !ring
  %xs = tile.splat %x : !tile.ptr<f16> -> !ptrs
  %os = tile.splat %out : !tile.ptr<f16> -> !ptrs
  %step = arith.constant dense<1> : tensor<64x64xi32, #load>
  %b0 = cta.acquire %k[%c0] : !ring -> !buffer
  cta.async_copy %xs, %b0 : !ptrs, !buffer
  cta.commit %k[%c0] : !ring
  %x1 = tile.addptr %xs, %step : !ptrs, tensor<64x64xi32, #load>
  %b1 = cta.acquire %k[%c1] : !ring -> !buffer
  cta.async_copy %x1, %b1 : !ptrs, !buffer
  cta.commit %k[%c1] : !ring
  %x2 = tile.addptr %x1, %step : !ptrs, tensor<64x64xi32, #load>
  %end:3 = scf.for %i = %c0 to %n step %c1 iter_args(%first = %c0, %from = %x2, %to = %os) -> (i32, !ptrs, !ptrs) : i32 {
    %inner:3 = scf.for %j = %c0 to %m step %c1 iter_args(%use = %first, %p = %from, %o = %to) -> (i32, !ptrs, !ptrs) : i32 {
      %r = cta.wait %k[%use] : !ring -> !buffer
      %later = arith.addi %use, %c2 : i32
      %b = cta.acquire %k[%later] : !ring -> !buffer
      cta.async_copy %p, %b : !ptrs, !buffer
      cta.commit %k[%later] : !ring
      %t = cta.local_load %r : !buffer -> !half
      tile.store %o, %t : !ptrs, !half
      cta.release %k[%use] : !ring
      %next = arith.addi %use, %c1 : i32
      %pn = tile.addptr %p, %step : !ptrs, tensor<64x64xi32, #load>
      %on = tile.addptr %o, %step : !ptrs, tensor<64x64xi32, #load>
      scf.yield %next, %pn, %on : i32, !ptrs, !ptrs
    }
    scf.yield %inner#0, %inner#1, %inner#2 : i32, !ptrs, !ptrs
  }
  return
}
}
)";

/// A loop that keeps one dot in flight: it waits for the last iteration's, whose operand it then
/// gives back.
constexpr const char *inFlight = R"(
#load = #cta.layout<"64x64, register [(0,1) (0,2) (0,4) (16,0) (32,0)], lane [(0,8) (0,16) (0,32) (1,0) (2,0)], warp [(4,0) (8,0)]">
#rows = #cta.layout<"64x64, shared [(0,1) (0,2) (0,4) (0,8) (0,16) (0,32) (1,8) (2,16) (4,32) (8,0) (16,0) (32,0)]">
#acc = #cta.layout<"64x64, register [(0,1) (8,0) (0,16) (0,32) (32,0)], lane [(0,2) (0,4) (1,0) (2,0) (4,0)], warp [(16,0) (0,8)]">
#a = #cta.layout<"64x64, register [(0,1) (8,0) (0,8) (0,16) (0,32) (32,0)], lane [(0,2) (0,4) (1,0) (2,0) (4,0)], warp [(16,0) (0,0)]">
!ptrs = tensor<64x64x!tile.ptr<f16>, #load>
!operand = tensor<64x64xf16, #a>
!acc = tensor<64x64xf32, #acc>
!flight = !cta.in_flight<tensor<64x64xf32, #acc>>
!buffer = !cta.buffer<64x64xf16, #rows>
!ring = !cta.channel<3, !buffer>
module attributes {cta.target = "sm_80"} {
func.func @kernel(%x: !tile.ptr<f16>, %out: !tile.ptr<f32>, %n: i32) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  %c3 = arith.constant 3 : i32
  %a = arith.constant dense<1.0> : !operand
  %zero = arith.constant dense<0.0> : !acc
  %k = cta.channel : !ring
  %x0 = tile.splat %x : !tile.ptr<f16> -> !ptrs
  %os = tile.splat %out : !tile.ptr<f32> -> tensor<64x64x!tile.ptr<f32>, #acc>
  %step = arith.constant dense<1> : tensor<64x64xi32, #load>
  %b0 = cta.acquire %k[%c0] : !ring -> !buffer
  cta.async_copy %x0, %b0 : !ptrs, !buffer
  cta.commit %k[%c0] : !ring
  %x1 = tile.addptr %x0, %step : !ptrs, tensor<64x64xi32, #load>
  %b1 = cta.acquire %k[%c1] : !ring -> !buffer
  cta.async_copy %x1, %b1 : !ptrs, !buffer
  cta.commit %k[%c1] : !ring
  %x2 = tile.addptr %x1, %step : !ptrs, tensor<64x64xi32, #load>
  %r0 = cta.wait %k[%c0] : !ring -> !buffer
  %first = cta.dot_start %a, %r0, %zero by [16, 8, 16] : !operand, !buffer, !acc -> !flight
  %end:3 = scf.for %i = %c0 to %n step %c1 iter_args(%done = %c0, %p = %x2, %dot = %first) -> (i32, !ptrs, !flight) : i32 {
    %use = arith.addi %done, %c1 : i32
    %r = cta.wait %k[%use] : !ring -> !buffer
    %next = cta.dot_start %a, %r, %dot by [16, 8, 16] : !operand, !buffer, !flight -> !flight
    %sums = cta.dot_wait %next : !flight
    cta.release %k[%done] : !ring
    cta.release %k[%use] : !ring
    %later = arith.addi %done, %c2 : i32
    %b = cta.acquire %k[%later] : !ring -> !buffer
    cta.async_copy %p, %b : !ptrs, !buffer
    cta.commit %k[%later] : !ring
    %again = cta.wait %k[%later] : !ring -> !buffer
    %two = arith.addi %done, %c3 : i32
    %b2 = cta.acquire %k[%two] : !ring -> !buffer
    %pn = tile.addptr %p, %step : !ptrs, tensor<64x64xi32, #load>
    cta.async_copy %pn, %b2 : !ptrs, !buffer
    cta.commit %k[%two] : !ring
    %last = cta.dot_start %a, %again, %sums by [16, 8, 16] : !operand, !buffer, !acc -> !flight
    %pnn = tile.addptr %pn, %step : !ptrs, tensor<64x64xi32, #load>
    scf.yield %later, %pnn, %last : i32, !ptrs, !flight
  }
  %sums = cta.dot_wait %end#2 : !flight
  cta.release %k[%end#0] : !ring
  tile.store %os, %sums : tensor<64x64x!tile.ptr<f32>, #acc>, !acc
  return
}
}
)";

class Channels : public testing::Test {
protected:
  Channels() {
    DialectRegistry registry;
    registerDialects(registry);
    context.appendDialectRegistry(registry);
    context.loadAllAvailableDialects();
    context.disableMultithreading();
  }

  OwningOpRef<ModuleOp> lower(const std::string &text) {
    OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(text, &context);
    PassManager manager(&context);
    OpPassManager &kernel = manager.nest<func::FuncOp>();
    kernel.addPass(createLowerChannels());
    kernel.addPass(createSimplify());
    kernel.addPass(createPlaceShared());
    kernel.addPass(createInsertBarriers());
    return module && succeeded(manager.run(*module)) ? std::move(module) : OwningOpRef<ModuleOp>();
  }

  static BlockMachine run(ModuleOp module, int64_t n, int64_t m) {
    BlockMachine machine;
    machine.run(*module.getOps<func::FuncOp>().begin(), {1 << 20, 5000, n, m});
    return machine;
  }

  /// Whether some mixture of trip counts goes wrong: by an error of the machine, or another result.
  static bool isWrong(ModuleOp module) {
    for (int64_t n : {0, 1, 2, 3, 5})
      for (int64_t m : {0, 1, 2, 3, 5}) {
        BlockMachine machine = run(module, n, m);
        if (!machine.errors.empty() || machine.stores.size() != size_t(n * m))
          return true;
        for (int64_t use = 0; use < n * m; ++use)
          if (machine.stores[use] != std::pair(5000 + use, BlockMachine::contents((1 << 20) + use)))
            return true;
      }
    return false;
  }

  static std::string replaced(std::string text, const std::string &from, const std::string &to) {
    size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return text.replace(at, from.size(), to);
  }

  MLIRContext context;
};

TEST_F(Channels, LiveAcrossNestedLoops) {
  OwningOpRef<ModuleOp> module = lower(nested);
  ASSERT_TRUE(module);
  EXPECT_FALSE(isWrong(*module));
  // The buffers of the ring are told apart through both loops: one barrier for each use, and one
  // group in flight at each wait.
  EXPECT_EQ(run(*module, 3, 4).barriers, 12u);
  SmallVector<int64_t> pending;
  module->walk([&](cta::AsyncWaitOp wait) { pending.push_back(wait.getPending()); });
  EXPECT_EQ(pending, (SmallVector<int64_t>{1, 0}));
}

// Slots and parities by positions are those by the numbers of uses, however far a position moves.
TEST_F(Channels, PositionsStandForUses) {
  OpBuilder builder(&context);
  const Location loc = builder.getUnknownLoc();
  OwningOpRef<ModuleOp> module = ModuleOp::create(loc);
  builder.setInsertionPointToStart(module->getBody());
  Value none = arith::ConstantIntOp::create(builder, loc, 0, 32);
  const Type i32 = builder.getI32Type();
  for (uint32_t slots = 1; slots < 12; ++slots) {
    auto slot = cta::RingSlotOp::create(builder, loc, i32, none, slots);
    auto parity = cta::RingParityOp::create(builder, loc, i32, none, slots, /*before=*/false);
    auto before = cta::RingParityOp::create(builder, loc, i32, none, slots, /*before=*/true);
    for (uint32_t by = 1; by < 2 * slots; ++by) {
      auto advance = cta::RingAdvanceOp::create(builder, loc, i32, none, by, slots);
      for (uint32_t use = 0, position = 0; use < 100;
           use += by, position = advance.resultOf(position)) {
        EXPECT_EQ(position, cta::positionOf(use, slots));
        EXPECT_EQ(slot.resultOf(position), use % slots);
        EXPECT_EQ(parity.resultOf(position), use / slots % 2);
        EXPECT_NE(before.resultOf(position), use / slots % 2);
      }
    }
  }
}

TEST_F(Channels, AreReadByDotsInFlight) {
  OwningOpRef<ModuleOp> module = lower(inFlight);
  ASSERT_TRUE(module);
  std::set<int64_t> sums;
  for (int64_t n : {0, 1, 2, 5}) {
    BlockMachine machine;
    machine.run(*module->getOps<func::FuncOp>().begin(), {1 << 20, 5000, n});
    EXPECT_THAT(machine.errors, testing::IsEmpty());
    ASSERT_EQ(machine.stores.size(), 1u);
    sums.insert(machine.stores.front().second);
    // Two uses of each iteration, the first, and those ahead.
    EXPECT_EQ(machine.loaded.size(), size_t(2 + 2 * n));
  }
  EXPECT_EQ(sums.size(), 4u);

  ScopedDiagnosticHandler quiet(&context, [](Diagnostic &) { return success(); });
  // The operand is given back before the wait.
  EXPECT_FALSE(lower(replaced(inFlight, R"(    %sums = cta.dot_wait %next : !flight
    cta.release %k[%done] : !ring
)",
                              R"(    cta.release %k[%done] : !ring
    %sums = cta.dot_wait %next : !flight
)")));
}

TEST_F(Channels, PlantedMistakesAreFound) {
  const std::string lowered = [&] {
    std::string text;
    llvm::raw_string_ostream(text) << *lower(nested);
    return text;
  }();
  auto parse = [&](const std::string &text) { return parseSourceString<ModuleOp>(text, &context); };
  ASSERT_FALSE(isWrong(*parse(lowered)));
  // A wait that leaves a group too many in flight.
  EXPECT_TRUE(isWrong(*parse(replaced(lowered, "cta.async_wait 1", "cta.async_wait 2"))));
  EXPECT_TRUE(isWrong(*parse(replaced(lowered, "cta.barrier", ""))));

  ScopedDiagnosticHandler quiet(&context, [](Diagnostic &) { return success(); });
  // A slot that is filled one use early, uses that the next inner loop counts anew, and one slot
  // too few, so that the producer would overtake its reader.
  EXPECT_FALSE(
      lower(replaced(nested, "%later = arith.addi %use, %c2", "%later = arith.addi %use, %c1")));
  EXPECT_FALSE(lower(replaced(nested, "scf.yield %inner#0,", "scf.yield %c0,")));
  EXPECT_FALSE(lower(replaced(nested, "!cta.channel<3,", "!cta.channel<2,")));
}

} // namespace
