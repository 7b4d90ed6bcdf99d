"""The scheduler of apex, from Python, by ctypes.

Under ``apex run`` the functions are found in the running process; elsewhere each does nothing and answers
False, and what would be a number is a NaN. What each thing means stands in ``include/apex.h``.

    from apex import scheduler
    scheduler.enable()
    scheduler.configure(latency_critical_threshold_ms=10.0)
    print(scheduler.metrics().avg_queue_wait_ms)
"""

import ctypes
from dataclasses import dataclass

ERROR, WARNING, INFO, DEBUG = range(4)


class _Config(ctypes.Structure):
    _fields_ = [
        ("latency_critical_threshold_ms", ctypes.c_float),
        ("throughput_optimization", ctypes.c_int),
        ("enable_preemption", ctypes.c_int),
    ]


class _Metrics(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_uint64),
        ("avg_queue_wait_ms", ctypes.c_double),
        ("sm_utilization_percent", ctypes.c_double),
        ("prediction_accuracy", ctypes.c_double),
        ("launches", ctypes.c_uint64),
        ("holds", ctypes.c_uint64),
        ("waited_ns", ctypes.c_uint64),
        ("admitted_ns", ctypes.c_uint64),
        ("in_flight_ns", ctypes.c_uint64),
        ("bursts", ctypes.c_uint64),
    ]


@dataclass(frozen=True)
class Metrics:
    """What is known of this program; a NaN where it is not."""

    avg_queue_wait_ms: float
    sm_utilization_percent: float
    prediction_accuracy: float
    launches: int
    holds: int
    waited_ns: int
    admitted_ns: int
    in_flight_ns: int
    bursts: int
    active: bool


def _find(name, result, *arguments):
    try:
        function = getattr(ctypes.CDLL(None), name)
    except AttributeError:
        return None
    function.restype, function.argtypes = result, list(arguments)
    return function


def active() -> bool:
    """Whether apex is in this process and switched on."""
    function = _find("apex_active", ctypes.c_int)
    return bool(function and function())


def enable(on: bool = True) -> bool:
    """Takes part in scheduling from the next launch on, or no longer; answers whether it takes part."""
    function = _find("apex_enable_scheduling", ctypes.c_int, ctypes.c_int)
    return bool(function and function(int(on)))


def configure(
    latency_critical_threshold_ms: float = 0.0,
    throughput_optimization: bool = True,
    enable_preemption: bool = False,
) -> str:
    """Says what the program wants; answers a sentence about what it cannot have, or an empty one."""
    function = _find("apex_configure", ctypes.c_int, ctypes.POINTER(_Config))
    reason = _find("apex_reason", ctypes.c_char_p, ctypes.c_int)
    if not function or not reason:
        return ""
    config = _Config(latency_critical_threshold_ms, int(throughput_optimization), int(enable_preemption))
    return reason(function(ctypes.byref(config))).decode()


def metrics() -> Metrics:
    """What is known of this program."""
    nan = float("nan")
    plain = _Metrics(ctypes.sizeof(_Metrics), nan, nan, nan, 0, 0, 0, 0, 0, 0)
    function = _find("apex_fill_metrics", ctypes.c_int, ctypes.POINTER(_Metrics))
    takes_part = bool(function and function(ctypes.byref(plain)))
    return Metrics(*(getattr(plain, name) for name, _ in _Metrics._fields_[1:]), takes_part)


def log_level(level: int) -> None:
    """How much apex says on standard error: ERROR, WARNING, INFO or DEBUG."""
    function = _find("apex_set_log_level", None, ctypes.c_int)
    if function:
        function(level)


def profile(on: bool = True) -> bool:
    """Times launches, or not; answers whether this program is recorded."""
    function = _find("apex_enable_profiling", ctypes.c_int, ctypes.c_int)
    return bool(function and function(int(on)))
