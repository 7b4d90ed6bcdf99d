"""Runs the cases of one framework and says of each how it ended.

The first line names all cases, so that those behind a crash are missed by whoever counts. A case fails by an
exception; a comparison is an `assert` or numpy's own.
"""

import traceback

CASES = []


def case(function):
    """Marks a function as a case, named by its name."""
    CASES.append(function)
    return function


def run():
    """Runs all cases in their order."""
    print("cases", *[function.__name__ for function in CASES], flush=True)
    for function in CASES:
        try:
            function()
        except Exception as error:
            traceback.print_exc()
            first = next(iter(str(error).strip().splitlines()), "")
            print(f"failed {function.__name__}: {type(error).__name__}: {first}", flush=True)
        else:
            print("passed", function.__name__, flush=True)
