// Mutations of tokens and lines.
#include "tests/fuzz/ir/Mutator.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSet.h"

using llvm::StringRef;

namespace sectile::fuzz {

static constexpr StringRef elementTypes[] = {
    "i1",   "i8",    "i16",  "i32",      "i64",      "i7",     "i128", "f16",
    "bf16", "f32",   "f64",  "f8E4M3FN", "f8E5M2",   "f8E4M3", "tf32", "f128",
    "ui8",  "index", "none", "si8",      "f4E2M1FN", "i65"};
static constexpr StringRef otherTypes[] = {"!tile.ptr<f32>",    "!tile.ptr<i1>",
                                           "!tile.ptr<f16>",    "!tile.view<2xf16>",
                                           "!tile.view<1xf32>", "tensor<4xi32>",
                                           "tensor<f32>",       "tensor<64x64xf16>",
                                           "vector<4xf32>",     "complex<f32>",
                                           "tensor<?xf32>",     "tensor<*xf32>",
                                           "memref<4xf32>",     "!tile.ptr<!tile.ptr<i8>>",
                                           "tensor<0xf32>",     "tuple<i32, f32>"};
static constexpr StringRef numbers[] = {
    "0",          "1",          "2",          "3",
    "4",          "5",          "7",          "8",
    "15",         "16",         "17",         "31",
    "32",         "33",         "48",         "63",
    "64",         "80",         "96",         "127",
    "128",        "255",        "256",        "1024",
    "4096",       "65535",      "65536",      "1048576",
    "2147483647", "2147483648", "4294967296", "9223372036854775807",
    "-1",         "-2",         "-8",         "-2147483648"};
static constexpr StringRef extents[] = {
    "0",  "1",  "2",   "3",   "4",   "7",   "8",   "16",   "24",   "32",      "48",        "64",
    "80", "96", "100", "128", "160", "256", "512", "1024", "8192", "1000000", "4294967296"};
static constexpr StringRef targets[] = {"\"sm_80\"",  "\"sm_90a\"",  "\"sm_89\"",
                                        "\"gfx942\"", "\"gfx1100\"", "\"sm_75\""};

Mutator::Mutator(const std::vector<std::string> &corpus) {
  llvm::StringSet<> seenOperations, seenFollowing;
  for (StringRef type : elementTypes)
    types.push_back(type.str());
  for (StringRef type : otherTypes)
    types.push_back(type.str());
  for (const std::string &text : corpus) {
    std::string before;
    for (const Token &token : tokenize(text)) {
      if (token.kind == Token::Space || token.kind == Token::Line)
        continue;
      StringRef word = token.text;
      if (token.kind == Token::Name && word.contains('.') && seenOperations.insert(word).second)
        operations[word.split('.').first].push_back(token.text);
      if ((token.kind == Token::Name || token.kind == Token::Alias) &&
          seenFollowing.insert(before + "\n" + token.text).second)
        following[before].push_back(token.text);
      before = token.text;
    }
  }
}

/// One text under change.
class Mutator::Change {
public:
  Change(const Mutator &mutator, Tokens tokens, std::mt19937_64 &random)
      : mutator(mutator), tokens(std::move(tokens)), random(random) {}

  bool once();
  Tokens take() && { return std::move(tokens); }

private:
  size_t pick(size_t n) { return random() % n; }
  template <class List> auto &&oneOf(List &&list) { return list[pick(std::size(list))]; }
  /// Some token of which `fits` holds, or none.
  template <class Fits> Token *some(Fits fits) {
    std::vector<Token *> all;
    for (Token &token : tokens)
      if (fits(token))
        all.push_back(&token);
    return all.empty() ? nullptr : oneOf(all);
  }
  Token *some(Token::Kind kind) {
    return some([&](const Token &token) { return token.kind == kind; });
  }
  /// First token and one past the last of the lines of the text.
  std::vector<std::pair<size_t, size_t>> lines() const;

  bool changeNumber();
  bool changeExtent();
  bool changeRank();
  bool changeType();
  bool changeValue();
  bool changeWord();
  bool changeOperation();
  bool changeString();
  bool changeToken();
  bool changeLines();
  std::string number(StringRef old);

  const Mutator &mutator;
  Tokens tokens;
  std::mt19937_64 &random;
};

std::vector<std::pair<size_t, size_t>> Mutator::Change::lines() const {
  std::vector<std::pair<size_t, size_t>> result;
  size_t start = 0;
  for (size_t i = 0; i < tokens.size(); ++i)
    if (tokens[i].kind == Token::Line) {
      if (i > start)
        result.push_back({start, i + 1});
      start = i + 1;
    }
  return result;
}

std::string Mutator::Change::number(StringRef old) {
  int64_t value;
  if (pick(2) || old.getAsInteger(10, value))
    return oneOf(numbers).str();
  static constexpr int64_t steps[] = {-1, 1, 2, -2, 8};
  switch (pick(3)) {
  case 0:
    return std::to_string(static_cast<uint64_t>(value) * 2);
  case 1:
    return std::to_string(value / 2);
  default:
    return std::to_string(static_cast<int64_t>(static_cast<uint64_t>(value) + oneOf(steps)));
  }
}

bool Mutator::Change::changeNumber() {
  Token *token = some(Token::Number);
  if (token)
    token->text = number(token->text);
  return token;
}

/// One extent, or all that are the same: then shapes go on fitting together.
bool Mutator::Change::changeExtent() {
  Token *token = some(Token::Extent);
  if (!token)
    return false;
  std::string old = token->text, next = oneOf(extents).str();
  if (pick(4) == 0) {
    token->text = next;
    return true;
  }
  for (Token &other : tokens)
    if (other.kind == Token::Extent && other.text == old)
      other.text = next;
  return true;
}

bool Mutator::Change::changeRank() {
  Token *token = some(Token::Extent);
  if (!token)
    return false;
  size_t at = token - tokens.data();
  if (pick(2) && at + 1 < tokens.size())
    tokens.erase(tokens.begin() + at, tokens.begin() + at + 2);
  else
    tokens.insert(tokens.begin() + at,
                  {{Token::Extent, oneOf(extents).str()}, {Token::Times, "x"}});
  return true;
}

bool Mutator::Change::changeType() {
  auto isType = [](const Token &token) {
    return token.kind == Token::Name && llvm::is_contained(elementTypes, token.text);
  };
  Token *token = some(isType);
  if (!token)
    return false;
  std::string old = token->text, next = pick(5) ? oneOf(elementTypes).str() : oneOf(mutator.types);
  if (pick(3) == 0) {
    token->text = next;
    return true;
  }
  for (Token &other : tokens)
    if (isType(other) && other.text == old)
      other.text = next;
  return true;
}

bool Mutator::Change::changeValue() {
  Token *token = some(Token::Value), *other = some(Token::Value);
  if (!token)
    return false;
  if (pick(2))
    token->text = other->text;
  else
    std::swap(token->text, other->text);
  return true;
}

/// A word that stands behind the same token elsewhere.
bool Mutator::Change::changeWord() {
  Token *token = some(
      [](const Token &token) { return token.kind == Token::Name || token.kind == Token::Alias; });
  if (!token)
    return false;
  std::string before;
  for (Token *other = tokens.data(); other != token; ++other)
    if (other->kind != Token::Space && other->kind != Token::Line)
      before = other->text;
  auto words = mutator.following.find(before);
  if (words == mutator.following.end())
    return false;
  token->text = oneOf(words->second);
  return true;
}

bool Mutator::Change::changeOperation() {
  Token *token = some([](const Token &token) {
    return token.kind == Token::Name && StringRef(token.text).contains('.');
  });
  if (!token)
    return false;
  auto words = mutator.operations.find(StringRef(token->text).split('.').first);
  if (words == mutator.operations.end())
    return false;
  token->text = oneOf(words->second);
  return true;
}

/// Layouts are strings with numbers in parentheses.
bool Mutator::Change::changeString() {
  Token *token = some(Token::String);
  if (!token)
    return false;
  if (StringRef(token->text).starts_with("\"sm_") || StringRef(token->text).starts_with("\"gfx")) {
    token->text = oneOf(targets).str();
    return true;
  }
  Tokens inner = tokenize(StringRef(token->text).drop_front().drop_back());
  if (inner.empty())
    return false;
  size_t at = pick(inner.size());
  if (inner[at].kind == Token::Number || inner[at].kind == Token::Extent) {
    inner[at].text = number(inner[at].text);
  } else if (inner[at].text == "(") {
    size_t end = at;
    while (end < inner.size() && inner[end].text != ")")
      ++end;
    end = std::min(end + 1, inner.size());
    if (pick(2))
      inner.erase(inner.begin() + at, inner.begin() + end);
    else
      inner.insert(
          inner.begin() + at,
          {{Token::Mark, "("}, {Token::Number, "1"}, {Token::Mark, ")"}, {Token::Space, " "}});
  } else if (pick(4) == 0) {
    inner.erase(inner.begin() + at);
  } else {
    return false;
  }
  token->text = "\"" + join(inner) + "\"";
  return true;
}

bool Mutator::Change::changeToken() {
  if (tokens.size() < 2)
    return false;
  size_t at = pick(tokens.size() - 1);
  switch (pick(3)) {
  case 0:
    tokens.erase(tokens.begin() + at);
    break;
  case 1:
    tokens.insert(tokens.begin() + at, tokens[at]);
    break;
  default:
    std::swap(tokens[at], tokens[at + 1]);
  }
  return true;
}

bool Mutator::Change::changeLines() {
  auto all = lines();
  if (all.size() < 2)
    return false;
  size_t line = pick(all.size() - 1);
  auto [first, end] = all[line];
  switch (pick(3)) {
  case 0:
    tokens.erase(tokens.begin() + first, tokens.begin() + end);
    break;
  case 1: {
    Tokens copy(tokens.begin() + first, tokens.begin() + end);
    tokens.insert(tokens.begin() + end, copy.begin(), copy.end());
    break;
  }
  default:
    std::rotate(tokens.begin() + first, tokens.begin() + end,
                tokens.begin() + all[line + 1].second);
  }
  return true;
}

bool Mutator::Change::once() {
  switch (pick(20)) {
  case 0:
  case 1:
  case 2:
    return changeNumber();
  case 3:
  case 4:
  case 5:
    return changeExtent();
  case 6:
    return changeRank();
  case 7:
  case 8:
  case 9:
    return changeType();
  case 10:
  case 11:
  case 12:
    return changeValue();
  case 13:
  case 14:
    return changeWord();
  case 15:
    return changeOperation();
  case 16:
  case 17:
    return changeString();
  case 18:
    return changeToken();
  default:
    return changeLines();
  }
}

std::string Mutator::mutate(StringRef text, std::mt19937_64 &random) const {
  Change change(*this, tokenize(text), random);
  for (unsigned tries = 0; tries < 50 && !change.once(); ++tries)
    ;
  return join(std::move(change).take());
}

} // namespace sectile::fuzz
