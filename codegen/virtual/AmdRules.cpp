// The amdgcn intrinsics that the virtual GPU runs.
#include "codegen/virtual/Rules.h"
#include "llvm/IR/Intrinsics.h"

using namespace llvm;

namespace sectile::vgpu::rules {
namespace {

#define FIELD(member) field, offsetof(ThreadHeader, member)

const IntrinsicRule amd[] = {
    {"llvm.amdgcn.workitem.id.x", FIELD(thread[0])},
    {"llvm.amdgcn.workitem.id.y", FIELD(thread[1])},
    {"llvm.amdgcn.workitem.id.z", FIELD(thread[2])},
    {"llvm.amdgcn.workgroup.id.x", FIELD(block[0])},
    {"llvm.amdgcn.workgroup.id.y", FIELD(block[1])},
    {"llvm.amdgcn.workgroup.id.z", FIELD(block[2])},
    {"llvm.amdgcn.wavefrontsize", FIELD(warpSize)},
};

} // namespace

ArrayRef<IntrinsicRule> amdRules() { return amd; }

} // namespace sectile::vgpu::rules
