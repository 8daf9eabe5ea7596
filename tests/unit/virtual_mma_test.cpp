// Conformance of the matrix instructions: every form of mma.sync against a triple loop, with the
// fragment tables of the PTX ISA written out element by element; ldmatrix and stmatrix likewise.
#include "VirtualTest.h"
#include "vgpu/MmaKernels.h"
#include "vgpu/SmallFloats.h"
#include <algorithm>
#include <cstring>
#include <functional>
#include <random>

using namespace sectile::vgpu;

namespace {

struct Position {
  int row, col;
};

// Where element i of a lane's fragment lies; g = lane / 4, t = lane % 4.
using Table = std::function<Position(int g, int t, int i)>;

// PTX ISA, "Matrix Fragments for mma.m16n8k16 with floating point type", .f16 and .bf16.
Position a16x16half(int g, int t, int i) {
  return {(i >= 0 && i < 2) || (i >= 4 && i < 6) ? g : g + 8, t * 2 + (i & 1) + (i >= 4 ? 8 : 0)};
}
Position b16x8half(int g, int t, int i) { return {t * 2 + (i & 1) + (i >= 2 ? 8 : 0), g}; }
// m16n8k8, .f16 and .bf16.
Position a16x8half(int g, int t, int i) { return {i < 2 ? g : g + 8, t * 2 + (i & 1)}; }
Position b8x8half(int g, int t, int i) { return {t * 2 + i, g}; }
// m16n8k4 and m16n8k8 with .tf32.
Position a16x4word(int g, int t, int i) { return {i == 0 ? g : g + 8, t}; }
Position b4x8word(int g, int t, int) { return {t, g}; }
Position a16x8word(int g, int t, int i) {
  return {i == 0 || i == 2 ? g : g + 8, i < 2 ? t : t + 4};
}
Position b8x8word(int g, int t, int i) { return {i == 0 ? t : t + 4, g}; }
// m16n8k16 and m16n8k32 with bytes.
Position a16x16byte(int g, int t, int i) { return {i < 4 ? g : g + 8, t * 4 + (i & 3)}; }
Position b16x8byte(int g, int t, int i) { return {t * 4 + i, g}; }
Position a16x32byte(int g, int t, int i) {
  return {i < 4 || (i >= 8 && i < 12) ? g : g + 8, t * 4 + (i & 3) + (i >= 8 ? 16 : 0)};
}
Position b32x8byte(int g, int t, int i) { return {t * 4 + (i & 3) + (i >= 4 ? 16 : 0), g}; }
// .f64: m8n8k4, and m16n8k{4,8,16}.
Position a8x4double(int g, int t, int) { return {g, t}; }
Position a16double(int g, int t, int i) { return {i % 2 == 0 ? g : g + 8, i / 2 * 4 + t}; }
Position bDouble(int g, int t, int i) { return {i * 4 + t, g}; }
// The accumulators of all forms with m16, and of m8n8k4.
Position c16x8(int g, int t, int i) { return {i < 2 ? g : g + 8, t * 2 + (i & 1)}; }
Position c8x8(int g, int t, int i) { return {g, t * 2 + i}; }

enum class Type { F16, BF16, TF32, F32, F64, E4M3, E5M2, S8, U8, S32 };

int bytesOf(Type type) {
  switch (type) {
  case Type::F16:
  case Type::BF16:
    return 2;
  case Type::E4M3:
  case Type::E5M2:
  case Type::S8:
  case Type::U8:
    return 1;
  case Type::F64:
    return 8;
  default:
    return 4;
  }
}

void encode(Type type, double value, unsigned char *to) {
  auto put = [&](auto bits) { std::memcpy(to, &bits, sizeof bits); };
  switch (type) {
  case Type::F16:
    return put(halfFromFloat(float(value)));
  case Type::BF16:
    return put(bfloatFromFloat(float(value)));
  case Type::TF32:
  case Type::F32:
    return put(float(value));
  case Type::F64:
    return put(value);
  case Type::E4M3:
    return put(uint8_t(narrowFloat(float(value), e4m3Format, Rounding::NearestEven)));
  case Type::E5M2:
    return put(uint8_t(narrowFloat(float(value), e5m2Format, Rounding::NearestEven)));
  case Type::S8:
    return put(int8_t(value));
  case Type::U8:
    return put(uint8_t(value));
  case Type::S32:
    return put(int32_t(value));
  }
}

double decode(Type type, const unsigned char *from) {
  auto get = [&](auto value) {
    std::memcpy(&value, from, sizeof value);
    return value;
  };
  switch (type) {
  case Type::F16:
    return floatFromHalf(get(uint16_t()));
  case Type::F32:
    return get(float());
  case Type::F64:
    return get(double());
  default:
    return get(int32_t());
  }
}

struct Form {
  const char *name;
  int m, k;
  Type a, b, c;
  const char *aType, *cType; // as LLVM's intrinsic takes a register
  int aRegisters, bRegisters, cRegisters;
  Table aTable, bTable, cTable;
};

void PrintTo(const Form &form, std::ostream *stream) { *stream << form.name; }

const char half2[] = "<2 x half>";

const Form forms[] = {
    {"llvm.nvvm.mma.m16n8k16.row.col.f32.f32", 16, 16, Type::F16, Type::F16, Type::F32, half2,
     "float", 4, 2, 4, a16x16half, b16x8half, c16x8},
    {"llvm.nvvm.mma.m16n8k16.row.col.f16.f16", 16, 16, Type::F16, Type::F16, Type::F16, half2,
     half2, 4, 2, 2, a16x16half, b16x8half, c16x8},
    {"llvm.nvvm.mma.m16n8k16.row.col.bf16", 16, 16, Type::BF16, Type::BF16, Type::F32, "i32",
     "float", 4, 2, 4, a16x16half, b16x8half, c16x8},
    {"llvm.nvvm.mma.m16n8k8.row.col.f32.f32", 16, 8, Type::F16, Type::F16, Type::F32, half2,
     "float", 2, 1, 4, a16x8half, b8x8half, c16x8},
    {"llvm.nvvm.mma.m16n8k8.row.col.f16.f16", 16, 8, Type::F16, Type::F16, Type::F16, half2, half2,
     2, 1, 2, a16x8half, b8x8half, c16x8},
    {"llvm.nvvm.mma.m16n8k8.row.col.bf16", 16, 8, Type::BF16, Type::BF16, Type::F32, "i32", "float",
     2, 1, 4, a16x8half, b8x8half, c16x8},
    {"llvm.nvvm.mma.m16n8k4.row.col.tf32", 16, 4, Type::TF32, Type::TF32, Type::F32, "i32", "float",
     2, 1, 4, a16x4word, b4x8word, c16x8},
    {"llvm.nvvm.mma.m16n8k8.row.col.tf32", 16, 8, Type::TF32, Type::TF32, Type::F32, "i32", "float",
     4, 2, 4, a16x8word, b8x8word, c16x8},
    {"llvm.nvvm.mma.m16n8k16.row.col.s8", 16, 16, Type::S8, Type::S8, Type::S32, "i32", "i32", 2, 1,
     4, a16x16byte, b16x8byte, c16x8},
    {"llvm.nvvm.mma.m16n8k32.row.col.s8", 16, 32, Type::S8, Type::S8, Type::S32, "i32", "i32", 4, 2,
     4, a16x32byte, b32x8byte, c16x8},
    {"llvm.nvvm.mma.m16n8k32.row.col.u8", 16, 32, Type::U8, Type::U8, Type::S32, "i32", "i32", 4, 2,
     4, a16x32byte, b32x8byte, c16x8},
    {"llvm.nvvm.mma.m16n8k32.row.col.s8.u8", 16, 32, Type::S8, Type::U8, Type::S32, "i32", "i32", 4,
     2, 4, a16x32byte, b32x8byte, c16x8},
    {"llvm.nvvm.mma.m16n8k32.row.col.f32.e4m3.e4m3.f32", 16, 32, Type::E4M3, Type::E4M3, Type::F32,
     "i32", "float", 4, 2, 4, a16x32byte, b32x8byte, c16x8},
    {"llvm.nvvm.mma.m16n8k32.row.col.f32.e5m2.e4m3.f32", 16, 32, Type::E5M2, Type::E4M3, Type::F32,
     "i32", "float", 4, 2, 4, a16x32byte, b32x8byte, c16x8},
    {"llvm.nvvm.mma.m16n8k32.row.col.f32.e4m3.e5m2.f32", 16, 32, Type::E4M3, Type::E5M2, Type::F32,
     "i32", "float", 4, 2, 4, a16x32byte, b32x8byte, c16x8},
    {"llvm.nvvm.mma.m8n8k4.row.col.f64", 8, 4, Type::F64, Type::F64, Type::F64, "double", "double",
     1, 1, 2, a8x4double, bDouble, c8x8},
    {"llvm.nvvm.mma.m16n8k4.row.col.f64", 16, 4, Type::F64, Type::F64, Type::F64, "double",
     "double", 2, 1, 4, a16double, bDouble, c16x8},
    {"llvm.nvvm.mma.m16n8k8.row.col.f64", 16, 8, Type::F64, Type::F64, Type::F64, "double",
     "double", 4, 2, 4, a16double, bDouble, c16x8},
    {"llvm.nvvm.mma.m16n8k16.row.col.f64", 16, 16, Type::F64, Type::F64, Type::F64, "double",
     "double", 8, 4, 4, a16double, bDouble, c16x8},
};

// Each lane reads its registers from `in`, one after the other, and writes the results to `out`.
std::string kernelText(const Form &form) {
  int inputs = form.aRegisters + form.bRegisters + form.cRegisters;
  bool wide = form.a == Type::F64;
  std::string text = nvidiaHead, arguments, types, structure;
  std::string body = R"(
define ptx_kernel void @k(ptr addrspace(1) %in, ptr addrspace(1) %out) {
  %lane = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
)";
  int size = wide ? 8 : 4;
  auto number = [](int value) { return std::to_string(value); };
  body += "  %from = mul i32 %lane, " + number(inputs * size) + "\n  %to = mul i32 %lane, " +
          number(form.cRegisters * size) + "\n";
  for (int i = 0; i < inputs; ++i) {
    std::string type = i < form.aRegisters + form.bRegisters ? form.aType : form.cType,
                n = number(i);
    body += "  %o" + n + " = add i32 %from, " + number(i * size) + "\n  %p" + n +
            " = getelementptr i8, ptr addrspace(1) %in, i32 %o" + n + "\n  %v" + n + " = load " +
            type + ", ptr addrspace(1) %p" + n + ", align 4\n";
    arguments += (i ? ", " : "") + type + " %v" + n;
    types += (i ? ", " : "") + type;
  }
  for (int i = 0; i < form.cRegisters; ++i)
    structure += std::string(i ? ", " : "") + form.cType;
  body += "  %d = call { " + structure + " } @" + form.name + "(" + arguments + ")\n";
  for (int i = 0; i < form.cRegisters; ++i) {
    std::string n = number(i);
    body += "  %e" + n + " = extractvalue { " + structure + " } %d, " + n + "\n  %r" + n +
            " = add i32 %to, " + number(i * size) + "\n  %q" + n +
            " = getelementptr i8, ptr addrspace(1) %out, i32 %r" + n + "\n  store " + form.cType +
            " %e" + n + ", ptr addrspace(1) %q" + n + ", align 4\n";
  }
  return text + "declare { " + structure + " } @" + form.name + "(" + types + ")\n" + body +
         "  ret void\n}\n";
}

// Operands and accumulators by row and column, as the registers of 32 lanes: a, b, c of each.
struct Matrices {
  std::vector<double> a, b, c;

  Matrices(const Form &form, const std::function<double(Type)> &draw)
      : a(size_t(form.m * form.k)), b(size_t(form.k * 8)), c(size_t(form.m * 8)) {
    for (double &value : a)
      value = draw(form.a);
    for (double &value : b)
      value = draw(form.b);
    for (double &value : c)
      value = draw(form.c);
  }
};

int registerBytes(const Form &form) { return form.a == Type::F64 ? 8 : 4; }

std::vector<unsigned char> registers(const Form &form, const Matrices &of) {
  int bytes = registerBytes(form);
  int laneBytes = (form.aRegisters + form.bRegisters + form.cRegisters) * bytes;
  std::vector<unsigned char> in(size_t(32 * laneBytes));
  for (int lane = 0; lane < 32; ++lane) {
    unsigned char *to = in.data() + lane * laneBytes;
    auto fill = [&](Type type, int count, const Table &table, const std::vector<double> &matrix,
                    int columns) {
      for (int i = 0; i < count * bytes / bytesOf(type); ++i) {
        Position at = table(lane / 4, lane % 4, i);
        encode(type, matrix[size_t(at.row * columns + at.col)], to + i * bytesOf(type));
      }
      to += count * bytes;
    };
    fill(form.a, form.aRegisters, form.aTable, of.a, form.k);
    fill(form.b, form.bRegisters, form.bTable, of.b, 8);
    fill(form.c, form.cRegisters, form.cTable, of.c, 8);
  }
  return in;
}

// Runs the instruction and compares what it gives with a triple loop in double.
Counters expectProduct(const Form &form, const Matrices &of, double tolerance, unsigned chipUlps) {
  Runner runner(kernelText(form));
  runner.shape.block[0] = 32;
  runner.chipUlps = chipUlps;
  int bytes = registerBytes(form);
  auto *out = runner.allocate<unsigned char>(size_t(32 * form.cRegisters * bytes));
  Counters counters = runner.expectClean(runner.upload(registers(form, of)), out);
  for (int lane = 0; lane < 32; ++lane)
    for (int i = 0; i < form.cRegisters * bytes / bytesOf(form.c); ++i) {
      Position at = form.cTable(lane / 4, lane % 4, i);
      double expected = of.c[size_t(at.row * 8 + at.col)];
      for (int k = 0; k < form.k; ++k)
        expected += of.a[size_t(at.row * form.k + k)] * of.b[size_t(k * 8 + at.col)];
      EXPECT_NEAR(decode(form.c, out + lane * form.cRegisters * bytes + i * bytesOf(form.c)),
                  expected, tolerance * expected)
          << "lane " << lane << ", element " << i;
    }
  return counters;
}

class Mma : public ::testing::TestWithParam<Form> {};

TEST_P(Mma, MatchesATripleLoop) {
  const Form &form = GetParam();
  std::mt19937 random(7);
  // Small integers are exact in every format, and so are all sums.
  Matrices matrices(form, [&](Type type) {
    int value = int(random() % 9) - 4;
    return double(type == Type::U8 ? value + 4 : value);
  });
  Counters counters = expectProduct(form, matrices, 0, 0);
  EXPECT_EQ(counters.mma, 1u);
  ASSERT_EQ(counters.mmaKinds.size(), 1u);
  EXPECT_EQ(counters.mmaKinds[0].name, form.name);
}

INSTANTIATE_TEST_SUITE_P(Forms, Mma, ::testing::ValuesIn(forms));

// Numbers whose sums are rounded: positive, so that an error is one of the last places.
TEST_P(Mma, RoundsSums) {
  const Form &form = GetParam();
  std::mt19937 random(11);
  auto cut = [](double value, int bits) {
    return std::ldexp(std::floor(std::ldexp(value, bits)), -bits);
  };
  Matrices matrices(form, [&](Type type) {
    double value = 1 + double(random()) / 0x1p32;
    switch (type) {
    case Type::S8:
    case Type::U8:
    case Type::S32:
      return double(random() % 100);
    case Type::E5M2:
      return cut(value, 2);
    case Type::E4M3:
      return cut(value, 3);
    case Type::BF16:
      return cut(value, 7);
    case Type::F16:
    case Type::TF32:
      return cut(value, 10);
    case Type::F32:
      return cut(value, 23);
    case Type::F64:
      return value;
    }
    return value;
  });
  const double tolerance = form.c == Type::F16   ? 0x1p-10
                           : form.c == Type::F32 ? 0x1p-20
                           : form.c == Type::F64 ? 0x1p-50
                                                 : 0;
  // A chip does not round sums of 32 bits to nearest, but cuts them off.
  expectProduct(form, matrices, tolerance, form.c == Type::F32 ? 2 : 0);
}

TEST(MmaNumbers, Tf32OperandsAreTruncated) {
  const Form &form = *std::find_if(std::begin(forms), std::end(forms), [](const Form &each) {
    return std::string_view(each.name) == "llvm.nvvm.mma.m16n8k4.row.col.tf32";
  });
  Runner runner(kernelText(form));
  runner.shape.block[0] = 32;
  // One product: (1 + 2^-11) * 1, of which the unit sees 1.
  std::vector<float> in(32 * 7, 0.0f);
  in[0] = 1.0f + 0x1p-11f;
  in[2] = 1.0f;
  float *out = runner.allocate<float>(32 * 4);
  runner.expectClean(runner.upload(in), out);
  EXPECT_EQ(out[0], 1.0f);
}

TEST(MmaNumbers, IntegersSaturateWhereAsked) {
  Form form = *std::find_if(std::begin(forms), std::end(forms), [](const Form &each) {
    return std::string_view(each.name) == "llvm.nvvm.mma.m16n8k16.row.col.s8";
  });
  std::vector<int32_t> in(32 * 7, 0x01010101);
  for (size_t lane = 0; lane < 32; ++lane)
    std::fill_n(in.begin() + ptrdiff_t(lane * 7 + 3), 4, INT32_MAX - 3);
  for (bool saturate : {false, true}) {
    if (saturate)
      form.name = "llvm.nvvm.mma.m16n8k16.row.col.satfinite.s8";
    Runner runner(kernelText(form));
    runner.shape.block[0] = 32;
    auto *out = runner.allocate<int32_t>(32 * 4);
    runner.expectClean(runner.upload(in), out);
    EXPECT_EQ(out[17], saturate ? INT32_MAX : INT32_MIN + 12);
  }
}

// Both copies of the arithmetic must agree to the bit on arbitrary data.
TEST(MmaNumbers, EveryHostGivesTheSameBits) {
  std::mt19937 random(3);
  for (int round = 0; round < 50; ++round) {
    uint16_t a[256], b[128];
    float c[128], d[128], e[128];
    for (uint16_t &value : a)
      value = uint16_t(random() & 0xbfff); // no infinities
    for (uint16_t &value : b)
      value = uint16_t(random() & 0xbfff);
    for (float &value : c)
      value = float(random()) / 1e9f;
    std::copy(std::begin(c), std::end(c), d);
    std::copy(std::begin(c), std::end(c), e);
    mmaKernelsBaseline.f16(a, b, d, 16, 16);
    mmaKernels().f16(a, b, e, 16, 16);
    ASSERT_EQ(std::memcmp(d, e, sizeof d), 0);
  }
}

// Every lane stores 16 bytes of shared memory, then ldmatrix reads it back.
std::string ldmatrixText(int count, bool transpose) {
  std::string name = "llvm.nvvm.ldmatrix.sync.aligned.m8n8.x" + std::to_string(count) +
                     (transpose ? ".trans" : "") + ".b16.p3";
  std::string result = count == 1 ? "i32" : count == 2 ? "{ i32, i32 }" : "{ i32, i32, i32, i32 }";
  std::string text = nvidiaHead + std::string("declare ") + result + " @" + name +
                     R"((ptr addrspace(3))
define ptx_kernel void @k(ptr addrspace(1) %in, ptr addrspace(1) %out) {
  %lane = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %from = getelementptr <4 x i32>, ptr addrspace(1) %in, i32 %lane
  %row = getelementptr <4 x i32>, ptr addrspace(3) @sectile_shared, i32 %lane
  %v = load <4 x i32>, ptr addrspace(1) %from, align 16
  store <4 x i32> %v, ptr addrspace(3) %row, align 16
  call void @llvm.nvvm.bar.warp.sync(i32 -1)
  %d = call )" + result +
                     " @" + name + "(ptr addrspace(3) %row)\n";
  for (int i = 0; i < count; ++i) {
    std::string n = std::to_string(i);
    text += count == 1 ? "  %e0 = add i32 %d, 0\n"
                       : "  %e" + n + " = extractvalue " + result + " %d, " + n + "\n";
    text += "  %i" + n + " = mul i32 %lane, " + std::to_string(count) + "\n  %j" + n +
            " = add i32 %i" + n + ", " + n + "\n  %q" + n +
            " = getelementptr i32, ptr addrspace(1) %out, i32 %j" + n + "\n  store i32 %e" + n +
            ", ptr addrspace(1) %q" + n + ", align 4\n";
  }
  return text + "  ret void\n}\n";
}

TEST(Ldmatrix, GivesEachLaneItsElements) {
  std::vector<uint16_t> in(32 * 8);
  for (size_t i = 0; i < in.size(); ++i)
    in[i] = uint16_t(i); // matrix * 64 + row * 8 + column
  for (int count : {1, 2, 4})
    for (bool transpose : {false, true}) {
      Runner runner(ldmatrixText(count, transpose));
      runner.shape.block[0] = 32;
      runner.shape.sharedBytes = 512;
      auto *out = runner.allocate<uint16_t>(size_t(64 * count));
      Counters counters = runner.expectClean(runner.upload(in), out);
      for (int lane = 0; lane < 32; ++lane)
        for (int i = 0; i < count; ++i)
          for (int part = 0; part < 2; ++part) {
            int row = lane / 4, col = lane % 4 * 2 + part;
            if (transpose)
              std::swap(row, col);
            ASSERT_EQ(out[(lane * count + i) * 2 + part], i * 64 + row * 8 + col)
                << "x" << count << ", lane " << lane << ", matrix " << i;
          }
      // Rows of 16 bytes one after the other: no conflict.
      EXPECT_EQ(counters.sharedLoad.requests, 1u);
      EXPECT_EQ(counters.sharedLoad.wavefronts, uint64_t(count));
      EXPECT_EQ(counters.sharedLoad.idealWavefronts, uint64_t(count));
      EXPECT_EQ(counters.sharedLoad.bytes, uint64_t(128 * count));
      EXPECT_EQ(counters.sharedStore.wavefronts, 4u);
    }
}

TEST(Stmatrix, WritesWhatLdmatrixReads) {
  // Registers 0..127 of the warp, stored as four matrices, read back element by element.
  std::string text = std::string(nvidiaHead) + R"(
declare void @llvm.nvvm.stmatrix.sync.aligned.m8n8.x2.b16.p3(ptr addrspace(3), i32, i32)
declare void @llvm.nvvm.stmatrix.sync.aligned.m8n8.x2.trans.b16.p3(ptr addrspace(3), i32, i32)
define ptx_kernel void @k(ptr addrspace(1) %out) {
  %lane = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %low = mul i32 %lane, 2
  %high = add i32 %low, 1
  %shifted = shl i32 %high, 16
  %word = or i32 %low, %shifted
  %other = add i32 %word, 4194368
  %row = getelementptr [16 x i8], ptr addrspace(3) @sectile_shared, i32 %lane
  call void @llvm.nvvm.stmatrix.sync.aligned.m8n8.x2.TRANSb16.p3(ptr addrspace(3) %row, i32 %word, i32 %other)
  call void @llvm.nvvm.bar.warp.sync(i32 -1)
  %at = getelementptr [8 x i8], ptr addrspace(3) @sectile_shared, i32 %lane
  %v = load <2 x i32>, ptr addrspace(3) %at, align 8
  %to = getelementptr <2 x i32>, ptr addrspace(1) %out, i32 %lane
  store <2 x i32> %v, ptr addrspace(1) %to, align 8
  ret void
}
)";
  for (bool transpose : {false, true}) {
    std::string variant = text;
    variant.replace(variant.find("TRANS"), 5, transpose ? "trans." : "");
    Runner runner(variant);
    runner.shape.block[0] = 32;
    runner.shape.sharedBytes = 512;
    auto *out = runner.allocate<uint16_t>(128);
    Counters counters = runner.expectClean(out);
    for (int matrix = 0; matrix < 2; ++matrix)
      for (int row = 0; row < 8; ++row)
        for (int col = 0; col < 8; ++col)
          ASSERT_EQ(out[matrix * 64 + row * 8 + col],
                    matrix * 64 + (transpose ? col * 8 + row : row * 8 + col));
    EXPECT_EQ(counters.sharedStore.wavefronts, 2u);
  }
}

TEST(Ldmatrix, CountsBankConflicts) {
  // Rows 128 bytes apart lie in the same banks: eight wavefronts instead of one.
  std::string text = ldmatrixText(1, false);
  size_t at = text.find("getelementptr <4 x i32>, ptr addrspace(3)");
  text.replace(at, 23, "getelementptr [128 x i8]");
  Runner runner(text);
  runner.shape.block[0] = 32;
  runner.shape.sharedBytes = 128 * 32;
  Counters counters =
      runner.expectClean(runner.upload(std::vector<uint16_t>(256)), runner.allocate<uint16_t>(64));
  EXPECT_EQ(counters.sharedLoad.wavefronts, 8u);
  EXPECT_EQ(counters.sharedLoad.idealWavefronts, 1u);
}

} // namespace
