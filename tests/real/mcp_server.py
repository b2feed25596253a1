"""A small MCP server over stdio, made with the official MCP Python SDK.

In version 2 of the SDK the class FastMCP has the name MCPServer.
"""

import anyio
from mcp.server.mcpserver import MCPServer

server = MCPServer("real-mcp-server", version="1.0.0")


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


if __name__ == "__main__":
    server.run("stdio")
