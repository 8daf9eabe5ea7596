// Overlap of strided arrays: whether sum(step[k] * x[k]), with 0 <= x[k] <= last[k], can fall into
// a window. The terms are the axes of both arrays; the window has the differences of addresses at
// which two elements have a byte in common.
#include "kernels/calls/Overlap.h"
#include "kernels/calls/Use.h"
#include <algorithm>
#include <cstdlib>
#include <memory_resource>
#include <vector>

using namespace sectile;

namespace {

struct Term {
  std::int64_t step, last; // step > 0
};

using Terms = std::pmr::vector<Term>;

class Sums {
public:
  explicit Sums(Terms given) : terms(std::move(given)), reach(terms.get_allocator()) {
    std::ranges::sort(terms, std::greater(), &Term::step);
    // Axes of the same step are one.
    std::size_t kept = 0;
    for (const Term &term : terms)
      if (kept && terms[kept - 1].step == term.step)
        terms[kept - 1].last += term.last;
      else
        terms[kept++] = term;
    terms.resize(kept);
    reach.resize(kept + 1);
    for (std::size_t i = kept; i-- > 0;)
      reach[i] = reach[i + 1] + terms[i].step * terms[i].last;
  }

  // Whether a sum lies in [low, high].
  bool reaches(std::int64_t low, std::int64_t high) {
    widest = high - low + 1;
    // From here on sums leave no gap that a window falls into.
    dense = terms.size();
    while (dense > 0 && terms[dense - 1].step <= widest + reach[dense])
      --dense;
    return search(0, low, high);
  }

private:
  bool search(std::size_t i, std::int64_t low, std::int64_t high) {
    if (high < 0 || low > reach[i])
      return false;
    if (i >= dense)
      return true;
    // Exotic strides only: better to take a call than to search for minutes.
    if (steps++ > 100000)
      return false;
    const auto [step, last] = terms[i];
    const std::int64_t least = low - reach[i + 1];
    const std::int64_t first = least <= 0 ? 0 : (least + step - 1) / step;
    for (std::int64_t x = std::min(last, high / step); x >= first; --x)
      if (search(i + 1, low - step * x, high - step * x))
        return true;
    return false;
  }

  Terms terms;
  std::pmr::vector<std::int64_t> reach; // of the terms from each on
  std::size_t dense = 0, steps = 0;
  std::int64_t widest = 0;
};

// The span of bytes from the first element on, and to where its last byte ends.
struct Span {
  std::uint64_t begin, end;
};
Span spanOf(const StridedArray &array) {
  Span span{array.address, array.address + array.elementBytes};
  for (std::size_t i = 0; i < array.extents.size(); ++i) {
    const std::int64_t far =
        (array.extents[i] - 1) * array.strides[i] * std::int64_t(array.elementBytes);
    (far < 0 ? span.begin : span.end) += static_cast<std::uint64_t>(far);
  }
  return span;
}

bool isEmpty(const StridedArray &array) {
  return std::ranges::find(array.extents, 0) != array.extents.end();
}

void addTerms(Terms &terms, const StridedArray &array) {
  for (std::size_t i = 0; i < array.extents.size(); ++i)
    if (array.extents[i] > 1 && array.strides[i] != 0)
      terms.push_back(
          {std::abs(array.strides[i]) * std::int64_t(array.elementBytes), array.extents[i] - 1});
}

} // namespace

bool sectile::isSame(const StridedArray &a, const StridedArray &b) {
  if (a.address != b.address || a.elementBytes != b.elementBytes)
    return false;
  const auto nextAxis = [](const StridedArray &array, std::size_t axis) {
    while (axis < array.extents.size() && array.extents[axis] == 1)
      ++axis;
    return axis;
  };
  std::size_t i = nextAxis(a, 0), j = nextAxis(b, 0);
  for (; i < a.extents.size() && j < b.extents.size();
       i = nextAxis(a, i + 1), j = nextAxis(b, j + 1))
    if (a.extents[i] != b.extents[j] || a.strides[i] != b.strides[j])
      return false;
  return i == a.extents.size() && j == b.extents.size();
}

bool sectile::overlap(const StridedArray &a, const StridedArray &b) {
  if (isEmpty(a) || isEmpty(b))
    return false;
  const Span left = spanOf(a), right = spanOf(b);
  if (left.end <= right.begin || right.end <= left.begin)
    return false;
  // An element of a begins x above the beginning of its span, one of b y below the end of its span.
  std::byte room[1024]; // enough unless axes are many
  std::pmr::monotonic_buffer_resource memory(room, sizeof room);
  Terms terms(&memory);
  terms.reserve(a.extents.size() + b.extents.size());
  addTerms(terms, a);
  addTerms(terms, b);
  const auto lastOfB = static_cast<std::int64_t>(right.end - b.elementBytes - left.begin);
  // x + y = lastOfB where both begin at one address.
  return Sums(std::move(terms))
      .reaches(lastOfB - std::int64_t(a.elementBytes) + 1,
               lastOfB + std::int64_t(b.elementBytes) - 1);
}

bool sectile::overlapsItself(std::span<const std::int64_t> extents,
                             std::span<const std::int64_t> strides) {
  if (std::ranges::find(extents, 0) != extents.end())
    return false;
  // Most lie row by row.
  std::int64_t beyond = 1;
  std::size_t axis = extents.size();
  for (; axis > 0; --axis)
    if (extents[axis - 1] > 1) {
      if (std::abs(strides[axis - 1]) < beyond)
        break;
      beyond += (extents[axis - 1] - 1) * std::abs(strides[axis - 1]);
    }
  if (axis == 0)
    return false;
  std::byte room[1024]; // enough unless axes are many
  std::pmr::monotonic_buffer_resource memory(room, sizeof room);
  Terms rest(&memory);
  std::int64_t least = 0; // the sum of all of the rest, backwards
  for (std::size_t i = extents.size(); i-- > 0;) {
    if (extents[i] == 1)
      continue;
    const std::int64_t step = std::abs(strides[i]), last = extents[i] - 1;
    if (step == 0)
      return true;
    // Two elements that differ along this axis, by 1 + x, and along those behind it by -last to
    // last: they are one where the steps add up to nothing.
    Terms terms(rest, &memory);
    terms.push_back({step, last - 1});
    if (Sums(std::move(terms)).reaches(least - step, least - step))
      return true;
    rest.push_back({step, 2 * last});
    least += step * last;
  }
  return false;
}

std::string sectile::itselfText(std::string_view name, std::span<const std::int64_t> strides) {
  return "elements of " + std::string(name) + " lie at one address by its strides " +
         toString(Shape(strides.begin(), strides.end())) +
         ", but each element of an output needs its own";
}

void sectile::checkOverlap(const Invocation &call, std::span<const std::uint64_t> addresses) {
  const KernelSpec &kernel = *call.kernel;
  const std::size_t count = call.tensors.size();
  Shape few[8]; // each launch asks: without the heap, unless arguments are many
  std::vector<Shape> many(count > std::size(few) ? count : 0);
  Shape *const strides = many.empty() ? few : many.data();
  for (std::size_t i = 0; i < count; ++i)
    if (call.tensors[i].present && call.tensors[i].strides.empty())
      strides[i] = stridesOf(call.tensors[i]);
  const auto layoutOf = [&](std::size_t i) {
    const TensorType &type = call.tensors[i];
    return StridedArray{addresses[i], size_of(type.dtype), type.shape,
                        type.strides.empty() ? strides[i] : type.strides};
  };
  for (std::size_t i = count; i-- > 0 && kernel.arguments[i].output;) {
    if (!call.tensors[i].present)
      continue;
    const ArgumentSpec &output = kernel.arguments[i];
    const StridedArray written = layoutOf(i);
    if (overlapsItself(written.extents, written.strides))
      throw InputError(kernel.name + ": " + itselfText(output.name, written.strides));
    for (std::size_t j = 0; j < i; ++j) {
      if (!call.tensors[j].present)
        continue;
      const ArgumentSpec &other = kernel.arguments[j];
      const StridedArray read = layoutOf(j);
      if (!overlap(written, read))
        continue;
      const bool mayReplace = std::ranges::find(output.over, other.name) != output.over.end();
      if (mayReplace && isSame(written, read))
        continue;
      throw InputError(
          kernel.name + ": " + output.name + " overlaps " + other.name + " in memory; " +
          (mayReplace
               ? "it may only be exactly " + other.name +
                     ", with the same extents, strides and element size"
               : "the kernel does not run in place, " + output.name + " needs memory of its own"));
    }
  }
}
