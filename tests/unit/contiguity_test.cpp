// The contiguity analysis: what it must find, and that what it claims holds on random programs that
// are evaluated element by element.
#include "ir/Dialects.h"
#include "ir/tile/Overflow.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "passes/Passes.h"
#include "passes/analysis/Blocks.h"
#include <gmock/gmock.h>
#include <random>

using namespace mlir;
using namespace sectile;

namespace {

/// A context with the dialects that kernels use.
struct Context {
  Context() {
    DialectRegistry registry;
    registerDialects(registry);
    context.appendDialectRegistry(registry);
    context.loadAllAvailableDialects();
  }
  MLIRContext context;
};

class ContiguityTest : public testing::Test, protected Context {
protected:
  /// What is known of the values named by `mark = "name"` attributes, as `contiguity constancy
  /// divisibility` for each dimension.
  std::map<std::string, std::string> analyse(StringRef body,
                                             Certainty certainty = Certainty::always) {
    module = parseSourceString<ModuleOp>(body, &context);
    EXPECT_TRUE(module);
    std::map<std::string, std::string> found;
    if (!module)
      return found;
    ContiguityAnalysis analysis(*module, certainty);
    module->walk([&](Operation *op) {
      if (auto name = op->getAttrOfType<StringAttr>("mark")) {
        std::string text;
        for (const sectile::Run &run : analysis[op->getResult(0)].dims)
          text += (text.empty() ? "" : ", ") + std::to_string(run.contiguity) + " " +
                  std::to_string(run.constancy) + " " + std::to_string(run.divisibility) +
                  (run.gap == 1 ? "" : " apart " + std::to_string(run.gap));
        found[name.str()] = text;
        intervals[name.str()] = analysis[op->getResult(0)].interval;
        places[name.str()] = analysis[op->getResult(0)].place;
      }
    });
    return found;
  }

  bool isNonNegative(const char *name) { return intervals.at(name).isNonNegative(); }
  bool isNonNegativeAsPlace(const char *name) { return places.at(name).isNonNegative(); }

  std::map<std::string, Interval> intervals, places; ///< of the values found last
  OwningOpRef<ModuleOp> module;
};

TEST_F(ContiguityTest, RowsOfAMatrix) {
  auto found = analyse(R"(
    func.func @f(%p: !tile.ptr<f16> {tile.divisible = 16 : i64}, %stride: i32 {tile.divisible = 16 : i64}, %n: i32) {
      %r = tile.arange 0 : tensor<96xi32>
      %c = tile.arange 0 : tensor<176xi32>
      %r1 = tile.expand_dims %r 1 : tensor<96xi32> -> tensor<96x1xi32>
      %s = tile.splat %stride : i32 -> tensor<96x1xi32>
      %rs = arith.muli %r1, %s : tensor<96x1xi32>
      %rb = tile.broadcast %rs : tensor<96x1xi32> -> tensor<96x176xi32>
      %c1 = tile.expand_dims %c 0 : tensor<176xi32> -> tensor<1x176xi32>
      %cb = tile.broadcast %c1 : tensor<1x176xi32> -> tensor<96x176xi32>
      %o = arith.addi %rb, %cb {tile.fits, mark = "offset"} : tensor<96x176xi32>
      %ps = tile.splat %p : !tile.ptr<f16> -> tensor<96x176x!tile.ptr<f16>>
      %q = tile.addptr %ps, %o {mark = "ptr"} : tensor<96x176x!tile.ptr<f16>>, tensor<96x176xi32>
      return
    })");
  EXPECT_EQ(found["offset"], "1 1 1, 176 1 16");
  EXPECT_EQ(found["ptr"], "1 1 2, 176 1 16");
}

// A loop that multiplies what it carries comes to an end.
TEST_F(ContiguityTest, GapsDoNotGrowForEver) {
  auto mostly = analyse(R"(
    func.func @f(%n: i32) {
      %zero = arith.constant 0 : i32
      %one = arith.constant 1 : i32
      %two = arith.constant dense<2> : tensor<64xi32>
      %a = tile.arange 0 : tensor<64xi32>
      %r = scf.for %i = %zero to %n step %one iter_args(%x = %a) -> (tensor<64xi32>) : i32 {
        %y = arith.muli %x, %two {mark = "doubled"} : tensor<64xi32>
        scf.yield %y : tensor<64xi32>
      }
      return
    })",
                        Certainty::mostly);
  EXPECT_EQ(mostly["doubled"].substr(0, 4), "1 1 ");
}

// What is promised of a carried value holds in every iteration, though not of what comes back, and
// not of what leaves the loop.
TEST_F(ContiguityTest, PromisesInLoopsComeToAnEnd) {
  auto found = analyse(R"(
    func.func @f(%p: tensor<64x!tile.ptr<f32>>, %m: i32, %n: i32) {
      %zero = arith.constant 0 : i32
      %one = arith.constant 1 : i32
      %eight = arith.constant 8 : i32
      %r:3 = scf.for %i = %zero to %n step %one iter_args(%left = %m, %even = %m, %both = %zero)
          -> (i32, i32, i32) : i32 {
        %positive = arith.cmpi sge, %left, %zero : i32
        tile.assume %positive
        %rest = arith.remsi %even, %eight : i32
        %whole = arith.cmpi eq, %rest, %zero : i32
        tile.assume %whole
        %left_now = arith.addi %left, %zero {mark = "left"} : i32
        %even_now = arith.addi %even, %zero {mark = "even"} : i32
        %inner = scf.while (%x = %left) : (i32) -> i32 {
          %more = arith.cmpi sge, %x, %zero : i32
          tile.assume %more
          %x_now = arith.addi %x, %zero {mark = "in the condition"} : i32
          scf.condition(%more) %x : i32
        } do {
        ^body(%y: i32):
          %next = arith.subi %y, %n : i32
          scf.yield %next : i32
        }
        %l = arith.subi %left, %n : i32
        %e = arith.addi %even, %n : i32
        %b = arith.addi %both, %one {tile.fits} : i32
        scf.yield %l, %e, %b : i32, i32, i32
      }
      %0 = arith.addi %r#0, %zero {mark = "left after"} : i32
      %1 = arith.addi %r#1, %zero {mark = "even after"} : i32
      %2 = arith.addi %r#2, %zero {tile.fits, mark = "counted"} : i32
      return
    })");
  EXPECT_TRUE(isNonNegative("left"));
  EXPECT_TRUE(isNonNegative("in the condition"));
  EXPECT_FALSE(isNonNegative("left after"));
  EXPECT_TRUE(isNonNegativeAsPlace("counted"));
  EXPECT_FALSE(isNonNegative("counted"));
  EXPECT_EQ(found["even"], "1 1 8");
  EXPECT_EQ(found["even after"], "1 1 1");
}

// The checked mode verifies promises, so it takes none for granted.
TEST_F(ContiguityTest, ProvenIntervalsTakeNoPromises) {
  const char *program = R"(
    func.func @f(%m: i32, %n: i32) {
      %zero = arith.constant 0 : i32
      %half = arith.constant 1073741824 : i32
      %three = arith.constant 3 : i32
      %id = tile.program_id 0
      %sum = arith.addi %id, %half {mark = "sum"} : i32
      %rest = arith.remui %id, %three {mark = "rest"} : i32
      %positive = arith.cmpi sge, %m, %zero : i32
      tile.assume %positive
      %promised = arith.addi %m, %zero {mark = "promised"} : i32
      return
    })";
  analyse(program);
  EXPECT_FALSE(isNonNegative("sum"));
  EXPECT_TRUE(isNonNegative("promised"));
  analyse(program, Certainty::proven);
  EXPECT_FALSE(isNonNegative("sum"));
  EXPECT_FALSE(isNonNegative("promised"));
  EXPECT_TRUE((intervals.at("rest") == Interval{0, 2}));
}

// What is marked to fit does where it is a place or a divisor, and nowhere else.
TEST_F(ContiguityTest, MarkedArithmeticFitsAsAPlace) {
  analyse(R"(
    func.func @f(%m: i32, %size: i32 {tile.below = 2147483648 : i64}) {
      %zero = arith.constant 0 : i32
      %nine = arith.constant 9 : i32
      %id = tile.program_id 0
      %plain = arith.muli %id, %nine {mark = "plain"} : i32
      %marked = arith.muli %id, %nine {tile.fits, mark = "marked"} : i32
      %wide = arith.extsi %marked {mark = "widened"} : i32 to i64
      %moved = arith.addi %marked, %nine {mark = "moved"} : i32
      %quotient = arith.divsi %marked, %nine {mark = "divided"} : i32
      %rounded = arith.divsi %marked, %nine {tile.fits, mark = "divided as a place"} : i32
      %both = arith.muli %size, %size {tile.fits} : i32
      %share = arith.divsi %id, %both {mark = "by a marked one"} : i32
      %grouped = arith.muli %share, %nine {tile.fits} : i32
      %part = arith.remsi %grouped, %nine {tile.fits, mark = "rest of a share"} : i32
      %less = arith.maxsi %m, %marked {mark = "greater"} : i32
      %factor = arith.constant 1103515245 : i32
      %hash = arith.muli %id, %factor {tile.fits} : i32
      %clamped = arith.maxsi %m, %hash {mark = "greater than a hash"} : i32
      %bucket = arith.remsi %hash, %nine {tile.fits, mark = "of a hash"} : i32
      return
    })");
  for (const char *name : {"plain", "marked", "widened", "moved", "divided", "divided as a place",
                           "by a marked one", "greater", "of a hash", "greater than a hash"})
    EXPECT_FALSE(isNonNegative(name)) << name;
  for (const char *name :
       {"marked", "widened", "divided as a place", "by a marked one", "greater", "rest of a share"})
    EXPECT_TRUE(isNonNegativeAsPlace(name)) << name;
  for (const char *name : {"plain", "moved", "divided", "greater than a hash", "of a hash"})
    EXPECT_FALSE(isNonNegativeAsPlace(name)) << name;
}

// A loop that adds up places makes a place; one that multiplies again and again makes a hash.
TEST_F(ContiguityTest, LoopsMakePlacesAndHashes) {
  analyse(R"(
    func.func @f(%n: i32, %size: i32 {tile.below = 1073741824 : i64}) {
      %zero = arith.constant 0 : i32
      %one = arith.constant 1 : i32
      %nine = arith.constant 9 : i32
      %r:2 = scf.for %i = %zero to %n step %one iter_args(%sum = %zero, %hash = %one) -> (i32, i32) : i32 {
        %more = arith.addi %sum, %size {tile.fits} : i32
        %product = arith.muli %hash, %nine {tile.fits} : i32
        %next = arith.addi %product, %size {tile.fits} : i32
        scf.yield %more, %next : i32, i32
      }
      %a = arith.divsi %r#0, %nine {tile.fits, mark = "of a sum"} : i32
      %b = arith.remsi %r#1, %nine {tile.fits, mark = "of a hash"} : i32
      return
    })");
  EXPECT_TRUE(isNonNegativeAsPlace("of a sum"));
  EXPECT_FALSE(isNonNegative("of a sum"));
  EXPECT_FALSE(isNonNegativeAsPlace("of a hash"));
}

// A run of numbers that may wrap is one only from each multiple of its length on.
TEST_F(ContiguityTest, RunsEndWhereNumbersWrap) {
  auto found = analyse(R"(
    func.func @f(%m: i8, %n: i32) {
      %r = tile.arange 0 : tensor<512xi32>
      %bytes = arith.trunci %r {mark = "bytes"} : tensor<512xi32> to tensor<512xi8>
      %few = tile.arange 0 : tensor<64xi32>
      %small = arith.trunci %few {mark = "small"} : tensor<64xi32> to tensor<64xi8>
      %start = tile.splat %m : i8 -> tensor<64xi8>
      %ring = arith.addi %small, %start {mark = "ring"} : tensor<64xi8>
      %wide = arith.extsi %ring {mark = "place in the ring"} : tensor<64xi8> to tensor<64xi64>
      %from = tile.splat %n : i32 -> tensor<64xi32>
      %plain = arith.addi %few, %from {mark = "plain"} : tensor<64xi32>
      %marked = arith.addi %few, %from {tile.fits, mark = "marked"} : tensor<64xi32>
      return
    })");
  EXPECT_EQ(found["bytes"], "128 1 128");
  EXPECT_EQ(found["small"], "64 1 1073741824");
  EXPECT_EQ(found["ring"], "1 1 1");
  EXPECT_EQ(found["place in the ring"], "1 1 1");
  EXPECT_EQ(found["plain"], "1 1 1");
  EXPECT_EQ(found["marked"], "64 1 1");
}

// Where the parts that a prefix sum counts begin.
TEST_F(ContiguityTest, PrefixSumsOfLengthsAreNotNegative) {
  const char *program = R"(
    func.func @f(%lengths: tensor<128xi32>, %before: i32) {
      %none = arith.constant dense<0> : tensor<128xi32>
      %zero = arith.constant 0 : i32
      %positive = arith.maxsi %lengths, %none : tensor<128xi32>
      %first = arith.maxsi %before, %zero : i32
      %from = tile.splat %first : i32 -> tensor<128xi32>
      %below = tile.splat %before : i32 -> tensor<128xi32>
      %ends = tile.scan %positive 0 : (tensor<128xi32>) -> tensor<128xi32> {
      ^bb0(%a: i32, %b: i32):
        %c = arith.addi %a, %b {tile.fits} : i32
        tile.yield %c : i32
      }
      %moved = arith.addi %ends, %from {tile.fits} : tensor<128xi32>
      %begins = arith.subi %moved, %positive {tile.fits, mark = "begins"} : tensor<128xi32>
      %unknown = arith.addi %ends, %below {tile.fits} : tensor<128xi32>
      %other = arith.subi %unknown, %positive {tile.fits, mark = "behind any"} : tensor<128xi32>
      %raw = arith.subi %ends, %lengths {tile.fits, mark = "of others"} : tensor<128xi32>
      %wrapping = tile.scan %positive 0 : (tensor<128xi32>) -> tensor<128xi32> {
      ^bb0(%a: i32, %b: i32):
        %c = arith.addi %a, %b : i32
        tile.yield %c : i32
      }
      %anything = arith.subi %wrapping, %positive {tile.fits, mark = "of sums that wrap"} : tensor<128xi32>
      %greatest = tile.scan %positive 0 : (tensor<128xi32>) -> tensor<128xi32> {
      ^bb0(%a: i32, %b: i32):
        %c = arith.muli %a, %b : i32
        tile.yield %c : i32
      }
      %product = arith.subi %greatest, %positive {tile.fits, mark = "of products"} : tensor<128xi32>
      %sum = tile.reduce %begins 0 : (tensor<128xi32>) -> i32 {
      ^bb0(%a: i32, %b: i32):
        %c = arith.addi %a, %b {tile.fits} : i32
        tile.yield %c : i32
      }
      %start = arith.addi %sum, %zero {tile.fits, mark = "start"} : i32
      %some = tile.arange 3 : tensor<128xi32>
      %all = tile.reduce %some 0 : (tensor<128xi32>) -> i32 {
      ^bb0(%a: i32, %b: i32):
        %c = arith.addi %a, %b {tile.fits} : i32
        tile.yield %c : i32
      }
      %total = arith.addi %all, %zero {mark = "total"} : i32
      %least = tile.reduce %some 0 : (tensor<128xi32>) -> i32 {
      ^bb0(%a: i32, %b: i32):
        %c = arith.minsi %a, %b : i32
        tile.yield %c : i32
      }
      %chosen = arith.addi %least, %zero {mark = "chosen"} : i32
      return
    })";
  analyse(program);
  EXPECT_TRUE(isNonNegativeAsPlace("begins"));
  EXPECT_TRUE(isNonNegativeAsPlace("start"));
  EXPECT_FALSE(isNonNegativeAsPlace("behind any"));
  EXPECT_FALSE(isNonNegativeAsPlace("of others"));
  EXPECT_FALSE(isNonNegativeAsPlace("of products"));
  EXPECT_TRUE((intervals.at("total") == Interval{3, 128 * 130}));
  EXPECT_TRUE((intervals.at("chosen") == Interval{3, 130}));
  EXPECT_FALSE(isNonNegativeAsPlace("of sums that wrap"));
  EXPECT_FALSE(isNonNegative("begins"));
  EXPECT_FALSE(isNonNegative("start"));
}

// What layouts are chosen by: rows of an image end somewhere, but most pixels have their neighbours
// beside them.
TEST_F(ContiguityTest, MostPixelsHaveNeighbours) {
  const char *pixels = R"(
    func.func @f(%n: i32, %i: i32) {
      %a = tile.arange 0 : tensor<64xi32>
      %s = tile.splat %i : i32 -> tensor<64xi32>
      %p = arith.addi %a, %s : tensor<64xi32>
      %columns = tile.splat %n : i32 -> tensor<64xi32>
      %row = arith.divsi %p, %columns {mark = "row"} : tensor<64xi32>
      %column = arith.remsi %p, %columns {mark = "column"} : tensor<64xi32>
      %two = arith.constant dense<2> : tensor<64xi32>
      %strided = arith.muli %column, %two {mark = "strided"} : tensor<64xi32>
      %eight = arith.constant dense<8> : tensor<64xi32>
      %farther = arith.muli %strided, %eight {mark = "farther"} : tensor<64xi32>
      %shifted = arith.addi %s, %farther {mark = "shifted"} : tensor<64xi32>
      %many = arith.constant dense<32> : tensor<64xi32>
      %far = arith.muli %column, %many {mark = "far"} : tensor<64xi32>
      %ten = arith.constant dense<10> : tensor<64xi32>
      %tenth = arith.remsi %p, %ten {mark = "by a constant"} : tensor<64xi32>
      return
    })";
  auto mostly = analyse(pixels, Certainty::mostly);
  EXPECT_EQ(mostly["row"], "1 64 1");
  EXPECT_EQ(mostly["column"], "64 1 1");
  EXPECT_EQ(mostly["strided"], "64 1 2 apart 2");
  EXPECT_EQ(mostly["farther"], "64 1 8 apart 16");
  EXPECT_EQ(mostly["shifted"], "64 1 1 apart 16");
  EXPECT_EQ(mostly["far"], "1 1 32");
  EXPECT_EQ(mostly["by a constant"], "1 1 1");
  auto always = analyse(pixels);
  EXPECT_EQ(always["row"], "1 1 1");
  EXPECT_EQ(always["column"], "1 1 1");
  EXPECT_EQ(always["strided"], "1 1 2");
  EXPECT_EQ(always["farther"], "1 1 16");
}

TEST_F(ContiguityTest, PromisesAreTaken) {
  auto found = analyse(R"(
    func.func @f(%x: tensor<96xi32>, %p: tensor<96x!tile.ptr<f32>>, %n: i32, %m: i32, %k: i32) {
      %0 = tile.hint %x {contiguous = array<i64: 16>, divisible = array<i64: 8>, mark = "run"} : tensor<96xi32>
      %1 = tile.hint %x {divisible = array<i64: 8>, mark = "nothing known of runs"} : tensor<96xi32>
      %2 = tile.hint %x {constant = array<i64: 12>, mark = "constant"} : tensor<96xi32>
      %3 = tile.hint %p {contiguous = array<i64: 96>, divisible = array<i64: 12>, mark = "pointers"} : tensor<96x!tile.ptr<f32>>
      %4 = tile.hint %n {divisible = array<i64: 24>, mark = "number"} : i32
      %c0 = arith.constant 0 : i32
      %c32 = arith.constant 32 : i32
      %c7 = arith.constant 7 : i32
      %rest = arith.remsi %m, %c32 : i32
      %even = arith.cmpi eq, %rest, %c0 : i32
      %bits = arith.andi %k, %c7 : i32
      %eight = arith.cmpi eq, %bits, %c0 : i32
      %both = arith.andi %even, %eight : i1
      tile.assume %both
      %5 = arith.addi %m, %c0 {mark = "assumed"} : i32
      %6 = arith.addi %k, %c0 {mark = "assumed bits"} : i32
      scf.if %even {
        %inner = arith.remsi %n, %c32 : i32
        %only = arith.cmpi eq, %inner, %c0 : i32
        tile.assume %only
      }
      %7 = arith.addi %n, %c0 {mark = "assumed elsewhere"} : i32
      return
    })");
  EXPECT_EQ(found["run"], "16 1 8");
  EXPECT_EQ(found["nothing known of runs"], "1 1 1");
  EXPECT_EQ(found["constant"], "1 12 1");
  EXPECT_EQ(found["pointers"], "96 1 16");
  EXPECT_EQ(found["number"], "1 1 8");
  EXPECT_EQ(found["assumed"], "1 1 32");
  EXPECT_EQ(found["assumed bits"], "1 1 8");
  EXPECT_EQ(found["assumed elsewhere"], "1 1 1");
}

TEST_F(ContiguityTest, MasksAreConstantInRunsThatDivideTheExtent) {
  auto found = analyse(R"(
    func.func @f(%n: i32 {tile.divisible = 16 : i64}, %m: i32) {
      %block = arith.constant 1024 : i32
      %pid = tile.program_id 0
      %first = arith.muli %pid, %block : i32
      %r = tile.arange 0 : tensor<1024xi32>
      %f = tile.splat %first : i32 -> tensor<1024xi32>
      %i = arith.addi %f, %r {mark = "index"} : tensor<1024xi32>
      %ns = tile.splat %n : i32 -> tensor<1024xi32>
      %ms = tile.splat %m : i32 -> tensor<1024xi32>
      %a = arith.cmpi slt, %i, %ns {mark = "aligned"} : tensor<1024xi32>
      %b = arith.cmpi slt, %i, %ms {mark = "odd"} : tensor<1024xi32>
      %c = arith.cmpi sle, %i, %ns {mark = "through"} : tensor<1024xi32>
      %d = arith.cmpi sgt, %ns, %i {mark = "turned"} : tensor<1024xi32>
      return
    })");
  EXPECT_EQ(found["index"], "1024 1 1024");
  EXPECT_EQ(found["aligned"], "1 16 1");
  EXPECT_EQ(found["odd"], "1 1 1");
  EXPECT_EQ(found["through"], "1 1 1");
  EXPECT_EQ(found["turned"], "1 16 1");
}

TEST_F(ContiguityTest, LoopsKeepWhatEveryIterationKeeps) {
  auto found = analyse(R"(
    func.func @f(%p: !tile.ptr<f32> {tile.divisible = 16 : i64}, %n: i32) {
      %c0 = arith.constant 0 : i32
      %c1 = arith.constant 1 : i32
      %r = tile.arange 0 : tensor<64xi32>
      %ps = tile.splat %p : !tile.ptr<f32> -> tensor<64x!tile.ptr<f32>>
      %q = tile.addptr %ps, %r : tensor<64x!tile.ptr<f32>>, tensor<64xi32>
      %by64 = arith.constant dense<64> : tensor<64xi32>
      %by3 = arith.constant dense<3> : tensor<64xi32>
      %o:2 = scf.for %i = %c0 to %n step %c1 iter_args(%a = %q, %b = %q)
          -> (tensor<64x!tile.ptr<f32>>, tensor<64x!tile.ptr<f32>>) : i32 {
        %c = tile.addptr %a, %by64 {mark = "aligned"} : tensor<64x!tile.ptr<f32>>, tensor<64xi32>
        %d = tile.addptr %b, %by3 {mark = "odd"} : tensor<64x!tile.ptr<f32>>, tensor<64xi32>
        scf.yield %c, %d : tensor<64x!tile.ptr<f32>>, tensor<64x!tile.ptr<f32>>
      }
      return
    })");
  EXPECT_EQ(found["aligned"], "64 1 16");
  EXPECT_EQ(found["odd"], "64 1 4");
}

/// A value of a random program, element by element in row-major order. Pointers are addresses in
/// bytes.
struct Evaluated {
  Value value;
  std::vector<int64_t> elements;
  bool hasOverflowed = false; ///< it comes of arithmetic that is marked to fit and did not
};

std::string textOf(const Contiguity &known) {
  std::string text;
  for (const sectile::Run &run : known.dims)
    text += "[" + std::to_string(run.contiguity) + " " + std::to_string(run.constancy) + " " +
            std::to_string(run.divisibility) + " " + std::to_string(run.gap) + "]";
  return text;
}

// What is said of a block before it has addresses is what is found of the addresses and the mask
// that it gets.
TEST_F(ContiguityTest, BlocksAreKnownAsTheirAddressesAre) {
  const char *offsets[] = {"%c0", "%c3", "%c32", "%id", "%blocks", "%n", "%n16"};
  const char *extents[] = {"%n", "%n16", "%c32", "%c128"};
  const char *strides[] = {"%c1", "%c0", "%c3", "%c32", "%n", "%n16"};
  std::mt19937 random(7);
  auto any = [&](auto &from) { return std::string(from[random() % std::size(from)]); };
  unsigned buffers = 0;
  for (unsigned round = 0; round < 400; ++round) {
    // On AMD's chips offsets from one address, with a layout for their 64 lanes.
    const bool amd = round % 2;
    const char
        *target = amd ? "gfx942" : "sm_80",
        *layout = amd ? "register [(1,0) (2,0) (4,0)], lane [(0,1) (0,2) (0,4) (0,8) (0,16) (8,0)]"
                      : "register [(1,0) (2,0) (4,0) (8,0)], lane [(0,1) (0,2) (0,4) (0,8) (0,16)]";
    const std::string view = "[" + any(extents) + ", " + any(extents) + "], [" + any(strides) +
                             ", " + any(strides) + "]",
                      at = "[" + any(offsets) + ", " + any(offsets) + "]";
    SCOPED_TRACE(view + " at " + at);
    module = parseSourceString<ModuleOp>(
        std::string("#tile = #cta.layout<\"16x32, ") + layout +
            "\">\n module attributes {cta.target = \"" + target + R"("} {
    func.func @f(%p: !tile.ptr<f16> {tile.divisible = 16 : i64}, %n: i32,
                 %n16: i32 {tile.divisible = 16 : i64, tile.below = 1048576 : i64})
        -> tensor<16x32xf16, #tile> attributes {cta.warps = 1 : i32} {
      %c0 = arith.constant 0 : i32
      %c1 = arith.constant 1 : i32
      %c3 = arith.constant 3 : i32
      %c32 = arith.constant 32 : i32
      %c128 = arith.constant 128 : i32
      %id = tile.program_id 0
      %blocks = arith.muli %id, %c32 : i32
      %v = tile.make_view %p, )" +
            view + R"( : !tile.ptr<f16>, [i32, i32], [i32, i32] -> !tile.view<2xf16>
      %x = tile.load_block %v)" +
            at + R"( : !tile.view<2xf16>, [i32, i32] -> tensor<16x32xf16, #tile>
      return %x : tensor<16x32xf16, #tile>
    }
    })",
        &context);
    ASSERT_TRUE(module);
    auto known = [&](Certainty certainty) {
      std::string text;
      ContiguityAnalysis analysis(*module, certainty);
      module->walk([&](Operation *op) {
        if (!isLoad(op) && !isa<cta::BufferLoadOp>(op))
          return;
        buffers += isa<cta::BufferLoadOp>(op);
        const AccessContiguity access = contiguityOf(analysis, op);
        EXPECT_EQ(access.elementBytes, 2);
        text = textOf(access.pointers);
        if (access.mask)
          text += " mask " + textOf(*access.mask);
      });
      return text;
    };
    const std::string always = known(Certainty::always), mostly = known(Certainty::mostly);
    PassManager manager(&context);
    manager.addNestedPass<func::FuncOp>(createLowerViews());
    manager.addNestedPass<func::FuncOp>(createSimplify());
    ASSERT_TRUE(succeeded(manager.run(*module)));
    if (known(Certainty::always).empty())
      continue; // nothing of it lies within the view
    EXPECT_EQ(always, known(Certainty::always));
    EXPECT_EQ(mostly, known(Certainty::mostly));
  }
  EXPECT_GT(buffers, 50u);
}

class RandomProgram : protected Context {
public:
  explicit RandomProgram(unsigned seed)
      : random(seed), builder(&context), loc(builder.getUnknownLoc()) {
    module = ModuleOp::create(loc);
    builder.setInsertionPointToEnd(module->getBody());
    Type i32 = builder.getI32Type();
    auto ptr = tile::PtrType::get(builder.getF16Type());
    int64_t divisors[] = {1, 4, 16, 48};
    SmallVector<int64_t> divisor;
    for (unsigned i = 0; i < 4; ++i)
      divisor.push_back(divisors[pick(4)]);
    SmallVector<Type> types = {i32, i32, i32, ptr};
    auto func = func::FuncOp::create(builder, loc, "f", builder.getFunctionType(types, {}));
    builder.setInsertionPointToEnd(func.addEntryBlock());
    for (unsigned i = 0; i < 4; ++i) {
      func.setArgAttr(i, tile::divisibleAttr, builder.getI64IntegerAttr(divisor[i]));
      int64_t value =
          i < 3 ? divisor[i] * (int64_t(pick(200)) - 100) : 2 * divisor[i] * (1000 + pick(1000));
      values.push_back({func.getArgument(i), {value}});
    }
    shape = SmallVector<int64_t>{extents[pick(5)], extents[pick(5)]};
    for (unsigned i = 0; i < 40; ++i)
      addOperation();
  }

  /// Every claim about every value.
  void check() {
    ContiguityAnalysis analysis(*module);
    for (const Evaluated &v : values) {
      const Contiguity &claim = analysis[v.value];
      for (int64_t value : v.elements) {
        // The sign of a condition is its only bit.
        int64_t number = tile::elementType(v.value.getType()).isInteger(1) ? -value : value;
        ASSERT_TRUE(claim.interval.low <= number && number <= claim.interval.high)
            << "interval of " << number << "\n"
            << text(v.value, 0);
        ASSERT_TRUE(v.hasOverflowed || (claim.place.low <= number && number <= claim.place.high))
            << "place of " << number << "\n"
            << text(v.value, 0);
      }
      places += claim.place.low > claim.interval.low;
      if (v.hasOverflowed)
        continue;
      SmallVector<int64_t> extents(tile::shapeOf(v.value.getType()));
      if (extents.empty())
        extents.push_back(1);
      ASSERT_EQ(claim.dims.size(), extents.size());
      int64_t step = stepOf(v.value.getType()), inner = v.elements.size();
      for (auto [d, run] : llvm::enumerate(claim.dims)) {
        int64_t extent = extents[d];
        inner /= extent;
        ASSERT_EQ(extent % run.contiguity, 0);
        ASSERT_EQ(extent % run.constancy, 0);
        for (size_t e = 0; e < v.elements.size(); ++e) {
          int64_t at = e / inner % extent, value = v.elements[e];
          int64_t begin = v.elements[e - (at % run.contiguity) * inner];
          // Numbers of 64 bits may wrap within a run, as addresses do.
          ASSERT_EQ(uint64_t(value), uint64_t(begin) + uint64_t(at % run.contiguity * step))
              << "contiguity\n"
              << text(v.value, d);
          ASSERT_EQ(begin % run.divisibility, 0) << "divisibility " << run.divisibility << "\n"
                                                 << text(v.value, d);
          ASSERT_EQ(value, v.elements[e - (at % run.constancy) * inner]) << "constancy\n"
                                                                         << text(v.value, d);
        }
      }
      vectors +=
          llvm::any_of(claim.dims, [](const sectile::Run &run) { return run.contiguity > 1; });
    }
  }

  unsigned vectors = 0; ///< values of which some contiguity was claimed
  unsigned places = 0;  ///< values of which more was claimed as of places

private:
  static constexpr int64_t extents[] = {1, 4, 12, 16, 48};
  static constexpr int64_t constants[] = {0,   1,   3,   4,     8,          12,        15,
                                          16,  48,  -8,  127,   -128,       255,       32767,
                                          -77, 100, 200, 65535, 0x7fffffff, 1103515245};

  unsigned pick(unsigned n) { return random() % n; }

  std::string text(Value value, unsigned dim) {
    std::string result;
    llvm::raw_string_ostream out(result);
    out << "dimension " << dim << " of " << value << "\n" << *module;
    return result;
  }

  /// As numbers of so many bits wrap.
  static int64_t wrapped(int64_t number, unsigned bits) {
    return int64_t(uint64_t(number) << (64 - bits)) >> (64 - bits);
  }

  void add(Value value, std::vector<int64_t> elements, bool hasOverflowed = false) {
    const Type type = tile::elementType(value.getType());
    if (type.isInteger() && !type.isInteger(1))
      for (int64_t &e : elements)
        e = wrapped(e, type.getIntOrFloatBitWidth());
    values.push_back({value, std::move(elements), hasOverflowed});
  }

  int64_t anyConstant(Type type) {
    return wrapped(constants[pick(std::size(constants))], type.getIntOrFloatBitWidth());
  }

  /// A random value of these properties, or none.
  const Evaluated *find(function_ref<bool(Type)> fits) {
    std::vector<const Evaluated *> found;
    for (const Evaluated &v : values)
      if (fits(v.value.getType()))
        found.push_back(&v);
    return found.empty() ? nullptr : found[pick(found.size())];
  }

  void addOperation() {
    Type i32 = builder.getI32Type();
    auto isInt = [&](Type t) {
      return tile::elementType(t).isInteger() && !tile::elementType(t).isInteger(1);
    };
    switch (pick(9)) {
    case 0: {
      int64_t extent = shape[pick(2)], start = int64_t(pick(9)) * 4 - 16;
      std::vector<int64_t> elements(extent);
      std::iota(elements.begin(), elements.end(), start);
      return add(tile::ArangeOp::create(builder, loc, RankedTensorType::get({extent}, i32), start),
                 elements);
    }
    case 1: {
      int64_t value = anyConstant(i32);
      return add(arith::ConstantOp::create(builder, loc, builder.getI32IntegerAttr(value)),
                 {value});
    }
    case 2:
      return changeShape();
    case 3: {
      const Evaluated *ptr = find([&](Type t) { return isa<tile::PtrType>(tile::elementType(t)); });
      const Evaluated *offset = find([&](Type t) {
        return isInt(t) && tile::withElementType(ptr->value.getType(), tile::elementType(t)) == t;
      });
      if (!offset)
        return;
      std::vector<int64_t> elements = ptr->elements;
      for (auto [e, o] : llvm::zip(elements, offset->elements))
        e = int64_t(uint64_t(e) + 2 * uint64_t(o));
      return add(
          tile::AddPtrOp::create(builder, loc, ptr->value.getType(), ptr->value, offset->value),
          elements, ptr->hasOverflowed || offset->hasOverflowed);
    }
    case 4:
      return resize(*find(isInt));
    default: {
      const Evaluated *a = find(isInt);
      auto tile = dyn_cast<RankedTensorType>(a->value.getType());
      if (tile && pick(2)) {
        const Evaluated left = *a; // `values` grows
        Type element = tile.getElementType();
        int64_t number = anyConstant(element);
        Value splat = arith::ConstantOp::create(
            builder, loc,
            DenseElementsAttr::get(tile, Attribute(builder.getIntegerAttr(element, number))));
        add(splat, std::vector<int64_t>(left.elements.size(), number));
        return binary(left, values.back());
      }
      const Evaluated *b = find([&](Type t) { return t == a->value.getType(); });
      return binary(*a, *b);
    }
    }
  }

  /// To integers of another width.
  void resize(Evaluated v) {
    const unsigned bits = tile::elementType(v.value.getType()).getIntOrFloatBitWidth();
    const unsigned widths[] = {8, 16, 32, 64}, to = widths[pick(4)];
    const Type type = tile::withElementType(v.value.getType(), builder.getIntegerType(to));
    if (to < bits)
      add(arith::TruncIOp::create(builder, loc, type, v.value), v.elements, v.hasOverflowed);
    if (to <= bits)
      return;
    if (pick(2))
      return add(arith::ExtSIOp::create(builder, loc, type, v.value), v.elements, v.hasOverflowed);
    for (int64_t &e : v.elements)
      e = int64_t(uint64_t(e) & ((uint64_t(1) << bits) - 1));
    add(arith::ExtUIOp::create(builder, loc, type, v.value), v.elements, v.hasOverflowed);
  }

  void changeShape() {
    const Evaluated v = values[pick(values.size())];
    auto type = dyn_cast<RankedTensorType>(v.value.getType());
    Type element = tile::elementType(v.value.getType());
    auto tileOf = [&](ArrayRef<int64_t> s) { return RankedTensorType::get(s, element); };
    if (!type) {
      int64_t extent = shape[pick(2)];
      return add(tile::SplatOp::create(builder, loc, tileOf({extent}), v.value),
                 std::vector<int64_t>(extent, v.elements[0]), v.hasOverflowed);
    }
    if (type.getRank() == 1) {
      int64_t extent = type.getDimSize(0);
      bool first = pick(2);
      if (pick(4) == 0 && extent % 4 == 0)
        return add(tile::ReshapeOp::create(builder, loc, tileOf({extent / 4, 4}), v.value),
                   v.elements, v.hasOverflowed);
      Value expanded = tile::ExpandDimsOp::create(
          builder, loc, first ? tileOf({1, extent}) : tileOf({extent, 1}), v.value, first ? 0 : 1);
      std::vector<int64_t> source = v.elements, elements;
      add(expanded, source, v.hasOverflowed);
      int64_t other = shape[pick(2)];
      for (int64_t i = 0; i < extent * other; ++i)
        elements.push_back(source[first ? i % extent : i / other]);
      return add(
          tile::BroadcastOp::create(
              builder, loc, first ? tileOf({other, extent}) : tileOf({extent, other}), expanded),
          elements, v.hasOverflowed);
    }
    int64_t rows = type.getDimSize(0), columns = type.getDimSize(1);
    switch (pick(3)) {
    case 0: {
      std::vector<int64_t> elements;
      for (int64_t i = 0; i < rows * columns; ++i)
        elements.push_back(v.elements[i % rows * columns + i / rows]);
      return add(tile::PermuteOp::create(builder, loc, tileOf({columns, rows}), v.value,
                                         builder.getDenseI32ArrayAttr({1, 0})),
                 elements, v.hasOverflowed);
    }
    case 1:
      return add(tile::ReshapeOp::create(builder, loc, tileOf({rows * columns}), v.value),
                 v.elements, v.hasOverflowed);
    default:
      return add(tile::ReshapeOp::create(builder, loc, tileOf({columns, rows}), v.value),
                 v.elements, v.hasOverflowed);
    }
  }

  static constexpr auto asUnsigned = [](int64_t x, unsigned bits) {
    return uint64_t(x) << (64 - bits) >> (64 - bits);
  };

  /// Sums, differences and products, of which some are marked to fit. `f` works on numbers without
  /// limits.
  template <typename Op, typename F> void arithmetic(const Evaluated &a, const Evaluated &b, F f) {
    const unsigned bits = tile::elementType(a.value.getType()).getIntOrFloatBitWidth();
    const bool isMarked = pick(2);
    bool hasOverflowed = a.hasOverflowed || b.hasOverflowed;
    std::vector<int64_t> elements;
    for (auto [x, y] : llvm::zip(a.elements, b.elements)) {
      const Interval::Number exact = f(Interval::Number(x), Interval::Number(y));
      hasOverflowed |= isMarked && !Interval{exact, exact}.fits(bits);
      elements.push_back(int64_t(uint64_t(exact)));
    }
    auto op = Op::create(builder, loc, a.value, b.value);
    if (isMarked)
      op->setAttr(tile::fitsAttr, builder.getUnitAttr());
    add(op, elements, hasOverflowed);
  }

  /// What takes numbers as they have wrapped.
  template <typename Op, typename F>
  void elementwise(const Evaluated &a, const Evaluated &b, F f, bool hasOverflowed = false) {
    std::vector<int64_t> elements;
    for (auto [x, y] : llvm::zip(a.elements, b.elements))
      elements.push_back(f(x, y));
    add(Op::create(builder, loc, a.value, b.value), elements, hasOverflowed);
  }

  void binary(Evaluated a, Evaluated b) {
    const unsigned bits = tile::elementType(a.value.getType()).getIntOrFloatBitWidth();
    auto u = [bits](int64_t x) { return asUnsigned(x, bits); };
    auto isZero = [](int64_t e) { return e == 0; };
    const bool divides = llvm::none_of(b.elements, isZero);
    switch (pick(14)) {
    case 0:
    case 1:
      return arithmetic<arith::AddIOp>(a, b, [](auto x, auto y) { return x + y; });
    case 2:
      return arithmetic<arith::SubIOp>(a, b, [](auto x, auto y) { return x - y; });
    case 3:
      return arithmetic<arith::MulIOp>(a, b, [](auto x, auto y) { return x * y; });
    case 4:
      if (divides)
        elementwise<arith::DivSIOp>(
            a, b, [](int64_t x, int64_t y) { return y == -1 ? int64_t(-uint64_t(x)) : x / y; },
            b.hasOverflowed);
      return;
    case 5:
      if (divides)
        elementwise<arith::RemSIOp>(
            a, b, [](int64_t x, int64_t y) { return y == -1 ? 0 : x % y; }, b.hasOverflowed);
      return;
    case 6:
      return elementwise<arith::AndIOp>(a, b, [](int64_t x, int64_t y) { return x & y; });
    case 7:
      return elementwise<arith::MinSIOp>(
          a, b, [](int64_t x, int64_t y) { return std::min(x, y); },
          a.hasOverflowed || b.hasOverflowed);
    case 8:
      return elementwise<arith::MaxSIOp>(
          a, b, [](int64_t x, int64_t y) { return std::max(x, y); },
          a.hasOverflowed || b.hasOverflowed);
    case 9:
    case 10: {
      const int64_t most = bits;
      if (!llvm::all_of(b.elements, [&](int64_t e) { return e >= 0 && e < most; }))
        return;
      return pick(2)
                 ? elementwise<arith::ShRSIOp>(a, b, [](int64_t x, int64_t y) { return x >> y; })
                 : elementwise<arith::ShRUIOp>(
                       a, b, [&](int64_t x, int64_t y) { return int64_t(u(x) >> y); });
    }
    case 11:
      if (divides)
        elementwise<arith::DivUIOp>(
            a, b, [&](int64_t x, int64_t y) { return int64_t(u(x) / u(y)); }, b.hasOverflowed);
      return;
    case 12:
      if (divides)
        elementwise<arith::RemUIOp>(
            a, b, [&](int64_t x, int64_t y) { return int64_t(u(x) % u(y)); }, b.hasOverflowed);
      return;
    default:
      return compareAndSelect(a, b);
    }
  }

  void compareAndSelect(const Evaluated &a, const Evaluated &b) {
    using enum arith::CmpIPredicate;
    const unsigned bits = tile::elementType(a.value.getType()).getIntOrFloatBitWidth();
    arith::CmpIPredicate predicates[] = {slt, sle, sgt, sge, eq, ult, uge};
    unsigned p = pick(7);
    std::vector<int64_t> mask;
    for (auto [x, y] : llvm::zip(a.elements, b.elements)) {
      const uint64_t ux = asUnsigned(x, bits), uy = asUnsigned(y, bits);
      bool is[] = {x<y, x <= y, x> y, x >= y, x == y, ux < uy, ux >= uy};
      mask.push_back(is[p]);
    }
    add(arith::CmpIOp::create(builder, loc, predicates[p], a.value, b.value), mask);
    Type maskType = values.back().value.getType();
    const Evaluated *condition = find([&](Type t) { return t == maskType; });
    std::vector<int64_t> chosen;
    for (auto [c, x, y] : llvm::zip(condition->elements, a.elements, b.elements))
      chosen.push_back(c ? x : y);
    add(arith::SelectOp::create(builder, loc, condition->value, a.value, b.value), chosen,
        a.hasOverflowed || b.hasOverflowed);
  }

  std::mt19937 random;
  OpBuilder builder;
  Location loc;
  OwningOpRef<ModuleOp> module;
  std::vector<Evaluated> values;
  SmallVector<int64_t> shape;
};

TEST(ContiguityClaims, HoldOnRandomPrograms) {
  unsigned vectors = 0, places = 0;
  for (unsigned seed = 0; seed < 2000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomProgram program(seed);
    program.check();
    if (testing::Test::HasFatalFailure())
      return;
    vectors += program.vectors;
    places += program.places;
  }
  // The claims are worth something: many values were found contiguous, or to be places.
  EXPECT_GT(vectors, 2000u);
  EXPECT_GT(places, 200u);
}

} // namespace
