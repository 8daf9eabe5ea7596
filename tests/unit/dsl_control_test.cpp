// Loops and branches of the language: what they carry, and what they become.
#include "dsl_trace.h"

namespace sc = sectile;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

TEST(Range, CarriesWhatItsBodyAssigns) {
  auto matmul = [](sc::View<const sc::half, 2> a, sc::View<const sc::half, 2> b,
                   sc::View<sc::half, 2> c) {
    auto [i, j] = sc::grouped_order(sc::program_id(0), c.tiles(64, 128), 8);
    auto acc = sc::zeros<float>(64, 128);
    for (auto k : sc::range(0, sc::cdiv(a.extent(1), 32), {.stages = 3, .unroll = 2}))
      acc = sc::dot(a.tile(64, 32).load(i, k), b.tile(32, 128).load(k, j), acc);
    c.tile(64, 128).store(i, j, acc);
  };
  std::string ir = traced(matmul);
  EXPECT_THAT(ir,
              ContainsRegex("%[0-9]+ = scf.for %arg15 = %[a-z0-9_]+ to %[0-9]+ step %[a-z0-9_]+ "
                            "iter_args\\(%arg16 = %[a-z0-9_]+\\) -> "
                            "\\(tensor<64x128xf32>\\)  : i32 \\{"));
  EXPECT_THAT(ir, HasSubstr("%arg16 : tensor<64x32xf16>, tensor<32x128xf16>, tensor<64x128xf32>"));
  EXPECT_THAT(ir, HasSubstr("{cta.stages = 3 : i32, cta.unroll = 2 : i32}"));
  EXPECT_THAT(ir, ContainsRegex("arith.truncf %[0-9]+ : tensor<64x128xf32> to tensor<64x128xf16>"));
}

TEST(Range, HintsAreAttributes) {
  std::string ir = traced([](sc::Ptr<float> x, sc::Int n) {
    for (auto i : sc::range(n, {.warp_specialize = true, .flatten = true}))
      sc::store(x + i, 0.0f);
    for (auto i : sc::range(n, {.unroll = 1, .disallow_acc_multi_buffer = true}))
      sc::store(x + i, 1.0f);
  });
  EXPECT_THAT(ir, HasSubstr("} {cta.flatten, cta.warp_specialize = true}"));
  EXPECT_THAT(ir, HasSubstr("} {cta.one_accumulator, cta.unroll = 1 : i32}"));
}

TEST(StaticRange, IsTracedOncePerNumber) {
  std::string ir = traced([](sc::Ptr<float> x) {
    for (auto i : sc::static_range(2, 8, 2))
      sc::store(x + i, sc::sum(sc::zeros<float>(i)));
    for (auto i : sc::static_range(3, 0, -1))
      sc::store(x, static_cast<float>(i));
    for ([[maybe_unused]] auto i : sc::static_range(5, 5))
      sc::store(x + 1000, 0.0f);
  });
  EXPECT_THAT(ir, testing::AllOf(HasSubstr("tensor<2xf32>"), HasSubstr("tensor<4xf32>"),
                                 HasSubstr("tensor<6xf32>"), Not(HasSubstr("tensor<8xf32>")),
                                 Not(HasSubstr("scf.for")), Not(HasSubstr("1000"))));
}

TEST(Range, ZeroTripsAreTheLoopsOwnAffair) {
  // The initial value is what the loop gives when it never runs: an operand of scf.for.
  std::string ir = traced([](sc::Ptr<float> x, sc::Int n) {
    sc::Float sum = 7;
    for (auto i : sc::range(n))
      sum += sc::load(x + i);
    sc::store(x, sum);
  });
  EXPECT_THAT(ir, ContainsRegex("%cst = arith.constant 7.0+e[+]00 : f32"));
  EXPECT_THAT(ir, HasSubstr("iter_args(%arg3 = %cst) -> (f32)"));
}

TEST(Range, CopiesAreCopies) {
  std::string ir = traced([](sc::Ptr<float> x, sc::Int n) {
    sc::Float a = 1, b = a;
    for ([[maybe_unused]] auto i : sc::range(n))
      a = a + 1;
    sc::store(x, b);
  });
  EXPECT_THAT(ir, ContainsRegex("tile.store %arg0, %cst : "));
}

TEST(Range, ValuesMoveBetweenVariables) {
  // Fibonacci: both are carried, and the assignment of one to the other is the yield's business.
  std::string ir = traced([](sc::Ptr<float> x, sc::Int n) {
    sc::Float a = 0, b = 1;
    for ([[maybe_unused]] auto i : sc::range(n)) {
      auto next = a + b;
      a = b;
      b = next;
    }
    sc::store(x, a);
  });
  EXPECT_THAT(ir, ContainsRegex("iter_args\\(%arg3 = %cst, %arg4 = %cst_[0-9]+\\)"));
  EXPECT_THAT(
      ir, ContainsRegex("%1 = arith.addf %arg3, %arg4 : f32\n *scf.yield %arg4, %1 : f32, f32"));
}

TEST(Range, NestsAndFoldsWhatIsUnchanged) {
  std::string ir = traced([](sc::Ptr<float> x, sc::Int n) {
    sc::Float sum = 0, same = 2;
    for (auto i : sc::range(n))
      for (auto j : sc::range(i, n, 2))
        sum += sc::load(x + j) * same;
    sc::store(x, sum * same);
  });
  EXPECT_THAT(ir, ContainsRegex("scf.for .* iter_args\\(%arg3 = %cst\\) -> \\(f32\\)"));
  EXPECT_THAT(ir, ContainsRegex("scf.for .* iter_args\\(%arg5 = %arg3\\) -> \\(f32\\)"));
}

TEST(Range, CarriesPointersAndElementsOfArrays) {
  std::string ir = traced([](sc::Ptr<float> x, sc::Int n) {
    auto p = x + sc::arange(0, 16);
    std::array<sc::Tile<float>, 2> sums = {sc::zeros<float>(16), sc::zeros<float>(16)};
    for ([[maybe_unused]] auto i : sc::range(n)) {
      sums[1] += sc::load(p);
      p += 16;
    }
    sc::store(p, sums[0] + sums[1]);
  });
  EXPECT_THAT(ir, HasSubstr("-> (tensor<16x!tile.ptr<f32>>, tensor<16xf32>)"));
}

TEST(Range, PlainLoopsUnroll) {
  std::string ir = traced([](sc::Ptr<float> x) {
    for (int i = 0; i < 3; ++i)
      sc::store(x + i, 1.0);
  });
  EXPECT_THAT(ir, Not(HasSubstr("scf.for")));
  EXPECT_THAT(ir, ContainsRegex("tile.store(.|\n)*tile.store(.|\n)*tile.store"));
}

TEST(When, BothBranchesGiveAValue) {
  std::string ir = traced([](sc::Ptr<float> x, sc::Int n) {
    sc::Float a = 1, b = 2, c;
    sc::when(
        n > 3,
        [&] {
          a = a + b;
          c = a;
        },
        [&] { c = b; });
    sc::store(x, a + c);
  });
  EXPECT_THAT(ir, HasSubstr(":2 = scf.if %0 -> (f32, f32) {"));
}

TEST(When, WithoutElseKeepsTheValue) {
  std::string ir = traced([](sc::Ptr<float> x, sc::Int n) {
    sc::Float a = 1;
    for (auto i : sc::range(n))
      sc::when(i == 3, [&] { a = a * 2; });
    sc::when(a > 5, [&] { sc::store(x, a); });
  });
  EXPECT_THAT(ir, HasSubstr("} else {\n        scf.yield %arg3 : f32"));
  EXPECT_THAT(ir, ContainsRegex("scf.if %[0-9]+ [{]\n *tile.store"));
}

TEST(When, ABoolIsDecidedWhileTracing) {
  for (bool flag : {false, true}) {
    std::string ir = traced([flag](sc::Ptr<float> x) {
      sc::when(flag, [&] { sc::store(x, 1.0); }, [&] { sc::store(x, 2.0); });
    });
    EXPECT_THAT(ir, Not(HasSubstr("scf.if")));
    EXPECT_THAT(ir, HasSubstr(flag ? "arith.constant 1." : "arith.constant 2."));
  }
}

TEST(LoopWhile, CarriesThroughConditionAndBody) {
  std::string ir = traced([](sc::Ptr<std::int32_t> x, sc::Int n) {
    sc::Int i = n;
    auto steps = sc::zeros<std::int32_t>();
    sc::loop_while([&] { return i > 1; },
                   [&] {
                     i = i / 2;
                     steps += 1;
                   });
    sc::store(x, steps);
  });
  EXPECT_THAT(ir, ContainsRegex("scf.while \\(%arg2 = %arg1, %arg3 = %[a-z0-9_]+\\) : "));
  EXPECT_THAT(ir, ContainsRegex("scf.condition\\(%[0-9]+\\) %arg2, %arg3 : i32, i32"));
}
