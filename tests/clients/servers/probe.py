"""A server that tries what a program might: each resource is an attempt, and its content what came of it.

It speaks the revisions with sessions over stdio, with the standard library alone.
"""

import http.client
import json
import os
import socket
import subprocess
import sys


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def write(path):
    with open(path, "w", encoding="utf-8") as file:
        file.write("written")
    return "written"


def connect(port):
    with socket.create_connection(("127.0.0.1", int(port)), timeout=5):
        return "connected"


def fetch(port):
    """Asks the host's proxy for a page of a server of this machine."""
    host, proxy_port = os.environ["http_proxy"].removeprefix("http://").split(":")
    connection = http.client.HTTPConnection(host, int(proxy_port), timeout=5)
    connection.request("GET", f"http://127.0.0.1:{port}/")
    response = connection.getresponse()
    return f"{response.status} {response.read().decode()}"


def fork(most):
    """Starts processes until it may not, or there are that many."""
    processes = []
    try:
        while len(processes) < int(most):
            processes.append(subprocess.Popen(["sleep", "100"], start_new_session=True))
        return f"{len(processes)} processes"
    except OSError:
        return f"stopped at {len(processes)} processes"
    finally:
        for process in processes:
            process.kill()
            process.wait()


def leave(seconds):
    """Leaves a process behind, in a session of its own."""
    subprocess.Popen(["sleep", seconds], start_new_session=True)
    return "left"


def allocate(mebibytes):
    """Holds that much memory, which is written to."""
    held = bytearray(int(mebibytes) << 20)
    while True:
        for page in range(0, len(held), 4096):
            held[page] = 1


def spin(_):
    """Uses the processor without end."""
    while True:
        pass


def processes(_):
    """The processes that it sees."""
    return " ".join(sorted(name for name in os.listdir("/proc") if name.isdigit()))


def variables(_):
    return " ".join(sorted(os.environ))


def user(_):
    return str(os.getuid())


def loud(lines):
    """Writes to standard error."""
    for number in range(int(lines)):
        print(f"noise {number}", file=sys.stderr, flush=True)
    return "said"


ATTEMPTS = {
    function.__name__: function
    for function in [read, write, connect, fetch, fork, leave, allocate, spin, processes, variables, user, loud]
}


def attempt(uri):
    _, kind, argument = uri.split(":", 2)
    try:
        return ATTEMPTS[kind](argument)
    except Exception as error:  # What came of it, whatever that is.
        return f"{type(error).__name__}: {error}"


def answer(method, params):
    if method == "initialize":
        info = {"name": "probe", "version": "1"}
        return {"protocolVersion": "2025-06-18", "capabilities": {"resources": {}}, "serverInfo": info}
    if method == "resources/list":
        return {"resources": [{"uri": "try:variables:", "name": "variables"}]}
    if method == "resources/read":
        return {"contents": [{"uri": params["uri"], "text": attempt(params["uri"])}]}
    return None


for line in sys.stdin:
    request = json.loads(line)
    if "id" not in request:
        continue
    result = answer(request["method"], request.get("params", {}))
    error = {"code": -32601, "message": "not found"}
    outcome = {"result": result} if result is not None else {"error": error}
    print(json.dumps({"jsonrpc": "2.0", "id": request["id"], **outcome}), flush=True)
