// Reading and writing of .npy files: a magic word, a Python dictionary, the bytes.
#include "tools/npy/Npy.h"
#include "tools/File.h"
#include <algorithm>
#include <cctype>
#include <cstring>
#include <limits>
#include <optional>
#include <sectile/error.h>

namespace sectile {
namespace {

constexpr std::string_view magic = "\x93NUMPY";
constexpr std::size_t longestHeader = 1 << 20; // NumPy's own are below 200 bytes

struct Header {
  std::string descr;
  bool fortranOrder = false;
  Shape shape;
};

// Reads the dictionary NumPy writes: {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }
class HeaderParser {
public:
  HeaderParser(std::string_view text, const std::string &path) : rest(text), path(path) {}

  Header parse() {
    bool haveDescr = false, haveOrder = false, haveShape = false;
    expect('{');
    while (!accept('}')) {
      std::string key = string();
      expect(':');
      if (key == "descr") {
        if (peek() == '[')
          throw InputError("'" + path + "' holds records (a structured dtype), not plain numbers");
        header.descr = string();
        haveDescr = true;
      } else if (key == "fortran_order") {
        header.fortranOrder = boolean();
        haveOrder = true;
      } else if (key == "shape") {
        header.shape = tuple();
        haveShape = true;
      } else {
        damaged("it has an unknown entry '" + key + "'");
      }
      if (!accept(',') && peek() != '}')
        damaged("',' is missing");
    }
    if (!haveDescr || !haveOrder || !haveShape)
      damaged("it lacks 'descr', 'fortran_order' or 'shape'");
    if (peek() != '\0')
      damaged("something follows the dictionary");
    return header;
  }

private:
  [[noreturn]] void damaged(const std::string &how) {
    throw InputError("'" + path + "' has a damaged .npy header: " + how);
  }
  char peek() {
    while (!rest.empty() && std::isspace(static_cast<unsigned char>(rest.front())))
      rest.remove_prefix(1);
    return rest.empty() ? '\0' : rest.front();
  }
  bool accept(char wanted) {
    if (peek() != wanted)
      return false;
    rest.remove_prefix(1);
    return true;
  }
  void expect(char wanted) {
    if (!accept(wanted))
      damaged(std::string("'") + wanted + "' is missing");
  }
  bool acceptWord(std::string_view word) {
    peek();
    if (!rest.starts_with(word))
      return false;
    rest.remove_prefix(word.size());
    return true;
  }
  std::string string() {
    char quote = peek();
    if (quote != '\'' && quote != '"')
      damaged("a string is missing");
    std::size_t end = rest.find(quote, 1);
    if (end == std::string_view::npos)
      damaged("a string does not end");
    std::string text(rest.substr(1, end - 1));
    rest.remove_prefix(end + 1);
    return text;
  }
  bool boolean() {
    if (acceptWord("True"))
      return true;
    if (acceptWord("False"))
      return false;
    damaged("'fortran_order' is neither True nor False");
  }
  std::int64_t integer() {
    if (!std::isdigit(static_cast<unsigned char>(peek())))
      damaged("'shape' is not a tuple of sizes");
    std::int64_t value = 0;
    while (!rest.empty() && std::isdigit(static_cast<unsigned char>(rest.front()))) {
      if (value > (std::numeric_limits<std::int64_t>::max() - 9) / 10)
        damaged("an extent of 'shape' is too large");
      value = value * 10 + (rest.front() - '0');
      rest.remove_prefix(1);
    }
    accept('L'); // written by Python 2
    return value;
  }
  Shape tuple() {
    Shape shape;
    expect('(');
    while (!accept(')')) {
      shape.push_back(integer());
      if (!accept(',') && peek() != ')')
        damaged("',' is missing in 'shape'");
      if (shape.size() > 64)
        damaged("'shape' has more than 64 extents");
    }
    return shape;
  }

  std::string_view rest;
  const std::string &path;
  Header header;
};

std::optional<DType> dtypeOf(std::string_view kind) {
  static constexpr struct {
    std::string_view name;
    DType dtype;
  } table[] = {
      {"b1", DType::boolean}, {"i1", DType::int8},    {"i2", DType::int16},
      {"i4", DType::int32},   {"i8", DType::int64},   {"u1", DType::uint8},
      {"u2", DType::uint16},  {"u4", DType::uint32},  {"u8", DType::uint64},
      {"f2", DType::float16}, {"f4", DType::float32}, {"f8", DType::float64},
      {"V1", DType::uint8},   {"V2", DType::uint16},  {"f1", DType::uint8},
  };
  for (const auto &entry : table)
    if (entry.name == kind)
      return entry.dtype;
  return std::nullopt;
}

std::string_view kindOf(DType dtype) {
  switch (dtype) {
  case DType::boolean:
    return "|b1";
  case DType::int8:
    return "|i1";
  case DType::int16:
    return "<i2";
  case DType::int32:
    return "<i4";
  case DType::int64:
    return "<i8";
  case DType::uint8:
  case DType::float8_e4m3:
  case DType::float8_e5m2:
  case DType::float8_e4m3fnuz:
  case DType::float8_e5m2fnuz:
  case DType::float8_e4m3b11fnuz:
    return "|u1";
  case DType::uint16:
  case DType::bfloat16:
    return "<u2";
  case DType::uint32:
    return "<u4";
  case DType::uint64:
    return "<u8";
  case DType::float16:
    return "<f2";
  case DType::float32:
    return "<f4";
  case DType::float64:
    break;
  }
  return "<f8";
}

// The bytes of a Fortran-ordered array, in C order.
std::vector<std::byte> toCOrder(std::string_view bytes, const Shape &shape, std::size_t size) {
  std::vector<std::byte> result(bytes.size());
  std::vector<std::size_t> stride(shape.size(), 1);
  for (std::size_t d = 1; d < shape.size(); ++d)
    stride[d] = stride[d - 1] * static_cast<std::size_t>(shape[d - 1]);
  Shape index(shape.size(), 0);
  std::size_t source = 0;
  for (std::size_t target = 0; target < bytes.size(); target += size) {
    std::memcpy(result.data() + target, bytes.data() + source * size, size);
    for (std::size_t d = shape.size(); d-- > 0;) {
      source += stride[d];
      if (++index[d] < shape[d])
        break;
      source -= stride[d] * static_cast<std::size_t>(shape[d]);
      index[d] = 0;
    }
  }
  return result;
}

} // namespace

HostArray parseNpy(std::string_view contents, const std::string &path) {
  if (!contents.starts_with(magic))
    throw InputError("'" + path +
                     "' is not a .npy file: it does not start with NumPy's magic word");
  auto byte = [&](std::size_t i) {
    return static_cast<std::size_t>(static_cast<unsigned char>(contents[i]));
  };
  if (contents.size() < 10)
    throw InputError("'" + path + "' is cut off within its .npy header");
  std::size_t version = byte(6), start = version == 1 ? 10 : 12;
  if (version < 1 || version > 3)
    throw InputError("'" + path + "' has .npy format version " + std::to_string(version) +
                     "; 1, 2 and 3 are known");
  if (contents.size() < start)
    throw InputError("'" + path + "' is cut off within its .npy header");
  std::size_t length = byte(8) | byte(9) << 8;
  if (version > 1)
    length |= byte(10) << 16 | byte(11) << 24;
  if (length > longestHeader)
    throw InputError("'" + path + "' has a .npy header of " + std::to_string(length) +
                     " bytes; no sound file has more than " + std::to_string(longestHeader));
  if (contents.size() - start < length)
    throw InputError("'" + path + "' is cut off within its .npy header");

  Header header = HeaderParser(contents.substr(start, length), path).parse();
  std::string_view bytes = contents.substr(start + length);
  std::string_view kind = header.descr;
  bool bigEndian = kind.starts_with('>');
  if (!kind.empty() && std::string_view("<>|=").find(kind.front()) != std::string_view::npos)
    kind.remove_prefix(1);
  if (kind.starts_with('O'))
    throw InputError("'" + path + "' holds Python objects, not numbers");
  std::optional<DType> dtype = dtypeOf(kind);
  if (!dtype)
    throw InputError("'" + path + "' has dtype '" + header.descr +
                     "'; bool, integers and floats of 16, 32 and 64 bits can be read");

  std::size_t size = size_of(*dtype), total = size;
  bool empty = std::find(header.shape.begin(), header.shape.end(), 0) != header.shape.end();
  bool fits = true;
  for (std::int64_t extent : header.shape) {
    auto factor = empty ? 0 : static_cast<std::size_t>(extent);
    fits = fits && (factor == 0 || total <= bytes.size() / factor);
    total *= fits ? factor : 1;
  }
  if (!fits || bytes.size() < total)
    throw InputError("'" + path + "' is cut off: " + toString(header.shape) + " of " +
                     std::string(name_of(*dtype)) + " needs more than the " +
                     std::to_string(bytes.size()) + " bytes of data it has");
  if (bytes.size() != total)
    throw InputError("'" + path + "' is damaged: " + std::to_string(bytes.size() - total) +
                     " bytes follow the data of " + toString(header.shape) + " " +
                     std::string(name_of(*dtype)));

  HostArray array;
  array.dtype = *dtype;
  array.shape = header.shape;
  if (header.fortranOrder && header.shape.size() > 1) {
    array.data = toCOrder(bytes, header.shape, size);
  } else {
    array.data.resize(total);
    if (total)
      std::memcpy(array.data.data(), bytes.data(), total);
  }
  if (bigEndian)
    for (std::size_t i = 0; i < total; i += size)
      std::reverse(array.data.begin() + static_cast<std::ptrdiff_t>(i),
                   array.data.begin() + static_cast<std::ptrdiff_t>(i + size));
  if (*dtype == DType::boolean) // any other byte than 0 and 1 would be no bool for C++
    for (std::byte &value : array.data)
      value = std::byte{value != std::byte{0}};
  return array;
}

HostArray readNpy(const std::string &path) { return parseNpy(readFile(path), path); }

void writeNpy(const std::string &path, const HostArray &array) {
  std::string shape = "(";
  for (std::int64_t extent : array.shape)
    shape += std::to_string(extent) + ", ";
  if (array.shape.size() == 1)
    shape.pop_back();
  else if (array.shape.size() > 1)
    shape.resize(shape.size() - 2);
  std::string header = "{'descr': '" + std::string(kindOf(array.dtype)) +
                       "', 'fortran_order': False, 'shape': " + shape + "), }";
  // The data begins at a multiple of 64, the header ends with a line feed.
  std::size_t before = magic.size() + 4;
  header.append(63 - (before + header.size()) % 64, ' ');
  header += '\n';
  std::string start(magic);
  start += {'\x01', '\x00', static_cast<char>(header.size() & 0xff),
            static_cast<char>(header.size() >> 8)};
  writeFile(path, {start, header,
                   std::string_view(reinterpret_cast<const char *>(array.data.data()),
                                    array.data.size())});
}

void reinterpret(HostArray &array, DType dtype, const std::string &path) {
  if (array.dtype == dtype)
    return;
  DType raw = size_of(dtype) == 2 ? DType::uint16 : DType::uint8;
  bool named = is_floating(dtype) && size_of(dtype) <= 2;
  if (!named || array.dtype != raw)
    throw InputError("'" + path + "' holds " + std::string(name_of(array.dtype)) +
                     ", which cannot be taken as " + std::string(name_of(dtype)) +
                     ": bf16 and f16 are stored as u16, fp8 as u8");
  array.dtype = dtype;
}

} // namespace sectile
