// What is in bundles, as JSON. docs/c.md lists the fields.
#include "capi/Json.h"
#include "capi/Status.h"
#include "runtime/Bundle.h"
#include <sectile/error.h>

using namespace sectile;
using namespace sectile::c;
using runtime::Bundle;

namespace {

std::string number(std::uint64_t value) { return std::to_string(value); }

std::string describe(const detail::ArgSpec &spec) {
  const char *kinds[] = {"pointer", "view", "number", "index"};
  return object()
      .add("kind", quotedJson(kinds[static_cast<unsigned>(spec.kind) % 4]))
      .add("dtype", quotedJson(name_of(spec.dtype)))
      .add("rank", number(spec.rank))
      .add("read_only", boolean(spec.readonly))
      .done();
}

std::string describe(const runtime::BundleKey &key, const Artifact &artifact, std::uint64_t bytes) {
  return object()
      .add("target", quotedJson(key.target))
      .add("form", quotedJson(artifact.kind))
      .add("config", quotedJson(key.described))
      .add("warps", number(key.warps))
      .add("stages", number(key.stages))
      .add("long_axis", number(key.longAxis))
      .add("debug", boolean(key.debug))
      .add("checked", boolean(key.checked))
      .add("threads", number(artifact.plan.threads))
      .add("shared_bytes", number(artifact.plan.sharedBytes))
      .add("code_bytes", number(bytes))
      .done();
}

std::string describe(const runtime::BundledChoice &choice) {
  Json extents = object();
  for (const auto &[axis, extent] : choice.bucket)
    extents.add(axis, std::to_string(extent));
  return object()
      .add("operation", quotedJson(choice.kernel))
      .add("target", quotedJson(choice.target))
      .add("extents", extents.done())
      .add("config", quotedJson(choice.config))
      .add("tuned", boolean(choice.isTuned))
      .done();
}

std::string describe(const Bundle &bundle) {
  struct Kernel {
    std::string name;
    std::vector<detail::ArgSpec> signature;
    Json codes = list();
  };
  std::vector<Kernel> kernels; // a bundle has the variants of one kernel one after the other
  for (const Bundle::Content &content : bundle.contents(/*withCode=*/false)) {
    const runtime::BundleKey &key = content.key;
    if (kernels.empty() || kernels.back().name != key.kernel ||
        kernels.back().signature != key.signature)
      kernels.push_back({key.kernel, key.signature});
    kernels.back().codes.add(describe(key, content.artifact, content.codeBytes));
  }
  Json all = list(), choices = list();
  for (const Kernel &kernel : kernels) {
    Json arguments = list();
    for (const detail::ArgSpec &spec : kernel.signature)
      arguments.add(describe(spec));
    all.add(object()
                .add("name", quotedJson(kernel.name))
                .add("arguments", arguments.done())
                .add("codes", kernel.codes.done())
                .done());
  }
  for (const runtime::BundledChoice &choice : bundle.choices())
    choices.add(describe(choice));
  return object()
      .add("name", quotedJson(bundle.name()))
      .add("identity", quotedJson(bundle.identity()))
      .add("about", quotedJson(bundle.about()))
      .add("kernels", all.done())
      .add("choices", choices.done())
      .done();
}

} // namespace

sectile_status sectile_bundle_describe(const char *path, const char **json) {
  if (json)
    *json = nullptr;
  return c::guard([&] {
    c::require(json, "sectile_bundle_describe: json");
    thread_local std::string last;
    Json all = list();
    if (path) {
      all.add(describe(*Bundle::open(path)));
    } else {
      for (const auto &source : *runtime::codeSources())
        if (const Bundle *const bundle = source->asBundle())
          all.add(describe(*bundle));
    }
    last = all.done();
    *json = last.c_str();
  });
}
