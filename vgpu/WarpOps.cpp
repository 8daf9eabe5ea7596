// Shuffles, votes and the other warp operations.
#include "vgpu/WarpOps.h"
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

namespace sectile::vgpu {
namespace {

constexpr uint64_t bit(unsigned lane) { return uint64_t(1) << lane; }

template <class Body> void eachLane(uint64_t lanes, Body body) {
  for (; lanes; lanes &= lanes - 1)
    body(unsigned(std::countr_zero(lanes)));
}

// shfl.sync: value, lane operand, clamp word (segment mask in bits 8-12, clamp in bits 0-4).
void shuffle(const WarpOp &op) {
  uint32_t values[64] = {}, results[64], valid[64];
  eachLane(op.lanes, [&](unsigned lane) { values[lane] = op.registers(lane)[0]; });
  eachLane(op.lanes, [&](unsigned lane) {
    const uint32_t *registers = op.registers(lane);
    uint32_t operand = registers[1] & 31, clamp = registers[2] & 31,
             segment = registers[2] >> 8 & 31;
    uint32_t highest = (lane & segment) | (clamp & ~segment), lowest = lane & segment;
    uint32_t source = 0;
    bool inside = false;
    switch (op.op) {
    case Op::ShuffleUp:
      source = lane - operand;
      inside = int32_t(source) >= int32_t(highest);
      break;
    case Op::ShuffleDown:
      source = lane + operand;
      inside = source <= highest;
      break;
    case Op::ShuffleXor:
      source = lane ^ operand;
      inside = source <= highest;
      break;
    default:
      source = lowest | (operand & ~segment);
      inside = source <= highest;
    }
    if (!inside)
      source = lane;
    valid[lane] = inside;
    results[lane] = values[source];
    if (!(op.lanes & bit(source)) && !op.block.failed())
      op.block.report(FindingKind::BadOperand, op.block.laneOf(op.warp, lane), op.site,
                      "a shuffle reads lane " + std::to_string(source) +
                          ", which does not take part");
  });
  eachLane(op.lanes, [&](unsigned lane) {
    uint32_t *registers = op.registers(lane);
    registers[0] = results[lane];
    registers[1] = valid[lane];
  });
}

void vote(const WarpOp &op) {
  uint64_t trueLanes = 0;
  eachLane(op.lanes, [&](unsigned lane) {
    if (op.registers(lane)[0] & 1)
      trueLanes |= bit(lane);
  });
  uint64_t result = op.op == Op::Ballot    ? trueLanes
                    : op.op == Op::VoteAll ? trueLanes == op.lanes
                    : op.op == Op::VoteAny ? trueLanes != 0
                                           : trueLanes == op.lanes || trueLanes == 0;
  eachLane(op.lanes, [&](unsigned lane) {
    op.registers(lane)[0] = uint32_t(result);
    op.registers(lane)[1] = uint32_t(result >> 32);
  });
}

void match(const WarpOp &op) {
  uint64_t values[64];
  eachLane(op.lanes, [&](unsigned lane) {
    const uint32_t *registers = op.registers(lane);
    values[lane] = registers[0] | (op.modifiers & matchWide ? uint64_t(registers[1]) << 32 : 0);
  });
  uint64_t equal[64] = {};
  eachLane(op.lanes, [&](unsigned lane) {
    eachLane(op.lanes, [&](unsigned other) {
      equal[lane] |= values[lane] == values[other] ? bit(other) : 0;
    });
  });
  eachLane(op.lanes, [&](unsigned lane) {
    uint32_t *registers = op.registers(lane);
    bool all = equal[lane] == op.lanes;
    registers[0] = op.op == Op::MatchAny || all ? uint32_t(equal[lane]) : 0;
    registers[1] = all;
  });
}

void elect(const WarpOp &op) {
  auto leader = unsigned(std::countr_zero(op.lanes));
  eachLane(op.lanes, [&](unsigned lane) {
    op.registers(lane)[0] = leader;
    op.registers(lane)[1] = lane == leader;
  });
}

float minMax(const WarpOp &op, float a, float b) {
  if (op.modifiers & reduceNaN && (std::isnan(a) || std::isnan(b)))
    return std::bit_cast<float>(0x7fffffffu);
  if (std::isnan(a) || std::isnan(b))
    return std::isnan(a) ? b : a;
  bool less = a < b || (a == b && std::signbit(a) && !std::signbit(b));
  return less == (op.op == Op::ReduceFMin) ? a : b;
}

uint32_t combine(const WarpOp &op, uint32_t a, uint32_t b) {
  switch (op.op) {
  case Op::ReduceAdd:
    return a + b;
  case Op::ReduceMin:
    return uint32_t(std::min(int32_t(a), int32_t(b)));
  case Op::ReduceMax:
    return uint32_t(std::max(int32_t(a), int32_t(b)));
  case Op::ReduceUMin:
    return std::min(a, b);
  case Op::ReduceUMax:
    return std::max(a, b);
  case Op::ReduceAnd:
    return a & b;
  case Op::ReduceOr:
    return a | b;
  case Op::ReduceXor:
    return a ^ b;
  default:
    return std::bit_cast<uint32_t>(minMax(op, std::bit_cast<float>(a), std::bit_cast<float>(b)));
  }
}

void reduce(const WarpOp &op) {
  bool absolute = (op.op == Op::ReduceFMin || op.op == Op::ReduceFMax) && op.modifiers & reduceAbs;
  uint32_t result = 0;
  bool first = true;
  eachLane(op.lanes, [&](unsigned lane) {
    uint32_t value = op.registers(lane)[0] & (absolute ? 0x7fffffffu : ~0u);
    result = first ? value : combine(op, result, value);
    first = false;
  });
  eachLane(op.lanes, [&](unsigned lane) { op.registers(lane)[0] = result; });
}

// Each lane's first result is what `source` names: a lane whose value to take, or nothing to keep
// `otherwise`.
struct Taken {
  int lane;           // -1: none
  uint32_t otherwise; // where the lane is none, or does not take part
};

template <class Source> void take(const WarpOp &op, unsigned valueWord, Source source) {
  uint32_t values[64] = {}, results[64];
  eachLane(op.lanes, [&](unsigned lane) { values[lane] = op.registers(lane)[valueWord]; });
  eachLane(op.lanes, [&](unsigned lane) {
    Taken taken = source(lane, op.registers(lane));
    bool valid = taken.lane >= 0 && taken.lane < 64 && op.lanes & bit(unsigned(taken.lane));
    results[lane] = valid ? values[taken.lane] : taken.otherwise;
  });
  eachLane(op.lanes, [&](unsigned lane) { op.registers(lane)[0] = results[lane]; });
}

// ds.permute: (byte address of the lane to write to, value). Of several writers the highest lane
// wins.
void permute(const WarpOp &op) {
  unsigned size = op.block.context().warpSize;
  uint32_t results[64] = {};
  eachLane(op.lanes, [&](unsigned lane) {
    const uint32_t *registers = op.registers(lane);
    results[registers[0] / 4 % size] = registers[1];
  });
  eachLane(op.lanes, [&](unsigned lane) { op.registers(lane)[0] = results[lane]; });
}

int swizzled(unsigned lane, uint32_t control) {
  if (control & 0x8000) // four lanes, two bits each
    return int((lane & ~3u) | (control >> 2 * (lane & 3) & 3));
  uint32_t within = (((lane & 31) & (control & 31)) | (control >> 5 & 31)) ^ (control >> 10 & 31);
  return int((lane & ~31u) | within);
}

// Where a lane reads under a DPP control word; -1 beyond its row or wave.
int dppSource(unsigned lane, uint32_t control, unsigned size) {
  int at = int(lane), row = at & ~15, inRow = at & 15, amount = int(control & 15);
  if (control < 0x100)
    return (at & ~3) | int(control >> 2 * (lane & 3) & 3);
  switch (control & ~15u) {
  case 0x100: // row_shl
    return inRow + amount < 16 ? at + amount : -1;
  case 0x110: // row_shr
    return inRow >= amount ? at - amount : -1;
  case 0x120: // row_ror
    return row | ((inRow - amount) & 15);
  case 0x130: // the wave, by one lane
    switch (amount) {
    case 0:
      return at + 1 < int(size) ? at + 1 : -1;
    case 4:
      return (at + 1) % int(size);
    case 8:
      return at - 1;
    default:
      return (at + int(size) - 1) % int(size);
    }
  case 0x140:
    switch (amount) {
    case 0: // row_mirror
      return row | (15 - inRow);
    case 1: // row_half_mirror
      return (at & ~7) | (7 - (at & 7));
    case 2: // row_bcast:15
      return row - 1;
    default: // row_bcast:31
      return at >= 32 ? 31 : -1;
    }
  case 0x150: // row_share
    return row | amount;
  default: // row_xmask
    return at ^ amount;
  }
}

// (old, source, control, row mask, bank mask, bound control)
void dpp(const WarpOp &op) {
  unsigned size = op.block.context().warpSize;
  take(op, 1, [&](unsigned lane, const uint32_t *registers) {
    bool enabled = registers[3] >> lane / 16 % 4 & 1 && registers[4] >> lane % 16 / 4 & 1;
    if (!enabled)
      return Taken{-1, registers[0]};
    return Taken{dppSource(lane, registers[2], size), registers[5] & 1 ? 0 : registers[0]};
  });
}

// permlane16.swap and permlane32.swap: the odd rows of the first value change places with the even
// ones of the second.
void swapRows(const WarpOp &op) {
  unsigned rowSize = op.modifiers;
  uint32_t first[64] = {}, second[64] = {};
  eachLane(op.lanes, [&](unsigned lane) {
    first[lane] = op.registers(lane)[0];
    second[lane] = op.registers(lane)[1];
  });
  eachLane(op.lanes, [&](unsigned lane) {
    bool odd = lane / rowSize % 2;
    op.registers(lane)[0] = odd ? second[lane - rowSize] : first[lane];
    op.registers(lane)[1] = odd ? second[lane] : first[lane + rowSize];
  });
}

// permlane16 and permlanex16: (old, source, places in the row for lanes 0 to 7 of a row, for 8 to
// 15, fetch inactive, bound control). They read from the own row or from the one beside it.
void permuteRows(const WarpOp &op, unsigned otherRow) {
  take(op, 1, [&](unsigned lane, const uint32_t *registers) {
    const unsigned place = registers[lane & 8 ? 3 : 2] >> 4 * (lane & 7) & 15;
    return Taken{int(((lane & ~15u) ^ otherRow) | place), registers[5] & 1 ? 0 : registers[0]};
  });
}

} // namespace

bool WarpOp::wholeWarp() const {
  uint64_t all = block.context().warpSize == 64 ? ~uint64_t(0) : bit(block.context().warpSize) - 1;
  if (lanes == all)
    return true;
  block.report(FindingKind::BadOperand, block.laneOf(warp, unsigned(std::countr_zero(lanes))), site,
               "an operation of the whole warp is reached by only " +
                   std::to_string(std::popcount(lanes)) + " of its lanes");
  return false;
}

void runWarpOp(const WarpOp &op) {
  switch (op.op) {
  case Op::WarpSync:
    op.block.synchronize(op.warp, op.lanes);
    break;
  case Op::ShuffleIdx:
  case Op::ShuffleUp:
  case Op::ShuffleDown:
  case Op::ShuffleXor:
    shuffle(op);
    break;
  case Op::VoteAll:
  case Op::VoteAny:
  case Op::VoteUni:
  case Op::Ballot:
    vote(op);
    break;
  case Op::MatchAny:
  case Op::MatchAll:
    match(op);
    break;
  case Op::Elect:
    elect(op);
    break;
  case Op::ReadFirstLane:
    take(op, 0, [&](unsigned, const uint32_t *) { return Taken{std::countr_zero(op.lanes), 0}; });
    break;
  case Op::ReadLane:
    take(op, 0, [&](unsigned, const uint32_t *registers) {
      return Taken{int(registers[1] % op.block.context().warpSize), 0};
    });
    break;
  case Op::BackPermute:
    take(op, 1, [&](unsigned, const uint32_t *registers) {
      return Taken{int(registers[0] / 4 % op.block.context().warpSize), 0};
    });
    break;
  case Op::Permute:
    permute(op);
    break;
  case Op::Swizzle:
    take(op, 0, [](unsigned lane, const uint32_t *registers) {
      return Taken{swizzled(lane, registers[1]), 0};
    });
    break;
  case Op::Dpp:
    dpp(op);
    break;
  case Op::LaneSwap:
    swapRows(op);
    break;
  case Op::PermuteInRow:
    permuteRows(op, 0);
    break;
  case Op::PermuteAcrossRows:
    permuteRows(op, 16);
    break;
  case Op::Mma:
    runMma(op);
    break;
  case Op::Mfma:
  case Op::Wmma:
  case Op::WmmaHalves:
    runAmdMma(op);
    break;
  case Op::LdMatrix:
  case Op::StMatrix:
    runMatrixMove(op);
    break;
  case Op::WgmmaFence:
    op.block.fenceWgmma(op);
    break;
  case Op::WgmmaCommit:
    op.block.commitWgmma(op);
    break;
  case Op::WgmmaWait:
    op.block.waitForWgmma(op);
    break;
  default:
    reduce(op);
  }
}

} // namespace sectile::vgpu
