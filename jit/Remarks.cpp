// Remarks on standard error, and for callers that record them.
#include "jit/Remarks.h"
#include "runtime/Environment.h"
#include <iostream>
#include <mutex>
#include <set>
#include <utility>

namespace sectile::runtime {

static thread_local std::vector<Remark> *sink = nullptr;

RecordRemarks::RecordRemarks(std::vector<Remark> &remarks)
    : before(std::exchange(sink, &remarks)) {}
RecordRemarks::~RecordRemarks() { sink = before; }
std::vector<Remark> *RecordRemarks::current() { return sink; }

bool printsRemarks() {
  static const bool prints = isSet("SECTILE_REMARKS", false);
  return prints;
}

void print(std::span<const Remark> remarks) {
  static std::mutex mutex;
  static auto *printed = new std::set<std::string>; // outlives kernels that static objects launch
  std::lock_guard lock(mutex);
  for (const Remark &remark : remarks)
    if (const auto [text, isNew] = printed->insert(textOf(remark)); isNew)
      std::cerr << *text << std::endl;
}

} // namespace sectile::runtime
