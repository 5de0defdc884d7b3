"""How much of the communication of rank 0 runs beside kernels: overlap.py TRACE.json, a timeline of three steps."""

import json
import sys


def union(spans):
    merged = []
    for begin, end in sorted(spans):
        if merged and begin <= merged[-1][1]:
            merged[-1][1] = max(merged[-1][1], end)
        else:
            merged.append([begin, end])
    return merged


def length(spans):
    return sum(end - begin for begin, end in spans)


def main():
    with open(sys.argv[1]) as file:
        content = json.load(file)
    events = content["traceEvents"] if isinstance(content, dict) else content
    names = {e["tid"]: e["args"]["name"] for e in events if e.get("ph") == "M" and e.get("name") == "thread_name"}
    communication, kernels = [], []
    for event in events:
        if event.get("ph") != "X":
            continue
        track = names.get(event["tid"], "")
        span = (event["ts"], event["ts"] + event["dur"])
        if track == "cuda:0 communication":
            communication.append(span)
        elif track.startswith("cuda:0 stream") and "collective" not in event["name"]:
            kernels.append(span)
    if not communication:
        print("overlap: the timeline has no communication of cuda:0")
        return
    both = length(union(communication)) + length(union(kernels)) - length(union(communication + kernels))
    total = length(union(communication))
    print(
        f"overlap: {len(communication)} collectives in three steps take {total / 3e3:.2f} ms a step, "
        f"{both / total:.1%} of that beside kernels; kernels take {length(union(kernels)) / 3e3:.2f} ms a step"
    )


main()
