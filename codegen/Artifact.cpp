// Artifacts as bytes and back. Lengths are checked before anything is read: a file from a disk may
// hold anything.
#include "codegen/Artifact.h"
#include <cstring>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace sectile {
namespace {

constexpr char magic[8] = {'s', 'e', 'c', 't', 'i', 'l', 'e', 'a'};
constexpr uint32_t version = 1;
constexpr size_t headerSize = sizeof(magic) + sizeof(version) + sizeof(uint64_t);

class Writer {
public:
  explicit Writer(std::string &out) : out(out) {}
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

class Reader {
public:
  explicit Reader(std::string_view in) : in(in) {}
  template <class T> T number() {
    T value{};
    if (std::string_view bytes = take(sizeof value); !failed)
      std::memcpy(&value, bytes.data(), sizeof value);
    return value;
  }
  std::string text() { return std::string(take(number<uint64_t>())); }
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

} // namespace

std::string serialize(const Artifact &artifact) {
  std::string body;
  Writer fields(body);
  for (const std::string *text :
       {&artifact.target, &artifact.kind, &artifact.entry, &artifact.bytes})
    fields.text(*text);
  for (unsigned value : {artifact.threads, artifact.sharedBytes})
    fields.number(static_cast<uint32_t>(value));

  std::string bytes(magic, sizeof magic);
  Writer header(bytes);
  header.number(version);
  header.number(static_cast<uint64_t>(XXH3_64bits(body.data(), body.size())));
  return bytes + body;
}

std::optional<Artifact> deserialize(std::string_view bytes) {
  if (bytes.size() < headerSize || std::memcmp(bytes.data(), magic, sizeof magic) != 0)
    return std::nullopt;
  Reader header(bytes.substr(sizeof magic));
  std::string_view body = bytes.substr(headerSize);
  if (header.number<uint32_t>() != version ||
      header.number<uint64_t>() != XXH3_64bits(body.data(), body.size()))
    return std::nullopt;

  Artifact artifact;
  Reader fields(body);
  for (std::string *text : {&artifact.target, &artifact.kind, &artifact.entry, &artifact.bytes})
    *text = fields.text();
  for (unsigned *value : {&artifact.threads, &artifact.sharedBytes})
    *value = fields.number<uint32_t>();
  if (!fields.finished())
    return std::nullopt;
  return artifact;
}

} // namespace sectile
