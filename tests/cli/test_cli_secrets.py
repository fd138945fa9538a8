"""Commands show where a secret is, never the secret; not one that was typed by mistake, either."""

from __future__ import annotations

from pathlib import Path

import pytest

from millrace.errors import OperationFailed
from millrace.machine.secrets import revealed
from tests.api.house import House, until
from tests.api.secret_traces import Looked, marked
from tests.cli.commands import Run
from tests.client.running import CODE

BROKER, HOOK, BASE, TYPED = (marked(name) for name in ("broker", "hook", "base", "typed"))
NUMBER = "8093175524609813"
#: No secret: it begins every name, and so stands in everything that is said.
TOLD = "told"
FILE = """\
pipeline: toldtoall
sites:
  toldhere:
    broker:
      kind: kafka
      address: kafka.example.org:9092
      options:
        security.protocol: SASL_SSL
        sasl.username: me
        sasl.password: PASSWORD
streams: {toldraw: {schema: {n: int}}, toldseen: {}, toldrows: {schema: {n: int}}}
jobs:
  toldclean: {from: toldraw, to: toldseen, map: "code:seen"}
  toldring: {from: toldraw, write: {url: URL, token: {secret: env:HOOK_WORD}}}
  toldask:
    read: {query: SELECT n FROM cars, by: n, database: DATABASE, password: {secret: env:BASE_WORD}}
    to: toldrows
"""
RIGHT = {
    "PASSWORD": "{secret: 'file:FOLDER/../word'}",
    "DATABASE": "postgresql://me@db.example.org/cars",
    "URL": "https://hooks.example.org/x",
}
#: Where a person may type a secret that must not be there, so that it is refused.
TYPED_AT = {
    "PASSWORD": (TYPED, NUMBER, f"[{TYPED}]", f"{{secret: env:X, value: {TYPED}}}"),
    "DATABASE": (f"postgresql://me:{TYPED}@db.example.org/cars",),
    "URL": (f"https://me:{TYPED}@hooks.example.org/x",),
}


def written(folder: Path, **others: str) -> Path:
    """Write the pipeline with its code and the file of a secret."""
    folder.mkdir(exist_ok=True)
    text = FILE
    for name, value in {**RIGHT, **others}.items():
        text = text.replace(name, value)
    (folder.parent / "word").write_text(f"{BROKER}\n")
    (folder / "code.py").write_text(CODE)
    (folder / "pipeline.yaml").write_text(text.replace("FOLDER", str(folder)))
    return folder / "pipeline.yaml"


@pytest.fixture(autouse=True)
def words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOK_WORD", HOOK)
    monkeypatch.setenv("BASE_WORD", BASE)


OF_FILES = (
    "validate FILE",
    "validate -o json FILE",
    "plan --offline FILE",
    "plan --offline -o json FILE",
    "plan --offline --from FILE OTHER",
    "graph FILE",
    "export --as native FILE",
    "explain sites.toldhere.broker.options -f FILE",
    "explain jobs.toldring.write.token -f FILE -o json",
)
OF_COORDINATORS = (
    "plan FILE",
    "diff -f OTHER",
    "diff -f OTHER -o yaml",
    *(f"get {kind} -o {form}" for kind in ("pipelines", "jobs", "streams", "operations")
      for form in ("table", "yaml", "json", "name")),
    "get revisions toldtoall -o yaml",
    "get sites -o yaml",
    *(f"describe {what} -o {form}" for form in ("text", "yaml", "json") for what in (
        "pipeline toldtoall", "job toldtoall/toldring", "job toldtoall/toldask",
        "stream toldtoall/toldraw",
        "site toldhere", "operation toldtoall.1")),
    "logs toldtoall/toldring",
    "events",
    "events -o json",
    "top",
    "apply -f OTHER",
    "rollback toldtoall --yes",
    "delete pipeline toldtoall --yes",
)  # fmt: skip


def said(run: Run, looked: Looked, commands: tuple[str, ...], file: Path, other: Path) -> None:
    """Run commands and look at all that they say."""
    for command in commands:
        given = command.replace("FILE", str(file)).replace("OTHER", str(other))
        done = run(*given.split())
        right = (0, 1) if command.startswith("diff") else (0,)
        assert done.returncode in right, (command, done.stderr)
        looked.at(f"millrace {command}", done.stdout + done.stderr)


def test_commands_show_references_only(run: Run, house: House, tmp_path: Path) -> None:
    file = written(tmp_path / "told")
    other = written(tmp_path / "other", URL="https://hooks.example.org/y")
    looked = Looked((BROKER, HOOK, BASE, TOLD, "HOOK_WORD"))
    said(run, looked, OF_FILES, file, other)
    done = run("apply", "-f", str(file))
    assert done.returncode == 0, done.stderr
    until(lambda: house.station.pipeline("toldtoall").running == 3)
    log = house.shops["toldtoall", "toldhere"].folder / "toldring.log"
    log.write_text(f"{TOLD} begins\n")
    said(run, looked, OF_COORDINATORS, file, other)
    looked.folder(tmp_path / "home")
    said_by = [f"millrace {it}" for it in (*OF_FILES, *OF_COORDINATORS)]
    looked.check(BROKER, HOOK, BASE, told=TOLD, in_=[*said_by, "state.db", "state.db as rows"])
    assert "millrace export --as native FILE" in looked.where("HOOK_WORD")


@pytest.mark.parametrize(
    ("place", "typed"), [(place, text) for place, texts in TYPED_AT.items() for text in texts]
)
def test_a_secret_that_was_typed_is_not_repeated(
    run: Run, house: House, tmp_path: Path, place: str, typed: str
) -> None:
    file = written(tmp_path / "told", **{place: typed})
    looked = Looked((TYPED, NUMBER, TOLD))
    for command in (*OF_FILES, "plan FILE", "diff -f FILE", "apply -f FILE"):
        given = command.replace("FILE", str(file)).replace("OTHER", str(file))
        done = run(*given.split())
        assert done.returncode != 0 or command.startswith("explain"), command
        looked.at(f"millrace {command}", done.stdout + done.stderr)
    for path in ("sites.toldhere", "jobs.toldring.write", "jobs.toldask.read"):
        done = run("explain", path, "-f", str(file))
        looked.at("millrace explain", done.stdout + done.stderr)
    looked.folder(tmp_path / "home")
    assert any("state.db" in place for place in looked.seen)
    looked.check(TYPED, NUMBER, told=TOLD, in_=[f"millrace {it}" for it in OF_FILES])


@pytest.mark.parametrize("path", ["FOLDER/word", "word", "told/word", "deep/../deep/word"])
def test_the_file_of_a_secret_goes_nowhere_with_the_code(
    run: Run, house: House, tmp_path: Path, path: str
) -> None:
    """By its whole path, and by one from the folder or from where the command is run."""
    file = written(tmp_path / "told", PASSWORD=f"{{secret: 'file:{path}'}}")
    secret = file.parent / ("deep" if "deep" in path else "") / "word"
    secret.parent.mkdir(exist_ok=True)
    secret.write_text(BROKER)
    for command in ("plan FILE", "apply -f FILE"):
        done = run(*command.replace("FILE", str(file)).split())
        assert done.returncode == 1
        assert f"{secret} holds a secret" in " ".join(done.stderr.split())
        assert "begins with a dot" in done.stderr
    secret.rename(secret.with_name(".word"))
    assert run("apply", "-f", str(file)).returncode == 0
    looked = Looked((BROKER, "def seen"))
    looked.folder(tmp_path / "home")
    looked.check(BROKER, told="def seen", in_=["artifacts"])


def test_a_name_in_the_place_of_a_reference_is_not_repeated() -> None:
    with pytest.raises(OperationFailed) as failed:
        revealed(TYPED, "sites.toldhere.broker.options.sasl.password")
    assert TYPED not in f"{failed.value} {failed.value.hint}"
    assert "env:NAME" in failed.value.hint
