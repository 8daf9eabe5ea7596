// Conformance of MFMA and WMMA: every form against a triple loop, with the fragments as AMD's
// documents of the instruction sets table them, written out here once more.
#include "VirtualTest.h"
#include "vgpu/SmallFloats.h"
#include <cmath>
#include <cstring>
#include <functional>
#include <random>

using namespace sectile::vgpu;

namespace {

struct Position {
  int row, column;
};

// Where element i of a lane's fragment lies. Of B the tables are those of A with row and column
// exchanged.
using Table = Position (*)(int lane, int i);

// MFMA, CDNA 2 to 4. A[i][k] of 16 rows: lane i + 16 (k / run), element k % run.
template <int run> Position a16(int lane, int i) { return {lane % 16, run * (lane / 16) + i}; }
// Of 32 rows: lane i + 32 (k / run).
template <int run> Position a32(int lane, int i) { return {lane % 32, run * (lane / 32) + i}; }
// D[i][j] of 16x16: lane j + 16 (i / 4), register i % 4.
Position d16(int lane, int i) { return {4 * (lane / 16) + i, lane % 16}; }
// Of 32x32: lane j + 32 (i / 4 % 2), register i % 4 + 4 (i / 8).
Position d32(int lane, int i) { return {8 * (i / 4) + 4 * (lane / 32) + i % 4, lane % 32}; }
// In f64: lane j + 16 (i % 4), pair of registers i / 4.
Position d16double(int lane, int i) { return {4 * i + lane / 16, lane % 16}; }

// WMMA, RDNA 3. A[i][k]: lanes i and i + 16, element k. D[i][j]: lane j + 16 (i % 2), register i /
// 2.
Position aHalves(int lane, int i) { return {lane % 16, i}; }
Position dHalves(int lane, int i) { return {2 * i + lane / 16, lane % 16}; }

// WMMA, RDNA 4. A[i][k] of 16 bits: lane i + 16 (k / 4 % 2), element k % 4 + 4 (k / 8). Of 8 bits:
// lane i + 16 (k / 8), element k % 8. D[i][j]: lane j + 16 (i / 8), register i % 8.
Position a12half(int lane, int i) { return {lane % 16, i % 4 + 4 * (lane / 16) + 8 * (i / 4)}; }
Position a12byte(int lane, int i) { return {lane % 16, 8 * (lane / 16) + i}; }
Position d12(int lane, int i) { return {8 * (lane / 16) + i, lane % 16}; }

enum class Type { F16, BF16, F32, F64, E4M3, E5M2, E4M3FNUZ, E5M2FNUZ, S8, S32 };

int bytesOf(Type type) {
  switch (type) {
  case Type::F16:
  case Type::BF16:
    return 2;
  case Type::F32:
  case Type::S32:
    return 4;
  case Type::F64:
    return 8;
  default:
    return 1;
  }
}

void encode(Type type, double value, unsigned char *to) {
  auto put = [&](auto bits) { std::memcpy(to, &bits, sizeof bits); };
  auto byte = [&](const FloatFormat &format, double of) {
    put(uint8_t(narrowFloat(float(of), format, Rounding::NearestEven)));
  };
  switch (type) {
  case Type::F16:
    return put(halfFromFloat(float(value)));
  case Type::BF16:
    return put(bfloatFromFloat(float(value)));
  case Type::F32:
    return put(float(value));
  case Type::F64:
    return put(value);
  case Type::E4M3:
    return byte(e4m3Format, value);
  case Type::E5M2:
    return byte(e5m2Format, value);
  // The same code is half as much where the bias is one more; there is no −0.
  case Type::E4M3FNUZ:
    return byte(e4m3Format, 2 * value + 0.0);
  case Type::E5M2FNUZ:
    return byte(e5m2Format, 2 * value + 0.0);
  case Type::S8:
    return put(int8_t(value));
  case Type::S32:
    return put(int32_t(value));
  }
}

double decode(Type type, const unsigned char *from) {
  auto get = [&](auto value) {
    std::memcpy(&value, from, sizeof value);
    return double(value);
  };
  return type == Type::F32 ? get(float()) : type == Type::F64 ? get(double()) : get(int32_t());
}

struct Form {
  const char *name, *chip;
  int m, k;
  Type a, b, c;
  const char *operand, *sum; // as LLVM's intrinsic takes them
  Table aTable, cTable;

  int lanes() const { return std::strstr(name, "wmma") ? 32 : 64; }
};

void PrintTo(const Form &form, std::ostream *stream) { *stream << form.chip << " " << form.name; }

#define MFMA "llvm.amdgcn.mfma."
#define WMMA "llvm.amdgcn.wmma."
const char f4[] = "<4 x float>", f16[] = "<16 x float>", f8[] = "<8 x float>", i4[] = "<4 x i32>",
           i16[] = "<16 x i32>", i8[] = "<8 x i32>";

const Form forms[] = {
    {MFMA "f32.16x16x16f16", "gfx90a", 16, 16, Type::F16, Type::F16, Type::F32, "<4 x half>", f4,
     a16<4>, d16},
    {MFMA "f32.32x32x8f16", "gfx942", 32, 8, Type::F16, Type::F16, Type::F32, "<4 x half>", f16,
     a32<4>, d32},
    {MFMA "f32.16x16x32.f16", "gfx950", 16, 32, Type::F16, Type::F16, Type::F32, "<8 x half>", f4,
     a16<8>, d16},
    {MFMA "f32.32x32x16.f16", "gfx950", 32, 16, Type::F16, Type::F16, Type::F32, "<8 x half>", f16,
     a32<8>, d32},
    {MFMA "f32.16x16x16bf16.1k", "gfx90a", 16, 16, Type::BF16, Type::BF16, Type::F32, "<4 x i16>",
     f4, a16<4>, d16},
    {MFMA "f32.32x32x8bf16.1k", "gfx942", 32, 8, Type::BF16, Type::BF16, Type::F32, "<4 x i16>",
     f16, a32<4>, d32},
    {MFMA "f32.16x16x32.bf16", "gfx950", 16, 32, Type::BF16, Type::BF16, Type::F32, "<8 x bfloat>",
     f4, a16<8>, d16},
    {MFMA "f32.32x32x16.bf16", "gfx950", 32, 16, Type::BF16, Type::BF16, Type::F32, "<8 x bfloat>",
     f16, a32<8>, d32},
    {MFMA "f32.16x16x4f32", "gfx942", 16, 4, Type::F32, Type::F32, Type::F32, "float", f4, a16<1>,
     d16},
    {MFMA "f32.32x32x2f32", "gfx942", 32, 2, Type::F32, Type::F32, Type::F32, "float", f16, a32<1>,
     d32},
    {MFMA "f32.16x16x8.xf32", "gfx942", 16, 8, Type::F32, Type::F32, Type::F32, "<2 x float>", f4,
     a16<2>, d16},
    {MFMA "f32.32x32x4.xf32", "gfx942", 32, 4, Type::F32, Type::F32, Type::F32, "<2 x float>", f16,
     a32<2>, d32},
    {MFMA "f64.16x16x4f64", "gfx90a", 16, 4, Type::F64, Type::F64, Type::F64, "double",
     "<4 x double>", a16<1>, d16double},
    {MFMA "i32.16x16x16i8", "gfx90a", 16, 16, Type::S8, Type::S8, Type::S32, "i32", i4, a16<4>,
     d16},
    {MFMA "i32.32x32x8i8", "gfx90a", 32, 8, Type::S8, Type::S8, Type::S32, "i32", i16, a32<4>, d32},
    {MFMA "i32.16x16x32.i8", "gfx942", 16, 32, Type::S8, Type::S8, Type::S32, "i64", i4, a16<8>,
     d16},
    {MFMA "i32.32x32x16.i8", "gfx942", 32, 16, Type::S8, Type::S8, Type::S32, "i64", i16, a32<8>,
     d32},
    {MFMA "i32.16x16x64.i8", "gfx950", 16, 64, Type::S8, Type::S8, Type::S32, "<4 x i32>", i4,
     a16<16>, d16},
    {MFMA "i32.32x32x32.i8", "gfx950", 32, 32, Type::S8, Type::S8, Type::S32, "<4 x i32>", i16,
     a32<16>, d32},
    {MFMA "f32.16x16x32.fp8.fp8", "gfx942", 16, 32, Type::E4M3FNUZ, Type::E4M3FNUZ, Type::F32,
     "i64", f4, a16<8>, d16},
    {MFMA "f32.16x16x32.bf8.fp8", "gfx942", 16, 32, Type::E5M2FNUZ, Type::E4M3FNUZ, Type::F32,
     "i64", f4, a16<8>, d16},
    {MFMA "f32.16x16x32.fp8.bf8", "gfx950", 16, 32, Type::E4M3, Type::E5M2, Type::F32, "i64", f4,
     a16<8>, d16},
    {MFMA "f32.32x32x16.bf8.bf8", "gfx950", 32, 16, Type::E5M2, Type::E5M2, Type::F32, "i64", f16,
     a32<8>, d32},
    {WMMA "f32.16x16x16.f16.v8f32.v16f16", "gfx1100", 16, 16, Type::F16, Type::F16, Type::F32,
     "<16 x half>", f8, aHalves, dHalves},
    {WMMA "f32.16x16x16.bf16.v8f32.v16i16", "gfx1100", 16, 16, Type::BF16, Type::BF16, Type::F32,
     "<16 x i16>", f8, aHalves, dHalves},
    {WMMA "i32.16x16x16.iu8.v8i32.v4i32", "gfx1100", 16, 16, Type::S8, Type::S8, Type::S32,
     "<4 x i32>", i8, aHalves, dHalves},
    {WMMA "f32.16x16x16.f16.v8f32.v8f16", "gfx1201", 16, 16, Type::F16, Type::F16, Type::F32,
     "<8 x half>", f8, a12half, d12},
    {WMMA "f32.16x16x16.bf16.v8f32.v8i16", "gfx1201", 16, 16, Type::BF16, Type::BF16, Type::F32,
     "<8 x i16>", f8, a12half, d12},
    {WMMA "i32.16x16x16.iu8.v8i32.v2i32", "gfx1201", 16, 16, Type::S8, Type::S8, Type::S32,
     "<2 x i32>", i8, a12byte, d12},
    {WMMA "f32.16x16x16.fp8.bf8.v8f32.v2i32", "gfx1201", 16, 16, Type::E4M3, Type::E5M2, Type::F32,
     "<2 x i32>", f8, a12byte, d12},
};

struct Sizes {
  explicit Sizes(const Form &form)
      : operandElements(form.aTable == aHalves ? 16 : form.m * form.k / form.lanes()),
        sumElements(form.m * form.m / form.lanes()),
        operandBytes(operandElements * bytesOf(form.a)), sumBytes(sumElements * bytesOf(form.c)) {}
  int operandElements, sumElements, operandBytes, sumBytes;
  int laneBytes() const { return 2 * operandBytes + sumBytes; }
};

// Each lane reads A, B and C from `in`, one after the other, and writes D to `out`.
std::string kernelText(const Form &form) {
  Sizes sizes(form);
  auto number = [](int value) { return std::to_string(value); };
  std::string operand = form.operand, sum = form.sum, name = form.name;
  bool isInteger = name.find("iu8") != std::string::npos, isWmma = form.lanes() == 32;
  std::string flag = isInteger ? "i1, " : "", yes = isInteger ? "i1 true, " : "";
  std::string tailTypes = isInteger ? ", i1" : isWmma ? "" : ", i32, i32, i32";
  std::string tail = isInteger ? ", i1 false" : isWmma ? "" : ", i32 0, i32 0, i32 0";
  std::string text = std::string(amdHead) + "declare i32 @llvm.amdgcn.workitem.id.x()\ndeclare " +
                     sum + " @" + name + "(" + flag + operand + ", " + flag + operand + ", " + sum +
                     tailTypes + R"()
define amdgpu_kernel void @k(ptr addrspace(1) %in, ptr addrspace(1) %out) #0 {
  %lane = call i32 @llvm.amdgcn.workitem.id.x()
)";
  auto load = [&](const std::string &to, const std::string &type, int offset) {
    text += "  %o" + to + " = add i32 %from, " + number(offset) + "\n  %p" + to +
            " = getelementptr i8, ptr addrspace(1) %in, i32 %o" + to + "\n  %" + to + " = load " +
            type + ", ptr addrspace(1) %p" + to + ", align 4\n";
  };
  text += "  %from = mul i32 %lane, " + number(sizes.laneBytes()) + "\n";
  load("a", operand, 0);
  load("b", operand, sizes.operandBytes);
  load("c", sum, 2 * sizes.operandBytes);
  return text + "  %d = call " + sum + " @" + name + "(" + yes + operand + " %a, " + yes + operand +
         " %b, " + sum + " %c" + tail + ")\n  %to = mul i32 %lane, " + number(sizes.sumBytes) +
         "\n  %q = getelementptr i8, ptr addrspace(1) %out, i32 %to\n  store " + sum +
         " %d, ptr addrspace(1) %q, align 4\n  ret void\n}\nattributes #0 = { \"target-cpu\"=\"" +
         form.chip + "\" }\n";
}

void expectProduct(const Form &form, const std::function<double(Type)> &draw, double tolerance) {
  Sizes sizes(form);
  std::vector<double> a(size_t(form.m * form.k)), b(a.size()), c(size_t(form.m * form.m));
  for (auto [matrix, type] : {std::pair(&a, form.a), std::pair(&b, form.b), std::pair(&c, form.c)})
    for (double &value : *matrix)
      value = draw(type);
  std::vector<unsigned char> in(size_t(form.lanes() * sizes.laneBytes()));
  for (int lane = 0; lane < form.lanes(); ++lane) {
    unsigned char *to = in.data() + lane * sizes.laneBytes();
    for (int i = 0; i < sizes.operandElements; ++i) {
      Position at = form.aTable(lane, i); // of B: column, row
      encode(form.a, a[size_t(at.row * form.k + at.column)], to + i * bytesOf(form.a));
      encode(form.b, b[size_t(at.column * form.m + at.row)],
             to + sizes.operandBytes + i * bytesOf(form.b));
    }
    for (int i = 0; i < sizes.sumElements; ++i) {
      Position at = form.cTable(lane, i);
      encode(form.c, c[size_t(at.row * form.m + at.column)],
             to + 2 * sizes.operandBytes + i * bytesOf(form.c));
    }
  }
  Runner runner(kernelText(form), unsigned(form.lanes()));
  runner.shape.block[0] = uint32_t(form.lanes());
  auto *out = runner.allocate<unsigned char>(size_t(form.lanes() * sizes.sumBytes));
  Counters counters = runner.expectClean(runner.upload(in), out);
  EXPECT_EQ(counters.mma, 1u);
  for (int lane = 0; lane < form.lanes(); ++lane)
    for (int i = 0; i < sizes.sumElements; ++i) {
      Position at = form.cTable(lane, i);
      double expected = c[size_t(at.row * form.m + at.column)];
      for (int k = 0; k < form.k; ++k)
        expected += a[size_t(at.row * form.k + k)] * b[size_t(k * form.m + at.column)];
      ASSERT_NEAR(decode(form.c, out + lane * sizes.sumBytes + i * bytesOf(form.c)), expected,
                  tolerance * std::abs(expected))
          << "lane " << lane << ", register " << i;
    }
}

class AmdMma : public ::testing::TestWithParam<Form> {};

TEST_P(AmdMma, MatchesATripleLoop) {
  std::mt19937 random(7);
  // Small integers are exact in every format, and so are all sums.
  expectProduct(GetParam(), [&](Type) { return double(int(random() % 9) - 4); }, 0);
}

// Numbers whose sums are rounded: positive, so that an error is one of the last places.
TEST_P(AmdMma, RoundsSums) {
  const Form &form = GetParam();
  std::mt19937 random(11);
  auto cut = [](double value, int bits) {
    return std::ldexp(std::floor(std::ldexp(value, bits)), -bits);
  };
  bool isXf32 = std::strstr(form.name, "xf32");
  auto draw = [&](Type type) {
    double value = 1 + double(random()) / 0x1p32;
    switch (type) {
    case Type::S8:
    case Type::S32:
      return double(random() % 100);
    case Type::E5M2:
    case Type::E5M2FNUZ:
      return cut(value, 2);
    case Type::E4M3:
    case Type::E4M3FNUZ:
      return cut(value, 3);
    case Type::BF16:
      return cut(value, 7);
    case Type::F16:
      return cut(value, 10);
    case Type::F32:
      return cut(value, isXf32 ? 10 : 23);
    case Type::F64:
      return value;
    }
    return value;
  };
  expectProduct(form, draw, form.c == Type::F32 ? 0x1p-19 : form.c == Type::F64 ? 0x1p-50 : 0);
}

INSTANTIATE_TEST_SUITE_P(Forms, AmdMma, ::testing::ValuesIn(forms));

// A form of several blocks has the name of one with more of K, and other fragments.
TEST(AmdMmaForms, OfSeveralBlocksAreRefused) {
  std::string text = std::string(amdHead) + R"(
declare <16 x float> @llvm.amdgcn.mfma.f32.16x16x4f16(<4 x half>, <4 x half>, <16 x float>, i32, i32, i32)
define amdgpu_kernel void @k(ptr addrspace(1) %p) {
  %a = load <4 x half>, ptr addrspace(1) %p
  %c = load <16 x float>, ptr addrspace(1) %p
  %d = call <16 x float> @llvm.amdgcn.mfma.f32.16x16x4f16(<4 x half> %a, <4 x half> %a, <16 x float> %c, i32 0, i32 0, i32 0)
  store <16 x float> %d, ptr addrspace(1) %p
  ret void
}
)";
  llvm::Expected<VirtualObject> object = compileText(text);
  ASSERT_FALSE(bool(object));
  EXPECT_EQ(llvm::toString(object.takeError()),
            "the virtual GPU does not know llvm.amdgcn.mfma.f32.16x16x4f16");
}

// What the formats of gfx942 have instead of −0 is their one NaN.
TEST(AmdMmaNumbers, UnsignedZeros) {
  const Form &form = *std::find_if(std::begin(forms), std::end(forms),
                                   [](const Form &each) { return each.a == Type::E4M3FNUZ; });
  Runner runner(kernelText(form), 64);
  runner.shape.block[0] = 64;
  std::vector<unsigned char> in(64 * 32);
  in[0] = 0x80;  // A[0][0]
  in[32] = 0x7f; // A[1][0]: 240
  in[8] = 0x40;  // B[0][0]: 1 with a bias of 8
  auto *out = runner.allocate<float>(64 * 4);
  runner.expectClean(runner.upload(in), out);
  EXPECT_TRUE(std::isnan(out[0]));
  EXPECT_EQ(out[1], 240.0f); // lane 0, register 1: row 1, column 0
}

} // namespace
