// Order among the threads of a launch, in logical time.
//
// Every thread has a clock, which moves when it takes part in a synchronisation, and knows up to
// which clock it has seen each other thread of its block. An access (thread, clock) happened before
// a thread's present when that thread has seen `clock` of it. What a thread knows of other blocks
// it has by acquiring what they released.
//
// What goes on beside the threads (a warpgroup's matrix unit) is an agent: it has a number after
// the threads' and a clock of its own, which threads see when they wait for it.
#pragma once
#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace sectile::vgpu {

// Up to which clock each thread has been seen, then each agent; nothing of the agents beyond.
using Seen = std::vector<uint32_t>;

inline void learn(Seen &seen, uint32_t who, uint32_t clock) {
  if (seen.size() <= who)
    seen.resize(who + 1);
  seen[who] = std::max(seen[who], clock);
}

inline void learn(Seen &seen, const Seen &other) {
  if (seen.size() < other.size())
    seen.resize(other.size());
  for (size_t i = 0; i < other.size(); ++i)
    seen[i] = std::max(seen[i], other[i]);
}

// What a thread of the block knows. Shared by threads that synchronised together.
struct Knowledge {
  Seen seen;
  uint32_t threads = 0; // of the block
  uint32_t least = 0;   // the smallest of the threads' in `seen`
  uint32_t users = 0;

  void findLeast() { least = *std::min_element(seen.begin(), seen.begin() + threads); }
  bool sees(uint32_t other, uint32_t then) const {
    return (other < threads && then <= least) || (other < seen.size() && then <= seen[other]);
  }
};

// What is known of several blocks: up to which clock each of their threads has been seen. Released
// with an atomic operation, and acquired by who reads what that wrote.
class BlocksSeen {
public:
  // Null where nothing of the block is known.
  const Seen *of(uint64_t block) const;
  bool sees(uint64_t block, uint32_t thread, uint32_t clock) const {
    const Seen *seen = of(block);
    return seen && (*seen)[thread] >= clock;
  }
  bool isEmpty() const { return blocks.empty(); }
  void add(const BlocksSeen &other);
  void add(uint64_t block, std::shared_ptr<const Seen> seen) {
    BlocksSeen one;
    one.blocks.emplace_back(block, std::move(seen));
    add(one);
  }

private:
  std::vector<std::pair<uint64_t, std::shared_ptr<const Seen>>> blocks; // sorted
};

// Who accesses: a thread or an agent at its clock, or for reads several lanes of one warp, of which
// `thread` is one.
struct Actor {
  uint32_t thread;
  uint32_t warp;
  uint64_t lanes;
  uint32_t clock;
  uint32_t site;
  const Knowledge *knowledge;

  // Whether it has not seen what the block's `other` did at `then`.
  bool isUnordered(uint32_t other, uint32_t then) const {
    return other != thread && !knowledge->sees(other, then);
  }
};

} // namespace sectile::vgpu
