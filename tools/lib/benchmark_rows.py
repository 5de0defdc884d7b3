"""Makes rows of files that Google Benchmark has written: those of bench.json, of the table, and of README.md.

A file PROGRAM.ROUND.json holds what one run of a program measured. Rows are named "what/shape/dtype"; their counters
are those of bench/comparison.hpp. Files whose context says `is_peer` hold rows of the same names by another library,
whose name is the label. A ratio is taken within one repetition or, for a peer in another process, within one round; the
median of all is shown.
"""

import collections
import json
import re
import statistics

KEYS = [
    "name",
    "shape",
    "dtype",
    "device",
    "threads",
    "ours",
    "unit",
    "peer",
    "peer_value",
    "ratio",
    "limit",
    "share_of_limit",
    "compile_ms",
    "note",
]
SECONDS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}
DTYPES = {"f64", "f32", "f16", "bf16", "i64", "i32"}
# A counter that is a rate, the unit it is shown in, and that unit in the counter's.
RATES = [
    ("FLOP", "GFLOP/s", 1e9),
    ("bytes_per_second", "GB/s", 1e9),
    ("items_per_second", "Gelem/s", 1e9),
    ("calls", "Mcalls/s", 1e6),
]
# What is measured in bytes has them as a counter, and no time.
SIZE = ("bytes", "MB", 1e6)

# The rows of README.md, as "what shape": some of each kind, those that fall short among them.
IN_README = re.compile(
    r"(exp|tanh|gelu\(a\*x\+b\)\*c\+d) 65536|multiply-add chain 16777216|(softmax|layer_norm) \d+x\d+"
    r"|guarded call, 3 tensors 16|guarded calls of one function 16|recorded op, statement of four 16|fori_loop.* 16"
    r"|compile (x\*y\+z|softmax|linear\+gelu), trace to code |compile 48 layers, blocks found 2x16x128"
    r"|matmul (64x64x64|1024x1024x1024|1x768x3072)|matmul( \+ bias \+ relu)? (512x512x512|128x768x768)"
    r"|batched matmul (12x128x128x64|256x16x16x16)|conv2d (32x64x56x56,64x64x3x3|1x3x32x32,16x3x3x3)"
    r"|attention, causal 1x12x\d+x64|sum over {(1|0,1,2)} 256x256x256|MLP training step \S+"
)

Place = collections.namedtuple("Place", "name shape dtype device threads has_own_threads")


def place_of(run_name, device):
    """Where a row belongs, from its name. `workers:N` are threads of the library, `threads:N` the benchmark's."""
    name, *parts = run_name.split("/")
    shape, dtype, threads, has_own_threads = [], "", 1, False
    for part in parts:
        if re.fullmatch(r"manual_time|real_time|process_time|(min_time|min_warmup_time|repeats|iterations):.*", part):
            continue
        if match := re.fullmatch(r"(threads|workers):(\d+)", part):
            threads, has_own_threads = int(match[2]), match[1] == "threads"
        elif part in DTYPES:
            dtype = part
        else:
            shape.append(part)
    return Place(name, "/".join(shape), dtype, device, threads, has_own_threads)


def seconds_of(entry):
    return entry["real_time"] * SECONDS[entry["time_unit"]]


class Measured:
    """All that was measured of one row: repetitions by round, and the repetitions of peers in other processes."""

    def __init__(self):
        self.rounds = collections.defaultdict(list)
        self.peers = collections.defaultdict(lambda: collections.defaultdict(list))
        self.note = None

    def entries(self):
        return [entry for entries in self.rounds.values() for entry in entries]

    def counter(self, name):
        values = [entry[name] for entry in self.entries() if name in entry]
        return statistics.median(values) if values else None

    def peer_in_process(self):
        """Name, seconds and ratio; None where the row has no such peer."""
        entries = self.entries()
        if not entries or "ratio" not in entries[0]:
            return None
        return entries[0].get("label", ""), self.counter("peer_seconds"), self.counter("ratio")

    def peer_of_rounds(self, name, rounds):
        """The same for seconds of another process, or of another row."""
        ratios = [
            statistics.median(rounds[i]) / statistics.median(map(seconds_of, entries))
            for i, entries in self.rounds.items()
            if rounds.get(i)
        ]
        if not ratios:
            return None
        seconds = statistics.median(value for values in rounds.values() for value in values)
        return name, seconds, statistics.median(ratios)


def read_files(folder):
    """Rows by place, in the order in which they were measured, and the contexts of the files."""
    found, contexts, peer_entries = {}, [], []
    for path in sorted(folder.glob("*.json"), key=lambda p: p.stat().st_mtime_ns):
        try:
            data = json.loads(path.read_text())
        except json.JSONDecodeError:
            print(f"{path}: left out, for it is not whole: the program had no rows, or did not end")
            continue
        contexts.append(data["context"])
        device = data["context"].get("device", "cpu")
        match = re.fullmatch(r".*\.(\d+)\.json", path.name)
        for entry in data["benchmarks"]:
            if entry.get("run_type", "iteration") != "iteration":
                continue
            place = place_of(entry.get("run_name", entry["name"]), device)
            if "is_peer" in data["context"]:
                peer_entries.append((place, int(match[1]) if match else 0, entry))
                continue
            measured = found.setdefault(place, Measured())
            if entry.get("error_occurred"):
                measured.note = entry["error_message"]
            else:
                measured.rounds[int(match[1]) if match else 0].append(entry)
    for place, number, entry in peer_entries:
        if place not in found:
            continue
        if entry.get("error_occurred"):
            found[place].note = f"{entry.get('label') or 'a peer'}: {entry['error_message']}"
        else:
            found[place].peers[entry["label"]][number].append(seconds_of(entry))
    return found, contexts


def unit_of(measured, device):
    """The counter that a row shows (None: its time), the unit, and the unit's size."""
    entry = measured.entries()[0]
    for counter, unit, size in [*RATES, SIZE]:
        if counter in entry:
            return (counter, "TFLOP/s", 1e12) if counter == "FLOP" and device == "cuda" else (counter, unit, size)
    return None, entry["time_unit"], SECONDS[entry["time_unit"]]


def rounded(value):
    return None if value is None else float(f"{value:.6g}")


def rows_of_place(place, measured, one_thread):
    """One row for each peer, or one without."""
    row = dict.fromkeys(KEYS)
    row.update(
        name=place.name,
        shape=place.shape,
        dtype=place.dtype,
        device=place.device,
        threads=place.threads,
        note=measured.note,
    )
    if not measured.entries():
        return [row]
    counter, unit, size = unit_of(measured, place.device)
    seconds = statistics.median(map(seconds_of, measured.entries()))
    figure = measured.counter(counter) if counter else seconds
    limit = measured.counter("limit")
    row.update(ours=rounded(figure / size), unit=unit, compile_ms=rounded(measured.counter("compile_ms")))
    if limit:
        row.update(limit=rounded(limit / size), share_of_limit=rounded(figure / limit))
    peers = [measured.peer_in_process()]
    peers += [measured.peer_of_rounds(name, rounds) for name, rounds in sorted(measured.peers.items())]
    if one_thread:
        rounds = {i: [*map(seconds_of, entries)] for i, entries in one_thread.rounds.items()}
        peers.append(measured.peer_of_rounds("one thread", rounds))
    rows = []
    for name, peer_seconds, ratio in filter(None, peers):
        # The same work in the peer's time.
        peer_figure = figure * seconds / peer_seconds if counter else peer_seconds
        rows.append({**row, "peer": name, "peer_value": rounded(peer_figure / size), "ratio": rounded(ratio)})
    return rows or [row]


def rows_of_folder(folder):
    """The rows of bench.json, and the contexts of what was read."""
    found, contexts = read_files(folder)
    rows = []
    for place, measured in found.items():
        alone = found.get(place._replace(threads=1)) if place.has_own_threads and place.threads > 1 else None
        rows += rows_of_place(place, measured, alone)
    return rows, contexts


def text_of(rows):
    """bench.json: a list with a row in each line."""
    return "[\n" + ",\n".join("  " + json.dumps(row) for row in rows) + "\n]\n"


def shown(value):
    if value is None:
        return "-"
    if not isinstance(value, float):
        return str(value)
    return f"{value:.0f}" if abs(value) >= 1e4 else f"{value:.4g}"


def print_table(rows):
    heads = [key for key in KEYS if key not in ("device", "note")]
    lines = [heads]
    for row in rows:
        cells = [shown(row[head]) for head in heads]
        if row["ours"] is None:
            cells[heads.index("ours")] = row["note"] or "-"
        lines.append(cells)
    widths = [max(len(line[i]) for line in lines) for i in range(len(heads))]
    for line in lines:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip())


def machine_text(contexts):
    """Where the figures come from, as a sentence."""
    known = {}
    for context in contexts:
        known.update(context)
    parts = [f"Measured on {known.get('processor', 'an unnamed processor')} ({known.get('num_cpus', '?')} cores)"]
    if "compiler" in known:
        parts.append(f"built with {known['compiler']}")
    parts += [f"{peer} {known[peer]}" for peer in ("Eigen", "oneDNN", "OpenBLAS", "PyTorch", "JAX") if peer in known]
    return ", ".join(parts) + "."


def markdown(rows, contexts):
    """A table with one line for each row and all its peers in it, and where it comes from."""
    lines = [
        "| what | shape | threads | ours | peers, and ours against them | limit or target |",
        "|---|---|---|---|---|---|",
    ]
    grouped = {}
    for row in rows:
        grouped.setdefault((row["name"], row["shape"], row["dtype"], row["threads"]), []).append(row)
    for same in grouped.values():
        row = same[0]
        peers = ", ".join(f"{r['peer']} {shown(r['peer_value'])} ({r['ratio']:.2f})" for r in same if r["peer"])
        ours = f"{shown(row['ours'])} {row['unit']}" if row["ours"] is not None else row["note"]
        limit = shown(row["limit"]) if row["limit"] else ""
        lines.append(f"| {row['name']} | {row['shape']} | {row['threads']} | {ours} | {peers} | {limit} |")
    return "\n".join([*lines, "", machine_text(contexts)])


def update_documents(project, rows, contexts):
    """The tables of the CPU: all rows in docs/performance.md, some of them in README.md."""
    on_cpu = [row for row in rows if row["device"] == "cpu"]
    chosen = [row for row in on_cpu if IN_README.fullmatch(f"{row['name']} {row['shape']}")]
    replace_between_marks(project / "README.md", markdown(chosen, contexts))
    replace_between_marks(project / "docs/performance.md", markdown(on_cpu, contexts))


def replace_between_marks(path, text):
    """Puts the text between the lines <!-- bench --> and <!-- /bench -->."""
    old = path.read_text()
    new, count = re.subn(
        r"(<!-- bench -->\n).*?(<!-- /bench -->)", lambda m: m[1] + text + "\n" + m[2], old, flags=re.DOTALL
    )
    if count == 0:
        raise SystemExit(f"{path} has no lines <!-- bench --> and <!-- /bench -->")
    path.write_text(new)
