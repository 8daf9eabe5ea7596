#!/usr/bin/env python3
# How far Sectile's own choices fall behind the best peer, and behind the tuner, at shapes that are drawn from a seed.
# `python3 bench/cliffs SEED`
import argparse
import json
import math
import os
import subprocess
import sys
import tempfile

from draw import FAMILIES, draw

# A figure for each family: the geometric mean over its calls, and what none may be under.
WANTED = {
    "products": (0.99, 0.88),
    "attention": (0.97, 0.88),
    "attention_backward": (0.93, 0.82),
    "rows": (1.0, 0.90),
    "collections": (1.0, 0.85),
    "convolutions": (1.0, 0.85),
}
TUNED = (0.97, 0.85)  # of the tuner's best, in all families
SHORT = 5  # us: calls whose best peer takes less count in the mean alone


def arguments():
    parser = argparse.ArgumentParser(prog="cliffs", description="Times calls of drawn shapes, beside the best peer and the tuner's best.")
    parser.add_argument("seed", help="of the shapes; any text")
    parser.add_argument("--family", help="only these, as products,rows; of " + ", ".join(FAMILIES))
    parser.add_argument("--count", type=int, default=60, help="calls of each family")
    parser.add_argument("--sectile", default="build/bin/sectile", metavar="PROGRAM", help="build/bin/sectile if not given")
    parser.add_argument("--device", default="cuda:0", help="cuda:0 if not given")
    parser.add_argument("--peers", action="store_true", help="time PyTorch and Triton, too")
    parser.add_argument("--peer-seconds", type=float, default=400, help="begin no peer of a family after so many seconds; 400 if not given")
    parser.add_argument("--peer-limit", type=float, default=20, help="seconds for one peer of one call; 20 if not given")
    parser.add_argument("--tune", type=float, metavar="SECONDS", help="tune each call for so long, and time it again")
    parser.add_argument("--output", metavar="DIR", help="keep the calls and the times there")
    parser.add_argument("--draw", action="store_true", help="only print the calls, as `sectile bench kernels --file` reads them")
    options = parser.parse_args()
    options.family = options.family.split(",") if options.family else list(FAMILIES)
    for family in options.family:
        if family not in FAMILIES:
            parser.error(f"no family is called {family}; there are {', '.join(FAMILIES)}")
    return options


def mean(ratios):
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def tune_words(call):
    """A call as `sectile tune` takes it."""
    kernel, shape, *rest = call.split()
    words, key = [kernel, "--shape", shape], None
    for word in rest:
        if word in ("dtype", "with", "opt"):
            key = f"--{word}"
        else:
            words += [key, word]
    return words


class Family:
    def __init__(self, name, calls, options, folder):
        self.name, self.calls, self.options = name, calls, options
        self.path = os.path.join(folder, name)

    def run(self):
        with open(self.path + ".txt", "w") as file:
            file.write("".join(f"{call}\n" for call in self.calls))
        rows = self.times("default", "off")
        results = [{"call": call, "default": row.get("median_us"), "config": row.get("config", ""), "error": row.get("error", "")}
                   for call, row in zip(self.calls, rows)]  # fmt: skip
        if self.options.tune:
            for call in self.calls:
                limits = ["--budget", str(self.options.tune), "--strategy", "halving", "--quiet"]
                subprocess.run([self.options.sectile, "tune", *tune_words(call), *limits, "--device", self.options.device], capture_output=True)
            for result, row in zip(results, self.times("tuned", None)):
                result["tuned"], result["best"] = row.get("median_us"), row.get("config", "")
        if self.options.peers:
            for result, row in zip(results, self.peers()):
                if row["peers"]:
                    result["peer"], result["by"] = min((time, peer) for peer, time in row["peers"].items())
        with open(self.path + ".json", "w") as file:
            json.dump(results, file, indent=1)
        return results

    def times(self, what, autotune):
        environment = dict(os.environ)
        if autotune:
            environment["SECTILE_AUTOTUNE"] = autotune
        output = f"{self.path}.{what}.json"
        subprocess.run([self.options.sectile, "bench", "kernels", "--file", self.path + ".txt", "--device", self.options.device, "-o", output],
                       stdout=subprocess.DEVNULL, env=environment)  # fmt: skip
        with open(output) as file:
            return json.load(file)["kernels"]

    def peers(self):
        program = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "peers")
        output = self.path + ".peers.json"
        subprocess.run([sys.executable, program, f"{self.path}.default.json", "--budget", str(self.options.peer_seconds),
                        "--limit", str(self.options.peer_limit), "--json", output],
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip
        with open(output) as file:
            return json.load(file)["rows"]


def report(name, results, key, wanted, beside):
    """The mean and the worst ten of what `key` took over what the default takes."""
    ratios = [(r[key] / r["default"], r) for r in results if r.get("default") and r.get(key)]
    if not ratios:
        return
    ratios.sort(key=lambda pair: pair[0])
    least, none_under = wanted
    under = sum(ratio < none_under for ratio, r in ratios if key != "peer" or r["peer"] >= SHORT)
    figure = mean([ratio for ratio, _ in ratios])
    print(f"\n{name}: {beside} / default, {len(ratios)} calls: mean {figure:.3f} (wanted {least}), {under} under {none_under}; the worst:")
    for ratio, r in ratios[:10]:
        other = f"{r[key]:.1f} us by {r['by']}" if key == "peer" else f"{r[key]:.1f} us with {r['best']}"
        print(f"  {ratio:.2f}  {r['call']}: {r['default']:.1f} us with {r['config']}; {other}")


def main():
    options = arguments()
    calls = {family: draw(options.seed, family, options.count) for family in options.family}
    if options.draw:
        print("\n".join(call for family in calls.values() for call in family))
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.output or temporary
        os.makedirs(folder, exist_ok=True)
        for name, drawn in calls.items():
            results = Family(name, drawn, options, folder).run()
            report(name, results, "peer", WANTED[name], "best peer")
            report(name, results, "tuned", TUNED, "tuned")
            for r in results:
                if not r.get("default"):
                    print(f"  no time of {r['call']}: {r['error']}")
            sys.stdout.flush()


main()
