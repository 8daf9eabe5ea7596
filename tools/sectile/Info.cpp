// `sectile info`: what there is on this machine and in this library.
#include "autotune/Database.h"
#include "ir/Target.h"
#include "jit/CompileCache.h"
#include "runtime/cuda/CudaDevice.h"
#include "runtime/cuda/CudaDriver.h"
#include "runtime/hip/HipDevice.h"
#include "runtime/hip/HipDriver.h"
#include "tools/sectile/Commands.h"
#include "tools/sectile/Table.h"
#include "tools/sectile/cache/Cache.h"
#include <iostream>
#include <sectile/device.h>
#include <sectile/version.h>

using namespace sectile;
using namespace sectile::tool;

namespace {

std::string mebibytes(std::size_t bytes) { return std::to_string(bytes >> 20) + " MiB"; }

// Why a driver has no device to offer; empty where it has some.
template <class Driver> std::string reasonForNone() {
  const Driver &driver = Driver::get();
  if (!driver.missing.empty())
    return driver.missing;
  int count = 0;
  if (const int error = driver.deviceGetCount(&count))
    return "the driver does not count its devices: " + driver.describe(error);
  return count ? "" : "the driver is there, but no device";
}

struct Kind {
  const char *name; // "cuda"
  unsigned count;
  std::string reason; // why there are none
};

std::string targetList(const std::string &prefix) {
  std::string text;
  for (llvm::StringRef name : Target::names())
    text += (text.empty() ? "" : ", ") + prefix + name.str();
  return text;
}

std::string cacheText() {
  runtime::DiskStore *disk = runtime::CompileCache::get().disk();
  if (!disk)
    return "in memory only";
  if (!disk->usable())
    return disk->folder() + " is not used: " + disk->problem();
  std::size_t bytes = 0, kernels = 0;
  for (const auto &entry : disk->entries()) {
    bytes += entry.bytes;
    kernels += runtime::namesKernel(entry.name);
  }
  return disk->folder() + ": " + std::to_string(kernels) + " kernels, " + bytesText(bytes);
}

std::string measurementsText() {
  autotune::Database &database = autotune::Database::get();
  const std::size_t problems = database.problems().size();
  return (database.file().empty() ? "in memory only" : database.file()) + ": " +
         std::to_string(problems) + " problems" +
         (database.problem().empty() ? "" : "; not used: " + database.problem());
}

} // namespace

int sectile::tool::runInfo(const CommandLine &line) {
  const Kind kinds[] = {{"cuda", runtime::cudaDeviceCount(), reasonForNone<runtime::CudaDriver>()},
                        {"hip", runtime::hipDeviceCount(), reasonForNone<runtime::HipDriver>()}};
  // One device is opened: a context on each of eight takes seconds and memory of each.
  std::optional<Device> best;
  std::string problem;
  try {
    best = Device::best();
  } catch (const DeviceError &error) {
    problem = error.what();
  }
  if (line.has("--json")) {
    llvm::json::Array targets, devices;
    for (llvm::StringRef name : Target::names())
      targets.push_back(name.str());
    llvm::json::Object missing;
    for (const Kind &kind : kinds) {
      for (unsigned i = 0; i < kind.count; ++i)
        devices.push_back(std::string(kind.name) + ":" + std::to_string(i));
      if (!kind.reason.empty())
        missing[kind.name] = kind.reason;
    }
    for (llvm::StringRef name : Target::names())
      devices.push_back("virtual:" + name.str());
    devices.push_back("interpreter");
    llvm::json::Object info{
        {"sectile", std::string(version())},  {"llvm", std::string(llvm_version())},
        {"targets", std::move(targets)},      {"cache", cacheText()},
        {"measurements", measurementsText()}, {"devices", std::move(devices)},
        {"missing", std::move(missing)}};
    if (best)
      info["best"] =
          llvm::json::Object{{"device", best->name()},
                             {"target", best->target()},
                             {"product", best->description()},
                             {"bytes", static_cast<std::int64_t>(best->memory().total_bytes)}};
    else
      info["problem"] = problem;
    printJson(std::move(info));
    return 0;
  }
  Table table;
  table.row({"sectile", std::string(version())});
  table.row({"LLVM", std::string(llvm_version())});
  table.row({"targets", targetList("")});
  table.row({"cache", cacheText()});
  table.row({"measurements", measurementsText()});
  table.print(std::cout);
  std::cout << "devices\n";
  Table devices;
  devices.row({"  best", best ? best->name() + ", " + best->target() + ", " + best->description() +
                                    ", " + mebibytes(best->memory().total_bytes)
                              : problem});
  for (const Kind &kind : kinds) {
    std::string names = kind.reason.empty() ? "" : "none: " + kind.reason;
    for (unsigned i = 0; i < kind.count; ++i)
      names += (i ? ", " : "") + std::string(kind.name) + ":" + std::to_string(i);
    devices.row({std::string("  ") + kind.name, names});
  }
  devices.row({"  virtual", targetList("virtual:")});
  devices.row({"  interpreter", "interpreter"});
  devices.print(std::cout);
  return 0;
}
