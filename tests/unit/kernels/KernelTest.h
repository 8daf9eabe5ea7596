// What the tests of the library's kernels share: a case is run on a device and held against its
// float64 reference by the rules of docs/kernels.md.
#pragma once
#include "../ops/Devices.h"
#include "kernels/references/Check.h"
#include <gmock/gmock.h>

namespace sectile::test {

/// One call of a kernel on sampled inputs. Extents that are not named are KernelSpec::small.
struct KernelCase {
  std::string kernel;
  std::map<std::string, std::int64_t> extents = {};
  Assignments options = {};
  std::vector<std::string> with = {}; // optional inputs
  std::string dtype = "";             // as resolveTypical takes it: "f16", "f16,b=i8"
  Config config = {};                 // for the fields named
  std::uint64_t seed = 1;
  /// Changes the inputs, by their place among the arguments, before the run.
  std::function<void(const Invocation &, std::vector<HostArray> &)> prepare = nullptr;
  std::vector<std::string> single = {}; // inputs that are 1 long where an axis is "1|X"

  std::string describe() const; // as a C++ initialiser: a failure can be run again from it
};

Invocation resolveCase(const KernelCase &test);

/// A resolved call and contents for its inputs, by their place among the arguments.
struct FilledCall {
  Invocation call;
  std::vector<HostArray> inputs;
};
FilledCall fill(const KernelCase &test);

/// Every output within its bound, inputs unchanged, the same bits a second time: of the cases a
/// fourth runs again, with SECTILE_TEST_ALL=1 and where the call is given each. Gives the outputs.
std::vector<HostArray> expectRight(const Device &device, const KernelCase &test);
std::vector<HostArray> expectRight(const Device &device, const FilledCall &filled,
                                   const Config &config = {});

/// The same for calls that are not picked by hand. The plain formula's error at one point may be
/// next to nothing by luck, in an output of one element or one whose terms cancel out: where an
/// output misses the bound that follows from it, that error is taken at some neighbours too, whose
/// numbers differ by a unit in the last place, and the largest counts.
void expectRightAnywhere(const Device &device, const FilledCall &filled);

/// How an argument's elements lie within a larger array.
enum class Spread {
  rows,       // gaps behind every axis but within the last, and a first element that is not aligned
  everywhere, // gaps within the last axis too
  far, // each row of the last axis more than 2^31 elements from the next; one axis: its elements
};

/// The same with all arguments spread; what lies around and between their elements must not change.
void expectRightWithStrides(const Device &device, const KernelCase &test,
                            Spread spread = Spread::rows);
void expectRightWithStrides(const Device &device, const FilledCall &filled, Spread spread);

/// `far` needs memory that nobody allocated, which only virtual GPUs take.
bool canSpread(const Device &device, Spread spread);

/// Equal bits to the exact result: for cases whose `prepare` makes integers that the dtypes hold.
void expectExact(const Device &device, const KernelCase &test);

/// That tests can fail: of what the plain formula gives the judge passes all, and refuses the first
/// output where it is of another call (other inputs, other options).
void expectMistakeIsSeen(const FilledCall &right, const FilledCall &wrong);
/// The call with zeros for this input.
FilledCall without(FilledCall call, const std::string &input);

/// Why a case is refused, or "accepted".
std::string refusalOf(const KernelCase &test);

/// Small whole numbers, -most to most, instead of the input's contents.
void fillIntegers(HostArray &array, int most, std::uint64_t seed);

/// The call of a backward kernel that belongs to a forward case. The backward kernel takes the
/// forward one's inputs and outputs under their names, and for an output o its gradient as "do",
/// but those in `without`; it gives dx for an input x.
FilledCall backwardOf(const KernelCase &test, std::string_view backward,
                      const std::vector<std::string> &without = {});

/// The backward kernel's float64 reference against central differences of the forward one's.
void expectGradients(const KernelCase &test, std::string_view backward,
                     const std::vector<std::string> &without = {});

/// A case of a backward kernel whose inputs that the forward kernel gives are what it would give
/// for the others.
KernelCase consistent(KernelCase test);

} // namespace sectile::test
