// What the language says to misuses of operations on single elements.
#include "dsl_trace.h"

namespace sc = sectile;
using testing::AllOf;
using testing::HasSubstr;

#define EXPECT_FAULT(body, ...)                                                                    \
  EXPECT_THAT(fault([]([[maybe_unused]] sc::Ptr<float> x, [[maybe_unused]] sc::Int n) { body; },   \
                    __LINE__),                                                                     \
              __VA_ARGS__)

TEST(ElementErrors, Integers) {
  EXPECT_FAULT(sc::mulhi(sc::load(x), 2),
               HasSubstr("sc::mulhi works on integers, not on f32: sc::cast<int>(x) converts"));
  EXPECT_FAULT(sc::mulhi(n, 2), AllOf(HasSubstr("sc::mulhi depends on how wide its operand is"),
                                      HasSubstr("sc::cast<std::int32_t>(x)")));
  EXPECT_FAULT(sc::mulhi(sc::zeros<int>(8), sc::zeros<int>(4)),
               HasSubstr("sc::mulhi: the shapes [8] and [4] do not fit together"));
  EXPECT_FAULT(sc::mulhi(sc::zeros<std::uint8_t>(8), 256), HasSubstr("256 does not fit into u8"));
  EXPECT_FAULT(sc::popcount(sc::zeros<bool>(8)),
               HasSubstr("sc::popcount works on integers, not on bool"));
  EXPECT_FAULT(sc::clz(n), HasSubstr("sc::clz depends on how wide its operand is"));
  EXPECT_FAULT(sc::brev(sc::zeros<sc::half>(8)),
               HasSubstr("sc::brev works on integers, not on f16"));
}

TEST(ElementErrors, Random) {
  EXPECT_FAULT(
      sc::rand(sc::load(x), n),
      HasSubstr(
          "the seed of a random number is an integer, not f32: convert with sc::cast<int>(x)"));
  EXPECT_FAULT(sc::randn4x(1, sc::load(x)),
               HasSubstr("the offset of a random number is an integer, not f32"));
  EXPECT_FAULT(sc::randint(0.5, n), HasSubstr("0.5 is not an integer"));
  EXPECT_FAULT(sc::philox(1, sc::arange(0, 8), sc::arange(0, 4)),
               HasSubstr("a random number: the shapes"));
}

TEST(ElementErrors, Functions) {
  EXPECT_FAULT(sc::pow(sc::arange(0, 8), 2), AllOf(HasSubstr("sc::pow works on floats, not on Int"),
                                                   HasSubstr("sc::cast<float>(x)")));
  EXPECT_FAULT(sc::atan2(sc::zeros<float>(8), sc::zeros<float>(4)),
               HasSubstr("sc::atan2: the shapes [8] and [4] do not fit together"));
  EXPECT_FAULT(sc::ldexp(sc::load(x), 0.5), HasSubstr("0.5 is not an integer"));
  EXPECT_FAULT(sc::ldexp(sc::load(x), sc::zeros<float>(4)),
               HasSubstr("sc::ldexp: the exponent is an integer of at most 32 bits, not f32: "
                         "convert with sc::cast<int>(n)"));
}

TEST(ElementErrors, PackedBools) {
  EXPECT_FAULT(sc::pack_bits<std::uint32_t>(sc::arange(0, 48) < n),
               HasSubstr("packs 32 bools along the last axis into one integer, which those of a "
                         "tile of [48] do not fill"));
  EXPECT_FAULT(sc::pack_bits<std::uint8_t>(n < 3), HasSubstr("a tile of [] do not fill"));
}

TEST(ElementErrors, Map) {
  EXPECT_FAULT(sc::map([&](sc::Float v) { return sc::load(x) + v; }, sc::zeros<float>(8)),
               HasSubstr("only computes, and this one has an effect"));
  EXPECT_FAULT(auto t = sc::zeros<float>(8);
               sc::map([&](sc::Float v) { return sc::sum(t) + v; }, sc::zeros<float>(4)),
               HasSubstr("works on single numbers, and this one uses a tile"));
  EXPECT_FAULT(auto t = sc::zeros<float>(8);
               sc::map([&](sc::Float) { return t; }, t),
               HasSubstr("returns single numbers, not a tile of [8]"));
  EXPECT_FAULT(sc::Float sum = 0;
               sc::map(
                   [&](sc::Float v) {
                     sum += v;
                     return v;
                   },
                   sc::zeros<float>(8)),
               HasSubstr("may not assign the kernel's variables: return what it computes"));
  EXPECT_FAULT(sc::map([](sc::Float a, sc::Float b) { return a + b; }, sc::zeros<float>(8),
                       sc::zeros<float>(4)),
               HasSubstr("sc::map: the shapes [8] and [4] do not fit together"));
}

TEST(ElementErrors, Assembly) {
  EXPECT_FAULT(sc::inline_asm<float>("t", "=f,f,f", sc::load(x)),
               HasSubstr("the constraints name 2 registers for operands, and these fill 1"));
  EXPECT_FAULT(sc::inline_asm<sc::half>("t", "=r,r", {.pack = 4}, sc::zeros<sc::half>(8)),
               HasSubstr("the constraints name 1 registers for results, and these fill 2"));
  EXPECT_FAULT(sc::inline_asm<float>("t", "=d,f", sc::load(x)),
               HasSubstr("the constraint d is not one of 32 bits, which results of 32 bits"));
  EXPECT_FAULT(sc::inline_asm<sc::half>("t", "=h,h", sc::zeros<sc::half>(8)),
               HasSubstr("the constraint h is not one of 32 bits, which results of 16 bits"));
  EXPECT_FAULT(sc::inline_asm<float>("t", "f,=f", sc::load(x)),
               HasSubstr("the constraints of results, with =, come before those of operands"));
  EXPECT_FAULT(sc::inline_asm<float>("t", "=f,3", sc::load(x)),
               HasSubstr("repeats that of a result, of which there are 1"));
  EXPECT_FAULT(sc::inline_asm<float>("t", "=f,+f", sc::load(x)), HasSubstr("results first"));
  EXPECT_FAULT(sc::inline_asm<float>("t", "=f,f", {.pack = 0}, sc::load(x)),
               HasSubstr("takes one element at least, not 0"));
  EXPECT_FAULT(sc::inline_asm<>("t", "f", sc::load(x)), HasSubstr("say {.pure = false}"));
  EXPECT_FAULT(
      sc::inline_asm<float>(
          "t", "=f,f", [&](sc::Float v) { return sc::load(x) + v; }, sc::load(x)),
      HasSubstr("the meaning of sc::inline_asm only computes, and this one has an effect"));
  EXPECT_FAULT(
      auto t = sc::zeros<float>(8);
      sc::inline_asm<float>(
          "t", "=f,f", [&](sc::Float) { return t; }, sc::load(x)),
      HasSubstr("the meaning of sc::inline_asm returns single numbers, not a tile of [8]"));
  EXPECT_FAULT(sc::extern_call<float>("llvm.sqrt", "lib.bc", sc::load(x)),
               HasSubstr("is not the name of a function of a library"));
}

TEST(Static, Checks) {
  EXPECT_FAULT(sc::static_check(sizeof(int) == 2, "ints are small"), HasSubstr("ints are small"));
  traced([](sc::Ptr<float>) { sc::static_check(true, "never seen"); });
}

TEST(Static, Prints) {
  testing::internal::CaptureStdout();
  constexpr unsigned line = __LINE__;
  traced([](sc::Ptr<const float> x, sc::Int n) {
    sc::static_print({"acc is", sc::zeros<float>(64, 32), 3, true});
    sc::static_print(x + sc::arange(0, 8));
    sc::static_print(n);
    sc::static_print("here");
  });
  const std::string text = testing::internal::GetCapturedStdout();
  auto at = [](unsigned number) {
    return "dsl_element_errors_test.cpp:" + std::to_string(number) + ": ";
  };
  EXPECT_THAT(text,
              AllOf(HasSubstr(at(line + 2) + "acc is f32 tile of [64, 32] 3 true\n"),
                    HasSubstr(at(line + 3) + "tile of [8] pointers to f32\n"),
                    HasSubstr(at(line + 4) + "Int number\n"), HasSubstr(at(line + 5) + "here\n")));
}
