// Cases of experts' products whose groups have given sizes.
#pragma once
#include "KernelTest.h"

namespace sectile::test {

/// As many rows as the experts have in all.
inline KernelCase withCounts(KernelCase test, const std::vector<double> &counts) {
  double rows = 0;
  for (const double count : counts)
    rows += count;
  test.extents["M"] = static_cast<std::int64_t>(rows);
  test.extents["G"] = static_cast<std::int64_t>(counts.size());
  test.prepare = [counts](const Invocation &call, std::vector<HostArray> &inputs) {
    inputs[call.index("counts")].assign(counts);
  };
  return test;
}

} // namespace sectile::test
