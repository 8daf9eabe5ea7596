// wgmma: fragments as PTX lays them out, operands in shared memory as descriptors say, and when
// they are read.
#include "runtime/virtual/MmaKernels.h"
#include "runtime/virtual/WarpOps.h"
#include <bit>
#include <cassert>
#include <cstring>

namespace sectile::vgpu {
namespace {

constexpr unsigned lanes = 32, warpRows = 16, warpsOfGroup = 4;

// A token has the sign, the exponent of NaN, 16 bits for the sums and 7 for the register.
constexpr uint32_t tokenBase = 0xff800000u, tokenMask = 0xff800000u;
constexpr unsigned registerBits = 7, mostSums = 1u << 16;

uint32_t tokenOf(uint32_t sums, uint32_t reg) { return tokenBase | sums << registerBits | reg; }
bool isToken(uint32_t word) { return (word & tokenMask) == tokenBase; }
uint32_t sumsOf(uint32_t token) { return token >> registerBits & (mostSums - 1); }
uint32_t registerOf(uint32_t token) { return token & ((1u << registerBits) - 1); }

// PTX ISA, "Register fragments for wgmma.mma_async.m64nNk16": the place of register `reg` of a lane
// in the 16 rows of its warp.
uint32_t sumIndex(unsigned lane, unsigned reg, unsigned columns) {
  const unsigned row = lane / 4 + 8 * (reg / 2 % 2), column = reg / 4 * 8 + lane % 4 * 2 + reg % 2;
  return row * columns + column;
}

// PTX ISA, "Matrix descriptor format" and "Strides": the first address, the two strides, and how
// chunks of 16 bytes are permuted.
struct Descriptor {
  uint32_t start, leading, stride, line; // bytes; a line of 16 is not permuted

  explicit Descriptor(uint64_t word) {
    auto bytes = [&](unsigned shift) { return uint32_t(word >> shift & 0x3fff) << 4; };
    start = bytes(0);
    leading = bytes(16);
    stride = bytes(32);
    constexpr uint32_t lines[] = {16, 128, 64, 32};
    line = lines[word >> 62];
  }

  // The chunk of 16 bytes along K of a row, or, of a turned operand, along the rows at one k.
  uint32_t chunkOf(uint32_t row, uint32_t chunk) const {
    const uint32_t perLine = line / 16;
    uint32_t address = start + row % 8 * line + row / 8 * stride;
    address += perLine == 1 ? chunk * leading : chunk / perLine * leading + chunk % perLine * 16;
    return permuted(address);
  }
  uint32_t turnedChunk(uint32_t k, uint32_t chunk) const {
    const uint32_t perLine = line / 16;
    uint32_t address = start + k % 8 * line;
    address += perLine == 1 ? k / 8 * leading + chunk * stride
                            : k / 8 * stride + chunk / perLine * leading + chunk % perLine * 16;
    return permuted(address);
  }

private:
  uint32_t permuted(uint32_t address) const { return address ^ (address >> 3 & (line - 16)); }
};

} // namespace

// The operand as rows of K, read by the first lane in the name of all.
void Block::readOperand(Warp &warp, const WarpgroupDots::Dot &dot, uint64_t word, bool turned,
                        uint32_t rows, char *to) {
  constexpr uint32_t chunkBytes = 16, bytes = 2, perChunk = chunkBytes / bytes;
  const Descriptor descriptor(word);
  const uint32_t k = dot.shape.k, rowBytes = k * bytes;
  auto at = [&](uint32_t offset) -> const char * {
    if (!launch->checks)
      return sharedAt(offset);
    Thread &thread = laneOf(warp, 0);
    if (!checkShared(thread, offset, chunkBytes, dot.site) ||
        !checkOperand(thread, dot, offset, chunkBytes))
      return nullptr;
    return sharedAt(offset);
  };
  if (!turned) {
    for (uint32_t row = 0; row < rows; ++row)
      for (uint32_t chunk = 0; chunk < rowBytes / chunkBytes; ++chunk) {
        const char *from = at(descriptor.chunkOf(row, chunk));
        if (!from)
          return;
        std::memcpy(to + row * rowBytes + chunk * chunkBytes, from, chunkBytes);
      }
    return;
  }
  for (uint32_t step = 0; step < k; ++step)
    for (uint32_t chunk = 0; chunk < rows / perChunk; ++chunk) {
      const char *from = at(descriptor.turnedChunk(step, chunk));
      if (!from)
        return;
      for (uint32_t i = 0; i < perChunk; ++i)
        std::memcpy(to + (chunk * perChunk + i) * rowBytes + step * bytes, from + i * bytes, bytes);
    }
}

void Block::runDot(Warp &warp, WarpgroupDots::Dot &dot) {
  if (dot.isDone)
    return;
  dot.isDone = true;
  const WarpgroupShape &shape = dot.shape;
  const uint32_t rowBytes = shape.k * 2;
  std::vector<char> a(warpRows * rowBytes), b(shape.n * rowBytes);
  if (shape.aInRegisters) {
    // As the A of mma.m16n8k16.
    for (unsigned lane = 0; lane < lanes; ++lane)
      for (unsigned reg = 0; reg < 4; ++reg)
        std::memcpy(a.data() + (lane / 4 + 8 * (reg % 2)) * rowBytes +
                        (lane % 4 + 4 * (reg / 2)) * 4,
                    &dot.aWords[lane * 4 + reg], 4);
  } else {
    std::vector<char> all(warpsOfGroup * warpRows * rowBytes);
    readOperand(warp, dot, dot.a, shape.turnsA, warpsOfGroup * warpRows, all.data());
    std::memcpy(a.data(), all.data() + warp.index % warpsOfGroup * a.size(), a.size());
  }
  if (!failed())
    readOperand(warp, dot, dot.b, shape.turnsB, shape.n, b.data());
  if (failed())
    return;
  WarpgroupDots::Sums &sums = warp.dots.sums.at(dot.sums);
  const auto multiply = shape.a == Element::F16 ? mmaKernels().f16 : mmaKernels().bf16;
  float d[warpRows * mmaN];
  for (uint32_t column = 0; column < shape.n; column += mmaN) {
    for (unsigned row = 0; row < warpRows; ++row)
      std::memcpy(d + row * mmaN, &sums.numbers[row * shape.n + column], sizeof(float) * mmaN);
    multiply(reinterpret_cast<uint16_t *>(a.data()),
             reinterpret_cast<uint16_t *>(b.data() + column * rowBytes), d, warpRows, shape.k);
    for (unsigned row = 0; row < warpRows; ++row)
      std::memcpy(&sums.numbers[row * shape.n + column], d + row * mmaN, sizeof(float) * mmaN);
  }
  --sums.underWay;
}

// Sums, then the descriptor of A or its registers, then the descriptor of B.
void Block::startDot(Warp &warp, uint32_t site, const WarpgroupShape &shape) {
  WarpgroupDots &own = warp.dots;
  Thread &first = laneOf(warp, 0);
  auto refuse = [&](const std::string &why) {
    report(FindingKind::BadOperand, first, site, placeOf(site) + " " + why);
  };
  const uint32_t count = shape.n / 2;
  own.sites.push_back(site);
  for (unsigned i = 0; i < warpsOfGroup; ++i) {
    const unsigned index = warp.index / warpsOfGroup * warpsOfGroup + i;
    if (index >= warps.size())
      return refuse("is not issued by four whole warps");
    const std::vector<uint32_t> &others = warps[index].dots.sites;
    if (others.size() >= own.sites.size() && others[own.sites.size() - 1] != site)
      return refuse("is issued while another warp of its four is at " +
                    placeOf(others[own.sites.size() - 1]));
  }
  synchronize(warp, warp.present);
  const uint32_t token = first.registers[0];
  uint32_t number = isToken(token) ? sumsOf(token) : 0;
  bool chains = own.sums.contains(number);
  for (unsigned lane = 0; lane < lanes && chains; ++lane)
    for (uint32_t reg = 0; reg < count; ++reg)
      if (laneOf(warp, lane).registers[reg] != tokenOf(number, reg))
        return refuse("adds to some of the sums of another one");
  if ((!chains || shape.aInRegisters) && !own.fenced)
    return refuse("takes registers without a wgmma.fence since they may have been written");
  if (chains && own.sums[number].registers != count)
    return refuse("adds to sums of another width");
  if (!chains) {
    number = own.nextSums++ % mostSums;
    WarpgroupDots::Sums &sums = own.sums[number];
    sums = {count, 0, std::vector<float>(warpRows * shape.n)};
    for (unsigned lane = 0; lane < lanes; ++lane)
      for (uint32_t reg = 0; reg < count; ++reg)
        sums.numbers[sumIndex(lane, reg, shape.n)] =
            std::bit_cast<float>(laneOf(warp, lane).registers[reg]);
  }
  WarpgroupDots::Dot dot{number, shape, 0, 0, {}, site, first.knowledge};
  const uint32_t *operands = first.registers + count;
  auto wide = [](const uint32_t *words) { return words[0] | uint64_t(words[1]) << 32; };
  const uint32_t aWords = shape.aInRegisters ? 4 : 2;
  if (shape.aInRegisters)
    for (unsigned lane = 0; lane < lanes; ++lane) {
      const uint32_t *words = laneOf(warp, lane).registers + count;
      dot.aWords.insert(dot.aWords.end(), words, words + aWords);
    }
  else
    dot.a = wide(operands);
  dot.b = wide(operands + aWords);
  for (unsigned lane = 0; lane < lanes; ++lane)
    if (std::memcmp(laneOf(warp, lane).registers + count + (shape.aInRegisters ? aWords : 0),
                    operands + (shape.aInRegisters ? aWords : 0),
                    4 * (shape.aInRegisters ? 2 : 4)) != 0)
      return refuse("is given other descriptors by thread " +
                    std::to_string(laneOf(warp, lane).index));
  if (dot.knowledge)
    ++first.knowledge->users;
  ++own.sums[number].underWay;
  own.dots.push_back(std::move(dot));
  ++own.uncommitted;
  for (unsigned lane = 0; lane < lanes; ++lane)
    for (uint32_t reg = 0; reg < count; ++reg)
      laneOf(warp, lane).registers[reg] = tokenOf(number, reg);
  // It may be over at once, or not before the wait.
  if (launch->seed && random(2))
    for (WarpgroupDots::Dot &each : own.dots)
      if (!failed())
        runDot(warp, each);
}

void Block::waitDots(Warp &warp, uint32_t registers, uint32_t mayStay) {
  WarpgroupDots &own = warp.dots;
  size_t land = 0;
  while (own.groups.size() > mayStay) {
    land += own.groups.front();
    own.groups.pop_front();
  }
  synchronize(warp, warp.present);
  for (; land > 0 && !failed(); --land) {
    WarpgroupDots::Dot &dot = own.dots.front();
    const bool early = dot.isDone;
    runDot(warp, dot);
    if (early && launch->checks && !failed())
      readAgain(warp, dot);
    if (dot.knowledge)
      dropKnowledge(dot.knowledge);
    own.dots.pop_front();
  }
  own.fenced = false;
  for (unsigned lane = 0; lane < lanes && !failed(); ++lane)
    for (uint32_t reg = 0; reg < registers; ++reg) {
      uint32_t &word = laneOf(warp, lane).registers[reg];
      auto of = isToken(word) ? own.sums.find(sumsOf(word)) : own.sums.end();
      if (of != own.sums.end() && of->second.underWay == 0)
        word = std::bit_cast<uint32_t>(
            of->second.numbers[sumIndex(lane, registerOf(word), 2 * of->second.registers)]);
    }
  std::erase_if(own.sums, [](const auto &each) { return each.second.underWay == 0; });
}

// What was read early must not change before the wait either.
void Block::readAgain(Warp &warp, const WarpgroupDots::Dot &dot) {
  std::vector<char> unused(size_t(std::max(64u, dot.shape.n)) * dot.shape.k * 2);
  if (!dot.shape.aInRegisters)
    readOperand(warp, dot, dot.a, dot.shape.turnsA, warpsOfGroup * warpRows, unused.data());
  if (!failed())
    readOperand(warp, dot, dot.b, dot.shape.turnsB, dot.shape.n, unused.data());
}

bool Block::checkOperand(Thread &thread, const WarpgroupDots::Dot &dot, uint32_t offset,
                         uint32_t bytes) {
  Actor actor = actorOf(thread, dot.site);
  actor.knowledge = dot.knowledge;
  std::optional<Conflict> conflict = shadow.readByProxy(actor, offset - sharedOrigin, bytes);
  if (conflict)
    reportConflict(thread, dot.site, *conflict);
  return !failed();
}

void runWarpgroupOp(const WarpOp &op) {
  if (!op.wholeWarp())
    return;
  WarpgroupDots &own = op.warp.dots;
  switch (op.op) {
  case Op::WarpgroupFence:
    own.fenced = true;
    break;
  case Op::WarpgroupMma:
    op.block.startDot(op.warp, op.site, WarpgroupShape::decode(op.modifiers));
    break;
  case Op::WarpgroupCommit:
    own.groups.push_back(own.uncommitted);
    own.uncommitted = 0;
    break;
  default: // a wait
    op.block.waitDots(op.warp, op.modifiers & 0xffff, op.modifiers >> 16);
  }
}

} // namespace sectile::vgpu
