// Where the code of a launch comes from: sources that are asked in turn, then the compiler.
#ifndef SECTILE_RUNTIME_CODECHAIN_H
#define SECTILE_RUNTIME_CODECHAIN_H

#include "runtime/CompilerLink.h"

namespace sectile::runtime {

/// Something that has code beforehand, such as a bundle.
class CodeSource {
public:
  virtual ~CodeSource() = default;
  /// The code for a launch, whose facts all hold; null where there is none.
  virtual std::shared_ptr<const Artifact> find(const CodeRequest &request) const = 0;
  /// Why there is none, to follow "kernel 'name': ".
  virtual std::string whyNone(const CodeRequest &request) const = 0;
};

/// Adds a source after those that are there. It stays until the process ends.
void addCodeSource(std::shared_ptr<const CodeSource> source);

/// The code for a launch: from the first source that has it, else from the compiler, which looks
/// into its cache first. Throws LaunchError where nobody has it, CompileError.
std::shared_ptr<const Artifact> findCode(const CodeRequest &request);

} // namespace sectile::runtime

#endif
