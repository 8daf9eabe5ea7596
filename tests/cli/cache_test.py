# The compile cache as a user meets it: whatever is wrong with it, the work is done all the same.
import os
import shutil

from cli import done, main, read_npy, write_npy


def cache(folder):
    return {"SECTILE_CACHE_DIR": os.path.abspath(folder) if folder else ""}


def add(folder, env=None):
    write_npy("x.npy", "<f4", (5,), range(5))
    if os.path.exists("z.npy"):
        os.remove("z.npy")
    result = done("run", "vector_add", "--in", "x=x.npy", "y=x.npy", "--out", "z=z.npy", "--device", "virtual:sm_80",
                  env={**cache(folder), **(env or {})})  # fmt: skip
    assert read_npy("z.npy")[2] == [0, 2, 4, 6, 8]
    return result


def entries(folder):
    return sorted(
        os.path.join(root, name)
        for root, _, names in os.walk(folder)
        for name in names
        if os.path.getsize(os.path.join(root, name)) > 1000 and "." not in name
    )


def test_a_second_run_finds_the_kernel():
    add("cache")
    first = entries("cache")
    assert len(first) == 1, first
    add("cache")
    assert entries("cache") == first
    assert "1 kernels" in done("info", env=cache("cache")).out
    assert os.stat("cache").st_mode & 0o777 == 0o700


def test_entries_cut_in_half_or_overwritten():
    add("cache")
    (entry,) = entries("cache")
    whole = os.path.getsize(entry)
    with open(entry, "r+b") as file:
        file.truncate(whole // 2)
    add("cache")
    assert whole in map(os.path.getsize, entries("cache")), "it is not compiled anew"
    with open(entry, "wb") as file:
        file.write(os.urandom(whole))
    add("cache")


def test_folders_that_cannot_be_used():
    add("")  # in memory only
    open("file", "w").close()
    add("file")
    add("/proc/nowhere")
    os.mkdir("open")
    os.chmod("open", 0o777)  # somebody else could plant code there
    result = add("open")
    assert "open" in result.err and not entries("open"), result.err
    os.mkdir("readonly", 0o500)
    add("readonly")
    os.chmod("readonly", 0o700)


def test_a_limit_that_is_no_number_loses_nothing():
    add("cache")
    for limit in ("lots", "-1", "1G"):
        result = add("cache", env={"SECTILE_CACHE_LIMIT": limit})
        assert f"SECTILE_CACHE_LIMIT is '{limit}'" in result.err and result.err.count("\n") == 1, result.err
        result = done("cache", "prune", env={**cache("cache"), "SECTILE_CACHE_LIMIT": limit})
        assert "removed 0 files" in result.out and f"'{limit}'" in result.err
    assert add("cache", env={"SECTILE_CACHE_LIMIT": ""}).err == ""
    assert len(entries("cache")) == 1


def test_a_full_disk():
    # A small file system is what only root can make; elsewhere the limit stands for it.
    if os.getuid() == 0 and shutil.which("mount"):
        os.mkdir("small")
        if os.system("mount -t tmpfs -o size=4k,mode=700 tmpfs small 2>/dev/null") == 0:
            try:
                add("small")
                assert not entries("small")
            finally:
                os.system("umount small")
    add("cache", env={"SECTILE_CACHE_LIMIT": "0"})


main(globals())
