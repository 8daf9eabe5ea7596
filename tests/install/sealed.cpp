// A program over an installed Sectile, to be sealed: a kernel of its own and, with WITH_KERNELS,
// one of the library's. Prints what becomes of each on the device that it is given, with the bundle
// that it is given, if any.
#include <cstdio>
#include <sectile/bundle.h>
#ifdef WITH_KERNELS
#include <sectile/kernels.h>
#endif
#include <sectile/sectile.h>

namespace sc = sectile;

struct Block {
  int size = 256;
};
SECTILE_CONFIG(Block, size)

sc::Kernel vector_add{"vector_add", [](sc::Ptr<const float> x, sc::Ptr<const float> y,
                                       sc::Ptr<float> z, sc::Int n, const Block &block) {
                        auto i = sc::program_id(0) * block.size + sc::arange(0, block.size);
                        auto inside = i < n;
                        sc::store(z + i, sc::load(x + i, inside) + sc::load(y + i, inside), inside);
                      }};

template <class Work> void attempt(const char *what, Work work) {
  try {
    work();
    std::printf("%s: done\n", what);
  } catch (const sc::LaunchError &error) {
    std::printf("%s: launch error: %s\n", what, error.what());
  } catch (const sc::DeviceError &error) {
    std::printf("%s: device error: %s\n", what, error.what());
  } catch (const sc::Error &error) {
    std::printf("%s: error: %s\n", what, error.what());
  }
}

int main(int count, char **arguments) {
  attempt("open", [] { sc::Device::open("interpreter"); });
  if (count > 2)
    attempt("bundle", [&] { sc::load_bundle(arguments[2]); });
  const sc::Device device = sc::Device::open(arguments[1]);
  const int n = 1000;
  const auto x = device.upload(std::vector<float>(n, 1)),
             y = device.upload(std::vector<float>(n, 2));
  const auto z = device.allocate<float>(n);
  attempt("vector_add", [&] { vector_add.launch(device.stream(), sc::cdiv(n, 256), x, y, z, n); });
  attempt("prepare", [&] {
    sc::prepare([&] { vector_add.launch(device.stream(), sc::cdiv(n, 256), x, y, z, n); });
  });
#ifdef WITH_KERNELS
  const auto a = device.allocate<sc::half>(64 * 32), b = device.allocate<sc::half>(32 * 48);
  const auto left = sc::tensor(a, {64, 32}), right = sc::tensor(b, {32, 48});
  attempt("matmul", [&] { sc::matmul(device.stream(), left, right); });
  attempt("matmul of others", [&] { sc::matmul(device.stream(), right, right); });
  attempt("run_kernel", [&] { sc::run_kernel(device.stream(), "matmull", {}); });
#endif
}
