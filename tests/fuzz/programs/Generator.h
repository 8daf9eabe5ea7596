// Random kernels in tile IR: well typed, without undefined behaviour, and within their memory.
#pragma once
#include "ir/tile/Tile.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/OwningOpRef.h"
#include <optional>
#include <random>

namespace sectile::fuzz {

/// The element types of the kernels' buffers, in the order of the arguments: one buffer of each to
/// read from, behind which there is room for arenas, then one of each to write to, then two
/// numbers.
llvm::SmallVector<mlir::Type> elementTypes(mlir::MLIRContext *context);
unsigned bytesOf(mlir::Type element);
/// The bits of every element of the buffers that are written to, before: of floats a number that
/// atomic operations can start from.
uint64_t bitsBefore(mlir::Type element);
/// A number's bits, rounded.
uint64_t bitsOf(mlir::FloatType type, double value);
/// The floats of 8 bits.
bool isSmallFloat(mlir::Type element);

/// Elements of each buffer: of the inputs, those that are only read, and those behind them.
inline constexpr int64_t inputElements = 1 << 13, arenaElements = 1 << 14, outputElements = 1 << 15;
/// Of a buffer, by its place among the arguments.
inline int64_t elementsOf(size_t buffer, size_t types) {
  return buffer < types ? inputElements + arenaElements : outputElements;
}

/// Of a tile, at most.
inline constexpr int64_t mostElements = 4096;

/// The elements of kernels' arguments after the two numbers, where memory has second names.
llvm::SmallVector<mlir::Type> renamedTypes(mlir::MLIRContext *context);

/// What half of a program's steps are, if it is about one thing.
enum class Focus { None, Nests, Products, Chains, HandOvers, Integers, Constants };

struct GeneratorOptions {
  /// Nothing but what rounds in one way only: no products and sums of floats that another order, or
  /// a fused multiply-add, would give otherwise. Floats read are small whole numbers then.
  bool exact = true;
  int64_t programs = 1; ///< of the grid
  int32_t cluster = 1;  ///< of them run side by side
  bool memory = false;  ///< programs that work in memory
  /// Those about hand-overs take further arguments: second names of what is written to.
  Focus focus = Focus::None;
};

class Generator {
public:
  Generator(mlir::MLIRContext *context, uint64_t seed, const GeneratorOptions &options);
  mlir::OwningOpRef<mlir::ModuleOp> make();

private:
  using Shape = llvm::SmallVector<int64_t, 3>;
  /// Memory that a program of the grid has for itself and works in.
  struct Arena {
    mlir::Type element;
    mlir::Value base; ///< points to its first element
    int64_t elements; ///< a power of two
    int64_t stride;   ///< from one to the next
  };
  /// Elements of an arena, and which of them are accessed: all without a mask.
  struct Places {
    mlir::Value index, mask;
  };

  // Choosing
  size_t pick(size_t n) { return random() % n; }
  bool coin() { return pick(2); }
  template <class List> auto oneOf(const List &list) { return list[pick(std::size(list))]; }
  Shape someShape();
  mlir::Type someElement(); ///< any
  mlir::Type someInteger(); ///< not i1
  mlir::Type someFloat();   ///< that arithmetic works on
  mlir::Value someScalar(); ///< i32
  mlir::Value someTile();
  mlir::Value someTileOf(llvm::ArrayRef<int64_t> shape, mlir::Type element);
  mlir::Value someMask(llvm::ArrayRef<int64_t> shape);

  // Types and constants
  mlir::Type i32() { return builder.getI32Type(); }
  static mlir::RankedTensorType tileOf(llvm::ArrayRef<int64_t> shape, mlir::Type element) {
    return mlir::RankedTensorType::get(shape, element);
  }
  static llvm::ArrayRef<int64_t> shapeOf(mlir::Value tile) { return tile::shapeOf(tile.getType()); }
  static mlir::Type elementOf(mlir::Value tile) { return tile::elementType(tile.getType()); }
  mlir::Value number(int64_t value, mlir::Type type = {});
  mlir::Value constant(llvm::ArrayRef<int64_t> shape, mlir::Type element, double value);
  /// Without a shape a scalar.
  mlir::Value constantBits(llvm::ArrayRef<int64_t> shape, mlir::Type element, uint64_t bits);
  mlir::Value splat(mlir::Value scalar, llvm::ArrayRef<int64_t> shape);

  // Making tiles (Generator.cpp)
  mlir::Value range(llvm::ArrayRef<int64_t> shape, unsigned along, int64_t start);
  mlir::Value rowMajor(llvm::ArrayRef<int64_t> shape);
  mlir::Value makeTile(llvm::ArrayRef<int64_t> shape, mlir::Type element);
  mlir::Value gather(llvm::ArrayRef<int64_t> shape, mlir::Type element);
  mlir::Value block(llvm::ArrayRef<int64_t> shape, mlir::Type element);
  mlir::Value input(mlir::Type element);
  mlir::Value output(mlir::Type element);
  void promiseWholePieces(mlir::Value argument);
  mlir::Value ownBlock(llvm::ArrayRef<int64_t> shape, mlir::Type element, int64_t n, int64_t first);
  void store(mlir::Value tile);
  void storeRows(mlir::Value tile);

  // Element by element (Elementwise.cpp)
  mlir::Value cast(mlir::Value tile, mlir::Type element);
  mlir::Value floatToInteger(mlir::Value tile, mlir::Type element);
  mlir::Value combine(mlir::Value a, mlir::Value b); ///< of one type
  mlir::Value combineIntegers(mlir::Value a, mlir::Value b);
  mlir::Value combineFloats(mlir::Value a, mlir::Value b);
  mlir::Value change(mlir::Value tile);
  mlir::Value compare(mlir::Value a, mlir::Value b);
  mlir::Value whole(mlir::Value tile, int64_t bits, mlir::Type element);
  template <class Op, class... Args> mlir::Value op(Args... args) {
    return Op::create(builder, loc, args...);
  }

  // Moving and combining elements (Tiles.cpp)
  mlir::Value reshaped(mlir::Value tile);
  mlir::Value reduced(mlir::Value tile);
  mlir::Value scanned(mlir::Value tile);
  mlir::Value moved(mlir::Value tile);
  mlir::Value histogram(mlir::Value tile);
  void addCombiner(mlir::Region &region, mlir::ValueRange sources, unsigned kind);
  llvm::SmallVector<mlir::Value> combiner(mlir::Block &block, mlir::Type element, unsigned kind);

  // Orders of elements, and functions of single ones (Networks.cpp)
  mlir::Value partnerOf(mlir::Value tile, unsigned axis, int64_t distance);
  mlir::Value sorted(mlir::Value tile);
  mlir::Value mapped(mlir::Value tile);
  mlir::Value mapBody(mlir::Value first);

  // Matrix products (Products.cpp)
  mlir::Value turned(mlir::Value tile);
  mlir::Value rowMaxima(mlir::Value tile);
  mlir::Value widened(mlir::Value column, int64_t columns);
  mlir::Value dot(mlir::Value like);
  mlir::Value scales(int64_t rows, int64_t k);
  mlir::Value scaledDot();
  mlir::Value matrix(mlir::Type element, unsigned part, mlir::Value rows, mlir::Value columns,
                     mlir::Value pitch, bool byColumns);
  mlir::Value load(mlir::Value view, mlir::Value row, mlir::Value column, int64_t rows,
                   int64_t columns);
  mlir::Value accumulated(mlir::Value sums);
  void skipSome(mlir::scf::ForOp loop, mlir::Value phase);
  mlir::Value matmul();
  mlir::Value attention();

  // Atomic operations and calls (Effects.cpp)
  mlir::Value ownPlaces(llvm::ArrayRef<int64_t> shape, mlir::Type element);
  mlir::Value sharedPlaces(llvm::ArrayRef<int64_t> shape, mlir::Type element);
  void atomic();
  void swap();
  void atomicBlock();
  mlir::Value addend(mlir::Value tile, mlir::Type element);
  mlir::Value call(mlir::Value tile);

  // Working in memory (Memory.cpp)
  std::optional<Arena> newArena(mlir::Type element, int64_t atLeast, bool interleaved);
  Arena siblingOf(const Arena &arena);
  Arena someArena();
  Shape shapeWithin(const Arena &arena);
  tile::Eviction someEviction(tile::Cache cache);
  mlir::Value someOrder(llvm::ArrayRef<int64_t> shape);
  mlir::Value lateNumber();
  mlir::Value promised(mlir::Value index, int64_t start);
  Places distinct(llvm::ArrayRef<int64_t> shape, int64_t within);
  mlir::Value pointers(const Arena &arena, mlir::Value index);
  std::pair<mlir::Value, llvm::SmallVector<mlir::Value>>
  viewOf(const Arena &arena, llvm::ArrayRef<int64_t> shape, bool overlapping);
  mlir::Value loadAt(const Arena &arena, const Places &places);
  void storeAt(const Arena &arena, const Places &places, mlir::Value value);
  mlir::Value read(const Arena &arena, llvm::ArrayRef<int64_t> shape);
  void write(const Arena &arena, mlir::Value tile);
  void observe(mlir::Value tile);
  void scalarStep(const Arena &arena);
  void moveStep(const Arena &arena);
  void repeatStep(const Arena &arena);
  void atomicStep(const Arena &arena);
  void callOnPointers(const Arena &arena);
  void memoryStep(unsigned depth);

  // Pointers and promises that change as a program runs, and loops in memory (Hazards.cpp)
  void choosePointers(const Arena &arena);
  void swapInLoop(const Arena &arena);
  void doublingLoop(const Arena &arena);
  void movingPointers(const Arena &arena);
  mlir::Value hiddenNumber(int64_t value, mlir::Type type = {});
  mlir::Value truthAbout(mlir::Value value, int64_t divisor);
  void promise();
  void countDown(const Arena &arena);
  void scratchMatmul();
  void hintAt(mlir::Operation *loop);

  // Loops whose bounds are computed (Nests.cpp)
  /// What the products of a nest are of: blocks of two matrices, `blocks` along the axis that is
  /// summed.
  struct Factors {
    mlir::Value left, right;
    int64_t m, n, k, blocks;
    bool turnedRight; ///< loaded as [n, k]
    mlir::Value rowOfLeft, columnOfRight;
  };
  mlir::Value arithmetic(unsigned depth);
  mlir::Value someBound();
  mlir::Value someStep();
  mlir::Value someCondition();
  mlir::Value product(const Factors &of, mlir::Value at, mlir::Value sums);
  mlir::Value changedSums(mlir::Value sums);
  void hintAtProducts(mlir::Operation *loop);
  mlir::Value productLoop(const Factors &of, mlir::Value sums);
  mlir::Value nest(const Factors &of, unsigned depth, mlir::Value sums);
  mlir::Value nestOfProducts();
  void farLoop();

  // Products that feed each other (Chains.cpp)
  /// What the products of a chain are of.
  struct Chain {
    mlir::Type element, sum;                 ///< of operands and of sums
    llvm::SmallVector<int64_t, 3> extents;   ///< few, so that results fit operands
    llvm::SmallVector<mlir::Value> views;    ///< that operands are loaded from
    llvm::SmallVector<mlir::Value> operands; ///< visible at the builder's place
    llvm::SmallVector<mlir::Value> sums;     ///< likewise; operands are made of them
  };
  mlir::Value chainLoad(const Chain &chain, mlir::Value at, int64_t height, int64_t width);
  mlir::Value chainOperand(Chain &chain, mlir::Value at, int64_t height, int64_t width);
  mlir::Value chainProduct(Chain &chain, mlir::Value at, mlir::Value sums);
  mlir::Value chainStep(Chain &chain, mlir::Value at, mlir::Value sums);
  void chainLoop(Chain &chain);
  void chainsOfProducts();

  // Memory that is handed over (HandOvers.cpp)
  /// Square matrices side by side in an output, and how loops multiply from them.
  struct Handed {
    mlir::Type element;
    mlir::Value writer, reader; ///< views of all of them, by the same name or two
    bool twoNames, isLeft, byColumns;
    Factors of; ///< without the place of the matrix
  };
  mlir::Value secondName(mlir::Type element);
  std::optional<Handed> newMatrices(int64_t count);
  llvm::SmallVector<mlir::Value> placeOf(const Handed &handed, mlir::Value matrix);
  void storeMatrix(const Handed &handed, mlir::Value matrix, mlir::Value numbers);
  mlir::Value productsOf(const Handed &handed, mlir::Value matrix, mlir::Value sums);
  mlir::Value noSums(mlir::Type element);
  void handOverWithin();
  void waitForFlag(mlir::Value flag);
  void raiseFlag(mlir::Value flag);
  void handOverAlong();

  // Integers at the ends of their types (Integers.cpp)
  uint64_t extremeBits(mlir::Type element);
  mlir::Value scrambled(mlir::Value x);
  mlir::Value wild(llvm::ArrayRef<int64_t> shape, mlir::Type element);
  mlir::Value decided(mlir::Value x);
  mlir::Value within(mlir::Value x, int64_t below);
  Shape longShape();
  void maskedByHash();
  void gatherByHash();
  mlir::Value hashedOffset(int64_t extent);
  void blockByHash();
  void loopByHash();
  void integerStep();

  // Constants beside the same values from memory (Constants.cpp)
  uint64_t specialBits(mlir::Type element);
  mlir::Value rareFunction(mlir::Value x, mlir::Value y);
  mlir::Value folded();
  void constantsBesideMemory();

  // Control flow (Generator.cpp)
  void focusedStep();
  void statement(unsigned depth);
  void loop(unsigned depth);
  void whileLoop();
  void branch(unsigned depth);
  void keep(mlir::Value value);

  GeneratorOptions options;
  std::mt19937_64 random;
  mlir::OpBuilder builder;
  mlir::Location loc;
  llvm::SmallVector<mlir::Type> elements;
  mlir::func::FuncOp kernel;
  std::vector<mlir::func::FuncOp> functions;
  std::vector<mlir::Value> tiles, scalars;  ///< visible at the builder's place; scalars are i32
  std::vector<int64_t> extents;             ///< few, so that tiles meet others of their shape
  llvm::SmallVector<mlir::Type> favourites; ///< likewise
  llvm::DenseMap<mlir::Type, int64_t> stored, storedInInputs; ///< how much is given away
  std::vector<Arena> arenas; ///< visible at the builder's place, by pointers that are chosen, too
  unsigned pointerFunctions = 0;
};

} // namespace sectile::fuzz
