// What Sectile throws. One base, one type per kind of fault; nothing in the library aborts.
#pragma once
#include <stdexcept>
#include <string>
#include <utility>

namespace sectile {

class Error : public std::runtime_error {
public:
  using std::runtime_error::runtime_error;
};

// The kernel is wrong: what() names the user's file and line, the types involved and what to write
// instead.
class CompileError : public Error {
public:
  CompileError(const std::string &file, unsigned line, const std::string &message)
      : Error(file.empty() ? message : file + ":" + std::to_string(line) + ": " + message),
        file_(file), line_(line) {}
  explicit CompileError(const std::string &message) : Error(message) {}

  const std::string &file() const { return file_; } // empty where no line of the kernel is to blame
  unsigned line() const { return line_; }

private:
  std::string file_;
  unsigned line_ = 0;
};

// A launch asked for something that cannot be: arguments, grid, resources.
class LaunchError : public Error {
public:
  using Error::Error;
};

// The fault of who calls, not of the work: a file, an argument, an option or the description of a
// kernel cannot be used. run_kernel() and prepare_kernel() throw it as a LaunchError.
class InputError : public Error {
public:
  using Error::Error;
};

// A device failed or is not there: what was being done, and the driver's own words.
class DeviceError : public Error {
public:
  using Error::Error;
};

} // namespace sectile
