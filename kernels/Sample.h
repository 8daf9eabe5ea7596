// Contents for inputs that nobody gave: what ArgumentSpec::sample fills arrays with.
#pragma once
#include "kernels/HostArray.h"
#include <algorithm>

namespace sectile {

// Numbers that draw() gives one by one. Large arrays repeat themselves, with a prime period: no two
// rows of one are equal, and drawing the numbers does not take longer than the kernel.
template <class Draw> void fillDrawn(HostArray &array, Draw &&draw) {
  constexpr std::int64_t period = 1'048'573;
  HostArray drawn(array.dtype, {std::min(array.count(), period)});
  std::vector<double> values(static_cast<std::size_t>(drawn.count()));
  for (double &value : values)
    value = draw();
  drawn.assign(values);
  for (std::size_t at = 0; at < array.data.size(); at += drawn.data.size())
    std::copy_n(drawn.data.begin(), std::min(drawn.data.size(), array.data.size() - at),
                array.data.begin() + static_cast<std::ptrdiff_t>(at));
}

} // namespace sectile
