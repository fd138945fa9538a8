"""Plain data as YAML that reads back the same; beside the reader the only module with yaml."""

from __future__ import annotations

from typing import Any

import yaml

from millrace.spec.yaml_reader import looks_like_text


class _Dumper(yaml.CSafeDumper):
    """Quotes by the rules of YAML 1.2, and never writes aliases."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - yaml's own signature
        return True


def _text(dumper: yaml.CSafeDumper, text: str) -> yaml.ScalarNode:
    style = None if looks_like_text(text) else '"'
    if "\n" in text and text == text.rstrip(" \t") and "\t" not in text:
        style = "|" if text.isprintable() or text.replace("\n", "").isprintable() else '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)


def write_yaml(document: Any) -> str:
    """Return the document as YAML, keys in their order."""
    return yaml.dump(
        document,
        Dumper=_Dumper,
        sort_keys=False,
        allow_unicode=True,
        width=100,
        default_flow_style=False,
    )
