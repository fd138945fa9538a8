"""Pictures of pipelines and plans: what there is to see, and how each format shows it."""

from millrace.draw.dot import dot
from millrace.draw.mermaid import mermaid
from millrace.draw.picture import Picture, picture
from millrace.draw.svg import svg

__all__ = ["Picture", "dot", "mermaid", "picture", "svg"]
