"""A collector of OpenTelemetry: prints each span as a line of JSON.

    collector.py

The first line is its port.
"""

import json
from concurrent.futures import ThreadPoolExecutor

import grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc


def attributes(values):
    return {each.key: each.value.string_value for each in values}


class Collector(trace_service_pb2_grpc.TraceServiceServicer):
    def Export(self, request, context):
        for resource in request.resource_spans:
            service = attributes(resource.resource.attributes).get("service.name")
            for scope in resource.scope_spans:
                for span in scope.spans:
                    line = {
                        "service": service,
                        "name": span.name,
                        "attributes": attributes(span.attributes),
                        "events": [event.name for event in span.events],
                        "nanoseconds": span.end_time_unix_nano - span.start_time_unix_nano,
                    }
                    print(json.dumps(line), flush=True)
        return trace_service_pb2.ExportTraceServiceResponse()


server = grpc.server(ThreadPoolExecutor(2))
trace_service_pb2_grpc.add_TraceServiceServicer_to_server(Collector(), server)
print(server.add_insecure_port("127.0.0.1:0"), flush=True)
server.start()
server.wait_for_termination()
