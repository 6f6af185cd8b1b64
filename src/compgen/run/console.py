"""What a running job says: one line that renews itself on a terminal, plain lines elsewhere, and a log file."""

import sys
import time
from pathlib import Path

SECONDS_BETWEEN_LINES = {True: 0.5, False: 30.0}


def duration(seconds: float) -> str:
    """A duration as people say it: 42s, 3m10s, 2h05m."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02d}s"
    return f"{whole // 3600}h{whole % 3600 // 60:02d}m"


class Console:
    """Progress and messages of one job, on standard output and in log.txt."""

    def __init__(self, name: str, log_file: Path) -> None:
        """Name the job at the start of every line."""
        self._name = name
        self._log_file = log_file
        self._terminal = sys.stdout.isatty()
        self._started = time.monotonic()
        self._first_done: int | None = None
        self._shown_at = self._started
        self._open_line = False

    def say(self, message: str) -> None:
        """Print and log one line."""
        self._end_line()
        print(f"{self._name}: {message}", flush=True)
        self._write(message)

    def progress(self, done: int, total: int, note: str = "") -> None:
        """Tell how far the job is, at most twice a second on a terminal and every 30 seconds elsewhere."""
        now = time.monotonic()
        if self._first_done is None:
            self._first_done, self._started = done, now
        if now - self._shown_at < SECONDS_BETWEEN_LINES[self._terminal]:
            return
        self._shown_at = now
        line = f"{done}/{total}{self._remaining(done, total, now)}{' ' + note if note else ''}"
        if self._terminal:
            print(f"\r\x1b[K{self._name}: {line}", end="", flush=True)
            self._open_line = True
        else:
            print(f"{self._name}: {line}", flush=True)
        self._write(line)

    def _remaining(self, done: int, total: int, now: float) -> str:
        assert self._first_done is not None
        advanced = done - self._first_done
        if advanced <= 0:
            return ""
        return f", about {duration((now - self._started) / advanced * (total - done))} left"

    def _end_line(self) -> None:
        if self._open_line:
            print()
            self._open_line = False

    def _write(self, line: str) -> None:
        with self._log_file.open("a", encoding="utf-8") as log:
            log.write(f"{time.strftime('%H:%M:%S')} {line}\n")
