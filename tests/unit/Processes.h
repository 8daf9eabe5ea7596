// Other processes, as tests of what processes share need them: many, killed, of another user, with
// a disk of their own; and counts that `./dev test --all` raises.
#pragma once
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <gtest/gtest.h>
#include <sched.h>
#include <string_view>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

namespace sectile::test {

/// The first, or with SECTILE_TEST_ALL=1 the second.
inline unsigned count(unsigned usual, unsigned whole) {
  const char *all = std::getenv("SECTILE_TEST_ALL");
  return all && std::string_view(all) == "1" ? whole : usual;
}

/// Which rows of a product of lists are tried: by the sum of their places in the lists a third, in
/// which any values of all lists but one meet, where every list has three or more. With
/// SECTILE_TEST_ALL=1 all are.
inline bool isAmongAThird(std::size_t sumOfPlaces) {
  return count(0, 1) == 1 || sumOfPlaces % 3 == 0;
}

/// In a test with a device as its parameter.
#define SECTILE_LEAVE_SM_90_TO_OTHERS() SECTILE_LEAVE_TO_OTHERS("virtual:sm_90")
/// Skips the test on these devices, where it meets no code that another one has not.
#define SECTILE_LEAVE_TO_OTHERS(...)                                                               \
  for (const std::string_view other : {__VA_ARGS__})                                               \
    if (std::string_view(GetParam()) == other && sectile::test::count(0, 1) == 0)                  \
  GTEST_SKIP() << "other devices do what it does; it runs with SECTILE_TEST_ALL=1"

/// Another process; it ends with what `body` returns. A quiet one's warnings are not seen.
class Child {
public:
  explicit Child(const std::function<int()> &body, bool quiet = false) : pid(fork()) {
    if (pid != 0)
      return;
    if (quiet && !std::freopen("/dev/null", "w", stderr))
      _exit(99);
    _exit(body());
  }
  Child(Child &&other) noexcept : pid(std::exchange(other.pid, -1)) {}
  ~Child() {
    if (pid > 0)
      wait();
  }
  void kill(int signal) const { ::kill(pid, signal); }
  /// Its exit status; minus the signal where one ended it.
  int wait() {
    int status = 0;
    waitpid(std::exchange(pid, -1), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

private:
  pid_t pid;
};

/// Runs as somebody to whom permissions apply, in another process; the folder is theirs.
inline void asOrdinaryUser(const std::filesystem::path &owned, const std::function<void()> &body) {
  Child child([&] {
    if (geteuid() == 0 && (chown(owned.c_str(), 65534, 65534) || setgid(65534) || setuid(65534)))
      return 2;
    body();
    return testing::Test::HasFailure() ? 1 : 0;
  });
  EXPECT_EQ(child.wait(), 0);
}

/// Gives this process namespaces of its own, in which it is root where it was an ordinary user.
inline bool enterNamespaces(int kinds) {
  const uid_t user = geteuid();
  const gid_t group = getegid();
  if (unshare(kinds | (user ? CLONE_NEWUSER : 0)) != 0)
    return false;
  if (user) {
    std::ofstream("/proc/self/setgroups") << "deny";
    std::ofstream("/proc/self/uid_map") << "0 " << user << " 1";
    std::ofstream("/proc/self/gid_map") << "0 " << group << " 1";
  }
  return true;
}

constexpr int noContainer = 77;
/// For a Child: runs it in a container of its own, as far as process numbers go, where it always
/// has the same one; noContainer where there can be none.
inline int inContainer(const std::function<int()> &body) {
  if (!enterNamespaces(CLONE_NEWPID))
    return noContainer;
  // The first process of a container cannot be killed from inside.
  Child first([&] { return Child(body).wait(); });
  return first.wait();
}

/// Runs with a file system of its own in the folder, in another process; skips where none can be
/// mounted.
inline void onDisk(const std::filesystem::path &folder, const char *options,
                   const std::function<void()> &body) {
  std::filesystem::create_directory(folder);
  constexpr int noMount = 77;
  Child child([&] {
    if (!enterNamespaces(CLONE_NEWNS))
      return noMount;
    if (mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        mount("tmpfs", folder.c_str(), "tmpfs", 0, options) != 0)
      return noMount;
    body();
    return testing::Test::HasFailure() ? 1 : 0;
  });
  const int status = child.wait();
  if (status == noMount)
    GTEST_SKIP() << "no file system can be mounted here";
  EXPECT_EQ(status, 0);
}

} // namespace sectile::test
