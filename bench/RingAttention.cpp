// How much of a ring's communication hides behind its work: ring attention over the processes of an
// mpirun, beside the same work with no messages. ring_bench DEVICE mpi|nccl [S D H]: S tokens a
// process; DEVICE "cuda" is the process's own.
#include "bench/RingProcess.h"
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <sectile/attention.h>
#include <sectile/ring_attention.h>
#include <sectile/sectile.h>

using namespace sectile;

namespace {

// The slowest process's median, in milliseconds. All of them run the work equally often.
double time(const Device &device, const Communicator &all, const std::function<void()> &work) {
  constexpr int warmUps = 3, runs = 11;
  std::vector<double> times;
  for (int run = 0; run < warmUps + runs; ++run) {
    device.synchronize();
    (void)all.all_gather(run); // nobody begins before the others
    const auto start = std::chrono::steady_clock::now();
    work();
    device.synchronize();
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
    if (run >= warmUps)
      times.push_back(took.count());
  }
  std::nth_element(times.begin(), times.begin() + runs / 2, times.end());
  const auto own = static_cast<std::int64_t>(1e6 * times[runs / 2]);
  const auto everyones = all.all_gather(own);
  return 1e-6 * static_cast<double>(*std::max_element(everyones.begin(), everyones.end()));
}

Tensor<half, 4> random(const Device &device, std::int64_t heads, std::int64_t length,
                       std::int64_t width, unsigned seed) {
  std::vector<half> values(static_cast<std::size_t>(heads * length * width));
  for (half &value : values) {
    seed = seed * 1664525 + 1013904223;
    value = half(static_cast<float>(seed >> 8) / (1 << 23) - 1);
  }
  return tensor(device.upload(values), {1, heads, length, width});
}

} // namespace

int main(int count, char **words) try {
  if (count < 3) {
    std::fprintf(stderr, "usage: mpirun -n N ring_bench DEVICE mpi|nccl [S D H]\n");
    return 2;
  }
  const auto [all, name, device, ring] = RingProcess(words[1], words[2]);
  const auto number = [&](int place, std::int64_t usual) {
    return count > place ? std::atoll(words[place]) : usual;
  };
  const std::int64_t length = number(3, 8192), width = number(4, 128), heads = number(5, 32);
  const auto q = random(device, heads, length, width, 1),
             k = random(device, heads, length, width, 2),
             v = random(device, heads, length, width, 3);
  const auto forward = ring_attention(device.stream(), ring, q, k, v);
  const double around = time(device, all, [&] { ring_attention(device.stream(), ring, q, k, v); });
  const double aroundBack = time(
      device, all, [&] { ring_attention_backward(device.stream(), ring, q, k, v, forward, q); });
  // As many slices of keys, all of them here: the same launches, as one process makes them.
  const Communicator alone = Communicator::single();
  const double local = time(device, all, [&] {
    for (int slice = 0; slice < ring.size(); ++slice)
      ring_attention(device.stream(), alone, q, k, v);
  });
  const double localBack = time(device, all, [&] {
    for (int slice = 0; slice < ring.size(); ++slice)
      ring_attention_backward(device.stream(), alone, q, k, v, forward, q);
  });
  if (all.rank() == 0)
    std::printf("%d processes on %s by %s, %lld tokens each, %lld heads of %lld: forward %.3f ms "
                "(without messages %.3f), backward %.3f ms (%.3f)\n",
                all.size(), name.c_str(), words[2], static_cast<long long>(length),
                static_cast<long long>(heads), static_cast<long long>(width), around, local,
                aroundBack, localBack);
  return 0;
} catch (const std::exception &error) {
  std::fprintf(stderr, "ring_bench: %s\n", error.what());
  return 1;
}
