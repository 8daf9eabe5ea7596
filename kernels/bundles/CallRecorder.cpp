// Writes the calls as JSON, by hand: sealed programs record, too.
#include "kernels/bundles/CallRecorder.h"
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <mutex>
#include <set>
#include <unistd.h>

using namespace sectile;

namespace {

// What the environment said when the library was loaded.
const std::string &path = [] {
  const char *value = std::getenv("SECTILE_RECORD");
  return std::cref(*new std::string(value ? value : "")); // static objects may call at the very end
}();

std::string quoted(std::string_view text) {
  std::string result = "\"";
  for (const char c : text)
    if (c == '"' || c == '\\') {
      (result += '\\') += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      char code[8];
      std::snprintf(code, sizeof code, "\\u%04x", c);
      result += code;
    } else {
      result += c;
    }
  return result + '"';
}

std::string listOf(const Shape &numbers) {
  std::string text;
  for (const std::int64_t number : numbers)
    text += (text.empty() ? "" : ",") + std::to_string(number);
  return "[" + text + "]";
}

std::string jsonOf(const Invocation &call) {
  std::string tensors, options;
  for (std::size_t i = 0; i < call.tensors.size(); ++i) {
    const TensorType &type = call.tensors[i];
    if (!type.present)
      continue;
    tensors += (tensors.empty() ? "" : ",") + quoted(call.kernel->arguments[i].name) +
               ":{\"dtype\":" + quoted(name_of(type.dtype)) + ",\"shape\":" + listOf(type.shape);
    if (!type.strides.empty())
      tensors += ",\"strides\":" + listOf(type.strides);
    tensors += "}";
  }
  for (const auto &[name, value] : call.options.values)
    options += (options.empty() ? "" : ",") + quoted(name) + ":" + quoted(value);
  return "{\"kernel\":" + quoted(call.kernel->name) + ",\"tensors\":{" + tensors +
         "},\"options\":{" + options + "}}";
}

class Recorder {
public:
  static Recorder &get() {
    static auto *recorder = new Recorder;
    return *recorder;
  }

  void add(std::string call) {
    std::lock_guard lock(mutex);
    calls.insert(std::move(call));
  }

private:
  Recorder() {
    std::atexit([] { get().write(); });
  }

  void write() {
    if (getpid() != process)
      return; // a fork of it
    std::lock_guard lock(mutex);
    const std::string beside = path + "." + std::to_string(process);
    std::FILE *file = std::fopen(beside.c_str(), "we");
    std::string text = "[";
    for (const std::string &call : calls)
      text += (text.size() > 1 ? ",\n " : "") + call;
    text += "]\n";
    bool isWritten = file && std::fwrite(text.data(), 1, text.size(), file) == text.size();
    isWritten = file && std::fclose(file) == 0 && isWritten;
    if (!isWritten || std::rename(beside.c_str(), path.c_str()) != 0)
      std::fprintf(stderr, "sectile: SECTILE_RECORD: '%s' cannot be written: %s\n", path.c_str(),
                   std::strerror(errno));
  }

  const pid_t process = getpid();
  std::mutex mutex;            // guards what follows
  std::set<std::string> calls; // in an order that does not depend on threads
};

} // namespace

void sectile::recordCall(const Invocation &call) {
  if (!path.empty())
    Recorder::get().add(jsonOf(call));
}
