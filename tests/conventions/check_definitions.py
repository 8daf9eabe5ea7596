# Finds names of namespaces that two files define: types, templates and inline functions link without
# an error where two parts define one name each, and either may be the one that runs.
# check_definitions.py ROOT
import collections
import re
import sys

from check_tree import tree

# What is linked together. Tests are programs of their own: two of them may define one name.
LIBRARY = ("runtime", "vgpu", "ir", "dsl", "passes", "codegen", "jit", "autotune", "kernels", "capi", "tools", "bench")
TOKEN = re.compile(r"[A-Za-z_]\w*|\d[\w.']*|::|->|<<=|>>=|[-+*/%&|^=!<>]=|&&|\|\||.", re.S)
NOISE = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])\'|^[ \t]*#(?:\\\n|[^\n])*',
    re.S | re.M,
)
IDENTIFIER = re.compile(r"[A-Za-z_]\w*$")
CLOSING = {"(": ")", "{": "}", "[": "]"}
NOT_TYPES = {"const", "volatile", "typename", "class", "struct", "unsigned", "signed"}
# Before a parenthesis, these name no function.
NOT_NAMES = {"__attribute__", "alignas", "requires", "decltype", "noexcept", "explicit", "if", "sizeof", "static_assert"}


def tokens_of(text):
    text = NOISE.sub(lambda found: '""' if found.group(0)[0] in "\"'R" else " ", text)
    return [token for token in TOKEN.findall(text) if not token.isspace()]


def after(tokens, start):
    """The place after the bracket that closes the one at `start`."""
    depth, opening = 0, tokens[start]
    for i in range(start, len(tokens)):
        depth += (tokens[i] == opening) - (tokens[i] == CLOSING[opening])
        if depth == 0:
            return i + 1
    return len(tokens)


def after_angle(tokens, start):
    """The same of a template's angle bracket."""
    depth, i = 0, start
    while i < len(tokens):
        if tokens[i] in CLOSING:
            i = after(tokens, i)
            continue
        depth += (tokens[i] == "<") - (tokens[i] == ">")
        i += 1
        if depth == 0:
            break
    return i


def split(tokens):
    """Parts between commas outside of all brackets."""
    parts, i = [[]], 0
    while i < len(tokens):
        end = after(tokens, i) if tokens[i] in CLOSING else after_angle(tokens, i) if tokens[i] == "<" else i + 1
        if tokens[i] == ",":
            parts.append([])
        else:
            parts[-1] += tokens[i:end]
        i = end
    return [part for part in parts if part]


def outside_brackets(tokens):
    i = 0
    while i < len(tokens):
        if tokens[i] in CLOSING or tokens[i] == "<":
            i = after(tokens, i) if tokens[i] in CLOSING else after_angle(tokens, i)
        else:
            yield tokens[i]
            i += 1


def without_default(part):
    return part[: part.index("=")] if "=" in part else part


def name_before(words, end):
    """Where the name begins that ends before `end`, with the arguments of a template and what qualifies it."""
    start = end - 1
    while words[start] == "]":  # of an array
        start = len(words[:start]) - 1 - words[:start][::-1].index("[") - 1
    if words[start] == ">":
        depth = 0
        while start > 0:
            depth += (words[start] == ">") - (words[start] == "<")
            start -= 1
            if depth == 0:
                break
    while start >= 2 and words[start - 1] == "::":
        start -= 2
    return start


def kind_of(parameter):
    """A function's parameter without its name and default."""
    part = without_default(parameter)
    if len(part) > 1 and IDENTIFIER.match(part[-1]) and part[-2] != "::" and set(part[:-1]) - NOT_TYPES - {"&", "*"}:
        part = part[:-1]
    if part[0] == "const" and not {"&", "*", "&&"} & set(part):
        part = part[1:]
    return " ".join(part).replace("sectile :: ", "").replace("detail :: ", "")


def definition(head, namespaces):
    """The key of what a declaration's tokens up to its body define, or None where it is nobody else's matter."""
    while len(head) > 1 and re.match(r"[A-Z][A-Z0-9_]+$", head[0]):  # macros
        head = head[after(head, 1) :] if head[1] == "(" else head[1:]
    templates, names = [], {}
    while head[:1] == ["template"] and head[1:2] == ["<"]:
        end = after_angle(head, 1)
        templates.append(head[2 : end - 1])
        for part in split(head[2 : end - 1]):
            part = without_default(part)
            if IDENTIFIER.match(part[-1]) and part[-1] not in ("class", "typename"):
                names[part[-1]] = f"${len(names)}"
        head = head[end:]
    constraint = []
    if templates and head[:1] == ["requires"]:  # up to the declaration, which no bracket marks: part of the key
        constraint = ["requires"]
    if not head or "static" in head or "friend" in head or "using" in head:
        return None
    words = [names.get(token, token) for token in head]

    def named(words):
        return "::".join([*namespaces, " ".join(words).replace(" :: ", "::")])

    if any(word in ("struct", "class", "union", "enum") for word in words) and "(" not in words and "=" not in words:
        start = next(i for i, word in enumerate(words) if word in ("struct", "class", "union", "enum")) + 1
        start += words[start : start + 1] in (["class"], ["struct"])
        end = start
        while end < len(words) and words[end] not in (":", "final"):
            end = after_angle(words, end) if words[end] == "<" else end + 1
        return f"type {named(words[start:end])}" if end > start else None
    place = 0
    while place < len(words) and words[place] != "=":
        if words[place] == "operator":
            place = words.index("(", place + 1 + (words[place + 1] == "("))
            break
        if words[place] == "(":
            if place and IDENTIFIER.match(words[place - 1]) and words[place - 1] not in NOT_NAMES:
                break
            if place and words[place - 1] == ">":
                break
            place = after(words, place)
        elif words[place] == "<" and place and IDENTIFIER.match(words[place - 1]):
            place = after_angle(words, place)
        else:
            place += 1
    is_function = place < len(words) and words[place] == "("
    if not templates and not {"inline", "constexpr", "consteval"} & set(words[:place]):
        return None  # the linker refuses a second one
    start = words.index("operator") if "operator" in words[:place] else name_before(words, place)
    if not is_function:
        # A variable: templates and inline ones are shared, constants are each file's own.
        return f"variable {named(words[start:place])}" if templates or "inline" in words[:place] else None
    end = after(words, place)
    parameters = ", ".join(kind_of(part) for part in split(words[place + 1 : end - 1]))
    name = named(words[start:place])
    if not templates:
        return f"function {name}({parameters})"
    # A template's result and constraints are part of its name.
    rest = [word for word in words[:start] if word not in ("inline", "constexpr", "auto")] + constraint + words[end:]
    kinds = ", ".join(" ".join(names.get(t, t) for t in without_default(part)) for part in split(sum(templates, [])))
    return f"template {name}({parameters}) <{kinds}> {' '.join(rest)}".strip()


def definitions(text):
    """The keys of what a file defines for all who link with it."""
    tokens, found = tokens_of(text), set()
    scopes, head, i = [], [], 0  # of namespaces; None for one without a name
    while i < len(tokens):
        token = tokens[i]
        if token in ("{", ";"):
            if token == "{" and ("namespace" in head or head[:1] == ["extern"]):
                names = [word for word in head[head.index("namespace") + 1 :] if IDENTIFIER.match(word)] if "namespace" in head else [""]
                scopes.append("::".join(names) or None if "namespace" in head else "")
                head, i = [], i + 1
                continue
            is_body = token == "{" or "=" in outside_brackets(head)
            if is_body and None not in scopes and head and (key := definition(head, [scope for scope in scopes if scope])):
                found.add(key)
            i = after(tokens, i) if token == "{" else i + 1
            head = []
        elif token == "}":
            if scopes:
                scopes.pop()
            head, i = [], i + 1
        elif token in ("(", "["):
            end = after(tokens, i)
            head += tokens[i:end]
            i = end
        else:
            head.append(token)
            i += 1
    return found


def check(files):
    """files: path -> text. Returns the list of complaints."""
    places = collections.defaultdict(list)
    for path, text in files.items():
        if path.endswith((".h", ".cpp")):
            for key in definitions(text):
                places[key].append(path)
    return [
        f"{key} is defined in {', '.join(sorted(paths))}: programs that link both get either; "
        "rename one, or put it into a namespace without a name"
        for key, paths in sorted(places.items())
        if len(paths) > 1 and any(path.split("/", 1)[0] in LIBRARY for path in paths)
    ]


if __name__ == "__main__":
    sources = tree(sys.argv[1])
    complaints = check(sources)
    known = sum(len(definitions(text)) for path, text in sources.items() if path.endswith((".h", ".cpp")))
    print(f"{known} definitions")
    print("\n".join(complaints))
    sys.exit(1 if complaints or known < 1000 else 0)
