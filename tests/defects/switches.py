"""Puts many deliberate defects into one copy of the tree, each behind a switch: a function with defects
has its body once without and once with each of them, and the environment says which one runs. So all
of them are built once."""
import json
import re

# Which one is at work.
VARIABLE = "ZKLOCK_DEFECT"
# Comments and literals, whose braces count for nothing, and what does count.
TOKEN = re.compile(
    r"""//[^\n]*|/\*.*?\*/|\br(#*)".*?"\1|"(?:\\.|[^"\\])*"|'(?:\\[^']+|[^'\\])'|\bfn\s+\w|[{}()\[\];]""", re.S)
SWITCH = f"""
/// Which deliberate defect is at work.
#[allow(dead_code, unreachable_pub)]
pub(crate) mod defect {{
    /// Whether it is this one.
    pub fn is(name: &str) -> bool {{
        static NAME: std::sync::LazyLock<String> =
            std::sync::LazyLock::new(|| std::env::var("{VARIABLE}").unwrap_or_default());
        *NAME == name
    }}
}}
"""


def bodies(text):
    """Where functions begin, and where their bodies begin and end, inside of their braces; without those
    within others."""
    depth, named, start = 0, None, None
    for token in TOKEN.finditer(text):
        word = token.group()
        if word in "([{":
            if word == "{" and named and named[0] == depth and start is None:
                start = (depth, token.end())
            depth += 1
        elif word in ")]}":
            depth -= 1
            if start and start[0] == depth:
                yield named[1], start[1], token.start()
                start = named = None
        elif word == ";" and start is None and named and named[0] == depth:
            named = None
        elif word.startswith("fn") and start is None:
            named = (depth, token.start())


def braces(signature):
    """What stands around each body of a function; where it returns a future, each body has its own."""
    output = re.search(r"-> impl Future<Output = (.*?)> \+ Send", signature, re.S)
    if not output:
        return "{", "}"
    return f"{{ let boxed: std::pin::Pin<Box<dyn Future<Output = {output[1]}> + Send>> = Box::pin({{", "}); boxed }"


def with_all(text, defects):
    """The text with all defects that are in functions, and the names of these."""
    switched, edits = [], []
    for named, start, end in bodies(text):
        body, found = text[start:end], ""
        before, after = braces(text[named:start])
        for name, defect in defects.items():
            at = text.find(defect["find"])
            if start <= at and at + len(defect["find"]) <= end:
                other = body.replace(defect["find"], defect["put"])
                found += f'if crate::defect::is("{name}") {before}{other}\n{after} else '
                switched.append(name)
        if found:
            edits.append((start, end, f"{found}{before}{body}\n{after}"))
    for start, end, put in reversed(edits):
        text = text[:start] + put + text[end:]
    return text, switched


def root(file, copy):
    """The file of the crate of a file that all its modules are below."""
    source = file[:file.index("/src/")] + "/src/"
    return source + ("lib.rs" if (copy / source / "lib.rs").is_file() else "main.rs")


def read(copy, defects):
    """The texts of all files that `put_all` changes, by their paths."""
    files = {defect["file"] for defect in defects.values()}
    return {path: (copy / path).read_text() for path in sorted(files | {root(file, copy) for file in files})}


def put_all(copy, sound, defects, build):
    """Puts all defects into the copy. `build` builds it, and returns the run of cargo, with its messages in
    JSON. Returns the names of the defects that can be switched on there: the others are in no function, or do not compile
    like this."""
    left, roots = dict(defects), {root(defect["file"], copy) for defect in defects.values()}
    while True:
        switched, places = [], {}
        for path, text in sound.items():
            here = {name: each for name, each in left.items() if each["file"] == path}
            put, names = with_all(text, here)
            if path in roots:
                put += SWITCH
            (copy / path).write_text(put)
            places[path] = put
            switched += names
        built = build()
        if built.returncode == 0:
            return switched
        words = [json.loads(line) for line in built.stdout.splitlines() if line.startswith("{")]
        errors = [each["message"] for each in words if each.get("message", {}).get("level") == "error"]
        refused = {guilty(places, span) for error in errors for span in error["spans"]} - {None}
        if not refused:
            why = "".join(each["rendered"] for each in errors) or built.stderr
            raise SystemExit(f"with all defects it does not compile:\n{why}")
        left = {name: each for name, each in left.items() if name not in refused}


def guilty(places, span):
    """The defect in whose copy of a function something does not compile, or the first of it."""
    if span["file_name"] not in places:
        return None
    text = places[span["file_name"]].encode()[:span["byte_end"]].decode()
    names = re.findall(r'crate::defect::is\("([^"]+)"\)', text)
    if not names:
        names = re.findall(r'crate::defect::is\("([^"]+)"\)', places[span["file_name"]])
    return names[-1] if names else None


def put_back(copy, sound):
    for path, text in sound.items():
        (copy / path).write_text(text)
