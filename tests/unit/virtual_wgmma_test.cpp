// Conformance of wgmma: shapes, homes and directions of its operands, every swizzle, against a
// triple loop, with the tables of the PTX ISA written out; and what goes wrong where a kernel
// leaves out a fence or a wait.
#include "VirtualTest.h"
#include "runtime/virtual/SmallFloats.h"
#include <cmath>
#include <cstring>
#include <random>

using namespace sectile::vgpu;

namespace {

struct Form {
  int n;
  const char *element; // f16 or bf16
  bool aInRegisters, turnsA, turnsB;
  int line;   // bytes that are swizzled together; 16: none
  int within; // where in a line the operands start, in bytes
};

void PrintTo(const Form &form, std::ostream *out) {
  *out << "n" << form.n << " " << form.element << (form.aInRegisters ? " rs" : " ss") << form.turnsA
       << form.turnsB << " line " << form.line << "+" << form.within;
}

constexpr int k = 16, rows = 64, threads = 128;

// Where an operand's elements are. Groups of eight lines lie apart, so that no stride is another.
struct Operand {
  int rows, line, start;
  bool turned;
  int leading = 0, stride = 0;

  Operand(int rows, const Form &form, bool turned, int start)
      : rows(rows), line(form.line), start(start + form.within), turned(turned) {
    const int group = 8 * line;
    if (line == 16) { // PTX ISA, "no-swizzle" layouts: 8 lines are one core matrix
      leading = 2 * group;
      stride = (turned ? 2 : 4) * 2 * group;
    } else if (turned) { // two groups along K, then lines along the rows
      stride = 2 * group;
      leading = 4 * group;
    } else {
      stride = 2 * group;
    }
  }
  int address(int row, int col) const {
    const int group = 8 * line, perLine = line / 2; // elements
    int at;
    if (line == 16)
      at = turned ? row / 8 * stride + col / 8 * leading + col % 8 * 16 + row % 8 * 2
                  : row / 8 * stride + col / 8 * leading + row % 8 * 16 + col % 8 * 2;
    else if (turned)
      at = row / perLine * leading + col / 8 * (2 * group) + col % 8 * line + row % perLine * 2;
    else
      at = row / 8 * (2 * group) + row % 8 * line + col * 2;
    // Chunks of 16 bytes of a 128-byte line, by the number of that line among eight.
    const int place = start + at, permuted = place / 128 % 8 & (line / 16 - 1);
    return place ^ permuted * 16;
  }
  int end() const {
    int last = 0;
    for (int row = 0; row < rows; ++row)
      for (int col = 0; col < k; ++col)
        last = std::max(last, address(row, col));
    return (last + 1024) / 1024 * 1024;
  }
  // PTX ISA, "Matrix descriptor format".
  std::uint64_t descriptor(int from) const {
    const std::uint64_t kind = line == 128 ? 1 : line == 64 ? 2 : line == 32 ? 3 : 0;
    return std::uint64_t((start + from) & 0x3ffff) >> 4 | std::uint64_t(leading >> 4) << 16 |
           std::uint64_t(stride >> 4) << 32 | kind << 62;
  }
};

std::string number(std::uint64_t value) { return std::to_string(value); }

// (shared image, its 16-byte chunks for each thread, registers of a, sums, results)
std::string kernelText(const Form &form, const Operand &a, const Operand &b, int bytes) {
  const int count = form.n / 2;
  std::string structure, acc, values, body, results;
  for (int i = 0; i < count; ++i) {
    const std::string n = number(i);
    structure += i ? ", float" : "float";
    body += "  %ca" + n + " = getelementptr float, ptr addrspace(1) %own, i32 " + n + "\n  %c" + n +
            " = load float, ptr addrspace(1) %ca" + n + "\n";
    acc += (i ? ", float %c" : "float %c") + n;
    values += (i ? ", float %t" : "float %t") + n;
    results += "  %d" + n + " = extractvalue %sums %done, " + n + "\n  %oa" + n +
               " = getelementptr float, ptr addrspace(1) %to, i32 " + n + "\n  store float %d" + n +
               ", ptr addrspace(1) %oa" + n + "\n";
  }
  std::string tokens, aArgument, aType;
  for (int i = 0; i < count; ++i)
    tokens += "  %t" + number(i) + " = extractvalue %sums %under, " + number(i) + "\n";
  if (form.aInRegisters)
    for (int i = 0; i < 4; ++i) {
      body += "  %aa" + number(i) + " = getelementptr i32, ptr addrspace(1) %words, i32 " +
              number(i) + "\n  %a" + number(i) + " = load i32, ptr addrspace(1) %aa" + number(i) +
              "\n";
      aArgument += ", i32 %a" + number(i);
      aType += ", i32";
    }
  else {
    aArgument = ", i64 %descA";
    aType = ", i64";
  }
  const std::string name = std::string("sectile.nv.wgmma.m64n") + number(form.n) + "k16.f32." +
                           form.element + "." + form.element +
                           (form.aInRegisters ? ".rs." : ".ss.") + (form.turnsA ? "1" : "0") +
                           (form.turnsB ? "1" : "0"),
                    wait = "sectile.nv.wgmma_wait.0." + number(count);
  std::string floats = structure;
  return std::string(nvidiaHead) + "%sums = type { " + structure + R"( }
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
declare void @llvm.nvvm.barrier.cta.sync.aligned.all(i32)
declare void @llvm.nvvm.fence.proxy.async.shared_cta()
declare void @llvm.nvvm.wgmma.fence.sync.aligned()
declare void @llvm.nvvm.wgmma.commit_group.sync.aligned()
declare %sums @)" +
         name + "(" + floats + aType + R"(, i64)
declare %sums @)" +
         wait + "(" + floats + R"()
define ptx_kernel void @k(ptr addrspace(1) %image, ptr addrspace(1) %a, ptr addrspace(1) %c, ptr addrspace(1) %out) {
  %tid = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %first = mul i32 %tid, 16
  br label %copy
copy:
  %at = phi i32 [ %first, %0 ], [ %next, %copy ]
  %from = getelementptr i8, ptr addrspace(1) %image, i32 %at
  %chunk = load <4 x i32>, ptr addrspace(1) %from, align 16
  %place = getelementptr i8, ptr addrspace(3) @sectile_shared, i32 %at
  store <4 x i32> %chunk, ptr addrspace(3) %place, align 16 ;; 7
  %next = add i32 %at, )" +
         number(16 * threads) + R"(
  %more = icmp ult i32 %next, )" +
         number(std::uint64_t(bytes)) + R"(
  br i1 %more, label %copy, label %copied
copied:
  call void @llvm.nvvm.fence.proxy.async.shared_cta()
  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)
  %base32 = ptrtoint ptr addrspace(3) @sectile_shared to i32
  %base = zext i32 %base32 to i64
  %units = lshr i64 %base, 4
  %descA = add i64 %units, )" +
         number(a.descriptor(0)) + R"(
  %descB = add i64 %units, )" +
         number(b.descriptor(0)) + R"(
  %four = mul i32 %tid, 4
  %words = getelementptr i32, ptr addrspace(1) %a, i32 %four
  %many = mul i32 %tid, )" +
         number(std::uint64_t(count)) + R"(
  %own = getelementptr float, ptr addrspace(1) %c, i32 %many
  %to = getelementptr float, ptr addrspace(1) %out, i32 %many
)" + body +
         R"(
  call void @llvm.nvvm.wgmma.fence.sync.aligned()
  %under = call %sums @)" +
         name + "(" + acc + aArgument + R"(, i64 %descB) convergent ;; 9
  call void @llvm.nvvm.wgmma.commit_group.sync.aligned()
)" + tokens +
         "  %done = call %sums @" + wait + "(" + values + ") convergent\n" + results +
         "  ret void\n}\n";
}

std::uint16_t encode(const Form &form, double value) {
  return form.element == std::string_view("f16") ? halfFromFloat(float(value))
                                                 : bfloatFromFloat(float(value));
}

// PTX ISA, "Register fragments for wgmma.mma_async.m64nNk16": A in registers, and D.
struct Position {
  int row, col;
};
Position aPlace(int thread, int i) {
  const int warp = thread / 32, g = thread % 32 / 4, t = thread % 4;
  return {16 * warp + g + (i / 2 % 2 ? 8 : 0), 2 * t + i % 2 + (i >= 4 ? 8 : 0)};
}
Position dPlace(int thread, int i) {
  const int warp = thread / 32, g = thread % 32 / 4, t = thread % 4;
  return {16 * warp + g + (i / 2 % 2 ? 8 : 0), i / 4 * 8 + 2 * t + i % 2};
}

struct Product {
  Form form;
  Operand a, b;
  int bytes;
  std::vector<double> left, right, sums, expected; // row major: 64 x 16, n x 16, 64 x n

  explicit Product(const Form &form, unsigned seed = 3)
      : form(form), a(rows, form, form.turnsA, 0), b(form.n, form, form.turnsB, a.end()),
        bytes((b.end() + 16 * threads - 1) / (16 * threads) * (16 * threads)) {
    std::mt19937 random(seed);
    // Small integers are exact in every format, and so are all sums.
    auto draw = [&](int count) {
      std::vector<double> values(static_cast<std::size_t>(count));
      for (double &value : values)
        value = int(random() % 9) - 4;
      return values;
    };
    left = draw(rows * k);
    right = draw(form.n * k);
    sums = draw(rows * form.n);
    expected = sums;
    for (int row = 0; row < rows; ++row)
      for (int col = 0; col < form.n; ++col)
        for (int i = 0; i < k; ++i)
          expected[size_t(row * form.n + col)] +=
              left[size_t(row * k + i)] * right[size_t(col * k + i)];
  }

  std::vector<unsigned char> image() const {
    std::vector<unsigned char> result(static_cast<std::size_t>(bytes), 0);
    auto put = [&](const Operand &operand, const std::vector<double> &values) {
      for (int row = 0; row < operand.rows; ++row)
        for (int col = 0; col < k; ++col) {
          const std::uint16_t word = encode(form, values[size_t(row * k + col)]);
          std::memcpy(result.data() + operand.address(row, col), &word, 2);
        }
    };
    put(a, left);
    put(b, right);
    return result;
  }
  std::vector<std::uint16_t> registersOfA() const {
    std::vector<std::uint16_t> result;
    for (int thread = 0; thread < threads; ++thread)
      for (int i = 0; i < 8; ++i) {
        const Position at = aPlace(thread, i);
        result.push_back(encode(form, left[size_t(at.row * k + at.col)]));
      }
    return result;
  }
  std::vector<float> registersOf(const std::vector<double> &matrix) const {
    std::vector<float> result;
    for (int thread = 0; thread < threads; ++thread)
      for (int i = 0; i < form.n / 2; ++i) {
        const Position at = dPlace(thread, i);
        result.push_back(float(matrix[size_t(at.row * form.n + at.col)]));
      }
    return result;
  }
  std::string text() const { return kernelText(form, a, b, bytes); }
};

struct WgmmaRunner : Runner {
  const Product &product;
  float *out;

  explicit WgmmaRunner(const Product &product) : WgmmaRunner(product, product.text()) {}
  WgmmaRunner(const Product &product, const std::string &text)
      : Runner(withLines(text)), product(product) {
    shape.block[0] = threads;
    shape.sharedBytes = uint32_t(product.bytes);
    out = allocate<float>(size_t(threads * product.form.n / 2));
  }
  auto arguments() {
    return std::tuple(upload(product.image()), upload(product.registersOfA()),
                      upload(product.registersOf(product.sums)), out);
  }
  std::vector<float> results() const { return {out, out + threads * product.form.n / 2}; }
};

class Wgmma : public ::testing::TestWithParam<Form> {};

TEST_P(Wgmma, MatchesATripleLoop) {
  const Product product(GetParam());
  for (const std::uint64_t seed : {0, 1, 2, 3}) {
    WgmmaRunner run(product);
    run.options.seed = seed;
    const Counters counters =
        std::apply([&](auto... each) { return run.expectClean(each...); }, run.arguments());
    EXPECT_EQ(run.results(), product.registersOf(product.expected));
    EXPECT_EQ(counters.mma, 1u);
    if (testing::Test::HasFailure())
      return;
  }
}

std::vector<Form> forms() {
  std::vector<Form> result;
  for (const int n : {8, 16, 24, 64, 96, 128, 200, 256})
    result.push_back({n, "f16", false, false, false, 128, 0});
  for (const char *element : {"f16", "bf16"})
    for (const int line : {16, 32, 64, 128})
      for (const bool turnsB : {false, true})
        for (const int a : {0, 1, 2}) // shared, turned, in registers
          result.push_back({64, element, a == 2, a == 1, turnsB, line, 0});
  for (const int within : {32, 64, 96}) // along K steps of 16 in one line
    result.push_back({64, "f16", false, false, false, 128, within});
  return result;
}
INSTANTIATE_TEST_SUITE_P(Forms, Wgmma, ::testing::ValuesIn(forms()));

const Form plain{64, "f16", false, false, false, 128, 0};

Finding findingWithout(const std::string &from, const std::string &to, FindingKind kind,
                       std::uint32_t line) {
  const Product product(plain);
  WgmmaRunner run(product, replaced(product.text(), from, to));
  return std::apply([&](auto... each) { return run.expectFinding(kind, line, each...); },
                    run.arguments());
}

TEST(WgmmaBugs, OperandsNeedAFence) {
  const Finding finding = findingWithout("  call void @llvm.nvvm.fence.proxy.async.shared_cta()\n",
                                         "", FindingKind::MissingFence, 9);
  EXPECT_NE(finding.message.find("kernel.cpp:7"), std::string::npos) << finding.message;
}

TEST(WgmmaBugs, AFenceAfterTheBarrierIsOfNoUse) {
  // For another thread's writes, that is: each fences its own, too late for who went on.
  const std::string fence = "  call void @llvm.nvvm.fence.proxy.async.shared_cta()\n",
                    barrier = "  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)\n";
  findingWithout(fence + barrier, barrier + fence, FindingKind::MissingFence, 9);
}

TEST(WgmmaBugs, OperandsNeedABarrier) {
  findingWithout("  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)\n", "",
                 FindingKind::SharedRace, 0); // at the read, or at a write that comes after it
}

TEST(WgmmaBugs, RegistersNeedAFence) {
  findingWithout("  call void @llvm.nvvm.wgmma.fence.sync.aligned()\n", "", FindingKind::BadOperand,
                 9);
}

TEST(WgmmaBugs, SumsNeedAWait) {
  // Without one of its own for the group: it stays under way.
  const Product product(plain);
  std::string text = product.text();
  for (int i = 0; i < 2; ++i) // the declaration and the call
    text = replaced(text, "sectile.nv.wgmma_wait.0.", "sectile.nv.wgmma_wait.1.");
  WgmmaRunner run(product, text);
  std::apply([&](auto... each) { run.expectFinding(FindingKind::MissingWait, 9, each...); },
             run.arguments());
  // What was stored is not a number.
  EXPECT_TRUE(std::isnan(run.out[0]));
}

TEST(WgmmaBugs, AnotherSwizzleGivesOtherNumbers) {
  const Product product(plain);
  Product other = product;
  other.b.line = 64;
  WgmmaRunner run(product, kernelText(plain, product.a, other.b, product.bytes));
  const LaunchResult result =
      std::apply([&](auto... each) { return run.run(each...); }, run.arguments());
  EXPECT_FALSE(result.finding) << result.finding->text();
  EXPECT_NE(run.results(), product.registersOf(product.expected));
}

TEST(WgmmaBugs, OperandsStayAsTheyAreUntilTheWait) {
  // Threads overwrite them while the instruction is under way.
  const Product product(plain);
  const std::string commit = "  call void @llvm.nvvm.wgmma.commit_group.sync.aligned()\n";
  for (const std::uint64_t seed : {0, 1, 2, 3, 4}) {
    WgmmaRunner run(
        product,
        replaced(product.text(), commit,
                 commit + "  store <4 x i32> %chunk, ptr addrspace(3) %place, align 16 ;; 11\n"));
    run.options.seed = seed;
    const LaunchResult result =
        std::apply([&](auto... each) { return run.run(each...); }, run.arguments());
    ASSERT_TRUE(result.finding);
    // Of a thread's own write the instruction sees that nothing fenced it.
    EXPECT_TRUE(result.finding->kind == FindingKind::SharedRace ||
                result.finding->kind == FindingKind::MissingFence)
        << result.finding->text();
  }
}

TEST(WgmmaBugs, FourWarpsIssueItTogether) {
  const Product product(plain);
  WgmmaRunner run(product);
  run.shape.block[0] = 96;
  const LaunchResult result =
      std::apply([&](auto... each) { return run.run(each...); }, run.arguments());
  ASSERT_TRUE(result.finding);
  EXPECT_EQ(result.finding->kind, FindingKind::BadOperand) << result.finding->text();
}

} // namespace
