// sc::Function: what calls become, and what is wrong with one.
#include "dsl_trace.h"
#include <functional>

namespace sc = sectile;
using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;

namespace {

struct Scaling {
  int factor = 1;
  bool negate = false;
};
SECTILE_CONFIG(Scaling, factor, negate)

size_t occurrences(const std::string &text, const std::string &of) {
  size_t count = 0;
  for (size_t at = text.find(of); at != std::string::npos; at = text.find(of, at + 1))
    ++count;
  return count;
}

const sc::Function square{"square", [](sc::Tile<float> x) { return x * x; }};
const sc::Function scale{"scale", [](sc::Tile<float> x, Scaling by) {
                           auto y = x * by.factor;
                           return by.negate ? -y : y;
                         }};

TEST(Functions, AreTracedOncePerTypesAndConstants) {
  std::string ir = traced([](sc::Ptr<float> p) {
    auto x = sc::load(p + sc::arange(0, 32)), y = sc::load(p + sc::arange(0, 64));
    sc::store(p + sc::arange(0, 32), square(x) + square(square(x)));
    sc::store(p + sc::arange(0, 64),
              square(y) + scale(y, {2, false}) + scale(y, {2, true}) + scale(y, {2, false}));
  });
  EXPECT_EQ(occurrences(ir, "call @square("), 3u) << ir;
  EXPECT_EQ(occurrences(ir, "call @square_1("), 1u) << ir;
  EXPECT_EQ(occurrences(ir, "call @scale("), 2u) << ir;
  EXPECT_EQ(occurrences(ir, "call @scale_1("), 1u) << ir;
  EXPECT_EQ(occurrences(ir, "func.func private"), 4u) << ir;
  EXPECT_LT(ir.find("@kernel"), ir.find("private")) << ir;
}

TEST(Functions, TheKernelsNameIsItsOwn) {
  const sc::Function f{"kernel", [](sc::Float x) { return x + 1; }};
  std::string ir = traced([&](sc::Ptr<float> p) { sc::store(p, f(sc::load(p))); });
  EXPECT_THAT(ir, AllOf(HasSubstr("func.func @kernel("), HasSubstr("private @kernel_1(")));
}

TEST(Functions, NestAndReturnSeveral) {
  const sc::Function both{"both", [](sc::Tile<float> x, sc::Ptr<float> p, sc::View<float, 1> v) {
                            return std::tuple(square(x), p + 1, v.slice(0, 1, 2));
                          }};
  std::string ir = traced([&](sc::Ptr<float> p, sc::View<float, 1> v) {
    auto [x, q, w] = both(sc::load(p), p, v);
    sc::store(q, x);
    w.tile(2).store(0, sc::zeros<float>(2));
  });
  EXPECT_THAT(ir, HasSubstr("private @both(%arg0: f32, %arg1: !tile.ptr<f32>, %arg2: "
                            "!tile.ptr<f32>, %arg3: i32, %arg4: i32) -> (f32, !tile.ptr<f32>, "
                            "!tile.ptr<f32>, i32, i32)"));
  EXPECT_THAT(ir, HasSubstr("call @square("));
}

TEST(Functions, ALambdaWithoutResultsIsCalledForWhatItDoes) {
  const sc::Function clear{"clear", [](sc::Ptr<float> p) { sc::store(p, 0.0f); }};
  EXPECT_THAT(traced([&](sc::Ptr<float> p) { clear(p); }),
              HasSubstr("call @clear(%arg0) : (!tile.ptr<f32>) -> ()"));
}

TEST(Functions, IndicesAreAsWideAsTheKernels) {
  const sc::Function next{"next", [](sc::Int i) { return i + sc::program_id(0); }};
  auto kernel = [&](sc::Ptr<float> p, sc::Int n) { sc::store(p + next(n), 0.0f); };
  EXPECT_THAT(traced(kernel), HasSubstr("private @next(%arg0: i32) -> i32"));
  EXPECT_THAT(traced(kernel, {{}, {.is32bit = false}}),
              HasSubstr("private @next(%arg0: i64) -> i64"));
}

//===-- Errors
//------------------------------------------------------------------------------------===//

TEST(FunctionErrors, NameTheFunctionAndTheCall) {
  const sc::Function inner{"inner", [](sc::Tile<float> y) { return y + sc::zeros<float>(7); }};
  const sc::Function outer{"outer", [&](sc::Tile<float> x) { return inner(x); }};
  auto kernel = [&](sc::Ptr<float> p) { sc::store(p, sc::sum(outer(sc::zeros<float>(8)), 0)); };
  const unsigned line = __LINE__;
  std::string message = fault(kernel, line - 3);
  auto at = [](unsigned number) { return "dsl_functions_test.cpp:" + std::to_string(number); };
  EXPECT_THAT(message, HasSubstr("operator +: the shapes [8] and [7] do not fit together"));
  EXPECT_THAT(message, HasSubstr("; in the function 'inner' of "));
  EXPECT_THAT(message, HasSubstr(at(line - 3) + ", called at "));
  EXPECT_THAT(message, HasSubstr(at(line - 2) + "; in the function 'outer' of "));
  EXPECT_THAT(message, EndsWith(at(line - 1)));
}

TEST(FunctionErrors, Recursion) {
  std::function<sc::Float(sc::Float)> again;
  const sc::Function f{"forever", [&](sc::Float x) { return again(x); }};
  again = [&](sc::Float x) { return f(x); };
  const unsigned line = __LINE__ - 1;
  EXPECT_THAT(fault([&](sc::Ptr<float> p) { sc::store(p, f(sc::load(p))); }, line),
              AllOf(HasSubstr("the function 'forever' at "), HasSubstr("calls itself"),
                    HasSubstr("loop with sc::range or sc::loop_while")));
}

TEST(FunctionErrors, ValuesOfTheCaller) {
  auto reading = [](sc::Ptr<float> p) {
    const sc::Function f{"f", [&](sc::Float x) { return x + sc::load(p); }};
    sc::store(p, f(1));
  };
  EXPECT_THAT(fault(reading, __LINE__ - 3),
              HasSubstr("this traced value belongs to the caller of this function: pass it as an "
                        "argument"));
  auto assigning = [](sc::Ptr<float> p) {
    sc::Float y = 1;
    const sc::Function f{"f", [&](sc::Float x) { y = x; }};
    f(1);
    sc::store(p, y);
  };
  EXPECT_THAT(fault(assigning, __LINE__ - 2),
              HasSubstr("this traced value belongs to a kernel or a function whose trace has "
                        "ended"));
}

TEST(FunctionErrors, ALoopThatIsLeft) {
  const sc::Function f{"f", [](sc::Int n) {
                         for (auto i : sc::range(n)) {
                           (void)i;
                           break;
                         }
                       }};
  EXPECT_THAT(fault([&](sc::Ptr<float>, sc::Int n) { f(n); }, __LINE__ - 5),
              AllOf(HasSubstr("is left by break"), HasSubstr("in the function 'f'")));
}

TEST(FunctionErrors, AnErrorLeavesNothingBehind) {
  const sc::Function f{"f", [](sc::Tile<float> x) { return x + sc::zeros<float>(4); }};
  std::string ir = traced([&](sc::Ptr<float> p) {
    EXPECT_THROW(f(sc::zeros<float>(8)), sc::CompileError);
    sc::store(p + sc::arange(0, 4), f(sc::zeros<float>(4)));
  });
  EXPECT_EQ(occurrences(ir, "func.func"), 2u) << ir;
}

} // namespace
