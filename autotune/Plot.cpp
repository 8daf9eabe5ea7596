// Line plots as SVG.
#include "autotune/Plot.h"
#include "llvm/Support/FormatVariadic.h"
#include <algorithm>
#include <cmath>
#include <limits>

namespace sectile {
namespace {

constexpr double width = 760, height = 460, left = 80, right = 20, top = 50, bottom = 60,
                 legendRow = 18;
constexpr const char *colours[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                   "#e69f00", "#56b4e9", "#f0e442", "#000000"};

std::string number(double value) { return llvm::formatv("{0:f1}", value).str(); }

// A tick's label: as short as it can be and still right.
std::string label(double value) {
  if (value == 0)
    return "0";
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
  void settle(bool fromZero) {
    if (empty())
      low = logarithmic ? 1 : 0, high = 1;
    if (!logarithmic && fromZero)
      low = std::min(low, 0.0), high = std::max(high, 0.0);
    if (low == high) {
      high = logarithmic ? low * 2 : low + 1;
    }
    if (logarithmic)
      return;
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

std::string text(double x, double y, const std::string &content, const char *anchor,
                 const char *more = "") {
  return llvm::formatv("<text x=\"{0:f1}\" y=\"{1:f1}\" text-anchor=\"{2}\"{3}>{4}</text>\n", x, y,
                       anchor, more, escapeXml(content))
      .str();
}

std::string segment(double x1, double y1, double x2, double y2, const char *stroke,
                    const char *more = "") {
  return llvm::formatv("<line x1=\"{0:f1}\" y1=\"{1:f1}\" x2=\"{2:f1}\" y2=\"{3:f1}\" "
                       "stroke=\"{4}\"{5}/>\n",
                       x1, y1, x2, y2, stroke, more)
      .str();
}

} // namespace

std::string escapeXml(const std::string &text) {
  std::string result;
  for (const char c : text)
    switch (c) {
    case '&':
      result += "&amp;";
      break;
    case '<':
      result += "&lt;";
      break;
    case '>':
      result += "&gt;";
      break;
    case '"':
      result += "&quot;";
      break;
    default:
      result += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
  return result;
}

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
  x.settle(/*fromZero=*/false);
  y.settle(/*fromZero=*/true);

  std::string svg = llvm::formatv("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:f0}\" "
                                  "height=\"{1:f0}\" viewBox=\"0 0 {0:f0} {1:f0}\" "
                                  "font-family=\"sans-serif\" font-size=\"12\">\n"
                                  "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
                                  width, height)
                        .str();
  svg += text(width / 2, 24, plot.title, "middle", " font-size=\"16\"");
  for (const double tick : x.ticks()) {
    svg += segment(x.at(tick), top, x.at(tick), height - bottom, "#e0e0e0");
    svg += text(x.at(tick), height - bottom + 18, label(tick), "middle");
  }
  for (const double tick : y.ticks()) {
    svg += segment(left, y.at(tick), width - right, y.at(tick), "#e0e0e0");
    svg += text(left - 6, y.at(tick) + 4, label(tick), "end");
  }
  svg += segment(left, height - bottom, width - right, height - bottom, "black");
  svg += segment(left, top, left, height - bottom, "black");
  svg += text((left + width - right) / 2, height - 16, plot.horizontal.label, "middle");
  svg +=
      text(0, 0, plot.vertical.label, "middle",
           (" transform=\"translate(20 " + number((top + height - bottom) / 2) + ") rotate(-90)\"")
               .c_str());

  size_t index = 0;
  for (const PlotLine &line : plot.lines) {
    const char *colour =
        line.dashed ? "#606060" : colours[index % (sizeof colours / sizeof *colours)];
    const char *dashes = line.dashed ? " stroke-dasharray=\"6 4\"" : "";
    std::string points, upper, lower;
    for (const PlotPoint &point : line.points)
      if (shown(point)) {
        const std::string at = number(x.at(point.x));
        points += at + "," + number(y.at(point.y)) + " ";
        upper += at + "," + number(y.at(point.high)) + " ";
        lower = at + "," + number(y.at(point.low)) + " " + lower;
      }
    if (!line.dashed)
      svg += llvm::formatv("<polygon points=\"{0}{1}\" fill=\"{2}\" fill-opacity=\"0.15\"/>\n",
                           upper, lower, colour)
                 .str();
    svg += llvm::formatv("<polyline points=\"{0}\" fill=\"none\" stroke=\"{1}\" "
                         "stroke-width=\"2\"{2}/>\n",
                         points, colour, dashes)
               .str();
    for (const PlotPoint &point : line.points)
      if (shown(point) && !line.dashed)
        svg += llvm::formatv("<circle cx=\"{0:f1}\" cy=\"{1:f1}\" r=\"3\" fill=\"{2}\"/>\n",
                             x.at(point.x), y.at(point.y), colour)
                   .str();
    const double row = top + 14 + legendRow * double(index);
    svg += segment(left + 10, row - 4, left + 34, row - 4, colour,
                   (std::string(" stroke-width=\"2\"") + dashes).c_str());
    svg += text(left + 40, row, line.name, "start");
    ++index;
  }
  return svg + "</svg>\n";
}

} // namespace sectile
