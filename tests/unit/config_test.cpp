// Configurations: the fields by name, in order, and as words that tell configurations apart. Fields
// are found with SECTILE_CONFIG and without it.
#include <array>
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
template <class T, int N> struct Sized {
  T size = N;
};
struct Many {
  int a = 0, b = 1, c = 2, d = 3, e = 4, f = 5, g = 6, h = 7, i = 8, j = 9, k = 10, l = 11, m = 12,
      n = 13, o = 14, p = 15, q = 16, r = 17, s = 18, t = 19;
};
struct Larger : Block {
  int more = 1;
};
struct Listed {
  int sizes[2] = {1, 2};
};
struct Nothing {};
} // namespace user

using namespace sectile;

TEST(Config, NamesAndValues) {
  EXPECT_EQ(describe(user::Tile{}), "m=128 n=64 swap=0 order=0 scale=0.500000");
  EXPECT_EQ(describe(user::Block{.size = 8}), "size=8");
  EXPECT_EQ(describe(user::Sized<short, 3>{}), "size=3");
  EXPECT_EQ(describe(user::Many{}).substr(0, 11), "a=0 b=1 c=2");
  static_assert(detail::configWords<user::Many> == 20);
  static_assert(KernelConfig<user::Tile> && !KernelConfig<int>);
  static_assert(!KernelConfig<user::Larger> && !KernelConfig<user::Listed>);
  static_assert(!KernelConfig<user::Nothing> && !KernelConfig<std::array<int, 2>>);
}

TEST(Config, StructsOfFunctionsAndOfSeveralParts) {
  struct Own {
    bool wide = true;
    user::Order order = user::Order::columns;
  };
  EXPECT_EQ(describe(Own{}), "wide=1 order=1");
  using Both = JoinedConfig<user::Block, Own>;
  Both both{{.size = 4}, {.wide = false}};
  EXPECT_EQ(describe(both), "size=4 wide=0 order=1");
  static_assert(KernelConfig<Both> && detail::configWords<Both> == 3);
  EXPECT_EQ(describe(JoinedConfig<Both, user::Tile>{both, {}}).substr(0, 22),
            "size=4 wide=0 order=1 ");
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
