// Every row of attention's tables of tiles: some call takes it, and its kernel compiles for a
// target of the row, with the schedule that the row names and without spills.
#include "../Processes.h"
#include "codegen/nvidia/Ptxas.h"
#include "jit/CodeAccess.h"
#include "jit/Remarks.h"
#include "kernels/attention/Tiles.h"
#include "kernels/calls/Use.h"
#include "tests/unit/LoopPlans.h"
#include <bit>
#include <gmock/gmock.h>
#include <regex>
#include <sectile/error.h>
#include <sstream>

using namespace sectile;
using namespace sectile::tiles;
using testing::ContainsRegex;
using testing::Not;

namespace {

[[maybe_unused]] const bool plans = alwaysWithLoopPlans();

// The most that a thread of these kernels spills, causal or not: bytes by ptxas 13.0, registers on
// AMD's chips. A spill here is known, not welcome.
const std::map<std::string, unsigned> knownSpills = {
    {"attention gfx1100 128 32x32 bias mask softcap dropout", 21},
    {"attention gfx1100 256 32x32 bias mask softcap dropout", 157},
    {"attention sm_80 64 128x64 bias mask softcap dropout", 140},
    {"attention sm_90a 256 128x64 overlapped bias mask softcap dropout", 4},
    {"attention_backward_kv gfx1100 128 16x64 bias mask softcap dropout", 31},
    {"attention_backward_kv gfx1100 256 16x16 bias mask softcap dropout", 387},
    {"attention_backward_kv gfx1100 64 64x64", 3},
    {"attention_backward_kv gfx1100 64 64x64 bias mask softcap dropout", 229},
    {"attention_backward_kv sm_80 64 64x64 bias mask softcap dropout", 160},
    {"attention_backward_kv sm_90a 128 64x128 bias mask softcap dropout", 340},
    {"attention_backward_kv sm_90a 128 64x128 dropout", 16},
    {"attention_backward_kv sm_90a 128 64x128 fused", 48},
    {"attention_backward_kv sm_90a 128 64x128 mask", 12},
    {"attention_backward_kv sm_90a 128 64x128 overlapped", 16},
    {"attention_backward_kv sm_90a 128 64x128 overlapped bias", 64},
    {"attention_backward_kv sm_90a 128 64x128 overlapped bias mask", 76},
    {"attention_backward_kv sm_90a 128 64x128 overlapped mask", 56},
    {"attention_backward_kv sm_90a 128 64x128 overlapped softcap", 112},
    {"attention_backward_kv sm_90a 128 64x128 softcap", 104},
    {"attention_backward_kv sm_90a 64 64x128 fused bias mask softcap", 60},
    {"attention_backward_kv sm_90a 64 64x64 bias mask softcap dropout", 8},
    {"attention_backward_q gfx1100 256 16x16 bias mask softcap dropout", 362},
    {"attention_backward_q gfx1100 64 64x32 bias mask softcap dropout", 53},
};

// Kernels that have no room for their tiles in shared memory.
const std::set<std::string> knownTooLarge = {
    "attention_backward_kv f32 gfx942 256 16x16 bias mask softcap dropout",
    "attention_backward_kv f32 gfx1100 256 16x16 dropout",
    "attention_backward_kv f32 gfx1100 256 16x16 bias mask softcap dropout",
};

/// One row, the kernel whose tiles it has, and the launch of that kernel.
struct Entry {
  Pass pass;
  const Row *row;

  bool forward() const { return pass == Pass::forward; }
  std::string kernel() const {
    return row->when.packed ? "attention_varlen" : forward() ? "attention" : "attention_backward";
  }
  std::string suffix() const { return forward() ? "" : pass == Pass::queryGradients ? "q" : "kv"; }
  std::string launch() const { return forward() ? kernel() : kernel() + "_" + suffix(); }
  bool wide() const { return row->units == Units::matrices32 || row->units == Units::threads32; }
  std::string prefix() const { return forward() ? "" : suffix() + "_"; }
};

void PrintTo(const Entry &entry, std::ostream *out) {
  *out << "row " << entry.row - rows(entry.pass).data() << " of " << entry.launch();
}

std::vector<Entry> entries() {
  std::vector<Entry> entries;
  for (Pass pass : {Pass::forward, Pass::queryGradients, Pass::keyGradients})
    for (const Row &row : rows(pass))
      entries.push_back({pass, &row});
  return entries;
}

class AttentionTiles : public testing::TestWithParam<Entry> {};

INSTANTIATE_TEST_SUITE_P(Rows, AttentionTiles, testing::ValuesIn(entries()), [](const auto &info) {
  const Entry &entry = info.param;
  return entry.launch() + "_" + std::to_string(entry.row - rows(entry.pass).data());
});

/// Where kernels of the row are compiled; the interpreter alone has none.
std::vector<std::string> targetsOf(Units units) {
  switch (units) {
  case Units::warpgroups:
    return {"sm_90a"};
  case Units::matrices:
  case Units::matrices32:
    return {"sm_80", "gfx942"};
  case Units::wmma:
  case Units::threads32:
    return {"gfx1100"};
  case Units::threads:
    return {"interpreter"};
  }
  return {};
}

constexpr std::pair<Option, const char *> options[] = {
    {bias, "bias"}, {mask, "mask"}, {softcap, "softcap"}, {dropout, "dropout"}, {lambda, "lambda"}};

/// The first call with these options that takes the row, from short sequences to long ones.
std::optional<Invocation> callFor(const Entry &entry, const std::string &target, unsigned with,
                                  bool causal) {
  const std::int64_t width = std::min<std::int64_t>(entry.row->width, 256);
  Assignments assignments{{"causal", causal ? "true" : "false"}};
  if (!entry.forward())
    assignments.emplace_back("unordered", entry.row->when.unordered ? "true" : "false");
  std::vector<std::string> inputs;
  for (const auto &[option, name] : options)
    if (with & option & (bias | mask))
      inputs.emplace_back(name);
    else if (with & option & ~lambda)
      assignments.emplace_back(name, "0.5");
  for (std::int64_t length : {32, 128, 256, 512, 1024, 2048, 4096})
    for (std::int64_t batches : {1, 64}) {
      std::map<std::string, std::int64_t> extents{{"D", width}, {"Dv", width}};
      if (entry.row->when.packed)
        extents.insert({{"Tq", batches * length},
                        {"Tk", batches * length},
                        {"B1", batches + 1},
                        {"Mk", batches * length}});
      else
        extents.insert({{"B", batches}, {"Sq", length}, {"Sk", length}});
      Invocation call = resolveTypical(findKernel(entry.kernel()), entry.wide() ? "f32" : "f16",
                                       extents, assignments, inputs);
      // Compiled with the scores of the options alone, which need no more than most lambdas.
      if (with & lambda)
        markLambda(call);
      if (&rowFor(entry.pass, call, target) == entry.row)
        return call;
    }
  return std::nullopt;
}

/// Sets of options with which calls take the row: the smallest and the largest, and for warpgroups,
/// whose rows leave few registers free, those of one option more than the smallest.
std::vector<unsigned> optionsOf(const Entry &entry, const std::string &target) {
  std::vector<unsigned> found;
  for (unsigned set = 0; set < 1u << std::size(options); ++set)
    // Where a lambda modifies scores, of the others there is dropout alone.
    if ((!(set & lambda) || !(set & ~(lambda | dropout))) && callFor(entry, target, set, false))
      found.push_back(set);
  std::ranges::sort(found, {}, [](unsigned set) { return std::pair(std::popcount(set), set); });
  if (found.empty())
    return found;
  const int more = entry.row->units == Units::warpgroups;
  std::erase_if(found, [few = found.front(), all = found.back(), more](unsigned set) {
    return set != few && set != all && std::popcount(set) > std::popcount(few) + more;
  });
  return found;
}

/// As knownSpills has it: "attention sm_90a 64 128x160 persistent from 2048 keys bias mask".
std::string nameOf(const Entry &entry, const std::string &target, unsigned with) {
  constexpr const char *schedules[] = {"", " overlapped", " persistent", " prompt", " fused"};
  const tiles::Tile &tile = entry.row->tile;
  std::ostringstream name;
  name << entry.launch() << (entry.wide() ? " f32 " : " ") << target << " "
       << std::min<std::int64_t>(entry.row->width, 256) << " " << tile.m << "x" << tile.n
       << schedules[static_cast<int>(tile.schedule)];
  if (entry.row->when.keys)
    name << " from " << entry.row->when.keys << " keys";
  for (const auto &[option, text] : options)
    if (with & option)
      name << " " << text;
  return name.str();
}

/// What a thread spills; nothing where there is no ptxas.
std::optional<unsigned> spillsOf(const std::string &code, const Target &target) {
  if (target.vendor == Vendor::Amd) {
    std::smatch found;
    EXPECT_TRUE(std::regex_search(code, found, std::regex("vgpr_spill_count: +(\\d+)")));
    return std::stoul(found[1]);
  }
  if (!findPtxas())
    return std::nullopt;
  const PtxasResult result = llvm::cantFail(assemble(code, target, target.maxSharedBytes));
  EXPECT_FALSE(result.serializedWgmma) << result.log;
  return result.spillStoreBytes;
}

void expectSchedule(const std::string &ptx, const std::vector<Remark> &remarks, bool copies,
                    bool overlapped) {
  EXPECT_EQ(ptx.find("setmaxnreg") != std::string::npos, copies)
      << "whether a warp of its own copies";
  if (!overlapped)
    return;
  EXPECT_TRUE(std::regex_search(ptx, std::regex("wgmma.wait_group.sync.aligned\\s+[1-9]")))
      << "no product is in flight while another is waited for";
  for (const Remark &remark : remarks)
    EXPECT_THAT(remark.text, Not(ContainsRegex("beside no other work|all warps do the same work")));
}

/// The kernel's code, by what its call has by default.
std::string codeOf(const Entry &entry, const Invocation &call, const Target &target,
                   std::vector<Remark> &remarks) {
  const runtime::RecordRemarks record(remarks);
  const BoundKernel bound = bindKernel(call, ownChoice(call, target.name));
  return runtime::CodeAccess::emit(bound.part(entry.launch()), target.name,
                                   target.vendor == Vendor::Amd ? "amdgcn" : "ptx");
}

} // namespace

TEST_P(AttentionTiles, AreTakenAndCompileAsPlanned) {
  const Entry entry = GetParam();
  bool lacksPtxas = false;
  for (const std::string &target : targetsOf(entry.row->units)) {
    const std::vector<unsigned> sets = optionsOf(entry, target);
    EXPECT_FALSE(sets.empty()) << "no call takes this row on " << target;
    for (std::size_t place = 0; place < sets.size(); ++place) {
      if (!test::isAmongAThird(place))
        continue;
      const unsigned set = sets[place];
      const std::string name = nameOf(entry, target, set);
      std::optional<unsigned> most;
      for (bool causal : {false, true}) {
        SCOPED_TRACE(name + (causal ? ", causal" : ""));
        const std::optional<Invocation> call = callFor(entry, target, set, causal);
        if (!call || (causal && (entry.row->units != Units::warpgroups ||
                                 (set != sets.front() && set != sets.back()))))
          continue;
        const Config config = ownChoice(*call, target);
        for (const auto &[field, value] : fields(*entry.row, entry.prefix()))
          EXPECT_EQ(config.at(field), value) << field;
        if (target == "interpreter")
          continue;
        const Target chip = llvm::cantFail(Target::get(target));
        std::vector<Remark> remarks;
        if (knownTooLarge.contains(name)) {
          EXPECT_THROW(codeOf(entry, *call, chip, remarks), LaunchError) << "has room now";
          continue;
        }
        const std::string code = codeOf(entry, *call, chip, remarks);
        if (entry.row->units == Units::warpgroups)
          expectSchedule(code, remarks, entry.row->tile.schedule != Schedule::plain,
                         entry.row->tile.schedule != Schedule::plain &&
                             entry.row->tile.schedule != Schedule::prompt);
        most = std::max(most, spillsOf(code, chip));
      }
      lacksPtxas |= !most && target.starts_with("sm_");
      if (!most)
        continue;
      const auto known = knownSpills.find(name);
      EXPECT_LE(*most, known == knownSpills.end() ? 0 : known->second) << name << " spills";
      EXPECT_TRUE(*most || known == knownSpills.end()) << name << " spills no more";
    }
  }
  if (lacksPtxas)
    GTEST_SKIP() << "spills are not looked at: there is no ptxas";
}

// What finds a program's sequence needs no whole block of threads: a producer partition still
// copies, and nothing is spilled for it.
TEST(AttentionTilesOfOthers, PackedSequencesKeepTheSchedule) {
  const Target chip = llvm::cantFail(Target::get("sm_90a"));
  std::optional<unsigned> most;
  const auto expect = [&](const Invocation &call, const std::string &part, bool overlaps) {
    SCOPED_TRACE(part);
    std::vector<Remark> remarks;
    const runtime::RecordRemarks record(remarks);
    const std::string code = runtime::CodeAccess::emit(
        bindKernel(call, ownChoice(call, "sm_90a")).part(part), "sm_90a", "ptx");
    expectSchedule(code, remarks, overlaps, overlaps);
    most = std::max(most, spillsOf(code, chip));
  };
  for (const std::int64_t width : {64, 128, 256}) {
    // Rows of several heads, and keys in parts.
    const Invocation few = resolveTypical(findKernel("attention_varlen"), "f16",
                                          {{"Tq", 256},
                                           {"Tk", 131072},
                                           {"B1", 5},
                                           {"Hq", 32},
                                           {"Hkv", 8},
                                           {"D", width},
                                           {"Dv", width}},
                                          {{"causal", "true"}}, {});
    EXPECT_EQ(ownChoice(few, "sm_90a").at("packed"), 1);
    expect(few, "attention_varlen", true);
    for (const std::int64_t sequences : {4, 16}) {
      SCOPED_TRACE(std::to_string(sequences) + " of width " + std::to_string(width));
      const auto of = [&](const char *kernel) {
        return resolveTypical(
            findKernel(kernel), "f16",
            {{"Tq", 16384}, {"Tk", 16384}, {"B1", sequences + 1}, {"D", width}, {"Dv", width}},
            {{"causal", "true"}}, {});
      };
      const Invocation forward = of("attention_varlen"), backward = of("attention_varlen_backward");
      EXPECT_EQ(ownChoice(forward, "sm_90a").at("persistent"),
                width == 64 ? sequences == 4 : width == 128 || sequences == 16);
      // Narrow blocks that share a multiprocessor do as well.
      expect(forward, "attention_varlen", width > 64 || sequences == 4);
      expect(backward, "attention_varlen_backward_q", width > 64);
      expect(backward, "attention_varlen_backward_kv", width > 64 || sequences == 4);
    }
  }
  if (!most)
    GTEST_SKIP() << "spills are not looked at: there is no ptxas";
  EXPECT_EQ(*most, 0u);
}
