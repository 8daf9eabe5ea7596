// Operations of `tile` on global memory: pointers, views, atomics.
#ifndef SECTILE_IR_TILE_MEMORY_OPS
#define SECTILE_IR_TILE_MEMORY_OPS

include "ir/tile/TileTypes.td"

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

def Tile_LoadBlockOp : Tile_Op<"load_block", [AttrSizedOperandSegments,
    DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let summary = "read a block of a view; elements beyond its edges are `padding`, or zero without one";
  let description = "Where `when` is there and false, the whole block counts as beyond the edges: nothing is read.";
  let arguments = (ins Tile_ViewType:$view, Variadic<AnySignlessInteger>:$offsets, Optional<I1>:$when,
                       OptionalAttr<TypedAttrInterface>:$padding,
                       DefaultValuedAttr<Tile_Cache, "Cache::Default">:$cache,
                       DefaultValuedAttr<Tile_Eviction, "Eviction::Normal">:$eviction);
  let results = (outs Tile_Tensor:$result);
  let assemblyFormat = [{
    $view `[` $offsets `]` (`when` $when^)? (`padding` $padding^)? attr-dict `:` qualified(type($view)) `,`
    `[` type($offsets) `]` `->` type($result)
  }];
  let hasVerifier = 1;
  let builders = [OpBuilder<(ins "::mlir::Type":$result, "::mlir::Value":$view, "::mlir::ValueRange":$offsets,
                                 "::mlir::TypedAttr":$padding, "Cache":$cache, "Eviction":$eviction)>];
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

//===-- Atomics -----------------------------------------------------------------------------------------------------===//

def Tile_AtomicRMWOp : Tile_Op<"atomic_rmw", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "read, combine with a value, and write back, as one; gives what was there before";
  let description = [{
    Where the mask is false nothing happens and the result is zero. `fadd`, `fmax` and `fmin` work on floats, the others
    on integers (`exchange` on both). `fmax` and `fmin` ignore a NaN beside a number. Elements of one tile that meet at
    one address are combined in no particular order. Integers have 16, 32 or 64 bits; floats are f16, bf16, f32 or f64.
    `vector` is set once layouts are known, where two registers of a thread are added to neighbours in memory at once.
  }];
  let arguments = (ins Tile_AtomicKind:$kind, Tile_Ptrs:$ptr, Tile_Values:$value, Optional<Tile_Mask>:$mask,
                       DefaultValuedAttr<Tile_Order, "Order::AcquireRelease">:$order,
                       DefaultValuedAttr<Tile_Scope, "Scope::Device">:$scope, OptionalAttr<I32Attr>:$vector);
  let results = (outs Tile_Values:$result);
  let assemblyFormat = [{
    $kind `,` $ptr `,` $value (`mask` $mask^)? attr-dict `:` type($ptr) `,` type($value) (`mask` type($mask)^)? `->`
    type($result)
  }];
  let hasVerifier = 1;
}

def Tile_AtomicCasOp : Tile_Op<"atomic_cas", [MemoryEffects<[MemRead, MemWrite]>, AllTypesMatch<["expected", "value"]>]> {
  let summary = "write a value where memory holds what is expected, as one; gives what was there before";
  let description = "Compares bits. Elements have 16, 32 or 64 bits.";
  let arguments = (ins Tile_Ptrs:$ptr, Tile_Values:$expected, Tile_Values:$value, Optional<Tile_Mask>:$mask,
                       DefaultValuedAttr<Tile_Order, "Order::AcquireRelease">:$order,
                       DefaultValuedAttr<Tile_Scope, "Scope::Device">:$scope);
  let results = (outs Tile_Values:$result);
  let assemblyFormat = [{
    $ptr `,` $expected `,` $value (`mask` $mask^)? attr-dict `:` type($ptr) `,` type($value) (`mask` type($mask)^)? `->`
    type($result)
  }];
  let hasVerifier = 1;
}

def Tile_AtomicBlockOp : Tile_Op<"atomic_block", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "atomic_rmw on a block of a view; elements beyond its edges are left out, and zero in the result";
  let arguments = (ins Tile_AtomicKind:$kind, Tile_ViewType:$view, Variadic<AnySignlessInteger>:$offsets,
                       Tile_Tensor:$value, DefaultValuedAttr<Tile_Order, "Order::AcquireRelease">:$order,
                       DefaultValuedAttr<Tile_Scope, "Scope::Device">:$scope);
  let results = (outs Tile_Tensor:$result);
  let assemblyFormat = [{
    $kind `,` $view `[` $offsets `]` `,` $value attr-dict `:` qualified(type($view)) `,` `[` type($offsets) `]` `,`
    type($value) `->` type($result)
  }];
  let hasVerifier = 1;
}

def Tile_BarrierOp : Tile_Op<"barrier", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "what the program's threads wrote to global memory before is seen by all of them after";
  let assemblyFormat = "attr-dict";
}

//===-- Dependent launches ------------------------------------------------------------------------------------------===//

def Tile_WaitDependenciesOp : Tile_Op<"wait_dependencies", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "wait until the kernels this launch depends on are done and their writes are seen";
  let assemblyFormat = "attr-dict";
}

def Tile_LaunchDependentsOp : Tile_Op<"launch_dependents", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "let the kernels that depend on this launch start";
  let assemblyFormat = "attr-dict";
}

#endif
