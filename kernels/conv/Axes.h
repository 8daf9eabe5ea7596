// How the axes of an image and the taps of a filter meet: of the forward pass, of the gradient of
// the image, and of that where channels are few.
#pragma once
#include "kernels/conv/Shape.h"
#include <numeric>
#include <sectile/sectile.h>

namespace sectile {

// Each axis of the destination has one of these, which numbers those of its elements that a program
// has, and the taps that lie on them. Filters for the product are stored by `width` indices:
// index() is that of the number-th tap. Every ways-th tap lies on elements of the same class, from
// tap k on on those of classOf(k).

// The forward pass: all places of the filter, with all of its taps.
struct PlaceAxis {
  static constexpr int classes(int) { return 1; }
  static constexpr int step(int) { return 1; } // elements from one number to the next
  static int ways(std::int64_t, std::int64_t) { return 1; }
  static Int classOf(int, int, int, const Int &) { return 0; }
  static std::int64_t widthOf(const ConvAxis &, std::int64_t filter) { return filter; }
  static std::int64_t mostTaps(const ConvAxis &, std::int64_t filter) { return filter; }

  int stride, pad, dilation;
  Int count, taps, width;

  PlaceAxis(int stride, int pad, int dilation, const Int &, const Int &places, const Int &filter)
      : stride(stride), pad(pad), dilation(dilation), count(places), taps(filter), width(filter) {}
  Int destination(const Int &number) const { return number; }
  Int index(const Int &number) const { return number; }
  // The element of the source under the first tap is source(number) * gap() + offset(), under each
  // next one it is by move() further.
  Int source(const Int &number) const { return number - (pad + stride - 1) / stride; }
  int gap() const { return stride; }
  int offset() const { return (pad + stride - 1) / stride * stride - pad; }
  int move() const { return dilation; }
};

// The gradient of the image: elements first, first + stride, ..., and the taps that lie on them
// when the filter is at some place, which are every period-th from one on, if any.
struct ElementAxis {
  static constexpr int classes(int stride) { return stride; }
  static constexpr int step(int stride) { return stride; }
  static int ways(std::int64_t stride, std::int64_t dilation) {
    return static_cast<int>(stride / std::gcd(stride, dilation));
  }
  static Int classOf(int stride, int pad, int dilation, const Int &way) {
    return (way * dilation + (stride - pad % stride)) % stride;
  }
  static std::int64_t widthOf(const ConvAxis &, std::int64_t filter) { return filter; }
  static std::int64_t mostTaps(const ConvAxis &axis, std::int64_t filter) {
    return ceilDiv(filter, ways(axis.stride, axis.dilation));
  }

  int stride, pad, dilation, period;
  Int first, count, firstTap, taps, width;

  ElementAxis(int stride, int pad, int dilation, const Int &first, const Int &elements,
              const Int &filter)
      : stride(stride), pad(pad), dilation(dilation), period(ways(stride, dilation)), first(first),
        count(cdiv(maximum(elements - first, 0), stride)), width(filter) {
    const int common = stride / period;
    // tap * dilation is as far behind a place as the element is: the same modulo the stride.
    const Int rest = (first + pad) % stride;
    int inverse = 0; // of dilation / common, modulo the period
    while (inverse * (dilation / common) % period != 1 % period)
      ++inverse;
    firstTap = rest / common * inverse % period;
    taps = where(rest % common == 0, cdiv(maximum(filter - firstTap, 0), period), 0);
  }
  Int destination(const Int &number) const { return first + number * stride; }
  Int index(const Int &number) const { return firstTap + number * period; }
  Int source(const Int &number) const {
    return (first + pad - firstTap * dilation) / stride + number;
  }
  static int gap() { return 1; }
  static int offset() { return 0; }
  int move() const { return -(dilation / (stride / period)); }
};

// The same with all elements: a number stands for as many neighbours as the stride, its phases.
// They take the same places of the source, and of each its own tap, if one lies on it: tap() is
// what is stored there.
struct PhaseAxis {
  static constexpr int classes(int) { return 1; }
  static constexpr int step(int stride) { return stride; }
  static Int classOf(int, int, int, const Int &) { return 0; }
  static std::int64_t widthOf(const ConvAxis &axis, std::int64_t filter) {
    const std::int64_t last = (axis.stride - 1 + axis.pad) / axis.stride;
    return ((filter - 1) * axis.dilation + last * axis.stride - axis.pad) / axis.stride + 1;
  }
  static std::int64_t mostTaps(const ConvAxis &axis, std::int64_t filter) {
    return widthOf(axis, filter);
  }

  int stride, dilation;
  int last;   // number n takes the places up to n + last,
  int behind; // under which tap * dilation is phase - behind at the first of them
  Int count, filter, taps, width;

  PhaseAxis(int stride, int pad, int dilation, const Int &, const Int &elements, const Int &filter)
      : stride(stride), dilation(dilation), last((stride - 1 + pad) / stride),
        behind(last * stride - pad), count(cdiv(elements, stride)), filter(filter),
        taps(((filter - 1) * dilation + behind) / stride + 1), width(taps) {}
  Int destination(const Int &number) const { return number * stride; }
  Int index(const Int &number) const { return number; }
  Int tap(const Int &index, const Int &phase) const { return distance(index, phase) / dilation; }
  Bool lies(const Int &index, const Int &phase) const {
    const Int from = distance(index, phase);
    return from >= 0 && from % dilation == 0 && from / dilation < filter;
  }
  Int source(const Int &number) const { return number + last; }
  static int gap() { return 1; }
  static int offset() { return 0; }
  static int move() { return -1; }

private:
  // Of the pixel of this phase from the first tap, when it is the tap of this index that lies
  // there.
  Int distance(const Int &index, const Int &phase) const { return index * stride + phase - behind; }
};

} // namespace sectile
