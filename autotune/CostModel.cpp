// A roofline with occupancy, waves of blocks and latency.
#include "autotune/CostModel.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Regex.h"
#include <algorithm>
#include <cmath>

using llvm::StringRef;

namespace sectile::autotune {
namespace {

// Cycles, rounded: of a load from memory, of a barrier with the matrix instructions that it waits
// for. They are of the same size on all of these chips, and only ratios matter.
constexpr double memoryLatency = 600, roundLatency = 60;
constexpr double loadsInFlight = 8;      // of one warp that does not copy asynchronously
constexpr double portBytesPerClock = 64; // between L2 and one unit
constexpr double sectorBytes = 32;
constexpr double reservedSharedBytes = 1024; // that the system takes of each block
constexpr double launchMicroseconds = 2;

// Limits that overlap, but not perfectly.
class Together {
public:
  void add(double time) { sum += time * time * time * time; }
  double time() const { return std::sqrt(std::sqrt(sum)); }

private:
  double sum = 0;
};

// Multiply-adds of one matrix instruction by its name, as "….mma.m16n8k16.row.col.f32.f32" or
// "….mfma.f32.16x16x16f16": the first three numbers that a letter stands between.
double multiplyAdds(StringRef name) {
  static const llvm::Regex extents("[.m]([0-9]+)[nx]([0-9]+)[kx]([0-9]+)");
  llvm::SmallVector<StringRef, 4> parts;
  double product = 1;
  if (extents.match(name, &parts))
    for (StringRef part : llvm::ArrayRef(parts).drop_front())
      product *= double(std::stoul(part.str()));
  return product;
}

// The element of its operands. The sums' is before the extents on AMD.
MmaElement elementOf(StringRef name) {
  const std::pair<StringRef, MmaElement> elements[] = {
      {"tf32", MmaElement::TF32},   {"xf32", MmaElement::TF32},   {"bf16", MmaElement::BF16},
      {".s8", MmaElement::I8},      {"i8", MmaElement::I8},       {"iu8", MmaElement::I8},
      {"e4m3", MmaElement::F8E4M3}, {"e5m2", MmaElement::F8E5M2}, {"fp8", MmaElement::F8E4M3},
      {"bf8", MmaElement::F8E5M2},  {"f64", MmaElement::F64},     {"x4f32", MmaElement::F32},
      {"x2f32", MmaElement::F32},   {"k4.f32", MmaElement::F32},  {"k2.f32", MmaElement::F32}};
  for (const auto &[word, element] : elements)
    if (name.contains(word))
      return element;
  return MmaElement::F16;
}

// What one block does, on average.
struct BlockWork {
  double matrix = 0, issue = 0, shared = 0, port = 0; // cycles of a unit
  double chain = 0;                                   // cycles that nothing in the block shortens
};

BlockWork workOfBlock(const MachineModel &machine, const Target &target,
                      const LaunchProfile &profile) {
  const vgpu::Counters &counters = profile.counters;
  const double blocks = double(counters.blocks);
  const double warps = std::max(1.0, double(profile.threads) / target.warpSize);
  BlockWork work;
  for (const auto &kind : counters.mmaKinds)
    if (const unsigned rate = machine.perClock(elementOf(kind.name)))
      work.matrix += double(kind.count) * multiplyAdds(kind.name) / rate / blocks;
  work.issue = double(counters.instructions) / machine.lanes / blocks;
  work.shared = double(counters.sharedLoad.wavefronts + counters.sharedStore.wavefronts +
                       counters.asyncCopy.wavefronts) /
                blocks;
  const double sectors = double(counters.globalLoad.sectors + counters.globalStore.sectors +
                                counters.globalAtomic.sectors + counters.asyncCopy.sectors);
  work.port = sectors * sectorBytes / portBytesPerClock / blocks;

  const double rounds = double(counters.barriers) / warps / blocks;
  work.chain = memoryLatency + rounds * roundLatency;
  if (counters.asyncCopy.requests)
    work.chain += rounds * memoryLatency / std::max(1u, profile.stages - 1);
  work.chain += memoryLatency *
                double(counters.globalLoad.requests + counters.globalAtomic.requests) / warps /
                blocks / loadsInFlight;
  return work;
}

// Cycles of `blocks` that are resident on one unit together.
double cyclesOf(const BlockWork &work, double blocks) {
  Together together;
  together.add(blocks * work.matrix);
  together.add(blocks * work.issue);
  together.add(blocks * work.shared);
  together.add(blocks * work.port);
  together.add(work.chain);
  return together.time();
}

} // namespace

unsigned residentBlocks(const MachineModel &machine, const Target &target,
                        const LaunchProfile &profile) {
  double blocks = std::min<double>(machine.maxBlocks, machine.maxThreads / profile.threads);
  blocks = std::min(
      blocks, std::floor(target.sharedBytesPerUnit / (profile.sharedBytes + reservedSharedBytes)));
  if (profile.registers)
    blocks = std::min(blocks, std::floor(double(target.registersPerUnit) /
                                         (double(profile.registers) * profile.threads)));
  return std::max(1u, static_cast<unsigned>(blocks));
}

double estimateMicroseconds(const MachineModel &machine, const Target &target,
                            const LaunchProfile &profile) {
  const vgpu::Counters &counters = profile.counters;
  if (counters.blocks == 0)
    return launchMicroseconds;
  const BlockWork work = workOfBlock(machine, target, profile);
  const uint64_t resident = residentBlocks(machine, target, profile);
  const uint64_t wave = resident * machine.units;
  const uint64_t rest = counters.blocks % wave;
  double cycles = double(counters.blocks / wave) * cyclesOf(work, double(resident));
  if (rest)
    cycles += cyclesOf(work, double((rest + machine.units - 1) / machine.units));

  // What is asked for again comes from L2, as far as that holds what the launch uses.
  const double asked =
      sectorBytes * double(counters.globalLoad.sectors + counters.globalStore.sectors +
                           counters.globalAtomic.sectors + counters.asyncCopy.sectors);
  const double footprint = std::min(asked, double(profile.footprint ? profile.footprint : asked));
  const double missed = footprint ? std::max(0.0, 1 - machine.cacheMegabytes * 1e6 / footprint) : 0;
  const double fromMemory = footprint + (asked - footprint) * missed;

  Together together;
  together.add(cycles / (machine.gigahertz * 1e3));
  together.add(asked / (machine.cacheBytesPerClock * machine.gigahertz * 1e3));
  together.add(fromMemory / (machine.memoryGigabytes * 1e3));
  return launchMicroseconds + together.time();
}

} // namespace sectile::autotune
