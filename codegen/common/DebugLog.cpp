// Entries of the log of assertions and prints: one thread of the block writes an entry's head.
#include "codegen/common/DebugLog.h"
#include "passes/analysis/SharedMemory.h"
#include "runtime/DebugLog.h"
#include "llvm/IR/MDBuilder.h"
#include "llvm/Transforms/Utils/BasicBlockUtils.h"

using namespace mlir;

namespace sectile {

namespace {

/// The log as the thread that writes to it sees it.
class Log {
public:
  Log(KernelEmitter &emitter, llvm::Value *address)
      : emitter(emitter), b(emitter.b), address(address) {}

  llvm::Value *at(llvm::Value *base, uint64_t bytes) {
    return b.CreateConstInBoundsGEP1_64(b.getInt8Ty(), base, bytes);
  }
  llvm::Value *at(llvm::Value *base, llvm::Value *bytes) {
    return b.CreateInBoundsGEP(b.getInt8Ty(), base, bytes);
  }
  llvm::Value *head(size_t member) { return at(address, member); }
  llvm::Value *start() const { return address; }

  /// Adds to a number of the head and gives what it was.
  llvm::Value *add(size_t member, uint64_t value) {
    return emitter.hooks.atomicUpdate(b, {.pointer = head(member)}, tile::AtomicKind::Add,
                                      b.getInt64(value));
  }

  void store(llvm::Value *entry, size_t member, llvm::Value *value) {
    b.CreateAlignedStore(value, at(entry, member),
                         llvm::Align(value->getType()->getPrimitiveSizeInBits() / 8));
  }
  void store(llvm::Value *entry, size_t member, uint32_t value) {
    store(entry, member, b.getInt32(value));
  }
  void storeProgram(llvm::Value *entry, size_t member) {
    for (unsigned axis = 0; axis < 3; ++axis)
      store(entry, member + 4 * axis, emitter.hooks.programId(b, axis));
  }

private:
  KernelEmitter &emitter;
  llvm::IRBuilder<> &b;
  llvm::Value *address;
};

llvm::BasicBlock *newBlock(llvm::IRBuilder<> &b, const char *name) {
  return llvm::BasicBlock::Create(b.getContext(), name, b.GetInsertBlock()->getParent());
}

} // namespace

void emitAssert(KernelEmitter &emitter, cta::AssertOp op) {
  using debuglog::Failure, debuglog::Head;
  llvm::IRBuilder<> &b = emitter.b;
  Log log(emitter, emitter.scalar(op.getLog()));
  auto *failed = newBlock(b, "assert.failed"), *report = newBlock(b, "assert.report");
  auto *write = newBlock(b, "assert.write"), *end = newBlock(b, "assert.end");
  auto *holds = newBlock(b, "assert.holds");
  b.CreateCondBr(emitter.scalar(op.getCondition()), holds, failed,
                 llvm::MDBuilder(b.getContext()).createLikelyBranchWeights());

  b.SetInsertPoint(failed);
  b.CreateCondBr(b.CreateIsNull(emitter.threadIndex()), report, end);
  b.SetInsertPoint(report);
  llvm::Value *number = log.add(offsetof(Head, failures), 1);
  b.CreateCondBr(b.CreateICmpULT(number, b.getInt64(debuglog::maxFailures)), write, end);
  b.SetInsertPoint(write);
  llvm::Value *entry = log.at(log.start(), debuglog::failuresAt);
  entry = log.at(entry, b.CreateMul(number, b.getInt64(sizeof(Failure))));
  log.store(entry, offsetof(Failure, site), op.getSite());
  log.store(entry, offsetof(Failure, index),
            op.getIndex() ? emitter.scalar(op.getIndex()) : b.getInt32(debuglog::noIndex));
  log.store(entry, offsetof(Failure, launch), emitter.scalar(op.getLaunch()));
  log.storeProgram(entry, offsetof(Failure, program));
  log.store(entry, offsetof(Failure, written), 1);
  b.CreateBr(end);
  b.SetInsertPoint(end);
  b.CreateRetVoid();
  b.SetInsertPoint(holds);
}

LogicalResult emitRecord(KernelEmitter &emitter, cta::RecordOp op) {
  using debuglog::Head, debuglog::Record;
  llvm::IRBuilder<> &b = emitter.b;
  Log log(emitter, emitter.scalar(op.getLog()));
  auto scratch = sharedOffset(op);
  if (!scratch)
    return op.emitError("needs scratch in shared memory, which has not been placed");
  llvm::Value *shared = emitter.sharedAddress(*scratch);
  llvm::Value *none = b.getInt64(~uint64_t{0});

  auto *reserve = newBlock(b, "record.reserve"), *write = newBlock(b, "record.write");
  auto *drop = newBlock(b, "record.drop"), *share = newBlock(b, "record.share");
  auto *all = newBlock(b, "record.all");
  b.CreateCondBr(b.CreateIsNull(emitter.threadIndex()), reserve, all);
  b.SetInsertPoint(reserve);
  llvm::Value *place = log.add(offsetof(Head, used), op.getBytes());
  llvm::Value *capacity =
      b.CreateAlignedLoad(b.getInt64Ty(), log.head(offsetof(Head, capacity)), llvm::Align(8));
  llvm::Value *needed = b.CreateAdd(place, b.getInt64(op.getBytes()));
  b.CreateCondBr(b.CreateICmpULE(needed, capacity), write, drop);
  b.SetInsertPoint(write);
  llvm::Value *entry = log.at(log.at(log.start(), debuglog::recordsAt), place);
  log.store(entry, offsetof(Record, bytes), op.getBytes());
  log.store(entry, offsetof(Record, site), op.getSite());
  log.store(entry, offsetof(Record, launch), emitter.scalar(op.getLaunch()));
  log.storeProgram(entry, offsetof(Record, program));
  b.CreateBr(share);
  b.SetInsertPoint(drop);
  log.add(offsetof(Head, dropped), 1);
  b.CreateBr(share);
  b.SetInsertPoint(share);
  llvm::PHINode *given = b.CreatePHI(b.getInt64Ty(), 2);
  given->addIncoming(place, write);
  given->addIncoming(none, drop);
  b.CreateAlignedStore(given, shared, llvm::Align(8));
  b.CreateBr(all);

  b.SetInsertPoint(all);
  emitter.barrier();
  place = b.CreateAlignedLoad(b.getInt64Ty(), shared, llvm::Align(8));
  llvm::Value *fits = b.CreateICmpNE(place, none);
  llvm::Value *values = log.at(log.at(log.start(), debuglog::recordsAt + sizeof(Record)), place);
  emitter.define(op.getFits(), {fits});
  for (auto [result, start] : llvm::zip_equal(op.getValues(), op.getStarts()))
    emitter.define(result, {log.at(values, uint64_t(start))});
  return success();
}

} // namespace sectile
