// Text of printed values and of failed assertions.
#include "runtime/DebugFormat.h"
#include "runtime/DebugLog.h"
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <sectile/types.h>

namespace sectile {

namespace {

std::string programText(const std::array<unsigned, 3> &program) {
  return "(" + std::to_string(program[0]) + ", " + std::to_string(program[1]) + ", " +
         std::to_string(program[2]) + ")";
}

std::string listText(const std::vector<int64_t> &numbers) {
  std::string text = "[";
  for (int64_t number : numbers)
    text += (text.size() > 1 ? ", " : "") + std::to_string(number);
  return text + "]";
}

int64_t countOf(const std::vector<int64_t> &shape) {
  int64_t count = 1;
  for (int64_t extent : shape)
    count *= extent;
  return count;
}

std::vector<int64_t> placeOf(uint64_t number, const std::vector<int64_t> &shape) {
  std::vector<int64_t> place(shape.size());
  for (size_t axis = shape.size(); axis-- > 0;) {
    const auto extent = static_cast<uint64_t>(shape[axis]);
    place[axis] = static_cast<int64_t>(number % extent);
    number /= extent;
  }
  return place;
}

std::string messageOf(const AssertionError::Failure &failure, size_t others) {
  std::string text;
  if (!failure.file.empty())
    text = failure.file + ":" + std::to_string(failure.line) + ": ";
  text += "assertion failed in kernel '" + failure.kernel + "', program " +
          programText(failure.program) + ": " + failure.message;
  if (!failure.index.empty())
    text += "; the first element that does not hold is " + listText(failure.index);
  if (others)
    text += " (" + std::to_string(others) +
            (others == 1 ? " more program failed)" : " more programs failed)");
  return text;
}

struct Handler {
  std::mutex mutex;
  PrintHandler handler;

  static Handler &get() {
    static auto *handler = new Handler;
    return *handler;
  }
};

//===-- Elements ------------------------------------------------------------------------------===//

template <class T> std::string number(const void *from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  if constexpr (std::is_integral_v<T>) {
    return std::to_string(value);
  } else {
    using Float = std::conditional_t<std::same_as<T, double>, double, float>;
    const auto wide = static_cast<Float>(value);
    if (std::isnan(wide))
      return "nan";
    char text[32];
    return {text, std::to_chars(text, text + sizeof text, wide).ptr};
  }
}

std::string hexadecimal(const void *from, size_t bytes) {
  uint64_t bits = 0;
  std::memcpy(&bits, from, bytes);
  char text[24];
  std::snprintf(text, sizeof text, "0x%0*llx", static_cast<int>(2 * bytes),
                static_cast<unsigned long long>(bits));
  return text;
}

/// A type's name, its size and how a number of it is written.
struct ElementType {
  std::string_view name;
  size_t bytes;
  std::string (*text)(const void *from);
};

template <class T> constexpr ElementType elementType() {
  return {name_of(dtype_of<T>), sizeof(T), number<T>};
}

const ElementType &typeNamed(const std::string &name) {
  static constexpr ElementType types[] = {
      {"bool", 1,
       [](const void *from) -> std::string {
         return *static_cast<const unsigned char *>(from) ? "true" : "false";
       }},
      {"ptr", 8, [](const void *from) { return hexadecimal(from, 8); }},
      elementType<int8_t>(),
      elementType<int16_t>(),
      elementType<int32_t>(),
      elementType<int64_t>(),
      elementType<uint8_t>(),
      elementType<uint16_t>(),
      elementType<uint32_t>(),
      elementType<uint64_t>(),
      elementType<float8_e4m3>(),
      elementType<float8_e5m2>(),
      elementType<half>(),
      elementType<bfloat16>(),
      elementType<float>(),
      elementType<double>(),
  };
  for (const ElementType &type : types)
    if (type.name == name)
      return type;
  throw DeviceError("a value of type " + name + " cannot be printed");
}

std::vector<std::string> elementTexts(const DebugValue &value, bool hex, const char *from) {
  const ElementType &type = typeNamed(value.type);
  std::vector<std::string> texts;
  for (int64_t i = 0, count = countOf(value.shape); i < count; ++i, from += type.bytes)
    texts.push_back(hex ? hexadecimal(from, type.bytes) : type.text(from));
  return texts;
}

/// A tile's elements, lines of up to 16 of one row, each with the index of its first.
std::string rowsOf(const DebugValue &value, const std::vector<std::string> &texts) {
  constexpr size_t perLine = 16;
  const auto row = static_cast<size_t>(value.shape.back());
  size_t width = 0;
  for (const std::string &text : texts)
    width = std::max(width, text.size());
  const size_t indexWidth = listText(placeOf(texts.size() - 1, value.shape)).size();
  std::string lines;
  for (size_t i = 0; i < texts.size();) {
    std::string index = listText(placeOf(i, value.shape));
    lines += "  " + index + std::string(indexWidth - std::min(indexWidth, index.size()), ' ') + " ";
    const size_t end = std::min(i + perLine, (i / row + 1) * row);
    for (; i < end; ++i)
      lines += " " + std::string(width - texts[i].size(), ' ') + texts[i];
    lines += "\n";
  }
  return lines;
}

} // namespace

AssertionError::AssertionError(Failure failure, size_t others)
    : DeviceError(messageOf(failure, others)), failure_(std::move(failure)), others_(others) {}

PrintHandler set_print_handler(PrintHandler handler) {
  Handler &current = Handler::get();
  std::lock_guard lock(current.mutex);
  return std::exchange(current.handler, std::move(handler));
}

namespace runtime {

size_t elementBytes(const DebugValue &value) { return typeNamed(value.type).bytes; }

size_t valueStart(const DebugSite &site, size_t value) {
  size_t start = 0;
  for (size_t i = 0; i < value; ++i)
    start += debuglog::aligned(static_cast<size_t>(countOf(site.values[i].shape)) *
                               elementBytes(site.values[i]));
  return start;
}

std::string formatPrint(std::string_view kernel, const ProgramId &program, const DebugSite &site,
                        const void *values) {
  std::string text = std::string(kernel) + " " + programText(program) + ": " + site.text;
  if (!site.values.empty() && !text.ends_with(' '))
    text += " ";
  const bool numbersOnly =
      std::ranges::all_of(site.values, [](const DebugValue &value) { return value.shape.empty(); });
  const bool several = site.values.size() > 1;
  std::string rows;
  for (size_t i = 0; i < site.values.size(); ++i) {
    const DebugValue &value = site.values[i];
    const std::vector<std::string> texts =
        elementTexts(value, site.hex, static_cast<const char *>(values) + valueStart(site, i));
    if (numbersOnly) {
      text += (i ? ", " : "") + texts.front();
      continue;
    }
    std::string type = value.type + (value.shape.empty() ? "" : listText(value.shape));
    if (several)
      type = (rows.empty() ? "\n #" : " #") + std::to_string(i) + " " + type;
    rows += type + (value.shape.empty() ? " " + texts.front() + "\n" : "\n" + rowsOf(value, texts));
  }
  return numbersOnly ? text + "\n" : text + rows;
}

std::string formatValue(const DebugValue &value, const void *elements) {
  const std::vector<std::string> texts =
      elementTexts(value, false, static_cast<const char *>(elements));
  if (value.shape.empty())
    return value.type + " " + texts.front() + "\n";
  return value.type + listText(value.shape) + "\n" + rowsOf(value, texts);
}

void deliverPrint(std::string_view text) {
  if (text.empty())
    return;
  PrintHandler handler;
  {
    std::lock_guard lock(Handler::get().mutex);
    handler = Handler::get().handler;
  }
  if (handler)
    return handler(text);
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

AssertionError::Failure failureAt(std::string_view kernel, const ProgramId &program,
                                  const DebugSite &site, uint64_t index) {
  AssertionError::Failure failure;
  failure.kernel = kernel;
  failure.message = site.text;
  failure.file = site.file;
  failure.line = site.line;
  failure.program = program;
  failure.index = placeOf(index, site.values.front().shape);
  return failure;
}

} // namespace runtime
} // namespace sectile
