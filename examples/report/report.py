"""Reports how many steps a second a program makes: python3 report.py

An application needs the function report alone. docs/report.md says what becomes of the values.
"""

import os
import sys
import time


def report(name, value, unit="1"):
    """Appends one line, in one write: lines of several processes do not mix. Without the variable it does nothing."""
    path = os.environ.get("WEIR_REPORT_FILE")
    if not path:
        return
    try:
        with open(path, "ab", buffering=0) as file:
            file.write(f"{name} {float(value)!r} {unit}\n".encode())
    except OSError as error:  # a job goes on, whether somebody measures it or not
        print(f"the report of {name} was not written: {error}", file=sys.stderr)


seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 10
start = last = time.monotonic()
steps = 0
while time.monotonic() - start < seconds:
    time.sleep(0.001)  # what the application does in a step
    steps += 1
    now = time.monotonic()
    if now - last >= 0.2:
        report("python_steps_per_second", steps / (now - last), "1/s")
        steps, last = 0, now
