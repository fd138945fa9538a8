"""Versions of code: another one exactly for the jobs whose code is another, or may be."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from millrace.model.job import Job
from millrace.model.outside import Read, Write
from millrace.model.pipeline import Pipeline
from millrace.model.window import Window
from millrace.model.work import Build, Generator, Jar, KeyedState, Process, Variant
from millrace.stores.archive import pack, unpack
from millrace.stores.versions import versions

PACKAGE = {
    "roads/__init__.py": "",
    "roads/clean.py": "from . import units\nfrom ..other import thing\n",
    "roads/units.py": "from .deep import scale\n",
    "roads/deep/__init__.py": "",
    "roads/deep/scale.py": "from .. import constants\nfrom ... import top\n",
    "roads/constants.py": "",
    "roads/unused.py": "",
    "other.py": "",
    "top.py": "",
}


def write(folder: Path, files: Mapping[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def pipeline(*jobs: Job) -> Pipeline:
    return Pipeline("roads", jobs={job.name: job for job in jobs})


def changed(folder: Path, file: str, *jobs: Job) -> set[str]:
    """The jobs whose version is another after a file was edited; it is as before afterwards."""
    before, path = versions(pipeline(*jobs), folder), folder / file
    content = path.read_bytes() if path.exists() else None
    path.write_bytes((content or b"") + b"\n# another comment\n")
    after = versions(pipeline(*jobs), folder)
    if content is None:
        path.unlink()
    else:
        path.write_bytes(content)
    assert versions(pipeline(*jobs), folder) == before
    return {name for name in before | after if before.get(name) != after.get(name)}


def maps(name: str, reference: str) -> Job:
    return Job(name=name, map=reference)


def test_a_helper_changes_only_the_jobs_that_import_it(tmp_path: Path) -> None:
    files = {
        "one.py": "import helper\n",
        "two.py": "def work(record):\n    from middle import between\n    return record\n",
        "three.py": "import json, pandas.api\n",
        "middle.py": "def between():\n    import helper as h\n",
        "helper.py": "",
    }
    folder = write(tmp_path, files)
    jobs = [maps(name, f"{name}:work") for name in ("one", "two", "three")]
    assert changed(folder, "helper.py", *jobs) == {"one", "two"}
    assert changed(folder, "middle.py", *jobs) == {"two"}
    assert changed(folder, "three.py", *jobs) == {"three"}
    assert changed(folder, "notes.txt", *jobs) == set()
    found = versions(pipeline(*jobs), folder)
    assert all(len(one) == 16 and int(one, 16) >= 0 for one in found.values())


def test_a_helper_that_hides_an_installed_module_counts_as_it_comes(tmp_path: Path) -> None:
    """The engine takes neighbours before all others."""
    folder = write(tmp_path, {"one.py": "import json\n"})
    assert changed(folder, "json.py", maps("one", "one:f")) == {"one"}


@pytest.mark.parametrize("file", [name for name in PACKAGE if name != "roads/unused.py"])
def test_packages_count_with_all_above_and_relative_imports(tmp_path: Path, file: str) -> None:
    folder = write(tmp_path, PACKAGE)
    assert changed(folder, file, maps("clean", "roads.clean:f")) == {"clean"}


@pytest.mark.parametrize(
    "text",
    [
        "import roads.units",
        "import roads.units as u",
        "from roads import units",
        "from roads.units import metre",
        "from roads.units import *",
        "class A:\n    async def f(self):\n        import roads.units",
        "try:\n    import fast\nexcept ImportError:\n    from roads import units",
    ],
)
def test_absolute_imports_of_packages(tmp_path: Path, text: str) -> None:
    folder = write(tmp_path, {**PACKAGE, "main.py": text, "roads/units.py": ""})
    job = maps("main", "main:f")
    for file in ("main.py", "roads/__init__.py", "roads/units.py"):
        assert changed(folder, file, job) == {"main"}, file
    for file in ("roads/constants.py", "roads/unused.py", "other.py"):
        assert changed(folder, file, job) == set(), file


def test_a_package_goes_before_a_module_of_its_name(tmp_path: Path) -> None:
    folder = write(tmp_path, {"a.py": "", "a/__init__.py": ""})
    assert changed(folder, "a/__init__.py", maps("a", "a:f")) == {"a"}
    assert changed(folder, "a.py", maps("a", "a:f")) == set()


def test_a_cycle_of_imports_ends(tmp_path: Path) -> None:
    folder = write(tmp_path, {"a.py": "import b", "b.py": "import c", "c.py": "import a\nimport c"})
    jobs = [maps(name, f"{name}:f") for name in "abc"]
    for file in ("a.py", "b.py", "c.py"):
        assert changed(folder, file, *jobs) == {"a", "b", "c"}


@pytest.mark.parametrize(
    "text",
    [
        "import importlib",
        "import importlib.resources as r",
        "from importlib import import_module as load",
        "def f(record):\n    return __import__(record['module'])",
        "import pkgutil",
        "from importlib_resources import files",
        "TABLE = open('table.csv').read()",
        "import pathlib\nTABLE = pathlib.Path('table.csv').open()",
        "import pathlib\nTABLE = pathlib.Path('table.csv').read_text()",
        "HERE = __file__",
        "import sys\nHERE = sys.modules[__name__].__file__",
        "HERE = globals()['__file__']",
        "def broken(:",
        "x = '\0'",
    ],
)
def test_what_the_text_does_not_tell_takes_the_whole_folder(tmp_path: Path, text: str) -> None:
    files = {"one.py": "import helper", "helper.py": text, "two.py": "", "data/table.csv": ""}
    folder = write(tmp_path, {**files, ".hidden": "", "__pycache__/x.pyc": ""})
    jobs = [maps("one", "one:f"), maps("two", "two:f")]
    assert changed(folder, "data/table.csv", *jobs) == {"one"}
    assert changed(folder, "data/new.csv", *jobs) == {"one"}
    assert changed(folder, "two.py", *jobs) == {"one", "two"}
    assert changed(folder, ".hidden", *jobs) == set()
    assert changed(folder, "__pycache__/x.pyc", *jobs) == set()


def test_a_linked_module_counts_though_it_is_not_packed(tmp_path: Path) -> None:
    write(tmp_path, {"lib/helper.py": "", "code/one.py": "HERE = __file__\nimport helper"})
    (tmp_path / "code" / "helper.py").symlink_to(tmp_path / "lib" / "helper.py")
    assert changed(tmp_path / "code", "helper.py", maps("one", "one:f")) == {"one"}


def test_names_count_and_not_only_contents(tmp_path: Path) -> None:
    job = pipeline(maps("one", "one:f"))
    first = write(tmp_path / "1", {"one.py": "import a, b", "a.py": "x = 1", "b.py": ""})
    second = write(tmp_path / "2", {"one.py": "import a, b", "a.py": "", "b.py": "x = 1"})
    assert versions(job, first) != versions(job, second)


@pytest.mark.parametrize("text", ["from roads import clean", "HERE = __file__"])
def test_neither_order_nor_place_nor_packing_matter(tmp_path: Path, text: str) -> None:
    files = {**PACKAGE, "main.py": text}
    job = pipeline(maps("main", "main:f"))
    one = write(tmp_path / "one", files)
    two = write(tmp_path / "two", dict(reversed(files.items())))
    (tmp_path / "packed").write_bytes(pack(one))
    unpack(tmp_path / "packed", tmp_path / "three")
    found = [versions(job, folder) for folder in (one, two, tmp_path / "three")]
    assert found[0] == found[1] == found[2] != {}


def test_jobs_without_code_in_the_folder_have_no_version(tmp_path: Path) -> None:
    folder = write(tmp_path / "code", {"one.py": "", "pkg/__init__.py": "", "trips.jsonl": ""})
    (tmp_path / "secret.py").write_text("")
    (tmp_path / "secret.jar").write_text("")
    jobs = [
        Job(name="sql", sql="SELECT 1"),
        Job(name="none"),
        Job(name="replay", read=Read(replay="trips.jsonl")),
        Job(name="files", write=Write(files="out")),
        Job(name="cat", write=Write(command=("/bin/cat", "-"))),
        maps("missing", "missing:f"),
        maps("missing-inside", "pkg.missing:f"),
        *(maps(name, f"{name}:f") for name in ("", "..secret", "../secret", "/etc/x", "a..b")),
        Job(name="no-jar", jar=Jar(path="none.jar")),
        Job(name="other-jar", jar=Jar(path="../secret.jar")),
        Job(name="far-jar", jar=Jar(path=str(tmp_path / "secret.jar"))),
    ]
    assert versions(pipeline(*jobs), folder) == {}
    assert versions(pipeline(*jobs), tmp_path / "nowhere") == {}


def test_a_missing_import_is_left_out_and_counts_once_it_comes(tmp_path: Path) -> None:
    folder = write(tmp_path, {"one.py": "from helper import x\nfrom ....far import y"})
    assert changed(folder, "helper.py", maps("one", "one:f")) == {"one"}


@pytest.mark.parametrize(
    "job",
    [
        Job(name="j", python="code:f"),
        Job(name="j", map="code:f"),
        Job(name="j", state=KeyedState(code="code:F")),
        Job(name="j", map="plain:f", window=Window(inverse="code:f")),
        Job(name="j", generator=Generator(code="code")),
        Job(name="j", generator=Generator(code="none", inputs=("code.py",))),
        Job(name="j", process=Process(), variants={"slow": Variant(code="code:f")}),
        Job(name="j", process=Process(), variants={"fast": Variant(build=Build(source="src"))}),
        Job(name="j", process=Process(command=("python", "code.py"))),
        Job(name="j", process=Process(command=("make", "run"), directory="src")),
        Job(name="j", write=Write(command=("./code.py",))),
        Job(name="j", write=Write(command=("python", "-m", "code"))),
        Job(name="j", write=Write(command=("sh", "-c", "cat | python 'code.py'"))),
        Job(name="j", jar=Jar(path="code.py")),
        Job(name="j", sql="SELECT 1", members=(Job(name="k", map="code:f"),)),
    ],
)
def test_every_way_to_name_code_counts(tmp_path: Path, job: Job) -> None:
    folder = write(tmp_path, {"code.py": "", "plain.py": "", "src/Makefile": ""})
    assert changed(folder, "code.py", job) == {"j"}


def test_a_program_of_the_folder_takes_all_of_it_and_a_jar_only_itself(tmp_path: Path) -> None:
    folder = write(tmp_path, {"act.sh": "", "lib.sh": "", "jars/a.jar": "", "jars/b.jar": ""})
    jobs = [
        Job(name="act", write=Write(command=("sh", "act.sh"))),
        Job(name="jar", jar=Jar(path="jars/a.jar")),
    ]
    assert changed(folder, "lib.sh", *jobs) == {"act"}
    assert changed(folder, "jars/b.jar", *jobs) == {"act"}
    assert changed(folder, "jars/a.jar", *jobs) == {"act", "jar"}
