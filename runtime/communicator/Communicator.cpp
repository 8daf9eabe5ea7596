// The public handles, and a communicator of one process.
#include "runtime/communicator/CommunicatorImpl.h"
#include <cstdlib>
#include <dlfcn.h>
#include <sectile/error.h>

namespace sectile {
namespace {

class Done : public runtime::TransferImpl {
public:
  void wait(const Stream &) override {}
};

class SingleProcess : public runtime::CommunicatorImpl {
public:
  std::vector<int64_t> allGather(int64_t value) override { return {value}; }
  void broadcast(std::span<std::byte>) override {}
  std::shared_ptr<runtime::TransferImpl> exchange(const Stream &stream,
                                                  std::span<const Communicator::Message> messages,
                                                  int, int) override {
    for (const Communicator::Message &message : messages)
      message.target.copy_from(message.source, &stream);
    return std::make_shared<Done>();
  }
};

} // namespace

void Transfer::wait(const Stream &stream) const { impl_->wait(stream); }

Communicator Communicator::single() { return Communicator(std::make_shared<SingleProcess>()); }

int Communicator::rank() const { return impl_->rank; }
int Communicator::size() const { return impl_->size; }

std::vector<std::int64_t> Communicator::all_gather(std::int64_t value) const {
  return impl_->allGather(value);
}

void Communicator::broadcast(std::span<std::byte> bytes) const { impl_->broadcast(bytes); }

Transfer Communicator::exchange(const Stream &stream, std::span<const Message> messages, int to,
                                int from) const {
  for (int other : {to, from})
    if (other < 0 || other >= size())
      throw LaunchError("there is no process " + std::to_string(other) + " among " +
                        std::to_string(size()));
  return Transfer(impl_->exchange(stream, messages, to, from));
}

namespace runtime {

EngineLibrary::EngineLibrary(const char *engine, const char *variable, const char *usual)
    : engine(engine) {
  const char *chosen = std::getenv(variable);
  path = chosen ? chosen : usual;
  // An engine's own parts look for its symbols among the global ones.
  handle = dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (!handle)
    throw DeviceError(std::string(engine) + " cannot be opened: " + dlerror() + " (" + variable +
                      " names another library)");
}

bool EngineLibrary::has(const char *symbol) const { return dlsym(handle, symbol); }

void *EngineLibrary::address(const char *symbol) const {
  if (void *found = dlsym(handle, symbol))
    return found;
  throw DeviceError(std::string(engine) + ": " + path + " has no function " + symbol);
}

} // namespace runtime
} // namespace sectile
