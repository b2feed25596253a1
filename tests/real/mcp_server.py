"""A small MCP server, made with the official MCP Python SDK.

Use: mcp_server.py [http|http-json]

It speaks over stdio, or over Streamable HTTP: then its first line on stdout is
its URL. With `http-json` it answers a POST with JSON and not with events.
In version 2 of the SDK the class FastMCP has the name MCPServer.
"""

import socket
import sys

import anyio
from mcp.server.mcpserver import Context, MCPServer

server = MCPServer("real-mcp-server", version="1.0.0", log_level="WARNING")


@server.tool()
def add(a: int, b: int) -> int:
    """Add two whole numbers."""
    return a + b


@server.tool()
def greet(name: str) -> str:
    """Say hello to somebody."""
    return f"Hello, {name}!"


@server.tool()
async def sleep(seconds: float) -> str:
    """Wait, and stop waiting when the call is cancelled."""
    await anyio.sleep(seconds)
    return f"slept {seconds} s"


@server.tool()
async def count(to: int, context: Context) -> str:
    """Count, and report each step."""
    for n in range(1, to + 1):
        await context.report_progress(n, to)
    await context.info(f"counted to {to}")
    return f"counted to {to}"


@server.tool()
async def roots(context: Context) -> str:
    """Ask the client for its roots, while its own call is still open."""
    answer = await context.session.list_roots()
    return " ".join(str(root.uri) for root in answer.roots)


def serve_http(json_response):
    import uvicorn

    listener = socket.create_server(("127.0.0.1", 0))
    app = server.streamable_http_app(json_response=json_response)
    print(f"http://127.0.0.1:{listener.getsockname()[1]}/mcp", flush=True)
    config = uvicorn.Config(app, log_level="warning")
    uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
    match sys.argv[1:]:
        case []:
            server.run("stdio")
        case ["http"]:
            serve_http(json_response=False)
        case ["http-json"]:
            serve_http(json_response=True)
        case _:
            sys.exit("use: mcp_server.py [http|http-json]")
