// Whether operands of a visibility have the extents of a call.
#pragma once
#include <array>
#include <initializer_list>
#include <optional>
#include <sectile/flash/visibility.h>

namespace sectile::flash::detail {

// What extents of a visibility's operands have to be; queries and keys are not known where
// sequences differ.
struct CallExtents {
  std::int64_t batches, heads;
  std::optional<std::int64_t> queries = {}, keys = {};
};
// `words` are those of a view, as a launch takes it. Throws LaunchError.
struct WantedExtent {
  const char *name;
  std::optional<std::int64_t> extent;
  bool orOne = false;
};
void checkExtents(const char *function, const std::uint64_t *words,
                  std::initializer_list<WantedExtent> wanted);

// Of visibilities of the library; others are taken as they are.
template <class V>
void checkOperands(std::type_identity<V>, const std::uint64_t *, const CallExtents &) {}
void checkOperands(std::type_identity<Documents>, const std::uint64_t *words,
                   const CallExtents &call);
void checkOperands(std::type_identity<Prefix>, const std::uint64_t *words, const CallExtents &call);
void checkOperands(std::type_identity<KeyLengths>, const std::uint64_t *words,
                   const CallExtents &call);
void checkOperands(std::type_identity<KeyMask>, const std::uint64_t *words,
                   const CallExtents &call);
void checkOperands(std::type_identity<Mask>, const std::uint64_t *words, const CallExtents &call);
void checkOperands(std::type_identity<MaskBlocks>, const std::uint64_t *words,
                   const CallExtents &call);
void checkOperands(std::type_identity<Tree>, const std::uint64_t *words, const CallExtents &call);
void checkOperands(std::type_identity<TokenTree>, const std::uint64_t *words,
                   const CallExtents &call);
template <class V>
void checkOperands(std::type_identity<Listed<V>>, const std::uint64_t *words,
                   const CallExtents &call);
template <class A, class B>
void checkOperands(std::type_identity<And<A, B>>, const std::uint64_t *words,
                   const CallExtents &call);
template <class A, class B>
void checkOperands(std::type_identity<Or<A, B>>, const std::uint64_t *words,
                   const CallExtents &call) {
  checkOperands(std::type_identity<A>(), words, call);
  checkOperands(std::type_identity<B>(), words + sectile::detail::wordsOf<A>, call);
}
template <class A, class B>
void checkOperands(std::type_identity<And<A, B>>, const std::uint64_t *words,
                   const CallExtents &call) {
  checkOperands(std::type_identity<Or<A, B>>(), words, call);
}
template <class V>
void checkOperands(std::type_identity<Listed<V>>, const std::uint64_t *words,
                   const CallExtents &call) {
  checkOperands(std::type_identity<V>(), words, call);
  checkOperands(std::type_identity<MaskBlocks>(), words + sectile::detail::wordsOf<V>, call);
}
template <class V> void checkVisibility(const Arguments<V> &visibility, const CallExtents &call) {
  std::array<std::uint64_t, sectile::detail::wordsOf<V>> words;
  visibility.pack(words.data());
  checkOperands(std::type_identity<V>(), words.data(), call);
}

} // namespace sectile::flash::detail
