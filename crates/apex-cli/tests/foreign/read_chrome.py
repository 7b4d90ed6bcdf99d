"""Checks an export of the made-up program against a JSON schema of Chrome's trace events."""

import json
import sys

import jsonschema

number = {"type": "number", "minimum": 0}
common = {"name": {"type": "string"}, "pid": {"type": "integer"}, "tid": {"type": "integer"}}


def event(phase, **properties):
    required = ["ph", *common, *properties]
    return {
        "type": "object",
        "properties": {"ph": {"const": phase}, **common, **properties},
        "required": [name for name in required if name != "cat"],
    }


SCHEMA = {
    "type": "object",
    "required": ["traceEvents", "displayTimeUnit"],
    "properties": {
        "displayTimeUnit": {"enum": ["ms", "ns"]},
        "otherData": {"type": "object"},
        "traceEvents": {
            "type": "array",
            "items": {
                "oneOf": [
                    event("X", ts=number, dur=number, cat={"type": "string"}, args={"type": "object"}),
                    event("M", args={"type": "object", "required": ["name"]}),
                    event("C", ts=number, args={"type": "object", "additionalProperties": number}),
                ]
            },
        },
    },
}

with open(sys.argv[1], encoding="utf-8") as file:
    trace = json.load(file)
jsonschema.Draft202012Validator.check_schema(SCHEMA)
jsonschema.validate(trace, SCHEMA)

events = trace["traceEvents"]
by_phase = {phase: [one for one in events if one["ph"] == phase] for phase in "XMC"}
assert len(by_phase["X"]) == 26 + 11, len(by_phase["X"])
assert sum(one["cat"] == "gpu" for one in by_phase["X"]) == 11
assert [one["args"]["bytes"] for one in by_phase["C"]] == [1 << 20, 0]
names = {(one["pid"], one["tid"]) for one in by_phase["M"] if one["name"] == "thread_name"}
assert all((one["pid"], one["tid"]) in names for one in by_phase["X"])
