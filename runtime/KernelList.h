// The kernels that are found by name: one list for the whole process. Both libsectile and
// libsectile_kernels can make it, and a process may have loaded both.
#ifndef SECTILE_RUNTIME_KERNELLIST_H
#define SECTILE_RUNTIME_KERNELLIST_H

namespace sectile {

struct KernelList; // in kernels/registry/Registry.cpp

namespace runtime {

/// A library with the kernels says so when it is loaded, and whether their lambdas are in it, so
/// that a compiler can trace them.
void offerKernels(KernelList *(*make)(), bool canBeTraced);

/// The list. The first call makes it: from the library whose kernels can be traced, if one of the
/// two can.
KernelList &kernelList();

} // namespace runtime
} // namespace sectile

#endif
