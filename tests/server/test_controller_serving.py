"""A node with a listener for controllers, over sockets."""

from __future__ import annotations

import asyncio
from pathlib import Path

from pykafka_broker.broker.broker import Broker
from pykafka_broker.config import BrokerConfig
from pykafka_broker.log.filesystem import OsFileSystem
from pykafka_broker.peers import LinkError
from pykafka_broker.protocol.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from pykafka_broker.protocol.messages.broker_heartbeat_response import BrokerHeartbeatResponse
from pykafka_broker.protocol.messages.metadata_request import MetadataRequest
from pykafka_broker.protocol.runtime import new_uuid
from pykafka_broker.server.event_loop import EventLoop, SystemClock
from pykafka_broker.server.link import Link
from pykafka_broker.server.listeners import listeners_of
from pykafka_broker.server.server import Server
from pykafka_broker.server.serving import announced, start_broker
from tests.server.support import run, until


def test_each_listener_has_what_is_asked_there(tmp_path: Path) -> None:
    config = BrokerConfig(
        {
            "node.id": "1",
            "log.dirs": str(tmp_path),
            "process.roles": "broker,controller",
            "listeners": "CONTROLLER://127.0.0.1:0,PLAINTEXT://127.0.0.1:0",
            "controller.listener.names": "CONTROLLER",
        }
    )

    async def scenario() -> None:
        turns = EventLoop(asyncio.get_running_loop(), SystemClock())
        broker = Broker(config, turns.clock, new_uuid=new_uuid, new_session_id=lambda: 1, fs=OsFileSystem())
        server = Server(broker, turns)
        clients, controllers = listeners = listeners_of(config)
        server.listen(listeners)
        start_broker(broker, listeners)
        server.start()
        assert announced(listeners) == [clients]
        to_client, to_controller = (Link(turns, "127.0.0.1", each.port) for each in (clients, controllers))
        answers: list[object] = []
        try:
            to_client.send(MetadataRequest(), answers.append, 5000)
            to_controller.send(BrokerHeartbeatRequest(1, 1), answers.append, 5000)
            await until(lambda: len(answers) == 2)
            assert [answer.error_code for answer in answers if isinstance(answer, BrokerHeartbeatResponse)] == [77]
            answers.clear()
            to_controller.send(MetadataRequest(), answers.append, 5000)
            await until(lambda: answers)
            assert isinstance(answers[0], LinkError)
            # What takes the broker's place is asked there too.
            another = Broker(config, turns.clock, new_uuid=new_uuid, new_session_id=lambda: 1, fs=OsFileSystem())
            broker.hand_over()
            start_broker(another, listeners)
            server.replace(another)
            answers.clear()
            to_controller.send(BrokerHeartbeatRequest(1, 1), answers.append, 5000)
            await until(lambda: answers)
            assert isinstance(answers[0], BrokerHeartbeatResponse)
            broker.fail_requests()
        finally:
            to_client.close()
            to_controller.close()
            await server.stop()
            server.broker.stop()
            turns.close()

    run(scenario)
