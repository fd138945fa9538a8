"""Windows against oracles; hypothesis chooses records, and where batches end."""

import os

#: How often each is tried: a few times in `make test`, many in `make soak`.
CUTS = int(os.environ.get("CUTS", "30"))
