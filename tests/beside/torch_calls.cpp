// What torch_test.py calls: kernels of the library in torch's process, on its memory and in its
// streams.
#include <cstdint>
#include <exception>
#include <sectile/library.h>
#include <sectile/sectile.h>
#include <string>

using namespace sectile;

namespace {

Device device() {
  static const Device theDevice = Device::open("cuda:0");
  return theDevice;
}

thread_local std::string said;

template <class Call> const char *tried(const Call &call) {
  try {
    call();
    return nullptr;
  } catch (const std::exception &error) {
    said = error.what();
    return said.c_str();
  }
}

Tensor<float, 2> rowsOf(float *from, std::int64_t rows, std::int64_t columns) {
  return {from, {rows, columns}, {columns, 1}};
}

} // namespace

// Each gives null, or what went wrong.
extern "C" {

const char *calls_softmax(void *stream, float *x, float *y, std::int64_t rows, std::int64_t n) {
  return tried([&] {
    run_kernel(Stream::wrap(device(), stream), "softmax", {{"x", rowsOf(x, rows, n)}}, {},
               {{"y", rowsOf(y, rows, n)}});
  });
}

// Takes scratch memory.
const char *calls_sort(void *stream, float *x, float *y, std::int64_t *indices, std::int64_t n) {
  return tried([&] {
    run_kernel(
        Stream::wrap(device(), stream), "sort", {{"x", rowsOf(x, 1, n)}}, {},
        {{"y", rowsOf(y, 1, n)}, {"indices", Tensor<std::int64_t, 2>(indices, {1, n}, {n, 1})}});
  });
}

// The sum of what it allocates itself.
const char *calls_own_memory(std::int64_t n, float *sum) {
  return tried([&] {
    const auto ones = device().allocate<float>(static_cast<std::size_t>(n));
    ones.fill(1);
    const NamedTensors out = run_kernel(device().stream(), "reduce", {{"x", tensor(ones, {1, n})}});
    *sum = Buffer<float>(out.at("y").memory).download().at(0);
  });
}

// Null functions: the driver's memory again.
const char *calls_set_allocator(std::uint64_t (*allocate)(std::size_t, void *),
                                void (*free)(std::uint64_t)) {
  return tried([&] {
    if (!allocate)
      return device().set_allocator({});
    device().set_allocator(
        {[=](std::size_t bytes, void *stream) { return allocate(bytes, stream); },
         [=](std::uint64_t address, std::size_t, void *) { free(address); }});
  });
}
}
