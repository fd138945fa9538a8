"""A program with a Spark of its own that looks at templates from inside; it prints JSON."""

from __future__ import annotations

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from millrace.engines.spark import templates
from millrace.engines.spark.formats import named
from millrace.engines.spark.plans import Sketch, analyzed
from millrace.engines.spark.session import DriverSettings, start_session

WIDE = 40


def passed(rows: DataFrame, name: str) -> DataFrame:
    made = Sketch.on(rows).select("*", f"concat({named(name)}, CAST(id AS STRING)) AS said")
    return templates.frame_by_template(made.where(f"said != {named('nobody')}"))


def said(rows: DataFrame) -> list[str]:
    return [row["said"] for row in rows.collect()]


def tags(rows: DataFrame) -> Any:
    return analyzed(rows).getTagValue(templates.dataset_tag()).get()


def looked_at(session: SparkSession) -> dict[str, Any]:
    found: dict[str, Any] = {}
    rows = session.range(2)
    found["alike"] = [said(passed(rows, name)) for name in ("a", "b", "it's")]
    found["one template"] = len(templates.kept)
    other = session.newSession()
    other.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    passed(other.range(2), "a")
    found["other settings"] = len(templates.kept)
    wide = rows.select("id", *(rows.id.alias(f"c{number}") for number in range(WIDE)))
    found["wide"] = said(passed(wide, "w"))
    found["other columns"] = len(templates.kept)
    found["union"] = said(passed(rows.union(rows), "u"))
    found["after a union"] = len(templates.kept)
    with ThreadPoolExecutor(8) as pool:
        frames = list(pool.map(lambda number: passed(session.range(1), str(number)), range(100)))
    found["side by side"] = [said(frame) for frame in frames[::10]]
    found["own notes"] = {tags(frame).size() for frame in frames} == {1}
    return found


if __name__ == "__main__":
    driver = start_session(DriverSettings(Path(sys.argv[1]), ()))
    sys.stdout.write(json.dumps(looked_at(driver)) + "\n")
    driver.stop()
