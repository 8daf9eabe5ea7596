// Merging axes of several arguments, and the shape of programs over their elements.
#include "kernels/elementwise/Together.h"
#include "kernels/blocks/RowBlocks.h"
#include <sectile/error.h>

using namespace sectile;

Together::Together(const Use &use, const std::vector<std::string> &arguments) : use(use) {
  const Shape &shape = use.call.tensor(arguments.front()).shape;
  std::vector<Shape> steps;
  for (const std::string &argument : arguments)
    steps.push_back(stridesOf(use.call.tensor(argument)));
  // From the last axis on: each joins the one behind it, or is the next.
  std::size_t place = 3;
  for (std::size_t axis = shape.size(); axis-- > 0;) {
    if (shape[axis] == 1)
      continue;
    bool joins = place < 3;
    for (std::size_t i = 0; i < steps.size() && joins; ++i)
      joins = steps[i][axis] == strides[arguments[i]][place] * extents[place];
    if (joins) {
      extents[place] *= shape[axis];
      continue;
    }
    if (place == 0)
      refuse(use.call, "the axes of ", arguments.front(), " ", toString(shape),
             " and the other arguments must lie as at most three ",
             "axes of even steps, but these are more");
    extents[--place] = shape[axis];
    for (std::size_t i = 0; i < steps.size(); ++i)
      strides[arguments[i]][place] = steps[i][axis];
  }
  // An axis of one element has the step that it would have if all were dense.
  for (const std::string &argument : arguments)
    for (std::size_t i = 3, step = 1; i-- > 0;) {
      std::int64_t &stride = strides[argument][i];
      if (extents[i] == 1)
        stride = static_cast<std::int64_t>(step);
      step = static_cast<std::size_t>(stride * std::max<std::int64_t>(extents[i], 1));
    }
}

bool Together::dense() const {
  bool result = extents[0] == 1 && extents[1] == 1;
  for (const auto &[argument, steps] : strides)
    result &= steps[2] == 1;
  return result;
}

void sectile::addElementsConfig(KernelSpec &spec) {
  spec.config = {{"size", "elements of one program"}, {"warps", "warps of one program"}};
  spec.neutral = {"size", "warps"}; // there are no sums
  spec.typical = {{"...", 1 << 20}};
  spec.small = {{"...", 1000}};
  // Eight elements for each thread: sixteen bytes of the 16-bit types.
  spec.defaults = [](const Invocation &, const std::string &target) {
    return Config{{"size", 32 * warpSize(target)}, {"warps", 4}};
  };
  spec.spaces = {{.axes = {{"size", {128, 256, 512, 1024, 2048, 4096}}, {"warps", {1, 2, 4, 8}}},
                  .where = tilesWithin({"size"}, 1, 32)}};
}

ElementsConfig sectile::elementsConfig(const Use &use, const Together &together, int kind) {
  const std::int64_t size = use.field("size");
  // Rows as long as one needs, and as many as then fit.
  ElementsConfig config{.warps = use.field("warps"), .kind = kind, .dense = together.dense()};
  config.columns = static_cast<int>(
      config.dense ? size : std::min<std::int64_t>(size, powerAtLeast(together.extent(2))));
  config.rows =
      static_cast<int>(config.dense ? 1
                                    : std::min<std::int64_t>(size / config.columns,
                                                             powerAtLeast(together.extent(1))));
  return config;
}

std::int64_t sectile::programsFor(const Together &together, const ElementsConfig &config) {
  return together.extent(0) * ceilDiv(together.extent(1), config.rows) *
         ceilDiv(together.extent(2), config.columns);
}
