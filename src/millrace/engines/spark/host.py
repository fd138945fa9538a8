"""The driver process: hosts Spark and a site's jobs, told over a socket by its agent.

Started as `python -m millrace.engines.spark.host FD SETTINGS`. It ends, with a planned stop of all
its jobs, when the agent asks or is gone.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import socket
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from millrace.engines.spark import lease
from millrace.engines.spark.channel import Channel, Message
from millrace.engines.spark.errors import failure_document
from millrace.engines.spark.java import remember_classes
from millrace.engines.spark.jobs import Jobs
from millrace.engines.spark.order import read_order
from millrace.engines.spark.session import DriverSettings, start_session
from millrace.engines.spark.warm import warm_up
from millrace.errors import OperationFailed
from millrace.ports import LogOf, TransactionsOf

#: Starts side by side; more only fight for the cores.
STARTERS = 8


#: How long a driver whose agent is gone may take for a planned stop; its broker may be gone, too.
ORPHAN_SECONDS = 20.0


def end_for_sure(seconds: float) -> None:
    """End this process and all of its group after some time, whatever it waits for then."""
    timer = threading.Timer(seconds, os.killpg, (os.getpgid(0), signal.SIGKILL))
    timer.daemon = True
    timer.start()


class Host:
    """Answers commands: each has an id, and its answer the same."""

    def __init__(self, channel: Channel, jobs: Jobs) -> None:
        self._channel = channel
        self._jobs = jobs
        self._pool = ThreadPoolExecutor(STARTERS)

    def serve(self) -> bool:
        """Work until told to close, or until the agent is gone; whether to stop jobs gently."""
        for message in self._channel.messages():
            if message["do"] == "close":
                self._stop_all()
                self._channel.send({"id": message["id"], "ok": {}})
                return True
            self._pool.submit(self._answer, message)
        end_for_sure(ORPHAN_SECONDS)
        self._stop_all()
        return False

    def _answer(self, message: Message) -> None:
        answer: Message = {"id": message["id"]}
        try:
            answer["ok"] = self._do(message)
        except OperationFailed as failure:
            answer["failed"] = failure_document(failure)
        except Exception as error:
            broken = OperationFailed("driver", f"{type(error).__name__}: {error}", transient=True)
            answer["failed"] = failure_document(broken)
        self._channel.send(answer)

    def _do(self, message: Message) -> Any:
        match message["do"]:
            case "examine":
                return self._jobs.examine([read_order(item) for item in message["orders"]])
            case "start":
                return self._jobs.start(read_order(message["order"]))
            case "stop":
                return self._jobs.stop(message["job"], message.get("ends"))
            case "describe":
                return self._jobs.describe(message["job"])
            case "list":
                return self._jobs.names()
            case other:
                raise OperationFailed("unknown-command", f"a driver can't {other!r}")

    def _stop_all(self) -> None:
        names = self._jobs.names()
        with ThreadPoolExecutor(max(1, min(16, len(names)))) as pool:
            list(pool.map(lambda name: self._jobs.stop(name, None), names))


def serve(transactions: TransactionsOf | None = None, log: LogOf | None = None) -> None:
    """Take the lease, start Spark, say so, and serve until told to end."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the agent's to handle
    # It tells every call to Java, with the passwords of brokers, once a user's module asks for all.
    logging.getLogger("py4j").setLevel(logging.ERROR)
    channel = Channel(socket.socket(fileno=int(sys.argv[1])))
    settings = json.loads(Path(sys.argv[2]).read_text("utf-8"))
    place = Path(settings["place"])
    held = lease.take(place, settings["generation"])
    driver = DriverSettings(
        place,
        tuple(Path(jar) for jar in settings["jars"]),
        settings["master"],
        settings["options"],
        tuple(settings["java_options"]),
    )
    try:
        session = start_session(driver)
    except OperationFailed as failure:
        channel.send({"event": "failed", **failure_document(failure)})
        sys.exit(1)
    remember_classes()
    jobs = Jobs(session, driver, channel.send, transactions, log)
    channel.send(
        {
            "event": "ready",
            "pid": os.getpid(),
            "generation": held.generation,
            "ui": session.sparkContext.uiWebUrl,
        }
    )
    threading.Thread(target=warm_up, args=(session,), daemon=True).start()
    Host(channel, jobs).serve()
    session.stop()
    channel.close()
    # Threads of Spark's listeners may still wait; all jobs are stopped and nothing is left to do.
    os._exit(0)


if __name__ == "__main__":
    serve()
