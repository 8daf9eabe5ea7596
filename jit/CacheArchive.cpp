// Entries of the compile cache in one file: a magic number, a version, a checksum of the rest, and
// names and bytes of the entries.
#include "jit/CacheInspection.h"
#include "runtime/ByteStream.h"
#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

namespace sectile::runtime {
namespace {

constexpr char magic[8] = {'s', 'e', 'c', 't', 'i', 'l', 'e', 'x'};
constexpr uint32_t version = 1;

bool fail(std::string &problem, const std::string &file, const std::string &why) {
  problem = file + ": " + why;
  return false;
}

// A name that importing may write: one that this library gives an entry of that key, so that an
// archive can neither leave the folder nor pass one kernel off as another.
bool nameFits(std::string_view name, const DecodedEntry &entry) {
  const std::string hash = contentHash(entry.key);
  return name == hash + std::string(suffixOf(entry.kind));
}

} // namespace

bool exportCache(const DiskStore &store, const std::vector<std::string> &names,
                 const std::string &file, std::string &problem) {
  std::string body;
  ByteWriter fields(body);
  for (const std::string &name : names) {
    const std::optional<std::string> bytes = store.peek(name);
    const std::optional<DecodedEntry> entry = bytes ? decodeEntry(*bytes) : std::nullopt;
    if (!entry || !nameFits(name, *entry))
      continue;
    fields.text(name);
    fields.text(*bytes);
  }
  std::string archive(magic, sizeof magic);
  ByteWriter header(archive);
  header.number(version);
  header.text(contentHash(body));
  errno = 0;
  std::ofstream out(file, std::ios::binary | std::ios::trunc);
  out << archive << body << std::flush;
  return out.good() || fail(problem, file, errno ? std::strerror(errno) : "it cannot be written");
}

std::optional<Imported> importCache(DiskStore &store, const std::string &file,
                                    std::string &problem) {
  auto refuse = [&](const std::string &why) {
    fail(problem, file, why);
    return std::nullopt;
  };
  errno = 0;
  std::ifstream in(file, std::ios::binary);
  std::ostringstream content;
  content << in.rdbuf();
  if (!in)
    return refuse(errno ? std::strerror(errno) : "it cannot be read");
  const std::string archive = std::move(content).str();
  if (archive.size() < sizeof magic || std::memcmp(archive.data(), magic, sizeof magic) != 0)
    return refuse("it is no archive of a compile cache");
  ByteReader header(std::string_view(archive).substr(sizeof magic));
  if (header.number<uint32_t>() != version)
    return refuse("it is an archive of another version");
  const std::string checksum = header.text();
  if (!header.ok() || checksum != contentHash(header.rest()))
    return refuse("it is damaged");

  struct Member {
    std::string_view name, bytes;
  };
  std::vector<Member> members;
  for (ByteReader fields(header.rest()); !fields.finished();) {
    const Member member{fields.view(), fields.view()};
    const std::optional<DecodedEntry> entry =
        fields.ok() ? decodeEntry(member.bytes) : std::nullopt;
    if (!entry && fields.ok() && isOfAnotherVersion(member.bytes))
      return refuse("it holds an entry of another version");
    if (!entry || !nameFits(member.name, *entry))
      return refuse("it holds an entry that is damaged");
    members.push_back(member);
  }
  Imported result;
  for (const Member &member : members) {
    if (store.peek(member.name) == member.bytes) {
      ++result.present;
    } else if (store.write(member.name, member.bytes)) {
      ++result.added;
    } else {
      return refuse("its entries cannot be written: " + store.problem());
    }
  }
  return result;
}

} // namespace sectile::runtime
