// Every dot becomes matrix instructions of the target where it has some that fit, else fused
// multiply-adds. Operands that memory has across K are turned for instructions that read them along
// K alone, or, words, read into registers as the left one.
#include "ir/MmaElements.h"
#include "mlir/Interfaces/LoopLikeInterface.h"
#include "passes/Kernel.h"
#include "passes/Passes.h"
#include "passes/analysis/Blocks.h"
#include "passes/analysis/ExplicitSlots.h"
#include "passes/analysis/Warps.h"
#include "passes/checks/Check.h"
#include "llvm/ADT/DenseSet.h"

namespace sectile {
#define GEN_PASS_DEF_SELECTMMA
#include "passes/Passes.h.inc"
} // namespace sectile

using namespace mlir;
using namespace sectile;

namespace {

bool isFp8(Type type) { return isa<FloatType>(type) && type.getIntOrFloatBitWidth() == 8; }

struct SelectMma : sectile::impl::SelectMmaBase<SelectMma> {
  void runOnOperation() override {
    FailureOr<Target> target = targetOf(getOperation());
    if (failed(target) || failed(checkBare(getOperation())))
      return signalPassFailure();
    contiguity.reset();
    getOperation().walk([&](tile::DotOp dot) { select(exchanged(dot, *target), *target); });
  }

  /// Whether there are the warps that an instruction takes and, where it reads shared memory
  /// itself, operands whose lines are long enough there whichever way they may lie, and that are
  /// not split into several numbers.
  static bool canIssue(const MmaInstruction &instruction, tile::DotOp dot, int64_t warps) {
    if (warps % instruction.warps())
      return false;
    if (instruction.bHome == OperandHome::Registers)
      return true;
    if (dot.getA().getType().getElementType().isF32() &&
        dot.getPrecision() != tile::Precision::TF32)
      return false;
    constexpr int64_t leastLine = 32; // bytes
    auto longEnough = [&](Type operand, unsigned inner) {
      auto tile = mlir::cast<RankedTensorType>(operand);
      const int64_t least = leastLine * 8 / tile.getElementTypeBitWidth();
      return tile.getRank() == 2 && tile.getShape()[inner] % least == 0 &&
             (instruction.onlyAlongK || tile.getShape()[1 - inner] % least == 0);
    };
    return longEnough(dot.getA().getType(), 1) && longEnough(dot.getB().getType(), 0);
  }

  /// How neighbours of an operand lie in memory: along K; across it, in runs of a sector that a
  /// loop loads and threads can turn as they come; otherwise; or nowhere, as those of what follows
  /// from no load.
  enum class Lies { AlongK, AcrossK, Scattered, Computed };
  Lies howLies(Value operand, unsigned inner) {
    constexpr int64_t sectorBits = 256;
    const int64_t leastRun = sectorBits / cta::elementBits(operand.getType());
    bool isAcross = false, isLoaded = false;
    struct Reached {
      Value value;
      unsigned along;
      bool isComputed;
    };
    SmallVector<Reached> work{{operand, inner, false}};
    llvm::SmallDenseSet<std::pair<Value, unsigned>> seen;
    while (!work.empty()) {
      const auto [value, along, isComputed] = work.pop_back_val();
      Operation *op = value.getDefiningOp();
      if (!op || !seen.insert({value, along}).second)
        continue;
      if (isLoad(op)) {
        if (!contiguity)
          contiguity.emplace(getOperation());
        const Contiguity pointers = contiguityOf(*contiguity, op).pointers;
        const int64_t inLine = pointers[along].contiguity, across = pointers[1 - along].contiguity;
        if (inLine > across)
          return Lies::AlongK;
        isLoaded = true;
        isAcross |= inLine < across && across >= leastRun && !isComputed &&
                    op->getParentOfType<LoopLikeOpInterface>();
      } else if (auto read = dyn_cast<tile::ReadSlotOp>(op)) {
        for (tile::FillOp fill : fillsOf(read))
          work.push_back({fill.getTile(), along, isComputed});
      } else if (auto permute = dyn_cast<tile::PermuteOp>(op)) {
        work.push_back({permute.getSource(), unsigned(permute.getOrder()[along]), isComputed});
      } else if (op->hasTrait<OpTrait::Elementwise>()) {
        for (Value from : op->getOperands())
          if (isa<RankedTensorType>(from.getType()))
            work.push_back({from, along, true});
      }
    }
    return isAcross ? Lies::AcrossK : isLoaded ? Lies::Scattered : Lies::Computed;
  }

  /// Whether there is room for what a dot turns, beside channels that the kernel states itself: the
  /// rings of loops take what is left.
  bool hasRoomToTurn(tile::DotOp dot, const Target &target) {
    auto bytesOf = [](Type tile) {
      return mlir::cast<RankedTensorType>(tile).getNumElements() * int64_t(cta::elementBytes(tile));
    };
    int64_t channels = 0, turned = 0;
    dot->getParentOfType<func::FuncOp>().walk([&](tile::ChannelOp channel) {
      const tile::ChannelType type = channel.getType();
      for (Type tile : type.getTiles())
        channels += type.getDepth() * bytesOf(tile);
    });
    for (unsigned number : {0, 1})
      if (howLies(dot->getOperand(number), 1 - number) == Lies::AcrossK)
        turned += bytesOf(dot->getOperand(number).getType());
    return channels == 0 || channels + turned <= int64_t(target.maxSharedBytes);
  }

  /// Why an instruction cannot read an operand, whichever way it goes to shared memory; empty where
  /// it can read both.
  std::string whyUnreadable(const MmaInstruction &instruction, tile::DotOp dot,
                            const Target &target) {
    if (!instruction.onlyAlongK)
      return {};
    for (unsigned number : {0, 1}) {
      const Value operand = dot->getOperand(number);
      const std::string name = number == 0 ? "A" : "B";
      switch (howLies(operand, 1 - number)) {
      case Lies::AlongK:
        break;
      case Lies::AcrossK:
        if (takesFromRegisters(instruction, number, operand))
          break;
        // Such a dot reads a slot as it was filled.
        if (dot->hasAttr(tile::inFlightAttr))
          return name + " does not lie along the inner dimension in its slot";
        if (!hasRoomToTurn(dot, target))
          return "there is no room to turn " + name + " beside the kernel's channels";
        break;
      case Lies::Computed:
        // It may stay in registers. Of 32 bits that was not tried.
        if (instruction.home(number) != OperandHome::Shared &&
            cta::elementBits(operand.getType()) == 8)
          break;
        [[fallthrough]];
      case Lies::Scattered:
        return name + " is neither loaded in lines by a loop nor computed from lines along the "
                      "inner dimension";
      }
    }
    return {};
  }

  /// The best instruction for operands of these elements of whose extents the dot's are multiples
  /// and that leaves no warp without one, or the smallest of them. Where there are instructions but
  /// none such, `refusal` says why not the last of them. `passedOver` says why not a better one.
  const MmaInstruction *instructionFor(tile::DotOp dot, Type a, Type b, Type sum,
                                       const Target &target, std::string &refusal,
                                       std::string &passedOver) {
    ArrayRef<int64_t> sums = dot.getType().getShape();
    int64_t m = sums[sums.size() - 2], n = sums.back(), k = dot.getA().getType().getShape().back();
    auto multiple = [&](StringRef name, int64_t extent, unsigned of) {
      if (extent % of == 0)
        return true;
      refusal = (name + " = " + Twine(extent) + " is no multiple of the instruction's " + Twine(of))
                    .str();
      return false;
    };
    const MmaInstruction *smallest = nullptr;
    int64_t warps = warpsOf(dot);
    for (const MmaInstruction *each : mmasFor(target, a, b, sum, dot.getPrecision())) {
      if (!canIssue(*each, dot, warps))
        continue;
      if (!multiple("m", m, each->m) || !multiple("n", n, each->n) || !multiple("k", k, each->k))
        continue;
      if (std::string why = whyUnreadable(*each, dot, target); !why.empty()) {
        passedOver = std::move(why);
        continue;
      }
      if (dot.getType().getNumElements() / (each->m * each->n) >= warps / each->warps())
        return each;
      if (!smallest || each->m * each->n < smallest->m * smallest->n)
        smallest = each;
    }
    return smallest;
  }

  /// A matrix the other way round.
  static Value turned(OpBuilder &builder, Value matrix) {
    const auto type = mlir::cast<RankedTensorType>(matrix.getType());
    const SmallVector<int64_t> shape{type.getShape()[1], type.getShape()[0]};
    const Location loc = matrix.getLoc();
    if (DenseElementsAttr splat; matchPattern(matrix, m_Constant(&splat)) && splat.isSplat())
      return arith::ConstantOp::create(
          builder, loc, splat.resizeSplat(RankedTensorType::get(shape, type.getElementType())));
    return tile::PermuteOp::create(builder, loc, type.clone(shape), matrix,
                                   ArrayRef<int32_t>{1, 0});
  }

  /// A loop's sums of products whose B alone lies across K are as good the other way round: the
  /// sums of transposed operands, of which the instruction takes the left one from registers, where
  /// words are read from shared memory whichever way they lie. The loop carries transposed sums
  /// then. Gives the dot itself, or the one that takes its place.
  tile::DotOp exchanged(tile::DotOp dot, const Target &target) {
    auto loop = dyn_cast<scf::ForOp>(dot->getParentOp());
    auto sums = dyn_cast<BlockArgument>(dot.getAcc());
    if (!loop || !sums || sums.getOwner() != loop.getBody() || !sums.hasOneUse() ||
        !dot->hasOneUse() || dot->hasAttr(tile::inFlightAttr) || dot.getType().getRank() != 2 ||
        cta::elementBits(dot.getB().getType()) != 32 || howLies(dot.getA(), 1) != Lies::AlongK ||
        howLies(dot.getB(), 0) != Lies::AcrossK)
      return dot;
    const unsigned number = sums.getArgNumber() - loop.getNumInductionVars();
    OpOperand &yielded = (*loop.getYieldedValuesMutable())[number];
    if (yielded.get() != dot.getResult())
      return dot;
    OpBuilder builder(dot);
    Value a = turned(builder, dot.getB()), b = turned(builder, dot.getA());
    Value acc = turned(builder, sums);
    auto other =
        tile::DotOp::create(builder, dot.getLoc(), acc.getType(), a, b, acc, dot.getPrecision());
    std::string refusal, passedOver;
    const MmaInstruction *instruction =
        instructionFor(other, tile::elementType(a.getType()), tile::elementType(b.getType()),
                       tile::elementType(acc.getType()), target, refusal, passedOver);
    // Rows that warpgroups do not share evenly would be multiplied by warps.
    if (!instruction || !takesFromRegisters(*instruction, 0, a) ||
        other.getType().getDimSize(0) % (instruction->m * warpsOf(dot) / instruction->warps())) {
      other.erase();
      for (Value tile : {a, b, acc})
        tile.getDefiningOp()->erase();
      return dot;
    }
    yielded.set(other);
    dot.erase();
    acc.replaceAllUsesWith(sums);
    acc.getDefiningOp()->erase();
    builder.setInsertionPoint(loop);
    OpOperand &init = loop.getInitArgsMutable()[number];
    init.set(turned(builder, init.get()));
    sums.setType(other.getType());
    builder.setInsertionPointAfter(loop);
    Value result = loop.getResult(number);
    result.setType(other.getType());
    Value back = turned(builder, result);
    result.replaceAllUsesExcept(back, back.getDefiningOp());
    return other;
  }

  /// Whether an instruction reads an operand from registers rather than shared memory where it lies
  /// across K there: words, which need no turning among themselves.
  static bool takesFromRegisters(const MmaInstruction &instruction, unsigned number,
                                 Value operand) {
    return instruction.onlyAlongK && instruction.home(number) == OperandHome::Either &&
           cta::elementBits(operand.getType()) == 32;
  }

  static Value cast(OpBuilder &builder, Location loc, Value tile, Type element) {
    auto type = mlir::cast<RankedTensorType>(tile.getType());
    if (type.getElementType() == element)
      return tile;
    if (type.getElementTypeBitWidth() < element.getIntOrFloatBitWidth())
      return arith::ExtFOp::create(builder, loc, type.clone(element), tile);
    return arith::TruncFOp::create(builder, loc, type.clone(element), tile);
  }

  void select(tile::DotOp dot, const Target &target) {
    OpBuilder builder(dot);
    Location loc = dot.getLoc();
    Value a = dot.getA(), b = dot.getB(), acc = dot.getAcc();
    Type sum = dot.getType().getElementType();
    std::string refusal, passedOver;
    // Sums in f32 are what multiply-adds, and instructions that sum in nothing less, make of f16.
    auto select = [&] {
      refusal.clear();
      passedOver.clear();
      Type left = tile::elementType(a.getType()), right = tile::elementType(b.getType());
      if (sum.isF16() && mmasFor(target, left, right, sum, dot.getPrecision()).empty())
        acc = cast(builder, loc, acc, builder.getF32Type());
      return instructionFor(dot, left, right, tile::elementType(acc.getType()), target, refusal,
                            passedOver);
    };
    const MmaInstruction *shape = select();
    if (!shape && (isFp8(dot.getA().getType().getElementType()))) {
      // f16 holds every fp8 number, and its products are exact as well.
      a = cast(builder, loc, a, builder.getF16Type());
      b = cast(builder, loc, b, builder.getF16Type());
      shape = select();
    }
    // `ieee` asks for what no instruction for f32 does.
    if (!shape && refusal.empty() && dot.getPrecision() != tile::Precision::IEEE) {
      llvm::raw_string_ostream(refusal)
          << target.name << " has none for " << dot.getA().getType().getElementType() << " and "
          << dot.getB().getType().getElementType() << " with sums in " << sum;
    }
    if (!shape && !refusal.empty())
      dot.emitRemark("this dot is computed by fused multiply-adds instead of matrix instructions: ")
          << refusal;
    if (shape && !passedOver.empty())
      dot.emitRemark("this dot is computed by instructions of a warp instead of a warpgroup's: ")
          << passedOver;
    if (!shape && sum.isF16())
      acc = cast(builder, loc, acc, builder.getF32Type());
    DenseI32ArrayAttr instruction;
    auto alongK = [&](unsigned number, Value operand) -> Value {
      const unsigned inner = 1 - number;
      if (!shape->onlyAlongK || howLies(dot->getOperand(number), inner) != Lies::AcrossK)
        return operand;
      // Beside the load, so that the slot is read in the layout of the dot's registers.
      auto permute = operand.getDefiningOp<tile::PermuteOp>();
      if (permute && takesFromRegisters(*shape, number, operand))
        return turned(builder, cta::AlongKOp::create(builder, loc, permute.getSource(), 1 - inner));
      return cta::AlongKOp::create(builder, loc, operand, inner);
    };
    if (shape) {
      a = alongK(0, a);
      b = alongK(1, b);
      instruction = builder.getDenseI32ArrayAttr({int(shape->m), int(shape->n), int(shape->k)});
    }
    auto result =
        cta::DotOp::create(builder, loc, acc.getType(), a, b, acc, instruction, dot.getPrecision());
    if (Attribute inFlight = dot->getAttr(tile::inFlightAttr))
      result->setAttr(tile::inFlightAttr, inFlight);
    dot.replaceAllUsesWith(cast(builder, loc, result, sum));
    dot.erase();
  }

  std::optional<ContiguityAnalysis> contiguity; ///< made when it is first asked
};

} // namespace
