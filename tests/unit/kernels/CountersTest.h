// What a kernel's launches move, by the virtual GPU's counters: exact numbers, so that performance
// is tested as results are.
#pragma once
#include "KernelTest.h"
#include "kernels/calls/Use.h"
#include "runtime/LaunchAccess.h"
#include "vgpu/VirtualDevice.h"
#include <regex>

namespace sectile::test {

using vgpu::AccessCounters;
using vgpu::Counters;

class CountersTest : public OnDevice {
protected:
  void SetUp() override {
    if (!device.name().starts_with("virtual:"))
      GTEST_SKIP() << "only virtual GPUs count";
    machine().countAccesses();
  }
  runtime::VirtualDevice &machine() const {
    return static_cast<runtime::VirtualDevice &>(*device.impl());
  }
  Counters lastCounters() const { return machine().lastCounters(); }

  /// What a launch counted, and the bytes that it read of each argument, in sectors. What the
  /// call's launches leave for each other is "scratch".
  struct Counted : Counters {
    std::map<std::string, std::uint64_t> read;
  };
  /// Of a case's launches, in order, with their kernels' names. All run: later ones may need what
  /// earlier ones leave.
  std::vector<std::pair<std::string, Counted>> countAll(const KernelCase &test) {
    const Invocation call = resolveCase(test);
    auto inputs = sampleInputs(call, test.seed);
    if (test.prepare)
      test.prepare(call, inputs);
    std::vector<detail::Memory> memory;
    for (std::size_t i = 0; i < call.tensors.size(); ++i) {
      const HostArray array =
          i < inputs.size() ? inputs[i] : HostArray(call.tensors[i].dtype, call.tensors[i].shape);
      memory.emplace_back();
      if (!call.tensors[i].present)
        continue;
      memory.back() = detail::Memory(device, array.data.size());
      memory.back().upload(array.data.data());
    }
    std::map<std::uint64_t, std::string> names;
    for (std::size_t i = 0; i < call.tensors.size(); ++i)
      if (call.tensors[i].present)
        names[memory[i].address()] = call.kernel->arguments[i].name;
    std::vector<std::pair<std::string, Counted>> counted;
    for (const detail::BoundLaunch &each : bindKernel(call, configOf(test), memory).launches) {
      runtime::LaunchAccess::launch(each, device.stream());
      device.synchronize();
      Counted &counters =
          counted.emplace_back(each.kernel->name(), Counted{lastCounters(), {}}).second;
      for (const vgpu::AllocationCounters &each : machine().lastAllocations()) {
        const auto name = names.find(each.address);
        counters.read[name == names.end() ? "scratch" : name->second] += 32 * each.sectorsRead;
      }
    }
    return counted;
  }
  /// Of the launch of this name, or of the last one.
  Counted count(const KernelCase &test, std::string_view launch = "") {
    const auto counted = countAll(test);
    for (const auto &[name, counters] : counted)
      if (name == launch)
        return counters;
    if (!launch.empty())
      ADD_FAILURE() << "there is no launch " << launch;
    return counted.back().second;
  }
  Config configOf(const KernelCase &test) {
    return completeConfig(resolveCase(test), device.target(), test.config);
  }

  /// Bytes that were read, in sectors: what all lanes of a warp read together counts once.
  static std::uint64_t readBytes(const Counters &counters) {
    return 32 * (counters.globalLoad.sectors + counters.asyncCopy.sectors);
  }
  static void expectCoalesced(const Counters &counters) {
    for (const AccessCounters *access :
         {&counters.globalLoad, &counters.globalStore, &counters.asyncCopy})
      EXPECT_EQ(access->sectors, access->idealSectors) << counters.text();
  }
  static void expectNoConflicts(const Counters &counters) {
    for (const AccessCounters *access :
         {&counters.sharedLoad, &counters.sharedStore, &counters.asyncCopy})
      EXPECT_EQ(access->wavefronts, access->idealWavefronts) << counters.text();
  }
  /// `again`: bytes that may be read or not, as several warps share them.
  static void expectRead(const Counters &counters, std::uint64_t read, std::uint64_t again = 0) {
    EXPECT_GE(readBytes(counters), read) << counters.text();
    EXPECT_LE(readBytes(counters), read + again) << counters.text();
    expectCoalesced(counters);
  }
  /// Of each of these arguments, which the bound above would let be read again.
  static void expectReadOf(const Counted &counters,
                           const std::map<std::string, std::uint64_t> &bytes) {
    for (const auto &[argument, expected] : bytes)
      EXPECT_EQ(counters.read.at(argument), expected) << argument << "\n" << counters.text();
  }
  static void expectMoved(const Counters &counters, std::uint64_t read, std::uint64_t written) {
    expectRead(counters, read);
    EXPECT_EQ(counters.globalStore.bytes, written) << counters.text();
  }
  /// Multiplications and additions that matrix instructions do.
  static void expectProducts(const Counters &counters, std::uint64_t products) {
    // The first three numbers of an instruction's name that a letter stands between.
    static const std::regex extents("[.m]([0-9]+)[nx]([0-9]+)[kx]([0-9]+)");
    std::uint64_t multiplied = 0;
    for (const auto &kind : counters.mmaKinds) {
      std::smatch of;
      ASSERT_TRUE(std::regex_search(kind.name, of, extents)) << kind.name;
      multiplied += kind.count * std::stoul(of[1]) * std::stoul(of[2]) * std::stoul(of[3]);
    }
    EXPECT_EQ(multiplied, products) << counters.text();
  }
};

} // namespace sectile::test
