// Plays an exported policy in Node: `node export_node.mjs FOLDER STEPS.json`, after
// `npm install onnxruntime-node` (or onnxruntime-web, which runs in browsers too) here.
//
// STEPS.json is a list of steps, each with the inputs but the state as nested lists, and the actions
// that JAX took (benchmarks/export_node.py writes it). Prints how many actions differ, and exits
// with 1 if any does (of a box: by more than 1e-4).
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
import { join } from "node:path";

const [folder, stepsFile, runtime = "onnxruntime-node"] = process.argv.slice(2);
const ort = createRequire(join(process.cwd(), "any.js"))(runtime);
const contract = JSON.parse(readFileSync(join(folder, "contract.json")));
const steps = JSON.parse(readFileSync(stepsFile));
const session = await ort.InferenceSession.create(readFileSync(join(folder, contract.file)));
const batch = steps[0].reset.length;
const arrays = { float32: Float32Array, int32: Int32Array, bool: Uint8Array };

function tensor(entry, value) {
  const shape = entry.shape.map((size) => (size === "batch" ? batch : size));
  const content = new arrays[entry.dtype](shape.reduce((product, size) => product * size, 1));
  if (Array.isArray(value)) content.set(value.flat(Infinity).map(Number));
  else content.fill(Number(value));
  return new ort.Tensor(entry.dtype, content, shape);
}

function initial(entry) {
  if (!Array.isArray(entry.initial)) return tensor(entry, entry.initial);
  return tensor(entry, Array(batch).fill(entry.initial));
}

const state = contract.inputs.filter((entry) => "next" in entry);
const shown = contract.inputs.filter((entry) => !("next" in entry));
const feeds = Object.fromEntries(state.map((entry) => [entry.name, initial(entry)]));
let [differing, total, milliseconds] = [0, 0, 0];
for (const step of steps) {
  for (const entry of shown) feeds[entry.name] = tensor(entry, step[entry.name]);
  const began = performance.now();
  const outputs = await session.run(feeds);
  milliseconds += performance.now() - began;
  for (const entry of state) feeds[entry.name] = outputs[entry.next];
  const known = step.actions.flat(Infinity);
  const slack = contract.spec.action.kind === "box" ? 1e-4 : 0;
  differing += known.filter((action, k) => Math.abs(action - outputs.actions.data[k]) > slack).length;
  total += known.length;
}
const mean = (milliseconds / steps.length).toFixed(2);
console.log(`${runtime}: ${differing} of ${total} actions differ, ${mean} ms per step`);
process.exitCode = differing ? 1 : 0;
