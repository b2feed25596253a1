// Speaks with a server by Node's own fetch, and by WebSocket with the package ws.
//
// Use: node_client.js URL
//
// The server must have the methods of `caudal serve`. Prints one JSON object with
// what was seen. The caller must set NODE_PATH to target/real/node_modules.
'use strict';

const { once } = require('node:events');
const WebSocket = require('ws');

const json = { 'content-type': 'application/json' };
const request = (id, method, params) => ({ jsonrpc: '2.0', id, method, params });
const post = (url, message, headers = {}) => fetch(url, {
  method: 'POST',
  headers: { ...json, ...headers },
  body: JSON.stringify(message),
});

// The events of a response, one by one.
async function* events(response) {
  let text = '';
  for await (const chunk of response.body.pipeThrough(new TextDecoderStream())) {
    text += chunk;
    const parts = text.split('\n\n');
    text = parts.pop();
    for (const part of parts) {
      const fields = part.split('\n').map((line) => line.split(/: ?(.*)/));
      yield Object.fromEntries(fields);
    }
  }
}

async function byFetch(url) {
  const seen = {};
  seen.add = await (await post(url, request(1, 'add', [1, 2]))).json();
  const nothing = await post(url, { jsonrpc: '2.0', method: 'update', params: [1] });
  seen.notification = [nothing.status, await nothing.text()];

  const stream = await fetch(url, { headers: { accept: 'text/event-stream' } });
  const session = { 'mcp-session-id': stream.headers.get('mcp-session-id') };
  const ticks = { count: 3, every_ms: 1 };
  const started = await post(url, request(2, 'ticks.start', ticks), session);
  seen.started = (await started.json()).result;
  seen.ticks = [];
  for await (const event of events(stream)) {
    // An event without a name is a message, and its number is behind the session's id.
    if (event.id && !event.event) {
      const number = Number(event.id.split('.').pop());
      seen.ticks.push([number, JSON.parse(event.data).params[0]]);
    }
    if (seen.ticks.length === 3) {
      break;
    }
  }
  seen.deleted = (await fetch(url, { method: 'DELETE', headers: session })).status;
  seen.after = (await post(url, request(3, 'add', [1, 2]), session)).status;
  return seen;
}

async function bySocket(url) {
  const seen = { messages: [] };
  // It offers compression; the server does not take it.
  const socket = new WebSocket(url.replace('http', 'ws'));
  await once(socket, 'open');
  seen.extensions = socket.extensions;
  const receive = async () => JSON.parse((await once(socket, 'message'))[0]);
  socket.send(JSON.stringify(request(1, 'add', [1, 2])));
  seen.messages.push(await receive());
  socket.send(Buffer.from(JSON.stringify([request(2, 'add', [3, 4])])));
  seen.messages.push(await receive());
  const part = JSON.stringify(request(3, 'echo', ['ä😀'])).match(/.{1,3}/gsu);
  part.forEach((text, n) => socket.send(text, { fin: n === part.length - 1 }));
  seen.messages.push(await receive());
  socket.ping('here?');
  seen.pong = String((await once(socket, 'pong'))[0]);
  socket.close(1000);
  [seen.close] = await once(socket, 'close');
  return seen;
}

async function main(url) {
  return { fetch: await byFetch(url), socket: await bySocket(url) };
}

main(process.argv[2]).then((seen) => console.log(JSON.stringify(seen)));
