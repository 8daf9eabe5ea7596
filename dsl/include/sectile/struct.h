// Structs of traced values: plain structs of Ptr, View, Int, Tile<T> or such structs again may be
// parameters of kernels and functions. SECTILE_STRUCT(Type, field, ...) may follow one: it checks
// what it says of the struct, where it is written. Of a class template it is template <class T>
// SECTILE_STRUCT(Type<T>, field, ...); a type with commas goes in parentheses.
#pragma once
#include <sectile/fields.h>
#include <sectile/memory.h>
#include <sectile/view.h>
#include <tuple>

namespace sectile {

namespace detail {
template <class T> inline constexpr bool canVary = false;
template <class T>
inline constexpr bool canVary<Tile<T>> = isInteger(kindOf<T>()) || std::same_as<T, Index>;
template <class T, int N> inline constexpr bool canVary<View<T, N>> = true;
} // namespace detail

// A parameter of a kernel, used like a T, that takes many values from launch to launch: a step, a
// seed, a number of tokens. Code is not specialised for the integer, or for the view's extents, so
// it does not matter whether a launch passes 1 or a multiple of 16.
template <class T> class Varying : public T {
  static_assert(detail::canVary<T>,
                "a Varying<T> is an Int, a Scalar of an integer type, or a View, whose extents "
                "vary: code is not specialised for other numbers");

public:
  using T::T;
  explicit Varying(const T &value) : T(value) {}
};

namespace detail {
template <class T> consteval bool isKernelStruct();
} // namespace detail

// A plain struct of traced values.
template <class T>
concept KernelStruct = detail::isKernelStruct<T>();

namespace detail {

// What a kernel's parameter and a field of such a struct may be.
template <class T> inline constexpr bool isTraced = KernelStruct<T>;
template <class T> inline constexpr bool isTraced<Ptr<T>> = true;
template <class T> inline constexpr bool isTraced<Tile<T>> = true;
template <class T, int N> inline constexpr bool isTraced<View<T, N>> = true;
template <class T> inline constexpr bool isTraced<Varying<T>> = true;

template <class... Values> consteval bool areTraced(std::type_identity<std::tuple<Values...>>) {
  return (isTraced<Values> && ...);
}
template <class T> consteval bool isKernelStruct() {
  if constexpr (requires { sectileStructFields(std::type_identity<T>()); })
    return true;
  else if constexpr (fieldCount<T>() > 0)
    return areTraced(std::type_identity<typename Fields<T>::Types>());
  else
    return std::is_empty_v<T> && std::is_aggregate_v<T> &&
           !requires { sectileConfigFields(std::type_identity<T>()); };
}

template <KernelStruct Struct> using StructTypes = typename Fields<Struct>::Types;

// Calls make(std::type_identity<type>()) for each field, in order.
template <KernelStruct Struct, class Make> Struct makeStruct([[maybe_unused]] Make make) {
  return Fields<Struct>::template build<Struct>(
      [&](auto type, std::string_view) { return make(type); });
}

} // namespace detail
} // namespace sectile

#define SECTILE_STRUCT(Type, ...)                                                                  \
  [[maybe_unused]] inline constexpr auto sectileStructFields(                                      \
      std::type_identity<SECTILE_DETAIL_TYPE(Type)>) {                                             \
    using Struct = SECTILE_DETAIL_TYPE(Type);                                                      \
    static_assert(std::is_aggregate_v<Struct>,                                                     \
                  "SECTILE_STRUCT takes a plain struct, which is made field by field");            \
    static_assert(::sectile::detail::namesEveryField<Struct>(#__VA_ARGS__),                        \
                  "SECTILE_STRUCT must name every field of the struct, in their order");           \
    static_assert(::sectile::detail::areTraced(                                                    \
                      std::type_identity<typename ::sectile::detail::Fields<Struct>::Types>()),    \
                  "a field of SECTILE_STRUCT is a Ptr, a View, an Int, a Tile<T> (one number) or " \
                  "a struct of these");                                                            \
  }
