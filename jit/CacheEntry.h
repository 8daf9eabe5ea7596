// What lies in the compile cache's folder: entries of two kinds, each a key, which is compared as a
// whole, and what the key stands for, under one checksum.
#ifndef SECTILE_JIT_CACHEENTRY_H
#define SECTILE_JIT_CACHEENTRY_H

#include "codegen/Compiler.h"
#include "runtime/Artifact.h"
#include <optional>
#include <string>
#include <string_view>

namespace sectile::runtime {

/// Everything that the compiled code depends on. Two keys are the same only if their texts are.
struct CacheKey {
  std::string kernel;  ///< name, for people
  std::string target;  ///< name and features
  std::string options; ///< warps, stages, configuration, specialisation
  std::string ir;      ///< printed without locations, unless the device names lines
  std::string compiler = compilerVersion();

  /// All of it, as `sectile cache show` prints it.
  std::string text() const;
  /// The key of that text, if it is one's.
  static std::optional<CacheKey> parse(std::string_view text);
};

enum class EntryKind : uint32_t {
  Kernel = 1,  ///< a compiled kernel
  Launch = 2,  ///< which compiled kernel a launch needs, known without a trace
  Machine = 3, ///< machine code of a compiled kernel: the content is the code
};

/// A kernel as it is kept, with what it takes to compile it again.
struct StoredKernel {
  Artifact artifact;
  CompileOptions options;
  std::string source; ///< the IR with its locations
};

/// What an entry of the launch index says.
struct LaunchRecord {
  std::string entry;     ///< the name of the kernel's entry: the hash of its key
  std::string keyDigest; ///< SHA-256 of its whole key, so that no other entry is taken for it
  std::string irHash;    ///< of the IR, without locations

  friend bool operator==(const LaunchRecord &, const LaunchRecord &) = default;
};

std::string encodeEntry(EntryKind kind, std::string_view key, std::string_view content);
std::string encode(const StoredKernel &kernel);
std::string encode(const LaunchRecord &record);

/// The parts of an entry that is whole; they point into its bytes.
struct DecodedEntry {
  EntryKind kind;
  std::string_view key, content;
};
std::optional<DecodedEntry> decodeEntry(std::string_view bytes);
/// Whether these bytes, which decodeEntry() does not take, are a whole entry of another version of
/// the format: magic number, version and checksum are the same in all.
bool isOfAnotherVersion(std::string_view bytes);
std::optional<StoredKernel> decodeKernel(std::string_view content);
std::optional<LaunchRecord> decodeLaunch(std::string_view content);

/// A kernel's name in the one line of UTF-8 that keys have for it. Whatever else tells kernels
/// apart is in the IR.
std::string onOneLine(std::string_view name);

/// The first line of the key of a kernel's machine code, and the kernel that such a key is of.
std::string machineCodeKey(std::string_view kernel);
std::string kernelOfMachineCode(std::string_view key);

/// The end of the names of entries of a kind: nothing, ".launch" or ".cubin".
std::string_view suffixOf(EntryKind kind);
/// Whether a kernel's entry has such a name.
bool namesKernel(std::string_view name);

/// Names entries: 32 hexadecimal digits.
std::string contentHash(std::string_view text);
/// SHA-256 in hexadecimal.
std::string digestOf(std::string_view text);

} // namespace sectile::runtime

#endif
