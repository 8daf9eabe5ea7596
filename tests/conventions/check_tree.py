# Holds the tree to its rules: includes run one way between folders, public headers stay clean,
# every source says what it is for, no file grows too long. check_tree.py ROOT
import os
import re
import shutil
import subprocess
import sys

# What each folder may include besides itself; the others may include everything.
DIRECT = {
    "runtime": [],
    "vgpu": ["runtime"],
    "ir": ["runtime"],
    "dsl": ["ir"],
    "passes": ["ir"],
    "codegen": ["passes", "ir", "vgpu"],
    "jit": ["codegen", "dsl"],
    "autotune": ["jit"],
    "kernels": ["autotune", "jit", "dsl"],
}
# Of these, a folder may include the public headers: they declare what others define.
HEADERS = {"runtime": ["dsl"]}
WITHOUT_LLVM = ["runtime", "vgpu"]
# Rooms of a folder: each may include itself, the folder's own files, and rooms that stand before it.
ROOMS = {
    "passes": ["analysis", "checks", "language", "layouts", "partitions", "memory", "loops", "channels"],
}
FOREIGN = re.compile(r'#\s*include\s*[<"](llvm|llvm-c|mlir|mlir-c|lld|cuda|hip|nvrtc|rocm)\b')
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^">]+)[">]', re.M)
LONGEST = 900
# They expect a comma where the program's locale has one.
BY_LOCALE = re.compile(r"\b(strto[df]|strtold|sto[fd]|stold|atof)\s*\(")


def allowed(folder):
    found = {folder}
    for other in DIRECT[folder]:
        found |= allowed(other)
    return found


def room_of(path):
    """How many rooms a file may include besides the folder's own files; 0 for these."""
    top, *parts = path.split("/")
    rooms = ROOMS[top]
    if len(parts) == 1:
        return 0
    return rooms.index(parts[0]) + 1 if parts[0] in rooms else None


def check_rooms(path, text):
    top = path.split("/", 1)[0]
    room = room_of(path)
    if room is None:
        yield f"{path}: {top}/ has no such room"
        return
    for name in INCLUDE.findall(text):
        if name.startswith(top + "/") and (room_of(name) or 0) > room:
            yield f"{path}: includes {name}, whose room comes later in {top}/"


def comment_start(path):
    if path.endswith((".h", ".c", ".cpp", ".def", ".td", ".mlir")):
        return ("//",)
    return ("#",)


def check(files):
    """files: path -> text. Returns the list of complaints."""
    complaints = []
    # <sectile/x.h> is found in the part that has it.
    public = {
        path.split("/include/", 1)[1]: path.split("/", 1)[0] for path in files if "/include/sectile/" in path
    }
    for path, text in files.items():
        top = path.split("/", 1)[0]
        lines = text.splitlines()
        if lines and lines[0].startswith("#!"):
            lines = lines[1:]
        if not lines or not lines[0].startswith(comment_start(path)):
            complaints.append(f"{path}: does not start with a comment that says what it is for")
        if len(lines) > LONGEST:
            complaints.append(f"{path}: {len(lines)} lines, more than {LONGEST}")
        if "/include/sectile/" in path and (found := FOREIGN.search(text)):
            complaints.append(f"{path}: a public header with {found.group(0)}")
        if top in WITHOUT_LLVM and (found := FOREIGN.search(text)):
            complaints.append(f"{path}: {found.group(0)}, in a folder that goes without LLVM")
        if (top in DIRECT or top in ("capi", "tools")) and (found := BY_LOCALE.search(text)):
            complaints.append(f"{path}: {found.group(1)} reads numbers by the locale: take runtime::numberIn")
        if top in DIRECT and path.endswith((".h", ".cpp", ".def", ".td")):
            for name in INCLUDE.findall(text):
                target = public.get(name) or name.split("/", 1)[0]
                if public.get(name) in HEADERS.get(top, []):
                    continue
                if (target in DIRECT or target in ("tools", "tests", "bench")) and target not in allowed(top):
                    complaints.append(f"{path}: includes {name}, but {top}/ may not include {target}/")
            if top in ROOMS:
                complaints.extend(check_rooms(path, text))
    return complaints


def tree(root):
    git = shutil.which("git")
    listed = git and subprocess.run(
        [git, "-C", root, "ls-files", "-co", "--exclude-standard"], capture_output=True, text=True
    )
    if listed and listed.returncode == 0:
        names = listed.stdout.splitlines()
    else:  # an unpacked archive instead of a clone, or a machine without git
        names = [
            os.path.relpath(os.path.join(folder, name), root)
            for folder, _, found in os.walk(root)
            if not re.search(r"/(build[^/]*|\.[^/]+)(/|$)", folder[len(root) :])
            for name in found
        ]
    files = {}
    for name in names:
        if name.endswith((".h", ".c", ".cpp", ".def", ".td", ".mlir", ".py", ".cmake", "CMakeLists.txt")):
            path = os.path.join(root, name)
            if os.path.exists(path):
                with open(path, encoding="utf-8") as file:
                    files[name] = file.read()
    return files


if __name__ == "__main__":
    sources = tree(sys.argv[1])
    found = check(sources)
    print(f"{len(sources)} files")
    print("\n".join(found))
    sys.exit(1 if found or len(sources) < 10 else 0)
