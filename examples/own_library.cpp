// A shared library with a kernel of its own for the program `sectile`:
//   sectile --load build/bin/examples/libown_library.so list scale_rows
#include <sectile/register_kernel.h>

namespace sc = sectile;

namespace {

// [kernel]
struct Rows {
  int block = 512; // elements of a row that a program holds at once
  int warps = 4;
};

template <class T> struct ScaleRows { // each field has an argument's or an option's name
  sc::View<const T, 2> x;
  sc::View<const float, 1> w;
  sc::View<T, 2> y;
  sc::Float offset;
};

template <class T>
sc::Kernel scale_rows{"scale_rows", [](const ScaleRows<T> &a, const Rows &rows) {
                        auto row = sc::program_id(0);
                        auto from = a.x.at(row).tile(rows.block);
                        auto to = a.y.at(row).tile(rows.block);
                        auto weight = sc::load(a.w.ptr() + row * a.w.stride(0));
                        for (auto i : sc::range(0, sc::cdiv(a.x.extent(1), rows.block)))
                          to.store(i, sc::cast<float>(from.load(i)) * weight + a.offset);
                      }};
// [/kernel]

// [describe]
sc::KernelSpec describe_scale_rows() {
  sc::KernelSpec spec;
  spec.name = "scale_rows";
  spec.summary = "y = x * w + offset, with a weight for each row";
  spec.add_arguments(
      {{"x: [M, N] f32|f16"}, {"w: [M] f32", "weight of each row"}, {"-> y: [M, N] like x"}});
  spec.add_options({{"offset: number = 0 e.g. 0.5", "added to every element"}});
  spec.typical = {{"M", 4096}, {"N", 4096}}; // where no arrays are given: compile, tune, bench
  spec.small = {{"M", 5}, {"N", 300}};
  spec.configure<Rows>({"elements of a row at once"});
  spec.spaces = {{.axes = {{"block", {128, 256, 512, 1024}}, {"warps", {1, 2, 4}}}}};
  spec.apply = [](sc::Use &use) {
    sc::for_dtype<float, sc::half>(use.call.dtype("x"),
                                   [&]<class T>(T) { use(scale_rows<T>, use.extent("M")); });
  };
  // [/describe]
  // [reference]
  spec.reference = sc::reference_of([](auto numbers, const sc::Invocation &call, auto in) {
    auto x = numbers.load(in[0]), w = numbers.load(in[1]);
    const auto offset = numbers.number(call.options.number("offset"));
    for (std::size_t i = 0; i < x.size(); ++i)
      x[i] = x[i] * w[i * w.size() / x.size()] + offset;
    return std::vector{numbers.pack(numbers.result, in[0].shape, x)};
  });
  // [/reference]
  return spec;
}

} // namespace

// [entry]
void sectile_register_kernels() { sc::register_kernel(describe_scale_rows()); }
// [/entry]
