// Asks the sources of code in turn.
#include "runtime/CodeChain.h"
#include <mutex>

namespace sectile::runtime {
namespace {

using Sources = std::vector<std::shared_ptr<const CodeSource>>;

struct Chain {
  std::mutex mutex; // guards what follows
  std::shared_ptr<const Sources> sources = std::make_shared<Sources>();
};

Chain &chain() {
  static auto *chain = new Chain; // outlives kernels that static objects launch
  return *chain;
}

} // namespace

std::shared_ptr<const Sources> codeSources() {
  Chain &all = chain();
  std::lock_guard lock(all.mutex);
  return all.sources;
}

void addCodeSource(std::shared_ptr<const CodeSource> source) {
  Chain &all = chain();
  std::lock_guard lock(all.mutex);
  Sources longer = *all.sources;
  longer.push_back(std::move(source));
  all.sources = std::make_shared<const Sources>(std::move(longer));
}

std::shared_ptr<const Artifact> findCode(const CodeRequest &request) {
  const std::shared_ptr<const Sources> sources = codeSources();
  for (const auto &source : *sources)
    if (auto artifact = source->find(request))
      return artifact;
  // A kernel that only bundles know has no function that the compiler could name.
  if (CompilerLink *link = compiler(); link && request.kernel.function)
    return link->codeFor(request);
  std::string why;
  for (const auto &source : *sources)
    why += (why.empty() ? "" : "; ") + source->whyNone(request);
  if (why.empty())
    why = "this program has no code for it and no compiler: link it with Sectile::sectile, which "
          "compiles here";
  throw NoCode("kernel '" + std::string(request.kernel.name) + "': " + why);
}

} // namespace sectile::runtime
