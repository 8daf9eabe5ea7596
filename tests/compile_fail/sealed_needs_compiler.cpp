// Each thing that needs the compiler is refused in a sealed program.
// expect: emit.*is unavailable: a sealed program has no compiler: link Sectile::sectile
// expect: code_hash.*is unavailable: a sealed program has no compiler: link Sectile::sectile
// expect: cache_key.*is unavailable: a sealed program has no compiler: link Sectile::sectile
// expect: on_line.*is unavailable: a sealed program has no compiler: link Sectile::sectile
// expect: clear_lines.*is unavailable: a sealed program has no compiler: link Sectile::sectile
// expect: trap_nan.*is unavailable: a sealed program has no compiler: link Sectile::sectile
// expect: llvm_version.*is unavailable: a sealed program has no compiler: link Sectile::sectile
// expect: time.*is unavailable: a sealed program has no compiler: link Sectile::sectile
// expect: peak_of.*is unavailable: a sealed program has no compiler: link Sectile::sectile
// expect: run.*is unavailable: a sealed program has no compiler: link Sectile::sectile
#define SECTILE_SEALED
#include <sectile/bench.h>
#include <sectile/sectile.h>

namespace sc = sectile;

sc::Kernel ones{"ones", [](sc::Ptr<float> x) { sc::store(x + sc::arange(0, 64), 1.0f); }};

void use(const sc::Device &device, const sc::Buffer<float> &x) {
  ones.launch(device.stream(), 1, x);
  ones.emit("sm_80", "ptx", x);
  ones.code_hash(device, x);
  ones.cache_key(device, x);
  sc::interpreter::on_line("a.cpp", 1, nullptr);
  sc::interpreter::clear_lines();
  sc::interpreter::trap_nan(true);
  sc::llvm_version();
  sc::bench::time(device.stream(), [] {});
  sc::bench::peak_of(device);
  sc::bench::run({}, {});
}
