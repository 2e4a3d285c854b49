#!/usr/bin/env python3
"""The house rules that a machine can check: one table of rules, each message names its cure.

Usage: tidy.py [ROOT]. Prints `path:line: rule: what is wrong; what to do` for every finding, and
exits 1 when there is one. test/tidy/tidy_test.py shows for each rule a tree that breaks it.
"""

from __future__ import annotations

import ast
import dataclasses
import os
import pathlib
import re
import sys
from collections.abc import Callable, Iterator

import cpp_text

FILE_LINES_MAX = 500
FUNCTION_LINES_MAX = 70
LINE_COLUMNS_MAX = 100
FILE_BYTES_MAX = 1_000_000

# Which folders of src a folder may include, beside itself and include/mccl.
FOLDERS = {"base", "ir", "lang", "verify", "algorithms", "planner", "transport", "device", "sim",
           "runtime", "comm"}
EDGES = {
    "include/mccl": set(),
    "src/base": set(),
    "src/ir": {"base"},
    "src/lang": {"ir", "base"},
    "src/verify": {"ir", "base"},
    "src/algorithms": {"lang", "ir", "base"},
    "src/planner": {"algorithms", "ir", "base"},
    "src/transport": {"base"},
    "src/device": {"base"},
    "src/sim": {"base"},
    "src/runtime": {"ir", "base"},
    "src/comm": FOLDERS,
    "plugins": {"comm", "base"},
    "examples": set(),
}
# Single headers that cross the table above.
EDGE_FILES = {"src/runtime": {"transport/stream.h", "transport/link.h"},
              "plugins": {"device/metal_hand_off.h", "device/metal_staging.h"}}

# System headers that belong to few folders.
SYSTEM_HEADERS = [
    (re.compile(r"^(torch|ATen|c10|pybind11)/"),
     ("plugins/torch/", "bindings/", "test/torch/", "test/metal/"),
     "only the plug-in, the bindings and their tests know torch and Python"),
    (re.compile(r"^(Metal|Foundation|MetalPerformanceShaders|dispatch)/"),
     ("src/device/metal_", "plugins/torch/metal_", "test/metal/"), "only metal_* knows Metal"),
    (re.compile(r"^(sys/socket|sys/epoll|sys/event|netinet/.*|arpa/inet|netdb|ifaddrs|net/if)\.h$"),
     ("src/transport/", "src/comm/", "test/", "bench/", "tools/"),
     "sockets are opened in src/transport and in comm's rendezvous"),
]

CPP_SUFFIXES = {".h", ".cc", ".mm"}
CODE_SUFFIXES = CPP_SUFFIXES | {".py", ".sh", ".cmake", ".def"}
SKIPPED_FOLDERS = {".git", ".venv", ".cache", ".pytest_cache", "__pycache__", "build", "dist"}
BANNED_NAMES = {"util", "utils", "helper", "helpers", "common", "misc", "manager"}

# (rule, path): why the rule does not hold there. The list may only shrink.
EXCEPTIONS = {
    ("standard_streams", "src/base/check.cc"): "a failed check aborts: no Logger may be at hand",
    ("random", "src/comm/endpoint_core.cc"): "a process's own number must differ from all others",
}


@dataclasses.dataclass(frozen=True)
class Finding:
    path: str
    line: int
    text: str


class Tree:
    """The files of a checkout: paths relative to its root, read once."""

    def __init__(self, root: pathlib.Path) -> None:
        self.root = root
        self.paths = sorted(self._walk())
        self._texts: dict[str, str] = {}
        self._codes: dict[str, str] = {}

    def _walk(self) -> Iterator[str]:
        for folder, names, files in os.walk(self.root):
            names[:] = [name for name in names
                        if name not in SKIPPED_FOLDERS and not name.endswith(".egg-info")]
            for file in files:
                if file == ".git":  # of a worktree: where the repository is
                    continue
                yield (pathlib.Path(folder) / file).relative_to(self.root).as_posix()

    def text(self, path: str) -> str:
        if path not in self._texts:
            self._texts[path] = (self.root / path).read_text(errors="replace")
        return self._texts[path]

    def code(self, path: str) -> str:
        """Of a C++ file: without comments and the contents of strings."""
        if path not in self._codes:
            self._codes[path] = cpp_text.code_of(self.text(path))
        return self._codes[path]

    def select(self, suffixes: set[str], *prefixes: str) -> list[str]:
        return [path for path in self.paths if pathlib.PurePosixPath(path).suffix in suffixes
                and (not prefixes or path.startswith(prefixes))]

    def code_files(self) -> list[str]:
        return [path for path in self.paths if pathlib.PurePosixPath(path).suffix in CODE_SUFFIXES
                or path.endswith("CMakeLists.txt")]


def line_of(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1


def includes_of(text: str) -> Iterator[tuple[int, str, bool]]:
    """Line, path, and whether it stands in angle brackets."""
    line = r'^[ \t]*#[ \t]*(?:include|import)[ \t]*(?:"([^"\n]+)"|<([^>\n]+)>)'
    for match in re.finditer(line, text, re.M):
        yield line_of(text, match.start()), match.group(1) or match.group(2), bool(match.group(2))


def check_include_edges(tree: Tree) -> Iterator[Finding]:
    for path in tree.select(CPP_SUFFIXES):
        owner = next((name for name in EDGES if path.startswith(name + "/")), None)
        if owner is None:
            continue
        allowed = EDGES[owner] | {owner.removeprefix("src/")}
        for line, target, is_system in includes_of(tree.text(path)):
            folder = target.split("/")[0]
            if is_system or folder == "mccl" or target in EDGE_FILES.get(owner, ()):
                continue
            if "/" in target and folder in allowed:
                continue
            if "/" not in target and owner == "plugins":
                continue
            known = ", ".join(sorted(EDGES[owner])) or "nothing"
            yield Finding(path, line, f'"{target}": {owner} may include itself by its full path, '
                          f"mccl/ and {known}; move the code or the boundary")


def check_system_headers(tree: Tree) -> Iterator[Finding]:
    for path in tree.select(CPP_SUFFIXES):
        for line, target, is_system in includes_of(tree.text(path)):
            for pattern, homes, reason in SYSTEM_HEADERS:
                if is_system and pattern.match(target) and not path.startswith(homes):
                    yield Finding(path, line, f"<{target}>: {reason}")


def check_include_cycles(tree: Tree) -> Iterator[Finding]:
    graph = {}
    for path in tree.select({".h"}, "src/", "include/"):
        key = path.split("/", 1)[1]
        graph[key] = (path, [target for _, target, _ in includes_of(tree.text(path))])
    done: set[str] = set()

    def visit(key: str, trail: list[str]) -> Iterator[Finding]:
        if key in trail:
            yield Finding(graph[key][0], 1, "includes itself through "
                          + " -> ".join([*trail[trail.index(key):], key]) + "; cut the circle")
        if key in trail or key in done or key not in graph:
            return
        for target in graph[key][1]:
            yield from visit(target, [*trail, key])
        done.add(key)

    for key in graph:
        yield from visit(key, [])


def check_file_length(tree: Tree) -> Iterator[Finding]:
    for path in tree.code_files():
        count = tree.text(path).count("\n")
        if count > FILE_LINES_MAX:
            yield Finding(path, FILE_LINES_MAX + 1,
                          f"{count} lines, at most {FILE_LINES_MAX}; it is two files")


def python_functions(text: str) -> list[cpp_text.Function]:
    return [cpp_text.Function(node.name, node.lineno, (node.end_lineno or 0) - node.lineno + 1)
            for node in ast.walk(ast.parse(text))
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]


def check_function_length(tree: Tree) -> Iterator[Finding]:
    for path in tree.select(CPP_SUFFIXES | {".py"}):
        find = python_functions if path.endswith(".py") else cpp_text.find_functions
        for function in find(tree.text(path)):
            if function.line_count > FUNCTION_LINES_MAX:
                yield Finding(path, function.line,
                              f"{function.name} has {function.line_count} lines, at most "
                              f"{FUNCTION_LINES_MAX}; it is several functions")


def check_line_length(tree: Tree) -> Iterator[Finding]:
    for path in tree.code_files():
        for number, line in enumerate(tree.text(path).splitlines(), 1):
            if len(line) > LINE_COLUMNS_MAX:
                yield Finding(path, number, f"{len(line)} columns, at most {LINE_COLUMNS_MAX}")


def find_in_code(tree: Tree, pattern: str, paths: list[str], text: str) -> Iterator[Finding]:
    for path in paths:
        code = tree.code(path)
        for match in re.finditer(pattern, code, re.MULTILINE):
            yield Finding(path, line_of(code, match.start()), f"{match.group().strip()}: {text}")


def check_environment(tree: Tree) -> Iterator[Finding]:
    paths = [path for path in tree.select(CPP_SUFFIXES)
             if path != "src/base/config.cc" and not path.startswith("test/")]
    yield from find_in_code(tree, r"\b(?:secure_)?getenv\b|\benviron\b", paths,
                            "only src/base/config.cc reads the environment; add a setting there")


def check_sleep(tree: Tree) -> Iterator[Finding]:
    yield from find_in_code(
        tree, r"\b(?:sleep_for|sleep_until|usleep|nanosleep|sleep)\s*\(", tree.select(CPP_SUFFIXES),
        "nothing sleeps: wait for the event, or take the time as an argument")


def check_random(tree: Tree) -> Iterator[Finding]:
    yield from find_in_code(tree, r"\bs?rand\s*\(|\brandom_device\b|\bmt19937\w*",
                            tree.select(CPP_SUFFIXES), "use a seeded Prng (src/base/prng.h)")


def check_clock(tree: Tree) -> Iterator[Finding]:
    paths = [path for path in tree.select(CPP_SUFFIXES, "src/", "include/")
             if path != "src/base/clock.cc"]
    yield from find_in_code(tree, r"\b\w+_clock::now\b|\bclock_gettime\b|\bgettimeofday\b", paths,
                            "time is an argument: take a Clock (src/base/clock.h)")


def check_standard_streams(tree: Tree) -> Iterator[Finding]:
    yield from find_in_code(
        tree, r"\bstd::(?:cout|cerr|clog)\b|(?<![\w:])(?:std::)?(?:printf|puts|fputs|fprintf)\s*\(",
        tree.select(CPP_SUFFIXES, "src/", "include/"), "log through a Logger (src/base/log.h)")


def check_using_namespace(tree: Tree) -> Iterator[Finding]:
    yield from find_in_code(tree, r"^\s*using\s+namespace\b[^;]*", tree.select({".h"}),
                            "a header names things in full")


def check_pragma_once(tree: Tree) -> Iterator[Finding]:
    for path in tree.select({".h"}):
        if not re.search(r"^#pragma once$", tree.text(path), re.MULTILINE):
            yield Finding(path, 1, "add #pragma once after the opening comment")


def check_names(tree: Tree) -> Iterator[Finding]:
    for path in tree.paths:
        words = set(re.split(r"[/._-]", path.lower()))
        for word in sorted(words & BANNED_NAMES):
            yield Finding(path, 1, f'"{word}" says nothing: name the file for what it holds')
    yield from find_in_code(tree, r"\bnamespace\s+(?:utils?|helpers?|common|misc)\b",
                            tree.select(CPP_SUFFIXES), "name it for what it holds")


def check_leftovers(tree: Tree) -> Iterator[Finding]:
    marks = re.compile(r"\b(?:TO" r"DO|FIX" r"ME|XX" r"X)\b(?!\(#\d+\))|^#if 0\b", re.MULTILINE)
    for path in tree.code_files():
        text = tree.text(path)
        for match in marks.finditer(text):
            yield Finding(path, line_of(text, match.start()),
                          f"{match.group()}: do it, delete it, or name its issue: (#12)")
        if "\t" in text:
            yield Finding(path, line_of(text, text.index("\t")), "a tab; indent with spaces")


def check_sources_listed(tree: Tree) -> Iterator[Finding]:
    roots = ("src/", "test/", "tools/", "bench/", "examples/", "plugins/")
    for path in tree.select({".cc", ".mm"}, *roots):
        folder = pathlib.PurePosixPath(path).parent
        lists = [f"{place}/CMakeLists.txt" for place in (folder, *folder.parents)]
        listing = "\n".join(re.sub(r"#.*", "", tree.text(name)) for name in lists
                            if name in tree.paths)
        own = tree.text(lists[0]) if lists[0] in tree.paths else ""
        name = pathlib.PurePosixPath(path).name
        is_globbed = re.search(r"\bGLOB\b[^)]*\*\.cc", own) is not None
        if not is_globbed and not re.search(rf"(?<![\w.]){re.escape(name)}(?!\w)", listing):
            yield Finding(path, 1, f"is built by nobody; list it in {lists[0]} or delete it")


def check_golden_cases(tree: Tree) -> Iterator[Finding]:
    catalog = "src/algorithms/catalog.cc"
    if catalog not in tree.paths:
        return
    listed = {re.sub(r"(?<!^)([A-Z]|(?<=[a-z])\d)", r"_\1", name).lower()
              for name in re.findall(r"\bX\(k(\w+)\)", tree.code(catalog))}
    for name in sorted(listed):
        for needed in (f"src/algorithms/{name}.cc", f"test/golden/algorithms/{name}.txt"):
            if needed not in tree.paths:
                yield Finding(catalog, 1, f"{name} has no {needed}; add it")
    for path in tree.select({".cc"}, "src/algorithms/"):
        name = pathlib.PurePosixPath(path).stem
        if name not in listed and re.search(r"\bconst Algorithm k\w+ = ", tree.code(path)):
            yield Finding(path, 1, f"is not in the catalogue; add a line to {catalog}")


def check_links(tree: Tree) -> Iterator[Finding]:
    for path in tree.select({".md"}):
        text = re.sub(r"^```.*?^```", lambda match: re.sub(r"[^\n]", " ", match.group()),
                      tree.text(path), flags=re.MULTILINE | re.DOTALL)
        for match in re.finditer(r"\[[^\]\n]*\]\(([^)\s]+)\)", text):
            target = match.group(1).split("#")[0]
            if not target or re.match(r"[a-z]+:", target):
                continue
            base = tree.root if target.startswith("/") else (tree.root / path).parent
            if not (base / target.lstrip("/")).exists():
                yield Finding(path, line_of(text, match.start()), f"{target} does not exist")


def check_file_size(tree: Tree) -> Iterator[Finding]:
    for path in tree.paths:
        size = (tree.root / path).lstat().st_size
        if size > FILE_BYTES_MAX:
            yield Finding(path, 1, f"{size} bytes, at most {FILE_BYTES_MAX}; generate it")


def check_machine_words(tree: Tree) -> Iterator[Finding]:
    words = re.compile(r"(?<![\w./$}])/(?:home|root|work|opt|mnt|Users)/\w+"
                       r"|\bwork" r"place\b|\bshared/(?:design|notes|spikes)")
    kinds = {".md", ".toml", ".txt", ".json", ".yml"}
    for path in sorted({*tree.code_files(), *tree.select(kinds), *tree.select({""})}):
        text = tree.text(path)
        for match in words.finditer(text):
            yield Finding(path, line_of(text, match.start()),
                          f"{match.group()} means nothing on another machine; say it without")


RULES: dict[str, Callable[[Tree], Iterator[Finding]]] = {
    "include_edges": check_include_edges,
    "system_headers": check_system_headers,
    "include_cycles": check_include_cycles,
    "file_length": check_file_length,
    "function_length": check_function_length,
    "line_length": check_line_length,
    "environment": check_environment,
    "sleep": check_sleep,
    "random": check_random,
    "clock": check_clock,
    "standard_streams": check_standard_streams,
    "using_namespace": check_using_namespace,
    "pragma_once": check_pragma_once,
    "names": check_names,
    "leftovers": check_leftovers,
    "sources_listed": check_sources_listed,
    "golden_cases": check_golden_cases,
    "links": check_links,
    "file_size": check_file_size,
    "machine_words": check_machine_words,
}


def run_rules(tree: Tree, exceptions: dict[tuple[str, str], str]) -> list[str]:
    lines = []
    unused = set(exceptions)
    for rule, check in RULES.items():
        for finding in check(tree):
            if (rule, finding.path) in exceptions:
                unused.discard((rule, finding.path))
            else:
                lines.append(f"{finding.path}:{finding.line}: {rule}: {finding.text}")
    lines += [f"{path}:1: exceptions: {rule} holds here again; take the exception out of tidy.py"
              for rule, path in sorted(unused)]
    return lines


def main() -> int:
    root = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).parents[2]
    lines = run_rules(Tree(root.resolve()), EXCEPTIONS)
    print("\n".join(lines) if lines else f"{len(RULES)} rules hold")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
