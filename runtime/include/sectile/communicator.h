// Communicator: processes that pass device memory to each other, one device each. The engine is an
// existing one, opened at run time: MPI or NCCL.
#pragma once
#include <array>
#include <cstddef>
#include <memory>
#include <sectile/buffer.h>
#include <span>
#include <vector>

namespace sectile {

namespace runtime {
class CommunicatorImpl;
class TransferImpl;
} // namespace runtime

// Memory on its way. What is sent and what is received must stay as it is until then.
class Transfer {
public:
  // What comes next in the stream starts after all has been sent and received. Once, and before
  // the transfer ends.
  void wait(const Stream &stream) const;

  explicit Transfer(std::shared_ptr<runtime::TransferImpl> impl) : impl_(std::move(impl)) {}

private:
  std::shared_ptr<runtime::TransferImpl> impl_;
};

// A handle: copies are the same communicator. Every process calls its functions in the same order.
class Communicator {
public:
  // All processes that mpirun started. The library is libmpi.so, or what SECTILE_MPI_LIBRARY names;
  // it is initialised, and finalised when the process ends, unless the program has done so. Open
  // MPI only. Memory of devices goes through the host.
  static Communicator mpi();

  // NCCL between CUDA devices. The id is made by one process and passed to the others by the
  // program's own means (Communicator::mpi().broadcast, a file). The library is libnccl.so.2, or
  // what SECTILE_NCCL_LIBRARY names.
  using NcclId = std::array<std::byte, 128>;
  static NcclId nccl_id();
  static Communicator nccl(const Device &device, int rank, int size, const NcclId &id);

  // One process alone.
  static Communicator single();

  int rank() const; // of this process, from 0
  int size() const;

  // A number of each process, known to all afterwards; waits for all.
  std::vector<std::int64_t> all_gather(std::int64_t value) const;
  // Bytes of process 0, to all; waits for all.
  void broadcast(std::span<std::byte> bytes) const;

  struct Message {
    detail::Memory source, target; // what is sent, and where to put what is received
  };
  // Starts to send to one process and to receive from another what is in the stream by now. The
  // targets are as long as what is sent to them.
  Transfer exchange(const Stream &stream, std::span<const Message> messages, int to,
                    int from) const;

  explicit Communicator(std::shared_ptr<runtime::CommunicatorImpl> impl) : impl_(std::move(impl)) {}

private:
  std::shared_ptr<runtime::CommunicatorImpl> impl_;
};

} // namespace sectile
