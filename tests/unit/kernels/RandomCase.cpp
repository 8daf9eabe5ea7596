// Drawing cases of kernels.
#include "RandomCase.h"
#include <sectile/error.h>

namespace sectile::test {
namespace {

class Draw {
public:
  Draw(const KernelSpec &kernel, std::uint64_t seed) : kernel(kernel) {
    result.test.kernel = kernel.name;
    result.test.seed = seed;
    // Kernels differ in what one number gives them (FNV-1a).
    std::uint64_t mixed = 14695981039346656037u ^ seed;
    for (const char c : kernel.name)
      mixed = (mixed ^ static_cast<unsigned char>(c)) * 1099511628211u;
    random.seed(mixed);
  }

  RandomCase operator()() {
    do
      choose();
    while (!accepted());
    std::vector<std::pair<std::string, std::int64_t>> axes(kernel.small.begin(),
                                                           kernel.small.end());
    for (std::size_t i = axes.size(); i > 1; --i)
      std::swap(axes[i - 1], axes[below(i)]);
    for (const auto &[axis, usual] : axes)
      lengthen(axis, usual);
    return std::move(result);
  }

private:
  std::size_t below(std::size_t count) { return random() % count; }
  template <class T> const T &oneOf(const std::vector<T> &list) { return list[below(list.size())]; }

  bool accepted() {
    ++result.drawn;
    const bool taken = isTaken(result.test);
    result.refused += !taken;
    if (result.refused > 500)
      throw std::logic_error(kernel.name + " refuses whatever is drawn");
    return taken;
  }

  // All but the extents.
  void choose() {
    KernelCase &test = result.test;
    test.dtype.clear();
    test.with.clear();
    test.single.clear();
    std::map<std::string, std::string> options;
    for (const ArgumentSpec &spec : kernel.arguments) {
      if (spec.output)
        break;
      if (!spec.dtypes.empty()) {
        test.dtype += (test.dtype.empty() ? "" : ",") + spec.name + "=";
        test.dtype += name_of(oneOf(spec.dtypes));
      }
      if (spec.optional && below(2))
        test.with.push_back(spec.name);
      const bool may = std::any_of(spec.axes.begin(), spec.axes.end(),
                                   [](const std::string &axis) { return axis.starts_with("1|"); });
      if (may && below(2))
        test.single.push_back(spec.name);
    }
    for (int i = 0; i < 2 && !kernel.options.empty(); ++i) {
      const OptionSpec &option = oneOf(kernel.options);
      options[option.name] = oneOf(otherValues(option));
    }
    test.options.assign(options.begin(), options.end());
  }

  void lengthen(const std::string &axis, std::int64_t usual) {
    for (int attempt = 0; attempt < 3; ++attempt) {
      const std::int64_t wanted = extent(usual);
      if (wanted == usual)
        return;
      result.test.extents[axis] = wanted;
      if (accepted())
        return;
      result.test.extents.erase(axis);
    }
  }

  std::int64_t extent(std::int64_t usual) {
    switch (below(12)) {
    case 0:
      return 0;
    case 1:
    case 2:
      return 1;
    case 3:
      return usual - 1;
    case 4:
      return usual + 1;
    case 5:
    case 6:
      return 1 + static_cast<std::int64_t>(below(static_cast<std::size_t>(2 * usual)));
    case 7:
    case 8:
    case 9: {
      std::vector<std::int64_t> edges{2};
      for (std::int64_t edge = 4; edge <= std::min<std::int64_t>(2 * usual, 1024); edge *= 2)
        edges.push_back(edge);
      const std::int64_t edge = oneOf(edges);
      return edge - 1 + static_cast<std::int64_t>(below(3));
    }
    default:
      return usual;
    }
  }

  const KernelSpec &kernel;
  RandomCase result;
  std::mt19937_64 random;
};

} // namespace

RandomCase randomCase(const KernelSpec &kernel, std::uint64_t seed) { return Draw(kernel, seed)(); }

std::vector<std::string> otherValues(const OptionSpec &option) {
  switch (option.kind) {
  case OptionSpec::flag:
    if (option.initial_by)
      return {"true", "false"};
    return {option.initial == "true" ? "false" : "true"};
  case OptionSpec::choice: {
    std::vector<std::string> values = option.choices;
    std::erase(values, option.initial);
    return values;
  }
  case OptionSpec::number:
  case OptionSpec::integer:
  case OptionSpec::seed:
    break;
  }
  return option.samples;
}

bool isTaken(const KernelCase &test) {
  try {
    resolveCase(test);
    return true;
  } catch (const InputError &) {
    return false;
  }
}

const KernelSpec *forwardOf(const KernelSpec &kernel) {
  for (const KernelSpec &other : kernelRegistry())
    if (other.name + "_backward" == kernel.name)
      return &other;
  return nullptr;
}

} // namespace sectile::test
