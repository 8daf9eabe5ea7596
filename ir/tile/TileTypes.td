// The `tile` dialect itself, its types and attributes.
#ifndef SECTILE_IR_TILE_TYPES
#define SECTILE_IR_TILE_TYPES

include "mlir/IR/OpBase.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/BuiltinAttributeInterfaces.td"
include "mlir/IR/EnumAttr.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"

def Tile_Dialect : Dialect {
  let name = "tile";
  let cppNamespace = "::sectile::tile";
  let summary = "what a program computes on tiles";
  let description = [{
    A program works on tiles: tensors of numbers or of pointers. Before layouts are assigned a tile's type is a plain
    `tensor`; afterwards the same operations carry a `#cta.layout` as the tensor's encoding, and operands and results of
    an elementwise operation agree on it. Element-by-element arithmetic is `arith` and `math`, control flow is `scf`.
    A kernel is a `func.func` with the unit attribute `tile.kernel` and no results. Attributes of a kernel's arguments:
    `tile.divisible = N : i64` (the value, or the address in bytes, is a multiple of N) and `tile.below = N : i64` (the
    value is from 0 to less than N).
  }];
  let useDefaultTypePrinterParser = 1;
  let dependentDialects = ["::mlir::arith::ArithDialect"];
  let hasConstantMaterializer = 1;
}

class Tile_Op<string mnemonic, list<Trait> traits = []> : Op<Tile_Dialect, mnemonic, traits>;
// What assertions and prints write, beside memory: they stay, and in order, but nothing else waits for them.
def Tile_DebugResource : Resource<"::sectile::tile::DebugResource">;

//===-- Types -------------------------------------------------------------------------------------------------------===//

class Tile_Type<string name, string typeMnemonic> : TypeDef<Tile_Dialect, name> {
  let mnemonic = typeMnemonic;
}

def Tile_PtrType : Tile_Type<"Ptr", "ptr"> {
  let summary = "address of an element in global memory";
  let parameters = (ins "::mlir::Type":$element);
  let assemblyFormat = "`<` $element `>`";
  let builders = [TypeBuilderWithInferredContext<(ins "::mlir::Type":$element), [{
    return $_get(element.getContext(), element);
  }]>];
  let genVerifyDecl = 1;
}

def Tile_ViewType : Tile_Type<"View", "view"> {
  let summary = "tensor in global memory: address, extents and strides";
  let description = "`!tile.view<2xf16>` has rank 2; extents and strides are known at run time only.";
  let parameters = (ins "unsigned":$rank, "::mlir::Type":$element);
  let hasCustomAssemblyFormat = 1;
  let builders = [TypeBuilderWithInferredContext<(ins "unsigned":$rank, "::mlir::Type":$element), [{
    return $_get(element.getContext(), rank, element);
  }]>];
  let genVerifyDecl = 1;
}

def Tile_Scalar : AnyTypeOf<[AnySignlessInteger, AnyFloat]>;
def Tile_Tensor : StaticShapeTensorOf<[AnyType]>;
// A scalar or a tile of what the name says.
def Tile_AnyValue : AnyTypeOf<[Tile_Scalar, Tile_PtrType, Tile_Tensor]>;
def Tile_Ptrs : AnyTypeOf<[Tile_PtrType, TensorOf<[Tile_PtrType]>], "pointer or tile of pointers">;
def Tile_Ints : AnyTypeOf<[AnySignlessInteger, TensorOf<[AnySignlessInteger]>], "integer or tile of integers">;
def Tile_Mask : AnyTypeOf<[I1, TensorOf<[I1]>], "i1 or tile of i1">;
def Tile_Values : AnyTypeOf<[Tile_Scalar, TensorOf<[Tile_Scalar]>], "number or tile of numbers">;

//===-- Attributes --------------------------------------------------------------------------------------------------===//

def Tile_Cache : I32EnumAttr<"Cache", "how a memory access uses the caches", [
    I32EnumAttrCase<"Default", 0, "default">, I32EnumAttrCase<"AllLevels", 1, "ca">,
    I32EnumAttrCase<"Global", 2, "cg">, I32EnumAttrCase<"Streaming", 3, "cs">,
    I32EnumAttrCase<"Volatile", 4, "cv">, I32EnumAttrCase<"WriteBack", 5, "wb">,
    I32EnumAttrCase<"WriteThrough", 6, "wt">]> {
  let cppNamespace = "::sectile::tile";
}
def Tile_Eviction : I32EnumAttr<"Eviction", "which lines leave the cache first", [
    I32EnumAttrCase<"Normal", 0, "normal">, I32EnumAttrCase<"First", 1, "first">,
    I32EnumAttrCase<"Last", 2, "last">]> {
  let cppNamespace = "::sectile::tile";
}
def Tile_Precision : I32EnumAttr<"Precision", "how a dot of f32 operands is computed", [
    I32EnumAttrCase<"TF32", 0, "tf32">, I32EnumAttrCase<"IEEE", 1, "ieee">, I32EnumAttrCase<"TF32x3", 2, "tf32x3">,
    I32EnumAttrCase<"BF16x3", 3, "bf16x3">, I32EnumAttrCase<"BF16x6", 4, "bf16x6">]> {
  let cppNamespace = "::sectile::tile";
}
def Tile_Rounding : I32EnumAttr<"Rounding", "which neighbour a conversion between floats takes", [
    I32EnumAttrCase<"NearestEven", 0, "nearest_even">, I32EnumAttrCase<"TowardZero", 1, "toward_zero">]> {
  let cppNamespace = "::sectile::tile";
}
def Tile_AtomicKind : I32EnumAttr<"AtomicKind", "what an atomic operation does to memory", [
    I32EnumAttrCase<"Add", 0, "add">, I32EnumAttrCase<"FAdd", 1, "fadd">, I32EnumAttrCase<"Max", 2, "max">,
    I32EnumAttrCase<"Min", 3, "min">, I32EnumAttrCase<"UMax", 4, "umax">, I32EnumAttrCase<"UMin", 5, "umin">,
    I32EnumAttrCase<"FMax", 6, "fmax">, I32EnumAttrCase<"FMin", 7, "fmin">, I32EnumAttrCase<"And", 8, "and">,
    I32EnumAttrCase<"Or", 9, "or">, I32EnumAttrCase<"Xor", 10, "xor">, I32EnumAttrCase<"Exchange", 11, "exchange">]> {
  let cppNamespace = "::sectile::tile";
}
def Tile_Order : I32EnumAttr<"Order", "what an atomic operation orders", [
    I32EnumAttrCase<"Relaxed", 0, "relaxed">, I32EnumAttrCase<"Acquire", 1, "acquire">,
    I32EnumAttrCase<"Release", 2, "release">, I32EnumAttrCase<"AcquireRelease", 3, "acq_rel">]> {
  let cppNamespace = "::sectile::tile";
}
def Tile_Scope : I32EnumAttr<"Scope", "among whom an atomic operation is atomic and orders", [
    I32EnumAttrCase<"Program", 0, "program">, I32EnumAttrCase<"Device", 1, "device">,
    I32EnumAttrCase<"System", 2, "system">]> {
  let cppNamespace = "::sectile::tile";
}

#endif
