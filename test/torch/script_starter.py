"""Starts scripts without the seconds that importing torch takes: by forks of this process.

A child returns from `serve` to the module's own level, and so ends as any script does: through
sys.excepthook, threads, atexit and the interpreter's finalization. test/torch/scripts.py drives it:
a line of JSON on standard input is a script to start, a line on standard output tells its process
id, and later its exit status.
"""

import faulthandler
import gc
import importlib
import json
import os
import selectors
import signal
import sys

import torch
import torch._dynamo  # what DDP imports at its first use
import torch.distributed
import torch.utils.data

import mccl


def tell(**event):
    os.write(1, json.dumps(event).encode() + b"\n")


def become(job):
    output = os.open(job["output"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    errors = os.open(job["errors"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for number, descriptor in enumerate((nothing, output, errors)):
        os.dup2(descriptor, number)
        os.close(descriptor)
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR2, all_threads=True)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.update(job["environment"])
    torch.set_num_threads(1)


def serve():
    """The job, in its own child; None in this process, when there is nothing more to start."""
    events = selectors.DefaultSelector()
    events.register(0, selectors.EVENT_READ)
    children = {}
    received = b""
    while True:
        for key, _ in events.select():
            if key.fd != 0:
                process_id = children.pop(key.fd)
                events.unregister(key.fd)
                os.close(key.fd)
                status = os.waitstatus_to_exitcode(os.waitpid(process_id, 0)[1])
                tell(ended=process_id, status=status)
                continue
            data = os.read(0, 65536)
            if not data:
                return None
            *lines, received = (received + data).split(b"\n")
            for line in lines:
                job = json.loads(line)
                process_id = os.fork()
                if process_id == 0:
                    events.close()
                    for descriptor in children:
                        os.close(descriptor)
                    become(job)
                    return job
                descriptor = os.pidfd_open(process_id)
                children[descriptor] = process_id
                events.register(descriptor, selectors.EVENT_READ)
                tell(started=process_id)


if __name__ == "__main__":  # children of multiprocessing may import this
    gc.freeze()  # else each child touches, and so copies, every object at its end
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of the terminal: the parent ends this process
    task = serve()
    if task is not None:
        run = getattr(importlib.import_module(task["module"]), task["function"])
        run(task["rank"], task["rank_count"], *task["arguments"])
