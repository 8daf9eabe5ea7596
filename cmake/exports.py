# Writes the linker's version script for libsectile: what the public headers declare, and nothing else.
#   exports.py CLANG OUTPUT LIBRARY HEADER... -- COMPILER-OPTION...
# What LIBRARY has already is left out; it may be none, "-".
# Clang reads the headers, so the script holds mangled names rather than patterns that might match too much.
import json
import os
import re
import subprocess
import sys
import tempfile

OURS = re.compile(r"_ZN[KVRO]*7sectile")
# What clang says of functions that every user compiles, or nobody.
UNDEFINED = ("inline", "constexpr", "isImplicit", "pure", "explicitlyDefaulted", "explicitlyDeleted")


def declarations(clang, headers, options):
    """The top-level declarations of namespace sectile, as clang's JSON."""
    with tempfile.NamedTemporaryFile("w", suffix=".cpp") as source:
        source.writelines(f'#include "{header}"\n' for header in headers)
        source.flush()
        dump = ["-fsyntax-only", "-Xclang", "-ast-dump=json", "-Xclang", "-ast-dump-filter=sectile"]
        done = subprocess.run([clang, *options, *dump, source.name], capture_output=True, text=True)
    if done.returncode:
        sys.exit("exports.py: the public headers do not compile:\n" + done.stderr)
    decoder, at = json.JSONDecoder(), done.stdout.find("{")
    while at >= 0:
        declaration, at = decoder.raw_decode(done.stdout, at)
        yield declaration
        at = done.stdout.find("{", at)


def has_body(node):
    return any(inner.get("kind") in ("CompoundStmt", "CXXTryStmt") for inner in node.get("inner", []))


def mangled(scope):
    return "N" + "".join(f"{len(part)}{part}" for part in scope)


class Exports:
    def __init__(self):
        self.symbols = set()
        self.defined = set()  # functions that a header defines, maybe after it has declared them
        self.templates = {}  # of functions: name and type -> whether a header has the body
        self.types = set()  # mangled names of classes that have a typeinfo
        self.shared = set()  # variables that the library and its users would each have a copy of

    def function(self, node):
        name = node["mangledName"]
        # Inherited constructors have the name of the base's.
        if not OURS.match(name):
            return
        if has_body(node) or any(node.get(word) for word in UNDEFINED):
            self.defined.add(name)
            return
        if node["kind"] == "CXXConstructorDecl":
            self.symbols |= {self.variant(name, "C1", "C" + kind) for kind in "12"}
        elif node["kind"] == "CXXDestructorDecl":
            kinds = "012" if node.get("virtual") else "12"
            self.symbols |= {self.variant(name, "D1", "D" + kind) for kind in kinds}
        else:
            self.symbols.add(name)

    @staticmethod
    def variant(name, one, other):
        at = name.rindex(one + "E")
        return name[:at] + other + name[at + 2 :]

    def variable(self, node, scope, local):
        # Of a file's own variables each file that includes the header has one.
        own = node["mangledName"].endswith("L" + mangled([node["name"]])[1:] + "E")
        if node.get("constexpr") or own and not local:
            return
        if local or node.get("inline"):
            self.shared.add("::".join([*scope, node["name"]]))
        else:
            self.symbols.add(node["mangledName"])

    def visit(self, node, scope=(), local=False):
        kind, name = node.get("kind", ""), node.get("name", "")
        # Templates are instantiated by whoever uses them, but for functions that the headers only declare.
        if kind == "FunctionTemplateDecl" and (generic := [i for i in node["inner"] if i["kind"] == "FunctionDecl"]):
            key = (*scope, name), generic[0]["type"]["qualType"]
            self.templates[key] = self.templates.get(key) or has_body(generic[0])
        if kind.startswith("ClassTemplate") or kind in ("FunctionTemplateDecl", "VarTemplateDecl"):
            return
        if kind in ("FunctionDecl", "CXXMethodDecl", "CXXConstructorDecl", "CXXDestructorDecl", "CXXConversionDecl"):
            if "mangledName" in node:
                self.function(node)
            local = True
        elif kind == "VarDecl" and "mangledName" in node:
            self.variable(node, scope, local)
        elif kind == "CXXRecordDecl" and node.get("definitionData", {}).get("isPolymorphic"):
            self.types.add(mangled((*scope, name)) + "E")
        if kind in ("NamespaceDecl", "CXXRecordDecl"):
            scope = (*scope, name)
        for inner in node.get("inner", []):
            self.visit(inner, scope, local)

    def script(self, elsewhere):
        lines = [f"    {name};" for name in sorted(self.symbols - self.defined - elsewhere)]
        templates = {name for (name, _), body in self.templates.items() if not body and name[-1].isidentifier()}
        lines += [f"    _Z{mangled(name)}I*;" for name in sorted(templates)]
        # A pattern each: the linker need not find all three of every class.
        lines += [f"    _ZT[ISV]{name};" for name in sorted(self.types)]
        return "{\n  global:\n" + "\n".join(lines) + "\n  local: *;\n};\n"


def exported(library):
    if library == "-":
        return set()
    listed = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True)
    return {line.split()[-1].split("@")[0] for line in listed.stdout.splitlines()}


def main(clang, output, library, *words):
    split = words.index("--")
    exports = Exports()
    for declaration in declarations(clang, words[:split], words[split + 1 :]):
        exports.visit(declaration)
    if exports.shared:
        sys.exit("exports.py: define these in a source file, or programs and the library get a copy each: "
                 + ", ".join(sorted(exports.shared)))
    if not exports.symbols:
        sys.exit("exports.py: the public headers declare no function")
    script = exports.script(exported(library))
    # Left alone where nothing changed, so that the library is not linked again.
    if not os.path.exists(output) or open(output).read() != script:
        with open(output, "w") as file:
            file.write(script)


if __name__ == "__main__":
    main(*sys.argv[1:])
