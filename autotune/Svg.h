// Svg: a drawing, element by element, as the text of an SVG file.
#ifndef SECTILE_AUTOTUNE_SVG_H
#define SECTILE_AUTOTUNE_SVG_H

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sectile {

/// Text as XML may hold it: markup escaped, what is no character left out.
std::string escapeXml(std::string_view text);

class Svg {
public:
  struct Style {
    std::string fill = "none", stroke = "none";
    double width = 1;         ///< of the stroke
    std::string dashes = "";  ///< "4 3"
    std::string tooltip = ""; ///< shown where the mouse is over it
  };
  enum Anchor { Start, Middle, End };

  Svg(double width, double height) : width(width), height(height) {}

  void rectangle(double x, double y, double w, double h, const Style &style);
  void circle(double x, double y, double radius, const Style &style);
  void line(const std::vector<std::pair<double, double>> &points, const Style &style);
  /// `turned` goes upwards.
  void text(double x, double y, std::string_view words, Anchor anchor = Start, double size = 11,
            bool turned = false);

  std::string str() const;

private:
  void element(const std::string &tag, const std::string &attributes, const Style &style);

  double width, height;
  std::string body;
};

} // namespace sectile

#endif
