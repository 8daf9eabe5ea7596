// The trace of a kernel: the IR built so far, the handles that are alive, the loops and branches
// that are open. And the entry point, trace(), which runs a kernel's body once.
#ifndef SECTILE_DSL_TRACE_H
#define SECTILE_DSL_TRACE_H

#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include <exception>
#include <map>
#include <optional>
#include <sectile/error.h>
#include <sectile/signature.h>

namespace sectile::detail {

/// `tile` IR of the kernel, verified: a module with one `func.func` that has `tile.kernel`. The
/// specializations are those of the flattened arguments. What the body throws passes through;
/// CompileError tells what is wrong with the kernel. `stateless` becomes whether neither the
/// kernel's lambda nor those of the functions that it called capture anything. A launch of it
/// exchanges the grid's axis `longAxis` with the first one, and so does its code.
mlir::OwningOpRef<mlir::ModuleOp> trace(const KernelDesc &kernel,
                                        llvm::ArrayRef<ArgSpecialization> specializations,
                                        const void *config, mlir::MLIRContext *context,
                                        bool *stateless = nullptr, unsigned longAxis = 0);

/// Throws where the body of a loop, a branch or a function changes a variable of the host that the
/// kernel's code depends on: as bodies are traced once, it changes once. Traces the kernel twice.
void checkHostVariables(const KernelDesc &kernel, llvm::ArrayRef<ArgSpecialization> specializations,
                        const void *config, mlir::MLIRContext *context, mlir::ModuleOp traced,
                        unsigned longAxis = 0);

[[noreturn]] void fail(Location where, const llvm::Twine &message);
/// The message of an error without the line it begins with.
std::string messageOf(const CompileError &error);

/// How often bodies are traced. Anything but once only shows which variables of the host they
/// change: loops' and functions' twice, or those of branches not at all.
enum class Bodies { Once, Twice, LeftOut };

/// What a branch does to the variables around it, by which a trace goes past without its bodies.
struct TracedBranch {
  struct Outcome {
    enum class Kind { Unchanged, Unknown, Escaped, Result, Same } kind = Kind::Unchanged;
    size_t number = 0; ///< of the branch's result, or of the variable whose value it is
  };
  Location where;
  std::vector<mlir::Type> results;
  std::vector<Outcome> outcomes; ///< of all variables there are, in order
  size_t next = 0;               ///< the branch that follows those in its bodies
};

/// The functions that a kernel's calls of sc::Function became, shared by their traces.
struct TracedFunctions {
  struct Key {
    std::uint64_t id;                     ///< of the sc::Function
    std::vector<const void *> types;      ///< of the arguments
    std::vector<std::uint64_t> constants; ///< the other parameters
    auto operator<=>(const Key &) const = default;
  };
  mlir::ModuleOp module;
  std::map<Key, mlir::Operation *> traced;
  std::vector<std::uint64_t> open; ///< those that are being traced, outermost first
  bool stateless = true;           ///< none of those that were called captures anything
  unsigned longAxis = 0;           ///< as trace() has it
  Bodies bodies = Bodies::Once;
  /// The kernel's own, which a trace of bodies twice fills in and one without them goes by.
  std::vector<TracedBranch> branches;
  size_t nextBranch = 0;
  bool usesEscaped = false; ///< a value was used outside of the body that made it
  /// What a body that was traced again has shown, as SameCode.h has it.
  std::optional<CompileError> hostVariable;
  /// The same of one that used other values: what follows then uses others, and may be folded.
  std::optional<CompileError> otherVariables;
  bool isNotJudged = false; ///< trust_host_variables(), or other operations beside channels
  bool hasChannels = false; ///< a Ring counts on the host what is in flight
};

/// trace() into functions that are given, not verified.
mlir::OwningOpRef<mlir::ModuleOp> traceWith(TracedFunctions &functions, const KernelDesc &kernel,
                                            llvm::ArrayRef<ArgSpecialization> specializations,
                                            const void *config, mlir::MLIRContext *context);

/// Ends a trace that leaves bodies out and cannot go past one.
struct CannotLeaveOut {};

class Trace {
public:
  Trace(mlir::MLIRContext *context, TracedFunctions *functions);
  ~Trace();
  Trace(const Trace &) = delete;
  Trace &operator=(const Trace &) = delete;

  /// The trace of the kernel whose body this thread runs; throws where there is none, and after a
  /// fault that could not be thrown when it happened.
  static Trace &current(Location where);
  static Trace *currentOrNull();

  mlir::OpBuilder builder;
  unsigned indexWidth = 32; ///< of program ids, aranges and literals of kind index
  TracedFunctions *functions;

  mlir::Location location(Location where);
  Value wrap(mlir::Value value);
  /// What a handle stands for; throws where that is nothing any more.
  mlir::Value get(const Value &handle, Location where);

  /// A loop or a branch whose body is being traced. The body is built apart from the function,
  /// since only its end shows which values it carries.
  struct Frame {
    struct Entry {
      Value *handle;      ///< null once the object is gone
      mlir::Value before; ///< null where the object had no value yet
    };
    Location where;
    mlir::OpBuilder::InsertPoint outside;
    std::vector<Entry> entries;
    std::unique_ptr<mlir::Region> region = std::make_unique<mlir::Region>();
    unsigned partition = 0; ///< its number, from 1 on
  };
  /// Whether a body that was traced is to be traced again, and compared.
  bool tracesTwice() const { return functions && functions->bodies == Bodies::Twice && !repeats; }
  /// What this branch does is to be noted, or was noted and is to be done without its bodies.
  bool notesBranches() const { return tracesTwice() && functions->open.empty(); }
  bool leavesOutBranches() const {
    return functions && functions->bodies == Bodies::LeftOut && functions->open.empty();
  }
  unsigned repeats = 0; ///< second traces of bodies that this one is in
  /// Puts the handles back to what they were before the frame's body was traced again, and loses
  /// what that made.
  void resume(Frame &frame, llvm::ArrayRef<mlir::Value> values,
              llvm::ArrayRef<mlir::Block *> repeated);
  /// Opens a frame with a snapshot of every live handle and an empty block to build in.
  void open(Frame &frame, Location where);
  /// Makes an argument of `block` for each entry that has a value, and points the handles at them.
  void enterLoopBlock(Frame &frame, mlir::Block *block);
  /// Puts the handles back to what they were before the frame.
  void restore(Frame &frame);
  /// What a handle of the snapshot stands for now; null for no value.
  mlir::Value valueOf(const Frame::Entry &entry) const;
  void assign(Frame::Entry &entry, mlir::Value value);
  /// The value was made in the frame and is lost with it.
  void escape(Frame::Entry &entry, Location where);
  /// Passes every handle made in the frame through `outside`; where that gives null, the handle has
  /// escaped from the frame.
  void sweep(Frame &frame, llvm::function_ref<mlir::Value(mlir::Value)> outside);
  /// Sweeps and closes the frame; building goes on outside.
  void close(Frame &frame, llvm::function_ref<mlir::Value(mlir::Value)> outside);
  /// Gives the frame up after an exception or a jump out of it.
  void abandon(Frame &frame);
  /// Remembers a fault found where nothing can be thrown.
  void poison(std::exception_ptr fault);
  void rethrowPoison() const;
  size_t depth() const { return frames.size(); }
  /// The number of the partition that is being traced, from 1 on; 0 outside of them.
  unsigned partition() const { return frames.empty() ? 0 : frames.front()->partition; }
  unsigned partitions = 0, namedBarriers = 0, dotsInFlight = 0; ///< of the kernel so far

private:
  friend class Value;
  void link(Value &value);
  void unlink(Value &value);

  std::vector<Frame *> frames;
  std::vector<std::unique_ptr<mlir::Region>> abandoned;
  Value *first = nullptr, *last = nullptr; // in the order of creation
  std::exception_ptr fault;
  Trace *outer; // the trace this thread was in before
};

/// A frame that is given up when it goes out of scope before `closed` was said: an exception
/// passes.
class OpenFrame {
public:
  OpenFrame(Trace &trace, Location where) : trace(trace) { trace.open(frame, where); }
  OpenFrame(const OpenFrame &) = delete;
  OpenFrame &operator=(const OpenFrame &) = delete;
  ~OpenFrame() {
    if (!done)
      trace.abandon(frame);
  }
  void closed() { done = true; }

  Trace::Frame frame;

private:
  Trace &trace;
  bool done = false;
};

//===-- Building, for the other files of this folder
//---------------------------------------------===//

/// Where an operation came from, as the user's file and line.
std::string describe(mlir::Location location);
std::string shapeText(llvm::ArrayRef<int64_t> shape);
/// "i32 scalar", "f16 tile of [64, 32]".
std::string typeText(Kind kind, mlir::Type type);
std::string_view nameOf(Kind kind);

mlir::Type elementTypeOf(Trace &trace, Kind kind);
/// The operand as a value, a literal as a scalar constant of `kind`.
mlir::Value materialize(Trace &trace, const Operand &operand, Kind kind);
/// The element type that both operands have once they are of `kind` (an Index has the wider width).
mlir::Type commonElement(Trace &trace, Kind kind, llvm::ArrayRef<const Operand *> operands);
mlir::Value convert(Trace &trace, mlir::Location loc, mlir::Value value, Kind from, Kind to,
                    mlir::Type toElement);
/// The operands converted to one kind; literals are scalars.
llvm::SmallVector<mlir::Value> convertAll(Trace &trace, Kind kind,
                                          llvm::ArrayRef<const Operand *> operands, Location where);
/// The operands converted to one kind and broadcast to one shape.
llvm::SmallVector<mlir::Value> unify(Trace &trace, Kind kind,
                                     llvm::ArrayRef<const Operand *> operands, llvm::StringRef what,
                                     Location where);
mlir::Value broadcastTo(Trace &trace, mlir::Location loc, mlir::Value value,
                        llvm::ArrayRef<int64_t> shape);
/// The common shape by NumPy's rules; fails with all the shapes.
llvm::SmallVector<int64_t> broadcastShape(llvm::ArrayRef<mlir::Value> values, llvm::StringRef what,
                                          Location where);
/// The kind of an operation on these operands: literals follow the tiles.
Kind commonKind(llvm::ArrayRef<const Operand *> operands);
mlir::Value constantOf(Trace &trace, mlir::Location loc, mlir::Type type, int64_t value);
mlir::TypedAttr literalAttr(const Literal &literal, Kind kind, mlir::Type element, Location where);
mlir::Type tensorOrScalar(llvm::ArrayRef<int64_t> shape, mlir::Type element);
/// An operand that must be a single integer, as a value of an integer type of 32 or 64 bits.
mlir::Value scalarIndex(Trace &trace, const Operand &operand, llvm::StringRef what);

} // namespace sectile::detail

#endif
