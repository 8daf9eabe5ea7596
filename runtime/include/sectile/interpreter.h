// Looking at kernels while the interpreter runs them.
#pragma once
#include <array>
#include <cstdint>
#include <functional>
#include <sectile/sealed.h>
#include <string>
#include <string_view>
#include <vector>

namespace sectile::interpreter {

// A value that a line of a kernel made.
struct LineValue {
  std::string operation; // that made it, as "addf" or "load"
  std::string type;      // of an element, as "f16", "i32", "bool" or "ptr"
  std::vector<std::int64_t> shape;
  std::string text; // all of its elements, as device_print writes them
};

// One program has come to the end of a line.
struct LineStop {
  std::string kernel, file;
  unsigned line = 0;
  std::array<unsigned, 3> program{};
  std::vector<LineValue> values; // in the order they were made

  SECTILE_NEEDS_COMPILER std::string text() const; // all of it, for people
};
using LineHandler = std::function<void(const LineStop &)>;

// From now on the handler is called whenever a program has run a line of a kernel, with what the
// line made. `file` is the end of the source's path. What the handler throws ends the launch.
SECTILE_NEEDS_COMPILER void on_line(std::string_view file, unsigned line, LineHandler handler);
// No lines from now on.
SECTILE_NEEDS_COMPILER void clear_lines();

// From now on a kernel ends with an error where an operation makes a NaN of numbers.
SECTILE_NEEDS_COMPILER void trap_nan(bool on);

} // namespace sectile::interpreter
