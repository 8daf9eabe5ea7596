// Text in columns as wide as their longest entry.
#pragma once
#include <ostream>
#include <string>
#include <vector>

namespace sectile::tool {

class Table {
public:
  void row(std::vector<std::string> cells) { rows.push_back(std::move(cells)); }
  void print(std::ostream &out) const;

private:
  std::vector<std::vector<std::string>> rows;
};

} // namespace sectile::tool
