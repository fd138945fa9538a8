"""Links between sites with latency and bandwidth, on one machine."""

from millrace.experiment.links.carrier import Carrier, Way, carrying
from millrace.experiment.links.link import Link, between

__all__ = ["Carrier", "Link", "Way", "between", "carrying"]
