// Misuses of operations that share their checks with others: each operation names itself.
#include "dsl_trace.h"
#include <sectile/approximate.h>

namespace sc = sectile;
using testing::HasSubstr;

#define EXPECT_FAULT(body, ...)                                                                    \
  EXPECT_THAT(fault([]([[maybe_unused]] sc::Ptr<float> x, [[maybe_unused]] sc::Int n) { body; },   \
                    __LINE__),                                                                     \
              __VA_ARGS__)

TEST(Misuse, Shapes) {
  EXPECT_FAULT(sc::minimum(sc::zeros<float>(8), sc::zeros<float>(4)),
               HasSubstr("sc::minimum: the shapes [8] and [4] do not fit together"));
  EXPECT_FAULT(sc::maximum(sc::zeros<float>(8), sc::zeros<float>(4)),
               HasSubstr("sc::maximum: the shapes [8] and [4] do not fit together"));
  EXPECT_FAULT(sc::clamp(sc::zeros<float>(8), 0, sc::zeros<float>(4)),
               HasSubstr("sc::minimum: the shapes [8] and [4] do not fit together"));
  EXPECT_FAULT(sc::fast_divide(sc::zeros<float>(8), sc::zeros<float>(4)),
               HasSubstr("sc::fast_divide: the shapes [8] and [4] do not fit together"));
  EXPECT_FAULT(sc::copysign(sc::zeros<float>(8), sc::zeros<float>(4)),
               HasSubstr("sc::copysign: the shapes [8] and [4] do not fit together"));
  EXPECT_FAULT(sc::fmod(sc::zeros<float>(8), sc::zeros<float>(4)),
               HasSubstr("sc::fmod: the shapes [8] and [4] do not fit together"));
  EXPECT_FAULT(sc::remainder(sc::zeros<float>(8), sc::zeros<float>(4)),
               HasSubstr("sc::remainder: the shapes [8] and [4] do not fit together"));
  EXPECT_FAULT(sc::randint4x(sc::arange(0, 8), sc::arange(0, 4)), HasSubstr("a random number"));
  EXPECT_FAULT(sc::fast_exp(sc::Float()), HasSubstr("used before anything is assigned"));
  EXPECT_FAULT(sc::zeros_like(sc::Float()), HasSubstr("used before anything is assigned"));
  EXPECT_FAULT(sc::ravel(sc::Float()), HasSubstr("used before anything is assigned"));
}

TEST(Misuse, Types) {
  EXPECT_FAULT(sc::abs(n < 3), HasSubstr("sc::abs works on numbers, not on bool"));
  EXPECT_FAULT(sc::copysign(n, 2), HasSubstr("sc::copysign works on floats, not on Int"));
  EXPECT_FAULT(sc::fmod(n, 2), HasSubstr("sc::fmod works on floats, not on Int"));
  EXPECT_FAULT(sc::remainder(n, 2), HasSubstr("sc::remainder works on floats, not on Int"));
  EXPECT_FAULT(sc::ctz(sc::load(x)), HasSubstr("sc::ctz works on integers, not on f32"));
  EXPECT_FAULT(sc::ffs(sc::load(x)), HasSubstr("sc::ffs works on integers, not on f32"));
  EXPECT_FAULT(sc::rand4x(sc::load(x), n), HasSubstr("the seed of a random number"));
  EXPECT_FAULT(sc::randn(1, sc::load(x)), HasSubstr("the offset of a random number"));
}

TEST(Misuse, Axes) {
  EXPECT_FAULT(sc::max(sc::zeros<float>(8), 1), HasSubstr("axis 1 of a tile of rank 1"));
  EXPECT_FAULT(sc::min(sc::zeros<float>(8), -2), HasSubstr("axis -2 of a tile of rank 1"));
  EXPECT_FAULT(sc::prod(sc::zeros<float>(8), {0, 0}), HasSubstr("a reduction along axis 0 twice"));
  EXPECT_FAULT(sc::argmin(sc::zeros<float>(8), 1), HasSubstr("axis 1 of a tile of rank 1"));
  EXPECT_FAULT(sc::max_with_index(n, 0), HasSubstr("axis 0 of a tile of rank 0"));
  EXPECT_FAULT(sc::min_with_index(n, 0), HasSubstr("axis 0 of a tile of rank 0"));
  EXPECT_FAULT(sc::any(n < 3, 0), HasSubstr("axis 0 of a tile of rank 0"));
  EXPECT_FAULT(sc::softmax(sc::zeros<float>(8), 1), HasSubstr("axis 1 of a tile of rank 1"));
  EXPECT_FAULT(sc::cumprod(sc::zeros<float>(8), 1), HasSubstr("a scan along axis 1"));
  EXPECT_FAULT(sc::cummax(sc::zeros<float>(8), 1), HasSubstr("a scan along axis 1"));
  EXPECT_FAULT(sc::cummin(sc::zeros<float>(8), 1), HasSubstr("a scan along axis 1"));
  EXPECT_FAULT(sc::argsort(sc::zeros<float>(8), 1),
               HasSubstr("a sort along axis 1 of a tile of rank 1"));
  EXPECT_FAULT(sc::grouped_order(n, {n, n}, 0),
               HasSubstr("sc::grouped_order: a group has one row of tiles at least, not 0"));
  EXPECT_FAULT(
      sc::grouped_order(n, {n, n}, 3, 2),
      HasSubstr("sc::grouped_order: a group has whole clusters, but 3 rows of tiles are no "
                "multiple of 2"));
  EXPECT_FAULT(sc::program_clusters(4),
               HasSubstr("sc::program_clusters: a cluster has 1 or 2 programs, not 4"));
  EXPECT_FAULT(
      for (auto i : sc::range(n)) sc::program_clusters(2),
      HasSubstr("sc::program_clusters: it belongs at the beginning of a kernel, outside of "
                "loops, branches and functions"));
  EXPECT_FAULT(sc::num_programs(-1), HasSubstr("a grid has the axes 0, 1 and 2, not -1"));
}

// What takes nothing can still be called where no kernel is.
TEST(Misuse, OutsideOfKernels) {
  auto outside = [](auto call, unsigned line) {
    try {
      call();
      ADD_FAILURE() << "nothing was thrown";
    } catch (const sc::CompileError &error) {
      EXPECT_EQ(error.line(), line);
      EXPECT_THAT(error.what(), HasSubstr("no kernel is being traced here"));
    }
  };
  outside([] { sc::barrier(); }, __LINE__);
  outside([] { sc::wait_dependencies(); }, __LINE__);
  outside([] { sc::launch_dependents(); }, __LINE__);
}
