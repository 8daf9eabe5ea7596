// Clusters: their blocks in turns, and their barrier.
#include "vgpu/Cluster.h"
#include "vgpu/Block.h"
#include "vgpu/Program.h"
#include <algorithm>

namespace sectile::vgpu {
namespace {

// How often threads that poll go on in vain before they count as stuck.
constexpr unsigned mostIdleRounds = 64;

} // namespace

Cluster::Cluster() = default;
Cluster::~Cluster() = default;

void Cluster::prepare(const LaunchContext &context) {
  size = context.cluster[0] * context.cluster[1] * context.cluster[2];
  while (blocks.size() < size)
    blocks.push_back(std::make_unique<Block>(*this, uint32_t(blocks.size())));
  for (uint32_t rank = 0; rank < size; ++rank) {
    Block &block = *blocks[rank];
    block.siteCounters.assign(context.program->sites().size(), {});
    block.sectorsRead.assign(context.ranges.size(), 0);
    block.instructions = 0;
    block.startClock();
  }
}

std::optional<Finding> Cluster::run(const LaunchContext &context, uint64_t started,
                                    uint64_t linearCluster) {
  launch = &context;
  position = started;
  number = linearCluster;
  const uint32_t count = context.blockSize[0] * context.blockSize[1] * context.blockSize[2];
  threadsPerBlock = (count + context.warpSize - 1) / context.warpSize * context.warpSize;
  agents.clear();
  freeKnowledge.clear();
  for (auto &each : allKnowledge)
    freeKnowledge.push_back(each.get());
  progress = lastProgress = idleRounds = 0;
  if (topClock > 1u << 31) {
    for (auto &block : blocks)
      block->forgetShadow();
    topClock = 1;
  }
  origin = ++topClock;
  barrier = {};
  barrier.expected = barrier.pending = size * count;
  sleepers.clear();
  Knowledge *knowledge = nullptr;
  if (context.checks) {
    knowledge = newKnowledge();
    knowledge->seen.assign(threadCount(), origin - 1);
    // Those that do not exist are no reason to look.
    for (uint32_t i = 0; i < threadCount(); ++i)
      if (i % threadsPerBlock >= count)
        knowledge->seen[i] = ~0u;
    knowledge->findLeast();
  }
  for (uint32_t rank = 0; rank < size; ++rank)
    if (auto finding = blocks[rank]->begin(context, knowledge))
      return finding;

  auto any = [&](auto is) {
    return std::any_of(blocks.begin(), blocks.begin() + size,
                       [&](auto &block) { return is(*block); });
  };
  auto hasFailed = [&] { return any([](const Block &block) { return block.failed(); }); };
  auto lives = [](const Block &block) { return block.isAlive(); };
  while (any(lives) && !hasFailed()) {
    bool ran = false;
    for (uint32_t rank = 0; rank < size && !hasFailed(); ++rank)
      ran |= blocks[rank]->isAlive() && blocks[rank]->proceed();
    if (ran || hasFailed() || help() || hasFailed())
      continue;
    std::string others;
    Block *stuck = nullptr;
    for (uint32_t rank = 0; rank < size; ++rank) {
      if (!stuck && blocks[rank]->isAlive())
        stuck = blocks[rank].get();
      else
        others +=
            "; of rank " + std::to_string(rank) + " of the cluster: " + blocks[rank]->places();
    }
    stuck->diagnoseStuck(others);
  }
  std::optional<Finding> finding;
  for (uint32_t rank = 0; rank < size; ++rank) {
    std::optional<Finding> found = blocks[rank]->end();
    const bool explains = found && finding && finding->kind == FindingKind::Uninitialized &&
                          explainsUninitialized(found->kind);
    if (!finding || explains)
      finding = std::move(found);
  }
  return finding;
}

bool Cluster::wasAbandoned() const {
  return std::any_of(blocks.begin(), blocks.begin() + size,
                     [](const auto &block) { return block->wasAbandoned(); });
}

// No thread can go on by itself. False when nothing helps.
bool Cluster::help() {
  bool any = false;
  for (uint32_t rank = 0; rank < size; ++rank)
    any |= blocks[rank]->resumeFullLogs();
  for (uint32_t rank = 0; rank < size && !any; ++rank)
    any = blocks[rank]->runDivergedWaves();
  for (uint32_t rank = 0; rank < size && !any; ++rank)
    any = blocks[rank]->advanceTransfer();
  if (any)
    return true;
  // Threads that ask for a phase in vain may do something else.
  if (progress == lastProgress && ++idleRounds > mostIdleRounds)
    return false;
  if (progress != lastProgress)
    idleRounds = 0;
  lastProgress = progress;
  for (uint32_t rank = 0; rank < size; ++rank)
    any |= blocks[rank]->resumePolling();
  return any;
}

uint32_t Cluster::newAgent(std::string name) {
  agents.push_back(std::move(name));
  return threadCount() + uint32_t(agents.size()) - 1;
}

std::string Cluster::nameOf(uint32_t threadOrAgent) const {
  if (threadOrAgent >= threadCount())
    return agents[threadOrAgent - threadCount()];
  std::string name = "thread " + std::to_string(threadOrAgent % threadsPerBlock);
  return size == 1 ? name : name + " of rank " + std::to_string(threadOrAgent / threadsPerBlock);
}

Knowledge *Cluster::newKnowledge() {
  if (freeKnowledge.empty()) {
    allKnowledge.push_back(std::make_unique<Knowledge>());
    freeKnowledge.push_back(allKnowledge.back().get());
  }
  Knowledge *result = freeKnowledge.back();
  freeKnowledge.pop_back();
  result->users = 0;
  result->threads = threadCount();
  return result;
}

void Cluster::drop(Knowledge *knowledge) {
  if (knowledge && --knowledge->users == 0)
    freeKnowledge.push_back(knowledge);
}

} // namespace sectile::vgpu
