// The pool of MLIR contexts.
#include "codegen/Compiler.h"
#include "ir/Dialects.h"
#include <atomic>
#include <mutex>

using namespace mlir;

namespace {
struct Pool {
  std::mutex mutex;
  std::vector<std::unique_ptr<MLIRContext>> idle;
};
// Static kernels give their contexts back after static objects of the library are gone.
Pool &pool() {
  static auto *pool = new Pool;
  return *pool;
}
std::atomic<unsigned> contexts = 0;
} // namespace

unsigned sectile::ContextLease::created() { return contexts; }

sectile::ContextLease::ContextLease() {
  {
    std::lock_guard lock(pool().mutex);
    if (!pool().idle.empty()) {
      context = std::move(pool().idle.back());
      pool().idle.pop_back();
      return;
    }
  }
  ++contexts;
  DialectRegistry registry;
  registerDialects(registry);
  // Compiles run side by side, a context each; threads within one would only get in their way.
  context = std::make_unique<MLIRContext>(registry, MLIRContext::Threading::DISABLED);
  context->loadAllAvailableDialects();
  // Messages are for the kernel's author: one sentence, not pages of IR.
  context->printOpOnDiagnostic(false);
}

sectile::ContextLease::~ContextLease() {
  std::lock_guard lock(pool().mutex);
  pool().idle.push_back(std::move(context));
}
