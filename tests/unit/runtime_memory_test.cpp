// Memory that comes and goes beside work that runs: nothing waits, and nothing is given back that
// work still uses. Over fake drivers.
#include "OrderTest.h"
#include <gmock/gmock.h>
#include <stdexcept>

using namespace sectile;
using testing::ElementsAre;
using testing::HasSubstr;

namespace {

class RuntimeMemory : public RuntimeOrder {
protected:
  // What waits for the device.
  int waits() const {
    return calls("cuCtxSynchronize") + calls("cuMemFree_v2") + calls("cuMemFreeHost") +
           calls("cuEventSynchronize");
  }
};
INSTANTIATE_TEST_SUITE_P(Drivers, RuntimeMemory, testing::Values("cuda:0", "hip:0"),
                         [](const auto &info) {
                           return info.param.substr(0, info.param.find(':'));
                         });

TEST_P(RuntimeMemory, ComesAndGoesWithoutWaiting) {
  const Stream stream = device.new_stream();
  launchAdd(x, y, z, stream);
  const int before = waits();
  for (int i = 0; i < 3; ++i)
    device.allocate<float>(2).fill(1, stream);
  EXPECT_EQ(waits(), before);
  EXPECT_THAT(z.download(), ElementsAre(11, 22));
}

// The last handle goes while the work is still to come.
TEST_P(RuntimeMemory, IsKeptForTheWorkOfEveryKnownStream) {
  device.synchronize();
  const int before = live();
  void *const theirs = createStream(nonBlocking);
  const auto useIn = [&](const Stream &stream) {
    auto between = device.allocate<float>(2);
    launchAdd(x, y, between, stream);
    launchAdd(between, y, z, stream);
    between = {};
    const auto other = device.allocate<float>(2); // would be the same memory
    other.fill(0, device.new_stream());
    EXPECT_THAT(z.download(), ElementsAre(21, 42));
    z.fill(0);
  };
  useIn(device.stream());
  useIn(device.new_stream());
  useIn(Stream::wrap(device, theirs));
  useIn(Stream::wrap(device, nullptr));
  {
    auto between = device.allocate<float>(2);
    launchAdd(x, y, between, Stream::wrap(device, theirs));
    launchAdd(between, y, z, Stream::wrap(device, theirs));
    between = {};
    device.allocate<float>(2); // the wrappers are gone
  }
  EXPECT_THAT(z.download(), ElementsAre(21, 42));
  destroyStream(theirs);
  device.synchronize();
  EXPECT_LE(live(), before + 20) << "events are kept, memory is not";
  const int after = live();
  useIn(device.new_stream());
  device.synchronize();
  EXPECT_EQ(live(), after);
}

TEST_P(RuntimeMemory, IsGivenBackThoughAnotherLibraryCaptures) {
  void *const theirs = createStream(nonBlocking);
  const Stream stream = Stream::wrap(device, theirs);
  const auto round = [&] {
    beginCapture(theirs);
    for (int i = 0; i < 10; ++i)
      device.allocate<float>(1000);
    add = nullptr; // code, too
    EXPECT_EQ(endCapture(theirs), 0) << "the capture went on";
    add = device.impl()->load(artifact("fake_add"));
    device.synchronize();
  };
  round();
  const int before = live();
  round();
  EXPECT_EQ(live(), before);
}

TEST_P(RuntimeMemory, WaitsForWorkBeforeThereIsNone) {
  constexpr size_t most = size_t{600} << 20; // of 1 GiB
  const Stream stream = device.new_stream();
  auto large = device.allocate<char>(most);
  large.fill(1, stream);
  large = {};
  large = device.allocate<char>(most);
  EXPECT_THAT(message([&] { device.allocate<char>(most); }), HasSubstr("are free"));
}

TEST_P(RuntimeMemory, OfAnAllocatorOfTheUsers) {
  const auto arena = device.allocate<char>(1024);
  const std::uint64_t start = arena.memory().address();
  std::size_t taken = 0;
  void *ours = nullptr;
  const auto take = [&](std::size_t bytes, void *stream) {
    if (taken)
      throw std::runtime_error("the arena is empty");
    taken = bytes;
    ours = stream;
    return start;
  };
  const auto give = [&](std::uint64_t address, std::size_t bytes, void *stream) {
    EXPECT_EQ(address, start);
    EXPECT_EQ(bytes, taken);
    EXPECT_EQ(stream, ours);
    taken = 0;
  };
  EXPECT_THAT(message([&] { device.set_allocator({take, nullptr}); }),
              HasSubstr("an allocator needs both functions"));
  device.set_allocator({take, give});
  void *const theirs = createStream(nonBlocking);
  const Stream stream = Stream::wrap(device, theirs);
  auto between = device.allocate<float>(2);
  EXPECT_EQ(between.memory().address(), start);
  for (int i = 0; i < 10; ++i)
    launchAdd(x, y, between, stream);
  launchAdd(between, y, z, stream);
  between = {};
  EXPECT_EQ(taken, 8u) << "work still uses it";
  // It is waited for.
  auto next = device.allocate<float>(4);
  EXPECT_EQ(next.memory().address(), start);
  EXPECT_EQ(taken, 16u);
  EXPECT_THROW(device.allocate<float>(2), std::runtime_error);
  device.set_allocator({});
  EXPECT_NE(device.allocate<float>(2).memory().address(), start);
  EXPECT_EQ(taken, 16u) << "each goes back to where it is from";
  EXPECT_THAT(z.download(), ElementsAre(21, 42));
  next = {};
  EXPECT_EQ(taken, 0u);
}

TEST_P(RuntimeMemory, HostMemoryIsCopiedWhileTheHostGoesOn) {
  const Stream stream = device.new_stream();
  auto from = device.allocate_host<float>(2), to = device.allocate_host<float>(2);
  from[0] = 3, from[1] = 4;
  to[0] = to[1] = 0;
  const int before = waits();
  x.upload(from, stream);
  launchAdd(x, y, z, stream);
  z.download(to, stream);
  EXPECT_EQ(to[0], 0);
  from = {};
  // It would be the same memory.
  auto other = device.allocate_host<float>(2);
  other[0] = other[1] = 100;
  EXPECT_EQ(waits(), before);
  stream.synchronize();
  EXPECT_THAT(std::vector<float>(to.begin(), to.end()), ElementsAre(13, 24));
  EXPECT_THAT(message([&] { x.upload(device.allocate_host<float>(3), stream); }),
              HasSubstr("the buffer has 2 elements, asked for are 3"));
  const int allocations = calls("cuMemHostAlloc");
  for (int i = 0; i < 10; ++i)
    device.allocate_host<float>(2);
  EXPECT_EQ(calls("cuMemHostAlloc"), allocations) << "what was given back is used again";
}

TEST_P(RuntimeMemory, GraphsKeepTheHostMemoryOfCopies) {
  const Stream stream = device.new_stream();
  auto from = device.allocate_host<float>(2);
  from[0] = 3, from[1] = 4;
  stream.begin_capture();
  x.upload(from, stream);
  const Graph graph = stream.end_capture();
  from = {};
  auto other = device.allocate_host<float>(2);
  other[0] = other[1] = 100;
  graph.launch(stream);
  EXPECT_THAT(x.download(), ElementsAre(3, 4));
}

TEST_P(RuntimeMemory, TrimGivesBackWhatIsKept) {
  device.allocate_host<float>(100000);
  device.synchronize();
  const int host = calls("cuMemFreeHost"), pool = calls("cuMemPoolTrimTo");
  device.trim();
  EXPECT_GT(calls("cuMemFreeHost"), host);
  EXPECT_GT(calls("cuMemPoolTrimTo"), pool);
}

TEST_P(RuntimeMemory, OtherDevicesMayUseAPool) { EXPECT_GE(calls("cuMemPoolSetAccess"), 1); }

TEST_P(RuntimeMemory, EventsAreUsedAgainAndHaveNoTimeUnlessAskedFor) {
  { // the first
    const Event event = device.stream().record(), timed = device.stream().record_timed();
  }
  const int before = calls("cuEventCreate");
  for (int i = 0; i < 100; ++i)
    device.stream().record();
  const Event from = device.stream().record_timed();
  EXPECT_EQ(calls("cuEventCreate"), before);
  EXPECT_EQ(message([&] { elapsed_ms(from, device.stream().record()); }),
            "an event has no time: record both with Stream::record_timed");
  EXPECT_GE(elapsed_ms(from, device.stream().record_timed()), 0.0f);
}

TEST_P(RuntimeMemory, AnEventThatIsUsedAgainOrdersWhatItOrderedBefore) {
  const Stream first = device.new_stream(), second = device.new_stream();
  launchAdd(x, y, z, first);
  second.wait(first.record());
  for (int i = 0; i < 3; ++i)
    device.stream().record();
  y.copy_from(z, second);
  second.synchronize();
  EXPECT_THAT(y.download(), ElementsAre(11, 22));
}

// A device without pools: its memory is as before them.
TEST(RuntimeMemoryWithoutPools, IsGivenBackWhenNothingIsCaptured) {
  ASSERT_TRUE(chosen);
  const Device device = Device::open("cuda:1");
  void *library = dlopen(SECTILE_FAKE_CUDA, RTLD_NOW);
  const auto fail = reinterpret_cast<decltype(&fakeCudaFail)>(dlsym(library, "fakeCudaFail"));
  const auto calls = reinterpret_cast<decltype(&fakeCudaCalls)>(dlsym(library, "fakeCudaCalls"));
  const auto live = reinterpret_cast<decltype(&fakeCudaLive)>(dlsym(library, "fakeCudaLive"));
  constexpr int notSupported = 801;
  fail("cuMemPoolCreate", notSupported, 1);
  const auto x = device.upload(std::vector<float>{1, 2});
  const int plain = calls("cuMemAlloc_v2"), before = live();
  auto between = device.allocate<float>(2);
  EXPECT_EQ(calls("cuMemAlloc_v2"), plain + 1);
  const Stream stream = device.new_stream();
  stream.begin_capture();
  between.fill(7, stream);
  for (int i = 0; i < 3; ++i)
    device.allocate<float>(1000);
  {
    const Graph graph = stream.end_capture();
    between = {};
    graph.launch(stream);
    device.synchronize();
  }
  device.synchronize();
  EXPECT_LE(live(), before + 4) << "the stream and events";
  const int freed = calls("cuMemFree_v2");
  EXPECT_EQ(freed, 4);
}

} // namespace
