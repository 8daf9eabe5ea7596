// The safetensors format: eight bytes with the length of a JSON header (little-endian), the header,
// the elements of all tensors. The header gives each tensor's dtype, shape and place.
#include "Safetensors.h"
#include <array>
#include <bit>
#include <cstring>
#include <nlohmann/json.hpp>
#include <sectile/types.h>
#include <stdexcept>

namespace safetensors {
namespace {

static_assert(std::endian::native == std::endian::little, "the file's elements are little-endian");

std::string shapeText(const std::vector<std::int64_t> &shape) {
  std::string text = "[";
  for (const std::int64_t extent : shape)
    text += (text.size() > 1 ? ", " : "") + std::to_string(extent);
  return text + "]";
}

template <class T> std::vector<float> toFloats(const std::vector<char> &bytes) {
  std::vector<float> values(bytes.size() / sizeof(T));
  for (std::size_t i = 0; i < values.size(); ++i) {
    T value;
    std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
    values[i] = static_cast<float>(value);
  }
  return values;
}

} // namespace

File::File(const std::string &path) : path_(path), file_(path, std::ios::binary) {
  if (!file_)
    throw std::runtime_error(path + " cannot be opened");
  file_.seekg(0, std::ios::end);
  const auto size = static_cast<std::uint64_t>(file_.tellg());
  file_.seekg(0);
  std::array<char, 8> prefix;
  std::uint64_t length = 0;
  if (!file_.read(prefix.data(), prefix.size()))
    throw std::runtime_error(path + " is no safetensors file: it has fewer than 8 bytes");
  std::memcpy(&length, prefix.data(), prefix.size());
  if (length > size - prefix.size())
    throw std::runtime_error(path + " is no safetensors file, or is truncated: its header has " +
                             std::to_string(length) + " bytes, the file " + std::to_string(size));
  std::string header(length, '\0');
  file_.read(header.data(), static_cast<std::streamsize>(length));
  const std::uint64_t data = prefix.size() + length;
  try {
    const auto json = nlohmann::json::parse(header);
    for (const auto &[name, entry] : json.items()) {
      if (name == "__metadata__")
        continue;
      Place place{entry.at("dtype"), entry.at("shape"), entry.at("data_offsets").at(0),
                  entry.at("data_offsets").at(1)};
      if (place.begin > place.end)
        throw std::runtime_error(path + " has no valid header: tensor '" + name +
                                 "' ends before it begins");
      if (place.end > size - data)
        throw std::runtime_error(path + " is truncated: tensor '" + name + "' ends after " +
                                 std::to_string(place.end) + " bytes of data, of which there are " +
                                 std::to_string(size - data));
      place.begin += data, place.end += data;
      places_[name] = place;
    }
  } catch (const nlohmann::json::exception &error) {
    throw std::runtime_error(path + " has no valid header: " + error.what());
  }
}

std::vector<float> File::read(const std::string &name, const std::vector<std::int64_t> &shape) {
  const auto found = places_.find(name);
  if (found == places_.end())
    throw std::runtime_error(path_ + " has no tensor '" + name + "'");
  const Place &place = found->second;
  if (place.shape != shape)
    throw std::runtime_error(path_ + ": tensor '" + name + "' is " + shapeText(place.shape) +
                             ", but config.json asks for " + shapeText(shape));
  std::uint64_t bytes = place.dtype == "F32" ? 4 : 2;
  for (const std::int64_t extent : shape)
    bytes *= static_cast<std::uint64_t>(extent);
  if (place.end - place.begin != bytes)
    throw std::runtime_error(path_ + ": tensor '" + name + "' has " +
                             std::to_string(place.end - place.begin) + " bytes; " + place.dtype +
                             " " + shapeText(shape) + " takes " + std::to_string(bytes));
  std::vector<char> data(bytes);
  file_.seekg(static_cast<std::streamoff>(place.begin));
  if (!file_.read(data.data(), static_cast<std::streamsize>(bytes)))
    throw std::runtime_error(path_ + ": tensor '" + name + "' cannot be read");
  if (place.dtype == "F32")
    return toFloats<float>(data);
  if (place.dtype == "F16")
    return toFloats<sectile::half>(data);
  if (place.dtype == "BF16")
    return toFloats<sectile::bfloat16>(data);
  throw std::runtime_error(path_ + ": tensor '" + name + "' is " + place.dtype +
                           "; this program reads F32, F16 and BF16");
}

} // namespace safetensors
