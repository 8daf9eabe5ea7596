// Finding a mistake in a kernel: a print, an assertion and a promise that does not hold.
#include <cstdio>
#include <sectile/sectile.h>

namespace sc = sectile;

// [kernel]
// Adds up, for each row, the values at the places that its list of indices names.
sc::Kernel gather_sum{"gather_sum", [](sc::Ptr<const float> values, sc::Ptr<const int> places,
                                       sc::Ptr<float> sums, sc::Int n) {
                        auto row = sc::program_id(0);
                        auto at = sc::load(places + row * 8 + sc::arange(0, 8));
                        sc::device_assert(at >= 0 && at < n, "a place is one of the values");
                        auto found = sc::load(values + at);
                        sc::when(row == 0, [&] { sc::device_print("found ", found); });
                        sc::store(sums + row, sc::sum(found));
                      }};
// [/kernel]

int main() {
  auto device = sc::Device::best();
  std::vector<float> host_values(16);
  std::vector<int> host_places(4 * 8);
  for (int i = 0; i < 16; ++i)
    host_values[i] = 0.25f * i;
  for (int i = 0; i < 4 * 8; ++i)
    host_places[i] = i % 16;
  host_places[2 * 8 + 5] = 16; // the mistake
  auto values = device.upload(host_values), sums = device.upload(std::vector<float>(4));
  auto places = device.upload(host_places);

  // [catch]
  gather_sum.launch(device.stream(), 4, values, places, sums, 16);
  try {
    device.stream().synchronize();
  } catch (const sc::AssertionError &error) {
    std::printf("%s: row %u, place %d\n", error.message().c_str(), error.program()[0],
                int(error.index()[0]));
  }
  // [/catch]

  // The other rows are there, and the device goes on working.
  std::vector<float> got = sums.download();
  int wrong = got[0] != 7 || got[1] != 23 || got[3] != 23;

  // [capture]
  std::string text;
  auto before = sc::set_print_handler([&](std::string_view more) { text += more; });
  gather_sum.launch(device.stream(), 1, values, places, sums, 16, {.checked = true});
  device.synchronize();
  sc::set_print_handler(before);
  // [/capture]

  wrong += text != "gather_sum (0, 0, 0): found f32[8]\n"
                   "  [0]     0 0.25  0.5 0.75    1 1.25  1.5 1.75\n";
  std::printf("debugging on %s: %d wrong\n", device.name().c_str(), wrong);
  return wrong != 0;
}
