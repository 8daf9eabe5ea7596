// Operations of `tile` that change a shape or move elements within tiles.
#ifndef SECTILE_IR_TILE_SHAPE_OPS
#define SECTILE_IR_TILE_SHAPE_OPS

include "ir/tile/TileTypes.td"

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

def Tile_JoinOp : Tile_Op<"join", [Pure, AllTypesMatch<["a", "b"]>]> {
  let summary = "two tiles of one type side by side along a new last axis of extent 2";
  let arguments = (ins Tile_Tensor:$a, Tile_Tensor:$b);
  let results = (outs Tile_Tensor:$result);
  let assemblyFormat = "$a `,` $b attr-dict `:` type($a) `->` type($result)";
  let hasVerifier = 1;
}

def Tile_SplitOp : Tile_Op<"split", [Pure, AllTypesMatch<["first", "second"]>]> {
  let summary = "the two halves of a last axis of extent 2; undoes join";
  let arguments = (ins Tile_Tensor:$source);
  let results = (outs Tile_Tensor:$first, Tile_Tensor:$second);
  let assemblyFormat = "$source attr-dict `:` type($source) `->` type($first)";
  let hasVerifier = 1;
}

def Tile_GatherOp : Tile_Op<"gather", [Pure]> {
  let summary = "elements of a tile by their index along an axis";
  let description = [{
    result[…, i, …] = source[…, indices[…, i, …], …]. Indices have the result's shape, which is the source's but along
    the axis. An index outside of the axis is a mistake of the program: the interpreter says so, elsewhere the element is
    undefined. `scratch`: where in shared memory its scratch is, in bytes, once placed and where it needs any.
  }];
  let arguments = (ins Tile_Tensor:$source, TensorOf<[I32]>:$indices, ConfinedAttr<I32Attr, [IntNonNegative]>:$axis,
                       OptionalAttr<I32Attr>:$scratch);
  let results = (outs Tile_Tensor:$result);
  let assemblyFormat = [{
    $source `[` $indices `]` $axis attr-dict `:` type($source) `,` type($indices) `->` type($result)
  }];
  let hasVerifier = 1;
}

#endif
