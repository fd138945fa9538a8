"""A second environment: Millrace and a stranger's package, as the wheels that people install."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PLUGIN = ROOT / "examples" / "plugin"
#: What a wheel is made of; a copy of it leaves nothing in the checkout.
SOURCES = {
    "millrace": (ROOT, ("pyproject.toml", "README.md", "LICENSE", "src")),
    "shelf": (PLUGIN, ("pyproject.toml", "README.md", "src")),
}
_LEFT = shutil.ignore_patterns("__pycache__")


@dataclass(frozen=True, slots=True)
class Environment:
    """An environment of its own, and a home for what is run in it."""

    folder: Path
    home: Path

    @property
    def python(self) -> Path:
        return self.folder / "bin" / "python"

    def run(
        self, *command: str, limit: float = 60, text: str = "", folder: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run one of its programs by name; nothing of the first environment is in its way."""
        return subprocess.run(
            [str(self.folder / "bin" / command[0]), *command[1:]],
            input=text,
            capture_output=True,
            text=True,
            timeout=limit,
            cwd=folder or self.home,
            env=self.variables,
            check=False,
        )

    @property
    def variables(self) -> dict[str, str]:
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
        ours = {"MILLRACE_HOME": str(self.home), "PYTHONDONTWRITEBYTECODE": "1"}
        return {**kept, **ours, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}

    def where(self, *modules: str) -> dict[str, str]:
        """Return the files that modules come from there."""
        code = (
            "import sys, json, importlib as i; "
            "print(json.dumps({n: i.import_module(n).__file__ for n in sys.argv[1:]}))"
        )
        done = self.run("python", "-c", code, *modules)
        found: dict[str, str] = json.loads(done.stdout)
        return found


def wheel(name: str, folder: Path) -> Path:
    """Build a wheel from a copy of its sources."""
    base, parts = SOURCES[name]
    tree = folder / name
    tree.mkdir(parents=True)
    for part in parts:
        if (base / part).is_dir():
            shutil.copytree(base / part, tree / part, ignore=_LEFT)
        else:
            shutil.copy2(base / part, tree / part)
    quiet = ["--quiet", "--disable-pip-version-check"]
    command = [sys.executable, "-m", "pip", "wheel", *quiet, "--no-deps", "--no-index"]
    subprocess.run(
        [*command, "--no-build-isolation", "--wheel-dir", str(folder / "wheels"), str(tree)],
        check=True,
        timeout=120,
    )
    (found,) = (folder / "wheels").glob(f"millrace{'_shelf' if name == 'shelf' else '-'}*.whl")
    return found


def environment(folder: Path) -> Environment:
    """Make an environment with both wheels; other libraries are those of the first one.

    A path in a .pth file adds a folder, whose own .pth files are not looked at: so the first
    environment's editable Millrace is not found, only the wheel.
    """
    wheels = [wheel(name, folder / "built") for name in SOURCES]
    made = Environment(folder / "env", folder / "home")
    made.home.mkdir()
    venv.create(made.folder, with_pip=False, symlinks=True)
    site = Path(sysconfig.get_path("purelib", vars={"base": str(made.folder)}))
    command = [sys.executable, "-m", "pip", "--python", str(made.python), "install", "--quiet"]
    subprocess.run(
        [*command, "--disable-pip-version-check", "--no-index", "--no-deps", *map(str, wheels)],
        check=True,
        timeout=120,
    )
    (site / "others.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    return made
