// The search spaces of measured problems as pictures.
#pragma once
#include "autotune/Database.h"
#include <string>
#include <vector>

namespace sectile::tool {

// One panel for each problem: a cell for each configuration, its fields along the axes, its colour
// how much longer than the best it takes.
std::string heatMap(const std::vector<autotune::Problem> &problems);

} // namespace sectile::tool
