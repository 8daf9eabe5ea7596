// `sectile info`: what there is on this machine and in this library.
#include "ir/Target.h"
#include "tools/sectile/Commands.h"
#include "tools/sectile/Table.h"
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
  table.print(std::cout);
  std::cout << "devices\n";
  Table devices;
  for (const Device &device : Device::all())
    devices.row({"  " + device.name(), device.target(), device.description(),
                 mebibytes(device.memory().total_bytes)});
  devices.print(std::cout);
  return 0;
}
