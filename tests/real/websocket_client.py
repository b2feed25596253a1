"""Speak with a server over WebSocket with the Python package websockets.

Use: websocket_client.py URL

The server must have the methods of `caudal serve`. Prints one JSON object with
what was seen; the exit code is 0 if nothing failed.
"""

import json
import sys

from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect


def request(id, method, params):
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params}


def main(url):
    seen = {}
    # It offers compression; the server does not take it.
    with connect(url, open_timeout=20, close_timeout=20) as socket:

        def ask(message):
            socket.send(message if isinstance(message, (str, bytes)) else json.dumps(message))
            return json.loads(socket.recv(timeout=20))

        seen["add"] = ask(request(1, "add", [1, 2]))
        seen["batch"] = ask([request(1, "add", [1, 2]), request(2, "add", [3, 4])])
        seen["bytes"] = ask(json.dumps(request("b", "add", [5, 6])).encode())
        seen["garbage"] = ask("{")["error"]["code"]

        # One message in many fragments, among them broken characters of UTF-8.
        text = json.dumps(request(2, "echo", ["ä€😀" * 1000]), ensure_ascii=False)
        raw = text.encode()
        socket.send((raw[n : n + 7] for n in range(0, len(raw), 7)), text=True)
        echoed = json.loads(socket.recv(timeout=20))
        seen["fragments"] = echoed["result"] == ["ä€😀" * 1000]

        # Longer than 64 KiB both ways.
        long = "x" * 1_000_000
        seen["long"] = ask(request(3, "echo", [long]))["result"] == [long]

        socket.send(json.dumps(request(4, "ticks.start", {"count": 3, "every_ms": 1, "wait": True})))
        messages = [json.loads(socket.recv(timeout=20)) for _ in range(4)]
        seen["ticks"] = [message["params"][0] for message in messages[:3]]
        seen["ticked"] = messages[3]["result"]
        seen["pong"] = socket.ping().wait(20)
    seen["close_code"] = socket.close_code

    try:
        with connect(url, origin="http://elsewhere.example", open_timeout=20):
            seen["foreign"] = "let in"
    except InvalidStatus as refused:
        seen["foreign"] = refused.response.status_code

    # Text that is no UTF-8 is against the protocol.
    with connect(url, open_timeout=20) as socket:
        socket.send(b"\xff\xfe", text=True)
        try:
            socket.recv(timeout=20)
        except ConnectionClosed as closed:
            seen["not_utf8"] = closed.rcvd.code if closed.rcvd else None
    return seen


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1])))
