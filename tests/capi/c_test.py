# sectile.h as others use it: C11 by two compilers, C++, ctypes, Rust where there is a rustc, and a program without the
# compiler. c_test.py BUILD SOURCE COMPILER FAKE_CUDA OWN_LIBRARY CLI
import ctypes
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

build, source, compiler, fake_cuda, own_library, cli = sys.argv[1:]
LIBRARIES = os.path.join(build, "lib")
HEADER = os.path.join(source, "capi/include/sectile.h")
INCLUDES = [f"-I{folder}" for folder in (os.path.dirname(HEADER), build + "/include", source + "/runtime/include",
                                         source + "/dsl/include")]
DEVICES = ["virtual:sm_90a", "interpreter"]
SEALED = """
#include <sectile.h>
#include <stdio.h>
int main(void) {
  sectile_device *device;
  if (sectile_device_open("interpreter", &device) != SECTILE_UNSUPPORTED) return 1;
  puts(sectile_error());
  if (sectile_device_open("virtual:sm_90a", &device) != SECTILE_OK) return 8;
  sectile_device_release(device);
  if (sectile_device_open("cuda:0", &device) != SECTILE_OK) return 2;
  sectile_stream *stream;
  if (sectile_stream_new(device, &stream) != SECTILE_OK) return 3;
  int64_t shape[] = {2, 8};
  sectile_device_info_t info = {.size = sizeof info};
  if (sectile_device_info(device, &info) != SECTILE_OK) return 4;
  DLTensor like = {.device = info.dlpack, .ndim = 2, .dtype = {kDLFloat, 32, 1}, .shape = shape};
  DLManagedTensorVersioned *x, *y;
  if (sectile_tensor_new(device, &like, &x) != SECTILE_OK || sectile_tensor_new(device, &like, &y) != SECTILE_OK) return 5;
  const sectile_op *op;
  if (sectile_op_find("softmax", &op) != SECTILE_OK) return 6;
  const DLTensor *call[] = {&x->dl_tensor, &y->dl_tensor};
  if (sectile_op_run(op, stream, call, 2, NULL, 0) != SECTILE_NO_CODE) return 7;
  puts(sectile_error());
  x->deleter(x);
  y->deleter(y);
  sectile_stream_release(stream);
  sectile_device_release(device);
  return 0;
}
"""
RUST = """
use std::ffi::{CStr, CString};
use std::os::raw::{c_char, c_int, c_void};
#[link(name = "sectile")]
extern "C" {
    fn sectile_version() -> u32;
    fn sectile_error() -> *const c_char;
    fn sectile_device_open(name: *const c_char, device: *mut *mut c_void) -> c_int;
    fn sectile_device_release(device: *mut c_void);
}
fn main() {
    let mut device: *mut c_void = std::ptr::null_mut();
    let name = CString::new("interpreter").unwrap();
    let status = unsafe { sectile_device_open(name.as_ptr(), &mut device) };
    assert_eq!(status, 0, "{:?}", unsafe { CStr::from_ptr(sectile_error()) });
    unsafe { sectile_device_release(device) };
    println!("{}", unsafe { sectile_version() });
}
"""


def run(*words, **environment):
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          env={**os.environ, "LD_LIBRARY_PATH": LIBRARIES, **environment})
    assert done.returncode == 0, (words, done.returncode, done.stdout)
    return done.stdout


with open(HEADER) as file:
    functions = re.findall(r"^SECTILE_API .*?\b(sectile_\w+)\(", file.read(), re.M)
assert len(functions) == len(set(functions)) > 40, functions

with tempfile.TemporaryDirectory() as folder:
    def path(name, text=None):
        where = os.path.join(folder, name)
        if text is not None:
            with open(where, "w") as file:
                file.write(text)
        return where

    # A bundle of kernels of the test's own, for the virtual GPU and for a chip.
    own = ["-std=c++20", "-fPIC", "-shared", *INCLUDES, f"-I{source}/kernels/include", f"-I{source}/autotune/include"]
    run(compiler, *own, f"{source}/tests/capi/kernels.cpp", "-o", path("kernels.so"), f"-L{LIBRARIES}", "-lsectile",
        "-lsectile_rt")
    run(cli, "build", "--load", path("kernels.so"), "--target", "virtual:sm_90a,sm_90", "-o", path("kernels.sectile"))

    c_compilers = {shutil.which("gcc"), compiler.replace("clang++", "clang")} - {None}
    strict = ["-std=c11", "-pedantic", "-Wall", "-Wextra", "-Werror", *INCLUDES]
    for cc in c_compilers:
        run(cc, *strict, f"{source}/tests/capi/calls.c", "-o", path("calls"), f"-L{LIBRARIES}", "-lsectile", "-lpthread")
        for device in DEVICES:
            assert run(path("calls"), device, own_library, SECTILE_CUDA_LIBRARY=fake_cuda,
                       SECTILE_CACHE_DIR=path("cache")) == "all right\n"
        run(cc, *strict, f"{source}/tests/capi/kernels.c", "-o", path("kernels"), f"-L{LIBRARIES}", "-lsectile")
        assert run(path("kernels"), "virtual:sm_90a", path("kernels.sectile")) == "all right\n"
        run(cc, *strict, f"{source}/tests/capi/driver.c", "-o", path("driver"), f"-L{LIBRARIES}", "-lsectile_kernels",
            "-lsectile_rt")
        assert run(path("driver"), path("kernels.sectile"), SECTILE_CUDA_LIBRARY=fake_cuda, FAKE_CUDA_CAPABILITY="90",
                   FAKE_CUDA_LOST_AFTER_LAUNCHES="1") == "all right\n"
        run(cc, *strict, f"{source}/examples/c/softmax.c", "-o", path("softmax"), f"-L{LIBRARIES}", "-lsectile")
        rows = run(path("softmax"), SECTILE_DEVICE="interpreter").splitlines()
        assert rows == ["0.032 0.087 0.237 0.644", "0.250 0.250 0.250 0.250"], rows
        # Nobody has code for a launch, and there is no compiler: a status of its own, which says what to do.
        run(cc, *strict, path("sealed.c", SEALED), "-o", path("sealed"), f"-L{LIBRARIES}", "-lsectile_kernels", "-lsectile_rt")
        assert not re.search("libsectile.so|LLVM", run("ldd", path("sealed")))
        no_device, no_code = run(path("sealed"), SECTILE_CUDA_LIBRARY=fake_cuda, FAKE_CUDA_CAPABILITY="90").splitlines()
        assert "compiler" in no_device and "softmax" in no_code and "no code" in no_code, (no_device, no_code)
        # What it lacks can be recorded, and built.
        run(path("sealed"), SECTILE_CUDA_LIBRARY=fake_cuda, FAKE_CUDA_CAPABILITY="90", SECTILE_RECORD=path("calls.json"))
        with open(path("calls.json")) as file:
            calls = json.load(file)
        assert [(call["kernel"], call["tensors"]["x"]["shape"]) for call in calls] == [("softmax", [2, 8])], calls
        run(cli, "build", "--from", path("calls.json"), "--target", "sm_90", "-o", path("recorded.sectile"))
        assert "softmax" in run(cli, "bundle", "list", path("recorded.sectile"))

    # The header alone, as C++ of either age; both libraries have every function.
    for standard in ["c++11", "c++20"]:
        run(compiler, f"-std={standard}", "-Wall", "-Werror", "-fsyntax-only", *INCLUDES, "-x", "c++",
            path("alone.cpp", "#include <sectile.h>\n"))
    for name in ["sectile", "sectile_kernels"]:
        listed = run("nm", "-D", "--defined-only", f"{LIBRARIES}/lib{name}.so")
        missing = [function for function in functions if not re.search(rf"\b{function}\b", listed)]
        assert not missing, (name, missing)

    if shutil.which("rustc"):
        run("rustc", "-L", LIBRARIES, "-o", path("rust"), path("main.rs", RUST))
        assert re.fullmatch(r"\d+\n", run(path("rust")))
    else:
        print("without Rust: there is no rustc")

library = ctypes.CDLL(f"{LIBRARIES}/libsectile.so")
library.sectile_error.restype = library.sectile_status_name.restype = ctypes.c_char_p
device = ctypes.c_void_p()
assert library.sectile_device_open(b"cuda:99", ctypes.byref(device)) == 5 and not device.value
assert library.sectile_status_name(5) == b"SECTILE_DEVICE" and b"cuda:99" in library.sectile_error()
