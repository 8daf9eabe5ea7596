// `sectile cache why`: what sets a launch apart from the compiled kernel that is nearest to it.
#include "jit/CodeAccess.h"
#include "kernels/calls/Use.h"
#include "tools/sectile/Execute.h"
#include "tools/sectile/Inputs.h"
#include "tools/sectile/Table.h"
#include "tools/sectile/cache/Cache.h"
#include <algorithm>
#include <iostream>

using namespace sectile;
using namespace sectile::tool;

static runtime::CacheKey keyOf(const CommandLine &line) {
  const KernelSpec &kernel = findKernel(*line.argument(0));
  const Config given = parseConfig(kernel, line.assignments("--config"));
  const Invocation call = resolveCall(line, kernel);
  const Device device = openDevice(line.value("--device"));
  const BoundKernel bound = bindKernel(call, configFor(call, device, given));
  std::vector<std::string> names;
  for (const detail::BoundLaunch &launch : bound.launches)
    names.emplace_back(launch.kernel->name());
  return runtime::CodeAccess::cacheKey(bound.launches[partOf(line, kernel, names)], device);
}

// Where two long lines part, with a little of what surrounds it.
static std::string excerpt(const std::string &line, const std::string &other) {
  constexpr std::size_t context = 24, longest = 72;
  if (line.empty())
    return "-";
  if (line.size() <= longest && other.size() <= longest)
    return line.substr(std::min(line.find_first_not_of(' '), line.size()));
  const std::size_t parting = static_cast<std::size_t>(
      std::mismatch(line.begin(), line.end(), other.begin(), other.end()).first - line.begin());
  const std::size_t start = parting < context ? 0 : parting - context;
  return (start ? "..." : "") + line.substr(start, longest) +
         (start + longest < line.size() ? "..." : "");
}

int sectile::tool::runCacheWhy(const CommandLine &line) {
  const runtime::DiskStore &store = cacheFolder();
  const runtime::CacheKey key = keyOf(line);
  const std::optional<runtime::NearestEntry> nearest = runtime::nearestEntry(store, key);
  if (line.has("--json")) {
    llvm::json::Array differences;
    if (nearest)
      for (const runtime::KeyDifference &difference : nearest->differences)
        differences.push_back(llvm::json::Object{
            {"part", difference.part}, {"wanted", difference.wanted}, {"found", difference.found}});
    printJson(llvm::json::Object{
        {"cached", nearest && nearest->differences.empty()},
        {"nearest", nearest ? llvm::json::Value(nearest->name) : llvm::json::Value(nullptr)},
        {"differences", std::move(differences)},
        {"versions", llvm::json::Array(runtime::versionsOf(store, key))},
        {"key", key.text()}});
    return 0;
  }
  if (!nearest) {
    std::cout << key.kernel << " would be compiled: the cache has no entry of it\n";
  } else if (nearest->differences.empty()) {
    std::cout << key.kernel << " would not be compiled: it is entry " << nearest->name << "\n";
  } else {
    std::cout << key.kernel << " would be compiled: of its entries " << nearest->name
              << " is the nearest, and differs\n";
    Table table;
    table.row({"in", "wanted", "there"});
    std::vector<std::string> last; // warps and stages may be fields of the configuration, too
    for (const auto &[part, wanted, there] : nearest->differences) {
      std::vector<std::string> row{part, excerpt(wanted, there), excerpt(there, wanted)};
      if (row != last)
        table.row(row);
      last = std::move(row);
    }
    table.print(std::cout);
  }
  const std::vector<std::string> versions = runtime::versionsOf(store, key);
  if (versions.size() > 1) {
    std::cout << "The cache has " << versions.size()
              << " versions of it that differ in what is known of the arguments:\n";
    for (const std::string &version : versions)
      std::cout << "  " << (version.empty() ? "nothing" : version) << "\n";
  }
  return 0;
}
