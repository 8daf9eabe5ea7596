// Kernels of one name that programs in C launch: y = y + a x of f32 and of f64, or twice that.
#pragma once
#include <sectile/sectile.h>

namespace sc = sectile;

struct Block {
  int size = 128;
  bool twice = false;
};
SECTILE_CONFIG(Block, size, twice)

template <class T>
void axpy(sc::Ptr<const T> x, sc::Ptr<T> y, sc::Tile<T> a, sc::Int n, const Block &block) {
  auto i = sc::program_id(0) * block.size + sc::arange(0, block.size);
  auto inside = i < n;
  auto sum = sc::load(y + i, inside) + a * sc::load(x + i, inside);
  sc::store(y + i, block.twice ? sum + sum : sum, inside);
}

static sc::Kernel axpy_f32{"axpy", [](sc::Ptr<const float> x, sc::Ptr<float> y, sc::Tile<float> a,
                                      sc::Int n, const Block &block) { axpy(x, y, a, n, block); }};
static sc::Kernel axpy_f64{"axpy",
                           [](sc::Ptr<const double> x, sc::Ptr<double> y, sc::Tile<double> a,
                              sc::Int n, const Block &block) { axpy(x, y, a, n, block); }};
