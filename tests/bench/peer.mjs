// peer.mjs MODEL THREADS PREFILL DECODE [AFTER]: tokens/s of node-llama-cpp on the same file, for comparison.
// Prints: prefill tokens/s, decode tokens/s after AFTER positions.  Run where the package is installed
// (npm i node-llama-cpp --ignore-scripts): NODE_PATH does not reach ES modules, so the folder is an environment
// variable, PEER.
import {pathToFileURL} from "node:url";
import {createRequire} from "node:module";
const require = createRequire(process.env.PEER + "/");
const {getLlama, LlamaLogLevel} = await import(pathToFileURL(require.resolve("node-llama-cpp")));
const [model, threads, prefill, decode, after] = [process.argv[2], ...process.argv.slice(3).map(Number)];
const llama = await getLlama({gpu: false, build: "never", logLevel: LlamaLogLevel.error, maxThreads: threads});
const loaded = await llama.loadModel({modelPath: model});
const size = Math.max(prefill, after || 0) + decode + 16;
const context = await loaded.createContext({contextSize: size, batchSize: 512, threads});
const sequence = context.getSequence();
const ids = n => Array.from({length: n}, (_, i) => 3 + (i * 7919) % 500);
const seconds = async f => { const t = performance.now(); await f(); return (performance.now() - t) / 1000; };
await sequence.evaluateWithoutGeneratingNewTokens(ids(16)); // warm
await sequence.clearHistory();
const p = await seconds(() => sequence.evaluateWithoutGeneratingNewTokens(ids(prefill)));
if (after) {
    await sequence.clearHistory();
    await sequence.evaluateWithoutGeneratingNewTokens(ids(after));
}
// A token is chosen each time: otherwise the peer leaves out the output matrix.
const next = {generateNext: {token: true, options: {temperature: 0}}};
const d = await seconds(async () => { for (let i = 0; i < decode; i++) await sequence.controlledEvaluate([[200 + i % 200, next]]); });
console.log((prefill / p).toFixed(2), (decode / d).toFixed(2));
process.exit(0);
