// `sectile build`: writes a bundle of compiled code; `sectile bundle …`: looks into bundles, and
// makes others of them.
#include "runtime/Bundle.h"
#include "jit/BundleWriter.h"
#include "kernels/bundles/BundleBuilder.h"
#include "tools/File.h"
#include "tools/sectile/Calls.h"
#include "tools/sectile/Commands.h"
#include "tools/sectile/Execute.h"
#include "tools/sectile/Inputs.h"
#include "tools/sectile/Table.h"
#include "tools/sectile/cache/Cache.h"
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <map>
#include <sectile/error.h>
#include <set>

using namespace sectile;
using namespace sectile::tool;
using runtime::Bundle;
using runtime::BundleWriter;

namespace {

std::shared_ptr<const Bundle> open(const CommandLine &line, size_t argument = 0) {
  return Bundle::open(*line.argument(argument));
}

// "x0, x2 to x5 divisible by 16; x1 = 1": of the compiled function's arguments.
std::string factsText(const LaunchPlan &plan) {
  std::map<std::string, std::string> numbers; // by what is known
  std::vector<std::string> order;
  for (size_t i = 0; i < plan.arguments.size(); ++i) {
    const auto factOf = [&](size_t at) -> std::string {
      const ArgumentFacts &facts = plan.arguments[at];
      return facts.low == facts.high ? "= " + std::to_string(facts.low)
             : facts.divisor > 1     ? "divisible by " + std::to_string(facts.divisor) +
                                           (facts.distinct ? " without overlap" : "")
             : facts.distinct        ? "without overlap"
                                     : "";
    };
    const std::string fact = factOf(i);
    if (fact.empty())
      continue;
    size_t last = i;
    while (last + 1 < plan.arguments.size() && factOf(last + 1) == fact)
      ++last;
    std::string &text = numbers[fact];
    if (text.empty())
      order.push_back(fact);
    (text += text.empty() ? "x" : ", x") += std::to_string(i);
    if (last > i)
      text += (last > i + 1 ? " to x" : ", x") + std::to_string(last);
    i = last;
  }
  std::string all;
  for (const std::string &fact : order)
    (all += all.empty() ? "" : "; ") += numbers[fact] + " " + fact;
  return all.empty() ? "nothing" : all;
}

std::string optionsText(const runtime::BundleKey &key) {
  return std::to_string(key.warps) + " warps, " + std::to_string(key.stages) + " stages" +
         (key.longAxis ? ", long axis " + std::to_string(key.longAxis) : "") +
         (key.maxRegisters ? ", at most " + std::to_string(key.maxRegisters) + " registers" : "") +
         (key.minPrograms ? ", at least " + std::to_string(key.minPrograms) + " programs" : "") +
         (key.debug ? ", debug" : "") + (key.checked ? ", checked" : "");
}

std::set<std::string> targetsOf(const std::vector<Bundle::Content> &contents) {
  std::set<std::string> targets;
  for (const Bundle::Content &one : contents)
    targets.insert(one.key.target);
  return targets;
}

std::string joined(const std::set<std::string> &texts) {
  std::string all;
  for (const std::string &text : texts)
    (all += all.empty() ? "" : ", ") += text;
  return all;
}

size_t countTuned(const Bundle &bundle) {
  return static_cast<size_t>(
      std::ranges::count_if(bundle.choices(), &runtime::BundledChoice::isTuned));
}

// Writes it, and says what it has.
int write(const CommandLine &line, const BundleWriter &writer, const std::string &path) {
  const std::string bytes = writer.bytes();
  writeFile(path, {bytes});
  const auto bundle = Bundle::of(bytes, path);
  if (line.has("--json"))
    printJson(llvm::json::Object{{"file", path},
                                 {"identity", bundle->identity()},
                                 {"kernels", bundle->countKernels()},
                                 {"variants", bundle->countVariants()},
                                 {"codes", bundle->countCodes()},
                                 {"bytes", bytes.size()}});
  else
    std::cout << path << ": " << bundle->countKernels() << " kernels, " << bundle->countVariants()
              << " variants, " << bytesText(bytes.size()) << "\n";
  return 0;
}

std::string aboutOf(const Bundle &bundle) { return std::string(bundle.about()); }

// What is to be built: the calls that the command line names, else what loaded libraries declare.
void addContents(const CommandLine &line, BundleBuilder &builder) {
  const std::optional<std::string> name = line.argument(0);
  if (name.has_value() + line.has("--file") + line.has("--from") > 1)
    throw InputError("build takes one of KERNEL, --file with a call on each line, and --from with "
                     "recorded calls");
  if (line.has("--from")) {
    for (const Invocation &call : readRecordedCalls(*line.value("--from")))
      builder.add(call, {});
  } else if (line.has("--file")) {
    for (const Case &one :
         readCases(*line.value("--file"), {}, line.value("--dtype").value_or("f16")))
      builder.add(one.call, one.given);
  } else if (name) {
    const KernelSpec &kernel = findKernel(*name);
    builder.add(resolveTypical(kernel, line.value("--dtype").value_or(""), parseShape(line),
                               line.assignments("--opt"), withOf(line)),
                parseConfig(kernel, line.assignments("--config")));
  } else if (!declaredBundles().empty()) {
    BundleContents contents(builder);
    for (const auto add : declaredBundles())
      add(contents);
  } else {
    throw InputError("build needs a KERNEL, --file with a call on each line, --from with recorded "
                     "calls, or --load with a library that has a SECTILE_BUNDLE");
  }
}

} // namespace

int sectile::tool::runBuild(const CommandLine &line) {
  if (!line.has("--target"))
    throw InputError("--target is missing: `sectile info` lists the targets");
  const std::string path = line.value("--output").value_or("");
  if (path.empty())
    throw InputError("build needs -o FILE: where the bundle goes");
  checkWritable(path);
  const std::string header = line.value("--header").value_or("");
  if (!header.empty())
    checkWritable(header);
  BundleBuilder builder(namesIn(*line.value("--target")), {.onlyLikeThese = line.has("--exact"),
                                                           .compresses = line.has("--compress"),
                                                           .machineCode = line.has("--cubin")});
  for (const auto &[target, file] : line.assignments("--tuning", true))
    builder.tuneBy(file, namesIn(line.value("--tuned-on").value_or("")), target);
  addContents(line, builder);
  builder.finish();
  for (const std::string &gap : builder.gaps())
    std::cerr << "sectile: " << gap << "\n";
  if (!header.empty())
    writeFile(header, {builder.header().text(std::filesystem::path(header).stem().string())});
  return write(line, builder.writer(), path);
}

int sectile::tool::runBundleList(const CommandLine &line) {
  const auto bundle = open(line);
  const std::string wanted = line.argument(1).value_or("");
  Table table;
  table.row({"kernel", "target", "form", "options", "configuration", "code", "assumes"});
  llvm::json::Array all;
  size_t count = 0;
  for (const auto &[key, artifact, bytesOfCode] : bundle->contents()) {
    if (!wanted.empty() && key.kernel != wanted)
      continue;
    ++count;
    table.row({key.kernel, key.target, artifact.kind, optionsText(key), key.described,
               bytesText(artifact.bytes.size()), factsText(artifact.plan)});
    llvm::json::Array words;
    for (const uint64_t word : key.configuration)
      words.push_back(static_cast<int64_t>(word));
    all.push_back(llvm::json::Object{{"kernel", key.kernel},
                                     {"target", key.target},
                                     {"form", artifact.kind},
                                     {"arguments", key.signature.size()},
                                     {"warps", key.warps},
                                     {"stages", key.stages},
                                     {"long_axis", key.longAxis},
                                     {"debug", key.debug},
                                     {"checked", key.checked},
                                     {"max_registers", key.maxRegisters},
                                     {"min_programs", key.minPrograms},
                                     {"config", key.described},
                                     {"configuration", std::move(words)},
                                     {"code_bytes", artifact.bytes.size()},
                                     {"threads", artifact.plan.threads},
                                     {"shared_bytes", artifact.plan.sharedBytes},
                                     {"assumes", factsText(artifact.plan)}});
  }
  if (!wanted.empty() && !count)
    throw InputError("'" + *line.argument(0) + "' has no kernel '" + wanted +
                     "': `sectile bundle list` without a name shows all");
  if (line.has("--json"))
    printJson(std::move(all));
  else
    table.print(std::cout);
  return 0;
}

int sectile::tool::runBundleShow(const CommandLine &line) {
  const auto bundle = open(line);
  const std::vector<Bundle::Content> contents = bundle->contents();
  const std::set<std::string> targets = targetsOf(contents);
  std::set<std::string> kernels;
  uint64_t bytes = 0;
  std::set<std::string_view> codes;
  for (const auto &[key, artifact, bytesOfCode] : contents) {
    kernels.insert(key.kernel);
    if (codes.insert(artifact.bytes).second)
      bytes += artifact.bytes.size();
  }
  if (line.has("--json")) {
    llvm::Expected<llvm::json::Value> about = llvm::json::parse(aboutOf(*bundle));
    if (!about)
      llvm::consumeError(about.takeError());
    printJson(llvm::json::Object{
        {"file", bundle->name()},
        {"identity", bundle->identity()},
        {"about", about ? std::move(*about) : llvm::json::Value(aboutOf(*bundle))},
        {"kernels", llvm::json::Array(kernels)},
        {"targets", llvm::json::Array(targets)},
        {"variants", bundle->countVariants()},
        {"codes", bundle->countCodes()},
        {"code_bytes", bytes},
        {"choices", bundle->choices().size()},
        {"tuned_choices", countTuned(*bundle)}});
    return 0;
  }
  Table table;
  table.row({"bundle", bundle->name()});
  table.row({"identity", bundle->identity()});
  table.row({"made by", aboutOf(*bundle)});
  table.row({"kernels", std::to_string(kernels.size()) + ": " + joined(kernels)});
  table.row({"targets", joined(targets)});
  table.row({"code", std::to_string(bundle->countVariants()) + " variants, " +
                         std::to_string(bundle->countCodes()) + " codes, " + bytesText(bytes)});
  table.row({"choices", std::to_string(bundle->choices().size()) + " of configurations, " +
                            std::to_string(countTuned(*bundle)) + " by measurements"});
  table.print(std::cout);
  return 0;
}

int sectile::tool::runBundleVerify(const CommandLine &line) {
  const auto bundle = open(line);
  if (line.has("--json"))
    printJson(llvm::json::Object{{"file", bundle->name()}, {"identity", bundle->identity()}});
  else
    std::cout << bundle->name() << ": whole, identity " << bundle->identity() << "\n";
  return 0;
}

int sectile::tool::runBundleMerge(const CommandLine &line) {
  const std::string path = *line.argument(0);
  checkWritable(path);
  const auto first = open(line, 1), second = open(line, 2);
  BundleWriter writer(aboutOf(*first), first->isCompressed() || second->isCompressed());
  for (const auto &bundle : {first, second}) {
    for (const auto &[key, artifact, bytesOfCode] : bundle->contents())
      writer.add(key, artifact);
    for (const runtime::BundledChoice &choice : bundle->choices())
      writer.add(choice);
  }
  return write(line, writer, path);
}

int sectile::tool::runBundleStrip(const CommandLine &line) {
  const auto bundle = open(line);
  const std::string path = line.value("--output").value_or(*line.argument(0));
  checkWritable(path);
  const std::optional<std::string> list = line.value("--target");
  if (!list)
    throw InputError("bundle strip needs --target: which targets stay");
  const std::vector<Bundle::Content> contents = bundle->contents();
  const std::set<std::string> known = targetsOf(contents);
  std::set<std::string> wanted;
  for (llvm::StringRef rest(*list); !rest.empty();) {
    const auto [target, others] = rest.split(',');
    if (!known.contains(target.str()))
      throw InputError("'" + bundle->name() + "' has no code for '" + target.str() + "', but for " +
                       joined(known));
    wanted.insert(target.str());
    rest = others;
  }
  BundleWriter writer(aboutOf(*bundle), bundle->isCompressed());
  std::set<std::string> chips;
  for (const auto &[key, artifact, bytesOfCode] : contents)
    if (wanted.contains(key.target)) {
      writer.add(key, artifact);
      chips.insert(artifact.target);
    }
  for (const runtime::BundledChoice &choice : bundle->choices())
    if (chips.contains(choice.target))
      writer.add(choice);
  return write(line, writer, path);
}
