// A scanner for MLIR's text that loses nothing: joined, the tokens are the text.
#include "tests/fuzz/ir/Tokens.h"
#include "llvm/ADT/StringExtras.h"

using llvm::StringRef;

namespace sectile::fuzz {

static bool inName(char c) { return llvm::isAlnum(c) || c == '_' || c == '.' || c == '$'; }

/// How long the token at the front of the text is, and what it is.
static std::pair<Token::Kind, size_t> scan(StringRef text, bool afterExtent) {
  char c = text.front();
  if (afterExtent && c == 'x')
    return {Token::Times, 1};
  if (c == '\n')
    return {Token::Line, 1};
  if (c == ' ' || c == '\t' || text.starts_with("//")) {
    size_t end = c == '/' ? text.find('\n') : text.find_first_not_of(" \t");
    return {Token::Space, std::min(end, text.size())};
  }
  if (c == '"') {
    size_t end = 1;
    while (end < text.size() && text[end] != '"' && text[end] != '\n')
      end += text[end] == '\\' ? 2 : 1;
    return {Token::String, std::min(end + 1, text.size())};
  }
  auto nameFrom = [&](size_t start) {
    return std::min(text.find_if_not(inName, start), text.size());
  };
  if (llvm::isDigit(c)) {
    size_t end = std::min(text.find_if_not(llvm::isDigit), text.size());
    if (text.starts_with("0x") && text.size() > 2 && llvm::isHexDigit(text[2]))
      return {Token::Number, std::min(text.find_if_not(llvm::isHexDigit, 2), text.size())};
    if (end < text.size() && text[end] == 'x')
      return {Token::Extent, end};
    if (end + 1 < text.size() && text[end] == '.' && llvm::isDigit(text[end + 1]))
      end = std::min(text.find_if_not(llvm::isDigit, end + 1), text.size());
    if (end + 1 < text.size() && (text[end] == 'e' || text[end] == 'E') &&
        (text[end + 1] == '+' || text[end + 1] == '-'))
      end = std::min(text.find_if_not(llvm::isDigit, end + 2), text.size());
    return {Token::Number, end};
  }
  if (c == '%' || c == '@' || c == '#' || c == '!') {
    Token::Kind kind = c == '%' ? Token::Value : c == '@' ? Token::Symbol : Token::Alias;
    size_t end = nameFrom(1);
    return {end > 1 ? kind : Token::Mark, end};
  }
  if (llvm::isAlpha(c) || c == '_')
    return {Token::Name, nameFrom(1)};
  return {Token::Mark, 1};
}

Tokens tokenize(StringRef text) {
  Tokens tokens;
  while (!text.empty()) {
    bool afterExtent = !tokens.empty() && tokens.back().kind == Token::Extent;
    auto [kind, length] = scan(text, afterExtent);
    tokens.push_back({kind, text.take_front(length).str()});
    text = text.drop_front(length);
  }
  return tokens;
}

std::string join(const Tokens &tokens) {
  std::string text;
  for (const Token &token : tokens)
    text += token.text;
  return text;
}

} // namespace sectile::fuzz
