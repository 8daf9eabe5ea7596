// What copies wait for, what a capture takes, and what a graph keeps: over fake drivers whose
// streams run nothing before something waits for it.
#include "OrderTest.h"
#include "kernels/calls/Workspace.h"
#include <gmock/gmock.h>

using namespace sectile;
using testing::ElementsAre;
using testing::HasSubstr;

namespace {

INSTANTIATE_TEST_SUITE_P(Drivers, RuntimeOrder, testing::Values("cuda:0", "hip:0"),
                         [](const auto &info) {
                           return info.param.substr(0, info.param.find(':'));
                         });

TEST_P(RuntimeOrder, DownloadsWaitForStreamsOfOtherLibraries) {
  void *const theirs = createStream(nonBlocking);
  {
    const Stream stream = Stream::wrap(device, theirs);
    launchAdd(x, y, z, stream);
    EXPECT_THAT(z.download(), ElementsAre(11, 22));
    launchAdd(x, z, z, stream);
    EXPECT_THAT(z.download(), ElementsAre(12, 24));
  }
  destroyStream(theirs);
}

TEST_P(RuntimeOrder, DownloadsWaitForStreamsThatAreGone) {
  const auto use = [&] {
    z.upload(std::vector<float>{0, 0});
    for (int round = 0; round < 3; ++round) {
      void *const theirs = createStream(nonBlocking);
      launchAdd(x, z, z, Stream::wrap(device, theirs));
      launchAdd(x, z, z, Stream::wrap(device, theirs));
      destroyStream(theirs);
    }
    EXPECT_THAT(z.download(), ElementsAre(6, 12));
    return live();
  };
  const int before = use();
  EXPECT_EQ(use(), before) << "events that nobody waits for any more";
}

TEST_P(RuntimeOrder, WrappersThatComeAndGoLeaveNothingBehind) {
  const auto use = [&] {
    z.upload(std::vector<float>{0, 0});
    const int before = live();
    void *const theirs = createStream(nonBlocking);
    for (int launch = 0; launch < 100; ++launch)
      launchAdd(x, z, z, Stream::wrap(device, theirs));
    EXPECT_LT(live(), before + 100) << "events that the stream has passed";
    EXPECT_THAT(z.download(), ElementsAre(100, 200));
    destroyStream(theirs);
    return live();
  };
  const int before = use();
  EXPECT_EQ(use(), before);
}

TEST_P(RuntimeOrder, UploadsWaitForKernelsThatReadWhatWasThere) {
  void *const theirs = createStream(nonBlocking);
  launchAdd(x, y, z, Stream::wrap(device, theirs));
  x.upload(std::vector<float>{100, 200});
  EXPECT_THAT(z.download(), ElementsAre(11, 22));
  destroyStream(theirs);
}

TEST_P(RuntimeOrder, UploadsAreDoneForEveryStreamWhenTheyReturn) {
  void *const theirs = createStream(nonBlocking);
  const Stream stream = Stream::wrap(device, theirs);
  x.upload(std::vector<float>{100, 200});
  launchAdd(x, y, z, stream);
  stream.synchronize();
  EXPECT_THAT(z.download(), ElementsAre(110, 220));
}

TEST_P(RuntimeOrder, FillsInAStreamOfAnotherLibraryAreWaitedFor) {
  void *const theirs = createStream(nonBlocking);
  const Stream stream = Stream::wrap(device, theirs);
  x.fill(5, stream);
  y.copy_from(x, stream);
  EXPECT_THAT(y.download(), ElementsAre(5, 5));
}

TEST_P(RuntimeOrder, StreamsThatTheDriverKeepsInOrderCostNothing) {
  for (void *theirs : {createStream(blocking), static_cast<void *>(nullptr),
                       reinterpret_cast<void *>(1), reinterpret_cast<void *>(2)}) {
    const Stream stream = Stream::wrap(device, theirs);
    const int before = calls("cuEventRecord");
    launchAdd(x, y, z, stream);
    EXPECT_THAT(z.download(), ElementsAre(11, 22));
    EXPECT_EQ(calls("cuEventRecord"), before);
  }
}

TEST_P(RuntimeOrder, AFaultInAStreamOfAnotherLibraryIsTold) {
  void *const theirs = createStream(nonBlocking);
  uint64_t words[] = {1, 2, 3, 4};
  void *arguments[] = {&words[0], &words[1], &words[2], &words[3]};
  device.impl()->launch(*add, {}, arguments, Stream::wrap(device, theirs).native());
  EXPECT_THAT(message([&] { z.download(); }), HasSubstr("waiting for an event: "));
}

TEST_P(RuntimeOrder, WaitingBesideACaptureIsRefusedAndTheCaptureGoesOn) {
  const Event event = device.stream().record();
  const Stream stream = device.new_stream();
  stream.begin_capture();
  launchAdd(x, y, z, stream);
  const std::string why = ": a stream of the device is being captured";
  EXPECT_EQ(message([&] { z.download(); }), GetParam() + ": copying to the host" + why);
  EXPECT_EQ(message([&] { z.upload(std::vector<float>{1, 2}); }),
            GetParam() + ": copying to the device" + why);
  EXPECT_EQ(message([&] { stream.synchronize(); }), GetParam() + ": waiting for a stream" + why);
  EXPECT_EQ(message([&] { device.synchronize(); }), GetParam() + ": waiting for the device" + why);
  EXPECT_TRUE(event.done());
  const Graph graph = stream.end_capture();
  graph.launch(stream);
  EXPECT_THAT(z.download(), ElementsAre(11, 22));
}

// As a call of the library does that is given torch's stream in torch's graph.
TEST_P(RuntimeOrder, AWrapperMayBeMadeInACaptureOfAnotherLibrary) {
  void *const theirs = createStream(nonBlocking);
  launchAdd(x, y, z, device.stream()); // loads the code
  beginCapture(theirs);
  for (int launch = 0; launch < 2; ++launch)
    launchAdd(x, y, z, Stream::wrap(device, theirs));
  EXPECT_EQ(endCapture(theirs), 0);
  // The wrappers are known like any other.
  const Stream stream = Stream::wrap(device, theirs);
  z.upload(std::vector<float>{0, 0});
  launchAdd(x, y, z, stream);
  EXPECT_THAT(z.download(), ElementsAre(11, 22));
}

TEST_P(RuntimeOrder, CopiesAreRefusedBesideACaptureOfAnotherLibrary) {
  void *const theirs = createStream(nonBlocking);
  const Stream stream = Stream::wrap(device, theirs);
  launchAdd(x, y, z, stream);
  beginCapture(theirs);
  EXPECT_EQ(message([&] { z.download(); }),
            GetParam() + ": waiting for another library's stream: it is being captured");
  EXPECT_EQ(message([&] { device.synchronize(); }),
            GetParam() + ": waiting for the device: a stream of the device is being captured");
  EXPECT_EQ(endCapture(theirs), 0) << "it went on";
  EXPECT_THAT(z.download(), ElementsAre(11, 22));
}

TEST_P(RuntimeOrder, WorkBeforeACaptureIsWaitedForThoughTheWrapperEndsInIt) {
  void *const theirs = createStream(nonBlocking);
  {
    const Stream stream = Stream::wrap(device, theirs);
    launchAdd(x, y, z, stream);
    beginCapture(theirs);
    launchAdd(z, z, z, stream);
  }
  EXPECT_EQ(endCapture(theirs), 0);
  EXPECT_THAT(z.download(), ElementsAre(11, 22));
}

TEST_P(RuntimeOrder, MemoryComesAndGoesBesideACapture) {
  expectNothingLeft([&] {
    const Stream stream = device.new_stream();
    stream.begin_capture();
    launchAdd(x, y, z, stream);
    for (int i = 0; i < 2; ++i)
      device.allocate<float>(1000);
    const Graph graph = stream.end_capture();
    graph.launch(stream);
    EXPECT_THAT(z.download(), ElementsAre(11, 22));
  });
}

TEST_P(RuntimeOrder, GraphsKeepTheMemoryOfCopiesAndFills) {
  expectNothingLeft([&] {
    const Stream stream = device.new_stream();
    auto between = device.allocate<float>(2);
    stream.begin_capture();
    between.fill(7, stream);
    z.copy_from(between, stream);
    const Graph graph = stream.end_capture();
    between = {};
    graph.launch(stream);
    EXPECT_THAT(z.download(), ElementsAre(7, 7));
  });
}

TEST_P(RuntimeOrder, GraphsKeepWhatIsCapturedInStreamsThatWaitForTheirs) {
  expectNothingLeft([&] {
    z.upload(std::vector<float>{0, 0});
    const Stream stream = device.new_stream(), other = device.new_stream();
    auto between = device.allocate<float>(2);
    stream.begin_capture();
    other.wait(stream.record());
    between.fill(7, other);
    z.copy_from(between, other);
    stream.wait(other.record());
    const Graph graph = stream.end_capture();
    between = {};
    EXPECT_THAT(z.download(), ElementsAre(0, 0));
    graph.launch(stream);
    EXPECT_THAT(z.download(), ElementsAre(7, 7));
  });
}

TEST_P(RuntimeOrder, AGraphKeepsTheGraphsInIt) {
  const Stream stream = device.new_stream();
  auto between = device.allocate<float>(2);
  stream.begin_capture();
  between.fill(7, stream);
  z.copy_from(between, stream);
  Graph inner = stream.end_capture();
  stream.begin_capture();
  inner.launch(stream);
  const Graph outer = stream.end_capture();
  inner = Graph(nullptr);
  between = {};
  outer.launch(stream);
  EXPECT_THAT(z.download(), ElementsAre(7, 7));
}

TEST_P(RuntimeOrder, ACaptureThatFailsKeepsNothing) {
  expectNothingLeft([&] {
    const Stream stream = device.new_stream();
    stream.begin_capture();
    device.allocate<float>(2).fill(7, stream);
    // A driver ends a capture beside which somebody waits for the device.
    const auto current = device.impl()->makeCurrent();
    EXPECT_NE(fake<int (*)()>(cuda() ? "cuCtxSynchronize" : "hipDeviceSynchronize")(), 0);
    EXPECT_THAT(message([&] { stream.end_capture(); }), HasSubstr("ending a capture"));
    EXPECT_FALSE(device.impl()->captures.any());
  });
}

TEST_P(RuntimeOrder, ACaptureHasScratchMemoryOfItsOwn) {
  const Stream stream = device.new_stream(), other = device.new_stream();
  const auto addressIn = [](const Stream &in) {
    const auto workspace = Workspace::of(in);
    const auto lock = workspace->begin();
    return workspace->take(in, 64).address();
  };
  const uint64_t outside = addressIn(stream);
  stream.begin_capture();
  const uint64_t inside = addressIn(stream);
  EXPECT_NE(inside, outside) << "the graph may be launched in another stream";
  EXPECT_EQ(addressIn(stream), inside) << "its own work is in order";
  other.wait(stream.record());
  EXPECT_NE(addressIn(other), inside) << "of work that runs beside";
  stream.wait(other.record());
  stream.end_capture();
  EXPECT_EQ(addressIn(stream), outside);
}

TEST_P(RuntimeOrder, ScratchMemoryIsRefusedWhereAnotherLibrarysGraphKeepsNothing) {
  void *const theirs = createStream(nonBlocking);
  const Stream stream = Stream::wrap(device, theirs);
  constexpr int notSupported = 801;
  failNext("cuUserObjectCreate", notSupported, 2);
  beginCapture(theirs);
  EXPECT_THROW(Workspace::of(stream)->take(stream, 64), LaunchError);
  EXPECT_EQ(endCapture(theirs), 0);
  EXPECT_EQ(Workspace::of(stream)->take(stream, 64).bytes(), 64u);
}

} // namespace
