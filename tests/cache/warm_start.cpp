// A small program for warm_start_test.py: runs one kernel on a virtual GPU as the first thing it
// does, checks the result, and says what that took. warm_start KERNEL [VALUE]
#include "codegen/Compiler.h"
#include "jit/CompileCache.h"
#include "llvm/Bitcode/BitcodeWriter.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/raw_ostream.h"
#include <chrono>
#include <cstdio>
#include <cstring>
#include <dlfcn.h>
#include <functional>
#include <sectile/language.h>
#include <sectile/sectile.h>

namespace sc = sectile;

namespace {

struct Block {
  int size = 256;
};
SECTILE_CONFIG(Block, size)

struct MatmulTile {
  int m = 64, n = 64, k = 32, warps = 4, stages = 3;
};
SECTILE_CONFIG(MatmulTile, m, n, k, warps, stages)

using Clock = std::chrono::steady_clock;
Clock::time_point started, finished; // main began, the result was there

template <class T> std::vector<T> download(const sc::Buffer<T> &buffer) {
  std::vector<T> result = buffer.download();
  finished = Clock::now();
  return result;
}

const sc::Device &device() {
  static const sc::Device device = sc::Device::open("virtual:sm_90");
  return device;
}

// Whether the kernel makes x + value of x.
template <class Launch> bool adds(int value, Launch &&launch, int n = 1000) {
  std::vector<float> host(static_cast<size_t>(n));
  for (size_t i = 0; i < host.size(); ++i)
    host[i] = static_cast<float>(i % 13);
  auto x = device().upload(host), y = device().allocate<float>(host.size());
  launch(x, y, n);
  const std::vector<float> result = download(y);
  for (size_t i = 0; i < host.size(); ++i)
    if (result[i] != host[i] + static_cast<float>(value))
      return false;
  return true;
}

// y = x + what `amount` gives while the kernel is traced.
template <class Amount>
void addTo(sc::Ptr<const float> x, sc::Ptr<float> y, sc::Int n, int size, const Amount &amount) {
  const auto i = sc::program_id(0) * size + sc::arange(0, size);
  sc::store(y + i, amount(sc::load(x + i, i < n)), i < n);
}

sc::Kernel vectorAdd{"vector_add", [](sc::Ptr<const float> x, sc::Ptr<const float> y,
                                      sc::Ptr<float> z, sc::Int n, const Block &block) {
                       const auto i = sc::program_id(0) * block.size + sc::arange(0, block.size);
                       sc::store(z + i, sc::load(x + i, i < n) + sc::load(y + i, i < n), i < n);
                     }};

sc::Kernel matmul{"matmul", [](sc::View<const sc::half, 2> a, sc::View<const sc::half, 2> b,
                               sc::View<sc::half, 2> c, const MatmulTile &tile) {
                    auto [i, j] = sc::grouped_order(sc::program_id(0), c.tiles(tile.m, tile.n), 8);
                    auto sum = sc::zeros<float>(tile.m, tile.n);
                    for (auto k : sc::range(0, sc::cdiv(a.extent(1), tile.k)))
                      sum = sc::dot(a.tile(tile.m, tile.k).load(i, k),
                                    b.tile(tile.k, tile.n).load(k, j), sum);
                    c.tile(tile.m, tile.n).store(i, j, sum);
                  }};

int amountOfGlobal = 0;
sc::Kernel readsGlobal{"reads_global", [](sc::Ptr<const float> x, sc::Ptr<float> y, sc::Int n) {
                         addTo(x, y, n, 256, [](auto v) { return v + float(amountOfGlobal); });
                       }};

sc::Function plusOne{"plus_one", [](sc::Tile<float> v) { return v + 1.0f; }};
sc::Kernel callsFunction{"calls_function", [](sc::Ptr<const float> x, sc::Ptr<float> y, sc::Int n) {
                           addTo(x, y, n, 256, plusOne);
                         }};

bool runVectorAdd(int value) {
  return adds(value, [&](auto &x, auto &y, int n) {
    auto z = device().upload(std::vector<float>(static_cast<size_t>(n), static_cast<float>(value)));
    vectorAdd.launch(device().stream(), (n + 255) / 256, x, z, y, n);
  });
}

// The extent is another specialisation for a multiple of 16.
bool runBlock(int size) {
  return adds(
      2,
      [&](auto &x, auto &y, int n) {
        auto two = device().upload(std::vector<float>(static_cast<size_t>(n), 2.0f));
        vectorAdd.launch(device().stream(), (n + size - 1) / size, x, two, y, n, {.size = size});
      },
      size * 3);
}

bool runMatmul(int) {
  const int n = 128;
  std::vector<sc::half> host(n * n);
  for (size_t i = 0; i < host.size(); ++i)
    host[i] = static_cast<sc::half>(float(i % 5) - 2);
  auto a = device().upload(host), c = device().allocate<sc::half>(n * n);
  matmul.launch(device().stream(), 4, sc::tensor(a, {n, n}), sc::tensor(a, {n, n}),
                sc::tensor(c, {n, n}));
  const auto result = download(c);
  for (size_t i = 0; i < n; ++i)
    for (size_t j = 0; j < n; ++j) {
      float sum = 0;
      for (size_t k = 0; k < n; ++k)
        sum += host[i * n + k] * host[k * n + j];
      if (result[i * n + j] != sum)
        return false;
    }
  return true;
}

bool runCaptured(int value) {
  const sc::Kernel kernel{"captured", [value](sc::Ptr<const float> x, sc::Ptr<float> y, sc::Int n) {
                            addTo(x, y, n, 256, [&](auto v) { return v + float(value); });
                          }};
  return adds(value, [&](auto &x, auto &y, int n) {
    kernel.launch(device().stream(), (n + 255) / 256, x, y, n);
  });
}

bool runFunction(int) {
  return adds(1, [&](auto &x, auto &y, int n) {
    callsFunction.launch(device().stream(), (n + 255) / 256, x, y, n);
  });
}

// A function that captures, called by a kernel that does not.
bool runCapturingFunction(int value) {
  static int amount;
  amount = value;
  static const sc::Function plus{
      "plus", [value](sc::Tile<float> v) { return v + static_cast<float>(value); }};
  static const sc::Kernel kernel{
      "calls_capturing_function",
      [](sc::Ptr<const float> x, sc::Ptr<float> y, sc::Int n) { addTo(x, y, n, 256, plus); }};
  return adds(amount, [&](auto &x, auto &y, int n) {
    kernel.launch(device().stream(), (n + 255) / 256, x, y, n);
  });
}

// A library in the current folder, whose one function adds `value`.
void writeLibrary(int value) {
  llvm::LLVMContext context;
  llvm::Module module("library", context);
  llvm::IRBuilder<> builder(context);
  llvm::Type *type = builder.getFloatTy();
  auto *function = llvm::Function::Create(llvm::FunctionType::get(type, {type}, false),
                                          llvm::Function::ExternalLinkage, "plus", module);
  builder.SetInsertPoint(llvm::BasicBlock::Create(context, "entry", function));
  builder.CreateRet(builder.CreateFAdd(function->getArg(0), llvm::ConstantFP::get(type, value)));
  std::error_code error;
  llvm::raw_fd_ostream out("library.bc", error);
  llvm::WriteBitcodeToFile(module, out);
}

bool runLibrary(int value) {
  writeLibrary(value);
  static const sc::Kernel kernel{
      "links", [](sc::Ptr<const float> x, sc::Ptr<float> y, sc::Int n) {
        addTo(x, y, n, 256, [](auto v) { return sc::extern_call<float>("plus", "library.bc", v); });
      }};
  return adds(value, [&](auto &x, auto &y, int n) {
    kernel.launch(device().stream(), (n + 255) / 256, x, y, n);
  });
}

bool runGlobal(int value) {
  amountOfGlobal = value;
  return adds(value, [&](auto &x, auto &y, int n) {
    readsGlobal.launch(device().stream(), (n + 255) / 256, x, y, n);
  });
}

// No launch: only the hash of the code.
bool printHash(int) {
  float *const address = nullptr;
  std::printf("hash=%s\n", vectorAdd.code_hash(device(), address, address, address, 1000).c_str());
  return true;
}

// The kernel of a library that is loaded now; where it has none, as a driver, one of this program.
bool runPlugin(const char *path) {
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    std::fprintf(stderr, "%s\n", dlerror());
    return false;
  }
  const auto run = reinterpret_cast<bool (*)(const sc::Device *)>(dlsym(library, "runPlugin"));
  return run ? run(&device()) : runVectorAdd(1);
}

const std::pair<const char *, bool (*)(int)> kernels[] = {
    {"vector_add", runVectorAdd}, {"block", runBlock},
    {"matmul", runMatmul},        {"captured", runCaptured},
    {"function", runFunction},    {"capturing_function", runCapturingFunction},
    {"library", runLibrary},      {"global", runGlobal},
    {"hash", printHash},
};

} // namespace

int main(int argc, char **argv) {
  started = finished = Clock::now();
  const int value = argc > 2 ? static_cast<int>(std::strtol(argv[2], nullptr, 10)) : 1;
  bool right = false;
  try {
    if (argc > 2 && std::strcmp(argv[1], "plugin") == 0)
      right = runPlugin(argv[2]);
    for (const auto &[name, run] : kernels)
      if (argc > 1 && std::strcmp(argv[1], name) == 0)
        right = run(value);
  } catch (const sc::Error &error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  }
  const double ms = std::chrono::duration<double, std::milli>(finished - started).count();
  const auto counts = sc::runtime::CompileCache::get().counts();
  std::printf("right=%d\ncontexts=%u\ncompiles=%u\ndisk=%u\nms=%.2f\n", right,
              sc::ContextLease::created(), unsigned(counts.compiles), unsigned(counts.diskHits),
              ms);
  return 0;
}
