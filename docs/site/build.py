# Builds the site: build.py ROOT OUT. The pages are those of the repository, the navigation is that of
# docs/README.md, and each public header becomes a page. Programs: mkdocs (with mkdocs-material) and
# doxygen, of Debian. A warning of either is an error.
import os
import pathlib
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

HERE = pathlib.Path(__file__).resolve().parent
TOP = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "LICENSE")
PARTS = ("dsl", "runtime", "autotune", "kernels")


# The API's pages


def as_documentation(text):
    """A header with its comments as Doxygen takes them."""

    def comment(match):
        words = re.sub(r"(`[^`]*`)|([\\@#<>%])", lambda found: found[1] or "\\" + found[2], match[3])
        return f"{match[1]}///{match[2]}{words.replace('[', '&#91;')}"

    # Specialisations of the standard library's templates are no declarations of ours.
    text = re.sub(r"^(?:template <[^\n]*>\s+)?(?:class|struct) std::.*?^};", "", text, flags=re.M | re.S)
    text = re.sub(r" // namespace[^\n]*", "", text)
    lines = []
    for line in text.splitlines():
        line = re.sub(r"^( *)//()( .*)$", comment, line)
        lines.append(re.sub(r"^(.*[;,)}] *)//()( [^\"]*)$", comment, line) if "///" not in line else line)
        if not line.strip().startswith("//"):
            lines[-1] = lines[-1].replace("///", "///<")
    return "\n".join(lines)


def prose(element):
    """A description as Markdown."""
    if element is None:
        return ""
    def plain(part):
        return re.sub(r"([*\[_])", r"\\\1", (part or "").replace("<", "&lt;"))

    text = plain(element.text)
    for child in element:
        inner = prose(child)
        text += {"para": f"\n\n{inner}\n\n", "computeroutput": f"`{''.join(child.itertext())}`", "listitem": f"\n- {inner.strip()}",
                 "ndash": "--"}.get(child.tag, inner)
        text += plain(child.tail)
    return text


def words(element, name):
    found = element.find(name)
    return " ".join("".join(found.itertext()).split()) if found is not None else ""


def description(element):
    text = prose(element.find("briefdescription")) + prose(element.find("detaileddescription"))
    return re.sub(r"\n{3,}", "\n\n", text).strip()


def template(element):
    found = element.find("templateparamlist")
    if found is None:
        return ""
    parameters = [" ".join("".join(p.itertext()) if p.find("declname") is None else
                           words(p, "type") + " " + words(p, "declname") +
                           (" = " + words(p, "defval") if p.find("defval") is not None else "") for p in [p]).split()
                  for p in found.findall("param")]
    return "template <" + ", ".join(" ".join(p) for p in parameters) + ">\n"


def signature(member):
    kind, name = member.get("kind"), words(member, "name")
    if kind == "define":
        parameters = [words(p, "defname") for p in member.findall("param")]
        return f"#define {name}" + (f"({', '.join(parameters)})" if parameters else "")
    if kind == "enum":
        return f"enum class {name} {{ {', '.join(words(v, 'name') for v in member.findall('enumvalue'))} }}"
    type_, text = words(member, "type"), name
    if kind == "typedef":
        text = f"using {name} = {type_}"
    elif type_:
        text = f"{type_} {name}"
    for word in ("static", "explicit"):
        text = f"{word} {text}" if member.get(word) == "yes" and not text.startswith(word) else text
    if kind == "function":
        arguments = words(member, "argsstring")
        arguments = re.sub(r",? *(detail::)?Location where *= *(detail::)?Location::current\(\)", "", arguments)
        text += re.sub(r" *= *(delete|default)$", r" = \1", arguments)
        if (condition := words(member, "requiresclause")):
            text += f"\n  requires {condition}"
    elif kind == "variable" and member.find("initializer") is not None and len(words(member, "initializer")) < 40:
        text += " " + words(member, "initializer")
    return re.sub(r"<(?: | (?=\w))?([\w:, ]+?) ?>(?!>)", r"<\1>", template(member) + text).replace("detail::", "")


def is_public(member):
    name = words(member, "name")
    return (member.get("prot") in (None, "public") and member.get("kind") not in ("friend",)
            and not name.startswith(("SECTILE_DETAIL", "sectileConfig", "~", "operator=")) and "= delete" not in words(member, "argsstring")
            and not re.search(r"detail::(Value|Memory|HostMemory)\b|runtime::", words(member, "type") + words(member, "argsstring")))


def enumerators(member):
    values = [(words(v, "name"), description(v)) for v in member.findall("enumvalue")]
    return "".join(f"- `{name}`" + (f": {what}" if what else "") + "\n" for name, what in values) if any(w for _, w in values) else ""


def members_text(members, level, owner=""):
    """Fields in a list; of the rest each name once as a heading, with all its forms."""
    text, fields, forms = "", [], {}
    for member in filter(is_public, members):
        name = words(member, "name")
        if owner and member.get("kind") == "variable":
            fields.append(f"- `{signature(member)}`" + (f": {' '.join(description(member).split())}" if description(member) else ""))
        else:
            forms.setdefault("Constructors" if name == owner else name, []).append(member)
    if fields:
        text += "\n" + "\n".join(fields) + "\n"
    for name, those in forms.items():
        text += f"\n{'#' * level} {name}\n"
        for member in those:
            text += f"\n```cpp\n{signature(member)}\n```\n\n{description(member)}\n\n{enumerators(member)}"
    return text


def api_pages(root, build):
    headers = sorted(path for part in PARTS for path in (root / part / "include/sectile").glob("*.h"))
    copies = build / "headers"
    copies.mkdir(parents=True)
    for path in headers:
        (copies / path.name).write_text(as_documentation(path.read_text()))
    undefined = set(re.findall(r"#undef (\w+)", "".join(path.read_text() for path in headers)))
    settings = (HERE / "Doxyfile").read_text() + f"\nINPUT = {copies}\nOUTPUT_DIRECTORY = {build}\n"
    run(["doxygen", "-"], input=settings)

    free, types, hidden = {}, {}, {}
    for file in sorted((build / "xml").glob("*.xml")):
        compound = ElementTree.parse(file).getroot().find("compounddef")
        if compound is None:
            continue
        kind, name = compound.get("kind"), words(compound, "compoundname")
        members = compound.iter("memberdef")
        if kind in ("class", "struct") and "::detail::" in name:
            hidden.setdefault(re.sub(r"<.*", "", name).split("::")[-1].strip(), []).extend(members)
        if re.search(r"\bdetail\b|\bruntime\b|^std\b", name):
            continue
        if kind in ("namespace", "file"):
            for member in members:
                if kind == "namespace" or member.get("kind") == "define" and words(member, "name") not in undefined:
                    where = os.path.basename(member.find("location").get("file"))
                    free.setdefault(where, []).append(member)
        elif kind in ("class", "struct") and compound.get("prot") == "public" and "<" not in name:
            where = os.path.basename(compound.find("location").get("file"))
            types.setdefault(where, []).append((compound, list(members)))

    def line(element):
        return int(element.find("location").get("line"))

    pages, index = {}, {part: [] for part in PARTS}
    for path in headers:
        name = path.name
        about = []
        for comment in path.read_text().splitlines():
            if not comment.startswith("//"):
                break
            about.append(comment.removeprefix("//").strip())
        about = " ".join(about).replace("<", "&lt;").replace("*", "\\*")
        text = f"# {name}\n\n{about}\n\n```cpp\n#include <sectile/{name}>\n```\n"
        for compound, members in sorted(types.get(name, []), key=lambda pair: line(pair[0])):
            short = words(compound, "compoundname").removeprefix("sectile::")
            text += f"\n## {short}\n\n```cpp\n{template(compound)}{compound.get('kind')} {short}\n```\n\n{description(compound)}\n"
            bases = [re.sub(r"<.*", "", "".join(base.itertext())).split("::")[-1].strip() for base in compound.findall("basecompoundref")]
            for base in {"Kernel": ["TypedKernel", "KernelBase"]}.get(short, bases):
                members += [member for member in hidden.get(base, []) if words(member, "name") != base and member.get("kind") == "function"
                            and (base != "KernelBase" or words(member, "name") in ("name", "arguments", "options"))]
            text += members_text(members, 3, short)
        text += members_text(sorted(free.get(name, []), key=line), 2)
        pages[f"api/{name.removesuffix('.h')}.md"] = text
        part = next(part for part in PARTS if f"/{part}/include/" in str(path))
        index[part].append(f"- [`<sectile/{name}>`]({name.removesuffix('.h')}.md): {about}")
    titles = {"dsl": "The language", "runtime": "Devices, memory, launches", "autotune": "Tuning and timing", "kernels": "The library"}
    pages["api/index.md"] = "# Public headers\n" + "".join(f"\n## {titles[part]}\n\n" + "\n".join(index[part]) + "\n" for part in PARTS)
    return pages


# The site


def navigation(text):
    """Sections of docs/README.md, in the order of its links: [(title, [path, ...])]. Paths are below docs/."""
    sections = []
    for line in text.splitlines():
        if heading := re.match(r"## (.*)", line):
            sections.append((heading[1], []))
        elif sections:
            for target in re.findall(r"\]\(([^)#\s]+\.md)\)", line):
                if target not in sections[-1][1]:
                    sections[-1][1].append(target)
    return sections


def run(command, **options):
    """The program; whatever warns, fails."""
    result = subprocess.run(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **options)
    warnings = [line for line in result.stdout.splitlines() if re.search(r"^(\x1b\[\d+m)*(WARNING|ERROR)|\b(warning|error):", line)]
    if result.returncode or warnings:
        sys.exit("\n".join(warnings or result.stdout.splitlines()[-20:]) + f"\n{command[0]} failed, or warned")


def main(root, out):
    root, out = pathlib.Path(root).resolve(), pathlib.Path(out).resolve()
    build = out / "work"
    for old in (build, out / "site"):
        shutil.rmtree(old, ignore_errors=True)
    pages = build / "pages"
    shutil.copytree(root / "docs", pages / "docs", ignore=shutil.ignore_patterns("site"))
    for name in TOP:
        shutil.copy(root / name, pages / name)
    shutil.copy(HERE / "extra.css", pages)
    # Links to folders and sources lead out of the site; their text stays.
    for page in pages.rglob("*.md"):
        text = page.read_text()
        page.write_text(re.sub(r"\[([^\]]+)\]\((?!\w+:)([^)\s#]*/|[^)\s]+\.(?:h|cpp|py|txt))\)", r"\1", text))
    for name, text in api_pages(root, build).items():
        (pages / name).parent.mkdir(exist_ok=True)
        (pages / name).write_text(text)

    nav = "nav:\n  - README.md\n  - docs/README.md\n"
    listed = set()
    for title, targets in navigation((root / "docs/README.md").read_text()):
        nav += f"  - {title!r}:\n"
        for target in targets:
            path = os.path.normpath(os.path.join("docs", target))
            if path not in listed and path != "README.md":
                listed.add(path)
                nav += f"    - {path}\n"
    nav += "  - 'Public headers':\n" + "".join(f"    - api/{page.name}\n" for page in
                                             sorted((pages / "api").glob("*.md"), key=lambda page: (page.name != "index.md", page.name)))
    settings = (HERE / "mkdocs.yml").read_text() + f"docs_dir: {pages}\nsite_dir: {out / 'site'}\n" + nav
    (build / "mkdocs.yml").write_text(settings)
    run(["mkdocs", "build", "--strict", "--config-file", str(build / "mkdocs.yml")])
    shutil.rmtree(build)
    print(f"{len(list((out / 'site').rglob('*.html')))} pages: {out / 'site/index.html'}")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
