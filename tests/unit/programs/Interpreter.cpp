// Runs tile IR element by element.
#include "Interpreter.h"
#include "llvm/ADT/TypeSwitch.h"
#include <algorithm>

using namespace mlir;

namespace sectile::test {

namespace {

/// Bytes from one element to the next where these pointers point.
int64_t stepOf(Type pointers) {
  return cast<tile::PtrType>(tile::elementType(pointers)).getElement().getIntOrFloatBitWidth() / 8;
}

int64_t count(ArrayRef<int64_t> shape) {
  int64_t n = 1;
  for (int64_t extent : shape)
    n *= extent;
  return n;
}

/// Coordinates of an element in row-major order, and back.
SmallVector<int64_t> coordinates(size_t element, ArrayRef<int64_t> shape) {
  SmallVector<int64_t> result(shape.size());
  for (size_t d = shape.size(); d-- > 0;) {
    result[d] = element % shape[d];
    element /= shape[d];
  }
  return result;
}
size_t elementAt(ArrayRef<int64_t> coordinates, ArrayRef<int64_t> shape) {
  size_t element = 0;
  for (auto [at, extent] : llvm::zip_equal(coordinates, shape))
    element = element * extent + at;
  return element;
}

/// A number as its type holds it: integers wrap around, floats must hold it exactly.
int64_t fit(int64_t value, Type type) {
  type = tile::elementType(type);
  if (type.isInteger(1))
    return value & 1;
  if (type.isInteger(8))
    return static_cast<int8_t>(value);
  if (type.isInteger(32))
    return static_cast<int32_t>(value);
  if (auto real = dyn_cast<FloatType>(type)) {
    // tf32 operands keep 11 bits; so whatever f32 meets must not need more than a sum of them does.
    int64_t limit =
        real.getWidth() >= 32 ? int64_t(1) << 24 : int64_t(1) << real.getFPMantissaWidth();
    if (value < -limit || value > limit)
      throw Inexact();
  }
  return value;
}

bool compare(arith::CmpIPredicate predicate, int64_t a, int64_t b) {
  using enum arith::CmpIPredicate;
  switch (predicate) {
  case eq:
    return a == b;
  case ne:
    return a != b;
  case slt:
    return a < b;
  case sle:
    return a <= b;
  case sgt:
    return a > b;
  case sge:
    return a >= b;
  default:
    throw std::logic_error("a comparison the interpreter lacks");
  }
}

} // namespace

void Interpreter::run(func::FuncOp kernel, ArrayRef<int64_t> arguments) {
  for (auto [parameter, argument] : llvm::zip_equal(kernel.getArguments(), arguments))
    values[parameter] = {argument};
  run(kernel.getBody().front());
}

SmallVector<Interpreter::Elements> Interpreter::run(Block &block) {
  for (Operation &op : block.without_terminator())
    run(op);
  SmallVector<Elements> results;
  for (Value operand : block.getTerminator()->getOperands())
    results.push_back(values[operand]);
  return results;
}

int64_t &Interpreter::at(int64_t address) {
  size_t buffer = (address >> 40) - 1, offset = address & ((int64_t(1) << 40) - 1);
  if (buffer >= buffers.size() || offset % buffers[buffer].bytes ||
      offset / buffers[buffer].bytes >= buffers[buffer].elements.size())
    throw std::logic_error("the program leaves its memory");
  return buffers[buffer].elements[offset / buffers[buffer].bytes];
}

void Interpreter::runFor(scf::ForOp loop) {
  int64_t lower = values[loop.getLowerBound()][0], upper = values[loop.getUpperBound()][0],
          step = values[loop.getStep()][0];
  SmallVector<Elements> carried;
  for (Value init : loop.getInitArgs())
    carried.push_back(values[init]);
  for (int64_t i = lower; i < upper; i += step) {
    values[loop.getInductionVar()] = {i};
    for (auto [argument, value] : llvm::zip_equal(loop.getRegionIterArgs(), carried))
      values[argument] = value;
    carried = run(*loop.getBody());
  }
  for (auto [result, value] : llvm::zip_equal(loop.getResults(), carried))
    values[result] = value;
}

void Interpreter::runReduce(tile::ReduceOp op) {
  ArrayRef<int64_t> shape = tile::shapeOf(op.getSources()[0].getType());
  unsigned axis = op.getAxis();
  SmallVector<int64_t> outer(shape);
  outer.erase(outer.begin() + axis);
  SmallVector<Elements> sources, results(op.getSources().size(), Elements(count(outer)));
  for (Value source : op.getSources())
    sources.push_back(values[source]);
  Block &combiner = op.getCombiner().front();
  for (size_t e = 0; e < results[0].size(); ++e) {
    SmallVector<int64_t> from = coordinates(e, outer);
    from.insert(from.begin() + axis, 0);
    for (; from[axis] < shape[axis]; ++from[axis]) {
      size_t element = elementAt(from, shape);
      for (size_t i = 0; i < sources.size(); ++i) {
        values[combiner.getArgument(i)] = {results[i][e]};
        values[combiner.getArgument(sources.size() + i)] = {sources[i][element]};
      }
      SmallVector<Elements> combined = from[axis] ? run(combiner) : SmallVector<Elements>();
      for (size_t i = 0; i < sources.size(); ++i)
        results[i][e] = from[axis] ? combined[i][0] : sources[i][element];
    }
  }
  for (auto [result, value] : llvm::zip_equal(op.getResults(), results))
    values[result] = value;
}

void Interpreter::runDot(tile::DotOp op) {
  int64_t m = op.getType().getDimSize(0), n = op.getType().getDimSize(1);
  int64_t k = op.getA().getType().getDimSize(1);
  const Elements &a = values[op.getA()], &b = values[op.getB()];
  Elements sum = values[op.getAcc()];
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j)
      for (int64_t l = 0; l < k; ++l)
        sum[i * n + j] = fit(sum[i * n + j] + a[i * k + l] * b[l * n + j], op.getType());
  // tf32 has 11 bits.
  if (tile::elementType(op.getA().getType()).isF32())
    for (const Elements *operand : {&a, &b})
      if (llvm::any_of(*operand, [](int64_t v) { return v < -2048 || v > 2048; }))
        throw Inexact();
  values[op.getResult()] = sum;
}

void Interpreter::runBlock(Value viewed, ValueRange offsets, ArrayRef<int64_t> shape,
                           function_ref<void(size_t, int64_t, bool)> access) {
  const View &view = views[viewed];
  int64_t step = cast<tile::ViewType>(viewed.getType()).getElement().getIntOrFloatBitWidth() / 8;
  for (size_t e = 0; e < size_t(count(shape)); ++e) {
    bool inside = true;
    int64_t address = view.address;
    for (auto [d, within] : llvm::enumerate(coordinates(e, shape))) {
      int64_t index = values[offsets[d]][0] + within;
      inside &= index >= 0 && index < view.extents[d];
      address += index * view.strides[d] * step;
    }
    access(e, address, inside);
  }
}

Interpreter::Elements Interpreter::elementwise(Operation &op) {
  SmallVector<const Elements *> operands;
  size_t n = 1;
  for (Value operand : op.getOperands()) {
    operands.push_back(&values[operand]);
    n = std::max(n, operands.back()->size());
  }
  auto get = [&](unsigned i, size_t e) { return (*operands[i])[operands[i]->size() == 1 ? 0 : e]; };
  Type type = op.getResult(0).getType();
  Elements result(n);
  for (size_t e = 0; e < n; ++e) {
    int64_t x = get(0, e), y = operands.size() > 1 ? get(1, e) : 0;
    if (isa<arith::DivSIOp, arith::RemSIOp>(op) && y == 0)
      throw std::domain_error("the program divides by zero");
    int64_t value =
        llvm::TypeSwitch<Operation *, int64_t>(&op)
            .Case<arith::AddIOp, arith::AddFOp>([&](auto) { return x + y; })
            .Case<arith::SubIOp, arith::SubFOp>([&](auto) { return x - y; })
            .Case<arith::MulIOp, arith::MulFOp>([&](auto) { return x * y; })
            .Case<arith::DivSIOp>([&](auto) { return x / y; })
            .Case<arith::RemSIOp>([&](auto) { return x % y; })
            .Case<arith::AndIOp>([&](auto) { return x & y; })
            .Case<arith::OrIOp>([&](auto) { return x | y; })
            .Case<arith::XOrIOp>([&](auto) { return x ^ y; })
            .Case<arith::MinSIOp, arith::MinimumFOp>([&](auto) { return std::min(x, y); })
            .Case<arith::MaxSIOp, arith::MaximumFOp>([&](auto) { return std::max(x, y); })
            .Case<arith::CmpIOp>([&](arith::CmpIOp o) { return compare(o.getPredicate(), x, y); })
            .Case<arith::SelectOp>([&](auto) { return x ? y : get(2, e); })
            .Case<arith::ExtSIOp, arith::TruncIOp, arith::SIToFPOp, arith::FPToSIOp, arith::ExtFOp,
                  arith::TruncFOp>([&](auto) { return x; })
            .Case<tile::AddPtrOp>([&](auto) { return x + y * stepOf(type); })
            .Default([](Operation *o) -> int64_t {
              throw std::logic_error("the interpreter lacks " + o->getName().getStringRef().str());
            });
    result[e] = fit(value, type);
  }
  return result;
}

void Interpreter::run(Operation &op) {
  auto set = [&](Elements elements) { values[op.getResult(0)] = std::move(elements); };
  auto shaped = [&](auto from) {
    // `from` maps coordinates of the result to an element of the source.
    const Elements source = values[op.getOperand(0)];
    ArrayRef<int64_t> shape = tile::shapeOf(op.getResult(0).getType());
    Elements elements(count(shape));
    for (size_t e = 0; e < elements.size(); ++e)
      elements[e] = source[from(coordinates(e, shape), e)];
    set(std::move(elements));
  };
  ArrayRef<int64_t> source =
      op.getNumOperands() ? tile::shapeOf(op.getOperand(0).getType()) : ArrayRef<int64_t>();
  llvm::TypeSwitch<Operation *>(&op)
      .Case<arith::ConstantOp>([&](arith::ConstantOp constant) {
        Attribute value = constant.getValue();
        if (auto splat = dyn_cast<SplatElementsAttr>(value))
          value = splat.getSplatValue<Attribute>();
        int64_t number = isa<FloatAttr>(value) ? int64_t(cast<FloatAttr>(value).getValueAsDouble())
                                               : cast<IntegerAttr>(value).getValue().getSExtValue();
        set(Elements(count(tile::shapeOf(constant.getType())), fit(number, constant.getType())));
      })
      .Case<tile::ProgramIdOp>([&](auto) { set({program}); })
      .Case<tile::ArangeOp>([&](tile::ArangeOp range) {
        Elements elements(range.getType().getNumElements());
        for (auto [i, element] : llvm::enumerate(elements))
          element = static_cast<int32_t>(range.getStart()) + int64_t(i);
        set(std::move(elements));
      })
      .Case<tile::SplatOp>([&](auto) { shaped([](auto, size_t) { return 0; }); })
      .Case<tile::ExpandDimsOp, tile::ReshapeOp>(
          [&](auto) { shaped([](auto, size_t e) { return e; }); })
      .Case<tile::BroadcastOp>([&](auto) {
        shaped([&](SmallVector<int64_t> at, size_t) {
          for (auto [coordinate, extent] : llvm::zip_equal(at, source))
            coordinate = extent == 1 ? 0 : coordinate;
          return elementAt(at, source);
        });
      })
      .Case<tile::PermuteOp>([&](tile::PermuteOp permute) {
        shaped([&](SmallVector<int64_t> at, size_t) {
          SmallVector<int64_t> from(at.size());
          for (auto [i, axis] : llvm::enumerate(permute.getOrder()))
            from[axis] = at[i];
          return elementAt(from, source);
        });
      })
      .Case<tile::LoadOp>([&](tile::LoadOp load) {
        Elements elements;
        for (auto [e, address] : llvm::enumerate(values[load.getPtr()])) {
          bool on = !load.getMask() || values[load.getMask()][e];
          elements.push_back(on ? at(address) : load.getOther() ? values[load.getOther()][e] : 0);
        }
        set(std::move(elements));
      })
      .Case<tile::StoreOp>([&](tile::StoreOp store) {
        for (auto [e, address] : llvm::enumerate(values[store.getPtr()]))
          if (!store.getMask() || values[store.getMask()][e])
            at(address) = values[store.getValue()][e];
      })
      .Case<tile::MakeViewOp>([&](tile::MakeViewOp make) {
        View view{values[make.getPtr()][0], {}, {}};
        for (Value extent : make.getExtents())
          view.extents.push_back(values[extent][0]);
        for (Value stride : make.getStrides())
          view.strides.push_back(values[stride][0]);
        views[make.getResult()] = view;
      })
      .Case<tile::LoadBlockOp>([&](tile::LoadBlockOp load) {
        int64_t padding = 0;
        if (auto integer = dyn_cast_if_present<IntegerAttr>(load.getPaddingAttr()))
          padding = integer.getInt();
        Elements elements(load.getType().getNumElements(), padding);
        runBlock(load.getView(), load.getOffsets(), load.getType().getShape(),
                 [&](size_t e, int64_t address, bool inside) {
                   if (inside)
                     elements[e] = at(address);
                 });
        set(std::move(elements));
      })
      .Case<tile::StoreBlockOp>([&](tile::StoreBlockOp store) {
        runBlock(store.getView(), store.getOffsets(), store.getValue().getType().getShape(),
                 [&](size_t e, int64_t address, bool inside) {
                   if (inside)
                     at(address) = values[store.getValue()][e];
                 });
      })
      .Case<tile::DotOp>([&](tile::DotOp dot) { runDot(dot); })
      .Case<tile::ReduceOp>([&](tile::ReduceOp reduce) { runReduce(reduce); })
      .Case<scf::ForOp>([&](scf::ForOp loop) { runFor(loop); })
      .Case<scf::WhileOp>([&](scf::WhileOp loop) {
        SmallVector<Elements> carried;
        for (Value init : loop.getInits())
          carried.push_back(values[init]);
        auto enter = [&](Block &block) {
          for (auto [argument, value] : llvm::zip_equal(block.getArguments(), carried))
            values[argument] = value;
          return run(block);
        };
        while (true) {
          SmallVector<Elements> condition = enter(*loop.getBeforeBody());
          carried.assign(condition.begin() + 1, condition.end());
          if (!condition[0][0])
            break;
          carried = enter(*loop.getAfterBody());
        }
        for (auto [result, value] : llvm::zip_equal(loop.getResults(), carried))
          values[result] = value;
      })
      .Case<scf::IfOp>([&](scf::IfOp branch) {
        SmallVector<Elements> results =
            run(values[branch.getCondition()][0] ? *branch.thenBlock() : *branch.elseBlock());
        for (auto [result, value] : llvm::zip_equal(branch.getResults(), results))
          values[result] = value;
      })
      .Default([&](Operation *) { set(elementwise(op)); });
}

} // namespace sectile::test
