// The `cta` dialect: how one block of threads does it. Layouts, shared memory, asynchronous copies, barriers.
#ifndef SECTILE_IR_CTA_OPS
#define SECTILE_IR_CTA_OPS

include "mlir/IR/OpBase.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/TensorEncoding.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "ir/tile/TileTypes.td"

def Cta_Dialect : Dialect {
  let name = "cta";
  let cppNamespace = "::sectile::cta";
  let summary = "how one block of threads computes on tiles";
  let description = [{
    At this level every tensor's encoding is a `#cta.layout` (which register of which lane of which warp holds which
    element), and shared memory is explicit: a `!cta.buffer` is a tile in shared memory whose layout maps element
    offsets to coordinates. The module carries `cta.target = "sm_80"`; a kernel carries `cta.warps : i32`,
    `cta.stages : i32` and, once placed, `cta.shared_bytes : i32`.

    Asynchrony is a channel: a ring of buffers between a producer and a consumer, with four words. The producer
    *acquires* a slot (it is free to be overwritten), issues copies into it and *commits* it; the consumer *waits* for
    it (its data can be read) and *releases* it. `slot` operands count uses: use i lives in buffer i modulo the depth.
    Uses are produced and consumed in order, from 0 on, for as long as the channel lives: loops carry the count on, nested
    ones too. All paths to a place leave equally many uses in flight. How the target waits, by counting groups of
    copies or otherwise, is for `lower-channels` to say.
  }];
  let useDefaultTypePrinterParser = 1;
  let useDefaultAttributePrinterParser = 1;
  let dependentDialects = ["::sectile::tile::TileDialect"];
  let hasConstantMaterializer = 1;
}

def Cta_LayoutAttr : AttrDef<Cta_Dialect, "Layout", [DeclareAttrInterfaceMethods<VerifiableTensorEncoding>]> {
  let mnemonic = "layout";
  let summary = "where the elements of a tile are";
  let description = "Holds a `sectile::Layout`; see docs/layouts.md.";
  let parameters = (ins AttrOrTypeParameter<"::sectile::Layout", "", "const ::sectile::Layout &">:$layout);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 0;
}

def Cta_BufferType : TypeDef<Cta_Dialect, "Buffer"> {
  let mnemonic = "buffer";
  let summary = "tile in shared memory, or in tensor memory";
  let description = "`!cta.buffer<128x64xf16, #cta.layout<…>>`; the layout maps offsets (in elements) to coordinates. Tensor memory "
                    "is said behind it: `!cta.buffer<128x64xf32, #cta.layout<…>, tensor>`.";
  let parameters = (ins ArrayRefParameter<"int64_t">:$shape, "::mlir::Type":$element, "::sectile::cta::LayoutAttr":$layout,
                        "::sectile::cta::MemorySpace":$space);
  let builders = [TypeBuilder<(ins "::llvm::ArrayRef<int64_t>":$shape, "::mlir::Type":$element,
                                   "::sectile::cta::LayoutAttr":$layout), [{
    return $_get($_ctxt, shape, element, layout, ::sectile::cta::MemorySpace::Shared);
  }]>];
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    int64_t getNumElements() const;
    bool isShared() const { return getSpace() == ::sectile::cta::MemorySpace::Shared; }
    /// Bytes that one such buffer takes.
    int64_t getBytes() const;
  }];
}

def Cta_ChannelType : TypeDef<Cta_Dialect, "Channel"> {
  let mnemonic = "channel";
  let summary = "ring of shared buffers between a producer and a consumer";
  let description = "`!cta.channel<3, !cta.buffer<…>>` has three slots.";
  let parameters = (ins "unsigned":$depth, "::sectile::cta::BufferType":$buffer);
  let assemblyFormat = "`<` $depth `,` qualified($buffer) `>`";
  let extraClassDeclaration = [{
    /// Bytes from one slot to the next, and of the whole ring.
    int64_t getSlotBytes() const { return (getBuffer().getBytes() + 15) / 16 * 16; }
    int64_t getBytes() const { return getDepth() * getSlotBytes(); }
  }];
}

def Cta_InFlightType : TypeDef<Cta_Dialect, "InFlight"> {
  let mnemonic = "in_flight";
  let summary = "tile that a matrix instruction is still computing";
  let description = "`!cta.in_flight<tensor<64x64xf32, #cta.layout<…>>>`; nobody reads it before `cta.dot_wait`.";
  let parameters = (ins "::mlir::RankedTensorType":$tile);
  let assemblyFormat = "`<` $tile `>`";
}

def Cta_MbarriersType : TypeDef<Cta_Dialect, "Mbarriers"> {
  let mnemonic = "mbarriers";
  let summary = "mbarriers in shared memory, each of which counts the bytes of one buffer's copies";
  let description = "`!cta.mbarriers<3>` has three, of eight bytes each.";
  let parameters = (ins "unsigned":$count);
  let assemblyFormat = "`<` $count `>`";
  let extraClassDeclaration = "int64_t getBytes() const { return 8 * int64_t(getCount()); }";
}

def Cta_TensorMapType : TypeDef<Cta_Dialect, "TensorMap"> {
  let mnemonic = "tensor_map";
  let summary = "a view as the copy engine takes it";
  let description = [{
    An argument of the kernel behind all others. Its attribute `cta.tensor_map` says which of those a launch makes it of:
    `!cta.tensor_map` is what `LaunchPlan::tensorMaps` describes.
  }];
}

def Cta_SharedMemory : Resource<"::sectile::cta::SharedMemory">;
/// Registers of sums in flight.
def Cta_Accumulators : Resource<"::sectile::cta::Accumulators">;

class Cta_Op<string mnemonic, list<Trait> traits = []> : Op<Cta_Dialect, mnemonic, traits>;

def Cta_ConvertLayoutOp : Cta_Op<"convert_layout", [Pure]> {
  let summary = "the same tile under another layout";
  let description = "`offset`: where in shared memory its scratch is, in bytes, once placed and where it needs any.";
  let arguments = (ins Tile_Tensor:$source, OptionalAttr<I32Attr>:$offset);
  let results = (outs Tile_Tensor:$result);
  let assemblyFormat = "$source attr-dict `:` type($source) `->` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

def Cta_AlongKOp : Cta_Op<"along_k", [Pure, AllTypesMatch<["source", "result"]>]> {
  let summary = "the same tile, an operand of a dot, whose neighbours memory has across K";
  let description = [{
    For an instruction that reads shared memory along K alone. Its layout gives each thread squares of elements, which
    are words both ways: read across K from the slot that a copy filled, and written along K to the dot's buffer. One
    that `stays` is read in the layout of the dot's registers instead, and goes no further. `axis` is K among the tile's
    dimensions.
  }];
  let arguments = (ins Tile_Tensor:$source, ConfinedAttr<I32Attr, [IntNonNegative, IntMaxValue<1>]>:$axis,
                       UnitAttr:$stays);
  let results = (outs Tile_Tensor:$result);
  let assemblyFormat = "$source `along` $axis (`stays` $stays^)? attr-dict `:` type($source)";
}

def Cta_OfBlockOp : Cta_Op<"of_block", [Pure, AttrSizedOperandSegments, AllTypesMatch<["source", "result"]>]> {
  let summary = "the same addresses, or offsets in a buffer, with the block of a view that they are of";
  let description = [{
    The elements of the view, `base` with these extents and strides, all have different addresses, and the accesses that
    go by the result leave out those of the block that are no elements of the view. So two accesses of one view meet only
    where their elements have the same place in it.
  }];
  let arguments = (ins AnyTypeOf<[Tile_Ints, Tile_Ptrs]>:$source, Tile_PtrType:$base,
                       Variadic<AnySignlessInteger>:$extents, Variadic<AnySignlessInteger>:$strides,
                       Variadic<AnySignlessInteger>:$offsets);
  let results = (outs AnyTypeOf<[Tile_Ints, Tile_Ptrs]>:$result);
  let assemblyFormat = [{
    $source `in` $base `,` `[` $extents `]` `,` `[` $strides `]` `at` `[` $offsets `]` attr-dict `:` type($source) `,`
    qualified(type($base)) `,` `[` type($extents) `]` `,` `[` type($strides) `]` `,` `[` type($offsets) `]`
  }];
  let hasVerifier = 1;
}

def Cta_ExtractSliceOp : Cta_Op<"extract_slice", [Pure]> {
  let summary = "part `index` of `count` equal parts of a tile along a dimension";
  let description = "Each thread holds as much of every part, and keeps it: nothing moves.";
  let arguments = (ins Tile_Tensor:$source, I32Attr:$dim, I32Attr:$count, I32Attr:$index);
  let results = (outs Tile_Tensor:$result);
  let assemblyFormat = "$source `[` $index `of` $count `]` `along` $dim attr-dict `:` type($source) `->` type($result)";
  let builders = [OpBuilder<(ins "mlir::Value":$source, "unsigned":$dim, "unsigned":$count, "unsigned":$index)>];
  let hasVerifier = 1;
}

def Cta_DotOp : Cta_Op<"dot", [AllTypesMatch<["acc", "result"]>,
    DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let summary = "acc + a · b by matrix instructions of a shape, or by fused multiply-adds";
  let description = [{
    `instruction` is [m, n, k] of one matrix instruction (`Target::mmas`), or absent for fused multiply-adds.
    An operand is a tile, in the layout that the instruction needs for this accumulator's layout, or a shared buffer,
    which is read piece by piece just before each instruction. With fused multiply-adds both operands are buffers.
  }];
  let arguments = (ins AnyTypeOf<[Tile_Tensor, Cta_BufferType]>:$a, AnyTypeOf<[Tile_Tensor, Cta_BufferType]>:$b,
                       Tile_Tensor:$acc,
                       OptionalAttr<DenseI32ArrayAttr>:$instruction,
                       DefaultValuedAttr<Tile_Precision, "::sectile::tile::Precision::TF32">:$precision);
  let results = (outs Tile_Tensor:$result);
  let assemblyFormat = [{
    $a `,` $b `,` $acc (`by` $instruction^)? attr-dict `:` type($a) `,` type($b) `,` type($acc)
  }];
  let hasVerifier = 1;
}

def Cta_DotStartOp : Cta_Op<"dot_start", [DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let summary = "begin acc + a · b; the sums are in flight until `cta.dot_wait`";
  let description = [{
    As `cta.dot`, of a matrix instruction. Operands in shared memory are read at any time until the wait: what is in a
    channel may not be released before it. The accumulator is a tile, or in flight itself. What is in flight has one
    user: the wait, the next `dot_start`, or a loop that carries it on. Where the instruction is complete when the
    threads go on, `lower-channels` makes it a `cta.dot`.
  }];
  let arguments = (ins AnyTypeOf<[Tile_Tensor, Cta_BufferType]>:$a, AnyTypeOf<[Tile_Tensor, Cta_BufferType]>:$b,
                       AnyTypeOf<[Tile_Tensor, Cta_InFlightType]>:$acc,
                       DenseI32ArrayAttr:$instruction,
                       DefaultValuedAttr<Tile_Precision, "::sectile::tile::Precision::TF32">:$precision);
  let results = (outs Cta_InFlightType:$result);
  let assemblyFormat = [{
    $a `,` $b `,` $acc `by` $instruction attr-dict `:` type($a) `,` type($b) `,` type($acc) `->` qualified(type($result))
  }];
  let hasVerifier = 1;
}

def Cta_DotBeginOp : Cta_Op<"dot_begin", [MemoryEffects<[MemAlloc<Cta_Accumulators>]>,
    TypesMatchWith<"the tile in flight", "result", "sums", "::llvm::cast<::sectile::cta::InFlightType>($_self).getTile()">]> {
  let summary = "a tile as sums in flight, to which no dot adds yet";
  let description = [{
    It takes the registers of the sums. So it stays in its loop, though it could leave it: a loop around would keep them
    beside those of each iteration, and the instructions that follow run one after another for want of registers.
  }];
  let arguments = (ins Tile_Tensor:$sums);
  let results = (outs Cta_InFlightType:$result);
  let assemblyFormat = "$sums attr-dict `:` qualified(type($result))";
}

def Cta_DotsWaitOp : Cta_Op<"dots_wait", [MemoryEffects<[MemRead<Cta_SharedMemory>, MemWrite<Cta_SharedMemory>]>]> {
  let summary = "wait until at most `pending` dots are in flight: the others have read their operands";
  let arguments = (ins ConfinedAttr<I32Attr, [IntNonNegative]>:$pending);
  let assemblyFormat = "$pending attr-dict";
}

def Cta_DotWaitOp : Cta_Op<"dot_wait", [MemoryEffects<[MemFree<Cta_Accumulators>]>,
    TypesMatchWith<"the tile in flight", "dot", "sums", "::llvm::cast<::sectile::cta::InFlightType>($_self).getTile()">]> {
  let summary = "the sums of a dot in flight, once they are there";
  let description = [{
    Dots complete in the order in which they were started: at most the `pending` latest are in flight afterwards, so the
    wait stays where nobody needs the sums. `before` is a tile that is there at the wait, and `after` the same tile,
    which comes behind it. So threads compute as long as they can beside the dot, and what they compute from `after`
    takes no registers that it reads.
  }];
  let arguments = (ins Cta_InFlightType:$dot, Optional<Tile_Tensor>:$before,
                       DefaultValuedAttr<ConfinedAttr<I32Attr, [IntNonNegative]>, "0">:$pending);
  let results = (outs Tile_Tensor:$sums, Optional<Tile_Tensor>:$after);
  let assemblyFormat = "$dot (`behind` $before^)? attr-dict `:` qualified(type($dot)) (`,` type($before)^ `->` type($after))?";
  let hasVerifier = 1;
}

def Cta_AllocOp : Cta_Op<"alloc", [MemoryEffects<[MemAlloc<Cta_SharedMemory>]>]> {
  let summary = "shared buffer; `offset` in bytes once placed; with `init`, holding that tile";
  let arguments = (ins Optional<Tile_Tensor>:$init, OptionalAttr<I32Attr>:$offset);
  let results = (outs Cta_BufferType:$result);
  let assemblyFormat = "($init^)? attr-dict `:` qualified(type($result)) (`from` type($init)^)?";
  let hasVerifier = 1;
}

def Cta_LocalLoadOp : Cta_Op<"local_load", [MemoryEffects<[MemRead<Cta_SharedMemory>]>]> {
  let summary = "read a shared buffer into registers";
  let arguments = (ins Cta_BufferType:$buffer);
  let results = (outs Tile_Tensor:$result);
  let assemblyFormat = "$buffer attr-dict `:` qualified(type($buffer)) `->` type($result)";
  let hasVerifier = 1;
}

def Cta_LocalStoreOp : Cta_Op<"local_store", [MemoryEffects<[MemWrite<Cta_SharedMemory>]>]> {
  let summary = "write registers to a shared buffer";
  let arguments = (ins Tile_Tensor:$value, Cta_BufferType:$buffer);
  let assemblyFormat = "$value `,` $buffer attr-dict `:` type($value) `,` qualified(type($buffer))";
  let hasVerifier = 1;
}

def Cta_PermuteBufferOp : Cta_Op<"permute_buffer", [Pure]> {
  let summary = "the same buffer with its axes reordered";
  let arguments = (ins Cta_BufferType:$source, DenseI32ArrayAttr:$order);
  let results = (outs Cta_BufferType:$result);
  let assemblyFormat = "$source $order attr-dict `:` qualified(type($source)) `->` qualified(type($result))";
  let hasVerifier = 1;
}

def Cta_AsyncCopyOp : Cta_Op<"async_copy", [AttrSizedOperandSegments,
    MemoryEffects<[MemRead, MemWrite<Cta_SharedMemory>]>]> {
  let summary = "copy from global to shared memory without waiting; where the mask is false the buffer gets zeros";
  let description = [{
    The pointers' layout says which thread copies what; `vector` consecutive registers go as one copy of 4, 8 or 16
    bytes. `filled`: where it is false nothing is copied, and nobody reads this use of the buffer.
  }];
  let arguments = (ins TensorOf<[Tile_PtrType]>:$ptr, Cta_BufferType:$buffer, Optional<TensorOf<[I1]>>:$mask,
                       Optional<I1>:$filled, DefaultValuedAttr<Tile_Cache, "::sectile::tile::Cache::Default">:$cache,
                       DefaultValuedAttr<Tile_Eviction, "::sectile::tile::Eviction::Normal">:$eviction,
                       OptionalAttr<I32Attr>:$vector);
  let assemblyFormat = [{
    $ptr `,` $buffer (`mask` $mask^)? (`filled` $filled^)? attr-dict
    `:` type($ptr) `,` qualified(type($buffer)) (`mask` type($mask)^)?
  }];
  let hasVerifier = 1;
}

def Cta_AsyncCopyBlockOp : Cta_Op<"async_copy_block", [AttrSizedOperandSegments,
    MemoryEffects<[MemRead, MemWrite<Cta_SharedMemory>]>]> {
  let summary = "async_copy from a block of a view; beyond its edges, and without `when` everywhere, the buffer gets zeros";
  let description = "`layout` says which thread copies what. `lower-views` turns it into the form that the target has.";
  let arguments = (ins Tile_ViewType:$view, Variadic<AnySignlessInteger>:$offsets, Cta_BufferType:$buffer,
                       Optional<I1>:$when, Optional<I1>:$filled, Cta_LayoutAttr:$layout,
                       DefaultValuedAttr<Tile_Cache, "::sectile::tile::Cache::Default">:$cache,
                       DefaultValuedAttr<Tile_Eviction, "::sectile::tile::Eviction::Normal">:$eviction,
                       OptionalAttr<I32Attr>:$vector);
  let assemblyFormat = [{
    $view `[` $offsets `]` `,` $buffer (`when` $when^)? (`filled` $filled^)? attr-dict `:` qualified(type($view)) `,`
    `[` type($offsets) `]` `,` qualified(type($buffer))
  }];
  let hasVerifier = 1;
}

def Cta_TensorCopyBlockOp : Cta_Op<"tensor_copy_block", [AttrSizedOperandSegments,
    MemoryEffects<[MemRead, MemWrite<Cta_SharedMemory>]>]> {
  let summary = "copy a block of a view to shared memory by the copy engine; beyond its edges the buffer gets zeros";
  let description = [{
    The buffer has the view's last dimensions; of those before them it is one position. Or, with `lines`, the buffer's first
    dimension counts the lines of a block of more dimensions, of these extents ahead of the last. One thread has it done, and
    nobody waits. Where `when` is false nothing is copied. The bytes count for the mbarrier that
    `lower-channels` gives it; `expects`: those of all copies into this use of the channel, which the first of them says.
    `filled`: where it is false no bytes come, of any copy into this use, and nobody reads it, but the use is signalled.
    `shared`: both blocks of a cluster copy the same, so that each copies one half of it to both.
    `lower-views` turns it into a `tensor_copy`.
  }];
  let arguments = (ins Tile_ViewType:$view, Variadic<AnySignlessInteger>:$offsets, Cta_BufferType:$buffer,
                       Optional<Cta_MbarriersType>:$barriers, Optional<I32>:$index, Optional<I1>:$when,
                       Optional<I1>:$filled, DefaultValuedAttr<I32Attr, "0">:$expects, UnitAttr:$shared,
                       OptionalAttr<DenseI64ArrayAttr>:$lines);
  let assemblyFormat = [{
    $view `[` $offsets `]` `,` $buffer (`lines` $lines^)? (`shared` $shared^)? (`signals` $barriers^ `[` $index `]`)? (`when` $when^)?
    (`filled` $filled^)? attr-dict
    `:` qualified(type($view)) `,` `[` type($offsets) `]` `,` qualified(type($buffer)) (`,` qualified(type($barriers))^)?
  }];
  let hasVerifier = 1;
}

def Cta_TensorCopyOp : Cta_Op<"tensor_copy", [AttrSizedOperandSegments,
    MemoryEffects<[MemRead, MemWrite<Cta_SharedMemory>]>]> {
  let summary = "tensor_copy_block of a tensor map";
  let description = [{
    `coordinates`: of the buffer's first element, in the map's dimensions. The contiguous one is first, then the buffer's other
    one, then those that it has none of.
  }];
  let arguments = (ins Cta_TensorMapType:$map, Variadic<I32>:$coordinates, Cta_BufferType:$buffer,
                       Cta_MbarriersType:$barriers, I32:$index, Optional<I1>:$when, Optional<I1>:$filled,
                       DefaultValuedAttr<I32Attr, "0">:$expects, UnitAttr:$shared);
  let assemblyFormat = [{
    $map `[` $coordinates `]` `,` $buffer (`shared` $shared^)? `signals` $barriers `[` $index `]` (`when` $when^)?
    (`filled` $filled^)? attr-dict
    `:` qualified(type($map)) `,` qualified(type($buffer)) `,` qualified(type($barriers))
  }];
  let hasVerifier = 1;
}

def Cta_TensorStoreBlockOp : Cta_Op<"tensor_store_block", [MemoryEffects<[MemWrite, MemRead<Cta_SharedMemory>]>]> {
  let summary = "store a buffer to a block of a view by the copy engine; what is beyond its edges is not stored";
  let description = [{
    The buffer has the view's last dimensions, or `lines`, as that of a `tensor_copy_block`. One thread has it done, and nobody
    waits: until a `tensor_store_wait` the engine may read the buffer. `lower-views` turns it into a `tensor_store`.

    Where it `adds`, it adds to memory, as a relaxed `atomic_block` of the device does: f16 and bf16.
  }];
  let arguments = (ins Tile_ViewType:$view, Variadic<AnySignlessInteger>:$offsets, Cta_BufferType:$buffer,
                       UnitAttr:$adds, OptionalAttr<DenseI64ArrayAttr>:$lines);
  let assemblyFormat = [{
    $view `[` $offsets `]` `,` $buffer (`lines` $lines^)? (`adds` $adds^)? attr-dict `:` qualified(type($view)) `,` `[` type($offsets) `]` `,`
    qualified(type($buffer))
  }];
  let hasVerifier = 1;
}

def Cta_TensorStoreOp : Cta_Op<"tensor_store", [MemoryEffects<[MemWrite, MemRead<Cta_SharedMemory>]>]> {
  let summary = "tensor_store_block of a tensor map";
  let description = "`coordinates`: as those of `tensor_copy`.";
  let arguments = (ins Cta_TensorMapType:$map, Variadic<I32>:$coordinates, Cta_BufferType:$buffer,
                       UnitAttr:$adds);
  let assemblyFormat = [{
    $map `[` $coordinates `]` `,` $buffer (`adds` $adds^)? attr-dict `:` qualified(type($map)) `,` qualified(type($buffer))
  }];
  let hasVerifier = 1;
}

def Cta_TensorStoreWaitOp : Cta_Op<"tensor_store_wait",
    [AttrSizedOperandSegments,
    MemoryEffects<[MemRead<Cta_SharedMemory>, MemWrite<Cta_SharedMemory>]>]> {
  let summary = "wait until the copy engine has read these buffers, of all stores so far";
  let description = [{
    The thread that had them stored waits: the others see it after a barrier. `later`: how many stores came after theirs,
    which may still be in flight. `written`: until memory has what they store, too. Where `when` is false there is nothing
    to wait for.
  }];
  let arguments = (ins Variadic<Cta_BufferType>:$buffers, Optional<I1>:$when,
                       DefaultValuedAttr<ConfinedAttr<I32Attr, [IntNonNegative]>, "0">:$later, UnitAttr:$written);
  let assemblyFormat = "$buffers (`when` $when^)? (`written` $written^)? attr-dict `:` qualified(type($buffers))";
}

def Cta_MbarriersOp : Cta_Op<"mbarriers", [MemoryEffects<[MemAlloc<Cta_SharedMemory>, MemWrite<Cta_SharedMemory>]>]> {
  let summary = "make mbarriers, each for so many `arrivals` a phase; `offset` in bytes once placed";
  let description = "One thread does it: the others see them after a barrier. `by_hand`: the kernel states who arrives and waits.";
  let arguments = (ins OptionalAttr<I32Attr>:$offset,
                       DefaultValuedAttr<ConfinedAttr<I32Attr, [IntPositive]>, "1">:$arrivals, UnitAttr:$by_hand);
  let results = (outs Cta_MbarriersType:$result);
  let assemblyFormat = "attr-dict `:` qualified(type($result))";
}

def Cta_MbarrierWaitOp : Cta_Op<"mbarrier_wait", [MemoryEffects<[MemRead<Cta_SharedMemory>, MemWrite<Cta_SharedMemory>]>]> {
  let summary = "wait until the phase of this parity of an mbarrier is over: what was copied can be read";
  let arguments = (ins Cta_MbarriersType:$barriers, I32:$index, I32:$parity);
  let assemblyFormat = "$barriers `[` $index `]` `parity` $parity attr-dict `:` qualified(type($barriers))";
}

def Cta_MbarrierArriveOp : Cta_Op<"mbarrier_arrive", [AttrSizedOperandSegments,
    MemoryEffects<[MemRead<Cta_SharedMemory>, MemWrite<Cta_SharedMemory>]>]> {
  let summary = "each warp has read these buffers, or `written` them, and says so at an mbarrier; where `when` is false it does not";
  let description = "One lane of a warp arrives for all, after what they did.";
  let arguments = (ins Variadic<Cta_BufferType>:$buffers, Cta_MbarriersType:$barriers, I32:$index, Optional<I1>:$when,
                       UnitAttr:$written);
  let assemblyFormat = [{
    (`written` $written^)? $buffers `at` $barriers `[` $index `]` (`when` $when^)? attr-dict `:` qualified(type($buffers)) `at` qualified(type($barriers))
  }];
}

def Cta_MbarrierSignalOp : Cta_Op<"mbarrier_signal", [MemoryEffects<[MemRead<Cta_SharedMemory>, MemWrite<Cta_SharedMemory>]>]> {
  let summary = "arrive at an mbarrier that is `by_hand`: each warp, or the one thread of a partition that only copies";
  let arguments = (ins Cta_MbarriersType:$barriers, I32:$index);
  let assemblyFormat = "$barriers `[` $index `]` attr-dict `:` qualified(type($barriers))";
}

def Cta_PartitionOp : Cta_Op<"partition", [SingleBlock, NoTerminator, RecursiveMemoryEffects]> {
  let summary = "run the region beside the rest of the kernel, by warps of its own";
  let description = [{
    A launch has `warps` more warps, numbered after the others. They do what is before the operation, which is to make channels
    and mbarriers and to meet, and then the region. The other warps go on behind it, with the next partition or with the rest
    of the kernel. From there on, barriers are for the warps of each alone.

    One thread does the region: it holds scalars, copies by the engine, and waits. Where it `computes`, all of its warps do,
    in layouts for as many.

    `registers`: of a thread of the region, and of the rest, from there on; empty where they keep what they have.
  }];
  let arguments = (ins ConfinedAttr<I32Attr, [IntPositive]>:$warps, DenseI32ArrayAttr:$registers, UnitAttr:$computes);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "(`computes` $computes^)? `warps` $warps `registers` $registers $body attr-dict";
}

def Cta_ClusterBarrierOp : Cta_Op<"cluster_barrier", [MemoryEffects<[MemRead<Cta_SharedMemory>, MemWrite<Cta_SharedMemory>]>]> {
  let summary = "wait for all threads of the cluster; from here on its other block may write to these rings";
  let arguments = (ins Variadic<Cta_ChannelType>:$channels);
  let assemblyFormat = "$channels attr-dict `:` qualified(type($channels))";
}

def Cta_ClusterAcquireOp : Cta_Op<"cluster_acquire", [AttrSizedOperandSegments,
    MemoryEffects<[MemRead<Cta_SharedMemory>, MemWrite<Cta_SharedMemory>]>]> {
  let summary = "until these buffers are free to be overwritten in both blocks of a cluster";
  let description = [{
    The thread that has copies done arrives at the other block's mbarrier, to say that its own block has read the buffers, and waits
    for the same: for the phase of this parity of its own. Where `when` is false it does neither.
  }];
  let arguments = (ins Variadic<Cta_BufferType>:$buffers, Cta_MbarriersType:$barriers, I32:$index, I32:$parity,
                       Optional<I1>:$when);
  let assemblyFormat = [{
    $buffers `by` $barriers `[` $index `]` `parity` $parity (`when` $when^)? attr-dict
    `:` qualified(type($buffers)) `by` qualified(type($barriers))
  }];
}

def Cta_BufferLoadOp : Cta_Op<"buffer_load", [AttrSizedOperandSegments, MemoryEffects<[MemRead]>]> {
  let summary = "read global memory at offsets from one address; where the mask is false the element is `other`, or zero";
  let description = [{
    Only for targets with `Target::bufferAccess`. Offsets count elements, are not negative, and stay below 2^31 bytes where
    the mask is true. `vector`: as in `tile.load`.
  }];
  let arguments = (ins Tile_PtrType:$base, TensorOf<[I32]>:$offsets, Optional<TensorOf<[I1]>>:$mask,
                       Optional<Tile_Tensor>:$other,
                       DefaultValuedAttr<Tile_Cache, "::sectile::tile::Cache::Default">:$cache,
                       DefaultValuedAttr<Tile_Eviction, "::sectile::tile::Eviction::Normal">:$eviction,
                       OptionalAttr<I32Attr>:$vector);
  let results = (outs Tile_Tensor:$result);
  let assemblyFormat = [{
    $base `[` $offsets `]` (`mask` $mask^)? (`other` $other^)? attr-dict `:` qualified(type($base)) `,` type($offsets)
    (`mask` type($mask)^)? (`other` type($other)^)? `->` type($result)
  }];
  let hasVerifier = 1;
}

def Cta_BufferStoreOp : Cta_Op<"buffer_store", [MemoryEffects<[MemWrite]>]> {
  let summary = "write global memory at offsets from one address; where the mask is false nothing is written";
  let description = "As buffer_load.";
  let arguments = (ins Tile_PtrType:$base, TensorOf<[I32]>:$offsets, Tile_Tensor:$value, Optional<TensorOf<[I1]>>:$mask,
                       DefaultValuedAttr<Tile_Cache, "::sectile::tile::Cache::Default">:$cache,
                       DefaultValuedAttr<Tile_Eviction, "::sectile::tile::Eviction::Normal">:$eviction,
                       OptionalAttr<I32Attr>:$vector);
  let assemblyFormat = [{
    $base `[` $offsets `]` `,` $value (`mask` $mask^)? attr-dict `:` qualified(type($base)) `,` type($offsets) `,`
    type($value) (`mask` type($mask)^)?
  }];
  let hasVerifier = 1;
}

def Cta_AsyncCommitOp : Cta_Op<"async_commit", [MemoryEffects<[MemRead<Cta_SharedMemory>, MemWrite<Cta_SharedMemory>]>]> {
  let summary = "close the group of the copies issued since the last one";
  let assemblyFormat = "attr-dict";
}

def Cta_AsyncWaitOp : Cta_Op<"async_wait", [MemoryEffects<[MemRead<Cta_SharedMemory>, MemWrite<Cta_SharedMemory>]>]> {
  let summary = "wait until at most `pending` groups of this thread's copies are in flight";
  let arguments = (ins ConfinedAttr<I32Attr, [IntNonNegative]>:$pending);
  let assemblyFormat = "$pending attr-dict";
}

def Cta_BarrierOp : Cta_Op<"barrier", [MemoryEffects<[MemRead<Cta_SharedMemory>, MemWrite<Cta_SharedMemory>]>]> {
  let summary = "all threads of the block arrive before any goes on; orders shared memory";
  let assemblyFormat = "attr-dict";
}

def Cta_TurnWaitOp : Cta_Op<"turn_wait", [MemoryEffects<[MemRead<Cta_SharedMemory>, MemWrite<Cta_SharedMemory>]>]> {
  let summary = "a warpgroup waits until the one before it has passed the turn on";
  let description = [{
    The first one waits for the last. `outside`: the first one alone waits, which takes the turn that is left when all have had the
    same number of them.
  }];
  let arguments = (ins UnitAttr:$outside);
  let assemblyFormat = "(`outside` $outside^)? attr-dict";
}

def Cta_TurnPassOp : Cta_Op<"turn_pass", [MemoryEffects<[MemRead<Cta_SharedMemory>, MemWrite<Cta_SharedMemory>]>]> {
  let summary = "a warpgroup passes the turn on to the next one, and does not wait";
  let description = "`outside`: the last one alone passes, so that the first may begin.";
  let arguments = (ins UnitAttr:$outside);
  let assemblyFormat = "(`outside` $outside^)? attr-dict";
}

def Cta_ProxyFenceOp : Cta_Op<"proxy_fence", [MemoryEffects<[MemRead<Cta_SharedMemory>, MemWrite<Cta_SharedMemory>]>]> {
  let summary = "what this thread wrote to shared memory is there for instructions that read it themselves";
  let description = "After the next barrier, that is: it orders the writes of each thread, not of all.";
  let assemblyFormat = "attr-dict";
}

def Cta_ChannelOp : Cta_Op<"channel", [MemoryEffects<[MemAlloc<Cta_SharedMemory>]>]> {
  let summary = "make a channel; `offset` in bytes once placed";
  let description = [{
    `between_warps`: other warps may fill it than read it. Each use is handed back at an mbarrier then, where a producer
    waits that acquires the slot again. The engine fills such channels.

    `by_hand`: the program itself says when it is filled and read. Mistakes are the user's, and no pass moves its uses.
  }];
  let arguments = (ins OptionalAttr<I32Attr>:$offset, UnitAttr:$between_warps, UnitAttr:$by_hand);
  let results = (outs Cta_ChannelType:$result);
  let assemblyFormat = "attr-dict `:` qualified(type($result))";
}

class Cta_ChannelUseOp<string mnemonic, string text> : Cta_Op<mnemonic,
    [MemoryEffects<[MemRead<Cta_SharedMemory>, MemWrite<Cta_SharedMemory>]>]> {
  let summary = text;
}

def Cta_AcquireOp : Cta_ChannelUseOp<"acquire", "producer: the buffer of use `slot`, free to be overwritten"> {
  let arguments = (ins Cta_ChannelType:$channel, I32:$slot);
  let results = (outs Cta_BufferType:$buffer);
  let assemblyFormat = "$channel `[` $slot `]` attr-dict `:` qualified(type($channel)) `->` qualified(type($buffer))";
  let hasVerifier = 1;
}

def Cta_CommitOp : Cta_ChannelUseOp<"commit", "producer: all copies into use `slot` are issued"> {
  let arguments = (ins Variadic<Cta_ChannelType>:$channels, I32:$slot);
  let assemblyFormat = "$channels `[` $slot `]` attr-dict `:` qualified(type($channels))";
}

def Cta_WaitOp : Cta_ChannelUseOp<"wait", "consumer: until the data of use `slot` can be read; gives the buffers"> {
  let arguments = (ins Variadic<Cta_ChannelType>:$channels, I32:$slot);
  let results = (outs Variadic<Cta_BufferType>:$buffers);
  let assemblyFormat = "$channels `[` $slot `]` attr-dict `:` qualified(type($channels)) `->` qualified(type($buffers))";
  let hasVerifier = 1;
}

def Cta_ReleaseOp : Cta_ChannelUseOp<"release", "consumer: use `slot` has been read"> {
  let description = [{
    `previous`: the use before `slot` has been read, by a dot that was in flight over the end of an iteration. A loop with
    such a release is one use behind: its first iteration releases nothing, and another release behind the loop the last use.
  }];
  let arguments = (ins Variadic<Cta_ChannelType>:$channels, I32:$slot, UnitAttr:$previous);
  let assemblyFormat = "(`previous` $previous^)? $channels `[` $slot `]` attr-dict `:` qualified(type($channels))";
}

def Cta_SlotOp : Cta_Op<"slot", [Pure]> {
  let summary = "the buffer that is slot `index` of a channel, without any waiting";
  let arguments = (ins Cta_ChannelType:$channel, I32:$index);
  let results = (outs Cta_BufferType:$buffer);
  let assemblyFormat = "$channel `[` $index `]` attr-dict `:` qualified(type($channel)) `->` qualified(type($buffer))";
  let hasVerifier = 1;
}

class Cta_RingOp<string mnemonic, string text> : Cta_Op<mnemonic, [Pure]> {
  let summary = text;
  let description = [{
    A position in a ring of n slots says what a thread needs of the number of a use, its remainder and the parity of its
    quotient by n, so that no thread divides: the slot in its lower 16 bits, the round above them. Where n is a power of two,
    it is the number of the use. `positionOf` makes one.
  }];
  let results = (outs I32:$result);
  let extraClassDeclaration = [{
    /// Of a position that is known.
    uint32_t resultOf(uint32_t position);
  }];
}
def Cta_RingAdvanceOp : Cta_RingOp<"ring_advance", "the position that is so many uses further"> {
  let arguments = (ins I32:$position, ConfinedAttr<I32Attr, [IntPositive]>:$by, ConfinedAttr<I32Attr, [IntPositive]>:$slots);
  let assemblyFormat = "$position `by` $by `of` $slots attr-dict";
}
def Cta_RingSlotOp : Cta_RingOp<"ring_slot", "the slot at a position"> {
  let arguments = (ins I32:$position, ConfinedAttr<I32Attr, [IntPositive]>:$slots);
  let assemblyFormat = "$position `of` $slots attr-dict";
}
def Cta_RingParityOp : Cta_RingOp<"ring_parity", "the parity of the round of a position, or of the round before"> {
  let arguments = (ins I32:$position, ConfinedAttr<I32Attr, [IntPositive]>:$slots, UnitAttr:$before);
  let assemblyFormat = "$position `of` $slots (`before` $before^)? attr-dict";
}

//===-- Debugging: what `lower-debug` makes of assertions and prints; runtime/DebugLog.h has the log's form ------------===//

def Cta_AssertOp : Cta_Op<"assert", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "where the condition is false, write that into the log and end the program";
  let description = [{
    The condition is the same in all threads. `index`: which element of a tile did not hold. The effects are those of
    what would follow: nothing moves across.
  }];
  let arguments = (ins I1:$condition, Tile_PtrType:$log, I64:$launch, I32Attr:$site, Optional<I32>:$index);
  let assemblyFormat = [{
    $condition `,` $log `,` $launch `site` $site (`index` $index^)? attr-dict `:` qualified(type($log))
  }];
}

def Cta_AddressOp : Cta_Op<"address", [Pure]> {
  let summary = "pointers as numbers, in bytes";
  let arguments = (ins Tile_Ptrs:$source);
  let results = (outs AnyTypeOf<[I64, TensorOf<[I64]>]>:$result);
  let assemblyFormat = "$source attr-dict `:` qualified(type($source)) `->` type($result)";
}

def Cta_RecordOp : Cta_Op<"record", [MemoryEffects<[MemWrite<Tile_DebugResource>, MemWrite<Cta_SharedMemory>]>]> {
  let summary = "reserve room in the log for what one program prints, and write the record's head";
  let description = [{
    Gives whether there was room, and where each of the values goes: `starts`, in bytes from the end of the head.
    `bytes` counts the head. `offset`: where in shared memory its scratch is, in bytes, once placed.
  }];
  let arguments = (ins Tile_PtrType:$log, I64:$launch, I32Attr:$site, ConfinedAttr<I32Attr, [IntPositive]>:$bytes,
                       DenseI32ArrayAttr:$starts, OptionalAttr<I32Attr>:$offset);
  let results = (outs I1:$fits, Variadic<Tile_PtrType>:$values);
  let assemblyFormat = [{
    $log `,` $launch `site` $site `bytes` $bytes `at` $starts attr-dict `:` qualified(type($log))
    (`->` qualified(type($values))^)?
  }];
  let hasVerifier = 1;
}

#endif
