// `sectile demo`: the five kernels on the best device, each checked against float64.
#include "kernels/references/Check.h"
#include "tools/sectile/Commands.h"
#include "tools/sectile/Execute.h"
#include "tools/sectile/Json.h"
#include "tools/sectile/Table.h"
#include <cmath>
#include <cstdio>
#include <iostream>

using namespace sectile;
using namespace sectile::tool;

namespace {

struct Case {
  const char *kernel;
  DType dtype;
  std::vector<Shape> inputs;
  Assignments options;
};

const std::vector<Case> &cases() {
  static const std::vector<Case> all{
      {"vector_add", DType::float32, {{1000003}, {1000003}}, {}},
      {"softmax", DType::float32, {{500, 1000}}, {}},
      {"layer_norm", DType::float16, {{500, 768}, {768}, {768}}, {}},
      {"matmul", DType::float16, {{512, 512}, {512, 512}}, {}},
      {"attention",
       DType::float16,
       {{1, 4, 512, 64}, {1, 2, 512, 64}, {1, 2, 512, 64}},
       {{"causal", "true"}}},
  };
  return all;
}

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1e", value);
  return text;
}

} // namespace

int sectile::tool::runDemo(const CommandLine &line) {
  const Device device = openDevice(line.value("--device"));
  const bool json = line.has("--json");
  if (!json)
    std::cout << "Sectile on " << device.name() << " (" << device.description() << ")"
              << (isSimulated(device.name()) ? ", simulated times" : "") << "\n\n";
  llvm::json::Array rows;
  bool ok = true;
  Table table;
  table.row({"kernel", "shape", "1st run", "2nd run", "largest", "max error", "allowed", ""});
  for (const Case &demo : cases()) {
    const KernelSpec &kernel = findKernel(demo.kernel);
    std::map<std::string, GivenTensor> types;
    for (std::size_t i = 0; i < demo.inputs.size(); ++i) {
      types[kernel.arguments[i].name] = {{demo.dtype, demo.inputs[i]}, ""};
    }
    const Invocation call = resolve(kernel, types, demo.options);
    const std::vector<HostArray> inputs = sampleInputs(call, 1);
    const Config config = completeConfig(call, device.target(), {});
    const Execution execution = execute(device, call, config, inputs, 2);
    // The output that is nearest to its bound stands for all of them.
    const Accuracy *worst = nullptr;
    double scale = 0;
    const auto verdicts = check(call, inputs, execution.outputs);
    bool good = true;
    for (const Verdict &verdict : verdicts) {
      const Accuracy &accuracy = verdict.accuracy;
      good &= accuracy.ok();
      if (!worst || !accuracy.ok() ||
          (worst->ok() &&
           accuracy.maxError * worst->maxBound > worst->maxError * accuracy.maxBound))
        worst = &accuracy, scale = largestValue(call, verdict.output, execution);
    }
    table.row({kernel.name, shapeText(call), milliseconds(execution.milliseconds[0]),
               milliseconds(execution.milliseconds[1]), number(scale), number(worst->maxError),
               number(worst->maxBound), good ? "ok" : "FAILED"});
    rows.push_back(llvm::json::Object{{"kernel", kernel.name},
                                      {"shape", shapeText(call)},
                                      {"first_ms", execution.milliseconds[0]},
                                      {"next_ms", execution.milliseconds[1]},
                                      {"largest_value", scale},
                                      {"max_error", worst->maxError},
                                      {"max_bound", worst->maxBound},
                                      {"ok", good}});
    ok &= good;
  }
  if (json)
    printJson(llvm::json::Object{{"device", device.name()},
                                 {"product", device.description()},
                                 {"simulated", isSimulated(device.name())},
                                 {"kernels", std::move(rows)}});
  else
    table.print(std::cout);
  return ok ? 0 : 1;
}
