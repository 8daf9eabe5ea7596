// Views as a launch passes them: of what is known of their addresses, alignment and strides, and
// whether their elements have different addresses, the code is made. Blocks are read, changed and
// written in place, at places that a loop moves, through parts of the view and in other layouts.
#include "tests/fuzz/language/Cases.h"
#include <sectile/sectile.h>
#include <utility>
#include <vector>

namespace sectile::fuzz {

namespace {

using Number = std::int32_t;

constexpr std::int64_t rows = 40, columns = 40;
/// What is carried from step to step.
constexpr std::int64_t height = 32, width = 8;

struct Step {
  enum class Kind { read, write, add, inPlace, loop } kind;
  enum class Part { whole, transposed, slice, fixed } part;
  std::int64_t m, n;
  std::int64_t row, rowPerTrip, column, columnPerTrip;
  std::int64_t shift; ///< of what is written in place
  std::int64_t trips;
  bool isCounted; ///< the compiler knows how often
  int stages;
  std::vector<Step> body;
};

Step someStep(Draw &draw, unsigned depth) {
  static constexpr std::int64_t extents[] = {1, 2, 4, 8, 16, 32};
  Step step{};
  step.kind = depth < 2 && draw.pick(4) == 0 ? Step::Kind::loop : Step::Kind(draw.pick(4));
  step.part = Step::Part(draw.pick(4));
  do {
    step.m = draw.oneOf(extents);
    step.n = draw.oneOf(extents);
  } while (step.m * step.n > height * width);
  step.row = draw.number(-4, 24);
  step.column = draw.number(-4, 24);
  step.rowPerTrip = draw.number(-2, 6);
  step.columnPerTrip = draw.coin() ? draw.number(-2, 6) : 0;
  step.shift = draw.coin() ? draw.number(-1, 1) : 0;
  step.trips = draw.number(0, 4);
  step.isCounted = draw.coin();
  step.stages = static_cast<int>(draw.pick(4));
  if (step.kind == Step::Kind::loop)
    for (std::size_t i = 1 + draw.pick(3); i > 0; --i)
      step.body.push_back(someStep(draw, depth + 1));
  return step;
}

/// The numbers of x in a tile of another shape, whose extents are powers of two likewise.
Tile<Number> fitted(Tile<Number> x, std::int64_t m, std::int64_t n) {
  const std::int64_t a = x.extent(0), b = x.extent(1);
  if (a > m)
    x = sum(reshape(x, a / m, m, b), 0);
  else if (a < m)
    x = reshape(broadcast_to(expand(x, 0), m / a, a, b), m, b);
  if (b > n)
    x = sum(reshape(x, m, b / n, n), 1);
  else if (b < n)
    x = reshape(broadcast_to(expand(x, 1), m, n / b, b), m, n);
  return x;
}

void access(const Step &step, const View<Number, 2> &view, const Int &trip, Tile<Number> &x) {
  const Int row = trip * step.rowPerTrip + step.row,
            column = trip * step.columnPerTrip + step.column;
  const auto block = view.tile(step.m, step.n);
  switch (step.kind) {
  case Step::Kind::read:
    x += fitted(block.load_at(row, column), height, width);
    break;
  case Step::Kind::write:
    block.store_at(row, column, fitted(x, step.m, step.n) * 3);
    break;
  case Step::Kind::add:
    block.atomic_add_at(row, column, fitted(x, step.m, step.n), {.order = MemoryOrder::relaxed});
    break;
  default:
    block.store_at(row, column + step.shift, flip(block.load_at(row, column), 0) * 5 + 1);
  }
}

/// `zero` is not known to the compiler.
void trace(const std::vector<Step> &steps, const View<Number, 2> &view, const Int &zero,
           const Int &trip, Tile<Number> &x) {
  for (const Step &step : steps) {
    if (step.kind == Step::Kind::loop) {
      Int last = trip;
      const LoopOptions hints{.stages = step.stages};
      for (auto i :
           step.isCounted ? range(0, step.trips, hints) : range(0, zero + step.trips, hints)) {
        trace(step.body, view, zero, trip + i, x);
        last = i;
      }
      x += cast<Number>(last);
      continue;
    }
    switch (step.part) {
    case Step::Part::whole:
      access(step, view, trip, x);
      break;
    case Step::Part::transposed:
      access(step, view.transposed(), trip, x);
      break;
    case Step::Part::slice:
      access(step, view.slice(0, 3, rows - 5), trip, x);
      break;
    case Step::Part::fixed:
      access(step,
             View<Number, 3>(view.ptr(), {view.extent(0), 1, view.extent(1)},
                             {view.stride(0), 7, view.stride(1)})
                 .fix(1, 0),
             trip, x);
    }
  }
}

} // namespace

std::optional<std::string> views(uint64_t seed, const std::string &device) {
  Draw draw(seed);
  std::vector<Step> steps;
  for (std::size_t i = 2 + draw.pick(5); i > 0; --i)
    steps.push_back(someStep(draw, 0));
  static constexpr std::pair<std::int64_t, std::int64_t> strides[] = {
      {64, 1}, {67, 1}, {1, 48}, {1, 49}, {81, 2}};
  const auto [rowStride, columnStride] = draw.oneOf(strides);
  const auto first = static_cast<std::int64_t>(draw.pick(4));
  const unsigned warps = 1u << draw.pick(4);
  std::vector<Number> numbers(
      static_cast<std::size_t>(first + rows * rowStride + columns * columnStride));
  for (Number &number : numbers)
    number = static_cast<Number>(draw.pick(100));
  // One argument beyond 32 bits makes every Int of the launch as wide.
  const std::int64_t far = draw.pick(3) == 0 ? std::int64_t{1} << 33 : 0;

  Kernel kernel{"views", [steps](View<Number, 2> view, Ptr<Number> out, Int zero, Int) {
                  const Int places =
                      expand(arange(0, height), 1) * width + expand(arange(0, width), 0);
                  Tile<Number> x = cast<Number>(places);
                  trace(steps, view, zero, zero, x);
                  store(out + places, x);
                }};
  std::vector<Number> expected;
  try {
    for (const std::string &name : {std::string("interpreter"), device}) {
      const Device on = Device::open(name);
      const auto memory = on.upload(numbers), out = on.allocate<Number>(height * width);
      kernel.launch(on.stream(), 1,
                    Tensor<Number, 2>(memory.data() + first, {rows, columns},
                                      {rowStride, columnStride}, memory.memory()),
                    out, 0, far, {.warps = warps});
      std::vector<Number> got = memory.download(), carried = out.download();
      got.insert(got.end(), carried.begin(), carried.end());
      if (expected.empty())
        expected = got;
      else if (got != expected)
        return "wrong: " + std::to_string(steps.size()) + " steps on a view of strides " +
               std::to_string(rowStride) + " and " + std::to_string(columnStride) + " from " +
               std::to_string(first) + " on with " + std::to_string(warps) + " warps" +
               (far ? ", and Ints of 64 bits" : "") + "\n  on " + name;
    }
  } catch (const Error &error) {
    return error.what();
  }
  return std::nullopt;
}

} // namespace sectile::fuzz
