// The `tile` operations: what a program computes on tiles, for no chip in particular.
#ifndef SECTILE_IR_TILE_OPS
#define SECTILE_IR_TILE_OPS

include "ir/tile/TileTypes.td"

//===-- Operations --------------------------------------------------------------------------------------------------===//

class Tile_Op<string mnemonic, list<Trait> traits = []> : Op<Tile_Dialect, mnemonic, traits>;

def Tile_ProgramIdOp : Tile_Op<"program_id", [Pure]> {
  let summary = "index of this program along an axis of the grid";
  let arguments = (ins ConfinedAttr<I32Attr, [IntNonNegative, IntMaxValue<2>]>:$axis);
  let results = (outs I32:$result);
  let assemblyFormat = "$axis attr-dict";
}

def Tile_NumProgramsOp : Tile_Op<"num_programs", [Pure]> {
  let summary = "extent of the grid along an axis";
  let arguments = (ins ConfinedAttr<I32Attr, [IntNonNegative, IntMaxValue<2>]>:$axis);
  let results = (outs I32:$result);
  let assemblyFormat = "$axis attr-dict";
}

def Tile_ArangeOp : Tile_Op<"arange", [Pure]> {
  let summary = "the integers start, start + 1, … as a tile of rank 1";
  let arguments = (ins I32Attr:$start);
  let results = (outs 1DTensorOf<[I32]>:$result);
  let assemblyFormat = "$start attr-dict `:` type($result)";
}

def Tile_SplatOp : Tile_Op<"splat", [Pure]> {
  let summary = "tile with every element equal to a scalar";
  let arguments = (ins AnyTypeOf<[Tile_Scalar, Tile_PtrType]>:$source);
  let results = (outs Tile_Tensor:$result);
  let assemblyFormat = "$source attr-dict `:` type($source) `->` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

def Tile_ExpandDimsOp : Tile_Op<"expand_dims", [Pure]> {
  let summary = "insert an axis of extent 1";
  let arguments = (ins Tile_Tensor:$source, ConfinedAttr<I32Attr, [IntNonNegative]>:$axis);
  let results = (outs Tile_Tensor:$result);
  let assemblyFormat = "$source $axis attr-dict `:` type($source) `->` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

def Tile_BroadcastOp : Tile_Op<"broadcast", [Pure]> {
  let summary = "repeat along every axis where the source's extent is 1";
  let arguments = (ins Tile_Tensor:$source);
  let results = (outs Tile_Tensor:$result);
  let assemblyFormat = "$source attr-dict `:` type($source) `->` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

def Tile_ReshapeOp : Tile_Op<"reshape", [Pure]> {
  let summary = "the same elements in row-major order under another shape";
  let arguments = (ins Tile_Tensor:$source);
  let results = (outs Tile_Tensor:$result);
  let assemblyFormat = "$source attr-dict `:` type($source) `->` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

def Tile_PermuteOp : Tile_Op<"permute", [Pure]> {
  let summary = "reorder the axes: axis i of the result is axis order[i] of the source";
  let arguments = (ins Tile_Tensor:$source, DenseI32ArrayAttr:$order);
  let results = (outs Tile_Tensor:$result);
  let assemblyFormat = "$source $order attr-dict `:` type($source) `->` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

def Tile_AddPtrOp : Tile_Op<"addptr", [Pure, AllTypesMatch<["ptr", "result"]>]> {
  let summary = "move pointers by a number of elements";
  let arguments = (ins Tile_Ptrs:$ptr, Tile_Ints:$offset);
  let results = (outs Tile_Ptrs:$result);
  let assemblyFormat = "$ptr `,` $offset attr-dict `:` type($ptr) `,` type($offset)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

def Tile_LoadOp : Tile_Op<"load", [AttrSizedOperandSegments,
    DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let summary = "read what pointers point to";
  let description = [{
    Where the mask is false nothing is read and the element is `other`, or zero without one. `vector` is set once
    layouts are known: how many consecutive registers of a thread hold neighbours in memory with one mask value.
  }];
  let arguments = (ins Tile_Ptrs:$ptr, Optional<Tile_Mask>:$mask, Optional<Tile_Values>:$other,
                       DefaultValuedAttr<Tile_Cache, "Cache::Default">:$cache,
                       DefaultValuedAttr<Tile_Eviction, "Eviction::Normal">:$eviction,
                       UnitAttr:$isVolatile, OptionalAttr<I32Attr>:$vector);
  let results = (outs AnyType:$result);
  let assemblyFormat = [{
    $ptr (`mask` $mask^)? (`other` $other^)? attr-dict `:` type($ptr) (`mask` type($mask)^)? (`other` type($other)^)?
    `->` type($result)
  }];
  let hasVerifier = 1;
  let builders = [OpBuilder<(ins "::mlir::Value":$ptr, CArg<"::mlir::Value", "{}">:$mask,
                                 CArg<"::mlir::Value", "{}">:$other)>];
}

def Tile_StoreOp : Tile_Op<"store", [MemoryEffects<[MemWrite]>]> {
  let summary = "write to where pointers point; where the mask is false nothing is written";
  let arguments = (ins Tile_Ptrs:$ptr, AnyType:$value, Optional<Tile_Mask>:$mask,
                       DefaultValuedAttr<Tile_Cache, "Cache::Default">:$cache,
                       DefaultValuedAttr<Tile_Eviction, "Eviction::Normal">:$eviction,
                       OptionalAttr<I32Attr>:$vector);
  let assemblyFormat = [{
    $ptr `,` $value (`mask` $mask^)? attr-dict `:` type($ptr) `,` type($value) (`mask` type($mask)^)?
  }];
  let hasVerifier = 1;
  let builders = [OpBuilder<(ins "::mlir::Value":$ptr, "::mlir::Value":$value,
                                 CArg<"::mlir::Value", "{}">:$mask)>];
}

def Tile_MakeViewOp : Tile_Op<"make_view", [Pure, AttrSizedOperandSegments]> {
  let summary = "tensor in global memory from its address, extents and strides (in elements)";
  let arguments = (ins Tile_PtrType:$ptr, Variadic<AnySignlessInteger>:$extents,
                       Variadic<AnySignlessInteger>:$strides);
  let results = (outs Tile_ViewType:$result);
  let assemblyFormat = [{
    $ptr `,` `[` $extents `]` `,` `[` $strides `]` attr-dict `:` qualified(type($ptr)) `,` `[` type($extents) `]` `,`
    `[` type($strides) `]` `->` qualified(type($result))
  }];
  let hasVerifier = 1;
}

def Tile_LoadBlockOp : Tile_Op<"load_block", [DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let summary = "read a block of a view; elements beyond its edges are `padding`, or zero without one";
  let arguments = (ins Tile_ViewType:$view, Variadic<AnySignlessInteger>:$offsets,
                       OptionalAttr<TypedAttrInterface>:$padding,
                       DefaultValuedAttr<Tile_Cache, "Cache::Default">:$cache,
                       DefaultValuedAttr<Tile_Eviction, "Eviction::Normal">:$eviction);
  let results = (outs Tile_Tensor:$result);
  let assemblyFormat = [{
    $view `[` $offsets `]` (`padding` $padding^)? attr-dict `:` qualified(type($view)) `,` `[` type($offsets) `]` `->`
    type($result)
  }];
  let hasVerifier = 1;
}

def Tile_StoreBlockOp : Tile_Op<"store_block", [MemoryEffects<[MemWrite]>]> {
  let summary = "write a block of a view; elements beyond its edges are dropped";
  let arguments = (ins Tile_ViewType:$view, Variadic<AnySignlessInteger>:$offsets, Tile_Tensor:$value,
                       DefaultValuedAttr<Tile_Cache, "Cache::Default">:$cache,
                       DefaultValuedAttr<Tile_Eviction, "Eviction::Normal">:$eviction);
  let assemblyFormat = [{
    $view `[` $offsets `]` `,` $value attr-dict `:` qualified(type($view)) `,` `[` type($offsets) `]` `,` type($value)
  }];
  let hasVerifier = 1;
}

def Tile_DotOp : Tile_Op<"dot", [Pure, AllTypesMatch<["acc", "result"]>]> {
  let summary = "acc + a · b, for [M, K] and [K, N]";
  let description = [{
    Products are exact and summed in the accumulator's type (f32 for floats up to 32 bits, i32 for i8, f64 for f64).
    `precision` matters for f32 operands only: `tf32` rounds them to 10 bits of mantissa where the chip has tf32
    matrix units, `ieee` multiplies in full. i8 operands are signed.
  }];
  let arguments = (ins 2DTensorOf<[AnyFloat, I8]>:$a, 2DTensorOf<[AnyFloat, I8]>:$b,
                       2DTensorOf<[F32, F64, I32, F16]>:$acc,
                       DefaultValuedAttr<Tile_Precision, "Precision::TF32">:$precision);
  let results = (outs 2DTensorOf<[F32, F64, I32, F16]>:$result);
  let assemblyFormat = "$a `,` $b `,` $acc attr-dict `:` type($a) `,` type($b) `,` type($acc)";
  let hasVerifier = 1;
}

def Tile_ReduceOp : Tile_Op<"reduce", [Pure, SingleBlock, RecursiveMemoryEffects]> {
  let summary = "combine the elements along an axis";
  let description = [{
    Reduces several tiles of one shape at once. The region's arguments are two scalars per tile (all of the left, then
    all of the right); it yields one scalar per tile and must be associative. The order of combination is fixed for a
    given layout. Reducing a tile of rank 1 gives scalars. `scratch`: where in shared memory its scratch is, in bytes,
    once placed and where it needs any.
  }];
  let arguments = (ins Variadic<Tile_Tensor>:$sources, ConfinedAttr<I32Attr, [IntNonNegative]>:$axis,
                       OptionalAttr<I32Attr>:$scratch);
  let results = (outs Variadic<AnyType>:$results);
  let regions = (region SizedRegion<1>:$combiner);
  let builders = [OpBuilder<(ins "::mlir::TypeRange":$results, "::mlir::ValueRange":$sources, "uint32_t":$axis), [{
    build($_builder, $_state, results, sources, axis, ::mlir::IntegerAttr());
  }]>];
  let assemblyFormat = "$sources $axis attr-dict `:` functional-type($sources, $results) $combiner";
  let hasVerifier = 1;
  let hasRegionVerifier = 1;
}

def Tile_YieldOp : Tile_Op<"yield", [Pure, Terminator, ReturnLike, ParentOneOf<["ReduceOp"]>]> {
  let summary = "ends a combiner";
  let arguments = (ins Variadic<AnyType>:$values);
  let assemblyFormat = "$values attr-dict `:` type($values)";
}

#endif
