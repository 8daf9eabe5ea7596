// Bulk copies and tiles of tensors: pieces, checks, and what happens when they are done.
#include "vgpu/Block.h"
#include "vgpu/Program.h"
#include "vgpu/SmallFloats.h"
#include "vgpu/Swizzle.h"
#include <algorithm>
#include <bit>
#include <cstring>

namespace sectile::vgpu {
namespace {

constexpr uint32_t pieceBytes = 16;
// Where a tile may lie in shared memory.
constexpr uint32_t tileAlignment = 128;

// The element that is read outside of a tensor, repeated.
void fill(char *to, TensorType type, bool isNaN) {
  std::memset(to, isNaN ? 0xff : 0, pieceBytes);
  if (isNaN) // a positive one
    for (unsigned last = bytesOf(type) - 1; last < pieceBytes; last += bytesOf(type))
      to[last] = 0x7f;
}

// The box at these coordinates, row by row. Pieces at a row's end are read as far as the tensor
// goes, and written whole.
std::vector<CopyPiece> piecesOf(const TensorMap &map, const uint32_t *coordinates, uint32_t shared,
                                bool isLoad) {
  const auto elementBytes = int64_t(bytesOf(map.type));
  uint32_t rows = 1;
  for (unsigned i = 1; i < map.rank; ++i)
    rows *= map.taken(i);
  std::vector<CopyPiece> pieces;
  pieces.reserve(size_t(rows) * map.rowBytes() / pieceBytes);
  for (uint32_t row = 0; row < rows; ++row) {
    bool isInside = true;
    uint64_t address = map.address;
    uint32_t rest = row;
    for (unsigned i = 1; i < map.rank; ++i) {
      const int64_t at =
          int64_t(int32_t(coordinates[i])) + int64_t(rest % map.taken(i)) * map.steps[i];
      rest /= map.taken(i);
      isInside &= at >= 0 && uint64_t(at) < map.extents[i];
      address += uint64_t(at) * map.strides[i - 1];
    }
    const int64_t first = int64_t(int32_t(coordinates[0])) * elementBytes,
                  lastElement = int64_t(map.extents[0]) * elementBytes,
                  end = isLoad ? lastElement
                               : (lastElement + pieceBytes - 1) / pieceBytes * pieceBytes;
    for (uint32_t done = 0; done < map.rowBytes(); done += pieceBytes) {
      const int64_t at = first + done; // in the tensor's row
      auto within = [&](int64_t byte) {
        return uint16_t(std::clamp<int64_t>(byte - at, 0, pieceBytes));
      };
      const uint32_t place = shared + row * map.rowPitch() + done;
      pieces.push_back({swizzled(place, map.swizzle ? map.swizzle : pieceBytes),
                        isInside ? within(0) : uint16_t(0), isInside ? within(end) : uint16_t(0),
                        address + uint64_t(at)});
    }
  }
  return pieces;
}

template <class Number> Number reduced(BulkOp op, Number there, Number here) {
  switch (op) {
  case BulkOp::Add:
    return Number(there + here);
  case BulkOp::Min:
    return std::min(there, here);
  case BulkOp::Max:
    return std::max(there, here);
  case BulkOp::Inc:
    return there >= here ? Number(0) : Number(there + 1);
  default: // Dec
    return there == 0 || there > here ? here : Number(there - 1);
  }
}

// PTX: minNum and maxNum of the two halves' values.
float reducedHalf(BulkOp op, float there, float here) {
  if (op == BulkOp::Add)
    return there + here;
  if (std::isnan(there) || std::isnan(here))
    return std::isnan(there) ? here : there;
  return op == BulkOp::Min ? std::min(there, here) : std::max(there, here);
}

// The element's bits after the reduction.
template <class Bits> Bits reducedBits(TensorType type, BulkOp op, Bits there, Bits here) {
  if (op == BulkOp::And)
    return there & here;
  if (op == BulkOp::Or)
    return there | here;
  if (op == BulkOp::Xor)
    return there ^ here;
  auto as = [&]<class Number>(Number) {
    return std::bit_cast<Bits>(
        reduced(op, std::bit_cast<Number>(there), std::bit_cast<Number>(here)));
  };
  if constexpr (sizeof(Bits) == 2) {
    if (type == TensorType::F16)
      return halfFromFloat(reducedHalf(op, floatFromHalf(there), floatFromHalf(here)));
    return bfloatFromFloat(reducedHalf(op, floatFromBfloat(there), floatFromBfloat(here)));
  } else if constexpr (sizeof(Bits) == 4) {
    return type == TensorType::F32   ? as(float())
           : type == TensorType::S32 ? as(int32_t())
                                     : as(there);
  } else {
    return type == TensorType::F64   ? as(double())
           : type == TensorType::S64 ? as(int64_t())
                                     : as(there);
  }
}

// What PTX can combine in global memory.
bool canReduce(TensorType type, BulkOp op) {
  switch (type) {
  case TensorType::U32:
    return true;
  case TensorType::S32:
  case TensorType::U64:
  case TensorType::S64:
    return op != BulkOp::Inc && op != BulkOp::Dec;
  case TensorType::F16:
  case TensorType::BF16:
    return op == BulkOp::Add || op == BulkOp::Min || op == BulkOp::Max;
  case TensorType::F32:
  case TensorType::F64:
    return op == BulkOp::Add;
  default:
    return false;
  }
}

// Blocks of other host threads may do the same there.
template <class Bits> void combine(TensorType type, BulkOp op, uint64_t address, const char *from) {
  auto *place = std::bit_cast<Bits *>(address);
  Bits here, there = __atomic_load_n(place, __ATOMIC_RELAXED);
  std::memcpy(&here, from, sizeof here);
  while (!__atomic_compare_exchange_n(place, &there, reducedBits(type, op, there, here), false,
                                      __ATOMIC_RELAXED, __ATOMIC_RELAXED))
    ;
}

void combineAll(TensorType type, BulkOp op, uint64_t address, const char *from, uint32_t bytes) {
  const uint32_t width = bytesOf(type);
  for (uint32_t at = 0; at < bytes; at += width)
    if (width == 2)
      combine<uint16_t>(type, op, address + at, from + at);
    else if (width == 4)
      combine<uint32_t>(type, op, address + at, from + at);
    else
      combine<uint64_t>(type, op, address + at, from + at);
}

} // namespace

// The map that a kernel names, from the thread's own variables or global memory.
const TensorMap &Block::tensorMapAt(Thread &thread, uint32_t site, uint64_t address,
                                    unsigned dimensions) {
  const auto low = reinterpret_cast<uint64_t>(stacks.low(thread.index));
  const bool isPrivate = address >= low && address + sizeof(TensorMap) <= low + stacks.bytes();
  if (!isPrivate && !checkGlobal(thread, address, sizeof(TensorMap), site, "tensor map of "))
    stop(thread);
  if (!checkAligned(thread, address, alignof(TensorMap), site))
    stop(thread);
  const TensorMap &map = *std::bit_cast<const TensorMap *>(address);
  if (map.magic == TensorMap::magicNumber && map.rank == dimensions)
    return map;
  report(FindingKind::BadOperand, thread, site,
         placeOf(site) + (map.magic == TensorMap::magicNumber
                              ? " is given a tensor map of rank " + std::to_string(map.rank)
                              : std::string(" is given no tensor map")));
  stop(thread);
}

// What ends with an illegal instruction on a chip. PTX says neither.
void Block::checkCoordinates(Thread &thread, uint32_t site, BulkOp op, const TensorMap &map,
                             const uint32_t *coordinates) {
  if (coordinates[0] * bytesOf(map.type) % pieceBytes) {
    report(FindingKind::Misaligned, thread, site,
           placeOf(site) + " begins at element " + std::to_string(int32_t(coordinates[0])) +
               " of the tensor's rows, which is no multiple of 16 bytes");
    stop(thread);
  }
  for (unsigned i = 0; i < map.rank && op != BulkOp::Load; ++i)
    if (int32_t(coordinates[i]) < 0) {
      report(FindingKind::BadOperand, thread, site,
             placeOf(site) + " begins at a negative coordinate, " +
                 std::to_string(int32_t(coordinates[i])) + ", which only loads may");
      stop(thread);
    }
}

// registers: shared address, mbarrier, tensor map (two words), blocks, coordinates.
void Block::copyTensor(Thread &thread, uint32_t site, BulkOp op, unsigned dimensions,
                       const uint32_t *registers) {
  const uint64_t address = registers[2] | uint64_t(registers[3]) << 32;
  const TensorMap &map = tensorMapAt(thread, site, address, dimensions);
  if (!checkAligned(thread, registers[0], tileAlignment, site))
    stop(thread);
  const uint32_t *coordinates = registers + 5;
  checkCoordinates(thread, site, op, map, coordinates);
  Transfer transfer;
  transfer.pieces = piecesOf(map, coordinates, registers[0], op == BulkOp::Load);
  transfer.bytes = uint32_t(transfer.pieces.size()) * pieceBytes;
  transfer.type = map.type;
  transfer.fillsWithNaN = map.fillsWithNaN;
  if (op != BulkOp::Load && op != BulkOp::Store && !canReduce(map.type, op)) {
    report(FindingKind::BadOperand, thread, site,
           placeOf(site) + " is given a tensor map of a type that it cannot combine");
    stop(thread);
  }
  start(thread, site, op, registers[1], registers[4], std::move(transfer));
}

// registers: shared address, mbarrier, global address (two words), blocks, bytes.
void Block::copyBulk(Thread &thread, uint32_t site, BulkOp op, const uint32_t *registers) {
  const uint32_t shared = registers[0], bytes = registers[5];
  const uint64_t global = registers[2] | uint64_t(registers[3]) << 32;
  if (!checkAligned(thread, shared, pieceBytes, site) ||
      !checkAligned(thread, global, pieceBytes, site))
    stop(thread);
  if (!bytes || bytes % pieceBytes) {
    report(FindingKind::BadOperand, thread, site,
           placeOf(site) + " of " + std::to_string(bytes) + " bytes, which is no multiple of 16");
    stop(thread);
  }
  Transfer transfer;
  transfer.bytes = bytes;
  for (uint32_t done = 0; done < bytes; done += pieceBytes)
    transfer.pieces.push_back({shared + done, 0, uint16_t(pieceBytes), global + done});
  start(thread, site, op, registers[1], registers[4], std::move(transfer));
}

// `blocks`: those of the cluster that get a load, each at the same place; 0: whose address it is.
void Block::start(Thread &thread, uint32_t site, BulkOp op, uint32_t mbarrier, uint32_t blocks,
                  Transfer transfer) {
  transfer.kind = op == BulkOp::Load ? Transfer::Kind::Load : Transfer::Kind::Store;
  transfer.op = op;
  transfer.thread = &thread;
  transfer.site = site;
  transfer.mbarrier = mbarrier;
  for (const CopyPiece &piece : transfer.pieces)
    if (!checkShared(thread, piece.shared, pieceBytes, site, op == BulkOp::Load) ||
        (piece.high > piece.low &&
         !checkGlobal(thread, piece.global + piece.low, piece.high - piece.low, site,
                      op == BulkOp::Load ? "bulk load of " : "bulk store of ")))
      stop(thread);
  if (launch->checks) {
    shadowLog(thread);
    if (failed())
      stop(thread);
    transfer.clock = thread.clock;
    transfer.knowledge = thread.knowledge;
    transfer.others = thread.others;
  }
  if (launch->counters)
    countTransfer(transfer);
  if (op == BulkOp::Load) {
    startLoads(thread, blocks, transfer);
  } else {
    if (transfer.knowledge)
      ++transfer.knowledge->users;
    startStore(thread, transfer);
    transfers.push_back(std::move(transfer));
  }
  if (failed())
    stop(thread);
}

// A load for each block that gets it, at the same place, with the mbarrier at the same place.
void Block::startLoads(Thread &thread, uint32_t blocks, const Transfer &transfer) {
  Block &home = homeOf(transfer.pieces.front().shared);
  if (blocks >> cluster.size || &homeOf(transfer.mbarrier) != &home) {
    report(FindingKind::BadOperand, thread, transfer.site,
           placeOf(transfer.site) + " names blocks that the cluster does not have, or an mbarrier "
                                    "of another block than it copies to");
    return;
  }
  bool isFirst = true;
  for (uint32_t rest = blocks ? blocks : 1u << home.rank; rest && !failed(); rest &= rest - 1) {
    Block &target = *cluster.blocks[size_t(std::countr_zero(rest))];
    // It is done there, where the addresses are the block's own.
    Transfer part = transfer;
    part.mbarrier = offsetOf(part.mbarrier);
    for (CopyPiece &piece : part.pieces)
      piece.shared = offsetOf(piece.shared);
    if (part.knowledge)
      ++part.knowledge->users;
    startLoad(thread, target, part, isFirst);
    target.transfers.push_back(std::move(part));
    isFirst = false;
  }
}

void Block::startLoad(Thread &thread, Block &target, const Transfer &transfer, bool readsGlobal) {
  const uint32_t base = clusterTag | target.rank << clusterRankShift;
  const Mbarrier &barrier = mbarrierAt(thread, transfer.site, base | transfer.mbarrier);
  if (launch->checks) {
    const bool isFenced =
        barrier.initFence && (barrier.initThread == thread.who ||
                              thread.knowledge->sees(barrier.initThread, barrier.initFence + 1));
    if (!isFenced)
      report(FindingKind::MissingProxyFence, thread, transfer.site,
             placeOf(transfer.site) +
                 " uses an mbarrier that was initialised without a fence "
                 "for the asynchronous proxy behind it: " +
                 placeOf(barrier.initSite));
  }
  for (const CopyPiece &piece : transfer.pieces) {
    if (failed())
      return;
    if (launch->checks) {
      if (readsGlobal && piece.high > piece.low) {
        const uint64_t address = piece.global + piece.low;
        thread.lastRange = &launch->ranges[rangeAt(address)];
        checkOrder(thread, address, uint32_t(piece.high - piece.low) | accessByEngine,
                   transfer.site);
      }
      if (auto conflict = target.shadow.issueByAgent(actorOf(thread, transfer.site),
                                                     piece.shared - sharedOrigin, pieceBytes))
        reportConflict(thread, transfer.site, *conflict);
    }
    // The bytes are nobody's until the copy has landed.
    std::memset(target.sharedStart + piece.shared, 0xff, pieceBytes);
  }
}

void Block::startStore(Thread &thread, Transfer &transfer) {
  transfer.group = thread.bulkGroups;
  thread.lastStoreSite = transfer.site;
  thread.lastStoreGroup = transfer.group;
  if (!launch->checks)
    return;
  if (!thread.bulkAgent)
    thread.bulkAgent = cluster.newAgent("a bulk store of " + cluster.nameOf(thread.who));
  thread.bulkClock = ++cluster.topClock;
  Actor actor{thread.bulkAgent, 0, 0, thread.bulkClock, transfer.site, thread.knowledge};
  // What the thread itself wrote is before it, but not yet known as a clock of its own.
  Knowledge *own = cluster.newKnowledge();
  own->users = 1;
  own->seen = thread.knowledge->seen;
  learn(own->seen, thread.who, thread.clock);
  own->findLeast();
  actor.knowledge = own;
  for (const CopyPiece &piece : transfer.pieces)
    if (piece.high > piece.low && !failed())
      if (auto conflict = shadow.readByAgent(actor, piece.shared - sharedOrigin + piece.low,
                                             uint32_t(piece.high - piece.low)))
        reportConflict(thread, transfer.site, *conflict);
  cluster.drop(own);
}

void Block::countTransfer(const Transfer &transfer) {
  AccessCounters &counters = siteCounters[transfer.site].access;
  ++counters.requests;
  for (size_t i = 0; i < transfer.pieces.size();) {
    // What is contiguous counts together.
    const CopyPiece &first = transfer.pieces[i];
    MemoryRange run{first.global + first.low, first.global + first.high};
    for (++i; i < transfer.pieces.size(); ++i) {
      const CopyPiece &next = transfer.pieces[i];
      if (next.global + next.low != run.high || next.low == next.high)
        break;
      run.high = next.global + next.high;
    }
    if (run.low == run.high)
      continue;
    counters.bytes += run.high - run.low;
    countSectors(counters, run, transfer.kind == Transfer::Kind::Load);
  }
}

// Something that goes on beside the threads takes its next step. True when it is done.
bool Block::advance(Transfer &transfer) {
  switch (transfer.kind) {
  case Transfer::Kind::Arrival:
    finishArrival(transfer);
    break;
  case Transfer::Kind::Load:
    finishLoad(transfer);
    break;
  case Transfer::Kind::Store:
    if (!transfer.isRead) {
      readForStore(transfer);
      return false;
    }
    finishStore(transfer);
    break;
  }
  cluster.drop(transfer.knowledge);
  return true;
}

// The oldest one, or with a seed any.
bool Block::advanceTransfer() {
  if (transfers.empty())
    return false;
  const size_t chosen = launch->seed ? random(uint32_t(transfers.size())) : 0;
  ++cluster.progress;
  if (advance(transfers[chosen]))
    transfers.erase(transfers.begin() + ptrdiff_t(chosen));
  return true;
}

void Block::finishLoad(const Transfer &transfer) {
  Thread &thread = *transfer.thread;
  const auto found = mbarriers.find(transfer.mbarrier);
  Mbarrier *barrier = found == mbarriers.end() ? nullptr : &found->second;
  if (barrier && !barrier->agent)
    barrier->agent = cluster.newAgent("a bulk load");
  const uint32_t clock = ++cluster.topClock;
  for (const CopyPiece &piece : transfer.pieces) {
    const auto bytes = uint32_t(piece.high - piece.low);
    const uint64_t address = piece.global + piece.low;
    if (launch->checks && bytes && !checkLanding(thread, transfer, address, bytes))
      return;
    char *target = sharedStart + piece.shared;
    if (bytes < pieceBytes)
      fill(target, transfer.type, transfer.fillsWithNaN);
    std::memcpy(target + piece.low, std::bit_cast<const void *>(address), bytes);
    if (launch->checks && barrier)
      shadow.landByAgent(barrier->agent, clock, piece.shared - sharedOrigin, pieceBytes);
  }
  if (!barrier)
    return;
  barrier->loadedPhase = barrier->phase + 1;
  barrier->loadSite = transfer.site;
  if (launch->checks)
    learn(barrier->arriving, barrier->agent, clock);
  if (addBytes(thread, transfer.site, *barrier, transfer.mbarrier, -int64_t(transfer.bytes)))
    completePhase(*barrier);
}

void Block::readForStore(Transfer &transfer) {
  transfer.data.resize(transfer.pieces.size() * pieceBytes);
  char *to = transfer.data.data();
  for (const CopyPiece &piece : transfer.pieces) {
    std::memcpy(to, sharedStart + piece.shared, pieceBytes);
    to += pieceBytes;
  }
  transfer.isRead = true;
}

void Block::finishStore(const Transfer &transfer) {
  Thread &thread = *transfer.thread;
  const char *from = transfer.data.data();
  const bool combines = transfer.op != BulkOp::Store;
  for (const CopyPiece &piece : transfer.pieces) {
    const auto bytes = uint32_t(piece.high - piece.low);
    const uint64_t address = piece.global + piece.low;
    if (bytes && launch->checks) {
      thread.lastRange = &launch->ranges[rangeAt(address)];
      if (!checkOrder(thread, address,
                      bytes | accessStore | accessByEngine | (combines ? accessAtomic : 0),
                      transfer.site))
        return;
    }
    if (combines)
      combineAll(transfer.type, transfer.op, address, from + piece.low, bytes);
    else
      std::memcpy(std::bit_cast<void *>(address), from + piece.low, bytes);
    from += pieceBytes;
  }
}

void Block::commitBulk(Thread &thread) {
  ++thread.bulkGroups;
  thread.bulkClocks.push_back(thread.bulkClock);
}

// All but the latest groups have read shared memory, and written global memory unless the thread
// only waits for the reads.
void Block::waitForBulk(Thread &thread, uint32_t site, uint32_t mayStay, bool onlyReads) {
  ++thread.ticks;
  if (launch->checks)
    shadowLog(thread);
  const uint32_t waited = thread.bulkGroups - std::min(thread.bulkGroups, mayStay);
  thread.bulkWaited = std::max(thread.bulkWaited, waited);
  for (size_t i = 0; i < transfers.size() && !failed();) {
    Transfer &transfer = transfers[i];
    const bool isOurs = transfer.kind == Transfer::Kind::Store && transfer.thread == &thread &&
                        transfer.group < waited;
    bool isDone = false;
    while (isOurs && !isDone && !failed() && !(onlyReads && transfer.isRead))
      isDone = advance(transfer);
    if (isDone)
      transfers.erase(transfers.begin() + ptrdiff_t(i));
    else
      ++i;
  }
  ++cluster.progress;
  if (failed()) {
    thread.site = site;
    stop(thread);
  }
  if (launch->checks && thread.bulkAgent && waited)
    learnOf(*thread.warpState, uint64_t(1) << thread.lane, thread.bulkAgent,
            thread.bulkClocks[waited - 1]);
}

// A thread has ended: its stores must have read shared memory, which may be another block's now.
void Block::endBulkOf(const Thread &thread) {
  if (thread.lastStoreSite != ~0u && thread.lastStoreGroup >= thread.bulkWaited)
    report(FindingKind::MissingWait, thread, thread.lastStoreSite,
           "the thread ends and has never waited for " + placeOf(thread.lastStoreSite) +
               " to read shared memory");
}

// All threads have ended. Stores go on; loads must have been waited for.
void Block::finishTransfers() {
  while (!transfers.empty() && !failed()) {
    if (transfers.front().kind == Transfer::Kind::Load && launch->checks) {
      report(FindingKind::MissingWait, *transfers.front().thread, transfers.front().site,
             "the block ends and nothing has waited for " + placeOf(transfers.front().site));
      return;
    }
    if (advance(transfers.front()))
      transfers.erase(transfers.begin());
  }
  for (const auto &[address, barrier] : mbarriers)
    if (launch->checks && barrier.loadedPhase > barrier.seenPhase && !failed())
      report(FindingKind::MissingWait, threads[barrier.initThread % cluster.threadsPerBlock],
             barrier.loadSite,
             "the block ends and nothing has waited for " + placeOf(barrier.loadSite));
}

} // namespace sectile::vgpu
