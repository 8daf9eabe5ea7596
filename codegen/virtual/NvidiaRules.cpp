// The NVVM intrinsics and sectile.nv pseudo-intrinsics that the virtual GPU runs.
#include "codegen/virtual/Rules.h"
#include "llvm/IR/Intrinsics.h"

using namespace llvm;

namespace sectile::vgpu::rules {
namespace {

#define FIELD(member) field, offsetof(ThreadHeader, member)

const IntrinsicRule nvidia[] = {
    // Special registers.
    {"llvm.nvvm.read.ptx.sreg.tid.x", FIELD(thread[0])},
    {"llvm.nvvm.read.ptx.sreg.tid.y", FIELD(thread[1])},
    {"llvm.nvvm.read.ptx.sreg.tid.z", FIELD(thread[2])},
    {"llvm.nvvm.read.ptx.sreg.ctaid.x", FIELD(block[0])},
    {"llvm.nvvm.read.ptx.sreg.ctaid.y", FIELD(block[1])},
    {"llvm.nvvm.read.ptx.sreg.ctaid.z", FIELD(block[2])},
    {"llvm.nvvm.read.ptx.sreg.ntid.x", FIELD(blockSize[0])},
    {"llvm.nvvm.read.ptx.sreg.ntid.y", FIELD(blockSize[1])},
    {"llvm.nvvm.read.ptx.sreg.ntid.z", FIELD(blockSize[2])},
    {"llvm.nvvm.read.ptx.sreg.nctaid.x", FIELD(gridSize[0])},
    {"llvm.nvvm.read.ptx.sreg.nctaid.y", FIELD(gridSize[1])},
    {"llvm.nvvm.read.ptx.sreg.nctaid.z", FIELD(gridSize[2])},
    {"llvm.nvvm.read.ptx.sreg.laneid", FIELD(lane)},
    {"llvm.nvvm.read.ptx.sreg.warpid", FIELD(warp)},
    {"llvm.nvvm.read.ptx.sreg.nwarpid", FIELD(warpCount)},
    {"llvm.nvvm.read.ptx.sreg.warpsize", FIELD(warpSize)},
    {"llvm.nvvm.read.ptx.sreg.dynamic_smem_size", FIELD(sharedBytes)},
};

} // namespace

ArrayRef<IntrinsicRule> nvidiaRules() { return nvidia; }

} // namespace sectile::vgpu::rules
