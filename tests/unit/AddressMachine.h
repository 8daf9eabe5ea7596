// Runs a function over global memory element by element and thread by thread: what its accesses
// touch, for the tests of what the analysis of addresses claims.
#pragma once
#include "ir/Dialects.h"
#include "passes/analysis/Addresses.h"
#include "tests/unit/layout_random.h"
#include "llvm/ADT/TypeSwitch.h"
#include <map>

namespace sectile::test {

using namespace mlir;

/// Elements in row-major order; pointers are addresses in bytes.
using Elements = std::vector<int64_t>;

/// One access as it was carried out, or the end of an iteration that another one follows.
struct Event {
  Operation *loop = nullptr; ///< whose iteration ended
  Operation *access = nullptr;
  std::vector<std::pair<int64_t, unsigned>> bytes; ///< in order, and as bits the threads
};

/// Which threads hold the elements of a tile, as bits.
struct Holders {
  std::vector<unsigned> all, first;
};

inline constexpr unsigned laneBits = 2, warpBits = 1, threads = 1 << (laneBits + warpBits);
/// What copies on its own, at any time, counts as one more thread.
inline constexpr unsigned copyEngine = 1 << threads;

/// Runs a function element by element until it is done, has done enough, or would do something
/// undefined.
class Machine {
public:
  Machine(func::FuncOp function, ArrayRef<int64_t> arguments, test::Random &random)
      : random(random) {
    for (auto [argument, value] : llvm::zip_equal(function.getArguments(), arguments))
      at(argument) = {value};
    run(function.getBody().front());
  }

  std::vector<Event> events;

private:
  static constexpr size_t mostEvents = 160;

  Elements &at(Value value) { return values[value.getAsOpaquePointer()]; }
  std::vector<Elements> all(ValueRange from) {
    std::vector<Elements> result;
    for (Value value : from)
      result.push_back(at(value));
    return result;
  }
  void set(ValueRange to, std::vector<Elements> from) {
    for (auto [value, elements] : llvm::zip_equal(to, from))
      at(value) = std::move(elements);
  }

  void run(Block &block) {
    for (Operation &op : block) {
      if (stopped)
        return;
      run(op);
    }
  }

  void run(Operation &op) {
    llvm::TypeSwitch<Operation *>(&op)
        .Case([&](scf::ForOp loop) { runFor(loop); })
        .Case([&](scf::WhileOp loop) { runWhile(loop); })
        .Case([&](scf::IfOp branch) {
          Region &region =
              at(branch.getCondition())[0] ? branch.getThenRegion() : branch.getElseRegion();
          run(region.front());
          if (!stopped)
            set(branch.getResults(), all(region.front().getTerminator()->getOperands()));
        })
        .Case<tile::LoadOp, tile::StoreOp, tile::AtomicRMWOp>([&](auto access) {
          touch(&op, access.getPtr());
          if (op.getNumResults())
            at(op.getResult(0)) = inMemory(op.getResult(0).getType());
        })
        .Case<scf::YieldOp, scf::ConditionOp, func::ReturnOp>([](auto) {})
        .Default([&](Operation *) {
          Value result = op.getResult(0);
          Elements elements = compute(op);
          // Past its type's width a program would have undefined behaviour.
          int64_t most =
              tile::elementType(result.getType()).isInteger(32) ? INT32_MAX : int64_t{1} << 46;
          stopped |= llvm::any_of(elements, [&](int64_t e) { return e > most || e < -most; });
          at(result) = std::move(elements);
        });
  }

  void runFor(scf::ForOp loop) {
    int64_t i = at(loop.getLowerBound())[0], end = at(loop.getUpperBound())[0],
            step = at(loop.getStep())[0];
    std::vector<Elements> carried = all(loop.getInitArgs());
    for (; i < end && !stopped; i += step) {
      at(loop.getInductionVar()) = {i};
      set(loop.getRegionIterArgs(), carried);
      run(*loop.getBody());
      if (stopped)
        return;
      carried = all(loop.getYieldedValues());
      if (i + step < end)
        events.push_back({.loop = loop, .access = nullptr, .bytes = {}});
    }
    set(loop.getResults(), carried);
  }

  void runWhile(scf::WhileOp loop) {
    std::vector<Elements> carried = all(loop.getInits());
    while (!stopped) {
      set(loop.getBeforeArguments(), carried);
      run(*loop.getBeforeBody());
      if (stopped)
        return;
      std::vector<Elements> passed = all(loop.getConditionOp().getArgs());
      if (!at(loop.getConditionOp().getCondition())[0])
        return set(loop.getResults(), passed);
      set(loop.getAfterArguments(), passed);
      run(*loop.getAfterBody());
      if (stopped)
        return;
      carried = all(loop.getYieldOp().getOperands());
      events.push_back({.loop = loop, .access = nullptr, .bytes = {}});
    }
  }

  /// What a load finds, which may be anything.
  Elements inMemory(Type type) {
    int64_t value = 0;
    if (auto ptr = dyn_cast<tile::PtrType>(type))
      value = (int64_t{1} + random.below(2)) << 40 | 16 * random.below(4);
    else
      value = random.below(4);
    return Elements(std::max<int64_t>(1, ShapedType::getNumElements(tile::shapeOf(type))), value);
  }

  const Holders &holdersOf(const Layout &layout) {
    auto [found, isNew] = holders.try_emplace(layout.text());
    if (isNew) {
      ArrayRef<int64_t> shape = layout.shape();
      found->second.all.resize(layout.numElements());
      found->second.first.resize(layout.numElements());
      auto bitOf = [](const Place &place) {
        return 1u << (place[In::Lane] | place[In::Warp] << laneBits);
      };
      test::forEachPlace(layout, [&](const Place &place) {
        int64_t element = test::rowMajor(shape, layout.apply(place));
        found->second.all[element] |= bitOf(place);
        bool isFirst = !(place[In::Lane] & layout.freeBits(In::Lane)) &&
                       !(place[In::Warp] & layout.freeBits(In::Warp));
        if (isFirst)
          found->second.first[element] |= bitOf(place);
      });
    }
    return found->second;
  }

  void touch(Operation *op, Value pointer) {
    auto load = dyn_cast<tile::LoadOp>(op);
    bool once = !load || load.getIsVolatile();
    const Layout *layout = cta::layoutOf(pointer.getType());
    auto block = pointer.getDefiningOp<cta::OfBlockOp>();
    std::map<int64_t, unsigned> bytes;
    for (auto [element, address] : llvm::enumerate(at(pointer))) {
      if (block && !isInView(block, element))
        continue;
      unsigned who = once ? 1 : (1u << threads) - 1;
      if (layout)
        who = once ? holdersOf(*layout).first[element] : holdersOf(*layout).all[element];
      if (op->hasAttr("asynchronous"))
        who = copyEngine;
      for (int64_t byte = 0; byte < stepOf(pointer.getType()); ++byte)
        bytes[address + byte] |= who;
    }
    events.push_back({.loop = nullptr, .access = op, .bytes = {bytes.begin(), bytes.end()}});
    stopped |= events.size() >= mostEvents;
  }

  bool isInView(cta::OfBlockOp block, size_t element) {
    const Coordinates place =
        test::fromRowMajor(tile::shapeOf(block.getType()), static_cast<int64_t>(element));
    for (auto [index, offset, extent] :
         llvm::zip_equal(place, block.getOffsets(), block.getExtents())) {
      const int64_t along = index + at(offset)[0];
      if (along < 0 || along >= at(extent)[0])
        return false;
    }
    return true;
  }

  template <class F> Elements each(Operation &op, F f) {
    const Elements &a = at(op.getOperand(0)), &b = at(op.getOperand(1));
    Elements result;
    for (auto [x, y] : llvm::zip_equal(a, b))
      result.push_back(f(x, y));
    return result;
  }

  /// The source's element for each of the result's, by its coordinates.
  template <class F> Elements from(Operation &op, F coordinates) {
    ArrayRef<int64_t> from = tile::shapeOf(op.getOperand(0).getType()),
                      to = tile::shapeOf(op.getResult(0).getType());
    Elements result;
    for (int64_t i = 0; i < ShapedType::getNumElements(to); ++i)
      result.push_back(
          at(op.getOperand(0))[test::rowMajor(from, coordinates(test::fromRowMajor(to, i)))]);
    return result;
  }

  Elements compute(Operation &op) {
    int64_t size = ShapedType::getNumElements(tile::shapeOf(op.getResult(0).getType()));
    auto divided = [&](auto f) {
      return each(op, [&](int64_t x, int64_t y) {
        stopped |= y == 0;
        return y ? f(x, y) : 0;
      });
    };
    auto compared = [](arith::CmpIPredicate predicate) {
      return [=](int64_t x, int64_t y) -> int64_t {
        return predicate == arith::CmpIPredicate::eq ? x == y : x < y;
      };
    };
    return llvm::TypeSwitch<Operation *, Elements>(&op)
        .Case([&](arith::ConstantOp constant) {
          if (auto tile = dyn_cast<DenseIntElementsAttr>(constant.getValue()))
            return Elements(size, tile.getSplatValue<APInt>().getSExtValue());
          if (auto number = dyn_cast<IntegerAttr>(constant.getValue()))
            return Elements(size, number.getInt());
          return Elements(size, 0); // what is stored
        })
        .Case([&](arith::AddIOp) { return each(op, std::plus<int64_t>()); })
        .Case([&](arith::SubIOp) { return each(op, std::minus<int64_t>()); })
        .Case([&](arith::MulIOp) { return each(op, std::multiplies<int64_t>()); })
        .Case([&](arith::ShLIOp) {
          return each(op, [](int64_t x, int64_t y) { return x * (int64_t{1} << y); });
        })
        .Case([&](arith::DivSIOp) { return divided(std::divides<int64_t>()); })
        .Case([&](arith::RemSIOp) { return divided(std::modulus<int64_t>()); })
        .Case([&](arith::MinSIOp) {
          return each(op, [](int64_t x, int64_t y) { return std::min(x, y); });
        })
        .Case([&](arith::CmpIOp compare) { return each(op, compared(compare.getPredicate())); })
        .Case([&](arith::SelectOp select) {
          return at(select.getCondition())[0] ? at(select.getTrueValue())
                                              : at(select.getFalseValue());
        })
        .Case<arith::ExtSIOp, tile::PtrToIntOp, tile::IntToPtrOp, cta::ConvertLayoutOp,
              cta::OfBlockOp, tile::ReshapeOp>([&](auto) { return at(op.getOperand(0)); })
        .Case([&](tile::AddPtrOp add) {
          int64_t step = stepOf(add.getType());
          return each(op, [&](int64_t x, int64_t y) { return x + step * y; });
        })
        .Case([&](tile::ArangeOp range) {
          Elements result(size);
          std::iota(result.begin(), result.end(), int32_t(range.getStart()));
          return result;
        })
        .Case([&](tile::SplatOp) { return Elements(size, at(op.getOperand(0))[0]); })
        .Case([&](tile::ExpandDimsOp expand) {
          return from(op, [&](Coordinates at) {
            at.erase(at.begin() + expand.getAxis());
            return at;
          });
        })
        .Case([&](tile::BroadcastOp broadcast) {
          ArrayRef<int64_t> source = tile::shapeOf(broadcast.getSource().getType());
          return from(op, [&](Coordinates at) {
            for (auto [coordinate, extent] : llvm::zip_equal(at, source))
              coordinate = extent == 1 ? 0 : coordinate;
            return at;
          });
        })
        .Case([&](tile::PermuteOp permute) {
          return from(op, [&](const Coordinates &at) {
            Coordinates source(at.size());
            for (auto [axis, of] : llvm::enumerate(permute.getOrder()))
              source[of] = at[axis];
            return source;
          });
        });
  }

  test::Random &random;
  std::map<void *, Elements> values;
  std::map<std::string, Holders> holders;
  bool stopped = false;
};

} // namespace sectile::test
