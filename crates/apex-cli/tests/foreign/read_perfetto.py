"""Decodes an export of the made-up program with Perfetto's own descriptors and checks it.

Descriptors: the module perfetto_trace_pb2 of the package `perfetto`.
"""

import sys

from google.protobuf import unknown_fields
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as perfetto


def check_known(message):
    """Every field of the message, at any depth, has a name in the descriptors."""
    strange = unknown_fields.UnknownFieldSet(message)
    assert len(strange) == 0, (message.DESCRIPTOR.full_name, [field.field_number for field in strange])
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        for child in value if not hasattr(value, "ListFields") else [value]:
            check_known(child)


trace = perfetto.Trace()
with open(sys.argv[1], "rb") as file:
    trace.ParseFromString(file.read())
check_known(trace)
assert trace.packet[0].HasField("clock_snapshot")
clocks = {clock.clock_id: clock.timestamp for clock in trace.packet[0].clock_snapshot.clocks}
assert clocks[6] == 0 and clocks[1] > 10**18, clocks

tracks, names, open_slices, slices, counters = {}, {}, {}, [], []
for packet in trace.packet:
    assert packet.trusted_packet_sequence_id == 1
    for interned in packet.interned_data.event_names:
        names[interned.iid] = interned.name
    if packet.HasField("track_descriptor"):
        tracks[packet.track_descriptor.uuid] = packet.track_descriptor
    if not packet.HasField("track_event"):
        continue
    event = packet.track_event
    assert event.track_uuid in tracks, event
    if event.type == perfetto.TrackEvent.TYPE_SLICE_BEGIN:
        open_slices.setdefault(event.track_uuid, []).append((names[event.name_iid], packet.timestamp))
    elif event.type == perfetto.TrackEvent.TYPE_SLICE_END:
        name, start = open_slices[event.track_uuid].pop()
        assert packet.timestamp >= start
        slices.append((event.track_uuid, name, start, packet.timestamp))
    elif event.type == perfetto.TrackEvent.TYPE_COUNTER:
        counters.append(event.counter_value)
assert not any(open_slices.values()), open_slices

process = [track for track in tracks.values() if track.HasField("process")]
assert len(process) == 1 and process[0].process.process_name == "train", process
assert list(process[0].process.cmdline) == ["train", "--fast"]
threads = [track for track in tracks.values() if track.HasField("thread")]
assert [track.thread.tid for track in threads] == [77], threads
streams = [track for track in tracks.values() if track.name.startswith("GPU 0")]
assert len(streams) == 1 and streams[0].parent_uuid == process[0].uuid, streams
memory = [track for track in tracks.values() if track.HasField("counter")]
assert memory[0].counter.unit == perfetto.CounterDescriptor.UNIT_SIZE_BYTES

calls = [one for one in slices if one[0] == threads[0].uuid]
kernels = [one for one in slices if one[0] == streams[0].uuid]
assert len(calls) == 26, len(calls)
assert sum(name == "cuLaunchKernel" for _, name, _, _ in calls) == 12
assert len(kernels) == 11 and {name for _, name, _, _ in kernels} == {"saxpy", "gemm"}, kernels
kernels.sort(key=lambda one: one[2])
for before, after in zip(kernels, kernels[1:]):
    assert before[3] <= after[2], "slices of one stream overlap"
assert counters == [1 << 20, 0], counters
