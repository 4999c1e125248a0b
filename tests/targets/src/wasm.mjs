// Runs a module and prints its output: node wasm.mjs FILE
import { readFileSync } from 'node:fs';

let memory;
const print = (text, length) => process.stdout.write(new Uint8Array(memory.buffer, text, length));
const { instance } = await WebAssembly.instantiate(readFileSync(process.argv[2]), { host: { print } });
memory = instance.exports.memory;
instance.exports.run();
