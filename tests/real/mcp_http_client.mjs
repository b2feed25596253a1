// Drives an MCP server over Streamable HTTP with the official TypeScript SDK.
//
// Use: mcp_http_client.mjs URL NODE_MODULES
//
// The server must have the tools of `examples/mcp_server.rs`. Prints one JSON
// object with what was seen; the exit code is 0 if nothing failed.
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

const [url, modules] = process.argv.slice(2);
// An import does not look at NODE_PATH, so the package is named by its path.
const require = createRequire(pathToFileURL(`${modules}/`));
const sdk = (name) => require(`@modelcontextprotocol/sdk/${name}`);
const { Client } = sdk('client/index.js');
const { StreamableHTTPClientTransport } = sdk('client/streamableHttp.js');
const types = sdk('types.js');

const roots = [{ uri: 'file:///one' }, { uri: 'file:///two' }];
const logged = [];
const client = new Client(
  { name: 'real', version: '1.0.0' },
  { capabilities: { roots: {} } },
);
client.setRequestHandler(types.ListRootsRequestSchema, () => ({ roots }));
client.setNotificationHandler(types.LoggingMessageNotificationSchema, ({ params }) => {
  logged.push(params.data);
});
client.onerror = (error) => console.error(`onerror: ${error.message}`);

const transport = new StreamableHTTPClientTransport(new URL(url));
await client.connect(transport);

const options = { timeout: 20000 };
const call = async (name, args, more) => {
  const answer = await client.callTool(
    { name, arguments: args },
    undefined,
    { ...options, ...more },
  );
  return answer.content[0].text;
};

const seen = { server: client.getServerVersion().name };
seen.session = typeof transport.sessionId;
await client.ping(options);
seen.tools = (await client.listTools({}, options)).tools.map(({ name }) => name).sort();
seen.sums = [await call('add', { a: 2, b: 3 })];

const steps = [];
const onprogress = ({ progress }) => steps.push(progress);
seen.count = await call('count', { to: 5 }, { onprogress });
seen.steps = steps;
for (let wait = 0; wait < 2000 && logged.length === 0; wait += 1) {
  await new Promise((done) => setTimeout(done, 10));
}
[seen.logged] = logged;

seen.roots = await call('roots', {});
const many = await Promise.all(Array.from({ length: 20 }, () => call('roots', {})));
seen.asked_at_once = many.filter((text) => text === seen.roots).length;

// The SDK sends a cancel when its own time is up, and when it is told to stop.
try {
  await call('sleep', { seconds: 30 }, { timeout: 500 });
} catch (error) {
  seen.timeout_code = error.code;
}
const stop = new AbortController();
setTimeout(() => stop.abort('enough'), 300);
try {
  await call('sleep', { seconds: 30 }, { signal: stop.signal });
} catch (error) {
  seen.aborted = String(error.message ?? error).includes('enough');
}
seen.sums.push(await call('add', { a: 20, b: 30 }));

// The session ends by DELETE; after that the server does not know it.
const id = transport.sessionId;
await transport.terminateSession();
const late = await fetch(url, {
  method: 'POST',
  headers: {
    'content-type': 'application/json',
    accept: 'application/json, text/event-stream',
    'mcp-session-id': id,
  },
  body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'ping' }),
});
seen.after_delete = late.status;
await client.close();
console.log(JSON.stringify(seen));
