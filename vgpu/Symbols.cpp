// The machine's functions as generated code sees them.
#include "vgpu/Symbols.h"
#include "vgpu/Block.h"
#include <iterator>

namespace sectile::vgpu {
namespace {

void access_global(Thread *thread, uint64_t address, uint32_t access, uint32_t site) {
  thread->owner->accessGlobal(*thread, address, access, site);
}
void access_generic(Thread *thread, uint64_t address, uint32_t access, uint32_t site) {
  thread->owner->accessGeneric(*thread, address, access, site);
}
char *access_shared(Thread *thread, uint32_t offset, uint32_t access, uint32_t site) {
  return thread->owner->accessShared(*thread, offset, access, site);
}
void range(Thread *thread, uint64_t address, uint64_t bytes, uint32_t flags, uint32_t site) {
  thread->owner->accessRange(*thread, address, bytes, flags, site);
}
void warp(Thread *thread, uint32_t site, uint32_t op, uint32_t modifiers, uint64_t mask,
          uint32_t *registers) {
  thread->owner->meetWarp(*thread, site, Op(op), modifiers, mask, registers);
}
uint32_t barrier(Thread *thread, uint32_t site, uint32_t kind, uint32_t id, uint32_t count,
                 uint32_t predicate) {
  return thread->owner->meetBarrier(*thread, site, kind, id, count, predicate);
}
void async_copy(Thread *thread, uint32_t site, uint32_t target, uint64_t source, uint32_t bytes,
                uint32_t sourceBytes) {
  thread->owner->startCopy(*thread, site, target, source, bytes, sourceBytes);
}
void async_commit(Thread *thread) { thread->owner->commitCopies(*thread); }
void async_wait(Thread *thread, uint32_t site, uint32_t mayStay) {
  thread->owner->waitCopies(*thread, site, mayStay);
}
void wait_dependencies(Thread *thread) { thread->hasWaited = true; }
void launch_dependents(Thread *thread) { thread->letsNextStartEarly |= !thread->hasWaited; }
void fence(Thread *thread, uint32_t order) { thread->owner->fence(*thread, order); }
void fence_proxy(Thread *thread, uint32_t what) { thread->owner->fenceProxy(*thread, what); }
void tensor_copy(Thread *thread, uint32_t site, uint32_t what, const uint32_t *registers) {
  thread->owner->copyTensor(*thread, site, BulkOp(what & ((1u << bulkOpBits) - 1)),
                            what >> bulkOpBits, registers);
}
void bulk_copy(Thread *thread, uint32_t site, uint32_t op, const uint32_t *registers) {
  thread->owner->copyBulk(*thread, site, BulkOp(op), registers);
}
void bulk_commit(Thread *thread) { thread->owner->commitBulk(*thread); }
void bulk_wait(Thread *thread, uint32_t site, uint32_t mayStay, uint32_t onlyReads) {
  thread->owner->waitForBulk(*thread, site, mayStay, onlyReads);
}
void cluster_arrive(Thread *thread, uint32_t site, uint32_t releases) {
  thread->owner->arriveCluster(*thread, site, releases);
}
void cluster_wait(Thread *thread, uint32_t site) { thread->owner->waitCluster(*thread, site); }
uint64_t mbarrier(Thread *thread, uint32_t site, uint32_t op, uint32_t address, uint64_t operand) {
  return thread->owner->mbarrier(*thread, site, MbarrierOp(op), address, operand);
}
void trap(Thread *thread, uint32_t site) {
  thread->owner->trap(*thread, site, "the kernel stopped itself");
}
void divisor_is_zero(Thread *thread, uint32_t site) {
  if (thread->owner->context().checks)
    thread->owner->trap(*thread, site, "an integer is divided by zero");
}
void divide_by_zero(Thread *thread, uint32_t site) {
  thread->owner->trap(*thread, site, "an integer is divided by zero");
}
void divide_overflows(Thread *thread, uint32_t site) {
  thread->owner->trap(*thread, site, "the lowest integer is divided by -1");
}
// A clock that only counts how often it is read: the same in every run.
uint64_t clock(Thread *thread) { return ++thread->ticks; }
uint64_t active_lanes(Thread *thread) { return thread->warpState->live; }
void overrun(Thread *thread, uint32_t site) { thread->owner->overrun(*thread, site); }

} // namespace

SymbolTable machineSymbols() {
#define SECTILE_VG_SYMBOL(name) {"sectile_vg_" #name, reinterpret_cast<void *>(&(name))},
  static const Symbol table[] = {SECTILE_VG_FUNCTIONS(SECTILE_VG_SYMBOL)};
  return {table, std::size(table)};
}

} // namespace sectile::vgpu
