// Which folders and files are the user's own: what somebody else could have written is not trusted.
#ifndef SECTILE_RUNTIME_OWNFILES_H
#define SECTILE_RUNTIME_OWNFILES_H

#include <string>
#include <sys/stat.h>

namespace sectile::runtime {

/// Why a file (or a folder, where one is wanted) is not to be trusted; empty when it is: it must be
/// of that kind, the user's own and writable by nobody else.
std::string distrust(const struct stat &info, bool folderWanted);

/// Makes the folder (mode 0700) where it is missing and opens it. -1, and `why` says why, where it
/// is not absolute, its last component is a symbolic link, or it is not to be trusted.
int openOwnFolder(std::string path, std::string &why);

} // namespace sectile::runtime

#endif
