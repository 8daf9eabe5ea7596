// NCCL as a communicator: device to device, in a stream of its own.
#include "runtime/DeviceImpl.h"
#include "runtime/communicator/CommunicatorImpl.h"
#include <cstring>
#include <sectile/error.h>

namespace sectile {
namespace {

using runtime::EngineLibrary;
using NcclComm = struct NcclCommunicator *;

struct Nccl {
  EngineLibrary library{"NCCL", "SECTILE_NCCL_LIBRARY", "libnccl.so.2"};
  int (*GetUniqueId)(Communicator::NcclId *);
  int (*CommInitRank)(NcclComm *, int, Communicator::NcclId, int);
  int (*CommDestroy)(NcclComm);
  int (*GroupStart)();
  int (*GroupEnd)();
  int (*Send)(const void *, size_t, int, int, NcclComm, void *);
  int (*Recv)(void *, size_t, int, int, NcclComm, void *);
  int (*AllGather)(const void *, void *, size_t, int, NcclComm, void *);
  int (*Broadcast)(const void *, void *, size_t, int, int, NcclComm, void *);
  const char *(*GetErrorString)(int);

  static constexpr int bytes = 0; // ncclInt8

  Nccl() {
    library.find(GetUniqueId, "ncclGetUniqueId");
    library.find(CommInitRank, "ncclCommInitRank");
    library.find(CommDestroy, "ncclCommDestroy");
    library.find(GroupStart, "ncclGroupStart");
    library.find(GroupEnd, "ncclGroupEnd");
    library.find(Send, "ncclSend");
    library.find(Recv, "ncclRecv");
    library.find(AllGather, "ncclAllGather");
    library.find(Broadcast, "ncclBroadcast");
    library.find(GetErrorString, "ncclGetErrorString");
  }

  void check(int status, const char *what) const {
    if (status != 0)
      throw DeviceError(std::string("NCCL: ") + what + ": " + GetErrorString(status));
  }

  static Nccl &get() {
    static Nccl &nccl = *new Nccl;
    return nccl;
  }
};

void *pointer(const detail::Memory &memory) {
  return reinterpret_cast<void *>(static_cast<uintptr_t>(memory.address()));
}

class NcclTransfer : public runtime::TransferImpl {
public:
  NcclTransfer(Event done, std::span<const Communicator::Message> messages)
      : done(std::move(done)), messages(messages.begin(), messages.end()) {}
  void wait(const Stream &stream) override { stream.wait(done); }

private:
  Event done;
  std::vector<Communicator::Message> messages; // keeps the memory
};

class NcclRing : public runtime::CommunicatorImpl {
public:
  NcclRing(const Device &device, int place, int count, const Communicator::NcclId &id)
      : device(device), stream(device.new_stream()) {
    rank = place;
    size = count;
    const auto current = device.impl()->makeCurrent();
    nccl.check(nccl.CommInitRank(&comm, count, id, place), "joining the other processes");
  }
  ~NcclRing() override {
    if (device.impl()->isLost())
      return;
    const auto current = device.impl()->makeCurrent();
    nccl.CommDestroy(comm);
  }

  std::vector<int64_t> allGather(int64_t value) override {
    const detail::Memory own(device, sizeof value),
        all(device, sizeof value * static_cast<size_t>(size));
    own.upload(&value);
    const auto current = device.impl()->makeCurrent();
    nccl.check(nccl.AllGather(pointer(own), pointer(all), sizeof value, Nccl::bytes, comm,
                              stream.native()),
               "gathering");
    stream.synchronize();
    std::vector<int64_t> values(static_cast<size_t>(size));
    all.download(values.data());
    return values;
  }

  void broadcast(std::span<std::byte> bytes) override {
    const detail::Memory memory(device, bytes.size());
    memory.upload(bytes.data());
    const auto current = device.impl()->makeCurrent();
    nccl.check(nccl.Broadcast(pointer(memory), pointer(memory), bytes.size(), Nccl::bytes, 0, comm,
                              stream.native()),
               "broadcasting");
    stream.synchronize();
    memory.download(bytes.data());
  }

  std::shared_ptr<runtime::TransferImpl> exchange(const Stream &after,
                                                  std::span<const Communicator::Message> messages,
                                                  int to, int from) override {
    stream.wait(after.record());
    const auto current = device.impl()->makeCurrent();
    nccl.check(nccl.GroupStart(), "beginning an exchange");
    for (const auto &[source, target] : messages) {
      if (source.bytes())
        nccl.check(
            nccl.Send(pointer(source), source.bytes(), Nccl::bytes, to, comm, stream.native()),
            "sending");
      if (target.bytes())
        nccl.check(
            nccl.Recv(pointer(target), target.bytes(), Nccl::bytes, from, comm, stream.native()),
            "receiving");
    }
    nccl.check(nccl.GroupEnd(), "exchanging");
    if (const auto capture = device.impl()->captures.of(*stream.impl()))
      for (const auto &[source, target] : messages) {
        device.impl()->captures.keep(*capture, source.address());
        device.impl()->captures.keep(*capture, target.address());
      }
    return std::make_shared<NcclTransfer>(stream.record(), messages);
  }

private:
  Nccl &nccl = Nccl::get();
  const Device device;
  const Stream stream;
  NcclComm comm = nullptr;
};

} // namespace

Communicator::NcclId Communicator::nccl_id() {
  NcclId id;
  Nccl::get().check(Nccl::get().GetUniqueId(&id), "making an id");
  return id;
}

Communicator Communicator::nccl(const Device &device, int rank, int size, const NcclId &id) {
  if (!device.name().starts_with("cuda:"))
    throw LaunchError("NCCL joins CUDA devices, not " + device.name());
  if (size < 1 || rank < 0 || rank >= size)
    throw LaunchError("there is no process " + std::to_string(rank) + " among " +
                      std::to_string(size));
  return Communicator(std::make_shared<NcclRing>(device, rank, size, id));
}

} // namespace sectile
