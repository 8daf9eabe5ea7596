// `sectile cache export` and `import`: measurements as JSON, compiled kernels as an archive.
#include "autotune/Exchange.h"
#include "tools/File.h"
#include "tools/sectile/cache/Cache.h"
#include <iostream>
#include <sectile/error.h>

using namespace sectile;
using namespace sectile::tool;
using autotune::Database;
using autotune::Problem;

static bool holdsMeasurements(const std::string &path) { return path.ends_with(".json"); }

static llvm::json::Object exportMeasurements(const std::string &path, const std::string &kernel) {
  const std::vector<Problem> own = autotune::ownProblems(kernel);
  size_t measurements = 0;
  for (const Problem &problem : own)
    measurements += problem.measurements.size();
  writeFile(path, {autotune::toJson(own)});
  std::cerr << "exported " << own.size() << " problems, " << measurements << " measurements\n";
  return llvm::json::Object{{"problems", own.size()}, {"measurements", measurements}};
}

static llvm::json::Object exportKernels(const std::string &path, const std::string &kernel) {
  runtime::DiskStore &store = cacheFolder();
  std::vector<std::string> names;
  for (const runtime::ListedEntry &entry : runtime::listCache(store))
    if (entry.kind == runtime::ListedEntry::Kernel &&
        (kernel.empty() || entry.parts.kernel == kernel))
      names.push_back(entry.name);
  std::string problem;
  if (!runtime::exportCache(store, names, path, problem))
    throw InputError(problem);
  std::cerr << "exported " << names.size() << " kernels\n";
  return llvm::json::Object{{"kernels", names.size()}};
}

int sectile::tool::runCacheExport(const CommandLine &line) {
  cacheFolder();
  const std::string path = *line.argument(0), kernel = line.argument(1).value_or("");
  checkWritable(path);
  llvm::json::Object done =
      (holdsMeasurements(path) ? exportMeasurements : exportKernels)(path, kernel);
  if (line.has("--json"))
    printJson(std::move(done));
  return 0;
}

int sectile::tool::runCacheImport(const CommandLine &line) {
  runtime::DiskStore &store = writableCacheFolder();
  const std::string path = *line.argument(0);
  if (holdsMeasurements(path)) {
    llvm::Expected<Database::Imported> result = Database::get().import(readFile(path));
    if (!result)
      throw InputError("'" + path + "': " + llvm::toString(result.takeError()));
    std::cerr << "imported " << result->added + result->replaced << " measurements ("
              << result->replaced << " in place of earlier ones), " << result->kept
              << " were here from later\n";
    if (line.has("--json"))
      printJson(llvm::json::Object{
          {"added", result->added}, {"replaced", result->replaced}, {"kept", result->kept}});
    return 0;
  }
  std::string problem;
  const std::optional<runtime::Imported> result = runtime::importCache(store, path, problem);
  if (!result)
    throw InputError(problem);
  std::cerr << "imported " << result->added << " kernels, " << result->present << " were here\n";
  if (line.has("--json"))
    printJson(llvm::json::Object{{"added", result->added}, {"present", result->present}});
  return 0;
}
