// Artifacts as bytes and back. Lengths are checked before anything is read: a file from a disk may
// hold anything.
#include "codegen/Artifact.h"
#include <cstring>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace sectile {
namespace {

constexpr char magic[8] = {'s', 'e', 'c', 't', 'i', 'l', 'e', 'a'};
constexpr uint32_t version = 2;
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

  void site(const DebugSite &site) {
    number(static_cast<uint32_t>(site.isPrint | site.hex << 1));
    text(site.text);
    text(site.file);
    number(static_cast<uint32_t>(site.line));
    number(static_cast<uint64_t>(site.values.size()));
    for (const DebugValue &value : site.values) {
      text(value.type);
      number(static_cast<uint64_t>(value.shape.size()));
      for (int64_t extent : value.shape)
        number(extent);
    }
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
  /// How many of something follow; no more than there are bytes.
  uint64_t count() {
    const auto value = number<uint64_t>();
    failed |= value > in.size();
    return failed ? 0 : value;
  }
  DebugSite site() {
    DebugSite site;
    const auto flags = number<uint32_t>();
    site.isPrint = flags & 1;
    site.hex = flags >> 1 & 1;
    site.text = text();
    site.file = text();
    site.line = number<uint32_t>();
    for (uint64_t values = count(); values && !failed; --values) {
      DebugValue &value = site.values.emplace_back();
      value.type = text();
      for (uint64_t extents = count(); extents && !failed; --extents)
        value.shape.push_back(number<int64_t>());
    }
    return site;
  }
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
  fields.number(static_cast<uint64_t>(artifact.debugSites.size()));
  for (const DebugSite &site : artifact.debugSites)
    fields.site(site);

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
  for (uint64_t sites = fields.count(); sites && fields.ok(); --sites)
    artifact.debugSites.push_back(fields.site());
  if (!fields.finished())
    return std::nullopt;
  return artifact;
}

} // namespace sectile
