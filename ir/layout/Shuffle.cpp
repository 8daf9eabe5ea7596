// Plans a conversion within warps as exchanges of registers between lanes.
#include "ir/layout/Conversion.h"
#include "ir/layout/Gf2.h"
#include "llvm/ADT/STLExtras.h"
#include <algorithm>

namespace sectile {

namespace {

// A register and a lane of the source.
struct Origin {
  uint32_t reg = 0, lane = 0;
  Origin &operator^=(const Origin &other) {
    reg ^= other.reg;
    lane ^= other.lane;
    return *this;
  }
};

// A way to have a lane read elsewhere: another register of the destination first, or another copy.
struct Detour {
  uint32_t destinationRegister;
  Origin origin;
};

} // namespace

bool ShufflePlan::laneMapIsIdentity() const {
  for (auto [bit, column] : llvm::enumerate(laneColumns))
    if (column != 1u << bit)
      return false;
  return true;
}

// Where the source holds a packed coordinate, within the warp.
static std::optional<Origin> findOrigin(const Gf2Basis &basis, unsigned laneBits, uint32_t packed) {
  std::optional<uint64_t> combination = basis.express(packed);
  if (!combination)
    return std::nullopt;
  return Origin{uint32_t(*combination >> laneBits),
                uint32_t(*combination & ((1u << laneBits) - 1))};
}

// Destination register rho of lane d comes, in round rho, as register rho ^ after(d): every lane
// then reads one register of one lane, and which register a lane sends depends on that lane alone.
std::optional<ShufflePlan> planShuffles(const Layout &source, const Layout &destination,
                                        unsigned elementBits) {
  unsigned laneBits = source.bits(In::Lane), sourceBits = source.bits(In::Register),
           destinationBits = destination.bits(In::Register);
  if (source.packed(In::Warp) != destination.packed(In::Warp) ||
      laneBits != destination.bits(In::Lane) || destination.freeBits(In::Register))
    return std::nullopt;

  // Lanes before registers: an element that other lanes hold as well may come from any of them.
  Gf2Basis registers, all;
  llvm::SmallVector<Detour, 16> detours;
  for (unsigned bit = 0; bit < laneBits + sourceBits; ++bit) {
    bool isLane = bit < laneBits;
    uint32_t vector =
        isLane ? source.packed(In::Lane)[bit] : source.packed(In::Register)[bit - laneBits];
    if (!isLane)
      registers.insert(vector, bit);
    auto copy = findOrigin(all, laneBits, vector);
    if (copy) {
      *copy ^= isLane ? Origin{0, 1u << bit} : Origin{1u << (bit - laneBits), 0};
      detours.push_back({0, *copy});
    }
    all.insert(vector, bit);
  }
  auto originOf = [&](uint32_t packed) { return findOrigin(all, laneBits, packed); };

  llvm::SmallVector<Origin, 8> ofRegister;
  for (auto [bit, vector] : llvm::enumerate(destination.packed(In::Register))) {
    std::optional<Origin> origin = findOrigin(registers, laneBits, vector);
    if (!origin)
      origin = originOf(vector);
    if (!origin)
      return std::nullopt;
    ofRegister.push_back(*origin);
    detours.push_back({1u << bit, *origin});
  }

  // Per destination lane bit: where its register `after` is found.
  llvm::SmallVector<uint32_t, 6> after(laneBits, 0);
  llvm::SmallVector<Origin, 6> ofLane(laneBits);
  Gf2Basis needed; // the destination's registers, then its lanes
  for (auto [bit, vector] : llvm::enumerate(destination.packed(In::Register)))
    needed.insert(vector, laneBits + bit);
  Gf2Basis modDetours;
  for (const Detour &detour : detours)
    modDetours.insert(detour.origin.lane);
  llvm::SmallVector<std::pair<unsigned, uint64_t>, 6>
      copies; // lane bits that repeat earlier places
  llvm::SmallVector<unsigned, 6> fixed, flexible;
  for (unsigned bit = 0; bit < laneBits; ++bit) {
    uint32_t vector = destination.packed(In::Lane)[bit];
    if (std::optional<uint64_t> relation = needed.express(vector)) {
      copies.push_back({bit, *relation});
      continue;
    }
    needed.insert(vector, bit);
    // From the same lane where possible.
    std::optional<Origin> origin =
        findOrigin(registers, laneBits, vector ^ source.packed(In::Lane)[bit]);
    if (origin)
      origin->lane ^= 1u << bit;
    else
      origin = originOf(vector);
    if (!origin)
      return std::nullopt;
    ofLane[bit] = *origin;
    (modDetours.insert(origin->lane) ? fixed : flexible).push_back(bit);
  }
  // The lanes read from must differ wherever the destination's lanes do.
  Gf2Basis lanes;
  for (unsigned bit : fixed)
    lanes.insert(ofLane[bit].lane, bit);
  for (unsigned bit : flexible) {
    bool placed = lanes.insert(ofLane[bit].lane, bit);
    for (const Detour &detour : detours) {
      if (placed)
        break;
      if (lanes.insert(ofLane[bit].lane ^ detour.origin.lane, bit)) {
        ofLane[bit] ^= detour.origin;
        after[bit] ^= detour.destinationRegister;
        placed = true;
      }
    }
    if (!placed)
      return std::nullopt;
  }
  for (auto [bit, relation] : copies) {
    // A lane that has a copy itself need not ask another.
    std::optional<Origin> own = findOrigin(
        registers, laneBits, destination.packed(In::Lane)[bit] ^ source.packed(In::Lane)[bit]);
    if (own && lanes.insert(own->lane ^ 1u << bit, bit)) {
      ofLane[bit] = *own ^= Origin{0, 1u << bit};
      continue;
    }
    uint64_t lanesInIt = relation & ((1u << laneBits) - 1);
    ofLane[bit] = gf2Combine(ofLane, lanesInIt);
    // ofLane already stands for register `after`; what the relation has in registers is the rest.
    after[bit] = gf2Combine(after, lanesInIt) ^ uint32_t(relation >> laneBits);
  }

  ShufflePlan plan;
  plan.after = after;
  for (const Origin &origin : ofLane)
    plan.laneColumns.push_back(origin.lane);
  // What a lane sends, as a map of its own number: the inverse of the lane map, then the register.
  for (unsigned bit = 0; bit < laneBits; ++bit)
    lanes.insert(uint64_t(1) << bit, laneBits + bit);
  for (unsigned bit = 0; bit < laneBits; ++bit) {
    uint64_t readers = *lanes.express(uint64_t(1) << bit) & ((1u << laneBits) - 1);
    plan.before.push_back(gf2Combine(ofLane, readers).reg);
  }

  llvm::SmallVector<uint32_t, 6> before = plan.before;
  unsigned packable = std::max(1u, 32 / std::max(elementBits, 8u));
  for (uint32_t round = 0; round < 1u << destinationBits; ++round) {
    Origin origin = gf2Combine(ofRegister, round);
    unsigned from = origin.reg ^ gf2Combine(before, origin.lane);
    auto fits = [&](const ShufflePlan::Exchange &exchange) {
      return exchange.laneXor == origin.lane && exchange.from.size() < packable;
    };
    auto exchange = llvm::find_if(plan.exchanges, fits);
    if (exchange == plan.exchanges.end()) {
      plan.exchanges.emplace_back();
      exchange = std::prev(plan.exchanges.end());
      exchange->laneXor = origin.lane;
    }
    exchange->from.push_back(from);
    exchange->to.push_back(round);
  }
  return plan;
}

} // namespace sectile
