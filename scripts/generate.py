"""Make the files that are made from others: schema, reference, pictures. `--check` compares."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from millrace.api.app import routes
from millrace.draw import picture, svg
from millrace.model.status import Observed
from millrace.plan import plan
from millrace.spec import load
from millrace.spec.reference import reference
from millrace.spec.schema import schema

DOCS = Path("docs")


def generated() -> dict[Path, str]:
    """Return the text of every generated file."""
    traffic = load("examples/road-traffic/pipeline.yaml").required()
    old = load("tests/fixtures/speck-listing-1.1.yaml").required()
    new = load("tests/fixtures/speck-listing-1.2.yaml").required()
    return {
        DOCS / "pipeline.schema.json": json.dumps(schema(), indent=2, ensure_ascii=False) + "\n",
        DOCS / "openapi.json": json.dumps(routes().openapi(), indent=2, ensure_ascii=False) + "\n",
        DOCS / "reference.md": reference(),
        DOCS / "pictures" / "road-traffic.svg": svg(picture(traffic)),
        DOCS / "pictures" / "plan.svg": svg(picture(new, old, plan(new, Observed(old), {}))),
    }


def main() -> int:
    """Write the files, or with --check tell which are out of date."""
    stale = []
    for path, text in generated().items():
        if path.exists() and path.read_text() == text:
            continue
        stale.append(path)
        if "--check" not in sys.argv:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            print(f"wrote {path}")
    if stale and "--check" in sys.argv:
        print(f"out of date: {', '.join(map(str, stale))}; run `make docs`")
        return 1
    print("generated files are up to date")
    return 0


if __name__ == "__main__":
    sys.exit(main())
