// cta.dot: matrix instructions or fused multiply-adds.
#include "codegen/common/Dots.h"
#include "codegen/common/DotSteps.h"
#include "codegen/common/Fragments.h"
#include "codegen/common/SmallFloats.h"
#include "ir/MmaElements.h"
#include "passes/analysis/LayoutRules.h"

using namespace mlir;

namespace sectile {

namespace {

//===-- Matrix instructions -------------------------------------------------------------------===//

/// Coordinates of an operand's element: the matrix that the sum is of, then row and column.
Coordinates inMatrix(ArrayRef<int64_t> sum, int64_t row, int64_t column) {
  Coordinates place(sum.drop_back(2));
  place.append({row, column});
  return place;
}

LogicalResult emitMatrixDot(KernelEmitter &emitter, cta::DotOp op) {
  const Layout &sums = *cta::layoutOf(op.getType());
  const MmaInstruction *instruction = instructionOf(op, emitter.target);
  if (!instruction)
    return op.emitError("no matrix instruction multiplies ")
           << cta::elementOf(op.getA().getType()) << " and " << cta::elementOf(op.getB().getType());
  Layout aLayout = dotOperandLayout(op, sums, 0), bLayout = dotOperandLayout(op, sums, 1);
  for (auto [operand, layout] : {std::pair(op.getA(), &aLayout), std::pair(op.getB(), &bLayout)})
    if (const Layout *own = cta::layoutOf(operand.getType()); own && *own != *layout)
      return op.emitError("an operand has the layout ")
             << own->text() << " where the instruction needs " << layout->text();
  SplitPrecision split = SplitPrecision::of(op.getPrecision());
  bool isSplit = cta::elementOf(op.getA().getType()).isF32() && instruction->a != MmaElement::F32;
  if (!isSplit)
    split.products = split.products.take_back(1);

  unsigned sumsEach = instruction->sumFragment.numRegisters();
  unsigned aEach = instruction->aFragment.numRegisters();
  unsigned bEach = instruction->bFragment.numRegisters();
  SmallVector<Coordinates> places;
  for (unsigned reg = 0; reg < sums.numRegisters(); reg += sumsEach)
    places.push_back(sums.apply(reg, 0, 0));
  // The columns of B one after the other: its parts are needed for no longer than that.
  std::map<Coordinates, SmallVector<unsigned>> columns;
  for (auto [i, place] : llvm::enumerate(places))
    columns[split.products.size() > 1 ? inMatrix(place, 0, place.back()) : Coordinates()].push_back(
        i);
  Registers values = emitter.registers(op.getAcc());
  auto fragmentsOf = [&](unsigned operand, ThreadPart moving = {}) {
    return Fragments(emitter, op->getOperand(operand), operand ? bLayout : aLayout,
                     isSplit ? &split : nullptr, moving);
  };
  auto multiply = [&](int64_t depth, Fragments &a, Fragments &b) {
    for (int64_t k = 0; k < depth; k += instruction->k)
      for (auto &[column, numbers] : columns)
        for (auto [aPart, bPart] : split.products)
          for (unsigned i : numbers) {
            const Coordinates &place = places[i];
            auto left = a.at(inMatrix(place, *std::prev(place.end(), 2), k), aEach, aPart);
            auto right = b.at(inMatrix(place, k, place.back()), bEach, bPart);
            emitter.hooks.mma(emitter.b, *instruction, left, right,
                              MutableArrayRef(values).slice(i * sumsEach, sumsEach));
          }
  };
  if (std::optional<DotSteps> steps = emitter.stepsOf(op)) {
    // A tile in registers moves through them: each step reads those of the first.
    const size_t numSums = values.size();
    for (unsigned i : {0, 1})
      if (Fragments tile = fragmentsOf(i); tile.isInRegisters())
        llvm::append_range(values, tile.carried());
    emitSteps(emitter, *steps, values, [&](ThreadPart aMoving, ThreadPart bMoving) {
      Fragments operands[] = {fragmentsOf(0, aMoving), fragmentsOf(1, bMoving)};
      Registers next;
      ArrayRef<llvm::Value *> left = ArrayRef(values).drop_front(numSums);
      for (unsigned i : {0, 1})
        if (operands[i].isInRegisters()) {
          const auto now = left.take_front(operands[i].carried().size());
          left = left.drop_front(now.size());
          operands[i].setCarried(now);
          llvm::append_range(
              next, operands[i].movedOn(now, places.front().size() - 1 - i, steps->length));
        }
      multiply(steps->length, operands[0], operands[1]);
      llvm::copy(next, values.begin() + numSums);
    });
    values.truncate(numSums);
  } else {
    Fragments a = fragmentsOf(0), b = fragmentsOf(1);
    multiply(aLayout.shape().back(), a, b);
  }
  emitter.define(op, std::move(values));
  return success();
}

//===-- Instructions of a warpgroup -----------------------------------------------------------===//

/// A dot, or the beginning of one, whose instructions read B, and A where it is a buffer, from
/// shared memory themselves.
template <typename Dot> class WarpgroupDot {
  using Tile = std::pair<int64_t, int64_t>; ///< first row and column of an instruction's sums
  using Tiles = std::map<Tile, SmallVector<unsigned>>; ///< and their registers, in its order

public:
  WarpgroupDot(KernelEmitter &emitter, Dot op, const MmaInstruction &instruction)
      : emitter(emitter), op(op), instruction(instruction), sums(*cta::layoutOf(sumsType(op))),
        depth(cta::shapeOf(op.getA().getType()).back()) {}

  LogicalResult run() {
    const std::optional<unsigned> width = widest();
    if (!width)
      return op.emitError("an operand lies where no descriptor can say");
    MmaInstruction narrow = instruction;
    narrow.n = *width;
    llvm::IRBuilder<> &b = emitter.b;
    const auto tiles = tilesOf(*width);
    llvm::Value *aBuffer = nullptr, *bBuffer = bufferOf(1);
    std::map<Tile, SmallVector<llvm::Value *, 4>> fragments; // by row and k
    if (isa<cta::BufferType>(op.getA().getType())) {
      aBuffer = bufferOf(0);
    } else {
      // Before the first instruction: no register may be written between them.
      const SplitPrecision rounded = SplitPrecision::of(op.getPrecision());
      Fragments a(emitter, op.getA(),
                  dotOperandLayout(instruction, cta::shapeOf(op.getA().getType()), sums, 0),
                  instruction.a == MmaElement::TF32 ? &rounded : nullptr);
      for (auto &[tile, registers] : tiles)
        for (int64_t k = 0; k < depth; k += narrow.k)
          fragments[{tile.first, k}] = a.at({tile.first, k}, instruction.aFragment.numRegisters());
      if (op->hasAttr(cta::ownRegistersAttr))
        giveOwnRegisters(fragments);
    }
    auto multiply = [&](const Tile &tile, int64_t first, int64_t end,
                        MutableArrayRef<llvm::Value *> acc) {
      auto [row, column] = tile;
      for (int64_t k = first; k < end; k += narrow.k) {
        const TargetHooks::SharedOperand right{bBuffer, *placeOf(1, column, k, *width)};
        if (aBuffer)
          emitter.hooks.warpgroupMma(
              b, narrow, TargetHooks::SharedOperand{aBuffer, *placeOf(0, row, k, narrow.m)}, right,
              acc);
        else
          emitter.hooks.warpgroupMma(b, narrow, ArrayRef<llvm::Value *>(fragments[{row, k}]), right,
                                     acc);
      }
    };
    Registers values = emitter.registers(op.getAcc());
    if (isPromoted(instruction, op.getA(), op.getAcc()))
      addPromoted(tiles, values, multiply);
    else
      addInPlace(tiles, values, multiply);
    emitter.define(op->getResult(0), std::move(values));
    return success();
  }

private:
  using Multiply = llvm::function_ref<void(const Tile &, int64_t first, int64_t end,
                                           MutableArrayRef<llvm::Value *> acc)>;

  /// What the fragments are made of may get other registers, and those other values, before the dot
  /// has read them.
  void giveOwnRegisters(std::map<Tile, SmallVector<llvm::Value *, 4>> &fragments) {
    SmallVector<llvm::Value *> words;
    for (auto &[tile, fragment] : fragments)
      llvm::append_range(words, fragment);
    emitter.hooks.warpgroupOperand(emitter.b, words);
    auto word = words.begin();
    for (auto &[tile, fragment] : fragments)
      for (llvm::Value *&own : fragment)
        own = *word++;
  }

  void addInPlace(const Tiles &tiles, Registers &values, Multiply multiply) {
    llvm::IRBuilder<> &b = emitter.b;
    emitter.hooks.warpgroupBegin(b);
    for (auto &[tile, registers] : tiles) {
      SmallVector<llvm::Value *> acc;
      for (unsigned reg : registers)
        acc.push_back(values[reg]);
      multiply(tile, 0, depth, acc);
      for (auto [reg, value] : llvm::zip_equal(registers, acc))
        values[reg] = value;
    }
    emitter.hooks.warpgroupCommit(b);
    if constexpr (std::is_same_v<Dot, cta::DotOp>)
      emitter.hooks.warpgroupWait(b, 0, values);
  }

  /// Promotes sums: those of the instruction start at zero for each group along K, and are added
  /// to the dot's. One tile after the other, so that the instruction's sums take few registers.
  void addPromoted(const Tiles &tiles, Registers &values, Multiply multiply) {
    llvm::IRBuilder<> &b = emitter.b;
    const int64_t interval = instruction.promotionInterval;
    for (auto &[tile, registers] : tiles)
      for (int64_t first = 0; first < depth; first += interval) {
        SmallVector<llvm::Value *> partial(registers.size(),
                                           llvm::Constant::getNullValue(values.front()->getType()));
        emitter.hooks.warpgroupBegin(b);
        multiply(tile, first, std::min(first + interval, depth), partial);
        emitter.hooks.warpgroupCommit(b);
        emitter.hooks.warpgroupWait(b, 0, partial);
        for (auto [reg, sum] : llvm::zip_equal(registers, partial)) {
          auto *known = llvm::dyn_cast<llvm::Constant>(values[reg]);
          values[reg] = known && known->isNullValue() ? sum : b.CreateFAdd(values[reg], sum);
        }
      }
  }

  static Type sumsType(cta::DotOp dot) { return dot.getType(); }
  static Type sumsType(cta::DotStartOp dot) { return dot.getType().getTile(); }

  cta::BufferType typeOf(unsigned operand) {
    return cast<cta::BufferType>(op->getOperand(operand).getType());
  }

  /// Where the rows of A, or the columns of B, from `first` on lie.
  std::optional<MatrixDescriptor> placeOf(unsigned operand, int64_t first, int64_t k,
                                          unsigned count) {
    cta::BufferType type = typeOf(operand);
    std::optional<MatrixDescriptor> place =
        planDescriptor(type.getLayout().getLayout(), cta::elementBits(type), operand, first, k,
                       count, instruction.k);
    return place && instruction.onlyAlongK && !place->alongK ? std::nullopt : place;
  }

  /// The most columns that one descriptor of B can say.
  std::optional<unsigned> widest() {
    auto fits = [&](unsigned operand, int64_t extent, unsigned count) {
      for (int64_t first = 0; first < extent; first += count)
        for (int64_t k = 0; k < depth; k += instruction.k)
          if (!placeOf(operand, first, k, count))
            return false;
      return true;
    };
    if (isa<cta::BufferType>(op.getA().getType()) && !fits(0, sums.shape()[0], instruction.m))
      return std::nullopt;
    for (unsigned n = instruction.n; n > 0; n -= 8)
      if (instruction.n % n == 0 && exists(n) && areWhole(n) && fits(1, sums.shape()[1], n))
        return n;
    return std::nullopt;
  }

  /// Whether the target has the same instruction with so many columns.
  bool exists(unsigned width) const {
    return llvm::any_of(emitter.target.mmas, [&](const MmaInstruction &other) {
      return std::tie(other.a, other.b, other.sum, other.m, other.n, other.k) ==
             std::tie(instruction.a, instruction.b, instruction.sum, instruction.m, width,
                      instruction.k);
    });
  }

  /// Whether a warpgroup has all columns of each such instruction that it has any of: of 48 columns
  /// for two, each has every second eight.
  bool areWhole(unsigned width) const {
    return llvm::all_of(tilesOf(width), [&](const auto &tile) {
      return tile.second.size() * instruction.n == width * instruction.sumFragment.numRegisters();
    });
  }

  /// The registers of the sums of each instruction, in the order in which it takes them.
  Tiles tilesOf(unsigned width) const {
    LayoutInverse inverse(instruction.sumFragment);
    const int64_t rows = instruction.sumFragment.shape()[0];
    std::map<Tile, std::map<unsigned, unsigned>> ordered;
    for (unsigned reg = 0; reg < sums.numRegisters(); ++reg) {
      const Coordinates place = sums.apply(reg, 0, 0);
      const unsigned at = inverse({place[0] % rows, place[1] % width})[In::Register];
      ordered[{place[0] - place[0] % rows, place[1] - place[1] % width}][at] = reg;
    }
    Tiles tiles;
    for (auto &[tile, registers] : ordered)
      for (auto [at, reg] : registers)
        tiles[tile].push_back(reg);
    return tiles;
  }

  /// Where the buffer begins for this warpgroup, as an i32.
  llvm::Value *bufferOf(unsigned operand) {
    llvm::IRBuilder<> &b = emitter.b;
    LayoutInverse inverse(typeOf(operand).getLayout().getLayout());
    const unsigned bytes = cta::elementBytes(typeOf(operand));
    SmallVector<uint32_t> images;
    for (unsigned bit = 0; bit < sums.bits(In::Warp); ++bit) {
      Coordinates place{0, 0};
      if (bit >= llvm::Log2_32(instruction.warps()))
        place[operand] = sums.basis(In::Warp, bit, operand);
      images.push_back(inverse(place)[In::Offset] * bytes);
    }
    llvm::Value *start = b.CreatePtrToInt(emitter.scalar(op->getOperand(operand)), b.getInt32Ty());
    // The same in all lanes, which the assembler does not see.
    if (llvm::Value *group = emitter.threadPart({}, images).value)
      start = b.CreateAdd(start, emitter.hooks.shuffle(b, group, b.getInt32(0)));
    return start;
  }

  KernelEmitter &emitter;
  Dot op;
  const MmaInstruction &instruction;
  const Layout &sums;
  const int64_t depth;
};

//===-- Fused multiply-adds -------------------------------------------------------------------===//

/// Numbers of an operand in the type of the sums, converted when they are first asked for.
class Numbers {
public:
  /// `moving` goes to the buffer's addresses, see SharedPlaces.
  Numbers(KernelEmitter &emitter, Value operand, const Layout &sums, unsigned kept,
          ThreadPart moving)
      : emitter(emitter), element(cta::elementOf(operand.getType())),
        layout(multiplyAddOperandLayout(sums, cast<cta::BufferType>(operand.getType()).getShape(),
                                        kept)),
        inverse(layout),
        reader(emitter, layout, cast<cta::BufferType>(operand.getType()).getLayout().getLayout(),
               element, emitter.scalar(operand), moving),
        known(layout.numRegisters()) {}

  llvm::Value *at(ArrayRef<int64_t> place, llvm::Type *type) {
    unsigned reg = inverse(place)[In::Register];
    llvm::Value *&number = known[reg];
    if (!number) {
      llvm::IRBuilder<> &b = emitter.b;
      llvm::Value *value = reader.get(reg);
      if (isFp8(element))
        value = widen(b, value, FloatFormat::of(element));
      number = type->isIntegerTy() ? b.CreateSExt(value, type) : b.CreateFPCast(value, type);
    }
    return number;
  }

private:
  KernelEmitter &emitter;
  Type element;
  Layout layout;
  LayoutInverse inverse;
  SharedReader reader;
  Registers known;
};

/// Steps in which a vector of 16 bytes does not pass the end of a step.
std::optional<DotSteps> planMultiplyAdds(cta::DotOp op) {
  const unsigned bytes = std::min(
      {cta::elementBytes(op.getA().getType()), cta::elementBytes(op.getB().getType()), 2u});
  return planSteps(op, 16 / bytes);
}

class MultiplyAdds {
public:
  MultiplyAdds(KernelEmitter &emitter, cta::DotOp op)
      : emitter(emitter), op(op), sums(*cta::layoutOf(op.getType())),
        first(emitter.firstCopies(sums)), values(emitter.registers(op.getAcc())) {
    for (unsigned reg = 0; reg < sums.numRegisters(); ++reg)
      places.push_back(sums.apply(reg, 0, 0));
  }

  void run() {
    int64_t inner = cast<cta::BufferType>(op.getA().getType()).getShape().back();
    if (std::optional<DotSteps> steps = planMultiplyAdds(op))
      emitSteps(emitter, *steps, values,
                [&](ThreadPart a, ThreadPart b) { add(steps->length, a, b); });
    else
      add(inner, {}, {});
    emitter.define(op, std::move(values));
  }

private:
  /// Adds `length` products to every sum.
  void add(int64_t length, ThreadPart aMoving, ThreadPart bMoving) {
    llvm::IRBuilder<> &b = emitter.b;
    llvm::Type *type = values.front()->getType();
    Numbers x(emitter, op.getA(), sums, 0, aMoving), y(emitter, op.getB(), sums, 1, bMoving);
    for (int64_t k = 0; k < length; ++k)
      for (auto [reg, place] : llvm::enumerate(places)) {
        if (!first.empty() && first[reg] < reg) {
          values[reg] = values[first[reg]];
          continue;
        }
        llvm::Value *left = x.at(inMatrix(place, *std::prev(place.end(), 2), k), type);
        llvm::Value *right = y.at(inMatrix(place, k, place.back()), type);
        values[reg] = type->isIntegerTy() ? b.CreateAdd(values[reg], b.CreateMul(left, right))
                                          : b.CreateIntrinsic(llvm::Intrinsic::fma, {type},
                                                              {left, right, values[reg]});
      }
  }

  KernelEmitter &emitter;
  cta::DotOp op;
  const Layout &sums;
  ArrayRef<unsigned> first;
  Registers values;
  SmallVector<Coordinates> places;
};

} // namespace

LogicalResult emitDotStart(KernelEmitter &emitter, cta::DotStartOp op) {
  const MmaInstruction *instruction = instructionOf(op, emitter.target);
  if (!instruction || !instruction->isAsynchronous() ||
      isPromoted(*instruction, op.getA(), op.getAcc()))
    return op.emitError("is of an instruction that is complete when the threads go on");
  return WarpgroupDot<cta::DotStartOp>(emitter, op, *instruction).run();
}

LogicalResult emitDot(KernelEmitter &emitter, cta::DotOp op) {
  const MmaInstruction *instruction = instructionOf(op, emitter.target);
  if (instruction && instruction->isAsynchronous())
    return WarpgroupDot<cta::DotOp>(emitter, op, *instruction).run();
  if (op.getInstruction())
    return emitMatrixDot(emitter, op);
  if (!isa<cta::BufferType>(op.getA().getType()) || !isa<cta::BufferType>(op.getB().getType()))
    return op.emitError("by multiply-adds needs both operands in shared buffers");
  MultiplyAdds(emitter, op).run();
  return success();
}

/// Each warpgroup has a barrier, at which it waits and the one before it arrives.
void emitTurn(KernelEmitter &emitter, bool outside, bool waits) {
  constexpr unsigned warps = 4;
  llvm::IRBuilder<> &b = emitter.b;
  const unsigned threads = warps * emitter.target.warpSize, groups = emitter.numThreads() / threads;
  SmallVector<uint32_t> images;
  for (unsigned bit = 1; bit < warps * groups; bit *= 2)
    images.push_back(bit / warps);
  llvm::Value *group = emitter.warpPart(images);
  llvm::Value *whose = waits ? group : b.CreateAnd(b.CreateAdd(group, b.getInt32(1)), groups - 1);
  llvm::Value *condition = outside ? b.CreateIsNull(whose) : nullptr;
  emitter.under(condition, [&] {
    llvm::Value *number = b.CreateAdd(whose, b.getInt32(emitter.firstNamedBarrier()));
    if (waits)
      emitter.hooks.barrier(b, 2 * threads, number);
    else
      emitter.hooks.barrierArrive(b, 2 * threads, number);
  });
}

} // namespace sectile
