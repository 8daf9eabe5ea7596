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
SECTILE_CONFIG(Rows, block, warps)

template <class T>
sc::Kernel scale_rows{"scale_rows", [](sc::View<const T, 2> x, sc::View<const float, 1> w,
                                       sc::View<T, 2> y, sc::Float offset, const Rows &rows) {
                        auto row = sc::program_id(0);
                        auto from = x.at(row).tile(rows.block);
                        auto to = y.at(row).tile(rows.block);
                        auto weight = sc::load(w.ptr() + row * w.stride(0));
                        for (auto i : sc::range(0, sc::cdiv(x.extent(1), rows.block)))
                          to.store(i, sc::cast<float>(from.load(i)) * weight + offset);
                      }};
// [/kernel]

// [describe]
sc::KernelSpec describe_scale_rows() {
  sc::KernelSpec spec;
  spec.name = "scale_rows";
  spec.summary = "y = x * w + offset, with a weight for each row";
  spec.arguments = {
      {.name = "x", .axes = {"M", "N"}, .dtypes = {sc::DType::float32, sc::DType::float16}},
      {.name = "w", .axes = {"M"}, .dtypes = {sc::DType::float32}, .doc = "of each row"},
      {.name = "y", .output = true, .axes = {"M", "N"}, .like = "x"}};
  spec.options = {{.name = "offset",
                   .kind = sc::OptionSpec::number,
                   .initial = "0",
                   .samples = {"0.5"},
                   .doc = "added to every element"}};
  spec.typical = {{"M", 4096}, {"N", 4096}}; // where no arrays are given: compile, tune, bench
  spec.small = {{"M", 5}, {"N", 300}};
  spec.configure<Rows>({"elements of a row at once"});
  spec.spaces = {{.axes = {{"block", {128, 256, 512, 1024}}, {"warps", {1, 2, 4}}}}};
  spec.apply = [](sc::Use &use) {
    sc::for_dtype<float, sc::half>(use.call.dtype("x"), [&]<class T>(T) {
      use(scale_rows<T>, sc::Grid(use.call.extent("M")), use.tensor<T, 2>("x"),
          use.tensor<float, 1>("w"), use.tensor<T, 2>("y"),
          static_cast<float>(use.call.options.number("offset")), use.config_as<Rows>());
    });
  };
  // [/describe]
  // [reference]
  spec.reference = [](const sc::Invocation &call, std::span<const sc::HostArray> in,
                      sc::Arithmetic arithmetic) {
    return sc::with_arithmetic(in[0].dtype, arithmetic, [&](auto numbers) {
      auto x = numbers.load(in[0]), w = numbers.load(in[1]);
      using Number = typename decltype(numbers)::Number;
      const auto offset = static_cast<Number>(call.options.number("offset"));
      const auto columns = static_cast<std::size_t>(call.extent("N"));
      for (std::size_t i = 0; i < x.size(); ++i)
        x[i] = x[i] * w[i / columns] + offset;
      return std::vector{numbers.pack(numbers.result, in[0].shape, x)};
    });
  };
  // [/reference]
  return spec;
}

} // namespace

// [entry]
void sectile_register_kernels() { sc::register_kernel(describe_scale_rows()); }
// [/entry]
