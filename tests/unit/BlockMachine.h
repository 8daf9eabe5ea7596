// Runs kernels at the level of a block: every tile is one number, shared memory holds numbers by
// their bytes, and all that the threads of a block do between two barriers counts as simultaneous.
// Says what goes wrong: races, copies that were not waited for, reads of what nobody wrote.
#pragma once
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "passes/analysis/SharedMemory.h"
#include <map>
#include <set>

namespace sectile {

class BlockMachine {
public:
  /// Runs the function on these arguments.
  void run(mlir::func::FuncOp function, llvm::ArrayRef<int64_t> arguments);

  /// What global memory holds at an address, whatever is stored there.
  static int64_t contents(int64_t address);

  std::vector<std::pair<int64_t, int64_t>> stores; ///< address and value, in order
  std::set<int64_t> loaded;                        ///< addresses of tiles and scalars read
  std::vector<std::string> errors;                 ///< the first few
  unsigned barriers = 0;

private:
  struct Bytes {
    int64_t begin = 0, end = 0;
    auto operator<=>(const Bytes &) const = default;
    bool overlaps(const Bytes &other) const { return begin < other.end && other.begin < end; }
  };
  struct Copy {
    Bytes bytes;
    int64_t value;
    int group;
  };

  void run(mlir::Block &block);
  void run(mlir::Operation &op);
  int64_t number(mlir::Operation &op);
  int64_t &at(mlir::Value value) { return values[value]; }
  Bytes bytesOf(mlir::Value buffer);
  int64_t load(int64_t address, bool mask, int64_t other);
  void write(Bytes bytes, int64_t value, mlir::Operation &op);
  int64_t read(Bytes bytes, mlir::Operation &op);
  void touch(Bytes bytes, bool isWrite, mlir::Operation &op);
  void meet();
  void error(mlir::Operation &op, const char *what);

  llvm::DenseMap<mlir::Value, int64_t> values;
  std::map<Bytes, int64_t> memory;
  std::vector<std::pair<Bytes, bool>> sinceBarrier; ///< and whether it wrote
  std::vector<Copy> copies;
  int groups = 0;
};

} // namespace sectile
