#!/usr/bin/env python3
"""The same training step in PyTorch (eager and torch.compile, channels_last) and in the engine, in turns on the CPU.

    python3 -m venv DIR && DIR/bin/pip install torch torchvision
    DIR/bin/python bench/compare_pytorch.py --rounds 3

Forward, cross entropy, backward and SGD with momentum 0.9 and weight decay 1e-4, on one random batch in memory, in FP32
or, with --precision bf16, under torch.autocast with BF16 and in the engine's BF16. Each measurement is a process of its
own; the sides take turns in every round. Prints medians, lowest and highest, the ratio against the faster of PyTorch's
two, peak memory, and how busy everybody else kept the machine: on a busy one the figures mean nothing.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
BUSY_WARNING = 0.03  # share of all cores that others may use before the report warns


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="resnet50", help="a ResNet by torchvision's name")
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--precision", choices=["fp32", "bf16"], default="fp32", help="of both sides")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=5, help="timed steps a round")
    parser.add_argument("--warmup", type=int, default=2, help="steps before them")
    parser.add_argument("--sides", default="eager,compile,engine", help="which, in this order (default: %(default)s)")
    parser.add_argument("--cpus", help="CPU list for taskset, such as 0,1")
    parser.add_argument("--binary", type=pathlib.Path, default=ROOT / "build/release/bin/bench_train_step")
    parser.add_argument("--json", type=pathlib.Path, help="also write everything measured to this file")
    parser.add_argument(
        "--profile", action="store_true", help="instead show where PyTorch's eager step spends its time"
    )
    parser.add_argument("--worker", choices=["eager", "compile", "profile"], help=argparse.SUPPRESS)
    return parser.parse_args()


# The PyTorch side, in a process of its own.


def make_step(options, compiled):
    import torch
    import torchvision

    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    model = torchvision.models.get_model(options.model).to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4)
    images = torch.randn(options.batch, 3, options.size, options.size).to(memory_format=torch.channels_last)
    labels = torch.randint(0, 1000, (options.batch,))
    forward = torch.compile(model) if compiled else model

    def step():
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=options.precision == "bf16"):
            loss = torch.nn.functional.cross_entropy(forward(images), labels)
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


def run_worker(options):
    if options.worker == "profile":
        print(json.dumps({"kinds": profile(options)}))
        return
    step = make_step(options, options.worker == "compile")
    for _ in range(options.warmup):
        step()
    seconds = []
    for _ in range(options.steps):
        start = time.perf_counter()
        step()
        seconds.append(time.perf_counter() - start)
    print(json.dumps({"images_per_second": options.batch / statistics.median(seconds), "step_seconds": seconds}))


def profile(options):
    """Seconds of the step's own time by kind of operation."""
    import torch

    step = make_step(options, False)
    for _ in range(options.warmup):
        step()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
        for _ in range(options.steps):
            step()
    kinds = {}
    for event in profiler.key_averages():
        kind = next((name for name, part in PROFILE_KINDS if part in event.key), "other")
        kinds[kind] = kinds.get(kind, 0.0) + event.self_cpu_time_total / 1e6 / options.steps
    return kinds


PROFILE_KINDS = [
    ("convolution backward", "convolution_backward"),
    ("convolution forward", "convolution"),
    ("batch norm backward", "batch_norm_backward"),
    ("batch norm forward", "batch_norm"),
    ("relu backward", "threshold_backward"),
    ("relu forward", "clamp_min"),
    ("max pool", "max_pool"),
    ("linear", "mm"),
    ("adds: shortcuts, optimizer", "aten::add"),
    ("multiply: optimizer", "aten::mul"),
]


# The engine's side: adapt these two functions where its benchmark changes.


def engine_command(options):
    """Google Benchmark, one step a repetition; it prints one row each."""
    return [
        str(options.binary),
        f"--benchmark_filter=^train_step/{options.model}/size:{options.size}/batch:{options.batch}(/|$)",
        f"--benchmark_repetitions={options.warmup + options.steps}",
        f"--precision={options.precision}",
        "--benchmark_min_time=0.001",
        "--benchmark_format=json",
    ]


def engine_result(stdout, options):
    rows = [row for row in json.loads(stdout)["benchmarks"] if row.get("run_type", "iteration") == "iteration"]
    rates = [row["images_per_second"] for row in rows][options.warmup :]
    if len(rates) != options.steps:
        sys.exit(f"expected {options.steps} steps, got {len(rates)}, from {' '.join(engine_command(options))}")
    return {
        "images_per_second": statistics.median(rates),
        "step_seconds": [options.batch / rate for rate in rates],
        "engine_peak_bytes": max(row.get("peak_memory_bytes", 0) for row in rows),
    }


# Measuring.


def busy_seconds():
    """CPU seconds that all processes have used since the machine started, and those stolen by the host."""
    with open("/proc/stat") as file:
        user, nice, system, _, _, irq, soft, steal = (int(v) for v in file.readline().split()[1:9])
    tick = os.sysconf("SC_CLK_TCK")
    return (user + nice + system + irq + soft) / tick, steal / tick


def environment(options):
    threads = str(options.threads)
    return {**os.environ, "OMP_NUM_THREADS": threads, "MKL_NUM_THREADS": threads}


def measure(side, options):
    command = (
        engine_command(options) if side == "engine" else [sys.executable, __file__, *sys.argv[1:], "--worker", side]
    )
    if options.cpus:
        command = ["taskset", "-c", options.cpus, *command]
    (busy, stolen), own, start = busy_seconds(), time.process_time(), time.monotonic()
    with tempfile.TemporaryFile("w+") as out:
        process = subprocess.Popen(command, stdout=out, env=environment(options))
        _, status, usage = os.wait4(process.pid, 0)
        if status:
            sys.exit(f"{side} failed: {' '.join(command)}")
        out.seek(0)
        text = out.read()
    seconds = time.monotonic() - start
    busy_after, stolen_after = busy_seconds()
    used = usage.ru_utime + usage.ru_stime + time.process_time() - own
    result = engine_result(text, options) if side == "engine" else json.loads(text.splitlines()[-1])
    share = seconds * os.cpu_count()
    return {
        **result,
        "side": side,
        "peak_memory_bytes": usage.ru_maxrss * 1024,
        "seconds": seconds,
        "others_share": max(0.0, busy_after - busy - used) / share,
        "stolen_share": (stolen_after - stolen) / share,
    }


def report(rows, options):
    sides = list(dict.fromkeys(row["side"] for row in rows))
    speeds = {side: [r["images_per_second"] for r in rows if r["side"] == side] for side in sides}
    memory = {side: max(r["peak_memory_bytes"] for r in rows if r["side"] == side) for side in sides}
    precision = options.precision.upper()
    picture = f"{options.size}x{options.size}, batch {options.batch}"
    print(f"\n{options.model}, {picture}, {precision}, {options.threads} threads")
    for side in sides:
        low, high = min(speeds[side]), max(speeds[side])
        middle = statistics.median(speeds[side])
        print(f"{side:8s} {middle:8.2f} images/s ({low:.2f} to {high:.2f})  peak {memory[side] / 1e9:.2f} GB")
    peers = [side for side in sides if side != "engine"]
    if "engine" in sides and peers:
        best = max(peers, key=lambda side: statistics.median(speeds[side]))
        ratios = [a / b for a, b in zip(speeds["engine"], speeds[best])]
        ratio = statistics.median(speeds["engine"]) / statistics.median(speeds[best])
        print(f"engine against {best}: {ratio:.2f} times ({min(ratios):.2f} to {max(ratios):.2f} by round)", end="")
        print(f", {memory['engine'] / memory['eager']:.2f} of eager's memory" if "eager" in memory else "")
    others, stolen = (max(row[key] for row in rows) for key in ("others_share", "stolen_share"))
    print(
        f"others used up to {100 * others:.1f} % of all cores during a measurement, the host took {100 * stolen:.1f} %"
    )
    if max(others, stolen) > BUSY_WARNING:
        print("\n*** WARNING: the machine was BUSY. These figures do not count; measure again on an idle one. ***")


def main():
    options = parse_arguments()
    if options.worker:
        run_worker(options)
        return
    if options.profile:
        kinds = measure("profile", options)["kinds"]
        for kind, seconds in sorted(kinds.items(), key=lambda item: -item[1]):
            print(f"{kind:22s} {seconds:7.3f} s a step  {100 * seconds / sum(kinds.values()):5.1f} %")
        return
    rows = []
    for turn in range(options.rounds):
        for side in options.sides.split(","):
            rows.append({"round": turn, **measure(side, options)})
            row = rows[-1]
            figures = f"{row['images_per_second']:8.2f} images/s  peak {row['peak_memory_bytes'] / 1e9:.2f} GB"
            others = f"others {100 * row['others_share']:.1f} %, took {row['seconds']:.0f} s"
            print(f"round {turn + 1} {side:8s} {figures}  {others}", flush=True)
    report(rows, options)
    if options.json:
        settings = {k: str(v) for k, v in vars(options).items() if k != "json"}
        options.json.write_text(json.dumps({"settings": settings, "measurements": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
