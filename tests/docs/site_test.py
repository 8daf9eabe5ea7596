# The site builds without a warning, with every page and every public header: site_test.py ROOT
# Skipped (77) where mkdocs, its theme or doxygen are not installed: `./dev docs` installs them.
import importlib.util
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(sys.argv[1])
BUILD = ROOT / "docs/site/build.py"


def module():
    spec = importlib.util.spec_from_file_location("build", BUILD)
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


def build(root, out):
    return subprocess.run([sys.executable, str(BUILD), str(root), str(out)], capture_output=True, text=True)


def self_test():
    build_module = module()
    assert build_module.as_documentation("// Reads `a<b>` of <x>[0].\nint x; // in bytes\nf(\"// no\");\n") == (
        "/// Reads `a<b>` of \\<x\\>&#91;0].\nint x; ///< in bytes\nf(\"// no\");")
    assert build_module.navigation("# D\n[r](r.md)\n## One\n- [a](a.md): [b](k/b.md#x)\n## Two\n[a](a.md)") == [
        ("One", ["a.md"]), ("Two", ["a.md"])]


def main():
    self_test()
    for tool in ("mkdocs", "doxygen"):
        if not shutil.which(tool):
            print(f"skipped: {tool} is not installed (./dev docs installs it)")
            return 77
    with tempfile.TemporaryDirectory() as folder:
        result = build(ROOT, folder)
        if "material" in result.stdout + result.stderr and result.returncode:
            print(f"skipped: mkdocs has no theme 'material': {result.stderr[-300:]}")
            return 77
        assert result.returncode == 0, result.stdout + result.stderr
        site = pathlib.Path(folder, "site")
        pages = [page.relative_to(ROOT) for page in (ROOT / "docs").rglob("*.md")]
        headers = [header for part in module().PARTS for header in (ROOT / part / "include/sectile").glob("*.h")]
        expected = [page.with_name("index.html") if page.name == "README.md" else page.with_suffix(".html") for page in pages]
        expected += [pathlib.Path("api", header.stem + ".html") for header in headers]
        missing = [str(page) for page in expected if not (site / page).exists()]
        assert len(headers) > 40 and not missing, missing
        found = json.loads((site / "search/search_index.json").read_text())["docs"]
        text = " ".join(entry["title"] + entry["text"] for entry in found)
        for word in ("run_kernel", "atomic_add", "LaunchOptions", "How many programs run"):
            assert word in text, f"the search does not know {word}"

    # A warning is an error.
    with tempfile.TemporaryDirectory() as folder:
        copy = pathlib.Path(folder, "tree")
        for part in ("docs", *(os.path.join(name, "include") for name in module().PARTS)):
            shutil.copytree(ROOT / part, copy / part)
        for name in module().TOP:
            shutil.copy(ROOT / name, copy / name)
        with open(copy / "docs/tutorial.md", "a") as page:
            page.write("\n[nowhere](nowhere.md)\n")
        result = build(copy, pathlib.Path(folder, "out"))
        assert result.returncode != 0 and "nowhere" in result.stderr, result.stderr
    print(f"{len(expected)} pages")
    return 0


sys.exit(main())
