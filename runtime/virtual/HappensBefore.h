// Order among the threads of a launch, in logical time.
//
// Every thread has a clock, which moves when it takes part in a synchronisation, and knows up to
// which clock it has seen each other thread of its block. An access (thread, clock) happened before
// a thread's present when that thread has seen `clock` of it. What a thread knows of other blocks
// it has by acquiring what they released.
#pragma once
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace sectile::vgpu {

// Up to which clock each thread of the block has been seen. Shared by threads that synchronised
// together.
struct Knowledge {
  std::vector<uint32_t> seen;
  uint32_t least = 0; // the smallest of `seen`
  uint32_t users = 0;
};

// What is known of several blocks: up to which clock each of their threads has been seen. Released
// with an atomic operation, and acquired by who reads what that wrote.
class BlocksSeen {
public:
  using Seen = std::shared_ptr<const std::vector<uint32_t>>; // by the block's thread

  // Null where nothing of the block is known.
  const std::vector<uint32_t> *of(uint64_t block) const;
  bool sees(uint64_t block, uint32_t thread, uint32_t clock) const {
    const std::vector<uint32_t> *seen = of(block);
    return seen && (*seen)[thread] >= clock;
  }
  bool isEmpty() const { return blocks.empty(); }
  void add(const BlocksSeen &other);
  void add(uint64_t block, Seen seen) {
    BlocksSeen one;
    one.blocks.emplace_back(block, std::move(seen));
    add(one);
  }

private:
  std::vector<std::pair<uint64_t, Seen>> blocks; // sorted
};

// Who accesses: a thread at its clock, or for reads several lanes of one warp, of which `thread` is
// one.
struct Actor {
  uint32_t thread;
  uint32_t warp;
  uint64_t lanes;
  uint32_t clock;
  uint32_t site;
  const Knowledge *knowledge;

  // Whether it has not seen what the block's `other` did at `then`.
  bool isUnordered(uint32_t other, uint32_t then) const {
    return then > knowledge->least && other != thread && knowledge->seen[other] < then;
  }
};

} // namespace sectile::vgpu
