// Random schedules of the explicit level: a ring that is filled by copies, by copies under
// conditions that may be false, or from registers; dots in flight, with other work beside them;
// sums that nobody uses; and partitions of several numbers of warps that read one ring or rings of
// their own, and that copy or store, on request too. All numbers are small and whole, so that
// results are exact.
#include "tests/fuzz/language/Cases.h"
#include <sectile/cta.h>
#include <sectile/sectile.h>
#include <vector>

namespace sectile::fuzz {

namespace {

enum class Fill { Copy, CopyWhen, Store };
enum class When { Within, Program, Loaded, Even };
/// What the main partition reads where a second one computes: its ring, another one, or none.
enum class Main { Shared, Own, Nothing };
enum class Work { None, Columns, Rows, All, Transposed, Scan, Sorted, Gathered };

struct Plan {
  int m, n, k, depth, warps, steps;
  int copying = 4,
      second = 0; ///< warps of partitions: that which copies, and one that computes too
  int registers = 0, ofSecond = 0; ///< that their threads keep
  int ahead = 0;                   ///< uses that are filled before the loop
  bool partition, refillsLate, byColumns, inFlight, twoSums, unused, tiles, readsRegisters,
      leftComputed, waitsForOne, onRequest = false, ownFirst = false, secondAsks = false;
  Main main = Main::Shared;
  Fill left, right;
  When when;
  Work beside, after;
  Mistake mistake = Mistake::None;

  explicit Plan(Draw &draw, bool engine) {
    static constexpr int rows[] = {64, 64, 128}, columns[] = {32, 64, 128}, depths[] = {16, 32, 64};
    static constexpr Fill fills[] = {Fill::Copy, Fill::Copy, Fill::CopyWhen, Fill::Store};
    m = draw.oneOf(rows);
    n = draw.oneOf(columns);
    k = draw.oneOf(depths);
    depth = 1 + int(draw.pick(4));
    warps = draw.coin() ? 4 : 8;
    steps = 1 + int(draw.pick(4));
    partition = engine && draw.pick(3) == 0;
    if (!partition && draw.coin())
      ahead = 1 + int(draw.pick(std::size_t(depth)));
    refillsLate = ahead && (ahead == depth || draw.coin());
    byColumns = draw.coin();
    inFlight = draw.pick(4) != 0;
    twoSums = draw.pick(3) == 0;
    unused = draw.coin();
    tiles = draw.pick(3) == 0;
    readsRegisters = draw.pick(4) == 0;
    left = draw.oneOf(fills);
    right = draw.oneOf(fills);
    when = When(draw.pick(4));
    beside = Work(draw.pick(8));
    after = draw.pick(3) ? Work::None : Work(draw.pick(8));
    leftComputed = draw.pick(3) == 0;
    waitsForOne = draw.coin();
    if (partition) {
      k = std::max(k, 32); // the engine copies rows of 32 bytes and more
      static constexpr int others[] = {0, 1, 2, 4, 4, 8};
      // One that stores computes.
      const bool stores = left == Fill::Store || right == Fill::Store;
      copying = stores ? 1 << draw.pick(3) : 1 + int(draw.pick(4));
      second = draw.oneOf(others);
      if (second) {
        main = Main(draw.pick(3));
        ownFirst = draw.coin();
        secondAsks = main == Main::Nothing || draw.coin();
      }
      onRequest = draw.pick(3) == 0;
      // Registers move between groups of four warps.
      if (copying % 4 == 0 && second % 4 == 0 && draw.coin()) {
        const int launched = std::min(240, 2048 / (warps + copying + second) / 8 * 8);
        registers = stores ? std::min(launched, 104) : 24;
        ofSecond = second ? launched : 0;
      }
    }
  }

  std::string text() const {
    auto number = [](auto value) { return std::to_string(int(value)); };
    return "m " + number(m) + ", n " + number(n) + ", k " + number(k) + ", depth " + number(depth) +
           ", warps " + number(warps) + ", steps " + number(steps) + ", partition " +
           number(partition) + " of " + number(copying) + " with " + number(registers) +
           ", second " + number(second) + ", main " + number(main) + ", own first " +
           number(ownFirst) + ", second asks " + number(secondAsks) + ", on request " +
           number(onRequest) + ", ahead " + number(ahead) + ", late " + number(refillsLate) +
           ", by columns " + number(byColumns) + ", in flight " + number(inFlight) + ", two sums " +
           number(twoSums) + ", unused " + number(unused) + ", tiles " + number(tiles) +
           ", registers " + number(readsRegisters) + ", left " + number(left) + ", right " +
           number(right) + ", when " + number(when) + ", beside " + number(beside) + ", after " +
           number(after) + ", left computed " + number(leftComputed) + ", waits for one " +
           number(waitsForOne);
  }
};

/// Work on a tile that has nothing to do with the dots, as a tile of its shape.
Tile<float> worked(const Plan &plan, Work work, const Tile<float> &x) {
  switch (work) {
  case Work::None:
    return x;
  case Work::Columns:
    return broadcast_to(expand(sum(x, 0), 0), plan.m, plan.n);
  case Work::Rows:
    return broadcast_to(expand(max(x, 1), 1), plan.m, plan.n);
  case Work::All:
    return x + sum(sum(x, 1), 0);
  case Work::Transposed:
    return trans(cumsum(trans(x), 0));
  case Work::Scan:
    return cumsum(x, 0);
  case Work::Sorted:
    return sort(x, 1);
  case Work::Gathered: {
    auto at = broadcast_to(expand((arange(0, plan.m) * 5 + 3) % plan.m, 1), plan.m, plan.n);
    return gather(x, cast<std::int32_t>(at), 0);
  }
  }
  return x;
}

template <class E, class S>
std::vector<float> run(const Plan &plan, Device device, const std::vector<E> &left,
                       const std::vector<E> &right, const std::vector<float> &bias) {
  Kernel kernel{"explicit_schedule",
                [plan](View<const E, 2> a, View<const E, 2> b, View<const float, 2> x,
                       Ptr<const int> flags, View<float, 2> c, View<float, 2> ofSecond) {
                  const cta::TileOf<E> rowsOf{plan.m, plan.k}, columnsOf{plan.k, plan.n};
                  cta::Channel ring(plan.depth, rowsOf, columnsOf);
                  std::optional<cta::Channel<E, E>> own;
                  if (plan.main == Main::Own)
                    own.emplace(plan.depth, rowsOf, columnsOf);
                  auto aTiles = a.tile(plan.m, plan.k);
                  auto bTiles = b.tile(plan.k, plan.n);
                  auto steps = maximum(cdiv(a.extent(1), plan.k), 1);
                  auto counts = c.tiles(plan.m, plan.n);
                  auto wanted = [&](const Int &step) -> Bool {
                    switch (plan.when) {
                    case When::Within:
                      return step < steps - 1;
                    case When::Program:
                      return program_id(0) < 1;
                    case When::Loaded:
                      return load(flags + program_id(0)) != 0;
                    case When::Even:
                      return step % 2 == 0;
                    }
                    return step < steps;
                  };
                  auto fill = [&](auto &ring, const Int &i, const Int &j, const Int &step) {
                    Tile<E> fromLeft, fromRight;
                    if (plan.left == Fill::Store)
                      fromLeft = aTiles.load(i, step);
                    if (plan.right == Fill::Store)
                      fromRight = bTiles.load(step, j);
                    auto [l, r] = ring.acquire();
                    if (plan.left == Fill::Store)
                      l.store(fromLeft);
                    else if (plan.left == Fill::CopyWhen)
                      l.copy(aTiles, i, step, wanted(step));
                    else
                      l.copy(aTiles, i, step);
                    if (plan.mistake == Mistake::FillsTwice) {
                      if (plan.left == Fill::Store)
                        l.store(fromLeft);
                      else
                        l.copy(aTiles, i, step);
                    }
                    if (plan.right == Fill::Store)
                      r.store(fromRight);
                    else if (plan.right == Fill::CopyWhen)
                      r.copy(bTiles, step, j, wanted(step));
                    else
                      r.copy(bTiles, step, j);
                    ring.commit();
                  };
                  auto leftOf = [&](const Tile<E> &tile) {
                    return plan.leftComputed ? tile + tile : tile;
                  };
                  // The kernel requests uses, which the partition waits for before it copies.
                  std::optional<cta::Mbarriers> requests;
                  if (plan.onRequest)
                    requests.emplace(2, plan.secondAsks ? plan.second : plan.warps);
                  Int requested = 0;
                  auto multiply = [&](auto &ring, const View<float, 2> &to, bool asks, const Int &i,
                                      const Int &j) {
                    auto none = zeros<S>(plan.m, plan.n);
                    Tile<S> acc = none;
                    cta::InFlight<S> one{none}, two{none};
                    auto extra = zeros<float>(plan.m, plan.n);
                    auto rows = zeros<float>(plan.m);
                    auto tile = x.tile(plan.m, plan.n).load(i, j);
                    for (int step = 0; step < plan.ahead; ++step)
                      fill(ring, i, j, step);
                    for (auto step : range(0, steps)) {
                      if (!plan.partition && !plan.refillsLate)
                        fill(ring, i, j, step + plan.ahead);
                      if (plan.onRequest && asks) {
                        requests->arrive(requested);
                        requested = requested + 1;
                      }
                      auto [l, r] = ring.wait();
                      auto p = leftOf(l.read());
                      auto q = r.read();
                      if (plan.readsRegisters)
                        rows = rows + sum(cast<float>(p), 1);
                      if (!plan.inFlight) {
                        acc = dot(p, q, acc);
                      } else {
                        one = cta::dot_async(p, q, one);
                        if (plan.twoSums)
                          two = cta::dot_async(p, q, two);
                        if (plan.beside != Work::None)
                          extra = extra + worked(plan, plan.beside, tile);
                        if (plan.waitsForOne && plan.mistake == Mistake::None) {
                          one = cta::InFlight<S>{cta::wait(one)};
                          if (plan.beside != Work::None)
                            extra = extra + worked(plan, plan.beside, tile);
                        }
                        if (plan.mistake != Mistake::ReleasesEarly)
                          cta::wait_for_dots(0);
                      }
                      if (plan.mistake != Mistake::KeepsSlots)
                        ring.release();
                      if (plan.refillsLate)
                        fill(ring, i, j, step + plan.ahead);
                    }
                    // The uses that were filled ahead; the last dot stays in flight beside other
                    // work.
                    for (int step = 0; step < plan.ahead; ++step) {
                      auto [l, r] = ring.wait();
                      if (plan.inFlight) {
                        one = cta::dot_async(leftOf(l.read()), r.read(), one);
                        extra = extra + worked(plan, plan.beside, tile);
                        acc = cta::wait(one);
                        one = cta::InFlight<S>{acc};
                      }
                      ring.release();
                    }
                    if (plan.inFlight) {
                      auto other = cta::wait(two);
                      acc = cta::wait(one);
                      if (plan.twoSums)
                        acc = plan.unused ? acc + other - other : acc + other;
                    }
                    auto result = cast<float>(acc) + extra + worked(plan, plan.after, tile);
                    if (plan.readsRegisters)
                      result = result + expand(rows, 1);
                    to.tile(plan.m, plan.n).store(i, j, result);
                  };
                  // A tile for each program, or all of them in turns.
                  auto each = [&](auto body) {
                    if (!plan.tiles)
                      return body(program_id(0) / counts[1], program_id(0) % counts[1]);
                    for (auto t : range(program_id(0), counts[0] * counts[1], num_programs(0)))
                      body(t / counts[1], t % counts[1]);
                  };
                  if (plan.partition)
                    cta::partition({.warps = plan.copying, .registers = plan.registers}, [&] {
                      Int use = 0;
                      each([&](const Int &i, const Int &j) {
                        for (auto step : range(0, steps)) {
                          if (plan.onRequest) {
                            requests->wait(use, use / 2);
                            use = use + 1;
                          }
                          if (own && plan.ownFirst)
                            fill(*own, i, j, step);
                          fill(ring, i, j, step);
                          if (own && !plan.ownFirst)
                            fill(*own, i, j, step);
                        }
                      });
                    });
                  if (plan.second)
                    cta::partition({.warps = plan.second, .registers = plan.ofSecond}, [&] {
                      each([&](const Int &i, const Int &j) {
                        multiply(ring, ofSecond, plan.secondAsks, i, j);
                      });
                    });
                  each([&](const Int &i, const Int &j) {
                    if (plan.main != Main::Nothing)
                      return multiply(own ? *own : ring, c, !plan.secondAsks, i, j);
                    auto tile = x.tile(plan.m, plan.n).load(i, j);
                    c.tile(plan.m, plan.n).store(i, j, tile + worked(plan, plan.after, tile));
                  });
                },
                {.warps = unsigned(plan.warps)}};
  const int rows = 2 * plan.m, columns = 2 * plan.n, depth = plan.k * plan.steps;
  auto a = device.upload(left), b = device.upload(right);
  auto x = device.upload(bias);
  auto flags = device.upload(std::vector<int>{1, 0, 1, 0});
  auto c = device.allocate<float>(std::size_t(rows) * columns);
  auto ofSecond = device.upload(std::vector<float>(std::size_t(rows) * columns));
  auto toB = plan.byColumns
                 ? Tensor<const E, 2>(b.data(), {depth, columns}, {1, depth}, b.memory())
                 : Tensor<const E, 2>(b.data(), {depth, columns}, {columns, 1}, b.memory());
  kernel.launch(device.stream(), plan.tiles ? 2 : 4, tensor(a, {rows, depth}), toB,
                tensor(x, {rows, columns}), flags, tensor(c, {rows, columns}),
                tensor(ofSecond, {rows, columns}));
  std::vector<float> result = c.download();
  const std::vector<float> second = ofSecond.download();
  result.insert(result.end(), second.begin(), second.end());
  return result;
}

template <class E, class S>
std::optional<std::string> compare(const Plan &plan, const std::string &device, Draw &draw) {
  auto numbers = [&](std::size_t count) {
    std::vector<E> result;
    for (std::size_t i = 0; i < count; ++i)
      result.push_back(E(int(draw.pick(5)) - 2));
    return result;
  };
  const std::size_t depth = std::size_t(plan.k) * plan.steps;
  const std::vector<E> left = numbers(2 * plan.m * depth), right = numbers(2 * plan.n * depth);
  std::vector<float> bias;
  for (int i = 0; i < 4 * plan.m * plan.n; ++i)
    bias.push_back(float(int(draw.pick(5)) - 2));
  const auto wanted = run<E, S>(plan, Device::open("interpreter"), left, right, bias);
  const auto is = run<E, S>(plan, Device::open(device), left, right, bias);
  for (std::size_t i = 0; i < is.size(); ++i)
    if (is[i] != wanted[i])
      return "wrong: element " + std::to_string(i) + " is " + std::to_string(is[i]) + ", not " +
             std::to_string(wanted[i]);
  return std::nullopt;
}

} // namespace

std::optional<std::string> explicitSchedule(uint64_t seed, const std::string &device,
                                            Mistake mistake) {
  Draw draw(seed);
  Plan plan(draw, device.starts_with("virtual:sm_") && device != "virtual:sm_80");
  plan.mistake = mistake;
  std::optional<std::string> wrong;
  try {
    switch (draw.pick(4)) {
    case 0:
      wrong = compare<std::int8_t, std::int32_t>(plan, device, draw);
      break;
    case 1:
      wrong = compare<float, float>(plan, device, draw);
      break;
    default:
      wrong = compare<half, float>(plan, device, draw);
    }
  } catch (const Error &error) {
    // Slots may take more memory than there is.
    if (std::string_view(error.what()).find("shared memory, ") == std::string_view::npos)
      wrong = error.what();
  }
  if (wrong)
    return *wrong + "\n  " + plan.text();
  return std::nullopt;
}

} // namespace sectile::fuzz
