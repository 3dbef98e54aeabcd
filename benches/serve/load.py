"""Measures `diskfs serve deploy` under load.

    target/judges/bin/grpc-python benches/serve/load.py DISKFS IMAGE [SECONDS]

IMAGE is a disk with a guest, for example one that debootstrap made; it is not changed. For 1, 8 and
64 clients this prints the requests per second, the times that half and 99 % of the requests take,
and the memory of the server: for ProbeImageInfo of one image, and for DeployGuestFs on a new overlay
each.
"""

import itertools
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/serve"))
import client as grpc_client  # noqa: E402


def start(diskfs, directory):
    socket = f"{directory}/deploy.sock"
    words = [diskfs, "serve", "deploy", "--socket", socket, "--allow-backing", "/"]
    log = open(f"{directory}/log", "w")
    server = subprocess.Popen(words, stderr=log)
    while not os.path.exists(socket):
        time.sleep(0.01)
    return server, f"unix:{socket}"


def overlay(image, directory, number):
    path = f"{directory}/{number}.qcow2"
    words = ["qemu-img", "create", "-q", "-f", "qcow2", "-b", image, "-F", form(image), path]
    subprocess.run(words, check=True)
    return path


def form(image):
    return "qcow2" if image.endswith(".qcow2") else "raw"


def probe(image):
    return {"call": "apis.DeployAgent/ProbeImageInfo", "request": {"disk_info": {"path": image}}}


def deploy(path, number):
    nic = {"mac": "00:24:c7:16:80:f2", "ip": "10.0.0.5", "masklen": 24, "gateway": "10.0.0.1",
           "manual": True, "dns": "8.8.8.8", "mtu": 1442}
    guest = {"name": f"vm{number}", "uuid": "u", "nics": [nic]}
    info = {"is_init": True, "password": "secret-1", "default_root_user": True}
    request = {"disk_info": {"path": path}, "guest_desc": guest, "deploy_info": info}
    return {"call": "apis.DeployAgent/DeployGuestFs", "request": request}


def measure(protos, target, clients, seconds, requests):
    end, times, lock = time.monotonic() + seconds, [], threading.Lock()

    def work():
        with grpc_client.channel_to(target, []) as channel:
            caller = grpc_client.Client(protos, channel)
            while time.monotonic() < end:
                with lock:
                    request = next(requests, None)
                if request is None:
                    return
                result = caller.call(request)
                assert result["code"] == "OK", result
                with lock:
                    times.append(result["seconds"])

    began = time.monotonic()
    threads = [threading.Thread(target=work) for _ in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sorted(times), time.monotonic() - began


def memory_mib(server):
    status = pathlib.Path(f"/proc/{server.pid}/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) / 1024


def main():
    diskfs, image = sys.argv[1], os.path.abspath(sys.argv[2])
    seconds = float(sys.argv[3]) if len(sys.argv) > 3 else 10
    protos = grpc_client.compile_protos(str(ROOT / "proto"))
    print("method          clients  requests/s   p50 ms   p99 ms  memory MiB")
    with tempfile.TemporaryDirectory() as directory:
        server, target = start(diskfs, directory)
        numbers = itertools.count()
        for clients in (1, 8, 64):
            made = [(overlay(image, directory, n), n) for n in itertools.islice(numbers, 400)]
            for name, requests in (
                ("ProbeImageInfo", itertools.repeat(probe(image))),
                ("DeployGuestFs", (deploy(*it) for it in made)),
            ):
                times, took = measure(protos, target, clients, seconds, iter(requests))
                p50, p99 = (1000 * times[int(len(times) * part)] for part in (0.5, 0.99))
                rate = len(times) / took
                print(f"{name:15} {clients:7} {rate:11.1f} {p50:8.1f} {p99:8.1f} {memory_mib(server):11.0f}")
            for path, _ in made:
                os.remove(path)
        server.terminate()
        server.wait()


if __name__ == "__main__":
    main()
