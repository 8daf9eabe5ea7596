// Operands of small integers, whose products and sums are exact: for tests of kernels of the
// explicit level, which compare all that they compute.
#pragma once
#include "ops/Devices.h"
#include <vector>

namespace sectile::test {

class OnSmallIntegers : public OnDevice {
protected:
  static float elementOf(int number) { return float(number * 7 % 5 - 2); }

  static std::vector<half> operand(int count) {
    std::vector<half> values;
    for (int i = 0; i < count; ++i)
      values.emplace_back(elementOf(i));
    return values;
  }
};

} // namespace sectile::test
