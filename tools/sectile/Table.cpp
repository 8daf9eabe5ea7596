// Printing of tables.
#include "tools/sectile/Table.h"
#include <algorithm>

void sectile::tool::Table::print(std::ostream &out) const {
  std::vector<std::size_t> widths;
  for (const auto &cells : rows) {
    widths.resize(std::max(widths.size(), cells.size()));
    for (std::size_t i = 0; i + 1 < cells.size(); ++i) // the last column may be of any length
      widths[i] = std::max(widths[i], cells[i].size());
  }
  for (const auto &cells : rows) {
    std::string line;
    for (std::size_t i = 0; i < cells.size(); ++i) {
      line += cells[i];
      if (i + 1 < cells.size())
        line.append(widths[i] - cells[i].size() + 2, ' ');
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out << line << "\n";
  }
}
