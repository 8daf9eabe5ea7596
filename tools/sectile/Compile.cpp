// `sectile compile`: a kernel's code for a target, at any stage.
#include "codegen/Compiler.h"
#include "ir/Target.h"
#include "kernels/InputError.h"
#include "kernels/Use.h"
#include "tools/File.h"
#include "tools/sectile/Commands.h"
#include "tools/sectile/Execute.h"
#include "tools/sectile/Inputs.h"
#include <iostream>
#include <unistd.h>

using namespace sectile;
using namespace sectile::tool;

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
  llvm::Expected<Form> form = formByName(*line.value("--emit"), *target);
  if (!form)
    throw InputError("--emit: " + llvm::toString(form.takeError()));
  const bool binary = *form == Form::Cubin || *form == Form::Hsaco;
  const std::string path = line.value("--output").value_or("-");
  if (path != "-")
    checkWritable(path);
  else if (binary && ::isatty(STDOUT_FILENO))
    throw InputError("--emit " + *line.value("--emit") + " gives bytes, not text: give -o FILE");

  const Invocation call = resolveTypical(kernel, line.value("--dtype").value_or(""),
                                         parseShape(line), line.assignments("--opt"), withOf(line));
  const Config config = completeConfig(call, target->name, given);
  const std::vector<KernelCode> parts =
      emitKernel(call, config, target->name, *line.value("--emit"));
  std::vector<std::string> names;
  for (const KernelCode &part : parts)
    names.push_back(part.name);
  const std::string &code = parts[partOf(line, kernel, names)].code;
  if (path == "-")
    std::cout.write(code.data(), static_cast<std::streamsize>(code.size()));
  else
    writeFile(path, {code});
  return 0;
}
