// What group_norm and its gradients share.
#pragma once
#include "kernels/calls/Use.h"

namespace sectile {

struct GroupNormConfig {
  int channels = 16, block = 64, warps = 4;
  bool whole = true; // a group fits
  int parts = 1;     // powerAtLeast of the programs that share a group
};

// Adds the configuration, its defaults and the space of the launch of this name. Of a group that
// does not fit a program takes `together` elements at once, `each` in a thread.
void addGroupConfig(KernelSpec &spec, const char *part, std::int64_t together, std::int64_t each);
GroupNormConfig groupConfig(const Use &use);

// The channels of program 0's group.
template <class T> struct Group {
  Int image, index, first, size; // index of the group, its first channel, how many channels

  Group(const View<T, 3> &x, const Int &number, const Int &groups)
      : image(number / groups), index(number % groups), first(index * (x.extent(1) / groups)),
        size(x.extent(1) / groups) {}
  // Of the group's number in an array [B, G].
  template <class U> Ptr<U> place(const View<U, 2> &statistics) const {
    return statistics.ptr() + (image * statistics.stride(0) + index * statistics.stride(1));
  }
  template <class U> View<U, 2> of(const View<U, 3> &x) const {
    return x.at(image).slice(0, first, size);
  }
  template <class U> View<U, 1> of(const View<U, 1> &x) const { return x.slice(0, first, size); }
};

} // namespace sectile
