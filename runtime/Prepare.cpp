// Launches that are prepared, and not run or run later.
#include "runtime/LaunchAccess.h"
#include "runtime/LaunchFacts.h"
#include <algorithm>
#include <sectile/prepare.h>

namespace sectile {

Preparing::Preparing() : before_(runtime::exchangePreparing(true)) {}
Preparing::~Preparing() { runtime::exchangePreparing(before_); }

void prepare_versions(const Device &device, const detail::BoundLaunch &launch,
                      std::initializer_list<std::size_t> arguments) {
  const int64_t bound = device.impl()->indexBound();
  const std::span<const detail::ArgSpec> specs = launch.kernel->arguments();
  const auto masks = runtime::countingBits(specs, runtime::boundKindOf(bound));
  const auto refuse = [&](const std::string &why) {
    throw LaunchError("kernel '" + std::string(launch.kernel->name()) + "': " + why);
  };
  std::vector<size_t> words; // that other versions are for
  for (const size_t argument : arguments) {
    if (argument >= specs.size())
      refuse("it has no argument " + std::to_string(argument) + ", only " +
             std::to_string(specs.size()));
    size_t word = 0;
    for (const detail::ArgSpec &spec : specs.first(argument))
      word += static_cast<size_t>(detail::flattenedCount(spec));
    const bool isView = specs[argument].kind == detail::ArgKind::view;
    for (size_t end = isView ? ++word + specs[argument].rank : word + 1; word < end; ++word)
      if (masks[word].bits & runtime::isOne && std::ranges::find(words, word) == words.end())
        words.push_back(word);
  }
  constexpr size_t kinds = 4, mostWords = 3;
  if (words.size() > mostWords)
    refuse(std::to_string(words.size()) + " integers that vary have 4^" +
           std::to_string(words.size()) +
           " versions, prepared are 64 at most: make those Varying<T> whose value does not matter");
  size_t count = 1;
  for (size_t i = 0; i < words.size(); ++i)
    count *= kinds;
  detail::BoundLaunch version = launch;
  for (size_t number = 0; number < count; ++number) {
    size_t rest = number;
    for (const size_t word : words) {
      const auto given = static_cast<int64_t>(launch.words[word]);
      // As large as what the launch has, where that makes a difference.
      const uint64_t base = given >= 0 && given < bound   ? 0
                            : detail::fits_index32(given) ? uint64_t(1) << 29
                                                          : uint64_t(1) << 40;
      const uint64_t values[kinds] = {1, base + 16, base + 8, base + 3};
      version.words[word] = values[rest % kinds];
      rest /= kinds;
    }
    runtime::LaunchAccess::prepare(version, device);
  }
}

PreparedLaunch::PreparedLaunch(const Device &device, detail::BoundLaunch launch)
    : bound_(std::move(launch)), device_(device.impl()) {
  runtime::LaunchAccess::checkOwners(bound_, device);
  code_ = runtime::LaunchAccess::prepare(bound_, device).shared_from_this();
}

void PreparedLaunch::launch(const Stream &stream) const {
  if (stream.impl()->device != device_)
    throw LaunchError("kernel '" + code_->name + "' was prepared for " + device_->name +
                      ", the stream is one of " + stream.impl()->device->name);
  runtime::LaunchAccess::launch(bound_, *code_, stream);
}

} // namespace sectile
