// Stacks and the switch between them: a thread of the virtual GPU is a fiber of a host thread.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace sectile::vgpu {

// A stack that does not run. On x86-64 it is the saved stack pointer; elsewhere a ucontext.
struct FiberContext {
  void *state = nullptr;
  // Bounds, which the address sanitizer is told at each switch.
  const void *stackLow = nullptr;
  size_t stackBytes = 0;
  void *fakeStack = nullptr;
};

// Makes `context` start in `entry(argument)` when it is first switched to. `entry` must not return.
void prepareFiber(FiberContext &context, void *stackLow, size_t stackBytes, size_t offset,
                  void (*entry)(void *), void *argument);

// Saves the running stack in `from` and goes on where `to` stopped.
void switchFiber(FiberContext &from, FiberContext &to);
// The same, never to come back to `from`.
[[noreturn]] void leaveFiber(FiberContext &from, FiberContext &to);

// What the first code on a new fiber calls, and what the code behind a switch calls: for the
// sanitizer.
void fiberEntered(FiberContext &self);

// Stacks for the threads of one block, each with an unmapped guard below it.
class StackPool {
public:
  StackPool() = default;
  StackPool(const StackPool &) = delete;
  StackPool &operator=(const StackPool &) = delete;
  ~StackPool();
  // At least `count` stacks of at least `bytes` each; false when the system has no memory.
  bool reserve(size_t count, size_t bytes);
  void *low(size_t index) const;
  size_t bytes() const { return stackBytes; }

private:
  char *region = nullptr;
  size_t stackCount = 0, stackBytes = 0;
};

} // namespace sectile::vgpu
