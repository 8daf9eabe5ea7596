// Conformance of wgmma: every type, width and layout of operands against a triple loop, with the
// register tables and shared-memory layouts of the PTX ISA written out element by element; and the
// mistakes that the virtual GPU must find in how it is fenced and waited for.
#include "VirtualTest.h"
#include "codegen/nvidia/Ptxas.h"
#include "vgpu/SmallFloats.h"
#include <cmath>
#include <functional>
#include <random>

using namespace sectile::vgpu;

namespace {

std::string number(uint64_t value) { return std::to_string(value); }

struct Operand {
  int swizzle;     // bytes: 0, 32, 64, 128
  bool transposed; // rows (m or n) side by side instead of k
  int base = 0;    // of the swizzle's pattern, in 128 bytes behind a multiple of 1024
};

struct Form {
  std::string sum, a, b;
  int n;
  bool registersA;
  Operand aLayout, bLayout;
  bool accumulates = true;

  int elementBytes() const { return a == "tf32" ? 4 : a == "f16" || a == "bf16" ? 2 : 1; }
  int k() const { return 32 / elementBytes(); }
  int registers() const { return sum == "f16" ? n / 4 : n / 2; }
  std::string type() const { return sum == "f32" ? "float" : "i32"; }
  std::string name() const {
    return "sectile.nv.wgmma.m64n" + number(uint64_t(n)) + "k" + number(uint64_t(k())) + "." + sum +
           "." + a + "." + b + "." + (registersA ? "rs" : "ss") + "." +
           (aLayout.transposed ? "1" : "0") + (bLayout.transposed ? "1" : "0");
  }
};

void PrintTo(const Form &form, std::ostream *stream) {
  *stream << form.name() << ", swizzles " << form.aLayout.swizzle << " " << form.bLayout.swizzle
          << ", bases " << form.aLayout.base << " " << form.bLayout.base
          << (form.accumulates ? "" : ", from zero");
}

int bytesOf(const std::string &type) {
  return type == "f32" || type == "tf32" || type == "s32" ? 4
         : type == "f16" || type == "bf16"                ? 2
                                                          : 1;
}

void encode(const std::string &type, double value, unsigned char *to) {
  auto put = [&](auto bits) { std::memcpy(to, &bits, sizeof bits); };
  if (type == "f16")
    put(halfFromFloat(float(value)));
  else if (type == "bf16")
    put(bfloatFromFloat(float(value)));
  else if (type == "tf32" || type == "f32")
    put(float(value));
  else if (type == "e4m3")
    put(uint8_t(narrowFloat(float(value), e4m3Format, Rounding::NearestEven)));
  else if (type == "e5m2")
    put(uint8_t(narrowFloat(float(value), e5m2Format, Rounding::NearestEven)));
  else if (type == "s32")
    put(int32_t(value));
  else
    put(uint8_t(int(value)));
}

double decode(const std::string &type, const unsigned char *from) {
  auto get = [&](auto value) {
    std::memcpy(&value, from, sizeof value);
    return value;
  };
  if (type == "f16")
    return floatFromHalf(get(uint16_t()));
  return type == "f32" ? double(get(float())) : double(get(int32_t()));
}

// PTX ISA, "Register Fragments for wgmma.mma_async.m64nNk…": element i of a thread of the
// warpgroup.
struct Position {
  int row, col;
};
Position sumAt(int thread, int i) {
  return {thread / 32 * 16 + thread % 32 / 4 + 8 * (i / 2 % 2), i / 4 * 8 + thread % 4 * 2 + i % 2};
}
Position aAt(int elementBytes, int thread, int i) {
  const int row = thread / 32 * 16 + thread % 32 / 4, t = thread % 4;
  switch (elementBytes) {
  case 4:
    return {i == 0 || i == 2 ? row : row + 8, i < 2 ? t : t + 4};
  case 2:
    return {i < 2 || (i >= 4 && i < 6) ? row : row + 8, t * 2 + i % 2 + (i >= 4 ? 8 : 0)};
  default:
    return {i < 4 || (i >= 8 && i < 12) ? row : row + 8, t * 4 + i % 4 + (i >= 8 ? 16 : 0)};
  }
}

// A matrix in shared memory: where its elements lie, as the PTX ISA draws the canonical layouts,
// and the fields of its descriptor.
struct Placed {
  std::function<int(int row, int k)> at; // bytes from the buffer, which is 1024-aligned
  int start, leading, stride;            // bytes
  int mode;
  int base = 0; // 128 bytes

  uint64_t fixedBits() const {
    return uint64_t(leading / 16) << 16 | uint64_t(stride / 16) << 32 | uint64_t(base) << 49 |
           uint64_t(mode) << 62;
  }
};

Placed placeAtStart(const Operand &operand, int elementBytes) {
  const int e = elementBytes, width = operand.swizzle;
  const int mode = width == 128 ? 1 : width == 64 ? 2 : width == 32 ? 3 : 0;
  // Within 8 rows of a swizzled tile the 16-byte chunks change places.
  auto swizzled = [=](int row, int byte) {
    const int shift = width == 128 ? 0 : width == 64 ? 1 : 2;
    return row * width + ((byte / 16) ^ (row >> shift & (width / 16 - 1))) * 16 + byte % 16;
  };
  if (!operand.transposed) {
    if (!width) { // cores of 8 rows of 16 bytes; the two along k lie 128 bytes apart
      auto at = [=](int row, int k) {
        return row % 8 * 16 + row / 8 * 256 + k * e / 16 * 128 + k * e % 16;
      };
      return {at, 0, 128, 256, mode};
    }
    // Rows hold several steps of k; this is the last of them.
    const int first = width - 32;
    auto at = [=](int row, int k) {
      return row / 8 * 8 * width + swizzled(row % 8, first + k * e);
    };
    return {at, first, 16, 8 * width, mode};
  }
  if (!width) { // 8 rows side by side for each k; then k + 8, then the next 8 rows
    auto at = [=](int row, int k) {
      return row % 8 * 2 + k % 8 * 16 + k / 8 * 128 + row / 8 * 256;
    };
    return {at, 0, 128, 256, mode};
  }
  // As many rows side by side as are wide; 8 steps of k are a tile, two tiles follow each other.
  auto at = [=](int row, int k) {
    return row * 2 / width * 16 * width + k / 8 * 8 * width + swizzled(k % 8, row * 2 % width);
  };
  return {at, 0, 16 * width, 8 * width, mode};
}

Placed place(const Operand &operand, int elementBytes) {
  Placed placed = placeAtStart(operand, elementBytes);
  const int shift = 128 * operand.base;
  placed.at = [at = placed.at, shift](int row, int k) { return at(row, k) + shift; };
  placed.start += shift;
  placed.base = operand.base;
  return placed;
}

// The largest operands, which may start at any base.
constexpr int bufferA = 0, bufferB = bufferA + 8192 + 1024, sharedBytes = bufferB + 32768 + 1024;

// 128 threads fill shared memory from `image`, take their sums and registers of a from `in`, and
// write their sums to `out`.
std::string kernelText(const Form &form) {
  const int sums = form.registers(), words = sums + (form.registersA ? 4 : 0);
  const std::string type = form.type();
  std::string structure = "{ ", arguments, types;
  for (int i = 0; i < sums; ++i) {
    structure += (i ? ", " : "") + type;
    arguments += type + " %v" + number(uint64_t(i)) + ", ";
    types += type + ", ";
  }
  structure += " }";
  const std::string wait =
      "sectile.nv.wgmma_wait.0." + number(uint64_t(sums)) + (type == "float" ? "f32" : "b32");
  std::string text = nvidiaHead;
  std::string body = R"(
define ptx_kernel void @k(ptr addrspace(1) %image, ptr addrspace(1) %in, ptr addrspace(1) %out) {
entry:
  %i = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  br label %fill
fill:
  %n = phi i32 [ %i, %entry ], [ %m, %fill ]
  %from = getelementptr <4 x i32>, ptr addrspace(1) %image, i32 %n
  %to = getelementptr <4 x i32>, ptr addrspace(3) @sectile_shared, i32 %n
  %chunk = load <4 x i32>, ptr addrspace(1) %from, align 16
  store <4 x i32> %chunk, ptr addrspace(3) %to, align 16
  %m = add i32 %n, 128
  %more = icmp ult i32 %m, )" +
                     number(sharedBytes / 16) +
                     R"(
  br i1 %more, label %fill, label %multiply
multiply:
  call void @llvm.nvvm.fence.proxy.async()
  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)
  %base = ptrtoint ptr addrspace(3) @sectile_shared to i64
)";
  auto descriptor = [&](const char *name, const Operand &operand, int buffer) {
    const Placed placed = place(operand, form.elementBytes());
    const std::string n = name;
    body += "  %s" + n + " = add i64 %base, " + number(uint64_t(buffer + placed.start)) + "\n  %t" +
            n + " = and i64 %s" + n + ", 262143\n  %u" + n + " = lshr i64 %t" + n + ", 4\n  %" + n +
            " = or i64 %u" + n + ", " + std::to_string(int64_t(placed.fixedBits())) + "\n";
  };
  if (!form.registersA)
    descriptor("a", form.aLayout, bufferA);
  descriptor("b", form.bLayout, bufferB);
  for (int i = 0; i < words; ++i) {
    const std::string n = number(uint64_t(i)), loaded = i < sums ? type : "i32";
    body += "  %j" + n + " = mul i32 %i, " + number(uint64_t(words)) + "\n  %k" + n +
            " = add i32 %j" + n + ", " + n + "\n  %p" + n +
            " = getelementptr i32, ptr addrspace(1) %in, i32 %k" + n + "\n  %v" + n + " = load " +
            loaded + ", ptr addrspace(1) %p" + n + ", align 4\n";
  }
  if (form.registersA) {
    for (int i = sums; i < words; ++i)
      arguments += "i32 %v" + number(uint64_t(i)) + ", ";
    types += "i32, i32, i32, i32, ";
  } else {
    arguments += "i64 %a, ";
    types += "i64, ";
  }
  body += "  call void @llvm.nvvm.wgmma.fence.sync.aligned()\n  %d = call " + structure + " @" +
          form.name() + "(" + arguments + "i64 %b, i1 " + (form.accumulates ? "true" : "false") +
          ")\n  call void @llvm.nvvm.wgmma.commit_group.sync.aligned()\n";
  text += "declare " + structure + " @" + form.name() + "(" + types + "i64, i1) convergent\n";
  std::string waited, waitTypes;
  for (int i = 0; i < sums; ++i) {
    const std::string n = number(uint64_t(i));
    body += "  %e" + n + " = extractvalue " + structure + " %d, " + n + "\n";
    waited += (i ? ", " : "") + type + " %e" + n;
    waitTypes += (i ? ", " : "") + type;
  }
  text += "declare " + structure + " @" + wait + "(" + waitTypes + ") convergent\n";
  body += "  %w = call " + structure + " @" + wait + "(" + waited + ")\n";
  for (int i = 0; i < sums; ++i) {
    const std::string n = number(uint64_t(i));
    body += "  %f" + n + " = extractvalue " + structure + " %w, " + n + "\n  %x" + n +
            " = mul i32 %i, " + number(uint64_t(sums)) + "\n  %y" + n + " = add i32 %x" + n + ", " +
            n + "\n  %z" + n + " = getelementptr i32, ptr addrspace(1) %out, i32 %y" + n +
            "\n  store " + type + " %f" + n + ", ptr addrspace(1) %z" + n + ", align 4\n";
  }
  return text + body + "  ret void\n}\n";
}

// Runs the instruction on a [64, k], b [n, k] and c [64, n]: the sums [64, n].
std::vector<double> product(const Form &form, const std::vector<double> &a,
                            const std::vector<double> &b, const std::vector<double> &c,
                            unsigned chipUlps) {
  const int k = form.k(), e = form.elementBytes();
  // What is no operand is NaN.
  std::vector<unsigned char> image(sharedBytes, 0xff);
  const Placed placedA = place(form.aLayout, e), placedB = place(form.bLayout, e);
  for (int row = 0; row < 64 && !form.registersA; ++row)
    for (int i = 0; i < k; ++i)
      encode(form.a, a[size_t(row * k + i)], &image[size_t(bufferA + placedA.at(row, i))]);
  for (int row = 0; row < form.n; ++row)
    for (int i = 0; i < k; ++i)
      encode(form.b, b[size_t(row * k + i)], &image[size_t(bufferB + placedB.at(row, i))]);
  const int sums = form.registers(), words = sums + (form.registersA ? 4 : 0);
  const int sumBytes = bytesOf(form.sum), perThread = sums * 4 / sumBytes;
  std::vector<unsigned char> in(size_t(128 * words * 4));
  for (int thread = 0; thread < 128; ++thread) {
    unsigned char *to = in.data() + thread * words * 4;
    for (int i = 0; i < perThread; ++i) {
      const Position at = sumAt(thread, i);
      encode(form.sum, c[size_t(at.row * form.n + at.col)], to + i * sumBytes);
    }
    for (int i = 0; i < 16 / e && form.registersA; ++i) {
      const Position at = aAt(e, thread, i);
      encode(form.a, a[size_t(at.row * k + at.col)], to + sums * 4 + i * e);
    }
  }

  Runner runner(kernelText(form));
  runner.shape.block[0] = 128;
  runner.shape.sharedBytes = sharedBytes;
  runner.chipUlps = chipUlps;
  runner.chipTarget = "sm_90a";
  auto *out = runner.allocate<unsigned char>(size_t(128 * sums * 4));
  const Counters counters = runner.expectClean(runner.upload(image), runner.upload(in), out);
  EXPECT_EQ(counters.mma, 1u);
  EXPECT_EQ(counters.mmaKinds.size(), 1u);
  EXPECT_EQ(counters.mmaKinds[0].name, form.name());
  std::vector<double> result(c.size());
  for (int thread = 0; thread < 128; ++thread)
    for (int i = 0; i < perThread; ++i) {
      const Position at = sumAt(thread, i);
      result[size_t(at.row * form.n + at.col)] =
          decode(form.sum, out + thread * sums * 4 + i * sumBytes);
    }
  return result;
}

// Runs the instruction on these matrices, and compares with a triple loop in double.
void expectProduct(const Form &form, const std::function<double(const std::string &)> &draw,
                   double tolerance, unsigned chipUlps) {
  const int k = form.k();
  std::vector<double> a(size_t(64 * k)), b(size_t(form.n * k)), c(size_t(64 * form.n));
  for (double &value : a)
    value = draw(form.a);
  for (double &value : b)
    value = draw(form.b);
  for (double &value : c)
    value = draw(form.sum);
  const std::vector<double> got = product(form, a, b, c, chipUlps);
  for (int row = 0; row < 64; ++row)
    for (int col = 0; col < form.n; ++col) {
      const auto at = size_t(row * form.n + col);
      double expected = form.accumulates ? c[at] : 0;
      for (int step = 0; step < k; ++step)
        expected += a[size_t(row * k + step)] * b[size_t(col * k + step)];
      ASSERT_NEAR(got[at], expected, tolerance * expected) << "row " << row << ", column " << col;
    }
}

class Wgmma : public ::testing::TestWithParam<Form> {};

// Small integers are exact in every format, and so are all sums.
TEST_P(Wgmma, MatchesATripleLoop) {
  std::mt19937 random(7);
  expectProduct(
      GetParam(),
      [&](const std::string &type) {
        const int value = int(random() % 9) - 4;
        return double(type == "u8" ? value + 4 : value);
      },
      0, 0);
}

std::vector<Form> types() {
  std::vector<Form> forms;
  auto add = [&](const char *sum, const char *a, const char *b) {
    for (bool registersA : {false, true})
      for (bool accumulates : {false, true})
        forms.push_back(
            {sum, a, b, 32, registersA, {registersA ? 0 : 128, false}, {128, false}, accumulates});
  };
  add("f32", "f16", "f16");
  add("f16", "f16", "f16");
  add("f32", "bf16", "bf16");
  add("f32", "tf32", "tf32");
  for (const char *sum : {"f32", "f16"})
    for (const char *a : {"e4m3", "e5m2"})
      for (const char *b : {"e4m3", "e5m2"})
        add(sum, a, b);
  for (const char *a : {"s8", "u8"})
    for (const char *b : {"s8", "u8"})
      add("s32", a, b);
  return forms;
}
INSTANTIATE_TEST_SUITE_P(Types, Wgmma, ::testing::ValuesIn(types()));

std::vector<Form> widths() {
  std::vector<Form> forms;
  for (int n = 8; n <= 256; n += 8) {
    forms.push_back({"f32", "bf16", "bf16", n, false, {128, false}, {64, true}});
    if (n <= 24 || n % 16 == 0)
      forms.push_back({"s32", "s8", "s8", n, false, {64, false}, {32, false}});
  }
  return forms;
}
INSTANTIATE_TEST_SUITE_P(Widths, Wgmma, ::testing::ValuesIn(widths()));

std::vector<Form> layouts() {
  std::vector<Form> forms;
  for (int swizzle : {0, 32, 64, 128}) {
    for (bool transposed : {false, true}) {
      forms.push_back({"f32", "f16", "f16", 96, false, {swizzle, transposed}, {128, false}});
      forms.push_back({"f16", "f16", "f16", 200, false, {128, true}, {swizzle, transposed}});
    }
    forms.push_back({"f32", "tf32", "tf32", 40, false, {swizzle, false}, {swizzle, false}});
    forms.push_back({"f32", "e4m3", "e5m2", 64, false, {swizzle, false}, {swizzle, false}});
    forms.push_back({"f32", "bf16", "bf16", 192, true, {0, false}, {swizzle, true}});
  }
  for (int swizzle : {32, 64, 128})
    for (int base = 1; base < swizzle / 16; ++base)
      for (bool transposed : {false, true})
        forms.push_back({"f32",
                         "f16",
                         "f16",
                         72,
                         false,
                         {swizzle, transposed, base},
                         {swizzle, !transposed, swizzle / 16 - base}});
  return forms;
}
INSTANTIATE_TEST_SUITE_P(Layouts, Wgmma, ::testing::ValuesIn(layouts()));

// Numbers whose sums are rounded: positive, so that an error is one of the last places.
TEST(WgmmaNumbers, RoundSums) {
  for (const char *sum : {"f32", "f16"}) {
    std::mt19937 random(11);
    const bool halves = std::string(sum) == "f16";
    expectProduct(
        {sum, "f16", "f16", 64, false, {128, false}, {128, false}},
        [&](const std::string &) { return std::floor(1024 + random() % 1024) / 1024; },
        halves ? 0x1p-10 : 0x1p-20, halves ? 0 : 2);
  }
}

// Each term of a sum of fp8 is cut off 13 bits behind the point of the largest, and so is the sum.
TEST(WgmmaNumbers, SumsOfFp8KeepThirteenBits) {
  const Form form{"f32", "e4m3", "e4m3", 32, false, {128, false}, {128, false}};
  // Of the first element in each row, of the others, and what they are added to: the result.
  auto sum = [&](double first, double a, double b, double c) {
    std::vector<double> left(64 * 32, a), right(32 * 32, b);
    for (size_t row = 0; row < 64; ++row)
      left[row * 32] = first;
    for (size_t column = 0; column < 32; ++column)
      right[column * 32] = 1;
    const std::vector<double> sums = product(form, left, right, std::vector<double>(64 * 32, c), 0);
    for (double each : sums)
      EXPECT_EQ(each, sums[0]);
    return sums[0];
  };
  EXPECT_EQ(sum(1, 0x1p-6, 0x1p-7, 0), 1 + 31 * 0x1p-13);
  EXPECT_EQ(sum(1, 0x1p-6, 0x1p-8, 0), 1);
  EXPECT_EQ(sum(1, -0x1p-6, 0x1p-8, 0), 1); // toward zero
  EXPECT_EQ(sum(-1, 0x1p-6, 0x1p-8, 0), -1);
  EXPECT_EQ(sum(0, 0, 0, 1 + 0x1p-13 + 0x1p-14), 1 + 0x1p-13);
  EXPECT_EQ(sum(0, 0, 0, -1 - 0x1p-14), -1);
  EXPECT_EQ(sum(0, 1, 1, 4096 + 0x1p-1), 4096 + 31 + 0x1p-1);
  EXPECT_EQ(sum(1, 0, 0, 8192 + 0x1p-1), 8193);
  // Terms below the point's last bit are lost, each for itself.
  EXPECT_EQ(sum(1, 0x1p-6, 0x1p-1, 0x1p+8), 0x1p+8 + 1);
  // A sum of more bits than 14 is cut off once more.
  EXPECT_EQ(sum(1, 1, 1, 8190), 8222);
  EXPECT_EQ(sum(1.125, 1, 1, 16383), 16414);
}

// The assembler takes what the names become for a chip, and leaves it asynchronous.
TEST(WgmmaNames, Assemble) {
  if (!sectile::findPtxas())
    GTEST_SKIP() << "no ptxas";
  const sectile::Target target = llvm::cantFail(sectile::Target::get("sm_90a"));
  std::vector<Form> forms = types();
  forms.push_back({"f32", "bf16", "bf16", 256, false, {128, true}, {128, true}});
  forms.push_back({"f32", "f16", "f16", 256, true, {0, false}, {128, true}});
  for (const Form &form : forms) {
    if (!form.accumulates)
      continue;
    std::string entry;
    const std::string ptx = assemble(kernelText(form), target, entry);
    EXPECT_NE(ptx.find("wgmma.mma_async.sync.aligned.m64n"), std::string::npos) << ptx;
    auto result = sectile::runPtxas(ptx, target);
    ASSERT_TRUE(bool(result)) << llvm::toString(result.takeError());
    EXPECT_EQ(result->spillStoreBytes, 0u) << form.name();
    EXPECT_FALSE(result->serializedWgmma) << form.name() << "\n" << result->log;
  }
}

TEST(WgmmaNames, OnlyPtxHasThem) {
  for (const char *name :
       {"m64n20k16.f32.f16.f16.ss.00", "m64n264k16.f32.f16.f16.ss.00", "m64n8k8.f32.f16.f16.ss.00",
        "m64n8k16.f16.bf16.bf16.ss.00", "m64n8k16.f32.f16.bf16.ss.00",
        "m64n8k8.f32.tf32.tf32.ss.01", "m64n8k16.f32.f16.f16.rs.10", "m64n40k32.s32.s8.s8.ss.00",
        "m64n8k32.f32.s8.s8.ss.00"}) {
    const std::string text = std::string(nvidiaHead) + "declare { float, float, float, float } " +
                             "@sectile.nv.wgmma." + name +
                             "(float, float, float, float, i64, i64, i1)\n"
                             "define ptx_kernel void @k() {\n  %d = call { float, float, float, "
                             "float } @sectile.nv.wgmma." +
                             name +
                             "(float 0.0, float 0.0, float 0.0, float 0.0, i64 0, i64 0, i1 0)\n"
                             "  ret void\n}\n";
    auto object = compileText(text);
    EXPECT_FALSE(object) << name;
    EXPECT_NE(llvm::toString(object.takeError()).find("does not know"), std::string::npos) << name;
  }
}

// A thread of 128 stores a row's half of a, 16 of them of b, both full of ones; 16 products of
// these are added to 1, 2, 3 and 4.
const std::string ones = std::string(nvidiaHead) + R"(
%sums = type { float, float, float, float }
declare %sums @sectile.nv.wgmma.m64n8k16.f32.f16.f16.ss.00(float, float, float, float, i64, i64, i1) convergent
declare %sums @sectile.nv.wgmma_wait.0.4f32(float, float, float, float) convergent
declare %sums @sectile.nv.wgmma_wait.1.4f32(float, float, float, float) convergent
declare void @sectile.nv.wgmma_wait.0.0f32() convergent
define ptx_kernel void @k(ptr addrspace(1) %out, ptr addrspace(1) %more) {
entry:
  %i = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %s = getelementptr <4 x i32>, ptr addrspace(3) @sectile_shared, i32 %i
  %t = getelementptr i8, ptr addrspace(3) %s, i32 2048
  store <4 x i32> splat (i32 1006648320), ptr addrspace(3) %s, align 16 ;; 10
  %few = icmp ult i32 %i, 16
  br i1 %few, label %b, label %ready
b:
  store <4 x i32> splat (i32 1006648320), ptr addrspace(3) %t, align 16 ;; 11
  br label %ready
ready:
  call void @llvm.nvvm.fence.proxy.async() ;; 12
  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0) ;; 13
  %base = ptrtoint ptr addrspace(3) @sectile_shared to i64
  %start = lshr i64 %base, 4
  %da = or i64 %start, 68720001024
  %db = add i64 %da, 128
  call void @llvm.nvvm.wgmma.fence.sync.aligned() ;; 14
  %d = call %sums @sectile.nv.wgmma.m64n8k16.f32.f16.f16.ss.00(float 1.0, float 2.0, float 3.0, float 4.0, i64 %da, i64 %db, i1 true) ;; 15
  call void @llvm.nvvm.wgmma.commit_group.sync.aligned() ;; 16
  %d0 = extractvalue %sums %d, 0
  %d1 = extractvalue %sums %d, 1
  %d2 = extractvalue %sums %d, 2
  %d3 = extractvalue %sums %d, 3
  ; BEFORE
  %w = call %sums @sectile.nv.wgmma_wait.0.4f32(float %d0, float %d1, float %d2, float %d3) ;; 17
  ; AFTER
  %p = getelementptr %sums, ptr addrspace(1) %out, i32 %i
  store %sums %w, ptr addrspace(1) %p, align 4 ;; 18
  ret void
}
)";

constexpr uint64_t seeds = 20;

Runner onesRunner(const std::string &text, uint64_t seed = 0) {
  Runner runner(withLines(text));
  runner.shape.block[0] = 128;
  runner.shape.sharedBytes = 8192;
  runner.options.seed = seed;
  runner.chipTarget = "sm_90a";
  return runner;
}

void expectSums(const std::string &text, float products) {
  for (uint64_t seed = 0; seed < seeds; ++seed) {
    Runner runner = onesRunner(text, seed);
    auto *out = runner.allocate<float>(512);
    runner.expectClean(out, runner.upload(std::vector<float>(512)));
    for (int i = 0; i < 512; ++i)
      ASSERT_EQ(out[i], products + float(i % 4 + 1)) << "seed " << seed << ", word " << i;
  }
}

Finding expectMistake(const std::string &text, FindingKind kind, uint32_t line) {
  Finding last;
  for (uint64_t seed = 0; seed < seeds; ++seed) {
    Runner runner = onesRunner(text, seed);
    auto *out = runner.allocate<float>(512);
    last = runner.expectFinding(kind, line, out, runner.upload(std::vector<float>(512)));
  }
  return last;
}

const char fenceLine[] = "  call void @llvm.nvvm.wgmma.fence.sync.aligned() ;; 14\n";
const char commitLine[] = "  call void @llvm.nvvm.wgmma.commit_group.sync.aligned() ;; 16\n";

// The same product once more, added to %<from>0 … %<from>3.
std::string again(const std::string &name, const std::string &from, int line) {
  std::string text = "  %" + name +
                     " = call %sums @sectile.nv.wgmma.m64n8k16.f32.f16.f16.ss.00(float %" + from +
                     "0, float %" + from + "1, float %" + from + "2, float %" + from +
                     "3, i64 %da, i64 %db, i1 true) ;; " + std::to_string(line) + "\n";
  for (int i = 0; i < 4; ++i) {
    const std::string n = std::to_string(i);
    text += "  %" + name + n + " = extractvalue %sums %" + name + ", " + n + "\n";
  }
  return text;
}

std::string wait(const std::string &name, int groups, const std::string &of, int line) {
  std::string text = "  %" + name + " = call %sums @sectile.nv.wgmma_wait." +
                     std::to_string(groups) + ".4f32(float %" + of + "0, float %" + of +
                     "1, float %" + of + "2, float %" + of + "3) ;; " + std::to_string(line) + "\n";
  for (int i = 0; i < 4; ++i) {
    const std::string n = std::to_string(i);
    text += "  %" + name + n + " = extractvalue %sums %" + name + ", " + n + "\n";
  }
  return text;
}

const std::string commit = "  call void @llvm.nvvm.wgmma.commit_group.sync.aligned()\n";

TEST(WgmmaOrder, CorrectKernelIsClean) { expectSums(ones, 16); }

TEST(WgmmaOrder, ProductsFollowEachOtherWithoutAWait) {
  std::string text = replaced(ones, "  ; BEFORE\n", again("e", "d", 20) + commit);
  text = replaced(text, "float %d0, float %d1, float %d2, float %d3) ;; 17",
                  "float %e0, float %e1, float %e2, float %e3) ;; 17");
  expectSums(text, 32);
}

TEST(WgmmaOrder, AWaitLeavesYoungerGroups) {
  // The first wait leaves the second product in flight, and its sums are not there yet.
  std::string text =
      replaced(ones, "  ; BEFORE\n", again("e", "d", 20) + commit + wait("f", 1, "e", 21));
  text = replaced(text, "float %d0, float %d1, float %d2, float %d3) ;; 17",
                  "float %f0, float %f1, float %f2, float %f3) ;; 17");
  expectSums(text, 32);
}

TEST(WgmmaOrder, AWaitWithoutSumsIsForAll) {
  const std::string text =
      replaced(ones, "  ; BEFORE\n", "  call void @sectile.nv.wgmma_wait.0.0f32()\n");
  expectSums(text, 16);
}

TEST(WgmmaOrder, SumsAreGarbageBeforeTheWait) {
  const std::string text = replaced(ones, "  store %sums %w, ptr addrspace(1) %p, align 4 ;; 18\n",
                                    "  store %sums %d, ptr addrspace(1) %p, align 4 ;; 18\n");
  for (uint64_t seed = 0; seed < seeds; ++seed) {
    Runner runner = onesRunner(text, seed);
    auto *out = runner.allocate<float>(512);
    EXPECT_FALSE(runner.run(out, nullptr).finding);
    for (int i = 0; i < 512; ++i)
      ASSERT_TRUE(std::isnan(out[i])) << "seed " << seed << ", word " << i;
  }
}

// Also where each becomes NaN of NaN, whose bits are those of the sum that is to come.
TEST(WgmmaOrder, SumsChangedBeforeTheWaitAreGarbage) {
  std::string changed;
  for (const char *i : {"0", "1", "2", "3"})
    changed += std::string("  %m") + i + " = fmul float %d" + i + ", 2.0\n";
  const std::string text = replaced(
      ones,
      "  %w = call %sums @sectile.nv.wgmma_wait.0.4f32(float %d0, float %d1, float %d2, float %d3) "
      ";; 17\n",
      changed + wait("w", 0, "m", 17));
  for (uint64_t seed = 0; seed < seeds; ++seed) {
    Runner runner = onesRunner(text, seed);
    auto *out = runner.allocate<float>(512);
    EXPECT_FALSE(runner.run(out, nullptr).finding);
    for (int i = 0; i < 512; ++i)
      ASSERT_TRUE(std::isnan(out[i])) << "seed " << seed << ", word " << i;
  }
}

TEST(WgmmaOrder, MissingWaitIsFound) {
  const std::string text = replaced(
      ones,
      "  %w = call %sums @sectile.nv.wgmma_wait.0.4f32(float %d0, float %d1, float %d2, float %d3) "
      ";; 17\n",
      wait("w", 1, "d", 17));
  expectMistake(text, FindingKind::MissingWait, 15);
}

TEST(WgmmaOrder, MissingCommitIsFound) {
  expectMistake(replaced(ones, commitLine, ""), FindingKind::MissingWait, 15);
}

TEST(WgmmaOrder, MissingFenceIsFound) {
  expectMistake(replaced(ones, fenceLine, ""), FindingKind::MissingFence, 15);
  // After a wait the sums are registers like any others.
  expectMistake(replaced(ones, "  ; AFTER\n",
                         "  %v0 = extractvalue %sums %w, 0\n  %v1 = extractvalue %sums %w, 1\n"
                         "  %v2 = extractvalue %sums %w, 2\n  %v3 = extractvalue %sums %w, 3\n" +
                             again("e", "v", 20) + commit + wait("f", 0, "e", 21)),
                FindingKind::MissingFence, 20);
}

TEST(WgmmaOrder, MissingProxyFenceIsFound) {
  const Finding finding =
      expectMistake(replaced(ones, "  call void @llvm.nvvm.fence.proxy.async() ;; 12\n", ""),
                    FindingKind::MissingProxyFence, 15);
  EXPECT_NE(finding.message.find("kernel.cpp:10"), std::string::npos) << finding.message;
}

TEST(WgmmaOrder, AProxyFenceAfterTheBarrierIsTooLate) {
  std::string text = replaced(ones, "  call void @llvm.nvvm.fence.proxy.async() ;; 12\n", "");
  text = replaced(text, fenceLine,
                  "  call void @llvm.nvvm.fence.proxy.async() ;; 12\n" + std::string(fenceLine));
  expectMistake(text, FindingKind::MissingProxyFence, 15);
}

TEST(WgmmaOrder, MissingBarrierIsFound) {
  const std::string text =
      replaced(ones, "  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0) ;; 13\n", "");
  expectMistake(text, FindingKind::SharedRace, 15);
}

TEST(WgmmaOrder, UnwrittenOperandIsFound) {
  const std::string text = replaced(ones, "icmp ult i32 %i, 16", "icmp ult i32 %i, 15");
  expectMistake(text, FindingKind::Uninitialized, 15);
}

TEST(WgmmaOrder, OverwrittenOperandIsFound) {
  const std::string store =
      "  store <4 x i32> zeroinitializer, ptr addrspace(3) %s, align 16 ;; 20\n";
  const Finding finding =
      expectMistake(replaced(ones, "  ; BEFORE\n", store), FindingKind::SharedRace, 20);
  EXPECT_NE(finding.message.find("wgmma"), std::string::npos) << finding.message;
  // A wait of the own warp tells of the whole warpgroup's product.
  expectSums(replaced(ones, "  ; AFTER\n", store), 16);
  // Another warp learns of it at a barrier.
  const std::string other = "  %u = xor i32 %i, 32\n  %us = getelementptr <4 x i32>, ptr "
                            "addrspace(3) @sectile_shared, i32 %u\n  store <4 x i32> "
                            "zeroinitializer, ptr addrspace(3) %us, align 16 ;; 20\n";
  const std::string barrier = "  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)\n";
  expectSums(replaced(ones, "  ; AFTER\n", barrier + other), 16);
}

TEST(WgmmaOrder, OperandOverwrittenByACopyIsFound) {
  const std::string copy =
      "  %g = getelementptr <4 x i32>, ptr addrspace(1) %more, i32 %i\n  call void "
      "@llvm.nvvm.cp.async.cg.shared.global.16(ptr addrspace(3) %s, ptr addrspace(1) %g) ;; 20\n";
  const std::string landed = "  call void @llvm.nvvm.cp.async.wait.all()\n";
  expectMistake(replaced(replaced(ones, "  ; BEFORE\n", copy), "  ; AFTER\n", landed),
                FindingKind::SharedRace, 20);
  expectSums(replaced(ones, "  ; AFTER\n", copy + landed), 16);
}

TEST(WgmmaOrder, OperandOverwrittenByABulkLoadIsFound) {
  const std::string load = R"(
  %bar = getelementptr i8, ptr addrspace(3) @sectile_shared, i32 4096
  %first = icmp eq i32 %i, 0
  br i1 %first, label %init, label %started
init:
  call void @llvm.nvvm.mbarrier.init.shared(ptr addrspace(3) %bar, i32 1)
  call void @llvm.nvvm.fence.mbarrier_init.release.cluster()
  %state = call i64 @llvm.nvvm.mbarrier.arrive.expect.tx.scope.cta.space.cta(ptr addrspace(3) %bar, i32 2048)
  %to = addrspacecast ptr addrspace(3) @sectile_shared to ptr addrspace(7)
  call void @llvm.nvvm.cp.async.bulk.global.to.shared.cluster(ptr addrspace(7) %to, ptr addrspace(3) %bar, ptr addrspace(1) %more, i32 2048, i16 0, i64 0, i1 false, i1 false) ;; 20
  br label %started
started:
)";
  const std::string landed = R"(
  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)
  call void @sectile.nv.mbarrier_wait(ptr addrspace(3) %bar, i32 0)
)";
  const std::string text =
      replaced(ones, "%sums = type",
               "declare void @sectile.nv.mbarrier_wait(ptr addrspace(3), i32) convergent\n"
               "%sums = type");
  expectMistake(replaced(replaced(text, "  ; BEFORE\n", load), "  ; AFTER\n", landed),
                FindingKind::SharedRace, 20);
  // Behind the wait and a barrier, for what the other warps have written.
  expectSums(
      replaced(text, "  ; AFTER\n",
               "  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)\n" + load + landed),
      16);
}

TEST(WgmmaOrder, CopiedOperandsNeedTheirWaitAndAFence) {
  const std::string copy =
      "  %g = getelementptr <4 x i32>, ptr addrspace(1) %more, i32 %i\n  call void "
      "@llvm.nvvm.cp.async.cg.shared.global.16(ptr addrspace(3) %s, ptr addrspace(1) %g) ;; 20\n";
  const std::string landed = "  call void @llvm.nvvm.cp.async.wait.all()\n";
  const std::string store =
      "  store <4 x i32> splat (i32 1006648320), ptr addrspace(3) %s, align 16 ;; 10\n";
  const std::string fence = "  call void @llvm.nvvm.fence.proxy.async() ;; 12\n";
  expectSums(replaced(replaced(ones, store, copy), fence, landed + fence), 0);
  expectMistake(replaced(replaced(ones, store, copy), fence, fence + landed),
                FindingKind::MissingProxyFence, 15);
  expectMistake(replaced(replaced(ones, store, copy), "  ; AFTER\n", landed),
                FindingKind::MissingWait, 15);
}

TEST(WgmmaOrder, OlderSumsAreNoOperand) {
  expectMistake(replaced(ones, "  ; BEFORE\n", again("e", "d", 20) + again("f", "d", 21) + commit),
                FindingKind::BadOperand, 21);
  // Nor can they be waited for.
  expectMistake(replaced(ones, "  ; BEFORE\n", again("e", "d", 20) + commit),
                FindingKind::BadOperand, 17);
}

TEST(WgmmaOrder, MixedSumsAreNoOperand) {
  std::string mixed = again("e", "d", 20);
  mixed = replaced(mixed, "float %d2", "float 0.0");
  expectMistake(replaced(ones, "  ; BEFORE\n", mixed), FindingKind::BadOperand, 20);
}

TEST(WgmmaOrder, SumsAreWaitedForOnce) {
  expectMistake(replaced(ones, "  ; AFTER\n", wait("v", 0, "d", 20)), FindingKind::BadOperand, 20);
}

TEST(WgmmaOrder, ThreadsAgreeOnDescriptors) {
  std::string text = replaced(ones, "  %da = or i64 %start, 68720001024\n",
                              "  %wide = zext i32 %i to i64\n  %own = lshr i64 %wide, 6\n"
                              "  %sa = add i64 %start, %own\n  %da = or i64 %sa, 68720001024\n");
  expectMistake(text, FindingKind::BadOperand, 15);
}

TEST(WgmmaOrder, OperandsBeyondSharedMemoryAreFound) {
  expectMistake(replaced(ones, "%db = add i64 %da, 128", "%db = add i64 %da, 512"),
                FindingKind::BadSharedAddress, 15);
}

TEST(WgmmaOrder, FourWarpsMeet) {
  Runner runner = onesRunner(ones);
  runner.shape.block[0] = 96;
  runner.expectFinding(FindingKind::BadOperand, 15, runner.allocate<float>(512), nullptr);
  // One of them stays away.
  const std::string text = replaced(
      replaced(ones, fenceLine,
               "  %last = icmp ugt i32 %i, 95\n  br i1 %last, label %end, label %go\ngo:\n" +
                   std::string(fenceLine)),
      "  ret void\n", "  br label %end\nend:\n  ret void\n");
  expectMistake(text, FindingKind::Deadlock, 15);
  // Part of a warp.
  expectMistake(replaced(text, "icmp ugt i32 %i, 95", "icmp ugt i32 %i, 111"),
                FindingKind::BadOperand, 14);
}

TEST(WgmmaOrder, TokensOfManyProductsStayApart) {
  // More products than there are tickets.
  std::string text = replaced(ones, "  ; BEFORE\n",
                              R"(  br label %loop
loop:
  %n = phi i32 [ 0, %ready ], [ %m, %loop ]
  %c0 = phi float [ %d0, %ready ], [ %e0, %loop ]
  %c1 = phi float [ %d1, %ready ], [ %e1, %loop ]
  %c2 = phi float [ %d2, %ready ], [ %e2, %loop ]
  %c3 = phi float [ %d3, %ready ], [ %e3, %loop ]
)" + again("e", "c", 20) + commit +
                                  R"(  %m = add i32 %n, 1
  %on = icmp ult i32 %m, 2100
  br i1 %on, label %loop, label %done
done:
)");
  text = replaced(text, "float %d0, float %d1, float %d2, float %d3) ;; 17",
                  "float %e0, float %e1, float %e2, float %e3) ;; 17");
  Runner runner = onesRunner(text);
  auto *out = runner.allocate<float>(512);
  runner.expectClean(out, nullptr);
  for (int i = 0; i < 512; ++i)
    ASSERT_EQ(out[i], float(16 * 2101 + i % 4 + 1));
}

} // namespace
