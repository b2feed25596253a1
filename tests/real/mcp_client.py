"""Drive an MCP server over stdio with the official MCP Python SDK client.

Use: mcp_client.py COMMAND [ARGUMENT...]

The server must have the tools `add` {a, b} and `sleep` {seconds}. On success
one JSON object with what was seen is printed and the exit code is 0. If
something is not as expected, a message goes to stderr and the exit code is 1.
"""

import json
import sys
import time

import anyio
from mcp import ClientSession, MCPError, StdioServerParameters, stdio_client
from mcp.types import REQUEST_TIMEOUT


class Mismatch(Exception):
    """The server did something that is not as expected."""


def check(good, message):
    if not good:
        raise Mismatch(message)


async def add(session, a, b):
    """Call `add` and check that the answer is the one text a + b."""
    result = await session.call_tool("add", {"a": a, "b": b})
    check(not result.is_error, f"add {a} {b}: error result {result.content}")
    texts = [part.text for part in result.content if part.type == "text"]
    check(texts == [str(a + b)], f"add {a} {b}: expected {a + b}, got {texts}")
    return texts[0]


async def sleep_until_timeout(session):
    """The SDK gives up by itself, sends a cancel, and raises an error."""
    try:
        await session.call_tool("sleep", {"seconds": 30}, read_timeout_seconds=0.5)
    except MCPError as error:
        check(error.code == REQUEST_TIMEOUT, f"sleep with timeout: {error.code} {error}")
        return True
    raise Mismatch("sleep with a timeout of 0.5 s gave a result")


async def sleep_until_cancelled(session):
    """Our own code stops waiting. The SDK then sends a cancel."""
    with anyio.move_on_after(0.5) as scope:
        await session.call_tool("sleep", {"seconds": 30})
    check(scope.cancelled_caught, "the cancelled sleep gave a result")
    return True


async def unknown_tool(session):
    """Servers may answer with an error result or with a JSON-RPC error."""
    try:
        result = await session.call_tool("no_such_tool", {})
    except MCPError as error:
        return {"kind": "error", "code": error.code, "message": error.message}
    check(result.is_error, "no_such_tool gave a good result")
    return {"kind": "result", "texts": [part.text for part in result.content]}


async def talk(session):
    """All the calls, in order. Gives back what was seen."""
    hello = await session.initialize()
    tools = sorted(tool.name for tool in (await session.list_tools()).tools)
    for name in ("add", "sleep"):
        check(name in tools, f"the server has no tool {name}, only {tools}")
    seen = {
        "server": hello.server_info.name,
        "protocol": hello.protocol_version,
        "tools": tools,
        "sums": [await add(session, 2, 3)],
    }
    start = time.monotonic()
    seen["timeout_raised"] = await sleep_until_timeout(session)
    seen["sums"].append(await add(session, 20, 30))
    seen["cancel_raised"] = await sleep_until_cancelled(session)
    seen["sums"].append(await add(session, 200, 300))
    took = time.monotonic() - start
    check(took < 10, f"the calls after a cancel waited for the sleep: {took:.1f} s")
    seen["unknown_tool"] = await unknown_tool(session)
    seen["sums"].append(await add(session, 2000, 3000))
    return seen


async def main(command):
    server = StdioServerParameters(command=command[0], args=command[1:])
    async with stdio_client(server) as (read, write):
        # The read timeout is for calls that hang: the test must end.
        async with ClientSession(read, write, read_timeout_seconds=20) as session:
            return await talk(session)


def causes(error):
    """The real errors: task groups wrap them in exception groups."""
    if isinstance(error, BaseExceptionGroup):
        return [cause for inner in error.exceptions for cause in causes(inner)]
    return [error]


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit("use: mcp_client.py COMMAND [ARGUMENT...]")
    try:
        print(json.dumps(anyio.run(main, sys.argv[1:])))
    except Exception as failure:
        for cause in causes(failure):
            print(f"mcp_client: {type(cause).__name__}: {cause}", file=sys.stderr)
        sys.exit(1)
