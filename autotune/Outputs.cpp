// Copies of outputs, and comparing them.
#include "autotune/Outputs.h"
#include "runtime/DeviceImpl.h"
#include <algorithm>
#include <cmath>
#include <cstring>

namespace sectile::autotune {
namespace {

constexpr uint64_t alignment = 256;

// Calls f(T{}) with the C++ type of a floating-point dtype; others are compared by their bits.
template <class F> bool withFloat(DType dtype, F &&f) {
  auto one = [&]<class T>(T zero) { return dtype == dtype_of<T> && (f(zero), true); };
  return one(float8_e4m3(0.0f)) || one(float8_e5m2(0.0f)) || one(float8_e4m3fnuz(0.0f)) ||
         one(float8_e5m2fnuz(0.0f)) || one(float8_e4m3b11fnuz(0.0f)) || one(half(0.0f)) ||
         one(bfloat16(0.0f)) || one(0.0f) || one(0.0);
}

template <class T> double numberAt(const char *bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof value);
  if constexpr (std::is_same_v<T, double>)
    return value;
  else
    return static_cast<float>(value);
}

std::string textOf(DType dtype, const char *bytes) {
  char text[32];
  if (withFloat(dtype, [&]<class T>(T) {
        const double number = numberAt<T>(bytes);
        std::snprintf(text, sizeof text, "%.6g", std::isnan(number) ? std::abs(number) : number);
      }))
    return text;
  const size_t size = size_of(dtype);
  uint64_t bits = 0;
  std::memcpy(&bits, bytes, size);
  if (dtype >= DType::int8 && dtype <= DType::int64) // the sign's bit to the top and back
    return std::to_string(static_cast<int64_t>(bits << (64 - 8 * size)) >> (64 - 8 * size));
  return std::to_string(bits);
}

double rootMeanSquare(DType dtype, const std::vector<char> &bytes) {
  double sum = 0;
  size_t count = 0;
  withFloat(dtype, [&]<class T>(T) {
    for (size_t i = 0; i + sizeof(T) <= bytes.size(); i += sizeof(T))
      if (const double value = numberAt<T>(bytes.data() + i); std::isfinite(value)) {
        sum += value * value;
        ++count;
      }
  });
  return count ? std::sqrt(sum / static_cast<double>(count)) : 0;
}

struct Difference {
  size_t wrong = 0, first = 0; ///< elements: how many, and the first of them
  void add(size_t element) {
    if (wrong++ == 0)
      first = element;
  }
};

template <class T>
Difference differences(const std::vector<char> &expected, const std::vector<char> &actual,
                       double allowed, double typical) {
  Difference result;
  for (size_t i = 0, count = expected.size() / sizeof(T); i < count; ++i) {
    const char *a = expected.data() + i * sizeof(T), *b = actual.data() + i * sizeof(T);
    if (std::memcmp(a, b, sizeof(T)) == 0)
      continue;
    const double wanted = numberAt<T>(a), got = numberAt<T>(b);
    bool right = wanted == got || (std::isnan(wanted) && std::isnan(got));
    if (std::isfinite(wanted) && std::isfinite(got))
      right |= std::abs(wanted - got) <= allowed * std::max(std::abs(wanted), typical);
    if (!right)
      result.add(i);
  }
  return result;
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
  case DType::float32: // whose operands one matrix instruction cuts to tf32, and another rounds
    return 5e-3;
  case DType::float64:
    return 1e-9;
  default:
    return 0;
  }
}

std::vector<OutputMemory> outputsOf(const detail::BoundLaunch &launch, const Device &device,
                                    const AutotuneOptions &options) {
  const std::span<const detail::ArgSpec> specs = launch.kernel->arguments();
  const std::string kernel(launch.kernel->name());
  for (size_t i = 0; i < specs.size(); ++i) // before anything is copied
    if (const auto *other = launch.owners[i].device; other && other != device.impl().get())
      throw LaunchError("kernel '" + kernel + "': argument " + std::to_string(i) + " lies on " +
                        other->name + ", the stream is one of " + device.name());
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
    OutputMemory output{i, specs[i].dtype, owner.address, owner.bytes};
    for (size_t j = 0; j < specs.size(); ++j)
      if (j != i &&
          (specs[j].kind == detail::ArgKind::pointer || specs[j].kind == detail::ArgKind::view))
        output.alone &= launch.words[firstWords[j]] - owner.address >= owner.bytes;
    result.push_back(output);
  }
  return result;
}

OutputBytes spoiled(const std::vector<OutputMemory> &outputs, const OutputBytes &before) {
  OutputBytes bytes = before;
  for (size_t i = 0; i < outputs.size(); ++i)
    if (outputs[i].alone)
      bytes[i].assign(bytes[i].size(), is_floating(outputs[i].dtype) ? char(0xff) : char(0));
  return bytes;
}

OutputBytes spoiledWhereWritten(const OutputBytes &before, const OutputBytes &after,
                                const OutputBytes &spoil, const OutputBytes &afterSpoil,
                                const std::vector<OutputMemory> &outputs) {
  OutputBytes bytes = before;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const size_t size = size_of(outputs[i].dtype);
    for (size_t at = 0; at + size <= bytes[i].size(); at += size) {
      auto same = [&](const OutputBytes &a, const OutputBytes &b) {
        return std::memcmp(a[i].data() + at, b[i].data() + at, size) == 0;
      };
      if (same(after, afterSpoil) && !same(afterSpoil, spoil))
        std::memcpy(bytes[i].data() + at, spoil[i].data() + at, size);
    }
  }
  return bytes;
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

std::vector<size_t> addressWords(std::span<const detail::ArgSpec> specs) {
  std::vector<size_t> places;
  size_t word = 0;
  for (const detail::ArgSpec &spec : specs) {
    if (spec.kind == detail::ArgKind::pointer || spec.kind == detail::ArgKind::view)
      places.push_back(word);
    word += static_cast<size_t>(detail::flattenedCount(spec));
  }
  return places;
}

uint64_t OutputCopies::redirected(uint64_t address) const {
  const Region *region = find(address);
  return region ? address - region->begin + region->copy : address;
}

detail::BoundLaunch OutputCopies::redirected(detail::BoundLaunch launch) const {
  for (const size_t place : addressWords(launch.kernel->arguments()))
    launch.words[place] = redirected(launch.words[place]);
  return launch;
}

void OutputCopies::restore(const Stream &stream) const {
  for (const Region &region : regions)
    device.impl()->copyOnDevice(region.copy, region.begin, region.end - region.begin,
                                stream.native());
}

void OutputCopies::upload(const OutputBytes &bytes) const {
  device.synchronize(); // a stream that was wrapped may keep no order with such copies
  for (size_t i = 0; i < list.size(); ++i) {
    const Region &region = *find(list[i].address);
    device.impl()->copyToDevice(list[i].address - region.begin + region.copy, bytes[i].data(),
                                list[i].bytes);
  }
  device.synchronize();
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

ExpectedOutputs::ExpectedOutputs(std::vector<OutputMemory> memory, OutputBytes bytes)
    : outputs(std::move(memory)), expected(std::move(bytes)) {
  for (size_t i = 0; i < outputs.size(); ++i)
    typical.push_back(rootMeanSquare(outputs[i].dtype, expected[i]));
}

std::optional<std::string> ExpectedOutputs::compare(const OutputBytes &actual,
                                                    std::optional<double> tolerance) const {
  for (size_t i = 0; i < outputs.size(); ++i) {
    const std::vector<char> &wanted = expected[i], &got = actual[i];
    if (wanted == got)
      continue;
    const DType dtype = outputs[i].dtype;
    const size_t size = size_of(dtype), count = wanted.size() / size;
    const double allowed = tolerance.value_or(toleranceOf(dtype));
    Difference difference;
    if (!withFloat(dtype, [&]<class T>(T) {
          difference = differences<T>(wanted, got, allowed, typical[i]);
        }))
      for (size_t element = 0; element < count; ++element)
        if (std::memcmp(wanted.data() + element * size, got.data() + element * size, size) != 0)
          difference.add(element);
    if (difference.wrong)
      return "argument " + std::to_string(outputs[i].argument) + ": " +
             std::to_string(difference.wrong) + " of " + std::to_string(count) +
             " elements differ from the reference configuration's; element " +
             std::to_string(difference.first) + " is " +
             textOf(dtype, got.data() + difference.first * size) + " instead of " +
             textOf(dtype, wanted.data() + difference.first * size);
  }
  return std::nullopt;
}

} // namespace sectile::autotune
