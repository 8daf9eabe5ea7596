// Where the code of a launch comes from: sources that are asked in turn, then the compiler.
#ifndef SECTILE_RUNTIME_CODECHAIN_H
#define SECTILE_RUNTIME_CODECHAIN_H

#include "runtime/CompilerLink.h"
#include <span>
#include <string>
#include <vector>

namespace sectile::runtime {

class Bundle;

/// A configuration that a described kernel chose for a call when a bundle was built.
struct BundledChoice {
  std::string kernel, target;                          ///< of the target the chip: "sm_90a"
  std::string kind;                                    ///< of the call, but for its extents
  std::vector<std::pair<std::string, int64_t>> bucket; ///< of its extents
  std::string config;                                  ///< "m=128 n=64"
  std::string order;                                   ///< what of it decides the order of sums
  bool isTuned = false;                                ///< measurements say so, else the kernel

  friend bool operator==(const BundledChoice &, const BundledChoice &) = default;
};

/// Something that has code beforehand, such as a bundle.
class CodeSource {
public:
  virtual ~CodeSource() = default;
  /// The code for a launch, whose facts all hold; null where there is none.
  virtual std::shared_ptr<const Artifact> find(const CodeRequest &request) const = 0;
  /// Why there is none, to follow "kernel 'name': ".
  virtual std::string whyNone(const CodeRequest &request) const = 0;
  /// What its kernels chose.
  virtual std::span<const BundledChoice> choices() const { return {}; }
  /// The bundle that it is, if it is one that can be read.
  virtual const Bundle *asBundle() const { return nullptr; }
};

/// Nobody has code for a launch.
class NoCode : public LaunchError {
public:
  using LaunchError::LaunchError;
};

/// Adds a source after those that are there. It stays until the process ends.
void addCodeSource(std::shared_ptr<const CodeSource> source);

/// The sources that were added, in order. The next call has others only if one was added since.
std::shared_ptr<const std::vector<std::shared_ptr<const CodeSource>>> codeSources();

/// The code for a launch: from the first source that has it, else from the compiler, which looks
/// into its cache first. Throws NoCode where nobody has it, CompileError.
std::shared_ptr<const Artifact> findCode(const CodeRequest &request);

} // namespace sectile::runtime

#endif
