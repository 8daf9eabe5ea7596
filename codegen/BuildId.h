// Which build of the library this is.
#ifndef SECTILE_CODEGEN_BUILDID_H
#define SECTILE_CODEGEN_BUILDID_H

#include <string>

namespace sectile {

/// The linker's hash of this library's contents, in hexadecimal: code that one build compiled must
/// not be taken for another's, though both call themselves by the same version.
const std::string &libraryBuildId();

} // namespace sectile

#endif
