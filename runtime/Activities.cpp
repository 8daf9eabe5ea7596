// Who listens to activities, and the listener that writes Chrome's trace format.
#include "runtime/Activities.h"
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

/// How many bytes the character takes that begins here; 0 where it is none of UTF-8. Overlong and
/// surrogate codes, which no name has by accident, pass.
size_t characterAt(std::string_view text) {
  const auto first = static_cast<unsigned char>(text[0]);
  const size_t bytes = first < 0x80                    ? 1
                       : first >= 0xc2 && first < 0xe0 ? 2
                       : first >= 0xe0 && first < 0xf0 ? 3
                       : first >= 0xf0 && first < 0xf5 ? 4
                                                       : 0;
  const auto follows = [](char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; };
  return bytes <= text.size() && std::ranges::all_of(text.substr(1, bytes ? bytes - 1 : 0), follows)
             ? bytes
             : 0;
}

/// A text as JSON, with the replacement character for each byte that is not UTF-8.
std::string quoted(std::string_view text) {
  std::string json = "\"";
  while (!text.empty()) {
    const size_t bytes = characterAt(text);
    const char first = text[0];
    if (bytes == 0) {
      json += "\\ufffd";
    } else if (first == '"' || first == '\\') {
      json += {'\\', first};
    } else if (static_cast<unsigned char>(first) < 0x20) {
      char code[8];
      std::snprintf(code, sizeof code, "\\u%04x", static_cast<unsigned>(first));
      json += code;
    } else {
      json += text.substr(0, bytes);
    }
    text.remove_prefix(std::max<size_t>(bytes, 1));
  }
  return json + "\"";
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
    text += R"({"name":)" + quoted(activity.name) + R"(,"cat":)" + quoted(name_of(activity.kind)) +
            R"(,"ph":"X","ts":)" + microseconds(activity.start.time_since_epoch()) + R"(,"dur":)" +
            microseconds(activity.duration) + R"(,"pid":)" + std::to_string(getpid()) +
            R"(,"tid":)" + std::to_string(gettid()) + R"(,"args":{"kernel":)" +
            quoted(activity.kernel) + R"(,"device":)" + quoted(activity.device);
    if (!activity.configuration.empty())
      text += R"(,"configuration":)" + quoted(activity.configuration);
    if (!activity.note.empty())
      text += R"(,"note":)" + quoted(activity.note);
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

} // namespace runtime
} // namespace sectile
