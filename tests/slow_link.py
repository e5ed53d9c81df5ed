# SPDX-License-Identifier: Apache-2.0
"""A cable between two network namespaces that is slow and long: for kernels whose `tc` has no netem.

`python -m tests.slow_link A B MEGABITS MILLISECONDS` makes a device in each namespace, called like it, and carries
packets from one to the other, each way at the given rate and delay, until it is killed.
"""

import contextlib
import ctypes
import fcntl
import os
import queue
import struct
import sys
import threading
import time

_NEW_NETWORK, _SET_DEVICE, _PACKETS_ONLY = 0x40000000, 0x400454CA, 0x0001 | 0x1000
_LONGEST_QUEUE = 0.2  # seconds of packets that may wait; what comes beyond is lost, as on a real cable


def device(machine: str) -> int:
    """A new network device in the namespace, held open by the file that is returned."""
    libc = ctypes.CDLL(None, use_errno=True)
    with open(f"/run/netns/{machine}") as namespace:
        if libc.setns(namespace.fileno(), _NEW_NETWORK):
            raise OSError(ctypes.get_errno(), f"cannot enter {machine}")
    end = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(end, _SET_DEVICE, struct.pack("16sH", machine.encode(), _PACKETS_ONLY))
    return end


def carry(source: int, target: int, bits_per_second: float, delay: float) -> None:
    waiting: queue.SimpleQueue[tuple[float, bytes]] = queue.SimpleQueue()

    def deliver() -> None:
        while True:
            due, packet = waiting.get()
            time.sleep(max(0.0, due - time.monotonic()))
            with contextlib.suppress(OSError):  # the other end is down: the packet is lost
                os.write(target, packet)

    threading.Thread(target=deliver, daemon=True).start()
    free = 0.0  # when the cable has sent what was put on it before
    while True:
        try:
            packet = os.read(source, 65536)
        except OSError:  # down
            time.sleep(0.01)
            continue
        now = time.monotonic()
        if free - now < _LONGEST_QUEUE:
            free = max(free, now) + 8 * len(packet) / bits_per_second
            waiting.put((free + delay, packet))


if __name__ == "__main__":
    ends = [device(name) for name in sys.argv[1:3]]
    rate, delay = 1e6 * float(sys.argv[3]), float(sys.argv[4]) / 1000
    for way in (ends, ends[::-1]):
        threading.Thread(target=carry, args=(*way, rate, delay), daemon=True).start()
    print("ready", flush=True)
    threading.Event().wait()
