// matmul: c = act(alpha row_scale column_scale a b + beta residual + bias), either operand stored
// transposed: BLAS's gemm with torch.addmm's bias and an activation. Sums are f32, of i8 i32. With
// K = 0 the epilogue remains; with beta = 0 the residual is not read.
#include "kernels/matmul/Family.h"
#include "kernels/matmul/Gemm.h"
#include "kernels/matmul/Operands.h"
#include "kernels/matmul/TileOrder.h"

using namespace sectile;

namespace {

struct MatmulConfig {
  int m = 128, n = 128, k = 32, group = 8, warps = 4, stages = 3, cluster = 1;
  bool persistent = false;
  Precision precision = Precision::tf32;
};

template <class T> struct MatmulArguments {
  View<const T, 2> a, b;
  View<T, 2> c;
};

template <class T>
Kernel matmul{"matmul", [](const MatmulArguments<T> &arguments, const MatmulConfig &config) {
                const auto &[a, b, c] = arguments;
                program_clusters(config.cluster);
                const auto [rows, columns] = c.tiles(config.m, config.n);
                const TileOrder order(rows, columns, config.group, config.cluster);
                order.forTiles(config.persistent, [&](const Int &tile) {
                  auto [i, j] = order.at(tile);
                  auto left = a.tile(config.m, config.k);
                  auto right = b.tile(config.k, config.n);
                  auto sums = zeros<float>(config.m, config.n);
                  for (auto k :
                       range(0, cdiv(a.extent(1), config.k), copiedApart(config.persistent)))
                    sums = dot(left.load(i, k), right.load(k, j), sums, config.precision);
                  c.tile(config.m, config.n).store(i, j, sums);
                });
              }};

// The kernel above takes nothing but matrices of one dtype of floats.
bool isPlain(const Use &use) {
  return !epilogueParts(use.call).any() && use.field("splits") == 1 &&
         use.call.options.choice("schedule") == "tiles" &&
         use.call.dtype("c") == use.call.dtype("a") && size_of(use.call.dtype("a")) > 1;
}

} // namespace

KernelSpec sectile::matmulSpec() {
  KernelSpec spec;
  spec.name = "matmul";
  spec.summary = "c = act(alpha a b + beta residual + bias)";
  specifyGemm(spec, false);
  spec.typical = {{"M", 4096}, {"N", 4096}, {"K", 4096}};
  spec.small = {{"M", 70}, {"N", 50}, {"K", 40}};
  spec.apply = [](Use &use) {
    if (!isPlain(use)) {
      launchGemm(use, false);
      return;
    }
    const auto config = use.config_as<MatmulConfig>();
    const std::int64_t programs =
        programsFor(use, clusteredTiles(use.call, config), config.cluster);
    for_dtype<half, bfloat16, float>(use.call.dtype("a"), [&]<class T>(T) {
      const auto a = leftOperand(use, use.tensor<T, 2>("a")),
                 b = rightOperand(use, use.tensor<T, 2>("b"));
      use(matmul<T>, programs, config, {{"a", a}, {"b", b}});
    });
  };
  return spec;
}
