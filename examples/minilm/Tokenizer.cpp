// A sentence is cleaned, taken apart at spaces and punctuation, and each word into the longest
// pieces that the vocabulary has. What is a letter, a space or an accent says utf8proc.
#include "Tokenizer.h"
#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utf8proc.h>

namespace minilm {
namespace {

bool isSpace(char32_t c) {
  const auto category = utf8proc_category(static_cast<utf8proc_int32_t>(c));
  return (c >= 9 && c <= 13) || c == 0x85 || category == UTF8PROC_CATEGORY_ZS ||
         category == UTF8PROC_CATEGORY_ZL || category == UTF8PROC_CATEGORY_ZP;
}

// What a cleaned sentence has not.
bool isDropped(char32_t c) {
  if (c == '\t' || c == '\n' || c == '\r')
    return false;
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(c))) {
  case UTF8PROC_CATEGORY_CC:
  case UTF8PROC_CATEGORY_CF:
  case UTF8PROC_CATEGORY_CO:
  case UTF8PROC_CATEGORY_CS:
    return true;
  default:
    return c == 0xfffd;
  }
}

bool isPunctuation(char32_t c) {
  if ((c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') ||
      (c >= '{' && c <= '~'))
    return true;
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(c))) {
  case UTF8PROC_CATEGORY_PC:
  case UTF8PROC_CATEGORY_PD:
  case UTF8PROC_CATEGORY_PS:
  case UTF8PROC_CATEGORY_PE:
  case UTF8PROC_CATEGORY_PI:
  case UTF8PROC_CATEGORY_PF:
  case UTF8PROC_CATEGORY_PO:
    return true;
  default:
    return false;
  }
}

// Chinese characters, which are words of their own: the blocks of BERT's own list.
bool isIdeograph(char32_t c) {
  return (c >= 0x4e00 && c <= 0x9fff) || (c >= 0x3400 && c <= 0x4dbf) ||
         (c >= 0x20000 && c <= 0x2a6df) || (c >= 0x2a700 && c <= 0x2b73f) ||
         (c >= 0x2b740 && c <= 0x2b81f) || (c >= 0x2b920 && c <= 0x2ceaf) ||
         (c >= 0xf900 && c <= 0xfaff) || (c >= 0x2f800 && c <= 0x2fa1f);
}

std::u32string decode(std::string_view text) {
  std::u32string characters;
  const auto *bytes = reinterpret_cast<const utf8proc_uint8_t *>(text.data());
  for (auto left = static_cast<utf8proc_ssize_t>(text.size()); left > 0;) {
    utf8proc_int32_t c = 0;
    utf8proc_ssize_t length = utf8proc_iterate(bytes, left, &c);
    if (length < 1)
      length = 1, c = 0xfffd;
    characters += static_cast<char32_t>(c);
    bytes += length, left -= length;
  }
  return characters;
}

void appendUtf8(std::string &text, char32_t c) {
  utf8proc_uint8_t bytes[4];
  const auto length = utf8proc_encode_char(static_cast<utf8proc_int32_t>(c), bytes);
  text.append(reinterpret_cast<const char *>(bytes), static_cast<std::size_t>(length));
}

// Lower case without accents: the parts that the character is composed of, without marks.
void appendPlain(std::u32string &text, char32_t c) {
  utf8proc_int32_t parts[32];
  int boundary = 0;
  const auto count = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(c), parts, 32,
                                             UTF8PROC_DECOMPOSE, &boundary);
  for (utf8proc_ssize_t i = 0; i < count; ++i)
    if (utf8proc_category(parts[i]) != UTF8PROC_CATEGORY_MN)
      text += static_cast<char32_t>(utf8proc_tolower(parts[i]));
}

} // namespace

Tokenizer::Tokenizer(const std::string &path) : path_(path) {
  std::ifstream file(path);
  if (!file)
    throw std::runtime_error(path + " cannot be opened");
  try {
    const auto json = nlohmann::json::parse(file);
    const auto &model = json.at("model"), &normalizer = json.at("normalizer");
    const auto accents = normalizer.value("strip_accents", nlohmann::json());
    if (model.value("type", "WordPiece") != "WordPiece" ||
        normalizer.at("type") != "BertNormalizer" || !normalizer.value("lowercase", true) ||
        !normalizer.value("clean_text", true) || !normalizer.value("handle_chinese_chars", true) ||
        !(accents.is_null() || accents == true) ||
        json.at("pre_tokenizer").at("type") != "BertPreTokenizer")
      throw std::runtime_error(path + " is not the tokenizer of an uncased BERT, which is the one "
                                      "that this program has");
    numbers_ = model.at("vocab").get<std::unordered_map<std::string, std::int32_t>>();
    continuing_ = model.value("continuing_subword_prefix", "##");
    longestWord_ = model.value("max_input_chars_per_word", std::size_t(100));
    unknown_ = number(model.value("unk_token", "[UNK]"));
    for (const auto &token : json.at("added_tokens"))
      if (const std::string content = token.at("content"); !content.empty())
        special_.emplace_back(content, token.at("id"));
  } catch (const nlohmann::json::exception &error) {
    throw std::runtime_error(path + " is no tokenizer: " + error.what());
  }
  for (const auto &[token, id] : special_)
    numbers_.emplace(token, id);
  padding_ = number("[PAD]"), begin_ = number("[CLS]"), end_ = number("[SEP]");
  for (const auto &[token, id] : numbers_)
    vocabulary_ = std::max(vocabulary_, id + 1);
}

std::int32_t Tokenizer::number(const std::string &token) const {
  const auto found = numbers_.find(token);
  if (found == numbers_.end())
    throw std::runtime_error(path_ + " has no token '" + token + "'");
  return found->second;
}

std::vector<std::int32_t> Tokenizer::encode(std::string_view sentence, std::size_t longest) const {
  Tokens tokens{begin_};
  while (!sentence.empty()) {
    // The first special token that stands in the sentence.
    std::size_t place = std::string_view::npos;
    const std::pair<std::string, std::int32_t> *next = nullptr;
    for (const auto &token : special_)
      if (const std::size_t at = sentence.find(token.first);
          at < place || (next && at == place && at != std::string_view::npos &&
                         token.first.size() > next->first.size()))
        place = at, next = &token;
    encodeText(sentence.substr(0, place), tokens);
    if (!next)
      break;
    tokens.push_back(next->second);
    sentence.remove_prefix(place + next->first.size());
  }
  tokens.resize(std::min(tokens.size(), longest - 1));
  tokens.push_back(end_);
  return tokens;
}

void Tokenizer::encodeText(std::string_view text, Tokens &tokens) const {
  std::u32string plain;
  for (const char32_t c : decode(text)) {
    if (isDropped(c))
      continue;
    if (isIdeograph(c))
      plain += U' ';
    appendPlain(plain, c);
    if (isIdeograph(c))
      plain += U' ';
  }
  std::u32string word;
  for (const char32_t c : plain) {
    if (!isSpace(c) && !isPunctuation(c)) {
      word += c;
      continue;
    }
    encodeWord(word, tokens);
    word.clear();
    if (!isSpace(c))
      encodeWord({c}, tokens);
  }
  encodeWord(word, tokens);
}

void Tokenizer::encodeWord(const std::u32string &word, Tokens &tokens) const {
  if (word.empty())
    return;
  if (word.size() > longestWord_) {
    tokens.push_back(unknown_);
    return;
  }
  const std::size_t before = tokens.size();
  for (std::size_t begin = 0; begin < word.size();) {
    // Prefixes of the rest of the word end where one of its characters does.
    std::string rest = begin ? continuing_ : "";
    std::vector<std::size_t> ends;
    for (std::size_t i = begin; i < word.size(); ++i) {
      appendUtf8(rest, word[i]);
      ends.push_back(rest.size());
    }
    auto found = numbers_.end();
    while (!ends.empty() && (found = numbers_.find(rest.substr(0, ends.back()))) == numbers_.end())
      ends.pop_back();
    if (ends.empty()) { // one unknown piece makes the whole word unknown
      tokens.resize(before);
      tokens.push_back(unknown_);
      return;
    }
    tokens.push_back(found->second);
    begin += ends.size();
  }
}

} // namespace minilm
