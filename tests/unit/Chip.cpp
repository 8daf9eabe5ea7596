// The same LLVM IR on a chip, for the tests of the virtual GPU.
#include "Chip.h"
#include "codegen/Optimizer.h"
#include "codegen/common/PseudoIntrinsics.h"
#include "ops/Devices.h"
#include "runtime/DeviceImpl.h"
#include "llvm/AsmParser/Parser.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Target/TargetMachine.h"
#include <bit>
#include <cmath>
#include <cstring>

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
  lowerPseudoIntrinsics(*module);
  return llvm::cantFail(emitAssembly(*module, *machine));
}

namespace {

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

} // namespace

void Chip::compare(const std::string &text, const LaunchShape &shape,
                   const std::vector<Snapshot> &before, std::vector<uint64_t> arguments,
                   unsigned ulps) {
  runtime::DeviceImpl &device = *state->device.impl();
  Artifact artifact;
  artifact.target = state->device.target();
  artifact.kind = "ptx";
  artifact.bytes = assemble(text, llvm::cantFail(Target::get(artifact.target)), artifact.entry);
  artifact.plan.threads = shape.block[0];
  artifact.plan.sharedBytes = unsigned(shape.sharedBytes);
  auto kernel = device.load(artifact);

  std::vector<uint64_t> copies;
  for (const Snapshot &block : before) {
    copies.push_back(device.allocate(block.bytes.size()));
    device.copyToDevice(copies.back(), block.bytes.data(), block.bytes.size());
    for (uint64_t &argument : arguments)
      if (argument == std::bit_cast<uint64_t>(block.address))
        argument = copies.back();
  }
  std::vector<void *> pointers;
  for (uint64_t &argument : arguments)
    pointers.push_back(&argument);
  device.launch(*kernel, {shape.grid[0], shape.grid[1], shape.grid[2]}, pointers.data(),
                state->device.stream().impl()->handle);
  device.synchronize();
  for (size_t i = 0; i < before.size(); ++i) {
    std::vector<unsigned char> after(before[i].bytes.size());
    device.copyToHost(after.data(), copies[i], after.size());
    device.free(copies[i]);
    for (size_t at = 0; at < after.size(); at += 4) {
      const unsigned char *ours = before[i].address + at;
      size_t width = std::min<size_t>(4, after.size() - at);
      if (std::memcmp(ours, &after[at], width) == 0 ||
          (ulps && width == 4 && close(ours, &after[at], ulps)))
        continue;
      uint32_t here = 0, there = 0;
      std::memcpy(&here, ours, width);
      std::memcpy(&there, &after[at], width);
      ADD_FAILURE() << "word " << at / 4 << " of allocation " << i << " is 0x" << std::hex << here
                    << " (" << std::bit_cast<float>(here) << ") here and 0x" << there << " ("
                    << std::bit_cast<float>(there) << ") on the chip";
      break;
    }
  }
}

} // namespace sectile::vgpu
