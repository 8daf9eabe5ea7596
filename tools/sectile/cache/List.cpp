// `sectile cache list`: compiled kernels and measured problems.
#include "autotune/Exchange.h"
#include "tools/sectile/Table.h"
#include "tools/sectile/cache/Cache.h"
#include <algorithm>
#include <iostream>
#include <map>

using namespace sectile;
using namespace sectile::tool;
using runtime::ListedEntry;

namespace {

constexpr size_t shortName = 12; // of 32 digits: enough to be one entry's

llvm::json::Value jsonOf(const ListedEntry &entry) {
  return llvm::json::Object{{"entry", entry.name},
                            {"kernel", entry.parts.kernel},
                            {"target", entry.parts.target},
                            {"options", entry.parts.options},
                            {"compiler", entry.parts.compiler},
                            {"form", entry.form},
                            {"code_bytes", entry.codeBytes},
                            {"threads", entry.threads},
                            {"registers", entry.resources.registers},
                            {"spill_bytes", entry.resources.spillBytes},
                            {"static_shared_bytes", entry.resources.staticSharedBytes},
                            {"shared_bytes", entry.sharedBytes},
                            {"ir_hash", entry.irHash},
                            {"compile_ms", entry.compileMilliseconds},
                            {"bytes", entry.bytes},
                            {"last_used", entry.lastUsed / 1'000'000'000}};
}

const char *stateOf(ListedEntry::Kind kind) {
  return kind == ListedEntry::SetAside       ? "set aside"
         : kind == ListedEntry::Unfinished   ? "unfinished"
         : kind == ListedEntry::OtherVersion ? "of another version"
                                             : "damaged";
}

size_t goodOnes(const autotune::Problem &problem) {
  return static_cast<size_t>(
      std::count_if(problem.measurements.begin(), problem.measurements.end(),
                    [](const auto &m) { return m.verdict == autotune::Verdict::Good; }));
}

void printKernels(const std::vector<ListedEntry> &kernels) {
  Table table;
  table.row({"entry", "kernel", "target", "form", "configuration", "code", "compile", "last used"});
  for (const ListedEntry &entry : kernels)
    table.row({entry.name.substr(0, shortName), entry.parts.kernel,
               entry.parts.target.substr(0, entry.parts.target.find(' ')), entry.form,
               configuration(entry.parts), bytesText(entry.codeBytes),
               std::to_string(static_cast<int64_t>(entry.compileMilliseconds)) + " ms",
               timeText(entry.lastUsed / 1'000'000'000)});
  if (!kernels.empty())
    table.print(std::cout);
}

void printProblems(const std::vector<autotune::Problem> &problems) {
  Table table;
  table.row({"kernel", "device", "dtypes", "shape", "measured", "good", "best", "time", ""});
  for (const autotune::Problem &problem : problems) {
    const size_t good = goodOnes(problem);
    const autotune::Measurement &best = problem.measurements.front();
    std::string remarks;
    if (isStale(problem.key, best))
      remarks = "stale";
    if (problem.origin != autotune::Database::get().file())
      remarks += (remarks.empty() ? "from " : ", from ") + problem.origin;
    table.row({problem.key.kernel, problem.key.device, problem.key.dtypes,
               autotune::describe(problem.key.shape), std::to_string(problem.measurements.size()),
               std::to_string(good), good ? best.config : "none",
               good ? microseconds(best.median) : "", remarks});
  }
  if (!problems.empty())
    table.print(std::cout);
}

} // namespace

int sectile::tool::runCacheList(const CommandLine &line) {
  const runtime::DiskStore &store = cacheFolder();
  const std::string wanted = line.argument(0).value_or("");
  std::vector<ListedEntry> kernels, others;
  size_t launches = 0, machineCodes = 0;
  uint64_t bytes = 0;
  for (ListedEntry &entry : runtime::listCache(store)) {
    const bool ofKernel = entry.kind == ListedEntry::Kernel || entry.kind == ListedEntry::Launch ||
                          entry.kind == ListedEntry::Machine;
    if (!wanted.empty() && ofKernel && entry.parts.kernel != wanted)
      continue;
    bytes += entry.bytes;
    launches += entry.kind == ListedEntry::Launch;
    machineCodes += entry.kind == ListedEntry::Machine;
    if (entry.kind != ListedEntry::Launch && entry.kind != ListedEntry::Machine)
      (entry.kind == ListedEntry::Kernel ? kernels : others).push_back(std::move(entry));
  }
  const std::vector<autotune::Problem> problems = autotune::Database::get().problems(wanted);
  for (ListedEntry &entry : damagedMeasurements())
    others.push_back(std::move(entry));
  if (line.has("--json")) {
    llvm::json::Array kernelList, otherList, problemList;
    for (const ListedEntry &entry : kernels)
      kernelList.push_back(jsonOf(entry));
    for (const ListedEntry &entry : others)
      otherList.push_back(llvm::json::Object{
          {"file", entry.name}, {"state", stateOf(entry.kind)}, {"bytes", entry.bytes}});
    for (const autotune::Problem &problem : problems) {
      llvm::json::Value value = autotune::jsonOf(problem);
      (*value.getAsObject())["origin"] = problem.origin;
      (*value.getAsObject())["stale"] = isStale(problem.key, problem.measurements.front());
      problemList.push_back(std::move(value));
    }
    printJson(llvm::json::Object{{"folder", store.folder()},
                                 {"kernels", std::move(kernelList)},
                                 {"launches", launches},
                                 {"machine_codes", machineCodes},
                                 {"others", std::move(otherList)},
                                 {"problems", std::move(problemList)}});
    return 0;
  }
  std::cout << store.folder() << ": " << kernels.size() << " kernels, " << launches << " launches, "
            << (machineCodes ? std::to_string(machineCodes) + " machine codes, " : "")
            << bytesText(bytes) << "\n";
  printKernels(kernels);
  std::map<ListedEntry::Kind, size_t> states;
  for (const ListedEntry &entry : others)
    ++states[entry.kind];
  for (const auto &[kind, count] : states)
    std::cout << count << " files are " << stateOf(kind)
              << (kind == ListedEntry::OtherVersion ? "" : ": `sectile cache prune` removes them")
              << "\n";
  std::cout << (kernels.empty() ? "" : "\n") << problems.size() << " measured problems\n";
  printProblems(problems);
  return 0;
}
