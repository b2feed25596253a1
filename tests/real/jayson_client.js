// Calls a server with jayson's HTTP client.
//
// Use: jayson_client.js URL
//
// The server must have the methods of `caudal serve`. Prints one JSON object with
// what was seen. The caller must set NODE_PATH to target/real/node_modules.
'use strict';

const jayson = require('jayson/promise');

async function main(url) {
  const client = jayson.Client.http(url);
  const seen = {};
  seen.add = (await client.request('add', [1, 2])).result;
  seen.named = (await client.request('subtract', { minuend: 5, subtrahend: 3 })).result;
  seen.error = (await client.request('fail', [])).error;
  seen.unknown = (await client.request('no_such_method', [])).error.code;
  // An id of null makes a notification of it.
  seen.notification = (await client.request('update', [1], null)) ?? null;
  const batch = [
    client.request('add', [1, 2], undefined, false),
    client.request('add', [3, 4], undefined, false),
    client.request('update', [5], null, false),
    client.request('fail', [], undefined, false),
  ];
  const answers = await client.request(batch);
  seen.batch = answers.map(({ result, error }) => result ?? error.code);
  const long = 'ä😀'.repeat(100000);
  seen.long = (await client.request('echo', [long])).result[0] === long;
  return seen;
}

main(process.argv[2]).then((seen) => console.log(JSON.stringify(seen)));
