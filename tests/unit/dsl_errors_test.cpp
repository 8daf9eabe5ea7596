// What the language refuses: each mistake's reason, with the line of the kernel that made it.
#include "dsl_trace.h"
#include <optional>

namespace sc = sectile;
using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;

// The kernel's fault must be on the line of this macro.
#define EXPECT_FAULT(body, ...)                                                                    \
  EXPECT_THAT(fault([]([[maybe_unused]] sc::Ptr<float> x, [[maybe_unused]] sc::Int n) { body; },   \
                    __LINE__),                                                                     \
              __VA_ARGS__)

//===-- Shapes and types
//--------------------------------------------------------------------------===//

TEST(Errors, Shapes) {
  EXPECT_FAULT(sc::arange(0, 64) + sc::arange(0, 32),
               HasSubstr("operator +: the shapes [64] and [32] do not fit together"));
  EXPECT_FAULT((void)(sc::arange(0, 64) < sc::arange(0, 2)), HasSubstr("a comparison: the shapes"));
  EXPECT_FAULT(sc::where(sc::arange(0, 4) < n, sc::zeros<float>(8), 0),
               HasSubstr("sc::where: the shapes [8], [] and [4]"));
  EXPECT_FAULT(sc::load(x + sc::arange(0, 8), sc::arange(0, 4) < n),
               HasSubstr("pointers and their mask: the shapes [8] and [4]"));
  EXPECT_FAULT(sc::store(x + sc::arange(0, 8), sc::zeros<float>(4)),
               HasSubstr("sc::store: a value of shape [4] does not fit into [8]"));
  EXPECT_FAULT(sc::reshape(sc::arange(0, 8), 3, 3),
               HasSubstr("sc::reshape of [8] to [3, 3]: the number of elements differs"));
  EXPECT_FAULT(sc::broadcast_to(sc::arange(0, 8), 8, 4), HasSubstr("only extents of 1 repeat"));
  EXPECT_FAULT(sc::permute(sc::zeros<float>(2, 3), {0, 0}),
               HasSubstr("sc::permute of [2, 3]: the order names each axis, 0 to 1, once"));
  EXPECT_FAULT(sc::trans(sc::arange(0, 8)), HasSubstr("this tile has rank 1"));
  EXPECT_FAULT(sc::expand(sc::arange(0, 8), 3),
               HasSubstr("sc::expand at axis 3 of a tile of rank 1"));
  EXPECT_FAULT(sc::sum(sc::arange(0, 8), 1), HasSubstr("axis 1 of a tile of rank 1"));
  EXPECT_FAULT(sc::arange(4, 4),
               HasSubstr("sc::arange(4, 4) is empty: the end must be larger than the start"));
  EXPECT_FAULT(sc::full<int>(sc::arange(0, 4), 8),
               HasSubstr("sc::full takes one number, not a tile of [4]: sc::broadcast_to"));
  EXPECT_FAULT(sc::full_like(sc::arange(0, 8), sc::arange(0, 4)),
               HasSubstr("sc::full_like takes one number, not a tile of [4]: sc::broadcast_to"));
  EXPECT_FAULT(sc::zeros<float>(0, 4), HasSubstr("an extent of 0"));
  EXPECT_FAULT(sc::zeros<float>(1 << 20, 1 << 20), HasSubstr("too large for any chip"));
  EXPECT_FAULT(sc::program_id(3), HasSubstr("a grid has the axes 0, 1 and 2, not 3"));
}

TEST(Errors, Literals) {
  EXPECT_FAULT(
      sc::zeros<std::int8_t>(4) + 256,
      HasSubstr("256 does not fit into i8 (-128 to 127): a number takes the type of the tile"));
  EXPECT_FAULT(sc::zeros<std::uint8_t>(4) + 256, HasSubstr("256 does not fit into u8 (0 to 255)"));
  EXPECT_FAULT(sc::zeros<int>(4) / 0, HasSubstr("operator /: integers cannot be divided by 0"));
  EXPECT_FAULT(sc::zeros<std::uint8_t>(4) % 0u,
               HasSubstr("operator %: integers cannot be divided"));
  EXPECT_FAULT(sc::zeros<int>(4) << 32,
               HasSubstr("operator << by 32: numbers of 32 bits shift by 0 to 31"));
  EXPECT_FAULT(sc::zeros<std::int64_t>(4) >> -1,
               HasSubstr("operator >> by -1: numbers of 64 bits shift by 0 to 63"));
  EXPECT_FAULT(sc::zeros<std::uint8_t>(4) >> 8u, HasSubstr("numbers of 8 bits shift by 0 to 7"));
  EXPECT_FAULT(sc::program_id(0) << 64, HasSubstr("numbers of 64 bits shift by 0 to 63"));
  EXPECT_FAULT(sc::zeros<std::uint8_t>(4) * -1, HasSubstr("-1 does not fit into u8"));
  EXPECT_FAULT(sc::zeros<std::uint64_t>(4) * -1, HasSubstr("-1 does not fit into u64"));
  EXPECT_FAULT(sc::zeros<std::int64_t>(4) + ~0ull, HasSubstr("does not fit into i64"));
  EXPECT_FAULT(n * 0.5, HasSubstr("is not an integer, but the tile is Int"));
  EXPECT_FAULT(sc::zeros<int>(4) + 0.1, HasSubstr("0.1 is not an integer, but the tile is i32"));
  EXPECT_FAULT(sc::zeros<int>(4) + 2.0, HasSubstr("2.0 is a float, but the tile is i32"));
  EXPECT_FAULT(sc::zeros<sc::half>(4) * 1e6,
               HasSubstr("does not fit into f16: its largest number is 65504"));
  EXPECT_FAULT(sc::zeros<sc::float8_e4m3>(4) + 1000, HasSubstr("does not fit into f8e4m3"));
  EXPECT_FAULT(sc::full<bool>(2, 4), HasSubstr("2 does not fit into bool"));
  EXPECT_FAULT(sc::Tile<std::int8_t> y = 128, HasSubstr("128 does not fit into i8"));
}

TEST(Errors, Types) {
  EXPECT_FAULT(sc::zeros<float>(4) & 1,
               HasSubstr("operator & works on integers, not on f32: sc::bitcast gives the bits"));
  EXPECT_FAULT(~sc::zeros<float>(4), HasSubstr("operator ~ works on integers"));
  EXPECT_FAULT(
      (n < 3) + (n < 4),
      HasSubstr("operator + works on numbers, not on bool: use &, | and ^, or sc::cast<int>(x)"));
  EXPECT_FAULT(-(n < 3), HasSubstr("works on numbers, not on bool: write !x for the opposite"));
  EXPECT_FAULT(n && n, HasSubstr("&&, || and ! work on bool, not on Int: compare first"));
  EXPECT_FAULT(sc::fma(n < 3, n < 4, n < 5),
               HasSubstr("sc::fma works on numbers, not on bool: convert with sc::cast<float>(x)"));
  EXPECT_FAULT(sc::cdiv(sc::load(x), 2),
               HasSubstr("sc::cdiv divides integers, not f32: sc::ceil(a / b)"));
  EXPECT_FAULT(sc::Tile<sc::half> h = 1;
               h += sc::zeros<float>(4),
               HasSubstr("f16 += f32 gives f32, which the variable cannot hold"));
  EXPECT_FAULT(x + sc::zeros<float>(4),
               HasSubstr("a pointer moves by integers, not by f32: convert with sc::cast<int>(x)"));
  EXPECT_FAULT(sc::load(x, n), HasSubstr("a mask is bool, not Int: compare first, as in i < n"));
  EXPECT_FAULT(sc::load(x, {}, 1), HasSubstr("`other` without a mask"));
  EXPECT_FAULT(sc::where(n, 1, sc::zeros<float>(4)),
               HasSubstr("sc::where chooses by bool, not by Int"));
  EXPECT_FAULT(sc::when(n, [] {}), HasSubstr("sc::when takes a bool, not Int"));
  EXPECT_FAULT(sc::when(sc::arange(0, 4) < n, [] {}),
               HasSubstr("sc::when takes one bool, not a tile of [4]"));
}

static sc::View<float, 1> line(const sc::Ptr<float> &x, const sc::Int &n) { return {x, {n}, {1}}; }

TEST(Errors, CacheHints) {
  EXPECT_FAULT(sc::load(x, {}, {}, {.cache = sc::Cache::write_through}),
               HasSubstr("Cache::write_back and Cache::write_through are for stores"));
  EXPECT_FAULT(sc::store(x, 1, {}, {.cache = sc::Cache::all_levels}),
               HasSubstr("Cache::all_levels is for loads"));
  EXPECT_FAULT(line(x, n).tile(8).access({.cache = sc::Cache::write_back}).load(0),
               HasSubstr("are for stores"));
  EXPECT_FAULT(line(x, n).tile(8).access({.cache = sc::Cache::all_levels}).store(0, 1),
               HasSubstr("is for loads"));
}

TEST(Errors, Rows) {
  EXPECT_FAULT(line(x, n).tile(8).gather(sc::arange(0, 4)),
               HasSubstr("gather of a tile of [8]: the rows have the shape [8], not [4]"));
  EXPECT_FAULT(line(x, n).tile(8).gather(n), HasSubstr("the rows have the shape [8], not []"));
  EXPECT_FAULT(line(x, n).tile(8).scatter(sc::zeros<float>(8), 1),
               HasSubstr("scatter: the rows are a tile of integers"));
  EXPECT_FAULT(line(x, n).tile(8).gather(3), HasSubstr("gather: the rows are a tile of integers"));
  EXPECT_FAULT(line(x, n).tile(8).scatter(sc::arange(0, 8), sc::zeros<float>(4)),
               HasSubstr("a tile scattered to a view of shape [4] does not fit into [8]"));
}

TEST(Errors, Atomics) {
  EXPECT_FAULT(sc::atomic_add(x, sc::zeros<float>(8)),
               HasSubstr("sc::atomic_add: the value of shape [8] does not fit into []"));
  EXPECT_FAULT(sc::atomic_max(x + sc::arange(0, 8), 1, n),
               HasSubstr("a mask is bool, not Int: compare first"));
  EXPECT_FAULT(sc::atomic_min(x + sc::arange(0, 8), 1, sc::arange(0, 4) < n),
               HasSubstr("pointers and their mask: the shapes [8] and [4]"));
  EXPECT_FAULT(sc::atomic_exchange(x, {}), HasSubstr("sc::atomic_exchange has no value"));
  EXPECT_FAULT(sc::atomic_cas(x, sc::zeros<float>(4), 0),
               HasSubstr("sc::atomic_cas: the expected value of shape [4] does not fit into []"));
  EXPECT_FAULT(sc::atomic_add(sc::Ptr<int>(), 1), HasSubstr("used before anything is assigned"));
}

TEST(Errors, Dot) {
  EXPECT_FAULT(sc::dot(sc::zeros<float>(64, 32), sc::zeros<float>(64, 32)),
               HasSubstr("sc::dot of [64, 32] and [64, 32]: the inner extents 32 and 64 differ; "
                         "operands are [M, K] and [K, N], and sc::trans swaps the axes of one"));
  EXPECT_FAULT(sc::dot(sc::zeros<float>(64), sc::zeros<float>(64, 32)),
               HasSubstr("sc::dot of [64] and [64, 32]: operands are [M, K] and [K, N]"));
  EXPECT_FAULT(sc::dot(sc::zeros<float>(8, 4), sc::zeros<float>(4, 2), sc::zeros<float>(2, 8)),
               HasSubstr("gives [8, 2], but its accumulator is [2, 8]"));
  EXPECT_FAULT(sc::dot(sc::zeros<float>(2, 8, 4), sc::zeros<float>(3, 4, 2)),
               HasSubstr("there are 2 matrices and 3; operands are [B, M, K] and [B, K, N]"));
  EXPECT_FAULT(sc::dot(sc::zeros<float>(2, 8, 4), sc::zeros<float>(4, 2)),
               HasSubstr("sc::dot of [2, 8, 4] and [4, 2]: operands are [M, K] and [K, N], or"));
  EXPECT_FAULT(sc::dot(sc::zeros<float>(2, 2, 8, 4), sc::zeros<float>(2, 2, 4, 2)),
               HasSubstr("or [B, M, K] and [B, K, N]; sc::expand inserts an axis"));
  EXPECT_FAULT(sc::dot(sc::zeros<float>(2, 8, 4), sc::zeros<float>(2, 5, 2)),
               HasSubstr("the inner extents 4 and 5 differ"));
  EXPECT_FAULT(sc::dot(sc::zeros<sc::half>(8, 4), sc::zeros<float>(4, 2)),
               HasSubstr("sc::dot of f16 and f32: both operands have one type"));
  EXPECT_FAULT(sc::dot(sc::zeros<int>(8, 4), sc::zeros<int>(4, 2)),
               HasSubstr("operands are floats or int8"));
  EXPECT_FAULT(sc::dot(sc::zeros<sc::bfloat16>(8, 4), sc::zeros<sc::bfloat16>(4, 2),
                       sc::zeros<sc::half>(8, 2)),
               HasSubstr("cannot accumulate in f16: the accumulator is float"));
}

TEST(Errors, DotScaled) {
  using E4 = sc::float8_e4m3;
  EXPECT_FAULT(
      sc::dot_scaled(sc::zeros<E4>(16, 64), sc::no_scale, sc::zeros<E4>(32, 16), sc::no_scale),
      HasSubstr("sc::dot_scaled of [16, 64] and [32, 16]: the inner extents 64 and 32 "));
  EXPECT_FAULT(sc::dot_scaled(sc::zeros<E4>(16), sc::no_scale, sc::zeros<E4>(32, 16), sc::no_scale),
               HasSubstr("operands are [M, K] and [K, N]"));
  EXPECT_FAULT(auto bytes = sc::zeros<std::uint8_t>(16, 32);
               sc::dot_scaled(bytes, sc::no_scale, sc::zeros<E4>(32, 16), sc::no_scale),
               HasSubstr("a byte of packed e2m1 is two along K"));
  EXPECT_FAULT(
      auto scale = sc::zeros<std::uint8_t>(16, 1);
      sc::dot_scaled(sc::zeros<E4>(16, 64), scale, sc::zeros<E4>(64, 16), sc::no_scale),
      HasSubstr("takes scales of [16, 2] for its first operand, [M, K / 32], not [16, 1]"));
  EXPECT_FAULT(auto scale = sc::zeros<std::uint8_t>(2, 8);
               sc::dot_scaled(sc::zeros<E4>(16, 64), sc::no_scale, sc::zeros<E4>(64, 8), scale),
               HasSubstr("takes scales of [8, 2] for its second operand, [N, K / 32], not [2, 8]"));
  EXPECT_FAULT(auto scale = sc::zeros<std::uint8_t>(16, 1);
               sc::dot_scaled(sc::zeros<E4>(16, 48), scale, sc::zeros<E4>(48, 16), sc::no_scale),
               HasSubstr("K = 48 is no multiple of 32"));
  EXPECT_FAULT(sc::dot_scaled(sc::zeros<E4>(16, 64), sc::no_scale, sc::zeros<E4>(64, 16),
                              sc::no_scale, sc::zeros<float>(16, 8)),
               HasSubstr("gives [16, 16], but its accumulator is [16, 8]"));
}

TEST(Errors, Reductions) {
  EXPECT_FAULT(
      sc::reduce(sc::zeros<float>(8), 0, [&](auto a, auto b) { return a + b * sc::load(x); }),
      HasSubstr("may only compute"));
  EXPECT_FAULT(auto two = sc::cast<float>(n);
               sc::reduce(sc::zeros<float>(8), 0, [&](auto a, auto b) { return a + b * two; }),
               HasSubstr("may use only its parameters"));
  EXPECT_FAULT(auto last = sc::zeros<float>();
               sc::reduce(sc::zeros<float>(8), 0, [&](auto a, auto b) { return last = a + b; }),
               HasSubstr("may not assign the kernel's variables"));
  EXPECT_FAULT(sc::reduce(std::tuple(sc::zeros<float>(8), n), 0,
                          [](auto a, auto b, auto, auto) { return std::tuple(a, b); }),
               HasSubstr("needs one shape, not [8] and []"));
  EXPECT_FAULT(sc::sum(sc::zeros<float>(8, 4), {0, -2}),
               HasSubstr("a reduction along axis 0 twice: name each axis once"));
  EXPECT_FAULT(sc::sum(sc::zeros<float>(8, 4), {0, 2}), HasSubstr("axis 2 of a tile of rank 2"));
  EXPECT_FAULT(sc::argmax(sc::zeros<float>(8), 1), HasSubstr("axis 1 of a tile of rank 1"));
}

TEST(Errors, Scans) {
  EXPECT_FAULT(sc::cumsum(sc::zeros<float>(8), 1),
               HasSubstr("a scan along axis 1 of a tile of rank 1"));
  EXPECT_FAULT(sc::cumsum(n, 0), HasSubstr("a scan along axis 0 of a tile of rank 0"));
  EXPECT_FAULT(sc::associative_scan(sc::zeros<float>(8), 0,
                                    [&](auto a, auto b) { return a + b * sc::load(x); }),
               HasSubstr("the combiner of a scan may only compute"));
  EXPECT_FAULT(sc::associative_scan(std::tuple(sc::zeros<float>(8), sc::zeros<float>(4)), 0,
                                    [](auto a, auto b, auto, auto) { return std::tuple(a, b); }),
               HasSubstr("a scan of several tiles needs one shape, not [8] and [4]"));
}

TEST(Errors, Moving) {
  EXPECT_FAULT(sc::join(sc::zeros<float>(8), sc::zeros<float>(4)),
               HasSubstr("sc::join: the shapes [8] and [4] do not fit together"));
  EXPECT_FAULT(sc::split(sc::zeros<float>(2, 8)),
               HasSubstr("sc::split of [2, 8]: the last axis must have extent 2; sc::reshape"));
  EXPECT_FAULT(sc::split(n), HasSubstr("sc::split of []: the last axis must have extent 2"));
  EXPECT_FAULT(sc::interleave(sc::zeros<float>(8), sc::zeros<float>(4)),
               HasSubstr("sc::interleave: the shapes [8] and [4]"));
  EXPECT_FAULT(sc::cat(sc::zeros<float>(8), sc::zeros<float>(4), 0),
               HasSubstr("sc::cat of [8] and [4]: the two must have one shape"));
  EXPECT_FAULT(sc::cat(sc::zeros<float>(8), sc::zeros<float>(8), 1),
               HasSubstr("sc::cat along axis 1 of a tile of rank 1"));
  EXPECT_FAULT(sc::flip(sc::zeros<float>(8), 1),
               HasSubstr("sc::flip along axis 1 of a tile of rank 1"));
  EXPECT_FAULT(sc::squeeze(sc::zeros<float>(8, 1), 0),
               HasSubstr("sc::squeeze of axis 0 of [8, 1]: its extent is 8, not 1"));
  EXPECT_FAULT(sc::gather(sc::zeros<float>(8, 4), sc::zeros<int>(4, 8), 1),
               HasSubstr("sc::gather of [8, 4] by indices of [4, 8] along axis 1"));
  EXPECT_FAULT(sc::gather(sc::zeros<float>(8), sc::zeros<int>(8), 1),
               HasSubstr("sc::gather along axis 1 of a tile of rank 1"));
  EXPECT_FAULT(sc::slice(sc::zeros<float>(8, 4), 2, 0, 2),
               HasSubstr("sc::slice along axis 2 of a tile of rank 2"));
  EXPECT_FAULT(sc::slice(sc::zeros<float>(8, 4), 1, 0, 5),
               HasSubstr("sc::slice of 5 elements of axis 1 of [8, 4]: there are 1 to 4"));
  EXPECT_FAULT(sc::slice(sc::zeros<float>(8, 4), 0, 6, 4),
               HasSubstr("sc::slice of 4 elements from 6 on: axis 0 has 8"));
  EXPECT_FAULT(sc::slice(sc::zeros<float>(8), 0, 1.5, 4),
               HasSubstr("sc::slice begins at an integer"));
  EXPECT_FAULT(sc::slice(sc::zeros<float>(8), 0, sc::arange(0, 4), 4),
               HasSubstr("sc::slice begins at one integer, not at a tile of them"));
}

TEST(Errors, Sorting) {
  EXPECT_FAULT(sc::sort(sc::zeros<float>(8), 1),
               HasSubstr("sc::sort along axis 1 of a tile of rank 1"));
  EXPECT_FAULT(sc::sort(std::tuple(sc::zeros<float>(8), sc::zeros<int>(4)), 0),
               HasSubstr("sc::sort of several tiles needs one shape, not [8] and [4]"));
  EXPECT_FAULT(sc::topk(sc::zeros<float>(8), 9, 0),
               HasSubstr("sc::topk of 9 among 8 elements along axis 0"));
  EXPECT_FAULT(sc::topk(sc::zeros<float>(8), 0, 0), HasSubstr("k is at least 1"));
  EXPECT_FAULT(sc::histogram(sc::zeros<int>(8), 0),
               HasSubstr("sc::histogram of 0 bins: there are 1 to 1048576"));
  EXPECT_FAULT(sc::histogram(sc::zeros<int>(8), 4, n),
               HasSubstr("sc::histogram: a mask is bool, not Int: compare first, as in x < n"));
  EXPECT_FAULT(
      sc::histogram(sc::zeros<int>(8), 4, sc::zeros<bool>(2, 8)),
      HasSubstr("sc::histogram of [8] with a mask of [2, 8]: the mask has the tile's shape"));
  EXPECT_FAULT(sc::histogram(sc::zeros<int>(8), 4, sc::arange(0, 4) < 2),
               HasSubstr("sc::histogram and its mask: the shapes [8] and [4]"));
  EXPECT_FAULT(
      sc::histogram(sc::zeros<int>(8), 4, sc::zeros<float>(2, 8)),
      HasSubstr("sc::histogram of [8] with weights of [2, 8]: weights have the tile's shape"));
}

//===-- Control flow
//------------------------------------------------------------------------------===//

TEST(Errors, AValueLostWithItsLoop) {
  constexpr unsigned line = __LINE__;
  auto kernel = [](sc::Ptr<float> x, sc::Int n) {
    sc::Float last; // has no value where the loop begins
    for (auto i : sc::range(n))
      last = sc::load(x + i);
    sc::store(x, last);
  };
  EXPECT_THAT(
      fault(kernel, line + 5),
      AllOf(HasSubstr("this value was assigned inside the loop or branch at "),
            HasSubstr("dsl_errors_test.cpp:" + std::to_string(line + 3) + " and is used after"),
            HasSubstr("assign one before the loop")));
}

TEST(Errors, AValueThatEscapesThroughAContainer) {
  constexpr unsigned line = __LINE__;
  auto kernel = [](sc::Ptr<float> x, sc::Int n) {
    std::optional<sc::Float> last;
    for (auto i : sc::range(n))
      last = sc::load(x + i);
    sc::store(x, *last);
  };
  EXPECT_THAT(fault(kernel, line + 5), HasSubstr("this value was assigned inside the loop"));
}

TEST(Errors, AValueOfOneBranchOnly) {
  constexpr unsigned line = __LINE__;
  auto kernel = [](sc::Ptr<float> x, sc::Int n) {
    sc::Float y;
    sc::when(n > 3, [&] { y = 1; });
    sc::store(x, y);
  };
  EXPECT_THAT(fault(kernel, line + 4), HasSubstr("was assigned inside the loop or branch"));
}

TEST(Errors, BreakAndReturn) {
  constexpr unsigned line = __LINE__;
  auto breaks = [](sc::Ptr<float> x, sc::Int n) {
    sc::Float y = 0;
    for (auto i : sc::range(n)) {
      y = sc::load(x + i);
      break;
    }
    sc::store(x, y);
  };
  EXPECT_THAT(fault(breaks, line + 3),
              AllOf(HasSubstr("left by break, return or goto"), HasSubstr("sc::when")));
  auto returns = [](sc::Ptr<float> x, sc::Int n) {
    for (auto i : sc::range(n))
      for (auto j : sc::range(i)) { // this is the one that is left first
        sc::store(x + j, 1);
        return;
      }
  };
  EXPECT_THAT(fault(returns, line + 13), HasSubstr("left by break, return or goto"));
  // As the last thing of the kernel, too.
  auto last = [](sc::Int n) {
    for ([[maybe_unused]] auto i : sc::range(n))
      break;
  };
  EXPECT_THAT(fault(last, line + 21), HasSubstr("left by break"));
}

TEST(Errors, ALoopThatChangesAShape) {
  constexpr unsigned line = __LINE__;
  auto kernel = [](sc::Ptr<float> x, sc::Int n) {
    sc::Float sum = 0;
    for (auto i : sc::range(n))
      sum = sum + sc::load(x + i * 8 + sc::arange(0, 8));
    sc::store(x, sc::sum(sum));
  };
  EXPECT_THAT(fault(kernel, line + 4),
              AllOf(HasSubstr("changes the shape of a variable from one number to a tile of [8]"),
                    HasSubstr("the loop at "),
                    HasSubstr("dsl_errors_test.cpp:" + std::to_string(line + 3))));
}

TEST(Errors, ABranchThatChangesAShape) {
  EXPECT_FAULT(auto y = sc::zeros<float>(8);
               sc::when(n > 2, [&] { y = sc::zeros<float>(4); }), HasSubstr("the branch at "));
  EXPECT_FAULT(sc::Float y;
               sc::when(
                   n > 2, [&] { y = sc::zeros<float>(4); }, [&] { y = 1; }),
               HasSubstr("changes the shape of a variable from a tile of [4] to one number"));
}

TEST(Errors, ALoopThatWidensAnInt) {
  EXPECT_FAULT(sc::Int i = 0; for (auto k : sc::range(sc::cast<std::int64_t>(n))) i = k,
                              HasSubstr("changes the width of an Int"));
}

TEST(Errors, Ranges) {
  EXPECT_FAULT(sc::range(0, n, 0), HasSubstr("a step of 0: steps are positive"));
  EXPECT_FAULT(sc::range(0, n, 1, {.stages = -1}),
               HasSubstr("sc::range: stages and unroll are not negative"));
  EXPECT_FAULT(
      auto once = sc::range(n);
      for ([[maybe_unused]] auto i : once) {} for ([[maybe_unused]] auto i : once){},
      HasSubstr("a range is looped over once: write sc::range in the for statement"));
  EXPECT_FAULT(sc::loop_while([&] { return sc::arange(0, 4) < n; }, [] {}),
               HasSubstr("the condition of sc::loop_while is one bool, not a tile of [4]"));
  EXPECT_FAULT(sc::static_range(0, 4, 0), HasSubstr("sc::static_range has a step of 0"));
  EXPECT_FAULT(sc::range(0, n, -2), HasSubstr("a step of -2"));
  EXPECT_FAULT(sc::range(0, sc::zeros<float>()), HasSubstr("a bound is an integer, not f32"));
  EXPECT_FAULT(sc::range(0, sc::arange(0, 4)),
               HasSubstr("a bound is one number, not a tile of [4]"));
  EXPECT_FAULT(sc::range(0, 0.5), HasSubstr("0.5 is not an integer"));
}

TEST(Errors, ALoopInsideAnExceptionIsGivenUp) {
  auto kernel = [](sc::Ptr<float> x, sc::Int n) {
    for (auto i : sc::range(n))
      sc::when(i > 2, [&] {
        sc::store(x + i, 1);
        throw std::out_of_range("the body's own");
      });
  };
  EXPECT_THROW(traced(kernel), std::out_of_range);
}

//===-- Values
//------------------------------------------------------------------------------------===//

TEST(Errors, NoValue) {
  EXPECT_FAULT(sc::Float y; sc::store(x, y + 1),
                            HasSubstr("this value is used before anything is assigned to it"));
}

TEST(Errors, OutsideOfKernels) {
  try {
    sc::arange(0, 8);
    ADD_FAILURE();
  } catch (const sc::CompileError &error) {
    EXPECT_EQ(error.line(), __LINE__ - 3u);
    EXPECT_THAT(error.what(), HasSubstr("no kernel is being traced here"));
  }
}

TEST(Errors, AValueOfAnotherTrace) {
  sc::Float kept;
  traced([&](sc::Ptr<float> x) { kept = sc::load(x); });
  auto later = [&](sc::Ptr<float> x) { sc::store(x, kept); };
  EXPECT_THAT(fault(later, __LINE__ - 1),
              HasSubstr("belongs to a kernel or a function whose trace has"));
  auto meanwhile = [](sc::Int n) { traced([&](sc::Ptr<sc::half> x) { sc::store(x, n); }); };
  EXPECT_THAT(fault(meanwhile, __LINE__ - 1), HasSubstr("belongs to another kernel"));
}

#define EXPECT_VIEW_FAULT(body, ...)                                                               \
  EXPECT_THAT(fault([](sc::View<int, 2> v) { body; }, __LINE__), __VA_ARGS__)

TEST(Errors, Views) {
  EXPECT_VIEW_FAULT(v.tile(8, 8).store(0, 0, sc::zeros<int>(4, 8)),
                    HasSubstr("a tile stored to a view of shape [4, 8] does not fit into [8, 8]"));
  EXPECT_VIEW_FAULT(v.tile(8, 8).load(sc::arange(0, 2), 0),
                    HasSubstr("an index of a tile is one number, not a tile of [2]"));
  EXPECT_VIEW_FAULT(v.tile(8, 0).load(0, 0), HasSubstr("extents of tiles are at least 1"));
  EXPECT_VIEW_FAULT(v.extent(2), HasSubstr("axis 2 of a view with 2 axes"));
  EXPECT_VIEW_FAULT(v.at(0).tile(8).padding(0.5).load(0), HasSubstr("0.5 is not an integer"));
  EXPECT_VIEW_FAULT(v.at(0.5), HasSubstr("0.5 is not an integer"));
  EXPECT_VIEW_FAULT(v.tile(8, 8).store(0, 0, sc::zeros<float>(8, 8)),
                    HasSubstr("of f32 for memory of i32: convert it"));
}

//===-- Debugging and promises
//---------------------------------------------------------------------===//

TEST(Errors, AssertionsAndPromises) {
  EXPECT_FAULT(sc::device_assert(1 > 2, "one is more"),
               HasSubstr("assertion failed while tracing: one is more"));
  EXPECT_FAULT(sc::assume(1 > 2), HasSubstr("sc::assume: the condition is false already"));
  EXPECT_FAULT(sc::assume(sc::arange(0, 4) < n),
               HasSubstr("sc::assume takes one condition, not a tile of [4]: write "
                         "sc::assume(sc::all(x))"));
  EXPECT_FAULT(sc::multiple_of(sc::arange(0, 4), 4, 4),
               HasSubstr("sc::multiple_of of a value of shape [4] takes 1 number, not 2"));
  EXPECT_FAULT(sc::contiguous(sc::zeros<int>(4, 8), 4),
               HasSubstr("sc::contiguous of a value of shape [4, 8] takes 2 numbers, not 1"));
  EXPECT_FAULT(sc::constant(sc::arange(0, 4), 0),
               HasSubstr("sc::constant: 0 is no length: write 1 to promise nothing"));
  EXPECT_FAULT(sc::contiguous(sc::arange(0, 48), 32),
               HasSubstr("sc::contiguous: runs of 32 do not divide axis 0, which has 48 elements"));
  EXPECT_FAULT(sc::Bool b;
               sc::device_assert(b, "no value"), HasSubstr("used before anything is assigned"));
}
