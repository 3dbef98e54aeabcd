"""A client of `diskfs serve` by another implementation of gRPC: grpcio.

    client.py PROTO_DIR TARGET [CA CERT KEY]

Compiles the .proto files, reads a JSON list of calls from standard input, and prints a list of their
results. A call: {"call": "apis.DeployAgent/ProbeImageInfo", "request": {...}}, with "timeout" in
seconds, and "threads" to make all calls of the list side by side (in the first call). Other calls:
{"health": SERVICE}, {"reflection": true}, {"cfb8": KEY, "secret": BASE64} and
{"rsa": PEM, "secret": BASE64}, which decrypt passwords.
"""

import base64
import importlib
import json
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

import grpc
from google.protobuf import json_format
from grpc_tools import protoc

STREAMS = {"diskfs.v1.Disks/Deploy", "diskfs.v1.Disks/ReadFile"}


def compile_protos(directory):
    out = tempfile.mkdtemp()
    files = ["deploy.proto", "diskfs/v1/diskfs.proto"]
    words = ["protoc", f"-I{directory}", f"--python_out={out}"]
    if protoc.main(words + files) != 0:
        sys.exit("protoc fails")
    sys.path.insert(0, out)
    return {
        "apis": importlib.import_module("deploy_pb2"),
        "diskfs.v1": importlib.import_module("diskfs.v1.diskfs_pb2"),
    }


def channel_to(target, files):
    options = [("grpc.max_send_message_length", -1), ("grpc.use_local_subchannel_pool", 1)]
    if not files:
        return grpc.insecure_channel(target, options)
    ca, cert, key = (open(name, "rb").read() if name else None for name in files)
    credentials = grpc.ssl_channel_credentials(ca, key, cert)
    return grpc.secure_channel(target, credentials, options)


class Client:
    def __init__(self, protos, channel):
        self.protos, self.channel = protos, channel

    def call(self, call):
        started = time.monotonic()
        try:
            result = {"code": "OK", "answer": self.answer(call)}
        except grpc.RpcError as error:
            result = {"code": error.code().name, "message": error.details()}
        result["seconds"] = time.monotonic() - started
        return result

    def answer(self, call):
        if "health" in call:
            return self.health(call["health"])
        if "reflection" in call:
            return self.reflection()
        if "cfb8" in call:
            return cfb8(call["cfb8"], call["secret"])
        if "rsa" in call:
            return rsa(call["rsa"], call["secret"])
        return self.method(call)

    def method(self, call):
        service, method = call["call"].split("/")
        package, name = service.rsplit(".", 1)
        module = self.protos[package]
        found = module.DESCRIPTOR.services_by_name[name].methods_by_name[method]
        request = getattr(module, found.input_type.name)()
        json_format.ParseDict(call["request"], request)
        # What JSON cannot say: fields that the server does not know.
        encoded = request.SerializeToString() + base64.b64decode(call.get("unknown", ""))
        answer = getattr(module, found.output_type.name)
        stream = call["call"] in STREAMS
        kind = self.channel.unary_stream if stream else self.channel.unary_unary
        invoke = kind("/" + call["call"], lambda it: it, answer.FromString)
        answers = invoke(encoded, timeout=call.get("timeout", 60))
        shown = lambda it: json_format.MessageToDict(it, preserving_proto_field_name=True)
        return [shown(it) for it in answers] if stream else shown(answers)

    def health(self, service):
        name = service.encode()
        request = b"\x0a" + bytes([len(name)]) + name if name else b""
        invoke = self.channel.unary_unary("/grpc.health.v1.Health/Check")
        return {b"\x08\x01": "SERVING", b"\x08\x02": "NOT_SERVING"}.get(invoke(request, timeout=5))

    def reflection(self):
        name = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"
        invoke = self.channel.stream_stream(name)
        answer = next(iter(invoke(iter([b"\x3a\x01*"]), timeout=5)))
        return answer.decode("latin-1")


def cfb8(key, secret):
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms

    try:
        from cryptography.hazmat.decrepit.ciphers.modes import CFB8
    except ImportError:
        from cryptography.hazmat.primitives.ciphers.modes import CFB8
    secret = base64.b64decode(secret)
    key = (key.encode() + b"$" * 32)[:32]
    decryptor = Cipher(algorithms.AES(key), CFB8(secret[:16])).decryptor()
    return (decryptor.update(secret[16:]) + decryptor.finalize()).decode()


def rsa(pem, secret):
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import padding
    from cryptography.hazmat.primitives.serialization import load_ssh_private_key

    key = load_ssh_private_key(open(pem, "rb").read(), None)
    oaep = padding.OAEP(padding.MGF1(hashes.SHA1()), hashes.SHA1(), None)
    return key.decrypt(base64.b64decode(secret), oaep).decode()


def main():
    protos = compile_protos(sys.argv[1])
    calls = json.load(sys.stdin)
    with channel_to(sys.argv[2], sys.argv[3:]) as channel:
        client = Client(protos, channel)
        threads = calls[0].get("threads", 1) if calls else 1
        with ThreadPoolExecutor(threads) as pool:
            results = list(pool.map(client.call, calls))
    json.dump(results, sys.stdout)


if __name__ == "__main__":
    main()
