// Arguments of a kernel in words, as kernels declare it: for messages, descriptions and comments.
#ifndef SECTILE_RUNTIME_DECLARED_ARGUMENTS_H
#define SECTILE_RUNTIME_DECLARED_ARGUMENTS_H
#include <sectile/signature.h>
#include <span>
#include <string>

namespace sectile::runtime {

/// "Ptr<const f32>", "View<f16, 2>", "Int" or "f32".
inline std::string declared(const detail::ArgSpec &spec) {
  const std::string element = (spec.readonly ? "const " : "") + std::string(name_of(spec.dtype));
  switch (spec.kind) {
  case detail::ArgKind::pointer:
    return "Ptr<" + element + ">";
  case detail::ArgKind::view:
    return "View<" + element + ", " + std::to_string(spec.rank) + ">";
  case detail::ArgKind::index:
    return "Int";
  case detail::ArgKind::scalar:
    break;
  }
  return std::string(name_of(spec.dtype));
}

/// "(Ptr<const f32>, Int)".
inline std::string declared(std::span<const detail::ArgSpec> specs) {
  std::string text;
  for (const detail::ArgSpec &spec : specs)
    text += (text.empty() ? "" : ", ") + declared(spec);
  return "(" + text + ")";
}

} // namespace sectile::runtime

#endif
