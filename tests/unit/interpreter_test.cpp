// The interpreter: exact semantics of each operation, and what it says of mistakes.
#include "codegen/Compiler.h"
#include "jit/interpreter/Bounds.h"
#include "jit/interpreter/Floats.h"
#include "jit/interpreter/Interpreter.h"
#include "mlir/AsmParser/AsmParser.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "vgpu/HostDevice.h"
#include "llvm/ADT/APFloat.h"
#include <bit>
#include <cmath>
#include <cstring>
#include <gmock/gmock.h>
#include <random>
#include <sectile/sectile.h>

using namespace sectile;
using testing::ElementsAre;
using testing::ElementsAreArray;
using testing::HasSubstr;
using vgpu::FindingKind;

namespace {

//===-- Kernels as text -----------------------------------------------------------------------===//

/// Runs the body of a kernel of tile IR on arrays of T, each an argument `%0`, `%1`, …, a pointer
/// to elements of that MLIR type.
class Text {
public:
  explicit Text(const std::string &parameters, const std::string &body) {
    module = mlir::parseSourceString<mlir::ModuleOp>("func.func @kernel(" + parameters +
                                                         ") attributes {tile.kernel} {\n" + body +
                                                         "\nreturn\n}\n",
                                                     context.get());
    if (!module || failed(mlir::verify(*module)))
      throw std::logic_error("the kernel is not valid");
  }

  template <class T> uint64_t place(const std::vector<T> &values) {
    void *address = memory.allocate(values.size() * sizeof(T));
    std::memcpy(address, values.data(), values.size() * sizeof(T));
    return reinterpret_cast<uint64_t>(address);
  }
  template <class T> std::vector<T> read(uint64_t address, size_t count) const {
    auto *from = reinterpret_cast<const T *>(address);
    return {from, from + count};
  }
  interpreter::Outcome run(const std::vector<uint64_t> &arguments,
                           const runtime::GridExtents &grid = {},
                           const interpreter::Options &options = {}) {
    interpreter::Program program(*module);
    if (program.problem())
      throw std::logic_error(*program.problem());
    return program.run({grid, arguments, memory.ranges()}, options);
  }

private:
  ContextLease context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  vgpu::DeviceMemory memory;
};

/// What %r, a tile of i32 with this shape, is after the body.
std::vector<int32_t> integers(const std::string &body, size_t count, const std::string &shape) {
  Text text("%out: !tile.ptr<i32>",
            body + "\n%flat = tile.reshape %r : tensor<" + shape + "xi32> -> tensor<" +
                std::to_string(count) + "xi32>\n%i = tile.arange 0 : tensor<" +
                std::to_string(count) + "xi32>\n%p = tile.splat %out : !tile.ptr<i32> -> tensor<" +
                std::to_string(count) + "x!tile.ptr<i32>>\n%q = tile.addptr %p, %i : tensor<" +
                std::to_string(count) + "x!tile.ptr<i32>>, tensor<" + std::to_string(count) +
                "xi32>\ntile.store %q, %flat : tensor<" + std::to_string(count) +
                "x!tile.ptr<i32>>, tensor<" + std::to_string(count) + "xi32>");
  const uint64_t out = text.place(std::vector<int32_t>(count, -1));
  interpreter::Outcome outcome = text.run({out});
  EXPECT_FALSE(outcome.finding) << outcome.finding->text();
  return text.read<int32_t>(out, count);
}

//===-- Formats -------------------------------------------------------------------------------===//

struct Format {
  const char *type;
  const llvm::fltSemantics &semantics;
};
const Format formats[] = {{"f16", llvm::APFloat::IEEEhalf()},
                          {"bf16", llvm::APFloat::BFloat()},
                          {"f8E5M2", llvm::APFloat::Float8E5M2()},
                          {"f8E4M3FN", llvm::APFloat::Float8E4M3FN()},
                          {"f8E4M3FNUZ", llvm::APFloat::Float8E4M3FNUZ()},
                          {"f8E5M2FNUZ", llvm::APFloat::Float8E5M2FNUZ()},
                          {"f8E4M3B11FNUZ", llvm::APFloat::Float8E4M3B11FNUZ()}};

const interpreter::FloatFormat &formatOf(const char *type) {
  ContextLease context;
  return *interpreter::FloatFormat::of(mlir::parseType(type, context.get()));
}

TEST(Formats, DecodeEveryCode) {
  for (const auto &[type, semantics] : formats) {
    const interpreter::FloatFormat &format = formatOf(type);
    for (uint64_t word = 0; word < uint64_t(1) << format.bits; ++word) {
      llvm::APFloat wanted(semantics, llvm::APInt(format.bits, word));
      ASSERT_EQ(format.isNan(word), wanted.isNaN()) << type << " " << word;
      if (wanted.isNaN()) {
        ASSERT_TRUE(std::isnan(format.decode(word)));
        continue;
      }
      bool lossy;
      wanted.convert(llvm::APFloat::IEEEdouble(), llvm::APFloat::rmNearestTiesToEven, &lossy);
      ASSERT_EQ(std::bit_cast<uint64_t>(format.decode(word)),
                wanted.bitcastToAPInt().getZExtValue())
          << type << " " << word;
      ASSERT_EQ(format.encode(format.decode(word)), word) << type;
    }
  }
}

TEST(Formats, EncodeAsTheCompilerDoes) {
  std::mt19937_64 random(1);
  for (const auto &[type, semantics] : formats) {
    const interpreter::FloatFormat &format = formatOf(type);
    const double largest = format.decode(format.largest());
    for (int i = 0; i < 20000; ++i) {
      // Numbers of the format's range and beyond, many of them ties.
      double value =
          std::ldexp(static_cast<double>(int64_t(random() % 8192) - 4096), int(random() % 60) - 40);
      if (i % 3 == 0)
        value = format.decode(random() % (uint64_t(1) << format.bits)) *
                (1 + std::ldexp(static_cast<double>(random() % 3), -int(format.mantissaBits) - 1));
      if (std::isnan(value))
        continue;
      for (bool towardZero : {false, true}) {
        llvm::APFloat wanted(value);
        bool lossy;
        wanted.convert(
            semantics,
            towardZero ? llvm::APFloat::rmTowardZero : llvm::APFloat::rmNearestTiesToEven, &lossy);
        const auto rounding =
            towardZero ? interpreter::Rounding::TowardZero : interpreter::Rounding::NearestEven;
        const uint64_t got = format.encode(value, rounding);
        const bool inRange = std::fabs(value) <= largest;
        if (inRange) {
          ASSERT_EQ(got, wanted.bitcastToAPInt().getZExtValue()) << type << " of " << value;
        }
        const double saturated = format.decode(format.encode(value, rounding, true));
        ASSERT_LE(std::fabs(saturated), largest);
        if (!inRange) {
          ASSERT_EQ(saturated, std::copysign(largest, value)) << type;
        }
      }
    }
    // Too large is infinity or NaN; cut off it is the largest number.
    EXPECT_EQ(format.encode(4 * largest), format.hasInfinity ? format.infinity() : format.nan());
    EXPECT_EQ(format.encode(4 * largest, interpreter::Rounding::TowardZero), format.largest());
    EXPECT_EQ(format.encode(-INFINITY, interpreter::Rounding::NearestEven, true),
              format.largest() | format.signBit());
    EXPECT_EQ(format.encode(-0.0), format.hasMinusZero ? format.signBit() : 0);
  }
}

TEST(Formats, MultiplyAddsRoundOnce) {
  // The product is a tie of bf16, and what is added decides on which side.
  const double tie = 1 + 0x1p-8;
  for (double small : {0x1p-80, -0x1p-80}) {
    const double sum = interpreter::multiplyAddToOdd(tie, 1, small);
    EXPECT_EQ(interpreter::bf16Format.decode(interpreter::bf16Format.encode(sum)),
              small > 0 ? 1 + 0x1p-7 : 1);
  }
  std::mt19937 random(5);
  for (int i = 0; i < 100000; ++i) {
    auto number = [&] {
      return std::ldexp(static_cast<float>(int32_t(random())), int(random() % 40) - 50);
    };
    const float a = number(), b = number(), c = i % 2 ? number() : -a * b;
    ASSERT_EQ(static_cast<float>(interpreter::multiplyAddToOdd(a, b, c)), std::fma(a, b, c));
  }
}

//===-- Shapes and elements as IR -------------------------------------------------------------===//

TEST(Shapes, JoinAndSplit) {
  EXPECT_THAT(integers(R"(
    %a = tile.arange 0 : tensor<3xi32>
    %b = tile.arange 10 : tensor<3xi32>
    %r = tile.join %a, %b : tensor<3xi32> -> tensor<3x2xi32>)",
                       6, "3x2"),
              ElementsAre(0, 10, 1, 11, 2, 12));
  EXPECT_THAT(integers(R"(
    %a = tile.arange 0 : tensor<6xi32>
    %m = tile.reshape %a : tensor<6xi32> -> tensor<3x2xi32>
    %x, %y = tile.split %m : tensor<3x2xi32> -> tensor<3xi32>
    %r = tile.join %y, %x : tensor<3xi32> -> tensor<3x2xi32>)",
                       6, "3x2"),
              ElementsAre(1, 0, 3, 2, 5, 4));
}

TEST(Shapes, Gather) {
  const std::string source = R"(
    %a = tile.arange 10 : tensor<6xi32>
    %m = tile.reshape %a : tensor<6xi32> -> tensor<2x3xi32>)";
  EXPECT_THAT(integers(source + R"(
    %at = arith.constant dense<[[2, 0, 1, 2], [0, 0, 2, 1]]> : tensor<2x4xi32>
    %r = tile.gather %m[%at] 1 : tensor<2x3xi32>, tensor<2x4xi32> -> tensor<2x4xi32>)",
                       8, "2x4"),
              ElementsAre(12, 10, 11, 12, 13, 13, 15, 14));
  Text text("", source + R"(
    %at = arith.constant dense<[[0, 1, 1], [0, 2, 1]]> : tensor<2x3xi32>
    %r = tile.gather %m[%at] 0 : tensor<2x3xi32>, tensor<2x3xi32> -> tensor<2x3xi32>)");
  const interpreter::Outcome outcome = text.run({});
  ASSERT_TRUE(outcome.finding);
  EXPECT_EQ(outcome.finding->kind, FindingKind::BadIndex);
  EXPECT_EQ(outcome.finding->element, "[1, 1]");
  EXPECT_EQ(outcome.finding->message, "index 2 of an axis of extent 2");
}

TEST(Combining, Scans) {
  const std::string source = R"(
    %a = arith.constant dense<[[1, 2, 3], [4, 5, 6]]> : tensor<2x3xi32>)";
  auto scan = [&](const std::string &axis) {
    return integers(source + "%r = tile.scan %a " + axis +
                        R"( : (tensor<2x3xi32>) -> tensor<2x3xi32> {
    ^bb0(%x: i32, %y: i32):
      %s = arith.addi %x, %y : i32
      tile.yield %s : i32
    })",
                    6, "2x3");
  };
  EXPECT_THAT(scan("1"), ElementsAre(1, 3, 6, 4, 9, 15));
  EXPECT_THAT(scan("0"), ElementsAre(1, 2, 3, 5, 7, 9));
  EXPECT_THAT(scan("1 reverse"), ElementsAre(6, 5, 3, 15, 11, 6));
  // The later ones are on the left.
  EXPECT_THAT(
      integers(source + R"(%r = tile.scan %a 1 reverse : (tensor<2x3xi32>) -> tensor<2x3xi32> {
    ^bb0(%x: i32, %y: i32):
      tile.yield %x : i32
    })",
               6, "2x3"),
      ElementsAre(3, 3, 3, 6, 6, 6));
}

TEST(Combining, Histograms) {
  EXPECT_THAT(integers(R"(
    %a = arith.constant dense<[0, 2, 2, -1, 7, 3, 4]> : tensor<7xi32>
    %mask = arith.constant dense<[true, true, true, true, true, false, true]> : tensor<7xi1>
    %r = tile.histogram %a mask %mask : tensor<7xi32> mask tensor<7xi1> -> tensor<4xi32>)",
                       4, "4"),
              ElementsAre(1, 0, 2, 0));
}

TEST(Combining, MapsBranchForEachElement) {
  EXPECT_THAT(integers(R"(
    %a = tile.arange -2 : tensor<5xi32>
    %r = tile.map %a : (tensor<5xi32>) -> tensor<5xi32> {
    ^bb0(%x: i32):
      %zero = arith.constant 0 : i32
      %negative = arith.cmpi slt, %x, %zero : i32
      %y = scf.if %negative -> i32 {
        %n = arith.subi %zero, %x : i32
        scf.yield %n : i32
      } else {
        %one = arith.constant 1 : i32
        %sum = scf.for %i = %zero to %x step %one iter_args(%s = %zero) -> (i32) : i32 {
          %next = arith.addi %s, %x : i32
          scf.yield %next : i32
        }
        scf.yield %sum : i32
      }
      tile.yield %y : i32
    })",
                       5, "5"),
              ElementsAre(2, 1, 0, 1, 4));
}

TEST(Integers, Extended) {
  EXPECT_THAT(integers(R"(
    %a = arith.constant dense<[-1, 2147483647, 3]> : tensor<3xi32>
    %b = arith.constant dense<[-1, 2147483647, -2]> : tensor<3xi32>
    %low, %high = arith.mulsi_extended %a, %b : tensor<3xi32>
    %ulow, %uhigh = arith.mului_extended %a, %b : tensor<3xi32>
    %r = tile.join %high, %uhigh : tensor<3xi32> -> tensor<3x2xi32>)",
                       6, "3x2"),
              ElementsAre(0, -2, 0x3fffffff, 0x3fffffff, -1, 2));
}

TEST(Integers, WrapAndDivideTowardZero) {
  EXPECT_THAT(integers(R"(
    %a = arith.constant dense<[2147483647, -2147483648, -7, 7]> : tensor<4xi32>
    %b = arith.constant dense<[1, -1, 2, -2]> : tensor<4xi32>
    %sum = arith.addi %a, %b : tensor<4xi32>
    %quotient = arith.divsi %a, %b : tensor<4xi32>
    %rest = arith.remsi %a, %b : tensor<4xi32>
    %down = arith.floordivsi %a, %b : tensor<4xi32>
    %x = tile.join %sum, %quotient : tensor<4xi32> -> tensor<4x2xi32>
    %y = tile.join %rest, %down : tensor<4xi32> -> tensor<4x2xi32>
    %r = tile.join %x, %y : tensor<4x2xi32> -> tensor<4x2x2xi32>)",
                       16, "4x2x2"),
              ElementsAre(INT32_MIN, 0, 2147483647, 2147483647, //
                          2147483647, 0, INT32_MIN, INT32_MIN,  //
                          -5, -1, -3, -4,                       //
                          5, 1, -3, -4));
}

TEST(Casts, RoundAsTold) {
  EXPECT_THAT(integers(R"(
    %a = arith.constant dense<[1.0009, -1.0009, 70000.0]> : tensor<3xf32>
    %near = arith.truncf %a : tensor<3xf32> to tensor<3xf16>
    %zero = arith.truncf %a toward_zero : tensor<3xf32> to tensor<3xf16>
    %x = arith.bitcast %near : tensor<3xf16> to tensor<3xi16>
    %y = arith.bitcast %zero : tensor<3xf16> to tensor<3xi16>
    %xi = arith.extui %x : tensor<3xi16> to tensor<3xi32>
    %yi = arith.extui %y : tensor<3xi16> to tensor<3xi32>
    %r = tile.join %xi, %yi : tensor<3xi32> -> tensor<3x2xi32>)",
                       6, "3x2"),
              ElementsAre(0x3c01, 0x3c00, 0xbc01, 0xbc00, 0x7c00, 0x7bff));
}

//===-- Dots ----------------------------------------------------------------------------------===//

TEST(Dots, OfSeveralMatrices) {
  EXPECT_THAT(integers(R"(
    %a = arith.constant dense<[[[1, 2], [3, 4]], [[-128, 127], [0, 1]]]> : tensor<2x2x2xi8>
    %b = arith.constant dense<[[[1], [10]], [[-128], [1]]]> : tensor<2x2x1xi8>
    %c = arith.constant dense<1> : tensor<2x2x1xi32>
    %r = tile.dot %a, %b, %c : tensor<2x2x2xi8>, tensor<2x2x1xi8>, tensor<2x2x1xi32>)",
                       4, "2x2x1"),
              ElementsAre(22, 44, 16384 + 127 + 1, 2));
}

/// One dot of a row and a column of floats.
float dotOf(const std::string &precision, const std::string &row, const std::string &column,
            const std::string &type = "f32", const std::string &acc = "f32") {
  const std::string body =
      "%a = arith.constant dense<[[" + row + "]]> : tensor<1x2x" + type +
      ">\n%b = arith.constant dense<[[" + column + "]]> : tensor<1x2x" + type +
      ">\n%bt = tile.permute %b [1, 0] : tensor<1x2x" + type + "> -> tensor<2x1x" + type +
      ">\n%c = arith.constant dense<0.0> : tensor<1x1x" + acc +
      ">\n%d = tile.dot %a, %bt, %c {precision = " + precision + " : i32} : tensor<1x2x" + type +
      ">, tensor<2x1x" + type + ">, tensor<1x1x" + acc + ">\n" +
      (acc == "f32" ? "%e = arith.bitcast %d : tensor<1x1xf32> to tensor<1x1xi32>"
                    : "%w = arith.extf %d : tensor<1x1xf16> to tensor<1x1xf32>\n"
                      "%e = arith.bitcast %w : tensor<1x1xf32> to tensor<1x1xi32>") +
      "\n%r = tile.reshape %e : tensor<1x1xi32> -> tensor<1xi32>";
  return std::bit_cast<float>(integers(body, 1, "1")[0]);
}

TEST(Dots, PrecisionsOfFloat) {
  // 1 + 2^-11 is a tie of tf32, rounded away from zero; bf16 has 8 bits of mantissa.
  const std::string x = "1.00048828125, 0.0", one = "1.0, 1.0";
  EXPECT_EQ(dotOf("0", x, one), 1 + 0x1p-10f);
  EXPECT_EQ(dotOf("1", x, one), 1 + 0x1p-11f);
  EXPECT_EQ(dotOf("2", x, one), 1 + 0x1p-11f);
  EXPECT_EQ(dotOf("3", x, one), 1 + 0x1p-11f);
  // 1 + 2^-9 + 2^-20: two bf16 hold its first 17 bits, three all of them.
  const std::string y = "1.00195407867431640625, 0.0";
  EXPECT_EQ(dotOf("3", y, one), 1 + 0x1p-9f);
  EXPECT_EQ(dotOf("4", y, one), 1 + 0x1p-9f + 0x1p-20f);
  // The smallest of the products, of both rests, is left out: 2^-20 here.
  EXPECT_EQ(dotOf("3", "1.0009765625, 0.0", "1.0009765625, 0.0"), 1 + 0x1p-9f);
  EXPECT_EQ(dotOf("1", "1.0009765625, 0.0", "1.0009765625, 0.0"), 1 + 0x1p-9f + 0x1p-20f);
}

TEST(Dots, SumInTheAccumulatorsType) {
  EXPECT_EQ(dotOf("1", "2048.0, 1.0", "1.0, 1.0", "f16", "f32"), 2049);
  EXPECT_EQ(dotOf("1", "2048.0, 1.0", "1.0, 1.0", "f16", "f16"), 2048);
  // Products are exact: of f32 they have 48 bits until they are added.
  EXPECT_EQ(dotOf("1", "-1.0, 1.00000011920928955078125", "1.0, 1.00000011920928955078125"),
            0x1p-22f + 0x1p-46f);
}

//===-- Atomics -------------------------------------------------------------------------------===//

TEST(Atomics, GiveWhatWasThereBefore) {
  Text text("%p: !tile.ptr<f16>, %old: !tile.ptr<f16>", R"(
    %value = arith.constant dense<[1.0, 0.00048828125, 2.0]> : tensor<3xf16>
    %mask = arith.constant dense<[true, true, false]> : tensor<3xi1>
    %i = tile.arange 0 : tensor<3xi32>
    %same = tile.splat %p : !tile.ptr<f16> -> tensor<3x!tile.ptr<f16>>
    %before = tile.atomic_rmw fadd, %same, %value mask %mask : tensor<3x!tile.ptr<f16>>, tensor<3xf16> mask tensor<3xi1> -> tensor<3xf16>
    %o = tile.splat %old : !tile.ptr<f16> -> tensor<3x!tile.ptr<f16>>
    %q = tile.addptr %o, %i : tensor<3x!tile.ptr<f16>>, tensor<3xi32>
    tile.store %q, %before : tensor<3x!tile.ptr<f16>>, tensor<3xf16>)");
  const uint64_t p = text.place(std::vector<half>{half(1.0f)}),
                 old = text.place(std::vector<half>(3, half(9.0f)));
  EXPECT_FALSE(text.run({p, old}).finding);
  EXPECT_EQ(static_cast<float>(text.read<half>(p, 1)[0]), 2); // 2 + 2^-11, rounded once
  const std::vector<half> before = text.read<half>(old, 3);
  EXPECT_EQ(static_cast<float>(before[0]), 1);
  EXPECT_EQ(static_cast<float>(before[1]), 2);
  EXPECT_EQ(static_cast<float>(before[2]), 0);
}

//===-- Mistakes ------------------------------------------------------------------------------===//

/// What launching a kernel on the interpreter finds.
template <class Launch> vgpu::Finding foundBy(Launch &&launch) {
  try {
    launch(Device::interpreter());
  } catch (const runtime::FoundFault &fault) {
    EXPECT_THAT(fault.what(), HasSubstr("interpreter_test.cpp:"));
    return fault.finding;
  }
  ADD_FAILURE() << "nothing was found";
  return {};
}

TEST(Mistakes, OutOfBounds) {
  unsigned line = 0;
  const vgpu::Finding finding = foundBy([&](const Device &device) {
    Kernel kernel{"reads", [&](Ptr<const float> p, Ptr<float> q) {
                    auto i = expand(arange(0, 4), 1) * 32 + arange(0, 32);
                    line = __LINE__ + 1;
                    auto x = load(p + i + program_id(0));
                    store(q + i, x);
                  }};
    kernel.launch(device.stream(), 3, device.upload(std::vector<float>(129)),
                  device.allocate<float>(128));
  });
  EXPECT_EQ(finding.kind, FindingKind::OutOfBounds);
  EXPECT_EQ(finding.block[0], 2u);
  EXPECT_EQ(finding.element, "[3, 31]");
  EXPECT_EQ(finding.line, line);
  EXPECT_EQ(finding.kernel, "reads");
  EXPECT_EQ(finding.message, "load of 4 bytes 0 bytes past the end of an allocation of 516 bytes");
  EXPECT_THAT(finding.text(), HasSubstr("program (2,0,0), element [3, 31]: out-of-bounds access"));
}

TEST(Mistakes, AddressesThatDoNotFit) {
  // 48 · 2^26 elements: beyond 32 bits, though within 64.
  unsigned line = 0;
  const vgpu::Finding finding = foundBy([&](const Device &device) {
    Kernel kernel{"far", [&](Ptr<float> p, Int stride, Int n) {
                    auto i = arange(0, 64);
                    auto offset = i * stride;
                    line = __LINE__ + 1;
                    store(p + offset, 1.0f, i < n && offset < 0);
                  }};
    kernel.launch(device.stream(), 1, device.allocate<float>(64), 1 << 26, 64);
  });
  EXPECT_EQ(finding.kind, FindingKind::Overflow);
  EXPECT_EQ(finding.element, "[32]");
  EXPECT_EQ(finding.line, line);
  EXPECT_THAT(finding.message, HasSubstr("sc::cast<std::int64_t>"));
}

TEST(Mistakes, WrappingThatReachesNoAddressIsNone) {
  Device device = Device::interpreter();
  Kernel kernel{"hash", [](Ptr<int> p, Int stride) {
                  auto i = arange(0, 64);
                  auto hashed = (i + 1) * 0x7fffffff;
                  store(p + (hashed & 63), 1);
                  store(p + i * stride, 2, i < 2); // masked where it does not fit
                }};
  auto p = device.upload(std::vector<int>(64));
  kernel.launch(device.stream(), 1, p, 1 << 5);
  kernel.launch(device.stream(), 1, p, 63);
  EXPECT_EQ(p.download()[63], 2);
}

TEST(Mistakes, DivisionByZero) {
  unsigned line = 0;
  const vgpu::Finding finding = foundBy([&](const Device &device) {
    Kernel kernel{"divides", [&](Ptr<int> p) {
                    line = __LINE__ + 1;
                    store(p + arange(0, 4), 7 / (arange(0, 4) - 2));
                  }};
    kernel.launch(device.stream(), 1, device.allocate<int>(4));
  });
  EXPECT_EQ(finding.kind, FindingKind::Trap);
  EXPECT_EQ(finding.line, line);
  EXPECT_EQ(finding.element, "[2]");
  EXPECT_EQ(finding.message, "an integer is divided by zero");
}

TEST(Mistakes, Misaligned) {
  Text text("%p: !tile.ptr<i32>", R"(
    %one = arith.constant 1 : i32
    tile.store %p, %one : !tile.ptr<i32>, i32)");
  const interpreter::Outcome outcome = text.run({text.place(std::vector<int32_t>(2)) + 2});
  ASSERT_TRUE(outcome.finding);
  EXPECT_EQ(outcome.finding->kind, FindingKind::Misaligned);
}

TEST(Mistakes, AssemblyMeansNothing) {
  ContextLease context;
  auto module = mlir::parseSourceString<mlir::ModuleOp>(R"(
    func.func @kernel(%x: i32) attributes {tile.kernel} {
      %y = tile.inline_asm "mov.b32 $0, $1;", "=r,r", 1 pure (%x) : (i32) -> i32
      return
    })",
                                                        context.get());
  ASSERT_TRUE(module);
  EXPECT_THAT(interpreter::Program(*module).problem().value_or(""),
              HasSubstr("a chip's assembly means nothing to the interpreter"));
}

//===-- Watching ------------------------------------------------------------------------------===//

TEST(Watching, StopsAtALine) {
  Device device = Device::interpreter();
  std::vector<interpreter::LineStop> stops;
  unsigned line = 0;
  Kernel kernel{"watched", [&](Ptr<float> p, Int n) {
                  auto i = arange(0, 3);
                  for (auto k : range(0, n)) {
                    line = __LINE__ + 1;
                    auto x = cast<float>(i * k) / 2;
                    store(p + i, x);
                  }
                }};
  auto p = device.allocate<float>(3);
  kernel.launch(device.stream(), 1, p, 2); // learns the line
  interpreter::on_line("interpreter_test.cpp", line,
                       [&](const interpreter::LineStop &stop) { stops.push_back(stop); });
  kernel.launch(device.stream(), 2, p, 2);
  interpreter::clear_lines();
  kernel.launch(device.stream(), 1, p, 2);
  ASSERT_EQ(stops.size(), 4u);
  EXPECT_EQ(stops[3].program[0], 1u);
  EXPECT_EQ(stops[3].kernel, "watched");
  EXPECT_EQ(stops[3].line, line);
  const interpreter::LineValue &last = stops[3].values.back();
  EXPECT_EQ(last.operation, "divf");
  EXPECT_EQ(last.type, "f32");
  EXPECT_THAT(last.shape, ElementsAre(3));
  EXPECT_EQ(last.text, "f32[3]\n  [0]    0 0.5   1\n");
  EXPECT_THAT(stops[3].text(), HasSubstr("kernel watched, program (1, 0, 0)\n"));
}

TEST(Watching, TrapsOnTheFirstNan) {
  unsigned line = 0;
  Kernel kernel{"nan", [&](Ptr<const float> p, Ptr<float> q) {
                  auto i = program_id(0) * 4 + arange(0, 4);
                  auto x = load(p + i) + 1; // a NaN that comes from memory is none of its making
                  line = __LINE__ + 1;
                  auto y = x - x;
                  store(q + i, y + 1);
                }};
  Device device = Device::interpreter();
  auto p = device.upload(std::vector<float>{1, NAN, 0, 2, 1, NAN, INFINITY, 2});
  auto q = device.allocate<float>(8);
  kernel.launch(device.stream(), 2, p, q);
  interpreter::trap_nan(true);
  const vgpu::Finding finding =
      foundBy([&](const Device &) { kernel.launch(device.stream(), 2, p, q); });
  interpreter::trap_nan(false);
  EXPECT_EQ(finding.kind, FindingKind::NotANumber);
  EXPECT_EQ(finding.line, line);
  EXPECT_EQ(finding.block[0], 1u);
  EXPECT_EQ(finding.element, "[2]");
  EXPECT_EQ(finding.message, "subf of inf and inf gives NaN");
}

//===-- Bounds --------------------------------------------------------------------------------===//

/// The bound of what a kernel stores, an f32 from three f32 arguments.
struct Bounded {
  float value;
  double bound;
  bool uncertain;
};
Bounded bounded(const std::string &body, float x, float y, float z) {
  Text text("%out: !tile.ptr<f32>, %x: f32, %y: f32, %z: f32",
            body + "\ntile.store %out, %r : !tile.ptr<f32>, f32");
  const uint64_t out = text.place(std::vector<float>(1));
  interpreter::MemoryBounds bounds;
  interpreter::Options options;
  options.bounds = &bounds;
  auto bits = [](float value) { return uint64_t(std::bit_cast<uint32_t>(value)); };
  interpreter::Outcome outcome = text.run({out, bits(x), bits(y), bits(z)}, {}, options);
  EXPECT_FALSE(outcome.finding);
  return {text.read<float>(out, 1)[0], bounds.at(out), outcome.uncertain.has_value()};
}

TEST(Bounds, OfWhatIsExact) {
  const std::string body = "%m = arith.mulf %x, %y : f32\n%r = arith.addf %m, %z : f32";
  EXPECT_EQ(bounded(body, 3, 5, 7).bound, 0);
  // Contracted, the product keeps its last bits.
  const float x = 1 + 0x1p-20f;
  const Bounded open = bounded(body, x, x, -1);
  EXPECT_GE(open.bound, std::fabs(std::fma(x, x, -1.0f) - open.value));
  EXPECT_LT(open.bound, 0x1p-22);
  EXPECT_EQ(bounded("%r = arith.mulf %x, %y : f32", x, x, 0).bound, 0);
}

TEST(Bounds, OfFunctions) {
  const Bounded e = bounded("%r = math.exp %x : f32", 1.5f, 0, 0);
  EXPECT_GT(e.bound, 0);
  EXPECT_LT(e.bound, 1e-5);
  const Bounded root = bounded("%r = math.sqrt %x : f32", 2.5f, 0, 0);
  EXPECT_EQ(root.bound, 0); // rounded correctly everywhere
  // A large argument that is off itself, by more than its reduction is.
  const Bounded sine = bounded("%e = math.expm1 %x : f32\n%r = math.sin %e : f32", 15, 0, 0);
  EXPECT_GT(sine.bound, 0.5);
  EXPECT_LE(sine.bound, 2);
}

TEST(Bounds, OfZerosWithoutASign) {
  // Which of both zeros is the smaller one nobody says, and so which infinity this is.
  const std::string inverse = "%one = arith.constant 1.0 : f32\n%r = arith.divf %one, ";
  const std::string smaller =
      "%m = tile.minimum_number %x, %y : f32\n%p = arith.mulf %m, %z : f32\n";
  EXPECT_TRUE(std::isinf(bounded(smaller + inverse + "%m : f32", -0.0f, 0, 0).bound));
  EXPECT_TRUE(std::isinf(bounded(smaller + inverse + "%p : f32", -0.0f, 0, 0).bound));
  EXPECT_TRUE(std::isinf(bounded(smaller + inverse + "%p : f32", -0.0f, 0, 0.25f).bound));
  EXPECT_EQ(bounded(smaller + inverse + "%p : f32", 0, 0, 0).bound, 0);
}

TEST(Bounds, OfShortMultiplyAdds) {
  auto multiplyAdd = [](float x, float y, float z) {
    return bounded(R"(
      %a = arith.truncf %x : f32 to bf16
      %b = arith.truncf %y : f32 to bf16
      %c = arith.truncf %z : f32 to bf16
      %m = math.fma %a, %b, %c : bf16
      %r = arith.extf %m : bf16 to f32)",
                   x, y, z);
  };
  EXPECT_EQ(multiplyAdd(3, 5, 7).bound, 0);
  EXPECT_EQ(multiplyAdd(129, 5, 0x1p-30f).bound, 0); // not close to halfway
  // 152² is halfway between two numbers; of what is added f32 has no digit.
  const Bounded tie = multiplyAdd(152, 152, 0x1p-30f);
  EXPECT_EQ(tie.value, 23168);
  EXPECT_GE(tie.bound, 128);
  EXPECT_LT(tie.bound, 129);
}

TEST(Bounds, OfDecisions) {
  // Whether e^x is below what it is to within rounding nobody knows; far away everybody does.
  const std::string compared = R"(
    %e = math.exp %x : f32
    %c = arith.cmpf olt, %e, %y : f32
    %r = arith.select %c, %x, %z : f32)";
  EXPECT_TRUE(std::isinf(bounded(compared, 1, std::exp(1.0f), 7).bound));
  EXPECT_EQ(bounded(compared, 1, 2, 7).bound, 0);
  const std::string branched = R"(
    %e = math.exp %x : f32
    %c = arith.cmpf olt, %e, %y : f32
    %r = scf.if %c -> f32 {
      scf.yield %x : f32
    } else {
      scf.yield %z : f32
    })";
  EXPECT_TRUE(bounded(branched, 1, std::exp(1.0f), 7).uncertain);
  EXPECT_FALSE(bounded(branched, 1, 2, 7).uncertain);
}

TEST(Bounds, OfSums) {
  auto sum = [](const std::string &values) {
    return bounded("%t = arith.constant dense<[" + values + R"(]> : tensor<4xf32>
      %r = tile.reduce %t 0 : (tensor<4xf32>) -> f32 {
      ^bb0(%a: f32, %b: f32):
        %s = arith.addf %a, %b : f32
        tile.yield %s : f32
      })",
                   0, 0, 0);
  };
  EXPECT_EQ(sum("1.0, 2.0, 1024.0, -0.5").bound, 0);
  const Bounded open = sum("1.0e8, 1.0, -1.0e8, 1.0");
  EXPECT_GE(open.bound, 2 - open.value);
  EXPECT_LT(open.bound, 1e3);
  // In another order it overflows to the other side, or not at all.
  EXPECT_TRUE(std::isinf(sum("3.0e38, 3.0e38, -3.0e38, -3.0e38").bound));
}

TEST(Bounds, OfDotsOfTheSmallest) {
  // bf16 has no such small numbers, so that nothing of the operand is left in its parts.
  const Bounded product = bounded(R"(
      %a = tile.splat %x : f32 -> tensor<1x1xf32>
      %b = tile.splat %y : f32 -> tensor<1x1xf32>
      %acc = tile.splat %z : f32 -> tensor<1x1xf32>
      %d = tile.dot %a, %b, %acc {precision = 4 : i32} : tensor<1x1xf32>, tensor<1x1xf32>,
           tensor<1x1xf32>
      %t = tile.reshape %d : tensor<1x1xf32> -> tensor<1xf32>
      %r = tile.reduce %t 0 : (tensor<1xf32>) -> f32 {
      ^bb0(%x0: f32, %x1: f32):
        tile.yield %x0 : f32
      })",
                                  729 * 0x1p-149f, 1, 0);
  EXPECT_EQ(product.value, 0);
  EXPECT_GE(product.bound, 729 * 0x1p-149);
  EXPECT_LT(product.bound, 0x1p-130);
}

TEST(Bounds, OfSumsBelowTheSmallestNumber) {
  const auto of = [](std::initializer_list<double> summands) {
    interpreter::SumBound sum(interpreter::f32Format);
    double total = 0;
    for (double summand : summands) {
      sum.add(summand, 0);
      total += summand;
    }
    return sum.of(total);
  };
  EXPECT_EQ(of({3, -5, 0.25}), 0);
  EXPECT_EQ(of({0x1p-149, 0x1p-149}), 0);
  // Each is rounded to zero where one is added after the other, their sum is not.
  EXPECT_GE(of({0x1.8p-151, 0x1.8p-151, 0x1.8p-151}), 0x1p-149);
}

TEST(Bounds, OfScaledDots) {
  auto product = [](const std::string &code) {
    return bounded("%s = arith.constant dense<" + code + R"(> : tensor<1x1xi8>
      %a = arith.constant dense<4.0> : tensor<1x32xf8E4M3FN>
      %b = arith.constant dense<0.0> : tensor<32x1xf8E4M3FN>
      %acc = arith.constant dense<3.0> : tensor<1x1xf32>
      %d = tile.dot_scaled %a scale %s, %b, %acc : tensor<1x32xf8E4M3FN> scale tensor<1x1xi8>,
           tensor<32x1xf8E4M3FN>, tensor<1x1xf32> -> tensor<1x1xf32>
      %t = tile.reshape %d : tensor<1x1xf32> -> tensor<1xf32>
      %r = tile.reduce %t 0 : (tensor<1xf32>) -> f32 {
      ^bb0(%x0: f32, %x1: f32):
        tile.yield %x0 : f32
      })",
                   0, 0, 0);
  };
  EXPECT_EQ(product("127").bound, 0);
  // Scaled to 2^129 the numbers of the first operand are infinite where they are bf16.
  EXPECT_EQ(product("-2").value, 3);
  EXPECT_TRUE(std::isinf(product("-2").bound));
}

TEST(Bounds, OfSumsInMemory) {
  auto sum = [](const std::string &values) {
    return bounded("%v = arith.constant dense<[" + values + R"(]> : tensor<4xf32>
      %p = tile.splat %out : !tile.ptr<f32> -> tensor<4x!tile.ptr<f32>>
      %o = tile.atomic_rmw fadd, %p, %v : tensor<4x!tile.ptr<f32>>, tensor<4xf32> -> tensor<4xf32>
      %r = tile.load %out : !tile.ptr<f32> -> f32)",
                   0, 0, 0);
  };
  EXPECT_EQ(sum("1.0, 2.0, 1024.0, -0.5").bound, 0);
  // Each sum is exact in this order, but not in others.
  const Bounded open = sum("16777216.0, -16777216.0, 1.0, 1.0");
  EXPECT_EQ(open.value, 2);
  EXPECT_GE(open.bound, 2);
}

TEST(Bounds, OfUpdatesThatMeet) {
  auto update = [](const std::string &kinds) {
    return bounded("%p = tile.splat %out : !tile.ptr<f32> -> tensor<1x!tile.ptr<f32>>\n"
                   "%v = tile.splat %x : f32 -> tensor<1xf32>\n" +
                       kinds + "%r = tile.load %out : !tile.ptr<f32> -> f32",
                   5, 0, 0);
  };
  auto one = [](const std::string &kind) {
    return "tile.atomic_rmw " + kind +
           ", %p, %v : tensor<1x!tile.ptr<f32>>, tensor<1xf32> -> tensor<1xf32>\n";
  };
  EXPECT_EQ(update(one("exchange")).value, 5);
  EXPECT_EQ(update(one("exchange")).bound, 0);
  EXPECT_EQ(update(one("fmax") + one("fmax")).bound, 0);
  // Other programs' updates may come in between.
  EXPECT_TRUE(std::isinf(update(one("exchange") + one("exchange")).bound));
  EXPECT_TRUE(std::isinf(update(one("fadd") + one("fmax")).bound));
  const std::string swap = "tile.atomic_cas %p, %e, %v : tensor<1x!tile.ptr<f32>>, "
                           "tensor<1xf32> -> tensor<1xf32>\n",
                    zero = "%e = arith.constant dense<0.0> : tensor<1xf32>\n";
  EXPECT_EQ(update(zero + swap).value, 5);
  EXPECT_EQ(update(zero + swap).bound, 0);
  EXPECT_TRUE(std::isinf(update(zero + swap + swap).bound));
}

} // namespace
