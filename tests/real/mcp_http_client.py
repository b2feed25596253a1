"""Drive an MCP server over Streamable HTTP with the official MCP Python SDK client.

Use: mcp_http_client.py URL

The server must have the tools of `examples/mcp_server.rs`. On success one JSON
object with what was seen is printed and the exit code is 0. If something is not
as expected, a message goes to stderr and the exit code is 1.
"""

import json
import sys

import anyio
from mcp import Client, ClientSession
from mcp.client.streamable_http import streamable_http_client
from mcp.types import ListRootsResult, Root
from pydantic import FileUrl

from mcp_client import Mismatch, add, causes, check, sleep_until_cancelled
from mcp_client import sleep_until_timeout, unknown_tool

ROOTS = ["file:///one", "file:///two"]


async def list_roots(context):
    return ListRootsResult(roots=[Root(uri=FileUrl(uri)) for uri in ROOTS])


def text_of(result):
    check(not result.is_error, f"error result {result.content}")
    return result.content[0].text


async def count(session, to):
    """Progress comes to the caller while the call runs. Gives the steps back."""
    steps = []

    async def progress(done, total, message):
        check(total == to, f"total {total} of {to}")
        steps.append(done)

    result = await session.call_tool("count", {"to": to}, progress_callback=progress)
    check(text_of(result) == f"counted to {to}", f"count: {result.content}")
    return steps


async def until(condition, message):
    with anyio.move_on_after(20):
        while not condition():
            await anyio.sleep(0.01)
        return
    raise Mismatch(message)


async def talk(session, logged):
    hello = await session.initialize()
    seen = {
        "server": hello.server_info.name,
        "protocol": hello.protocol_version,
        "tools": sorted(tool.name for tool in (await session.list_tools()).tools),
        "sums": [await add(session, 2, 3)],
    }
    await session.send_ping()
    steps = await count(session, 5)
    seen["steps"] = [int(step) for step in steps]
    await until(lambda: logged, "no log entry came")
    seen["logged"] = logged[0]
    seen["roots"] = text_of(await session.call_tool("roots", {}))
    seen["timeout_raised"] = await sleep_until_timeout(session)
    seen["sums"].append(await add(session, 20, 30))
    seen["cancel_raised"] = await sleep_until_cancelled(session)
    seen["sums"].append(await add(session, 200, 300))
    seen["unknown_tool"] = await unknown_tool(session)
    # Many at once, each of which asks back.
    answers = []

    async def ask():
        answers.append(text_of(await session.call_tool("roots", {})))

    async with anyio.create_task_group() as group:
        for _ in range(20):
            group.start_soon(ask)
    seen["asked_at_once"] = len(answers)
    check(set(answers) == {seen["roots"]}, f"roots: {answers}")
    return seen


async def by_hand(url):
    """A session of the older kind, step by step."""
    logged = []

    async def log(entry):
        logged.append(entry.data)

    async with streamable_http_client(url) as (read, write):
        async with ClientSession(
            read,
            write,
            read_timeout_seconds=20,
            list_roots_callback=list_roots,
            logging_callback=log,
        ) as session:
            return await talk(session, logged)


async def by_itself(url):
    """The SDK finds out by itself which kind of session the server offers."""
    async with Client(url, list_roots_callback=list_roots, read_timeout_seconds=20) as client:
        return [
            text_of(await client.call_tool("add", {"a": 1, "b": 1})),
            text_of(await client.call_tool("roots", {})),
        ]


async def main(url):
    seen = await by_hand(url)
    seen["by_itself"] = await by_itself(url)
    return seen


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("use: mcp_http_client.py URL")
    try:
        print(json.dumps(anyio.run(main, sys.argv[1])))
    except Exception as failure:
        for cause in causes(failure):
            print(f"mcp_http_client: {type(cause).__name__}: {cause}", file=sys.stderr)
        sys.exit(1)
