// What kernels report: assertions that did not hold, as exceptions; what they print, as text.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <sectile/error.h>
#include <string_view>
#include <vector>

namespace sectile {

// An assertion of a kernel did not hold. The program that found it ended there, the others went on,
// and the device works as before. Thrown where the host waits for the kernel.
class AssertionError : public DeviceError {
public:
  struct Failure {
    std::string kernel, message;
    std::string file; // of the kernel's source
    unsigned line = 0;
    std::array<unsigned, 3> program{};
    std::vector<std::int64_t> index; // of the tile's first element that did not hold; else empty
  };
  // The first, by launch and by program, and how many more there are.
  AssertionError(Failure failure, std::size_t others);

  const std::string &message() const { return failure_.message; }
  const std::string &kernel() const { return failure_.kernel; }
  const std::string &file() const { return failure_.file; }
  unsigned line() const { return failure_.line; }
  const std::array<unsigned, 3> &program() const { return failure_.program; }
  const std::vector<std::int64_t> &index() const { return failure_.index; }
  std::size_t others() const { return others_; }

private:
  Failure failure_;
  std::size_t others_;
};

// Takes what kernels print, whole lines of it, where the host waits for the kernel.
using PrintHandler = std::function<void(std::string_view text)>;

// From now on, in the whole process. Without a handler the text goes to standard output. Gives the
// handler that was there before.
PrintHandler set_print_handler(PrintHandler handler);

} // namespace sectile
