"""Runs a program on a machine without a feature of the kernel: `refused.py CALL PROGRAM ARGUMENT…` refuses the system call with that number
to the program, and to everything that it starts."""

import ctypes
import errno
import os
import struct
import sys

SET_NO_NEW_PRIVS, SET_SECCOMP, MODE_FILTER = 38, 22, 2
ALLOW, ERRNO = 0x7FFF0000, 0x00050000
# Of BPF: load the number of the call, compare it, return.
LOAD, EQUAL, RETURN = 0x20, 0x15, 0x06

instructions = [
    (LOAD, 0, 0, 0),
    (EQUAL, 0, 1, int(sys.argv[1])),
    (RETURN, 0, 0, ERRNO | errno.EPERM),
    (RETURN, 0, 0, ALLOW),
]
code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *instruction) for instruction in instructions))


class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("code", ctypes.c_void_p)]


libc = ctypes.CDLL(None, use_errno=True)
program = Program(len(instructions), ctypes.addressof(code))
libc.prctl.argtypes = [ctypes.c_int, ctypes.c_ulong, ctypes.c_void_p, ctypes.c_ulong, ctypes.c_ulong]
for option, argument, more in [(SET_NO_NEW_PRIVS, 1, None), (SET_SECCOMP, MODE_FILTER, ctypes.byref(program))]:
    if libc.prctl(option, argument, more, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "the kernel does not refuse system calls")
os.execv(sys.argv[2], sys.argv[2:])
