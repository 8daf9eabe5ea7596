// Runs texts through the model, many at a time: the batcher says what a step has, the network
// computes it, and each kind of step is a graph that is replayed.
#pragma once
#include "Batcher.h"
#include "Network.h"
#include <memory>

namespace decoder {

struct EngineSettings {
  BatchLimits limits;
  Sampling sampling;
  bool random = false; // weights at random, in place of the folder's
};
enum class Precision : std::uint8_t { f32, f16, bf16 };

// The texts of requests, without their prompts.
struct Texts {
  std::vector<std::vector<std::int32_t>> tokens;
  std::vector<std::vector<float>> logits; // if they are wanted: V numbers for each token
  std::int64_t steps = 0, plannedSteps = 0, evictions = 0;
};
// What is measured. Seconds are the host's, from a step's inputs to its tokens.
struct Speed {
  double stepSeconds;     // of a decoding step
  double promptRate;      // tokens of prompts a second
  double kernels;         // milliseconds of a decoding step on the device, as one graph
  std::vector<double> of; // and of each kind of work in it alone, as `workNames` has them
};

class Engine {
public:
  // Throws std::runtime_error for a folder whose weights do not fit the model, and Sectile's
  // errors.
  static std::unique_ptr<Engine> open(const sectile::Device &device, const Model &model,
                                      const std::string &folder, Precision precision,
                                      const EngineSettings &settings);
  virtual ~Engine() = default;

  // Throws std::runtime_error for tokens that the model does not have, and for texts that do not
  // fit.
  virtual Texts run(std::span<const Request> requests, bool logits) = 0;
  // The speed with so many sequences of so many keys, averaged over so many steps.
  virtual Speed measure(std::int64_t sequences, std::int64_t keys, std::int64_t steps) = 0;
  // Compiles, or takes from bundles, and loads the code of all steps that there can be.
  virtual void prepareAll() = 0;
};

} // namespace decoder
