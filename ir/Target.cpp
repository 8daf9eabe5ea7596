// The table of known targets. Limits are from the CUDA C++ Programming Guide's table of compute
// capabilities and from AMD's instruction-set and LLVM AMDGPU back-end documents.
#include "ir/Target.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace llvm;

namespace sectile {

/// A version of PTX, and the first CUDA whose driver takes it.
struct Ptx {
  StringRef feature;
  unsigned cuda;
};
constexpr Ptx ptx80{"ptx80", 12000}, ptx84{"ptx84", 12040}, ptx87{"ptx87", 12080},
    ptx88{"ptx88", 12090};

static Target nvidia(StringRef name, unsigned sharedKiB, unsigned unitKiB, unsigned multiprocessors,
                     const Ptx &ptx) {
  Target t;
  t.name = name.str();
  t.vendor = Vendor::Nvidia;
  t.triple = "nvptx64-nvidia-cuda";
  t.cpu = name.str();
  t.features = ("+" + ptx.feature).str();
  t.leastCuda = ptx.cuda;
  t.maxSharedBytes = sharedKiB * 1024;
  t.sharedBytesPerUnit = unitKiB * 1024;
  t.multiprocessors = multiprocessors;
  t.asyncCopy = true;
  t.matrixLoad = true;
  t.bf16Arithmetic = true;
  t.tanhInstruction = true;
  t.barrierOrdersGlobal = true;
  t.mmas = mma::ampere();
  return t;
}

static Target withFp8(Target t) {
  t.mmas = mma::ada();
  return t;
}

/// What came with sm_90.
static Target sinceHopper(Target t) {
  t.bf16Atomics = true;
  t.tensorCopy = true;
  t.matrixStore = true;
  t.dependentLaunch = true;
  return t;
}

/// The same chip with what only code for it alone may use: the name ends in `a`.
static Target forOneChip(Target t) {
  t.isForOneChip = true;
  t.movesRegisters = true;
  return t;
}

/// Chips of data centres, which have clusters whose blocks share copies.
static Target withMulticast(Target t) {
  t.multicast = true;
  return t;
}

static Target amd(StringRef name, unsigned warpSize, unsigned multiprocessors,
                  ArrayRef<MmaInstruction> mmas) {
  Target t;
  t.name = name.str();
  t.vendor = Vendor::Amd;
  t.triple = "amdgcn-amd-amdhsa";
  t.cpu = name.str();
  t.features = warpSize == 64 ? "+wavefrontsize64" : "+wavefrontsize32";
  t.bufferAccess = true;
  t.warpSize = warpSize;
  t.maxSharedBytes = t.sharedBytesPerUnit = 64 * 1024;
  t.registersPerUnit = 131072;
  t.maxRegistersPerThread = 256;
  t.multiprocessors = multiprocessors;
  t.mmas = mmas;
  return t;
}

static const std::vector<Target> &table() {
  static const std::vector<Target> targets = [] {
    std::vector<Target> t;
    t.push_back(nvidia("sm_80", 163, 164, 108, ptx80));
    t.push_back(nvidia("sm_86", 99, 100, 84, ptx80));
    t.push_back(withFp8(nvidia("sm_89", 99, 100, 128, ptx84)));
    t.push_back(sinceHopper(withFp8(nvidia("sm_90", 227, 228, 132, ptx84))));
    t.push_back(withMulticast(forOneChip(sinceHopper(nvidia("sm_90a", 227, 228, 132, ptx84)))));
    t.back().mmas = mma::hopper();
    t.push_back(sinceHopper(withFp8(nvidia("sm_100", 227, 228, 148, ptx87))));
    t.push_back(
        withMulticast(forOneChip(sinceHopper(withFp8(nvidia("sm_100a", 227, 228, 148, ptx87))))));
    t.push_back(
        withMulticast(forOneChip(sinceHopper(withFp8(nvidia("sm_103a", 227, 228, 148, ptx88))))));
    t.push_back(sinceHopper(withFp8(nvidia("sm_120", 99, 100, 170, ptx87))));
    t.push_back(forOneChip(sinceHopper(withFp8(nvidia("sm_120a", 99, 100, 170, ptx87)))));
    t.push_back(amd("gfx90a", 64, 104, mma::cdna2()));
    t.push_back(amd("gfx942", 64, 304, mma::cdna3()));
    Target mi350 = amd("gfx950", 64, 256, mma::cdna4());
    mi350.maxSharedBytes = mi350.sharedBytesPerUnit = 160 * 1024;
    mi350.sharedBanks = 64;
    t.push_back(mi350);
    t.push_back(amd("gfx1100", 32, 96, mma::rdna3()));
    t.push_back(amd("gfx1201", 32, 64, mma::rdna4()));
    return t;
  }();
  return targets;
}

bool Target::multiplies(MmaElement element) const {
  return any_of(mmas, [&](const MmaInstruction &each) { return each.a == element; });
}

ArrayRef<StringRef> Target::names() {
  static const std::vector<StringRef> names = [] {
    std::vector<StringRef> n;
    for (const Target &t : table())
      n.push_back(t.name);
    return n;
  }();
  return names;
}

Expected<Target> Target::get(StringRef name) {
  for (const Target &t : table())
    if (t.name == name)
      return t;
  return createStringError("unknown target '" + name + "'; known are " + join(names(), ", "));
}

Expected<Target> Target::forComputeCapability(unsigned major, unsigned minor) {
  unsigned capability = major * 10 + minor;
  if (capability < 80)
    return createStringError("its compute capability is " + Twine(major) + "." + Twine(minor) +
                             ", and Sectile makes code for 8.0 and newer");
  // The first that is no newer. Code for one chip alone is for that very capability.
  struct Choice {
    unsigned least;
    StringRef name, exact;
  };
  constexpr Choice choices[] = {{120, "sm_120", "sm_120a"}, {103, "sm_100", "sm_103a"},
                                {100, "sm_100", "sm_100a"}, {90, "sm_90", "sm_90a"},
                                {89, "sm_89", "sm_89"},     {86, "sm_86", "sm_86"},
                                {80, "sm_80", "sm_80"}};
  const Choice &choice =
      *find_if(choices, [&](const Choice &each) { return capability >= each.least; });
  return get(capability == choice.least ? choice.exact : choice.name);
}

} // namespace sectile
