// `sectile compile`: a kernel's code for a target, at any stage.
#include "codegen/Compiler.h"
#include "ir/Target.h"
#include "jit/Remarks.h"
#include "kernels/calls/Emit.h"
#include "runtime/Symbol.h"
#include "tools/File.h"
#include "tools/sectile/Commands.h"
#include "tools/sectile/Execute.h"
#include "tools/sectile/Inputs.h"
#include "tools/sectile/Json.h"
#include <iostream>
#include <sectile/error.h>
#include <unistd.h>

using namespace sectile;
using namespace sectile::tool;

namespace {

struct Part {
  const KernelCode *code;
  std::string title; // "lstm_step", or "lstm_step.2" for its second specialisation
  std::string path;  // where its code goes; empty: standard output
};

// "out.ptx" and "lstm_step": "out.lstm_step.ptx", so that each file is one that assemblers take.
std::string pathOfPart(const std::string &path, const std::string &title) {
  const std::size_t slash = path.rfind('/'), dot = path.rfind('.');
  const bool ends = dot != path.npos && dot != 0 && (slash == path.npos || dot > slash + 1);
  return ends ? path.substr(0, dot) + "." + title + path.substr(dot) : path + "." + title;
}

std::vector<Part> partsOf(const std::vector<KernelCode> &codes, const std::string &path) {
  std::map<std::string, int> seen;
  std::vector<Part> parts;
  for (const KernelCode &code : codes) {
    const int count = ++seen[code.name];
    const std::string number = count > 1 ? "." + std::to_string(count) : "";
    const std::string title = code.name + number;
    parts.push_back({&code, title,
                     path == "-"         ? ""
                     : codes.size() == 1 ? path
                                         : pathOfPart(path, symbolOf(code.name) + number)});
  }
  return parts;
}

llvm::json::Array asJson(const std::vector<Remark> &remarks) {
  llvm::json::Array list;
  for (const Remark &remark : remarks)
    list.push_back(
        llvm::json::Object{{"file", remark.file}, {"line", remark.line}, {"text", remark.text}});
  return list;
}

} // namespace

int sectile::tool::runCompile(const CommandLine &line) {
  const KernelSpec &kernel = findKernel(*line.argument(0));
  const Config given = parseConfig(kernel, line.assignments("--config"));
  if (!line.has("--target"))
    throw InputError("--target is missing: `sectile info` lists the targets");
  if (!line.has("--emit"))
    throw InputError("--emit is missing: tile, cta, llvm, ptx, cubin, amdgcn or hsaco");
  if (line.value("--target") == "interpreter")
    throw InputError("--target: the interpreter runs kernels as they are traced, so there is "
                     "nothing to compile for it; name a chip, as in sm_90a");
  llvm::Expected<Target> target = Target::get(*line.value("--target"));
  if (!target)
    throw InputError("--target: " + llvm::toString(target.takeError()));
  const std::string formName = *line.value("--emit");
  llvm::Expected<Form> form = formByName(formName, *target);
  if (!form)
    throw InputError("--emit: " + llvm::toString(form.takeError()));
  const bool json = line.has("--json");
  const bool binary = *form == Form::Cubin || *form == Form::Hsaco;
  const std::string path = line.value("--output").value_or("-");
  if (path != "-")
    checkWritable(path);
  else if (binary && (json || ::isatty(STDOUT_FILENO)))
    throw InputError("--emit " + formName + " gives bytes, not text: give -o FILE");

  const Invocation call = resolveTypical(kernel, line.value("--dtype").value_or(""),
                                         parseShape(line), line.assignments("--opt"), withOf(line));
  const Config config = completeConfig(call, target->name, given);
  std::vector<Remark> remarks;
  std::vector<KernelCode> codes;
  {
    const runtime::RecordRemarks record(remarks);
    codes = emitKernel(call, config, target->name, formName);
  }
  if (line.has("--part")) {
    std::vector<std::string> names;
    for (const KernelCode &code : codes)
      names.push_back(code.name);
    codes = {codes[partOf(line, kernel, names)]};
  }
  const std::vector<Part> parts = partsOf(codes, path);
  if (binary && path == "-" && parts.size() > 1)
    throw InputError("--emit " + formName + ": " + kernel.name + " launches " +
                     std::to_string(parts.size()) + " kernels; give -o FILE, or --part NAME");

  llvm::json::Array list;
  for (const Part &part : parts) {
    const std::string &code = part.code->code;
    llvm::json::Object entry{{"part", part.title}};
    if (!part.path.empty()) {
      writeFile(part.path, {code});
      entry["file"] = part.path;
      if (parts.size() > 1 && !json)
        std::cout << "wrote " << part.path << "\n";
    } else if (json) {
      entry["code"] = code;
    } else {
      if (parts.size() > 1)
        std::cout << (*form == Form::Llvm || *form == Form::Amdgcn ? "; " : "// ") << part.title
                  << "\n";
      std::cout.write(code.data(), static_cast<std::streamsize>(code.size()));
    }
    list.push_back(std::move(entry));
  }
  if (line.has("--remarks") && !json)
    runtime::print(remarks);
  if (json) {
    llvm::json::Object object{{"kernel", kernel.name},
                              {"target", target->name},
                              {"form", formName},
                              {"config", describe(config)},
                              {"parts", std::move(list)}};
    if (line.has("--remarks"))
      object["remarks"] = asJson(remarks);
    printJson(std::move(object));
  }
  return 0;
}
