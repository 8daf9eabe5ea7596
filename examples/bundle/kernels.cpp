// A kernel of one's own and a call of the library's, and what code a bundle has for them.
#include "kernels.h"
#include <sectile/bundle.h>
#include <sectile/kernels.h>
#include <sectile/sectile.h>

namespace sc = sectile;

// [kernel]
struct Block {
  int size = 1024;
};

static sc::Kernel vector_add{"vector_add", [](sc::Ptr<const float> x, sc::Ptr<const float> y,
                                              sc::Ptr<float> z, sc::Int n, const Block &block) {
                               auto i = sc::program_id(0) * block.size + sc::arange(0, block.size);
                               auto inside = i < n;
                               sc::store(z + i, sc::load(x + i, inside) + sc::load(y + i, inside),
                                         inside);
                             }};

void add(const sc::Stream &stream, const sc::Buffer<float> &x, const sc::Buffer<float> &y,
         const sc::Buffer<float> &z, int n) {
  const Block block{.size = 512};
  vector_add.launch(stream, sc::cdiv(n, block.size), x, y, z, n, block);
}
// [/kernel]

sc::Tensor<sc::half, 2> product(const sc::Stream &stream, const sc::Tensor<sc::half, 2> &a,
                                const sc::Tensor<sc::half, 2> &b) {
  return sc::matmul(stream, a, b);
}

// [bundle]
SECTILE_BUNDLE(bundle) {
  bundle.add(vector_add, Block{.size = 512});
  bundle.add("matmul", {.dtype = "f16", .shapes = {{"M", {64, 4096}}, {"N", {4096}}}});
}
// [/bundle]
