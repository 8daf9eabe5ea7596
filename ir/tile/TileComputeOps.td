// Operations of `tile` that combine elements: dots, reductions, scans.
#ifndef SECTILE_IR_TILE_COMPUTE_OPS
#define SECTILE_IR_TILE_COMPUTE_OPS

include "ir/tile/TileTypes.td"

class Tile_NumberOp<string mnemonic>
    : Tile_Op<mnemonic, [Pure, Commutative, SameOperandsAndResultType, Elementwise, Scalarizable, Vectorizable,
                         Tensorizable]> {
  let arguments = (ins AnyTypeOf<[AnyFloat, TensorOf<[AnyFloat]>]>:$a, AnyTypeOf<[AnyFloat, TensorOf<[AnyFloat]>]>:$b);
  let results = (outs AnyTypeOf<[AnyFloat, TensorOf<[AnyFloat]>]>:$result);
  let assemblyFormat = "$a `,` $b attr-dict `:` type($result)";
  let hasFolder = 1;
}

def Tile_MinimumNumberOp : Tile_NumberOp<"minimum_number"> {
  let summary = "the smaller of two numbers, or the one beside a NaN";
  let description = [{
    IEEE 754-2019's minimumNumber: -0 is less than +0, and a number wins over any NaN, a signalling one too.
    `arith.minnumf` is folded by other rules than those that chips follow.
  }];
}

def Tile_MaximumNumberOp : Tile_NumberOp<"maximum_number"> {
  let summary = "the larger of two numbers, or the one beside a NaN, as `minimum_number`";
}

class Tile_Matrix<list<Type> elements>
    : AnyTypeOf<[2DTensorOf<elements>, 3DTensorOf<elements>], "matrix, or several", "::mlir::RankedTensorType">;

def Tile_DotOp : Tile_Op<"dot", [Pure, AllTypesMatch<["acc", "result"]>]> {
  let summary = "acc + a · b, for [M, K] and [K, N], or [B, M, K] and [B, K, N]";
  let description = [{
    Products are exact and summed in the accumulator's type (f32 for floats up to 32 bits, i32 for i8, f64 for f64).
    `precision` matters for f32 operands only: `tf32` rounds them to 10 bits of mantissa where the chip has tf32
    matrix units, `ieee` multiplies in full. `tf32x3`, `bf16x3` and `bf16x6` take each operand as a sum of two tf32, two
    bf16 or three bf16 numbers and leave out the smallest of the products. i8 operands are signed.
  }];
  let arguments = (ins Tile_Matrix<[AnyFloat, I8]>:$a, Tile_Matrix<[AnyFloat, I8]>:$b,
                       Tile_Matrix<[F32, F64, I32, F16]>:$acc,
                       DefaultValuedAttr<Tile_Precision, "Precision::TF32">:$precision);
  let results = (outs Tile_Matrix<[F32, F64, I32, F16]>:$result);
  let assemblyFormat = "$a `,` $b `,` $acc attr-dict `:` type($a) `,` type($b) `,` type($acc)";
  let hasVerifier = 1;
}

def Tile_DotScaledOp : Tile_Op<"dot_scaled", [Pure, AttrSizedOperandSegments]> {
  let summary = "acc + (a ∘ a_scale) · (b ∘ b_scale), where 32 neighbours along K share a scale";
  let description = [{
    The microscaling (mx) formats: a is [M, K], b is [K, N], of f8E4M3FN, f8E5M2, f16, bf16, or i8 for pairs of e2m1,
    the element of lower index in the low half, packed along K ([M, K / 2] and [K / 2, N]). Scales are i8 codes of e8m0
    (2 to the code less 127, 255 is NaN), of shapes [M, K / 32] and [N, K / 32]; without one an operand is not scaled.
    Products are exact, sums are f32.
  }];
  let arguments = (ins 2DTensorOf<[AnyFloat, I8]>:$a, Optional<2DTensorOf<[I8]>>:$a_scale,
                       2DTensorOf<[AnyFloat, I8]>:$b, Optional<2DTensorOf<[I8]>>:$b_scale, 2DTensorOf<[F32]>:$acc);
  let results = (outs 2DTensorOf<[F32]>:$result);
  let assemblyFormat = [{
    $a (`scale` $a_scale^)? `,` $b (`scale` $b_scale^)? `,` $acc attr-dict `:` type($a) (`scale` type($a_scale)^)? `,`
    type($b) (`scale` type($b_scale)^)? `,` type($acc) `->` type($result)
  }];
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

def Tile_ScanOp : Tile_Op<"scan", [Pure, SingleBlock, RecursiveMemoryEffects]> {
  let summary = "combine each element along an axis with all before it";
  let description = [{
    Element i of a result combines elements 0 to i (with `reverse`: the last down to i, the later ones on the left). The
    region is as in `reduce` and must be associative; how the elements are grouped is fixed for a given layout.
    `scratch`: where in shared memory its scratch is, in bytes, once placed and where it needs any.
  }];
  let arguments = (ins Variadic<Tile_Tensor>:$sources, ConfinedAttr<I32Attr, [IntNonNegative]>:$axis, UnitAttr:$reverse,
                       OptionalAttr<I32Attr>:$scratch);
  let results = (outs Variadic<Tile_Tensor>:$results);
  let regions = (region SizedRegion<1>:$combiner);
  let assemblyFormat = [{
    $sources $axis (`reverse` $reverse^)? attr-dict `:` functional-type($sources, $results) $combiner
  }];
  let hasVerifier = 1;
  let hasRegionVerifier = 1;
}

def Tile_HistogramOp : Tile_Op<"histogram", [Pure, AttrSizedOperandSegments]> {
  let summary = "how often each of 0, 1, … occurs in a tile, or the sum of the weights where it does";
  let description = [{
    The result's extent is the number of bins. Elements outside of them, and where the mask is false, are not counted.
    Weights are added in any order.
    `scratch`: where in shared memory its scratch is, in bytes, once placed.
  }];
  let arguments = (ins TensorOf<[I32]>:$source, Optional<TensorOf<[I32, F32]>>:$weights, Optional<TensorOf<[I1]>>:$mask,
                       OptionalAttr<I32Attr>:$scratch);
  let results = (outs 1DTensorOf<[I32, F32]>:$result);
  let assemblyFormat = [{
    $source (`weights` $weights^)? (`mask` $mask^)? attr-dict `:` type($source) (`weights` type($weights)^)?
    (`mask` type($mask)^)? `->` type($result)
  }];
  let hasVerifier = 1;
}

def Tile_MapOp : Tile_Op<"map", [Pure, SingleBlock, RecursiveMemoryEffects]> {
  let summary = "a function of scalars applied to each element; unlike arithmetic on tiles it may branch and loop";
  let arguments = (ins Variadic<Tile_Tensor>:$sources);
  let results = (outs Variadic<Tile_Tensor>:$results);
  let regions = (region SizedRegion<1>:$function);
  let assemblyFormat = "$sources attr-dict `:` functional-type($sources, $results) $function";
  let hasVerifier = 1;
  let hasRegionVerifier = 1;
}

def Tile_YieldOp : Tile_Op<"yield", [Pure, Terminator, ReturnLike, ParentOneOf<["ReduceOp", "ScanOp", "MapOp",
                                                                               "InlineAsmOp"]>]> {
  let summary = "ends a combiner, the function of a map or the meaning of assembly";
  let arguments = (ins Variadic<AnyType>:$values);
  let assemblyFormat = "$values attr-dict `:` type($values)";
}

#endif
