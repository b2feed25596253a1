"""Drive a language server over stdio with the client of pygls.

Use: lsp_client.py COMMAND [ARGUMENT...]

The server must be like examples/lsp_server.rs. pygls makes typed objects of all
that it receives, and refuses what is not shaped as LSP demands. On success one
JSON object with what was seen is printed and the exit code is 0. Else a message
goes to stderr and the exit code is 1.
"""

import asyncio
import json
import sys

from lsprotocol import types
from pygls.exceptions import JsonRpcException
from pygls.lsp.client import LanguageClient
from pygls.protocol import default_converter

URI = "file:///words.txt"
LIMIT = 20


class Client(LanguageClient):
    """A client that fails at once when something is wrong with what it receives."""

    def __init__(self):
        super().__init__("caudal-tests", "1")
        self.failed = asyncio.get_running_loop().create_future()
        self.exit_code = None
        self.progress = []

    def report_server_error(self, error, source):
        if not self.failed.done():
            self.failed.set_exception(error)

    async def server_exit(self, server):
        self.exit_code = server.returncode

    async def result(self, request):
        """The result of a request, unless something else fails before it."""
        request = asyncio.ensure_future(request)
        await asyncio.wait(
            [request, self.failed], timeout=LIMIT, return_when=asyncio.FIRST_COMPLETED
        )
        if self.failed.done():
            self.failed.result()
        if not request.done():
            raise TimeoutError(f"no answer in {LIMIT} s")
        return request.result()


def found(symbols):
    """The symbols of a search, sorted: name, kind, URI, and from where to where."""
    seen = []
    for symbol in symbols:
        if not isinstance(symbol, types.SymbolInformation):
            raise TypeError(f"not a SymbolInformation: {symbol}")
        start, end = symbol.location.range.start, symbol.location.range.end
        place = [start.line, start.character, end.line, end.character]
        seen.append([symbol.name, symbol.kind.name, symbol.location.uri, place])
    return sorted(seen)


async def talk(client):
    """A session from its beginning to its end. Gives back what was seen."""
    seen = {}
    document = types.TextDocumentIdentifier(URI)

    async def search(query, token=None):
        params = types.WorkspaceSymbolParams(query, work_done_token=token)
        return found(await client.result(client.workspace_symbol_async(params)))

    async def hover(line, character):
        params = types.HoverParams(document, types.Position(line, character))
        answer = await client.result(client.text_document_hover_async(params))
        if answer is not None and not isinstance(answer, types.Hover):
            raise TypeError(f"not a Hover: {answer}")
        return answer and answer.contents

    capabilities = types.ClientCapabilities()
    hello = types.InitializeParams(capabilities, process_id=None, root_uri=None)
    hello = await client.result(client.initialize_async(hello))
    seen["server"] = hello.server_info.name
    can = hello.capabilities
    seen["sync"] = types.TextDocumentSyncKind(can.text_document_sync).name
    seen["hover_provider"] = can.hover_provider
    seen["symbol_progress"] = can.workspace_symbol_provider.work_done_progress
    client.initialized(types.InitializedParams())

    text = types.TextDocumentItem(URI, "plaintext", 1, "alpha beta\n")
    client.text_document_did_open(types.DidOpenTextDocumentParams(text))
    seen["opened"] = await search("bet", token="search")
    seen["progress"] = [type(value).__name__ for value in client.progress]
    change = types.TextDocumentContentChangeWholeDocument("gamma\n\U0001d11e\u00e9, beta_2")
    version = types.VersionedTextDocumentIdentifier(2, URI)
    client.text_document_did_change(types.DidChangeTextDocumentParams(version, [change]))
    seen["changed"] = await search("bet")
    seen["hover"] = [await hover(1, 6), await hover(1, 0), await hover(9, 9)]

    request = client.protocol.send_request_async(
        types.WORKSPACE_SYMBOL, types.WorkspaceSymbolParams(""), msg_id="slow"
    )
    client.protocol.notify(types.CANCEL_REQUEST, types.CancelParams("slow"))
    try:
        seen["cancelled"] = found(await client.result(request))
    except JsonRpcException as error:
        seen["cancelled"] = error.code

    client.text_document_did_close(types.DidCloseTextDocumentParams(document))
    seen["closed"] = [await search(""), await hover(1, 6)]

    seen["shutdown"] = await client.result(client.shutdown_async(None))
    client.exit(None)
    await asyncio.wait_for(client.stop(), LIMIT)
    seen["exit_code"] = client.exit_code
    return seen


async def main(command):
    client = Client()
    converter = default_converter()
    kinds = {
        "begin": types.WorkDoneProgressBegin,
        "report": types.WorkDoneProgressReport,
        "end": types.WorkDoneProgressEnd,
    }

    @client.feature(types.PROGRESS)
    def progress(params):
        value = params.value
        client.progress.append(converter.structure(value, kinds[value["kind"]]))

    await client.start_io(*command)
    return await talk(client)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit("use: lsp_client.py COMMAND [ARGUMENT...]")
    try:
        print(json.dumps(asyncio.run(main(sys.argv[1:]))))
    except Exception as failure:
        print(f"lsp_client: {type(failure).__name__}: {failure}", file=sys.stderr)
        sys.exit(1)
