"""A coordinator's API in Python: `Client`, and where it finds the coordinator: `Settings`.

    with Client.local() as client:
        for pipeline in client.pipelines():
            print(pipeline["name"], pipeline["state"])

Answers are plain dicts, as the API gives them. What is refused raises `Refused`, and a coordinator
that can't be reached `OperationFailed`; both say what to do.
"""

from millrace.client.client import Client
from millrace.client.settings import Settings
from millrace.machine.web import Refused

__all__ = ["Client", "Refused", "Settings"]
