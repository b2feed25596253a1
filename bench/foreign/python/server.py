"""python-lsp-jsonrpc on standard input and output, as its README shows it.

No `nap`: what is not answered at once goes to five threads.
"""

import sys

from pylsp_jsonrpc.endpoint import Endpoint
from pylsp_jsonrpc.streams import JsonRpcStreamReader, JsonRpcStreamWriter


def add(params):
    a, b = params
    return a + b


def echo(params):
    return params


reader = JsonRpcStreamReader(sys.stdin.buffer)
writer = JsonRpcStreamWriter(sys.stdout.buffer)
endpoint = Endpoint({'add': add, 'echo': echo}, writer.write)
reader.listen(endpoint.consume)
