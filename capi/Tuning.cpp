// Tuning, which takes the compiler: libsectile_kernels refuses it.
#include "capi/Handles.h"
#include "capi/Operation.h"
#ifndef SECTILE_SEALED
#include "autotune/Exchange.h"
#include "kernels/tuning/Tune.h"
#include "runtime/Numerals.h"
#include <charconv>
#include <cstring>
#endif

using namespace sectile;

namespace {

#ifdef SECTILE_SEALED
[[noreturn]] void refuse(const char *function) {
  throw c::Refusal(SECTILE_UNSUPPORTED,
                   std::string(function) +
                       " needs the compiler: link libsectile in place of libsectile_kernels. What "
                       "was measured goes into a bundle by `sectile build --tuning`");
}
#else
template <class Number>
Number numberOf(const sectile_option &setting, const std::string &who, Number least) {
  const std::string text = c::textOf(setting, who);
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !(value >= least))
    throw c::Refusal(SECTILE_INVALID,
                     who + " is '" + text + "', no number from " + std::to_string(least) + " on");
  return value;
}

AutotuneOptions settingsOf(std::span<const sectile_option> settings) {
  AutotuneOptions options{.quiet = true};
  for (const sectile_option &setting : settings) {
    c::require(setting.name, "sectile_tune: the name of a setting");
    const std::string name = setting.name, who = "sectile_tune: setting '" + name + "'";
    if (name == "strategy")
      options.strategy = strategyNamed(c::textOf(setting, who), who);
    else if (name == "candidates")
      options.candidates = numberOf<std::size_t>(setting, who, 0);
    else if (name == "seed")
      options.seed = numberOf<std::uint64_t>(setting, who, 0);
    else if (name == "seconds")
      options.seconds = numberOf<double>(setting, who, 0);
    else if (name == "deadline")
      options.deadline = numberOf<double>(setting, who, 0);
    else if (name == "progress")
      options.quiet = numberOf<int>(setting, who, 0) == 0;
    else
      throw c::Refusal(SECTILE_INVALID, who + " does not exist: there are strategy, candidates, "
                                              "seed, seconds, deadline, progress");
  }
  return options;
}

std::string textOf(llvm::json::Value json) {
  const runtime::PlainNumerals plain;
  std::string text;
  llvm::raw_string_ostream(text) << json;
  return text;
}
#endif

} // namespace

extern "C" {

sectile_status sectile_tune(const sectile_op *op, sectile_device *device,
                            const DLTensor *const *arguments, size_t count,
                            const sectile_option *options, size_t option_count,
                            const sectile_option *settings, size_t setting_count,
                            const char **json) {
  if (json)
    *json = nullptr;
  return c::guard(
      [&] {
        const c::GivenCall given{op, arguments, count, options, option_count};
        c::checkGiven(given, "sectile_tune");
        c::require(device, "sectile_tune: device");
        c::require(json, "sectile_tune: json");
        if (setting_count)
          c::require(settings, "sectile_tune: settings");
#ifdef SECTILE_SEALED
        refuse("sectile_tune");
#else
        thread_local std::string last;
        const AutotuneOptions wanted = settingsOf({settings, setting_count});
        const bool isSimulated = c::implOf(device)->dlpackDevice == kDLCPU;
        llvm::json::Array reports;
        std::string problem;
        for (const TuneReport &report :
             tuneKernel(c::resolveShapes(given), device->device, wanted)) {
          reports.push_back(autotune::jsonOf(report, isSimulated));
          problem = report.interrupted ? "interrupted" : report.problem;
        }
        if (!problem.empty())
          throw c::Refusal(SECTILE_DEVICE,
                           op->kernel.name + ": " + problem + "; what was measured is kept");
        last = textOf(std::move(reports));
        *json = last.c_str();
#endif
      },
      c::implOf(device));
}

sectile_status sectile_tuning_export(const char **json) {
  if (json)
    *json = nullptr;
  return c::guard([&] {
    c::require(json, "sectile_tuning_export: json");
#ifdef SECTILE_SEALED
    refuse("sectile_tuning_export");
#else
    thread_local std::string last;
    last = autotune::toJson(autotune::ownProblems());
    *json = last.c_str();
#endif
  });
}

sectile_status sectile_tuning_import(const char *json) {
  return c::guard([&] {
    c::require(json, "sectile_tuning_import: json");
#ifdef SECTILE_SEALED
    refuse("sectile_tuning_import");
#else
    llvm::Expected<autotune::Database::Imported> result = autotune::Database::get().import(json);
    if (!result)
      throw c::Refusal(SECTILE_INVALID,
                       "sectile_tuning_import: " + llvm::toString(result.takeError()));
#endif
  });
}

} // extern "C"
