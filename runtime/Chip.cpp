// The table of known chips. Limits are from the CUDA C++ Programming Guide's table of compute
// capabilities and from AMD's instruction-set and LLVM AMDGPU back-end documents.
#include "runtime/Chip.h"
#include <algorithm>
#include <stdexcept>
#include <utility>
#include <vector>

namespace sectile {

namespace {

/// A version of PTX, and the first CUDA whose driver takes it.
struct Ptx {
  const char *feature;
  unsigned cuda;
};
constexpr Ptx ptx80{"ptx80", 12000}, ptx84{"ptx84", 12040}, ptx87{"ptx87", 12080},
    ptx88{"ptx88", 12090};

Chip nvidia(const char *name, unsigned sharedKiB, unsigned unitKiB, unsigned multiprocessors,
            const Ptx &ptx) {
  Chip chip;
  chip.name = name;
  chip.vendor = Vendor::Nvidia;
  chip.features = std::string("+") + ptx.feature;
  chip.leastCuda = ptx.cuda;
  chip.maxSharedBytes = sharedKiB * 1024;
  chip.sharedBytesPerUnit = unitKiB * 1024;
  chip.multiprocessors = multiprocessors;
  chip.asyncCopy = true;
  chip.matrixLoad = true;
  chip.bf16Arithmetic = true;
  chip.tanhInstruction = true;
  chip.barrierOrdersGlobal = true;
  return chip;
}

Chip withUnits(Chip chip, MatrixUnits units) {
  chip.matrixUnits = units;
  return chip;
}

/// What came with sm_90.
Chip sinceHopper(Chip chip) {
  chip.bf16Atomics = true;
  chip.tensorCopy = true;
  chip.matrixStore = true;
  chip.dependentLaunch = true;
  return withUnits(std::move(chip), MatrixUnits::SinceHopper);
}

/// The same chip with what only code for it alone may use: the name ends in `a`.
Chip forOneChip(Chip chip) {
  chip.isForOneChip = true;
  chip.movesRegisters = true;
  return chip;
}

/// Chips of data centres, which have clusters whose blocks share copies.
Chip withMulticast(Chip chip) {
  chip.multicast = true;
  return chip;
}

Chip amd(const char *name, unsigned warpSize, unsigned multiprocessors, MatrixUnits units) {
  Chip chip;
  chip.name = name;
  chip.vendor = Vendor::Amd;
  chip.features = warpSize == 64 ? "+wavefrontsize64" : "+wavefrontsize32";
  chip.bufferAccess = true;
  chip.warpSize = warpSize;
  chip.maxSharedBytes = chip.sharedBytesPerUnit = 64 * 1024;
  chip.registersPerUnit = 131072;
  chip.maxRegistersPerThread = 256;
  chip.multiprocessors = multiprocessors;
  chip.matrixUnits = units;
  return chip;
}

Chip mi350() {
  Chip chip = amd("gfx950", 64, 256, MatrixUnits::Cdna4);
  chip.maxSharedBytes = chip.sharedBytesPerUnit = 160 * 1024;
  chip.sharedBanks = 64;
  return chip;
}

} // namespace

std::span<const Chip> Chip::all() {
  static const std::vector<Chip> chips = {
      nvidia("sm_80", 163, 164, 108, ptx80),
      nvidia("sm_86", 99, 100, 84, ptx80),
      withUnits(nvidia("sm_89", 99, 100, 128, ptx84), MatrixUnits::Ada),
      sinceHopper(nvidia("sm_90", 227, 228, 132, ptx84)),
      withUnits(withMulticast(forOneChip(sinceHopper(nvidia("sm_90a", 227, 228, 132, ptx84)))),
                MatrixUnits::Hopper),
      sinceHopper(nvidia("sm_100", 227, 228, 148, ptx87)),
      withMulticast(forOneChip(sinceHopper(nvidia("sm_100a", 227, 228, 148, ptx87)))),
      withMulticast(forOneChip(sinceHopper(nvidia("sm_103a", 227, 228, 148, ptx88)))),
      sinceHopper(nvidia("sm_120", 99, 100, 170, ptx87)),
      forOneChip(sinceHopper(nvidia("sm_120a", 99, 100, 170, ptx87))),
      amd("gfx90a", 64, 104, MatrixUnits::Cdna2),
      amd("gfx942", 64, 304, MatrixUnits::Cdna3),
      mi350(),
      amd("gfx1100", 32, 96, MatrixUnits::Rdna3),
      amd("gfx1201", 32, 64, MatrixUnits::Rdna4)};
  return chips;
}

bool Chip::multiplies(MmaElement element) const {
  switch (element) {
  case MmaElement::F16:
  case MmaElement::BF16:
  case MmaElement::I8:
    return true;
  case MmaElement::TF32:
    return vendor == Vendor::Nvidia || matrixUnits == MatrixUnits::Cdna3;
  case MmaElement::F32:
    return matrixUnits >= MatrixUnits::Cdna2 && matrixUnits <= MatrixUnits::Cdna4;
  case MmaElement::F64:
    return matrixUnits <= MatrixUnits::Cdna4;
  case MmaElement::F8E4M3:
  case MmaElement::F8E5M2:
    return (matrixUnits >= MatrixUnits::Ada && matrixUnits <= MatrixUnits::Hopper) ||
           matrixUnits == MatrixUnits::Cdna4 || matrixUnits == MatrixUnits::Rdna4;
  case MmaElement::F8E4M3FNUZ:
  case MmaElement::F8E5M2FNUZ:
    return matrixUnits == MatrixUnits::Cdna3;
  case MmaElement::I32:
    return false;
  }
  return false;
}

bool Chip::warpgroupMultiplies(MmaElement element, bool alongK) const {
  const bool isHalf = element == MmaElement::F16 || element == MmaElement::BF16;
  return matrixUnits == MatrixUnits::Hopper && element != MmaElement::F64 && multiplies(element) &&
         (alongK || isHalf);
}

const Chip *Chip::find(std::string_view name) {
  const std::span<const Chip> chips = all();
  const auto found = std::ranges::find(chips, name, &Chip::name);
  return found == chips.end() ? nullptr : &*found;
}

const Chip &Chip::known(std::string_view name) {
  if (const Chip *chip = find(name))
    return *chip;
  throw std::logic_error(whyUnknown(name));
}

std::string Chip::whyUnknown(std::string_view name) {
  std::string text = "unknown target '" + std::string(name) + "'; known are ";
  for (const Chip &chip : all())
    text += (&chip == all().data() ? "" : ", ") + chip.name;
  return text;
}

const Chip *Chip::forComputeCapability(unsigned major, unsigned minor) {
  // The first that is no newer. Code for one chip alone is for that very capability.
  struct Choice {
    unsigned least;
    const char *name, *exact;
  };
  constexpr Choice choices[] = {{120, "sm_120", "sm_120a"}, {103, "sm_100", "sm_103a"},
                                {100, "sm_100", "sm_100a"}, {90, "sm_90", "sm_90a"},
                                {89, "sm_89", "sm_89"},     {86, "sm_86", "sm_86"},
                                {80, "sm_80", "sm_80"}};
  const unsigned capability = major * 10 + minor;
  for (const Choice &choice : choices)
    if (capability >= choice.least)
      return find(capability == choice.least ? choice.exact : choice.name);
  return nullptr;
}

} // namespace sectile
