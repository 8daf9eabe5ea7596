// Numbers and texts as bytes and back, for what lies on disks. Lengths are checked before anything
// is read: a file may hold anything.
#ifndef SECTILE_RUNTIME_BYTESTREAM_H
#define SECTILE_RUNTIME_BYTESTREAM_H

#include <cstdint>
#include <string>
#include <string_view>

namespace sectile {

class ByteWriter {
public:
  explicit ByteWriter(std::string &out) : out(out) {}
  template <class T> void number(T value) {
    out.append(reinterpret_cast<const char *>(&value), sizeof value);
  }
  void text(std::string_view value) {
    number(static_cast<uint64_t>(value.size()));
    out.append(value);
  }

private:
  std::string &out;
};

/// After the first read beyond the end everything is zero and empty, and ok() is false.
class ByteReader {
public:
  explicit ByteReader(std::string_view in) : in(in) {}
  template <class T> T number() {
    T value{};
    if (std::string_view bytes = take(sizeof value); !failed)
      bytes.copy(reinterpret_cast<char *>(&value), sizeof value);
    return value;
  }
  std::string_view view() { return take(number<uint64_t>()); }
  std::string text() { return std::string(view()); }
  /// How many of something follow; no more than there are bytes.
  uint64_t count() {
    const auto value = number<uint64_t>();
    failed |= value > in.size();
    return failed ? 0 : value;
  }
  std::string_view rest() const { return in; }
  bool ok() const { return !failed; }
  bool finished() const { return !failed && in.empty(); }

private:
  std::string_view take(uint64_t size) {
    if (failed || size > in.size()) {
      failed = true;
      return {};
    }
    std::string_view taken = in.substr(0, size);
    in.remove_prefix(size);
    return taken;
  }

  std::string_view in;
  bool failed = false;
};

} // namespace sectile

#endif
