"""Writes every few milliseconds that it lives, into a file that many share.

usage: child.py FILE WHO MILLISECONDS CODE DONE WAYS: lives for so long, and as long as there is no file
DONE if it is `patient`; `deaf` to SIGTERM; with another process that lives for a while longer if it
`forks`: one of its group, or of a group of its own where MILLISECONDS is odd.
"""
import os
import signal
import sys
import time

file, who, life, code, done, ways = sys.argv[1:]
out = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)


def say(what):
    os.write(out, f"{who} {os.getpid()} {what} {time.monotonic_ns()}\n".encode())


def live(milliseconds, patient):
    end = time.monotonic() + milliseconds / 1000
    while time.monotonic() < end or (patient and not os.path.exists(done)):
        say("lives")
        time.sleep(0.004)


if "deaf" in ways:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
say("lives")
patient = "patient" in ways
if "forks" in ways and os.fork() == 0:
    if int(life) % 2:
        os.setpgid(0, 0)
    live(1.5 * int(life), patient)
    os._exit(0)
live(int(life), patient)
say("ends")
os._exit(int(code))
