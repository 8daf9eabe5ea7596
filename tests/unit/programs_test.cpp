// Random kernels through the whole compiler, run on the virtual GPU with its checks on, against the
// interpreter.
#include "codegen/Compiler.h"
#include "codegen/virtual/VirtualObject.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "programs/Generator.h"
#include "programs/Reduce.h"
#include "runtime/virtual/Machine.h"
#include "runtime/virtual/Program.h"
#include "llvm/Support/raw_ostream.h"
#include <cstdlib>
#include <gtest/gtest.h>

using namespace mlir;
using namespace sectile;
using namespace sectile::test;

namespace {

constexpr int64_t argumentN = 13, argumentM = 57;
constexpr int64_t untouched = 0x5a5a5a5a;

/// Whole numbers as f16, by way of the compiler's own conversion.
uint16_t asHalf(int64_t value) {
  llvm::APFloat number(static_cast<double>(value));
  bool lossy;
  number.convert(llvm::APFloat::IEEEhalf(), llvm::APFloat::rmNearestTiesToEven, &lossy);
  return number.bitcastToAPInt().getZExtValue();
}

struct Case {
  std::vector<Buffer> buffers;
  std::vector<int64_t> arguments;
};

Case inputs(unsigned seed, int64_t outputs) {
  std::mt19937 random(seed + 77);
  Case result;
  for (unsigned i = 0; i < 3; ++i) {
    Buffer buffer{i ? 2u : 4u, std::vector<int64_t>(Generator::inputElements)};
    for (int64_t &element : buffer.elements)
      element = int64_t(random() % 9) - 4;
    result.buffers.push_back(buffer);
  }
  result.buffers.push_back({4, std::vector<int64_t>(outputs, untouched)});
  for (unsigned i = 0; i < 4; ++i)
    result.arguments.push_back(Interpreter::addressOf(i));
  result.arguments.push_back(argumentN);
  result.arguments.push_back(argumentM);
  return result;
}

/// Compiled and run: the elements of the output, or why there are none.
llvm::Expected<std::vector<int64_t>> runOnMachine(ModuleOp module, const Target &target,
                                                  const CompileOptions &options, const Case &input,
                                                  uint64_t schedule) {
  OwningOpRef<ModuleOp> copy = module.clone();
  auto artifact = compile(*copy, target, options, /*forVirtualDevice=*/true);
  if (!artifact)
    return artifact.takeError();
  auto object = vgpu::VirtualObject::deserialize(artifact->bytes);
  if (!object)
    return llvm::createStringError("the artifact cannot be read");
  auto program = vgpu::Program::load(std::move(*object));
  if (!program)
    return program.takeError();
  vgpu::Machine machine(target.warpSize);
  void *memory[4];
  for (auto [i, buffer] : llvm::enumerate(input.buffers)) {
    memory[i] = machine.memory().allocate(buffer.elements.size() * buffer.bytes);
    for (auto [e, element] : llvm::enumerate(buffer.elements)) {
      if (buffer.bytes == 2)
        static_cast<uint16_t *>(memory[i])[e] = asHalf(element);
      else
        static_cast<int32_t *>(memory[i])[e] = element;
    }
  }
  int32_t n = argumentN, m = argumentM;
  void *arguments[] = {&memory[0], &memory[1], &memory[2], &memory[3], &n, &m};
  vgpu::LaunchShape shape;
  shape.block[0] = artifact->threads;
  shape.sharedBytes = artifact->sharedBytes;
  vgpu::LaunchOptions launch;
  launch.seed = schedule;
  vgpu::LaunchResult result = machine.launch(**program, shape, arguments, launch);
  if (result.finding)
    return llvm::createStringError(result.finding->text());
  auto *out = static_cast<int32_t *>(memory[3]);
  return std::vector<int64_t>(out, out + input.buffers[3].elements.size());
}

/// What a program does otherwise than the interpreter says, or nothing.
std::optional<std::string> difference(ModuleOp module, const Target &target,
                                      const CompileOptions &options, const Case &input,
                                      unsigned seed) {
  Case expected = input;
  Interpreter(expected.buffers, 0).run(*module.getOps<func::FuncOp>().begin(), expected.arguments);
  auto got = runOnMachine(module, target, options, input, seed);
  if (!got) {
    std::string why = llvm::toString(got.takeError());
    // What a program may not ask for: more shared memory than there is, some reshapes.
    if (why.find("shared memory, ") != std::string::npos ||
        why.find("odd factors") != std::string::npos)
      return std::nullopt;
    return why;
  }
  const std::vector<int64_t> &wanted = expected.buffers[3].elements;
  auto [g, w] = std::mismatch(got->begin(), got->end(), wanted.begin());
  if (g == got->end())
    return std::nullopt;
  return "element " + std::to_string(g - got->begin()) + " is " + std::to_string(*g) + ", not " +
         std::to_string(*w);
}

std::string text(ModuleOp module) {
  std::string result;
  llvm::raw_string_ostream(result) << module;
  return result;
}

unsigned fromEnvironment(const char *name, unsigned otherwise) {
  const char *text = std::getenv(name);
  return text ? std::atoi(text) : otherwise;
}

/// SECTILE_SEED and SECTILE_PROGRAMS choose others, and more; SECTILE_PROGRAM is a file to run
/// instead of random ones.
class Programs : public testing::TestWithParam<const char *> {};
INSTANTIATE_TEST_SUITE_P(Targets, Programs, testing::Values("sm_80", "sm_89", "gfx942", "gfx1100"),
                         [](const auto &info) { return std::string(info.param); });

TEST_P(Programs, GiveWhatTheInterpreterGives) {
  Target target = llvm::cantFail(Target::get(GetParam()));
  unsigned first = fromEnvironment("SECTILE_SEED", 0),
           number = fromEnvironment("SECTILE_PROGRAMS", 12), ran = 0;
  for (unsigned seed = first; seed < first + number; ++seed) {
    ContextLease context;
    Generator generator(context.get(), seed);
    OwningOpRef<ModuleOp> module = generator.make();
    if (const char *file = std::getenv("SECTILE_PROGRAM"))
      module = parseSourceFile<ModuleOp>(file, context.get());
    ASSERT_TRUE(succeeded(verify(*module)));
    Case input = inputs(seed, generator.outputElements());
    CompileOptions options;
    options.warps = 1u << seed % 4;
    options.stages = 1 + seed % 3;
    auto fails = [&](ModuleOp program) {
      return difference(program, target, options, input, seed);
    };
    try {
      if (std::optional<std::string> why = fails(*module)) {
        auto failsToo = [&](ModuleOp program) {
          try {
            return fails(program).has_value();
          } catch (const std::exception &) {
            return false;
          }
        };
        ADD_FAILURE() << *why << "\nSECTILE_SEED=" << seed << " SECTILE_PROGRAMS=1, "
                      << options.warps << " warps, " << options.stages << " stages; reduced:\n"
                      << text(*reduce(*module, failsToo));
      }
      ++ran;
    } catch (const Inexact &) {
    }
  }
  if (number > 5) {
    EXPECT_GT(ran, number / 2);
  }
}

} // namespace
