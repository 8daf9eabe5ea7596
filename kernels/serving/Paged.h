// What the kernels of attention over pages have in common on the host: arguments, options, checks
// and the launch.
#pragma once
#include "kernels/attention/Options.h"
#include "kernels/serving/References.h"

namespace sectile {

// Which kernel: decode has one query of each sequence, the others have chunks.
enum class Paged { decode, prefill, cached };
// All but configurations and launches.
KernelSpec pagedSpec(Paged kind);

// Fields of their configuration. A program's rows are what `rows` says; keys are split into parts,
// or not.
std::vector<ConfigSpec> pagedFields(const char *rows, bool inParts);
// Whether pages have whole steps of n keys, as they are multiplied.
bool hasWholeSteps(const Invocation &call, std::int64_t n);

// Whether sequences have as many queries as cu_seqlens_q says, and whether there is a plan.
bool isPacked(const Invocation &call);
bool isPlanned(const Invocation &call);
// Of each sequence, or with a plan the most of one.
std::int64_t queriesOfEach(const Invocation &call);
// Throw InputError for a plan or cu_seqlens_q that does not fit S, and for tokens that the
// sequences of a kernel with `max_queries` cannot have.
void checkSequences(const Invocation &call);
void checkQueries(const Invocation &call);
void checkQueryNumbers(const Invocation &call, std::span<const HostArray> inputs);

namespace serving {
// Arguments and options that kernels over pages share.
extern const ArgumentRow lengthsArgument, tablesArgument, planArgument;
ArgumentRow startsArgument(bool optional);
ArgumentRow logarithmsArgument(const std::string &tokens);
extern const OptionRow causalOption, maxQueriesOption;
// The axis and the contents of plans.
void addPlans(KernelSpec &spec);
// Keys of a page: code has the number as an int. A row of a dense cache may be one.
constexpr std::int64_t mostOfPage = (std::int64_t(1) << 30) - 1;
// How many keys a page has, and a table room for; how many numbers cu_seqlens_q has.
void checkPage(const Invocation &call);
void checkRoom(const Invocation &call, std::int64_t page);
void checkStarts(const Invocation &call);
} // namespace serving

// What launches depend on besides their arguments.
struct PagedRows {
  std::int64_t width;       // of a value
  std::int64_t queries = 1; // of each sequence, or with a plan the most of one
  bool several = false;     // as of flash::PageConfig
  std::function<bool(std::int64_t n)>
      whole; // whether pages have whole steps of n keys, as they are

  static std::int64_t kvHeads(const Invocation &call) {
    return call.extents.contains("Hkv") ? call.extent("Hkv") : 1;
  }
};

// Call `launch` for the launch of the loop over pages, and merge what parts of the keys give: for a
// call of one of these kernels. modified: scores are more than scaled products.
void launchPaged(Use &use, const AttentionNumbers &numbers, bool modified,
                 const flash::detail::Launcher &launch);
void launchPaged(Use &use, const AttentionNumbers &numbers, bool modified, const PagedRows &rows,
                 const flash::detail::Launcher &launch);
// All launches of these kernels.
void launchPagedAttention(Use &use);

} // namespace sectile
