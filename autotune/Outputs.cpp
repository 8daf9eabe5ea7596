// Copies of outputs, and comparing them.
#include "autotune/Outputs.h"
#include "runtime/DeviceImpl.h"
#include <algorithm>
#include <cmath>
#include <cstring>

namespace sectile::autotune {
namespace {

constexpr uint64_t alignment = 256;

template <class T> double numberAt(const char *bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof value);
  if constexpr (std::is_floating_point_v<T> || std::is_integral_v<T>)
    return static_cast<double>(value);
  else
    return static_cast<double>(static_cast<float>(value));
}

using Read = double (*)(const char *);
Read reader(DType dtype) {
  switch (dtype) {
  case DType::float8_e4m3:
    return numberAt<float8_e4m3>;
  case DType::float8_e5m2:
    return numberAt<float8_e5m2>;
  case DType::float8_e4m3fnuz:
    return numberAt<float8_e4m3fnuz>;
  case DType::float8_e5m2fnuz:
    return numberAt<float8_e5m2fnuz>;
  case DType::float8_e4m3b11fnuz:
    return numberAt<float8_e4m3b11fnuz>;
  case DType::float16:
    return numberAt<half>;
  case DType::bfloat16:
    return numberAt<bfloat16>;
  case DType::float32:
    return numberAt<float>;
  case DType::float64:
    return numberAt<double>;
  default:
    return nullptr; // compared bit by bit
  }
}

std::string textOf(DType dtype, const char *bytes) {
  if (const Read read = reader(dtype)) {
    char text[32];
    std::snprintf(text, sizeof text, "%.6g", read(bytes));
    return text;
  }
  const size_t size = size_of(dtype);
  uint64_t bits = 0;
  std::memcpy(&bits, bytes, size);
  const bool isSigned = dtype >= DType::int8 && dtype <= DType::int64;
  if (isSigned) // the sign's bit to the top and back
    return std::to_string(static_cast<int64_t>(bits << (64 - 8 * size)) >> (64 - 8 * size));
  return std::to_string(bits);
}

double rootMeanSquare(const std::vector<char> &bytes, size_t size, Read read) {
  double sum = 0;
  size_t count = 0;
  for (size_t i = 0; i + size <= bytes.size(); i += size)
    if (const double value = read(bytes.data() + i); std::isfinite(value)) {
      sum += value * value;
      ++count;
    }
  return count ? std::sqrt(sum / static_cast<double>(count)) : 0;
}

} // namespace

double toleranceOf(DType dtype) {
  switch (dtype) {
  case DType::float8_e5m2:
  case DType::float8_e5m2fnuz:
    return 0.25;
  case DType::float8_e4m3:
  case DType::float8_e4m3fnuz:
  case DType::float8_e4m3b11fnuz:
    return 0.125;
  case DType::bfloat16:
    return 2e-2;
  case DType::float16:
    return 5e-3;
  case DType::float32:
    return 2e-3;
  case DType::float64:
    return 1e-9;
  default:
    return 0;
  }
}

std::vector<OutputMemory> outputsOf(const detail::BoundLaunch &launch,
                                    const AutotuneOptions &options) {
  const std::span<const detail::ArgSpec> specs = launch.kernel->arguments();
  const std::string kernel(launch.kernel->name());
  std::vector<size_t> positions;
  if (options.outputs)
    positions = *options.outputs;
  else
    for (size_t i = 0; i < specs.size(); ++i)
      if (!specs[i].readonly)
        positions.push_back(i);
  std::vector<size_t> firstWords;
  size_t word = 0;
  for (const detail::ArgSpec &spec : specs) {
    firstWords.push_back(word);
    word += static_cast<size_t>(detail::flattenedCount(spec));
  }
  std::vector<OutputMemory> result;
  for (size_t i : positions) {
    if (i >= specs.size() ||
        (specs[i].kind != detail::ArgKind::pointer && specs[i].kind != detail::ArgKind::view))
      throw LaunchError("kernel '" + kernel + "': argument " + std::to_string(i) +
                        " is named as an output, but is no Ptr or View");
    const detail::Owner &owner = launch.owners[i];
    if (launch.words[firstWords[i]] == 0) // of nothing
      continue;
    if (!owner.device)
      throw LaunchError("kernel '" + kernel + "': argument " + std::to_string(i) +
                        " is written, and its size is not known, so it cannot be tuned on a copy: "
                        "pass a Buffer or a Tensor of one, or name the arguments that are written "
                        "in AutotuneOptions::outputs");
    result.push_back({i, specs[i].dtype, owner.address, owner.bytes});
  }
  return result;
}

OutputCopies::OutputCopies(const Device &device, std::vector<OutputMemory> outputs)
    : device(device), list(std::move(outputs)) {
  std::vector<std::pair<uint64_t, uint64_t>> ranges;
  for (const OutputMemory &output : list)
    ranges.emplace_back(output.address, output.address + output.bytes);
  std::sort(ranges.begin(), ranges.end());
  for (const auto &[begin, end] : ranges)
    if (!regions.empty() && begin < regions.back().end)
      regions.back().end = std::max(regions.back().end, end);
    else
      regions.push_back({begin, end, {}, 0});
  for (Region &region : regions) {
    const uint64_t shift = region.begin % alignment;
    region.memory = detail::Memory(device, region.end - region.begin + (shift ? alignment : 0));
    const uint64_t base = region.memory.address();
    region.copy = base + (shift + alignment - base % alignment) % alignment;
  }
}

const OutputCopies::Region *OutputCopies::find(uint64_t address) const {
  for (const Region &region : regions)
    if (address >= region.begin && address < region.end)
      return &region;
  return nullptr;
}

detail::BoundLaunch OutputCopies::redirected(detail::BoundLaunch launch) const {
  size_t word = 0;
  for (const detail::ArgSpec &spec : launch.kernel->arguments()) {
    if (spec.kind == detail::ArgKind::pointer || spec.kind == detail::ArgKind::view)
      if (const Region *region = find(launch.words[word]))
        launch.words[word] += region->copy - region->begin;
    word += static_cast<size_t>(detail::flattenedCount(spec));
  }
  return launch;
}

void OutputCopies::restore(const Stream &stream) const {
  for (const Region &region : regions)
    device.impl()->copyOnDevice(region.copy, region.begin, region.end - region.begin,
                                stream.native());
}

OutputBytes OutputCopies::download() const {
  OutputBytes bytes;
  for (const OutputMemory &output : list) {
    const Region &region = *find(output.address);
    device.impl()->copyToHost(bytes.emplace_back(output.bytes).data(),
                              output.address - region.begin + region.copy, output.bytes);
  }
  return bytes;
}

std::optional<std::string> compareOutputs(const std::vector<OutputMemory> &outputs,
                                          const OutputBytes &expected, const OutputBytes &actual,
                                          std::optional<double> tolerance) {
  for (size_t i = 0; i < outputs.size(); ++i) {
    const DType dtype = outputs[i].dtype;
    const size_t size = size_of(dtype);
    const Read read = reader(dtype);
    const double allowed = tolerance.value_or(toleranceOf(dtype));
    double typical = -1; // worked out when the first difference is met
    auto differs = [&](const char *a, const char *b) {
      if (std::memcmp(a, b, size) == 0)
        return false;
      if (!read)
        return true;
      if (typical < 0)
        typical = rootMeanSquare(expected[i], size, read);
      const double wanted = read(a), got = read(b);
      if (std::isnan(wanted) || std::isnan(got))
        return std::isnan(wanted) != std::isnan(got);
      if (wanted == got)
        return false;
      return !(std::abs(wanted - got) <= allowed * std::max(std::abs(wanted), typical));
    };
    const size_t count = expected[i].size() / size;
    size_t wrong = 0, first = 0;
    for (size_t element = 0; element < count; ++element)
      if (differs(expected[i].data() + element * size, actual[i].data() + element * size) &&
          wrong++ == 0)
        first = element;
    if (wrong)
      return "argument " + std::to_string(outputs[i].argument) + ": " + std::to_string(wrong) +
             " of " + std::to_string(count) +
             " elements differ from the reference "
             "configuration's; element " +
             std::to_string(first) + " is " + textOf(dtype, actual[i].data() + first * size) +
             " instead of " + textOf(dtype, expected[i].data() + first * size);
  }
  return std::nullopt;
}

} // namespace sectile::autotune
