// Reductions, scans, sorting and counting on the host.
#include "kernels/collection/Family.h"
#include "kernels/references/ReferenceArithmetic.h"
#include <algorithm>
#include <cmath>
#include <numeric>

using namespace sectile;

namespace {

// Integers are exact in either arithmetic, and stay what they are.
template <class Formula> auto overNumbers(DType dtype, Arithmetic arithmetic, Formula &&formula) {
  return with_arithmetic(is_floating(dtype) ? dtype : DType::float64, arithmetic, formula);
}

// PyTorch's order: a NaN beside anything wins.
template <class Number> Number extreme(Number a, Number b, bool largest) {
  if (std::isnan(a) || std::isnan(b))
    return std::numeric_limits<Number>::quiet_NaN();
  return largest ? std::max(a, b) : std::min(a, b);
}

// NaN above all, -0 below +0.
template <class Number> bool isLess(Number a, Number b) {
  if (std::isnan(a) || std::isnan(b))
    return !std::isnan(a);
  return a < b || (a == b && std::signbit(a) && !std::signbit(b));
}

// Of integers: what the elements of a row come to so far, in 64 bits that wrap as the kernel's do.
// Doubles would neither wrap nor hold all digits.
void wrapping(std::span<const std::int32_t> row, bool product, bool reverse,
              std::span<std::int64_t> result) {
  std::uint64_t total = product ? 1 : 0;
  for (std::size_t i = 0; i < row.size(); ++i) {
    const std::size_t at = reverse ? row.size() - 1 - i : i;
    const auto value = static_cast<std::uint64_t>(std::int64_t(row[at]));
    total = product ? total * value : total + value;
    result[at] = static_cast<std::int64_t>(total);
  }
}

bool isWrapping(const Invocation &call, std::initializer_list<std::string_view> operations) {
  return !is_floating(call.tensors[0].dtype) &&
         std::find(operations.begin(), operations.end(), call.options.choice("op")) !=
             operations.end();
}

} // namespace

std::vector<HostArray> sectile::reduceReference(const Invocation &call,
                                                std::span<const HostArray> inputs,
                                                Arithmetic arithmetic) {
  if (isWrapping(call, {"sum", "prod"})) {
    const bool product = call.options.choice("op") == "prod";
    const auto n = static_cast<std::size_t>(call.extent("N"));
    HostArray y(DType::int64, call.leading);
    std::vector<std::int64_t> sofar(n);
    for (std::size_t row = 0; row < y.as<std::int64_t>().size(); ++row) {
      wrapping(inputs[0].as<std::int32_t>().subspan(row * n, n), product, false, sofar);
      y.as<std::int64_t>()[row] = n ? sofar.back() : product;
    }
    return {y};
  }
  return overNumbers(inputs[0].dtype, arithmetic, [&]<class Number>(NumbersOf<Number> numbers) {
    const auto x = numbers.load(inputs[0]);
    const std::string &op = call.options.choice("op");
    const auto n = static_cast<std::size_t>(call.extent("N"));
    const std::size_t rows = static_cast<std::size_t>(elementCount(call.leading));
    std::vector<Number> y(rows);
    for (std::size_t row = 0; row < rows; ++row) {
      const Number *p = x.data() + row * n;
      Number result = op == "prod" ? 1 : 0;
      if (op == "sum" || op == "mean")
        result = std::accumulate(p, p + n, Number(0));
      if (op == "mean")
        result = numbers.store(result) / static_cast<Number>(n);
      for (std::size_t i = 0; i < n && op == "prod"; ++i)
        result *= p[i];
      const bool largest = op.ends_with("max");
      if (op == "max" || op == "min") {
        result = p[0];
        for (std::size_t i = 1; i < n; ++i)
          result = extreme(result, p[i], largest);
      }
      if (op == "argmax" || op == "argmin") {
        std::size_t best = 0;
        for (std::size_t i = 1; i < n; ++i)
          if (!std::isnan(p[best]) &&
              (std::isnan(p[i]) || (largest ? p[i] > p[best] : p[i] < p[best])))
            best = i;
        result = static_cast<Number>(best);
      }
      y[row] = result;
    }
    return outputsOf(call, numbers, y);
  });
}

std::vector<HostArray> sectile::scanReference(const Invocation &call,
                                              std::span<const HostArray> inputs,
                                              Arithmetic arithmetic) {
  if (isWrapping(call, {"cumsum", "cumprod"})) {
    const auto n = static_cast<std::size_t>(call.extent("N"));
    HostArray y(DType::int64, inputs[0].shape);
    const auto x = inputs[0].as<std::int32_t>();
    for (std::size_t start = 0; start + n <= x.size() && n; start += n)
      wrapping(x.subspan(start, n), call.options.choice("op") == "cumprod",
               call.options.flag("reverse"), y.as<std::int64_t>().subspan(start, n));
    return {y};
  }
  return overNumbers(inputs[0].dtype, arithmetic, [&]<class Number>(NumbersOf<Number> numbers) {
    const auto x = numbers.load(inputs[0]);
    const std::string &op = call.options.choice("op");
    const auto n = static_cast<std::size_t>(call.extent("N"));
    std::vector<Number> y(x.size());
    for (std::size_t start = 0; start + n <= x.size() && n; start += n) {
      Number total = 0;
      for (std::size_t i = 0; i < n; ++i) {
        const std::size_t at = start + (call.options.flag("reverse") ? n - 1 - i : i);
        total = i == 0            ? x[at]
                : op == "cumsum"  ? total + x[at]
                : op == "cumprod" ? total * x[at]
                                  : extreme(total, x[at], op == "cummax");
        y[at] = total;
      }
    }
    return outputsOf(call, numbers, y);
  });
}

std::vector<HostArray> sectile::sortReference(const Invocation &call,
                                              std::span<const HostArray> inputs,
                                              Arithmetic arithmetic, bool descending,
                                              std::int64_t count) {
  return overNumbers(inputs[0].dtype, arithmetic, [&]<class Number>(NumbersOf<Number> numbers) {
    const auto x = numbers.load(inputs[0]);
    const auto n = static_cast<std::size_t>(call.extent("N")), k = static_cast<std::size_t>(count);
    std::vector<Number> y;
    std::vector<double> places;
    for (std::size_t start = 0; start + n <= x.size() && n; start += n) {
      std::vector<std::size_t> order(n);
      std::iota(order.begin(), order.end(), start);
      // Equals keep their order.
      std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
        const Number p = descending ? x[b] : x[a], q = descending ? x[a] : x[b];
        return isLess(p, q) || (!isLess(q, p) && a < b);
      });
      for (std::size_t i = 0; i < k; ++i) {
        y.push_back(x[order[i]]);
        places.push_back(static_cast<double>(order[i] - start));
      }
    }
    if (call.tensors.size() == 2) // argsort
      return outputsOf(call, numbers, places);
    return outputsOf(call, numbers, y, places);
  });
}

std::vector<HostArray> sectile::histogramReference(const Invocation &call,
                                                   std::span<const HostArray> inputs, Arithmetic) {
  HostArray counts(DType::int32, {call.extent("C")});
  for (std::int32_t value : inputs[0].as<std::int32_t>())
    if (value >= 0 && value < call.extent("C"))
      ++counts.as<std::int32_t>()[static_cast<std::size_t>(value)];
  return {counts};
}
