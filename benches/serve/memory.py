"""Measures the memory of `diskfs serve deploy` over many requests.

    target/judges/bin/grpc-python benches/serve/memory.py DISKFS IMAGE [REQUESTS]

IMAGE is a disk with a guest, as for load.py; it is not changed. Eight clients send ProbeImageInfo
and DeployGuestFs in turn. After each eighth of the requests (2,000 if no number is given) this prints
the server's resident memory, its threads and open files, and the largest memory of a worker until
then.
"""

import os
import pathlib
import sys
import tempfile
import threading
import time

import load
from load import grpc_client

CLIENTS = 8
ROUNDS = 8


def field(process, name):
    try:
        status = pathlib.Path(f"/proc/{process}/status").read_text()
    except OSError:
        return 0
    lines = [line.split() for line in status.splitlines() if line.startswith(f"{name}:")]
    return int(lines[0][1]) if lines else 0


def workers(server):
    for task in pathlib.Path("/proc").glob(f"{server.pid}/task/*/children"):
        try:
            yield from task.read_text().split()
        except OSError:
            pass  # The thread has ended.


class Watch(threading.Thread):
    """Looks at the workers, which live for one request."""

    def __init__(self, server):
        super().__init__(daemon=True)
        self.server, self.peak_kib = server, 0

    def run(self):
        while self.server.poll() is None:
            peaks = [field(worker, "VmHWM") for worker in workers(self.server)]
            self.peak_kib = max([self.peak_kib, *peaks])
            time.sleep(0.002)


def request(image, directory, number):
    """Returns a request, and the overlay that it needs."""
    if number % 2 == 0:
        return load.probe(image), None
    path = load.overlay(image, directory, number)
    return load.deploy(path, number), path


def send(protos, target, image, directory, numbers):
    def work(numbers):
        with grpc_client.channel_to(target, []) as channel:
            caller = grpc_client.Client(protos, channel)
            for number in numbers:
                call, path = request(image, directory, number)
                result = caller.call(call)
                assert result["code"] == "OK", result
                if path:
                    os.remove(path)

    threads = [threading.Thread(target=work, args=[numbers[n::CLIENTS]]) for n in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def main():
    diskfs, image = sys.argv[1], os.path.abspath(sys.argv[2])
    count = int(sys.argv[3]) if len(sys.argv) > 3 else 2000
    protos = grpc_client.compile_protos(str(load.ROOT / "proto"))
    print("requests  memory MiB  anonymous MiB  threads  files  worker MiB")
    with tempfile.TemporaryDirectory() as directory:
        server, target = load.start(diskfs, directory)
        watch = Watch(server)
        watch.start()
        each = count // ROUNDS
        for done in range(0, count, each):
            send(protos, target, image, directory, list(range(done, done + each)))
            memory, private = (field(server.pid, name) / 1024 for name in ("VmRSS", "RssAnon"))
            files = len(os.listdir(f"/proc/{server.pid}/fd"))
            threads, peak = field(server.pid, "Threads"), watch.peak_kib / 1024
            print(f"{done + each:8} {memory:11.1f} {private:14.1f} {threads:8} {files:6} {peak:11.1f}")
        server.terminate()
        server.wait()


if __name__ == "__main__":
    main()
