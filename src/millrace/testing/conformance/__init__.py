"""What every plug-in must do, as tests that its author runs; they need pytest.

```python
from millrace.testing.conformance.broker import BrokerConformance
from millrace.testing.conformance.log import LogConformance

class TestMyBroker(BrokerConformance, LogConformance):
    @pytest.fixture
    def broker(self) -> Broker:
        ...  # one that serves
```
"""
