// Attention of one's own with <sectile/flash.h>: ALiBi with a soft cap and its gradients, documents
// packed in a row, and a mask that a lambda draws.
#include <cmath>
#include <cstdio>
#include <sectile/flash.h>

namespace sc = sectile;
namespace flash = sectile::flash;

int main() {
  const int batches = 2, heads = 4, length = 96, width = 32;
  std::vector<sc::half> host(batches * heads * length * width);
  for (int i = 0; i < int(host.size()); ++i)
    host[i] = static_cast<sc::half>(float(i * 7 % 23 - 11) / 8);
  std::vector<std::int32_t> host_starts, host_ends; // documents of 40 and 56 tokens
  for (int i = 0; i < batches * length; ++i) {
    host_starts.push_back(i % length < 40 ? 0 : 40);
    host_ends.push_back(i % length < 40 ? 40 : length);
  }

  auto device = sc::Device::best();
  auto stream = device.stream();
  auto q = sc::tensor(device.upload(host), {batches, heads, length, width});
  auto k = q, v = q, d_o = q;
  auto slopes = device.upload(std::vector<float>{0.5f, 0.25f, 0.125f, 0.0625f});
  auto starts = sc::tensor(device.upload(host_starts), {batches, length});
  auto ends = sc::tensor(device.upload(host_ends), {batches, length});

  // [alibi]
  const auto alibi = flash::scores(
      [](flash::Score s, const flash::At &at, sc::Float cap, sc::View<const float, 1> slopes) {
        return soft_cap(s, cap) - at.per_head(slopes) * at.distance();
      },
      30.0f, slopes);
  const auto [o, lse] = flash::attend(stream, q, k, v, alibi, flash::causal());
  const auto [dq, dk, dv, dbias, dsinks] =
      flash::backward(stream, q, k, v, o, lse, d_o, alibi, flash::causal());
  // [/alibi]

  const int reach = 16;
  auto host_table = std::vector<float>(heads * (2 * reach + 1), 0.1f);
  auto table = sc::tensor(device.upload(host_table), {1, heads, 2 * reach + 1});
  auto d_table = sc::tensor(device.upload(host_table), {1, heads, 2 * reach + 1});
  // [learned]
  const auto relative = flash::scores(
      [](flash::Score s, const flash::At &at, flash::Learned<flash::Along::distances> table) {
        return s + at.by_distance(table);
      },
      flash::learned(table, d_table));
  const auto biased = flash::attend(stream, q, k, v, relative, flash::causal());
  flash::backward(stream, q, k, v, biased.o, biased.lse, d_o, relative, flash::causal());
  // [/learned]

  // [documents]
  const auto in_documents = flash::attend(
      stream, q, k, v, flash::plain(),
      flash::causal() && flash::documents(starts, ends) && flash::window(31, 0), {.scale = 0.125});
  // [/documents]

  // [where]
  const auto strided =
      flash::where([](const flash::At &at,
                      sc::Int every) { return at.distance() < 16.0f || at.key() % every == 0; },
                   8);
  const auto with_lambda =
      flash::attend(stream, q, k, v, flash::plain(), flash::causal() && strided);
  // [/where]

  // [blocks]
  const auto blocks = flash::blocks_of(stream, strided, {.queries = length, .keys = length});
  const auto listed = flash::causal() && flash::block_list(strided, blocks);
  const auto with_blocks = flash::attend(stream, q, k, v, flash::plain(), listed);
  flash::backward(stream, q, k, v, with_blocks.o, with_blocks.lse, d_o, flash::plain(), listed);
  // [/blocks]

  // The first token of each document sees itself alone.
  const auto got = sc::Buffer<sc::half>(in_documents.o.memory()).download();
  double worst = 0;
  for (int row : {0, 40})
    for (int d = 0; d < width; ++d)
      worst = std::max(worst, std::fabs(double(float(got[row * width + d])) -
                                        double(float(host[row * width + d]))));
  // Softmax does not change when all scores do: the gradients of a row's scores sum to 0.
  double total = 0;
  for (const sc::half value : sc::Buffer<sc::half>(dq.memory()).download())
    total += double(float(value));
  std::printf("documents: largest error %.1e; gradient of q: mean %.1e\n", worst,
              total / double(host.size()));
  return worst == 0 && std::isfinite(total) ? 0 : 1;
}
