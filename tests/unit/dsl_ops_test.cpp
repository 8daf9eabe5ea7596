// The operations of the language: what IR each becomes, for every element type.
#include "dsl_trace.h"
#include <cmath>

namespace sc = sectile;
using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

// The IR of a kernel over two tiles of 8 elements.
template <class A, class B = A, class F> static std::string binary(F operation) {
  return traced([=](sc::Ptr<const A> a, sc::Ptr<const B> b, sc::Ptr<double> c) {
    auto i = sc::arange(0, 8);
    auto x = sc::load(a + i);
    auto y = sc::load(b + i);
    sc::store(c + i, sc::cast<double>(operation(x, y)));
  });
}
#define BINARY(A, B, expression)                                                                   \
  (binary<A, B>([](auto x, [[maybe_unused]] auto y) { return expression; }))
#define UNARY(A, expression) BINARY(A, A, expression)

TEST(Operators, SignednessComesFromTheType) {
  EXPECT_THAT(BINARY(int, int, x / y), HasSubstr("arith.divsi"));
  EXPECT_THAT(BINARY(unsigned, unsigned, x / y), HasSubstr("arith.divui"));
  EXPECT_THAT(BINARY(int, int, x % y), HasSubstr("arith.remsi"));
  EXPECT_THAT(BINARY(std::uint8_t, std::uint8_t, x % 3), HasSubstr("arith.remui"));
  EXPECT_THAT(BINARY(int, int, x >> 2), HasSubstr("arith.shrsi"));
  EXPECT_THAT(BINARY(unsigned, unsigned, x >> 2), HasSubstr("arith.shrui"));
  EXPECT_THAT(BINARY(int, int, x < y), HasSubstr("arith.cmpi slt"));
  EXPECT_THAT(BINARY(unsigned, unsigned, x >= y), HasSubstr("arith.cmpi uge"));
  EXPECT_THAT(BINARY(float, float, x != y), HasSubstr("arith.cmpf une"));
  EXPECT_THAT(BINARY(float, float, x <= y), HasSubstr("arith.cmpf ole"));
  EXPECT_THAT(BINARY(float, float, x % y), HasSubstr("arith.remf"));
  EXPECT_THAT(BINARY(unsigned, unsigned, sc::maximum(x, y)), HasSubstr("arith.maxui"));
}

TEST(Operators, TypesPromote) {
  EXPECT_THAT(BINARY(sc::half, float, x + y),
              AllOf(HasSubstr("arith.extf"), ContainsRegex("arith.addf .* : tensor<8xf32>")));
  EXPECT_THAT(BINARY(sc::half, sc::bfloat16, x * y),
              ContainsRegex("arith.mulf .* : tensor<8xf32>"));
  EXPECT_THAT(BINARY(int, sc::half, x *y),
              AllOf(HasSubstr("arith.sitofp"), ContainsRegex("arith.mulf .* : tensor<8xf16>")));
  EXPECT_THAT(BINARY(std::int8_t, std::int64_t, x + y),
              ContainsRegex("arith.extsi .* : tensor<8xi8> to tensor<8xi64>"));
  EXPECT_THAT(BINARY(std::uint8_t, int, x + y),
              ContainsRegex("arith.extui .* : tensor<8xi8> to tensor<8xi32>"));
  EXPECT_THAT(BINARY(int, unsigned, x / y), HasSubstr("arith.divui"));
  EXPECT_THAT(BINARY(bool, float, x *y), HasSubstr("arith.uitofp"));
  static_assert(std::same_as<decltype(sc::Int() + sc::Tile<int>()), sc::Int>);
  static_assert(
      std::same_as<decltype(sc::Tile<std::int64_t>() + sc::Int()), sc::Tile<std::int64_t>>);
  static_assert(std::same_as<decltype(sc::Int() * sc::Tile<sc::half>()), sc::Tile<sc::half>>);
  static_assert(std::same_as<decltype(sc::Tile<sc::float8_e4m3>() + sc::Tile<sc::float8_e5m2>()),
                             sc::Tile<float>>);
  static_assert(
      std::same_as<decltype(sc::where(true, 1, sc::Tile<sc::half>())), sc::Tile<sc::half>>);
}

TEST(Operators, LiteralsTakeTheTilesType) {
  EXPECT_THAT(UNARY(sc::half, x * 0.1), HasSubstr("arith.constant 9.997550e-02 : f16"));
  EXPECT_THAT(UNARY(sc::half, 2 / x), HasSubstr("arith.constant 2.000000e+00 : f16"));
  EXPECT_THAT(UNARY(std::uint8_t, x + 255), HasSubstr("arith.constant -1 : i8"));
  EXPECT_THAT(UNARY(float, sc::maximum(x, -INFINITY)),
              HasSubstr("arith.constant 0xFF800000 : f32"));
  EXPECT_THAT(UNARY(std::uint64_t, x ^ ~0ull), HasSubstr("arith.constant -1 : i64"));
  EXPECT_THAT(UNARY(bool, x & true), HasSubstr("arith.constant true"));
}

TEST(Operators, Logic) {
  EXPECT_THAT(UNARY(int, (x > 1 && x < 5) || !(x == 3)),
              AllOf(HasSubstr("arith.andi"), HasSubstr("arith.ori"), HasSubstr("arith.xori")));
  EXPECT_THAT(UNARY(int, ~x), ContainsRegex("arith.xori .* : tensor<8xi32>"));
  EXPECT_THAT(UNARY(int, -x), ContainsRegex("arith.subi %[a-z0-9_]+, %3 : tensor<8xi32>"));
  EXPECT_THAT(UNARY(float, -x), HasSubstr("arith.negf"));
}

TEST(Operators, Broadcast) {
  std::string ir = traced([](sc::Ptr<float> p, sc::Int n) {
    auto rows = sc::arange(0, 4), columns = sc::arange(0, 8);
    auto offsets = sc::expand(rows, 1) * n + sc::expand(columns, 0);
    sc::store(p + offsets, sc::load(p + columns), sc::expand(rows, -1) < n);
  });
  EXPECT_THAT(ir, AllOf(HasSubstr("tile.expand_dims %0 1 : tensor<4xi32> -> tensor<4x1xi32>"),
                        HasSubstr("tile.broadcast"),
                        ContainsRegex("tile.store .* mask %[0-9]+ : tensor<4x8x!tile.ptr<f32>>, "
                                      "tensor<4x8xf32> mask tensor<4x8xi1>")));
}

TEST(Operators, Fp8ComputesInFloat) {
  EXPECT_THAT(
      UNARY(sc::float8_e4m3, x + y),
      AllOf(ContainsRegex("arith.extf .* : tensor<8xf8E4M3FN> to tensor<8xf32>"),
            ContainsRegex("arith.addf .* : tensor<8xf32>"),
            ContainsRegex("tile.fp_cast .*saturate.* : tensor<8xf32> -> tensor<8xf8E4M3FN>")));
  EXPECT_THAT(UNARY(sc::float8_e5m2, x < y), ContainsRegex("arith.cmpf olt, .* : tensor<8xf32>"));
  EXPECT_THAT(UNARY(sc::float8_e5m2, sc::maximum(x, 1)),
              ContainsRegex("tile.maximum_number .* : tensor<8xf32>"));
}

//===-- Functions
//---------------------------------------------------------------------------------===//

TEST(Functions, AreComputedInFloatBelow32Bits) {
  EXPECT_THAT(UNARY(float, sc::exp(x)), ContainsRegex("math.exp .* : tensor<8xf32>"));
  EXPECT_THAT(UNARY(double, sc::log2(x)), ContainsRegex("math.log2 .* : tensor<8xf64>"));
  EXPECT_THAT(UNARY(sc::half, sc::tanh(x)), ContainsRegex("math.tanh .* : tensor<8xf32>"));
  EXPECT_THAT(UNARY(sc::bfloat16, sc::rint(x)), ContainsRegex("math.roundeven .* : tensor<8xf32>"));
  EXPECT_THAT(UNARY(sc::half, sc::abs(x)), ContainsRegex("math.absf .* : tensor<8xf16>"));
  EXPECT_THAT(UNARY(int, sc::abs(x)), ContainsRegex("math.absi .* : tensor<8xi32>"));
  EXPECT_THAT(UNARY(unsigned, sc::abs(x)), Not(HasSubstr("math.abs")));
  EXPECT_THAT(UNARY(sc::half, sc::sigmoid(x)),
              AllOf(ContainsRegex("math.exp .* : tensor<8xf32>"),
                    ContainsRegex("arith.divf .* : tensor<8xf32>"),
                    ContainsRegex("arith.truncf .* : tensor<8xf32> to tensor<8xf16>")));
}

TEST(Functions, OfTwoAndThree) {
  EXPECT_THAT(UNARY(float, sc::minimum(x, y)), HasSubstr("tile.minimum_number"));
  EXPECT_THAT(UNARY(float, sc::minimum(x, y, sc::Nan::propagate)), HasSubstr("arith.minimumf"));
  EXPECT_THAT(UNARY(float, sc::maximum(0, x, sc::Nan::propagate)), HasSubstr("arith.maximumf"));
  EXPECT_THAT(UNARY(int, sc::clamp(x, 0, 7)),
              AllOf(HasSubstr("arith.maxsi"), HasSubstr("arith.minsi")));
  EXPECT_THAT(UNARY(float, sc::fma(x, y, 1)), HasSubstr("math.fma"));
  EXPECT_THAT(UNARY(int, sc::fma(x, y, 1)),
              AllOf(HasSubstr("arith.muli"), HasSubstr("arith.addi")));
  EXPECT_THAT(BINARY(float, sc::half, sc::where(x > 0, x, y)),
              ContainsRegex("arith.select .* : tensor<8xi1>, tensor<8xf32>"));
  EXPECT_THAT(UNARY(int, sc::cdiv(x, 4)), HasSubstr("arith.divsi"));
  static_assert(sc::cdiv(7, 2) == 4 && sc::cdiv(8, 2) == 4 && sc::cdiv(0, 4) == 0);
}

TEST(Functions, Casts) {
  EXPECT_THAT(UNARY(float, sc::cast<int>(x)), HasSubstr("arith.fptosi"));
  EXPECT_THAT(UNARY(float, sc::cast<std::uint8_t>(x)), HasSubstr("arith.fptoui"));
  EXPECT_THAT(UNARY(unsigned, sc::cast<float>(x)), HasSubstr("arith.uitofp"));
  EXPECT_THAT(UNARY(std::int64_t, sc::cast<std::int8_t>(x)), HasSubstr("arith.trunci"));
  EXPECT_THAT(UNARY(int, sc::cast<bool>(x)), HasSubstr("arith.cmpi ne"));
  EXPECT_THAT(UNARY(float, sc::cast<bool>(x)), HasSubstr("arith.cmpf une"));
  EXPECT_THAT(UNARY(sc::half, sc::cast<sc::bfloat16>(x)),
              AllOf(HasSubstr("tensor<8xf16> to tensor<8xf32>"),
                    HasSubstr("tensor<8xf32> to tensor<8xbf16>")));
  EXPECT_THAT(UNARY(float, sc::cast<sc::float8_e5m2>(x)),
              HasSubstr("tensor<8xf32> -> tensor<8xf8E5M2>"));
  EXPECT_THAT(UNARY(int, sc::cast<sc::Index>(x) + sc::program_id(0)), HasSubstr("arith.addi"));
  EXPECT_THAT(UNARY(float, sc::bitcast<unsigned>(x) >> 31),
              HasSubstr("arith.bitcast %3 : tensor<8xf32> to tensor<8xi32>"));
  EXPECT_THAT(UNARY(int, sc::bitcast<unsigned>(x) >> 31), HasSubstr("arith.shrui %3"));
}

// Every conversion between two element types makes valid IR (trace verifies it).
TEST(Functions, EveryCast) {
  auto all = []<class... T>(auto &&visit, std::type_identity<T>...) {
    (visit(std::type_identity<T>()), ...);
  };
  int count = 0;
  auto types = [&](auto &&visit) {
    all(visit, std::type_identity<bool>(), std::type_identity<std::int8_t>(),
        std::type_identity<std::int16_t>(), std::type_identity<std::int32_t>(),
        std::type_identity<std::int64_t>(), std::type_identity<std::uint8_t>(),
        std::type_identity<std::uint16_t>(), std::type_identity<std::uint32_t>(),
        std::type_identity<std::uint64_t>(), std::type_identity<sc::float8_e4m3>(),
        std::type_identity<sc::float8_e5m2>(), std::type_identity<sc::float8_e4m3fnuz>(),
        std::type_identity<sc::float8_e5m2fnuz>(), std::type_identity<sc::float8_e4m3b11fnuz>(),
        std::type_identity<sc::half>(), std::type_identity<sc::bfloat16>(),
        std::type_identity<float>(), std::type_identity<double>());
  };
  types([&]<class A>(std::type_identity<A>) {
    types([&]<class B>(std::type_identity<B>) {
      std::string ir =
          traced([](sc::Ptr<const A> a, sc::Ptr<B> b) { sc::store(b, sc::cast<B>(sc::load(a))); });
      count += ir.find("tile.store") != std::string::npos;
    });
  });
  EXPECT_EQ(count, 18 * 18);
}

//===-- Shapes, dots, reductions
//------------------------------------------------------------------===//

TEST(Shapes, Rearranging) {
  std::string ir = traced([](sc::Ptr<float> p) {
    auto x = sc::reshape(sc::load(p + sc::arange(0, 24)), 2, 3, 4);
    auto y = sc::permute(x, {2, 0, 1});
    auto z = sc::trans(y);
    sc::store(p + sc::arange(0, 24), sc::reshape(z, 24));
    sc::store(p + sc::arange(0, 4), sc::broadcast_to(sc::full<float>(3, 1), 4));
  });
  EXPECT_THAT(ir,
              AllOf(HasSubstr("tile.reshape"), HasSubstr("tensor<2x3x4xf32> -> tensor<4x2x3xf32>"),
                    HasSubstr("tensor<4x2x3xf32> -> tensor<4x3x2xf32>"), HasSubstr("dense<3.0")));
}

TEST(Dot, Types) {
  static_assert(
      std::same_as<decltype(sc::dot(sc::Tile<sc::half>(), sc::Tile<sc::half>())), sc::Tile<float>>);
  static_assert(std::same_as<decltype(sc::dot(sc::Tile<std::int8_t>(), sc::Tile<std::int8_t>())),
                             sc::Tile<int>>);
  static_assert(
      std::same_as<decltype(sc::dot(sc::Tile<double>(), sc::Tile<double>())), sc::Tile<double>>);
  std::string ir = traced([](sc::Ptr<float> p) {
    auto a = sc::zeros<float>(16, 8), b = sc::zeros<float>(8, 32);
    auto c = sc::dot(a, b, sc::Precision::ieee);
    auto d = sc::dot(sc::zeros<sc::float8_e4m3>(16, 32), sc::zeros<sc::float8_e5m2>(32, 32), c);
    auto e = sc::dot(sc::zeros<sc::half>(16, 8), sc::zeros<sc::half>(8, 32),
                     sc::zeros<sc::half>(16, 32));
    sc::store(p + sc::expand(sc::arange(0, 16), 1) + sc::expand(sc::arange(0, 32), 0), d + e);
  });
  EXPECT_THAT(ir,
              AllOf(HasSubstr("{precision = 1 : i32}"),
                    HasSubstr("tensor<16x32xf8E4M3FN>, tensor<32x32xf8E5M2>, tensor<16x32xf32>"),
                    HasSubstr("tensor<16x8xf16>, tensor<8x32xf16>, tensor<16x32xf16>")));
}

TEST(Reduce, SumsAddUpInFloat) {
  std::string ir = UNARY(sc::half, sc::expand(sc::sum(x, 0), 0));
  EXPECT_THAT(ir, AllOf(ContainsRegex("tile.reduce %[0-9]+ 0 : \\(tensor<8xf32>\\) -> f32"),
                        HasSubstr("arith.truncf")));
  static_assert(std::same_as<decltype(sc::sum(sc::Tile<bool>(), 0)), sc::Tile<int>>);
  static_assert(std::same_as<decltype(sc::sum(sc::Tile<std::uint8_t>(), 0)), sc::Tile<unsigned>>);
  static_assert(std::same_as<decltype(sc::sum(sc::Tile<sc::half>(), 0)), sc::Tile<sc::half>>);
}

TEST(Reduce, WholeTilesAndSeveral) {
  std::string ir = traced([](sc::Ptr<float> p, sc::Ptr<int> q) {
    auto x = sc::reshape(sc::load(p + sc::arange(0, 32)), 4, 8);
    sc::store(p, sc::sum(x));
    sc::store(p + sc::arange(0, 4), sc::max(x, -1, sc::Nan::propagate));
    sc::store(q + sc::arange(0, 8), sc::argmin(x, 0));
    sc::when(sc::any(x > 3) || sc::all(x < 9), [&] { sc::store(p, 1); });
    auto [mean, count] = sc::reduce(std::tuple(x, sc::full_like(x, 1)), 1,
                                    [](sc::Float a, sc::Float n, sc::Float b, sc::Float m) {
                                      return std::tuple((a * n + b * m) / (n + m), n + m);
                                    });
    sc::store(p + sc::arange(0, 4), mean * count);
  });
  EXPECT_THAT(ir,
              AllOf(ContainsRegex("tile.reduce %[0-9]+ 1 : .tensor<4x8xf32>. -> tensor<4xf32>"),
                    ContainsRegex("tile.reduce %[0-9]+ 0 : .tensor<4xf32>. -> f32"),
                    HasSubstr("arith.maximumf"), ContainsRegex("-> .tensor<8xf32>, tensor<8xi32>."),
                    HasSubstr("arith.ori"), HasSubstr("arith.andi"),
                    ContainsRegex("-> .tensor<4xf32>, tensor<4xf32>.")));
}

TEST(Reduce, InOrderUnlessTheCombinerCommutes) {
  auto reduced = [](auto combiner) {
    return traced([&](sc::Ptr<float> p) {
      auto x = sc::load(p + sc::arange(0, 32));
      auto [a, b] = sc::reduce(std::tuple(x, x), 0, combiner);
      sc::store(p, a + b);
    });
  };
  using sc::Float;
  EXPECT_THAT(reduced([](Float m, Float l, Float n, Float k) { // of a softmax
                auto top = sc::maximum(m, n);
                return std::tuple(top, l * sc::exp(m - top) + k * sc::exp(n - top));
              }),
              testing::Not(HasSubstr("tile.scan")));
  EXPECT_THAT(
      reduced([](Float a, Float b, Float c, Float d) { return std::tuple(a * c, b * c + d); }),
      HasSubstr("tile.scan"));
  EXPECT_THAT(reduced([](Float a, Float b, Float c, Float d) {
                return std::tuple(sc::where(a > c, a, c), sc::where(a > c, b, d));
              }),
              HasSubstr("tile.scan"));
}

TEST(Reduce, LinesAreTheUsers) {
  constexpr unsigned line = __LINE__;
  auto kernel = [](sc::Ptr<float> p) {
    auto x = sc::load(p + sc::arange(0, 32));
    auto s = sc::sum(x, 0);
    sc::store(p, sc::reduce(x, 0, [](auto a, auto b) {
                   return a * b; // line + 5
                 }) + s);
  };
  auto module = traceModule(kernel, nullptr, {});
  module->walk([&](mlir::Operation *op) {
    std::string at = sectile::detail::describe(op->getLoc());
    if (op->getName().getStringRef() == "arith.mulf") {
      EXPECT_THAT(at, testing::EndsWith("dsl_ops_test.cpp:" + std::to_string(line + 5)));
    }
    EXPECT_THAT(at, testing::Not(HasSubstr("reduce.h")));
  });
}

//===-- Memory
//------------------------------------------------------------------------------------===//

TEST(Memory, BoolsAreBytes) {
  std::string ir = traced([](sc::Ptr<const bool> a, sc::Ptr<bool> b, sc::Tile<bool> flag) {
    auto i = sc::arange(0, 8);
    sc::store(b + i, sc::load(a + i, i < 4, true) & flag);
  });
  EXPECT_THAT(ir, AllOf(HasSubstr("%arg0: !tile.ptr<i8>, %arg1: !tile.ptr<i8>, %arg2: i8)"),
                        HasSubstr("arith.cmpi ne, %arg2"),
                        ContainsRegex("arith.extui .* : tensor<8xi1> to tensor<8xi8>"),
                        HasSubstr("dense<1> : tensor<8xi8>")));
}

TEST(Memory, MasksOthersAndHints) {
  std::string ir = traced([](sc::Ptr<const sc::half> a, sc::Ptr<sc::half> b, sc::Int n) {
    auto i = sc::arange(0, 8);
    auto x =
        sc::load(a + i, i < n, -1, {.cache = sc::Cache::global, .eviction = sc::Eviction::first});
    sc::store(b + i, x * 2.0f, i < n, {.cache = sc::Cache::streaming});
    sc::store(b + i, sc::load(a, true, {}, {.cache = sc::Cache::uncached}));
  });
  EXPECT_THAT(ir,
              AllOf(ContainsRegex(
                        "mask %[0-9]+ other %[a-z0-9_]+ [{]cache = 2 : i32, eviction = 1 : i32[}]"),
                    HasSubstr("{cache = 3 : i32}"), HasSubstr("isVolatile")));
}

TEST(Memory, OffsetsKeepTheirRange) {
  // An unsigned 32-bit offset gets the 64 bits it needs; small ones widen to 32.
  std::string ir = traced(
      [](sc::Ptr<float> p, sc::Tile<std::uint32_t> far, sc::Tile<std::int8_t> near, sc::Int n) {
        sc::store(p + far, 1);
        sc::store(near + p, 1);
        sc::store(p - n, 1);
        sc::store(p + (std::int64_t{1} << 40), 1);
      });
  EXPECT_THAT(ir, AllOf(HasSubstr("arith.extui %arg1 : i32 to i64"),
                        HasSubstr("arith.extsi %arg2 : i8 to i32"), HasSubstr("arith.subi"),
                        HasSubstr("1099511627776 : i64")));
}

TEST(Views, PartsOfViews) {
  std::string ir = traced([](sc::View<const float, 4> v, sc::View<float, 2> w) {
    auto head = v.at(sc::program_id(0), 3);            // [S, D]
    auto x = head.transposed().tile(8, 16).load(0, 1); // [D, S]
    auto y = v.fix(2, 5).at(0).tile(16, 8).padding(-1).load_at(0, 4);
    auto part = w.slice(0, 2, 10);
    part.tile(8, 16).store(0, 0, x + sc::trans(y));
    part.tile(8, 16).access({.cache = sc::Cache::streaming}).store_at(1, 2, 3);
    sc::store(w.ptr() + w.stride(0) * w.extent(1), 1);
    w.permuted({1, 0}).tile(4, 4).store(0, 0, 0);
    sc::View<float, 1> flat(w.ptr(), {w.extent(0)}, {2});
    flat.tile(4).store(0, 7);
  });
  EXPECT_THAT(
      ir,
      AllOf(HasSubstr("tile.make_view"), HasSubstr("padding -1.000000e+00 : f32"),
            ContainsRegex("tile.make_view %[0-9]+, \\[%arg4, %arg3\\], \\[%arg8, %arg7\\]"),
            ContainsRegex(
                "tile.make_view %[0-9]+, \\[%c10_i32[_0-9]*, %arg11\\], \\[%arg12, %arg13\\]"),
            ContainsRegex("tile.make_view %arg9, \\[%arg11, %arg10\\], \\[%arg13, %arg12\\]"),
            ContainsRegex("tile.store_block .* : !tile.view<1xf32>, \\[i32\\], tensor<4xf32>")));
}

TEST(Views, SpecializedStridesAreConstants) {
  auto kernel = [](sc::View<const float, 2> v, sc::View<float, 2> w) {
    w.tile(8, 8).store(0, 0, v.tile(8, 8).load(0, 0));
  };
  std::vector<sc::detail::ArgSpecialization> specializations(10);
  specializations[4].value = 1;
  specializations[1].is32bit = false;
  specializations[8].is32bit = false;
  std::string ir = traced(kernel, specializations);
  EXPECT_THAT(ir, AllOf(HasSubstr("%arg1: i64, %arg2: i32, %arg3: i32, %arg4: i32"),
                        HasSubstr("%arg8: i64"), ContainsRegex("\\[%arg3, %c1_i32\\]"),
                        HasSubstr("arith.extsi %arg2 : i32 to i64")));
}
