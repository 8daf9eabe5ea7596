// Targets from chips: triples and matrix instructions.
#include "ir/Target.h"
#include <vector>

using namespace llvm;

namespace sectile {

static ArrayRef<MmaInstruction> instructionsOf(MatrixUnits units) {
  switch (units) {
  case MatrixUnits::Ampere:
    return mma::ampere();
  case MatrixUnits::Ada:
    return mma::ada();
  case MatrixUnits::SinceHopper:
    return mma::sinceHopper();
  case MatrixUnits::Hopper:
    return mma::hopper();
  case MatrixUnits::Cdna2:
    return mma::cdna2();
  case MatrixUnits::Cdna3:
    return mma::cdna3();
  case MatrixUnits::Cdna4:
    return mma::cdna4();
  case MatrixUnits::Rdna3:
    return mma::rdna3();
  case MatrixUnits::Rdna4:
    return mma::rdna4();
  }
  llvm_unreachable("matrix units without a table");
}

Target::Target(const Chip &chip)
    : Chip(chip),
      triple(chip.vendor == Vendor::Nvidia ? "nvptx64-nvidia-cuda" : "amdgcn-amd-amdhsa"),
      cpu(chip.name), mmas(instructionsOf(chip.matrixUnits)) {}

ArrayRef<StringRef> Target::names() {
  static const std::vector<StringRef> names = [] {
    std::vector<StringRef> n;
    for (const Chip &chip : Chip::all())
      n.push_back(chip.name);
    return n;
  }();
  return names;
}

Expected<Target> Target::get(StringRef name) {
  if (const Chip *chip = Chip::find(name))
    return Target(*chip);
  return createStringError(Chip::whyUnknown(name));
}

} // namespace sectile
