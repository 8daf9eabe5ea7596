// Tracing kernels: what IR a lambda becomes.
#include "dsl_trace.h"

namespace sc = sectile;
using testing::HasSubstr;

namespace {
struct BlockSize {
  int size = 1024;
};

const auto vectorAdd = [](sc::Ptr<const float> x, sc::Ptr<const float> y, sc::Ptr<float> z,
                          sc::Int n, const BlockSize &block) {
  auto i = sc::program_id(0) * block.size + sc::arange(0, block.size);
  auto inside = i < n;
  sc::store(z + i, sc::load(x + i, inside) + sc::load(y + i, inside), inside);
};
} // namespace

TEST(Trace, VectorAdd) {
  std::string ir = traced(vectorAdd, BlockSize{256});
  EXPECT_THAT(ir, HasSubstr("func.func @kernel(%arg0: !tile.ptr<f32>, %arg1: !tile.ptr<f32>, "
                            "%arg2: !tile.ptr<f32>, %arg3: i32) attributes {tile.kernel}"));
  EXPECT_THAT(ir, testing::ContainsRegex("(%[0-9]+) = tile.program_id 0\n    %c256_i32 = "
                                         "arith.constant 256 : i32\n    %[0-9]+ = arith.muli "
                                         "%[0-9]+, %c256_i32 \\{tile.fits\\} : i32\n"));
  EXPECT_THAT(ir, HasSubstr(" : tensor<256xi32>\n"));
  EXPECT_THAT(ir, HasSubstr("arith.addf"));
  // Which number a value has depends on the order in which the host compiler evaluates operands.
  EXPECT_THAT(ir,
              testing::ContainsRegex("tile.store .* mask %[0-9]+ : tensor<256x!tile.ptr<f32>>"));
}

TEST(Trace, SpecializationsOfArguments) {
  // x, y, z, n
  std::string aligned = traced(vectorAdd, BlockSize{64}, {{.divisor = 16}, {}, {}, {}});
  EXPECT_THAT(aligned, HasSubstr("%arg0: !tile.ptr<f32> {tile.divisible = 16 : i64}, %arg1: "
                                 "!tile.ptr<f32>,"));
  std::string wide = traced(vectorAdd, BlockSize{64}, {{}, {}, {}, {.is32bit = false}});
  EXPECT_THAT(wide, HasSubstr("%arg3: i64)"));
  EXPECT_THAT(wide, HasSubstr(": tensor<64xi32> to tensor<64xi64>"));
  std::string one = traced(vectorAdd, BlockSize{64}, {{}, {}, {}, {.value = 1}});
  EXPECT_THAT(one, HasSubstr("%cst = arith.constant dense<1> : tensor<64xi32>"));
}

TEST(Trace, LocationsAreTheUsersLines) {
  constexpr unsigned line = __LINE__;
  auto kernel = [](sc::Ptr<float> x) {
    auto i = sc::arange(0, 8); // line + 2
    auto v = sc::load(x + i);
    sc::store(x + i, v * v); // the operator's own operands: line + 4 on
  };
  auto module = traceModule(kernel, nullptr, {});
  std::map<std::string, std::vector<std::string>> places;
  module->walk([&](mlir::Operation *op) {
    places[op->getName().getStringRef().str()].push_back(sectile::detail::describe(op->getLoc()));
  });
  auto at = [](unsigned offset) {
    return testing::EndsWith("dsl_test.cpp:" + std::to_string(line + offset));
  };
  EXPECT_THAT(places["tile.arange"], testing::ElementsAre(at(2)));
  EXPECT_THAT(places["tile.load"], testing::ElementsAre(at(3)));
  EXPECT_THAT(places["arith.mulf"], testing::ElementsAre(at(4)));
  EXPECT_THAT(places["tile.store"], testing::ElementsAre(at(4)));
}

TEST(Trace, AnExceptionOfTheBodyPasses) {
  auto kernel = [](sc::Int n) {
    auto twice = n * 2;
    throw std::out_of_range("the body's own");
  };
  EXPECT_THROW(traced(kernel), std::out_of_range);
  EXPECT_THAT(traced(vectorAdd, BlockSize{64}), HasSubstr("tile.store"));
}
