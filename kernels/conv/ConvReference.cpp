// Convolutions and their gradients on the host, tap by tap.
#include "kernels/Parallel.h"
#include "kernels/ReferenceArithmetic.h"
#include "kernels/conv/Shape.h"

using namespace sectile;

namespace {

// A place in a dense array of four axes.
struct Axes {
  std::int64_t b, c, d;
  explicit Axes(const HostArray &array) : b(array.shape[1]), c(array.shape[2]), d(array.shape[3]) {}
  Axes(std::int64_t b, std::int64_t c, std::int64_t d) : b(b), c(c), d(d) {}
  std::size_t at(std::int64_t i, std::int64_t j, std::int64_t k, std::int64_t l) const {
    return static_cast<std::size_t>(((i * b + j) * c + k) * d + l);
  }
};

// The element of the image under a tap, or none in the padding.
bool under(const ConvAxis &axis, std::int64_t place, std::int64_t tap, std::int64_t extent,
           std::int64_t &element) {
  element = place * axis.stride - axis.pad + tap * axis.dilation;
  return element >= 0 && element < extent;
}

// Calls body(p, q, h, w, r, s) for all taps over all places that are not in the padding.
template <class Body> void forTaps(const Invocation &call, const ConvShape &shape, Body &&body) {
  for (std::int64_t p = 0; p < call.extent("P"); ++p)
    for (std::int64_t r = 0, h; r < call.extent("R"); ++r)
      if (under(shape.h, p, r, call.extent("H"), h))
        for (std::int64_t q = 0; q < call.extent("Q"); ++q)
          for (std::int64_t s = 0, w; s < call.extent("S"); ++s)
            if (under(shape.w, q, s, call.extent("W"), w))
              body(p, q, h, w, r, s);
}

} // namespace

HostArray sectile::conv2dReference(const Invocation &call, std::span<const HostArray> inputs,
                                   Arithmetic arithmetic) {
  const ConvShape shape(call.options);
  const std::int64_t images = call.extent("N"), filters = call.extent("K"), own = call.extent("Cg"),
                     rows = call.extent("P"), columns = call.extent("Q"),
                     each = filters / shape.groups;
  const Axes at(inputs[0]), filterAt(inputs[1]), outAt(filters, rows, columns);
  return with_arithmetic(inputs[0].dtype, arithmetic, [&](auto numbers) {
    using Number = typename decltype(numbers)::Number;
    const auto x = loadOperand(numbers, call, inputs[0], arithmetic),
               w = loadOperand(numbers, call, inputs[1], arithmetic);
    std::vector<Number> bias;
    if (!inputs[2].data.empty())
      bias = numbers.load(inputs[2]);
    std::vector<Number> y(static_cast<std::size_t>(images * filters * rows * columns));
    parallelFor(images * filters, [&](std::int64_t i) {
      const std::int64_t n = i / filters, k = i % filters;
      for (std::int64_t c = 0; c < own; ++c)
        forTaps(call, shape,
                [&](std::int64_t p, std::int64_t q, std::int64_t h, std::int64_t column,
                    std::int64_t r, std::int64_t s) {
                  y[outAt.at(n, k, p, q)] +=
                      x[at.at(n, k / each * own + c, h, column)] * w[filterAt.at(k, c, r, s)];
                });
      for (std::int64_t p = 0; p < rows; ++p)
        for (std::int64_t q = 0; q < columns && !bias.empty(); ++q) {
          Number &value = y[outAt.at(n, k, p, q)];
          value = numbers.store(value) + bias[static_cast<std::size_t>(k)];
        }
    });
    return numbers.pack(numbers.result, {images, filters, rows, columns}, y);
  });
}

std::vector<HostArray> sectile::conv2dBackwardReference(const Invocation &call,
                                                        std::span<const HostArray> inputs,
                                                        Arithmetic arithmetic) {
  const ConvShape shape(call.options);
  const std::int64_t images = call.extent("N"), filters = call.extent("K"),
                     channels = call.extent("C"), own = call.extent("Cg"), rows = call.extent("P"),
                     columns = call.extent("Q"), each = filters / shape.groups;
  const Axes at(inputs[0]), filterAt(inputs[1]), outAt(inputs[3]);
  return with_arithmetic(inputs[0].dtype, arithmetic, [&](auto numbers) {
    using Number = typename decltype(numbers)::Number;
    const auto x = loadOperand(numbers, call, inputs[0], arithmetic),
               w = loadOperand(numbers, call, inputs[1], arithmetic),
               dy = loadOperand(numbers, call, inputs[3], arithmetic),
               sums = numbers.load(inputs[3]);
    std::vector<Number> dx(x.size()), dw(w.size()), db(static_cast<std::size_t>(filters));
    parallelFor(images * channels, [&](std::int64_t i) {
      const std::int64_t n = i / channels, c = i % channels, group = c / own;
      for (std::int64_t k = group * each; k < (group + 1) * each; ++k)
        forTaps(call, shape,
                [&](std::int64_t p, std::int64_t q, std::int64_t h, std::int64_t column,
                    std::int64_t r, std::int64_t s) {
                  dx[at.at(n, c, h, column)] +=
                      dy[outAt.at(n, k, p, q)] * w[filterAt.at(k, c % own, r, s)];
                });
    });
    parallelFor(filters * own, [&](std::int64_t i) {
      const std::int64_t k = i / own, c = i % own;
      for (std::int64_t n = 0; n < images; ++n)
        forTaps(call, shape,
                [&](std::int64_t p, std::int64_t q, std::int64_t h, std::int64_t column,
                    std::int64_t r, std::int64_t s) {
                  dw[filterAt.at(k, c, r, s)] +=
                      dy[outAt.at(n, k, p, q)] * x[at.at(n, k / each * own + c, h, column)];
                });
    });
    for (std::int64_t n = 0; n < images; ++n)
      for (std::int64_t k = 0; k < filters; ++k)
        for (std::int64_t p = 0; p < rows; ++p)
          for (std::int64_t q = 0; q < columns; ++q)
            db[static_cast<std::size_t>(k)] += sums[outAt.at(n, k, p, q)];
    return std::vector{numbers.pack(numbers.result, inputs[0].shape, dx),
                       numbers.pack(numbers.result, inputs[1].shape, dw),
                       numbers.pack(numbers.result, {filters}, db)};
  });
}
