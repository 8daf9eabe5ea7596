// Layout: validation, application, inverse and composition.
#include "ir/layout/Layout.h"
#include "ir/layout/Gf2.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Sequence.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Support/MathExtras.h"
#include <cassert>

namespace sectile {

static const char *nameOf(In in) {
  static const char *names[] = {"register", "lane", "warp", "block", "offset"};
  return names[unsigned(in)];
}

// The inputs in the order in which bits count as needed.
static llvm::ArrayRef<In> inputsOf(Layout::Kind kind) {
  static const In distributed[] = {In::Register, In::Lane, In::Warp, In::Block};
  static const In shared[] = {In::Offset, In::Block};
  return kind == Layout::Kind::Shared ? llvm::ArrayRef(shared) : llvm::ArrayRef(distributed);
}

static std::nullopt_t fail(std::string *why, const llvm::Twine &message) {
  if (why)
    *why = message.str();
  return std::nullopt;
}

// Row-major position of mixed-radix digits, and back.
static int64_t repeatIndex(const Layout &layout, llvm::ArrayRef<int64_t> digits) {
  int64_t index = 0;
  for (unsigned d = 0; d < layout.rank(); ++d)
    index = index * layout.repeats(d) + digits[d];
  return index;
}

static Coordinates repeatDigits(const Layout &layout, int64_t index) {
  Coordinates digits(layout.rank());
  for (unsigned d = layout.rank(); d-- > 0;) {
    digits[d] = index % layout.repeats(d);
    index /= layout.repeats(d);
  }
  return digits;
}

Layout::Layout(Kind kind, llvm::ArrayRef<int64_t> shape, const PackedBases &bases)
    : theKind(kind), theShape(shape), bases(bases) {
  for (int64_t extent : shape)
    theCoreBits.push_back(llvm::countr_zero(uint64_t(extent)));
}

// Bits of the core of a shape that layouts can have.
static std::optional<unsigned> checkedCoreBits(llvm::ArrayRef<int64_t> shape, std::string *why) {
  unsigned total = 0;
  int64_t repeats = 1;
  for (int64_t extent : shape) {
    if (extent <= 0)
      return fail(why, "a layout's extents must be positive, got " + llvm::Twine(extent));
    unsigned bits = llvm::countr_zero(uint64_t(extent));
    total += bits;
    if (llvm::MulOverflow(repeats, extent >> bits, repeats) || repeats >> 31)
      return fail(why, "a layout may have at most 2^31 repeats of its core");
  }
  if (total > 31)
    return fail(why,
                "a layout's power-of-two core may have at most 2^31 elements, this one has 2^" +
                    llvm::Twine(total));
  return total;
}

std::optional<Layout> Layout::makePacked(Kind kind, llvm::ArrayRef<int64_t> shape,
                                         const PackedBases &bases, std::string *why) {
  std::optional<unsigned> coreBits = checkedCoreBits(shape, why);
  if (!coreBits)
    return std::nullopt;
  unsigned total = *coreBits;
  llvm::ArrayRef<In> inputs = inputsOf(kind);
  unsigned hardwareBits = 0;
  for (unsigned i = 0; i < numIns; ++i) {
    if (!bases[i].empty() && !llvm::is_contained(inputs, In(i)))
      return fail(why, llvm::Twine(kind == Kind::Shared ? "a shared" : "a distributed") +
                           " layout has no " + nameOf(In(i)) + " bits");
    hardwareBits += bases[i].size();
  }
  if (hardwareBits > 60)
    return fail(why, "a layout may have at most 60 hardware bits, this one has " +
                         llvm::Twine(hardwareBits));
  Layout layout(kind, shape, bases);
  Gf2Basis space;
  unsigned number = 0;
  for (In in : inputs)
    for (auto [bit, vector] : llvm::enumerate(layout.packed(in))) {
      if (uint64_t(vector) >> total)
        return fail(why, llvm::Twine(nameOf(in)) + " bit " + llvm::Twine(bit) +
                             " points outside the power-of-two core");
      bool independent = space.insert(vector, number++);
      if (in == In::Offset && !independent)
        return fail(why, "offset bit " + llvm::Twine(bit) +
                             " adds nothing: a shared layout holds each element of a block once");
    }
  if (space.rank() == total)
    return layout;
  for (unsigned d = 0; d < layout.rank(); ++d)
    for (unsigned b = 0; b < layout.coreBits(d); ++b)
      if (!space.spans(uint64_t(1) << (layout.shift(d) + b)))
        return fail(why, "no place holds the element at coordinate " + llvm::Twine(1 << b) +
                             " of dimension " + llvm::Twine(d) + " (zero elsewhere)");
  llvm_unreachable("some unit vector is outside a space of lower rank");
}

std::optional<Layout> Layout::make(Kind kind, llvm::ArrayRef<int64_t> shape,
                                   const CoordinateBases &bases, std::string *why) {
  if (!checkedCoreBits(shape, why))
    return std::nullopt;
  Layout empty(kind, shape, {});
  PackedBases packed;
  for (unsigned i = 0; i < numIns; ++i)
    for (auto [bit, vector] : llvm::enumerate(bases[i])) {
      if (vector.size() != shape.size())
        return fail(why, llvm::Twine(nameOf(In(i))) + " bit " + llvm::Twine(bit) + " has " +
                             llvm::Twine(vector.size()) + " coordinates, the tensor has " +
                             llvm::Twine(shape.size()) + " dimensions");
      for (auto [d, coordinate] : llvm::enumerate(vector))
        if (coordinate < 0 || coordinate >= empty.core(d))
          return fail(why, llvm::Twine(nameOf(In(i))) + " bit " + llvm::Twine(bit) +
                               " has coordinate " + llvm::Twine(coordinate) + " in dimension " +
                               llvm::Twine(d) + ", whose power-of-two core is " +
                               llvm::Twine(empty.core(d)));
      packed[i].push_back(empty.pack(vector));
    }
  return makePacked(kind, shape, packed, why);
}

Layout Layout::fromPacked(Kind kind, llvm::ArrayRef<int64_t> shape, const PackedBases &bases) {
  std::optional<Layout> layout = makePacked(kind, shape, bases);
  assert(layout && "bases that are no layout");
  return *std::move(layout);
}

unsigned Layout::coreBits() const {
  unsigned total = 0;
  for (uint8_t bits : theCoreBits)
    total += bits;
  return total;
}

unsigned Layout::numRepeats() const {
  unsigned total = 1;
  for (unsigned d = 0; d < rank(); ++d)
    total *= repeats(d);
  return total;
}

unsigned Layout::shift(unsigned dim) const {
  unsigned below = 0;
  for (unsigned d = dim + 1; d < rank(); ++d)
    below += theCoreBits[d];
  return below;
}

uint32_t Layout::pack(llvm::ArrayRef<int64_t> coordinates) const {
  uint32_t packed = 0;
  for (unsigned d = 0; d < rank(); ++d)
    packed = packed << theCoreBits[d] | uint32_t(coordinates[d] & (core(d) - 1));
  return packed;
}

Coordinates Layout::unpack(uint32_t packed) const {
  Coordinates coordinates(rank());
  for (unsigned d = rank(); d-- > 0;) {
    coordinates[d] = packed & uint32_t(core(d) - 1);
    packed >>= theCoreBits[d];
  }
  return coordinates;
}

uint32_t Layout::applyPacked(const Place &place) const {
  uint32_t result = 0;
  for (unsigned i = 0; i < numIns; ++i)
    for (auto [bit, vector] : llvm::enumerate(bases[i]))
      if (place.at[i] >> bit & 1)
        result ^= vector;
  return result;
}

// The input whose numbers count the repeats.
static In repeatedInput(const Layout &layout) {
  return layout.isShared() ? In::Offset : In::Register;
}

Coordinates Layout::apply(const Place &place) const {
  In in = repeatedInput(*this);
  Place inCore = place;
  inCore[in] = place[in] & (size(in) - 1);
  Coordinates coordinates = unpack(applyPacked(inCore));
  if (uint32_t repeat = place[in] >> bits(in)) {
    Coordinates digits = repeatDigits(*this, repeat);
    for (unsigned d = 0; d < rank(); ++d)
      coordinates[d] += digits[d] << theCoreBits[d];
  }
  return coordinates;
}

LayoutInverse Layout::inverse() const { return LayoutInverse(*this); }

uint32_t Layout::freeBits(In which) const {
  Gf2Basis space;
  for (In in : inputsOf(theKind)) {
    uint32_t free = 0;
    for (auto [bit, vector] : llvm::enumerate(packed(in)))
      if (!space.insert(vector, 0))
        free |= 1u << bit;
    if (in == which)
      return free;
  }
  return 0;
}

unsigned Layout::contiguousPerThread(unsigned dim) const {
  unsigned low = shift(dim), count = 0;
  llvm::ArrayRef<uint32_t> registers = packed(In::Register);
  while (count < registers.size() && count < theCoreBits[dim] &&
         registers[count] == 1u << (low + count))
    ++count;
  // Vectors must start at multiples of their length: nothing else may move within one.
  auto disturbs = [&](unsigned vectorBits) {
    uint32_t within = ((1u << vectorBits) - 1) << low;
    for (In in : inputsOf(theKind))
      for (auto [bit, vector] : llvm::enumerate(packed(in)))
        if ((vector & within) && (in != In::Register || bit >= vectorBits))
          return true;
    return false;
  };
  while (count && disturbs(count))
    --count;
  return 1u << count;
}

llvm::hash_code hash_value(const Layout &layout) {
  llvm::hash_code code = llvm::hash_combine(
      layout.theKind, llvm::hash_combine_range(layout.theShape.begin(), layout.theShape.end()));
  for (const auto &vectors : layout.bases)
    code = llvm::hash_combine(code, vectors.size(),
                              llvm::hash_combine_range(vectors.begin(), vectors.end()));
  return code;
}

LayoutInverse::LayoutInverse(const Layout &layout) : layout(layout) {
  Gf2Basis space;
  llvm::SmallVector<std::pair<In, unsigned>, 24> numbered;
  for (In in : inputsOf(layout.kind()))
    for (auto [bit, vector] : llvm::enumerate(layout.packed(in))) {
      space.insert(vector, numbered.size());
      numbered.push_back({in, bit});
    }
  for (unsigned b = 0; b < layout.coreBits(); ++b) {
    uint64_t combination = *space.express(uint64_t(1) << b);
    Place place;
    for (; combination; combination &= combination - 1) {
      auto [in, bit] = numbered[llvm::countr_zero(combination)];
      place[in] ^= 1u << bit;
    }
    columns.push_back(place);
  }
}

Place LayoutInverse::ofPacked(uint32_t packed) const {
  Place place;
  for (; packed; packed &= packed - 1)
    place ^= columns[llvm::countr_zero(packed)];
  return place;
}

Place LayoutInverse::operator()(llvm::ArrayRef<int64_t> coordinates) const {
  Place place = ofPacked(layout.pack(coordinates));
  Coordinates digits;
  for (auto [d, coordinate] : llvm::enumerate(coordinates))
    digits.push_back(coordinate >> layout.coreBits(d));
  In in = repeatedInput(layout);
  place[in] += repeatIndex(layout, digits) << layout.bits(in);
  return place;
}

PlaceMap PlaceMap::compose(const Layout &from, const Layout &to) {
  assert(from.shape() == to.shape() && "composition of layouts of two shapes");
  PlaceMap map;
  LayoutInverse inverse = to.inverse();
  for (unsigned i = 0; i < numIns; ++i)
    for (uint32_t vector : from.packed(In(i)))
      map.bases[i].push_back(inverse.ofPacked(vector));
  map.repeatedFrom = repeatedInput(from);
  map.repeatedTo = repeatedInput(to);
  map.toSize = to.size(map.repeatedTo);
  return map;
}

Place PlaceMap::core(const Place &place) const {
  Place result;
  for (unsigned i = 0; i < numIns; ++i)
    for (auto [bit, image] : llvm::enumerate(bases[i]))
      if (place.at[i] >> bit & 1)
        result ^= image;
  return result;
}

Place PlaceMap::operator()(const Place &place) const {
  Place inCore = place;
  unsigned coreBits = bits(repeatedFrom);
  inCore[repeatedFrom] &= (1u << coreBits) - 1;
  Place result = core(inCore);
  result[repeatedTo] += (place[repeatedFrom] >> coreBits) * toSize;
  return result;
}

std::optional<llvm::SmallVector<unsigned, 16>> registersInThread(const Layout &from,
                                                                 const Layout &to) {
  assert(from.shape() == to.shape() && "layouts of two shapes");
  for (In in : {In::Lane, In::Warp, In::Block})
    if (from.packed(in) != to.packed(in))
      return std::nullopt;
  Gf2Basis space;
  for (auto [bit, vector] : llvm::enumerate(from.packed(In::Register)))
    space.insert(vector, bit);
  llvm::SmallVector<unsigned, 16> images;
  for (uint32_t vector : to.packed(In::Register)) {
    std::optional<uint64_t> image = space.express(vector);
    if (!image)
      return std::nullopt;
    images.push_back(*image);
  }
  llvm::SmallVector<unsigned, 16> registers;
  for (unsigned repeat = 0; repeat < to.numRepeats(); ++repeat)
    for (unsigned reg = 0; reg < to.coreRegisters(); ++reg) {
      unsigned source = 0;
      for (auto [bit, image] : llvm::enumerate(images))
        if (reg >> bit & 1)
          source ^= image;
      registers.push_back(repeat * from.coreRegisters() + source);
    }
  return registers;
}

std::optional<llvm::SmallVector<unsigned, 16>> broadcastRegisters(const Layout &operand,
                                                                  const Layout &result) {
  Layout collapsed = result;
  auto registers = llvm::to_vector<16>(llvm::seq(0u, result.numRegisters()));
  for (unsigned d = 0; d < operand.rank(); ++d)
    if (operand.shape()[d] != result.shape()[d]) {
      assert(operand.shape()[d] == 1 && "a broadcast starts from an extent of one");
      for (unsigned &reg : registers)
        reg = collapsed.squeezedRegister(d, reg);
      collapsed = collapsed.collapse(d);
    }
  auto inThread = registersInThread(operand, collapsed);
  if (!inThread)
    return std::nullopt;
  for (unsigned &reg : registers)
    reg = (*inThread)[reg];
  return registers;
}

} // namespace sectile
