#!/usr/bin/env python3
"""A transformer, forward and its training step with AdamW, beside PyTorch's, torch.compile's and JAX's, in turns.

    bench/transformer/compare.py PROGRAM [--before PROGRAM] [--threads 2] [--turns 12] [--peers torch,compile,jax]
    bench/transformer/compare.py PROGRAM --gpu tf32

The PROGRAM is transformer/turns.cpp, which CMake builds as bench_transformer_turns. On a CPU the model has six layers of
384 features and 128 tokens, on a GPU it is GPT-2 of 124 million parameters with eight sequences of 1024 tokens.
All processes are there at once and one of them runs at a time; each turn begins with the next of them. What is printed
are medians and least times, in milliseconds, and medians of ratios of the same turn: above 1, ours is faster. First the
losses are compared that training begins with: of all, the logarithm of the vocabulary's extent, nearly.
"""

import argparse
import math
import os
import pathlib
import statistics
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "peers"))
import transformer  # noqa: E402

CALLS = {"step": 4, "forward": 12}   # of a turn


def parsed():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--before", help="the program of another version")
    parser.add_argument("--gpu", choices=["f32", "tf32"], help="GPT-2 on the GPU, with products of this precision")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--turns", type=int, default=12)
    parser.add_argument("--peers", default="torch,compile,jax")
    parser.add_argument("--what", default="step,forward")
    parser.add_argument("--serve", metavar="PEER", help="used by itself: answers requests as the program does")
    return parser.parse_args()


# ---- a peer's process -----------------------------------------------------------------------------------------------


def calls_of(peer, options):
    """{what: a call}, and what waits for a call's result."""
    extents = transformer.GPT2 if options.gpu else transformer.SMALL
    if peer == "jax":
        import jax

        if options.gpu:
            jax.config.update("jax_default_matmul_precision", "tensorfloat32" if options.gpu == "tf32" else "float32")
        make = {what: lambda t=what == "step": transformer.jax_call(t, extents) for what in CALLS}
        return make, jax.block_until_ready
    import torch

    torch.set_num_threads(options.threads)
    torch.set_float32_matmul_precision("high" if options.gpu == "tf32" else "highest")
    wrap, device = torch.compile if peer == "compile" else (lambda f: f), "cuda" if options.gpu else "cpu"
    make = {what: lambda t=what == "step": transformer.torch_call(t, wrap, extents, device) for what in CALLS}
    return make, lambda result: torch.cuda.synchronize() if options.gpu else result


def serve(peer, options):
    make, wait = calls_of(peer, options)
    calls = {}
    for line in sys.stdin:
        what, count = line.split()
        is_loss = what == "loss"
        what = "step" if is_loss else what
        if what not in calls:
            calls[what] = make[what]()
        result = calls[what]()
        wait(result)
        if is_loss:
            print(float(result[0] if isinstance(result, tuple) else result), flush=True)
            continue
        start = time.perf_counter()
        for _ in range(int(count)):
            result = calls[what]()
        wait(result)
        print((time.perf_counter() - start) * 1e3 / int(count), flush=True)


# ---- turns ----------------------------------------------------------------------------------------------------------


def environment(options):
    """For all of them: as many cores as threads, so that none has more than another."""
    if options.gpu:
        return {**os.environ}
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-options.threads :])
    threads = str(options.threads)
    return {**os.environ, "CUDA_VISIBLE_DEVICES": "", "JAX_PLATFORMS": "cpu", "OMP_NUM_THREADS": threads}


class Runner:
    def __init__(self, name, command, surroundings):
        self.name = name
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=surroundings
        )

    def ask(self, what, count=1):
        self.process.stdin.write(f"{what} {count}\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            sys.exit(f"{self.name}: no answer to `{what}`: it ended with status {self.process.wait()}")
        return float(answer)


def runners(options):
    arguments = ["gpu", options.gpu] if options.gpu else ["cpu", str(options.threads)]
    commands = {"ours": [options.program, *arguments]}
    if options.before:
        commands["before"] = [options.before, *arguments]
    for peer in filter(None, options.peers.split(",")):
        shared = ["--threads", str(options.threads), *(["--gpu", options.gpu] if options.gpu else [])]
        commands[peer] = [sys.executable, __file__, options.program, "--serve", peer, *shared]
    surroundings = environment(options)
    return [Runner(name, command, surroundings) for name, command in commands.items()]


def check_losses(all_runners, options):
    expected = math.log((transformer.GPT2 if options.gpu else transformer.SMALL).vocabulary)
    for runner in all_runners:
        loss = runner.ask("loss")
        print(f"{runner.name}: first loss {loss:.4f}", flush=True)
        if abs(loss - expected) > 0.05 * expected:
            sys.exit(f"{runner.name}: the loss should be about {expected:.2f}")


def main():
    options = parsed()
    if options.serve:
        return serve(options.serve, options)
    everyone, whats, times = runners(options), options.what.split(","), {}
    check_losses(everyone, options)
    for what in whats:   # what is compiled at the first call
        for runner in everyone:
            runner.ask(what, CALLS[what])
    for turn in range(options.turns):
        first = turn % len(everyone)
        for what in whats:
            for runner in everyone[first:] + everyone[:first]:
                times.setdefault((what, runner.name), []).append(runner.ask(what, CALLS[what]))
    for what in whats:
        ours = times[what, "ours"]
        for runner in everyone:
            theirs = times[what, runner.name]
            paired = statistics.median(b / a for a, b in zip(ours, theirs))
            print(
                f"{what:8} {runner.name:8} median {statistics.median(theirs):8.2f}  least {min(theirs):8.2f}  "
                f"/ ours: paired {paired:.3f}, of medians {statistics.median(theirs) / statistics.median(ours):.3f}"
            )


if __name__ == "__main__":
    main()
