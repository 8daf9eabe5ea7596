// What goes on beside the threads and is done at a moment of its own: bulk copies, tiles of
// tensors, and the arrival of a thread's copies at an mbarrier.
#pragma once
#include "vgpu/HappensBefore.h"
#include "vgpu/MachineAbi.h"
#include "vgpu/TensorMap.h"
#include <cstdint>
#include <memory>
#include <vector>

namespace sectile::vgpu {

// 16 bytes of shared memory, and where they belong in global memory. Only those from `low` up to
// `high` do.
struct CopyPiece {
  uint32_t shared;
  uint16_t low, high;
  uint64_t global; // of the first of the 16
};

struct Thread;

struct Transfer {
  enum class Kind : uint8_t { Arrival, Load, Store };

  Kind kind = Kind::Arrival;
  Thread *thread = nullptr; // who issued it
  uint32_t site = 0;
  // Of the thread when it issued it; null without checks.
  uint32_t clock = 0;
  Knowledge *knowledge = nullptr;
  std::shared_ptr<const BlocksSeen> others;

  uint32_t mbarrier = 0; // of arrivals and loads
  uint32_t copies = 0;   // for an arrival, the thread's copies before this number

  // Of loads and stores.
  std::vector<CopyPiece> pieces;
  uint32_t bytes = 0; // of the whole box
  TensorType type = TensorType::U8;
  bool fillsWithNaN = false;

  // Of stores: how they combine with what is there, the number of their thread's group, and what
  // they have read once they have.
  BulkOp op = BulkOp::Store;
  uint32_t group = 0;
  bool isRead = false;
  std::vector<char> data; // 16 bytes of each piece
};

} // namespace sectile::vgpu
