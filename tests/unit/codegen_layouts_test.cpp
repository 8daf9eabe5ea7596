// Conversions, shared buffers, reductions and scans between random layouts, as generated code on
// virtual GPUs: every element must arrive.
#include "codegen/Compiler.h"
#include "codegen/Optimizer.h"
#include "codegen/common/Emitter.h"
#include "codegen/virtual/HostCompiler.h"
#include "ir/layout/Reduction.h"
#include "ir/layout/Scan.h"
#include "layout_random.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "passes/Passes.h"
#include "runtime/Artifact.h"
#include "vgpu/VirtualDevice.h"
#include "llvm/Target/TargetMachine.h"
#include <sectile/buffer.h>

using namespace sectile;
using test::Random;

namespace {

struct Place {
  std::string target;
  unsigned laneBits;
};

/// Compiles placed-to-be cta IR with one kernel @f(%x, %y) and runs one block of it.
template <class T>
std::vector<T> runKernel(const std::string &target, const std::string &text, unsigned warps,
                         const std::vector<T> &x, size_t results) {
  ContextLease context;
  auto module = mlir::parseSourceString<mlir::ModuleOp>(text, context.get());
  if (!module) {
    ADD_FAILURE() << "cannot parse\n" << text;
    return {};
  }
  Target known = llvm::cantFail(Target::get(target));
  mlir::PassManager passes(context.get());
  passes.addNestedPass<mlir::func::FuncOp>(createPlaceShared());
  passes.addNestedPass<mlir::func::FuncOp>(createInsertBarriers());
  llvm::LLVMContext llvmContext;
  std::unique_ptr<llvm::Module> code;
  if (mlir::succeeded(passes.run(*module)))
    if (auto emitted = emitLLVM(*module, known, llvmContext); mlir::succeeded(emitted))
      code = std::move(*emitted);
  if (!code) {
    ADD_FAILURE() << "cannot compile\n" << text;
    return {};
  }
  auto machine = llvm::cantFail(createTargetMachine(known));
  code->setDataLayout(machine->createDataLayout());
  optimize(*code, *machine);
  auto object = vgpu::compileForHost(*code);
  if (!object) {
    ADD_FAILURE() << llvm::toString(object.takeError());
    return {};
  }
  Artifact artifact;
  artifact.target = target;
  artifact.kind = "virtual";
  artifact.entry = "f";
  artifact.bytes = object->serialize();
  artifact.plan.threads = warps * known.warpSize;
  auto kernel = *module->getOps<mlir::func::FuncOp>().begin();
  if (auto bytes = kernel->getAttrOfType<mlir::IntegerAttr>("cta.shared_bytes"))
    artifact.plan.sharedBytes = bytes.getInt();

  Device device = Device::open("virtual:" + target);
  auto in = device.upload(x), out = device.allocate<T>(results);
  uint64_t words[] = {in.memory().address(), out.memory().address()};
  void *arguments[] = {&words[0], &words[1]};
  try {
    device.impl()->launch(*device.impl()->load(artifact), {1, 1, 1}, arguments,
                          device.stream().native());
  } catch (const std::exception &error) {
    ADD_FAILURE() << error.what() << "\n" << text;
  }
  return out.download();
}

std::string attribute(const Layout &layout) { return "#cta.layout<\"" + layout.text() + "\">"; }

std::string tensor(const Layout &layout, const std::string &element) {
  std::string type = "tensor<";
  for (int64_t extent : layout.shape())
    type += std::to_string(extent) + "x";
  return type + element + ", " + attribute(layout) + ">";
}

std::string head(const std::string &target, unsigned warps, const std::string &type) {
  return "module attributes {cta.target = \"" + target + "\"} {\n func.func @f(%x: !tile.ptr<" +
         type + ">, %y: !tile.ptr<" + type +
         ">) attributes {tile.kernel, cta.warps = " + std::to_string(warps) + " : i32} {\n";
}

/// Pointers `%name` to the elements of %from in row-major order, for a tile of rank 1.
std::string pointers(const std::string &name, const std::string &from, const Layout &layout,
                     const std::string &type) {
  std::string ptr = "!tile.ptr<" + type + ">", index = tensor(layout, "i32");
  return "  %" + name + "i = tile.arange 0 : " + index + "\n  %" + name + "s = tile.splat %" +
         from + " : " + ptr + " -> " + tensor(layout, ptr) + "\n  %" + name + " = tile.addptr %" +
         name + "s, %" + name + "i : " + tensor(layout, ptr) + ", " + index + "\n";
}

std::string load(const Layout &layout, const std::string &type) {
  return pointers("p", "x", layout, type) +
         "  %v = tile.load %p : " + tensor(layout, "!tile.ptr<" + type + ">") + " -> " +
         tensor(layout, type) + "\n";
}

std::string store(const Layout &layout, const std::string &type) {
  return pointers("q", "y", layout, type) +
         "  tile.store %q, %w : " + tensor(layout, "!tile.ptr<" + type + ">") + ", " +
         tensor(layout, type) + "\n  return\n }\n}\n";
}

template <class T> std::vector<T> numbered(size_t count) {
  std::vector<T> values(count);
  for (size_t i = 0; i < count; ++i)
    values[i] = static_cast<T>(i * 37 + 11);
  return values;
}

class CodegenLayouts : public testing::TestWithParam<Place> {
protected:
  Random random;
  const Place place = GetParam();
  unsigned warpBits = random.below(3);
  unsigned warps() const { return 1u << warpBits; }
  Layout distributed(llvm::ArrayRef<int64_t> shape) {
    return test::randomDistributed(random, shape, place.laneBits, warpBits);
  }

  /// With `body` between a load as %v in layout `from` and a store of %w in layout `to`.
  template <class T>
  void expectCopy(const std::string &type, const Layout &from, const Layout &to,
                  const std::string &body) {
    std::string text =
        head(place.target, warps(), type) + load(from, type) + body + store(to, type);
    std::vector<T> x = numbered<T>(from.numElements());
    std::vector<T> y = runKernel(place.target, text, warps(), x, x.size());
    for (size_t i = 0; i < y.size() && !HasFailure(); ++i)
      EXPECT_EQ(y[i], x[i]) << "element " << i << " of " << type << "\n"
                            << text << random.message();
  }
};
INSTANTIATE_TEST_SUITE_P(Targets, CodegenLayouts,
                         testing::Values(Place{"sm_80", 5}, Place{"gfx942", 6}),
                         [](const auto &info) { return info.param.target; });

TEST_P(CodegenLayouts, ConversionsKeepEveryElement) {
  for (unsigned round = 0; round < 20 && !HasFailure(); ++round) {
    auto shape = test::randomShape(random, 1, 9);
    Layout from = distributed(shape), to = distributed(shape);
    auto convert = [&](const std::string &type) {
      return "  %w = cta.convert_layout %v : " + tensor(from, type) + " -> " + tensor(to, type) +
             "\n";
    };
    switch (random.below(4)) {
    case 0:
      expectCopy<int8_t>("i8", from, to, convert("i8"));
      break;
    case 1:
      expectCopy<int16_t>("i16", from, to, convert("i16"));
      break;
    case 2:
      expectCopy<float>("f32", from, to, convert("f32"));
      break;
    default:
      expectCopy<int64_t>("i64", from, to, convert("i64"));
      break;
    }
  }
}

// What does not fit its scratch at once goes through it a part at a time.
TEST_P(CodegenLayouts, LargeConversionsTakeTurns) {
  const int64_t shape[] = {96 * 224};
  warpBits = 2;
  Layout from = blockedForAccess(shape, 1, 1u << place.laneBits, 4, {0});
  Layout to = blockedForAccess(shape, 4, 1u << place.laneBits, 4, {0});
  expectCopy<float>("f32", from, to,
                    "  %w = cta.convert_layout %v : " + tensor(from, "f32") + " -> " +
                        tensor(to, "f32") + "\n");
}

TEST_P(CodegenLayouts, BuffersHoldEveryElement) {
  for (unsigned round = 0; round < 20 && !HasFailure(); ++round) {
    auto shape = test::randomShape(random, 1, 9);
    Layout from = distributed(shape), to = distributed(shape);
    // Offsets in any order.
    Layout::PackedBases bases;
    auto &offsets = bases[unsigned(In::Offset)];
    for (unsigned bit = 0; bit < from.coreBits(); ++bit)
      offsets.push_back(1u << bit);
    std::shuffle(offsets.begin(), offsets.end(), random.engine);
    for (unsigned bit = 1; bit < offsets.size(); ++bit)
      if (random.coin())
        offsets[bit] ^= offsets[random.below(bit)];
    Layout buffer = Layout::fromPacked(Layout::Kind::Shared, shape, bases);
    auto pass = [&](const std::string &type) {
      std::string bufferType =
          "!cta.buffer<" + std::to_string(shape[0]) + "x" + type + ", " + attribute(buffer) + ">";
      return "  %b = cta.alloc : " + bufferType +
             "\n  cta.local_store %v, %b : " + tensor(from, type) + ", " + bufferType +
             "\n  %w = cta.local_load %b : " + bufferType + " -> " + tensor(to, type) + "\n";
    };
    if (random.coin())
      expectCopy<int16_t>("i16", from, to, pass("i16"));
    else
      expectCopy<float>("f32", from, to, pass("f32"));
  }
}

// Two tiles at once, so that the combiner is more than one commutative operation.
TEST_P(CodegenLayouts, ReductionsSeeEveryElementOnce) {
  for (unsigned round = 0; round < 20 && !HasFailure(); ++round) {
    int64_t m = int64_t(1) << random.below(6), n = int64_t(1) << random.below(6);
    Layout layout = distributed({m, n});
    unsigned axis = random.below(2);
    int64_t kept = axis ? m : n;
    Layout reduced = planReduction(layout, axis).result;
    Layout flat = *layout.reshape({m * n});
    std::string text =
        head(place.target, warps(), "i32") + load(flat, "i32") +
        "  %t = tile.reshape %v : " + tensor(flat, "i32") + " -> " + tensor(layout, "i32") +
        "\n  %w:2 = tile.reduce %t, %t " + std::to_string(axis) + " : (" + tensor(layout, "i32") +
        ", " + tensor(layout, "i32") + ") -> (" + tensor(reduced, "i32") + ", " +
        tensor(reduced, "i32") + R"code() {
  ^bb0(%a: i32, %am: i32, %b: i32, %bm: i32):
    %s = arith.addi %a, %b : i32
    %l = arith.maxsi %am, %bm : i32
    tile.yield %s, %l : i32, i32
  }
  %two = arith.constant dense<1000> : )code" +
        tensor(reduced, "i32") + "\n  %scaled = arith.muli %w#1, %two : " + tensor(reduced, "i32") +
        "\n  %r = arith.addi %w#0, %scaled : " + tensor(reduced, "i32") + "\n" +
        pointers("q", "y", reduced, "i32") +
        "  tile.store %q, %r : " + tensor(reduced, "!tile.ptr<i32>") + ", " +
        tensor(reduced, "i32") + "\n  return\n }\n}\n";
    std::vector<int32_t> x(m * n);
    for (int32_t &value : x)
      value = int32_t(random.below(1000)) - 500;
    std::vector<int32_t> y = runKernel(place.target, text, warps(), x, kept);
    for (int64_t i = 0; i < int64_t(y.size()) && !HasFailure(); ++i) {
      int32_t sum = 0, largest = INT32_MIN;
      for (int64_t j = 0; j < (axis ? n : m); ++j) {
        int32_t value = axis ? x[i * n + j] : x[j * n + i];
        sum += value;
        largest = std::max(largest, value);
      }
      EXPECT_EQ(y[i], sum + 1000 * largest) << "result " << i << "\n" << text << random.message();
    }
  }
}

// The combiner composes maps x -> a x + b, so that the order of elements cannot be mistaken.
TEST_P(CodegenLayouts, ScansKeepTheOrder) {
  unsigned across = 0;
  for (unsigned round = 0; round < 40 && !HasFailure(); ++round) {
    int64_t m = int64_t(1) << random.below(6), n = int64_t(1) << random.below(6);
    if (random.below(3) == 0)
      (random.coin() ? m : n) *= 3;
    // Unit vectors dealt at random; where there are too few, places replicate.
    Layout::PackedBases bases;
    llvm::SmallVector<uint32_t, 16> vectors;
    for (int64_t bit = 1; bit < ((m & -m) * (n & -n)); bit *= 2)
      vectors.push_back(bit);
    vectors.resize(std::max<size_t>(vectors.size(), place.laneBits + warpBits), 0);
    std::shuffle(vectors.begin(), vectors.end(), random.engine);
    for (uint32_t vector : vectors) {
      In in = bases[unsigned(In::Lane)].size() < place.laneBits ? In::Lane
              : bases[unsigned(In::Warp)].size() < warpBits     ? In::Warp
                                                                : In::Register;
      bases[unsigned(in)].push_back(vector);
    }
    std::shuffle(bases[unsigned(In::Lane)].begin(), bases[unsigned(In::Lane)].end(), random.engine);
    const int64_t shape[] = {m, n};
    Layout layout = Layout::fromPacked(Layout::Kind::Distributed, shape, bases);
    unsigned axis = random.below(2);
    auto plan = planScan(layout, axis);
    if (!plan)
      continue; // warps at two levels
    across += plan->acrossWarps();
    bool reverse = random.coin();
    std::string tile = tensor(layout, "i32");
    auto flat = layout.reshape({m * n});
    if (!flat)
      continue; // an odd factor behind a power of two
    std::string text =
        head(place.target, warps(), "i32") + load(*flat, "i32") +
        "  %t = tile.reshape %v : " + tensor(*flat, "i32") + " -> " + tile +
        "\n  %one = arith.constant dense<1> : " + tile +
        "\n  %three = arith.constant dense<3> : " + tile + "\n  %f = arith.ori %t, %one : " + tile +
        "\n  %g = arith.shrui %t, %three : " + tile + "\n  %s:2 = tile.scan %f, %g " +
        std::to_string(axis) + (reverse ? " reverse" : "") + " : (" + tile + ", " + tile +
        ") -> (" + tile + ", " + tile + R"code() {
  ^bb0(%a: i32, %b: i32, %c: i32, %d: i32):
    %e = arith.muli %a, %c : i32
    %h = arith.muli %b, %c : i32
    %i = arith.addi %h, %d : i32
    tile.yield %e, %i : i32, i32
  }
  %x2 = arith.xori %s#0, %s#1 : )code" +
        tile + "\n  %w = tile.reshape %x2 : " + tile + " -> " + tensor(*flat, "i32") + "\n" +
        store(*flat, "i32");
    std::vector<int32_t> x(m * n);
    for (int32_t &value : x)
      value = int32_t(random.engine());
    std::vector<int32_t> y = runKernel(place.target, text, warps(), x, x.size());
    for (int64_t line = 0; line < (axis ? m : n) && !HasFailure(); ++line) {
      uint32_t factor = 1, sum = 0;
      for (int64_t step = 0, extent = axis ? n : m; step < extent && !HasFailure(); ++step) {
        int64_t at = reverse ? extent - 1 - step : step;
        int64_t element = axis ? line * n + at : at * n + line;
        uint32_t own = uint32_t(x[element]);
        factor *= own | 1;
        sum = sum * (own | 1) + (own >> 3);
        EXPECT_EQ(uint32_t(y[element]), factor ^ sum) << "element " << element << "\n"
                                                      << text << random.message();
      }
    }
  }
  EXPECT_TRUE(warpBits == 0 || across > 0) << random.message();
}

} // namespace
