// From LLVM IR to units of registers.
#include "codegen/nvidia/RegisterUnits.h"
#include "codegen/common/PseudoIntrinsics.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/PostOrderIterator.h"
#include "llvm/IR/CFG.h"
#include "llvm/IR/DataLayout.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/IntrinsicsNVPTX.h"
#include "llvm/IR/Module.h"

using namespace llvm;

namespace sectile::nvidia {
namespace {

enum AddressSpace : unsigned { global = 1, shared = 3 };

/// The units that hold 32 bits of a value. More than one where the value is not made: it is read as
/// part of what uses it.
using Slot = SmallVector<unsigned, 2>;
using Slots = SmallVector<Slot, 4>;

class Builder {
public:
  Builder(const Function &kernel, Room room)
      : kernel(kernel), layout(kernel.getParent()->getDataLayout()), room(room) {}

  StepGraph build() {
    ReversePostOrderTraversal<const Function *> order(&kernel);
    findUniform(order);
    if (room == Room::Short)
      findPlaces(order);
    for (const BasicBlock *block : order)
      numbers.try_emplace(block, numbers.size());
    graph.blocks.resize(numbers.size());
    for (const BasicBlock *block : order)
      visit(*block);
    for (const BasicBlock *block : order)
      connect(*block);
    graph.units = units;
    return std::move(graph);
  }

private:
  //===-- Types and constants
  //-------------------------------------------------------------------===//

  unsigned bitsOf(Type *type) const {
    if (auto *pointer = dyn_cast<PointerType>(type))
      return pointer->getAddressSpace() == shared ? 32 : 64;
    return layout.getTypeSizeInBits(type).getFixedValue();
  }

  /// 32-bit registers of a value. Predicates have their own.
  unsigned slotsOf(Type *type) const {
    if (type->isVoidTy() || type->isIntOrIntVectorTy(1))
      return 0;
    if (auto *structure = dyn_cast<StructType>(type)) {
      unsigned slots = 0;
      for (Type *element : structure->elements())
        slots += slotsOf(element);
      return slots;
    }
    if (auto *array = dyn_cast<ArrayType>(type))
      return slotsOf(array->getElementType()) * array->getNumElements();
    return (bitsOf(type) + 31) / 32;
  }

  //===-- What all threads of a warp have in common
  //---------------------------------------------===//

  // Integers of it are computed once for a warp, in registers of their own.
  bool isUniform(const Value *value) const {
    return isa<Constant, Argument>(value) || uniform.contains(value);
  }

  static bool mayBeUniform(const Instruction &instruction) {
    Type *type = instruction.getType();
    if (!type->isIntegerTy() && !type->isPointerTy())
      return false;
    switch (instruction.getOpcode()) {
    case Instruction::Add:
    case Instruction::Sub:
    case Instruction::Mul:
    case Instruction::Shl:
    case Instruction::LShr:
    case Instruction::AShr:
    case Instruction::And:
    case Instruction::Or:
    case Instruction::Xor:
    case Instruction::ICmp:
    case Instruction::Select:
    case Instruction::ZExt:
    case Instruction::SExt:
    case Instruction::Trunc:
    case Instruction::GetElementPtr:
    case Instruction::PHI:
    case Instruction::Freeze:
    case Instruction::PtrToInt:
    case Instruction::IntToPtr:
    case Instruction::AddrSpaceCast:
      return true;
    case Instruction::Call:
      switch (cast<CallInst>(instruction).getIntrinsicID()) {
      case Intrinsic::nvvm_read_ptx_sreg_ctaid_x:
      case Intrinsic::nvvm_read_ptx_sreg_ctaid_y:
      case Intrinsic::nvvm_read_ptx_sreg_ctaid_z:
      case Intrinsic::nvvm_read_ptx_sreg_nctaid_x:
      case Intrinsic::nvvm_read_ptx_sreg_nctaid_y:
      case Intrinsic::nvvm_read_ptx_sreg_nctaid_z:
      case Intrinsic::smin:
      case Intrinsic::smax:
      case Intrinsic::umin:
      case Intrinsic::umax:
      case Intrinsic::abs:
        return true;
      default:
        return false;
      }
    default:
      return false;
    }
  }

  void findUniform(const ReversePostOrderTraversal<const Function *> &order) {
    for (const BasicBlock *block : order)
      for (const Instruction &instruction : *block)
        if (mayBeUniform(instruction))
          uniform.insert(&instruction);
    for (bool changed = true; changed;) {
      changed = false;
      for (const BasicBlock *block : order)
        for (const Instruction &instruction : *block) {
          if (!uniform.contains(&instruction))
            continue;
          auto *call = dyn_cast<CallInst>(&instruction);
          const bool stays = all_of(call ? call->args() : instruction.operands(),
                                    [&](const Use &use) { return isUniform(use); });
          if (!stays)
            changed |= uniform.erase(&instruction);
        }
    }
  }

  //===-- What follows from the thread's number
  //-----------------------------------------------------===//

  // It is computed anew wherever registers are short: the number can be read at any time. Wide
  // integers, and what takes several such values together, are too dear for that.
  void findPlaces(const ReversePostOrderTraversal<const Function *> &order) {
    for (const BasicBlock *block : order)
      for (const Instruction &instruction : *block)
        if (isThreadNumber(instruction) || isPlace(instruction))
          places.insert(&instruction);
  }

  static bool isThreadNumber(const Instruction &instruction) {
    auto *call = dyn_cast<CallInst>(&instruction);
    return call && (call->getIntrinsicID() == Intrinsic::nvvm_read_ptx_sreg_tid_x ||
                    call->getIntrinsicID() == Intrinsic::nvvm_read_ptx_sreg_laneid);
  }

  bool isPlace(const Instruction &instruction) const {
    if (isUniform(&instruction) || !mayBeUniform(instruction) || isa<PHINode>(instruction))
      return false;
    if (slotsOf(instruction.getType()) > 1 && !isa<ZExtInst, SExtInst>(instruction))
      return false;
    auto *call = dyn_cast<CallInst>(&instruction);
    unsigned varying = 0;
    for (const Use &use : call ? call->args() : instruction.operands())
      if (!isUniform(use)) {
        if (!places.contains(use.get()))
          return false;
        ++varying;
      }
    return varying == 1;
  }

  //===-- Values
  //--------------------------------------------------------------------------------===//

  Slots slotsOf(const Value *value) {
    if (auto known = where.find(value); known != where.end())
      return known->second;
    return Slots(slotsOf(value->getType())); // takes no register
  }

  Slots fresh(unsigned count) {
    Slots slots(count);
    for (Slot &slot : slots)
      slot.push_back(units++);
    return slots;
  }

  static void unite(SmallVectorImpl<unsigned> &slot, const Slot &other) {
    for (unsigned unit : other)
      if (!is_contained(slot, unit))
        slot.push_back(unit);
  }

  void read(Step &step, const Value *value) {
    for (const Slot &slot : slotsOf(value))
      unite(step.uses, slot);
  }

  Step &newStep() {
    Step &step = block->steps.emplace_back();
    if (behindBranch)
      step.after.push_back(behindBranch - 1);
    return step;
  }

  /// A step that reads all operands and defines the instruction.
  Step &define(const Instruction &instruction) {
    Step &step = newStep();
    auto *call = dyn_cast<CallInst>(&instruction);
    for (const Use &use : call ? call->args() : instruction.operands())
      if (!isa<BasicBlock>(use)) {
        read(step, use);
        if (places.contains(use.get()) || shifted.contains(use.get()))
          step.scratch += slotsOf(use->getType());
      }
    Slots slots = fresh(slotsOf(instruction.getType()));
    for (const Slot &slot : slots)
      step.defines.push_back(slot.front());
    step.latency = 5;
    where[&instruction] = std::move(slots);
    return step;
  }

  /// It is read as part of what uses it.
  void fold(const Instruction &instruction) {
    Slot all;
    for (const Use &use : instruction.operands())
      for (const Slot &slot : slotsOf(use))
        unite(all, slot);
    where[&instruction] = Slots(slotsOf(instruction.getType()), all);
  }

  /// It is another value and something that the warp has in common, which is added where it is
  /// used: so one register serves all addresses that differ in nothing else.
  void shift(const Instruction &instruction, const Value *by) {
    Slots slots = slotsOf(by);
    slots.resize(slotsOf(instruction.getType()));
    where[&instruction] = std::move(slots);
    // An address has room for a constant.
    if (!isa<GetElementPtrInst>(instruction) || shifted.contains(by) ||
        any_of(instruction.operands(),
               [&](const Use &part) { return part.get() != by && !isa<Constant>(part); }))
      shifted.insert(&instruction);
  }

  //===-- Memory
  //--------------------------------------------------------------------------------===//

  struct Order {
    SmallVector<unsigned, 8> reads; ///< since the last write
    int write = -1;
  };

  void readsMemory(unsigned space) {
    Order &order = memory[space];
    const unsigned here = block->steps.size() - 1;
    if (order.write >= 0)
      block->steps[here].after.push_back(order.write);
    order.reads.push_back(here);
  }

  void writesMemory(unsigned space) {
    Order &order = memory[space];
    const unsigned here = block->steps.size() - 1;
    if (order.reads.empty() && order.write >= 0)
      block->steps[here].after.push_back(order.write);
    for (unsigned read : order.reads)
      if (read != here)
        block->steps[here].after.push_back(read);
    order.reads.clear();
    order.write = here;
  }

  void fence() {
    for (unsigned space : {0, 1})
      writesMemory(space);
  }

  static unsigned orderOf(const Value *pointer) {
    return pointer->getType()->getPointerAddressSpace() == shared;
  }

  //===-- Instructions
  //--------------------------------------------------------------------------===//

  void visit(const BasicBlock &from) {
    block = &graph.blocks[numbers[&from]];
    memory[0] = memory[1] = {};
    behindBranch = 0;
    for (const Instruction &instruction : from) {
      if (!isUniform(&instruction) && !places.contains(&instruction))
        visit(instruction);
    }
  }

  /// The step that was just made becomes several blocks of the chip's code, one of them for rare
  /// operands, and nothing moves past it.
  void branches() {
    std::vector<Step> &steps = block->steps;
    const unsigned here = steps.size() - 1;
    for (unsigned before = behindBranch; before < here; ++before)
      steps[here].after.push_back(before);
    behindBranch = here + 1;
  }

  void visit(const Instruction &instruction) {
    switch (instruction.getOpcode()) {
    case Instruction::PHI: {
      Slots slots = fresh(slotsOf(instruction.getType()));
      for (const Slot &slot : slots)
        block->arguments.push_back(slot.front());
      where[&instruction] = std::move(slots);
      return;
    }
    case Instruction::BitCast:
    case Instruction::AddrSpaceCast:
    case Instruction::PtrToInt:
    case Instruction::IntToPtr:
    case Instruction::Freeze:
    case Instruction::Trunc: {
      Slots slots = slotsOf(instruction.getOperand(0));
      if (slotsOf(instruction.getOperand(0)->getType()) == 0 && slotsOf(instruction.getType()))
        return void(define(instruction));
      slots.resize(slotsOf(instruction.getType()));
      where[&instruction] = std::move(slots);
      return;
    }
    case Instruction::ZExt:
    case Instruction::SExt: {
      const Value *from = instruction.getOperand(0);
      if (from->getType()->isIntOrIntVectorTy(1))
        return void(define(instruction));
      Slots slots = slotsOf(from);
      slots.resize(slotsOf(instruction.getType()));
      where[&instruction] = std::move(slots);
      return;
    }
    case Instruction::Select:
      // Of two constants: its predicate is what is kept.
      if (isa<Constant>(instruction.getOperand(1)) && isa<Constant>(instruction.getOperand(2)))
        return;
      return void(define(instruction));
    case Instruction::Add:
    case Instruction::Sub:
      if (room == Room::Short)
        for (unsigned common : {0, 1})
          if (isUniform(instruction.getOperand(common)))
            return shift(instruction, instruction.getOperand(1 - common));
      [[fallthrough]];
    case Instruction::And:
    case Instruction::Or:
    case Instruction::Xor:
    case Instruction::Shl:
    case Instruction::LShr:
    case Instruction::AShr:
      if (isDoneAgain(instruction)) {
        again.insert(&instruction);
        return fold(instruction);
      }
      return void(define(instruction));
    case Instruction::FNeg:
      return fold(instruction);
    case Instruction::FMul:
      if (isFused(instruction))
        return fold(instruction);
      return void(define(instruction));
    case Instruction::FPTrunc:
      if (instruction.hasOneUse() && isPacking(*instruction.user_back()))
        return fold(instruction);
      return void(define(instruction));
    case Instruction::ExtractValue:
      return extractValue(cast<ExtractValueInst>(instruction));
    case Instruction::InsertValue:
      return insertValue(cast<InsertValueInst>(instruction));
    case Instruction::ExtractElement:
      return extractElement(cast<ExtractElementInst>(instruction));
    case Instruction::InsertElement:
      return insertElement(cast<InsertElementInst>(instruction));
    case Instruction::ShuffleVector:
      return shuffle(cast<ShuffleVectorInst>(instruction));
    case Instruction::GetElementPtr:
      return address(cast<GetElementPtrInst>(instruction));
    case Instruction::Load: {
      const Value *pointer = cast<LoadInst>(instruction).getPointerOperand();
      Step &step = define(instruction);
      loads(step, orderOf(pointer));
      readsMemory(orderOf(pointer));
      return;
    }
    case Instruction::Store: {
      auto &store = cast<StoreInst>(instruction);
      define(instruction).scratch += missing(store.getValueOperand());
      writesMemory(orderOf(store.getPointerOperand()));
      return;
    }
    case Instruction::AtomicRMW:
    case Instruction::AtomicCmpXchg:
      define(instruction).latency = 500;
      return writesMemory(orderOf(instruction.getOperand(0)));
    case Instruction::FDiv:
      define(instruction).scratch += 4;
      return branches();
    case Instruction::UDiv:
    case Instruction::SDiv:
    case Instruction::URem:
    case Instruction::SRem:
      define(instruction).scratch +=
          isa<Constant>(instruction.getOperand(1)) && instruction.getType()->isIntegerTy() ? 1
          : bitsOf(instruction.getType()) > 32                                             ? 12
                                                                                           : 4;
      return;
    case Instruction::Call:
      return visitCall(cast<CallInst>(instruction));
    default:
      define(instruction);
    }
  }

  /// Of a store of several registers, those that a constant must be brought into.
  unsigned missing(const Value *value) {
    const Slots slots = slotsOf(value);
    return slots.size() < 2 ? 0 : count_if(slots, [](const Slot &slot) { return slot.empty(); });
  }

  static void loads(Step &step, bool fromShared) {
    step.latency = fromShared ? 30 : 500;
    step.fetches = !fromShared;
  }

  void visitCall(const CallInst &call) {
    const Function *callee = call.getCalledFunction();
    const StringRef name = callee ? callee->getName() : "";
    if (auto *intrinsic = dyn_cast<IntrinsicInst>(&call)) {
      switch (intrinsic->getIntrinsicID()) {
      case Intrinsic::assume:
      case Intrinsic::lifetime_start:
      case Intrinsic::lifetime_end:
      case Intrinsic::experimental_noalias_scope_decl:
        return;
      case Intrinsic::fabs:
        where[&call] = slotsOf(call.getArgOperand(0));
        return;
      default:
        break;
      }
      Step &step = define(call);
      if (name.contains("ldmatrix")) {
        loads(step, true);
        readsMemory(1);
      } else if (name.contains("shfl")) {
        step.latency = 25;
      } else if (name.contains("mma")) {
        step.latency = 30;
      } else if (name.contains("cp.async")) {
        writesMemory(1);
      } else if (name.contains("barrier") || name.contains("bar.")) {
        fence();
      } else if (name.contains("sqrt") && !name.contains("approx")) {
        branches();
      } else if (name.contains("ex2") || name.contains("rcp") || name.contains("rsqrt")) {
        step.latency = 20;
      }
      return;
    }
    if (name.starts_with(pseudo::nvLoad)) {
      Step &step = define(call);
      loads(step, false);
      return readsMemory(0);
    }
    if (name.starts_with(pseudo::nvStore)) {
      define(call).scratch += missing(call.getArgOperand(1));
      return writesMemory(0);
    }
    if (name.starts_with(pseudo::nvCopy)) {
      define(call);
      return writesMemory(1);
    }
    Step &step = define(call);
    step.latency = 500;
    if (call.mayReadOrWriteMemory())
      fence();
  }

  /// Whether it is computed anew where it is used: of a value and a constant, in another block.
  bool isDoneAgain(const Instruction &instruction) const {
    return isa<Constant>(instruction.getOperand(1)) && !again.contains(instruction.getOperand(0)) &&
           any_of(instruction.users(), [&](const User *user) {
             return cast<Instruction>(user)->getParent() != instruction.getParent();
           });
  }

  /// Whether a product and what takes it are one instruction.
  static bool isFused(const Instruction &product) {
    if (!product.hasOneUse() || !product.hasAllowContract())
      return false;
    auto *user = cast<Instruction>(product.user_back());
    return (user->getOpcode() == Instruction::FAdd || user->getOpcode() == Instruction::FSub) &&
           user->hasAllowContract() && user->getParent() == product.getParent();
  }

  static bool isPacking(const User &user) {
    auto *insert = dyn_cast<InsertElementInst>(&user);
    return insert && insert->getType()->getScalarSizeInBits() < 32;
  }

  void extractValue(const ExtractValueInst &extract) {
    const Slots all = slotsOf(extract.getAggregateOperand());
    Type *type = extract.getAggregateOperand()->getType();
    unsigned first = 0;
    for (unsigned index : extract.indices()) {
      for (unsigned i = 0; i < index; ++i)
        first += slotsOf(elementOf(type, i));
      type = elementOf(type, index);
    }
    Slots slots;
    for (unsigned i = 0; i < slotsOf(extract.getType()); ++i)
      slots.push_back(all[first + i]);
    where[&extract] = std::move(slots);
  }

  static Type *elementOf(Type *type, unsigned index) {
    auto *structure = dyn_cast<StructType>(type);
    return structure ? structure->getElementType(index) : type->getArrayElementType();
  }

  void insertValue(const InsertValueInst &insert) {
    Slots all = slotsOf(insert.getAggregateOperand());
    Type *type = insert.getType();
    unsigned first = 0;
    for (unsigned index : insert.indices()) {
      for (unsigned i = 0; i < index; ++i)
        first += slotsOf(elementOf(type, i));
      type = elementOf(type, index);
    }
    for (auto [i, slot] : enumerate(slotsOf(insert.getInsertedValueOperand())))
      all[first + i] = slot;
    where[&insert] = std::move(all);
  }

  /// The slots of an element of a vector.
  std::pair<unsigned, unsigned> placeOf(Type *vector, unsigned element) const {
    const unsigned bits = bitsOf(vector->getScalarType());
    return {element * bits / 32, std::max(1u, bits / 32)};
  }

  void extractElement(const ExtractElementInst &extract) {
    auto *index = dyn_cast<ConstantInt>(extract.getIndexOperand());
    if (!index || !slotsOf(extract.getType()))
      return void(define(extract));
    const Slots all = slotsOf(extract.getVectorOperand());
    auto [first, count] = placeOf(extract.getVectorOperandType(), index->getZExtValue());
    where[&extract] = Slots(all.begin() + first, all.begin() + first + count);
  }

  void insertElement(const InsertElementInst &insert) {
    auto *index = dyn_cast<ConstantInt>(insert.getOperand(2));
    if (!index || !slotsOf(insert.getType()))
      return void(define(insert));
    Slots all = slotsOf(insert.getOperand(0));
    const Slots value = slotsOf(insert.getOperand(1));
    auto [first, count] = placeOf(insert.getType(), index->getZExtValue());
    if (bitsOf(insert.getType()->getScalarType()) >= 32) {
      for (unsigned i = 0; i < count; ++i)
        all[first + i] = value[i];
    } else {
      unite(all[first], value.front());
      if (all[first].size() > 1 && isLastOf(insert, first))
        all[first] = packed(all[first]);
    }
    where[&insert] = std::move(all);
  }

  /// Whether no other element is put into the same register right behind.
  bool isLastOf(const InsertElementInst &insert, unsigned slot) const {
    if (!insert.hasOneUse())
      return true;
    auto *next = dyn_cast<InsertElementInst>(insert.user_back());
    auto *index = next ? dyn_cast<ConstantInt>(next->getOperand(2)) : nullptr;
    return !index || placeOf(next->getType(), index->getZExtValue()).first != slot;
  }

  Slot packed(const Slot &parts) {
    Step &step = newStep();
    step.uses.assign(parts.begin(), parts.end());
    step.latency = 5;
    step.defines.push_back(units++);
    return {step.defines.front()};
  }

  void shuffle(const ShuffleVectorInst &shuffle) {
    const unsigned bits = bitsOf(shuffle.getType()->getScalarType());
    const Slots a = slotsOf(shuffle.getOperand(0)), b = slotsOf(shuffle.getOperand(1));
    const unsigned length =
        cast<FixedVectorType>(shuffle.getOperand(0)->getType())->getNumElements();
    Slots all(slotsOf(shuffle.getType()));
    if (!all.empty())
      for (auto [i, from] : enumerate(shuffle.getShuffleMask())) {
        if (from < 0)
          continue;
        const bool second = unsigned(from) >= length;
        const unsigned element = second ? from - length : from;
        for (unsigned part = 0; part < std::max(1u, bits / 32); ++part)
          unite(all[i * bits / 32 + part], (second ? b : a)[element * bits / 32 + part]);
      }
    for (Slot &slot : all)
      if (slot.size() > 1)
        slot = packed(slot);
    where[&shuffle] = std::move(all);
  }

  /// Whether it is added where it is used.
  bool isAddedLate(const Value *part) const {
    return room == Room::Short ? isUniform(part) : isa<Constant>(part);
  }

  void address(const GetElementPtrInst &gep) {
    const Value *varying = isAddedLate(gep.getPointerOperand()) ? nullptr : gep.getPointerOperand();
    for (const Use &index : gep.indices())
      if (!isAddedLate(index)) {
        if (varying)
          return void(define(gep));
        varying = index;
      }
    shift(gep, varying);
  }

  //===-- Control flow
  //--------------------------------------------------------------------------===//

  void connect(const BasicBlock &from) {
    block = &graph.blocks[numbers[&from]];
    for (const BasicBlock *to : llvm::successors(&from)) {
      StepBlock::Edge edge{numbers[to], {}};
      for (const PHINode &phi : to->phis())
        if (!isUniform(&phi))
          for (const Slot &slot : slotsOf(phi.getIncomingValueForBlock(&from)))
            for (unsigned unit : slot)
              if (!is_contained(edge.uses, unit))
                edge.uses.push_back(unit);
      block->successors.push_back(std::move(edge));
    }
  }

  const Function &kernel;
  const DataLayout &layout;
  const Room room;
  StepGraph graph;
  StepBlock *block = nullptr;
  unsigned units = 0;
  DenseMap<const BasicBlock *, unsigned> numbers;
  DenseMap<const Value *, Slots> where;
  DenseSet<const Value *> uniform;
  DenseSet<const Value *> places;
  DenseSet<const Value *> shifted;
  DenseSet<const Value *> again; ///< what is computed anew where it is used
  unsigned behindBranch = 0;     ///< the first step of the block that is behind all branches
  Order memory[2];               ///< global and shared, of the block
};

} // namespace

StepGraph registerUnits(const Function &kernel, Room room) { return Builder(kernel, room).build(); }

} // namespace sectile::nvidia
