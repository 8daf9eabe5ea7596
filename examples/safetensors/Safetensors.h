// Reads tensors by their names from a file of the safetensors format.
#pragma once
#include <cstdint>
#include <fstream>
#include <map>
#include <string>
#include <vector>

namespace safetensors {

class File {
public:
  // Reads the header. Here and below, throws std::runtime_error for a file that cannot be read or
  // is not what the format says.
  explicit File(const std::string &path);

  // The elements of a tensor of F32, F16 or BF16, row by row, which must have this shape.
  std::vector<float> read(const std::string &name, const std::vector<std::int64_t> &shape);

private:
  struct Place {
    std::string dtype;
    std::vector<std::int64_t> shape;
    std::uint64_t begin = 0, end = 0; // bytes of the file
  };

  std::string path_;
  std::ifstream file_;
  std::map<std::string, Place> places_;
};

} // namespace safetensors
