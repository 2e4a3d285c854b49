"""Every rule of tidy.py on a tiny tree that breaks it and on one that does not."""

from __future__ import annotations

import pathlib
import tempfile
import unittest

import cpp_text
import tidy

LONG_FUNCTION = "void long_one() {\n" + "  step();\n" * 69 + "}\n"
GOOD_TREE = {
    "include/mccl/types.h": "#pragma once\n",
    "src/base/check.h": '#pragma once\n#include "mccl/types.h"\n',
    "src/base/check.cc": '#include "base/check.h"\nvoid f() { g("sleep(1)"); }\n',
    "src/base/CMakeLists.txt": "mccl_library(base SOURCES check.cc)\n",
    "src/runtime/lane.h": '#pragma once\n#include "transport/stream.h"\n#include "ir/program.h"\n',
    "src/algorithms/catalog.cc": "#define MCCL_ALGORITHMS(X) X(kAllReduceRing) X(kTree2d)\n",
    "src/algorithms/all_reduce_ring.cc": "const Algorithm kAllReduceRing = {};\n",
    "src/algorithms/tree_2d.cc": "const Algorithm kTree2d = {};\n",
    "src/algorithms/CMakeLists.txt": "file(GLOB SOURCES CONFIGURE_DEPENDS *.cc)\n",
    "test/golden/algorithms/all_reduce_ring.txt": "ring\n",
    "test/golden/algorithms/tree_2d.txt": "tree\n",
    "test/unit/base/check_test.cc": '#include "base/check.h"\nvoid f() { getenv("HOME"); }\n',
    "test/unit/base/CMakeLists.txt": "mccl_test(base_test SOURCES check_test.cc)\n",
    "README.md": "[map](docs/map.md#top) [out](https://example.org)\n```\n[no](link.md)\n```\n",
    "docs/map.md": "[back](../README.md)\n",
}
# rule: files that replace or join the good tree, and the start of the only finding.
BAD_TREES = {
    "include_edges": ({"src/runtime/lane.h": '#pragma once\n#include "planner/plan.h"\n'},
                      "src/runtime/lane.h:2: include_edges: \"planner/plan.h\""),
    "system_headers": ({"src/base/check.h": "#pragma once\n#include <torch/all.h>\n"},
                       "src/base/check.h:2: system_headers: <torch/all.h>"),
    "include_cycles": ({"src/base/a.h": '#pragma once\n#include "base/b.h"\n',
                        "src/base/b.h": '#pragma once\n#include "base/a.h"\n'},
                       "src/base/a.h:1: include_cycles: includes itself through base/a.h -> "),
    "file_length": ({"src/base/check.h": "#pragma once\n" + "\n" * 500},
                    "src/base/check.h:501: file_length: 501 lines"),
    "function_length": ({"src/base/check.cc": LONG_FUNCTION},
                        "src/base/check.cc:1: function_length: long_one has 71 lines"),
    "line_length": ({"src/base/check.cc": "//" + "x" * 99 + "\n"},
                    "src/base/check.cc:1: line_length: 101 columns"),
    "environment": ({"src/base/check.cc": 'int a;\nchar* b = getenv("A");\n'},
                    "src/base/check.cc:2: environment: getenv"),
    "sleep": ({"test/unit/base/check_test.cc": "void f() { usleep(5); }\n"},
              "test/unit/base/check_test.cc:1: sleep: usleep("),
    "random": ({"src/base/check.cc": "int a = rand();\n"}, "src/base/check.cc:1: random: rand("),
    "clock": ({"src/base/check.cc": "auto a = std::chrono::steady_clock::now();\n"},
              "src/base/check.cc:1: clock: steady_clock::now"),
    "standard_streams": ({"src/base/check.cc": 'void f() { std::cout << "x"; }\n'},
                         "src/base/check.cc:1: standard_streams: std::cout"),
    "using_namespace": ({"src/base/check.h": "#pragma once\nusing namespace std;\n"},
                        "src/base/check.h:2: using_namespace: using namespace std"),
    "pragma_once": ({"src/base/check.h": "int f();\n"}, "src/base/check.h:1: pragma_once:"),
    "names": ({"src/base/string_utils.h": "#pragma once\n"},
              'src/base/string_utils.h:1: names: "utils"'),
    "leftovers": ({"src/base/check.cc": "// TO" "DO: later\n"},
                  "src/base/check.cc:1: leftovers: TO" "DO"),
    "sources_listed": ({"src/base/lost.cc": "int a;\n",
                        "src/base/CMakeLists.txt": "mccl_library(base SOURCES check.cc)#lost.cc\n"},
                       "src/base/lost.cc:1: sources_listed:"),
    "golden_cases": ({"src/algorithms/all_reduce_star.cc": "const Algorithm kAllReduceStar = A;\n"},
                     "src/algorithms/all_reduce_star.cc:1: golden_cases: is not in the catalogue"),
    "links": ({"docs/map.md": "text\n[gone](gone.md)\n"}, "docs/map.md:2: links: gone.md"),
    "file_size": ({"docs/big.bin": "x" * 1_000_001}, "docs/big.bin:1: file_size: 1000001 bytes"),
    "machine_words": ({"docs/map.md": "see /ho" "me/ann/notes\n"},
                      "docs/map.md:1: machine_words: /ho" "me/ann"),
}


def findings(changes: dict[str, str], exceptions: dict[tuple[str, str], str]) -> list[str]:
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for path, text in {**GOOD_TREE, **changes}.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text)
        return tidy.run_rules(tidy.Tree(root), exceptions)


class TidyTest(unittest.TestCase):
    def test_a_good_tree_has_no_finding(self) -> None:
        self.assertEqual(findings({}, {}), [])

    def test_every_rule_has_a_tree_that_breaks_it(self) -> None:
        self.assertEqual(set(BAD_TREES), set(tidy.RULES))

    def test_a_bad_tree_gives_its_finding_and_no_other(self) -> None:
        for rule, (changes, start) in BAD_TREES.items():
            with self.subTest(rule):
                lines = findings(changes, {})
                self.assertEqual([line[:len(start)] for line in lines], [start])

    def test_a_missing_golden_case_is_found(self) -> None:
        catalog = "#define MCCL_ALGORITHMS(X) X(kAllReduceRing) X(kTree2d) X(kAllGather)\n"
        lines = findings({"src/algorithms/catalog.cc": catalog}, {})
        self.assertEqual(len(lines), 2)
        self.assertIn("all_gather has no test/golden/algorithms/all_gather.txt", lines[1])

    def test_a_public_header_includes_no_part_of_src(self) -> None:
        lines = findings({"include/mccl/types.h": '#pragma once\n#include "base/clock.h"\n'}, {})
        self.assertEqual(len(lines), 1)

    def test_an_include_without_a_folder_is_found(self) -> None:
        self.assertEqual(len(findings({"src/base/check.cc": '#include "check.h"\n'}, {})), 1)

    def test_an_exception_silences_one_rule_in_one_file(self) -> None:
        bad = {"src/base/check.cc": "int a = rand();\n"}
        self.assertEqual(findings(bad, {("random", "src/base/check.cc"): "reason"}), [])
        self.assertEqual(len(findings(bad, {("sleep", "src/base/check.cc"): "reason"})), 2)

    def test_an_exception_that_is_not_needed_is_found(self) -> None:
        lines = findings({}, {("random", "src/base/check.cc"): "reason"})
        self.assertIn("take the exception out", lines[0])

    def test_words_in_comments_and_strings_are_no_code(self) -> None:
        text = '// getenv("A")\n/* rand() */ const char* a = "std::cout"; R"(usleep(1))";\n'
        self.assertEqual(findings({"src/base/check.cc": text}, {}), [])

    def test_a_leftover_with_an_issue_number_may_stay(self) -> None:
        text = "// TO" "DO(#12): when clang 15 is the floor\n"
        self.assertEqual(findings({"src/base/check.cc": text}, {}), [])


class FunctionTest(unittest.TestCase):
    def test_functions_are_found_with_name_line_and_length(self) -> None:
        text = ("namespace a {\nint one() { return 1; }\n\nclass B : public C {\n public:\n"
                "  B(int x)\n      : y_(x) {\n    if (x) { go(); }\n  }\n};\n}\n")
        found = [(row.name, row.line, row.line_count) for row in cpp_text.find_functions(text)]
        self.assertEqual(found, [("one", 2, 1), ("B", 6, 4)])

    def test_tables_and_macros_are_no_functions(self) -> None:
        text = ("#define X(a) do { \\\n  f(a); \\\n} while (0)\n"
                "constexpr int kTable[] = {\n  1,\n  2};\nenum class A : int { B };\n")
        self.assertEqual(cpp_text.find_functions(text), [])

    def test_braces_in_strings_and_digit_separators_do_not_count(self) -> None:
        text = "void f() {\n  g(\"}\", '}', 1'000);\n}\nvoid h() {}\n"
        found = [(row.name, row.line_count) for row in cpp_text.find_functions(text)]
        self.assertEqual(found, [("f", 3), ("h", 1)])


if __name__ == "__main__":
    unittest.main()
