"""Aggregator and parties as processes of their own, over TLS, with keys from files."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import msgspec

from protocol.crypto.randomness import secret_of
from protocol.messages import AGGREGATOR, DONE
from protocol.simulation.setting import Setting
from protocol.transcript.entries import Refused
from protocol.transcript.reader import TranscriptReader
from protocol.transcript.verification import verify
from tests.live import Certificates, town
from tests.recorded.runs import Run
from transports.testing import HANGS

ROOT = Path(__file__).parents[2]

COMMON = """
import json, sys
from pathlib import Path
import msgspec, trio
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption
from cryptography.hazmat.primitives.serialization import PrivateFormat, load_pem_private_key
from protocol.session.charter import Charter
from protocol.messages import DONE
from protocol.crypto.randomness import Streams, nonce_of
from protocol.session.roster import Identity, Roster
from protocol.session.variant import build
from protocol.variants import RRIndependent
folder, me, port = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
plan = json.loads((folder / "plan.json").read_text())
members = tuple((name, bytes.fromhex(key)) for name, key in plan["roster"])
charter = Charter(
    nonce=bytes.fromhex(plan["nonce"]),
    variant=build(RRIndependent, parameters=plan["parameters"], survey=plan["survey"]),
    roster=Roster(members),
    enrolled=(("seed", len(members) - 1),),
)
key = load_pem_private_key((folder / f"{me}.key").read_bytes(), None)
identity = Identity(
    me, key.private_bytes(Encoding.Raw, PrivateFormat.Raw, NoEncryption())
)
files = dict(
    authority=folder / "authority.pem", certificate=folder / f"{me}.pem", key=folder / f"{me}.key"
)
secret = bytes.fromhex(plan["secret"])
streams = Streams(secret, nonce_of(secret))
"""

AGGREGATE = (
    COMMON
    + """
from parties.actor import run_aggregator
from protocol.session.exchange import Exchange
from protocol.transcript.header import header_of
from protocol.transcript.recorder import Recorder
from transports.records.recording import recording
from transports.switch import Switch
from transports.tcp import open_tcp
from transports.tls import server_context

async def main():
    with (folder / "transcript").open("wb", buffering=0) as file:
        recorder = Recorder(file.write, header_of(charter, seed=1))
        async with recording(recorder):
            switch = Switch(Exchange(charter, recorder=recorder))
            tls = server_context(**files)
            async with open_tcp(switch, identity, tls=tls) as (hub, where):
                print(where, flush=True)
                async with hub.connect(me) as link:
                    await hub.joined(charter.roster.parties, within=300.0)
                    machine = await run_aggregator(charter, link, streams=streams)
                await hub.emptied()
    (folder / "result").write_bytes(charter.codec.encode(machine.result))
    print(json.dumps({"digest": recorder.digest().hex(), "gone": dict(machine.departed)}))

trio.run(main)
"""
)

ANSWER = (
    COMMON
    + """
import numpy as np
from parties.actor import run_machine
from protocol.messages import ROLE_STREAM
from protocol.session.machine import Machine
from protocol.surveys.records import Records
from transports.tcp import connect_tcp
from transports.tls import client_context

records = Records(
    charter.variant.survey, np.array(json.loads(sys.argv[4]), np.uint8)
)

async def main():
    try:
        tls = client_context(**files)
        async with connect_tcp(
            "127.0.0.1", port, charter=charter, identity=identity, tls=tls
        ) as link:
            machine = Machine(charter, me, streams.stream(me, ROLE_STREAM), records=records)
            await run_machine(machine, link)
    except ConnectionError as error:
        print(error)
    else:
        print(DONE if machine.failure is None else machine.failure)

trio.run(main)
"""
)


def write_plan(where: Setting, folder: Path) -> None:
    parameters = msgspec.to_builtins(where.charter.variant)
    survey = parameters.pop("survey")
    secret = secret_of(1)
    plan = {
        "nonce": where.charter.nonce.hex(),
        "parameters": parameters,
        "survey": survey,
        "roster": [(name, key.hex()) for name, key in where.charter.roster.members],
        "secret": secret.hex(),
    }
    (folder / "plan.json").write_text(json.dumps(plan))


def start(script: str, *arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", script, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )


def finish(process: subprocess.Popen[str]) -> list[str]:
    out, err = process.communicate(timeout=HANGS)
    assert process.returncode == 0, err
    assert err == ""
    return out.splitlines()


def test_a_survey_among_processes(tmp_path: Path) -> None:
    where = town(3)
    write_plan(where, tmp_path)
    certificates = Certificates(tmp_path)
    for identity in where.identities.values():
        certificates.files(identity)
    aggregator = start(AGGREGATE, tmp_path, AGGREGATOR, 0)
    processes = [aggregator]
    try:
        assert aggregator.stdout is not None
        port = aggregator.stdout.readline().strip()
        # Somebody with a right certificate, but for another session.
        impostor = tmp_path / "impostor"
        impostor.mkdir()
        for name in ("plan.json", "authority.pem", "party-1.pem", "party-1.key"):
            (impostor / name).write_bytes((tmp_path / name).read_bytes())
        plan = json.loads((impostor / "plan.json").read_text())
        plan["nonce"] = bytes(16).hex()
        (impostor / "plan.json").write_text(json.dumps(plan))
        intruder = start(ANSWER, impostor, "party-1", port, [[0, 0]])
        processes.append(intruder)
        assert finish(intruder) == ["refused: survey: another survey"]
        parties = {
            name: start(ANSWER, tmp_path, name, port, held.codes.tolist())
            for name, held in where.holdings.items()
        }
        processes += parties.values()
        assert {name: finish(process) for name, process in parties.items()} == {
            name: [DONE] for name in where.holdings
        }
        [said] = finish(aggregator)
    finally:
        for process in processes:
            process.kill()
            process.communicate()
    local = Run(where, unsigned=where.identities)
    assert json.loads(said)["digest"] == local.digest.hex()
    assert (tmp_path / "result").read_bytes() == local.result_bytes
    content = (tmp_path / "transcript").read_bytes()
    verification = verify(content, digest=local.digest)
    assert verification.intact
    assert verification.undelivered == 0
    reasons = [entry.reason for entry in TranscriptReader(content) if isinstance(entry, Refused)]
    assert reasons == ["survey: another survey"]
