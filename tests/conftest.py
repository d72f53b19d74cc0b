"""What all tests share."""

import os
import signal

from hypothesis import settings

# A shell's background job ignores Ctrl-C, and so would every process that a test stops by it.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Deadlines would test the machine; CI repeats the same examples every time.
settings.register_profile("local", deadline=None, max_examples=40)
settings.register_profile("ci", deadline=None, max_examples=40, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "local")
