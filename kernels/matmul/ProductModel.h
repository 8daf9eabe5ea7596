// How long a matrix product takes with a configuration: waves of tiles, bytes of the caches and of
// memory, steps along K. The defaults of the products and of the convolutions are the fastest of a
// few configurations by this model, and the tuner tries candidates in its order.
// docs/autotuner.md has the formula.
#pragma once
#include "kernels/registry/Registry.h"

namespace sectile {

struct ProductShape {
  std::int64_t batches, rows, columns, inner;
  std::int64_t bytes = 2;   // of an element of the operands
  bool isAligned = true;    // rows of b, as stored, begin where lines of 128 bytes do
  bool acrossK = false;     // rows of b, as stored, lie along the columns of the product
  std::int64_t repeats = 1; // how often the operands have each number of memory, as under taps
  bool streamed = false;    // the steps of all tiles are dealt out evenly: there are no waves
  bool promotes = false;    // the sums of each step are added to others, by threads
  bool scales = false;      // and scaled before that
  bool turnsA = false, turnsB = false; // a step's rows or columns lie across K, and should along it
  std::int64_t resultBytes = 2;        // of an element of the product
};

struct ProductConfig {
  std::int64_t m, n, k, warps, stages;
  std::int64_t cluster = 1, splits = 1;
  bool persistent = false;
};

// From the fields that a configuration has of these, and the opposite: those fields of the call's
// kernel, with as many programs as the chip has multiprocessors.
ProductConfig productConfig(const Config &fields);
Config productFields(const Invocation &call, const ProductConfig &config,
                     const std::string &target);
// What they mean: m, n, k, the tile rows that neighbouring programs share under this name, warps,
// stages, and the others.
std::vector<ConfigSpec> productFieldSpecs(const char *order, const char *depth,
                                          const std::vector<ConfigSpec> &others = {});
inline const ConfigSpec clusterField{"cluster", "programs that share what they load of b: 1 or 2",
                                     1, 2};
inline const ConfigSpec persistentField{"persistent", "1: each program does one tile after another",
                                        0, 1};

// Sums that a thread holds: the tuner leaves out what keeps threads idle or needs more registers
// than there are.
std::int64_t sumsOfThread(const Config &fields, const std::string &target);
// Two for each element of the product of these axes.
double productFlops(const Invocation &call, std::initializer_list<const char *> axes);

// `target` has warpgroups that multiply such operands.
double productMicroseconds(const ProductShape &shape, const ProductConfig &config,
                           const std::string &target);
// KernelSpec::predict, for calls that suits(call, target, fields), of shapeOf(call, fields).
template <class Suits, class ShapeOf> auto predictProduct(Suits suits, ShapeOf shapeOf) {
  return [suits, shapeOf](const Invocation &call, const std::string &target, const Config &fields) {
    return suits(call, target, fields)
               ? productMicroseconds(shapeOf(call, fields), productConfig(fields), target)
               : 0;
  };
}

struct ProductTile {
  std::int64_t m, n, warps, stages;
  std::int64_t lines = 1; // of shared memory, 128 bytes, that a step is deep
};

// For operands that lie in shared memory as they come: what was fastest for some shape on an H100.
// The last is for few rows, of which reading the weights takes the time.
constexpr ProductTile productTiles[] = {{128, 256, 8, 3}, {128, 128, 8, 4}, {64, 128, 4, 4},
                                        {128, 64, 8, 4},  {64, 64, 4, 6},   {64, 32, 4, 6, 2}};

// What a kernel can do beside one tile for each program.
struct ProductForms {
  enum { never, maybe, always } persistent = never;
  bool clusters = false;        // of two persistent programs
  bool deeperRings = false;     // of programs that have a multiprocessor to themselves
  std::int64_t mostSplits = 1;  // programs that share the sums of a tile
  std::int64_t leastLines = 16; // of 128 bytes along K for each of them
};

// Products of up to fewRows rows, which wait for b: what is fastest by a model of its own, of tiles
// of narrowRows or fewRows rows, which NVIDIA's warps multiply each for itself. Columns are rows of
// the product of the operands turned, whose b is a.
constexpr std::int64_t narrowRows = 16, fewRows = 32;
ProductConfig fastestOfFewRows(const ProductShape &shape, const std::string &target);

ProductConfig fastestProduct(std::span<const ProductTile> tiles, const ProductShape &shape,
                             const ProductForms &forms, const std::string &target);

} // namespace sectile
