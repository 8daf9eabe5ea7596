// Philox 4x32 and its distributions, in the language's own operations.
#include "dsl/Trace.h"
#include "ir/tile/Tile.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include <numbers>
#include <sectile/random.h>

using namespace mlir;

namespace sectile::detail {
namespace {

constexpr uint32_t multiplier0 = 0xd2511f53, multiplier1 = 0xcd9e8d57;
constexpr uint32_t keyStep0 = 0x9e3779b9, keyStep1 = 0xbb67ae85;

/// Arithmetic on values of one shape.
class Generator {
public:
  Generator(Trace &trace, Location where)
      : trace(trace), builder(trace.builder), loc(trace.location(where)), where(where) {}

  using Words = std::array<mlir::Value, 4>;

  Words words(const Operand &seed, const Operand &offset, const Operand &word2,
              const Operand &word3, unsigned rounds) {
    auto [key0, key1] = halves(seed, "seed");
    auto [counter0, counter1] = halves(offset, "offset");
    mlir::Value all[] = {key0, key1, counter0, counter1, word(word2), word(word3)};
    shape = broadcastShape(all, "a random number", where);
    Words c = {same(all[2]), same(all[3]), same(all[4]), same(all[5])};
    mlir::Value m0 = same(number(multiplier0)), m1 = same(number(multiplier1));
    for (unsigned round = 0; round < rounds; ++round) {
      auto first = arith::MulUIExtendedOp::create(builder, loc, c[0], m0);
      auto second = arith::MulUIExtendedOp::create(builder, loc, c[2], m1);
      mlir::Value c0 = mix(second.getHigh(), c[1], key0), c2 = mix(first.getHigh(), c[3], key1);
      c = {c0, second.getLow(), c2, first.getLow()};
      key0 = step(key0, keyStep0);
      key1 = step(key1, keyStep1);
    }
    return c;
  }

  mlir::Value uniform(mlir::Value word) {
    mlir::Value upper =
        builder.createOrFold<arith::ShRUIOp>(loc, word, constantOf(trace, loc, word.getType(), 8));
    return times(toFloat(upper), 0x1p-24);
  }

  /// Two independent normal numbers of two words.
  std::pair<mlir::Value, mlir::Value> normal(mlir::Value word, mlir::Value other) {
    mlir::Value u =
        builder.createOrFold<math::FmaOp>(loc, toFloat(word), real(0x1p-32), real(0x1p-33));
    mlir::Value square = times(builder.createOrFold<math::LogOp>(loc, u), -2);
    mlir::Value radius = builder.createOrFold<math::SqrtOp>(loc, square);
    mlir::Value angle = times(uniform(other), 2 * std::numbers::pi);
    mlir::Value cosine = builder.createOrFold<math::CosOp>(loc, angle);
    mlir::Value sine = builder.createOrFold<math::SinOp>(loc, angle);
    mlir::Value first = builder.createOrFold<arith::MulFOp>(loc, radius, cosine);
    return {first, builder.createOrFold<arith::MulFOp>(loc, radius, sine)};
  }

private:
  /// An integer's low and high 32 bits of 64.
  std::pair<mlir::Value, mlir::Value> halves(const Operand &operand, StringRef what) {
    Kind kind = kindOf(operand, what);
    mlir::Value value = materialize(trace, operand, kind);
    mlir::Type i32 = builder.getI32Type();
    mlir::Type narrow = tile::withElementType(value.getType(), i32);
    if (getElementTypeOrSelf(value.getType()).isInteger(64)) {
      mlir::Value low = builder.createOrFold<arith::TruncIOp>(loc, narrow, value);
      mlir::Value high = builder.createOrFold<arith::ShRUIOp>(
          loc, value, constantOf(trace, loc, value.getType(), 32));
      return {low, builder.createOrFold<arith::TruncIOp>(loc, narrow, high)};
    }
    mlir::Value low =
        convert(trace, loc, value, kind, isUnsigned(kind) ? Kind::uint32 : Kind::int32, i32);
    if (isUnsigned(kind))
      return {low, constantOf(trace, loc, narrow, 0)};
    return {low,
            builder.createOrFold<arith::ShRSIOp>(loc, low, constantOf(trace, loc, narrow, 31))};
  }

  mlir::Value word(const Operand &operand) {
    return operand.none ? number(0) : halves(operand, "counter").first;
  }

  /// A literal has the 64 bits that it is extended to.
  Kind kindOf(const Operand &operand, StringRef what) {
    if (!operand.value)
      return operand.literal.type == Literal::Type::natural ? Kind::uint64 : Kind::int64;
    if (!isInteger(operand.kind))
      fail(where, "the " + what + " of a random number is an integer, not " +
                      Twine(std::string(nameOf(operand.kind))) + ": convert with sc::cast<int>(x)");
    return operand.kind;
  }

  mlir::Value number(uint32_t value) {
    return constantOf(trace, loc, builder.getI32Type(), static_cast<int32_t>(value));
  }
  mlir::Value same(mlir::Value value) { return broadcastTo(trace, loc, value, shape); }
  mlir::Value step(mlir::Value key, uint32_t by) {
    mlir::Value added = constantOf(trace, loc, key.getType(), static_cast<int32_t>(by));
    return builder.createOrFold<arith::AddIOp>(loc, key, added);
  }
  mlir::Value mix(mlir::Value high, mlir::Value word, mlir::Value key) {
    mlir::Value mixed = builder.createOrFold<arith::XOrIOp>(loc, high, word);
    return builder.createOrFold<arith::XOrIOp>(loc, mixed, same(key));
  }
  mlir::Value real(double value) {
    auto f32 = builder.getF32Type();
    return same(arith::ConstantOp::create(builder, loc, FloatAttr::get(f32, value)));
  }
  mlir::Value toFloat(mlir::Value word) {
    mlir::Type type = tile::withElementType(word.getType(), builder.getF32Type());
    return builder.createOrFold<arith::UIToFPOp>(loc, type, word);
  }
  mlir::Value times(mlir::Value x, double factor) {
    return builder.createOrFold<arith::MulFOp>(loc, x, real(factor));
  }

  Trace &trace;
  OpBuilder &builder;
  mlir::Location loc;
  Location where;
  SmallVector<int64_t> shape;
};

} // namespace

void draw(Draw what, const Operand &seed, const Operand &offset, const Operand &word2,
          const Operand &word3, unsigned rounds, std::span<Value> numbers, Location where) {
  Trace &trace = Trace::current(where);
  Generator generator(trace, where);
  Generator::Words words = generator.words(seed, offset, word2, word3, rounds);
  std::pair<mlir::Value, mlir::Value> pair;
  for (size_t i = 0; i < numbers.size(); ++i) {
    if (what == Draw::normal && i % 2 == 0)
      pair = generator.normal(words[i], words[i + 1]);
    numbers[i] = trace.wrap(what == Draw::words     ? words[i]
                            : what == Draw::uniform ? generator.uniform(words[i])
                            : i % 2                 ? pair.second
                                                    : pair.first);
  }
}

} // namespace sectile::detail
