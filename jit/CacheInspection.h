// Looking into the compile cache, for the command line: what is in it, whether it is true, and why
// a kernel was compiled although one like it was there. Nothing here counts as a use of an entry.
#ifndef SECTILE_JIT_CACHEINSPECTION_H
#define SECTILE_JIT_CACHEINSPECTION_H

#include "jit/CacheEntry.h"
#include "jit/DiskStore.h"
#include <optional>
#include <string>
#include <vector>

namespace sectile::runtime {

/// One file of the cache's folder.
struct ListedEntry {
  enum Kind {
    Kernel,
    Launch,       ///< of the launch index
    Machine,      ///< machine code of a compiled kernel
    OtherVersion, ///< of the format, and whole
    Damaged,      ///< not what any version of this library wrote as it is
    SetAside,     ///< was found damaged before: NAME.bad
    Unfinished,   ///< is being written, or its writer died: NAME.N.N.tmp
  };
  Kind kind = Damaged;
  std::string name; ///< of the file
  uint64_t bytes = 0;
  int64_t lastUsed = 0; ///< nanoseconds since 1970
  std::string key;      ///< the whole key of a kernel, a launch or machine code

  CacheKey parts; ///< of a launch and of machine code only the kernel's name

  // Of a kernel:
  std::string form; ///< "ptx", "hsaco", "virtual", "interpreter"
  uint64_t codeBytes = 0;
  unsigned threads = 0, sharedBytes = 0;
  Resources resources;
  std::string irHash;
  double compileMilliseconds = 0;

  LaunchRecord launch; ///< of a launch
};
/// All of them, those used last first.
std::vector<ListedEntry> listCache(const DiskStore &store);

/// A kernel's entry with everything in it.
struct CachedKernel {
  std::string name;
  CacheKey key;
  CompileOptions options;
  std::string source; ///< the IR with its locations
  Artifact artifact;
};
/// Nothing where there is none of that name, or it is damaged.
std::optional<CachedKernel> readCachedKernel(const DiskStore &store, std::string_view name);

/// The code as text: PTX as it is, other code disassembled, what is interpreted as its IR.
std::string codeText(const Artifact &artifact);

/// What compiling a kernel once more, from what its entry holds, says of the entry.
struct Verification {
  enum Verdict {
    Same,
    Differs, ///< the entry is not what this compiler makes of its IR
    Cannot,  ///< another compiler or processor made it, or a library it links has changed
  };
  Verdict verdict;
  std::string message; ///< why it is not the same
};
Verification verify(const CachedKernel &kernel);

/// What two keys have for one part of theirs; empty where one lacks it.
struct KeyDifference {
  std::string
      part; ///< "target", "compiler", "warps", "arguments", a configuration field, "ir line 7"
  std::string wanted, found;
};
/// Nothing for keys that are the same.
std::vector<KeyDifference> compareKeys(const CacheKey &wanted, const CacheKey &found);

/// The entry of this kernel that has most in common with a key.
struct NearestEntry {
  std::string name;
  std::vector<KeyDifference> differences; ///< none: the key is in the cache
};
/// What is known of the arguments in each entry that differs from the key in nothing else, as in
/// the key: "0:16 3=1".
std::vector<std::string> versionsOf(const DiskStore &store, const CacheKey &wanted);
/// Nothing where the cache has no entry of the kernel.
std::optional<NearestEntry> nearestEntry(const DiskStore &store, const CacheKey &wanted);

/// Writes entries into one file, to be taken to another folder or machine. False, and `problem`
/// says why, where it cannot be written; entries that are not whole are left out.
bool exportCache(const DiskStore &store, const std::vector<std::string> &names,
                 const std::string &file, std::string &problem);

struct Imported {
  unsigned added = 0, present = 0;
};
/// Takes over the entries of such a file. An archive that is not whole is refused: then nothing is
/// imported and `problem` says why. An archive holds code that will run: it has to be trusted as a
/// program has.
std::optional<Imported> importCache(DiskStore &store, const std::string &file,
                                    std::string &problem);

} // namespace sectile::runtime

#endif
