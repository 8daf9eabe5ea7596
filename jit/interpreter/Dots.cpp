// Matrix products: exact products, added up in the accumulator's type in the order of k.
#include "ir/tile/Tile.h"
#include "jit/interpreter/Bounds.h"
#include "jit/interpreter/Products.h"
#include <array>
#include <bit>
#include <cmath>
#include <utility>

using namespace mlir;

namespace sectile::interpreter {
namespace {

/// To 10 bits of mantissa, ties away from zero.
double toTF32(double value) {
  auto bits = std::bit_cast<uint32_t>(static_cast<float>(value));
  if ((bits & 0x7f80'0000u) == 0x7f80'0000u)
    return value;
  return std::bit_cast<float>((bits + 0x1000u) & 0xffff'e000u);
}
double toBF16(double value) { return bf16Format.decode(bf16Format.encode(value)); }

using Parts = std::vector<std::vector<double>>;

/// Each number as a sum of numbers of lower precision, the largest first. After them the first once
/// more, but zero where it is not finite: only the product of the first parts can be infinite or
/// NaN, as an infinity times what rounding left of the other number is not the number's.
Parts partsOf(std::vector<double> values, size_t count, double (*round)(double)) {
  Parts parts(count + 1, std::vector<double>(values.size()));
  for (size_t i = 0; i < values.size(); ++i) {
    for (size_t p = 0; p < count; ++p) {
      parts[p][i] = round(values[i]);
      // The rest of an infinity, or of what became one, is nothing.
      values[i] = std::isfinite(parts[p][i]) ? values[i] - parts[p][i] : 0;
    }
    parts[count][i] = std::isfinite(parts[0][i]) ? parts[0][i] : 0;
  }
  return parts;
}

/// The pairs of parts that are multiplied: the smallest products first, for sums lose the least so.
std::vector<std::array<size_t, 2>> pairsFor(tile::Precision precision) {
  if (precision == tile::Precision::BF16x6)
    return {{2, 3}, {1, 1}, {3, 2}, {1, 3}, {3, 1}, {0, 0}};
  if (precision == tile::Precision::TF32x3 || precision == tile::Precision::BF16x3)
    return {{1, 2}, {2, 1}, {0, 0}};
  return {{0, 0}};
}

Parts operandParts(const Elements &operand, tile::Precision precision) {
  std::vector<double> values = operand.asDoubles();
  if (operand.type.format != &f32Format)
    return {std::move(values)};
  switch (precision) {
  case tile::Precision::IEEE:
    return {std::move(values)};
  case tile::Precision::TF32:
    return partsOf(std::move(values), 1, toTF32);
  case tile::Precision::TF32x3:
    return partsOf(std::move(values), 2, toTF32);
  case tile::Precision::BF16x3:
    return partsOf(std::move(values), 2, toBF16);
  case tile::Precision::BF16x6:
    return partsOf(std::move(values), 3, toBF16);
  }
  llvm_unreachable("every precision is listed");
}

void multiplyIntegers(const Elements &a, const Elements &b, Elements &sums, size_t batches,
                      size_t m, size_t n, size_t k) {
  for (size_t batch = 0; batch < batches; ++batch)
    for (size_t i = 0; i < m; ++i)
      for (size_t j = 0; j < n; ++j) {
        uint64_t &sum = sums.words[(batch * m + i) * n + j];
        for (size_t l = 0; l < k; ++l)
          sum +=
              uint64_t(a.asSigned((batch * m + i) * k + l) * b.asSigned((batch * k + l) * n + j));
        sum &= sums.type.mask();
      }
}

/// What rounding operands of 32 bits may take from a product, as a part of it.
double lostBy(tile::Precision precision) {
  switch (precision) {
  case tile::Precision::IEEE:
    return 0;
  case tile::Precision::TF32:
    return 0x1p-9;
  case tile::Precision::TF32x3:
    return 0x1p-19;
  case tile::Precision::BF16x3:
    return 0x1p-13;
  case tile::Precision::BF16x6:
    return 0x1p-20;
  }
  llvm_unreachable("every precision is listed");
}

bool isFp8(const Elements &operand) {
  return operand.type.format && operand.type.format->bits == 8;
}

/// Products of a group along K whose sum may keep 13 bits behind the first of its largest term
/// (docs/language.md, "Sums of fp8 products").
class GroupOfFp8 {
public:
  static constexpr size_t length = 128;

  /// Subnormal operands count as the smallest normal number.
  void add(double left, double leftBound, double leftNormal, double right, double rightBound,
           double rightNormal) {
    const double product = left * right;
    isCertain &= leftBound == 0 && rightBound == 0;
    if (product == 0 && leftBound == 0 && rightBound == 0)
      return;
    magnitudes += std::max(std::fabs(left) + leftBound, leftNormal) *
                  std::max(std::fabs(right) + rightBound, rightNormal);
    lowestBit = std::min(lowestBit, lowestBitOf(product));
    ++count;
  }

  /// At most. A chip cuts each product, each total of 32, and each but the last once more when the
  /// next products are added to it.
  double lost() const {
    constexpr int kept = 13;
    if (count == 0 || !std::isfinite(magnitudes))
      return 0;
    if (isCertain && std::ilogb(magnitudes) - lowestBit <= kept)
      return 0;
    return double(count + 2 * length / 32 - 1) * std::ldexp(magnitudes, -kept);
  }

private:
  double magnitudes = 0;
  int lowestBit = std::numeric_limits<int>::max();
  bool isCertain = true;
  size_t count = 0;
};

/// Bounds of matrix products: sums in any order, of products that are exact but for what rounding
/// the operands takes from them. Operands that no rounding changes lose nothing. `promoted`: sums
/// of fp8 may be those of groups.
void boundSums(const Matrices &x, const Elements &a, const Elements &b, size_t batch, double lost,
               bool promoted, const Elements &acc, Elements &sums) {
  auto leastNormal = [](const Elements &operand) {
    return std::ldexp(1.0, 1 - operand.type.format->bias);
  };
  auto fits = [](double value) { return toBF16(value) == value; };
  for (size_t i = 0; i < x.m; ++i)
    for (size_t j = 0; j < x.n; ++j) {
      const size_t at = (batch * x.m + i) * x.n + j;
      SumBound sum(*sums.type.format);
      sum.add(acc.asDouble(at), acc.boundAt(at));
      GroupOfFp8 group;
      for (size_t l = 0; l < x.k; ++l) {
        const double left = x.a[i * x.k + l], right = x.b[l * x.n + j];
        const double leftBound = a.boundAt((batch * x.m + i) * x.k + l),
                     rightBound = b.boundAt((batch * x.k + l) * x.n + j);
        // Of numbers close to the smallest, parts lose what is below bf16's smallest.
        const double rounded =
            lost == 0 || (fits(left) && fits(right))
                ? 0
                : lost * std::fabs(left * right) + 0x1p-133 * (std::fabs(left) + std::fabs(right));
        const double taken = rounded + std::fabs(std::fma(left, right, -left * right));
        sum.add(left * right, std::fabs(left) * rightBound + std::fabs(right) * leftBound +
                                  leftBound * rightBound + taken);
        if (!promoted)
          continue;
        group.add(left, leftBound, leastNormal(a), right, rightBound, leastNormal(b));
        if ((l + 1) % GroupOfFp8::length == 0 || l + 1 == x.k)
          sum.add(0, std::exchange(group, {}).lost());
      }
      setBound(sums, at, sum.of(sums.asDouble(at)));
    }
}

void dot(Run &run, Operation &op) {
  auto dot = cast<tile::DotOp>(op);
  const Elements &a = run.get(dot.getA()), &b = run.get(dot.getB());
  Elements sums = run.get(dot.getAcc());
  const size_t rank = a.shape.size(), m = size_t(a.shape[rank - 2]), k = size_t(a.shape[rank - 1]),
               n = size_t(b.shape[rank - 1]), batches = rank == 3 ? size_t(a.shape[0]) : 1;
  if (!sums.type.format) {
    multiplyIntegers(a, b, sums, batches, m, n, k);
  } else {
    const Elements acc = sums;
    const bool several = a.type.format == &f32Format;
    const Parts left = operandParts(a, dot.getPrecision()),
                right = operandParts(b, dot.getPrecision());
    for (size_t batch = 0; batch < batches; ++batch)
      for (auto [p, q] : several ? pairsFor(dot.getPrecision()) : pairsFor(tile::Precision::IEEE))
        multiply({left[p].data() + batch * m * k, right[q].data() + batch * k * n, m, n, k},
                 *sums.type.format, sums.words.data() + batch * m * n);
    if (run.bounds())
      for (size_t batch = 0; batch < batches; ++batch)
        boundSums(
            {a.asDoubles().data() + batch * m * k, b.asDoubles().data() + batch * k * n, m, n, k},
            a, b, batch, several ? lostBy(dot.getPrecision()) : 0,
            isFp8(a) && isFp8(b) && dot.getPrecision() == tile::Precision::TF32, acc, sums);
  }
  if (run.bounds() && !sums.type.format &&
      !(a.bounds.empty() && b.bounds.empty() && sums.bounds.empty()))
    sums.bounds.assign(sums.size(), anything);
  run.set(op.getResult(0), std::move(sums));
}

/// An operand of the microscaling formats, scaled. Its rows run along K; `packed`: two e2m1 in a
/// byte, the first one in the low half.
std::vector<double> scaledRows(const Elements &operand, const Elements *scale, size_t rows,
                               size_t k) {
  static constexpr double e2m1[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
  const bool packed = !operand.type.format;
  std::vector<double> values(rows * k);
  for (size_t row = 0; row < rows; ++row)
    for (size_t l = 0; l < k; ++l) {
      double &value = values[row * k + l];
      if (packed) {
        const uint64_t code = operand[(row * k + l) / 2] >> (l % 2 * 4) & 15;
        value = code & 8 ? -e2m1[code & 7] : e2m1[code];
      } else {
        value = operand.asDouble(row * k + l);
      }
      if (scale) {
        const uint64_t code = (*scale)[row * (k / 32) + l / 32];
        value = code == 255 ? NAN : std::ldexp(value, int(code) - 127);
      }
    }
  return values;
}

/// Scaled numbers, with how far off they are where they are decoded to bf16: infinite beyond its
/// range, and of subnormal numbers any part may be lost.
Elements decodedBounds(std::span<const double> scaled) {
  Elements result({32}, {int64_t(scaled.size())});
  const double largest = bf16Format.decode(bf16Format.largest());
  for (size_t i = 0; i < scaled.size(); ++i) {
    const double size = std::fabs(scaled[i]);
    if (std::isfinite(size) && size > largest)
      setBound(result, i, anything);
    else if (size < 0x1p-126)
      setBound(result, i, size);
  }
  return result;
}

/// With its two axes swapped.
Elements turned(const Elements &matrix) {
  const size_t rows = size_t(matrix.shape[0]), columns = size_t(matrix.shape[1]);
  std::vector<size_t> from(matrix.size());
  for (size_t i = 0; i < rows; ++i)
    for (size_t j = 0; j < columns; ++j)
      from[j * rows + i] = i * columns + j;
  return matrix.pick({matrix.shape[1], matrix.shape[0]}, from);
}

void dotScaled(Run &run, Operation &op) {
  auto dot = cast<tile::DotScaledOp>(op);
  const Elements &a = run.get(dot.getA()), b = turned(run.get(dot.getB()));
  Elements sums = run.get(dot.getAcc());
  const size_t m = size_t(sums.shape[0]), n = size_t(sums.shape[1]),
               k = size_t(a.shape[1]) * (a.type.format ? 1 : 2);
  auto scaleOf = [&](Value scale) { return scale ? &run.get(scale) : nullptr; };
  const std::vector<double> left = scaledRows(a, scaleOf(dot.getAScale()), m, k),
                            right = scaledRows(b, scaleOf(dot.getBScale()), n, k);
  std::vector<double> columns(k * n);
  for (size_t j = 0; j < n; ++j)
    for (size_t l = 0; l < k; ++l)
      columns[l * n + j] = right[j * k + l];
  const Elements acc = sums;
  const Matrices operands{left.data(), columns.data(), m, n, k};
  multiply(operands, f32Format, sums.words.data());
  if (run.bounds()) {
    // Scales may be applied to sums of 32 products.
    const bool certain = llvm::all_of(op.getOperands(), [&](Value operand) {
      return operand == dot.getAcc() || run.get(operand).bounds.empty();
    });
    if (certain)
      boundSums(operands, decodedBounds(left), decodedBounds(columns), 0, 0, false, acc, sums);
    else
      sums.bounds.assign(sums.size(), anything);
  }
  run.set(op.getResult(0), std::move(sums));
}

} // namespace

void addDots(Table &table) {
  table["tile.dot"] = dot;
  table["tile.dot_scaled"] = dotScaled;
}

} // namespace sectile::interpreter
