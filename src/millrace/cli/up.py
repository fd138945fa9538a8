"""`millrace up`."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from threading import Thread
from typing import Annotated

import typer

from millrace.cli.lasting import asked_to_stop, fetching, logged
from millrace.cli.options import HomeOption, SharedOption
from millrace.cli.output import fail, say
from millrace.errors import OperationFailed
from millrace.machine import Folders


def up(
    listen: Annotated[
        str,
        typer.Option(metavar="ADDRESS:PORT", help="Where to serve; port 0 is any that is free."),
    ] = "127.0.0.1:7717",
    certificate: Annotated[
        Path | None, typer.Option(help="A certificate in PEM: serves HTTPS with it.")
    ] = None,
    key: Annotated[Path | None, typer.Option(help="The key of the certificate.")] = None,
    generation_above: Annotated[
        int,
        typer.Option(
            metavar="N",
            min=0,
            max=1 << 31,
            help="The state is an older copy: be obeyed by sites that have heard of a coordinator "
            "of generation N. You vouch that it is gone for good.",
        ),
    ] = 0,
    shared: SharedOption = None,
    home: HomeOption = None,
) -> None:
    """Run a coordinator until Ctrl-C: it keeps pipelines as they were applied.

    Sites on this machine are served by it; others join with `millrace agent`. A token for its owner
    is made at the first start, and commands on this machine find both. Ctrl-C stops what runs here
    so that nothing is lost or repeated, and the next start goes on from there.

    Example: [bold]millrace up[/bold], and in another terminal [bold]millrace apply -f
    pipeline.yaml[/bold]
    """
    folders = Folders.of(home)
    try:
        superseded = _up(folders, listen, (certificate, key), shared, generation_above)
    except OperationFailed as failure:
        fail(failure.message, failure.hint)
    except ModuleNotFoundError as missing:
        fail(
            f"{missing.name} is not installed", "pip install 'millrace[server,spark,kafka,measure]'"
        )
    if superseded:
        fail("another coordinator has taken over", "it serves this state now; this one has ended")


def _up(
    folders: Folders,
    listen: str,
    tls: tuple[Path | None, Path | None],
    shared: Path | None,
    above: int,
) -> bool:
    """Serve until asked to stop; whether another coordinator took over."""
    from millrace.agent.workshops import Workshops  # noqa: PLC0415 - what it needs are extras
    from millrace.api.serve import Server, bound  # noqa: PLC0415
    from millrace.coordinator.home import Home  # noqa: PLC0415
    from millrace.coordinator.station import Station  # noqa: PLC0415
    from millrace.stores.artifacts import LocalDepot  # noqa: PLC0415

    home, address = Home(folders), bound(listen, *tls)
    with closing(address), logged(home.place / "coordinator.log") as tell, fetching() as told:
        shops = Workshops(home.sites, LocalDepot(home.artifacts), told, tell, shared=shared)
        with asked_to_stop() as asked:
            station = Station.open(home, shops.workshop, shops.place, above=above, warn=tell)
            station.when_superseded(asked.set)
            server = Server(station, address)

            def ready(url: str) -> None:
                home.write_address(url, tls[0])
                tell(f"the coordinator is up: {url} (token in {home.token}); Ctrl-C stops it")

            serving = Thread(target=server.run, args=(ready,), name="serving", daemon=True)
            serving.start()
            try:
                asked.wait()
                say("stopping; a second Ctrl-C ends at once")
                server.stop()
                serving.join(15)
                station.close()
            except BaseException as error:
                station.kill()  # whatever it is: nothing of ours is left behind
                if not isinstance(error, KeyboardInterrupt):
                    raise
                say("ended at once; the next start finds what was written")
                raise typer.Exit(130) from None
    say("stopped; millrace up goes on from here")
    return station.superseded
