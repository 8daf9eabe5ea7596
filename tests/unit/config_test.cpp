// Configurations: the fields by name, in order, and as words that tell configurations apart.
#include <gtest/gtest.h>
#include <sectile/config.h>

namespace user {
enum class Order : unsigned char { rows, columns };
struct Tile {
  int m = 128, n = 64;
  bool swap = false;
  Order order = Order::rows;
  float scale = 0.5f;
};
SECTILE_CONFIG(Tile, m, n, swap, order, scale)
struct Block {
  int size = 1024;
};
SECTILE_CONFIG(Block, size)
template <class T, int N> struct Sized {
  T size = N;
};
template <class T, int N> SECTILE_CONFIG((Sized<T, N>), size) struct Many {
  int a = 0, b = 1, c = 2, d = 3, e = 4, f = 5, g = 6, h = 7, i = 8, j = 9, k = 10, l = 11, m = 12,
      n = 13, o = 14, p = 15, q = 16, r = 17, s = 18, t = 19;
};
SECTILE_CONFIG(Many, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t)
} // namespace user

using namespace sectile;

TEST(Config, NamesAndValues) {
  EXPECT_EQ(describe(user::Tile{}), "m=128 n=64 swap=0 order=0 scale=0.500000");
  EXPECT_EQ(describe(user::Block{.size = 8}), "size=8");
  EXPECT_EQ(describe(user::Sized<short, 3>{}), "size=3");
  EXPECT_EQ(describe(user::Many{}).substr(0, 11), "a=0 b=1 c=2");
  static_assert(detail::configWords<user::Many> == 20);
  static_assert(KernelConfig<user::Tile> && !KernelConfig<int>);
}

TEST(Config, FieldsCanBeSetByName) {
  user::Tile tile;
  for_each_field(tile, [](std::string_view name, auto &value) {
    if (name == "n")
      value = static_cast<std::remove_reference_t<decltype(value)>>(32);
  });
  EXPECT_EQ(tile.n, 32);
}

TEST(Config, WordsTellConfigurationsApart) {
  auto words = [](const user::Tile &tile) {
    std::array<std::uint64_t, detail::configWords<user::Tile>> result;
    result.fill(0xcccccccccccccccc);
    detail::packConfig(tile, result.data());
    return result;
  };
  EXPECT_EQ(words({}), words({}));
  EXPECT_NE(words({}), words({.m = 129}));
  EXPECT_NE(words({}), words({.swap = true}));
  EXPECT_NE(words({}), words({.order = user::Order::columns}));
  EXPECT_NE(words({}), words({.scale = 0.25f}));
  EXPECT_NE(words({.m = 64, .n = 128}), words({}));
}
