// Convolutions and their gradients on the host, tap by tap.
#include "kernels/conv/Shape.h"
#include "kernels/references/Parallel.h"
#include "kernels/references/ReferenceArithmetic.h"

using namespace sectile;

namespace {

// The dense arrays of a convolution: places of elements of the image x [N, C, H, W], the filters w
// [K, Cg, R, S] and y [N, K, P, Q].
struct Places {
  ConvShape shape;
  std::int64_t images, channels, rows, columns;   // of x
  std::int64_t filters, own, tapRows, tapColumns; // of w
  std::int64_t outRows, outColumns, each;         // of y; filters of a group

  explicit Places(const Invocation &call)
      : shape(call.options), images(call.extent("N")), channels(call.extent("C")),
        rows(call.extent("H")), columns(call.extent("W")), filters(call.extent("K")),
        own(call.extent("Cg")), tapRows(call.extent("R")), tapColumns(call.extent("S")),
        outRows(call.extent("P")), outColumns(call.extent("Q")), each(filters / shape.groups) {}

  std::size_t countX() const { return std::size_t(images * channels * rows * columns); }
  std::size_t countW() const { return std::size_t(filters * own * tapRows * tapColumns); }
  std::size_t countY() const { return std::size_t(images * filters * outRows * outColumns); }

  // Calls body(y, x, w), the places of elements that meet in image n, filter k and channel c of its
  // group: all taps over all places that are not in the padding.
  template <class Body>
  void forTaps(std::int64_t n, std::int64_t k, std::int64_t c, Body &&body) const {
    const std::int64_t image = n * channels + k / each * own + c, filter = k * own + c,
                       out = n * filters + k;
    for (std::int64_t p = 0; p < outRows; ++p)
      for (std::int64_t r = 0, h; r < tapRows; ++r)
        if (isUnder(shape.h, p, r, rows, h))
          for (std::int64_t q = 0; q < outColumns; ++q)
            for (std::int64_t s = 0, w; s < tapColumns; ++s)
              if (isUnder(shape.w, q, s, columns, w))
                body(std::size_t((out * outRows + p) * outColumns + q),
                     std::size_t((image * rows + h) * columns + w),
                     std::size_t((filter * tapRows + r) * tapColumns + s));
  }

private:
  // Whether the tap is on an element of the image, and which one.
  static bool isUnder(const ConvAxis &axis, std::int64_t place, std::int64_t tap,
                      std::int64_t extent, std::int64_t &element) {
    element = place * axis.stride - axis.pad + tap * axis.dilation;
    return element >= 0 && element < extent;
  }
};

} // namespace

std::vector<HostArray> sectile::conv2dReference(const Invocation &call,
                                                std::span<const HostArray> inputs,
                                                Arithmetic arithmetic) {
  const Places of(call);
  return with_arithmetic(inputs[0].dtype, arithmetic, [&]<class Number>(NumbersOf<Number> numbers) {
    const auto x = loadOperand(numbers, call, inputs[0], arithmetic),
               w = loadOperand(numbers, call, inputs[1], arithmetic),
               bias = numbers.load(inputs[2]);
    std::vector<Number> result(of.countY());
    const std::int64_t area = of.outRows * of.outColumns;
    parallelFor(of.images * of.filters, [&](std::int64_t i) {
      const std::int64_t n = i / of.filters, k = i % of.filters;
      for (std::int64_t c = 0; c < of.own; ++c)
        of.forTaps(n, k, c, [&](std::size_t y, std::size_t at, std::size_t tap) {
          result[y] += x[at] * w[tap];
        });
      for (std::int64_t place = i * area; place < (i + 1) * area && !bias.empty(); ++place) {
        Number &value = result[static_cast<std::size_t>(place)];
        value = numbers.store(value) + bias[static_cast<std::size_t>(k)];
      }
    });
    return outputsOf(call, numbers, result);
  });
}

std::vector<HostArray> sectile::conv2dBackwardReference(const Invocation &call,
                                                        std::span<const HostArray> inputs,
                                                        Arithmetic arithmetic) {
  const Places of(call);
  return with_arithmetic(inputs[0].dtype, arithmetic, [&]<class Number>(NumbersOf<Number> numbers) {
    const auto x = loadOperand(numbers, call, inputs[0], arithmetic),
               w = loadOperand(numbers, call, inputs[1], arithmetic),
               dy = loadOperand(numbers, call, inputs[3], arithmetic),
               sums = numbers.load(inputs[3]);
    std::vector<Number> dx(of.countX()), dw(of.countW()), db(static_cast<std::size_t>(of.filters));
    parallelFor(of.images * of.channels, [&](std::int64_t i) {
      const std::int64_t n = i / of.channels, c = i % of.channels, first = c / of.own * of.each;
      for (std::int64_t k = first; k < first + of.each; ++k)
        of.forTaps(n, k, c % of.own, [&](std::size_t y, std::size_t at, std::size_t tap) {
          dx[at] += dy[y] * w[tap];
        });
    });
    parallelFor(of.filters * of.own, [&](std::int64_t i) {
      for (std::int64_t n = 0; n < of.images; ++n)
        of.forTaps(n, i / of.own, i % of.own, [&](std::size_t y, std::size_t at, std::size_t tap) {
          dw[tap] += dy[y] * x[at];
        });
    });
    const auto area = static_cast<std::size_t>(of.outRows * of.outColumns);
    for (std::size_t i = 0; i < sums.size(); ++i)
      db[i / area % db.size()] += sums[i];
    return outputsOf(call, numbers, dx, dw, db);
  });
}
