"""Runs `rlx` and measures it, and collects what was checked."""
import json
import os
import subprocess
import tempfile
import time

SECONDS = 400
"""No file may take longer, also where the command was not optimised."""
REFUSED = 3
"""The exit status for a file that is not read."""


class Answer:
    """How one run of the command ended."""

    def __init__(self, code, out, said, mb, seconds):
        self.code, self.out, self.said, self.mb, self.seconds = code, out, said, mb, seconds

    def json(self):
        return json.loads(self.out)

    def fault(self):
        """Why this is neither an answer nor a refusal; None if it is one of them."""
        if self.code == 0 and not self.said:
            return None
        lines = self.said.splitlines()
        if self.code == REFUSED and lines and lines[0].startswith("error: ") and "panicked" not in self.said:
            return None
        return f"exit status {self.code} after {self.seconds:.1f} s: {self.said.strip()[-300:]}"


def resident_mb(pid):
    """The largest resident memory of a process so far. What the kernel says of a process that has ended is no less than
    what this one had when it began the other."""
    try:
        with open(f"/proc/{pid}/status") as status:
            words = {line.split()[0]: line.split()[1] for line in status if line.startswith("VmHWM")}
        return int(words.get("VmHWM:", 0)) / 1000
    except OSError:
        return 0.0


class Command:
    def __init__(self, path, root):
        self.path, self.root = path, root

    def __call__(self, *args):
        """Runs `rlx` with these arguments, with its largest resident memory in MB."""
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as said:
            begun = time.monotonic()
            child = subprocess.Popen([self.path, *map(str, args)], cwd=self.root, stdout=out, stderr=said)
            most = 0.0
            while True:
                pid, status = os.waitpid(child.pid, os.WNOHANG)
                if pid:
                    break
                most = max(most, resident_mb(child.pid))
                if time.monotonic() - begun > SECONDS:
                    child.kill()
                    _, status = os.waitpid(child.pid, 0)
                    break
                time.sleep(0.005)
            seconds = time.monotonic() - begun
            child.returncode = os.waitstatus_to_exitcode(status)
            texts = []
            for file in (out, said):
                file.seek(0)
                texts.append(file.read().decode("utf-8", "replace"))
        return Answer(child.returncode, *texts, most, seconds)


class Report:
    """Counts checks, and says what failed and what was measured."""

    def __init__(self, only):
        self.only, self.passed, self.failed, self.skipped = only, 0, 0, 0

    def group(self, name, work):
        """Runs a group of checks, unless another is asked for."""
        if self.only in ("", name):
            begun, before = time.monotonic(), self.passed
            work()
            print(f"{name}: {self.passed - before} passed in {time.monotonic() - begun:.0f} s", flush=True)

    def skip(self, what):
        self.skipped += 1
        print(f"skipped: {what}", flush=True)

    def note(self, text):
        print(text, flush=True)

    def check(self, name, fault):
        """Counts a check; `fault` is why it failed, or nothing."""
        if fault:
            self.failed += 1
            print(f"FAILED: {name}: {fault}", flush=True)
        else:
            self.passed += 1

    def end(self):
        print(f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped")
        return 1 if self.failed else 0
