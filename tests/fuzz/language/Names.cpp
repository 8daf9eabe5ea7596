// Kernels of any name.
#include "tests/fuzz/language/Cases.h"
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <sectile/sectile.h>

namespace sectile::fuzz {

std::string someName(Draw &draw) {
  static constexpr const char *pieces[] = {
      "plain",  " ",    ".",   "\"", "\\", "/",  "../", "$",    "%",      "@",      "\n", "\t",
      "größe",  "2d",   "-",   "(",  ")",  "<",  ">",   "::",   "llvm.",  "memcpy", "'",  ";",
      "ret",    "main", "{",   "}",  "#",  "//", "_",   "func", ".entry", "\x7f",   "*",  "b32",
      "kernel", "a",    "sum", ",",  "?",  "!",  "|",   "\x01", "\xff",   "`",      "=",  "+"};
  std::string name;
  switch (draw.pick(4)) {
  case 0: // bytes
    for (size_t i = draw.pick(12); i-- > 0;)
      name += char(1 + draw.pick(255));
    return name;
  case 1: {
    static constexpr const char *whole[] = {"",     "llvm.memcpy", "ret",  "main", "2d_add",
                                            ".",    "..",          "../a", "/",    "memcpy",
                                            "a\"b", "%r1",         "_",    "$",    "sectile.x"};
    return draw.oneOf(whole);
  }
  case 2: // long
    for (size_t i = 100 + draw.pick(300); i-- > 0;)
      name += draw.pick(20) ? 'x' : ' ';
    return name;
  default: {
    size_t up = 0;
    for (size_t i = 1 + draw.pick(5); i-- > 0;) {
      std::string piece = draw.oneOf(pieces);
      // What leaves the folder stays where it is looked for.
      if ((piece == "../" || piece == ".") && ++up > 3)
        continue;
      name += piece;
    }
    return name;
  }
  }
}

std::optional<std::string> faultOfEntry(const std::string &ptx) {
  size_t at = ptx.find(".entry ");
  if (at == std::string::npos)
    return "PTX without an entry";
  at += 7;
  const std::string name = ptx.substr(at, ptx.find('(', at) - at);
  bool fits = !name.empty() && !std::isdigit(static_cast<unsigned char>(name[0]));
  for (char c : name)
    fits = fits && (std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '$');
  if (!fits)
    return "an entry that PTX does not take: " + name;
  return std::nullopt;
}

std::optional<std::string> kernelName(uint64_t seed, const std::string &device,
                                      const std::string &folder) {
  Draw draw(seed);
  const std::string name = someName(draw);
  const int number = int(draw.pick(1000));
  // Deep enough that what goes up is still found.
  const auto top = std::filesystem::path(folder) / ("names-" + std::to_string(seed));
  const auto dumps = top / "a" / "b" / "c" / "dumps";
  std::filesystem::create_directories(dumps);
  ::setenv("SECTILE_DUMP", dumps.c_str(), 1);
  std::optional<std::string> wrong;
  try {
    Kernel kernel{name.c_str(), [number](Ptr<float> y) { store(y, Float(float(number))); }};
    Device opened = Device::open(device);
    auto y = opened.allocate<float>(1);
    kernel.launch(opened.stream(), 1, y);
    if (y.download()[0] != float(number))
      wrong = "wrong";
    else
      wrong = faultOfEntry(kernel.emit("sm_90a", "ptx", static_cast<float *>(nullptr)));
    for (const char *form : {"amdgcn", "hsaco"})
      if (!wrong && kernel.emit("gfx942", form, static_cast<float *>(nullptr)).empty())
        wrong = std::string("no ") + form;
  } catch (const Error &error) {
    wrong = error.what();
  }
  ::unsetenv("SECTILE_DUMP");
  bool any = false;
  for (const auto &entry : std::filesystem::recursive_directory_iterator(top)) {
    if (!entry.is_regular_file())
      continue;
    if (entry.path().parent_path() == dumps)
      any = true;
    else if (!wrong)
      wrong = "a dump leaves its folder: " + entry.path().string();
  }
  if (!wrong && !any)
    wrong = "no dump";
  std::filesystem::remove_all(top);
  if (wrong)
    return *wrong + "\n  the kernel's name: '" + name + "'";
  return std::nullopt;
}

} // namespace sectile::fuzz
