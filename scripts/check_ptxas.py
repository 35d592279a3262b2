#!/usr/bin/env python3
"""Registers, spills, stack and shared memory of the kernels, from what ptxas said while they were compiled.

    check_ptxas.py --write JSON OBJECT...   reads OBJECT.ptxas beside each object (cmake/ptxas_log.sh writes them) and
                                            writes {kernel: {"registers", "spills", "stack", "shared", ...}}
    check_ptxas.py JSON                     prints a summary; exit 1 where a kernel spills registers

Names are without namespaces and template arguments; numbers are the worst of all instantiations and architectures,
in bytes but for registers (of a thread). Functions that were not inlined into their kernels count by their own names.
"""

import argparse
import json
import pathlib
import re
import shutil
import subprocess
import sys

ENTRY = re.compile(r"Compiling entry function '(\w+)' for '(sm_\w+)'")
FUNCTION = re.compile(r"Function properties for (\w+)")
FRAME = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
REGISTERS = re.compile(r"Used (\d+) registers")
SHARED = re.compile(r"(\d+) bytes smem")


def plain_name(mangled):
    """The last name of a mangled one (Itanium C++ ABI): '_ZN6engine10add_kernelIfEEvPf' is 'add_kernel'."""
    if not mangled.startswith("_Z"):
        return mangled
    position, name = 2, mangled
    if mangled[position] == "N":
        position += 1
    while match := re.compile(r"L?(\d+)").match(mangled, position):
        start = match.end()
        position = start + int(match.group(1))
        name = mangled[start:position]
    return name


def read_log(text):
    """One dict for each function and architecture that ptxas compiled."""
    found, architecture, current = [], "", None
    for line in text.splitlines():
        if match := ENTRY.search(line):
            architecture = match.group(2)
            current = None
        elif match := FUNCTION.search(line):
            current = {"mangled": match.group(1), "architecture": architecture}
            current.update(registers=0, spills=0, stack=0, shared=0)
            found.append(current)
        elif current is None:
            continue
        elif match := FRAME.search(line):
            stack, stores, loads = map(int, match.groups())
            current.update(stack=stack, spills=stores + loads)
        elif match := REGISTERS.search(line):
            current["registers"] = int(match.group(1))
            shared = SHARED.search(line)
            current["shared"] = int(shared.group(1)) if shared else 0
    return found


def worst(functions):
    kernels = {}
    for function in functions:
        entry = kernels.setdefault(plain_name(function["mangled"]), {"architectures": []})
        for key in ("registers", "spills", "stack", "shared"):
            entry[key] = max(entry.get(key, 0), function[key])
        if function["architecture"] not in entry["architectures"]:
            entry["architectures"].append(function["architecture"])
        if function["spills"]:
            entry.setdefault("spilling", []).append(f"{function['architecture']} {function['mangled']}")
    return dict(sorted(kernels.items()))


def readable(place):
    """"sm_90 _ZN..." with the name as the source spells it, where binutils' c++filt is there."""
    if not shutil.which("c++filt"):
        return place
    text = subprocess.run(["c++filt", "-p", *place.split()], capture_output=True, text=True).stdout
    return re.sub(r"\(anonymous namespace\)::|engine::kernels::|_GLOBAL__N__\w+::", "", " ".join(text.split()))


def write(path, objects):
    functions = []
    for name in objects:
        log = pathlib.Path(name + ".ptxas")
        if not log.exists():
            sys.exit(f"check_ptxas.py: error: {log} is missing; delete {name} and build it again")
        functions += read_log(log.read_text(errors="replace"))
    temporary = path.with_suffix(".part")
    temporary.write_text(json.dumps(worst(functions), indent=1) + "\n")
    temporary.replace(path)


def check(path):
    kernels = json.loads(path.read_text())
    if not kernels:
        sys.exit(f"check_ptxas.py: error: {path} has no kernels")
    spilling = {name: entry for name, entry in kernels.items() if entry["spills"]}
    most = max(kernels, key=lambda name: kernels[name]["registers"])
    chips = sorted({chip for entry in kernels.values() for chip in entry["architectures"]})
    stacks = sum(1 for entry in kernels.values() if entry["stack"])
    print(
        f"ptxas: {len(kernels)} kernels for {' '.join(chips)}, at most {kernels[most]['registers']} registers "
        f"({most}), {stacks} with a stack frame, {len(spilling)} spill"
    )
    for name, entry in spilling.items():
        print(f"  {name} spills up to {entry['spills']} bytes with {entry['registers']} registers, in:")
        for place in entry["spilling"]:
            print(f"    {readable(place)}")
    sys.exit(1 if spilling else 0)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", type=pathlib.Path, metavar="JSON")
    parser.add_argument("files", nargs="*", metavar="JSON or OBJECT")
    options = parser.parse_args()
    if options.write:
        write(options.write, options.files)
    elif len(options.files) == 1:
        check(pathlib.Path(options.files[0]))
    else:
        parser.error("one JSON file, or --write JSON OBJECT...")


if __name__ == "__main__":
    main()
