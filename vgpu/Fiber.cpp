// The stack switch in assembly for x86-64, through ucontext elsewhere.
#include "vgpu/Fiber.h"
#include <algorithm>
#include <sys/mman.h>
#if defined(__SANITIZE_ADDRESS__)
#define SECTILE_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SECTILE_ASAN 1
#endif
#endif
#ifdef SECTILE_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
// SECTILE_UCONTEXT_FIBERS tries the portable switch on x86-64 too.
#if defined(__x86_64__) && !defined(SECTILE_UCONTEXT_FIBERS)
#define SECTILE_ASSEMBLY_SWITCH 1
#else
#define SECTILE_ASSEMBLY_SWITCH 0
#endif
#if !SECTILE_ASSEMBLY_SWITCH
#include <memory>
#include <ucontext.h>
#endif

namespace sectile::vgpu {

#if SECTILE_ASSEMBLY_SWITCH

// Callee-saved registers go onto the stack that is left. The floating-point control words are the
// same everywhere.
asm(R"(
.text
.p2align 4
.type sectile_switch_stack, @function
sectile_switch_stack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size sectile_switch_stack, .-sectile_switch_stack
.p2align 4
.type sectile_fiber_start, @function
sectile_fiber_start:
  movq %r13, %rdi
  callq *%r12
  ud2
.size sectile_fiber_start, .-sectile_fiber_start
)");
extern "C" __attribute__((visibility("hidden"))) void sectile_switch_stack(void **save, void *load);
extern "C" __attribute__((visibility("hidden"))) void sectile_fiber_start();

void prepareFiber(FiberContext &context, void *stackLow, size_t stackBytes, size_t offset,
                  void (*entry)(void *), void *argument) {
  char *top = static_cast<char *>(stackLow) + stackBytes - offset;
  top -= reinterpret_cast<uintptr_t>(top) % 64;
  auto *words = reinterpret_cast<void **>(top) - 9; // the fiber starts with an aligned stack
  words[0] = nullptr;                               // r15
  words[1] = nullptr;                               // r14
  words[2] = argument;                              // r13
  words[3] = reinterpret_cast<void *>(entry);       // r12
  words[4] = nullptr;                               // rbx
  words[5] = nullptr;                               // rbp
  words[6] = reinterpret_cast<void *>(&sectile_fiber_start);
  context = {static_cast<void *>(words), stackLow, stackBytes, nullptr};
#ifdef SECTILE_ASAN
  __asan_unpoison_memory_region(stackLow, stackBytes);
#endif
}

static void jump(FiberContext &from, FiberContext &to) {
  sectile_switch_stack(&from.state, to.state);
}

#else

namespace {
struct Start {
  void (*entry)(void *);
  void *argument;
};
void trampoline(unsigned high, unsigned low) {
  auto *start = reinterpret_cast<Start *>(uintptr_t(high) << 32 | low);
  start->entry(start->argument);
}
} // namespace

void prepareFiber(FiberContext &context, void *stackLow, size_t stackBytes, size_t,
                  void (*entry)(void *), void *argument) {
  // The context lives at the low end of the stack it belongs to.
  auto *state = static_cast<ucontext_t *>(stackLow);
  auto *start = reinterpret_cast<Start *>(state + 1);
  *start = {entry, argument};
  getcontext(state);
  char *usable = reinterpret_cast<char *>(start + 1);
  state->uc_stack.ss_sp = usable;
  state->uc_stack.ss_size = stackBytes - size_t(usable - static_cast<char *>(stackLow));
  state->uc_link = nullptr;
  auto address = reinterpret_cast<uintptr_t>(start);
  makecontext(state, reinterpret_cast<void (*)()>(trampoline), 2, unsigned(address >> 32),
              unsigned(address));
  context = {state, stackLow, stackBytes, nullptr};
}

static void jump(FiberContext &from, FiberContext &to) {
  // A host thread's own stack has no context until it is first left.
  thread_local ucontext_t own;
  if (!from.state)
    from.state = &own;
  swapcontext(static_cast<ucontext_t *>(from.state), static_cast<ucontext_t *>(to.state));
}

#endif

#ifdef SECTILE_ASAN
// The context that was left, so that the one entered can note where its stack lies.
static thread_local FiberContext *lastLeft = nullptr;

void fiberEntered(FiberContext &self) {
  const void *low = nullptr;
  size_t bytes = 0;
  __sanitizer_finish_switch_fiber(self.fakeStack, &low, &bytes);
  // Where a host thread's own lies is not known before, and a block may run on several.
  if (lastLeft) {
    lastLeft->stackLow = low;
    lastLeft->stackBytes = bytes;
  }
}

void switchFiber(FiberContext &from, FiberContext &to) {
  lastLeft = &from;
  __sanitizer_start_switch_fiber(&from.fakeStack, to.stackLow, to.stackBytes);
  jump(from, to);
  fiberEntered(from);
}

void leaveFiber(FiberContext &from, FiberContext &to) {
  lastLeft = &from;
  // Nowhere to keep its fake stack: the sanitizer frees it.
  __sanitizer_start_switch_fiber(nullptr, to.stackLow, to.stackBytes);
  jump(from, to);
  __builtin_unreachable();
}
#else
void fiberEntered(FiberContext &) {}

void switchFiber(FiberContext &from, FiberContext &to) { jump(from, to); }

void leaveFiber(FiberContext &from, FiberContext &to) {
  jump(from, to);
  __builtin_unreachable();
}
#endif

namespace {
constexpr size_t guardBytes = 64 * 1024;
}

StackPool::~StackPool() {
  if (region)
    munmap(region, stackCount * (stackBytes + guardBytes));
}

bool StackPool::reserve(size_t count, size_t bytes) {
  bytes = (bytes + 4095) / 4096 * 4096;
  if (count <= stackCount && bytes <= stackBytes)
    return true;
  count = std::max(count, stackCount);
  bytes = std::max(bytes, stackBytes);
  if (region)
    munmap(region, stackCount * (stackBytes + guardBytes));
  region = nullptr;
  stackCount = stackBytes = 0;
  size_t slot = bytes + guardBytes;
  void *memory =
      mmap(nullptr, count * slot, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED)
    return false;
  for (size_t i = 0; i < count; ++i)
    if (mprotect(static_cast<char *>(memory) + i * slot + guardBytes, bytes,
                 PROT_READ | PROT_WRITE) != 0) {
      munmap(memory, count * slot);
      return false;
    }
  region = static_cast<char *>(memory);
  stackCount = count;
  stackBytes = bytes;
  return true;
}

void *StackPool::low(size_t index) const {
  return region + index * (stackBytes + guardBytes) + guardBytes;
}

} // namespace sectile::vgpu
