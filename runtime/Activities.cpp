// Who listens to activities, and the listener that writes Chrome's trace format.
#include "runtime/Activities.h"
#include "runtime/QuotedJson.h"
#include "runtime/Remark.h"
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <iostream>
#include <list>
#include <mutex>
#include <unistd.h>

namespace sectile {
namespace {

struct Listeners {
  std::mutex mutex; ///< held while listeners are called
  std::list<ActivityListener> all;
};
Listeners &listeners() {
  static auto *listeners = new Listeners; // outlives static objects that listen
  return *listeners;
}
std::atomic<unsigned> count = 0;

std::list<ActivityListener>::iterator add(ActivityListener listener) {
  std::lock_guard lock(listeners().mutex);
  ++count;
  return listeners().all.insert(listeners().all.end(), std::move(listener));
}

/// Writes activities to a file. Every write goes over the closing bracket and puts a new one, so
/// that the file is whole in between.
class TraceFile {
public:
  explicit TraceFile(const std::string &path)
      : file(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666)) {
    if (file < 0 || !put("[", 0))
      std::cerr << "sectile: warning: SECTILE_TRACE: '" << path << "' cannot be written"
                << std::endl;
  }

  void write(const Activity &activity) {
    const auto microseconds = [](auto time) {
      char text[32];
      std::snprintf(text, sizeof text, "%.3f",
                    std::chrono::duration<double, std::micro>(time).count());
      return std::string(text);
    };
    std::string text = end == 1 ? "\n" : ",\n";
    text += R"({"name":)" + runtime::quotedJson(activity.name) + R"(,"cat":)" +
            runtime::quotedJson(name_of(activity.kind)) + R"(,"ph":"X","ts":)" +
            microseconds(activity.start.time_since_epoch()) + R"(,"dur":)" +
            microseconds(activity.duration) + R"(,"pid":)" + std::to_string(getpid()) +
            R"(,"tid":)" + std::to_string(gettid()) + R"(,"args":{"kernel":)" +
            runtime::quotedJson(activity.kernel) + R"(,"device":)" +
            runtime::quotedJson(activity.device);
    if (!activity.configuration.empty())
      text += R"(,"configuration":)" + runtime::quotedJson(activity.configuration);
    if (!activity.note.empty())
      text += R"(,"note":)" + runtime::quotedJson(activity.note);
    text += "}}";
    put(text, end);
  }

private:
  bool put(const std::string &text, off_t at) {
    constexpr std::string_view closing = "\n]\n";
    const std::string whole = text + std::string(closing);
    if (file < 0 || pwrite(file, whole.data(), whole.size(), at) != ssize_t(whole.size()))
      return false;
    end = at + off_t(text.size());
    return true;
  }

  int file;
  off_t end = 0; ///< where the closing bracket's line begins
};

void startTraceFile() {
  const char *name = std::getenv("SECTILE_TRACE");
  if (!name || !*name)
    return;
  std::string path = name;
  for (size_t at; (at = path.find("%p")) != path.npos;)
    path.replace(at, 2, std::to_string(getpid()));
  auto file = std::make_shared<TraceFile>(path);
  add([file](const Activity &activity) { file->write(activity); });
}

} // namespace

const char *name_of(Activity::Kind kind) {
  switch (kind) {
  case Activity::Kind::cache:
    return "cache";
  case Activity::Kind::trace:
    return "trace";
  case Activity::Kind::compile:
    return "compile";
  case Activity::Kind::load:
    return "load";
  case Activity::Kind::tune:
    return "tune";
  }
  return "";
}

Listening::Listening(ActivityListener listener) {
  const auto place = add(std::move(listener));
  registration_ = std::shared_ptr<void>(nullptr, [place](void *) {
    std::lock_guard lock(listeners().mutex);
    listeners().all.erase(place);
    --count;
  });
}

namespace runtime {

bool listening() {
  static const bool started = (startTraceFile(), true);
  return started && count.load(std::memory_order_relaxed) != 0;
}

void tell(const Activity &activity) {
  std::lock_guard lock(listeners().mutex);
  for (const ActivityListener &listener : listeners().all)
    listener(activity);
}

void Activities::done(Activity::Kind kind, std::string_view name, std::string_view note) {
  if (!active)
    return;
  const auto now = Clock::now();
  step.kind = kind;
  step.name = name;
  step.note = note;
  step.duration = now - step.start;
  tell(step);
  step.start = now;
}

void Activities::done(Activity::Kind kind, const CompileTimes &stages) {
  if (!active)
    return;
  const auto nanoseconds = [](double milliseconds) {
    return std::chrono::nanoseconds(static_cast<int64_t>(milliseconds * 1e6));
  };
  step.kind = kind;
  step.note.clear();
  step.start = Clock::now();
  for (const auto &[name, milliseconds] : stages)
    step.start -= nanoseconds(milliseconds);
  for (const auto &[name, milliseconds] : stages) {
    step.name = name;
    step.duration = nanoseconds(milliseconds);
    tell(step);
    step.start += step.duration;
  }
}

std::string textOf(const Remark &remark) {
  const std::string line =
      remark.file.empty() ? "" : remark.file + ":" + std::to_string(remark.line) + ": ";
  return line + "remark: " + remark.text;
}

} // namespace runtime
} // namespace sectile
