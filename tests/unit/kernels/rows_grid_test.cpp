// Kernels over rows, elements, pools and positions on every target: dtypes by sizes by options.
// With SECTILE_TEST_ALL=1 the whole grid, otherwise every hundredth of its cases, others on each
// target.
#include "../Processes.h"
#include "KernelTest.h"

using namespace sectile;
using namespace sectile::test;

namespace {

using Extents = std::map<std::string, std::int64_t>;

/// Kernels that take the same sizes; of the variants the next one is taken for each case.
struct Variant {
  Assignments options = {};
  std::vector<std::string> with = {};
};
struct Family {
  std::vector<const char *> kernels;
  std::vector<Extents> sizes;
  std::vector<Variant> variants = {{}};
  std::vector<const char *> dtypes = {"f32", "f16", "bf16"};
};

std::vector<Extents> rows(const char *last) {
  std::vector<Extents> sizes;
  for (const auto &[count, length] : {std::pair{3, 1}, {7, 257}, {65, 64}, {3, 9001}})
    sizes.push_back({{"...", count}, {last, length}});
  return sizes;
}

std::vector<Family> families() {
  const std::vector<Extents> lengths{{{"...", 1}}, {{"...", 1025}}, {{"...", 5000}}};
  std::vector<Variant> kinds;
  for (const char *kind :
       {"relu", "relu_squared", "gelu", "gelu_tanh", "silu", "sigmoid", "tanh", "softplus"})
    kinds.push_back({{{"kind", kind}}});
  const std::vector<Extents> hidden{{{"B", 1}, {"S", 1}, {"H", 2}, {"P", 3}},
                                    {{"B", 3}, {"S", 17}, {"H", 130}, {"P", 20}},
                                    {{"B", 9}, {"S", 5}, {"H", 2500}, {"P", 5}}};
  std::vector<Extents> plain = hidden;
  for (Extents &extents : plain)
    extents.erase("P");
  const std::vector<Variant> added{{},
                                   {{{"scale", "0.5"}, {"offset", "3"}}},
                                   {{}, {"w", "b"}},
                                   {{}, {"positions"}},
                                   {{}, {"positions", "w", "b"}}};
  return {
      {{"softmax", "softmax_backward", "log_softmax", "log_softmax_backward"}, rows("N")},
      {{"layer_norm", "layer_norm_backward"},
       rows("N"),
       {{{}, {"w", "b"}}, {}, {{}, {"w"}}, {{}, {"b"}}}},
      {{"rms_norm"},
       rows("N"),
       {{{}, {"w"}}, {{}, {"residual"}}, {{{"eps", "0.5"}}, {"w", "residual"}}}},
      {{"rms_norm_backward"}, rows("N"), {{{}, {"w"}}, {{}, {"h"}}, {{}, {"w", "h", "dh"}}}},
      {{"cross_entropy", "cross_entropy_backward"},
       rows("V"),
       {{},
        {{{"reduction", "sum"}, {"label_smoothing", "0.1"}}},
        {{{"reduction", "none"}, {"lse_square", "0.01"}}}}},
      {{"group_norm", "group_norm_backward"},
       {{{"B", 3}, {"C", 32}, {"...", 1}, {"G", 32}},
        {{"B", 2}, {"C", 96}, {"...", 35}, {"G", 32}},
        {{"B", 1}, {"C", 64}, {"...", 4999}, {"G", 32}}}},
      {{"activation", "activation_backward"}, lengths, kinds},
      {{"swiglu", "swiglu_backward"}, lengths},
      {{"geglu", "geglu_backward"}, lengths, {{}, {{{"approximate", "tanh"}}}}},
      {{"dropout", "dropout_backward"},
       lengths,
       {{}, {{{"p", "0.1"}, {"seed", "-12345678901"}}}, {{{"p", "1"}}}}},
      {{"embedding", "embedding_backward"},
       {{{"V", 3}, {"H", 1}, {"...", 1}}, {{"V", 300}, {"H", 70}, {"...", 129}}}},
      {{"mean_pool", "mean_pool_backward"},
       {{{"B", 1}, {"T", 1}, {"D", 1}}, {{"B", 3}, {"T", 130}, {"D", 70}}},
       {{}, {{}, {"mask"}}}},
      {{"chunk_mean_pool"},
       {{{"B", 1}, {"T", 1}, {"H", 1}, {"D", 16}}, {{"B", 1}, {"T", 150}, {"H", 3}, {"D", 72}}},
       {{}, {{{"chunk", "7"}}}, {{{"chunk", "16"}}, {"cu_seqlens"}}}},
      {{"rope", "rope_backward"},
       {{{"B", 1}, {"H", 1}, {"S", 1}, {"D", 16}},
        {{"B", 2}, {"H", 5}, {"S", 33}, {"D", 80}},
        {{"B", 2}, {"H", 9}, {"S", 70}, {"D", 128}}},
       {{},
        {{{"style", "interleaved"}}},
        {{{"layout", "bshd"}, {"offset", "100000"}}},
        {{{"style", "interleaved"}, {"rotary", "12"}}, {"positions"}},
        {{{"rotary", "6"}, {"theta", "500000"}}, {"positions"}}}},
      {{"add_positions"}, hidden, added},
      {{"sinusoidal"}, plain, added},
      {{"reduce"},
       rows("N"),
       {{{{"op", "sum"}}}, {{{"op", "max"}}}, {{{"op", "argmin"}}}, {{{"op", "mean"}}}}},
      {{"scan"}, rows("N"), {{}, {{{"op", "cummax"}, {"reverse", "true"}}}}},
      {{"sort", "argsort"},
       {{{"...", 3}, {"N", 1}}, {{"...", 5}, {"N", 300}}},
       {{}, {{{"descending", "true"}}}}},
      {{"topk"},
       {{{"...", 3}, {"N", 9}}, {{"...", 5}, {"N", 300}}},
       {{}, {{{"largest", "false"}}}}},
  };
}

std::vector<KernelCase> cases() {
  std::vector<KernelCase> all;
  for (const Family &family : families())
    for (const char *kernel : family.kernels) {
      std::size_t variant = 0;
      for (const Extents &size : family.sizes)
        for (const char *dtype : family.dtypes) {
          const Variant &chosen = family.variants[variant++ % family.variants.size()];
          KernelCase test{kernel, size, chosen.options, chosen.with, dtype};
          // Extents that a kernel has no axis for, it works out.
          if (std::string_view(kernel) == "group_norm")
            test.extents.erase("G");
          all.push_back(test);
        }
    }
  return all;
}

const std::vector<std::string> targets{"sm_80",  "sm_86",  "sm_89",  "sm_90a",  "sm_100", "sm_120",
                                       "gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201"};

class RowsGrid : public testing::TestWithParam<std::size_t> {};

} // namespace

TEST_P(RowsGrid, IsRight) {
  const Device device = Device::open("virtual:" + targets[GetParam()]);
  const std::vector<KernelCase> all = cases();
  const std::size_t step = count(100, 1);
  for (std::size_t i = GetParam() * step / targets.size(); i < all.size(); i += step)
    expectRight(device, all[i]);
}
INSTANTIATE_TEST_SUITE_P(Targets, RowsGrid, testing::Range(std::size_t(0), targets.size()),
                         [](const auto &info) { return targets[info.param]; });
