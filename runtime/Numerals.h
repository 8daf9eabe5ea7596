// Numbers as text, whatever the program's locale: in many languages the decimal point is a comma,
// to the functions of C, too.
#ifndef SECTILE_RUNTIME_NUMERALS_H
#define SECTILE_RUNTIME_NUMERALS_H

#include <charconv>
#include <locale.h>
#include <optional>
#include <string_view>

namespace sectile::runtime {

/// The number that the whole text is; a sign may stand before it.
inline std::optional<double> numberIn(std::string_view text) {
  if (text.starts_with('+') && !text.starts_with("+-"))
    text.remove_prefix(1);
  double number = 0;
  const char *end = text.data() + text.size();
  if (std::from_chars(text.data(), end, number) != std::from_chars_result{end, std::errc()})
    return std::nullopt;
  return number;
}

/// While this is there, C's functions read and write numbers in this thread as C++ writes them.
/// LLVM's JSON is made by these.
class PlainNumerals {
public:
  PlainNumerals() {
    static const locale_t plain = newlocale(LC_NUMERIC_MASK, "C", locale_t{});
    if (plain)
      before = uselocale(plain);
  }
  ~PlainNumerals() {
    if (before)
      uselocale(before);
  }
  PlainNumerals(const PlainNumerals &) = delete;
  PlainNumerals &operator=(const PlainNumerals &) = delete;

private:
  locale_t before = {};
};

} // namespace sectile::runtime

#endif
