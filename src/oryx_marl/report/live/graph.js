// Runs a policy's step: the operators that `policy/onnx` lowers a policy to, on typed arrays.
//
// A tensor is {type, shape, data}: "float" in 32 bits, "int" in 32, "bool" in 8. Sums are taken in
// 64 bits and rounded once, so results differ from other runtimes by rounding alone.
const Graph = (() => {
  "use strict";
  const ARRAYS = { float: Float32Array, int: Int32Array, bool: Uint8Array };
  const product = (sizes) => sizes.reduce((all, size) => all * size, 1);

  function tensor(type, shape, data) {
    return { type, shape, data: data ?? new ARRAYS[type](product(shape)) };
  }

  // Steps through an array of `shape` for each axis; 0 where an axis of length 1 is repeated.
  function strides(shape, rank) {
    const found = new Array(rank).fill(0);
    let step = 1;
    for (let axis = shape.length - 1; axis >= 0; axis--) {
      if (shape[axis] !== 1) found[axis + rank - shape.length] = step;
      step *= shape[axis];
    }
    return found;
  }

  function broadcast(...shapes) {
    const rank = Math.max(...shapes.map((shape) => shape.length));
    const found = new Array(rank).fill(1);
    for (const shape of shapes) {
      shape.forEach((size, axis) => {
        const place = axis + rank - shape.length;
        if (size === 1) return;
        if (found[place] !== 1 && found[place] !== size) {
          throw new Error(`shapes ${JSON.stringify(shapes)} do not broadcast`);
        }
        found[place] = size;
      });
    }
    return found;
  }

  // Calls visit(place in the result, places in the inputs) for every entry, in order.
  function walk(shape, steps, starts, visit) {
    const count = product(shape);
    const rank = shape.length;
    const index = new Array(rank).fill(0);
    const places = [...starts];
    for (let place = 0; place < count; place++) {
      visit(place, places);
      for (let axis = rank - 1; axis >= 0; axis--) {
        for (let k = 0; k < places.length; k++) places[k] += steps[k][axis];
        if (++index[axis] < shape[axis]) break;
        for (let k = 0; k < places.length; k++) places[k] -= steps[k][axis] * shape[axis];
        index[axis] = 0;
      }
    }
  }

  // An operator that works entry by entry; without a type the result has that of the last input.
  function entrywise(compute, type) {
    return (inputs) => {
      const shape = broadcast(...inputs.map((each) => each.shape));
      const out = tensor(type ?? inputs[inputs.length - 1].type, shape);
      const data = inputs.map((each) => each.data);
      const isPlain = data.every((each) => each.length === out.data.length);
      if (isPlain && data.length === 1) {
        for (let i = 0; i < out.data.length; i++) out.data[i] = compute(data[0][i]);
      } else if (isPlain && data.length === 2) {
        for (let i = 0; i < out.data.length; i++) out.data[i] = compute(data[0][i], data[1][i]);
      } else {
        const steps = inputs.map((each) => strides(each.shape, shape.length));
        const starts = inputs.map(() => 0);
        const [a, b, c] = data;
        walk(shape, steps, starts, (place, [i, j, k]) => {
          out.data[place] = compute(a[i], b?.[j], c?.[k]);
        });
      }
      return [out];
    };
  }

  // x / y of whole numbers drops the remainder.
  function divide(inputs) {
    const isWhole = inputs[0].type === "int";
    return entrywise(isWhole ? (x, y) => Math.trunc(x / y) : (x, y) => x / y)(inputs);
  }

  function multiply(inputs) {
    return entrywise(inputs[0].type === "int" ? Math.imul : (x, y) => x * y)(inputs);
  }

  // To the nearest whole number, halves to the even one.
  function round(x) {
    const low = Math.floor(x);
    if (x - low !== 0.5) return Math.round(x);
    return low % 2 === 0 ? low : low + 1;
  }

  // By its series, and where that is slow by its continued fraction.
  function erf(x) {
    const size = Math.abs(x);
    if (size > 6) return Math.sign(x);
    if (size < 2.5) {
      let term = size;
      let sum = size;
      for (let n = 1; Math.abs(term) > 1e-17 * Math.abs(sum); n++) {
        term *= (-size * size) / n;
        sum += term / (2 * n + 1);
      }
      return (Math.sign(x) * 2 * sum) / Math.sqrt(Math.PI);
    }
    let fraction = 0;
    for (let n = 60; n > 0; n--) fraction = n / 2 / (size + fraction);
    return Math.sign(x) * (1 - Math.exp(-size * size) / Math.sqrt(Math.PI) / (size + fraction));
  }

  function cast([value], { to }) {
    const found = tensor(to, value.shape);
    for (let i = 0; i < value.data.length; i++) {
      const x = value.data[i];
      found.data[i] = to === "bool" ? Number(x !== 0) : to === "int" ? Math.trunc(x) : x;
    }
    return [found];
  }

  // The product of matrices in the last two axes; axes before them broadcast.
  function matmul([left, right]) {
    const rows = left.shape[left.shape.length - 2];
    const depth = left.shape[left.shape.length - 1];
    const columns = right.shape[right.shape.length - 1];
    const outer = broadcast(left.shape.slice(0, -2), right.shape.slice(0, -2));
    const found = tensor(left.type, [...outer, rows, columns]);
    const steps = [left, right].map((each) => {
      const size = product(each.shape.slice(-2));
      return strides(each.shape.slice(0, -2), outer.length).map((step) => step * size);
    });
    const sums = new Float64Array(columns);
    walk(outer, steps, [0, 0], (place, [a, b]) => {
      for (let row = 0; row < rows; row++) {
        sums.fill(0);
        for (let k = 0; k < depth; k++) {
          const x = left.data[a + row * depth + k];
          if (x === 0) continue;
          const start = b + k * columns;
          for (let column = 0; column < columns; column++) {
            sums[column] += x * right.data[start + column];
          }
        }
        found.data.set(sums, (place * rows + row) * columns);
      }
    });
    return [found];
  }

  const whole = (axis, rank) => (axis < 0 ? axis + rank : axis);

  // Over some axes, entry after entry in their order.
  function reduction(first, combine) {
    return ([value, axes], { keepdims }) => {
      const rank = value.shape.length;
      const gone = new Set([...axes.data].map((axis) => whole(axis, rank)));
      const kept = value.shape.map((size, axis) => (gone.has(axis) ? 1 : size));
      const sums = new Float64Array(product(kept)).fill(first);
      const steps = strides(kept, rank);
      walk(value.shape, [steps], [0], (place, [target]) => {
        sums[target] = combine(sums[target], value.data[place]);
      });
      const shape = keepdims ? kept : kept.filter((_, axis) => !gone.has(axis));
      return [tensor(value.type, shape, ARRAYS[value.type].from(sums))];
    };
  }

  // The index of the first that is better than all before it; NaN is, as in JAX.
  function argReduction(isBetter) {
    return ([value], { axis: given }) => {
      const axis = whole(given, value.shape.length);
      const size = value.shape[axis];
      const after = product(value.shape.slice(axis + 1));
      const found = tensor("int", value.shape.filter((_, n) => n !== axis));
      for (let place = 0; place < found.data.length; place++) {
        const start = Math.floor(place / after) * after * size + (place % after);
        let best = 0;
        for (let k = 1; k < size; k++) {
          const now = value.data[start + best * after];
          const next = value.data[start + k * after];
          if (isBetter(next, now) || (Number.isNaN(next) && !Number.isNaN(now))) best = k;
        }
        found.data[place] = best;
      }
      return [found];
    };
  }

  function cumulativeSum([value, axes], { reverse }) {
    const axis = whole(axes.data[0], value.shape.length);
    const size = value.shape[axis];
    const after = product(value.shape.slice(axis + 1));
    const found = tensor(value.type, value.shape);
    for (let place = 0; place < product(value.shape) / size; place++) {
      const start = Math.floor(place / after) * after * size + (place % after);
      let sum = 0;
      for (let k = 0; k < size; k++) {
        const at = start + (reverse ? size - 1 - k : k) * after;
        sum += value.data[at];
        found.data[at] = sum;
      }
    }
    return [found];
  }

  function reshape([value, sizes]) {
    const shape = [...sizes.data].map((size, axis) => (size === 0 ? value.shape[axis] : size));
    const open = shape.indexOf(-1);
    if (open >= 0) shape[open] = value.data.length / -product(shape);
    return [tensor(value.type, shape, value.data)];
  }

  function copy(value, shape, steps, start) {
    const found = tensor(value.type, shape);
    walk(shape, [steps], [start], (place, [source]) => {
      found.data[place] = value.data[source];
    });
    return [found];
  }

  function expand([value, sizes]) {
    const shape = broadcast(value.shape, [...sizes.data]);
    return copy(value, shape, strides(value.shape, shape.length), 0);
  }

  function transpose([value], { perm }) {
    const own = strides(value.shape, value.shape.length);
    const shape = perm.map((axis) => value.shape[axis]);
    return copy(value, shape, perm.map((axis) => own[axis]), 0);
  }

  function slice([value, starts, stops, axes, jumps]) {
    const shape = [...value.shape];
    const steps = strides(value.shape, shape.length);
    let first = 0;
    axes.data.forEach((given, n) => {
      const axis = whole(given, shape.length);
      const size = value.shape[axis];
      const jump = jumps ? jumps.data[n] : 1;
      const least = jump < 0 ? -1 : 0;
      const most = jump < 0 ? size - 1 : size;
      const clip = (x) => Math.max(least, Math.min(most, x < 0 ? x + size : x));
      const start = clip(starts.data[n]);
      shape[axis] = Math.max(0, Math.ceil((clip(stops.data[n]) - start) / jump));
      first += start * steps[axis];
      steps[axis] *= jump;
    });
    return copy(value, shape, steps, first);
  }

  function concat(inputs, { axis: given }) {
    const axis = whole(given, inputs[0].shape.length);
    const shape = [...inputs[0].shape];
    shape[axis] = inputs.reduce((sum, each) => sum + each.shape[axis], 0);
    const found = tensor(inputs[0].type, shape);
    const row = product(shape.slice(axis));
    let offset = 0;
    for (const each of inputs) {
      const length = product(each.shape.slice(axis));
      for (let n = 0; n < product(shape.slice(0, axis)); n++) {
        found.data.set(each.data.subarray(n * length, (n + 1) * length), n * row + offset);
      }
      offset += length;
    }
    return [found];
  }

  function pad([value, widths, filling]) {
    const rank = value.shape.length;
    const shape = value.shape.map((size, n) => size + widths.data[n] + widths.data[n + rank]);
    const found = tensor(value.type, shape);
    found.data.fill(filling ? filling.data[0] : 0);
    const steps = strides(shape, rank);
    const start = steps.reduce((sum, step, axis) => sum + step * widths.data[axis], 0);
    walk(value.shape, [steps], [start], (place, [target]) => {
      found.data[target] = value.data[place];
    });
    return [found];
  }

  function gather([value, index], { axis: given }) {
    const axis = whole(given ?? 0, value.shape.length);
    const size = value.shape[axis];
    const length = product(value.shape.slice(axis + 1));
    const shape = [...value.shape.slice(0, axis), ...index.shape, ...value.shape.slice(axis + 1)];
    const found = tensor(value.type, shape);
    let place = 0;
    for (let n = 0; n < product(value.shape.slice(0, axis)); n++) {
      for (const wanted of index.data) {
        const start = (n * size + whole(wanted, size)) * length;
        found.data.set(value.data.subarray(start, start + length), place);
        place += length;
      }
    }
    return [found];
  }

  function gatherND([value, index], { batch_dims: batch = 0 }) {
    const count = index.shape[index.shape.length - 1];
    const looked = value.shape.slice(batch, batch + count);
    const rest = value.shape.slice(batch + count);
    const found = tensor(value.type, [...index.shape.slice(0, -1), ...rest]);
    const length = product(rest);
    const inBatch = product(value.shape.slice(batch));
    const places = product(index.shape.slice(batch, -1));
    for (let n = 0; n < product(index.shape.slice(0, -1)); n++) {
      let at = 0;
      for (let k = 0; k < count; k++) {
        at = at * looked[k] + whole(index.data[n * count + k], looked[k]);
      }
      const start = Math.floor(n / places) * inBatch + at * length;
      found.data.set(value.data.subarray(start, start + length), n * length);
    }
    return [found];
  }

  // A loop over the first axis: carried values go from round to round, others are stacked.
  function scan(inputs, attributes, run, values) {
    const { body, num_scan_inputs: numRows } = attributes;
    const numCarried = inputs.length - numRows;
    const length = inputs[numCarried].shape[0];
    const backIn = attributes.scan_input_directions ?? [];
    const backOut = attributes.scan_output_directions ?? [];
    const stacks = body.outputs.slice(numCarried).map(() => new Array(length));
    let carried = inputs.slice(0, numCarried);
    for (let round = 0; round < length; round++) {
      carried.forEach((each, n) => (values[body.inputs[n]] = each));
      inputs.slice(numCarried).forEach((each, n) => {
        const row = backIn[n] ? length - 1 - round : round;
        const size = each.data.length / length;
        const data = each.data.subarray(row * size, (row + 1) * size);
        values[body.inputs[numCarried + n]] = tensor(each.type, each.shape.slice(1), data);
      });
      run(body.nodes, values);
      const found = body.outputs.map((number) => values[number]);
      carried = found.slice(0, numCarried);
      found.slice(numCarried).forEach((each, n) => {
        stacks[n][backOut[n] ? length - 1 - round : round] = each;
      });
    }
    const stacked = stacks.map((rows) => {
      const found = tensor(rows[0].type, [length, ...rows[0].shape]);
      rows.forEach((each, n) => found.data.set(each.data, n * each.data.length));
      return found;
    });
    return [...carried, ...stacked];
  }

  const largest = (x, y) => (x > y || Number.isNaN(x) ? x : y);
  const smallest = (x, y) => (x < y || Number.isNaN(x) ? x : y);
  const chained = (compute) => (inputs) =>
    inputs.slice(1).reduce((found, each) => entrywise(compute)([found, each])[0], inputs[0]);

  const OPERATORS = {
    Abs: entrywise(Math.abs),
    Add: entrywise((x, y) => x + y),
    And: entrywise((x, y) => x & y, "bool"),
    ArgMax: argReduction((x, y) => x > y),
    ArgMin: argReduction((x, y) => x < y),
    BitwiseAnd: entrywise((x, y) => x & y),
    BitwiseNot: entrywise((x) => ~x),
    BitwiseOr: entrywise((x, y) => x | y),
    BitwiseXor: entrywise((x, y) => x ^ y),
    Cast: cast,
    Ceil: entrywise(Math.ceil),
    Concat: concat,
    Cos: entrywise(Math.cos),
    CumSum: cumulativeSum,
    Div: divide,
    Equal: entrywise((x, y) => x === y, "bool"),
    Erf: entrywise(erf),
    Exp: entrywise(Math.exp),
    Expand: expand,
    Floor: entrywise(Math.floor),
    Gather: gather,
    GatherND: gatherND,
    Greater: entrywise((x, y) => x > y, "bool"),
    GreaterOrEqual: entrywise((x, y) => x >= y, "bool"),
    Identity: (inputs) => inputs,
    IsInf: entrywise((x) => x === Infinity || x === -Infinity, "bool"),
    IsNaN: entrywise((x) => Number.isNaN(x), "bool"),
    Less: entrywise((x, y) => x < y, "bool"),
    LessOrEqual: entrywise((x, y) => x <= y, "bool"),
    Log: entrywise(Math.log),
    MatMul: matmul,
    Max: (inputs) => [chained(largest)(inputs)],
    Min: (inputs) => [chained(smallest)(inputs)],
    Mod: entrywise((x, y) => x % y),
    Mul: multiply,
    Neg: entrywise((x) => -x),
    Not: entrywise((x) => 1 - x, "bool"),
    Or: entrywise((x, y) => x | y, "bool"),
    Pad: pad,
    Pow: entrywise(Math.pow),
    Reciprocal: entrywise((x) => 1 / x),
    ReduceMax: reduction(-Infinity, largest),
    ReduceMin: reduction(Infinity, smallest),
    ReduceProd: reduction(1, (x, y) => x * y),
    ReduceSum: reduction(0, (x, y) => x + y),
    Reshape: reshape,
    Round: entrywise(round),
    Scan: scan,
    Shape: ([value]) => [tensor("int", [value.shape.length], Int32Array.from(value.shape))],
    Sigmoid: entrywise((x) => 1 / (1 + Math.exp(-x))),
    Sign: entrywise(Math.sign),
    Sin: entrywise(Math.sin),
    Slice: slice,
    Sqrt: entrywise(Math.sqrt),
    Sub: entrywise((x, y) => x - y),
    Tanh: entrywise(Math.tanh),
    Transpose: transpose,
    Where: entrywise((mask, x, y) => (mask ? x : y)),
    Xor: entrywise((x, y) => x ^ y, "bool"),
  };

  function run(nodes, values) {
    for (const [op, reads, gives, attributes] of nodes) {
      const inputs = reads.map((number) => values[number]);
      const found = OPERATORS[op](inputs, attributes, run, values);
      gives.forEach((number, n) => (values[number] = found[n]));
    }
  }

  function decode(text) {
    const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
    return bytes.buffer;
  }

  function names(nodes) {
    return nodes.flatMap(([op, , , { body }]) => [op, ...(body ? names(body.nodes) : [])]);
  }

  // A program as `policy/program.py` writes it: its step, and its state before the first one.
  function load(program) {
    const unknown = names(program.nodes).filter((op) => !(op in OPERATORS));
    if (unknown.length) throw new Error(`this page cannot run the operator ${unknown[0]}`);
    const buffer = decode(program.numbers);
    const constants = new Array(program.size);
    for (const [number, type, shape, start] of program.constants) {
      const data = new ARRAYS[type](buffer, start, product(shape));
      constants[number] = tensor(type, shape, data);
    }
    const state = program.inputs.filter((each) => "next" in each);

    function start() {
      const found = {};
      for (const { name, type, shape, initial } of state) {
        found[name] = tensor(type, shape);
        if (Array.isArray(initial)) found[name].data.set(initial);
        else found[name].data.fill(initial);
      }
      return found;
    }

    // Tensors by name in, tensors by name out; nothing is kept.
    function step(inputs) {
      const values = constants.slice();
      for (const { name, value } of program.inputs) values[value] = inputs[name];
      run(program.nodes, values);
      const pairs = Object.entries(program.outputs);
      return Object.fromEntries(pairs.map(([name, number]) => [name, values[number]]));
    }

    function nextState(outputs) {
      return Object.fromEntries(state.map(({ name, next }) => [name, outputs[next]]));
    }

    return { inputs: program.inputs, start, step, nextState };
  }

  return { load, tensor, decode, OPERATORS };
})();
