// Remark: what the compiler has to say of a kernel that it compiled.
#ifndef SECTILE_RUNTIME_REMARK_H
#define SECTILE_RUNTIME_REMARK_H

#include <cstdint>
#include <string>

namespace sectile {

/// Where the compiler did something other than what the kernel asks for or its writer may expect: a
/// hint without effect, a dot that no matrix instruction computes.
struct Remark {
  std::string file; ///< empty where no line is to blame
  unsigned line = 0;
  std::string text;
  /// The first operation of the traced kernel, in order, that this line made; negative: none. A
  /// kernel of the same IR may have come from other lines.
  int32_t operation = -1;

  friend bool operator==(const Remark &, const Remark &) = default;
};

namespace runtime {

/// "matmul.cpp:12: remark: ...".
std::string textOf(const Remark &remark);

} // namespace runtime
} // namespace sectile

#endif
