// What a communicator's engine must do.
#ifndef SECTILE_RUNTIME_COMMUNICATOR_COMMUNICATORIMPL_H
#define SECTILE_RUNTIME_COMMUNICATOR_COMMUNICATORIMPL_H

#include <sectile/communicator.h>

namespace sectile::runtime {

class TransferImpl {
public:
  virtual ~TransferImpl() = default;
  virtual void wait(const Stream &stream) = 0;
};

class CommunicatorImpl {
public:
  int rank = 0, size = 1;

  virtual ~CommunicatorImpl() = default;
  virtual std::vector<int64_t> allGather(int64_t value) = 0;
  virtual void broadcast(std::span<std::byte> bytes) = 0;
  virtual std::shared_ptr<TransferImpl> exchange(const Stream &stream,
                                                 std::span<const Communicator::Message> messages,
                                                 int to, int from) = 0;
};

/// A library that was opened, for good. Throws DeviceError with the reason where it is not there.
class EngineLibrary {
public:
  EngineLibrary(const char *engine, const char *variable, const char *usual);

  template <class F> void find(F &function, const char *symbol) const {
    function = reinterpret_cast<F>(address(symbol));
  }
  void *address(const char *symbol) const; ///< throws DeviceError where there is none
  bool has(const char *symbol) const;

private:
  const char *engine;
  std::string path;
  void *handle;
};

} // namespace sectile::runtime

#endif
