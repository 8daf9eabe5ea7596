// The analysis of global memory's addresses: what it must tell apart, so that programs get no
// barrier that they do not need. address_claims_test.cpp holds that its claims are right.
#include "ir/Dialects.h"
#include "mlir/Parser/Parser.h"
#include "passes/analysis/Addresses.h"
#include <gtest/gtest.h>

using namespace mlir;
using namespace sectile;

namespace {

// Layouts of two warps: each element in one thread, the same otherwise dealt, each in both warps,
// and in two registers of a thread.
constexpr const char *prelude = R"(
#own = #cta.layout<"128, register [(1)], lane [(2) (4) (8) (16) (32)], warp [(64)]">
#other = #cta.layout<"128, register [(64)], lane [(1) (2) (4) (8) (16)], warp [(32)]">
#twice = #cta.layout<"128, register [(1) (2)], lane [(4) (8) (16) (32) (64)], warp [(0)]">
#registers = #cta.layout<"128, register [(1) (0)], lane [(2) (4) (8) (16) (32)], warp [(64)]">
#square = #cta.layout<"16x16, register [(0,1) (0,2)], lane [(0,4) (0,8) (1,0) (2,0) (4,0)], warp [(8,0)]">
#turned = #cta.layout<"16x16, register [(1,0) (2,0)], lane [(4,0) (8,0) (0,1) (0,2) (0,4)], warp [(0,8)]">
#rows = #cta.layout<"16x1, register [(0,0) (0,0)], lane [(0,0) (0,0) (1,0) (2,0) (4,0)], warp [(8,0)]">
#columns = #cta.layout<"1x16, register [(0,1) (0,2)], lane [(0,4) (0,8) (0,0) (0,0) (0,0)], warp [(0,0)]">
#row = #cta.layout<"16, register [(0) (0)], lane [(0) (0) (1) (2) (4)], warp [(8)]">
#column = #cta.layout<"16, register [(1) (2)], lane [(4) (8) (0) (0) (0)], warp [(0)]">
#flat = #cta.layout<"256, register [(1) (2)], lane [(4) (8) (16) (32) (64)], warp [(128)]">
!i = tensor<128xi32, #own>
!p = tensor<128x!tile.ptr<f32>, #own>
!v = tensor<128xf32, #own>
!po = tensor<128x!tile.ptr<f32>, #other>
!vo = tensor<128xf32, #other>
!pt = tensor<128x!tile.ptr<f32>, #twice>
!vt = tensor<128xf32, #twice>
!pr = tensor<128x!tile.ptr<f32>, #registers>
!vr = tensor<128xf32, #registers>
!is = tensor<16x16xi32, #square>
!ps = tensor<16x16x!tile.ptr<f32>, #square>
!vs = tensor<16x16xf32, #square>
func.func @f(%x: !tile.ptr<f32> {tile.divisible = 16 : i64}, %y: !tile.ptr<f32> {tile.divisible = 16 : i64},
             %table: !tile.ptr<!tile.ptr<f32>>, %n: i32, %m: i32, %wide: i32 {tile.divisible = 128 : i64}, %if: i1) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c8 = arith.constant 8 : i32
  %c64 = arith.constant 64 : i32
  %c128 = arith.constant 128 : i32
  %zero = arith.constant 0.0 : f32
  %v = arith.constant dense<0.0> : !v
  %vo = arith.constant dense<0.0> : !vo
  %vs = arith.constant dense<0.0> : !vs
  %i1 = arith.constant dense<1> : !i
  %i2 = arith.constant dense<2> : !i
  %i127 = arith.constant dense<127> : !i
  %i128 = arith.constant dense<128> : !i
  %i = tile.arange 0 : !i
  %x0 = tile.splat %x : !tile.ptr<f32> -> !p
  %y0 = tile.splat %y : !tile.ptr<f32> -> !p
  %p = tile.addptr %x0, %i : !p, !i
  %q = tile.addptr %y0, %i : !p, !i
)";

class AddressesTest : public testing::Test {
protected:
  AddressesTest() {
    DialectRegistry registry;
    registerDialects(registry);
    context.appendDialectRegistry(registry);
    context.loadAllAvailableDialects();
  }

  /// How the access with the attribute `second` relates to the one with `first`, done before it:
  /// "apart" where they cannot meet, "own" where a thread meets its own accesses only, else
  /// "ordered". Iterations of the loops with the attributes `ended` have ended in between.
  std::string relation(const std::string &body, std::initializer_list<StringRef> ended = {}) {
    auto module = parseSourceString<ModuleOp>(prelude + body + "\n  return\n}", &context);
    if (!module)
      return "no program";
    AddressAnalysis analysis(*module->getOps<func::FuncOp>().begin());
    std::optional<GlobalAccess> first, second;
    EndedIterations loops = 0;
    module->walk([&](Operation *op) {
      if (op->hasAttr("first"))
        first = analysis.accessOf(op);
      if (op->hasAttr("second"))
        second = analysis.accessOf(op);
      for (StringRef loop : ended)
        if (op->hasAttr(loop))
          loops |= analysis.bitOf(op);
    });
    if (!first || !second)
      return "no accesses";
    bool overlap = analysis.mayOverlap(*first, *second, loops),
         order = analysis.needsOrder(*first, *second, loops);
    return order ? "ordered" : overlap ? "own" : "apart";
  }

  MLIRContext context;
};

/// A load of `pointer` that comes first.
std::string load(const std::string &pointer) {
  return "%loaded = tile.load " + pointer + " {first} : !p -> !v\n";
}
std::string store(const std::string &pointer, const char *mark = "second") {
  return "tile.store " + pointer + ", %v {" + mark + "} : !p, !v\n";
}
std::string moved(const std::string &name, const std::string &from, const std::string &by) {
  return name + " = tile.addptr " + from + ", " + by + " : !p, !i\n";
}
std::string splat(const std::string &name, const std::string &number) {
  return name + " = tile.splat " + number + " : i32 -> !i\n";
}
/// A loop with this attribute.
std::string loop(const std::string &mark, const std::string &index, const std::string &body) {
  return "scf.for " + index + " = %c0 to %n step %c1 : i32 {\n" + body + "} {" + mark + "}\n";
}

// A view with rows of 128, and blocks of it.
const std::string matrix =
    "%m0 = tile.make_view %x, [%n, %n], [%c128, %c1] : !tile.ptr<f32>, [i32, i32], "
    "[i32, i32] -> !tile.view<2xf32>\n";
std::string loadAt(const std::string &row, const std::string &column) {
  return "%block = tile.load_block %m0[" + row + ", " + column +
         "] {first} : !tile.view<2xf32>, [i32, i32] -> !vs\n";
}
std::string storeAt(const std::string &row, const std::string &column) {
  return "tile.store_block %m0[" + row + ", " + column +
         "], %vs {second} : !tile.view<2xf32>, [i32, i32], !vs\n";
}

TEST_F(AddressesTest, BlocksOfViews) {
  EXPECT_EQ(relation(matrix + loadAt("%n", "%c8") + storeAt("%n", "%c8")), "own");
  EXPECT_EQ(relation(matrix + loadAt("%n", "%c8") + storeAt("%n", "%c64")), "ordered");
  EXPECT_EQ(relation(matrix + loadAt("%n", "%c8") + storeAt("%m", "%c8")), "ordered");
  EXPECT_EQ(relation(matrix + "%r = arith.addi %n, %c8 : i32\n" + loadAt("%n", "%c0") +
                     storeAt("%r", "%c0")),
            "ordered");
  EXPECT_EQ(relation(matrix + "%r = arith.addi %n, %c64 : i32\n" + loadAt("%n", "%c0") +
                     storeAt("%r", "%c0")),
            "apart");
  EXPECT_EQ(relation(matrix + loop("outer", "%j", loadAt("%j", "%c8") + storeAt("%j", "%c8"))),
            "own");
  EXPECT_EQ(
      relation(matrix + loop("outer", "%j", loadAt("%j", "%c8") + storeAt("%j", "%c8")), {"outer"}),
      "ordered");
  // As pointers, seen beside one another.
  const std::string line = "%l = tile.make_view %x, [%n], [%c1] : !tile.ptr<f32>, [i32], [i32] -> "
                           "!tile.view<1xf32>\n";
  auto stored = [&](const std::string &offset) {
    return "tile.store_block %l[" + offset + "], %v {second} : !tile.view<1xf32>, [i32], !v\n";
  };
  EXPECT_EQ(relation(line + load("%p") + stored("%c0")), "own");
  EXPECT_EQ(relation(line + load("%p") + stored("%c1")), "ordered");
  EXPECT_EQ(relation(line + load("%p") + stored("%c128")), "apart");
  EXPECT_EQ(relation(line + load("%q") + stored("%c0")), "apart");
}

// Offsets in a buffer are as good as pointers, and meet those.
TEST_F(AddressesTest, OffsetsInBuffers) {
  auto loadFrom = [](const std::string &base, const std::string &offsets) {
    return "%buffered = cta.buffer_load " + base + "[" + offsets +
           "] {first} : !tile.ptr<f32>, !i -> !v\n";
  };
  auto storeTo = [](const std::string &base, const std::string &offsets) {
    return "cta.buffer_store " + base + "[" + offsets + "], %v {second} : !tile.ptr<f32>, !i, !v\n";
  };
  const std::string bases = "%next = tile.addptr %x, %c1 : !tile.ptr<f32>, i32\n"
                            "%far = tile.addptr %x, %c128 : !tile.ptr<f32>, i32\n"
                            "%back = arith.subi %i127, %i : !i\n";
  EXPECT_EQ(relation(bases + loadFrom("%x", "%i") + storeTo("%x", "%i")), "own");
  EXPECT_EQ(relation(bases + loadFrom("%x", "%i") + storeTo("%y", "%i")), "apart");
  EXPECT_EQ(relation(bases + loadFrom("%x", "%i") + storeTo("%next", "%i")), "ordered");
  EXPECT_EQ(relation(bases + loadFrom("%x", "%i") + storeTo("%far", "%i")), "apart");
  EXPECT_EQ(relation(bases + loadFrom("%x", "%i") + storeTo("%x", "%back")), "ordered");
  EXPECT_EQ(relation(bases + loadFrom("%x", "%i") + store("%p")), "own");
  EXPECT_EQ(relation(bases + load("%p") + storeTo("%x", "%i")), "own");
  EXPECT_EQ(relation(bases + load("%p") + storeTo("%next", "%i")), "ordered");
}

// Blocks at too many unknown places are somewhere in their argument.
TEST_F(AddressesTest, BlocksWithoutAnAddress) {
  std::string sums = matrix;
  auto sum = [&](const std::string &name) {
    std::string at = "%n";
    for (int i = 0; i < 15; ++i) {
      const std::string part = name + "p" + std::to_string(i),
                        total = name + "t" + std::to_string(i);
      sums += part + " = tile.program_id 0\n" + total + " = arith.addi " + at + ", " + part +
              " : i32\n";
      at = total;
    }
    return at;
  };
  const std::string row = sum("%row"), column = sum("%column");
  EXPECT_EQ(relation(sums + loadAt(row, "%c0") + storeAt(row, "%c0")), "own");
  EXPECT_EQ(relation(sums + loadAt(row, column) + storeAt(row, column)), "ordered");
  EXPECT_EQ(relation(sums + loadAt(row, column) + store("%q")), "apart");
}

TEST_F(AddressesTest, TilesOfOneArgument) {
  EXPECT_EQ(relation(load("%p") + store("%p")), "own");
  EXPECT_EQ(relation(load("%p") + store("%q")), "apart");
  EXPECT_EQ(relation(moved("%next", "%p", "%i1") + load("%p") + store("%next")), "ordered");
  EXPECT_EQ(relation(moved("%next", "%p", "%i128") + load("%p") + store("%next")), "apart");
  EXPECT_EQ(relation(moved("%last", "%p", "%i127") + load("%p") + store("%last")), "ordered");
  // Two reads are in no order, and only atomic operations of one kind change places.
  EXPECT_EQ(relation(moved("%next", "%p", "%i1") + load("%p") +
                     "%b = tile.load %next {second} : !p -> !v"),
            "own");
}

TEST_F(AddressesTest, StridesWithinTiles) {
  std::string twice = "%double = arith.muli %i, %i2 : !i\n" + moved("%even", "%x0", "%double") +
                      moved("%odd", "%even", "%i1");
  EXPECT_EQ(relation(twice + load("%even") + store("%even")), "own");
  EXPECT_EQ(relation(twice + load("%even") + store("%p")), "ordered");
  // Only their divisors would tell these apart.
  EXPECT_EQ(relation(twice + load("%even") + store("%odd")), "ordered");
  std::string reversed = "%back = arith.subi %i127, %i : !i\n" + moved("%r", "%x0", "%back");
  EXPECT_EQ(relation(reversed + load("%p") + store("%r")), "ordered");
  EXPECT_EQ(relation(reversed + load("%r") + store("%r")), "own");
  std::string before = reversed + moved("%b", "%r", "%i128");
  EXPECT_EQ(relation(before + load("%p") + store("%b")), "apart");
  // Elements that share an address are other threads'.
  EXPECT_EQ(relation(load("%x0") + store("%x0")), "ordered");
  EXPECT_EQ(relation("%two = arith.divsi %i, %i2 : !i\n" + moved("%h", "%x0", "%two") + load("%h") +
                     store("%h")),
            "ordered");
}

TEST_F(AddressesTest, Scalars) {
  auto shifted = [](const std::string &by) {
    return splat("%by", by) + moved("%s", "%p", "%by") + load("%p") + store("%s");
  };
  EXPECT_EQ(relation(shifted("%n")), "ordered");
  EXPECT_EQ(relation(shifted("%c64")), "ordered");
  EXPECT_EQ(relation(shifted("%c128")), "apart");
  // A multiple of the tile's extent moves it away or not at all.
  EXPECT_EQ(relation(shifted("%wide")), "own");
  EXPECT_EQ(relation(splat("%w", "%wide") + moved("%a", "%p", "%w") + moved("%b", "%a", "%i128") +
                     load("%a") + store("%b")),
            "apart");
  EXPECT_EQ(relation("%nm = arith.muli %n, %m : i32\n%mn = arith.muli %m, %n : i32\n" +
                     splat("%a", "%nm") + splat("%b", "%mn") + moved("%pa", "%p", "%a") +
                     moved("%pb", "%p", "%b") + load("%pa") + store("%pb")),
            "own");
  EXPECT_EQ(relation("tile.store %x, %zero {first} : !tile.ptr<f32>, f32\n"
                     "tile.store %x, %zero {second} : !tile.ptr<f32>, f32"),
            "own");
  EXPECT_EQ(relation("tile.store %x, %zero {first} : !tile.ptr<f32>, f32\n"
                     "%b = tile.load %x {second} : !tile.ptr<f32> -> f32"),
            "ordered");
  EXPECT_EQ(relation("%z = tile.addptr %x, %c8 : !tile.ptr<f32>, i32\n"
                     "tile.store %x, %zero {first} : !tile.ptr<f32>, f32\n"
                     "%b = tile.load %z {second} : !tile.ptr<f32> -> f32"),
            "apart");
}

TEST_F(AddressesTest, Threads) {
  auto through = [](const std::string &p, const std::string &v) {
    return "%there = cta.convert_layout %p : !p -> " + p +
           "\n%a = tile.load %there {first} : " + p + " -> " + v +
           "\ntile.store %there, %a {second} : " + p + ", " + v;
  };
  EXPECT_EQ(relation(through("!po", "!vo")), "own");
  EXPECT_EQ(relation(through("!pr", "!vr")), "own"); // twice in the same thread
  EXPECT_EQ(relation(through("!pt", "!vt")), "ordered");
  const std::string other = "%there = cta.convert_layout %p : !p -> !po\n";
  EXPECT_EQ(relation(other + load("%p") + "tile.store %there, %vo {second} : !po, !vo"), "ordered");
  // One thread of those that have an element does these.
  EXPECT_EQ(relation("%there = cta.convert_layout %p : !p -> !pt\n"
                     "%a = tile.load %there {first, isVolatile} : !pt -> !vt\n"
                     "tile.store %there, %a {second} : !pt, !vt"),
            "own");
  EXPECT_EQ(relation(R"(
    %buffer = cta.alloc : !cta.buffer<128xf32, #cta.layout<"128, shared [(1) (2) (4) (8) (16) (32) (64)]">>
    cta.async_copy %p, %buffer {first} : !p, !cta.buffer<128xf32, #cta.layout<"128, shared [(1) (2) (4) (8) (16) (32) (64)]">>
  )" + store("%p")),
            "ordered");
}

TEST_F(AddressesTest, Atomics) {
  auto pair = [](const std::string &first, const std::string &second) {
    return moved("%next", "%p", "%i1") + "%a = tile.atomic_rmw " + first +
           ", %p, %v {first} : !p, !v -> !v\n%b = tile.atomic_rmw " + second +
           ", %next, %v {second} : !p, !v -> !v";
  };
  EXPECT_EQ(relation(pair("fadd", "fadd")), "own");
  EXPECT_EQ(relation(pair("fadd", "fmax")), "ordered");
  EXPECT_EQ(relation(pair("exchange", "exchange")), "ordered");
  EXPECT_EQ(relation("%a = tile.atomic_rmw fadd, %p, %v {first} : !p, !v -> !v\n" + store("%p")),
            "own");
}

TEST_F(AddressesTest, ElementsOfOtherSizes) {
  // What was made from a number may point anywhere.
  std::string bytes = "%number = tile.ptr_to_int %x : !tile.ptr<f32> -> i64\n"
                      "%h = tile.int_to_ptr %number : i64 -> !tile.ptr<f64>\n"
                      "%s = tile.addptr %h, %c8 : !tile.ptr<f64>, i32\n";
  EXPECT_EQ(relation(bytes + "%a = tile.load %h {first} : !tile.ptr<f64> -> f64\n" + store("%q")),
            "ordered");
  EXPECT_EQ(relation(bytes + "%d = arith.constant 0.0 : f64\n"
                             "%a = tile.load %h {first} : !tile.ptr<f64> -> f64\n"
                             "tile.store %s, %d {second} : !tile.ptr<f64>, f64"),
            "apart");
}

TEST_F(AddressesTest, Roots) {
  std::string chosen = "%z = arith.select %if, %x, %y : !tile.ptr<f32>\n"
                       "%z0 = tile.splat %z : !tile.ptr<f32> -> !p\n" +
                       moved("%zp", "%z0", "%i");
  EXPECT_EQ(relation(chosen + load("%zp") + store("%p")), "ordered");
  EXPECT_EQ(relation(chosen + load("%zp") + store("%zp")), "own");
  EXPECT_EQ(relation("%t = tile.splat %table : !tile.ptr<!tile.ptr<f32>> -> "
                     "tensor<128x!tile.ptr<!tile.ptr<f32>>, #own>\n"
                     "%z = tile.load %t : tensor<128x!tile.ptr<!tile.ptr<f32>>, #own> -> !p\n" +
                     load("%z") + store("%p")),
            "ordered");
  std::string branch = "%z = scf.if %if -> (!p) {\n  scf.yield %p : !p\n} else {\n"
                       "  scf.yield %q : !p\n}\n";
  EXPECT_EQ(relation(branch + load("%z") + store("%q")), "ordered");
  const std::string tiles = "%as = tile.splat %a : !tile.ptr<f32> -> !p\n"
                            "%bs = tile.splat %b : !tile.ptr<f32> -> !p\n" +
                            moved("%ap", "%as", "%i") + moved("%bp", "%bs", "%i");
  auto swapped = [&](const std::string &body) {
    return "%s:2 = scf.for %k = %c0 to %n step %c1 iter_args(%a = %x, %b = %y) -> "
           "(!tile.ptr<f32>, !tile.ptr<f32>) : i32 {\n" +
           tiles + body + "scf.yield %b, %a : !tile.ptr<f32>, !tile.ptr<f32>\n} {loop}";
  };
  EXPECT_EQ(relation(swapped(load("%ap") + store("%bp"))), "ordered");
  EXPECT_EQ(relation(swapped(load("%ap") + store("%ap"))), "own");
  EXPECT_EQ(relation(swapped(load("%ap") + store("%ap")), {"loop"}), "ordered");
  auto repeated = [&](const std::string &body) {
    return "%w = scf.while (%s = %x) : (!tile.ptr<f32>) -> !tile.ptr<f32> {\n"
           "  scf.condition(%if) %s : !tile.ptr<f32>\n} do {\n^bb0(%a: !tile.ptr<f32>):\n"
           "%b = tile.addptr %a, %c128 : !tile.ptr<f32>, i32\n" +
           tiles + body + "scf.yield %b : !tile.ptr<f32>\n} attributes {loop}";
  };
  EXPECT_EQ(relation(repeated(load("%ap") + store("%q"))), "apart");
  EXPECT_EQ(relation(repeated(load("%ap") + store("%bp"))), "apart");
  EXPECT_EQ(relation(repeated(load("%ap") + store("%ap"))), "own");
  EXPECT_EQ(relation(repeated(load("%ap") + store("%ap")), {"loop"}), "ordered");
}

/// The first tile, moved on by a multiple of the loop's index.
std::string walked(const std::string &name, const std::string &index, const std::string &step) {
  return "%o" + name.substr(1) + " = arith.muli " + index + ", " + step + " : i32\n" +
         splat("%s" + name.substr(1), "%o" + name.substr(1)) +
         moved(name, "%p", "%s" + name.substr(1));
}

TEST_F(AddressesTest, Loops) {
  std::string blocks = walked("%b", "%k", "%c128"), parts = walked("%h", "%k", "%c64");
  EXPECT_EQ(relation(loop("loop", "%k", blocks + load("%b") + store("%b"))), "own");
  EXPECT_EQ(relation(loop("loop", "%k", blocks + load("%b") + store("%b")), {"loop"}), "apart");
  EXPECT_EQ(relation(loop("loop", "%k", parts + load("%h") + store("%h"))), "own");
  EXPECT_EQ(relation(loop("loop", "%k", parts + load("%h") + store("%h")), {"loop"}), "ordered");
  // The next block's turn comes, that of the one before has been.
  std::string both = blocks + moved("%next", "%b", "%i128");
  EXPECT_EQ(relation(loop("loop", "%k", both + load("%b") + store("%next"))), "apart");
  EXPECT_EQ(relation(loop("loop", "%k", both + load("%b") + store("%next")), {"loop"}), "apart");
  EXPECT_EQ(relation(loop("loop", "%k", both + load("%next") + store("%b")), {"loop"}), "own");
  EXPECT_EQ(relation(loop("loop", "%k", walked("%b", "%k", "%wide") + load("%b") + store("%b")),
                     {"loop"}),
            "own");
  EXPECT_EQ(
      relation(loop("loop", "%k", walked("%b", "%k", "%m") + load("%b") + store("%b")), {"loop"}),
      "ordered");
}

TEST_F(AddressesTest, LoopsThatGoDown) {
  auto down = [](const std::string &body) {
    return loop("loop", "%k",
                "%back = arith.subi %n, %k : i32\n" + walked("%b", "%back", "%c128") +
                    moved("%next", "%b", "%i128") + body);
  };
  EXPECT_EQ(relation(down(load("%b") + store("%b")), {"loop"}), "apart");
  EXPECT_EQ(relation(down(load("%next") + store("%b"))), "apart");
  EXPECT_EQ(relation(down(load("%next") + store("%b")), {"loop"}), "apart");
  EXPECT_EQ(relation(down(load("%b") + store("%next")), {"loop"}), "own");
}

TEST_F(AddressesTest, CarriedPointers) {
  auto carried = [](const std::string &body) {
    return "%r = scf.for %k = %c0 to %n step %c1 iter_args(%a = %p) -> (!p) : i32 {\n" + body +
           moved("%on", "%a", "%i128") + "scf.yield %on : !p\n} {loop}";
  };
  EXPECT_EQ(relation(carried(load("%a") + store("%a"))), "own");
  EXPECT_EQ(relation(carried(load("%a") + store("%a")), {"loop"}), "apart");
  // It is where the index says.
  std::string blocks = walked("%b", "%k", "%c128");
  EXPECT_EQ(relation(carried(blocks + load("%a") + store("%b"))), "own");
  EXPECT_EQ(relation(carried(blocks + load("%a") + store("%b")), {"loop"}), "apart");
}

TEST_F(AddressesTest, NestedLoops) {
  // Rows of 8 blocks.
  std::string body = "%row = arith.muli %j, %c8 : i32\n%at = arith.addi %row, %k : i32\n" +
                     walked("%b", "%at", "%c128") + load("%b") + store("%b");
  std::string nest = loop("outer", "%j", loop("inner", "%k", body));
  EXPECT_EQ(relation(nest), "own");
  EXPECT_EQ(relation(nest, {"inner"}), "apart");
  // Nothing says that there are no more than 8, but blocks meet as a whole.
  EXPECT_EQ(relation(nest, {"outer"}), "own");
  EXPECT_EQ(relation(nest, {"inner", "outer"}), "own");
  std::string outer = loop(
      "outer", "%j", walked("%b", "%j", "%c128") + loop("inner", "%k", load("%b") + store("%b")));
  EXPECT_EQ(relation(outer, {"inner"}), "own");
  EXPECT_EQ(relation(outer, {"outer"}), "apart");
  EXPECT_EQ(relation(outer, {"inner", "outer"}), "apart");
}

std::string square(const std::string &rowStride, const std::string &tail) {
  return "%r = tile.arange 0 : tensor<16xi32, #row>\n"
         "%c = tile.arange 0 : tensor<16xi32, #column>\n"
         "%r1 = tile.expand_dims %r 1 : tensor<16xi32, #row> -> tensor<16x1xi32, #rows>\n"
         "%c1s = tile.expand_dims %c 0 : tensor<16xi32, #column> -> tensor<1x16xi32, #columns>\n" +
         rowStride +
         "%rs = arith.muli %r1, %stride : tensor<16x1xi32, #rows>\n"
         "%rb = tile.broadcast %rs : tensor<16x1xi32, #rows> -> !is\n"
         "%cb = tile.broadcast %c1s : tensor<1x16xi32, #columns> -> !is\n"
         "%o = arith.addi %rb, %cb : !is\n"
         "%xs = tile.splat %x : !tile.ptr<f32> -> !ps\n"
         "%s = tile.addptr %xs, %o : !ps, !is\n" +
         tail;
}

TEST_F(AddressesTest, Matrices) {
  auto strided = [](const char *by, const std::string &tail) {
    return square("%stride = arith.constant dense<" + std::string(by) +
                      "> : tensor<16x1xi32, #rows>\n",
                  tail);
  };
  const std::string inPlace = "%a = tile.load %s {first} : !ps -> !vs\n"
                              "tile.store %s, %a {second} : !ps, !vs\n";
  EXPECT_EQ(relation(strided("16", inPlace)), "own");
  EXPECT_EQ(relation(strided("100", inPlace)), "own");
  EXPECT_EQ(relation(strided("8", inPlace)), "ordered"); // its rows overlap
  EXPECT_EQ(relation(strided("0", inPlace)), "ordered");
  const std::string right = "%by = arith.constant dense<BY> : !is\n"
                            "%t = tile.addptr %s, %by : !ps, !is\n"
                            "%a = tile.load %s {first} : !ps -> !vs\n"
                            "tile.store %t, %a {second} : !ps, !vs\n";
  auto by = [&](const char *number) {
    std::string text = right;
    return text.replace(text.find("BY"), 2, number);
  };
  EXPECT_EQ(relation(strided("16", by("256"))), "apart");
  EXPECT_EQ(relation(strided("16", by("16"))), "ordered");
  EXPECT_EQ(relation(strided("-16", by("256"))), "apart");
  const std::string transposed =
      "%i32s = cta.convert_layout %o : !is -> tensor<16x16xi32, #turned>\n"
      "%ot = tile.permute %i32s [1, 0] : tensor<16x16xi32, #turned> -> !is\n"
      "%t = tile.addptr %xs, %ot : !ps, !is\n"
      "%a = tile.load %s {first} : !ps -> !vs\n"
      "tile.store %t, %a {second} : !ps, !vs\n";
  EXPECT_EQ(relation(strided("16", transposed)), "ordered");
  const std::string back = "%i32s = cta.convert_layout %o : !is -> tensor<16x16xi32, #turned>\n"
                           "%ot = tile.permute %i32s [1, 0] : tensor<16x16xi32, #turned> -> !is\n"
                           "%t = tile.addptr %xs, %ot : !ps, !is\n"
                           "%a = tile.load %t {first} : !ps -> !vs\n"
                           "tile.store %t, %a {second} : !ps, !vs\n";
  EXPECT_EQ(relation(strided("16", back)), "own");
  // Rows that are some stride apart may overlap.
  EXPECT_EQ(relation(square("%stride = tile.splat %n : i32 -> tensor<16x1xi32, #rows>\n", inPlace)),
            "ordered");
  // The same elements, written as the places in a row-major tile.
  const std::string reshaped = "%flat = tile.arange 0 : tensor<256xi32, #flat>\n"
                               "%of = tile.reshape %flat : tensor<256xi32, #flat> -> !is\n"
                               "%t = tile.addptr %xs, %of : !ps, !is\n"
                               "%a = tile.load %s {first} : !ps -> !vs\n"
                               "tile.store %t, %a {second} : !ps, !vs\n";
  EXPECT_EQ(relation(strided("16", reshaped)), "own");
  EXPECT_EQ(relation(strided("32", reshaped)), "ordered");
}

// Numbers that the analysis cannot multiply are values that nothing is known of.
TEST_F(AddressesTest, LargeNumbers) {
  const std::string large = R"(
    %big = arith.constant 1099511627776 : i64
    %wide64 = arith.extsi %n : i32 to i64
    %once = arith.muli %wide64, %big : i64
    %twice = arith.muli %once, %big : i64
    %far = tile.addptr %x, %once : !tile.ptr<f32>, i64
    %farther = tile.addptr %x, %twice : !tile.ptr<f32>, i64
    %bigs = arith.constant dense<70368744177664> : tensor<128xi64, #own>
    %i64 = arith.extsi %i : !i to tensor<128xi64, #own>
    %spread = arith.muli %i64, %bigs : tensor<128xi64, #own>
    %apart = tile.addptr %x0, %spread : !p, tensor<128xi64, #own>
  )";
  auto pair = [&](const std::string &first, const std::string &second) {
    return large + "%a = tile.load " + first + " {first} : !tile.ptr<f32> -> f32\ntile.store " +
           second + ", %a {second} : !tile.ptr<f32>, f32\n";
  };
  EXPECT_EQ(relation(pair("%x", "%far")), "ordered");
  EXPECT_EQ(relation(pair("%x", "%farther")), "ordered");
  EXPECT_EQ(relation(pair("%far", "%farther")), "ordered");
  EXPECT_EQ(relation(large + load("%apart") + store("%apart")), "own");
  EXPECT_EQ(relation(large + load("%apart") + store("%p")), "ordered");
}

} // namespace
