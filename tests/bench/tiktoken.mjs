// tiktoken.mjs TEXT ENCODING: ms to open an encoding, MB/s of tiktoken, tokens; for comparison (see peer.mjs).
import {readFileSync} from "node:fs";
import {createRequire} from "node:module";
const {get_encoding} = createRequire(process.env.PEER + "/")("tiktoken");
const text = readFileSync(process.argv[2], "utf8");
const clock = f => { const t = performance.now(); f(); return performance.now() - t; };
let encoding, n = 0;
const opening = clock(() => { encoding = get_encoding(process.argv[3]); encoding.encode_ordinary("a"); });
const best = Math.min(...[1, 2, 3].map(() => clock(() => { n = encoding.encode_ordinary(text).length; })));
console.log(opening.toFixed(2), (Buffer.byteLength(text) / 1e3 / best).toFixed(2), n);
