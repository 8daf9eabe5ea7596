// Line plots as SVG.
#ifndef SECTILE_AUTOTUNE_PLOT_H
#define SECTILE_AUTOTUNE_PLOT_H

#include <string>
#include <vector>

namespace sectile {

struct PlotAxis {
  std::string label;
  bool logarithmic = false;
};

struct PlotPoint {
  double x, y;
  double low, high; ///< the spread, a line from one to the other
};

struct PlotLine {
  std::string name;
  std::vector<PlotPoint> points; ///< by x
  bool dashed = false;
};

struct Plot {
  std::string title;
  PlotAxis horizontal, vertical;
  std::vector<PlotLine> lines;
};

/// The plot with axes, grid and legend, in colours that readers with colour blindness tell apart
/// (Okabe and Ito, "Color universal design", 2008). Points that an axis cannot show, zero on a
/// logarithmic one, are left out.
std::string drawSvg(const Plot &plot);

} // namespace sectile

#endif
