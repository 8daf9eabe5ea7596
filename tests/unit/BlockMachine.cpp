// Runs kernels at the level of a block, see BlockMachine.h.
#include "BlockMachine.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace sectile {

static int64_t mix(int64_t a, int64_t b) {
  return static_cast<int64_t>(llvm::hash_combine(a, b)) & 0xffffffffff;
}

// Masks are 0 or 1, and a tile's number is that of its elements, all equal.
static int64_t constantOf(arith::ConstantOp op) {
  Attribute value = op.getValue();
  if (auto splat = dyn_cast<SplatElementsAttr>(value))
    value = splat.getSplatValue<Attribute>();
  if (auto integer = dyn_cast<IntegerAttr>(value))
    return integer.getType().isInteger(1) ? !integer.getValue().isZero() : integer.getInt();
  return cast<FloatAttr>(value).getValueAsDouble() * 1000;
}

void BlockMachine::run(func::FuncOp function, ArrayRef<int64_t> arguments) {
  for (auto [argument, value] : llvm::zip(function.getArguments(), arguments))
    at(argument) = value;
  run(function.getBody().front());
  if (!copies.empty())
    error(*function, "copies are in flight at the end");
}

void BlockMachine::run(Block &block) {
  for (Operation &op : block)
    run(op);
}

void BlockMachine::error(Operation &op, const char *what) {
  if (errors.size() < 4) {
    std::string text;
    llvm::raw_string_ostream(text) << what << ": " << op;
    errors.push_back(text);
  }
}

void BlockMachine::touch(Bytes bytes, bool isWrite, Operation &op) {
  for (const auto &[other, wrote] : sinceBarrier)
    if ((isWrite || wrote) && bytes.overlaps(other))
      error(op, "no barrier since a conflicting access");
  for (const Copy &copy : copies)
    if (bytes.overlaps(copy.bytes))
      error(op, "a copy to the same bytes is in flight");
  sinceBarrier.push_back({bytes, isWrite});
}

void BlockMachine::meet() { sinceBarrier.clear(); }

void BlockMachine::write(Bytes bytes, int64_t value, Operation &op) {
  touch(bytes, true, op);
  std::erase_if(memory, [&](auto &entry) { return entry.first.overlaps(bytes); });
  memory[bytes] = value;
}

int64_t BlockMachine::read(Bytes bytes, Operation &op) {
  touch(bytes, false, op);
  auto found = memory.find(bytes);
  if (found == memory.end()) {
    error(op, "reads what nothing wrote");
    return -1;
  }
  return found->second;
}

BlockMachine::Bytes BlockMachine::bytesOf(Value buffer) {
  const BufferOrigin origin = originOf(buffer);
  Operation *owner = origin.owner;
  Value index = origin.index;
  int64_t begin = *sharedOffset(owner);
  if (auto channel = dyn_cast<cta::ChannelOp>(owner)) {
    int64_t slot = channel.getType().getSlotBytes();
    if (at(index) < 0 || at(index) >= channel.getType().getDepth())
      error(*owner, "no such slot");
    return {begin + at(index) * slot, begin + (at(index) + 1) * slot};
  }
  return {begin, begin + sharedBytes(owner)};
}

int64_t BlockMachine::load(int64_t address, bool mask, int64_t other) {
  if (!mask)
    return other;
  loaded.insert(address);
  return contents(address);
}

int64_t BlockMachine::contents(int64_t address) { return mix(address, 17) % 1000; }

// The number of an operation's only result, where that is all there is to it.
int64_t BlockMachine::number(Operation &op) {
  auto operand = [&](unsigned i) { return at(op.getOperand(i)); };
  return llvm::TypeSwitch<Operation *, int64_t>(&op)
      .Case([&](arith::ConstantOp constant) { return constantOf(constant); })
      .Case<arith::AddIOp, tile::AddPtrOp>([&](auto) { return operand(0) + operand(1); })
      .Case([&](arith::SubIOp) { return operand(0) - operand(1); })
      .Case([&](arith::MulIOp) { return operand(0) * operand(1); })
      .Case([&](arith::RemUIOp) { return operand(0) % operand(1); })
      .Case<cta::RingAdvanceOp, cta::RingSlotOp, cta::RingParityOp>(
          [&](auto ring) -> int64_t { return ring.resultOf(operand(0)); })
      .Case([&](arith::AndIOp) { return operand(0) & operand(1); })
      .Case([&](arith::CmpIOp compare) -> int64_t {
        unsigned bits = cta::elementBits(compare.getLhs().getType());
        return arith::applyCmpPredicate(compare.getPredicate(), APInt(bits, operand(0), true, true),
                                        APInt(bits, operand(1), true, true));
      })
      .Case<tile::SplatOp, tile::ReshapeOp, tile::PermuteOp, cta::ConvertLayoutOp>(
          [&](auto) { return operand(0); })
      .Case([&](tile::ArangeOp) { return 0; })
      .Default([&](Operation *) {
        error(op, "unknown operation");
        return 0;
      });
}

void BlockMachine::run(Operation &op) {
  if (Scratch scratch = sharedOffset(&op) ? scratchOf(&op) : Scratch(); scratch.bytes) {
    Bytes bytes{*sharedOffset(&op), *sharedOffset(&op) + scratch.bytes};
    write(bytes, 0, op);
    if (scratch.acrossWarps) {
      meet();
      read(bytes, op);
    }
  }
  llvm::TypeSwitch<Operation *>(&op)
      .Case<scf::YieldOp, func::ReturnOp, cta::ChannelOp, cta::SlotOp, cta::PermuteBufferOp>(
          [](auto) {})
      .Case([&](tile::LoadOp load) {
        at(load) = this->load(at(load.getPtr()), !load.getMask() || at(load.getMask()),
                              load.getOther() ? at(load.getOther()) : 0);
      })
      .Case([&](tile::StoreOp store) {
        if (!store.getMask() || at(store.getMask()))
          stores.push_back({at(store.getPtr()), at(store.getValue())});
      })
      .Case([&](cta::AllocOp alloc) {
        if (alloc.getInit())
          write(bytesOf(alloc), at(alloc.getInit()), op);
      })
      .Case([&](cta::LocalLoadOp load) { at(load) = read(bytesOf(load.getBuffer()), op); })
      .Case([&](cta::LocalStoreOp store) {
        write(bytesOf(store.getBuffer()), at(store.getValue()), op);
      })
      .Case<cta::DotOp, cta::DotStartOp>([&](auto dot) {
        int64_t result = at(dot.getAcc());
        for (Value operand : {dot.getA(), dot.getB()})
          result = mix(result, isa<cta::BufferType>(operand.getType()) ? read(bytesOf(operand), op)
                                                                       : at(operand));
        at(dot) = result;
      })
      .Case([&](cta::DotWaitOp wait) { at(wait.getSums()) = at(wait.getDot()); })
      .Case([&](cta::AsyncCopyOp copy) {
        Bytes bytes = bytesOf(copy.getBuffer());
        touch(bytes, true, op);
        sinceBarrier.pop_back();
        std::erase_if(memory, [&](auto &entry) { return entry.first.overlaps(bytes); });
        bool mask = !copy.getMask() || at(copy.getMask());
        copies.push_back({bytes, load(at(copy.getPtr()), mask, 0), groups});
      })
      .Case([&](cta::AsyncCommitOp) { ++groups; })
      .Case([&](cta::AsyncWaitOp wait) {
        std::vector<Copy> landed;
        for (const Copy &copy : copies)
          if (copy.group < groups - int(wait.getPending()))
            landed.push_back(copy);
        std::erase_if(
            copies, [&](const Copy &copy) { return copy.group < groups - int(wait.getPending()); });
        for (const Copy &copy : landed)
          write(copy.bytes, copy.value, op);
      })
      .Case<cta::ProxyFenceOp, cta::DotsWaitOp>([&](auto) {})
      .Case([&](cta::BarrierOp) {
        meet();
        ++barriers;
      })
      .Case([&](scf::IfOp branch) {
        Region &taken = at(branch.getCondition()) ? branch.getThenRegion() : branch.getElseRegion();
        if (taken.empty())
          return;
        run(taken.front());
        for (auto [result, value] :
             llvm::zip(branch.getResults(), taken.front().getTerminator()->getOperands()))
          at(result) = at(value);
      })
      .Case([&](scf::ForOp loop) {
        std::vector<int64_t> carried;
        for (Value init : loop.getInitArgs())
          carried.push_back(at(init));
        int64_t upper = at(loop.getUpperBound()), step = at(loop.getStep());
        for (int64_t i = at(loop.getLowerBound()); i < upper; i += step) {
          at(loop.getInductionVar()) = i;
          for (auto [argument, value] : llvm::zip(loop.getRegionIterArgs(), carried))
            at(argument) = value;
          run(*loop.getBody());
          for (auto [value, yielded] : llvm::zip(carried, loop.getYieldedValues()))
            value = at(yielded);
        }
        for (auto [result, value] : llvm::zip(loop.getResults(), carried))
          at(result) = value;
      })
      .Default([&](Operation *other) { at(other->getResult(0)) = number(op); });
}

} // namespace sectile
