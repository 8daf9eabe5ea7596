// Splits independent work of the host's own computations over its cores.
#pragma once
#include "runtime/Threads.h"
#include <algorithm>
#include <atomic>
#include <cstdint>

namespace sectile {

// Calls body(i) for every i in [0, count), in any order; body must not throw.
template <class Body> void parallelFor(std::int64_t count, Body &&body) {
  auto threads = static_cast<std::int64_t>(std::max(1u, std::thread::hardware_concurrency()));
  threads = std::min(threads, count);
  std::atomic<std::int64_t> next{0};
  auto work = [&] {
    for (std::int64_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < count;)
      body(i);
  };
  if (threads < 1)
    return;
  const std::vector<std::jthread> others =
      startThreads(static_cast<std::size_t>(threads - 1), work);
  work();
}

} // namespace sectile
