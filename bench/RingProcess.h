// One process of a ring that mpirun started, as the words of its command line name it.
#pragma once
#include <sectile/communicator.h>
#include <sectile/device.h>
#include <string>

namespace sectile {

struct RingProcess {
  Communicator all = Communicator::mpi();
  std::string deviceName;
  Device device;
  Communicator ring = all; // by the engine that was asked for

  // Device "cuda" is the process's own, and engine is mpi or nccl, whose id goes through MPI.
  RingProcess(const std::string &name, const std::string &engine)
      : deviceName(name == "cuda" ? "cuda:" + std::to_string(all.rank()) : name),
        device(Device::open(deviceName)) {
    if (engine != "nccl")
      return;
    Communicator::NcclId id{};
    if (all.rank() == 0)
      id = Communicator::nccl_id();
    all.broadcast(id);
    ring = Communicator::nccl(device, all.rank(), all.size(), id);
  }
};

} // namespace sectile
