"""A stand-in for the GKE API: it does at once what it is asked, and keeps what it was sent."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import grpc
from google.cloud import container_v1 as gke

SERVICE = "google.container.v1.ClusterManager"


class StandIn:
    """Operations go through `course`, a status each time they are looked at, then are done."""

    def __init__(self) -> None:
        self.clusters: dict[str, gke.Cluster] = {}
        self.course: list[str] = []
        self.failure = ""
        self.refusal: tuple[grpc.StatusCode, str] | None = None
        self.looked = threading.Event()
        self.address = ""

    def create(self, request: gke.CreateClusterRequest, context: Any) -> gke.Operation:
        name = f"{request.parent}/clusters/{request.cluster.name}"
        if name in self.clusters:
            context.abort(grpc.StatusCode.ALREADY_EXISTS, "there already")
        self.clusters[name] = gke.Cluster(
            request.cluster,
            location=request.parent.rpartition("/")[2],
            status=gke.Cluster.Status.RUNNING,
            current_master_version="1.33.1",
            current_node_count=3,
        )
        return gke.Operation(name="operation-1")

    def delete(self, request: gke.DeleteClusterRequest, context: Any) -> gke.Operation:
        self._find(request.name, context)
        del self.clusters[request.name]
        return gke.Operation(name="operation-2")

    def get(self, request: gke.GetClusterRequest, context: Any) -> gke.Cluster:
        return self._find(request.name, context)

    def list(self, request: gke.ListClustersRequest, context: Any) -> gke.ListClustersResponse:
        parent = request.parent.removesuffix("-")
        found = [cluster for name, cluster in self.clusters.items() if name.startswith(parent)]
        return gke.ListClustersResponse(clusters=found)

    def look(self, request: gke.GetOperationRequest, context: Any) -> gke.Operation:
        self.looked.set()
        if self.course:
            return gke.Operation(name=request.name, status="RUNNING", detail=self.course.pop(0))
        done = gke.Operation(name=request.name, status="DONE")
        if self.failure:
            done.error = {"code": 8, "message": self.failure}
        return done

    def _find(self, name: str, context: Any) -> gke.Cluster:
        if name not in self.clusters:
            context.abort(grpc.StatusCode.NOT_FOUND, f"Not found: {name}")
        return self.clusters[name]

    def _method(self, act: Callable[..., Any], request: Any, response: Any) -> Any:
        def serve(message: Any, context: Any) -> Any:
            if self.refusal is not None:
                context.abort(*self.refusal)
            return act(message, context)

        return grpc.unary_unary_rpc_method_handler(
            serve, request_deserializer=request.deserialize, response_serializer=response.serialize
        )

    def handler(self) -> grpc.GenericRpcHandler:
        methods = {
            "CreateCluster": self._method(self.create, gke.CreateClusterRequest, gke.Operation),
            "DeleteCluster": self._method(self.delete, gke.DeleteClusterRequest, gke.Operation),
            "GetCluster": self._method(self.get, gke.GetClusterRequest, gke.Cluster),
            "ListClusters": self._method(
                self.list, gke.ListClustersRequest, gke.ListClustersResponse
            ),
            "GetOperation": self._method(self.look, gke.GetOperationRequest, gke.Operation),
        }
        return grpc.method_handlers_generic_handler(SERVICE, methods)


@contextmanager
def serving() -> Iterator[StandIn]:
    stand_in = StandIn()
    with ThreadPoolExecutor(4) as threads:
        server = grpc.server(threads)
        server.add_generic_rpc_handlers((stand_in.handler(),))
        port = server.add_insecure_port("127.0.0.1:0")
        stand_in.address = f"127.0.0.1:{port}"
        server.start()
        yield stand_in
        server.stop(None).wait()
