// What the kernels of this family must compute, done plainly on the host.
#pragma once
#include "kernels/references/References.h"
#include <sectile/kernel_spec.h>
#include <span>

namespace sectile {

// What rows are multiplied by besides: dim d by base + peak e^(-(d - center)^2 / (2 width^2)),
// position p by 1 + boost e^(-boostDecay p).
struct RowGains {
  double base = 1, peak = 0, center = 0, width = 1, boost = 0, boostDecay = 0;
};
// How the frequencies of a rotation are scaled for contexts longer than those of the training.
struct FrequencyScaling {
  enum Kind { none, linear, dynamic, llama3, yarn };
  Kind kind = none;
  double factor = 8, original = 8192;         // original: the length of the training's contexts
  double low = 1, high = 4;                   // of llama3
  double fast = 32, slow = 1;                 // of yarn
  bool rounds = true;                         // the same: the ends of its ramp
  std::optional<double> attentionFactor = {}; // the same; 0.1 ln(factor) + 1
  std::optional<std::int64_t> length = {};    // of dynamic

  // Of yarn: the pair, or what lies between two, that rotates so many times in `original`
  // positions.
  double pairOf(double rotations, double theta, std::int64_t rotary) const;
  // What rotated numbers are multiplied by.
  double magnitude() const;
};
struct RotationOptions {
  bool interleaved = false;
  double theta = 10000;
  std::int64_t rotary = 0; // how many of the dims rotate
  std::int64_t offset = 0; // position of the first row where no positions are given
  bool back = false;       // by the negative angle
  std::optional<RowGains> gains = {};
  FrequencyScaling scaling = {};
};
// x [B, H, S, D], positions [B, S] or empty. table: [P, rotary] of cosines, then sines, of each
// position, in place of the options' angles.
HostArray ropeReference(const HostArray &x, const HostArray &positions,
                        const RotationOptions &options, Arithmetic arithmetic,
                        const HostArray &table = {});

struct AddPositionsOptions {
  double scale = 1, eps = 1e-5, theta = 10000;
  std::int64_t offset = 0;
};
// x [B, S, H], table [P, H] or empty for sines and cosines, positions [B, S] or empty, w and b [H]
// or empty for no layer norm.
LayerNormResult addPositionsReference(const HostArray &x, const HostArray &table,
                                      const HostArray &positions, const HostArray &w,
                                      const HostArray &b, const AddPositionsOptions &options,
                                      Arithmetic arithmetic);
// Of a call of add_positions_backward or sinusoidal_backward, as KernelSpec::reference.
std::vector<HostArray> addPositionsBackwardReference(const Invocation &call,
                                                     std::span<const HostArray> inputs,
                                                     const AddPositionsOptions &options,
                                                     Arithmetic arithmetic);

// inputs: q, k, v. Gives o and rem [B, Hq, Sq].
std::vector<HostArray> stickBreakingReference(std::span<const HostArray> inputs, double scale,
                                              Arithmetic arithmetic);
// inputs: q, k, v, do, drem or empty. Gives dq, dk, dv.
std::vector<HostArray> stickBreakingBackwardReference(std::span<const HostArray> inputs,
                                                      double scale, Arithmetic arithmetic);

} // namespace sectile
