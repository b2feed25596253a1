// vscode-jsonrpc on standard input and output, as its README shows it.

const rpc = require('vscode-jsonrpc/node');

const connection = rpc.createMessageConnection(
  new rpc.StreamMessageReader(process.stdin),
  new rpc.StreamMessageWriter(process.stdout),
);

connection.onRequest('add', (a, b) => a + b);
connection.onRequest('nap', (a, b) => new Promise((done) => setTimeout(done, 10, a + b)));
connection.onRequest('echo', (text) => [text]);
connection.onClose(() => process.exit(0));
connection.listen();
