// Layout: the fields of the configurations that vary are shared out between the two axes, so that
// both are about as long; the combinations of an axis's fields are its steps.
#include "tools/sectile/cache/HeatMap.h"
#include "autotune/Svg.h"
#include "runtime/Numerals.h"
#include "tools/sectile/Execute.h"
#include "tools/sectile/cache/Cache.h"
#include <algorithm>
#include <cmath>
#include <map>
#include <set>

namespace sectile::tool {
namespace {

using autotune::Measurement;
using autotune::Problem;
using autotune::Verdict;

using Fields = std::map<std::string, std::string>;

constexpr double cell = 20, margin = 16, letter = 6.2, worstShown = 4;

Fields fieldsOf(const std::string &config) {
  Fields fields;
  for (size_t start = 0; start < config.size();) {
    const size_t space = std::min(config.find(' ', start), config.size());
    const std::string word = config.substr(start, space - start);
    const size_t equals = word.find('=');
    if (!word.empty())
      fields[equals == word.npos ? word : word.substr(0, equals)] =
          equals == word.npos ? "" : word.substr(equals + 1);
    start = space + 1;
  }
  return fields;
}

// Numbers in order of their values, before anything else.
bool before(const std::string &a, const std::string &b) {
  const std::optional<double> x = runtime::numberIn(a), y = runtime::numberIn(b);
  if (x && y && *x != *y)
    return *x < *y;
  return x.has_value() != y.has_value() ? x.has_value() : a < b;
}

struct Axis {
  std::vector<std::string> fields;
  size_t steps = 1; // if every combination is there

  // What a configuration has for its fields, in their order.
  std::vector<std::string> place(const Fields &config) const {
    std::vector<std::string> values;
    for (const std::string &field : fields) {
      const auto found = config.find(field);
      values.push_back(found == config.end() ? "" : found->second);
    }
    return values;
  }
  std::string label(const std::vector<std::string> &place) const {
    std::string text;
    for (size_t i = 0; i < fields.size(); ++i)
      text += (i ? " " : "") + fields[i] + "=" + place[i];
    return text;
  }
};

using Place = std::vector<std::string>;
struct PlaceOrder {
  bool operator()(const Place &a, const Place &b) const {
    return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end(), before);
  }
};

// From dark blue for the best to nearly white, by the logarithm of the ratio.
std::string colour(double ratio) {
  const double far = std::clamp(std::log(ratio) / std::log(worstShown), 0.0, 1.0);
  const int from[] = {8, 48, 107}, to[] = {233, 242, 251};
  char text[8];
  int mixed[3];
  for (int i = 0; i < 3; ++i)
    mixed[i] = static_cast<int>(std::lround(from[i] + (to[i] - from[i]) * far));
  std::snprintf(text, sizeof text, "#%02x%02x%02x", mixed[0], mixed[1], mixed[2]);
  return text;
}

std::string fixed(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f", value);
  return text;
}

class Panel {
public:
  explicit Panel(const Problem &problem) : problem(problem) {
    std::map<std::string, std::set<std::string>> values;
    for (const Measurement &m : problem.measurements)
      for (const auto &[field, value] : fieldsOf(m.config))
        values[field].insert(value);
    std::vector<std::pair<size_t, std::string>> varying;
    for (const auto &[field, found] : values)
      if (found.size() > 1)
        varying.emplace_back(found.size(), field);
    std::sort(varying.begin(), varying.end(), [](const auto &a, const auto &b) {
      return a.first != b.first ? a.first > b.first : a.second < b.second;
    });
    for (const auto &[count, field] : varying) {
      Axis &shorter = across.steps < down.steps ? across : down;
      shorter.fields.push_back(field);
      shorter.steps *= count;
    }
    for (const Measurement &m : problem.measurements) {
      const Fields fields = fieldsOf(m.config);
      columns.emplace(across.place(fields), 0);
      rows.emplace(down.place(fields), 0);
    }
    size_t longestColumn = 0, longestRow = 0, index = 0;
    for (auto &[place, number] : columns) {
      number = index++;
      longestColumn = std::max(longestColumn, across.label(place).size());
    }
    index = 0;
    for (auto &[place, number] : rows) {
      number = index++;
      longestRow = std::max(longestRow, down.label(place).size());
    }
    left = margin + letter * static_cast<double>(longestRow) + 6;
    top = 52 + letter * static_cast<double>(longestColumn);
    bestTime = problem.measurements.front().median;
  }

  double width() const {
    return std::max(left + cell * static_cast<double>(columns.size()) + margin,
                    2 * margin + 7.5 * static_cast<double>(title().size()));
  }
  double height() const { return top + cell * static_cast<double>(rows.size()) + margin; }

  void draw(Svg &svg, double y) const {
    svg.text(margin, y + 20, title(), Svg::Start, 13);
    const Measurement &best = problem.measurements.front();
    if (best.verdict == Verdict::Good)
      svg.text(margin, y + 36, "best: " + best.config + ", " + microseconds(best.median));
    for (const auto &[place, number] : columns)
      svg.text(left + cell * static_cast<double>(number) + 14, y + top - 4, across.label(place),
               Svg::Start, 10, true);
    for (const auto &[place, number] : rows)
      svg.text(left - 5, y + top + cell * static_cast<double>(number) + 14, down.label(place),
               Svg::End, 10);
    for (const Measurement &m : problem.measurements)
      drawCell(svg, y, m, &m == &best);
  }

private:
  std::string title() const {
    return problem.key.kernel + " " + autotune::describe(problem.key.shape) + ", " +
           problem.key.dtypes + ", " + problem.key.device +
           (isSimulated(problem.key.device) ? ", simulated" : "");
  }

  void drawCell(Svg &svg, double panelY, const Measurement &m, bool best) const {
    const Fields fields = fieldsOf(m.config);
    const double x = left + cell * static_cast<double>(columns.at(across.place(fields)));
    const double y = panelY + top + cell * static_cast<double>(rows.at(down.place(fields)));
    const bool good = m.verdict == Verdict::Good;
    Svg::Style style{.fill = good ? colour(m.median / bestTime) : "#dddddd", .stroke = "white"};
    style.tooltip =
        m.config + ": " +
        (good ? microseconds(m.median) + ", " + fixed(m.median / bestTime) + " times the best"
              : std::string(name(m.verdict)) + (m.message.empty() ? "" : ": " + m.message));
    svg.rectangle(x, y, cell, cell, style);
    if (!good)
      svg.text(x + cell / 2, y + 14, mark(m.verdict), Svg::Middle, 10);
    else if (best)
      svg.rectangle(x + 1.5, y + 1.5, cell - 3, cell - 3, {.stroke = "#e6550d", .width = 3});
  }

public:
  static std::string mark(Verdict verdict) {
    switch (verdict) {
    case Verdict::Hopeless:
      return "h";
    case Verdict::Wrong:
      return "W";
    case Verdict::Failed:
      return "F";
    case Verdict::DoesNotFit:
      return "-";
    case Verdict::TimedOut:
      return "T";
    case Verdict::Unfinished:
      return "?";
    case Verdict::Good:
      break;
    }
    return "";
  }

private:
  const Problem &problem;
  Axis across, down;
  std::map<Place, size_t, PlaceOrder> columns, rows;
  double left = 0, top = 0, bestTime = 1;
};

constexpr double legendWidth = 860, legendHeight = 56;

void drawLegend(Svg &svg) {
  const double x = margin, y = margin, step = 4;
  for (int i = 0; i < 40; ++i)
    svg.rectangle(x + step * i, y, step + 0.5, 14,
                  {.fill = colour(std::pow(worstShown, (i + 0.5) / 40))});
  for (const double ratio : {1.0, 1.5, 2.0, 3.0, 4.0})
    svg.text(x + 160 * std::log(ratio) / std::log(worstShown), y + 27,
             ratio == worstShown ? "4+" : fixed(ratio).substr(0, 3), Svg::Middle, 10);
  svg.text(x + 180, y + 11, "time relative to the best");
  double at = x + 330;
  for (const Verdict verdict : {Verdict::Hopeless, Verdict::Wrong, Verdict::Failed,
                                Verdict::DoesNotFit, Verdict::TimedOut, Verdict::Unfinished}) {
    svg.rectangle(at, y - 2, 16, 16, {.fill = "#dddddd"});
    svg.text(at + 8, y + 10, Panel::mark(verdict), Svg::Middle, 10);
    svg.text(at + 20, y + 10, name(verdict));
    at += 36 + letter * static_cast<double>(std::string_view(name(verdict)).size());
  }
}

} // namespace

std::string heatMap(const std::vector<Problem> &problems) {
  std::vector<Panel> panels;
  double width = legendWidth, height = legendHeight;
  for (const Problem &problem : problems) {
    panels.emplace_back(problem);
    width = std::max(width, panels.back().width());
    height += panels.back().height();
  }
  Svg svg(width, height);
  drawLegend(svg);
  double y = legendHeight;
  for (const Panel &panel : panels) {
    panel.draw(svg, y);
    y += panel.height();
  }
  return svg.str();
}

} // namespace sectile::tool
