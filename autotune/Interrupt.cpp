// The handler of SIGINT, shared by all tunings of the process.
#include "autotune/Interrupt.h"
#include <atomic>
#include <csignal>
#include <mutex>

namespace sectile::autotune {
namespace {

std::mutex mutex; // guards users
int users = 0;
struct sigaction programs; // handler; written only while ours is not installed
std::atomic<int> count = 0;
static_assert(std::atomic<int>::is_always_lock_free);

void handle(int) {
  ++count;
  sigaction(SIGINT, &programs, nullptr);
}

bool isOurs() {
  struct sigaction now;
  sigaction(SIGINT, nullptr, &now);
  return !(now.sa_flags & SA_SIGINFO) && now.sa_handler == handle;
}

} // namespace

CatchInterrupt::CatchInterrupt() : before(count) {
  std::lock_guard lock(mutex);
  if (users++)
    return;
  sigaction(SIGINT, nullptr, &programs);
  if (!(programs.sa_flags & SA_SIGINFO) && programs.sa_handler == SIG_IGN)
    return;
  struct sigaction own = {};
  own.sa_handler = handle;
  sigemptyset(&own.sa_mask);
  own.sa_flags = SA_RESTART;
  sigaction(SIGINT, &own, nullptr);
}

CatchInterrupt::~CatchInterrupt() {
  std::lock_guard lock(mutex);
  if (--users == 0 && isOurs())
    sigaction(SIGINT, &programs, nullptr);
}

bool CatchInterrupt::caught() const { return count != before; }

} // namespace sectile::autotune
