// The blocks of a cluster, which run together on one host thread, and what they have in common. A
// launch without clusters has clusters of one block.
#pragma once
#include "vgpu/Finding.h"
#include "vgpu/HappensBefore.h"
#include "vgpu/Mbarrier.h"
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace sectile::vgpu {

class Block;
struct LaunchContext;
struct Thread;

class Cluster {
public:
  Cluster();
  Cluster(const Cluster &) = delete;
  ~Cluster();

  // Makes room for so many blocks, whose counters start at zero.
  void prepare(const LaunchContext &launch);
  // Runs one cluster to its end, or to its first finding.
  // It is the launch's cluster `linearCluster`, and so many were started before it.
  std::optional<Finding> run(const LaunchContext &launch, uint64_t started, uint64_t linearCluster);

  // It stopped without a finding, as another cluster had one.
  bool wasAbandoned() const;

  std::vector<std::unique_ptr<Block>> blocks; // by rank; those up to `size` take part
  uint32_t size = 1;
  uint64_t number = 0;   // among the launch's clusters
  uint64_t position = 0; // in the order in which these are started

  // Threads are numbered through the cluster, with room for whole warps in each block; agents come
  // after them.
  uint32_t threadsPerBlock = 0;
  uint32_t threadCount() const { return size * threadsPerBlock; }
  uint32_t newAgent(std::string name);
  std::string nameOf(uint32_t threadOrAgent) const;

  Knowledge *newKnowledge();
  void drop(Knowledge *knowledge);
  uint32_t topClock = 1;
  uint32_t origin = 1; // the first clock of the threads

  // Changes whenever something does that a polling thread could see.
  uint64_t progress = 0;

  // barrier.cluster: its arrivals are those of all threads that live.
  Mbarrier barrier;
  std::vector<Thread *> sleepers;

private:
  bool help();

  const LaunchContext *launch = nullptr;
  std::vector<std::string> agents;
  std::vector<std::unique_ptr<Knowledge>> allKnowledge;
  std::vector<Knowledge *> freeKnowledge;
  // What `progress` was when no thread could go on the last time, and how often in a row.
  uint64_t lastProgress = 0;
  unsigned idleRounds = 0;
};

} // namespace sectile::vgpu
