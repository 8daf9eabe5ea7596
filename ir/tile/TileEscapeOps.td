// Operations of `tile` beside the computation: explicit conversions, assembly, hints, assertions, prints.
#ifndef SECTILE_IR_TILE_ESCAPE_OPS
#define SECTILE_IR_TILE_ESCAPE_OPS

include "ir/tile/TileTypes.td"

//===-- Conversions and escapes -------------------------------------------------------------------------------------===//

def Tile_FpCastOp : Tile_Op<"fp_cast", [Pure, Elementwise, Scalarizable, Vectorizable, Tensorizable]> {
  let summary = "a float as another float type, rounded as told";
  let description = [{
    Between any two float types, rounded once. What is too large becomes infinity, or NaN where the type has none; with
    `saturate` the largest number of its sign. Rounded toward zero, only infinity is too large. NaN stays NaN.
  }];
  let arguments = (ins AnyTypeOf<[AnyFloat, TensorOf<[AnyFloat]>]>:$source,
                       DefaultValuedAttr<Tile_Rounding, "Rounding::NearestEven">:$rounding, UnitAttr:$saturate);
  let results = (outs AnyTypeOf<[AnyFloat, TensorOf<[AnyFloat]>]>:$result);
  let assemblyFormat = "$source attr-dict `:` type($source) `->` type($result)";
  let hasVerifier = 1;
}

def Tile_PtrToIntOp : Tile_Op<"ptr_to_int", [Pure, Elementwise, Scalarizable, Vectorizable, Tensorizable]> {
  let summary = "addresses, in bytes, as integers";
  let arguments = (ins Tile_Ptrs:$source);
  let results = (outs AnyTypeOf<[I64, TensorOf<[I64]>]>:$result);
  let assemblyFormat = "$source attr-dict `:` type($source) `->` type($result)";
  let hasVerifier = 1;
}

def Tile_IntToPtrOp : Tile_Op<"int_to_ptr", [Pure, Elementwise, Scalarizable, Vectorizable, Tensorizable]> {
  let summary = "pointers at addresses in bytes";
  let arguments = (ins AnyTypeOf<[I64, TensorOf<[I64]>]>:$source);
  let results = (outs Tile_Ptrs:$result);
  let assemblyFormat = "$source attr-dict `:` type($source) `->` type($result)";
  let hasVerifier = 1;
}

def Tile_InlineAsmOp : Tile_Op<"inline_asm", [DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let summary = "the target's assembly, element by element";
  let description = [{
    Each run of the text takes `pack` consecutive elements of every operand and gives as many of every result; elements
    below 32 bits are packed into 32-bit registers. Operands of the text are numbered results first. A `pure` text has
    no effects beside its results and may be run again, moved or dropped. The region, if there is one, says what the text
    computes, as the function of a `map` does: it is run where the text cannot be.
  }];
  let arguments = (ins StrAttr:$text, StrAttr:$constraints, ConfinedAttr<I32Attr, [IntPositive]>:$pack, UnitAttr:$pure,
                       Variadic<Tile_Values>:$operands_);
  let results = (outs Variadic<Tile_Values>:$results);
  let regions = (region MaxSizedRegion<1>:$meaning);
  let assemblyFormat = [{
    $text `,` $constraints `,` $pack (`pure` $pure^)? `(` $operands_ `)` attr-dict `:`
    functional-type($operands_, $results) (`meaning` $meaning^)?
  }];
  let hasVerifier = 1;
  let hasRegionVerifier = 1;
}

def Tile_ExternCallOp : Tile_Op<"extern_call", [DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let summary = "a function of scalars from an LLVM bitcode library, element by element";
  let description = "A `pure` function has no effects beside its result.";
  let arguments = (ins StrAttr:$symbol, StrAttr:$library, UnitAttr:$pure, Variadic<Tile_Values>:$operands_);
  let results = (outs Tile_Values:$result);
  let assemblyFormat = [{
    $symbol `from` $library (`pure` $pure^)? `(` $operands_ `)` attr-dict `:` functional-type($operands_, $result)
  }];
  let hasVerifier = 1;
}

//===-- Hints -------------------------------------------------------------------------------------------------------===//

def Tile_AssumeOp : Tile_Op<"assume", [MemoryEffects<[MemWrite<Tile_DebugResource>]>]> {
  let summary = "promise that a condition holds; the checked mode and the interpreter verify it";
  let arguments = (ins I1:$condition);
  let assemblyFormat = "$condition attr-dict";
}

def Tile_HintOp : Tile_Op<"hint", [Pure, Elementwise, AllTypesMatch<["source", "result"]>]> {
  let summary = "the same value, with promises about it";
  let description = [{
    One number n per axis (one in all for a scalar). `divisible`: the elements at positions 0, n, 2n, … along the axis
    are multiples of n (of pointers: the address, in elements). `contiguous`: runs of n elements, from multiples of n
    on, count up by one. `constant`: such runs are equal. The checked mode and the interpreter verify them.
  }];
  let arguments = (ins AnyTypeOf<[Tile_Ints, Tile_Ptrs]>:$source, OptionalAttr<DenseI64ArrayAttr>:$divisible,
                       OptionalAttr<DenseI64ArrayAttr>:$contiguous, OptionalAttr<DenseI64ArrayAttr>:$constant);
  let results = (outs AnyTypeOf<[Tile_Ints, Tile_Ptrs]>:$result);
  let assemblyFormat = "$source attr-dict `:` type($source)";
  let hasVerifier = 1;
}

//===-- Debugging ---------------------------------------------------------------------------------------------------===//

def Tile_AssertOp : Tile_Op<"assert", [MemoryEffects<[MemWrite<Tile_DebugResource>]>]> {
  let summary = "end the program, and make the launch fail with a message, where a condition does not hold";
  let description = "Every element of a tile must hold. What the program would do after it is not done.";
  let arguments = (ins Tile_Mask:$condition, StrAttr:$message);
  let assemblyFormat = "$condition `,` $message attr-dict `:` type($condition)";
}

def Tile_PrintOp : Tile_Op<"print", [MemoryEffects<[MemWrite<Tile_DebugResource>]>]> {
  let summary = "print values, whole tiles in order, with the program they are of";
  let description = "`isUnsigned`: which of the values are, where any is; integer types do not tell.";
  let arguments = (ins StrAttr:$prefix, UnitAttr:$hex, OptionalAttr<DenseBoolArrayAttr>:$isUnsigned,
                       Variadic<Tile_AnyValue>:$values);
  let hasVerifier = 1;
  let assemblyFormat = "$prefix (`hex` $hex^)? (`,` $values^ `:` type($values))? attr-dict";
}

#endif
