// The registry of kernels: looking them up, and settling what a call of one needs.
#pragma once
#include "kernels/references/HostArray.h"
#include "kernels/references/References.h"
#include <deque>
#include <sectile/kernel_spec.h>

namespace sectile {

using Config = ConfigValues;

// In the order in which users meet them; registered ones follow. Not to be walked through while
// another thread registers one.
const std::deque<KernelSpec> &kernelRegistry();
// The same for those who may meet another thread that registers one. None behind the last.
std::size_t countKernels();
const KernelSpec *kernelAt(std::size_t index);
std::string familyOf(const KernelSpec &kernel);
// Throws InputError with the known names.
const KernelSpec &findKernel(std::string_view name);

// An input as a user gave it; `where` is its file, for messages.
struct GivenTensor {
  TensorType type;
  std::string where;
};
using Assignments = std::vector<std::pair<std::string, std::string>>; // NAME=VALUE, in order

// Throws InputError where the kernel has no such option, or none of that value.
void checkOption(const KernelSpec &kernel, const std::string &name, const std::string &value);
// Checks names, dtypes, ranks, extents and options, and works out the outputs. Throws InputError.
Invocation resolve(const KernelSpec &kernel, const std::map<std::string, GivenTensor> &inputs,
                   const Assignments &options);
// The same without arrays: the kernel's typical extents, but for those named, and one dtype for all
// arguments that have a choice (the usual one where empty), but for those named: "f16,b=i8". Of the
// optional inputs those in `with`.
Invocation resolveTypical(const KernelSpec &kernel, std::string_view dtype,
                          const std::map<std::string, std::int64_t> &extents,
                          const Assignments &options, const std::vector<std::string> &with = {});
// The same kernel, options, dtypes and optional inputs, with typical extents but for these.
Invocation typicalOf(const Invocation &call, const std::map<std::string, std::int64_t> &extents);
// The kernel's own choice: good values for these extents, or where the order of sums is fixed, for
// all that differ in the kernel's batch axes.
Config ownChoice(const Invocation &call, const std::string &target);
// Values for the kernel's configuration, by name. Throws InputError.
// Those given, and the kernel's own choice for the others.
Config completeConfig(const Invocation &call, const std::string &target, const Config &given);
Config parseConfig(const KernelSpec &kernel, const Assignments &assignments);

// Of operands of that type, cast or split if need be. Without them a dot is done by multiply-adds,
// whose tiles are better small.
bool hasMatrixUnits(const std::string &target, DType dtype);
// Whether four warps together issue the matrix instructions for operands of that type, which then
// come from shared memory: large tiles cost few registers. Some do it only where both operands lie
// along K.
bool hasWarpgroupUnits(const std::string &target, DType dtype, bool alongK = false);
std::int64_t warpSize(const std::string &target);
std::int64_t multiprocessors(const std::string &target); // 1 where it is not known

// Throws InputError of the call's kernel, which says these: texts and integers.
struct RefusalPart {
  explicit RefusalPart(std::integral auto number) : number(number) {}
  explicit RefusalPart(std::string_view text) : text(text) {}
  std::optional<std::string_view> text;
  std::int64_t number = 0; // without a text
};
[[noreturn]] void refuse(const Invocation &call, std::string_view what);
[[noreturn]] void refuse(const Invocation &call, std::initializer_list<RefusalPart> parts);
template <class... Parts>
  requires(sizeof...(Parts) > 1)
[[noreturn]] void refuse(const Invocation &call, const Parts &...parts) {
  refuse(call, {RefusalPart(parts)...});
}

std::optional<DType> parseDType(std::string_view name);
std::string dtypeNames(std::span<const DType> dtypes); // "f16, bf16 or f32"

} // namespace sectile
