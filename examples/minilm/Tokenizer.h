// WordPiece, as BERT's uncased models have it: from a sentence to the numbers of its tokens.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace minilm {

class Tokenizer {
public:
  // Reads a tokenizer.json. Throws std::runtime_error for a file that cannot be read, and for
  // another kind of tokenizer than BERT's WordPiece with lower case.
  explicit Tokenizer(const std::string &path);

  // [CLS], the sentence's tokens, [SEP]; `longest` (at least 2) at most, by leaving out the
  // sentence's last. Bytes that are not UTF-8 become U+FFFD, which is skipped.
  std::vector<std::int32_t> encode(std::string_view sentence, std::size_t longest) const;

  std::int32_t padding() const { return padding_; }
  // One more than the largest number of a token.
  std::int32_t vocabulary() const { return vocabulary_; }

private:
  using Tokens = std::vector<std::int32_t>;
  std::int32_t number(const std::string &token) const;
  void encodeText(std::string_view text, Tokens &tokens) const;
  void encodeWord(const std::u32string &word, Tokens &tokens) const;

  std::string path_;
  std::unordered_map<std::string, std::int32_t> numbers_;
  std::vector<std::pair<std::string, std::int32_t>> special_; // found in a sentence as they stand
  std::string continuing_;      // what a piece within a word begins with
  std::size_t longestWord_ = 0; // in characters
  std::int32_t unknown_ = 0, padding_ = 0, begin_ = 0, end_ = 0, vocabulary_ = 0;
};

} // namespace minilm
