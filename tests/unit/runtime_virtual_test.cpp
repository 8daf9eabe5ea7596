// The virtual GPU behind the public interface: memory, launches, findings as errors, graphs.
#include "VirtualTest.h"
#include "tests/unit/Message.h"
#include "vgpu/VirtualDevice.h"
#include <cstdlib>
#include <gmock/gmock.h>
#include <sectile/buffer.h>

using namespace sectile;
using sectile::test::message;
using testing::ElementsAre;
using testing::HasSubstr;

namespace {

// Without a CUDA driver, whatever the machine has.
const bool withoutCuda = setenv("SECTILE_CUDA_LIBRARY", "", 1) == 0;

// z[i] = x[i] + x[i] for i < n.
const char twice[] = R"(
define ptx_kernel void @twice(ptr addrspace(1) %x, ptr addrspace(1) %z, i32 %n) #0 !dbg !4 {
  %tid = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %ntid = call i32 @llvm.nvvm.read.ptx.sreg.ntid.x()
  %ctaid = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %base = mul i32 %ctaid, %ntid
  %i = add i32 %base, %tid
  %inside = icmp slt i32 %i, %n
  br i1 %inside, label %body, label %exit
body:
  %px = getelementptr float, ptr addrspace(1) %x, i32 %i
  %pz = getelementptr float, ptr addrspace(1) %z, i32 %i
  %a = load float, ptr addrspace(1) %px, align 4, !dbg !5
  %c = fadd float %a, %a
  store float %c, ptr addrspace(1) %pz, align 4, !dbg !5
  br label %exit
exit:
  ret void
}
attributes #0 = { "target-cpu"="sm_90a" "target-features"="+ptx80" }
!llvm.dbg.cu = !{!0}
!llvm.module.flags = !{!3}
!0 = distinct !DICompileUnit(language: DW_LANG_C_plus_plus, file: !1, emissionKind: LineTablesOnly)
!1 = !DIFile(filename: "kernel.cpp", directory: "/")
!3 = !{i32 2, !"Debug Info Version", i32 3}
!4 = distinct !DISubprogram(name: "twice", file: !1, line: 1, type: !DISubroutineType(types: !{}), unit: !0, spFlags: DISPFlagDefinition)
!5 = !DILocation(line: 11, column: 3, scope: !4)
)";

class RuntimeVirtual : public testing::Test {
protected:
  static Artifact artifact() {
    Artifact result;
    llvm::Expected<vgpu::VirtualObject> object =
        vgpu::compileText(std::string(vgpu::nvidiaHead) + twice);
    EXPECT_TRUE(static_cast<bool>(object));
    result.target = "sm_90a";
    result.kind = "virtual";
    result.entry = "twice";
    result.bytes = object->serialize();
    result.plan.threads = 32;
    return result;
  }
  void launch(uint64_t x, uint64_t z, uint64_t n, const Stream &stream, unsigned blocks = 1) {
    void *arguments[] = {&x, &z, &n};
    device.impl()->launch(*kernel, {blocks, 1, 1}, arguments, stream.native());
  }
  static uint64_t address(const Buffer<float> &buffer) { return buffer.memory().address(); }

  Device device = Device::open("virtual:sm_90a");
  std::shared_ptr<runtime::LoadedKernel> kernel = device.impl()->load(artifact());
};

// As programs that use one for CUDA give it: a stream like others, but for captures.
TEST_F(RuntimeVirtual, TheNullStreamIsTheDefaultOne) {
  const Stream stream = Stream::wrap(device, nullptr);
  auto x = device.upload(std::vector<float>(32, 1.5f)), z = device.allocate<float>(32);
  launch(address(x), address(z), 32, stream);
  stream.synchronize();
  EXPECT_EQ(z.download(), std::vector<float>(32, 3.0f));
  const Event event = stream.record();
  stream.wait(event);
  stream.wait(device.stream().record());
  event.synchronize();
  EXPECT_TRUE(event.done());
  EXPECT_THAT(message<DeviceError>([&] { stream.begin_capture(); }),
              HasSubstr("the default stream cannot be captured"));
  EXPECT_THAT(message<DeviceError>([&] { stream.end_capture(); }), HasSubstr("ending a capture"));
  const Stream captured = device.new_stream();
  captured.begin_capture();
  const Event inCapture = captured.record();
  EXPECT_THAT(message<DeviceError>([&] { stream.wait(inCapture); }),
              HasSubstr("the default stream cannot be captured"));
  captured.end_capture().launch(stream);
}

TEST_F(RuntimeVirtual, IsTheDeviceWhereThereIsNoOther) {
  EXPECT_EQ(Device::best(), device);
  EXPECT_EQ(device.name(), "virtual:sm_90a");
  EXPECT_EQ(device.description(), "virtual sm_90a");
  EXPECT_EQ(device.target(), "sm_90a");
  EXPECT_EQ(device.limits().max_shared_bytes, 227u * 1024);
  EXPECT_EQ(Device::open("virtual:gfx942").limits().warp_size, 64u);
  EXPECT_THAT(Device::all(), testing::SizeIs(testing::Ge(8u)));
  EXPECT_THAT(message<DeviceError>([] { Device::open("virtual:sm_1"); }),
              testing::AllOf(HasSubstr("unknown target 'sm_1'"), HasSubstr("gfx942")));
  EXPECT_THAT(message<DeviceError>([] { Device::open("virtual"); }),
              HasSubstr("unknown target ''"));
  EXPECT_THAT(message<DeviceError>([] { Device::open("cuda:0"); }),
              HasSubstr("CUDA is switched off"));
}

TEST_F(RuntimeVirtual, SecondNameOfABestDevice) {
  setenv("SECTILE_DEVICE", "virtual:gfx1100", 1);
  EXPECT_EQ(Device::best().target(), "gfx1100");
  setenv("SECTILE_DEVICE", "nonsense", 1);
  EXPECT_THROW(Device::best(), DeviceError);
  unsetenv("SECTILE_DEVICE");
}

TEST_F(RuntimeVirtual, TheEnvironmentSetsADeadline) {
  setenv("SECTILE_VIRTUAL_DEADLINE", "1e-9", 1);
  runtime::VirtualDevice hurried("sm_90a");
  unsetenv("SECTILE_VIRTUAL_DEADLINE");
  const auto loaded = hurried.load(artifact());
  uint64_t x = 0, z = 0, n = 0;
  void *arguments[] = {&x, &z, &n};
  EXPECT_THAT(message<runtime::DeadlinePassed>(
                  [&] { hurried.launch(*loaded, {2, 1, 1}, arguments, nullptr); }),
              testing::AllOf(HasSubstr("kernel twice"),
                             HasSubstr("timed out: the launch did not end within 1e-09 s"),
                             HasSubstr("0 of 2 blocks have ended")));
}

TEST_F(RuntimeVirtual, MemoryIsUploadedFilledAndCopied) {
  auto buffer = device.upload(std::vector<double>{1, 2, 3});
  buffer.slice(1, 1).fill(7.5);
  auto copy = device.allocate<double>(3);
  copy.copy_from(buffer);
  EXPECT_THAT(copy.download(), ElementsAre(1, 7.5, 3));
  const size_t before = device.memory().free_bytes;
  {
    auto more = device.allocate<char>(1 << 20);
    EXPECT_EQ(before - device.memory().free_bytes, size_t{1} << 20);
  }
  EXPECT_EQ(device.memory().free_bytes, before);
  EXPECT_THAT(message<DeviceError>([&] { device.allocate<char>(size_t{1} << 60); }),
              HasSubstr("allocating"));
}

TEST_F(RuntimeVirtual, LaunchesAndCounts) {
  auto x = device.upload(std::vector<float>(50, 2.0f)), z = device.allocate<float>(50);
  auto &impl = static_cast<runtime::VirtualDevice &>(*device.impl());
  impl.countAccesses();
  launch(address(x), address(z), 50, device.stream(), 2);
  EXPECT_EQ(z.download(), std::vector<float>(50, 4.0f));
  EXPECT_EQ(impl.lastCounters().blocks, 2u);
  EXPECT_EQ(impl.lastCounters().globalLoad.bytes, 200u);
}

TEST_F(RuntimeVirtual, AFindingIsAnErrorWithTheUsersLine) {
  auto x = device.upload(std::vector<float>(31, 2.0f)), z = device.allocate<float>(32);
  try {
    launch(address(x), address(z), 32, device.stream());
    FAIL() << "nothing was thrown";
  } catch (const runtime::FoundFault &fault) {
    EXPECT_THAT(fault.what(), HasSubstr("virtual:sm_90a: kernel twice, kernel.cpp:11"));
    EXPECT_EQ(fault.finding.kind, vgpu::FindingKind::OutOfBounds);
    EXPECT_EQ(fault.finding.thread, 31u);
  }
}

TEST_F(RuntimeVirtual, ChecksCanBeSwitchedOff) {
  auto &impl = static_cast<runtime::VirtualDevice &>(*device.impl());
  auto x = device.upload(std::vector<float>(31, 2.0f)), z = device.allocate<float>(32);
  vgpu::LaunchOptions options;
  options.checks = false;
  impl.setOptions(options);
  launch(address(x), address(z), 32, device.stream());
  impl.setOptions({});
  EXPECT_THROW(launch(address(x), address(z), 32, device.stream()), runtime::FoundFault);
}

TEST_F(RuntimeVirtual, GraphsKeepTheirArguments) {
  auto x = device.upload(std::vector<float>{1, 2});
  Stream stream = device.new_stream();
  stream.begin_capture();
  launch(address(x), address(x), 2, stream);
  EXPECT_THAT(message<DeviceError>([&] { stream.synchronize(); }), HasSubstr("being captured"));
  EXPECT_THAT(message<DeviceError>([&] { stream.begin_capture(); }), HasSubstr("captured already"));
  Graph graph = stream.end_capture();
  EXPECT_THAT(message<DeviceError>([&] { stream.end_capture(); }), HasSubstr("not being captured"));
  EXPECT_THAT(x.download(), ElementsAre(1, 2));
  graph.launch(stream);
  graph.launch(device.stream());
  EXPECT_THAT(x.download(), ElementsAre(4, 8));
}

// Launches below Kernel, too, which keeps its code itself.
TEST_F(RuntimeVirtual, GraphsKeepTheirKernelsAndNeedNoEvents) {
  const auto x = device.upload(std::vector<float>{1, 2});
  const std::weak_ptr<runtime::LoadedKernel> code = kernel;
  const Stream stream = device.new_stream(), other = device.new_stream();
  {
    stream.begin_capture();
    other.wait(stream.record());
    launch(address(x), address(x), 2, other);
    stream.wait(other.record());
    const Graph graph = stream.end_capture();
    kernel = nullptr;
    graph.launch(stream);
    EXPECT_THAT(x.download(), ElementsAre(2, 4));
  }
  EXPECT_TRUE(code.expired());
}

TEST_F(RuntimeVirtual, TakesMemoryOfAnAllocatorOfTheUsers) {
  std::vector<float> arena(4);
  std::size_t taken = 0;
  device.set_allocator({[&](std::size_t bytes, void *) {
                          taken += bytes;
                          return reinterpret_cast<std::uint64_t>(arena.data());
                        },
                        [&](std::uint64_t, std::size_t bytes, void *) { taken -= bytes; }});
  {
    const auto x = device.upload(std::vector<float>{1, 2, 3, 4});
    device.set_allocator({});
    EXPECT_EQ(x.data(), arena.data());
    EXPECT_EQ(taken, 16u);
    launch(address(x), address(x), 4, device.stream());
    EXPECT_THAT(arena, ElementsAre(2, 4, 6, 8));
  }
  EXPECT_EQ(taken, 0u);
}

TEST_F(RuntimeVirtual, CopiesOfHostMemoryAreWorkInAStream) {
  const Stream stream = device.new_stream();
  const auto x = device.upload(std::vector<float>{0, 0});
  auto from = device.allocate_host<float>(2);
  const auto to = device.allocate_host<float>(2);
  from[0] = 1, from[1] = 2;
  stream.begin_capture();
  x.upload(from, stream);
  launch(address(x), address(x), 2, stream);
  x.download(to, stream);
  const Graph graph = stream.end_capture();
  from = {};
  EXPECT_THAT(x.download(), ElementsAre(0, 0));
  graph.launch(stream);
  EXPECT_THAT(std::vector<float>(to.begin(), to.end()), ElementsAre(2, 4));
}

TEST_F(RuntimeVirtual, EventsMeasure) {
  Event start = device.stream().record_timed(), end = device.stream().record_timed();
  EXPECT_GE(elapsed_ms(start, end), 0.0f);
  EXPECT_TRUE(end.done());
  device.stream().wait(end);
}

TEST_F(RuntimeVirtual, RefusesWhatItCannotRun) {
  Artifact other = artifact();
  other.kind = "ptx";
  EXPECT_THAT(message<DeviceError>([&] { device.impl()->load(other); }),
              HasSubstr("of the kind 'ptx'"));
  other = artifact();
  other.bytes.resize(other.bytes.size() / 2);
  EXPECT_THAT(message<DeviceError>([&] { device.impl()->load(other); }),
              HasSubstr("cannot load kernel 'twice'"));
  other = artifact();
  other.plan.sharedBytes = 228 * 1024;
  EXPECT_EQ(message<LaunchError>([&] { device.impl()->load(other); }),
            "kernel 'twice' needs 228 KiB of shared memory, sm_90a has 227 KiB: lower the stages "
            "or the tile's extents");
  auto x = device.allocate<float>(1);
  launch(address(x), address(x), 1, device.stream(), 0); // an empty grid
  EXPECT_THAT(message<DeviceError>([&] { device.impl()->copyToHost(nullptr, address(x) + 4, 4); }),
              HasSubstr("not inside one allocation"));
}

} // namespace
