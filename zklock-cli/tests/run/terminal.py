"""Types into a shell in a terminal of its own, and prints what the terminal shows.

usage: terminal.py WAIT TEXT [WAIT TEXT …]: waits until WAIT is shown, then types TEXT.
"""
import os
import pty
import select
import signal
import sys
import time

pid, terminal = pty.fork()
if pid == 0:
    # Whoever runs this may ignore them, and a shell keeps that for what it starts.
    for one in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
        signal.signal(one, signal.SIG_DFL)
    os.environ["PS1"] = "ready> "
    os.execvp("bash", ["bash", "--norc", "--noprofile", "-i"])
shown, from_here, end = "", 0, time.monotonic() + 60
steps = list(zip(sys.argv[1::2], sys.argv[2::2]))
while True:
    if steps and (found := shown.find(steps[0][0], from_here)) >= 0:
        wanted, text = steps.pop(0)
        from_here = found + len(wanted)
        os.write(terminal, text.encode().decode("unicode_escape").encode())
        continue
    if time.monotonic() > end:
        sys.exit(f"not shown: {steps}\n{shown}")
    if select.select([terminal], [], [], 0.1)[0]:
        try:
            shown += os.read(terminal, 4096).decode(errors="replace")
        except OSError:
            break
os.waitpid(pid, 0)
print(shown)
sys.exit(f"not shown: {steps}" if steps else 0)
