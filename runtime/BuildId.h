// Which build of the library this is, and of the program around it.
#ifndef SECTILE_RUNTIME_BUILDID_H
#define SECTILE_RUNTIME_BUILDID_H

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace sectile {

/// The linker's hash of this library's contents, in hexadecimal: code that one build made must not
/// be taken for another's, though both call themselves by the same version.
const std::string &runtimeBuildId();

/// The hashes of the executables and libraries that a function can call, sorted; nothing where one
/// of them has none. These are all that was loaded when this library was, which is what the program
/// is linked of; drivers and the like that come later are called through pointers only. For a
/// function in something that came later itself, a plugin, they are all that is loaded. The
/// kernel's own page of code does not count.
std::optional<std::vector<std::string>> buildIdsBelow(const void *code);

/// Where a function lies: in which build of an executable or library, and how far from its start.
/// Nothing where that has no build ID.
struct CodePlace {
  std::string buildId;
  uint64_t offset;
};
std::optional<CodePlace> placeOf(const void *code);

/// Tells the builds of a library that is loaded apart, by a function in it: the build ID, or, where
/// it has none, its file's name, size and time of the last change.
std::string buildOf(const void *code);

} // namespace sectile

#endif
