// Variables of the host that bodies change: what depends on them is refused, and nothing else is.
#include <algorithm>
#include <array>
#include <functional>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <optional>
#include <random>
#include <sectile/sectile.h>
#include <vector>

namespace sc = sectile;
using testing::AllOf;
using testing::HasSubstr;

namespace {

/// What is wrong with a kernel; empty: nothing.
template <class Body> std::string refusal(Body body) {
  sc::Kernel kernel{"kernel", body};
  try {
    kernel.emit("sm_80", "tile", sc::Tensor<float, 1>(nullptr, {64}, {1}), 10);
  } catch (const sc::CompileError &error) {
    EXPECT_THAT(error.what(), HasSubstr("dsl_host_variables_test.cpp:"));
    return error.what();
  }
  return "";
}

std::string line(int number) { return ":" + std::to_string(number) + ": "; }

// Within a macro's arguments all lines would be one.
TEST(HostVariables, ALoopThatCountsIsRefused) {
  const int loop = __LINE__ + 4;
  const auto kernel = [](sc::Ptr<float> y, sc::Int n) {
    int steps = 0;
    sc::Float total = 0;
    for (auto i : sc::range(0, n)) {
      ++steps;
      total += float(steps) + sc::cast<float>(i);
    }
    sc::store(y, total);
  };
  EXPECT_THAT(refusal(kernel),
              AllOf(HasSubstr(line(loop)),
                    HasSubstr("the body of this loop builds other code when it is traced again")));
}

TEST(HostVariables, WhatFollowsALoopThatCountsIsRefused) {
  const int use = __LINE__ + 5;
  const auto kernel = [](sc::Ptr<float> y, sc::Int n) {
    int steps = 0;
    for (auto i : sc::range(0, n))
      sc::store(y + i, 1.f), ++steps;
    sc::store(y, float(steps));
  };
  EXPECT_THAT(refusal(kernel),
              AllOf(HasSubstr(line(use)), HasSubstr("that the body of a loop before it changes")));
}

TEST(HostVariables, AFlagThatABranchSetsIsRefused) {
  const int use = __LINE__ + 4;
  const auto kernel = [](sc::Ptr<float> y, sc::Int n) {
    bool many = false;
    sc::when(n > 100, [&] { many = true; });
    sc::store(y, many ? 1.f : 0.f);
  };
  EXPECT_THAT(refusal(kernel), AllOf(HasSubstr(line(use)),
                                     HasSubstr("that the body of a sc::when before it changes")));
  EXPECT_THAT(refusal([](sc::Ptr<float> y, sc::Int n) {
                float value = 1;
                for (auto i : sc::range(0, n)) {
                  sc::when(i > 3, [&] { sc::store(y + i, 0.f); }, [&] { value = 2; });
                  sc::store(y + i, value);
                }
              }),
              HasSubstr("that the body of a sc::when before it changes"));
}

TEST(HostVariables, ALoopInABranchIsLookedAtToo) {
  EXPECT_THAT(refusal([](sc::Ptr<float> y, sc::Int n) {
                sc::when(n > 3, [&] {
                  int k = 0;
                  for (auto i : sc::range(0, n))
                    sc::store(y + i, float(k++));
                });
              }),
              HasSubstr("the body of this loop builds other code"));
}

// The usual way to exchange buffers: the body uses the same two in each iteration.
TEST(HostVariables, PointersThatALoopExchangesAreRefused) {
  const auto pointers = [](sc::Ptr<float> y, sc::Int n) {
    sc::Float a = 0, b = 0;
    sc::Float *now = &a, *next = &b;
    for (auto i : sc::range(0, n)) {
      *next = *now + sc::cast<float>(i);
      std::swap(now, next);
    }
    sc::store(y, *now);
  };
  const auto indices = [](sc::Ptr<float> y, sc::Int n) {
    std::array<sc::Tile<float>, 2> buffers{sc::zeros<float>(16), sc::zeros<float>(16)};
    unsigned now = 0;
    sc::loop_while([&] { return n > 0; },
                   [&] {
                     buffers[now ^ 1] = buffers[now] * 2;
                     now ^= 1;
                     n -= 1;
                   });
    sc::store(y + sc::arange(0, 16), buffers[now]);
  };
  const auto containers = [](sc::Ptr<float> y, sc::Int n) {
    std::vector<sc::Float> a{sc::load(y)}, b{sc::load(y + 1)};
    for (auto i : sc::range(0, n)) {
      a[0] = b[0];
      std::swap(a, b);
    }
    sc::store(y, a[0]);
  };
  for (const std::string &found : {refusal(pointers), refusal(indices), refusal(containers)})
    EXPECT_THAT(found,
                HasSubstr("the body of this loop uses other variables when it is traced again"));
}

TEST(HostVariables, APointerThatABranchSetsIsRefused) {
  const int use = __LINE__ + 5;
  const auto kernel = [](sc::Ptr<float> y, sc::Int n) {
    sc::Float a = sc::load(y), b = sc::load(y + 1);
    sc::Float *which = &a;
    sc::when(n > 100, [&] { which = &b; });
    sc::store(y + 2, *which);
  };
  EXPECT_THAT(refusal(kernel), AllOf(HasSubstr(line(use)),
                                     HasSubstr("that the body of a sc::when before it changes")));
}

TEST(HostVariables, ALoopByAConditionIsRefused) {
  EXPECT_THAT(refusal([](sc::Ptr<float> y, sc::Int n) {
                int k = 1;
                sc::Int i = 0;
                sc::loop_while([&] { return i < n; },
                               [&] {
                                 i = i + k;
                                 k *= 2;
                               });
                sc::store(y, sc::cast<float>(i));
              }),
              HasSubstr("the body of this loop builds other code"));
}

TEST(HostVariables, FunctionsThatCountAreRefused) {
  EXPECT_THAT(refusal([](sc::Ptr<float> y, sc::Int) {
                int calls = 0;
                auto at = y + sc::arange(0, 64);
                sc::store(at,
                          sc::map([&](sc::Float x) { return x + float(++calls); }, sc::load(at)));
              }),
              HasSubstr("the body of the function of sc::map builds other code"));
  int calls = 0;
  const sc::Function count{"count", [&](sc::Float x) { return x + float(++calls); }};
  EXPECT_THAT(refusal([&](sc::Ptr<float> y, sc::Int) { sc::store(y, count(sc::load(y))); }),
              HasSubstr("the body of this function builds other code"));
}

TEST(HostVariables, AShapeThatGrowsIsRefused) {
  EXPECT_THAT(refusal([](sc::Ptr<float> y, sc::Int n) {
                int extent = 16;
                auto sums = sc::zeros<float>(32);
                for (auto i : sc::range(0, n)) {
                  extent *= 2;
                  sums += sc::load(y + i + sc::arange(0, extent));
                }
                sc::store(y + sc::arange(0, 32), sums);
              }),
              AllOf(HasSubstr("a body changes a C++ variable that this line depends on"),
                    HasSubstr("[64]")));
}

TEST(HostVariables, TracedVariablesAreCarried) {
  EXPECT_EQ(refusal([](sc::Ptr<float> y, sc::Int n) {
              sc::Int steps = 0;
              sc::Bool many = false;
              sc::Float a = 1, b = 2;
              auto pointer = y;
              for (auto i : sc::range(0, n)) {
                steps += 1;
                sc::when(i > 3, [&] { many = true; });
                for (auto k : sc::range(0, i)) {
                  pointer = pointer + 1;
                  sc::when(k > 2, [&] { std::swap(a, b); }, [&] { a = b; });
                  sc::when(k > 5, [&] { b = a; }, [&] { b = a; });
                }
              }
              sc::loop_while([&] { return steps > 0; },
                             [&] {
                               auto half = steps / 2;
                               sc::when(half > 1, [&] { steps = half; }, [&] { steps = 0; });
                             });
              sc::store(pointer, sc::where(many, a, b) + sc::cast<float>(steps));
            }),
            "");
}

// The variables keep their places, their values go round.
TEST(HostVariables, ValuesMayBeExchanged) {
  EXPECT_EQ(refusal([](sc::Ptr<float> y, sc::Int n) {
              std::vector<sc::Float> v{sc::Float(1), sc::Float(2), sc::Float(3)};
              std::array<sc::Float, 2> pair{v[0], v[1]};
              sc::Float a = 0, b = 1, *const first = &a, *const second = &b;
              for (auto i : sc::range(0, n)) {
                std::rotate(v.begin(), v.begin() + 1, v.end());
                std::swap(pair[0], pair[1]);
                std::swap(*first, *second);
                sc::when(i > 3, [&] { std::swap(a, v[0]); });
                for (auto k : sc::range(0, i))
                  std::swap(pair[0], b);
              }
              sc::store(y, a + b + v[0] + v[1] + pair[0]);
            }),
            "");
}

TEST(HostVariables, BodiesMayHaveTheirOwn) {
  EXPECT_EQ(refusal([](sc::Ptr<float> y, sc::Int n) {
              std::vector<int> open;
              [[maybe_unused]] int bodies = 0;
              for (auto i : sc::range(0, n)) {
                ++bodies; // nothing depends on it
                int place = 0;
                open.push_back(1);
                for (int k = 0; k < 4; ++k)
                  sc::store(y + i + place++, float(open.size()));
                for (auto k : sc::static_range(3))
                  sc::when(i > k, [&] { sc::store(y + k, float(place)); });
                open.pop_back();
              }
            }),
            "");
}

TEST(HostVariables, BranchesMayMakeAndUseTheirOwn) {
  const sc::Function square{"square", [](sc::Float x) { return x * x; }};
  EXPECT_EQ(refusal([&](sc::Ptr<float> y, sc::Int n) {
              sc::Float x, lost;
              sc::when(
                  n > 1,
                  [&] {
                    lost = 3;
                    x = square(sc::load(y));
                    sc::when(n > 2, [&] { x = square(x + 1); });
                    for (auto i : sc::range(0, n))
                      x += sc::cast<float>(i);
                  },
                  [&] { x = 0; });
              sc::when(n > 3, [&] { sc::store(y, square(x)); });
              sc::store(y + 1, square(x));
            }),
            "");
}

// A body that has other operations in its first round than in later ones.
TEST(HostVariables, AFirstRoundOfOtherOperationsIsRefused) {
  const int loop = __LINE__ + 4;
  const auto kernel = [](sc::Ptr<float> y, sc::Int n) {
    bool isFirst = true;
    sc::Float most = 0;
    for (auto i : sc::range(0, n)) {
      sc::Float x = sc::load(y + i);
      most = isFirst ? x : sc::maximum(most, x);
      isFirst = false;
    }
    sc::store(y, most);
  };
  EXPECT_THAT(refusal(kernel),
              AllOf(HasSubstr(line(loop)),
                    HasSubstr("the body of this loop builds other code when it is traced again")));
}

TEST(HostVariables, WhatFollowsByABranchesFlagIsRefused) {
  const int use = __LINE__ + 5;
  const auto kernel = [](sc::Ptr<float> y, sc::Int n) {
    bool isLong = false;
    sc::when(n > 3, [&] { isLong = true; });
    if (isLong)
      sc::store(y, 1.f);
  };
  EXPECT_THAT(refusal(kernel),
              AllOf(HasSubstr(line(use)), HasSubstr("the body of a sc::when before it changes")));
}

TEST(HostVariables, WhatFollowsByALoopsCountIsRefused) {
  const auto kernel = [](sc::Ptr<float> y, sc::Int n) {
    std::vector<int> rounds;
    for (auto i : sc::range(0, n))
      sc::store(y + i, 1.f), rounds.push_back(1);
    for (int round : rounds)
      sc::store(y + n, float(round));
  };
  EXPECT_THAT(refusal(kernel), HasSubstr("the body of a loop before it changes"));
}

// Such a program is right by chance, and says nothing that could be judged.
TEST(HostVariables, ATileThatTheHostKeepsIsNotJudged) {
  EXPECT_EQ(refusal([](sc::Ptr<float> y, sc::Int n) {
              std::optional<sc::Tile<float>> kept;
              for (auto i : sc::range(0, n)) {
                if (!kept)
                  kept = sc::load(y + sc::arange(0, 16));
                sc::store(y + i + sc::arange(0, 16), *kept);
              }
            }),
            "");
}

// The host draws these kernels, and each trace of a body draws other operations.
TEST(HostVariables, KernelsDrawnAtRandomAreTrusted) {
  for (unsigned seed = 0; seed < 50; ++seed)
    EXPECT_EQ(refusal([seed](sc::Ptr<float> y, sc::Int n) {
                sc::trust_host_variables();
                std::mt19937 random(seed);
                sc::Float sum = 0;
                auto draw = [&](sc::Int i) {
                  for (unsigned k = random() % 4 + 1; k; --k)
                    switch (random() % 3) {
                    case 0:
                      sum += float(random() % 9);
                      break;
                    case 1:
                      sum *= sc::cast<float>(i);
                      break;
                    default:
                      sum = sc::sqrt(sum);
                    }
                };
                for (auto i : sc::range(0, n)) {
                  draw(i);
                  for (auto k : sc::range(0, i))
                    draw(k);
                }
                sc::when(n > 3, [&] { draw(n); });
                draw(n);
                sc::store(y, sum);
              }),
              "")
        << "seed " << seed;
}

TEST(HostVariables, TrustIsOfAKernel) {
  EXPECT_THROW(sc::trust_host_variables(), sc::CompileError);
}

TEST(HostVariables, LaunchesAreRefusedToo) {
  auto device = sc::Device::open("interpreter");
  auto y = device.allocate<float>(1);
  sc::Kernel kernel{"counts", [](sc::Ptr<float> y, sc::Int n) {
                      int steps = 0;
                      for (auto i : sc::range(0, n))
                        sc::store(y, float(++steps));
                    }};
  EXPECT_THROW(kernel.launch(device.stream(), 1, y, 10), sc::CompileError);
}

} // namespace
