// Sentences to vectors by all-MiniLM-L6-v2, or another encoder of its kind: a program without the
// compiler, whose kernels come from a bundle. README.md shows how to make and run it.
#include "Encoder.h"
#include "Tokenizer.h"
#include <charconv>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>
#include <sectile/bundle.h>
#include <stdexcept>

using namespace minilm;

namespace {

constexpr const char *usage =
    R"(usage: minilm MODEL_DIR [OPTION...] [SENTENCE...]

Prints how similar sentences are: the cosines of their vectors. Without sentences, it reads
them from standard input, one a line. MODEL_DIR has model.safetensors, tokenizer.json and
config.json.

  --device DEVICE   as cuda:0; the best there is if not given
  --bundle FILE     where its kernels' code is; MODEL_DIR/minilm.sectile if that is there
  --batch N         sentences of one batch, at most; 1024 if not given
  --batch-tokens N  tokens of one batch, at most; 16384 if not given
  --f32             compute in f32, in place of f16
  --embeddings      print the vectors, one a line
  --tokens          print the numbers of the sentences' tokens, one sentence a line, and end
  --bench           print how many sentences a second it does, of these again and again
  --prepare         load the code of every batch there can be, and end
  --calls           print the calls that `sectile build --file` makes a bundle of, and end
  --help            print this
)";

// A mistake in the program's arguments.
struct UsageError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Settings {
  std::string folder, device, bundle;
  std::vector<std::string> sentences;
  BatchLimits limits{.tokens = 16384, .sentences = 1024};
  bool f32 = false, help = false;
  enum class Action { similarities, embeddings, tokens, bench, prepare, calls };
  Action action = Action::similarities;
};

std::int64_t parseCount(const std::string &option, const std::string &text) {
  std::int64_t count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (error != std::errc() || end != text.data() + text.size() || count < 1 || count > 1 << 20)
    throw UsageError(option + " takes a whole number from 1 to 1048576, not '" + text + "'");
  return count;
}

Settings parse(int count, char **words) {
  using Action = Settings::Action;
  Settings settings;
  bool onlySentences = false;
  for (int i = 1; i < count; ++i) {
    const std::string word = words[i];
    const auto value = [&]() -> std::string {
      if (i + 1 == count)
        throw UsageError(word + " needs a value");
      return words[++i];
    };
    if (onlySentences || !word.starts_with("--")) {
      if (settings.folder.empty())
        settings.folder = word;
      else
        settings.sentences.push_back(word);
    } else if (word == "--")
      onlySentences = true;
    else if (word == "--device")
      settings.device = value();
    else if (word == "--bundle")
      settings.bundle = value();
    else if (word == "--batch")
      settings.limits.sentences = parseCount(word, value());
    else if (word == "--batch-tokens")
      settings.limits.tokens = parseCount(word, value());
    else if (word == "--f32")
      settings.f32 = true;
    else if (word == "--embeddings")
      settings.action = Action::embeddings;
    else if (word == "--tokens")
      settings.action = Action::tokens;
    else if (word == "--bench")
      settings.action = Action::bench;
    else if (word == "--prepare")
      settings.action = Action::prepare;
    else if (word == "--calls")
      settings.action = Action::calls;
    else if (word == "--help")
      settings.help = true;
    else
      throw UsageError("there is no option " + word);
  }
  if (settings.folder.empty() && !settings.help)
    throw UsageError("MODEL_DIR is missing");
  return settings;
}

// How many tokens of a sentence the model was trained to take.
std::size_t longestSentence(const Settings &settings, const Model &model) {
  std::int64_t longest = std::min(model.positions, settings.limits.tokens);
  const std::string path = settings.folder + "/sentence_bert_config.json";
  if (std::ifstream file(path); file) {
    try {
      longest =
          std::min(longest, nlohmann::json::parse(file).at("max_seq_length").get<std::int64_t>());
    } catch (const nlohmann::json::exception &error) {
      throw std::runtime_error(path + " says no max_seq_length: " + error.what());
    }
  }
  if (longest < 2)
    throw std::runtime_error("a sentence takes 2 tokens at least, and may have " +
                             std::to_string(longest));
  return static_cast<std::size_t>(longest);
}

void print(const std::vector<std::string> &sentences, const std::vector<float> &vectors,
           std::size_t width) {
  for (std::size_t i = 0; i < sentences.size(); ++i)
    std::printf("%3zu  %s\n", i + 1, sentences[i].c_str());
  std::printf("\n   ");
  for (std::size_t i = 0; i < sentences.size(); ++i)
    std::printf(" %6zu", i + 1);
  std::printf("\n");
  for (std::size_t i = 0; i < sentences.size(); ++i) {
    std::printf("%3zu", i + 1);
    for (std::size_t j = 0; j < sentences.size(); ++j) {
      double cosine = 0;
      for (std::size_t k = 0; k < width; ++k)
        cosine += double(vectors[i * width + k]) * double(vectors[j * width + k]);
      std::printf(" %6.3f", cosine);
    }
    std::printf("\n");
  }
}

void print(const std::vector<float> &vectors, std::size_t width) {
  for (std::size_t i = 0; i < vectors.size(); ++i)
    std::printf("%.9g%c", static_cast<double>(vectors[i]), (i + 1) % width ? ' ' : '\n');
}

// Runs a function for a second or so, after a first time that warms it up. Gives seconds a run.
template <class F> double secondsOf(F &&run) {
  using Clock = std::chrono::steady_clock;
  run();
  int runs = 0;
  const auto begin = Clock::now();
  std::chrono::duration<double> passed{};
  do {
    run();
    ++runs;
    passed = Clock::now() - begin;
  } while (passed.count() < 2);
  return passed.count() / runs;
}

void bench(Encoder &encoder, const Tokenizer &tokenizer, std::size_t longest,
           const std::vector<std::string> &sentences, const BatchLimits &limits) {
  std::vector<std::string> texts;
  const auto wanted = static_cast<std::size_t>(8 * limits.sentences);
  while (texts.size() < wanted)
    texts.push_back(sentences[texts.size() % sentences.size()]);
  std::vector<Sentence> tokens;
  const auto tokenize = [&] {
    tokens.clear();
    for (const std::string &text : texts)
      tokens.push_back(tokenizer.encode(text, longest));
  };
  const double tokenizing = secondsOf(tokenize);
  const double encoding = secondsOf([&] { encoder.encode(tokens); });
  const double single = secondsOf([&] { encoder.encode(std::span(tokens).first(1)); });
  std::size_t all = 0;
  for (const Sentence &sentence : tokens)
    all += sentence.size();
  const auto number = static_cast<double>(texts.size());
  std::printf("%zu sentences of %.1f tokens: encoded %.0f a second, tokenized %.0f a second by one "
              "thread; a batch of one takes %.0f us\n",
              texts.size(), static_cast<double>(all) / number, number / encoding,
              number / tokenizing, single * 1e6);
}

std::vector<std::string> readSentences() {
  std::vector<std::string> sentences;
  for (std::string line; std::getline(std::cin, line);)
    if (!line.empty())
      sentences.push_back(line);
  return sentences;
}

void run(Settings settings) {
  using Action = Settings::Action;
  const Model model = Model::read(settings.folder + "/config.json");
  if (settings.action == Action::calls) {
    std::fputs(callsOf(model, settings.limits, settings.f32).c_str(), stdout);
    return;
  }
  const Tokenizer tokenizer(settings.folder + "/tokenizer.json");
  if (tokenizer.vocabulary() > model.vocabulary)
    throw std::runtime_error(settings.folder + ": tokenizer.json has tokens up to " +
                             std::to_string(tokenizer.vocabulary() - 1) +
                             ", config.json a vocabulary of " + std::to_string(model.vocabulary));
  const std::size_t longest = longestSentence(settings, model);
  if (settings.sentences.empty() && settings.action != Action::prepare)
    settings.sentences = readSentences();
  std::vector<Sentence> tokens;
  for (const std::string &sentence : settings.sentences)
    tokens.push_back(tokenizer.encode(sentence, longest));
  if (settings.action == Action::tokens) {
    for (const Sentence &sentence : tokens)
      for (std::size_t i = 0; i < sentence.size(); ++i)
        std::printf("%d%c", sentence[i], i + 1 < sentence.size() ? ' ' : '\n');
    return;
  }

  if (settings.bundle.empty())
    if (const std::string usual = settings.folder + "/minilm.sectile";
        std::filesystem::exists(usual))
      settings.bundle = usual;
  if (!settings.bundle.empty())
    sectile::load_bundle(settings.bundle);
  const auto device =
      settings.device.empty() ? sectile::Device::best() : sectile::Device::open(settings.device);
  safetensors::File weights(settings.folder + "/model.safetensors");
  const auto encoder = Encoder::open(device, model, weights, settings.limits, settings.f32);
  if (settings.action == Action::prepare) {
    encoder->prepareAll();
    return;
  }
  if (tokens.empty())
    throw std::runtime_error("there are no sentences");
  if (settings.action == Action::bench) {
    bench(*encoder, tokenizer, longest, settings.sentences, settings.limits);
    return;
  }
  const std::vector<float> vectors = encoder->encode(tokens);
  const auto width = static_cast<std::size_t>(model.hidden);
  if (settings.action == Action::embeddings)
    print(vectors, width);
  else
    print(settings.sentences, vectors, width);
}

} // namespace

int main(int count, char **words) {
  try {
    const Settings settings = parse(count, words);
    if (settings.help)
      std::fputs(usage, stdout);
    else
      run(settings);
  } catch (const UsageError &error) {
    std::fprintf(stderr, "minilm: %s\n\n%s", error.what(), usage);
    return 2;
  } catch (const std::exception &error) {
    std::fprintf(stderr, "minilm: %s\n", error.what());
    return 1;
  }
}
