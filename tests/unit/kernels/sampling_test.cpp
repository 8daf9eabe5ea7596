// sample, renormalize and speculative_verify: edges, options against the reference that sorts,
// ties, seeds, distributions of many draws, and refusals.
#include "KernelTest.h"
#include "tests/unit/Processes.h"
#include <cmath>
#include <sectile/error.h>

using namespace sectile;
using namespace sectile::test;
using testing::ElementsAre;
using testing::HasSubstr;

class Sampling : public OnDevice {};
SECTILE_INSTANTIATE_ON(Sampling, "virtual:sm_80,virtual:sm_90a");
class SamplingElsewhere : public OnDevice {};
SECTILE_INSTANTIATE_ON(SamplingElsewhere, "interpreter,virtual:gfx942,virtual:gfx1100");

namespace {

/// Small blocks, so that a row has several parts and is read in several steps.
const Config inParts{{"block", 128}, {"warps", 1}, {"row_block", 256}, {"row_warps", 2}};

KernelCase sampled(std::int64_t rows, std::int64_t tokens, Assignments options = {},
                   std::vector<std::string> with = {}, const char *dtype = "f32") {
  return {"sample", {{"B", rows}, {"V", tokens}}, std::move(options), std::move(with), dtype};
}
KernelCase cut(KernelCase test) {
  test.config = inParts;
  return test;
}

std::vector<HostArray> run(const Device &device, const FilledCall &filled,
                           const Config &config = {}) {
  return execute(device, filled.call, completeConfig(filled.call, device.target(), config),
                 filled.inputs)
      .outputs;
}
std::vector<std::int32_t> tokensOf(const HostArray &array) {
  const auto tokens = array.as<std::int32_t>();
  return {tokens.begin(), tokens.end()};
}

/// Rows of the same logits.
FilledCall rowsOf(std::int64_t rows, const std::vector<double> &logits, Assignments options = {}) {
  FilledCall filled =
      fill(sampled(rows, static_cast<std::int64_t>(logits.size()), std::move(options)));
  std::vector<double> all;
  for (std::int64_t i = 0; i < rows; ++i)
    all.insert(all.end(), logits.begin(), logits.end());
  filled.inputs[0].assign(all);
  return filled;
}

/// Pearson's sum for draws of tokens with these probabilities, which is below 3 n for n degrees of
/// freedom but once in more than a million times if n is 20 or more.
void expectDistribution(std::span<const std::int32_t> tokens, const std::vector<double> &expected) {
  std::vector<double> counts(expected.size());
  for (const std::int32_t token : tokens) {
    ASSERT_GE(token, 0);
    ASSERT_GT(expected[static_cast<std::size_t>(token)], 0) << "token " << token;
    ++counts[static_cast<std::size_t>(token)];
  }
  double squares = 0;
  for (std::size_t i = 0; i < expected.size(); ++i)
    if (const double mean = expected[i] * static_cast<double>(tokens.size()); mean > 0)
      squares += (counts[i] - mean) * (counts[i] - mean) / mean;
  EXPECT_LT(squares, 3 * static_cast<double>(expected.size()));
  // Numbers that are too even are not random either.
  EXPECT_GT(squares, static_cast<double>(expected.size()) / 5);
}

} // namespace

TEST_P(Sampling, IsRightAtEveryEdge) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80");
  const std::vector<std::int64_t> lengths{1, 2, 31, 32, 33, 127, 128, 129, 1000, 5000};
  const std::vector<Assignments> options{{{"logprobs", "true"}},
                                         {{"temperature", "0"}, {"logprobs", "true"}},
                                         {{"top_k", "5"}, {"top_p", "0.7"}, {"logprobs", "true"}}};
  for (std::size_t length = 0; length < lengths.size(); ++length)
    for (std::size_t option = 0; option < options.size(); ++option) {
      const KernelCase test = sampled(3, lengths[length], options[option]);
      if (isAmongAThird(length + option))
        expectRight(device, test);
      expectRight(device, cut(test));
    }
  for (std::int64_t rows : {0, 1, 2, 70})
    expectRight(device, cut(sampled(rows, 300, {{"top_p", "0.5"}})));
}

TEST_P(Sampling, TakesEveryOption) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80");
  const std::vector<std::string> each{"temperatures", "top_ks", "top_ps",
                                      "min_ps",       "seeds",  "offsets"},
      logits{"logit_bias", "counts", "penalties", "bitmask"};
  std::vector<std::string> all = each;
  all.insert(all.end(), logits.begin(), logits.end());
  all.insert(all.end(), {"prompt_tokens", "output_tokens"});
  const std::vector<const char *> dtypes{"f16", "bf16", "f32"}, orders{"k_first", "joint"};
  const std::vector<std::vector<std::string>> withs{each, logits, all};
  for (std::size_t dtype = 0; dtype < dtypes.size(); ++dtype)
    for (std::size_t with = 0; with < withs.size(); ++with)
      for (std::size_t order = 0; order < orders.size(); ++order)
        if (isAmongAThird(dtype + with + order))
          expectRight(device, cut(sampled(40, 500, {{"order", orders[order]}, {"logprobs", "true"}},
                                          withs[with], dtypes[dtype])));
  const std::vector<const char *> ks{"0", "3", "100000"}, ps{"0", "0.6", "1"},
      least{"0", "0.1", "2"};
  for (std::size_t k = 0; k < ks.size(); ++k)
    for (std::size_t p = 0; p < ps.size(); ++p)
      for (std::size_t m = 0; m < least.size(); ++m)
        for (const char *order : {"k_first", "joint"})
          if (isAmongAThird(k + p + m))
            expectRight(device, cut(sampled(20, 400,
                                            {{"top_k", ks[k]},
                                             {"top_p", ps[p]},
                                             {"min_p", least[m]},
                                             {"order", order},
                                             {"temperature", "0.8"},
                                             {"seed", "12345678901234567"}})));
  KernelCase single = cut(sampled(6, 500, {}, {"logit_bias", "bitmask"}));
  single.single = {"logit_bias", "bitmask"};
  expectRight(device, single);
  expectRightWithStrides(device, cut(sampled(5, 300, {{"top_k", "9"}}, all)));
}

// Nearly all tokens are left out: the race is run many times.
TEST_P(Sampling, FindsTheFewThatStay) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80");
  for (const char *dtype : {"f32", "f16"})
    for (const char *k : {"1", "2", "20"}) {
      KernelCase test = cut(sampled(8, 6000, {{"top_k", k}, {"logprobs", "true"}}, {}, dtype));
      test.prepare = [](const Invocation &, std::vector<HostArray> &inputs) {
        std::vector<double> values = inputs[0].to_double();
        for (double &value : values)
          value /= 64; // flat
        inputs[0].assign(values);
      };
      expectRight(device, test);
    }
}

// More tokens may stay than a list has room for, in some rows or in all.
TEST_P(Sampling, FindsThemWithoutAList) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80");
  for (const char *order : {"k_first", "joint"}) {
    const Assignments options{{"order", order}, {"logprobs", "true"}};
    KernelCase few = cut(sampled(8, 3000, options, {"top_ks", "top_ps"}));
    few.prepare = [](const Invocation &, std::vector<HostArray> &inputs) {
      std::vector<double> values = inputs[0].to_double();
      for (double &value : values)
        value = std::round(value); // thousands of equals
      inputs[0].assign(values);
    };
    expectRight(device, few);
    expectRight(device,
                cut(sampled(20, 3000, options, {"temperatures", "top_ks", "top_ps", "min_ps"})));
    for (const char *least : {"0.001", "0.3", "2"})
      expectRight(
          device,
          cut(sampled(6, 3000,
                      {{"order", order}, {"min_p", least}, {"top_p", "0.9"}, {"top_k", "40"}})));
  }
}

// Of equals the first stay, and the one with which the sum reaches top_p is among them.
TEST_P(Sampling, TiesGoByTheirPlace) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_90a");
  const std::vector<double> logits(8, 1.5);
  const auto most = [&](const Assignments &options) {
    const auto tokens = tokensOf(run(device, rowsOf(300, logits, options))[0]);
    return *std::ranges::max_element(tokens);
  };
  EXPECT_EQ(most({}), 7);
  EXPECT_EQ(most({{"temperature", "0"}}), 0);
  EXPECT_EQ(most({{"top_k", "3"}}), 2);
  EXPECT_EQ(most({{"top_p", "0.5"}}), 3);
  EXPECT_EQ(most({{"top_p", "0.51"}}), 4);
  EXPECT_EQ(most({{"top_p", "0"}}), 0);
  EXPECT_EQ(most({{"top_k", "4"}, {"top_p", "0.5"}}), 1);
  EXPECT_EQ(most({{"top_k", "4"}, {"top_p", "0.5"}, {"order", "joint"}}), 3);
}

TEST_P(Sampling, DrawsByTheWeights) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80");
  const std::int64_t rows = count(10'000, 1'000'000);
  std::vector<double> logits, expected;
  for (int i = 0; i < 50; ++i)
    logits.push_back(std::sin(3.7 * i) * 2);
  double total = 0;
  for (const double logit : logits)
    expected.push_back(std::exp(logit / 0.9)), total += expected.back();
  for (double &weight : expected)
    weight /= total;
  const Assignments warm{{"temperature", "0.9"}, {"seed", "3"}};
  const auto drawn = run(device, rowsOf(rows, logits, warm))[0];
  expectDistribution(drawn.as<std::int32_t>(), expected);

  // Those that stay keep their proportions.
  Assignments some = warm;
  some.push_back({"top_k", "30"});
  std::vector<double> sorted = expected;
  std::ranges::sort(sorted, std::greater());
  double left = 0;
  for (double &weight : expected)
    left += weight = weight >= sorted[29] ? weight : 0;
  for (double &weight : expected)
    weight /= left;
  const auto cutDraws = run(device, rowsOf(rows, logits, some))[0];
  expectDistribution(cutDraws.as<std::int32_t>(), expected);
}

// Groups of tokens are drawn by the sums of their weights, whatever is drawn again.
TEST_P(Sampling, DrawsAmongGroupsByTheWeights) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80");
  const std::int64_t rows = count(1'000, 200'000), tokens = 1100;
  std::vector<double> logits(tokens, -INFINITY), expected(tokens);
  double total = 0;
  for (int i = 0; i < 24; ++i) {
    const auto at = static_cast<std::size_t>(i < 12 ? 41 * i : 700 + 30 * (i - 12));
    logits[at] = std::sin(2.9 * i) * 1.5;
    total += expected[at] = std::exp(logits[at]);
  }
  for (double &weight : expected)
    weight /= total;
  const auto drawn = run(device, rowsOf(rows, logits, {{"seed", "4"}}))[0];
  const auto among = [&](const HostArray &tokensDrawn, std::vector<double> weights) {
    // Only those that may be drawn are degrees of freedom.
    std::vector<std::int32_t> places(weights.size(), -1), each;
    std::vector<double> some;
    for (std::size_t v = 0; v < weights.size(); ++v)
      if (weights[v] > 0)
        places[v] = static_cast<std::int32_t>(some.size()), some.push_back(weights[v]);
    for (const std::int32_t token : tokensOf(tokensDrawn))
      each.push_back(token < 0 ? -1 : places[static_cast<std::size_t>(token)]);
    expectDistribution(each, some);
  };
  among(drawn, expected);
  // The 20 largest, drawn again where another one was drawn first.
  std::vector<double> sorted = expected;
  std::ranges::sort(sorted, std::greater());
  double left = 0;
  for (double &weight : expected)
    left += weight = weight >= sorted[19] ? weight : 0;
  for (double &weight : expected)
    weight /= left;
  among(run(device, rowsOf(rows, logits, {{"seed", "5"}, {"top_k", "20"}}))[0], expected);
}

// A row's own seed and offset decide, not its place; nor does how rows are cut.
TEST_P(Sampling, DrawsAreTheRowsOwn) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_90a");
  KernelCase test = sampled(12, 700, {{"top_p", "0.9"}}, {"seeds", "offsets"});
  FilledCall filled = fill(test);
  const auto &call = filled.call;
  auto seeds = filled.inputs[call.index("seeds")].as<std::int64_t>();
  auto offsets = filled.inputs[call.index("offsets")].as<std::int64_t>();
  const auto logits = filled.inputs[0].to_double();
  std::vector<double> same;
  for (int row = 0; row < 12; ++row) {
    same.insert(same.end(), logits.begin(), logits.begin() + 700);
    seeds[static_cast<std::size_t>(row)] = row % 2 ? 7 : -7;
    offsets[static_cast<std::size_t>(row)] = row / 2 % 3;
  }
  filled.inputs[0].assign(same);
  const auto tokens = tokensOf(run(device, filled)[0]);
  EXPECT_EQ(tokens, tokensOf(run(device, filled, inParts)[0]));
  for (std::size_t row = 6; row < 12; ++row)
    EXPECT_EQ(tokens[row], tokens[row - 6]);
  EXPECT_GT(std::set(tokens.begin(), tokens.end()).size(), 3u);
}

TEST_P(Sampling, RowsWithoutADistributionGiveNoToken) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_90a");
  const auto first = [&](double logit, const Assignments &options) {
    return run(device, rowsOf(1, {logit, -INFINITY, -INFINITY}, options));
  };
  for (const char *temperature : {"0", "1"}) {
    const Assignments options{{"temperature", temperature}, {"logprobs", "true"}, {"top_k", "2"}};
    for (const double bad : {-double(INFINITY), double(INFINITY), double(NAN)}) {
      const auto outputs = first(bad, options);
      EXPECT_THAT(tokensOf(outputs[0]), ElementsAre(-1));
      EXPECT_TRUE(std::isnan(outputs[1].to_double()[0]));
      EXPECT_THAT(tokensOf(outputs[2]), ElementsAre(0));
    }
    const auto outputs = first(3, options);
    EXPECT_THAT(tokensOf(outputs[0]), ElementsAre(0));
    EXPECT_EQ(outputs[1].to_double()[0], 0);
    EXPECT_THAT(tokensOf(outputs[2]), ElementsAre(1));
  }
}

TEST_P(Sampling, PenaltiesAndMasks) {
  FilledCall filled = fill(sampled(
      4, 3, {{"temperature", "0"}, {"repetition", "2"}, {"frequency", "1"}, {"presence", "0.5"}},
      {"counts", "bitmask"}));
  filled.inputs[0].assign(std::vector<double>{4, 3, 1, 4, 1.9, 1, -1, -1.9, -9, 4, 3, 1});
  filled.inputs[filled.call.index("counts")].assign(
      std::vector<double>{0, 0, 0, -1, 0, 0, -1, 0, 0, 1, 0, 0});
  filled.inputs[filled.call.index("bitmask")].assign(std::vector<double>{6, 7, 7, -1});
  EXPECT_THAT(tokensOf(run(device, filled)[0]), ElementsAre(1, 0, 1, 1));
}

// The same as their counts, in whatever order tokens come.
TEST_P(Sampling, ListsOfTokens) {
  const Assignments options{
      {"repetition", "1.7"}, {"frequency", "0.5"}, {"presence", "0.3"}, {"logprobs", "true"}};
  for (const std::vector<std::string> &with :
       std::vector<std::vector<std::string>>{{"prompt_tokens"},
                                             {"output_tokens", "penalties"},
                                             {"counts", "prompt_tokens", "output_tokens"}})
    expectRight(device, cut(sampled(4, 700, options, with, "f16")));
  FilledCall lists = fill(sampled(2, 3, options, {"prompt_tokens", "output_tokens"})),
             counts = fill(sampled(2, 3, options, {"counts"}));
  counts.inputs[0] = lists.inputs[0];
  const auto set = [](FilledCall &filled, const char *name, std::int64_t row,
                      std::vector<std::int32_t> tokens) {
    HostArray &array = filled.inputs[filled.call.index(name)];
    const auto all = array.as<std::int32_t>();
    const std::size_t length = static_cast<std::size_t>(array.shape[1]);
    tokens.resize(length, row == 0 ? -1 : 3); // neither is a token
    std::ranges::copy(tokens, all.begin() + static_cast<std::ptrdiff_t>(length) * row);
  };
  set(lists, "prompt_tokens", 0, {0, 1, 0});
  set(lists, "prompt_tokens", 1, {});
  set(lists, "output_tokens", 0, {1, 1});
  set(lists, "output_tokens", 1, {2, 0, 2, 2});
  counts.inputs[counts.call.index("counts")].assign(std::vector<double>{-1, 2, 0, 1, 0, 3});
  const auto one = run(device, lists), other = run(device, counts);
  for (std::size_t i = 0; i < one.size(); ++i)
    EXPECT_EQ(one[i].to_double(), other[i].to_double());
}

TEST_P(Sampling, RenormalizesWhatStays) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80");
  const auto test = [](std::int64_t tokens, Assignments options,
                       std::vector<std::string> with = {}) {
    return KernelCase{
        "renormalize", {{"B", 7}, {"V", tokens}}, std::move(options), std::move(with)};
  };
  const Config small{{"row_block", 128}, {"warps", 2}};
  const std::vector<std::int64_t> lengths{1, 2, 33, 128, 129, 1000};
  const std::vector<const char *> ks{"0", "1", "20"}, ps{"0", "0.5", "1"};
  for (std::size_t length = 0; length < lengths.size(); ++length)
    for (std::size_t k = 0; k < ks.size(); ++k)
      for (std::size_t p = 0; p < ps.size(); ++p)
        for (const char *order : {"k_first", "joint"}) {
          if (!isAmongAThird(length + k + p))
            continue;
          KernelCase one =
              test(lengths[length], {{"top_k", ks[k]}, {"top_p", ps[p]}, {"order", order}});
          expectRight(device, one);
          one.config = small;
          expectRight(device, one);
        }
  expectRight(device, test(500, {}, {"top_ks", "top_ps"}));
  // Equals beyond the first that stay are 0; so is a sum that is no number's.
  FilledCall filled = fill({"renormalize", {{"B", 3}, {"V", 6}}, {{"top_p", "0.5"}}});
  filled.inputs[0].assign(std::vector<double>{0.1, 0.2, 0.2, 0.1, 0.2, 0.2, //
                                              0, 0, 0, 0, 0, 0, 0, 0, NAN, 1, 0, 0});
  const auto y = run(device, filled)[0].to_double();
  const auto third = static_cast<double>(1.0f / 3);
  for (std::size_t i = 0; i < 6; ++i)
    EXPECT_NEAR(y[i], i == 1 || i == 2 || i == 4 ? third : 0, 1e-7);
  for (std::size_t i = 6; i < 18; ++i)
    EXPECT_TRUE(std::isnan(y[i]));
}

TEST_P(Sampling, VerifiesDrafts) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80");
  std::size_t place = 0;
  for (std::int64_t drafts : {0, 1, 2, 7, 8})
    for (std::int64_t tokens : {1, 5, 300, 1000}) {
      ++place;
      for (const std::vector<std::string> &with : std::vector<std::vector<std::string>>{
               {}, {"draft_probs"}, {"draft_probs", "seeds", "offsets"}}) {
        if (!isAmongAThird(place++))
          continue;
        KernelCase test{
            "speculative_verify", {{"B", 20}, {"N", drafts}, {"V", tokens}}, {{"seed", "9"}}, with};
        expectRight(device, test);
        test.config = {{"block", 128}, {"warps", 1}};
        expectRight(device, test);
      }
    }
}

// Whatever the drafts, tokens come with the target's probabilities.
TEST_P(Sampling, VerifiedTokensHaveTheTargetsDistribution) {
  SECTILE_LEAVE_TO_OTHERS("virtual:sm_80");
  const std::int64_t rows = count(20'000, 1'000'000), tokens = 24;
  FilledCall filled =
      fill({"speculative_verify", {{"B", rows}, {"N", 1}, {"V", tokens}}, {}, {"draft_probs"}});
  std::vector<double> p, q;
  double sumP = 0, sumQ = 0;
  for (int v = 0; v < tokens; ++v) {
    p.push_back(1.2 + std::sin(2.3 * v)), sumP += p.back();
    q.push_back(1.2 + std::cos(1.1 * v)), sumQ += q.back();
  }
  for (int v = 0; v < tokens; ++v)
    p[static_cast<std::size_t>(v)] /= sumP, q[static_cast<std::size_t>(v)] /= sumQ;
  std::mt19937_64 random(5);
  std::discrete_distribution<std::int32_t> draft(q.begin(), q.end());
  std::vector<double> targets, drafted;
  for (std::int64_t row = 0; row < rows; ++row) {
    filled.inputs[0].as<std::int32_t>()[static_cast<std::size_t>(row)] = draft(random);
    for (int i = 0; i < 2; ++i)
      targets.insert(targets.end(), p.begin(), p.end());
    drafted.insert(drafted.end(), q.begin(), q.end());
  }
  filled.inputs[1].assign(targets);
  filled.inputs[3].assign(drafted);
  const auto outputs = run(device, filled);
  const auto all = outputs[0].as<std::int32_t>();
  std::vector<std::int32_t> first, second;
  for (std::size_t row = 0; row < static_cast<std::size_t>(rows); ++row) {
    first.push_back(all[2 * row]);
    if (all[2 * row + 1] >= 0)
      second.push_back(all[2 * row + 1]);
  }
  expectDistribution(first, p);
  expectDistribution(second, p);
}

// A probability that is none gives no token, where it decides.
TEST_P(Sampling, VerifyMeetsWhatIsNoProbability) {
  FilledCall filled = fill({"speculative_verify", {{"B", 3}, {"N", 1}, {"V", 2}}});
  filled.inputs[0].assign(std::vector<double>{0, 0, 5});
  filled.inputs[1].assign(
      std::vector<double>{1, 0, NAN, 0, /**/ 0, 1, NAN, NAN, /**/ 0, 1, 0.5, 0.5});
  filled.inputs[2].assign(std::vector<double>{0.5, 0.5, 0});
  const auto outputs = run(device, filled);
  EXPECT_THAT(tokensOf(outputs[0]), ElementsAre(0, -1, 1, -1, 1, -1));
  EXPECT_THAT(tokensOf(outputs[1]), ElementsAre(1, 0, 0));
  EXPECT_THAT(tokensOf(outputs[2]), ElementsAre(1, 0, 0));
}

TEST_P(SamplingElsewhere, IsRight) {
  expectRight(device, cut(sampled(4, 600, {{"top_k", "30"}, {"top_p", "0.8"}, {"logprobs", "true"}},
                                  {"counts", "bitmask", "seeds"}, "f16")));
  expectRight(device, cut(sampled(3, 300, {{"repetition", "1.5"}, {"frequency", "0.5"}},
                                  {"prompt_tokens", "output_tokens"})));
  expectRight(device, {"renormalize", {{"B", 2}, {"V", 300}}, {{"top_k", "9"}, {"top_p", "0.8"}}});
  expectRight(device, {"speculative_verify", {{"B", 4}}, {}, {"draft_probs"}});
}

TEST(SamplingErrors, SayWhatWouldDo) {
  const auto expectRefused = [](const KernelCase &test, const char *text) {
    try {
      resolveCase(test);
      ADD_FAILURE() << text;
    } catch (const InputError &error) {
      EXPECT_THAT(error.what(), HasSubstr(text));
    }
  };
  expectRefused(sampled(2, 0), "there are rows, but they have no tokens");
  expectRefused(sampled(1, (1 << 24) + 1), "rows have 16777217 tokens, but at most 16777216");
  expectRefused(sampled(2, 9, {{"top_k", "-1"}}), "'top_k' is -1, but must be from 0 to");
  expectRefused(sampled(2, 9, {{"top_p", "-0.1"}}), "'top_p' is -0.1, but must be at least 0");
  expectRefused(sampled(2, 9, {{"temperature", "-1"}}),
                "'temperature' is -1, but must be at least");
  expectRefused(sampled(2, 9, {{"repetition", "0"}}),
                "'repetition' is 0, but must be at least 1e-3");
  expectRefused(sampled(2, 9, {{"presence", "1"}}), "there are penalties, but no counts");
  KernelCase words = sampled(2, 90, {}, {"bitmask"});
  words.extents["words"] = 2;
  expectRefused(words,
                "bitmask has 2 words in a row, but must have 3, with a bit for each of the 90");
  expectRefused(
      {"speculative_verify", {{"most", 3}, {"N", 3}}},
      "target_probs has 3 rows of probabilities, but must have one more than the 3 drafts");
  expectRefused({"speculative_verify", {{"N", 1025}}}, "rows have 1025 drafts, but at most 1024");
}
