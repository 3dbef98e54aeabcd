#!/usr/bin/env python3
"""Compares `diskfs convert` with `qemu-img convert`, and prints a table in Markdown.

    convert.py --diskfs target/release/diskfs --debian debian.raw --dir DIR [--cold]

The sources are the Debian disk of the other benchmarks (4 GiB), and a disk of 10 GiB of which 30 %
are random bytes, in runs of 1 MiB. The two programs take turns; each figure is the best of the
repetitions. diskfs makes the image durable, qemu-img does not: with a target directory in memory,
the disk does not count.
"""

import argparse
import os
import pathlib
import random
import resource
import subprocess
import time

RUN_BYTES = 1 << 20
RANDOM_DISK_BYTES = 10 << 30
RANDOM_SHARE = 0.3


def random_disk(path):
    """Writes the disk with random bytes, unless it exists."""
    if path.exists():
        return
    chance = random.Random(27)
    partial = path.with_suffix(".partial")
    with open(partial, "wb") as file:
        for at in range(0, RANDOM_DISK_BYTES, RUN_BYTES):
            if chance.random() < RANDOM_SHARE:
                file.seek(at)
                file.write(chance.randbytes(RUN_BYTES))
        file.truncate(RANDOM_DISK_BYTES)
    partial.rename(path)


def prepare(qemu_img, directory, debian):
    """Makes the sources, and returns the cases: name, source, arguments, further ones for qemu-img."""
    sources = {"debian": debian, "random": directory / "random.raw"}
    random_disk(sources["random"])

    def made(name, suffix, *options):
        path = directory / f"{name}{suffix}"
        if not path.exists():
            source = sources[name]
            subprocess.run([qemu_img, "convert", "-f", "raw", *options, source, path], check=True)
        return path

    cases = []
    for name, raw in sources.items():
        qcow2 = made(name, ".qcow2", "-O", "qcow2")
        zlib = ["-O", "qcow2", "-c"]
        zstd = [*zlib, "-o", "compression_type=zstd"]
        parallel = ["-W", "-m", "16"]
        cases += [
            (f"{name}: raw to qcow2", raw, ["-O", "qcow2"], []),
            (f"{name}: qcow2 to raw", qcow2, ["-O", "raw"], []),
            (f"{name}: raw to qcow2, zlib", raw, zlib, []),
            (f"{name}: raw to qcow2, zlib (qemu-img -W -m 16)", raw, zlib, parallel),
            (f"{name}: raw to qcow2, zstd", raw, zstd, []),
            (f"{name}: raw to qcow2, zstd (qemu-img -W -m 16)", raw, zstd, parallel),
        ]
    vmdk = made("debian", ".vmdk", "-O", "vmdk", "-o", "subformat=streamOptimized")
    cases.append(("debian: VMDK stream to qcow2", vmdk, ["-O", "qcow2"], []))
    return cases


def drop_from_cache(path):
    """Removes the pages of a file from the host's cache."""
    descriptor = os.open(path, os.O_RDONLY)
    os.fsync(descriptor)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(descriptor)


def timed(command, source, is_cold, stdout=None):
    """Runs a command; returns its seconds and its largest resident memory in MiB."""
    if is_cold:
        drop_from_cache(source)
    else:
        subprocess.run(["cat", source], stdout=subprocess.DEVNULL, check=True)
    start = time.monotonic()
    process = subprocess.Popen([str(word) for word in command], stdout=stdout)
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.monotonic() - start
    if status != 0:
        raise SystemExit(f"{command}: status {status}")
    return seconds, usage.ru_maxrss / 1024


def best(runs):
    """Returns the least seconds and the largest memory of several runs."""
    return min(seconds for seconds, _ in runs), max(memory for _, memory in runs)


def measure(args, case):
    """Returns the figures of diskfs to a file, to a pipe, and those of qemu-img."""
    _, source, options, further = case
    target = (args.target_dir or args.dir) / "new.img"
    ours = [args.diskfs, "convert", "--force", *options, source]
    theirs = [args.qemu_img, "convert", *options, *further, source, target]
    runs = {"file": [], "pipe": [], "qemu-img": []}
    for _ in range(args.repetitions):
        runs["file"].append(timed([*ours, target], source, args.cold))
        target.unlink()
        runs["qemu-img"].append(timed(theirs, source, args.cold))
        target.unlink()
        with subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as reader:
            runs["pipe"].append(timed([*ours, "-"], source, args.cold, reader.stdin))
            reader.stdin.close()
    return {name: best(each) for name, each in runs.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--diskfs", required=True)
    parser.add_argument("--qemu-img", default="qemu-img")
    parser.add_argument("--debian", required=True, type=pathlib.Path)
    parser.add_argument("--dir", required=True, type=pathlib.Path, help="with 20 GiB of space")
    parser.add_argument("--target-dir", type=pathlib.Path, help="for example a tmpfs")
    parser.add_argument("--cold", action="store_true", help="with the source out of the cache")
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--cases", default="", help="only cases with this text in their name")
    args = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    print("| copy | diskfs | qemu-img | ratio | to a pipe | memory (MiB) |")
    print("|---|---|---|---|---|---|")
    for case in prepare(args.qemu_img, args.dir, args.debian):
        if args.cases not in case[0]:
            continue
        figures = measure(args, case)
        (ours, memory), (theirs, _) = figures["file"], figures["qemu-img"]
        pipe = figures["pipe"][0]
        print(
            f"| {case[0]} | {ours:.2f} s | {theirs:.2f} s | {theirs / ours:.2f} "
            f"| {pipe:.2f} s | {memory:.0f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
