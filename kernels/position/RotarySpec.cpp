// Options of rotations, what they must be, and what the schemes that scale frequencies come to.
// With f = theta^(-2i/r) for pair i, L0 the original length and L the present one,
//   linear   f / factor, as if positions were divided by it
//   dynamic  f of theta (factor L / L0 - (factor - 1))^(r / (r - 2)) where L > L0
//   llama3   (1 - s) f / factor + s f, s = (L0 f / 2 pi - low) / (high - low) within 0 and 1
//   yarn     (1 - t) f + t f / factor, t = (i - first) / (last - first) within 0 and 1, with the
//            pairs first and last that rotate `fast` and `slow` times in L0 (Peng et al., arXiv
//            2309.00071), and what is rotated times 0.1 ln(factor) + 1
// Refused: a factor below 1, L0 below 1, low that is not below high, slow that is not below fast,
// dynamic without a length where the kernel does not know it.
#include "kernels/position/RotarySpec.h"
#include "kernels/position/Angles.h"
#include <algorithm>

using namespace sectile;

std::vector<OptionRow> sectile::rotationOptions() {
  return {{"style: half|interleaved = half", "pairs are (i, i + r/2), or (2i, 2i + 1)"},
          {"theta: number = 10000 from 1 e.g. 100", "base of the frequencies, at least 1"},
          {"rotary: integer e.g. 2, 16",
           "r: how many of the dims rotate, the first of them; D if not given"},
          {"scaling: none|linear|dynamic|llama3|yarn = none",
           "how frequencies are scaled for longer contexts than those of the training"},
          {"factor: number = 8 e.g. 1, 2.5", "of any scaling, at least 1"},
          {"original_length: integer = 8192 e.g. 4, 64",
           "L0 of dynamic, llama3 and yarn: the length of the training's contexts"},
          {"low_freq: number = 1 e.g. 0.5",
           "of llama3: below so many rotations in L0 a frequency is divided by the factor"},
          {"high_freq: number = 4 e.g. 8", "of llama3: above so many it stays"},
          {"beta_fast: number = 32 e.g. 16", "of yarn: above so many rotations in L0 it stays"},
          {"beta_slow: number = 1 e.g. 0.25",
           "of yarn: below so many a frequency is divided by the factor"},
          {"yarn_round: flag = true",
           "of yarn: the ramp begins and ends with whole pairs; false: between them, as gpt-oss"},
          {"attention_factor: number e.g. 1, 1.5",
           "of yarn: what rotated numbers are multiplied by; 0.1 ln(factor) + 1 if not given"},
          {"length: integer e.g. 7, 300",
           "of dynamic: L, the present length; if not given the end of the rows, where there are "
           "no positions"}};
}

void sectile::checkRotation(const Invocation &call, const RotationOptions &options) {
  const std::int64_t dims = call.extent("D");
  if (options.rotary < 2 || options.rotary > dims || options.rotary % 2)
    refuse(call, "rotary is ", options.rotary, ", but must be even and from 2 to D (", dims, ")");
  const FrequencyScaling &scaling = options.scaling;
  if (scaling.kind == FrequencyScaling::none)
    return;
  if (scaling.factor < 1)
    refuse(call, "option 'factor' must be at least 1");
  if (scaling.original < 1)
    refuse(call, "option 'original_length' must be at least 1");
  if (scaling.kind == FrequencyScaling::llama3 && !(scaling.low < scaling.high))
    refuse(call, "option 'low_freq' must be below 'high_freq'");
  if (scaling.kind == FrequencyScaling::yarn) {
    if (!(0 < scaling.slow && scaling.slow < scaling.fast))
      refuse(call, "option 'beta_slow' must be above 0 and below 'beta_fast'");
    if (options.theta == 1)
      refuse(call, "option 'theta' must be above 1 with scaling=yarn, which looks for the pairs "
                   "that rotate at some speed");
  }
  if (scaling.kind == FrequencyScaling::dynamic && !scaling.length)
    refuse(call, "scaling=dynamic depends on the present length, which positions on the device do "
                 "not tell: give it as option 'length'");
}

RotationOptions sectile::ropeOptions(const Invocation &call) {
  const OptionValues &options = call.options;
  FrequencyScaling scaling{.factor = options.number("factor"),
                           .original = static_cast<double>(options.integer("original_length")),
                           .low = options.number("low_freq"),
                           .high = options.number("high_freq"),
                           .fast = options.number("beta_fast"),
                           .slow = options.number("beta_slow"),
                           .rounds = options.flag("yarn_round")};
  const std::string &name = options.choice("scaling");
  scaling.kind = name == "linear"    ? FrequencyScaling::linear
                 : name == "dynamic" ? FrequencyScaling::dynamic
                 : name == "llama3"  ? FrequencyScaling::llama3
                 : name == "yarn"    ? FrequencyScaling::yarn
                                     : FrequencyScaling::none;
  if (options.given("attention_factor"))
    scaling.attentionFactor = options.number("attention_factor");
  if (options.given("length"))
    scaling.length = options.integer("length");
  return {.interleaved = options.choice("style") == "interleaved",
          .theta = options.number("theta"),
          .rotary = options.given("rotary") ? options.integer("rotary") : call.extent("D"),
          .scaling = scaling};
}

double FrequencyScaling::pairOf(double rotations, double theta, std::int64_t rotary) const {
  return static_cast<double>(rotary) * std::log(original / (rotations * 2 * std::numbers::pi)) /
         (2 * std::log(theta));
}

double FrequencyScaling::magnitude() const {
  return kind == yarn ? attentionFactor.value_or(0.1 * std::log(factor) + 1) : 1;
}

RotaryValues sectile::rotaryValues(const RotationOptions &options) {
  const FrequencyScaling &scaling = options.scaling;
  RotaryValues values{.step = frequencyStep(options.theta, options.rotary),
                      .magnitude = scaling.magnitude()};
  if (scaling.kind != FrequencyScaling::none)
    values.rampShrink = 1 / scaling.factor - 1;
  switch (scaling.kind) {
  case FrequencyScaling::none:
    break;
  case FrequencyScaling::linear:
    values.rampBase = 1;
    break;
  case FrequencyScaling::dynamic:
    values.rampShrink = 0;
    // The only pair of two dims rotates by f = 1, whatever theta is.
    if (const double length = static_cast<double>(scaling.length.value_or(0));
        length > scaling.original && options.rotary > 2) {
      const double r = static_cast<double>(options.rotary),
                   stretch = scaling.factor * length / scaling.original - (scaling.factor - 1);
      values.step = frequencyStep(options.theta * std::pow(stretch, r / (r - 2)), options.rotary);
    }
    break;
  case FrequencyScaling::llama3: {
    const double width = scaling.high - scaling.low;
    values.rampBase = scaling.high / width;
    values.rampFrequency = -scaling.original / (2 * std::numbers::pi * width);
    break;
  }
  case FrequencyScaling::yarn: {
    double first = scaling.pairOf(scaling.fast, options.theta, options.rotary),
           last = scaling.pairOf(scaling.slow, options.theta, options.rotary);
    if (scaling.rounds) {
      first = std::floor(first);
      last = std::ceil(last);
    }
    const double most = static_cast<double>(options.rotary - 1);
    first = std::clamp(first, 0.0, most);
    last = std::clamp(last, 0.0, most);
    const double width = first == last ? 0.001 : last - first;
    values.rampBase = -first / width;
    values.rampPair = 1 / width;
    break;
  }
  }
  return values;
}
