// Shuffles, votes and the other warp operations.
#include "runtime/virtual/WarpOps.h"
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
  case Op::Mma:
    runMma(op);
    break;
  case Op::LdMatrix:
  case Op::StMatrix:
    runMatrixMove(op);
    break;
  default:
    reduce(op);
  }
}

} // namespace sectile::vgpu
