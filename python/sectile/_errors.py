# Exceptions, one for each way in which the library can fail. What Python has a class for can be caught by that as well.


class Error(RuntimeError):
    """A call of Sectile failed. `file` and `line` say which line of a kernel's source the error is about, where it is
    about one; else they are None."""

    file = None
    line = None


class InvalidError(Error, ValueError):
    """A tensor, an option, a shape or a file cannot be used."""


class NoCodeError(Error):
    """No bundle has code for this launch, and the library has no compiler."""


class CompileError(Error):
    """A kernel does not compile."""


class LaunchError(Error):
    """The device cannot launch this."""


class DeviceError(Error):
    """A device failed, or is not there."""


class KernelAssertionError(Error, AssertionError):
    """An assertion in a kernel did not hold."""


class DeviceLostError(DeviceError):
    """The device is of no more use to this process."""


class OutOfMemoryError(Error, MemoryError):
    """The device or the host has too little memory."""


class NotFoundError(Error, LookupError):
    """Nothing has this name."""


class UnsupportedError(Error, NotImplementedError):
    """This library, this version or this device cannot do it."""


class InternalError(Error):
    """A fault of Sectile's. Please report it."""


# In the order of sectile_status, from SECTILE_OK on.
BY_STATUS = (Error, InvalidError, NoCodeError, CompileError, LaunchError, DeviceError, KernelAssertionError,
             DeviceLostError, OutOfMemoryError, NotFoundError, UnsupportedError, InternalError)
