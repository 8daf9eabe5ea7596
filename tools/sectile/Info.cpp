// `sectile info`: what there is on this machine and in this library.
#include "autotune/Database.h"
#include "ir/Target.h"
#include "runtime/CompileCache.h"
#include "tools/sectile/Commands.h"
#include "tools/sectile/Table.h"
#include "tools/sectile/cache/Cache.h"
#include <iostream>
#include <sectile/device.h>
#include <sectile/version.h>

using namespace sectile;
using namespace sectile::tool;

static std::string mebibytes(std::size_t bytes) { return std::to_string(bytes >> 20) + " MiB"; }

int sectile::tool::runInfo(const CommandLine &) {
  Table table;
  table.row({"sectile", version()});
  table.row({"LLVM", llvm_version()});
  std::string targets;
  for (llvm::StringRef name : Target::names())
    targets += (targets.empty() ? "" : ", ") + name.str();
  table.row({"targets", targets});
  runtime::DiskStore *disk = runtime::CompileCache::get().disk();
  if (!disk) {
    table.row({"cache", "in memory only"});
  } else if (!disk->usable()) {
    table.row({"cache", disk->folder() + " is not used: " + disk->problem()});
  } else {
    std::size_t bytes = 0, kernels = 0;
    for (const auto &entry : disk->entries()) {
      bytes += entry.bytes;
      kernels += runtime::namesKernel(entry.name);
    }
    table.row({"cache",
               disk->folder() + ": " + std::to_string(kernels) + " kernels, " + bytesText(bytes)});
  }
  autotune::Database &database = autotune::Database::get();
  const std::size_t problems = database.problems().size();
  table.row({"measurements",
             (database.file().empty() ? "in memory only" : database.file()) + ": " +
                 std::to_string(problems) + " problems" +
                 (database.problem().empty() ? "" : "; not used: " + database.problem())});
  table.print(std::cout);
  std::cout << "devices\n";
  Table devices;
  for (const Device &device : Device::all())
    devices.row({"  " + device.name(), device.target(), device.description(),
                 mebibytes(device.memory().total_bytes)});
  devices.print(std::cout);
  return 0;
}
