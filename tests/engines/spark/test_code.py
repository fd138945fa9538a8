"""The user's modules: each job's own, found by every way to import, and good to send away."""

from __future__ import annotations

import itertools
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from pyspark import cloudpickle

from millrace.engines.spark.code import Code, load_code
from millrace.errors import OperationFailed

Write = Callable[..., Path]


def load(reference: str, folder: Path, job: str) -> Callable[..., Any]:
    return load_code(reference, folder, job).function


@pytest.fixture
def folder(tmp_path: Path) -> Write:
    """Return a function that writes modules; `a__init` is the package a."""

    def write(place: str = "code", **modules: str) -> Path:
        root = tmp_path / place
        for name, text in modules.items():
            *above, last = name.split("__")
            path = root.joinpath(*above, f"{'__init__' if last == 'init' else last}.py")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(textwrap.dedent(text))
        return root

    return write


def failure(reference: str, root: Path) -> OperationFailed:
    with pytest.raises(OperationFailed) as caught:
        load(reference, root, "j")
    assert "job j" in caught.value.message
    return caught.value


def test_two_jobs_bring_modules_of_one_name(folder: Write) -> None:
    one = folder("one", mod="import helper\ndef f(): return helper.X", helper="X = 1")
    two = folder("two", mod="import helper\ndef f(): return helper.X", helper="X = 2")
    first, second = load("mod:f", one, "a"), load("mod:f", two, "b")
    assert (first(), second(), first()) == (1, 2, 1)
    assert not {"mod", "helper"} & set(sys.modules)


def test_two_jobs_of_one_folder_have_modules_of_their_own(folder: Write) -> None:
    root = folder(mod="SEEN = []\ndef f(x):\n    SEEN.append(x)\n    return len(SEEN)")
    first, second = load("mod:f", root, "a"), load("mod:f", root, "b")
    assert [first(0), first(0), second(0)] == [1, 2, 1]


def test_a_changed_file_is_read_again(folder: Write) -> None:
    root = folder(mod="def f(): return 'old'")
    assert load("mod:f", root, "j")() == "old"
    folder(mod="def f(): return 'newer'")
    assert load("mod:f", root, "j")() == "newer"


def test_other_threads_may_import_meanwhile(folder: Write) -> None:
    root = folder(mod="def f(): return 1")
    done = threading.Event()

    def importing() -> None:
        for number in itertools.cycle(range(2000)):
            sys.modules[f"_other_{number}"] = ModuleType("other")
            if number % 2:
                del sys.modules[f"_other_{number}"]
            if done.is_set():
                return

    other, interval = threading.Thread(target=importing), sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    other.start()
    try:
        assert all(load("mod:f", root, "j")() == 1 for _ in range(200))
    finally:
        done.set()
        other.join()
        sys.setswitchinterval(interval)
        for name in [name for name in sys.modules if name.startswith("_other_")]:
            del sys.modules[name]


IMPORTS = {
    "absolute": "import helper\ndef f(): return helper.value()",
    "name": "from helper import value\ndef f(): return value()",
    "alias": "import helper as h\ndef f(): return h.value()",
    "relative": "from . import helper\ndef f(): return helper.value()",
    "relative name": "from .helper import value\ndef f(): return value()",
    "lazy": "def f():\n    import helper\n    return helper.value()",
    "lazy relative": "def f():\n    from .helper import value\n    return value()",
    "package": "import pkg.deep.leaf\ndef f(): return pkg.deep.leaf.up()",
    "package name": "from pkg.deep import leaf\ndef f(): return leaf.up()",
    "package alias": "import pkg.deep.leaf as leaf\ndef f(): return leaf.up()",
    "package relative": "from .pkg.deep.leaf import up\ndef f(): return up()",
    "star": "from helper import *\ndef f(): return value()",
}


@pytest.mark.parametrize("kind", IMPORTS)
def test_neighbours_are_found(folder: Write, kind: str) -> None:
    """Also by modules that were themselves imported in whatever way."""
    root = folder(
        mod=IMPORTS[kind],
        helper="import base\ndef value(): return base.X",
        base="X = 42",
        pkg__init="",
        pkg__deep__init="from ..side import Y",
        pkg__deep__leaf="from .. import side\nimport helper\n"
        "def up():\n    from . import Y\n    return helper.value() + side.Y - Y",
        pkg__side="from helper import value\nY = value()",
    )
    assert load("mod:f", root, "j")() == 42


def test_a_neighbour_goes_before_a_library_for_the_users_code_alone(folder: Write) -> None:
    root = folder(mod="import colorsys\ndef f(): return colorsys.X", colorsys="X = 'mine'")
    assert load("mod:f", root, "j")() == "mine"
    import colorsys  # noqa: PLC0415 - the point is that it is not the user's

    assert hasattr(colorsys, "rgb_to_hsv")


def test_a_missing_part_of_a_package_is_an_import_error(folder: Write) -> None:
    root = folder(
        pkg__init="",
        mod="try:\n    import pkg.fast as fast\nexcept ImportError:\n    fast = None\n"
        "def f(): return fast",
    )
    assert load("mod:f", root, "j")() is None


def test_a_function_of_a_package(folder: Write) -> None:
    root = folder(pkg__init="def f(): return 1", pkg__sub="def f(): return 2")
    assert load("pkg:f", root, "j")() == 1
    assert load("pkg.sub:f", root, "j")() == 2


def test_a_module_that_is_not_there(folder: Write) -> None:
    root = folder(traffic="def summary(): pass")
    near = failure("trafic:summary", root)
    assert near.code == "no-module"
    assert "trafic" in near.message
    assert "traffic:" in near.hint
    assert "xyz.py" in failure("xyz:summary", root).hint


def test_a_function_that_is_not_there(folder: Write) -> None:
    root = folder(traffic="def summary(): pass\nvalue = 1")
    near = failure("traffic:sumary", root)
    assert near.code == "no-function"
    assert "'summary'" in near.hint
    assert "traffic.py" in failure("traffic:xyz", root).hint
    assert failure("traffic:value", root).code == "no-function"
    for wrong in ("traffic", ":f", "traffic:"):
        assert failure(wrong, root).code == "bad-reference"


@pytest.mark.parametrize(
    ("modules", "place"),
    [
        ({"mod": "x = 1\n\nraise RuntimeError('no')"}, "(mod.py:3)"),
        ({"mod": "import helper", "helper": "\n1 / 0"}, "(helper.py:2)"),
        ({"mod": "import json\njson.loads('{')"}, "(mod.py:2)"),
        ({"mod": "import not_there_at_all"}, "(mod.py:1)"),
        ({"mod": "def f(:\n    pass"}, "(mod.py:1)"),
        ({"mod": "import sys\nsys.exit(3)"}, "(mod.py:2)"),
        ({"mod": "from . import pkg", "pkg__init": "\n\nfoo"}, "(pkg/__init__.py:3)"),
    ],
)
def test_an_error_at_import_names_the_users_line(
    folder: Write, modules: dict[str, str], place: str
) -> None:
    root = folder(**modules)
    found = failure("mod:f", root)
    assert (found.code, found.transient) == ("import-failed", False)
    assert place in found.message
    folder(mod="def f(): return 1")
    assert load("mod:f", root, "j")() == 1


REVIVE = """
import pickle, sys
from millrace.engines.spark.lazy import serve
function, package, modules = pickle.loads(sys.stdin.buffer.read())
serve(package, modules)
print(function(20))
"""


def elsewhere(code: Code, tmp_path: Path) -> str:
    """Call a function in a process that knows nothing of its folder."""
    parts = (code.function, code.package, code.lazy)
    data: bytes = cloudpickle.dumps(parts)  # type: ignore[no-untyped-call]
    command = [sys.executable, "-c", REVIVE]
    done = subprocess.run(
        command, input=data, capture_output=True, timeout=60, cwd=tmp_path, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode().strip()


def test_a_function_works_where_the_folder_is_not(folder: Write, tmp_path: Path) -> None:
    root = folder(
        mod="""
        import helper
        from pkg.sub import Scale
        from . import late
        OFFSET = 1

        def f(x):
            return Scale(helper.twice(x)).value + OFFSET + late.zero()
        """,
        helper="import base\ndef twice(x): return base.FACTOR * x",
        base="FACTOR = 2",
        late="import base\ndef zero(): return base.FACTOR - 2",
        pkg__init="",
        pkg__sub="""
        from dataclasses import dataclass

        @dataclass
        class Scale:
            value: int
        """,
    )
    code = load_code("mod:f", root, "j")
    for path in root.rglob("*.py"):
        path.unlink()
    assert elsewhere(code, tmp_path) == "41"


def test_what_a_function_imports_as_it_runs_goes_along(folder: Write, tmp_path: Path) -> None:
    root = folder(
        mod="""
        import helper

        def f(x):
            import pkg.sub
            from pkg import sub as same
            from . import late
            import json
            return json.dumps([pkg.sub.twice(x), same.twice(1), late.zero(), helper.three()])
        """,
        helper="def three():\n    from pkg.sub import three\n    return three",
        late="def zero():\n    from .pkg import sub\n    return sub.twice(0)",
        pkg__init="",
        pkg__sub="three = 3\ndef twice(x): return 2 * x",
        broken="raise ValueError('nobody imports this')",
    )
    code = load_code("mod:f", root, "j")
    for path in root.rglob("*.py"):
        path.unlink()
    assert elsewhere(code, tmp_path) == "[40, 2, 0, 3]"
