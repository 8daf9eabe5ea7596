// The specifications of this family, each defined beside its kernel, and their references.
#pragma once
#include "kernels/registry/Families.h"

namespace sectile {

KernelSpec linearRecurrenceSpec();
KernelSpec linearRecurrenceBackwardSpec();
KernelSpec deltaRuleSpec();
KernelSpec deltaRuleBackwardSpec();
KernelSpec deltaStepSpec();
KernelSpec kdaSpec();
KernelSpec kdaBackwardSpec();
KernelSpec rwkv7Spec();
KernelSpec rwkv7BackwardSpec();
KernelSpec rwkv7StepSpec();
KernelSpec rnnSpec();
KernelSpec rnnBackwardSpec();
KernelSpec gruSpec();
KernelSpec gruBackwardSpec();
KernelSpec lstmSpec();
KernelSpec lstmBackwardSpec();

// All take the call's inputs and give its outputs, as KernelSpec::reference.
ReferenceFunction linearRecurrenceReference;
ReferenceFunction linearRecurrenceBackwardReference;
ReferenceFunction deltaRuleReference;
ReferenceFunction deltaRuleBackwardReference;
ReferenceFunction deltaStepReference;
// `cell` is one of cells::Cell.
std::vector<HostArray> cellReference(const Invocation &, int cell,
                                     std::span<const HostArray> inputs, Arithmetic);
std::vector<HostArray> cellBackwardReference(const Invocation &, int cell,
                                             std::span<const HostArray> inputs, Arithmetic);

} // namespace sectile
