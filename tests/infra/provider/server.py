"""Serves schemas to the real terraform, which is told where by TF_REATTACH_PROVIDERS."""

import json
import os
from collections.abc import Iterator, Sequence
from concurrent import futures
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import grpc
import msgpack  # type: ignore[import-untyped]

from tests.infra.provider.checks import problems
from tests.infra.provider.values import Block, empty, named, planned, settled
from tests.infra.provider.wire import METHODS, SERVICE, message

_NESTING = {"single": 1, "list": 2, "set": 3, "map": 4, "group": 5}
_ERROR = 1


class Provider:
    """One provider: the methods of the protocol by name."""

    def __init__(self, document: Block) -> None:
        ((self.address, schemas),) = document["provider_schemas"].items()
        self._kinds = {
            kind: schemas.get(f"{kind}_schemas", {})
            for kind in ("resource", "data_source", "ephemeral_resource")
        }

        self._schemas = message("Schemas")(provider=_schema(schemas["provider"]))
        for kind, types in self._kinds.items():
            for name, schema in types.items():
                getattr(self._schemas, f"{kind}_schemas")[name].CopyFrom(_schema(schema))

    def answer(self, method: str, request: Any) -> Any:
        if method == "GetProviderSchema":
            return self._schemas
        reply = message(METHODS[method][1])()
        if handler := getattr(self, f"_{method}", None):
            handler(request, reply)
        return reply

    def _ValidateResourceConfig(self, request: Any, reply: Any) -> None:  # noqa: N802
        _complain(self._block("resource", request), request, reply)

    def _ValidateDataResourceConfig(self, request: Any, reply: Any) -> None:  # noqa: N802
        _complain(self._block("data_source", request), request, reply)

    def _ValidateEphemeralResourceConfig(self, request: Any, reply: Any) -> None:  # noqa: N802
        _complain(self._block("ephemeral_resource", request), request, reply)

    def _UpgradeResourceState(self, request: Any, reply: Any) -> None:  # noqa: N802
        state = empty(self._block("resource", request)) | json.loads(request.raw_state.json)
        reply.upgraded_state.msgpack = _packed(state)

    def _ReadResource(self, request: Any, reply: Any) -> None:  # noqa: N802
        reply.new_state.CopyFrom(request.current_state)
        reply.private = request.private

    def _PlanResourceChange(self, request: Any, reply: Any) -> None:  # noqa: N802
        new, prior = _value(request.proposed_new_state), _value(request.prior_state)
        plan = planned(self._block("resource", request), new, prior)
        reply.planned_state.msgpack = _packed(plan)
        reply.planned_private = request.prior_private
        reply.legacy_type_system = True

    def _ApplyResourceChange(self, request: Any, reply: Any) -> None:  # noqa: N802
        block = self._block("resource", request)
        plan = _value(request.planned_state)
        state = settled(block, plan, named(request.type_name, plan))
        reply.new_state.msgpack = _packed(state)
        reply.private = request.planned_private
        reply.legacy_type_system = True

    def _ReadDataSource(self, request: Any, reply: Any) -> None:  # noqa: N802
        reply.state.msgpack = self._read("data_source", request)

    def _OpenEphemeralResource(self, request: Any, reply: Any) -> None:  # noqa: N802
        reply.result.msgpack = self._read("ephemeral_resource", request)

    def _read(self, kind: str, request: Any) -> bytes:
        block = self._block(kind, request)
        plan = planned(block, _value(request.config), None)
        return _packed(settled(block, plan, request.type_name))

    def _block(self, kind: str, request: Any) -> Block:
        block: Block = self._kinds[kind][request.type_name]["block"]
        return block


def _complain(block: Block, request: Any, reply: Any) -> None:
    for problem, path in problems(block, _value(request.config), []):
        steps = [{kind: value} for kind, value in path]
        reply.diagnostics.add(severity=_ERROR, summary=problem, attribute={"steps": steps})


def _value(dynamic: Any) -> Any:
    if dynamic.json:
        return json.loads(dynamic.json)
    return msgpack.unpackb(dynamic.msgpack, raw=False, strict_map_key=False)


def _packed(value: Any) -> bytes:
    data: bytes = msgpack.packb(value, use_bin_type=True)
    return data


def _schema(schema: Block) -> Any:
    return message("Schema")(version=schema["version"], block=_block(schema["block"]))


def _block(block: Block) -> Any:
    flags = ("required", "optional", "computed", "write_only")
    return message("Block")(
        attributes=[
            {"name": name, "type": json.dumps(each["type"]).encode()}
            | {flag: True for flag in flags if each.get(flag)}
            for name, each in block["attributes"].items()
        ],
        block_types=[
            message("NestedBlock")(
                type_name=name,
                nesting=_NESTING[each["nesting_mode"]],
                block=_block(each["block"]),
                min_items=each.get("min_items", 0),
                max_items=each.get("max_items", 0),
            )
            for name, each in block["block_types"].items()
        ],
    )


def _server(provider: Provider) -> grpc.Server:
    def handler(method: str) -> "grpc.RpcMethodHandler[Any, Any]":
        return grpc.unary_unary_rpc_method_handler(
            lambda request, _: provider.answer(method, request),
            request_deserializer=message(METHODS[method][0]).FromString,
            response_serializer=lambda reply: reply.SerializeToString(),
        )

    options = [("grpc.max_send_message_length", -1)]
    server = grpc.server(futures.ThreadPoolExecutor(4), options=options)
    handlers = {method: handler(method) for method in METHODS}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
    return server


def _stop(server: grpc.Server) -> None:
    server.stop(0).wait()


@contextmanager
def serving(documents: Sequence[Path], folder: Path) -> Iterator[str]:
    """The providers of the documents; yields what TF_REATTACH_PROVIDERS must be."""
    reattach = {}
    with ExitStack() as stack:
        for document in documents:
            provider = Provider(json.loads(document.read_text("utf-8")))
            socket = folder / f"{document.stem}.sock"
            server = _server(provider)
            server.add_insecure_port(f"unix://{socket}")
            server.start()
            stack.callback(_stop, server)
            reattach[provider.address] = {
                "Protocol": "grpc",
                "ProtocolVersion": 6,
                "Pid": os.getpid(),
                "Test": True,
                "Addr": {"Network": "unix", "String": str(socket)},
            }
        yield json.dumps(reattach)
