// A C++ variable is gone when the kernel runs.
// expect: a C\+\+ variable cannot hold what the kernel computes: declare a traced one
// only: a C\+\+ variable cannot hold what the kernel computes: declare a traced one
#include <sectile/language.h>

void kernel(const sectile::Ptr<float> &x) {
  float sum = 0;
  for (auto i : sectile::range(0, 8))
    sum += sectile::load(x + i);
  sectile::store(x, sum);
}
