#!/usr/bin/env python3
"""The same training step in PyTorch and in the engine on one GPU: channels_last, automatic mixed precision.

    python3 bench/compare_pytorch_cuda.py --binary build/cuda/bin/bench_train_step

Forward, cross entropy, backward and SGD with momentum 0.9 and weight decay 1e-4, on one random batch in the card's
memory; FP16 with loss scaling. PyTorch runs four ways: eager, the whole step as a CUDA graph, torch.compile, and
torch.compile with its own CUDA graphs. Each side is a process of its own; the engine is measured before and after
PyTorch. Times are those of events on the device around many steps, after a warm-up. Prints images a second and the
engine against the best of PyTorch.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
MODES = ["eager", "graph", "compile", "compile+graph"]
# model, picture, batch, precision, wanted ratio, against which mode
CASES = [
    ("resnet50", 224, 256, "fp16", 1.3, "best"),
    ("resnet50", 224, 256, "bf16", 1.3, "best"),
    ("simplecnn", 28, 64, "fp32", 5.0, "eager"),
]


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", type=pathlib.Path, default=ROOT / "build/cuda/bin/bench_train_step")
    parser.add_argument("--library-path", default=os.environ.get("LD_LIBRARY_PATH", ""), help="for the binary alone")
    parser.add_argument("--only", default="", help="cases whose name holds this, such as bf16")
    parser.add_argument("--modes", default=",".join(MODES), help="PyTorch's (default: %(default)s)")
    parser.add_argument("--warmup", type=int, default=15, help="steps before the timed ones")
    parser.add_argument("--steps", type=int, default=60, help="timed steps")
    parser.add_argument("--timeout", type=int, default=100, help="seconds for one side of a case")
    parser.add_argument("--json", type=pathlib.Path, help="also write everything measured to this file")
    parser.add_argument("--table", type=pathlib.Path, help="also write: what, found and wanted, by tabs")
    parser.add_argument("--device", default="cuda", help="cpu tries this script out without a GPU")
    parser.add_argument("--batch", type=int, help="in place of the cases' own")
    parser.add_argument("--worker", nargs=5, help=argparse.SUPPRESS)
    return parser.parse_args()


# PyTorch's side, in a process of its own.


def make_model(name):
    import torch
    import torchvision

    if name == "simplecnn":
        layers = torch.nn
        return layers.Sequential(
            layers.Conv2d(1, 32, 3), layers.ReLU(), layers.Flatten(), layers.Linear(32 * 26 * 26, 10)
        )
    return torchvision.models.get_model(name)


class Step:
    """One training step; the batch stays the same."""

    def __init__(self, name, size, batch, precision, device):
        import torch

        torch.manual_seed(0)
        torch.backends.cudnn.benchmark = True
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = precision == "tf32"
        self.torch, self.device = torch, device
        self.model = make_model(name).to(device, memory_format=torch.channels_last)
        self.optimizer = torch.optim.SGD(
            self.model.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4, fused=device == "cuda"
        )
        channels, classes = (1, 10) if name == "simplecnn" else (3, 1000)
        self.images = torch.randn(batch, channels, size, size, device=device).to(memory_format=torch.channels_last)
        self.labels = torch.randint(0, classes, (batch,), device=device)
        self.type = {"fp16": torch.float16, "bf16": torch.bfloat16}.get(precision)
        # A fixed scale in a captured step would be no fair peer, so the scaler's own update is part of it.
        self.scaler = torch.amp.GradScaler(device, enabled=precision == "fp16")
        self.forward = self.model

    def __call__(self):
        torch = self.torch
        self.optimizer.zero_grad(set_to_none=True)
        with torch.autocast(self.device, dtype=self.type, enabled=self.type is not None, cache_enabled=False):
            loss = torch.nn.functional.cross_entropy(self.forward(self.images), self.labels)
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()

    def compiled(self, graphs):
        self.forward = self.torch.compile(self.model, mode="reduce-overhead" if graphs else "default")
        return self

    def captured(self):
        """The whole step as one graph: a callable that replays it."""
        torch = self.torch
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(5):
                self()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self()
        return graph.replay


def milliseconds(step, steps, torch, device):
    """Of one step, by events on the device."""
    if device != "cuda":
        start = time.perf_counter()
        for _ in range(steps):
            step()
        return (time.perf_counter() - start) * 1000 / steps
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    for _ in range(steps):
        step()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) / steps


def run_worker(options):
    """Prints one JSON line a mode: a mode that fails or hangs takes no other's result along."""
    name, size, batch, precision, modes = options.worker
    import torch

    for mode in modes.split(","):
        line = {"mode": mode, "torch": torch.__version__}
        try:
            step = Step(name, int(size), int(batch), precision, options.device)
            if mode.startswith("compile"):
                step.compiled(mode.endswith("graph"))
            run = step.captured() if mode == "graph" else step
            for _ in range(options.warmup):
                run()
            took = [milliseconds(run, max(1, options.steps // 3), torch, options.device) for _ in range(3)]
            line["images_per_second"] = int(batch) * 1000 / statistics.median(took)
            if options.device == "cuda":
                line["peak_memory_bytes"] = torch.cuda.max_memory_allocated()
                line["gpu"] = torch.cuda.get_device_name()
                torch.cuda.reset_peak_memory_stats()
        except Exception as error:  # whatever a version of PyTorch cannot do is a result, too
            line["failure"] = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
        print(json.dumps(line), flush=True)


# The engine's side: adapt these two functions where its benchmark changes.


def engine_command(options, name, size, batch, precision):
    """Google Benchmark. --device and --precision are flags of the benchmark program's own."""
    return [
        str(options.binary),
        f"--device={options.device}",
        f"--precision={precision}",
        f"--benchmark_filter=^train_step/{name}/size:{size}/batch:{batch}(/|$)",
        "--benchmark_repetitions=4",
        "--benchmark_min_time=0.5",
        "--benchmark_format=json",
    ]


def engine_result(stdout):
    """The first repetition is the warm-up: plans are chosen and the step is captured in it."""
    rows = [row for row in json.loads(stdout)["benchmarks"] if row.get("run_type", "iteration") == "iteration"][1:]
    return {
        "mode": "engine",
        "images_per_second": statistics.median(row["images_per_second"] for row in rows),
        "peak_memory_bytes": max(row.get("peak_memory_bytes", 0) for row in rows),
    }


# Measuring.


def measure_engine(options, case):
    command = engine_command(options, *case)
    environment = {**os.environ, "LD_LIBRARY_PATH": options.library_path}
    try:
        run = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=options.timeout)
    except (OSError, subprocess.TimeoutExpired) as error:
        return {"mode": "engine", "failure": str(error).splitlines()[0]}
    try:
        return engine_result(run.stdout)
    except (ValueError, KeyError, statistics.StatisticsError):
        said = (run.stderr.strip() or run.stdout.strip() or "no output").splitlines()[-1]
        return {"mode": "engine", "failure": f"exit {run.returncode}: {said}"}


def measure_pytorch(options, case):
    words = [str(word) for word in (*case, options.modes)]
    command = [sys.executable, __file__, "--device", options.device, "--warmup", str(options.warmup)]
    command += ["--steps", str(options.steps), "--worker", *words]
    try:
        run = subprocess.run(command, capture_output=True, text=True, timeout=options.timeout)
        out, failure = run.stdout, (run.stderr.strip() or "no output").splitlines()[-1]
    except subprocess.TimeoutExpired as error:
        out, failure = error.stdout or "", f"not done in {options.timeout} s"
        out = out.decode() if isinstance(out, bytes) else out
    rows = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
    for mode in options.modes.split(",")[len(rows) :]:
        rows.append({"mode": mode, "failure": failure})
    return rows


def shown(row):
    return f"{row['images_per_second']:.0f}" if "images_per_second" in row else f"none ({row['failure'][:60]})"


def compare(options, case, wanted, peer):
    """Measures one case; returns what was measured and the rows of the table."""
    first = measure_engine(options, case)
    pytorch = measure_pytorch(options, case)
    second = measure_engine(options, case)
    name = f"{case[0]} {case[3]} batch {case[2]}"
    rates = {row["mode"]: row["images_per_second"] for row in pytorch if "images_per_second" in row}
    engine = [row["images_per_second"] for row in (first, second) if "images_per_second" in row]
    table = [(f"{name}: engine, images/s", " and ".join(shown(row) for row in (first, second)), "")]
    told = pytorch if rates else pytorch[:1]
    table += [(f"{name}: PyTorch {row['mode']}, images/s", shown(row), "") for row in told]
    if engine and (peer == "best" and rates or peer in rates):
        rival = max(rates, key=rates.get) if peer == "best" else peer
        ratio = statistics.mean(engine) / rates[rival]
        table.append((f"{name}: engine over PyTorch {rival}", f"{ratio:.2f}", f"at least {wanted}"))
    measured = {"model": case[0], "size": case[1], "batch": case[2], "precision": case[3]}
    return {**measured, "rows": [first, *pytorch, second]}, table


def main():
    options = parse_arguments()
    if options.worker:
        run_worker(options)
        return
    everything, table = [], []
    for model, size, batch, precision, wanted, peer in CASES:
        case = (model, size, options.batch or batch, precision)
        if options.only not in "/".join(map(str, case)):
            continue
        measured, rows = compare(options, case, wanted, peer)
        everything.append(measured)
        table += rows
        for what, found, aim in rows:
            print(f"{what:48s} {found:32s} {aim}".rstrip(), flush=True)
        if options.table:
            options.table.write_text("".join("\t".join(row) + "\n" for row in table))
        if options.json:
            options.json.write_text(json.dumps(everything, indent=1) + "\n")


if __name__ == "__main__":
    main()
