// How PTX states a limit on registers, which assemblers take in different ways: forms of one kernel
// to choose from where its code spills.
#ifndef SECTILE_RUNTIME_PTXFORMS_H
#define SECTILE_RUNTIME_PTXFORMS_H

#include <string>
#include <string_view>
#include <vector>

namespace sectile::runtime {

/// What otherForms() tries, for keys of what was chosen from.
inline constexpr std::string_view formsOfPtx = "minnctapersm";

/// The PTX of one kernel with its limit on registers stated otherwise; none where it states one
/// itself. They compute the same.
std::vector<std::string> otherForms(std::string_view ptx);

/// How a remark says that code spills, and what helps.
std::string spillRemark(unsigned registers, unsigned spillBytes);

} // namespace sectile::runtime

#endif
