// Random scores and visibilities of flash::attend and flash::backward, put together of what the
// library has, on virtual GPUs, against float64.
#include "tests/fuzz/Isolation.h"
#include "tests/fuzz/Options.h"
#include "tests/fuzz/attention/Case.h"
#include <cstdlib>
#include <iostream>
#include <sys/resource.h>

using namespace sectile::fuzz;

namespace {

std::string deviceFor(uint64_t seed) {
  static constexpr const char *devices[] = {"virtual:sm_80",   "virtual:sm_90a", "virtual:gfx942",
                                            "virtual:gfx1100", "virtual:sm_90a", "interpreter"};
  return devices[seed % std::size(devices)];
}

int run(const Options &options, const std::string &device) {
  Clock clock(options, "attention_fuzz");
  Limits limits;
  limits.seconds = options.seconds;
  limits.batch = 1;
  limits.bytes = RLIM_INFINITY; // devices reserve addresses
  const auto deviceOf = [&](uint64_t seed) { return device.empty() ? deviceFor(seed) : device; };
  unsigned findings = 0;
  const Counts counts = runIsolated(
      options.seed, [&](uint64_t seed) { return clock.goesOn(seed); },
      [&](uint64_t seed) { return attentionCase(seed, deviceOf(seed)); },
      [&](const Finding &finding) {
        ++findings;
        std::cout << "FOUND " << finding.what;
        if (finding.what.find('\n') == std::string::npos)
          std::cout << finding.input;
        std::cout << "\n  again with: attention_fuzz --seed " << finding.seed
                  << " --count 1 --device " << deviceOf(finding.seed) << "\n"
                  << finding.output << std::endl;
      },
      limits);
  std::cout << "attention_fuzz: " << counts.done << " calls from seed " << options.seed << " on, "
            << counts.deep << " of them run, " << findings << " findings" << std::endl;
  return findings != 0;
}

} // namespace

int main(int argc, char **argv) {
  std::string device;
  Options options = parseOptions(argc, argv, {{"--device", &device}});
  ::setenv("SECTILE_CACHE_DIR", "", 1);
  return runJobs(options, [&](const Options &part) { return run(part, device); });
}
