// Launches: blocks over host threads, and the totals of their counters.
#include "vgpu/Machine.h"
#include "runtime/DefaultArithmetic.h"
#include "runtime/Threads.h"
#include "vgpu/Block.h"
#include "vgpu/Program.h"
#include <algorithm>
#include <atomic>
#include <cstring>
#include <thread>

namespace sectile::vgpu {
namespace {

constexpr uint64_t mostClusterBlocks = 16;

// The parts of an HSA dispatch packet and of the implicit kernel arguments (code object version 5)
// that hold sizes.
struct AmdLaunchData {
  alignas(16) char dispatch[64] = {};
  alignas(16) char implicitArgs[256] = {};

  explicit AmdLaunchData(const LaunchShape &shape) {
    uint16_t dimensions = 1;
    for (int axis = 0; axis < 3; ++axis) {
      auto threads = uint16_t(shape.block[axis]);
      uint32_t total = shape.grid[axis] * shape.block[axis];
      std::memcpy(dispatch + 4 + 2 * axis, &threads, 2);
      std::memcpy(dispatch + 12 + 4 * axis, &total, 4);
      std::memcpy(implicitArgs + 4 * axis, &shape.grid[axis], 4);
      std::memcpy(implicitArgs + 12 + 2 * axis, &threads, 2);
      if (total > 1)
        dimensions = uint16_t(axis + 1);
    }
    std::memcpy(dispatch + 2, &dimensions, 2);
    std::memcpy(implicitArgs + 64, &dimensions, 2);
  }
};

void addSite(Counters &totals, LineCounters &line, const Site &site, const SiteCounters &counters) {
  auto add = [&](AccessCounters Counters::*total, AccessCounters LineCounters::*part) {
    totals.*total += counters.access;
    line.*part += counters.access;
  };
  bool shared = counters.access.idealWavefronts > 0;
  switch (site.kind) {
  case SiteKind::GlobalLoad:
    add(&Counters::globalLoad, &LineCounters::globalLoad);
    break;
  case SiteKind::GlobalStore:
    add(&Counters::globalStore, &LineCounters::globalStore);
    break;
  case SiteKind::GlobalAtomic:
    add(&Counters::globalAtomic, &LineCounters::globalAtomic);
    break;
  case SiteKind::SharedLoad:
  case SiteKind::MatrixLoad:
    add(&Counters::sharedLoad, &LineCounters::sharedLoad);
    break;
  case SiteKind::SharedStore:
  case SiteKind::SharedAtomic:
  case SiteKind::MatrixStore:
    add(&Counters::sharedStore, &LineCounters::sharedStore);
    break;
  case SiteKind::GenericLoad:
    if (shared)
      add(&Counters::sharedLoad, &LineCounters::sharedLoad);
    else
      add(&Counters::globalLoad, &LineCounters::globalLoad);
    break;
  case SiteKind::GenericStore:
  case SiteKind::GenericAtomic:
    if (shared)
      add(&Counters::sharedStore, &LineCounters::sharedStore);
    else if (site.kind == SiteKind::GenericStore)
      add(&Counters::globalStore, &LineCounters::globalStore);
    else
      add(&Counters::globalAtomic, &LineCounters::globalAtomic);
    break;
  case SiteKind::AsyncCopy:
    add(&Counters::asyncCopy, &LineCounters::asyncCopy);
    break;
  case SiteKind::Barrier:
    totals.barriers += counters.executions;
    line.barriers += counters.executions;
    break;
  case SiteKind::Shuffle:
    totals.shuffles += counters.executions;
    line.shuffles += counters.executions;
    break;
  case SiteKind::Mma:
    totals.mma += counters.executions;
    line.mma += counters.executions;
    break;
  case SiteKind::WarpOp:
    totals.warpOperations += counters.executions;
    break;
  case SiteKind::AsyncWait:
  case SiteKind::Trap:
  case SiteKind::Loop:
    break;
  }
}

Counters summarize(const std::vector<Site> &sites, const std::vector<SiteCounters> &counters,
                   uint64_t blocks) {
  Counters totals;
  totals.blocks = blocks;
  std::map<std::pair<std::string, uint32_t>, LineCounters> lines;
  std::map<std::string, uint64_t> mmaKinds;
  for (size_t i = 0; i < sites.size(); ++i) {
    if (counters[i] == SiteCounters())
      continue;
    LineCounters &line = lines[{sites[i].file, sites[i].line}];
    addSite(totals, line, sites[i], counters[i]);
    if (sites[i].kind == SiteKind::Mma)
      mmaKinds[sites[i].name] += counters[i].executions;
  }
  for (auto &[place, line] : lines) {
    std::tie(line.file, line.line) = place;
    totals.lines.push_back(std::move(line));
  }
  for (auto &[name, count] : mmaKinds)
    totals.mmaKinds.push_back({name, count});
  return totals;
}

} // namespace

Machine::Machine(unsigned warpSize) : lanes(warpSize) {}
Machine::~Machine() = default;

std::unique_ptr<Cluster> Machine::takeCluster() {
  std::lock_guard lock(mutex);
  if (idleClusters.empty())
    return std::make_unique<Cluster>();
  std::unique_ptr<Cluster> cluster = std::move(idleClusters.back());
  idleClusters.pop_back();
  return cluster;
}

LaunchResult Machine::launch(const Program &program, const LaunchShape &shape, void **arguments,
                             const LaunchOptions &options) {
  const runtime::DefaultArithmetic arithmetic;
  AmdLaunchData amd(shape);
  LaunchContext context{};
  context.program = &program;
  std::copy_n(shape.grid, 3, context.grid);
  std::copy_n(shape.block, 3, context.blockSize);
  context.hasClusters = shape.cluster[0] || shape.cluster[1] || shape.cluster[2];
  for (int axis = 0; axis < 3; ++axis)
    context.cluster[axis] = std::max(1u, shape.cluster[axis]);
  context.warpSize = lanes;
  context.sharedBytes = program.staticSharedBytes() + shape.sharedBytes;
  context.dynamicBytes = shape.sharedBytes;
  context.arguments = arguments;
  context.dispatch = reinterpret_cast<uint64_t>(amd.dispatch);
  context.implicitArgs = reinterpret_cast<uint64_t>(amd.implicitArgs);
  context.seed = options.seed;
  context.checks = options.checks;
  context.counters = options.counters;
  context.deadline = options.deadline;
  context.ranges = deviceMemory.ranges();
  context.ranges.insert(context.ranges.end(), program.globals().begin(), program.globals().end());
  std::sort(context.ranges.begin(), context.ranges.end(),
            [](const MemoryRange &a, const MemoryRange &b) { return a.low < b.low; });

  std::shared_ptr<GlobalShadow> shadow;
  if (options.checks) {
    shadow = std::make_shared<GlobalShadow>(context.ranges, lanes);
    context.overlapped = options.overlapped.get();
  }
  context.shadow = shadow.get();

  const uint64_t blockCount = uint64_t(shape.grid[0]) * shape.grid[1] * shape.grid[2];
  const uint64_t clusterBlocks =
      uint64_t(context.cluster[0]) * context.cluster[1] * context.cluster[2];
  const uint64_t clusterCount = blockCount / clusterBlocks;
  for (int axis = 0; axis < 3; ++axis)
    if (shape.grid[axis] % context.cluster[axis] || clusterBlocks > mostClusterBlocks) {
      Finding refused;
      refused.kind = FindingKind::BadOperand;
      refused.ofThread = false;
      refused.kernel = program.kernel();
      refused.message = "the clusters of the launch do not divide its grid, or have more than " +
                        std::to_string(mostClusterBlocks) + " blocks";
      return {{}, std::move(refused), {}};
    }
  unsigned workers =
      options.hostThreads ? options.hostThreads : std::max(1u, std::thread::hardware_concurrency());
  workers = unsigned(std::min<uint64_t>(workers, clusterCount));

  std::vector<SiteCounters> counters(program.sites().size());
  std::vector<uint64_t> sectorsRead(context.ranges.size());
  uint64_t instructions = 0;
  // Of the first blocks that have any: a read of what nothing had written, anything else.
  std::optional<Finding> uninitialized, finding;
  uint64_t firstUninitialized = UINT64_MAX;
  std::atomic<uint64_t> blocksDone = 0;
  std::atomic<uint64_t> nextBlock = 0;
  std::mutex resultMutex;
  auto work = [&] {
    std::unique_ptr<Cluster> cluster = takeCluster();
    cluster->prepare(context);
    for (;;) {
      uint64_t position = nextBlock++;
      // Blocks before a failed one still run: theirs would be the finding to report.
      if (position >= clusterCount || position > context.firstFailed)
        break;
      // A seed walks the grid in another order, without changing which blocks there are.
      uint64_t linear =
          options.seed ? (position + options.seed * 2654435761u) % clusterCount : position;
      std::optional<Finding> found = cluster->run(context, position, linear);
      if (!found) {
        if (!cluster->wasAbandoned())
          blocksDone += clusterBlocks;
        continue;
      }
      std::lock_guard lock(resultMutex);
      // A later block's race may be why nothing was written yet: the others still run.
      const bool isUninitialized = found->kind == FindingKind::Uninitialized;
      if (isUninitialized && position < firstUninitialized) {
        firstUninitialized = position;
        uninitialized = std::move(found);
      } else if (!isUninitialized && position < context.firstFailed) {
        context.firstFailed = position;
        finding = std::move(found);
      }
      context.anyFailed = true;
    }
    std::lock_guard lock(resultMutex);
    for (uint32_t rank = 0; rank < cluster->size; ++rank) {
      const Block &block = *cluster->blocks[rank];
      instructions += block.instructions;
      for (size_t i = 0; i < counters.size(); ++i) {
        counters[i].access += block.siteCounters[i].access;
        counters[i].executions += block.siteCounters[i].executions;
      }
      for (size_t i = 0; i < sectorsRead.size(); ++i)
        sectorsRead[i] += block.sectorsRead[i];
    }
    std::lock_guard idleLock(mutex);
    idleClusters.push_back(std::move(cluster));
  };
  if (blockCount) {
    const std::vector<std::jthread> others = startThreads(workers - 1, work);
    work();
  }
  if (uninitialized && !(finding && (context.firstFailed < firstUninitialized ||
                                     explainsUninitialized(finding->kind))))
    finding = std::move(uninitialized);
  if (finding && finding->kind == FindingKind::TimedOut)
    finding->message += "; " + std::to_string(blocksDone) + " of " + std::to_string(blockCount) +
                        " blocks have ended";
  LaunchResult result{summarize(program.sites(), counters, blockCount), std::move(finding), {}};
  result.counters.instructions = instructions;
  if (shadow)
    result.launched = std::make_shared<EarlierLaunch>(
        EarlierLaunch{&program, std::move(shadow),
                      context.holdsNextBack ? nullptr : options.overlapped, nullptr});
  for (size_t i = 0; i < sectorsRead.size(); ++i)
    if (sectorsRead[i])
      result.allocations.push_back({context.ranges[i].low, sectorsRead[i]});
  return result;
}

} // namespace sectile::vgpu
