// The other end of a symmetric connection, made with vscode-jsonrpc.
// It speaks over stdin and stdout with Content-Length headers, and ends when
// stdin ends. The caller must set NODE_PATH to target/real/node_modules.
'use strict';

const rpc = require('vscode-jsonrpc/node');

// This number means "request cancelled" in LSP. vscode-jsonrpc has no name for it.
const REQUEST_CANCELLED = -32800;

// What goes wrong inside the library is written to stderr, never to stdout.
const logger = {
  error: (text) => console.error(text),
  warn: (text) => console.error(text),
  info: () => {},
  log: () => {},
};

const connection = rpc.createMessageConnection(process.stdin, process.stdout, logger);
const notes = [];

const pause = (ms) => new Promise((done) => setTimeout(done, ms));

// Params are an array here, and the library spreads it: add [a, b] -> a + b.
connection.onRequest('add', (a, b) => a + b);

// Params are an object here: describe {name} -> {hello: name}.
connection.onRequest('describe', ({ name }) => ({ hello: name }));

// Always fails, with a code, a message and data.
connection.onRequest('fail', () => {
  throw new rpc.ResponseError(1001, 'failed on purpose', { why: 'test' });
});

// slow {ms}: answers "done" after ms milliseconds. If the caller sends
// $/cancelRequest before that, it answers at once with error -32800.
connection.onRequest('slow', ({ ms }, token) => new Promise((resolve, reject) => {
  const cancel = () => reject(new rpc.ResponseError(REQUEST_CANCELLED, 'cancelled'));
  if (token.isCancellationRequested) {
    cancel();
    return;
  }
  const timer = setTimeout(() => resolve('done'), ms);
  token.onCancellationRequested(() => {
    clearTimeout(timer);
    cancel();
  });
}));

// note {text} is a notification that is kept. notes gives all of them in order.
connection.onNotification('note', ({ text }) => {
  notes.push(text);
});
connection.onRequest('notes', () => notes);

// roundtrip {depth}: the two sides call each other until depth is 0.
connection.onRequest('roundtrip', async ({ depth }) => {
  if (depth <= 0) {
    return 0;
  }
  return 1 + await connection.sendRequest('roundtrip', { depth: depth - 1 });
});

// call_and_cancel: calls `slow` at the caller, cancels it after 50 ms, and
// answers the error code that came back, or null if there was no error.
connection.onRequest('call_and_cancel', async () => {
  const source = new rpc.CancellationTokenSource();
  const timer = setTimeout(() => source.cancel(), 50);
  try {
    await connection.sendRequest('slow', { ms: 60000 }, source.token);
    return null;
  } catch (error) {
    return error.code ?? String(error);
  } finally {
    clearTimeout(timer);
    source.dispose();
  }
});

// work_with_progress {token, steps}: sends $/progress {token, value} for the
// values 0, 1, ... steps-1, 50 ms apart, and then answers steps.
connection.onRequest('work_with_progress', async ({ token, steps }) => {
  for (let value = 0; value < steps; value += 1) {
    await connection.sendProgress(new rpc.ProgressType(), token, value);
    await pause(50);
  }
  return steps;
});

// stdin has ended: nobody can ask any more, so do not wait for open timers.
connection.onClose(() => process.exit(0));
connection.listen();
