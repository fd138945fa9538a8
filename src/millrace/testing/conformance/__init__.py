"""What every plug-in must do, as tests that its author runs; they need pytest.

```python
from millrace.testing.conformance.broker import BrokerConformance
from millrace.testing.conformance.log import LogConformance

class TestMyBroker(BrokerConformance, LogConformance):
    CLAIMS = frozenset({"start", "ensure", "drop", "records", "order", "positions", ...})
    EXCUSES = {"retention": "all records are kept"}

    @pytest.fixture
    def broker(self) -> Broker:
        ...  # one that serves
```

Each suite has named behaviours; `claims` says what becomes of those that a plug-in does not claim.
"""
