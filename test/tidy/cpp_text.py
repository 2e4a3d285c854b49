"""C++ source as text: comments blanked, functions found by their braces. No parser, good enough."""

from __future__ import annotations

import dataclasses
import re

_TOKEN = re.compile(
    r"""//(?:[^\n\\]|\\.|\\\n)*              # comment to the end of the line
      | /\*.*?\*/                            # comment in the C manner
      | R"(?P<tag>[^(\s"]*)\(.*?\)(?P=tag)"  # raw string
      | "(?:\\.|[^"\\\n])*"                  # string
      | (?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+'  # character, but no digit separator
    """, re.VERBOSE | re.DOTALL)
_DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n\\]|\\.|\\\n)*", re.MULTILINE | re.DOTALL)
_SCOPE = re.compile(r"\b(?:namespace|class|struct|union|enum|extern)\b[^()]*$")
_LABEL = re.compile(r"\s*(?:(?:public|protected|private)\s*:\s*)*")
_NAME = re.compile(r"([~\w:]+(?:\s*operator\s*\S+)?)\s*\(")


@dataclasses.dataclass(frozen=True)
class Function:
    name: str
    line: int
    line_count: int


def _blank(match: re.Match[str]) -> str:
    return re.sub(r"[^\n]", " ", match.group())


def _blank_content(match: re.Match[str]) -> str:
    text = match.group()
    if text.startswith("/"):
        return _blank(match)
    return text[0] + re.sub(r"[^\n]", " ", text[1:-1]) + text[-1]


def code_of(text: str) -> str:
    """`text` with comments and the contents of strings blanked; every line keeps its number."""
    return _TOKEN.sub(_blank_content, text)


def _is_function_head(head: str) -> bool:
    stripped = head.strip()
    if _SCOPE.search(stripped) or ")" not in stripped:
        return False
    return not stripped.endswith(("=", ",", "(", "return"))


def find_functions(text: str) -> list[Function]:
    """Every outermost function body; what is inside counts with it."""
    code = _DIRECTIVE.sub(_blank, code_of(text))
    functions = []
    depth = 0  # of braces inside the current function; 0: outside of any
    head_start = 0
    start = 0
    name = ""
    for match in re.finditer(r"[{};]", code):
        position, brace = match.start(), match.group()
        if depth > 0:
            depth += {"{": 1, "}": -1, ";": 0}[brace]
            if depth == 0:
                line = code.count("\n", 0, start) + 1
                functions.append(Function(name, line, code.count("\n", start, position) + 1))
                head_start = position + 1
            continue
        if brace == "{":
            head = code[head_start:position]
            if _is_function_head(head):
                start = head_start + _LABEL.match(head).end()
                found = _NAME.search(head)
                name = found.group(1) if found else "lambda"
                depth = 1
                continue
        head_start = position + 1
    return functions
