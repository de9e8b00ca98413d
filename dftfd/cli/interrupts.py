"""Ctrl-C ends a command within seconds, whatever compiled code is at work.

Python raises KeyboardInterrupt between two of its own steps, so a long call into compiled code would hold it up. A
thread that the signal wakes at once gives the command some seconds to end by itself and then ends the process. Nothing
is lost by that: what a run has to go on from is on the disk after every cycle, and files are replaced whole.
"""

import os
import signal
import socket
import sys
import threading

from dftfd.runtime.files import unfinished

INTERRUPTED = 130
GRACE = 3.0
"""Seconds that a command has to end by itself."""

AGAIN = 0.02
"""Seconds after which an interrupt that was lost is repeated."""


class InterruptWatch:
    """A `with` statement around a command.

    checkpoint: that of the run, a results.checkpoint.Checkpoint, or None.   interrupted: whether Ctrl-C was heard.
    Records and paths that are being written name themselves (runtime.files.unfinished).
    """

    def __init__(self, grace: float = GRACE):
        self.checkpoint, self.interrupted = None, False
        unfinished.clear()
        self._grace, self._ended = grace, threading.Event()

    @property
    def message(self) -> str:
        """What is said of the interruption."""
        for path, how in [*unfinished.items()]:
            if os.path.exists(path):
                return f"interrupted; finished work is in {path}, continue with the same command{how}"
        if self.checkpoint is None or not self.checkpoint.written:
            return "interrupted"
        return f"interrupted; the last cycle is saved, continue with --restart {self.checkpoint.path}"

    def __enter__(self):
        ours = (signal.SIG_DFL, signal.default_int_handler)  # not a program's own, and not where it is ignored
        self._before = signal.getsignal(signal.SIGINT)
        self._in_use = threading.current_thread() is threading.main_thread() and self._before in ours
        if self._in_use:
            self._wake, self._signalled = socket.socketpair()
            self._signalled.setblocking(False)
            threading.Thread(target=self._watch, daemon=True, name="dftfd-interrupt").start()
            self._fd_before = signal.set_wakeup_fd(self._signalled.fileno(), warn_on_full_buffer=False)
            signal.signal(signal.SIGINT, self._interrupt)
            self._hook_before, sys.unraisablehook = sys.unraisablehook, self._say_again
        return self

    def __exit__(self, *error):
        if self._in_use:
            # where the process is the command, all is said and done: what is left is the end of Python
            done = self._before is signal.SIG_DFL
            signal.signal(signal.SIGINT, signal.SIG_IGN if done else self._before)
            signal.set_wakeup_fd(self._fd_before)
            sys.unraisablehook = self._hook_before
            self._ended.set()
            self._signalled.close()

    def _interrupt(self, number, frame):
        self.interrupted = True
        raise KeyboardInterrupt

    def _say_again(self, unraisable):
        """An interrupt in a callback that cannot raise, such as one of the garbage collector, comes once more."""
        if unraisable.exc_type is KeyboardInterrupt:
            main = threading.main_thread().ident
            threading.Timer(AGAIN, signal.pthread_kill, [main, signal.SIGINT]).start()
        else:
            self._hook_before(unraisable)

    def _watch(self):
        with self._wake:
            while (signals := self._wake.recv(64)) and signal.SIGINT not in signals:
                pass
            if signals and not self._ended.wait(self._grace):
                os.write(2, f"dftfd: error: {self.message}\n".encode())
                os._exit(INTERRUPTED)
