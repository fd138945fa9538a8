"""`millrace agent`."""

from __future__ import annotations

from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Annotated

import typer

from millrace.cli.lasting import asked_to_stop, fetching, logged
from millrace.cli.options import HomeOption, SharedOption
from millrace.cli.output import fail, say
from millrace.client import Settings
from millrace.errors import OperationFailed
from millrace.machine import Folders

if TYPE_CHECKING:
    from millrace.agent.joined import JoinedAgent


def agent(
    join: Annotated[str, typer.Option(metavar="URL", help="The coordinator's address.")],
    site: Annotated[str, typer.Option(metavar="NAME", help="The site that this machine is.")],
    token_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="The file with the token of this site's agent; also by MILLRACE_TOKEN_FILE.",
        ),
    ] = None,
    certificate: Annotated[
        Path | None,
        typer.Option(
            metavar="CA",
            help="The only certificate to trust, in PEM; also by MILLRACE_CERTIFICATE.",
        ),
    ] = None,
    shared: SharedOption = None,
    home: HomeOption = None,
) -> None:
    """Make this machine a site of a coordinator elsewhere, until Ctrl-C.

    The agent dials out and needs no port of its own. It runs what the coordinator says: a broker,
    Spark, jobs. While the coordinator is away it keeps the site as it was told last, over restarts
    too. Ctrl-C stops what runs here so that nothing is lost or repeated.

    On the coordinator's machine: [bold]millrace token create north --site north --out
    north.token[/bold]

    Example: [bold]millrace agent --join https://head:7717 --token-file north.token --site
    north[/bold]
    """
    try:
        _agent(Folders.of(home), Settings.of_site(join, token_file, certificate), site, shared)
    except OperationFailed as failure:
        fail(failure.message, failure.hint)
    except ModuleNotFoundError as missing:
        fail(f"{missing.name} is not installed", "pip install 'millrace[spark,kafka,measure]'")


def _agent(folders: Folders, where: Settings, site: str, shared: Path | None) -> None:
    from millrace.agent.agent import Agent  # noqa: PLC0415 - what it needs are extras
    from millrace.agent.answers import answered  # noqa: PLC0415
    from millrace.agent.http_link import HttpLink  # noqa: PLC0415
    from millrace.agent.joined import JoinedAgent  # noqa: PLC0415
    from millrace.agent.state import alone  # noqa: PLC0415
    from millrace.agent.workshops import Workshops  # noqa: PLC0415
    from millrace.machine.web import Web  # noqa: PLC0415
    from millrace.stores.artifacts import Artifacts  # noqa: PLC0415

    place = folders.state / "agents" / site
    own = Folders(place, folders.cache)
    with (
        alone(place),
        Web(where.url, where.token, where.certificate) as web,
        logged(place / "agent.log") as tell,
        fetching() as told,
    ):
        link = HttpLink(web, Artifacts(place / "artifacts"))
        shops = Workshops(own, link, told, tell, shared=shared)
        works = Agent(shops.workshop, shops.place, answer=answered)
        joined = JoinedAgent(site, works, link, place / "goal.json", tell)
        works.wake, works.unheard = joined.wake, joined.unheard
        tell(f"the agent of site {site} is up; Ctrl-C stops it")
        _kept(joined)
    say("stopped; millrace agent goes on from here")


def _kept(joined: JoinedAgent) -> None:
    """Keep the site until asked to stop; a second Ctrl-C ends all at once."""
    with asked_to_stop() as asked:
        running = Thread(target=joined.run, name="agent", daemon=True)
        running.start()
        try:
            asked.wait()
            say("stopping; a second Ctrl-C ends at once")
            joined.stop()
            running.join(120)
        except BaseException as error:
            joined.agent.kill()  # whatever it is: nothing of ours is left behind
            if not isinstance(error, KeyboardInterrupt):
                raise
            say("ended at once; the next start finds what was written")
            raise typer.Exit(130) from None
