// The table of matrix instructions. Fragments are from the PTX ISA's and from AMD's instruction-set
// documents for CDNA 2 to 4 and RDNA 3 and 4.
#include "ir/MmaInstruction.h"

namespace sectile::mma {
namespace {

using Element = MmaElement;

/// Row and column that a bit of a register's or a lane's number adds.
using Step = std::pair<uint32_t, uint32_t>;

/// The part of an extent that is a power of two: the rest repeats.
int64_t powerOfTwoIn(int64_t extent) { return extent & -extent; }

Layout fragment(int64_t rows, int64_t columns, llvm::ArrayRef<Step> registers,
                llvm::ArrayRef<Step> lanes) {
  Layout::PackedBases bases;
  auto add = [&](In in, llvm::ArrayRef<Step> steps) {
    for (auto [row, column] : steps)
      bases[unsigned(in)].push_back(uint32_t(row * powerOfTwoIn(columns) + column));
  };
  add(In::Register, registers);
  add(In::Lane, lanes);
  return Layout::fromPacked(Layout::Kind::Distributed, {rows, columns}, bases);
}

/// The same fragment of the transposed matrix.
Layout transposed(const Layout &fragment) { return fragment.permute({1, 0}); }

unsigned bitsOf(Element element) {
  switch (element) {
  case Element::F64:
    return 64;
  case Element::TF32:
  case Element::F32:
  case Element::I32:
    return 32;
  case Element::F16:
  case Element::BF16:
    return 16;
  case Element::F8E4M3:
  case Element::F8E5M2:
  case Element::F8E4M3FNUZ:
  case Element::F8E5M2FNUZ:
  case Element::I8:
    return 8;
  }
  llvm_unreachable("an unknown matrix element");
}

/// Bits of a number's place along one dimension, from `first` on: steps of one operand's columns.
void addColumns(llvm::SmallVectorImpl<Step> &steps, unsigned first, unsigned end) {
  for (unsigned step = first; step < end; step *= 2)
    steps.push_back({0, step});
}

void addRows(llvm::SmallVectorImpl<Step> &steps, unsigned first, unsigned end) {
  for (unsigned step = first; step < end; step *= 2)
    steps.push_back({step, 0});
}

//===-- mma.sync ------------------------------------------------------------------------------===//

/// An operand's matrix with K along the columns. A word's elements are neighbours along K, then
/// four lanes, then eight lanes along the rows; more rows and more of K go to registers.
Layout syncOperand(unsigned rows, unsigned k, unsigned bits) {
  llvm::SmallVector<Step> registers, lanes;
  unsigned perWord = std::max(1u, 32 / bits);
  addColumns(registers, 1, perWord);
  addColumns(lanes, perWord, 4 * perWord);
  addRows(lanes, 1, 8);
  addRows(registers, 8, rows);
  addColumns(registers, 4 * perWord, k);
  return fragment(rows, k, registers, lanes);
}

MmaInstruction sync(Element a, Element b, Element sum, unsigned m, unsigned k) {
  constexpr unsigned n = 8;
  llvm::SmallVector<Step> registers{{0, 1}}, lanes{{0, 2}, {0, 4}, {1, 0}, {2, 0}, {4, 0}};
  addRows(registers, 8, m);
  return {a,
          b,
          sum,
          m,
          n,
          k,
          syncOperand(m, k, bitsOf(a)),
          transposed(syncOperand(n, k, bitsOf(b))),
          fragment(m, n, registers, lanes)};
}

//===-- wgmma ---------------------------------------------------------------------------------===//

/// Of one warp the same fragments as those of mma.sync, its sums as many side by side as n asks.
MmaInstruction warpgroup(Element a, Element b, Element sum, unsigned n) {
  const unsigned k = 256 / bitsOf(a);
  llvm::SmallVector<Step> registers{{0, 1}, {8, 0}}, lanes{{0, 2}, {0, 4}, {1, 0}, {2, 0}, {4, 0}};
  addColumns(registers, 8, powerOfTwoIn(n));
  MmaInstruction instruction{
      a, b, sum, 64, n, k, syncOperand(16, k, bitsOf(a)), {}, fragment(16, n, registers, lanes)};
  instruction.issuer = Issuer::Warpgroup;
  instruction.completion = Completion::Groups;
  instruction.aHome = OperandHome::Either;
  instruction.bHome = OperandHome::Shared;
  instruction.onlyAlongK = bitsOf(a) != 16;
  // Sums of fp8 products keep 13 bits behind the point.
  if (bitsOf(a) == 8 && sum == Element::F32)
    instruction.promotionInterval = 128;
  return instruction;
}

//===-- MFMA ----------------------------------------------------------------------------------===//

/// Lanes along the rows; what is left of the 64 holds as many runs of neighbours along K.
Layout mfmaOperand(unsigned side, unsigned k) {
  llvm::SmallVector<Step> registers, lanes;
  unsigned run = k * side / 64;
  addColumns(registers, 1, run);
  addRows(lanes, 1, side);
  addColumns(lanes, run, k);
  return fragment(side, k, registers, lanes);
}

/// Lanes along the columns. Runs of four rows lie in a lane's registers, and of one row in 64 bits.
Layout mfmaSum(unsigned side, Element sum) {
  llvm::SmallVector<Step> registers, lanes;
  unsigned run = sum == Element::F64 ? 1 : 4, together = run * 64 / side;
  addRows(registers, 1, run);
  addColumns(lanes, 1, side);
  addRows(lanes, run, together);
  addRows(registers, together, side);
  return fragment(side, side, registers, lanes);
}

MmaInstruction mfma(Element a, Element b, Element sum, unsigned side, unsigned k) {
  return {a,
          b,
          sum,
          side,
          side,
          k,
          mfmaOperand(side, k),
          transposed(mfmaOperand(side, k)),
          mfmaSum(side, sum)};
}

//===-- WMMA ----------------------------------------------------------------------------------===//

/// gfx11: a row of 16 numbers in one lane, and again in the lane of the other half of the wave;
/// rows of sums alternate between the halves.
MmaInstruction wmmaOfHalves(Element element, Element sum) {
  llvm::SmallVector<Step> registers, lanes;
  addColumns(registers, 1, 16);
  addRows(lanes, 1, 16);
  lanes.push_back({0, 0});
  Layout operand = fragment(16, 16, registers, lanes);
  return {element,
          element,
          sum,
          16,
          16,
          16,
          operand,
          transposed(operand),
          fragment(16, 16, {{2, 0}, {4, 0}, {8, 0}}, {{0, 1}, {0, 2}, {0, 4}, {0, 8}, {1, 0}})};
}

/// gfx12: the halves of the wave share K, in runs of 8 bytes.
MmaInstruction wmma(Element a, Element b, Element sum) {
  llvm::SmallVector<Step> registers, lanes;
  unsigned run = 64 / bitsOf(a);
  addColumns(registers, 1, run);
  addRows(lanes, 1, 16);
  addColumns(lanes, run, 2 * run);
  addColumns(registers, 2 * run, 16);
  Layout operand = fragment(16, 16, registers, lanes);
  return {a,
          b,
          sum,
          16,
          16,
          16,
          operand,
          transposed(operand),
          fragment(16, 16, {{1, 0}, {2, 0}, {4, 0}}, {{0, 1}, {0, 2}, {0, 4}, {0, 8}, {8, 0}})};
}

/// Adds `make(a, b)` for the four pairs of two formats.
template <class Make>
void addPairs(std::vector<MmaInstruction> &table, Element one, Element other, Make make) {
  for (Element a : {one, other})
    for (Element b : {one, other})
      table.push_back(make(a, b));
}

} // namespace

const std::vector<MmaInstruction> &ampere() {
  static const std::vector<MmaInstruction> table = {
      sync(Element::F16, Element::F16, Element::F32, 16, 16),
      sync(Element::F16, Element::F16, Element::F16, 16, 16),
      sync(Element::BF16, Element::BF16, Element::F32, 16, 16),
      sync(Element::TF32, Element::TF32, Element::F32, 16, 8),
      sync(Element::I8, Element::I8, Element::I32, 16, 32),
      sync(Element::F64, Element::F64, Element::F64, 8, 4)};
  return table;
}

const std::vector<MmaInstruction> &ada() {
  static const std::vector<MmaInstruction> table = [] {
    std::vector<MmaInstruction> table = ampere();
    addPairs(table, Element::F8E4M3, Element::F8E5M2,
             [](Element a, Element b) { return sync(a, b, Element::F32, 16, 32); });
    return table;
  }();
  return table;
}

const std::vector<MmaInstruction> &sinceHopper() {
  static const std::vector<MmaInstruction> table = [] {
    // An instruction of 8×8×4 takes as long as one of 16×8×4. One of 16×8×16 is no faster than two
    // of half of it, and holds its operands for longer.
    std::vector<MmaInstruction> table;
    for (unsigned k : {8, 4})
      table.push_back(sync(Element::F64, Element::F64, Element::F64, 16, k));
    llvm::append_range(table, ada());
    return table;
  }();
  return table;
}

const std::vector<MmaInstruction> &hopper() {
  static const std::vector<MmaInstruction> table = [] {
    std::vector<MmaInstruction> table;
    for (unsigned n = 256; n > 0; n -= 8) {
      for (Element element : {Element::F16, Element::BF16})
        table.push_back(warpgroup(element, element, Element::F32, n));
      table.push_back(warpgroup(Element::TF32, Element::TF32, Element::F32, n));
      if (n <= 24 || n % 16 == 0)
        table.push_back(warpgroup(Element::I8, Element::I8, Element::I32, n));
      // Registers hold the sums in f32 beside those of the instruction.
      if (n <= 160)
        addPairs(table, Element::F8E4M3, Element::F8E5M2,
                 [&](Element a, Element b) { return warpgroup(a, b, Element::F32, n); });
    }
    llvm::append_range(table, sinceHopper());
    return table;
  }();
  return table;
}

const std::vector<MmaInstruction> &cdna2() {
  static const std::vector<MmaInstruction> table = {
      mfma(Element::F16, Element::F16, Element::F32, 32, 8),
      mfma(Element::F16, Element::F16, Element::F32, 16, 16),
      mfma(Element::BF16, Element::BF16, Element::F32, 32, 8),
      mfma(Element::BF16, Element::BF16, Element::F32, 16, 16),
      mfma(Element::F32, Element::F32, Element::F32, 32, 2),
      mfma(Element::F32, Element::F32, Element::F32, 16, 4),
      mfma(Element::I8, Element::I8, Element::I32, 32, 8),
      mfma(Element::I8, Element::I8, Element::I32, 16, 16),
      mfma(Element::F64, Element::F64, Element::F64, 16, 4)};
  return table;
}

const std::vector<MmaInstruction> &cdna3() {
  static const std::vector<MmaInstruction> table = [] {
    std::vector<MmaInstruction> table = {mfma(Element::F16, Element::F16, Element::F32, 32, 8),
                                         mfma(Element::F16, Element::F16, Element::F32, 16, 16),
                                         mfma(Element::BF16, Element::BF16, Element::F32, 32, 8),
                                         mfma(Element::BF16, Element::BF16, Element::F32, 16, 16),
                                         mfma(Element::TF32, Element::TF32, Element::F32, 32, 4),
                                         mfma(Element::TF32, Element::TF32, Element::F32, 16, 8),
                                         mfma(Element::F32, Element::F32, Element::F32, 32, 2),
                                         mfma(Element::F32, Element::F32, Element::F32, 16, 4),
                                         mfma(Element::I8, Element::I8, Element::I32, 32, 16),
                                         mfma(Element::I8, Element::I8, Element::I32, 16, 32),
                                         mfma(Element::F64, Element::F64, Element::F64, 16, 4)};
    addPairs(table, Element::F8E4M3FNUZ, Element::F8E5M2FNUZ,
             [](Element a, Element b) { return mfma(a, b, Element::F32, 32, 16); });
    addPairs(table, Element::F8E4M3FNUZ, Element::F8E5M2FNUZ,
             [](Element a, Element b) { return mfma(a, b, Element::F32, 16, 32); });
    return table;
  }();
  return table;
}

const std::vector<MmaInstruction> &cdna4() {
  static const std::vector<MmaInstruction> table = [] {
    std::vector<MmaInstruction> table = {mfma(Element::F16, Element::F16, Element::F32, 32, 16),
                                         mfma(Element::F16, Element::F16, Element::F32, 16, 32),
                                         mfma(Element::F16, Element::F16, Element::F32, 16, 16),
                                         mfma(Element::BF16, Element::BF16, Element::F32, 32, 16),
                                         mfma(Element::BF16, Element::BF16, Element::F32, 16, 32),
                                         mfma(Element::BF16, Element::BF16, Element::F32, 16, 16),
                                         mfma(Element::F32, Element::F32, Element::F32, 32, 2),
                                         mfma(Element::F32, Element::F32, Element::F32, 16, 4),
                                         mfma(Element::I8, Element::I8, Element::I32, 32, 32),
                                         mfma(Element::I8, Element::I8, Element::I32, 16, 64),
                                         mfma(Element::I8, Element::I8, Element::I32, 16, 32),
                                         mfma(Element::F64, Element::F64, Element::F64, 16, 4)};
    addPairs(table, Element::F8E4M3, Element::F8E5M2,
             [](Element a, Element b) { return mfma(a, b, Element::F32, 32, 16); });
    addPairs(table, Element::F8E4M3, Element::F8E5M2,
             [](Element a, Element b) { return mfma(a, b, Element::F32, 16, 32); });
    return table;
  }();
  return table;
}

const std::vector<MmaInstruction> &rdna3() {
  static const std::vector<MmaInstruction> table = {wmmaOfHalves(Element::F16, Element::F32),
                                                    wmmaOfHalves(Element::BF16, Element::F32),
                                                    wmmaOfHalves(Element::I8, Element::I32)};
  return table;
}

const std::vector<MmaInstruction> &rdna4() {
  static const std::vector<MmaInstruction> table = [] {
    std::vector<MmaInstruction> table = {wmma(Element::F16, Element::F16, Element::F32),
                                         wmma(Element::BF16, Element::BF16, Element::F32),
                                         wmma(Element::I8, Element::I8, Element::I32)};
    addPairs(table, Element::F8E4M3, Element::F8E5M2,
             [](Element a, Element b) { return wmma(a, b, Element::F32); });
    return table;
  }();
  return table;
}

} // namespace sectile::mma
