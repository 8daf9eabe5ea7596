// What header.c calls by the header that sectile_add_bundle generates: kernels of one name, one
// with two configurations, arguments of every kind, and a kernel of the library.
#include "../capi/Axpy.h"
#include <sectile/bundle.h>

// Element [row, 0] of y is that of x plus what the numbers say.
static sc::Kernel first{"first", [](sc::View<const float, 2> x, sc::View<float, 2> y,
                                    sc::Tile<std::int8_t> add, sc::Tile<bool> negate,
                                    sc::Tile<std::uint64_t> more) {
                          auto row = sc::program_id(0);
                          auto sum = sc::load(x.ptr() + row * x.stride(0)) + sc::cast<float>(add) +
                                     sc::cast<float>(more);
                          sc::store(y.ptr() + row * y.stride(0), sc::where(negate, -sum, sum));
                        }};

SECTILE_BUNDLE(bundle) {
  bundle.add(axpy_f32, Block{.size = 64});
  bundle.add(axpy_f32, Block{.size = 64, .twice = true});
  bundle.add(axpy_f64, Block{.size = 32});
  bundle.add(first);
  bundle.add("softmax", {.dtype = "f32", .shapes = {{"...", {1}}, {"N", {64}}}});
}
