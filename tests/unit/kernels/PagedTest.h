// What the tests of attention over pages share.
#pragma once
#include "KernelTest.h"
#include <sectile/error.h>

namespace sectile::test {

/// Places of the inputs.
constexpr int qAt = 0, kAt = 1, vAt = 2, lengthsAt = 3, tablesAt = 4, endsAt = 8;

inline std::vector<double> sequence(std::int64_t count,
                                    const std::function<double(std::int64_t)> &f) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < count; ++i)
    values.push_back(f(i));
  return values;
}

/// Context lengths, over and over; pages that hold no visible key get numbers that no block has.
inline auto lengths(std::vector<int> some) {
  return [some](const Invocation &call, std::vector<HostArray> &inputs) {
    const std::int64_t count = call.extent("S"), page = call.extent("page"),
                       max = call.extent("max"), left = call.options.integer("window_left");
    inputs[lengthsAt].assign(sequence(
        count, [&](std::int64_t s) { return some[static_cast<std::size_t>(s) % some.size()]; }));
    auto tables = inputs[tablesAt].as<std::int32_t>();
    const auto contexts = inputs[lengthsAt].as<std::int32_t>();
    for (std::int64_t s = 0; s < count; ++s)
      for (std::int64_t p = 0; p < max; ++p) {
        const auto at = static_cast<std::size_t>(s);
        const std::int64_t length = contexts[at];
        std::int64_t queries = 1;
        if (call.extents.contains("ends"))
          queries =
              inputs[endsAt].as<std::int32_t>()[at + 1] - inputs[endsAt].as<std::int32_t>()[at];
        else if (call.extents.contains("T"))
          queries = call.extent("T") / count;
        const std::int64_t first =
            left < 0 ? 0 : std::max<std::int64_t>(0, length - queries - left);
        if (p * page >= length || (p + 1) * page <= first || queries == 0)
          tables[static_cast<std::size_t>(s * max + p)] = (s + p) % 2 ? -2000000000 : 2147483647;
      }
    if (call.kernel->sample_dependent) // a plan for these lengths
      call.kernel->sample_dependent(call, inputs);
  };
}

/// What f() throws, or "accepted".
inline std::string refusal(const std::function<void()> &f) {
  try {
    f();
  } catch (const Error &error) {
    return error.what();
  }
  return "accepted";
}

/// A case whose inputs are prepared, but for page tables, which name all that mistakes need.
struct Planted {
  Invocation call;
  std::vector<HostArray> inputs;

  explicit Planted(const KernelCase &test, int tablesAt = test::tablesAt)
      : call(resolveCase(test)), inputs(sampleInputs(call, 1)) {
    const HostArray tables = inputs[static_cast<std::size_t>(tablesAt)];
    test.prepare(call, inputs);
    inputs[static_cast<std::size_t>(tablesAt)] = tables;
  }

  /// Whether the check sees a mistake in what another case gives of these inputs.
  void expectSeen(const KernelCase &other, const std::vector<HostArray> &with, bool seen) const {
    auto outputs = referenceOutputs(resolveCase(other), with, Arithmetic::exact);
    outputs = {HostArray(DType::float16, outputs[0].shape, outputs[0].to_double()),
               HostArray(DType::float32, outputs[1].shape, outputs[1].to_double())};
    for (const Verdict &verdict : check(call, inputs, outputs))
      EXPECT_EQ(!verdict.accuracy.ok(), seen) << verdict.output;
  }
};

} // namespace sectile::test
