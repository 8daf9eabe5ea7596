// Worker processes and the pipes that they tell their results through, a line of JSON each.
#include "tools/sectile/Workers.h"
#include "llvm/Support/raw_ostream.h"
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstring>
#include <iostream>
#include <poll.h>
#include <sectile/error.h>
#include <sys/wait.h>
#include <unistd.h>

namespace sectile::tool {
namespace {

using llvm::json::Object;

void tell(int pipe, Object line) {
  std::string text;
  llvm::raw_string_ostream(text) << llvm::json::Value(std::move(line)) << '\n';
  for (std::size_t at = 0; at < text.size();) {
    const ssize_t written = write(pipe, text.data() + at, text.size() - at);
    if (written < 0 && errno != EINTR)
      std::_Exit(1);
    at += written > 0 ? static_cast<std::size_t>(written) : 0;
  }
}

// The end of the worker: destructors might wait for a kernel that has no end.
[[noreturn]] void serve(int pipe, std::size_t first, std::size_t pieces, const Workers &workers) {
  try {
    workers.begin();
    tell(pipe, Object{});
  } catch (const std::exception &error) {
    tell(pipe, Object{{"error", llvm::json::fixUTF8(error.what())}});
    std::_Exit(0);
  }
  bool isSound = true;
  for (std::size_t i = first; i < pieces && isSound; ++i)
    try {
      tell(pipe, Object{{"result", workers.work(i)}});
    } catch (const std::exception &error) {
      isSound =
          dynamic_cast<const InputError *>(&error) || dynamic_cast<const CompileError *>(&error);
      tell(pipe, Object{{"error", llvm::json::fixUTF8(error.what())}, {"last", !isSound}});
    }
  std::_Exit(0);
}

class Worker {
public:
  Worker(std::size_t first, std::size_t pieces, const Workers &workers) {
    int ends[2];
    std::cout.flush();
    if (::pipe(ends) != 0 || (process = fork()) < 0)
      throw Error(std::string("cannot start a process: ") + std::strerror(errno));
    if (process == 0) {
      close(ends[0]);
      serve(ends[1], first, pieces, workers);
    }
    close(ends[1]);
    pipe = ends[0];
  }
  Worker(const Worker &) = delete;
  ~Worker() {
    close(pipe);
    if (process > 0) {
      kill(process, SIGKILL);
      waitpid(process, nullptr, 0);
    }
  }

  // The next line; why there is none as its "error". Then the worker has ended.
  Object next(double seconds) {
    using Clock = std::chrono::steady_clock;
    const Clock::time_point end = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                                     std::chrono::duration<double>(seconds));
    for (;;) {
      if (const std::size_t at = text.find('\n'); at != std::string::npos) {
        llvm::Expected<llvm::json::Value> line = llvm::json::parse(text.substr(0, at));
        text.erase(0, at + 1);
        return std::move(*llvm::cantFail(std::move(line)).getAsObject());
      }
      const auto left =
          std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now()).count();
      pollfd wait{pipe, POLLIN, 0};
      const int ready = left > 0 ? poll(&wait, 1, static_cast<int>(left)) : 0;
      if (ready == 0)
        return ended("it did not end within " + std::to_string(std::lround(seconds)) + " s");
      char buffer[1 << 16];
      const ssize_t count = ready > 0 ? read(pipe, buffer, sizeof buffer) : -1;
      if (count > 0)
        text.append(buffer, static_cast<std::size_t>(count));
      else if (count == 0)
        return ended("");
      else if (errno != EINTR)
        return ended(std::strerror(errno));
    }
  }

  bool hasEnded() const { return process < 0; }

private:
  Object ended(std::string why) {
    if (!why.empty())
      kill(process, SIGKILL);
    int status = 0;
    waitpid(process, &status, 0);
    process = -1;
    if (why.empty())
      why = WIFSIGNALED(status)
                ? std::string("it ended its process: ") + strsignal(WTERMSIG(status))
                : "it ended its process with status " + std::to_string(WEXITSTATUS(status));
    return Object{{"error", std::move(why)}};
  }

  pid_t process = -1;
  int pipe = -1;
  std::string text;
};

} // namespace

void runInWorkers(std::size_t pieces, const Workers &workers) {
  for (std::size_t i = 0; i < pieces;) {
    Worker worker(i, pieces, workers);
    if (const Object hello = worker.next(workers.deadline); hello.get("error")) {
      const std::string error = hello.getString("error")->str();
      if (i == 0)
        throw InputError(error);
      if (!workers.done(i++, {}, error))
        return;
      continue;
    }
    for (bool isSound = true; isSound && i < pieces; ++i) {
      Object line = worker.next(workers.deadline);
      const std::string error = line.getString("error").value_or("").str();
      Object *result = line.getObject("result");
      if (!workers.done(i, result ? std::move(*result) : Object{}, error))
        return;
      isSound = !worker.hasEnded() && !line.getBoolean("last").value_or(false);
    }
  }
}

} // namespace sectile::tool
