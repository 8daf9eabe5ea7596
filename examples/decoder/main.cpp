// Continues texts by a decoder-only language model: numbers of tokens in, numbers of tokens out.
// README.md shows how to make and run it.
#include "Engine.h"
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <optional>
#include <sectile/bundle.h>
#include <sstream>
#include <stdexcept>

using namespace decoder;

namespace {

constexpr const char *usage =
    R"(usage: decoder MODEL_DIR [OPTION...]

Reads prompts from standard input, one a line: numbers of tokens, separated by spaces. Prints the
tokens that follow each, one line a prompt. A line may end with `/ N`: N tokens are wanted of it.
MODEL_DIR has config.json and model.safetensors, or the files of model.safetensors.index.json.

  --device DEVICE   as cuda:0; the best there is if not given
  --bundle FILE     where its kernels' code is; MODEL_DIR/decoder.sectile if that is there
  --dtype TYPE      of weights and states: bf16 (the default), f16 or f32
  --tokens N        tokens that are wanted of each prompt, at most; 16 if not given
  --temperature X   of the draws; 0, the likeliest token, if not given
  --top-k N         draw among the N likeliest tokens; 0, all, if not given
  --top-p X         draw among the likeliest tokens that have this probability; 1 if not given
  --seed N          of the first prompt's draws, N + 1 of the second's; 0 if not given
  --batch N         sequences of one step, at most; 16 if not given
  --batch-tokens N  tokens of one step, at most; 2048 if not given
  --context N       tokens of the longest sequence; the model's, up to 4096, if not given
  --page N          keys of a page of the cache; 64 if not given
  --pages N         pages of the cache; enough for the longest sequences if not given
  --logits          print each token on a line with the logits that it was drawn by
  --stats           print the numbers of steps, of those that planned attention because
                    lengths differed, and of sequences that gave up their pages
  --layers N        the first N layers alone
  --random          random weights, in place of model.safetensors
  --bench KEYS      print how many tokens a second it gives, in --tokens steps of --batch
                    sequences of so many keys, and what takes the time of a step
  --prepare         load the code of every step there can be, and end
  --help            print this
)";

// A mistake in the program's arguments.
struct UsageError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Settings {
  std::string folder, device, bundle;
  EngineSettings engine{
      .limits = {.sequences = 16, .tokens = 2048, .page = 64, .pages = 0, .context = 0},
      .sampling = {}};
  Precision precision = Precision::bf16;
  std::int64_t tokens = 16, seed = 0, layers = 0, benchKeys = 0;
  double temperature = 0;
  bool logits = false, stats = false, prepare = false, help = false;
};

template <class N> std::optional<N> parseNumber(const std::string &text) {
  N number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size())
    return std::nullopt;
  return number;
}

std::int64_t parseCount(const std::string &option, const std::string &text, std::int64_t least) {
  const auto count = parseNumber<std::int64_t>(text);
  if (!count || *count < least || *count > 1 << 24)
    throw UsageError(option + " takes a whole number from " + std::to_string(least) +
                     " to 16777216, not '" + text + "'");
  return *count;
}

double parseFloat(const std::string &option, const std::string &text, double most) {
  const auto number = parseNumber<double>(text);
  if (!number || !(*number >= 0 && *number <= most))
    throw UsageError(option + " takes a number from 0 to " +
                     std::to_string(static_cast<int>(most)) + ", not '" + text + "'");
  return *number;
}

Precision parsePrecision(const std::string &text) {
  if (text == "bf16")
    return Precision::bf16;
  if (text == "f16")
    return Precision::f16;
  if (text == "f32")
    return Precision::f32;
  throw UsageError("--dtype takes bf16, f16 or f32, not '" + text + "'");
}

Settings parse(int count, char **words) {
  Settings settings;
  BatchLimits &limits = settings.engine.limits;
  for (int i = 1; i < count; ++i) {
    const std::string word = words[i];
    const auto value = [&]() -> std::string {
      if (i + 1 == count)
        throw UsageError(word + " needs a value");
      return words[++i];
    };
    const auto number = [&](std::int64_t least) { return parseCount(word, value(), least); };
    if (!word.starts_with("--")) {
      if (!settings.folder.empty())
        throw UsageError("there is no use for '" + word +
                         "'; prompts are read from standard input");
      settings.folder = word;
    } else if (word == "--device")
      settings.device = value();
    else if (word == "--bundle")
      settings.bundle = value();
    else if (word == "--dtype")
      settings.precision = parsePrecision(value());
    else if (word == "--tokens")
      settings.tokens = number(1);
    else if (word == "--temperature")
      settings.temperature = parseFloat(word, value(), 100);
    else if (word == "--top-k")
      settings.engine.sampling.topK = number(0);
    else if (word == "--top-p")
      settings.engine.sampling.topP = parseFloat(word, value(), 1);
    else if (word == "--seed")
      settings.seed = number(0);
    else if (word == "--batch")
      limits.sequences = number(1);
    else if (word == "--batch-tokens")
      limits.tokens = number(1);
    else if (word == "--context")
      limits.context = number(1);
    else if (word == "--page")
      limits.page = number(1);
    else if (word == "--pages")
      limits.pages = number(1);
    else if (word == "--layers")
      settings.layers = number(1);
    else if (word == "--bench")
      settings.benchKeys = number(1);
    else if (word == "--logits")
      settings.logits = true;
    else if (word == "--stats")
      settings.stats = true;
    else if (word == "--random")
      settings.engine.random = true;
    else if (word == "--prepare")
      settings.prepare = true;
    else if (word == "--help")
      settings.help = true;
    else
      throw UsageError("there is no option " + word);
  }
  if (settings.folder.empty() && !settings.help)
    throw UsageError("MODEL_DIR is missing");
  return settings;
}

// What was not given follows from the model and the rest.
void complete(Settings &settings, const Model &model) {
  BatchLimits &limits = settings.engine.limits;
  if (limits.context > model.positions)
    throw UsageError("--context is " + std::to_string(limits.context) + ", the model has " +
                     std::to_string(model.positions) + " positions");
  if (limits.context == 0)
    limits.context = std::min<std::int64_t>(model.positions, 4096);
  if (limits.page > 256)
    throw UsageError("--page takes up to 256 keys");
  if (limits.pages == 0)
    limits.pages = limits.sequences * ((limits.context + limits.page - 1) / limits.page);
  if (limits.tokens < limits.sequences)
    throw UsageError("--batch-tokens is less than --batch; each sequence has a token in a step");
}

// A line of numbers, and the numbers of tokens that are wanted where it says so.
Request parseRequest(const std::string &line, std::size_t number, const Settings &settings) {
  Request request{.prompt = {},
                  .tokens = settings.tokens,
                  .temperature = settings.temperature,
                  .seed = settings.seed + static_cast<std::int64_t>(number)};
  std::istringstream words(line);
  for (std::string word; words >> word;) {
    if (word == "/") {
      std::string wanted, rest;
      words >> wanted;
      const auto count = parseNumber<std::int64_t>(wanted);
      if (!count || words >> rest)
        throw std::runtime_error("prompt " + std::to_string(number + 1) +
                                 " does not end with a number of tokens after '/'");
      request.tokens = *count;
      break;
    }
    const auto token = parseNumber<std::int32_t>(word);
    if (!token)
      throw std::runtime_error("prompt " + std::to_string(number + 1) + " has '" + word +
                               "', which is not the number of a token");
    request.prompt.push_back(*token);
  }
  return request;
}

std::vector<Request> readRequests(const Settings &settings) {
  std::vector<Request> requests;
  for (std::string line; std::getline(std::cin, line);)
    if (line.find_first_not_of(" \t\r") != std::string::npos)
      requests.push_back(parseRequest(line, requests.size(), settings));
  if (requests.empty())
    throw std::runtime_error("there are no prompts");
  return requests;
}

void print(const Texts &texts, bool logits) {
  for (std::size_t i = 0; i < texts.tokens.size(); ++i) {
    const auto &tokens = texts.tokens[i];
    for (std::size_t j = 0; j < tokens.size(); ++j) {
      std::printf("%d", tokens[j]);
      if (logits) {
        const std::size_t width = texts.logits[i].size() / tokens.size();
        for (std::size_t k = 0; k < width; ++k)
          std::printf(" %.9g", static_cast<double>(texts.logits[i][j * width + k]));
      }
      std::putchar(logits || j + 1 == tokens.size() ? '\n' : ' ');
    }
    if (logits)
      std::putchar('\n');
  }
}

void bench(Engine &engine, const Settings &settings) {
  const std::int64_t sequences = settings.engine.limits.sequences;
  const Speed speed = engine.measure(sequences, settings.benchKeys, settings.tokens);
  std::printf("batch %lld, %lld keys: %.1f tokens a second, %.3f ms a step; prompts %.0f tokens a "
              "second\n",
              static_cast<long long>(sequences), static_cast<long long>(settings.benchKeys),
              static_cast<double>(sequences) / speed.stepSeconds, 1e3 * speed.stepSeconds,
              speed.promptRate);
  std::printf("  a step's kernels %.3f ms; each kind alone:", speed.kernels);
  const char *separator = " ";
  for (std::size_t i = 0; i < workNames.size(); ++i) {
    std::printf("%s%s %.3f", separator, workNames[i], speed.of[i]);
    separator = ", ";
  }
  std::printf("\n");
}

void run(Settings settings) {
  Model model = Model::read(settings.folder + "/config.json");
  if (settings.layers > model.layers)
    throw UsageError("--layers is " + std::to_string(settings.layers) + ", the model has " +
                     std::to_string(model.layers));
  if (settings.layers > 0)
    model.layers = settings.layers;
  complete(settings, model);
  std::vector<Request> requests;
  if (!settings.prepare && settings.benchKeys == 0)
    requests = readRequests(settings);

  if (settings.bundle.empty())
    if (const std::string usual = settings.folder + "/decoder.sectile";
        std::filesystem::exists(usual))
      settings.bundle = usual;
  if (!settings.bundle.empty())
    sectile::load_bundle(settings.bundle);
  const auto device =
      settings.device.empty() ? sectile::Device::best() : sectile::Device::open(settings.device);
  const auto engine =
      Engine::open(device, model, settings.folder, settings.precision, settings.engine);
  if (settings.prepare) {
    engine->prepareAll();
    return;
  }
  if (settings.benchKeys > 0) {
    bench(*engine, settings);
    return;
  }
  const Texts texts = engine->run(requests, settings.logits);
  print(texts, settings.logits);
  if (settings.stats)
    std::printf("%lld steps, %lld with plans, %lld evictions\n",
                static_cast<long long>(texts.steps), static_cast<long long>(texts.plannedSteps),
                static_cast<long long>(texts.evictions));
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
    std::fprintf(stderr, "decoder: %s\n\n%s", error.what(), usage);
    return 2;
  } catch (const std::exception &error) {
    std::fprintf(stderr, "decoder: %s\n", error.what());
    return 1;
  }
}
