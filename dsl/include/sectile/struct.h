// SECTILE_STRUCT(Type, field, ...) makes a plain struct of traced values a parameter of kernels and
// functions. Its fields are Ptr, View, Int, Tile<T> or such structs again. Write it after the
// struct, in the struct's namespace, once, and name every field in the order of declaration. Of a
// class template: template <class T> SECTILE_STRUCT(Type<T>, field, ...). A type with commas goes
// in parentheses: template <class T, int N> SECTILE_STRUCT((Type<T, N>), field, ...).
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

// A struct that SECTILE_STRUCT names the fields of.
template <class T>
concept KernelStruct = requires(std::type_identity<T> type) { sectileStructFields(type); };

namespace detail {

template <KernelStruct Struct>
inline constexpr auto structFields = sectileStructFields(std::type_identity<Struct>());

// What a kernel's parameter and a field of such a struct may be.
template <class T> inline constexpr bool isTraced = KernelStruct<T>;
template <class T> inline constexpr bool isTraced<Ptr<T>> = true;
template <class T> inline constexpr bool isTraced<Tile<T>> = true;
template <class T, int N> inline constexpr bool isTraced<View<T, N>> = true;
template <class T> inline constexpr bool isTraced<Varying<T>> = true;

template <class Places, class... Structs, class... Values>
consteval bool areTracedFields(const FieldList<Places, Field<Structs, Values>...> &) {
  return (isTraced<Values> && ...);
}

// A std::tuple of the fields' types.
template <class Fields> struct FieldTypes;
template <class Places, class... Structs, class... Values>
struct FieldTypes<const FieldList<Places, Field<Structs, Values>...>> {
  using type = std::tuple<Values...>;
};
template <KernelStruct Struct>
using StructTypes = typename FieldTypes<decltype(structFields<Struct>)>::type;

// Calls make(std::type_identity<type>()) for each field, in order.
template <KernelStruct Struct, class Make> Struct makeStruct([[maybe_unused]] Make make) {
  return [&]<class... Values>(std::type_identity<std::tuple<Values...>>) {
    return Struct{make(std::type_identity<Values>())...};
  }(std::type_identity<StructTypes<Struct>>());
}

} // namespace detail
} // namespace sectile

#define SECTILE_STRUCT(Type, ...)                                                                  \
  [[maybe_unused]] inline constexpr auto sectileStructFields(                                      \
      std::type_identity<SECTILE_DETAIL_TYPE(Type)>) {                                             \
    using Struct = SECTILE_DETAIL_TYPE(Type);                                                      \
    constexpr auto fields = SECTILE_DETAIL_FIELDS_OF(Struct __VA_OPT__(, ) __VA_ARGS__);           \
    static_assert(std::is_aggregate_v<Struct>,                                                     \
                  "SECTILE_STRUCT takes a plain struct, which is made field by field");            \
    static_assert(::sectile::detail::namesEveryField<Struct>(fields),                              \
                  "SECTILE_STRUCT must name every field of the struct, in their order");           \
    static_assert(::sectile::detail::areTracedFields(fields),                                      \
                  "a field of SECTILE_STRUCT is a Ptr, a View, an Int, a Tile<T> (one number) or " \
                  "a struct that SECTILE_STRUCT names the fields of before");                      \
    return fields;                                                                                 \
  }
