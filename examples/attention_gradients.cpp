// Attention of the library on tensors of [batch, sequence, heads, width], and its gradients.
#include <cmath>
#include <cstdio>
#include <sectile/attention.h>
#include <sectile/sectile.h>
#include <vector>

namespace sc = sectile;

int main() {
  sc::Device device = sc::Device::best();
  constexpr int batch = 1, length = 96, heads = 4, kvHeads = 2, width = 64;
  auto filled = [&](int count, float step) {
    std::vector<sc::half> values;
    for (int i = 0; i < count; ++i)
      values.push_back(sc::half(std::sin(step * static_cast<float>(i))));
    return device.upload(values);
  };
  const auto qs = filled(batch * length * heads * width, 0.3f);
  const auto ks = filled(batch * length * kvHeads * width, 0.7f);
  const auto vs = filled(batch * length * kvHeads * width, 1.1f);
  const auto dos = filled(batch * length * heads * width, 1.7f);

  // [call]
  const auto q = sc::tensor(qs, {batch, length, heads, width});
  const auto k = sc::tensor(ks, {batch, length, kvHeads, width});
  const auto v = sc::tensor(vs, {batch, length, kvHeads, width});
  const auto dO = sc::tensor(dos, {batch, length, heads, width});

  sc::AttentionOptions options;
  options.layout = sc::AttentionLayout::bshd;
  options.causal = true;
  options.window_left = 32; // each query sees itself and the 32 keys before it
  options.softcap = 30;

  const sc::Stream stream = device.stream();
  auto [o, lse] = sc::attention(stream, q, k, v, options);
  auto gradients = sc::attention_backward(stream, q, k, v, o, lse, dO, options);
  // [/call]
  device.synchronize();

  // The first query sees the first key only: its output is that key's value.
  const auto outputs = sc::Buffer<sc::half>(o.memory()).download();
  const auto values = vs.download();
  float error = 0;
  for (int h = 0; h < heads; ++h)
    for (int d = 0; d < width; ++d)
      error =
          std::max(error, std::abs(static_cast<float>(outputs[h * width + d]) -
                                   static_cast<float>(values[h / (heads / kvHeads) * width + d])));
  // Where there is only one key there is no choice, and no gradient of the query.
  float slope = 0;
  const auto dq = sc::Buffer<sc::half>(gradients.dq.memory()).download();
  for (int d = 0; d < heads * width; ++d)
    slope = std::max(slope, std::abs(static_cast<float>(dq[d])));
  std::printf("first row: o is off by %g, dq is %g\n", error, slope);
  return error < 1e-3f && slope < 1e-2f ? 0 : 1;
}
