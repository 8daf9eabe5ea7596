// The library's matrix product with an epilogue of one's own: bias, gelu and a residual, then
// epilogues that store two results and add to one.
#include <cmath>
#include <cstdio>
#include <sectile/gemm.h>

namespace sc = sectile;

int main() {
  const int m = 200, n = 150, k = 100;
  std::vector<sc::half> host_x(m * k), host_w(k * n), host_bias(n), host_residual(m * n);
  for (int i = 0; i < m * k; ++i)
    host_x[i] = static_cast<sc::half>(float(i % 7 - 3));
  for (int i = 0; i < k * n; ++i)
    host_w[i] = static_cast<sc::half>(float(i % 5 - 2) / 16);
  for (int i = 0; i < n; ++i)
    host_bias[i] = static_cast<sc::half>(float(i % 3 - 1));
  for (int i = 0; i < m * n; ++i)
    host_residual[i] = static_cast<sc::half>(float(i % 9 - 4));

  auto device = sc::Device::best();
  auto x = sc::tensor(device.upload(host_x), {m, k}), w = sc::tensor(device.upload(host_w), {k, n});
  auto bias = device.upload(host_bias);
  auto residual = sc::tensor(device.upload(host_residual), {m, n});
  auto buffer = device.allocate<sc::half>(m * n);
  auto y = sc::tensor(buffer, {m, n});
  const float scale = 0.5f;
  // [epilogue]
  sc::gemm(
      device.stream(), x, w, y,
      [](const sc::Tile<float> &sums, const sc::GemmPosition &at, sc::View<const sc::half, 1> bias,
         sc::View<const sc::half, 2> residual, sc::Float scale) {
        auto z = sums + at.per_column(bias);
        auto gelu = 0.5 * z * (1 + sc::erf(z * 0.70710678));
        return at.load(residual) + scale * gelu;
      },
      bias, residual, scale);
  // [/epilogue]

  // A layer in training keeps what its activation was given, too: an epilogue that stores returns
  // nothing.
  auto before = device.allocate<sc::half>(m * n), after = device.allocate<sc::half>(m * n);
  // [stores]
  sc::gemm(
      device.stream(), x, w,
      [](const sc::Tile<float> &sums, const sc::GemmPosition &at, sc::View<sc::half, 2> before,
         sc::View<sc::half, 2> after) {
        at.store(before, sums);
        at.store(after, sc::maximum(sums, 0));
      },
      sc::tensor(before, {m, n}), sc::tensor(after, {m, n}));
  // [/stores]

  // A gradient that is added to what earlier batches left.
  std::vector<float> ones(m * n, 1);
  auto totals = device.upload(ones);
  auto total = sc::tensor(totals, {m, n});
  // [adds]
  sc::gemm(
      device.stream(), x, w,
      [](const sc::Tile<float> &sums, const sc::GemmPosition &at, sc::View<float, 2> total) {
        at.store(total, at.load(total) + sums);
      },
      total);
  // [/adds]

  auto host_y = buffer.download();
  auto host_before = before.download(), host_after = after.download();
  auto host_totals = totals.download();
  double worst = 0, worst_stored = 0;
  for (int i = 0; i < m; ++i)
    for (int j = 0; j < n; ++j) {
      double sum = 0;
      for (int p = 0; p < k; ++p)
        sum += double(host_x[i * k + p]) * double(host_w[p * n + j]);
      const double z = sum + host_bias[j];
      const double exact =
          host_residual[i * n + j] + scale * 0.5 * z * (1 + std::erf(z * std::sqrt(0.5)));
      worst = std::fmax(worst, std::fabs(host_y[i * n + j] - exact));
      worst_stored = std::fmax(worst_stored, std::fabs(host_before[i * n + j] - sum));
      worst_stored = std::fmax(worst_stored, std::fabs(host_after[i * n + j] - std::fmax(sum, 0)));
      worst_stored = std::fmax(worst_stored, std::fabs(host_totals[i * n + j] - 1 - sum));
    }
  std::printf("gemm on %s: largest error %.1e, of what is stored %.1e\n", device.name().c_str(),
              worst, worst_stored);
  return worst > 2e-2 || worst_stored > 2e-2;
}
