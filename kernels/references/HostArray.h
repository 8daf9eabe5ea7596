// Shapes of host arrays.
#pragma once
#include <sectile/host_array.h>

namespace sectile {

std::int64_t elementCount(const Shape &shape);
std::string toString(const Shape &shape); // "[2, 3]"

} // namespace sectile
