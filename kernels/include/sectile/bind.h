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
      : name(name), value(detail::FieldTensor{&tensor, dtype_of<T>, N}) {}

  std::string_view name;
  std::variant<detail::FieldNumber, detail::FieldTensor> value;
};

namespace detail {

// A kernel whose arguments are the fields of one struct.
template <class Kernel>
concept NamedKernel =
    Kernel::parameters == 1 && KernelStruct<typename Kernel::template Parameter<0>>;

// One launch's fields. The functions throw Error for a field that nothing fits.
class Binding {
public:
  Binding(const Use &use, std::string_view kernel, std::span<const FieldValue> values)
      : use(use), kernel(kernel), values(values) {}

  template <KernelStruct Struct> Arguments<Struct> all() {
    for (const FieldValue &value : values)
      if (std::vector<std::string_view> names = fieldsOf<Struct>();
          std::find(names.begin(), names.end(), value.name) == names.end())
        refuseValue(value.name, names);
    return bind<Struct>("");
  }

private:
  template <KernelStruct Struct> static std::vector<std::string_view> fieldsOf() {
    std::vector<std::string_view> names;
    Fields<Struct>::eachType([&]<class F>(std::type_identity<F>, std::string_view name) {
      if constexpr (KernelStruct<F>)
        for (const std::string_view within : fieldsOf<F>())
          names.push_back(within);
      else
        names.push_back(name);
    });
    return names;
  }

  // A struct within has no name of its own: its fields have.
  template <KernelStruct Struct> Arguments<Struct> bind(std::string_view) const {
    return Fields<Struct>::template build<Arguments<Struct>>(
        [&]<class F>(std::type_identity<F>, std::string_view name) { return bind<F>(name); });
  }
  template <class F>
    requires(!KernelStruct<F>)
  Argument<F> bind(std::string_view field) const {
    static constexpr ArgSpec type = Parameter<F>::spec;
    if constexpr (type.kind == ArgKind::view || type.kind == ArgKind::pointer) {
      constexpr int rank = type.kind == ArgKind::view ? type.rank : 1;
      using T = typename F::value_type;
      if (const void *given = givenTensor(field, type.dtype, rank))
        return *static_cast<const Tensor<T, rank> *>(given);
      std::array<std::int64_t, rank> extents{}, strides{};
      const std::size_t argument = layOut(field, type.dtype, extents, strides);
      return Tensor<T, rank>(reinterpret_cast<T *>(address(argument)), extents, strides,
                             memory(argument));
    } else {
      return std::visit(
          [&](auto value) -> Argument<F> {
            using V = decltype(value);
            if constexpr (std::same_as<V, bool> ? type.dtype == DType::boolean
                          : std::integral<V>    ? type.dtype != DType::boolean
                                                : is_floating(type.dtype))
              return value;
            else
              refuseNumber(field, type.dtype, value);
          },
          number(field, type.dtype));
    }
  }

  const FieldValue *given(std::string_view field) const;
  // Null: there is none.
  const void *givenTensor(std::string_view field, DType dtype, int rank) const;
  // The argument of that name, and how it lies as a view of that many axes.
  std::size_t layOut(std::string_view field, DType dtype, std::span<std::int64_t> extents,
                     std::span<std::int64_t> strides) const;
  FieldNumber number(std::string_view field, DType dtype) const;
  std::uint64_t address(std::size_t argument) const;
  Memory memory(std::size_t argument) const;
  [[noreturn]] void refuse(std::string_view field, const std::string &what) const;
  [[noreturn]] void refuseNumber(std::string_view field, DType dtype,
                                 const FieldNumber &value) const;
  [[noreturn]] void refuseValue(std::string_view name,
                                std::span<const std::string_view> fields) const;

  const Use &use;
  std::string_view kernel;
  std::span<const FieldValue> values;
};

} // namespace detail
} // namespace sectile
