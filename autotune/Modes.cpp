// What the environment and the program ask of all tuning. No LLVM: sealed programs have it too.
#include <atomic>
#include <cstdlib>
#include <sectile/error.h>
#include <sectile/tuning.h>

namespace sectile {

AutotuneMode autotune_mode() {
  const char *value = std::getenv("SECTILE_AUTOTUNE");
  const std::string_view text = value ? value : "";
  if (text == "off")
    return AutotuneMode::off;
  if (text.empty() || text == "cached")
    return AutotuneMode::cached;
  if (text == "on")
    return AutotuneMode::on;
  throw LaunchError("SECTILE_AUTOTUNE is '" + std::string(text) + "'; it can be off, cached or on");
}

static std::atomic<int> chosenNumerics = -1; // -1: the environment says it

Numerics numerics() {
  if (const int chosen = chosenNumerics; chosen >= 0)
    return static_cast<Numerics>(chosen);
  const char *value = std::getenv("SECTILE_NUMERICS");
  const std::string_view text = value ? value : "";
  if (text == "fixed")
    return Numerics::fixed;
  if (text.empty() || text == "any")
    return Numerics::any;
  throw LaunchError("SECTILE_NUMERICS is '" + std::string(text) + "'; it can be any or fixed");
}

void set_numerics(Numerics numerics) { chosenNumerics = static_cast<int>(numerics); }

} // namespace sectile
