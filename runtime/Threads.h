// Threads that may be fewer than asked for: containers limit their number.
#ifndef SECTILE_RUNTIME_THREADS_H
#define SECTILE_RUNTIME_THREADS_H

#include <cstddef>
#include <system_error>
#include <thread>
#include <vector>

namespace sectile {

/// Starts as many threads as the system gives, `most` at most, that each call `work`. None may
/// start: it is work that whoever starts them takes part in.
template <class Work> std::vector<std::jthread> startThreads(size_t most, const Work &work) {
  std::vector<std::jthread> threads;
  threads.reserve(most);
  try {
    while (threads.size() < most)
      threads.emplace_back(work);
  } catch (const std::system_error &) { // Those that there are do it.
  }
  return threads;
}

} // namespace sectile

#endif
