// Kernels through their public face, over the fake CUDA driver: what a launch takes, what it is
// specialised to, what a known specialisation costs.
#include "count_allocations.h"
#include "jit/CodeAccess.h"
#include "jit/CompileCache.h"
#include "tests/fake/fake_cuda.h"
#include "tests/unit/Message.h"
#include <atomic>
#include <cstdlib>
#include <dlfcn.h>
#include <dlpack/dlpack.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sectile/sectile.h>
#include <thread>

using namespace sectile;
using sectile::test::message;
using testing::HasSubstr;
using testing::Not;

namespace {

const bool chosen = setenv("SECTILE_CUDA_LIBRARY", SECTILE_FAKE_CUDA, 1) == 0 &&
                    setenv("SECTILE_CACHE_DIR", "", 1) == 0;

struct Block {
  int size = 128;
  int warps = 4;
};
SECTILE_CONFIG(Block, size, warps)

Kernel add{"fake_add",
           [](Ptr<const float> x, Ptr<const float> y, Ptr<float> z, Int n, const Block &block) {
             auto i = program_id(0) * block.size + arange(0, block.size);
             auto inside = i < n;
             store(z + i, load(x + i, inside) + load(y + i, inside), inside);
           }};

template <class T>
Kernel copy{"copy",
            [](View<const T, 2> from, View<T, 2> to, Tile<float> scale, Tile<std::int16_t> step) {
              store(to.ptr(), load(from.ptr()) * scale + step);
            }};

Kernel inPairs{"in_pairs", [](Ptr<float> x) {
                 program_clusters(2);
                 store(x, program_id(0) + program_id(1) * num_programs(2));
               }};

uint64_t compiled() {
  const auto counts = runtime::CompileCache::get().counts();
  return counts.compiles + counts.memoryHits;
}

FakeLaunch lastLaunch() {
  static void *library = dlopen(SECTILE_FAKE_CUDA, RTLD_NOW);
  return reinterpret_cast<decltype(&fakeCudaLastLaunch)>(dlsym(library, "fakeCudaLastLaunch"))();
}
int calls(const char *symbol) {
  static void *library = dlopen(SECTILE_FAKE_CUDA, RTLD_NOW);
  return reinterpret_cast<decltype(&fakeCudaCalls)>(dlsym(library, "fakeCudaCalls"))(symbol);
}

class KernelLaunch : public testing::Test {
protected:
  Device device = Device::open("cuda:0");
  Buffer<float> x = device.upload(std::vector<float>(64, 1.0f)),
                y = device.upload(std::vector<float>(64, 2.0f)), z = device.allocate<float>(64);
};

TEST_F(KernelLaunch, PassesItsArguments) {
  add.launch(device.stream(), {1}, x, y, z, 64, {.size = 128});
  EXPECT_EQ(z.download(), std::vector<float>(64, 3.0f));
  EXPECT_EQ(lastLaunch().threads, 128u);
}

TEST_F(KernelLaunch, TakesWhatFits) {
  const std::span<float> span(y.data(), 64);
  add.launch(device.stream(), 1, x.data(), span, z, 64);
  const float *constant = x.data();
  add.launch(device.stream(), 1, constant, x, z.data(), std::size_t{64});
  EXPECT_EQ(z.download(), std::vector<float>(64, 2.0f));

  std::int64_t shape[] = {8, 8}, strides[] = {8, 1};
  DLTensor tensor{};
  tensor.data = x.data();
  tensor.device = {kDLCUDA, 0};
  tensor.ndim = 2;
  tensor.dtype = {kDLFloat, 32, 1};
  tensor.shape = shape;
  tensor.strides = strides;
  add.launch(device.stream(), 1, tensor, y, z, 64);
  EXPECT_EQ(z.download(), std::vector<float>(64, 3.0f));
  copy<float>.launch(device.stream(), 1, tensor, sectile::tensor(z, {8, 8}), 1, 2);
  tensor.strides = nullptr;
  copy<float>.launch(device.stream(), 1, tensor, sectile::tensor(z, {8, 8}).transpose(), 1.0, 2);
}

// A Ptr knows no strides: what it reads one after the other has to lie so.
TEST_F(KernelLaunch, PointersTakeDLPackTensorsThatAreDense) {
  DLTensor tensor{};
  tensor.data = x.data();
  tensor.device = {kDLCUDA, 0};
  tensor.dtype = {kDLFloat, 32, 1};
  const auto launch = [&](std::vector<std::int64_t> shape, std::vector<std::int64_t> strides) {
    tensor.ndim = static_cast<int>(shape.size());
    tensor.shape = shape.data();
    tensor.strides = strides.data();
    return message<LaunchError>([&] { add.launch(device.stream(), 1, tensor, y, z, 64); });
  };
  EXPECT_EQ(launch({2, 4}, {4, 1}), "nothing was thrown");
  EXPECT_EQ(launch({1, 4}, {77, 1}), "nothing was thrown");
  EXPECT_EQ(launch({4, 1}, {1, 0}), "nothing was thrown");
  EXPECT_EQ(launch({}, {}), "nothing was thrown");
  EXPECT_EQ(launch({0, 4}, {9, 9}), "nothing was thrown");
  EXPECT_EQ(launch({4}, {2}), "a Ptr takes a DLPack tensor whose elements lie one after the other "
                              "in row-major order, not one of extents [4] and strides [2]");
  EXPECT_THAT(launch({2, 4}, {1, 2}), HasSubstr("extents [2, 4] and strides [1, 2]"));
  EXPECT_THAT(launch({2, 4}, {8, 1}), HasSubstr("strides [8, 1]"));
  EXPECT_THAT(launch({4}, {-1}), HasSubstr("strides [-1]"));
}

TEST_F(KernelLaunch, TensorsGoToAnotherDevice) {
  const Device other = Device::open("cuda:1");
  std::vector<float> values(64);
  for (std::size_t i = 0; i < 64; ++i)
    values[i] = static_cast<float>(i);
  x.upload(values);
  const auto rows = tensor(x.slice(8, 16), {4, 4}).transpose();
  const auto copy = rows.to(other);
  EXPECT_EQ(copy.memory().device(), other);
  EXPECT_EQ(copy.download(), rows.download());
  EXPECT_EQ(rows.download()[1], 12);
  const auto back = copy.to(device);
  EXPECT_NE(back.data(), rows.data());
  EXPECT_EQ(back.download(), rows.download());
}

TEST_F(KernelLaunch, RefusesWhatDoesNot) {
  std::int64_t shape[] = {64};
  DLTensor tensor{};
  tensor.data = x.data();
  tensor.device = {kDLCUDA, 0};
  tensor.ndim = 1;
  tensor.dtype = {kDLFloat, 64, 1};
  tensor.shape = shape;
  auto launch = [&] { add.launch(device.stream(), 1, tensor, y, z, 64); };
  EXPECT_EQ(message<LaunchError>(launch),
            "a DLPack tensor of f64 was given where the kernel takes f32");
  tensor.dtype = {kDLFloat, 32, 4};
  EXPECT_EQ(message<LaunchError>(launch), "a DLPack tensor of type code 2 with 32 bits and 4 lanes "
                                          "was given where the kernel takes f32");
  tensor.dtype = {kDLFloat, 32, 1};
  tensor.device = {kDLCPU, 0};
  EXPECT_THAT(message<LaunchError>(launch),
              HasSubstr("argument 0 is a DLPack tensor on a device of the kind 1"));
  tensor.device = {kDLCUDA, 1};
  EXPECT_THAT(
      message<LaunchError>(launch),
      HasSubstr("argument 0 is a DLPack tensor on device 1 of its kind, cuda:0 is device 0"));
  tensor.device = {kDLCUDA, 0};
  EXPECT_EQ(message<LaunchError>([&] {
              copy<float>.launch(device.stream(), 1, tensor, sectile::tensor(z, {8, 8}), 1, 2);
            }),
            "a DLPack tensor of rank 1 was given where the kernel takes rank 2");

  auto elsewhere = Device::open("cuda:1").allocate<float>(64);
  EXPECT_EQ(message<LaunchError>([&] { add.launch(device.stream(), 1, x, elsewhere, z, 64); }),
            "kernel 'fake_add': argument 1 lies on cuda:1, the stream is one of cuda:0");
  EXPECT_EQ(message<LaunchError>([&] { add.launch(device.stream(), -1, x, y, z, 64); }),
            "argument -1 does not fit into an extent of a grid");
  EXPECT_EQ(message<LaunchError>([&] { add.launch(device.stream(), 1, x, y, z, ~0ull); }),
            "argument 18446744073709551615 does not fit into i64");
  auto square = sectile::tensor(z, {8, 8});
  EXPECT_EQ(message<LaunchError>(
                [&] { copy<float>.launch(device.stream(), 1, square, square, 1, 40000); }),
            "argument 40000 does not fit into i16");
}

// Devices take 65535 programs along y and z. A longer axis is launched as the first one, by code of
// its own, which knows of it and has no clusters.
TEST_F(KernelLaunch, LongAxesAreLaunchedFirst) {
  auto grid = [&](Grid given) {
    inPairs.launch(device.stream(), given, x);
    const FakeLaunch launch = lastLaunch();
    return std::vector<unsigned>(launch.grid, launch.grid + 3);
  };
  const uint64_t before = compiled();
  EXPECT_EQ(grid({2, 65'535, 65'535}), (std::vector<unsigned>{2, 65'535, 65'535}));
  EXPECT_EQ(compiled(), before + 1);
  EXPECT_EQ(grid({3, 65'536, 5}), (std::vector<unsigned>{65'536, 3, 5}));
  EXPECT_EQ(grid({65'535, 2, 100'000}), (std::vector<unsigned>{100'000, 2, 65'535}));
  EXPECT_EQ(compiled(), before + 3);
  EXPECT_EQ(grid({5, 70'000, 3}), (std::vector<unsigned>{70'000, 5, 3}));
  EXPECT_EQ(grid({4, 1, 1}), (std::vector<unsigned>{4, 1, 1}));
  EXPECT_EQ(compiled(), before + 3);
  for (const Grid &tooLarge : {Grid(65'536, 65'536), Grid(2, 65'536, 65'536)})
    EXPECT_THAT(message<LaunchError>([&] { grid(tooLarge); }),
                HasSubstr("blocks; cuda:0 takes at most 2147483647 x 65535 x 65535"));
}

TEST_F(KernelLaunch, TensorsStayInsideTheirBuffers) {
  EXPECT_EQ(message<LaunchError>([&] { tensor(z, {9, 8}); }),
            "a tensor of extents [9, 8] and strides [8, 1] reaches element 71 of a buffer of 64");
  EXPECT_THAT(message<LaunchError>([&] { tensor(z, {2, 2}, {-1, 1}); }),
              HasSubstr("before the start"));
  EXPECT_THAT(message<LaunchError>([&] { tensor(z, {-2, 2}); }), HasSubstr("negative extent"));
  EXPECT_THAT(message<LaunchError>([&] { tensor(z, {3, 2}, {std::int64_t{1} << 62, 1}); }),
              HasSubstr("beyond 64 bits"));
  EXPECT_EQ(tensor(z, {0, 100}).extent(1), 100);
  EXPECT_EQ(tensor(z, {4, 16}).transpose().stride(0), 1);
  EXPECT_EQ(tensor(z, {4, 4, 4}).permute({2, 0, 1}).strides(),
            (std::array<std::int64_t, 3>{1, 16, 4}));
}

TEST_F(KernelLaunch, SpecialisesOnWhatTheKeySays) {
  auto launches = [&](auto &&...arguments) {
    const uint64_t before = compiled();
    add.launch(device.stream(), 1, arguments...);
    return compiled() - before;
  };
  Buffer<float> odd = x.slice(1, 32);
  launches(x, y, z, 32);
  EXPECT_EQ(launches(x, y, z, 48), 0u) << "both are multiples of 16";
  EXPECT_EQ(launches(y, x, z, 16), 0u);
  EXPECT_EQ(launches(x, y, z, 31), 1u) << "no multiple of 16";
  EXPECT_EQ(launches(x, y, z, 33), 0u);
  EXPECT_EQ(launches(x, y, z, 1), 1u) << "one";
  EXPECT_EQ(launches(odd, y, z, 32), 1u) << "another alignment";
  EXPECT_EQ(launches(x, y, z, 32, Block{.size = 256}), 1u) << "another configuration";
  EXPECT_EQ(launches(x, y, z, 32, Block{}, LaunchOptions{.warps = 8}), 1u) << "other warps";
  EXPECT_EQ(lastLaunch().threads, 256u);
  EXPECT_EQ(launches(x, y, z, 32, Block{.warps = 2}), 1u) << "warps from the configuration";
  EXPECT_EQ(lastLaunch().threads, 64u);
  EXPECT_EQ(launches(x, y, z, 32, Block{}, LaunchOptions{.stages = 5}), 1u) << "other stages";
  EXPECT_EQ(launches(x, y, z, 32), 0u);
}

Kernel counted{"counted", [](Ptr<float> y, Scalar<std::uint64_t> seed, Scalar<std::int64_t> step,
                             Varying<Int> tokens, Varying<Scalar<int>> row, Int n) {
                 auto i = arange(0, 64);
                 store(y + i, rand(seed, i) + cast<float>(step + tokens + row), i < n);
               }};

// Seeds, steps and counts take all values, and each version of a kernel is a compile.
TEST_F(KernelLaunch, IntegersThatVaryAreNotSpecialised) {
  const auto launches = [&](auto... arguments) {
    const uint64_t before = compiled();
    counted.launch(device.stream(), 1, z, arguments...);
    return compiled() - before;
  };
  EXPECT_EQ(launches(3u, 3, 3, 3, 5), 1u);
  for (const int value : {1, 8, 16, 40, 1 << 20})
    EXPECT_EQ(launches(static_cast<unsigned>(value), value, value, value, 5), 0u) << value;
  EXPECT_EQ(launches(3u, std::int64_t{1} << 40, 3, 3, 5), 0u);
  EXPECT_EQ(launches(3u, 3, 3, 3, 16), 1u) << "an Int is specialised";
  // Its width and sign stay.
  EXPECT_EQ(launches(3u, 3, std::int64_t{1} << 40, 3, 5), 1u);
}

struct Rows {
  Varying<View<const float, 2>> x;
  Varying<Int> count;
};
SECTILE_STRUCT(Rows, x, count)

TEST_F(KernelLaunch, ExtentsOfAViewMayVary) {
  Kernel kernel{"varying_view", [](Rows rows, Varying<View<float, 1>> y) {
                  y.tile(8).store(0,
                                  sum(rows.x.tile(8, 8).load(0, 0), 1) + cast<float>(rows.count));
                }};
  const auto launches = [&](int rows, int columns, int stride) {
    const uint64_t before = compiled();
    kernel.launch(device.stream(), 1,
                  {Tensor<float, 2>(x.data(), {rows, columns}, {stride, 1}), rows},
                  Tensor<float, 1>(z.data(), {rows}, {1}));
    return compiled() - before;
  };
  EXPECT_EQ(launches(3, 3, 16), 1u);
  for (const int extent : {1, 4, 8, 16})
    EXPECT_EQ(launches(extent, extent, 16), 0u) << extent;
  EXPECT_EQ(launches(3, 3, 9), 1u) << "its strides are specialised";
}

TEST_F(KernelLaunch, VersionsArePreparedBeforehand) {
  Kernel kernel{"prepared_versions", [](View<float, 1> y, Int a, Varying<Int> b) {
                  y.tile(64).store(0, cast<float>(full<int>(a, 64) + b));
                }};
  const auto view = [&](int extent) { return Tensor<float, 1>(z.data(), {extent}, {1}); };
  const uint64_t before = compiled();
  prepare_versions(device, kernel.bind(1, view(64), 5, 5), {0, 1, 2});
  const uint64_t prepared = compiled();
  EXPECT_EQ(prepared - before, 16u);
  for (const int extent : {1, 7, 8, 16, 64})
    for (const int a : {1, 7, 8, 24, 32})
      kernel.launch(device.stream(), 1, view(extent), a, a);
  EXPECT_EQ(compiled(), prepared);
  kernel.launch(device.stream(), 1, Tensor<float, 1>(z.data() + 1, {7}, {1}), 5, 5);
  EXPECT_EQ(compiled(), prepared + 1) << "of other addresses nothing was said";
  EXPECT_EQ(message<LaunchError>([&] { prepare_versions(device, kernel.bind(1, z, 5, 5), {3}); }),
            "kernel 'prepared_versions': it has no argument 3, only 3");
  Kernel many{"many_integers", [](Ptr<float> y, Int a, Int b, Int c, Int d) {
                store(y, cast<float>(a + b + c + d));
              }};
  EXPECT_THAT(message<LaunchError>(
                  [&] { prepare_versions(device, many.bind(1, z, 1, 1, 1, 1), {1, 2, 3, 4}); }),
              HasSubstr("4 integers that vary have 4^4 versions"));
}

TEST_F(KernelLaunch, ARemarkTellsOfManyVersions) {
  std::vector<std::string> remarks;
  const Listening listening([&](const Activity &activity) {
    if (activity.name == "remark")
      remarks.push_back(activity.note);
  });
  Kernel kernel{"many_versions",
                [](Ptr<float> y, Int a, Int b, Float c) { store(y, cast<float>(a + b) + c); }};
  for (const int value : {1, 3, 8, 16, 5})
    kernel.launch(device.stream(), 1, z, value, 3, 1.f);
  EXPECT_TRUE(remarks.empty()) << "four are few";
  kernel.launch(device.stream(), 1, z, 3, 1, 1.f);
  ASSERT_EQ(remarks.size(), 1u);
  EXPECT_THAT(remarks[0], HasSubstr("this kernel has 5 versions now, by what is known of argument "
                                    "1, argument 2 ("));
  EXPECT_THAT(remarks[0], HasSubstr("kernel_launch_test.cpp:"));
  for (const int a : {1, 3, 8, 16})
    for (const int b : {1, 3, 8, 16})
      kernel.launch(device.stream(), 1, z, a, b, 1.f);
  EXPECT_EQ(remarks.size(), 2u) << "said again of twice as many";
}

TEST_F(KernelLaunch, ViewsKeepTheirElementsApart) {
  Kernel kernel{"apart", [](View<float, 2> y, View<const float, 2> x) {
                  y.tile(4, 4).store(0, 0, x.tile(4, 4).load(0, 0));
                }};
  using Numbers = std::array<std::int64_t, 2>;
  const auto isDistinct = [&](Numbers extents, Numbers strides) {
    const Tensor<float, 2> tensor(nullptr, extents, strides);
    const std::string ir = kernel.emit("sm_90a", "tile", tensor, tensor);
    EXPECT_EQ(ir.find("tile.distinct"), ir.rfind("tile.distinct")) << "nothing is written to x";
    return ir.find("tile.distinct") != ir.npos;
  };
  for (const auto &[extents, strides] : std::vector<std::pair<Numbers, Numbers>>{{{4, 8}, {8, 1}},
                                                                                 {{4, 8}, {9, 1}},
                                                                                 {{8, 4}, {1, 8}},
                                                                                 {{1, 8}, {0, 1}},
                                                                                 {{4, 8}, {-8, 1}},
                                                                                 {{3, 3}, {2, 7}},
                                                                                 {{0, 8}, {0, 0}},
                                                                                 {{5, 1}, {3, 0}}})
    EXPECT_TRUE(isDistinct(extents, strides)) << strides[0] << ", " << strides[1];
  const std::int64_t most = std::numeric_limits<std::int64_t>::max(), least = -most - 1;
  for (const auto &[extents, strides] :
       std::vector<std::pair<Numbers, Numbers>>{{{4, 8}, {7, 1}},
                                                {{4, 8}, {0, 1}},
                                                {{8, 4}, {1, 7}},
                                                {{4, 8}, {-7, 1}},
                                                {{3, 3}, {2, 4}},
                                                {{2, 1}, {0, 1}},
                                                {{most, most}, {most, most}},
                                                {{3, 3}, {least, least}},
                                                {{most, 3}, {most - 1, most}}})
    EXPECT_FALSE(isDistinct(extents, strides)) << strides[0] << ", " << strides[1];
}

TEST_F(KernelLaunch, RegistersHaveALimit) {
  const auto ptx = [&](LaunchOptions options, const char *target = "sm_90a",
                       const char *form = "ptx") {
    return add.emit(target, form, x, y, z, 32, Block{}, options);
  };
  EXPECT_THAT(ptx({}), Not(HasSubstr(".maxnreg")));
  EXPECT_THAT(ptx({}), Not(HasSubstr(".minnctapersm")));
  EXPECT_THAT(ptx({.max_registers = 64}), HasSubstr(".maxnreg 64"));
  EXPECT_THAT(ptx({.min_programs = 3}), HasSubstr(".minnctapersm 3"));
  EXPECT_THAT(ptx({.max_registers = 64}, "gfx942", "llvm"),
              HasSubstr("\"amdgpu-num-vgpr\"=\"64\""));
  // 3 programs of 2 waves on 4 SIMDs.
  EXPECT_THAT(ptx({.min_programs = 3}, "gfx942", "llvm"),
              HasSubstr("\"amdgpu-waves-per-eu\"=\"3\""));
  EXPECT_THAT(message<CompileError>([&] { ptx({.max_registers = 1000}); }),
              HasSubstr("cta.max_registers is a number from 1 to 512"));
  const auto launches = [&](LaunchOptions options) {
    const uint64_t before = compiled();
    add.launch(device.stream(), 1, x, y, z, 64, Block{.size = 512}, options);
    return compiled() - before;
  };
  EXPECT_EQ(launches({}), 1u);
  EXPECT_EQ(launches({.max_registers = 64}), 1u);
  EXPECT_EQ(launches({.min_programs = 2}), 1u);
  EXPECT_EQ(launches({.max_registers = 64}), 0u);
  Kernel limited{"limited", [](Ptr<float> p) { store(p, 1.f); }, {.max_registers = 40}};
  EXPECT_THAT(limited.emit("sm_90a", "ptx", z), HasSubstr(".maxnreg 40"));
}

TEST_F(KernelLaunch, TheIrShowsTheSpecialisation) {
  const std::string aligned = add.emit("sm_90a", "tile", x, y, z, 32);
  EXPECT_THAT(aligned, HasSubstr("tile.divisible = 16"));
  EXPECT_THAT(aligned, HasSubstr("i32 {tile.below = 1073741824 : i64, tile.divisible = 16"));
  EXPECT_THAT(add.emit("sm_90a", "tile", x, y, z, std::int64_t{1} << 40),
              HasSubstr("i64 {tile.divisible = 16"));
  float *null = nullptr;
  EXPECT_THAT(add.emit("gfx942", "tile", null, null, null, 7), HasSubstr("tile.kernel"));
  // That an index is small is another kernel's code on chips with buffer accesses, that it is not
  // negative on those with tensor maps, and neither on others.
  const std::int64_t small = (1 << 20) - 16, large = 1 << 20;
  EXPECT_THAT(add.emit("gfx942", "tile", null, null, null, small),
              HasSubstr("tile.below = 1048576 : i64"));
  EXPECT_THAT(add.emit("gfx942", "tile", null, null, null, large), Not(HasSubstr("tile.below")));
  EXPECT_THAT(add.emit("gfx942", "tile", null, null, null, -16), Not(HasSubstr("tile.below")));
  EXPECT_EQ(add.emit("sm_90a", "tile", null, null, null, small),
            add.emit("sm_90a", "tile", null, null, null, large));
  EXPECT_THAT(message<CompileError>([&] { add.emit("sm_1", "tile", x, y, z, 32); }),
              HasSubstr("unknown target 'sm_1'"));
}

// Whoever put it into the cache: a kernel that takes for granted what is not so computes nonsense.
TEST_F(KernelLaunch, RefusesCodeForOtherArguments) {
  Kernel planted{"planted", [](Ptr<float> p, Int n) { store(p + n, 1.0f); }};
  const auto key = runtime::CodeAccess::cacheKey(planted.bind(1, z, 3), device);
  runtime::CompileCache::get().get(key, [] {
    Artifact other;
    other.plan.arguments = {{}, {16}};
    return other;
  });
  EXPECT_EQ(message<LaunchError>([&] { planted.launch(device.stream(), 1, z, 3); }),
            "kernel 'planted': its code in the cache is for other arguments: argument 1 is 3, no "
            "multiple of 16");
}

TEST_F(KernelLaunch, AKnownSpecialisationAllocatesNothingAndCallsOnlyTheLaunch) {
  add.launch(device.stream(), 1, x, y, z, 64);
  const Stream &stream = device.stream();
  const int loads = calls("cuModuleLoadDataEx"), launched = calls("cuLaunchKernel");
  const size_t before = allocations;
  add.launch(stream, 1, x, y, z, 64);
  const size_t after = allocations;
  EXPECT_EQ(calls("cuModuleLoadDataEx"), loads);
  EXPECT_EQ(calls("cuLaunchKernel"), launched + 1);
  // The fake driver itself keeps the launch as a function object.
  EXPECT_LE(after - before, 8u);
}

TEST_F(KernelLaunch, AnEmptyGridCompilesAndLaunchesNothing) {
  Kernel never{"never", [](Ptr<float> p) { store(p, 1.0f); }};
  const int launched = calls("cuLaunchKernel");
  never.launch(device.stream(), 0, z);
  never.launch(device.stream(), {4, 0}, z);
  EXPECT_EQ(calls("cuLaunchKernel"), launched);
}

TEST_F(KernelLaunch, ManyThreadsLaunchAtOnce) {
  Kernel fresh{"fresh", [](Ptr<float> p, Int n) { store(p + n, 1.0f); }};
  const uint64_t before = runtime::CompileCache::get().counts().compiles;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      for (int round = 0; round < 50; ++round)
        fresh.launch(device.stream(), 1, z, 2 + round % 4);
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(runtime::CompileCache::get().counts().compiles - before, 1u);
}

TEST_F(KernelLaunch, CanBeCaptured) {
  add.launch(device.stream(), 1, x, y, z, 64);
  z.fill(0);
  Stream stream = device.new_stream();
  stream.begin_capture();
  add.launch(stream, 1, x, y, z, 64);
  Graph graph = stream.end_capture();
  EXPECT_EQ(z.download(), std::vector<float>(64, 0.0f));
  graph.launch(stream);
  EXPECT_EQ(z.download(), std::vector<float>(64, 3.0f));
}

TEST_F(KernelLaunch, AFaultOfTheKernelNamesItsLine) {
  Kernel wrong{"wrong", [](Ptr<float> p) { store(p + arange(0, 4), full<float>(0.0f, 8)); }};
  const unsigned line = __LINE__ - 1;
  try {
    wrong.launch(device.stream(), 1, z);
    FAIL() << "nothing was thrown";
  } catch (const CompileError &error) {
    EXPECT_EQ(error.line(), line);
    EXPECT_THAT(error.file(), HasSubstr("kernel_launch_test.cpp"));
  }
}

} // namespace
