// Checks of owner and mode, on what was opened rather than on what its name stands for.
#include "runtime/OwnFiles.h"
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>

namespace sectile::runtime {
namespace {

// Makes a folder and the ones above it.
void makeFolders(const std::string &path) {
  for (size_t slash = path.find('/', 1); slash != path.npos; slash = path.find('/', slash + 1))
    mkdir(path.substr(0, slash).c_str(), 0700);
  mkdir(path.c_str(), 0700);
}

bool isSymbolicLink(const std::string &path) {
  struct stat info;
  return lstat(path.c_str(), &info) == 0 && S_ISLNK(info.st_mode);
}

} // namespace

std::string distrust(const struct stat &info, bool folderWanted) {
  if (folderWanted ? !S_ISDIR(info.st_mode) : !S_ISREG(info.st_mode))
    return std::string("it is not a ") + (folderWanted ? "folder" : "file");
  if (info.st_uid != geteuid())
    return "it belongs to another user";
  if (info.st_mode & 022)
    return "others can write to it";
  return "";
}

int openOwnFolder(std::string path, std::string &why) {
  while (path.size() > 1 && path.back() == '/') // "link/" would be followed.
    path.pop_back();
  if (path.empty() || path.front() != '/') {
    why = "'" + path + "' is not an absolute path";
    return -1;
  }
  makeFolders(path);
  const int folder = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (folder < 0) {
    why = path + ": " + (isSymbolicLink(path) ? "it is a symbolic link" : std::strerror(errno));
    return -1;
  }
  struct stat info;
  const std::string fault =
      fstat(folder, &info) == 0 ? distrust(info, true) : std::string(std::strerror(errno));
  if (fault.empty())
    return folder;
  why = path + ": " + fault;
  close(folder);
  return -1;
}

} // namespace sectile::runtime
