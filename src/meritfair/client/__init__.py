"""A client of the HTTP API: a programme that a server keeps, as if it were here.

Examples
--------
::

    from meritfair.client import connect

    with connect("https://meritfair.example.org", "mf_…") as server:
        calls = server.programme("calls")
        drawn = calls.draw()
        print([each.id for each in drawn.outcomes])
"""

from meritfair.client.connection import NotAllowedError as NotAllowedError
from meritfair.client.connection import ServerError as ServerError
from meritfair.client.programme import RemoteProgramme as RemoteProgramme
from meritfair.client.results import Entry as Entry
from meritfair.client.results import Head as Head
from meritfair.client.results import Participant as Participant
from meritfair.client.results import ParticipantAccount as ParticipantAccount
from meritfair.client.results import PersonExplained as PersonExplained
from meritfair.client.results import Preview as Preview
from meritfair.client.results import ProgrammeLine as ProgrammeLine
from meritfair.client.results import ProgrammeStatus as ProgrammeStatus
from meritfair.client.results import RemoteRound as RemoteRound
from meritfair.client.results import RoundLine as RoundLine
from meritfair.client.server import Client as Client
from meritfair.client.server import connect as connect
