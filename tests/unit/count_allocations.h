// Counts what a test program allocates, by operators of its own. One source file of a program
// includes this. The address sanitizer keeps its own operators: there the count stays at zero.
#pragma once
#include <atomic>
#include <cstdlib>
#include <new>

inline std::atomic<size_t> allocations = 0;

#if !defined(__has_feature)
#define __has_feature(x) 0
#endif
#if !__has_feature(address_sanitizer) && !defined(__SANITIZE_ADDRESS__)
void *operator new(size_t size) {
  ++allocations;
  if (void *memory = std::malloc(size))
    return memory;
  throw std::bad_alloc();
}
void operator delete(void *memory) noexcept { std::free(memory); }
void operator delete(void *memory, size_t) noexcept { std::free(memory); }
#endif
