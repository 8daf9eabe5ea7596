// Arguments of one shape and any strides, taken element by element: axes that lie evenly in all of
// them are one, so that what is dense is one axis.
#pragma once
#include "kernels/calls/Use.h"
#include <map>

namespace sectile {

// What a kernel over elements sees of each argument: three axes, the last the longest where all are
// dense.
class Together {
public:
  // Throws InputError where the arguments' axes are not at most three such.
  Together(const Use &use, const std::vector<std::string> &arguments);

  std::int64_t extent(std::size_t axis) const { return extents[axis]; }
  bool dense() const; // and in the same order

  template <Element T> Tensor<T, 3> of(std::string_view argument) const {
    return use.shaped<T, 3>(argument, extents, strides.at(std::string(argument)));
  }

private:
  const Use &use;
  std::array<std::int64_t, 3> extents{1, 1, 1};
  std::map<std::string, std::array<std::int64_t, 3>> strides;
};

struct ElementsConfig {
  int rows = 1, columns = 1024, warps = 4;
  int kind = 0; // of function
  bool dense = true;
};

// The tile of a program of a one-dimensional grid.
struct ElementTile {
  Int outer, row, column; // in tiles
  const ElementsConfig &config;

  template <class T>
  ElementTile(const View<T, 3> &like, const ElementsConfig &config) : config(config) {
    auto number = program_id(0);
    if (config.dense) {
      outer = row = 0;
      column = number;
      return;
    }
    auto columns = cdiv(like.extent(2), config.columns), rows = cdiv(like.extent(1), config.rows);
    column = number % columns;
    row = number / columns % rows;
    outer = number / columns / rows;
  }
  template <class T> Tile<T> load(const View<const T, 3> &from) const {
    return from.tile(1, config.rows, config.columns).load(outer, row, column);
  }
  template <class T, class U> void store(const View<T, 3> &to, const Tile<U> &values) const {
    to.tile(1, config.rows, config.columns).store(outer, row, column, values);
  }
};

// The fields size and warps, their defaults and space.
void addElementsConfig(KernelSpec &spec);
// Of a kernel over these arguments.
ElementsConfig elementsConfig(const Use &use, const Together &together, int kind = 0);
std::int64_t programsFor(const Together &together, const ElementsConfig &config);

} // namespace sectile
