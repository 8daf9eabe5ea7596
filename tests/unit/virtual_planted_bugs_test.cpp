// Mistakes planted in compiled kernels, each of which the virtual GPU must find for its own reason:
// products on sm_90a, with copies in a ring, by threads or by the engine, and one wgmma group in
// flight; of fp8 one whose sums are promoted.
#include "VirtualTest.h"
#include "tests/unit/Fp8Sums.h"
#include "tests/unit/LoopPlans.h"
#include "vgpu/TensorMap.h"
#include <algorithm>
#include <cmath>
#include <regex>
#include <sectile/sectile.h>

using namespace sectile;
using namespace sectile::vgpu;

namespace {

[[maybe_unused]] const bool plans = alwaysWithLoopPlans();

constexpr int size = 64, depth = 256, step = 32; // more steps than the ring has slots
constexpr uint64_t seeds = 8;                    // each another order of warps, copies and products

enum class Copies {
  ByThreads,
  ByEngine,
  ByEngineAfterThreads, ///< in bytes that threads have written: the tallest of A's first columns
};

/// A 64 × 64 product in steps of 32: slots of 4096 bytes for each operand, two or three steps of
/// copies in flight. `form`: as the command line has it.
std::string productText(Copies copies, unsigned warps, const std::string &form = "llvm") {
  Kernel kernel{"product",
                [copies](View<const half, 2> a, View<const half, 2> b, View<float, 2> c) {
                  // The engine takes no hints for the cache.
                  const Cache cache = copies == Copies::ByThreads ? Cache::global : Cache::normal;
                  auto acc = zeros<float>(size, size);
                  if (copies == Copies::ByEngineAfterThreads) {
                    auto tallest = max(cast<float>(a.tile(size, step).load(0, 0)));
                    acc = acc + tallest - tallest;
                  }
                  for (auto k : range(cdiv(a.extent(1), step)))
                    acc = dot(a.tile(size, step).access({.cache = cache}).load(0, k),
                              b.tile(step, size).access({.cache = cache}).load(k, 0), acc);
                  c.tile(size, size).store(0, 0, acc);
                },
                {.warps = warps, .stages = 3}};
  half *operand = nullptr;
  float *sums = nullptr;
  return kernel.emit("sm_90a", form, Tensor<half, 2>(operand, {size, depth}, {depth, 1}),
                     Tensor<half, 2>(operand, {depth, size}, {size, 1}),
                     Tensor<float, 2>(sums, {size, size}, {size, 1}));
}

/// The same product by the engine, whose left operand the kernel first doubles through another
/// argument of the same memory.
std::string productOfStoredText(unsigned warps, const std::string &form) {
  Kernel kernel{
      "product",
      [](View<const half, 2> a, View<const half, 2> b, View<float, 2> c, View<half, 2> same) {
        const auto whole = same.tile(size, depth);
        whole.store(0, 0, whole.load(0, 0) * 2.0f);
        barrier();
        auto acc = zeros<float>(size, size);
        for (auto k : range(cdiv(a.extent(1), step)))
          acc = dot(a.tile(size, step).load(0, k), b.tile(step, size).load(k, 0), acc);
        c.tile(size, size).store(0, 0, acc);
      },
      {.warps = warps, .stages = 3}};
  half *operand = nullptr;
  float *sums = nullptr;
  const Tensor<half, 2> a(operand, {size, depth}, {depth, 1});
  return kernel.emit("sm_90a", form, a, Tensor<half, 2>(operand, {depth, size}, {size, 1}),
                     Tensor<float, 2>(sums, {size, size}, {size, 1}), a);
}

/// Everything up to a loop's first block, the loop, and the rest. The text has one loop.
struct Parts {
  std::string before, loop, after;
  std::string text() const { return before + loop + after; }
};
Parts split(const std::string &text) {
  const size_t begin = text.find("\nloop.body:"), end = text.find("\nloop.end:");
  EXPECT_NE(begin, std::string::npos);
  EXPECT_NE(end, std::string::npos);
  return {text.substr(0, begin), text.substr(begin, end - begin), text.substr(end)};
}

/// The text with its only match of the expression replaced.
std::string edited(const std::string &text, const std::string &from, const std::string &to) {
  const std::regex expression(from);
  EXPECT_EQ(std::distance(std::sregex_iterator(text.begin(), text.end(), expression), {}), 1)
      << from << "\n"
      << text;
  return std::regex_replace(text, expression, to);
}

/// The tensor map of the argument at `pointer`, `rows` × `columns`, as the kernel wants it.
vgpu::TensorMap mapOf(const std::string &cta, int pointer, const half *memory, int rows,
                      int columns) {
  std::smatch found;
  EXPECT_TRUE(std::regex_search(cta, found,
                                std::regex("cta.tensor_map = \\{box = array<i64: ([0-9]+), "
                                           "([0-9]+)>[^}]*pointer = " +
                                           std::to_string(pointer) +
                                           " : i64[^}]*swizzle = ([0-9]+) : i64\\}")))
      << cta;
  vgpu::TensorMap map;
  map.address = reinterpret_cast<uint64_t>(memory);
  map.type = vgpu::TensorType::F16;
  map.rank = 2;
  map.extents[0] = uint64_t(columns);
  map.extents[1] = uint64_t(rows);
  map.strides[0] = uint64_t(columns) * sizeof(half);
  map.box[0] = uint32_t(std::stoul(found[1]));
  map.box[1] = uint32_t(std::stoul(found[2]));
  map.swizzle = uint8_t(std::stoul(found[3]));
  return vgpu::TensorMap::encode(map);
}

class PlantedBugs : public testing::Test {
protected:
  struct Outcome {
    LaunchResult result;
    std::vector<float> sums;
  };
  Outcome run(const std::string &text, uint64_t seed) {
    Runner runner(text);
    runner.shape.block[0] = 32 * warps;
    runner.shape.sharedBytes = 65536;
    runner.options.seed = seed;
    std::vector<half> a, b;
    for (int i = 0; i < size * depth; ++i) {
      a.push_back(half(float(i * 7 % 13 - 6) / (storesFirst ? 2 : 1)));
      b.push_back(half(float(i * 5 % 11 - 5)));
    }
    const half *left = runner.upload(a), *right = runner.upload(b);
    auto *c = runner.allocate<float>(size_t(size * size));
    vgpu::TensorMap leftMap, rightMap; // which kernels that do not have them do not get
    if (!cta.empty()) {
      leftMap = mapOf(cta, 0, left, size, depth);
      rightMap = mapOf(cta, 5, right, depth, size);
    }
    auto launch = [&](auto... more) {
      return runner.run(left, int32_t(size), int32_t(depth), int32_t(depth), int32_t(1), right,
                        int32_t(depth), int32_t(size), int32_t(size), int32_t(1), c, int32_t(size),
                        int32_t(size), int32_t(size), int32_t(1), more..., leftMap, rightMap);
    };
    LaunchResult result =
        storesFirst ? launch(left, int32_t(size), int32_t(depth), int32_t(depth), int32_t(1))
                    : launch();
    return {std::move(result), {c, c + size * size}};
  }
  static float expected(int row, int column) {
    int sum = 0;
    for (int k = 0; k < depth; ++k)
      sum += ((row * depth + k) * 7 % 13 - 6) * ((k * size + column) * 5 % 11 - 5);
    return float(sum);
  }
  static std::vector<float> allExpected() {
    std::vector<float> sums;
    for (int i = 0; i < size * size; ++i)
      sums.push_back(expected(i / size, i % size));
    return sums;
  }
  void expectFinding(const std::string &planted, std::initializer_list<FindingKind> kinds) {
    for (uint64_t seed = 0; seed < seeds; ++seed) {
      const auto finding = run(planted, seed).result.finding;
      ASSERT_TRUE(finding) << "seed " << seed << ": expected a " << kindName(*kinds.begin());
      EXPECT_TRUE(std::ranges::find(kinds, finding->kind) != kinds.end()) << finding->text();
    }
  }
  void expectFinding(const Parts &planted, FindingKind kind) {
    expectFinding(planted.text(), {kind});
  }
  void expectClean(const std::string &text) {
    for (uint64_t seed = 0; seed < seeds; ++seed) {
      const Outcome outcome = run(text, seed);
      ASSERT_FALSE(outcome.result.finding) << outcome.result.finding->text();
      ASSERT_EQ(outcome.sums, allExpected());
    }
  }

  unsigned warps = 4;
  std::string cta;          ///< of a kernel whose tensor maps it says
  bool storesFirst = false; ///< the kernel doubles the left operand before it multiplies
};

class PlantedInThreadsCopies : public PlantedBugs {
protected:
  Parts parts = split(productText(Copies::ByThreads, warps));
};

TEST_F(PlantedInThreadsCopies, TheKernelIsCleanWithoutThem) { expectClean(parts.text()); }

TEST_F(PlantedInThreadsCopies, MissingProxyFence) {
  parts.loop = edited(parts.loop, ".*@llvm.nvvm.fence.proxy.async.*\n", "");
  expectFinding(parts, FindingKind::MissingProxyFence);
}

// The last product is in flight when its sums are stored.
TEST_F(PlantedInThreadsCopies, MissingWaitForADot) {
  size_t at = parts.after.find("@sectile.nv.wgmma_wait.0.");
  ASSERT_NE(at, std::string::npos);
  for (; at != std::string::npos; at = parts.after.find("@sectile.nv.wgmma_wait.0."))
    parts.after.replace(at, 25, "@sectile.nv.wgmma_wait.1.");
  // One is on the loop's way out.
  for (std::string *part : {&parts.loop, &parts.after})
    *part = std::regex_replace(*part, std::regex("wgmma.wait_group.sync.aligned\\(i64 0\\)"),
                               "wgmma.wait_group.sync.aligned(i64 1)");
  expectFinding(parts, FindingKind::MissingWait);
}

// The store's sums come from before the wait. No finding says so: the chip shows whatever the
// registers hold, and the virtual GPU shows NaN.
TEST_F(PlantedInThreadsCopies, AccumulatorReadEarly) {
  std::smatch wait;
  ASSERT_TRUE(std::regex_search(parts.after, wait,
                                std::regex("(%[0-9]+) = tail call \\{[^}]*\\} "
                                           "@sectile.nv.wgmma_wait[^(]*\\(float ([^,]+),")));
  parts.after = edited(parts.after, "= extractvalue \\{[^}]*\\} " + wait.str(1) + ", 0[^0-9].*\n",
                       "= fadd float " + wait.str(2) + ", 0.0\n");
  for (uint64_t seed = 0; seed < seeds; ++seed) {
    const Outcome outcome = run(parts.text(), seed);
    EXPECT_FALSE(outcome.result.finding) << outcome.result.finding->text();
    // One of a thread's 32 sums.
    EXPECT_EQ(std::ranges::count_if(outcome.sums, [](float sum) { return std::isnan(sum); }), 128);
  }
}

// The copies go into the slot before theirs, which the product in flight reads.
TEST_F(PlantedInThreadsCopies, RingOverwritten) {
  parts.loop = edited(parts.loop, "(%[0-9]+) = xor i32 (%[0-9]+), 8192,.*\n",
                      "%early = add i32 $2, 12288\n  $1 = and i32 %early, 12288\n");
  expectFinding(parts, FindingKind::SharedRace);
}

// Products of two steps are in flight, of which the ring has slots for one.
TEST_F(PlantedInThreadsCopies, RingOverwrittenBehindALateWait) {
  parts.loop = edited(parts.loop, "wgmma.wait_group.sync.aligned\\(i64 1\\)",
                      "wgmma.wait_group.sync.aligned(i64 2)");
  expectFinding(parts, FindingKind::SharedRace);
}

// The instruction reads other elements of the same buffer, so that only the results can tell.
TEST_F(PlantedInThreadsCopies, WrongSwizzle) {
  // Bits 62 and 63 of the left operand's descriptor: 64 bytes become 32.
  const int64_t fields = -9223371899415822336, mode = int64_t(1) << 62;
  parts.loop = edited(parts.loop, "or disjoint i64 (%[0-9]+), " + std::to_string(fields) + ",",
                      "or disjoint i64 $1, " + std::to_string(fields + mode) + ",");
  for (uint64_t seed = 0; seed < seeds; ++seed) {
    const Outcome outcome = run(parts.text(), seed);
    EXPECT_FALSE(outcome.result.finding) << outcome.result.finding->text();
    EXPECT_NE(outcome.sums, allExpected());
  }
}

//===-- Copies by the engine
//-----------------------------------------------------------------------===//

class PlantedInEngineCopies : public PlantedBugs {
protected:
  void SetUp() override { use(Copies::ByEngine); }
  void use(Copies copies) {
    cta = productText(copies, warps, "cta");
    text = productText(copies, warps);
  }
  /// Around the only match of the expression.
  void edit(const std::string &from, const std::string &to) { text = edited(text, from, to); }

  std::string text;
};

TEST_F(PlantedInEngineCopies, TheKernelIsCleanWithoutThem) { expectClean(text); }

TEST_F(PlantedInEngineCopies, WaitOnePhaseEarly) {
  edit("(.*@sectile.nv.mbarrier_wait\\(.*, i32 )(%[0-9]+)(\\).*\n)",
       "  %early = xor i32 $2, 1\n$1%early$3");
  expectFinding(text, {FindingKind::MissingWait, FindingKind::SharedRace, FindingKind::Deadlock});
}

TEST_F(PlantedInEngineCopies, PhaseThatStaysConstant) {
  edit("(@sectile.nv.mbarrier_wait\\(.*, i32 )%[0-9]+\\)", "$010)");
  expectFinding(text, {FindingKind::MissingWait, FindingKind::SharedRace, FindingKind::Deadlock});
}

TEST_F(PlantedInEngineCopies, MissingWait) {
  edit(".*call void @sectile.nv.mbarrier_wait\\(.*\n", "");
  expectFinding(text, {FindingKind::MissingWait});
}

TEST_F(PlantedInEngineCopies, MoreBytesExpectedThanAreCopied) {
  edit("(mbarrier.arrive.expect.tx[^(]*\\(ptr addrspace\\(3\\) nonnull %[0-9]+, i32 )8192",
       "$018208");
  expectFinding(text, {FindingKind::Deadlock});
}

TEST_F(PlantedInEngineCopies, MissingBarrierBeforeASlotIsRefilled) {
  // Warps of one warpgroup meet at its products.
  warps = 8;
  use(Copies::ByEngine);
  expectClean(text);
  const Parts parts = split(text);
  text = parts.before + edited(parts.loop, ".*@llvm.nvvm.barrier.cta.sync.*\n", "") + parts.after;
  expectFinding(text, {FindingKind::SharedRace, FindingKind::Deadlock});
}

TEST_F(PlantedInEngineCopies, MissingFenceBeforeTheEngineOverwrites) {
  use(Copies::ByEngineAfterThreads);
  expectClean(text);
  edit(".*@llvm.nvvm.fence.proxy.async.*\n(.*@llvm.nvvm.barrier.cta.sync)", "$1");
  expectFinding(text, {FindingKind::MissingProxyFence});
}

class PlantedInEngineCopiesOfStores : public PlantedBugs {
protected:
  void SetUp() override {
    storesFirst = true;
    cta = productOfStoredText(warps, "cta");
    text = productOfStoredText(warps, "llvm");
  }
  std::string text;
};

TEST_F(PlantedInEngineCopiesOfStores, TheKernelIsCleanWithoutThem) { expectClean(text); }

TEST_F(PlantedInEngineCopiesOfStores, MissingFenceOfGlobalMemory) {
  text = edited(text, ".*call void @llvm.nvvm.fence.proxy.async.global.*\\n", "");
  expectFinding(text, {FindingKind::MissingProxyFence});
}

// A fence for what came before does not count.
TEST_F(PlantedInEngineCopiesOfStores, FenceBeforeTheBarrier) {
  text =
      edited(text, "(.*@llvm.nvvm.barrier.cta.sync.*\n)(.*@llvm.nvvm.fence.proxy.async.global.*\n)",
             "$2$1");
  expectFinding(text, {FindingKind::MissingProxyFence});
}

//===-- Dots beside softmax
//-----------------------------------------------------------------------===//

/// 64 queries and up to twelve blocks of 64 keys, copied by the engine: each iteration multiplies
/// the values of the one before beside its own scores and their softmax. As many buffers as leave
/// one block alone on a multiprocessor, where dots overlap.
class PlantedBesideSoftmax : public testing::Test {
protected:
  static constexpr int mostSteps = 12;

  static std::string attentionText(bool overlap, const std::string &form = "llvm") {
    Kernel kernel{"attention",
                  [overlap](View<const half, 2> q, View<const half, 2> k, View<const half, 2> v,
                            View<float, 2> o) {
                    auto block = [](const View<const half, 2> &from, const Int &step) {
                      return from.tile(size, size).load(step, 0);
                    };
                    auto query = q.tile(size, size).load(0, 0);
                    auto largest = full<float>(-1e30f, size);
                    auto sums = zeros<float>(size, size);
                    for (auto step :
                         range(cdiv(k.extent(0), size), {.disallow_acc_multi_buffer = !overlap})) {
                      auto scores =
                          dot(query, trans(block(k, step)), zeros<float>(size, size)) * 0.125f;
                      auto before = largest;
                      largest = maximum(largest, max(scores, 1));
                      auto weights = exp2(scores - expand(largest, 1));
                      sums = sums * expand(exp2(before - largest), 1);
                      sums = dot(cast<half>(weights), block(v, step), sums);
                    }
                    o.tile(size, size).store(0, 0, sums);
                  },
                  {.warps = 4, .stages = 8}};
    half *operand = nullptr;
    float *sums = nullptr;
    const Tensor<half, 2> rows(operand, {mostSteps * size, size}, {size, 1});
    return kernel.emit("sm_90a", form, Tensor<half, 2>(operand, {size, size}, {size, 1}), rows,
                       rows, Tensor<float, 2>(sums, {size, size}, {size, 1}));
  }

  struct Outcome {
    LaunchResult result;
    std::vector<float> sums;
  };
  Outcome run(const std::string &text, uint64_t seed, int steps = mostSteps) {
    Runner runner(text);
    runner.shape.block[0] = 128;
    runner.shape.sharedBytes = 196608;
    runner.options.seed = seed;
    // Scores grow from block to block, so that each rescales the sums.
    std::vector<half> queries, others;
    for (int i = 0; i < size * size; ++i)
      queries.push_back(half(float(i * 7 % 13) / 4));
    for (int i = 0; i < mostSteps * size * size; ++i)
      others.push_back(half(float(i * 5 % 31 + i / (size * size)) / 64));
    const half *left = runner.upload(queries), *right = runner.upload(others);
    auto *o = runner.allocate<float>(size_t(size * size));
    const auto rows = int32_t(steps * size);
    LaunchResult result =
        runner.run(left, int32_t(size), int32_t(size), int32_t(size), int32_t(1), right, rows,
                   int32_t(size), int32_t(size), int32_t(1), right, rows, int32_t(size),
                   int32_t(size), int32_t(1), o, int32_t(size), int32_t(size), int32_t(size),
                   int32_t(1), mapOf(cta, 5, right, std::max(rows, 1), size),
                   mapOf(cta, 10, right, std::max(rows, 1), size));
    return {std::move(result), {o, o + size * size}};
  }

  /// Has the loop's wait that leaves so many groups in flight leave more.
  void leaveUnderWay(unsigned groups, unsigned more) {
    const std::string wait = "@sectile.nv.wgmma_wait." + std::to_string(groups) + ".",
                      late = "@sectile.nv.wgmma_wait." + std::to_string(more) + ".";
    // The first of the text is the loop's; one after the loop may be of the same name.
    std::smatch found;
    ASSERT_TRUE(std::regex_search(text, found, std::regex("call \\{.*(" + wait + "([0-9f]+)).*")));
    const std::string name = found.str(1), renamed = late + found.str(2);
    const auto at = static_cast<size_t>(found.position(1));
    std::smatch declared;
    ASSERT_TRUE(std::regex_search(text, declared, std::regex("declare .* " + name + "\\(.*")));
    const std::string declaration =
        std::regex_replace(declared.str(), std::regex(name), renamed) + "\n";
    text.replace(at, name.size(), renamed);
    if (text.find(declaration) == std::string::npos)
      text += declaration;
  }
  void expectRace(std::initializer_list<FindingKind> kinds = {FindingKind::SharedRace}) {
    for (uint64_t seed = 0; seed < seeds; ++seed) {
      const auto finding = run(text, seed).result.finding;
      ASSERT_TRUE(finding) << "seed " << seed;
      EXPECT_TRUE(std::ranges::find(kinds, finding->kind) != kinds.end()) << finding->text();
    }
  }

  std::string cta = attentionText(true, "cta"), text = attentionText(true);
};

TEST_F(PlantedBesideSoftmax, TheKernelIsCleanAndChangesNoBit) {
  const std::string plain = attentionText(false);
  EXPECT_NE(text, plain);
  for (int steps = 0; steps <= mostSteps; ++steps) {
    const Outcome expected = run(plain, 0, steps);
    ASSERT_FALSE(expected.result.finding) << expected.result.finding->text();
    for (uint64_t seed = 0; seed < seeds; ++seed) {
      const Outcome outcome = run(text, seed, steps);
      ASSERT_FALSE(outcome.result.finding) << outcome.result.finding->text();
      EXPECT_EQ(outcome.sums, expected.sums) << steps << " iterations, seed " << seed;
    }
  }
}

// The wait that the sums need leaves their dot in flight, and the next iteration's copies go where
// it reads values.
TEST_F(PlantedBesideSoftmax, SumsRescaledEarly) {
  leaveUnderWay(0, 1);
  expectRace();
}

// The wait for the scores leaves them in flight behind the values' dot: softmax reads NaN.
TEST_F(PlantedBesideSoftmax, ScoresReadEarly) {
  leaveUnderWay(1, 2);
  for (uint64_t seed = 0; seed < seeds; ++seed) {
    const Outcome outcome = run(text, seed);
    EXPECT_FALSE(outcome.result.finding) << outcome.result.finding->text();
    EXPECT_TRUE(std::ranges::all_of(outcome.sums, [](float sum) { return std::isnan(sum); }));
  }
}

// Both waits leave the scores in flight: the next iteration's copies go where they are read.
TEST_F(PlantedBesideSoftmax, ScoresUnderWayWhenTheirKeysAreOverwritten) {
  leaveUnderWay(0, 2);
  leaveUnderWay(1, 2);
  expectRace();
}

// The copies go into the slot behind theirs, which this iteration reads: seven uses on becomes
// eight.
TEST_F(PlantedBesideSoftmax, SlotOverwrittenWhileItIsRead) {
  text = edited(text, "add (nuw |nsw )*i32 (%[0-9]+), 7,", "add i32 $2, 8,");
  expectRace({FindingKind::SharedRace, FindingKind::MissingWait, FindingKind::Deadlock,
              FindingKind::BadOperand});
}

//===-- Sums that are promoted
//-----------------------------------------------------------------------===//

/// A product of fp8 along K, whose first pair of numbers is so large that 13 bits behind its
/// product leave no room for the others'.
class PromotedSums : public testing::Test {
protected:
  static constexpr int depth = 1024, step = 128;

  static std::string productText() {
    Kernel kernel{"product",
                  [](View<const float8_e4m3, 2> a, View<const float8_e4m3, 2> b, View<float, 2> c) {
                    auto acc = zeros<float>(size, size);
                    for (auto k : range(cdiv(a.extent(1), step)))
                      acc = dot(a.tile(size, step).load(0, k), trans(b.tile(size, step).load(0, k)),
                                acc);
                    c.tile(size, size).store(0, 0, acc);
                  },
                  {.warps = 4, .stages = 3}};
    // Not so aligned that the copy engine could be used, which needs tensor maps.
    auto *operand = reinterpret_cast<float8_e4m3 *>(8); // NOLINT
    float *sums = nullptr;
    const Tensor<float8_e4m3, 2> matrix(operand, {size, depth}, {depth, 1});
    return kernel.emit("sm_90a", "llvm", matrix, matrix,
                       Tensor<float, 2>(sums, {size, size}, {size, 1}));
  }

  /// The largest error, as a part of what is promised.
  static double worst(const std::string &text) {
    Runner runner(text);
    runner.shape.block[0] = 128;
    runner.shape.sharedBytes = 65536;
    std::vector<float8_e4m3> operand;
    std::vector<float> row;
    for (int i = 0; i < size * depth; ++i)
      operand.emplace_back(i % depth ? 1.0f : 128.0f);
    for (int k = 0; k < depth; ++k)
      row.push_back(static_cast<float>(operand[size_t(k)]));
    auto *c = runner.allocate<float>(size_t(size * size));
    const LaunchResult result = runner.run(
        runner.upload(operand), int32_t(size), int32_t(depth), int32_t(depth), int32_t(1),
        runner.upload(operand), int32_t(size), int32_t(depth), int32_t(depth), int32_t(1), c,
        int32_t(size), int32_t(size), int32_t(size), int32_t(1));
    EXPECT_FALSE(result.finding) << result.finding->text();
    double error = 0;
    for (int i = 0; i < size * size; ++i)
      error = std::max(error, std::fabs(c[i] - (128.0 * 128 + depth - 1)));
    return error / test::boundOfE4m3Sum(row, row);
  }
};

TEST_F(PromotedSums, AreAsGoodAsPromised) {
  const double part = worst(productText());
  EXPECT_LE(part, 1);
  EXPECT_GT(part, 0.1) << "the instruction keeps 13 bits";
}

// The loop's sums go on in the instruction's own.
TEST_F(PromotedSums, NeverPromoted) {
  Parts parts = split(productText());
  const std::regex add("(%[0-9]+) = fadd float (%[0-9]+), (%[0-9]+)");
  std::vector<std::string> carried;
  for (std::sregex_iterator at(parts.loop.begin(), parts.loop.end(), add), end; at != end; ++at)
    carried.push_back(at->str(2));
  ASSERT_EQ(carried.size(), size_t(size * size / 128));
  parts.loop = std::regex_replace(parts.loop, add, "$1 = fadd float $3, 0.0");
  size_t at = parts.loop.find("@sectile.nv.wgmma.");
  for (const std::string &sum : carried) {
    const std::string nothing = "float poison";
    at = parts.loop.find(nothing, at);
    ASSERT_NE(at, std::string::npos);
    parts.loop.replace(at, nothing.size(), "float " + sum);
  }
  at = parts.loop.find("i1 false", at);
  ASSERT_NE(at, std::string::npos);
  parts.loop.replace(at, 8, "i1 true");
  EXPECT_GT(worst(parts.text()), 1);
}

} // namespace
