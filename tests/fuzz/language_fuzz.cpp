// Random kernels written in the language, on virtual GPUs: schedules of the explicit level against
// the interpreter, kernels of any name, constants beside the same values from memory, reductions
// whose order counts, views that are read and written in place, and control flow against the host.
#include "tests/fuzz/Isolation.h"
#include "tests/fuzz/Options.h"
#include "tests/fuzz/language/Cases.h"
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <sys/resource.h>

using namespace sectile::fuzz;

namespace {

/// Cases take turns, so that each meets all devices.
constexpr uint64_t kinds = 10;

std::string deviceFor(uint64_t seed) {
  static constexpr const char *devices[] = {"sm_90a",  "sm_80", "sm_90a", "gfx942",
                                            "sm_120a", "sm_90", "sm_90a", "gfx1100"};
  return std::string("virtual:") + devices[seed / kinds % std::size(devices)];
}

int run(const Options &options, const std::string &folder, const std::string &device) {
  Clock clock(options, "language_fuzz");
  Limits limits;
  limits.seconds = options.seconds;
  limits.batch = 50;
  limits.bytes = RLIM_INFINITY; // devices reserve addresses
  unsigned findings = 0;
  Counts counts = runIsolated(
      options.seed, [&](uint64_t seed) { return clock.goesOn(seed); },
      [&](uint64_t seed) {
        reachedDepth();
        const std::string on = device.empty() ? deviceFor(seed) : device;
        switch (seed % kinds) {
        case 0:
          return kernelName(seed, on, folder);
        case 1:
          return foldedConstants(seed, on);
        case 2:
          return combiners(seed, on);
        case 3:
          return views(seed, on);
        case 4:
        case 5:
        case 6:
          return controlFlow(seed, on);
        default:
          return explicitSchedule(seed, on);
        }
      },
      [&](const Finding &finding) {
        ++findings;
        std::cout << "FOUND " << finding.what << "\n  again with: language_fuzz --seed "
                  << finding.seed << " --count 1 --device "
                  << (device.empty() ? deviceFor(finding.seed) : device) << "\n"
                  << finding.output << std::endl;
      },
      limits);
  std::cout << "language_fuzz: " << counts.done << " kernels from seed " << options.seed << " on, "
            << counts.deep << " of them run, " << findings << " findings" << std::endl;
  return findings != 0;
}

} // namespace

int main(int argc, char **argv) {
  std::string device;
  Options options = parseOptions(argc, argv, {{"--device", &device}});
  // What was compiled once would not be compiled again.
  std::string folder = (std::filesystem::temp_directory_path() / "language_fuzz-XXXXXX").string();
  if (!::mkdtemp(folder.data()))
    return 2;
  ::setenv("SECTILE_CACHE_DIR", (folder + "/cache").c_str(), 1);
  const int result =
      runJobs(options, [&](const Options &part) { return run(part, folder, device); });
  std::filesystem::remove_all(folder);
  return result;
}
