// Binds the fields of a kernel's struct of arguments by their names: to the arguments, options and
// axes of a call. Use launches kernels with it.
#pragma once
#include <algorithm>
#include <sectile/kernel_spec.h>
#include <sectile/sectile.h>
#include <variant>
#include <vector>

namespace sectile {

namespace detail {
using FieldNumber = std::variant<bool, std::int64_t, std::uint64_t, double>;
struct FieldTensor {
  const void *tensor; // a Tensor of this type and rank
  DType dtype;
  int rank;
  // Its words as a view, and its owner.
  void (*pack)(const void *tensor, std::uint64_t *words, Owner *owner);
};
} // namespace detail

// A field that a description computes: {"groups", 4}.
class FieldValue {
public:
  template <std::integral I>
  FieldValue(std::string_view name, I number)
      : name(name), value([&]() -> detail::FieldNumber {
          if constexpr (std::same_as<I, bool>)
            return number;
          else if constexpr (std::signed_integral<I>)
            return static_cast<std::int64_t>(number);
          else
            return static_cast<std::uint64_t>(number);
        }()) {}
  FieldValue(std::string_view name, double number)
      : name(name), value(detail::FieldNumber(number)) {}
  // The tensor must live until the launch.
  template <Element T, int N>
  FieldValue(std::string_view name, const Tensor<T, N> &tensor)
      : name(name),
        value(detail::FieldTensor{
            &tensor, dtype_of<T>, N,
            [](const void *tensor, std::uint64_t *words, detail::Owner *owner) {
              const detail::Argument<View<T, N>> view(*static_cast<const Tensor<T, N> *>(tensor));
              view.pack(words);
              view.own(owner);
            }}) {}

  std::string_view name;
  std::variant<detail::FieldNumber, detail::FieldTensor> value;
};

namespace detail {

// A kernel whose arguments are the fields of one struct.
template <class Kernel>
concept NamedKernel =
    Kernel::parameters == 1 && KernelStruct<typename Kernel::template Parameter<0>>;

// A field that is no struct.
struct FieldSpec {
  std::string_view name;
  ArgSpec spec;
};
// Of a struct within, which has no name of its own, its fields.
template <KernelStruct Struct> constexpr auto fieldSpecs() {
  std::array<FieldSpec, specsOf<Struct>().size()> specs{};
  auto *to = specs.data();
  Fields<Struct>::eachType([&]<class F>(std::type_identity<F>, std::string_view name) {
    if constexpr (KernelStruct<F>)
      for (const FieldSpec &within : fieldSpecs<F>())
        *to++ = within;
    else
      *to++ = {name, Parameter<F>::spec};
  });
  return specs;
}

// One launch's fields. The functions throw Error for a field that nothing fits.
class Binding {
public:
  Binding(const Use &use, std::string_view kernel, std::span<const FieldValue> values)
      : use(use), kernel(kernel), values(values) {}

  template <KernelStruct Struct> Arguments<Struct> all() const {
    static constexpr auto specs = fieldSpecs<Struct>();
    return {ByName(), [&](std::uint64_t *words, Owner *owners) { bind(specs, words, owners); }};
  }

private:
  // Writes every field's words and owner.
  void bind(std::span<const FieldSpec> fields, std::uint64_t *words, Owner *owners) const;
  void bindTensor(const FieldSpec &field, std::uint64_t *words, Owner *owner) const;
  std::uint64_t bindNumber(const FieldSpec &field) const;
  const FieldValue *given(std::string_view field) const;
  // Null: there is none.
  const FieldTensor *givenTensor(std::string_view field, DType dtype, int rank) const;
  // The argument of that name, and how it lies as a view of that many axes.
  std::size_t layOut(std::string_view field, DType dtype, std::span<std::int64_t> extents,
                     std::span<std::int64_t> strides) const;
  FieldNumber number(std::string_view field, DType dtype) const;
  [[noreturn]] void refuse(std::string_view field, const std::string &what) const;
  [[noreturn]] void refuseNumber(std::string_view field, DType dtype,
                                 const FieldNumber &value) const;
  [[noreturn]] void refuseValue(std::string_view name, std::span<const FieldSpec> fields) const;

  const Use &use;
  std::string_view kernel;
  std::span<const FieldValue> values;
};

} // namespace detail
} // namespace sectile
