// Bars of figures as a picture.
#pragma once
#include <string>
#include <utility>
#include <vector>

namespace sectile::tool {

// A row of bars one after another: what it is of, and parts by name.
struct Bar {
  std::string label;
  std::vector<std::pair<std::string, double>> parts;
};

struct BarPanel {
  std::string title; // with the unit
  std::vector<Bar> bars;
};

// Panels one below the other, each with an axis from zero and, where bars have several parts, a
// legend.
std::string drawBars(const std::vector<BarPanel> &panels);

} // namespace sectile::tool
