"""Keep files at most 400 lines and functions under 40: the house's budget."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

FILE_LIMIT = 400
FUNCTION_LIMIT = 40


def long_functions(path: Path) -> list[str]:
    """Functions of a file that are over the limit, docstring not counted."""
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        body = node.body
        if ast.get_docstring(node) is not None:
            body = body[1:]
        lines = (node.end_lineno or 0) - body[0].lineno + 1 if body else 0
        if lines >= FUNCTION_LIMIT:
            found.append(f"{path}:{node.lineno}: {node.name} has {lines} lines")
    return found


def main() -> int:
    """Print what is over the limits; 1 if anything is."""
    problems = []
    for folder in ("src", "tests", "bench", "scripts", "examples"):
        for path in sorted(Path(folder).rglob("*.py")):
            lines = len(path.read_text().splitlines())
            if lines > FILE_LIMIT:
                problems.append(f"{path}: {lines} lines, {FILE_LIMIT} at most")
            if folder == "src":
                problems += long_functions(path)
    print("\n".join(problems) or "all within the budget")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
