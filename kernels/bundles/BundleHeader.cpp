// Writes headers of C for bundles.
#include "kernels/bundles/BundleHeader.h"
#include "runtime/DeclaredArguments.h"
#include "runtime/LaunchAccess.h"
#include <algorithm>
#include <cctype>
#include <set>
#include <sstream>

namespace sectile {
namespace {

using detail::ArgKind;
using detail::ArgSpec;

// Of C or C++, which may read the header as well.
bool isKeyword(const std::string &word) {
  static const std::set<std::string_view> all = {
      "alignas",   "alignof",   "and",      "asm",      "auto",         "bool",     "break",
      "case",      "catch",     "char",     "class",    "concept",      "const",    "constexpr",
      "continue",  "decltype",  "default",  "delete",   "do",           "double",   "else",
      "enum",      "explicit",  "export",   "extern",   "false",        "float",    "for",
      "friend",    "goto",      "if",       "inline",   "int",          "long",     "mutable",
      "namespace", "new",       "noexcept", "not",      "nullptr",      "operator", "or",
      "private",   "protected", "public",   "register", "requires",     "restrict", "return",
      "short",     "signed",    "sizeof",   "static",   "struct",       "switch",   "template",
      "this",      "throw",     "true",     "try",      "typedef",      "typeid",   "typename",
      "union",     "unsigned",  "using",    "virtual",  "void",         "volatile", "while",
      "xor",       "stream",    "grid",     "options",  "option_count", "config",   "config_count"};
  return all.contains(word);
}

std::string identifier(std::string_view text) {
  std::string name;
  for (const char c : text)
    name += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  if (name.empty() || std::isdigit(static_cast<unsigned char>(name[0])))
    name.insert(name.begin(), '_');
  return name;
}

std::string argumentName(const std::string &text) {
  const std::string name = identifier(text);
  return isKeyword(name) ? name + "_" : name;
}

std::string upper(std::string text) {
  for (char &c : text)
    c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return text;
}

struct Parameter {
  const char *type;     // with the space or star before the name
  const char *function; // that makes a sectile_value of it
};

Parameter parameterOf(const ArgSpec &spec) {
  if (spec.kind == ArgKind::pointer)
    return {"const DLTensor *", "pointer"};
  if (spec.kind == ArgKind::view)
    return {"const DLTensor *", "view"};
  if (spec.kind == ArgKind::scalar && is_floating(spec.dtype))
    return {"double ", "real"};
  if (spec.kind == ArgKind::scalar && spec.dtype == DType::uint64)
    return {"uint64_t ", "natural"};
  return {"int64_t ", "integer"};
}

bool isInteger(const std::string &text) {
  const std::size_t from = text.starts_with('-');
  return text.size() > from &&
         std::all_of(text.begin() + static_cast<std::ptrdiff_t>(from), text.end(),
                     [](unsigned char c) { return std::isdigit(c); });
}

std::string quoted(const std::string &text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\')
      result += '\\';
    result += c;
  }
  return result + "\"";
}

constexpr std::string_view helpers = R"(
static inline sectile_value @_value_pointer(const DLTensor *tensor) {
  sectile_value value;
  value.kind = tensor ? SECTILE_TENSOR : SECTILE_ADDRESS;
  if (tensor)
    value.value.tensor = tensor;
  else
    value.value.address = 0;
  return value;
}
static inline sectile_value @_value_view(const DLTensor *tensor) {
  sectile_value value;
  value.kind = SECTILE_TENSOR;
  value.value.tensor = tensor;
  return value;
}
static inline sectile_value @_value_integer(int64_t number) {
  sectile_value value;
  value.kind = SECTILE_INT64;
  value.value.i = number;
  return value;
}
static inline sectile_value @_value_natural(uint64_t number) {
  sectile_value value;
  value.kind = SECTILE_UINT64;
  value.value.u = number;
  return value;
}
static inline sectile_value @_value_real(double number) {
  sectile_value value;
  value.kind = SECTILE_DOUBLE;
  value.value.d = number;
  return value;
}
static inline sectile_option @_field(const char *name, const char *text) {
  sectile_option field;
  field.name = name;
  field.kind = SECTILE_TEXT;
  field.value.text = text;
  return field;
}
)";

std::string replaced(std::string_view text, const std::string &prefix) {
  std::string result;
  for (const char c : text)
    c == '@' ? result += prefix : result += c;
  return result;
}

} // namespace

void BundleHeader::add(const detail::BoundLaunch &launch) {
  const std::string name(launch.kernel->name());
  const std::vector<ArgSpec> signature(launch.kernel->arguments().begin(),
                                       launch.kernel->arguments().end());
  auto at = std::ranges::find_if(
      kernels_, [&](const Kernel &one) { return one.name == name && one.signature == signature; });
  if (at == kernels_.end())
    at = kernels_.insert(at, {name, signature, {}});
  Configuration configuration;
  const detail::PackedLaunch packed = launch.packed();
  std::istringstream words(packed.describeConfig ? packed.describeConfig(packed.config) : "");
  for (std::string word; words >> word;)
    if (const std::size_t equals = word.find('='); equals != word.npos)
      configuration.fields.emplace_back(word.substr(0, equals), word.substr(equals + 1));
  const CompileOptions options = runtime::LaunchAccess::options(launch);
  for (const auto &[field, value] :
       {std::pair("warps", options.warps), std::pair("stages", options.stages)})
    if (std::ranges::none_of(configuration.fields,
                             [&](const auto &known) { return known.first == field; }))
      configuration.fields.emplace_back(field, std::to_string(value));
  if (std::ranges::find(at->configurations, configuration) == at->configurations.end())
    at->configurations.push_back(std::move(configuration));
}

void BundleHeader::add(const KernelSpec &kernel) {
  if (std::ranges::find(operations_, &kernel) == operations_.end())
    operations_.push_back(&kernel);
}

std::string BundleHeader::text(std::string_view given) const {
  const std::string prefix = identifier(given);
  std::ostringstream out;
  out << "// Made by `sectile build --header`: what the bundle has, as functions. Each works in "
         "the\n"
         "// stream and does not wait, and fails as the function of sectile.h that it calls. Open\n"
         "// the bundle first (sectile_bundle_load) where it is a file that no library was built "
         "with.\n"
         "#ifndef "
      << upper(prefix) << "_H\n#define " << upper(prefix) << "_H\n\n#include <sectile.h>\n"
      << replaced(helpers, prefix);
  std::set<std::string> taken;
  for (const Kernel &kernel : kernels_) {
    // Kernels of one name differ in their arguments.
    std::string name = prefix + "_" + identifier(kernel.name);
    for (unsigned number = 2; !taken.insert(name).second; ++number)
      name = prefix + "_" + identifier(kernel.name) + "_" + std::to_string(number);
    const bool isFixed = kernel.configurations.size() == 1;
    out << "\n// " << identifier(kernel.name) << runtime::declared(kernel.signature);
    for (const Configuration &configuration : kernel.configurations) {
      out << (&configuration == kernel.configurations.data() ? ", with" : "; or");
      for (const auto &[field, value] : configuration.fields)
        out << " " << field << "=" << value;
    }
    out << ".\n// A null pointer is given for a Ptr that is null."
        << (isFixed ? "\n" : " `config` says which of the configurations.\n");
    if (isFixed)
      for (const auto &[field, value] : kernel.configurations[0].fields)
        if (isInteger(value))
          out << "#define " << upper(name + "_" + identifier(field)) << " " << value << "\n";
    out << "static inline sectile_status " << name
        << "(sectile_stream *stream, const uint32_t grid[3]";
    for (std::size_t i = 0; i < kernel.signature.size(); ++i)
      out << ", " << parameterOf(kernel.signature[i]).type << "x" << i;
    if (!isFixed)
      out << ", const sectile_option *config, size_t config_count";
    out << ") {\n  const sectile_kernel *kernel = 0;\n"
        << "  sectile_status status = sectile_kernel_find(" << quoted(kernel.name)
        << ", &kernel);\n  sectile_value arguments["
        << std::max<std::size_t>(kernel.signature.size(), 1) << "];\n";
    if (isFixed) {
      const auto &fields = kernel.configurations[0].fields;
      out << "  sectile_option config[" << fields.size() << "];\n";
      for (std::size_t i = 0; i < fields.size(); ++i)
        out << "  config[" << i << "] = " << prefix << "_field(" << quoted(fields[i].first) << ", "
            << quoted(fields[i].second) << ");\n";
    }
    for (std::size_t i = 0; i < kernel.signature.size(); ++i)
      out << "  arguments[" << i << "] = " << prefix << "_value_"
          << parameterOf(kernel.signature[i]).function << "(x" << i << ");\n";
    out << "  if (status == SECTILE_OK)\n"
           "    status = sectile_kernel_launch(kernel, stream, grid, arguments, "
        << kernel.signature.size() << ", config, "
        << (isFixed ? std::to_string(kernel.configurations[0].fields.size()) : "config_count")
        << ");\n  return status;\n}\n";
  }
  for (const KernelSpec *operation : operations_) {
    std::string name = prefix + "_" + identifier(operation->name);
    if (!taken.insert(name).second)
      taken.insert(name += "_call"); // beside a kernel of the name
    out << "\n// sectile_op_run() of '" << operation->name
        << "': inputs, then outputs; null pointers for those that the call does not have.\n"
        << "static inline sectile_status " << name << "(sectile_stream *stream";
    for (const ArgumentSpec &argument : operation->arguments)
      out << ", const DLTensor *" << argumentName(argument.name);
    out << ", const sectile_option *options, size_t option_count) {\n"
        << "  const sectile_op *op = 0;\n  sectile_status status = sectile_op_find("
        << quoted(operation->name) << ", &op);\n  const DLTensor *arguments["
        << operation->arguments.size() << "];\n";
    for (std::size_t i = 0; i < operation->arguments.size(); ++i)
      out << "  arguments[" << i << "] = " << argumentName(operation->arguments[i].name) << ";\n";
    out << "  if (status == SECTILE_OK)\n    status = sectile_op_run(op, stream, arguments, "
        << operation->arguments.size() << ", options, option_count);\n  return status;\n}\n";
  }
  out << "\n#endif\n";
  return std::move(out).str();
}

} // namespace sectile
