// Activities: what listeners are told of, and the trace file.
#include "llvm/Support/JSON.h"
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sectile/sectile.h>
#include <set>
#include <thread>
#include <unistd.h>

using namespace sectile;
using testing::HasSubstr;

namespace {

const std::string traceFile =
    testing::TempDir() + "activity_test." + std::to_string(getpid()) + ".json";
const bool chosen =
    setenv("SECTILE_CACHE_DIR", "", 1) == 0 &&
    setenv("SECTILE_TRACE", (testing::TempDir() + "activity_test.%p.json").c_str(), 1) == 0;

struct Block {
  int size = 64;
};
SECTILE_CONFIG(Block, size)

Kernel twice{"twice", [](Ptr<float> x, const Block &block) {
               auto at = x + arange(0, block.size);
               store(at, load(at) * 2.f);
             }};
Kernel wrong{"wrong", [](Ptr<float> x) { store(x + arange(0, 16), zeros<float>(32)); }};

std::vector<Activity> told(const std::function<void()> &work) {
  std::vector<Activity> all;
  Listening listening([&](const Activity &activity) { all.push_back(activity); });
  work();
  return all;
}

std::string names(const std::vector<Activity> &all) {
  std::string text;
  for (const Activity &activity : all)
    text += std::string(name_of(activity.kind)) + ":" + activity.name + " ";
  return text;
}

class Activities : public testing::Test {
protected:
  Device device = Device::open("virtual:sm_80");
  Buffer<float> x = device.upload(std::vector<float>(256, 1.f));

  void launch(Block block) {
    twice.launch(device.stream(), {1}, x, block);
    device.synchronize();
  }
};

TEST_F(Activities, FirstLaunchIsToldStepByStepAndLaterOnesNot) {
  const std::vector<Activity> all = told([&] { launch({.size = 64}); });
  EXPECT_THAT(names(all),
              testing::StartsWith("trace:trace cache:miss trace:check compile:passes "));
  EXPECT_THAT(names(all), testing::EndsWith("cache:store load:load "));
  for (size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(all[i].kernel, "twice");
    EXPECT_EQ(all[i].device, "virtual:sm_80");
    EXPECT_EQ(all[i].configuration, "size=64 warps=4 stages=3");
    EXPECT_GE(all[i].duration.count(), 0);
    if (i) {
      EXPECT_GE(all[i].start, all[i - 1].start) << all[i].name;
    }
  }
  EXPECT_EQ(names(told([&] { launch({.size = 64}); })), "");
}

TEST_F(Activities, AnotherKernelOfTheSameCodeFindsItCompiled) {
  const auto body = [](Ptr<float> x) { store(x + arange(0, 2), zeros<float>(2)); };
  const auto make = [&] { return Kernel{"zero", body}; };
  const auto first = make(), second = make();
  EXPECT_THAT(names(told([&] { first.launch(device.stream(), {1}, x); })),
              HasSubstr("cache:miss "));
  EXPECT_EQ(names(told([&] { second.launch(device.stream(), {1}, x); })),
            "trace:trace cache:hit load:load ");
}

std::string remarks(const std::vector<Activity> &all) {
  std::string text;
  for (const Activity &activity : all)
    if (activity.kind == Activity::Kind::compile && activity.name == "remark")
      text += activity.note + "\n";
  return text;
}

TEST_F(Activities, RemarksAreToldWithTheirLine) {
  const int line = __LINE__ + 2;
  const Kernel flat{"flat", [](Ptr<float> x) {
                      for (auto i : range(0, 4, {.flatten = true}))
                        store(x + i, 1.f);
                    }};
  const std::string told_ = remarks(told([&] { flat.launch(device.stream(), {1}, x); }));
  EXPECT_THAT(told_, HasSubstr("activity_test.cpp:" + std::to_string(line) + ": remark: "));
  EXPECT_THAT(told_, HasSubstr("a hint has no effect: flatten"));
}

TEST_F(Activities, ErrorsOfTheTraceAreNotActivities) {
  const auto all = told([&] { EXPECT_THROW(wrong.launch(device.stream(), {1}, x), CompileError); });
  EXPECT_EQ(names(all), "");
}

TEST_F(Activities, ACompileThatFailsIsTold) {
  Kernel large{"large", [](Ptr<float> x) {
                 auto i = expand(arange(0, 256), 1) * 256 + expand(arange(0, 256), 0);
                 auto tile = load(x + i);
                 store(x + i, dot(tile, trans(tile), zeros<float>(256, 256)));
               }};
  const auto all = told([&] {
    EXPECT_THROW(large.launch(device.stream(), {1}, device.allocate<float>(65536)), LaunchError);
  });
  EXPECT_THAT(names(all), HasSubstr("compile:failed "));
}

TEST_F(Activities, ListenersEndWithTheirHandle) {
  unsigned first = 0, second = 0;
  Listening one([&](const Activity &) { ++first; });
  {
    Listening two([&](const Activity &) { ++second; });
    launch({.size = 32});
  }
  EXPECT_GT(first, 0u);
  EXPECT_EQ(first, second);
  launch({.size = 16});
  EXPECT_GT(first, second);
}

TEST_F(Activities, WhatAListenerThrowsGoesToTheLaunchAndTheNextOneIsFine) {
  {
    Listening angry([](const Activity &) { throw Error("no more"); });
    EXPECT_THROW(launch({.size = 8}), Error);
  }
  EXPECT_NO_THROW(launch({.size = 8}));
}

TEST_F(Activities, TraceFileIsWholeAfterEveryActivity) {
  size_t events = 0;
  std::set<std::string> categories;
  const auto read = [&] {
    std::ifstream file(traceFile);
    auto json = llvm::json::parse(std::string(std::istreambuf_iterator<char>(file), {}));
    ASSERT_TRUE(bool(json)) << llvm::toString(json.takeError());
    events = json->getAsArray()->size();
    for (const llvm::json::Value &event : *json->getAsArray()) {
      EXPECT_EQ(event.getAsObject()->getString("ph"), "X");
      EXPECT_TRUE(event.getAsObject()->getNumber("ts").has_value());
      EXPECT_GE(event.getAsObject()->getNumber("dur").value_or(-1), 0);
      EXPECT_EQ(event.getAsObject()->getInteger("pid"), getpid());
      categories.insert(event.getAsObject()->getString("cat")->str());
    }
  };
  size_t calls = 0;
  Listening reader([&](const Activity &) {
    read();
    ++calls;
  });
  launch({.size = 4});
  read();
  EXPECT_GE(events, calls);
  EXPECT_GT(calls, 4u);
  EXPECT_EQ(categories, (std::set<std::string>{"cache", "trace", "compile", "load"}));
}

TEST_F(Activities, ThreadsAreToldOneAtATime) {
  std::atomic<int> inside = 0;
  std::atomic<unsigned> calls = 0;
  Listening listener([&](const Activity &) {
    EXPECT_EQ(++inside, 1);
    ++calls;
    --inside;
  });
  std::vector<std::thread> threads;
  for (int size : {1, 2, 256})
    threads.emplace_back([&, size] { launch({.size = size}); });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_GE(calls, 15u);
}

class RemoveTraceFile : public testing::Environment {
  void TearDown() override { std::filesystem::remove(traceFile); }
};
const auto *const removal = testing::AddGlobalTestEnvironment(new RemoveTraceFile);

} // namespace
