// Argument<P>: what a launch takes for a kernel's parameter P. Its constructors are the types that
// fit, so that the compiler refuses the others where the launch is written.
#pragma once
#include <cstring>
#include <optional>
#include <sectile/signature.h>
#include <sectile/tensor.h>
#include <span>

namespace sectile::detail {

// A tensor as DLPack describes it, known by its members: its header is not needed here.
template <class D>
concept DLPackTensor = requires(const D &tensor) {
  tensor.data;
  tensor.device.device_type;
  tensor.device.device_id;
  tensor.ndim;
  tensor.dtype.code;
  tensor.dtype.bits;
  tensor.dtype.lanes;
  tensor.shape[0];
  tensor.strides[0];
  tensor.byte_offset;
};

// Whose memory an argument is, as far as that is known.
struct Owner {
  const runtime::DeviceImpl *device = nullptr;
  int dlpackDevice = 0;      // DLPack's number of the kind of device, or 0
  int dlpackIndex = 0;       // of the device among those of its kind
  std::uint64_t address = 0; // these two of the buffer that the argument is in or of
  std::size_t bytes = 0;

  Owner() = default;
  Owner(const Memory &memory)
      : device(memory.owner()), address(memory.address()), bytes(memory.bytes()) {}
  Owner(int dlpackDevice, int dlpackIndex) : dlpackDevice(dlpackDevice), dlpackIndex(dlpackIndex) {}
};

// Of DLPack's code and bits for a kind of elements; none where there is no such type.
std::optional<DType> dtypeOfDLPack(int code, int bits);
// Throws LaunchError when the tensor has other elements or another rank (-1: any) than the kernel's
// parameter.
void checkDLPack(int code, int bits, int lanes, int rank, DType dtypeWanted, int rankWanted);
// Throws LaunchError where the elements do not lie one after the other in row-major order.
void checkDLPackDense(const std::int64_t *extents, const std::int64_t *strides, int rank);
[[noreturn]] void throwDoesNotFit(const std::string &value, std::string_view type);
[[noreturn]] void throwNotDense(std::int64_t stride);

template <DLPackTensor D> std::uint64_t dlpackAddress(const D &tensor) {
  return reinterpret_cast<std::uintptr_t>(tensor.data) + tensor.byte_offset;
}

template <class T> std::uint64_t asWord(T value) {
  std::uint64_t word = 0;
  std::memcpy(&word, &value, sizeof value);
  return word;
}

// pack() writes the flattened arguments, own() the owner of each ArgSpec over an Owner{}; both
// return the place after them.
template <class P> class Argument;

template <class T> class Argument<Ptr<T>> {
  using Plain = std::remove_const_t<T>;
  template <class U> static constexpr bool fits = std::is_convertible_v<U (*)[], T (*)[]>;

public:
  Argument(const Buffer<Plain> &buffer)
      : address_(buffer.memory().address()), owner_(buffer.memory()) {}
  Argument(const Tensor<Plain, 1> &tensor)
      : address_(reinterpret_cast<std::uintptr_t>(tensor.data())), owner_(tensor.memory()) {
    if (tensor.stride(0) != 1 && tensor.extent(0) > 1)
      throwNotDense(tensor.stride(0));
  }
  template <class U>
    requires fits<U>
  Argument(U *pointer) : address_(reinterpret_cast<std::uintptr_t>(pointer)) {}
  template <class U, std::size_t N>
    requires fits<U>
  Argument(std::span<U, N> span) : Argument(span.data()) {}
  template <DLPackTensor D>
  Argument(const D &tensor)
      : address_(dlpackAddress(tensor)),
        owner_(int(tensor.device.device_type), int(tensor.device.device_id)) {
    checkDLPack(tensor.dtype.code, tensor.dtype.bits, tensor.dtype.lanes, tensor.ndim, dtype_of<T>,
                -1);
    checkDLPackDense(tensor.shape, tensor.strides, tensor.ndim);
  }
  template <class U>
    requires(!DLPackTensor<U> && !std::is_pointer_v<U> && !std::is_array_v<U> &&
             !std::same_as<U, Buffer<Plain>> && !std::same_as<U, Tensor<Plain, 1>>)
  Argument(const U &) {
    static_assert(always_false<U>,
                  "a kernel's Ptr<T> or Ptr<const T> takes a Buffer<T>, a dense Tensor<T, 1>, a T "
                  "* on the device, a "
                  "std::span of device memory or a DLPack tensor, of the very same T");
  }

  Owner *own(Owner *owners) const {
    *owners++ = owner_;
    return owners;
  }
  std::uint64_t *pack(std::uint64_t *words) const {
    *words++ = address_;
    return words;
  }

private:
  std::uint64_t address_ = 0;
  Owner owner_;
};

template <class T, int N> class Argument<View<T, N>> {
  using Plain = std::remove_const_t<T>;

public:
  Argument(const Tensor<Plain, N> &tensor) : Argument(tensor, 0) {}
  Argument(const Tensor<const Plain, N> &tensor)
    requires std::is_const_v<T>
      : Argument(tensor, 0) {}
  Argument(const Buffer<Plain> &buffer)
    requires(N == 1)
      : address_(buffer.memory().address()), owner_(buffer.memory()) {
    lengths_[0] = static_cast<std::int64_t>(buffer.size());
    lengths_[1] = 1;
  }
  template <DLPackTensor D>
  Argument(const D &tensor)
      : address_(dlpackAddress(tensor)),
        owner_(int(tensor.device.device_type), int(tensor.device.device_id)) {
    checkDLPack(tensor.dtype.code, tensor.dtype.bits, tensor.dtype.lanes, tensor.ndim, dtype_of<T>,
                N);
    std::int64_t stride = 1;
    for (int i = N; i-- > 0; stride *= tensor.shape[i]) { // No strides: row-major order.
      lengths_[i] = tensor.shape[i];
      lengths_[N + i] = tensor.strides ? tensor.strides[i] : stride;
    }
  }
  template <class U>
    requires(!DLPackTensor<U> && !std::same_as<U, Tensor<Plain, N>> &&
             !std::same_as<U, Tensor<const Plain, N>> && !std::same_as<U, Buffer<Plain>>)
  Argument(const U &) {
    static_assert(always_false<U>,
                  "a kernel's View<T, N> or View<const T, N> takes a Tensor<T, N>, as "
                  "sectile::tensor(buffer, {extents...}) makes it, or a DLPack tensor, of the very "
                  "same T and N");
  }

  Owner *own(Owner *owners) const {
    *owners++ = owner_;
    return owners;
  }
  std::uint64_t *pack(std::uint64_t *words) const {
    *words++ = address_;
    for (std::int64_t length : lengths_)
      *words++ = static_cast<std::uint64_t>(length);
    return words;
  }

private:
  template <class U>
  Argument(const Tensor<U, N> &tensor, int)
      : address_(reinterpret_cast<std::uintptr_t>(tensor.data())), owner_(tensor.memory()) {
    for (int i = 0; i < N; ++i) {
      lengths_[i] = tensor.extent(i);
      lengths_[N + i] = tensor.stride(i);
    }
  }

  std::uint64_t address_ = 0;
  std::int64_t lengths_[2 * N] = {}; // extents, then strides
  Owner owner_;
};

template <> class Argument<Int> {
public:
  template <std::integral I>
    requires(!std::same_as<I, bool>)
  Argument(I value) : value_(static_cast<std::int64_t>(value)) {
    if (!std::in_range<std::int64_t>(value))
      throwDoesNotFit(std::to_string(value), "i64");
  }
  template <class U>
    requires(!std::integral<U> || std::same_as<U, bool>)
  Argument(const U &) {
    static_assert(always_false<U>, "a kernel's Int takes an integer");
  }

  Owner *own(Owner *owners) const { return owners + 1; }
  std::uint64_t *pack(std::uint64_t *words) const {
    *words++ = static_cast<std::uint64_t>(value_);
    return words;
  }

private:
  std::int64_t value_ = 0;
};

template <class T> class Argument<Tile<T>> {
  template <class U>
  static constexpr bool fits = std::same_as<T, bool> ? std::same_as<U, bool>
                               : std::integral<T>    ? std::integral<U> && !std::same_as<U, bool>
                                                     : Number<U> && !std::same_as<U, bool>;

public:
  template <class U>
    requires fits<U>
  Argument(U value) : word_(asWord(static_cast<T>(value))) {
    if constexpr (std::integral<T> && !std::same_as<T, bool>)
      if (!std::in_range<T>(value))
        throwDoesNotFit(std::to_string(value), name_of(dtype_of<T>));
  }
  template <class U>
    requires(!fits<U>)
  Argument(const U &) {
    static_assert(always_false<U>, "a kernel's number takes a number of its kind: an integer, a "
                                   "floating-point number, a bool");
  }

  Owner *own(Owner *owners) const { return owners + 1; }
  std::uint64_t *pack(std::uint64_t *words) const {
    *words++ = word_;
    return words;
  }

private:
  std::uint64_t word_ = 0;
};

template <class T> class Argument<Varying<T>> : public Argument<T> {
  using Argument<T>::Argument;
};

// For a StructArgument whose fields something else knows by their names.
struct ByName {};

template <class Struct, class Types> class StructArgument;
template <class Struct, class... Fields> class StructArgument<Struct, std::tuple<Fields...>> {
public:
  // fill(words, owners) writes what all fields' pack() and own() would.
  template <class Fill> StructArgument(ByName, const Fill &fill) {
    fill(words_.data(), owners_.data());
  }
  StructArgument(const Argument<Fields> &...fields) {
    [[maybe_unused]] std::uint64_t *words = words_.data();
    [[maybe_unused]] Owner *owners = owners_.data();
    ((words = fields.pack(words), owners = fields.own(owners)), ...);
  }
  template <class... U>
    requires(sizeof...(U) != sizeof...(Fields))
  StructArgument(const U &...) {
    static_assert(always_false<U...>,
                  "a struct among a kernel's parameters takes a sectile::Arguments<Struct>, or in "
                  "braces one argument for each field, in their order");
  }

  Owner *own(Owner *owners) const {
    for (const Owner &owner : owners_)
      *owners++ = owner;
    return owners;
  }
  std::uint64_t *pack(std::uint64_t *words) const {
    for (std::uint64_t word : words_)
      *words++ = word;
    return words;
  }

private:
  std::array<std::uint64_t, wordsOf<Struct>> words_;
  std::array<Owner, specsOf<Struct>().size()> owners_;
};
template <KernelStruct Struct>
class Argument<Struct> : public StructArgument<Struct, StructTypes<Struct>> {
  using StructArgument<Struct, StructTypes<Struct>>::StructArgument;
};

} // namespace sectile::detail

namespace sectile {

// What a launch takes for a parameter that is a struct: one argument for each field, each of the
// types that the field takes as a parameter, or this again for a struct in the struct. May be kept
// and copied; what it points to must still be there at the launch. The constructor throws
// LaunchError for an argument that does not fit.
template <KernelStruct Struct> using Arguments = detail::Argument<Struct>;

} // namespace sectile
