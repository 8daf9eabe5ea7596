// Kernels of the test's own for tests/capi/kernels.c: two of one name and several configurations,
// and one on views.
#include "Axpy.h"
#include <sectile/bundle.h>

// Element [row, 0] of y is that of x plus what the numbers say.
static sc::Kernel first{"first", [](sc::View<const float, 2> x, sc::View<float, 2> y,
                                    sc::Tile<std::int8_t> add, sc::Tile<bool> negate) {
                          auto row = sc::program_id(0);
                          auto sum = sc::load(x.ptr() + row * x.stride(0)) + sc::cast<float>(add);
                          sc::store(y.ptr() + row * y.stride(0), sc::where(negate, -sum, sum));
                        }};

SECTILE_BUNDLE(bundle) {
  bundle.add(axpy_f32, Block{.size = 64});
  bundle.add(axpy_f32, Block{.size = 64, .twice = true});
  bundle.add(axpy_f32, Block{.size = 64}, {.warps = 2});
  bundle.add(axpy_f64, Block{});
  bundle.add(first);
}
