// Every dot becomes matrix instructions of the target where it has some that fit, else fused
// multiply-adds. Operands that memory has across K are turned for instructions that read them along
// K alone, or read into registers, for sums in another order where that takes one.
#include "ir/MmaElements.h"
#include "mlir/Interfaces/LoopLikeInterface.h"
#include "passes/Kernel.h"
#include "passes/Passes.h"
#include "passes/analysis/Blocks.h"
#include "passes/analysis/ExplicitSlots.h"
#include "passes/analysis/Warps.h"
#include "passes/checks/Check.h"
#include "passes/layouts/DotOperands.h"
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
    getOperation().walk([&](tile::DotOp dot) { select(rearranged(dot, *target), *target); });
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
      if (instruction.home(number) != OperandHome::Shared && isReadIntoRegisters(operand))
        continue;
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

  /// An order of a dot's sums in which an instruction reads operands that lie across K into
  /// registers without turning them.
  struct Arrangement {
    bool turned = false;               ///< the sums of transposed operands
    std::array<bool, 2> interleaved{}; ///< rows, columns: those of interleaved() of A, of B
  };

  /// The same for each of its numbers, if it is one.
  static DenseElementsAttr splatOf(Value matrix) {
    DenseElementsAttr splat;
    return matchPattern(matrix, m_Constant(&splat)) && splat.isSplat() ? splat : nullptr;
  }

  const MmaInstruction *instructionFor(tile::DotOp dot, const Target &target) {
    std::string refusal, passedOver;
    return instructionFor(dot, tile::elementType(dot.getA().getType()),
                          tile::elementType(dot.getB().getType()),
                          tile::elementType(dot.getAcc().getType()), target, refusal, passedOver);
  }

  /// A matrix the other way round.
  static Value turned(OpBuilder &builder, Value matrix) {
    const auto type = mlir::cast<RankedTensorType>(matrix.getType());
    const SmallVector<int64_t> shape{type.getShape()[1], type.getShape()[0]};
    const Location loc = matrix.getLoc();
    if (auto permute = matrix.getDefiningOp<tile::PermuteOp>())
      return permute.getSource();
    if (DenseElementsAttr splat = splatOf(matrix))
      return arith::ConstantOp::create(
          builder, loc, splat.resizeSplat(RankedTensorType::get(shape, type.getElementType())));
    return tile::PermuteOp::create(builder, loc, type.clone(shape), matrix,
                                   ArrayRef<int32_t>{1, 0});
  }

  /// A matrix whose rows (`dim` 0) or columns 2 i and 2 i + 1 of each 16 are at i and 8 + i; or
  /// `back`. A thread whose fragment has i and 8 + i holds neighbours then.
  static Value interleaved(OpBuilder &builder, Value matrix, unsigned dim, bool back = false) {
    if (splatOf(matrix))
      return matrix;
    const auto type = mlir::cast<RankedTensorType>(matrix.getType());
    const Location loc = matrix.getLoc();
    SmallVector<int64_t> split(type.getShape()), swapped;
    SmallVector<int32_t> order;
    const std::array<int64_t, 3> parts{split[dim] / 16, back ? 2 : 8, back ? 8 : 2};
    split.erase(split.begin() + dim);
    split.insert(split.begin() + dim, parts.begin(), parts.end());
    for (unsigned axis = 0; axis < split.size(); ++axis)
      order.push_back(axis == dim + 1 ? dim + 2 : axis == dim + 2 ? dim + 1 : axis);
    for (int32_t axis : order)
      swapped.push_back(split[axis]);
    Value value = tile::ReshapeOp::create(builder, loc, type.clone(split), matrix);
    value = tile::PermuteOp::create(builder, loc, type.clone(swapped), value, order);
    return tile::ReshapeOp::create(builder, loc, type, value);
  }

  static Value arranged(OpBuilder &builder, Value sums, const Arrangement &by) {
    if (by.turned)
      sums = turned(builder, sums);
    for (unsigned dim : {0, 1})
      if (by.interleaved[dim])
        sums = interleaved(builder, sums, dim);
    return sums;
  }

  static Value arrangedBack(OpBuilder &builder, Value sums, const Arrangement &by) {
    for (unsigned dim : {0, 1})
      if (by.interleaved[dim])
        sums = interleaved(builder, sums, dim, /*back=*/true);
    return by.turned ? turned(builder, sums) : sums;
  }

  /// An operand that lies across K, read into the registers that a dot takes it from: beside the
  /// load, so that the slot is read in the layout of those.
  static Value readIntoRegisters(OpBuilder &builder, Value operand, unsigned inner) {
    const Location loc = operand.getLoc();
    if (auto permute = operand.getDefiningOp<tile::PermuteOp>())
      return turned(builder, cta::AlongKOp::create(builder, loc, permute.getSource(), 1 - inner,
                                                   /*stays=*/true));
    return cta::AlongKOp::create(builder, loc, operand, inner, /*stays=*/true);
  }

  static bool isReadIntoRegisters(Value operand) {
    cta::AlongKOp read = alongKOf(operand);
    return read && read.getStays();
  }

  /// Orders to try of the sums of a loop's dot, whose operands lie so. Words need the left operand
  /// of a warpgroup's instruction, wherever they lie in registers. Bytes come from shared memory in
  /// pairs of neighbours across K.
  static SmallVector<Arrangement, 2> arrangements(Lies a, Lies b, unsigned bits,
                                                  bool hasMatrixLoads) {
    const bool acrossA = a == Lies::AcrossK, acrossB = b == Lies::AcrossK;
    const bool turnsB = a == Lies::AlongK && acrossB;
    SmallVector<Arrangement, 2> found;
    if (bits == 32 && turnsB)
      found.push_back({.turned = true});
    if (bits == 8 && hasMatrixLoads && (acrossA || turnsB))
      found.push_back({.turned = turnsB, .interleaved = {true, false}});
    if (bits == 8 && hasMatrixLoads && (acrossA || acrossB))
      found.push_back({.interleaved = {acrossA, acrossB}});
    return found;
  }

  /// What becomes of a dot in its loop, where that is all that the loop carries on of it:
  /// elementwise operations, perhaps none, up to what the next iteration adds to.
  struct Totals {
    scf::ForOp loop;
    SmallVector<Operation *, 2> ops{};
    unsigned number = 0; ///< among the values that the loop carries
    BlockArgument carried() const { return scf::ForOp(loop).getRegionIterArg(number); }
  };

  static std::optional<Totals> totalsOf(tile::DotOp dot) {
    Totals totals{dyn_cast<scf::ForOp>(dot->getParentOp())};
    Value value = dot.getResult();
    while (totals.loop && value.hasOneUse()) {
      OpOperand &use = *value.use_begin();
      Operation *op = use.getOwner();
      if (op == totals.loop.getBody()->getTerminator()) {
        totals.number = use.getOperandNumber();
        const BlockArgument carried = totals.carried();
        Operation *user = carried.hasOneUse() ? *carried.user_begin() : nullptr;
        const bool isAddedTo = user == dot || llvm::is_contained(totals.ops, user);
        return isAddedTo ? std::optional(totals) : std::nullopt;
      }
      // A hint is of the order that it was given for.
      if (op->getBlock() != totals.loop.getBody() || op->getNumResults() != 1 ||
          !op->hasTrait<OpTrait::Elementwise>() || isa<tile::HintOp>(op))
        break;
      totals.ops.push_back(op);
      value = op->getResult(0);
    }
    return std::nullopt;
  }

  /// A dot with its sums in another order in which an instruction takes an operand from registers
  /// that lies across K, where its loop may carry them so. Or the dot itself.
  tile::DotOp rearranged(tile::DotOp dot, const Target &target) {
    const unsigned bits = cta::elementBits(dot.getA().getType());
    if (dot->hasAttr(tile::inFlightAttr) || dot.getType().getRank() != 2 ||
        cta::elementBits(dot.getB().getType()) != bits)
      return dot;
    const std::optional<Totals> totals = totalsOf(dot);
    if (!totals)
      return dot;
    const MmaInstruction *otherwise = instructionFor(dot, target);
    for (const Arrangement &each :
         arrangements(howLies(dot.getA(), 1), howLies(dot.getB(), 0), bits, target.matrixLoad))
      if (tile::DotOp other = inArrangement(dot, each, otherwise, target)) {
        arrange(*totals, dot, other, each);
        return other;
      }
    return dot;
  }

  /// Puts `other` in a dot's place, and has the loop carry what becomes of it as that is arranged.
  static void arrange(const Totals &totals, tile::DotOp dot, tile::DotOp other,
                      const Arrangement &by) {
    scf::ForOp loop = totals.loop;
    const Value carried = totals.carried();
    OpBuilder builder(other);
    other.getAccMutable().set(dot.getAcc() == carried ? carried
                                                      : arranged(builder, dot.getAcc(), by));
    Value value = other, before = dot;
    for (Operation *op : totals.ops) {
      builder.setInsertionPoint(op);
      for (OpOperand &operand : op->getOpOperands())
        if (operand.get() == before)
          operand.set(value);
        else if (isa<RankedTensorType>(operand.get().getType()) && operand.get() != carried)
          operand.set(arranged(builder, operand.get(), by));
      value = before = op->getResult(0);
      value.setType(mlir::cast<ShapedType>(value.getType()).clone(other.getType().getShape()));
    }
    loop.getBody()->getTerminator()->setOperand(totals.number, value);
    dot.erase();
    auto isNow = [&](Value sums) {
      sums.setType(mlir::cast<ShapedType>(sums.getType()).clone(other.getType().getShape()));
    };
    isNow(carried);
    builder.setInsertionPoint(loop);
    OpOperand &init = loop.getInitArgsMutable()[totals.number];
    init.set(arranged(builder, init.get(), by));
    Value result = loop.getResult(totals.number);
    SmallVector<OpOperand *> uses(llvm::make_pointer_range(result.getUses()));
    isNow(result);
    builder.setInsertionPointAfter(loop);
    Value back = arrangedBack(builder, result, by);
    for (OpOperand *use : uses)
      use->set(back);
  }

  /// Such a dot, of zeros yet, beside `dot`; null where no instruction takes those operands from
  /// registers.
  tile::DotOp inArrangement(tile::DotOp dot, const Arrangement &by, const MmaInstruction *otherwise,
                            const Target &target) {
    SmallVector<int64_t, 2> shape(dot.getType().getShape());
    if (by.turned)
      std::swap(shape[0], shape[1]);
    for (unsigned side : {0, 1})
      if (by.interleaved[side] && shape[side] % 16)
        return nullptr;
    OpBuilder builder(dot);
    std::array<Value, 2> operands{dot.getA(), dot.getB()};
    if (by.turned) {
      std::swap(operands[0], operands[1]);
      for (Value &operand : operands)
        operand = turned(builder, operand);
    }
    for (unsigned side : {0, 1})
      if (by.interleaved[side] || (by.turned && side == 0)) {
        operands[side] = readIntoRegisters(builder, operands[side], 1 - side);
        if (by.interleaved[side])
          operands[side] = interleaved(builder, operands[side], side);
      }
    const RankedTensorType type = dot.getType().clone(shape);
    Value zeros = arith::ConstantOp::create(builder, dot.getLoc(), builder.getZeroAttr(type));
    auto other = tile::DotOp::create(builder, dot.getLoc(), type, operands[0], operands[1], zeros,
                                     dot.getPrecision());
    const MmaInstruction *instruction = instructionFor(other, target);
    if (instruction && isBetter(*instruction, other, by, otherwise))
      return other;
    other.erase();
    for (Value value : {operands[0], operands[1], zeros})
      for (Operation *op = value.getDefiningOp();
           op && op->use_empty() && isMemoryEffectFree(op);) {
        Operation *unused = op;
        op = op->getNumOperands() ? op->getOperand(0).getDefiningOp() : nullptr;
        unused->erase();
      }
    return nullptr;
  }

  /// Whether an arranged dot is better by this instruction than by the one that it has `otherwise`.
  static bool isBetter(const MmaInstruction &instruction, tile::DotOp dot, const Arrangement &by,
                       const MmaInstruction *otherwise) {
    for (unsigned number : {0, 1})
      if (instruction.home(number) == OperandHome::Shared &&
          isReadIntoRegisters(dot->getOperand(number)))
        return false;
    // A warp's takes both from registers, and a warpgroup's is worth turning them. Rows that
    // warpgroups do not share evenly would be multiplied by warps.
    if (instruction.warps() == 1)
      return !by.turned && !(otherwise && otherwise->warps() > 1);
    return dot.getType().getShape()[0] % (instruction.m * warpsOf(dot) / instruction.warps()) == 0;
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
      if (takesFromRegisters(*shape, number, operand))
        return readIntoRegisters(builder, operand, inner);
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
