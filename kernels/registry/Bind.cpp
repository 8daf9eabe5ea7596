// Binding a kernel's fields by their names. Each refusal names the kernel, the field and what the
// call has instead.
#include <sectile/error.h>
#include <sectile/use.h>

using namespace sectile;
using detail::Binding;

namespace {

template <class Specs> auto findSpec(const Specs &specs, std::string_view name) {
  return std::find_if(specs.begin(), specs.end(),
                      [&](const auto &one) { return one.name == name; });
}

template <class Specs> std::string namesOf(const Specs &specs) {
  std::string text;
  for (const auto &one : specs)
    (text += text.empty() ? "" : ", ") += one.name;
  return text.empty() ? "none" : text;
}

std::string axesText(std::size_t count) {
  return std::to_string(count) + (count == 1 ? " axis" : " axes");
}

std::string bracketedAxes(const ArgumentSpec &spec) {
  std::string text;
  for (const std::string &axis : spec.axes)
    text += (text.empty() ? "" : ", ") + axis;
  return "[" + text + "]";
}

// What the field takes.
std::string numberText(DType dtype) { return "a number of type " + std::string(name_of(dtype)); }
std::string tensorText(DType dtype, std::size_t rank) {
  return std::string(name_of(dtype)) + " with " + axesText(rank);
}

// A number as a field of type T holds it; none where T is another kind of number.
template <class T, class V> std::optional<std::uint64_t> wordOf(V value) {
  std::uint64_t word = 0;
  if constexpr (std::same_as<V, bool> ? std::same_as<T, bool>
                : std::integral<V>    ? !std::same_as<T, bool>
                                      : !std::integral<T>)
    detail::Argument<Tile<T>>(value).pack(&word);
  else
    return std::nullopt;
  return word;
}

} // namespace

void Binding::refuse(std::string_view field, const std::string &what) const {
  throw Error(use.call.kernel->name + ": field '" + std::string(field) + "' of the kernel " +
              std::string(kernel) + " " + what);
}

void Binding::refuseNumber(std::string_view field, DType dtype,
                           const detail::FieldNumber &value) const {
  const char *kinds[] = {"a flag", "an integer", "an integer", "a floating-point number"};
  refuse(field, "is " + numberText(dtype) + ", but its value is " + kinds[value.index()]);
}

void Binding::refuseValue(std::string_view name, std::span<const detail::FieldSpec> fields) const {
  throw Error(use.call.kernel->name + ": the kernel " + std::string(kernel) + " has no field '" +
              std::string(name) + "' to set; its fields are " + namesOf(fields));
}

const FieldValue *Binding::given(std::string_view field) const {
  const auto value = findSpec(values, field);
  return value == values.end() ? nullptr : &*value;
}

const detail::FieldTensor *Binding::givenTensor(std::string_view field, DType dtype,
                                                int rank) const {
  const FieldValue *value = given(field);
  if (!value)
    return nullptr;
  const auto *tensor = std::get_if<detail::FieldTensor>(&value->value);
  if (!tensor)
    refuse(field, "is " + tensorText(dtype, rank) + ", but is set to a number");
  if (tensor->dtype != dtype || tensor->rank != rank)
    refuse(field, "is " + tensorText(dtype, rank) + ", but is set to a tensor of " +
                      tensorText(tensor->dtype, tensor->rank));
  return tensor;
}

std::size_t Binding::layOut(std::string_view field, DType dtype, std::span<std::int64_t> extents,
                            std::span<std::int64_t> strides) const {
  const Invocation &call = use.call;
  const auto &specs = call.kernel->arguments;
  const auto spec = findSpec(specs, field);
  const std::size_t rank = extents.size();
  if (spec == specs.end())
    refuse(field, "is " + tensorText(dtype, rank) +
                      ", but no argument has this name; the arguments are " + namesOf(specs));
  const auto index = static_cast<std::size_t>(spec - specs.begin());
  const TensorType &type = call.tensors[index];
  if (!type.present)
    return index;
  const std::size_t dots = use.placeOfDots(index), count = spec->axes.size();
  const bool hasDots = dots < count, isWhole = !hasDots && type.shape.size() == rank;
  if (type.dtype != dtype ||
      (!isWhole && (rank > count || (rank < count && hasDots && dots + rank > count))))
    refuse(field, "is " + tensorText(dtype, rank) + ", but the argument is " +
                      std::string(name_of(type.dtype)) + " " + bracketedAxes(*spec));
  if (isWhole)
    use.lengths(index, dtype, rank, extents.data(), strides.data());
  else
    use.mergedLengths(index, dtype, rank, rank == count ? dots : 0, extents.data(), strides.data());
  // One of an axis 1|B serves all of B.
  for (std::size_t i = 0; i < rank && rank == count && !spec->output; ++i)
    if (const std::string &axis = spec->axes[i]; axis.starts_with("1|") && extents[i] == 1) {
      extents[i] = call.extents.at(axis.substr(2));
      strides[i] = 0;
    }
  return index;
}

detail::FieldNumber Binding::number(std::string_view field, DType dtype) const {
  const Invocation &call = use.call;
  if (const FieldValue *value = given(field)) {
    if (const auto *number = std::get_if<detail::FieldNumber>(&value->value))
      return *number;
    refuse(field, "is " + numberText(dtype) + ", but is set to a tensor");
  }
  const std::string name(field);
  if (const auto option = findSpec(call.kernel->options, field);
      option != call.kernel->options.end()) {
    const std::string &value = call.options.choice(name);
    if (value.empty())
      refuse(field, "has no value: the option is not given, and has no default");
    switch (option->kind) {
    case OptionSpec::flag:
      return value == "true";
    case OptionSpec::number:
      return call.options.number(name);
    case OptionSpec::integer:
      return call.options.integer(name);
    case OptionSpec::seed:
      return call.options.seed(name);
    case OptionSpec::choice:
      refuse(field, "is " + numberText(dtype) + ", but the option is a choice");
    }
  }
  if (const auto extent = call.extents.find(name); extent != call.extents.end())
    return extent->second;
  std::string axes;
  for (const auto &[axis, extent] : call.extents)
    axes += (axes.empty() ? "" : ", ") + axis;
  refuse(field, "is " + numberText(dtype) +
                    ", but no option or axis has this name; the options are " +
                    namesOf(call.kernel->options) + ", the axes " + (axes.empty() ? "none" : axes));
}

void Binding::bindTensor(const detail::FieldSpec &field, std::uint64_t *words,
                         detail::Owner *owner) const {
  const auto &[name, spec] = field;
  const bool isView = spec.kind == detail::ArgKind::view;
  const int rank = isView ? spec.rank : 1;
  std::array<std::uint64_t, 3> ofPointer{};
  std::uint64_t *const all = isView ? words : ofPointer.data();
  if (const detail::FieldTensor *tensor = givenTensor(name, spec.dtype, rank)) {
    tensor->pack(tensor->tensor, all, owner);
  } else {
    const auto count = static_cast<std::size_t>(rank);
    const std::span lengths(reinterpret_cast<std::int64_t *>(all + 1), 2 * count);
    std::ranges::fill(lengths, 0);
    const std::size_t argument =
        layOut(name, spec.dtype, lengths.first(count), lengths.last(count));
    all[0] = use.address(argument);
    *owner = use.memory(argument);
  }
  if (isView)
    return;
  words[0] = all[0];
  if (const auto extent = static_cast<std::int64_t>(all[1]),
      stride = static_cast<std::int64_t>(all[2]);
      stride != 1 && extent > 1)
    detail::throwNotDense(stride);
}

std::uint64_t Binding::bindNumber(const detail::FieldSpec &field) const {
  const auto &[name, spec] = field;
  const detail::FieldNumber given = number(name, spec.dtype);
  return std::visit(
      [&](auto value) -> std::uint64_t {
        std::optional<std::uint64_t> word;
        const auto pack = [&]<class T>(T) { word = wordOf<T>(value); };
        for_dtype<bool, std::int8_t, std::int16_t, std::int32_t, std::int64_t, std::uint8_t,
                  std::uint16_t, std::uint32_t, std::uint64_t, half, bfloat16, float, double,
                  float8_e4m3, float8_e5m2, float8_e4m3fnuz, float8_e5m2fnuz, float8_e4m3b11fnuz>(
            spec.dtype, pack);
        if (!word)
          refuseNumber(name, spec.dtype, given);
        return *word;
      },
      given);
}

void Binding::bind(std::span<const detail::FieldSpec> fields, std::uint64_t *words,
                   detail::Owner *owners) const {
  for (const FieldValue &value : values)
    if (findSpec(fields, value.name) == fields.end())
      refuseValue(value.name, fields);
  for (const detail::FieldSpec &field : fields) {
    if (field.spec.kind == detail::ArgKind::view || field.spec.kind == detail::ArgKind::pointer)
      bindTensor(field, words, owners++);
    else
      *words = bindNumber(field), ++owners;
    words += detail::flattenedCount(field.spec);
  }
}
