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
  EXPECT_FAULT(sc::mulhi(sc::load(x), 2), HasSubstr("sc::mulhi works on integers, not on f32"));
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
  EXPECT_FAULT(sc::rand(sc::load(x), n),
               HasSubstr("the seed of a random number is an integer, not f32"));
  EXPECT_FAULT(sc::randn4x(1, sc::load(x)),
               HasSubstr("the offset of a random number is an integer, not f32"));
  EXPECT_FAULT(sc::randint(0.5, n), HasSubstr("0.5 is not an integer"));
  EXPECT_FAULT(sc::philox(1, sc::arange(0, 8), sc::arange(0, 4)),
               HasSubstr("a random number: the shapes"));
}
