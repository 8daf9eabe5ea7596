// The floating-point mode of the thread, as C begins with it. A program may have another: rounding
// upward, or subnormal numbers taken as zero, as libraries do that were compiled for speed.
#ifndef SECTILE_RUNTIME_DEFAULTARITHMETIC_H
#define SECTILE_RUNTIME_DEFAULTARITHMETIC_H

#include <cfenv>

namespace sectile::runtime {

/// While this is there, this thread and those that it starts round to nearest and keep subnormal
/// numbers: what stands for a chip must not depend on the program around it.
class DefaultArithmetic {
public:
  DefaultArithmetic() {
    std::fegetenv(&before);
    std::fesetenv(FE_DFL_ENV);
  }
  ~DefaultArithmetic() { std::fesetenv(&before); }
  DefaultArithmetic(const DefaultArithmetic &) = delete;
  DefaultArithmetic &operator=(const DefaultArithmetic &) = delete;

private:
  std::fenv_t before;
};

} // namespace sectile::runtime

#endif
