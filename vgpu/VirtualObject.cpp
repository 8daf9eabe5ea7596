// Virtual objects as bytes, for the compile cache and bundles.
#include "vgpu/VirtualObject.h"
#include <cstring>

namespace sectile::vgpu {
namespace {

constexpr std::string_view magic = "sectile-vgpu-2\n";

struct Writer {
  std::string bytes{magic};
  void number(uint32_t value) {
    bytes.append(reinterpret_cast<const char *>(&value), sizeof value);
  }
  void text(const std::string &value) {
    number(uint32_t(value.size()));
    bytes += value;
  }
};

struct Reader {
  std::string_view bytes;
  bool good = true;

  uint32_t number() {
    uint32_t value = 0;
    if (bytes.size() < sizeof value) {
      good = false;
      return 0;
    }
    std::memcpy(&value, bytes.data(), sizeof value);
    bytes.remove_prefix(sizeof value);
    return value;
  }
  std::string text() {
    uint32_t size = number();
    if (bytes.size() < size) {
      good = false;
      return {};
    }
    std::string value(bytes.substr(0, size));
    bytes.remove_prefix(size);
    return value;
  }
};

} // namespace

std::string portableHost() {
  return std::string(portableCpu) + "-abi" + std::to_string(machineAbiVersion);
}

bool runsPortableCode() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  return __builtin_cpu_supports("x86-64-v3");
#else
  return true;
#endif
}

bool VirtualObject::isShared() const {
  // ELF's type.
  constexpr size_t typeAt = 16;
  constexpr char shared = 3;
  return object.size() > typeAt && object[typeAt] == shared;
}

std::string VirtualObject::serialize() const {
  Writer writer;
  for (const std::string *field : {&object, &entry, &kernel, &hostCpu})
    writer.text(*field);
  for (uint32_t field :
       {argumentCount, staticSharedBytes, stackBytes, maxRegisters, uint32_t(sites.size())})
    writer.number(field);
  for (const Site &site : sites) {
    writer.number(uint32_t(site.kind));
    writer.number(site.line);
    writer.number(site.column);
    writer.text(site.file);
    writer.text(site.name);
  }
  return std::move(writer.bytes);
}

std::optional<VirtualObject> VirtualObject::deserialize(std::string_view bytes) {
  if (!bytes.starts_with(magic))
    return std::nullopt;
  Reader reader{bytes.substr(magic.size())};
  VirtualObject result;
  for (std::string *field : {&result.object, &result.entry, &result.kernel, &result.hostCpu})
    *field = reader.text();
  uint32_t siteCount = 0;
  for (uint32_t *field : {&result.argumentCount, &result.staticSharedBytes, &result.stackBytes,
                          &result.maxRegisters, &siteCount})
    *field = reader.number();
  for (uint32_t i = 0; i < siteCount && reader.good; ++i) {
    Site site;
    site.kind = SiteKind(reader.number());
    site.line = reader.number();
    site.column = reader.number();
    site.file = reader.text();
    site.name = reader.text();
    result.sites.push_back(std::move(site));
  }
  if (!reader.good || !reader.bytes.empty())
    return std::nullopt;
  return result;
}

} // namespace sectile::vgpu
