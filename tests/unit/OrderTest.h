// Tests over fake drivers whose streams run nothing before something waits for it, once with CUDA
// and once with HIP: what another library does there, and work that really runs.
#pragma once
#include "runtime/DeviceImpl.h"
#include "tests/fake/fake_cuda.h"
#include <cstdlib>
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sectile/sectile.h>

namespace sectile {

inline const bool chosen = setenv("SECTILE_HIP_LIBRARY", SECTILE_FAKE_HIP, 1) == 0 &&
                           setenv("SECTILE_CUDA_LIBRARY", SECTILE_FAKE_CUDA, 1) == 0;

inline constexpr unsigned blocking = 0, nonBlocking = 1;

template <class F> std::string message(F &&f) {
  try {
    f();
  } catch (const DeviceError &error) {
    return error.what();
  }
  return "nothing was thrown";
}

class RuntimeOrder : public testing::TestWithParam<std::string> {
protected:
  RuntimeOrder() { add = device.impl()->load(artifact("fake_add")); }

  bool cuda() const { return GetParam() == "cuda:0"; }
  template <class F> F fake(const char *symbol) const {
    void *library = dlopen(cuda() ? SECTILE_FAKE_CUDA : SECTILE_FAKE_HIP, RTLD_NOW);
    return reinterpret_cast<F>(dlsym(library, symbol));
  }
  int calls(const char *symbol) const {
    return fake<decltype(&fakeCudaCalls)>("fakeCudaCalls")(symbol);
  }
  int live() const { return fake<decltype(&fakeCudaLive)>("fakeCudaLive")(); }
  // What a third round leaves is nothing: events are kept from those before.
  template <class Round> void expectNothingLeft(Round round) const {
    round();
    round();
    const int before = live();
    round();
    EXPECT_EQ(live(), before);
  }

  // What another library does with its streams.
  void *createStream(unsigned flags) const {
    const auto current = device.impl()->makeCurrent();
    void *stream = nullptr;
    EXPECT_EQ(fake<int (*)(void **, unsigned)>(cuda() ? "cuStreamCreate"
                                                      : "hipStreamCreateWithFlags")(&stream, flags),
              0);
    return stream;
  }
  void destroyStream(void *stream) const {
    const auto current = device.impl()->makeCurrent();
    EXPECT_EQ(fake<int (*)(void *)>(cuda() ? "cuStreamDestroy_v2" : "hipStreamDestroy")(stream), 0);
  }
  void beginCapture(void *stream) const {
    const auto current = device.impl()->makeCurrent();
    EXPECT_EQ(fake<int (*)(void *, int)>(cuda() ? "cuStreamBeginCapture_v2"
                                                : "hipStreamBeginCapture")(stream, 0),
              0);
  }
  int endCapture(void *stream) const {
    void *graph = nullptr;
    const int error = endCapture(stream, &graph);
    if (!error)
      destroyGraph(graph);
    return error;
  }
  int endCapture(void *stream, void **graph) const {
    const auto current = device.impl()->makeCurrent();
    return fake<int (*)(void *, void **)>(cuda() ? "cuStreamEndCapture"
                                                 : "hipStreamEndCapture")(stream, graph);
  }
  void launchGraph(void *graph, void *stream) const {
    const auto current = device.impl()->makeCurrent();
    EXPECT_EQ(
        fake<int (*)(void *, void *)>(cuda() ? "cuGraphLaunch" : "hipGraphLaunch")(graph, stream),
        0);
  }
  void destroyGraph(void *graph) const {
    const auto current = device.impl()->makeCurrent();
    EXPECT_EQ(fake<int (*)(void *)>(cuda() ? "cuGraphDestroy" : "hipGraphDestroy")(graph), 0);
  }
  void failNext(const char *symbol, int error, int times = 1) const {
    fake<decltype(&fakeCudaFail)>("fakeCudaFail")(symbol, error, times);
  }

  Artifact artifact(const std::string &entry) const {
    Artifact result;
    result.kind = cuda() ? "ptx" : "hsaco";
    result.entry = entry;
    result.bytes = ".visible .entry " + entry + "()";
    result.plan.threads = 128;
    return result;
  }
  // z = x + y, whenever the stream comes to it.
  void launchAdd(const Buffer<float> &x, const Buffer<float> &y, const Buffer<float> &z,
                 const Stream &stream) const {
    uint64_t words[] = {x.memory().address(), y.memory().address(), z.memory().address(), z.size()};
    void *arguments[] = {&words[0], &words[1], &words[2], &words[3]};
    device.impl()->launch(*add, {}, arguments, stream.native());
  }

  Device device = Device::open(GetParam());
  std::shared_ptr<runtime::LoadedKernel> add;
  Buffer<float> x = device.upload(std::vector<float>{1, 2}),
                y = device.upload(std::vector<float>{10, 20}),
                z = device.upload(std::vector<float>{0, 0});
};

} // namespace sectile
