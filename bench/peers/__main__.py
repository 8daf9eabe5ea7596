#!/usr/bin/env python3
# What `sectile bench kernels --output FILE` timed, in PyTorch (eager and compiled) and in Triton: the same
# work on the same shapes by the same rules, as one table in Markdown. `python3 bench/peers FILE`
import argparse
import json
import os
import sys
import time

from table import Table
from workers import Worker, share


def arguments():
    parser = argparse.ArgumentParser(prog="peers", description="Times PyTorch and Triton at what Sectile was timed at.")
    parser.add_argument("file", help="what `sectile bench kernels --output` wrote")
    parser.add_argument("--check", action="store_true",
                        help="no times: only that every peer runs, and that all compute the same; on a CPU where there is no GPU")  # fmt: skip
    parser.add_argument("--sectile", metavar="PROGRAM", help="with --check: compare eager PyTorch with what this `sectile` computes, too")
    parser.add_argument("--kernel", help="only these, as matmul,softmax")
    parser.add_argument("--budget", type=float, default=400, help="begin nothing new after so many seconds")
    parser.add_argument("--limit", type=float, default=60, help="seconds for one peer of one kernel")
    parser.add_argument("--workers", type=int, default=max(1, min(8, (os.cpu_count() or 1) // 2)), help="processes that check and compile")
    parser.add_argument("--json", help="write the times there, too")
    return parser.parse_args()


class Run:
    def __init__(self, options, rows):
        self.options, self.start, self.all = options, time.monotonic(), rows
        self.rows = [row for row in rows if "arguments" in row]
        self.answers = {}  # of the check, by row and peer

    def left(self):
        return self.options.budget - (time.monotonic() - self.start)

    def say(self, row, peer, answer):
        what = answer.get("error") or ("no peer" if "none" in answer else "")
        print(f"{time.monotonic() - self.start:6.1f} s  {peer} {row['kernel']} {row['shape']}{': ' if what else ''}{what}",
              file=sys.stderr, flush=True)  # fmt: skip

    def check(self, peers):
        """Runs every peer once, all workers side by side: compilers' caches are full afterwards."""

        def done(job, answer):
            self.answers[id(job["row"]), job["peer"]] = answer
            self.say(job["row"], f"checked {job['peer']}", answer)

        jobs = [{"row": row, "peer": peer, "timed": False, "sectile": self.options.sectile} for row in self.rows for peer in peers]
        workers = [Worker() for _ in range(min(self.options.workers, len(jobs)))]
        share(jobs, workers, self.options.limit, done)

    def report(self, peers):
        """What the check found; the number of rows with problems."""
        failed = 0
        for row in self.rows:
            answers = {peer: self.answers[id(row), peer] for peer in peers}
            problems = [f"{peer}: {answer['error']}" for peer, answer in answers.items() if "error" in answer]
            well = [peer + (f" (none: {answer['none']})" if answer.get("none") else "") for peer, answer in answers.items()
                    if "error" not in answer and answer.get("none") != ""]  # fmt: skip
            failed += bool(problems)
            print(f"{'FAILED' if problems else 'ok':6}  {row['kernel']} {row['shape']}: {'; '.join([', '.join(well), *problems])}")
        return failed

    def times(self, table):
        """One peer after the other, nothing else running."""
        worker = Worker(timed=True)
        worker.start()
        results = [result for result, row in zip(table.rows, self.all) if "arguments" in row]
        for row, result in zip(self.rows, results):
            for peer in Table.PEERS:
                found = self.answers.get((id(row), peer), {})
                if "none" in found or found.get("error", "out of memory") != "out of memory":
                    answer = found
                elif self.left() <= 0:
                    answer = {"error": "no time was left for it"}
                else:
                    answer = worker.ask({"row": row, "peer": peer, "timed": True}, min(self.options.limit, self.left()))
                    self.say(row, peer, answer)
                if "error" in answer or answer.get("none"):
                    result["errors"][peer] = answer.get("error") or answer["none"]
                elif "time" in answer:
                    result["peers"][peer], result["remarks"][peer] = answer["time"], answer["remarks"]
        worker.end()
        return worker.hello["name"]


def main():
    options = arguments()
    with open(options.file) as file:
        rows = json.load(file)["kernels"]
    if options.kernel:
        rows = [row for row in rows if row["kernel"] in options.kernel.split(",")]
    run = Run(options, rows)
    if options.check:
        peers = ["eager", *(["Sectile"] if options.sectile else []), "Triton", "torch.compile"]
        run.check(peers)
        sys.exit(1 if run.report(peers) else 0)
    if any(row.get("estimated") for row in rows):
        sys.exit(f"{options.file} has estimates, not times")
    worker = Worker()
    worker.start()
    device = worker.hello["device"]
    worker.end()
    if device != "cuda":
        sys.exit("PyTorch finds no GPU")
    run.check(["Triton", "torch.compile"])
    table = Table(rows)
    name = run.times(table)
    print(f"{name}; medians of runs that find nothing in the L2 cache\n")
    print(table.text())
    if options.json:
        with open(options.json, "w") as file:
            json.dump({"device": name, "rows": table.rows}, file, indent=1)


if __name__ == "__main__":
    main()
