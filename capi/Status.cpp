// Statuses, and the last failure of each thread.
#include "capi/Status.h"
#include "runtime/CodeChain.h"
#include "runtime/Lost.h"
#include <mutex>
#include <new>
#include <sectile/report.h>

using namespace sectile;

namespace {

struct LastFailure {
  std::string message, file;
  unsigned line = 0;
};
LastFailure &lastFailure() {
  thread_local LastFailure last;
  return last;
}

sectile_status failed(sectile_status status, const char *message, const std::string &file = "",
                      unsigned line = 0) {
  LastFailure &last = lastFailure();
  last.message = message;
  last.file = file;
  last.line = line;
  return status;
}

} // namespace

sectile_status sectile::c::guarded(void (*body)(void *), void *data,
                                   const runtime::DeviceImpl *device) noexcept {
  try {
    try {
      body(data);
      return SECTILE_OK;
    } catch (const Refusal &error) {
      return failed(error.status, error.what());
    } catch (const AssertionError &error) {
      return failed(SECTILE_ASSERTION, error.what(), error.file(), error.line());
    } catch (const CompileError &error) {
      return failed(SECTILE_COMPILE, error.what(), error.file(), error.line());
    } catch (const InputError &error) {
      return failed(SECTILE_INVALID, error.what());
    } catch (const runtime::NoCode &error) {
      return failed(SECTILE_NO_CODE, error.what());
    } catch (const LaunchError &error) {
      return failed(SECTILE_LAUNCH, error.what());
    } catch (const runtime::OutOfMemory &error) {
      return failed(SECTILE_MEMORY, error.what());
    } catch (const runtime::LostContext &error) {
      return failed(SECTILE_LOST, error.what());
    } catch (const DeviceError &error) {
      return failed(device && device->isLost() ? SECTILE_LOST : SECTILE_DEVICE, error.what());
    } catch (const std::bad_alloc &) {
      return failed(SECTILE_MEMORY, "the host has too little memory");
    } catch (const Error &error) {
      return failed(SECTILE_INVALID, error.what());
    } catch (const std::exception &error) {
      return failed(SECTILE_INTERNAL, error.what());
    } catch (...) {
      return failed(SECTILE_INTERNAL, "an exception of an unknown type");
    }
  } catch (...) { // No memory for the message.
    lastFailure().message.clear();
    return SECTILE_MEMORY;
  }
}

void sectile::c::require(const void *pointer, const char *what) {
  if (!pointer)
    throw Refusal(SECTILE_INVALID, std::string(what) + " is NULL");
}

extern "C" {

uint32_t sectile_version(void) { return SECTILE_VERSION; }

sectile_status sectile_require(uint32_t header) {
  return c::guard([&] {
    const auto text = [](uint32_t version) {
      return std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
             std::to_string(version % 100);
    };
    constexpr uint32_t own = SECTILE_VERSION;
    const bool fits = header / 10000 == own / 10000 && header <= own &&
                      (own >= 10000 || header / 100 == own / 100);
    if (!fits)
      throw c::Refusal(SECTILE_UNSUPPORTED,
                       "a program that was compiled with <sectile.h> of version " + text(header) +
                           " has loaded Sectile " + text(own) +
                           ": compile it again, or load the version that it was compiled for");
  });
}

const char *sectile_error(void) { return lastFailure().message.c_str(); }

sectile_status sectile_error_place(const char **file, uint32_t *line) {
  // No failure itself: it would hide the one that is asked for.
  const LastFailure &last = lastFailure();
  if (file)
    *file = last.file.empty() ? nullptr : last.file.c_str();
  if (line)
    *line = last.line;
  return last.file.empty() ? SECTILE_NOT_FOUND : SECTILE_OK;
}

const char *sectile_status_name(sectile_status status) {
  switch (status) {
#define SECTILE_NAME(status)                                                                       \
  case status:                                                                                     \
    return #status;
    SECTILE_NAME(SECTILE_OK)
    SECTILE_NAME(SECTILE_INVALID)
    SECTILE_NAME(SECTILE_NO_CODE)
    SECTILE_NAME(SECTILE_COMPILE)
    SECTILE_NAME(SECTILE_LAUNCH)
    SECTILE_NAME(SECTILE_DEVICE)
    SECTILE_NAME(SECTILE_ASSERTION)
    SECTILE_NAME(SECTILE_LOST)
    SECTILE_NAME(SECTILE_MEMORY)
    SECTILE_NAME(SECTILE_NOT_FOUND)
    SECTILE_NAME(SECTILE_UNSUPPORTED)
    SECTILE_NAME(SECTILE_INTERNAL)
#undef SECTILE_NAME
  }
  return "SECTILE_UNKNOWN";
}

sectile_status sectile_on_message(sectile_message_fn message, void *user) {
  return c::guard([&] {
    set_print_handler(message ? PrintHandler([=](std::string_view text) {
      message(text.data(), text.size(), user);
    })
                              : PrintHandler());
  });
}

} // extern "C"
