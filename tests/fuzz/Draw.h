// Random choices that follow from a seed.
#pragma once
#include <cstdint>
#include <iterator>
#include <random>

namespace sectile::fuzz {

class Draw {
public:
  explicit Draw(uint64_t seed) : random(seed * 0x9e3779b97f4a7c15u + 9) {}
  size_t pick(size_t n) { return random() % n; }
  bool coin() { return pick(2); }
  template <class List> auto oneOf(const List &list) { return list[pick(std::size(list))]; }
  /// Any whole number from `least` to `most`.
  int64_t number(int64_t least, int64_t most) {
    return least + static_cast<int64_t>(pick(static_cast<size_t>(most - least + 1)));
  }

private:
  std::mt19937_64 random;
};

} // namespace sectile::fuzz
