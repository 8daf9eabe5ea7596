// Operations of `tile` for kernels that schedule their own copies and dots: rings of tiles, partitions, waits.
#ifndef SECTILE_IR_TILE_CHANNEL_OPS
#define SECTILE_IR_TILE_CHANNEL_OPS

include "ir/tile/TileTypes.td"

def Tile_ChannelType : Tile_Type<"Channel", "channel"> {
  let summary = "ring of slots, each of which holds one or more tiles";
  let description = "`!tile.channel<4, tensor<128x64xf16>, tensor<64x128xf16>>` has four slots of two tiles.";
  let parameters = (ins "unsigned":$depth, ArrayRefParameter<"::mlir::RankedTensorType">:$tiles);
  let assemblyFormat = "`<` $depth `,` $tiles `>`";
}

def Tile_SlotType : Tile_Type<"Slot", "slot"> {
  let summary = "one tile of a channel's slot";
  let parameters = (ins "::mlir::RankedTensorType":$tile);
  let assemblyFormat = "`<` $tile `>`";
}

def Tile_ChannelMemory : Resource<"::sectile::tile::ChannelMemory">;

/// They stay in the order in which they were written.
class Tile_OrderedOp<string mnemonic, list<Trait> traits = []> : Tile_Op<mnemonic,
    !listconcat(traits, [MemoryEffects<[MemRead<Tile_ChannelMemory>, MemWrite<Tile_ChannelMemory>]>])>;

def Tile_ChannelOp : Tile_OrderedOp<"channel"> {
  let summary = "make a channel; uses count from 0, and use i is slot i modulo the depth";
  let results = (outs Tile_ChannelType:$result);
  let assemblyFormat = "attr-dict `:` qualified(type($result))";
  let hasVerifier = 1;
}

class Tile_ChannelUseOp<string mnemonic, string text> : Tile_OrderedOp<mnemonic> {
  let summary = text;
  let arguments = (ins Tile_ChannelType:$channel, I32:$use);
  let assemblyFormat = "$channel `[` $use `]` attr-dict `:` qualified(type($channel))";
}
class Tile_ChannelSlotsOp<string mnemonic, string text> : Tile_ChannelUseOp<mnemonic, text> {
  let results = (outs Variadic<Tile_SlotType>:$slots);
  let assemblyFormat = [{
    $channel `[` $use `]` attr-dict `:` qualified(type($channel)) `->` qualified(type($slots))
  }];
  let hasVerifier = 1;
}

def Tile_AcquireOp : Tile_ChannelSlotsOp<"acquire", "producer: the slots of a use, free to be overwritten">;
def Tile_CommitOp : Tile_ChannelUseOp<"commit", "producer: all copies of a use are issued">;
def Tile_WaitOp : Tile_ChannelSlotsOp<"wait", "consumer: until a use can be read; gives its slots">;
def Tile_ReleaseOp : Tile_ChannelUseOp<"release", "consumer: a use has been read">;

def Tile_FillOp : Tile_OrderedOp<"fill"> {
  let summary = "put a tile into a slot; the use's wait sees it";
  let description = [{
    The tile is a `load_block`'s, so that a copy engine or asynchronous copies can take its place. Or it is `stored`: threads
    have it in registers.
  }];
  let arguments = (ins Tile_Tensor:$tile, Tile_SlotType:$slot, UnitAttr:$stored);
  let assemblyFormat = "(`stored` $stored^)? $tile `,` $slot attr-dict `:` type($tile) `,` qualified(type($slot))";
  let hasVerifier = 1;
}

def Tile_ReadSlotOp : Tile_OrderedOp<"read_slot"> {
  let summary = "the tile in a slot";
  let arguments = (ins Tile_SlotType:$slot);
  let results = (outs Tile_Tensor:$result);
  let assemblyFormat = "$slot attr-dict `:` qualified(type($slot)) `->` type($result)";
  let hasVerifier = 1;
}

def Tile_DotWaitOp : Tile_OrderedOp<"dot_wait", [AllTypesMatch<["dot", "sums"]>]> {
  let summary = "the sums of a dot with `tile.in_flight`, once they are there";
  let arguments = (ins Tile_Tensor:$dot);
  let results = (outs Tile_Tensor:$sums);
  let assemblyFormat = "$dot attr-dict `:` type($dot)";
}

def Tile_DotsWaitOp : Tile_OrderedOp<"dots_wait"> {
  let summary = "wait until at most `pending` dots are in flight: the others have read their operands";
  let arguments = (ins ConfinedAttr<I32Attr, [IntNonNegative]>:$pending);
  let assemblyFormat = "$pending attr-dict";
}

def Tile_NamedBarrierOp : Tile_Op<"named_barrier", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "be one of so many warps that come to a barrier; wait for the others, or where it `arrives` go on";
  let description = "The warps are those of the partition, or of the rest of the kernel, that it stands in.";
  let arguments = (ins ConfinedAttr<I32Attr, [IntNonNegative]>:$number, ConfinedAttr<I32Attr, [IntPositive]>:$warps,
                       UnitAttr:$arrives);
  let assemblyFormat = "$number `of` $warps `warps` (`arrives` $arrives^)? attr-dict";
}

def Tile_MbarriersType : Tile_Type<"Mbarriers", "mbarriers"> {
  let summary = "mbarriers that the kernel names itself";
  let description = "`!tile.mbarriers<3>` has three.";
  let parameters = (ins "unsigned":$count);
  let assemblyFormat = "`<` $count `>`";
}

def Tile_MbarriersOp : Tile_OrderedOp<"mbarriers"> {
  let summary = "make mbarriers, each for so many `arrivals` a phase";
  let arguments = (ins ConfinedAttr<I32Attr, [IntPositive]>:$arrivals);
  let results = (outs Tile_MbarriersType:$result);
  let assemblyFormat = "$arrivals attr-dict `:` qualified(type($result))";
  let hasVerifier = 1;
}

def Tile_MbarrierArriveOp : Tile_Op<"mbarrier_arrive", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "arrive at an mbarrier and go on: each warp of a partition that computes, or the one thread of another";
  let arguments = (ins Tile_MbarriersType:$barriers, I32:$index);
  let assemblyFormat = "$barriers `[` $index `]` attr-dict `:` qualified(type($barriers))";
}

def Tile_MbarrierWaitOp : Tile_Op<"mbarrier_wait", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "wait until the phase of this parity of an mbarrier is over";
  let arguments = (ins Tile_MbarriersType:$barriers, I32:$index, I32:$parity);
  let assemblyFormat = "$barriers `[` $index `]` `parity` $parity attr-dict `:` qualified(type($barriers))";
}

def Tile_PartitionOp : Tile_Op<"partition", [SingleBlock, NoTerminator, RecursiveMemoryEffects]> {
  let summary = "run the region beside the rest of the kernel, by warps of its own";
  let description = [{
    The region fills channels that later partitions and the rest of the kernel read, or reads those of earlier ones, and
    computes. `registers`: of a thread of the region and of the rest; where it is empty all keep what they have.
  }];
  let arguments = (ins ConfinedAttr<I32Attr, [IntPositive]>:$warps, DenseI32ArrayAttr:$registers);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "`warps` $warps `registers` $registers $body attr-dict";
}

#endif
