# Everything that can be wrong with what a user gives: one clear sentence, status 2, no file left.
import os

from cli import main, refused, write_npy

DEVICE = ("--device", "virtual:sm_90a")


def softmax(path, *more, says):
    refused("run", "softmax", "--in", f"x={path}", "--out", "y=y.npy", *DEVICE, *more, says=says)
    assert not os.path.exists("y.npy") and not [n for n in os.listdir() if n.startswith("y.npy")]


def matmul(*more, says):
    refused("run", "matmul", "--in", "a=a.npy", "b=b.npy", "--out", "c=c.npy", *DEVICE, *more, says=says)
    assert not os.path.exists("c.npy")


def damage(path, edit):
    with open(path, "rb") as file:
        data = bytearray(file.read())
    with open(path, "wb") as file:
        file.write(edit(data))


def test_missing_file():
    softmax("none.npy", says=("'none.npy'", "No such file"))


def test_folder_instead_of_file():
    os.mkdir("folder.npy")
    softmax("folder.npy", says=("'folder.npy'", "directory"))


def test_empty_file():
    open("x.npy", "w").close()
    softmax("x.npy", says=("'x.npy'", "not a .npy file"))


def test_other_file():
    with open("x.npy", "w") as file:
        file.write("PK\x03\x04 this is something else altogether")
    softmax("x.npy", says="not a .npy file")


def test_cut_off():
    write_npy("x.npy", "<f4", (4, 4))
    damage("x.npy", lambda data: data[:-5])
    softmax("x.npy", says=("'x.npy'", "cut off"))
    damage("x.npy", lambda data: data[:20])
    softmax("x.npy", says=("'x.npy'", "cut off within its .npy header"))


def test_damaged_header():
    write_npy("x.npy", "<f4", (4, 4))
    damage("x.npy", lambda data: data.replace(b"'shape'", b"'shapE'"))
    softmax("x.npy", says=("'x.npy'", "damaged .npy header"))


def test_extents_beyond_all_memory():
    header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (9007199254740992, 1024)}\n"
    with open("x.npy", "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + bytes(64))
    softmax("x.npy", says=("'x.npy'", "cut off"))


def test_dtypes():
    write_npy("x.npy", "<i4", (4, 4))
    softmax("x.npy", says=("x ('x.npy') is i32", "f32, f16 or bf16"))
    write_npy("x.npy", "<u2", (4, 4))
    softmax("x.npy", says="--dtype x=bf16")
    softmax("x.npy", "--dtype", "x=bf17", says=("'bf17'", "bf16"))
    softmax("x.npy", "--dtype", "z=bf16", says="no input 'z'")
    write_npy("x.npy", "<f4", (4, 4))
    softmax("x.npy", "--dtype", "bf16", says=("'x.npy'", "cannot be taken as bf16"))


def test_ranks_and_shapes():
    write_npy("x.npy", "<f4", ())
    softmax("x.npy", says=("'x.npy'", "at least 1 axis"))
    write_npy("a.npy", "<f4", (4, 6))
    write_npy("b.npy", "<f4", (4, 6))
    matmul(says=("K is 4 in b ('b.npy') [4, 6]", "6 in a ('a.npy') [4, 6]"))
    write_npy("b.npy", "<f4", (6,))
    matmul(says=("b ('b.npy') is [6]", "2 axes: [K, N]"))
    write_npy("b.npy", "<f2", (6, 4))
    matmul(says="b ('b.npy') is f16, but must be f32 like a")


def test_attention_heads_and_width():
    for name, shape in (("q", (1, 6, 4, 32)), ("k", (1, 4, 4, 32)), ("v", (1, 4, 4, 32))):
        write_npy(name, "<f2", shape)
    words = ("run", "attention", "--in", "q=q", "k=k", "v=v", "--out", "o=o", *DEVICE)
    refused(*words, says="multiple of Hkv")
    for name in "qkv":
        write_npy(name, "<f2", (1, 2, 4, 8))
    refused(*words, says="from 16 to 256")


def test_names():
    write_npy("x.npy", "<f4", (4, 4))
    refused("run", "softmux", "--in", "x=x.npy", "--check", says=("'softmux'", "is it 'softmax'?"))
    refused("run", "nothing", "--check", says=("'nothing'", "`sectile list`"))
    refused("run", says="KERNEL is missing")
    refused("run", "softmax", "--check", *DEVICE, says="input 'x' is missing")
    refused("run", "softmax", "--in", "x=x.npy", "w=x.npy", "--check", *DEVICE, says="no input 'w'")
    refused("run", "softmax", "--in", "x=x.npy", "x=x.npy", "--check", *DEVICE, says="'x' twice")
    refused("run", "softmax", "--in", "x.npy", "--check", *DEVICE, says=("--in", "'x.npy'"))
    softmax("x.npy", "--out", "z=z.npy", says=("no output 'z'", "outputs are y"))
    softmax("x.npy", "--opt", "eps=1", says="no option 'eps'")
    softmax("x.npy", "--config", "size=1", says=("no configuration field 'size'", "block"))
    softmax("x.npy", "--config", "block=many", says=("'block'", "'many'"))
    softmax("x.npy", "--config", "block=0", says=("'block'", "from 1 to 1048576", "'0'"))
    refused("compile", "matmul", "--target", "sm_90a", "--config", "cluster=3", says=("'cluster'", "from 1 to 2"))
    softmax("x.npy", "--repeat", "0", says=("--repeat", "'0'"))
    softmax("x.npy", "--speed", "11", says="unknown option '--speed'")
    refused("run", "softmax", "--in", "x=x.npy", *DEVICE, says="--out")


def test_options():
    write_npy("a.npy", "<f4", (4, 4))
    write_npy("b.npy", "<f4", (4, 4))
    matmul("--opt", "transpose=true", says=("no option 'transpose'", "trans_a"))
    matmul("--opt", "trans_a=perhaps", says=("'trans_a'", "'perhaps'"))
    matmul("--opt", "precision=double", says=("'double'", "tf32, exact"))


def test_devices():
    write_npy("x.npy", "<f4", (4, 4))
    for name in ("gpu", "virtual:sm_12", "cuda:x", "cuda:", ""):
        result = refused("run", "softmax", "--in", "x=x.npy", "--check", "--device", name)
        assert "--device" in result.err and name in result.err, result.err


def test_resources_beyond_the_chip():
    write_npy("a.npy", "<f2", (64, 64))
    write_npy("b.npy", "<f2", (64, 64))
    matmul("--config", "m=256", "n=256", "k=128", "stages=4", says=("shared memory", "KiB"))


def test_output_folders():
    write_npy("x.npy", "<f4", (4, 4))
    words = ("run", "softmax", "--in", "x=x.npy", *DEVICE, "--out")
    refused(*words, "y=none/y.npy", says=("'none/y.npy'", "No such file"))
    os.mkdir("folder")
    refused(*words, "y=folder", says=("'folder'", "directory"))
    refused(*words, "y=/dev/full", says=("'/dev/full'", "No space left"))
    if os.getuid() != 0:
        os.chmod("folder", 0o500)
        refused(*words, "y=folder/y.npy", says=("'folder/y.npy'", "Permission denied"))


def test_compile_words():
    words = ("compile", "matmul", "--target")
    refused("compile", "matmul", "--emit", "ptx", says="--target is missing")
    refused(*words, "sm_80", says="--emit is missing")
    refused(*words, "sm_81", "--emit", "ptx", says=("--target", "sm_81", "sm_80"))
    refused(*words, "sm_80", "--emit", "wasm", says=("--emit", "wasm", "ptx"))
    refused(*words, "sm_80", "--emit", "hsaco", says=("--emit", "hsaco"))
    refused(*words, "sm_80", "--emit", "ptx", "--shape", "m", says="--shape")
    refused(*words, "sm_80", "--emit", "ptx", "--shape", "z=3", says=("no axis 'z'", "K, M, N"))
    refused(*words, "sm_80", "--emit", "ptx", "--dtype", "i16", says=("i16", "f16"))
    refused(*words, "sm_80", "--emit", "ptx", "-o", "none/x.ptx", says="'none/x.ptx'")


main(globals())
