// Horizontal bars, since labels are long.
#include "tools/sectile/BarChart.h"
#include "autotune/Svg.h"
#include <algorithm>
#include <cmath>
#include <cstdio>

namespace sectile::tool {
namespace {

constexpr double margin = 16, letter = 6.9, rowHeight = 20, barHeight = 14, barsWidth = 560,
                 titleHeight = 34, legendHeight = 20, axisHeight = 34, figureWidth = 70;
// In colours that readers with colour blindness tell apart (Okabe and Ito, 2008), and lighter ones.
constexpr const char *colours[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00",
                                   "#56b4e9", "#f0e442", "#999999", "#7f4f24", "#a3b18a"};

std::string figure(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", value);
  return text;
}

double total(const Bar &bar) {
  double sum = 0;
  for (const auto &[name, value] : bar.parts)
    sum += value;
  return sum;
}

// 1, 2 or 5 times a power of ten, so that there are at most eight steps.
double stepOf(double most) {
  const double power = std::pow(10, std::floor(std::log10(most / 8)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (power * factor >= most / 8)
      return power * factor;
  return power * 10;
}

class PanelDrawing {
public:
  explicit PanelDrawing(const BarPanel &panel) : panel(panel) {
    std::size_t longest = 0;
    for (const Bar &bar : panel.bars) {
      longest = std::max(longest, bar.label.size());
      most = std::max(most, total(bar));
      for (const auto &[name, value] : bar.parts)
        if (std::find(names.begin(), names.end(), name) == names.end())
          names.push_back(name);
    }
    left = margin + letter * static_cast<double>(longest) + 8;
    if (most <= 0)
      most = 1;
  }

  double width() const { return left + barsWidth + figureWidth + margin; }
  double height() const {
    return titleHeight + (names.size() > 1 ? legendHeight : 0) +
           rowHeight * static_cast<double>(panel.bars.size()) + axisHeight;
  }

  void draw(Svg &svg, double y) const {
    svg.text(margin, y + 22, panel.title, Svg::Start, 14);
    y += titleHeight;
    if (names.size() > 1) {
      drawLegend(svg, y);
      y += legendHeight;
    }
    const double foot = y + rowHeight * static_cast<double>(panel.bars.size());
    const double step = stepOf(most);
    for (int i = 0; i * step <= most * (1 + 1e-9); ++i) {
      const double value = i * step;
      svg.line({{at(value), y}, {at(value), foot + 4}}, {.stroke = "#e0e0e0"});
      svg.text(at(value), foot + 18, figure(value), Svg::Middle, 10);
    }
    for (const Bar &bar : panel.bars) {
      drawBar(svg, y, bar);
      y += rowHeight;
    }
    svg.line({{left, y - rowHeight * static_cast<double>(panel.bars.size())}, {left, foot}},
             {.stroke = "black"});
  }

private:
  double at(double value) const { return left + barsWidth * value / most; }
  const char *colourOf(const std::string &name) const {
    const auto index = std::find(names.begin(), names.end(), name) - names.begin();
    return colours[static_cast<std::size_t>(index) % std::size(colours)];
  }

  void drawBar(Svg &svg, double y, const Bar &bar) const {
    svg.text(left - 6, y + 12, bar.label, Svg::End);
    double sum = 0;
    for (const auto &[name, value] : bar.parts) {
      svg.rectangle(
          at(sum), y + 1, at(sum + value) - at(sum), barHeight,
          {.fill = colourOf(name), .tooltip = bar.label + ", " + name + ": " + figure(value)});
      sum += value;
    }
    svg.text(at(sum) + 5, y + 12, figure(sum));
  }

  void drawLegend(Svg &svg, double y) const {
    double x = left;
    for (const std::string &name : names) {
      svg.rectangle(x, y + 2, 10, 10, {.fill = colourOf(name)});
      svg.text(x + 14, y + 11, name, Svg::Start, 10);
      x += 26 + letter * static_cast<double>(name.size());
    }
  }

  const BarPanel &panel;
  std::vector<std::string> names;
  double left, most = 0;
};

} // namespace

std::string drawBars(const std::vector<BarPanel> &panels) {
  std::vector<PanelDrawing> drawings;
  double width = 0, height = margin;
  for (const BarPanel &panel : panels) {
    drawings.emplace_back(panel);
    width = std::max(width, drawings.back().width());
    height += drawings.back().height();
  }
  Svg svg(width, height);
  double y = 0;
  for (const PanelDrawing &drawing : drawings) {
    drawing.draw(svg, y);
    y += drawing.height();
  }
  return svg.str();
}

} // namespace sectile::tool
