// MPI as a communicator: Open MPI's library, its few functions and types that are used declared
// here. Device memory goes through host memory, so that any MPI will do; the network works while
// the device computes.
#include "runtime/communicator/CommunicatorImpl.h"
#include <climits>
#include <cstdlib>
#include <mutex>
#include <sectile/error.h>

namespace sectile {
namespace {

using runtime::EngineLibrary;
using MpiHandle = void *; // Open MPI's communicators, types and requests

struct Mpi {
  EngineLibrary library{"MPI", "SECTILE_MPI_LIBRARY", "libmpi.so.40"};
  int (*Initialized)(int *);
  int (*Finalized)(int *);
  int (*InitThread)(int *, char ***, int, int *);
  int (*Finalize)();
  int (*CommRank)(MpiHandle, int *);
  int (*CommSize)(MpiHandle, int *);
  int (*Isend)(const void *, int, MpiHandle, int, int, MpiHandle, MpiHandle *);
  int (*Irecv)(void *, int, MpiHandle, int, int, MpiHandle, MpiHandle *);
  int (*Waitall)(int, MpiHandle *, void *);
  int (*Allgather)(const void *, int, MpiHandle, void *, int, MpiHandle, MpiHandle);
  int (*Bcast)(void *, int, MpiHandle, int, MpiHandle);
  int (*ErrorString)(int, char *, int *);
  MpiHandle world = nullptr, byte = nullptr;

  Mpi() {
    if (!library.has("ompi_mpi_comm_world"))
      throw DeviceError("MPI: the library is not Open MPI's, the only one that is known so far");
    world = library.address("ompi_mpi_comm_world");
    byte = library.address("ompi_mpi_byte");
    library.find(Initialized, "MPI_Initialized");
    library.find(Finalized, "MPI_Finalized");
    library.find(InitThread, "MPI_Init_thread");
    library.find(Finalize, "MPI_Finalize");
    library.find(CommRank, "MPI_Comm_rank");
    library.find(CommSize, "MPI_Comm_size");
    library.find(Isend, "MPI_Isend");
    library.find(Irecv, "MPI_Irecv");
    library.find(Waitall, "MPI_Waitall");
    library.find(Allgather, "MPI_Allgather");
    library.find(Bcast, "MPI_Bcast");
    library.find(ErrorString, "MPI_Error_string");
    int started = 0;
    check(Initialized(&started), "asking whether it is initialised");
    if (started)
      return;
    constexpr int funneled = 1;
    int provided = 0;
    check(InitThread(nullptr, nullptr, funneled, &provided), "initialising");
    std::atexit([] {
      int ended = 0;
      get().Finalized(&ended);
      if (!ended)
        get().Finalize();
    });
  }

  void check(int status, const char *what) const {
    if (status == 0)
      return;
    char text[512] = "";
    int length = 0;
    ErrorString(status, text, &length);
    throw DeviceError(std::string("MPI: ") + what + ": " + text);
  }

  // Never destroyed: it is used when the process ends.
  static Mpi &get() {
    static Mpi &mpi = *new Mpi;
    return mpi;
  }
};

// Counts of MPI are ints: long messages go in several.
constexpr std::size_t longest = std::size_t{1} << 30;

class MpiTransfer : public runtime::TransferImpl {
public:
  struct Part {
    detail::Memory target;
    std::vector<std::byte> sent, received;
  };
  std::vector<Part> parts;
  std::vector<MpiHandle> requests;

  ~MpiTransfer() override { finish(); }

  void wait(const Stream &) override {
    Mpi::get().check(finish(), "waiting for a message");
    for (const Part &part : parts)
      if (!part.received.empty())
        part.target.upload(part.received.data());
    parts.clear();
  }

private:
  int finish() {
    if (requests.empty())
      return 0;
    const int status =
        Mpi::get().Waitall(static_cast<int>(requests.size()), requests.data(), nullptr);
    requests.clear();
    return status;
  }
};

class MpiCommunicator : public runtime::CommunicatorImpl {
public:
  MpiCommunicator() {
    mpi.check(mpi.CommRank(mpi.world, &rank), "asking for the rank");
    mpi.check(mpi.CommSize(mpi.world, &size), "asking how many processes there are");
  }

  std::vector<int64_t> allGather(int64_t value) override {
    std::vector<int64_t> values(static_cast<size_t>(size));
    mpi.check(mpi.Allgather(&value, sizeof value, mpi.byte, values.data(), sizeof value, mpi.byte,
                            mpi.world),
              "gathering");
    return values;
  }

  void broadcast(std::span<std::byte> bytes) override {
    for (size_t at = 0; at < bytes.size(); at += longest)
      mpi.check(mpi.Bcast(bytes.data() + at, static_cast<int>(std::min(longest, bytes.size() - at)),
                          mpi.byte, 0, mpi.world),
                "broadcasting");
  }

  std::shared_ptr<runtime::TransferImpl> exchange(const Stream &stream,
                                                  std::span<const Communicator::Message> messages,
                                                  int to, int from) override {
    auto transfer = std::make_shared<MpiTransfer>();
    stream.synchronize();
    for (size_t i = 0; i < messages.size(); ++i) {
      const auto &[source, target] = messages[i];
      auto &part = transfer->parts.emplace_back(MpiTransfer::Part{
          target, std::vector<std::byte>(source.bytes()), std::vector<std::byte>(target.bytes())});
      if (!part.sent.empty())
        source.download(part.sent.data());
    }
    for (size_t i = 0; i < messages.size(); ++i) {
      MpiTransfer::Part &part = transfer->parts[i];
      const int tag = static_cast<int>(i);
      for (size_t at = 0; at < part.received.size(); at += longest)
        mpi.check(mpi.Irecv(part.received.data() + at,
                            static_cast<int>(std::min(longest, part.received.size() - at)),
                            mpi.byte, from, tag, mpi.world,
                            &transfer->requests.emplace_back(nullptr)),
                  "receiving");
      for (size_t at = 0; at < part.sent.size(); at += longest)
        mpi.check(mpi.Isend(part.sent.data() + at,
                            static_cast<int>(std::min(longest, part.sent.size() - at)), mpi.byte,
                            to, tag, mpi.world, &transfer->requests.emplace_back(nullptr)),
                  "sending");
    }
    return transfer;
  }

private:
  Mpi &mpi = Mpi::get();
};

} // namespace

Communicator Communicator::mpi() { return Communicator(std::make_shared<MpiCommunicator>()); }

} // namespace sectile
