"""What every workload here does alike: read `--steps`, print one digest.

A workload's standard output is the SHA-256 of the bytes it computed and nothing else,
so two runs did the same work exactly when their outputs are equal. Whatever a library
has to say goes to standard error.
"""

import argparse
import hashlib


def arguments(description, steps):
    """The parser of a workload that takes `steps` steps unless told otherwise."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--steps", type=int, default=steps, help="how often the work is done")
    return parser


def print_digest(*chunks):
    """Prints the digest of byte strings or NumPy arrays, in this order."""
    sha256 = hashlib.sha256()
    for chunk in chunks:
        sha256.update(chunk if isinstance(chunk, bytes) else chunk.tobytes())
    print(sha256.hexdigest(), flush=True)
