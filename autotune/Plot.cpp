// Line plots as SVG.
#include "autotune/Plot.h"
#include "autotune/Svg.h"
#include "runtime/Numerals.h"
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

namespace sectile {
namespace {

constexpr double width = 900, height = 460, left = 80, right = 170, top = 50, bottom = 60,
                 legendRow = 18;
constexpr const char *colours[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                   "#e69f00", "#56b4e9", "#f0e442", "#000000"};

// A tick's label: as short as it can be and still right.
std::string label(double value) {
  if (value == 0)
    return "0";
  const runtime::PlainNumerals plain;
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", value);
  return text;
}

// Where values lie along one axis of the picture.
class Scale {
public:
  Scale(const PlotAxis &axis, double first, double last)
      : logarithmic(axis.logarithmic), first(first), last(last) {}

  void include(double value) {
    if (!shows(value))
      return;
    low = std::min(low, value);
    high = std::max(high, value);
  }
  bool shows(double value) const { return std::isfinite(value) && (!logarithmic || value > 0); }
  bool empty() const { return low > high; }

  // Widens the range to where ticks are. From zero on where lengths are to be compared.
  void chooseRange(bool fromZero) {
    if (empty())
      low = logarithmic ? 1 : 0, high = 1;
    if (!logarithmic && fromZero)
      low = std::min(low, 0.0), high = std::max(high, 0.0);
    if (low == high) {
      high = logarithmic ? low * 2 : low + 1;
    }
    if (logarithmic) {
      // No line without figures beside it: what differs in the seventh digit is not to look steep.
      if (ticks().size() < 2) {
        low = std::exp2(std::floor(std::log2(low)));
        high = std::exp2(std::ceil(std::log2(high)));
      }
      return;
    }
    const double step = linearStep();
    low = std::floor(low / step) * step;
    high = std::ceil(high / step) * step;
  }

  double at(double value) const {
    const double part =
        logarithmic ? std::log(value / low) / std::log(high / low) : (value - low) / (high - low);
    return first + part * (last - first);
  }

  std::vector<double> ticks() const {
    std::vector<double> result;
    if (!logarithmic) {
      const double step = linearStep();
      for (double i = std::round(low / step); i * step <= high * (1 + 1e-12) + step * 1e-9; ++i)
        result.push_back(i * step);
      return result;
    }
    // Powers of two where the range is small or the values are sizes, else of ten.
    const double base = high / low <= 4096 ? 2 : 10;
    const int from = static_cast<int>(std::ceil(std::log(low) / std::log(base) - 1e-9)),
              to = static_cast<int>(std::floor(std::log(high) / std::log(base) + 1e-9));
    const int every = std::max(1, (to - from) / 12 + ((to - from) % 12 ? 1 : 0));
    for (int i = from; i <= to; i += every)
      result.push_back(std::pow(base, i));
    return result;
  }

private:
  // 1, 2 or 5 times a power of ten, so that there are four to ten steps.
  double linearStep() const {
    const double rough = (high - low) / 8, power = std::pow(10, std::floor(std::log10(rough)));
    for (const double factor : {1.0, 2.0, 5.0})
      if (power * factor >= rough)
        return power * factor;
    return power * 10;
  }

  bool logarithmic;
  double first, last;
  double low = std::numeric_limits<double>::infinity(), high = -low;
};

} // namespace

std::string drawSvg(const Plot &plot) {
  Scale x(plot.horizontal, left, width - right), y(plot.vertical, height - bottom, top);
  const auto shown = [&](const PlotPoint &point) {
    return x.shows(point.x) && y.shows(point.y) && y.shows(point.low) && y.shows(point.high);
  };
  for (const PlotLine &line : plot.lines)
    for (const PlotPoint &point : line.points)
      if (shown(point)) {
        x.include(point.x);
        for (const double value : {point.y, point.low, point.high})
          y.include(value);
      }
  x.chooseRange(/*fromZero=*/false);
  y.chooseRange(/*fromZero=*/true);

  Svg svg(width, height);
  const Svg::Style grid{.stroke = "#e0e0e0"}, frame{.stroke = "black"};
  const double foot = height - bottom, edge = width - right;
  svg.text((left + edge) / 2, 24, plot.title, Svg::Middle, 16);
  for (const double tick : x.ticks()) {
    svg.line({{x.at(tick), top}, {x.at(tick), foot}}, grid);
    svg.text(x.at(tick), foot + 18, label(tick), Svg::Middle);
  }
  for (const double tick : y.ticks()) {
    svg.line({{left, y.at(tick)}, {edge, y.at(tick)}}, grid);
    svg.text(left - 6, y.at(tick) + 4, label(tick), Svg::End);
  }
  svg.line({{left, top}, {left, foot}, {edge, foot}}, frame);
  svg.text((left + edge) / 2, height - 16, plot.horizontal.label, Svg::Middle, 12);
  svg.text(20, (top + foot) / 2, plot.vertical.label, Svg::Middle, 12, /*turned=*/true);

  size_t index = 0;
  for (const PlotLine &line : plot.lines) {
    const Svg::Style stroke{.stroke = line.dashed ? "#606060" : colours[index % std::size(colours)],
                            .width = 2,
                            .dashes = line.dashed ? "6 4" : ""};
    const Svg::Style spread{.stroke = stroke.stroke};
    std::vector<std::pair<double, double>> points;
    for (const PlotPoint &point : line.points) {
      if (!shown(point))
        continue;
      points.emplace_back(x.at(point.x), y.at(point.y));
      if (line.dashed)
        continue;
      svg.line({{x.at(point.x), y.at(point.low)}, {x.at(point.x), y.at(point.high)}}, spread);
      svg.circle(x.at(point.x), y.at(point.y), 3, {.fill = stroke.stroke});
    }
    svg.line(points, stroke);
    const double row = top + 14 + legendRow * double(index++);
    svg.line({{edge + 14, row - 4}, {edge + 36, row - 4}}, stroke);
    svg.text(edge + 42, row, line.name);
  }
  return svg.str();
}

} // namespace sectile
