// How much of a dot's inner dimension its code covers.
#include "codegen/common/DotSteps.h"
#include "codegen/common/Fragments.h"
#include "ir/MmaElements.h"
#include "ir/layout/Shared.h"
#include "passes/Kernel.h"
#include "passes/analysis/LayoutRules.h"

using namespace mlir;

namespace sectile {

/// Less than half of what the instruction cache of a multiprocessor has room for (128 KiB, 16 bytes
/// each), as a kernel has other code, too.
static constexpr int64_t maxInstructions = 3072;

std::optional<DotSteps> planSteps(cta::DotOp op, int64_t length) {
  DotSteps steps{length, 0, {}};
  for (unsigned i : {0, 1}) {
    const Type operand = op->getOperand(i).getType();
    const ArrayRef<int64_t> shape = cta::shapeOf(operand);
    const unsigned dim = shape.size() - 1 - i, bytes = cta::elementBytes(operand);
    if (shape[dim] < 2 * length || !llvm::isPowerOf2_64(shape[dim]))
      return std::nullopt;
    steps.count = shape[dim] / length;
    auto type = dyn_cast<cta::BufferType>(operand);
    if (!type)
      continue;
    const Layout &buffer = type.getLayout().getLayout();
    LayoutInverse inverse(buffer);
    for (unsigned bit = llvm::Log2_64(length); bit < buffer.coreBits(dim); ++bit) {
      uint32_t image = inverse.ofPacked(1u << (buffer.shift(dim) + bit))[In::Offset] * bytes;
      if (image % 16)
        return std::nullopt;
      steps.images[i].push_back(image);
    }
  }
  return steps;
}

void emitSteps(KernelEmitter &emitter, const DotSteps &steps, Registers &values,
               llvm::function_ref<void(ThreadPart, ThreadPart)> body) {
  llvm::IRBuilder<> &b = emitter.b;
  llvm::BasicBlock *before = b.GetInsertBlock();
  llvm::Function *kernel = before->getParent();
  auto *products = llvm::BasicBlock::Create(b.getContext(), "products", kernel);
  auto *after = llvm::BasicBlock::Create(b.getContext(), "products.end", kernel);
  b.CreateBr(products);
  b.SetInsertPoint(products);
  llvm::PHINode *step = b.CreatePHI(b.getInt32Ty(), 2);
  step->addIncoming(b.getInt32(0), before);
  SmallVector<llvm::PHINode *> phis;
  for (llvm::Value *&value : values) {
    phis.push_back(b.CreatePHI(value->getType(), 2));
    phis.back()->addIncoming(value, before);
    value = phis.back();
  }
  body(linearMap(b, step, steps.count - 1, steps.images[0]),
       linearMap(b, step, steps.count - 1, steps.images[1]));
  llvm::Value *next = b.CreateAdd(step, b.getInt32(1), "", /*HasNUW=*/true, /*HasNSW=*/true);
  step->addIncoming(next, b.GetInsertBlock());
  for (auto [phi, value] : llvm::zip_equal(phis, values))
    phi->addIncoming(value, b.GetInsertBlock());
  llvm::Instruction *back =
      b.CreateCondBr(b.CreateICmpNE(next, b.getInt32(steps.count)), products, after);
  // One step is long enough, and unrolled ones take long to compile.
  keepRolled(back);
  b.SetInsertPoint(after);
}

namespace {

/// A dot by instructions that a warp issues, unrolled at first.
class UnrolledDot {
public:
  UnrolledDot(cta::DotOp op, const MmaInstruction &instruction, const Target &target)
      : op(op), instruction(instruction), target(target),
        depth(cta::shapeOf(op.getA().getType()).back()), length(depth) {
    const Layout &sums = *cta::layoutOf(op.getType());
    const bool isSplit =
        cta::elementOf(op.getA().getType()).isF32() && instruction.a != MmaElement::F32;
    const SplitPrecision split = SplitPrecision::of(op.getPrecision());
    const int64_t products = isSplit ? split.products.size() : 1;
    instructions = sums.numRegisters() / instruction.sumFragment.numRegisters() *
                   (depth / instruction.k) * products;
    for (unsigned i : {0, 1}) {
      layouts[i] = dotOperandLayout(op, sums, i);
      const int64_t elements = layouts[i]->numRegisters();
      // A word is read; of f32 each number is rounded, and each further part takes seven more.
      instructions += elements * cta::elementBits(op->getOperand(i).getType()) / 64;
      if (isSplit)
        instructions += elements * (1 + 7 * (split.parts - 1));
    }
  }

  int64_t size() const { return instructions * length / depth; }
  int64_t stepLength() const { return length; }
  bool isLoop() const { return length < depth; }
  cta::DotOp dot() const { return op; }

  /// Halves the steps, where that is possible.
  bool shorten() {
    const int64_t half = length / 2;
    if (length % 2 || half % instruction.k || !planSteps(op, half) || !readsWhole(0, half) ||
        !readsWhole(1, half))
      return false;
    length = half;
    return true;
  }

private:
  /// Whether nothing that one instruction reads of an operand is of two steps.
  bool readsWhole(unsigned operand, int64_t step) const {
    auto type = dyn_cast<cta::BufferType>(op->getOperand(operand).getType());
    if (!type)
      return true;
    const Layout &layout = *layouts[operand];
    const SharedAccess access =
        planSharedAccess(type.getLayout().getLayout(), layout, 8 * cta::elementBytes(type),
                         /*isStore=*/false, banksOf(target));
    const unsigned dim = layout.rank() - 1 - operand;
    auto stepOf = [&](unsigned reg) { return layout.apply(reg, 0, 0)[dim] / step; };
    for (unsigned i = 0; i < access.registers.size(); ++i)
      if (stepOf(access.registers[i]) != stepOf(access.registers[i - i % access.vector]))
        return false;
    return true;
  }

  cta::DotOp op;
  const MmaInstruction &instruction;
  const Target &target;
  std::optional<Layout> layouts[2];
  int64_t depth, length, instructions = 0;
};

} // namespace

llvm::DenseMap<Operation *, int64_t> chooseSteps(func::FuncOp kernel, const Target &target) {
  std::vector<UnrolledDot> dots;
  int64_t total = 0;
  kernel.walk([&](cta::DotOp op) {
    const MmaInstruction *instruction = instructionOf(op, target);
    if (!op.getInstruction() || !instruction || instruction->isAsynchronous())
      return;
    dots.emplace_back(op, *instruction, target);
    total += dots.back().size();
  });
  auto own = kernel->getAttrOfType<IntegerAttr>(dotInstructionsAttr);
  const int64_t limit = own ? own.getInt() : maxInstructions;
  SmallVector<UnrolledDot *> open;
  for (UnrolledDot &dot : dots)
    open.push_back(&dot);
  while (total > limit && !open.empty()) {
    auto largest = llvm::max_element(open, [](auto *x, auto *y) { return x->size() < y->size(); });
    const int64_t before = (*largest)->size();
    if ((*largest)->shorten())
      total -= before - (*largest)->size();
    else
      open.erase(largest);
  }
  llvm::DenseMap<Operation *, int64_t> steps;
  for (const UnrolledDot &dot : dots)
    if (dot.isLoop())
      steps[dot.dot()] = dot.stepLength();
  return steps;
}

} // namespace sectile
