// Children that do the fuzzers' work, and what they leave in a page shared with the parent.
#include "tests/fuzz/Isolation.h"
#include "llvm/Support/Signals.h"
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__)
#define SECTILE_FUZZ_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SECTILE_FUZZ_SANITIZED 1
#endif
#endif

namespace sectile::fuzz {

namespace {

/// What a child tells: the number it is at, and what it found wrong there.
struct Page {
  uint64_t at, deep;
  bool wrong;
  char text[4000];
  char input[256 << 10];
};

Page *inChild = nullptr;

struct SharedPage {
  SharedPage()
      : page(static_cast<Page *>(::mmap(nullptr, sizeof(Page), PROT_READ | PROT_WRITE,
                                        MAP_SHARED | MAP_ANONYMOUS, -1, 0))) {
    if (page == MAP_FAILED)
      std::abort();
  }
  ~SharedPage() { ::munmap(page, sizeof(Page)); }
  Page *page;
};

/// A file that is gone when closed, for what a child writes to stderr.
struct Output {
  Output() : file(std::tmpfile()) {
    if (!file)
      std::abort();
  }
  ~Output() { std::fclose(file); }
  std::string tail() const {
    constexpr long most = 6000;
    std::fseek(file, 0, SEEK_END);
    long size = std::ftell(file), from = size > most ? size - most : 0;
    std::string text(size - from, '\0');
    std::fseek(file, from, SEEK_SET);
    text.resize(std::fread(text.data(), 1, text.size(), file));
    return text;
  }
  std::FILE *file;
};

void limitMemory([[maybe_unused]] const Limits &limits) {
  rlimit none{0, 0};
  ::setrlimit(RLIMIT_CORE, &none);
#ifndef SECTILE_FUZZ_SANITIZED // which reserves terabytes
  rlimit space{limits.bytes, limits.bytes};
  ::setrlimit(RLIMIT_AS, &space);
#endif
}

/// The timer's signal ends the process where the work does not end.
void startTimer(const Limits &limits) {
  itimerval timer{};
  timer.it_value.tv_sec = limits.seconds;
  ::setitimer(ITIMER_PROF, &timer, nullptr);
}

std::string describe(int status) {
  if (WIFSIGNALED(status)) {
    int number = WTERMSIG(status);
    if (number == SIGPROF)
      return "no end";
    return "signal " + std::to_string(number) + " (" + ::strsignal(number) + ")";
  }
  return "exit " + std::to_string(WEXITSTATUS(status));
}

} // namespace

void reachedDepth() {
  if (inChild)
    ++inChild->deep;
}

template <size_t size> static void put(char (&place)[size], llvm::StringRef text) {
  text = text.take_front(size - 1);
  std::memcpy(place, text.data(), text.size());
  place[text.size()] = '\0';
}

void noteInput(llvm::StringRef text) {
  if (inChild)
    put(inChild->input, text);
}

Counts runIsolated(uint64_t first, const std::function<bool(uint64_t)> &next,
                   const std::function<std::optional<std::string>(uint64_t)> &work,
                   const std::function<void(const Finding &)> &found, const Limits &limits) {
  SharedPage shared;
  Page &page = *shared.page;
  uint64_t seed = first;
  while (next(seed)) {
    Output output;
    page.at = seed;
    page.wrong = false;
    std::fflush(nullptr);
    pid_t child = ::fork();
    if (child < 0)
      std::abort();
    if (child == 0) {
      inChild = &page;
      ::dup2(::fileno(output.file), STDERR_FILENO);
      limitMemory(limits);
      llvm::sys::PrintStackTraceOnErrorSignal("");
      ::signal(SIGPROF, SIG_DFL);
      for (unsigned i = 0; i < limits.batch && next(page.at); ++i) {
        if (::ftruncate(STDERR_FILENO, 0) == 0)
          ::lseek(STDERR_FILENO, 0, SEEK_SET);
        startTimer(limits);
        if (std::optional<std::string> wrong = work(page.at)) {
          page.wrong = true;
          put(page.text, *wrong);
          break;
        }
        ++page.at;
      }
      std::fflush(nullptr);
      ::_exit(0);
    }
    int status = 0;
    while (::waitpid(child, &status, 0) < 0 && errno == EINTR)
      ;
    seed = page.at;
    bool ended = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    if (ended && !page.wrong)
      continue;
    found({seed, ended ? std::string(page.text) : describe(status), page.input, output.tail()});
    ++seed;
  }
  return {seed - first, page.deep};
}

std::optional<Finding> runOnce(const std::function<std::optional<std::string>()> &work,
                               const Limits &limits) {
  std::optional<Finding> result;
  runIsolated(
      0, [](uint64_t seed) { return seed == 0; }, [&](uint64_t) { return work(); },
      [&](const Finding &finding) { result = finding; }, limits);
  return result;
}

} // namespace sectile::fuzz
