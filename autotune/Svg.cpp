// Elements of SVG 1.1 with presentation attributes only, which every viewer knows.
#include "autotune/Svg.h"
#include "runtime/Numerals.h"
#include "llvm/Support/JSON.h"
#include <cstdio>

namespace sectile {

// At most two digits after the point: a drawing is the same on every machine.
static std::string number(double value) {
  const runtime::PlainNumerals plain;
  char text[32];
  std::snprintf(text, sizeof text, "%.2f", value);
  std::string result = text;
  result.erase(result.find_last_not_of('0') + 1);
  if (result.ends_with('.'))
    result.pop_back();
  return result == "-0" ? "0" : result;
}

static std::string attribute(const char *name, double value) {
  return std::string(" ") + name + "=\"" + number(value) + "\"";
}

std::string escapeXml(std::string_view text) {
  std::string result;
  for (const char c : llvm::json::fixUTF8(llvm::StringRef(text))) {
    if (c == '<')
      result += "&lt;";
    else if (c == '>')
      result += "&gt;";
    else if (c == '&')
      result += "&amp;";
    else if (c == '"')
      result += "&quot;";
    else if (static_cast<unsigned char>(c) >= ' ' || c == '\n' || c == '\t')
      result += c;
  }
  return result;
}

void Svg::element(const std::string &tag, const std::string &attributes, const Style &style) {
  body += "<" + tag + attributes + " fill=\"" + escapeXml(style.fill) + "\"";
  if (style.stroke != "none")
    body += " stroke=\"" + escapeXml(style.stroke) + "\"" + attribute("stroke-width", style.width);
  if (!style.dashes.empty())
    body += " stroke-dasharray=\"" + escapeXml(style.dashes) + "\"";
  body += style.tooltip.empty()
              ? "/>\n"
              : "><title>" + escapeXml(style.tooltip) + "</title></" + tag + ">\n";
}

void Svg::rectangle(double x, double y, double w, double h, const Style &style) {
  element("rect",
          attribute("x", x) + attribute("y", y) + attribute("width", w) + attribute("height", h),
          style);
}

void Svg::circle(double x, double y, double radius, const Style &style) {
  element("circle", attribute("cx", x) + attribute("cy", y) + attribute("r", radius), style);
}

void Svg::line(const std::vector<std::pair<double, double>> &points, const Style &style) {
  std::string list;
  for (const auto &[x, y] : points)
    list += (list.empty() ? "" : " ") + number(x) + "," + number(y);
  element("polyline", " points=\"" + list + "\"", style);
}

void Svg::text(double x, double y, std::string_view words, Anchor anchor, double size,
               bool turned) {
  static const char *const anchors[] = {"start", "middle", "end"};
  body += "<text" + attribute("x", x) + attribute("y", y) + attribute("font-size", size);
  if (anchor != Start)
    body += std::string(" text-anchor=\"") + anchors[anchor] + "\"";
  if (turned)
    body += " transform=\"rotate(-90 " + number(x) + " " + number(y) + ")\"";
  body += ">" + escapeXml(words) + "</text>\n";
}

std::string Svg::str() const {
  const std::string w = number(width), h = number(height);
  return "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" + w + "\" height=\"" + h +
         "\" viewBox=\"0 0 " + w + " " + h + "\" font-family=\"sans-serif\">\n" + "<rect width=\"" +
         w + "\" height=\"" + h + "\" fill=\"white\"/>\n" + body + "</svg>\n";
}

} // namespace sectile
