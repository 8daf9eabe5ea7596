# `sectile tune`: it finds what is fastest, keeps it for other processes, and can be stopped.
import json
import os
import re
import signal
import subprocess
import sys

from cli import SECTILE, done, main, refused, sectile, write_npy

DEVICE = ("--device", "virtual:sm_80")
SHAPE = "m=64,n=64,k=64"


def cache(**more):
    return {"SECTILE_CACHE_DIR": os.path.abspath("cache"), "SECTILE_TUNING_PATH": "", **more}


def tune(*words, kernel="matmul", env=None):
    return json.loads(done("tune", kernel, *words, "--quiet", "--json", *DEVICE, env=env or cache()).out)


def good(report):
    return {row["config"]: row["median_us"] for row in report["candidates"] if row["verdict"] == "good"}


def test_the_best_is_kept():
    (report,) = tune("--shape", SHAPE, "--candidates", "12")
    assert report["shape"] == {"M": 64, "N": 64, "K": 64} and report["device"] == "virtual:sm_80"
    times = good(report)
    assert len(times) == 13 and times[report["best"]] == min(times.values()) < max(times.values())
    assert not any(row["known"] for row in report["candidates"] if row["verdict"] == "good")
    (row,) = json.loads(done("cache", "best", "matmul", "--json", env=cache()).out)
    assert row["winner"] == report["best"] and row["measurements"][0]["median_us"] == min(times.values())
    # Another process measures only what is new.
    (again,) = tune("--shape", SHAPE, "--candidates", "13")
    new = {row["config"] for row in again["candidates"] if row["verdict"] == "good" and not row["known"]}
    assert set(good(again)) - new == set(times) and new
    out = done("tune", "matmul", "--shape", SHAPE, "--candidates", "13", "--quiet", *DEVICE, env=cache()).out
    assert again["best"] in out and "over the default" in out
    assert re.search(r"^matmul +K=64 M=64 N=64 ", out, re.M), out


def test_a_run_takes_the_best():
    (report,) = tune("--shape", SHAPE, "--candidates", "12")
    write_npy("a.npy", "<f2", (60, 64), range(60 * 64))  # of the same bucket
    write_npy("b.npy", "<f2", (64, 64), range(64 * 64))
    words = ["run", "matmul", "--in", "a=a.npy", "b=b.npy", "--repeat", "1", *DEVICE]

    def config(*more, **env):
        line = done(*words, *more, env=cache(**env)).out
        return set(line[line.index(", ") + 2 : line.index(": ")].split())

    default = set(report["candidates"][0]["config"].split())
    assert set(report["best"].split()) != default
    assert config() == set(report["best"].split())
    assert config(SECTILE_AUTOTUNE="off") == default
    assert config("--config", *report["candidates"][0]["config"].split()) == default


def test_all_say_the_same_of_equals():
    """The cost model gives many configurations of vector_add the same time on this chip."""
    device = ("--device", "virtual:sm_90a")
    words = ("vector_add", "--shape", "...=1048576", "--quiet", "--json", *device)
    (report,) = json.loads(done("tune", *words, env=cache()).out)
    times = good(report)
    equals = sorted(config for config, time in times.items() if time == min(times.values()))
    assert len(equals) > 1 and report["best"] == equals[0], (report["best"], equals)
    (row,) = json.loads(done("cache", "best", "vector_add", "--json", env=cache()).out)
    assert row["winner"] == equals[0]
    write_npy("x.npy", "<f4", (1 << 20,), [1] * (1 << 20))
    line = done("run", "vector_add", "--in", "x=x.npy", "y=x.npy", "--repeat", "1", *device, env=cache()).out
    assert f", {equals[0]}: " in line, line


def test_a_fixed_order_of_sums():
    """Nothing of another order than the default's is measured or taken."""
    shape = ("--shape", "m=64,n=64,k=64")
    (every,) = tune(*shape, "--candidates", "12")
    env = cache(SECTILE_NUMERICS="fixed")
    (fixed,) = tune(*shape, env=env)
    (order,) = {row["numerics"] for row in fixed["candidates"]}
    assert len({row["numerics"] for row in every["candidates"]}) > 1 and "stages=" not in order and " k=" in order, (every, order)
    write_npy("a.npy", "<f2", (60, 64), range(60 * 64))
    write_npy("b.npy", "<f2", (64, 64), range(64 * 64))
    line = done("run", "matmul", "--in", "a=a.npy", "b=b.npy", "--repeat", "1", *DEVICE, env=env).out
    assert set(order.split()) <= set(line[line.index(", ") + 2 : line.index(": ")].split()), (order, line)
    refused("run", "matmul", "--in", "a=a.npy", "b=b.npy", "--repeat", "1", *DEVICE, says="SECTILE_NUMERICS is 'x'", env=cache(SECTILE_NUMERICS="x"))


def test_a_file_of_shapes():
    with open("shapes", "w") as file:
        file.write("# sizes of a layer\n\nm=64, n=64, k=64\nm=128,n=64,k=64  # wider\n")
    first, second = tune("--file", "shapes", "--candidates", "2")
    assert (first["shape"]["M"], second["shape"]["M"]) == (64, 128)
    out = done("tune", "matmul", "--file", "shapes", "--candidates", "2", "--quiet", *DEVICE, env=cache()).out
    assert "M=64" in out and "M=128" in out


def test_words():
    def wrong(*words, says):
        refused("tune", "matmul", *words, *DEVICE, says=says, env=cache())

    wrong("--strategy", "guess", says=("'guess'", "halving"))
    wrong("--budget", "soon", says=("--budget", "'soon'"))
    wrong("--budget", "-1", says="--budget")
    wrong("--deadline", "0", says=("--deadline", "'0'"))
    wrong("--shape", "x=3", says="'x'")
    wrong("--shape", SHAPE, "--file", "shapes", says="--file")
    wrong("--file", "none", says="none")
    open("empty", "w").close()
    wrong("--file", "empty", says="no shapes")
    with open("wrong", "w") as file:
        file.write("m=64\nm=sixty\n")
    wrong("--file", "wrong", says=("wrong:2", "m=sixty"))
    with open("axis", "w") as file:
        file.write("m=64\n\nmm=64\n")
    wrong("--file", "axis", says=("axis:3", "'mm'"))
    refused("tune", "matmull", says="matmul", env=cache())
    refused("tune", "matmul", "--device", "interpreter", says="the interpreter", env=cache())


def test_a_budget_is_kept_to():
    (report,) = tune("--shape", SHAPE, "--budget", "0.001")
    measured = [row for row in report["candidates"] if row["verdict"] == "good" and not row["known"]]
    assert len(measured) < 5


def test_other_strategies():
    (halving,) = tune("--shape", SHAPE, "--candidates", "6", "--strategy", "halving")
    assert halving["best"] in good(halving)
    (random,) = tune("--shape", SHAPE, "--candidates", "6", "--strategy", "random")
    assert random["best"] in good(random)


def test_two_processes_tune_once():
    words = [SECTILE, "tune", "matmul", "--shape", SHAPE, "--candidates", "8", "--quiet", "--json", *DEVICE]
    both = [subprocess.Popen(words, stdout=subprocess.PIPE, env={**os.environ, **cache()}) for _ in range(2)]
    reports = [json.loads(process.communicate()[0])[0] for process in both]
    fresh = [{r["config"] for r in report["candidates"] if not r["known"] and r["verdict"] == "good"} for report in reports]
    assert sorted(map(len, fresh))[1] == 9, fresh
    known = reports[0 if len(fresh[0]) < len(fresh[1]) else 1]
    assert max(fresh, key=len) <= {row["config"] for row in known["candidates"] if row["known"]}


def test_ctrl_c_keeps_what_was_measured():
    words = [SECTILE, "tune", "matmul", "--shape", "m=256,n=256,k=256", *DEVICE]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               env={**os.environ, **cache()})  # fmt: skip
    for line in process.stderr:
        if " measured, best" in line:
            process.send_signal(signal.SIGINT)
            break
    out, rest = process.communicate()
    assert process.returncode == 1, (out, rest)
    assert "interrupted; what was measured is kept" in rest, rest
    (row,) = json.loads(done("cache", "best", "matmul", "--json", env=cache()).out)
    assert row["good"] >= 1
    assert sectile("cache", "verify", env=cache()).status == 0


LAYER_NORM = ("tune", "layer_norm", "--shape", "...=8,N=256", "--device", "cuda:0", "--json", "--quiet")


def fake(**more):
    return cache(SECTILE_CUDA_LIBRARY=os.path.abspath(sys.argv[2]), **more)


def verdicts(out):
    (report,) = json.loads(out)
    return [row["verdict"] for row in report["candidates"]], report


def test_a_device_that_is_lost_does_not_end_it():
    """A kernel that faults spoils a CUDA context: that of a process that only measures."""
    for budget in ((), ("--budget=60",)):  # in one word or two
        result = done(*LAYER_NORM, *budget, env=fake(FAKE_CUDA_LOST_AFTER_LAUNCHES="60", SECTILE_CACHE_DIR=os.path.abspath("c1" + "".join(budget))))
        all, report = verdicts(result.out)
        assert len(all) >= 9 and all.count("good") >= 3 and all.count("failed") >= 2, all
        assert "problem" not in report and not result.err, (report, result.err)
        assert "ILLEGAL_ADDRESS" in next(row["message"] for row in report["candidates"] if row["verdict"] == "failed")
    # One that can do nothing at all is given up.
    dead = sectile(*LAYER_NORM[:-2], env=fake(FAKE_CUDA_LOST_AFTER_LAUNCHES="0", SECTILE_CACHE_DIR=os.path.abspath("c2")))
    assert dead.status in (1, 2) and "ILLEGAL_ADDRESS" in dead.err, (dead.status, dead.err)


def test_what_never_ends_does_not_end_it():
    """A kernel that does not end is given up with its process; the driver ends one that waits for it."""
    env = fake(FAKE_CUDA_ENDLESS_LAUNCH="60")
    all, report = verdicts(done(*LAYER_NORM, "--deadline", "1", env=env).out)
    assert len(all) >= 9 and all.count("good") >= 3 and all.count("timed out") >= 2, all
    assert set(all) <= {"good", "hopeless", "timed out"}, all
    late = next(row for row in report["candidates"] if row["verdict"] == "timed out")
    assert "did not end within 1 s" in late["message"], late
    (best,) = json.loads(done("cache", "best", "layer_norm", "--json", env=cache()).out)
    assert sum(row["verdict"] == "timed out" for row in best["measurements"]) == all.count("timed out"), best
    # Nothing is tried again.
    again, _ = verdicts(done(*LAYER_NORM, env=fake(FAKE_CUDA_ENDLESS_LAUNCH="20")).out)
    assert again == all
    alone, _ = verdicts(done(*LAYER_NORM, "--deadline", "1", env={**env, "SECTILE_CACHE_DIR": ""}).out)
    assert alone.count("timed out") >= 2, alone
    # The default configuration is what everything is held against: without it there is nothing.
    default = sectile(*LAYER_NORM, "--deadline", "1", env=fake(FAKE_CUDA_ENDLESS_LAUNCH="1", SECTILE_CACHE_DIR=os.path.abspath("c2")))
    assert default.status == 1 and "did not end within 1 s" in default.err, (default.status, default.err)


def test_what_kills_its_process_does_not_end_it():
    all, report = verdicts(done(*LAYER_NORM, env=fake(FAKE_CUDA_KILLED_AT_LAUNCH="60")).out)
    assert all.count("failed") >= 2 and all.count("good") >= 3, all
    failed = {row["message"] for row in report["candidates"] if row["verdict"] == "failed"}
    assert failed == {"it ended the process that measured it: Killed"}, failed


def test_without_a_process_that_measures():
    """This process measures, says why, and loses the device to what faults; the next goes on."""
    env = fake(SECTILE_MEASURE="/does/not/exist")
    lost = sectile(*LAYER_NORM[:-1], env={**env, "FAKE_CUDA_LOST_AFTER_LAUNCHES": "60"})
    assert lost.status == 1 and "is measured in this process: /does/not/exist" in lost.err, lost.err
    assert "can do no more" in lost.err and verdicts(lost.out)[0].count("failed") == 1, lost.err
    killed = {**os.environ, **env, "FAKE_CUDA_KILLED_AT_LAUNCH": "60"}
    assert subprocess.run([SECTILE, *LAYER_NORM], env=killed).returncode == -signal.SIGKILL
    (best,) = json.loads(done("cache", "best", "layer_norm", "--json", env=cache()).out)
    assert [row["verdict"] for row in best["measurements"]].count("unfinished") == 1, best
    all, report = verdicts(done(*LAYER_NORM, env=fake()).out)
    assert all.count("unfinished") == all.count("failed") == 1, all
    assert set(all) <= {"good", "hopeless", "failed", "unfinished"}, all


def test_ctrl_c_is_not_the_measuring_processs():
    process = subprocess.Popen([SECTILE, *LAYER_NORM[:-2], "--deadline", "5"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               start_new_session=True, env={**os.environ, **fake()})  # fmt: skip
    for line in process.stderr:
        if " measured, best" in line:
            os.killpg(process.pid, signal.SIGINT)
            break
    out, err = process.communicate()
    (best,) = json.loads(done("cache", "best", "layer_norm", "--json", env=cache()).out)
    assert {row["verdict"] for row in best["measurements"]} <= {"good", "hopeless"}, (best, out, err)


def test_the_whole_space_of_three_shapes():
    """With SECTILE_TEST_ALL=1 of matmul, which has hundreds of configurations; else of layer_norm."""
    if os.environ.get("SECTILE_TEST_ALL") == "1":
        kernel, least, shapes = "matmul", 200, ("m=256,n=256,k=256", "m=512,n=256,k=512", "m=512,n=512,k=512")
    else:
        kernel, least, shapes = "layer_norm", 9, ("...=8,N=256", "...=64,N=256", "...=8,N=1000")
    with open("shapes", "w") as file:
        file.write("\n".join(shapes))
    reports = tune("--file", "shapes", kernel=kernel)
    assert len(reports) == 3 and all(len(report["candidates"]) >= least for report in reports), reports
    again = tune("--file", "shapes", kernel=kernel)
    assert [report["best"] for report in again] == [report["best"] for report in reports]
    fresh = [row for report in again for row in report["candidates"] if not row["known"] and row["verdict"] == "good"]
    assert fresh == [], fresh
    assert len(json.loads(done("cache", "best", kernel, "--json", env=cache()).out)) == 3


main(globals())
