// Plans of the parts of sequences' keys on the host.
#include "kernels/registry/Registry.h"
#include "kernels/serving/Plan.h"
#include "kernels/serving/References.h"
#include <algorithm>
#include <ranges>

using namespace sectile;

static std::int64_t partsOf(std::int64_t keys, std::int64_t size) {
  return std::max<std::int64_t>((keys + size - 1) / size, 1);
}

HostArray sectile::planReference(const HostArray &lengths, std::int64_t parts) {
  const auto keys = lengths.as<std::int32_t>();
  const auto areTooMany = [&](std::int64_t steps) {
    std::int64_t needed = 0;
    for (const std::int64_t length : keys)
      needed += partsOf(length, steps * planStep);
    return needed > parts;
  };
  const std::int64_t size =
      planStep * *std::ranges::partition_point(
                     std::views::iota(std::int64_t(1), std::int64_t(1) << 31), areTooMany);
  HostArray plan(DType::int32, {parts, 4});
  const auto numbers = plan.as<std::int32_t>();
  std::size_t at = 0;
  const auto put = [&](std::int64_t number) { numbers[at++] = static_cast<std::int32_t>(number); };
  for (std::size_t s = 0; s < keys.size(); ++s) {
    const std::int64_t length = keys[s], count = partsOf(length, size);
    for (std::int64_t part = 0; part < count; ++part) {
      put(static_cast<std::int64_t>(s));
      put(part * size);
      put(std::min((part + 1) * size, length));
      put(part == 0 ? count : 0);
    }
  }
  for (; at < numbers.size(); at += 4)
    numbers[at] = -1;
  return plan;
}

void sectile::checkParts(const Invocation &call, std::int64_t parts, const std::string &what) {
  if (const std::int64_t sequences = call.extent("S"); parts < sequences)
    refuse(call, what, ", but must be ", sequences, " at least: each sequence has a part");
}

void sectile::checkPlan(const Invocation &call, const HostArray &plan, const HostArray &lengths) {
  const auto numbers = plan.as<std::int32_t>();
  const auto keys = lengths.as<std::int32_t>();
  const auto fail = [&](std::size_t row, const std::string &what) {
    refuse(call, "plan[", row, "] ", what);
  };
  const std::size_t rows = numbers.size() / 4;
  std::size_t row = 0;
  for (std::size_t s = 0; s < keys.size(); ++s) {
    const std::size_t firstRow = row;
    std::int64_t at = 0;
    do {
      const std::string next = "key " + std::to_string(at) + " of sequence " + std::to_string(s);
      if (row == rows)
        refuse(call, "plan has no part for ", next);
      const std::int64_t sequence = numbers[row * 4], first = numbers[row * 4 + 1],
                         end = numbers[row * 4 + 2];
      if (sequence != static_cast<std::int64_t>(s) || first != at)
        fail(row, "begins with key " + std::to_string(first) + " of sequence " +
                      std::to_string(sequence) + ", but must with " + next);
      if (end > keys[s] || (end <= first && keys[s] > 0) || (end % planStep && end != keys[s]))
        fail(row, "ends with key " + std::to_string(end) + ", but must with a multiple of " +
                      std::to_string(planStep) + " behind its first, or with " +
                      std::to_string(keys[s]) + ", the sequence's end");
      at = end;
      ++row;
    } while (at < keys[s]);
    for (std::size_t part = firstRow; part < row; ++part)
      if (const std::int64_t wanted =
              part == firstRow ? static_cast<std::int64_t>(row - firstRow) : 0;
          numbers[part * 4 + 3] != wanted)
        fail(part, "says " + std::to_string(numbers[part * 4 + 3]) + " parts, but must " +
                       std::to_string(wanted));
  }
  for (; row < rows; ++row)
    if (numbers[row * 4] != -1)
      fail(row, "is of sequence " + std::to_string(numbers[row * 4]) +
                    ", but all keys are in parts before: it must be of sequence -1");
}
