// The textual form of layouts: `128x64, register [(0,1) (0,2)], lane [(0,4) …], warp [(16,0)]`.
// A shared layout names its offset bits `shared` and always prints that list.
#include "ir/layout/Layout.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/raw_ostream.h"

namespace sectile {

// Names of the lists, by input; the offset's tells shared layouts from distributed ones.
static const char *listNames[] = {"register", "lane", "warp", "block", "shared"};

std::string Layout::text() const {
  std::string result;
  llvm::raw_string_ostream out(result);
  if (theShape.empty())
    out << "scalar";
  llvm::interleave(theShape, out, "x");
  auto printList = [&](In in) {
    out << ", " << listNames[unsigned(in)] << " [";
    llvm::interleave(
        packed(in), out,
        [&](uint32_t vector) {
          out << '(';
          llvm::interleave(unpack(vector), out, ",");
          out << ')';
        },
        " ");
    out << ']';
  };
  if (isShared())
    printList(In::Offset);
  for (In in : distributedIns)
    if (bits(in))
      printList(in);
  return result;
}

namespace {

class Parser {
public:
  explicit Parser(llvm::StringRef text) : rest(text) {}

  bool take(llvm::StringRef token) {
    rest = rest.ltrim();
    return rest.consume_front(token);
  }
  bool number(int64_t &value) {
    rest = rest.ltrim();
    return !rest.consumeInteger(10, value);
  }
  bool atEnd() { return rest.ltrim().empty(); }
  bool shape(llvm::SmallVectorImpl<int64_t> &shape) {
    if (take("scalar"))
      return true;
    do {
      if (!number(shape.emplace_back()))
        return false;
    } while (rest.consume_front("x"));
    return true;
  }
  bool vector(Coordinates &vector) {
    if (take(")"))
      return true;
    do {
      if (!number(vector.emplace_back()))
        return false;
    } while (take(","));
    return take(")");
  }
  std::string where() const {
    return rest.empty() ? "at the end" : ("before `" + rest.ltrim().take_front(20) + "`").str();
  }

private:
  llvm::StringRef rest;
};

} // namespace

std::optional<Layout> Layout::parse(llvm::StringRef text, std::string *why) {
  Parser parser(text);
  auto fail = [&](const llvm::Twine &expected) {
    if (why)
      *why = ("expected " + expected + " " + parser.where()).str();
    return std::nullopt;
  };
  llvm::SmallVector<int64_t, 4> shape;
  if (!parser.shape(shape))
    return fail("a shape like 128x64");
  CoordinateBases bases;
  bool seen[numIns] = {};
  while (parser.take(",")) {
    unsigned in = 0;
    while (in < numIns && !parser.take(listNames[in]))
      ++in;
    if (in == numIns)
      return fail("register, lane, warp, block or shared");
    if (seen[in])
      return fail(llvm::Twine("only one list ") + listNames[in]);
    seen[in] = true;
    if (!parser.take("["))
      return fail("[");
    while (parser.take("("))
      if (!parser.vector(bases[in].emplace_back()))
        return fail("coordinates like (0,1)");
    if (!parser.take("]"))
      return fail("( or ]");
  }
  if (!parser.atEnd())
    return fail("a comma");
  return make(seen[unsigned(In::Offset)] ? Kind::Shared : Kind::Distributed, shape, bases, why);
}

} // namespace sectile
