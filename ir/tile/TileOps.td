// The `tile` operations: what a program computes on tiles, for no chip in particular.
#ifndef SECTILE_IR_TILE_OPS
#define SECTILE_IR_TILE_OPS

include "ir/tile/TileTypes.td"
include "ir/tile/TileShapeOps.td"
include "ir/tile/TileMemoryOps.td"
include "ir/tile/TileComputeOps.td"
include "ir/tile/TileEscapeOps.td"
include "ir/tile/TileChannelOps.td"

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

#endif
