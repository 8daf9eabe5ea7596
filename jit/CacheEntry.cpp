// Entries as bytes and back.
#include "jit/CacheEntry.h"
#include "runtime/ByteStream.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/SHA256.h"
#include <algorithm>
#include <cstring>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace sectile::runtime {
namespace {

constexpr char magic[8] = {'s', 'e', 'c', 't', 'i', 'l', 'e', 'c'};
constexpr uint32_t version = 5;
constexpr uint32_t lastUncheckedVersion = 3; // up to here the checksum left the version out
constexpr size_t headerSize = sizeof magic + sizeof version + sizeof(XXH128_canonical_t);
constexpr std::string_view launchSuffix = ".launch", machineSuffix = ".cubin";
constexpr std::string_view machineOpening = "machine code of kernel ";

XXH128_canonical_t checksum(std::string_view bytes, uint32_t seed = 0) {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits_withSeed(bytes.data(), bytes.size(), seed));
  return canonical;
}

// The version of an entry that is whole, whatever is in it.
std::optional<uint32_t> versionOf(std::string_view bytes) {
  if (bytes.size() < headerSize || std::memcmp(bytes.data(), magic, sizeof magic) != 0)
    return std::nullopt;
  ByteReader header(bytes.substr(sizeof magic));
  const auto found = header.number<uint32_t>();
  const auto expected = header.number<XXH128_canonical_t>(),
             actual = checksum(bytes.substr(headerSize), found <= lastUncheckedVersion ? 0 : found);
  if (std::memcmp(&expected, &actual, sizeof expected) != 0)
    return std::nullopt;
  return found;
}

constexpr uint32_t debugFlag = 1, checkedFlag = 2, asWrittenFlag = 4;

} // namespace

std::string onOneLine(std::string_view name) {
  std::string line = llvm::json::fixUTF8(llvm::StringRef(name.data(), name.size()));
  std::replace_if(line.begin(), line.end(), [](char c) { return c == '\n'; }, ' ');
  return line;
}

std::string CacheKey::text() const {
  return "kernel " + onOneLine(kernel) + "\ntarget " + target + "\noptions " + options +
         "\ncompiler " + compiler + "\n\n" + ir;
}

std::optional<CacheKey> CacheKey::parse(std::string_view text) {
  CacheKey key;
  const std::pair<std::string_view, std::string *> lines[] = {{"kernel ", &key.kernel},
                                                              {"target ", &key.target},
                                                              {"options ", &key.options},
                                                              {"compiler ", &key.compiler}};
  for (const auto &[word, value] : lines) {
    const size_t end = text.find('\n');
    if (end == text.npos || !text.starts_with(word))
      return std::nullopt;
    *value = text.substr(word.size(), end - word.size());
    text.remove_prefix(end + 1);
  }
  if (!text.starts_with('\n'))
    return std::nullopt;
  key.ir = text.substr(1);
  return key;
}

std::string encodeEntry(EntryKind kind, std::string_view key, std::string_view content) {
  std::string body;
  ByteWriter fields(body);
  fields.number(static_cast<uint32_t>(kind));
  fields.text(key);
  body += content;

  std::string bytes(magic, sizeof magic);
  ByteWriter header(bytes);
  header.number(version);
  header.number(checksum(body, version));
  return bytes + body;
}

bool isOfAnotherVersion(std::string_view bytes) {
  const std::optional<uint32_t> found = versionOf(bytes);
  return found && *found != version;
}

std::optional<DecodedEntry> decodeEntry(std::string_view bytes) {
  if (versionOf(bytes) != version)
    return std::nullopt;
  ByteReader fields(bytes.substr(headerSize));
  DecodedEntry entry;
  entry.kind = static_cast<EntryKind>(fields.number<uint32_t>());
  entry.key = fields.view();
  entry.content = fields.rest();
  if (!fields.ok())
    return std::nullopt;
  return entry;
}

std::string encode(const StoredKernel &kernel) {
  std::string bytes;
  ByteWriter out(bytes);
  out.number(static_cast<uint32_t>(kernel.options.warps));
  out.number(static_cast<uint32_t>(kernel.options.stages));
  out.number(static_cast<uint32_t>(kernel.options.maxRegisters));
  out.number(static_cast<uint32_t>(kernel.options.minPrograms));
  out.number((kernel.options.debug ? debugFlag : 0) | (kernel.options.checked ? checkedFlag : 0) |
             (kernel.options.plans ? 0 : asWrittenFlag));
  out.text(kernel.source);
  return bytes + serialize(kernel.artifact);
}

std::optional<StoredKernel> decodeKernel(std::string_view content) {
  StoredKernel kernel;
  ByteReader in(content);
  kernel.options.warps = in.number<uint32_t>();
  kernel.options.stages = in.number<uint32_t>();
  kernel.options.maxRegisters = in.number<uint32_t>();
  kernel.options.minPrograms = in.number<uint32_t>();
  const auto flags = in.number<uint32_t>();
  kernel.options.debug = flags & debugFlag;
  kernel.options.checked = flags & checkedFlag;
  kernel.options.plans = !(flags & asWrittenFlag);
  kernel.source = in.text();
  std::optional<Artifact> artifact;
  if (!in.ok() || !(artifact = deserialize(in.rest())))
    return std::nullopt;
  kernel.artifact = std::move(*artifact);
  return kernel;
}

std::string encode(const LaunchRecord &record) {
  std::string bytes;
  ByteWriter out(bytes);
  for (const std::string *field : {&record.entry, &record.keyDigest, &record.irHash})
    out.text(*field);
  return bytes;
}

std::optional<LaunchRecord> decodeLaunch(std::string_view content) {
  LaunchRecord record;
  ByteReader in(content);
  for (std::string *field : {&record.entry, &record.keyDigest, &record.irHash})
    *field = in.text();
  if (!in.finished())
    return std::nullopt;
  return record;
}

std::string machineCodeKey(std::string_view kernel) {
  return std::string(machineOpening) + onOneLine(kernel) + "\n";
}

std::string kernelOfMachineCode(std::string_view key) {
  if (!key.starts_with(machineOpening))
    return "";
  key.remove_prefix(machineOpening.size());
  return std::string(key.substr(0, key.find('\n')));
}

std::string_view suffixOf(EntryKind kind) {
  return kind == EntryKind::Launch ? launchSuffix : kind == EntryKind::Machine ? machineSuffix : "";
}

bool namesKernel(std::string_view name) { return name.find('.') == name.npos; }

std::string contentHash(std::string_view text) {
  const XXH128_canonical_t hash = checksum(text);
  return llvm::toHex(llvm::ArrayRef(hash.digest), /*LowerCase=*/true);
}

std::string digestOf(std::string_view text) {
  llvm::SHA256 sha;
  sha.update(llvm::StringRef(text.data(), text.size()));
  return llvm::toHex(sha.final(), /*LowerCase=*/true);
}

} // namespace sectile::runtime
