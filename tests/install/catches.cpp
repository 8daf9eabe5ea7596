// A program over an installed Sectile: exceptions that cross the library's boundary are caught by
// their type.
#include <cstdio>
#include <sectile/gemm.h>
#include <sectile/library.h>
#include <sectile/register_kernel.h>
#include <sectile/sectile.h>

namespace sc = sectile;

namespace {

sc::Kernel wrong{
    "wrong", [](sc::Ptr<float> x) { sc::store(x + (sc::arange(0, 4) + sc::arange(0, 8)), 1.0f); }};
struct Own {};
sc::Kernel stops{"stops", [](sc::Ptr<float>) { throw Own(); }};

template <class Expected, class Work> bool throws(const char *what, Work work) {
  try {
    work();
  } catch (const Expected &) {
    return true;
  } catch (const std::exception &error) {
    std::printf("%s threw another type: %s\n", what, error.what());
    return false;
  } catch (...) {
    std::printf("%s threw an unknown type\n", what);
    return false;
  }
  std::printf("%s did not throw\n", what);
  return false;
}

} // namespace

int main() {
  const auto device = sc::Device::open("virtual:sm_80");
  const auto x = device.allocate<float>(4);
  const bool caught[] = {
      throws<sc::InputError>("register_kernel", [] { sc::register_kernel(sc::KernelSpec()); }),
      throws<sc::DeviceError>("open", [] { sc::Device::open("virtual:none"); }),
      throws<sc::Error>("open, as its base", [] { sc::Device::open("virtual:none"); }),
      throws<sc::CompileError>("launch", [&] { wrong.launch(device.stream(), 1, x); }),
      throws<sc::LaunchError>("run_kernel", [&] { sc::run_kernel(device.stream(), "none", {}); }),
      // The user's own goes through the library, which traces.
      throws<Own>("a kernel", [&] { stops.launch(device.stream(), 1, x); }),
  };
  for (bool each : caught)
    if (!each)
      return 1;
  std::puts("all caught");
}
