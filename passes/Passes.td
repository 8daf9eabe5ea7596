// The passes from tile IR to placed cta IR, one file each, in the rooms of passes/; passes/Pipelines.cpp has their order.
#ifndef SECTILE_PASSES
#define SECTILE_PASSES

include "mlir/Pass/PassBase.td"

def InlineFunctions : Pass<"inline-functions", "::mlir::ModuleOp"> {
  let summary = "put the bodies of called functions where they are called";
  let description = [{
    Puts the body of every called function in place of each call, callees first, and erases private functions that are
    inlined everywhere. Locations say both the line of the call and the line in the body. Later passes rely on a kernel
    without calls. Refuses calls of functions without a body, and recursion.
  }];
}

def CheckOffsets : Pass<"check-offsets", "::mlir::func::FuncOp"> {
  let summary = "in a checked kernel, assert that 32-bit arithmetic of addresses does not overflow and that promises hold";
  let description = [{
    Acts on kernels in the checked mode, and leaves others alone. Arithmetic below 64 bits that feeds an address is
    repeated in 64 bits and compared, unless intervals show that it cannot overflow; `tile.assume` and `tile.hint` become
    assertions and are gone afterwards, so that nothing relies on them. Expects tiles without layouts, and views as they
    were written.
  }];
  let dependentDialects = ["::sectile::cta::CtaDialect"];
}

def LowerDebug : Pass<"lower-debug", "::mlir::func::FuncOp"> {
  let summary = "turn assertions and prints into entries of a log that the kernel takes as an argument, or leave them out";
  let description = [{
    Adds two arguments to a kernel that asserts or prints: the address of the log and the number of the launch. What
    the host needs to print an entry stays behind as an attribute of the kernel. Where the kernel is compiled without its
    debugging operations, they are erased. Afterwards there is no `tile.assert` and no `tile.print`. Expects tiles without
    layouts.
  }];
  let dependentDialects = ["::sectile::cta::CtaDialect"];
}

def Simplify : Pass<"simplify", "::mlir::func::FuncOp"> {
  let summary = "canonicalise, share what is computed twice, and hoist what loops do not change";
  let description = [{
    Runs several times in the pipeline, before and after layouts: every pattern keeps layouts as they are. Code that
    does not converge within the driver's limit stays valid. Refuses nothing.
  }];
}

def ExpandScaledDots : Pass<"expand-scaled-dots", "::mlir::func::FuncOp"> {
  let summary = "decode and scale the operands of dots in the microscaling formats";
  let description = [{
    Replaces `tile.dot_scaled` by operands that are decoded, scaled and rounded to bf16, or to tf32 where one of them is
    f16, and a `tile.dot`. No target has instructions for these formats yet. Refuses nothing.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect"];
}

def SelectMma : Pass<"select-mma", "::mlir::func::FuncOp"> {
  let summary = "turn every dot into the target's matrix instructions, or fused multiply-adds where it has none";
  let description = [{
    Turns `tile.dot` into `cta.dot`, which names the shape of one instruction of the target. The extents of the dot must
    be multiples of the instruction's; where they are not, a remark says so and the dot is made of fused multiply-adds.
    8-bit floats become f16 where the target has no units for them. Instructions of a warpgroup that read bytes along K
    alone are not taken for operands that are not loaded so, which a remark says. Expects tiles without layouts. Refuses nothing.
  }];
  let dependentDialects = ["::sectile::cta::CtaDialect"];
}

def AssignLayouts : Pass<"assign-layouts", "::mlir::func::FuncOp"> {
  let summary = "give every tile a layout, and convert where two operations want different ones";
  let description = [{
    Chooses the layouts of all tiles together, by the estimated costs of accesses, conversions, reductions and dots on the
    target. Afterwards every tile has a layout for the target's lanes and the kernel's warps, `cta.convert_layout` stands
    where two operations want different ones, and what is cheap to compute is computed again instead. Expects a kernel
    without `tile.dot` and layouts; views stay. Refuses tiles with more elements than the registers of the block hold.
  }];
  let dependentDialects = ["::sectile::cta::CtaDialect"];
}

def SelectVectors : Pass<"select-vectors", "::mlir::func::FuncOp"> {
  let summary = "set how many elements each memory access moves at once";
  let description = [{
    Sets the attribute `vector` of loads and stores, asynchronous copies and pairwise atomics to the longest run of
    registers that holds neighbours in memory, aligned to its size, under one mask value. Copies that were made with a width
    keep it. Changes nothing else. Refuses asynchronous copies of less than 4 bytes.
  }];
}

def ExplicitChannels : Pass<"explicit-channels", "::mlir::func::FuncOp"> {
  let summary = "turn the channels, partitions and dots in flight that a kernel states into those of `cta`";
  let description = [{
    Chooses who carries what is copied to slots, which is the copy engine where it can, and the layout of each slot by
    who reads it: dots read slots in place. Expects layouts on all tiles. Refuses uses of channels in branches, copies of
    a partition that the engine cannot make, and registers beyond the register file.
  }];
  let dependentDialects = ["::sectile::cta::CtaDialect"];
}

def LoadBeforeBranches : Pass<"load-before-branches", "::mlir::func::FuncOp"> {
  let summary = "move loads of a branch in a loop ahead of the branch";
  let description = [{
    Takes loads, by pointers or from a view, that dots of a branch in a loop multiply, or that what they multiply is computed
    from. Where an earlier iteration can know the address and whether the branch is taken, the load moves out of the branch, and
    reads nothing where that is not taken (`cta.of_branch`). `schedule-loops` then treats it as a load of the loop's body, and
    moves it back if it does not fetch it ahead. Kernels with `cta.as_written` or channels by hand keep their loads. Refuses
    nothing.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect"];
}

def ScheduleLoops : Pass<"schedule-loops", "::mlir::func::FuncOp"> {
  let summary = "plan what each loop does in other iterations than it is written in, and rewrite it";
  let description = [{
    First moves work to the next iteration, in loops whose copies a producer partition shall make (`cta.warp_specialize`) and
    where registers hold what is carried there. That is the promotion of the only dot's result, which begins with zeros and is
    only cast, multiplied and added to what the loop carries; or the last of several dots, which multiplies, from registers,
    what follows from all others, and adds to sums that the loop carries and rescales. Then makes channels of the loads that can be
    issued iterations ahead; of two dots with the second following from the first, each iteration does the first one for the next
    iteration, where registers and shared memory have room. Expects layouts on all tiles. Leaves channels, which `lower-channels`
    has to lower. A remark says why a loop or a load stays as it is. Kernels with `cta.as_written`
    keep their loops. Refuses nothing.
  }];
  let dependentDialects = ["::sectile::cta::CtaDialect"];
}

def StageOperands : Pass<"stage-operands", "::mlir::func::FuncOp"> {
  let summary = "bring the operands of dots through shared memory, and stored tiles to the copy engine";
  let description = [{
    Gives operands of `cta.dot` a buffer where they would go through shared memory anyway, and has the copy engine store tiles
    of views where it can. Expects layouts on all tiles. Leaves buffers without places. Refuses nothing.
  }];
  let dependentDialects = ["::sectile::cta::CtaDialect"];
}

def OverlapDots : Pass<"overlap-dots", "::mlir::func::FuncOp"> {
  let summary = "let a loop's dots be in flight while it does what does not need their sums";
  let description = [{
    Takes asynchronous dots of a loop's body, and waits for each as late as what it gives and reads allows. Those that the
    loop's plan has in flight over the end of an iteration (`cta.in_flight`) add to sums that the loop carries. One of each
    is in flight at that end; what the ones before read may be overwritten in the next iteration. They are waited for after
    the loop, or, where the loop rescales the sums, in the next iteration, and with them a result that the loop carries
    on. In loops whose copies a producer partition makes, and where no dot stays in flight over the end of an iteration, a
    dot is waited for before its sums are first used in its own, if there is something to do until then, and nothing writes
    what it reads; dots that were started after it stay in flight. What a dot in flight reads is released when it is complete.
  }];
  let dependentDialects = ["::sectile::cta::CtaDialect"];
}

def LowerChannels : Pass<"lower-channels", "::mlir::func::FuncOp"> {
  let summary = "turn channels into slots of rings, and into groups of asynchronous copies where those fill them";
  let description = [{
    Expects channels whose uses come in order on every path. Acquire and wait become buffers of the ring. Where
    asynchronous copies fill it, commit closes a group of them, and each wait becomes `async_wait n`, where n is the smallest
    number of groups committed after the awaited one on any path. Afterwards channels are plain memory. Barriers are left to
    `insert-barriers`. Refuses what breaks the protocol of channels, which is a mistake of the compiler.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect"];
}

def LowerViews : Pass<"lower-views", "::mlir::func::FuncOp"> {
  let summary = "give block loads, stores, atomics and copies of views the form in which they are carried out";
  let description = [{
    Makes each block a tile of pointers in the layout of the tile, and a mask of what lies within the extents. Where the
    target has buffer accesses and all offsets within the block are known to be from 0 to 2^31 - 1 bytes, loads and stores
    get one address and a tile of offsets instead; a remark says of the others why not. A bound is left out where offsets
    are known to keep it. Expects layouts on all tiles, and copies that wait for their widths or
    have them. Afterwards no view is left. Refuses a view that a branch chooses or a loop changes, which the first passes
    refuse already, with the user's line.
  }];
}

def PartitionWarps : Pass<"partition-warps", "::mlir::func::FuncOp"> {
  let summary = "let a producer partition have the engine make copies";
  let description = [{
    Moves copies into channels between partitions, and the waits for their empty slots, to a `cta.partition`, with the loops
    and scalars that they need. Channels, mbarriers and scalars come before it. Expects views that are lowered.
  }];
  let dependentDialects = ["::sectile::cta::CtaDialect", "::mlir::scf::SCFDialect"];
}

def TakeTurns : Pass<"take-turns", "::mlir::func::FuncOp"> {
  let summary = "ping-pong: warpgroups start their dots in turn, and compute while these are in flight";
  let description = [{
    Takes the loops that `schedule-loops` chose for it (`cta.takes_turns`). Nothing but a partition's copies holds the warpgroups
    of such a loop together, but these do: both start when a slot is full, share the matrix unit, and then leave it idle
    together. A remark names the loops in which a dot is waited for before another is started, or a tile goes through shared
    memory.
  }];
  let dependentDialects = ["::sectile::cta::CtaDialect"];
}

def PlaceShared : Pass<"place-shared", "::mlir::func::FuncOp"> {
  let summary = "place buffers, channels and scratch in shared memory by liveness";
  let description = [{
    Sets the offset of everything that occupies shared memory, and `cta.shared_bytes` on the kernel. What is never alive
    at the same time may share bytes. Expects layouts on all tiles, and code that no later pass moves. Refuses a kernel that
    needs more than the target has, and says what the largest parts are for.
  }];
}

def InsertBarriers : Pass<"insert-barriers", "::mlir::func::FuncOp"> {
  let summary = "insert the barriers that hazards over shared and global memory need";
  let description = [{
    Expects layouts on all tiles and a place for everything in shared memory. Afterwards no two threads access the same
    bytes in an order that nothing fixes, where one of them writes: `cta.barrier` orders shared memory, `tile.barrier`
    global memory too, and copies that a later access could overtake are waited for. Programs are ordered against
    themselves only; what other programs do is for atomic operations to order.
  }];
  let dependentDialects = ["::sectile::cta::CtaDialect"];
}

def CheckChannels : Pass<"check-channels", "::mlir::func::FuncOp"> {
  let summary = "run through what channels became, for loops of 0, 1, 2, … iterations until the state repeats";
  let description = [{
    Changes nothing. Refuses, as an error of the compiler, a wait that never ends or passes one phase early, a buffer that is read
    before its bytes are there or overwritten while it may still be read, and expected bytes other than those copied. Expects
    places in shared memory, and barriers.
  }];
}

def UnrollLoops : Pass<"unroll-loops", "::mlir::func::FuncOp"> {
  let summary = "repeat the bodies of loops that ask for it, and report hints that have no effect";
  let description = [{
    Comes last, as what earlier passes found out about a loop holds for any number of its iterations in a row. The
    iterations that are left over run in a loop of their own. A remark says of each hint that has no effect why. Refuses
    nothing; a body that would become too large stays as it is.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect"];
}

#endif
