// The same LLVM IR on a chip, for the tests of the virtual GPU.
#include "Chip.h"
#include "codegen/Optimizer.h"
#include "ops/Devices.h"
#include "runtime/DeviceImpl.h"
#include "runtime/cuda/CudaDriver.h"
#include "llvm/AsmParser/Parser.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Target/TargetMachine.h"
#include <bit>
#include <chrono>
#include <cmath>
#include <cstring>
#include <iomanip>
#include <sstream>
#include <thread>

namespace sectile::vgpu {

struct Chip::State {
  Device device;
};

Chip::Chip(std::string device) : state(new State{Device::open(device)}) {}

Chip *Chip::get() {
  static std::unique_ptr<Chip> chip = [] {
    std::unique_ptr<Chip> result;
    for (const std::string &name : test::devices())
      if (name.starts_with("cuda"))
        result.reset(new Chip(name));
    return result;
  }();
  return chip.get();
}

const std::string &Chip::target() const { return state->device.target(); }

std::string assemble(const std::string &text, const Target &target, std::string &entry) {
  llvm::LLVMContext context;
  llvm::SMDiagnostic diagnostic;
  std::unique_ptr<llvm::Module> module = llvm::parseAssemblyString(text, diagnostic, context);
  if (!module)
    throw std::runtime_error(diagnostic.getMessage().str());
  for (const llvm::Function &function : *module)
    if (function.getCallingConv() == llvm::CallingConv::PTX_Kernel)
      entry = function.getName().str();
  auto machine = llvm::cantFail(createTargetMachine(target));
  module->setDataLayout(machine->createDataLayout());
  return llvm::cantFail(emitAssembly(*module, *machine));
}

namespace {

using runtime::CudaDriver;

// The kernels of these tests take microseconds; one that runs for this long waits for something
// that never comes.
constexpr std::chrono::seconds patience(10);

void check(int error, const std::string &doing) {
  if (error)
    throw DeviceError(doing + ": " + CudaDriver::get().describe(error));
}

class LoadedModule {
public:
  LoadedModule(const runtime::DeviceImpl &device, const std::string &ptx) : device(device) {
    std::string log(16384, '\0');
    int options[] = {runtime::cuda::jitErrorLog, runtime::cuda::jitErrorLogSize};
    void *values[] = {log.data(), std::bit_cast<void *>(log.size())};
    const int error = CudaDriver::get().moduleLoadDataEx(&handle, ptx.c_str(), 2, options, values);
    check(error, std::string("loading a module (") + log.c_str() + ")");
  }
  LoadedModule(const LoadedModule &) = delete;
  ~LoadedModule() {
    if (!device.isLost()) // else the driver would wait for the kernel
      CudaDriver::get().moduleUnload(handle);
  }

  void *function(const std::string &name) const {
    void *result = nullptr;
    check(CudaDriver::get().moduleGetFunction(&result, handle, name.c_str()), "finding the kernel");
    return result;
  }

private:
  const runtime::DeviceImpl &device;
  void *handle = nullptr;
};

// The memory of the snapshots on the chip.
class Copies {
public:
  Copies(runtime::DeviceImpl &device, const std::vector<Snapshot> &of) : device(device), of(of) {
    for (const Snapshot &each : of) {
      addresses.push_back(device.allocate(each.bytes.size()));
      device.copyToDevice(addresses.back(), each.bytes.data(), each.bytes.size());
    }
  }
  Copies(const Copies &) = delete;
  ~Copies() {
    for (uint64_t address : addresses)
      device.free(address);
  }

  // What the word is on the chip.
  uint64_t translated(uint64_t word) const {
    for (size_t i = 0; i < of.size(); ++i)
      if (const uint64_t at = word - std::bit_cast<uint64_t>(of[i].address);
          at < of[i].bytes.size())
        return addresses[i] + at;
    return word;
  }
  std::vector<unsigned char> read(size_t i) const {
    std::vector<unsigned char> bytes(of[i].bytes.size());
    device.copyToHost(bytes.data(), addresses[i], bytes.size());
    return bytes;
  }

private:
  runtime::DeviceImpl &device;
  const std::vector<Snapshot> &of;
  std::vector<uint64_t> addresses;
};

// The driver's map of the same tensor.
runtime::CudaTensorMap encode(const TensorMap &map) {
  namespace cuda = runtime::cuda;
  const int swizzle = map.swizzle == 128  ? cuda::tensorSwizzle128
                      : map.swizzle == 64 ? cuda::tensorSwizzle64
                      : map.swizzle == 32 ? cuda::tensorSwizzle32
                                          : cuda::tensorSwizzle0;
  unsigned steps[5];
  std::copy_n(map.steps, 5, steps);
  runtime::CudaTensorMap result;
  const auto make = CudaDriver::get().tensorMapEncodeTiled;
  if (!make)
    throw DeviceError("the driver has no tensor maps");
  check(make(&result, int(map.type), map.rank, std::bit_cast<void *>(map.address), map.extents,
             map.strides, map.box, steps, cuda::tensorNotInterleaved, swizzle,
             cuda::tensorPromotesNothing,
             map.fillsWithNaN ? cuda::tensorFillsNaN : cuda::tensorFillsZeros),
        "making a tensor map");
  return result;
}

// The arguments of a launch as the driver takes them.
class TranslatedArguments {
public:
  TranslatedArguments(std::vector<Argument> arguments, const Copies &copies)
      : values(std::move(arguments)) {
    maps.reserve(values.size());
    for (Argument &value : values)
      if (auto *word = std::get_if<uint64_t>(&value)) {
        *word = copies.translated(*word);
        pointers.push_back(word);
      } else {
        TensorMap map = std::get<TensorMap>(value);
        map.address = copies.translated(map.address);
        maps.push_back(encode(map));
        pointers.push_back(&maps.back());
      }
  }
  TranslatedArguments(const TranslatedArguments &) = delete;

  std::vector<void *> pointers;

private:
  std::vector<Argument> values;
  std::vector<runtime::CudaTensorMap> maps;
};

// `overlaps`: it may start before the kernel ahead of it is done.
void launch(void *function, const LaunchShape &shape, void **arguments, void *stream,
            bool overlaps) {
  check(CudaDriver::get().funcSetAttribute(function, runtime::cuda::functionMaxDynamicShared,
                                           int(shape.sharedBytes)),
        "asking for shared memory");
  runtime::CudaLaunchAttribute attributes[2] = {};
  unsigned count = 0;
  if (shape.cluster[0] || shape.cluster[1] || shape.cluster[2]) {
    runtime::CudaLaunchAttribute &cluster = attributes[count++];
    cluster.id = runtime::cuda::launchClusterDimension;
    // The driver takes no zeros: a side that is not given is one block long.
    for (int i = 0; i < 3; ++i)
      cluster.value.clusterDimension[i] = std::max(shape.cluster[i], 1u);
  }
  if (overlaps) {
    runtime::CudaLaunchAttribute &overlap = attributes[count++];
    overlap.id = runtime::cuda::launchProgrammaticSerialization;
    overlap.value.programmaticSerializationAllowed = 1;
  }
  const runtime::CudaLaunchConfig config{
      shape.grid[0],  shape.grid[1],     shape.grid[2], shape.block[0], shape.block[1],
      shape.block[2], shape.sharedBytes, stream,        attributes,     count};
  check(CudaDriver::get().launchKernelEx(&config, function, arguments, nullptr),
        "launching the kernel");
}

// A context in which a kernel has faulted, or does not end, is good for nothing else.
void waitFor(runtime::DeviceImpl &device, void *stream) {
  auto fail = [&](const std::string &why) {
    device.abandon(why + "; run the tests behind it in a process of their own");
    device.requireNotLost();
  };
  void *event = device.createEvent(/*timed=*/false);
  try {
    device.recordEvent(event, stream);
    for (const auto end = std::chrono::steady_clock::now() + patience; !device.eventDone(event);
         std::this_thread::sleep_for(std::chrono::microseconds(50)))
      if (std::chrono::steady_clock::now() > end)
        fail("a kernel has not ended");
  } catch (const DeviceError &error) {
    fail(error.what());
  }
  device.destroyEvent(event);
}

// Floats in the order of their values, as integers.
int64_t order(uint32_t bits) {
  return bits & 0x8000'0000u ? -int64_t(bits & 0x7fff'ffffu) : int64_t(bits);
}

bool close(const unsigned char *a, const unsigned char *b, unsigned ulps) {
  uint32_t x, y;
  std::memcpy(&x, a, 4);
  std::memcpy(&y, b, 4);
  if (std::isnan(std::bit_cast<float>(x)) && std::isnan(std::bit_cast<float>(y)))
    return true;
  return std::abs(order(x) - order(y)) <= int64_t(ulps);
}

// "3f800000 00000000", and behind it " (1 0)" where the words are floats.
std::string words(const unsigned char *bytes, size_t count, bool areFloats) {
  std::ostringstream hex, floats;
  for (size_t at = 0; at < count; at += 4) {
    uint32_t word = 0;
    std::memcpy(&word, bytes + at, std::min<size_t>(4, count - at));
    hex << (at ? " " : "") << std::hex << std::setfill('0') << std::setw(8) << word;
    floats << (at ? " " : "") << std::bit_cast<float>(word);
  }
  return hex.str() + (areFloats ? " (" + floats.str() + ")" : "");
}

// Prints both sides of the first lines of 16 bytes that differ: chunks of that size are what
// swizzles move.
void expectSame(size_t allocation, const unsigned char *ours,
                const std::vector<unsigned char> &theirs, unsigned ulps) {
  constexpr size_t line = 16, most = 16;
  std::string report;
  size_t differing = 0;
  for (size_t at = 0; at < theirs.size(); at += line) {
    const size_t count = std::min(line, theirs.size() - at);
    bool same = true;
    for (size_t i = at; i < at + count; i += 4) {
      const size_t width = std::min<size_t>(4, theirs.size() - i);
      same &= std::memcmp(ours + i, &theirs[i], width) == 0 ||
              (ulps && width == 4 && close(ours + i, &theirs[i], ulps));
    }
    if (same || ++differing > most)
      continue;
    report += "\n  byte " + std::to_string(at) + "\n    here " + words(ours + at, count, ulps) +
              "\n    chip " + words(&theirs[at], count, ulps);
  }
  if (differing)
    ADD_FAILURE() << "allocation " << allocation << ": of " << (theirs.size() + line - 1) / line
                  << " lines of " << line << " bytes " << differing << " differ" << report
                  << (differing > most ? "\n  …" : "");
}

} // namespace

void Chip::compare(const std::string &text, const LaunchShape &shape,
                   const std::vector<Snapshot> &before, std::vector<Argument> arguments,
                   unsigned ulps, unsigned launches) {
  runtime::DeviceImpl &device = *state->device.impl();
  const auto current = device.makeCurrent();
  std::string entry;
  const LoadedModule module(
      device, assemble(text, llvm::cantFail(Target::get(state->device.target())), entry));
  const Copies copies(device, before);
  TranslatedArguments translated(std::move(arguments), copies);
  void *stream = state->device.stream().impl()->handle;
  for (unsigned i = 0; i < launches; ++i)
    launch(module.function(entry), shape, translated.pointers.data(), stream, i > 0);
  waitFor(device, stream);
  for (size_t i = 0; i < before.size(); ++i)
    expectSame(i, before[i].address, copies.read(i), ulps);
}

} // namespace sectile::vgpu
