// The Connector of envs/connector.py: the same rules, features and masks, and its picture.
//
// A state is {grid, positions, targets, mask, stepCount}; the grid is a list of rows. Codes of cells:
// 0 free, then trail, head and target of each agent, three numbers each.
const Environment = (() => {
  "use strict";
  const MOVES = [[0, 0], [-1, 0], [0, 1], [1, 0], [0, -1]]; // stay, up, right, down, left
  const NUM_ACTIONS = 5;
  const SIGHT = 2; // cells an agent sees in each direction
  const OUTSIDE = -1;
  const PENALTY = Math.fround(-0.03); // of a step without being connected

  const trail = (agent) => 3 * agent + 1;
  const head = (agent) => 3 * agent + 2;
  const target = (agent) => 3 * agent + 3;
  const add = (cell, move) => [cell[0] + move[0], cell[1] + move[1]];
  const same = (one, other) => one[0] === other[0] && one[1] === other[1];

  function make({ grid_size: size = 5, num_agents: numAgents = 3, observation_mode: mode = "published" }) {
    const isClean = mode === "clean";
    const timeLimit = size * size;
    const at = (grid, [row, column]) =>
      row < 0 || row >= size || column < 0 || column >= size ? OUTSIDE : grid[row][column];
    const isConnected = (state, n) => same(state.positions[n], state.targets[n]);

    function findMask(state) {
      return state.positions.map((cell, n) =>
        MOVES.map((move, action) => {
          if (action === 0) return true;
          const code = at(state.grid, add(cell, move));
          return !isConnected(state, n) && (code === 0 || code === target(n));
        }),
      );
    }

    // All move at once; of several that want the same cell the one with the highest number gets it.
    function step(before, actions) {
      const wanted = before.positions.map((cell, n) =>
        before.mask[n][actions[n]] ? add(cell, MOVES[actions[n]]) : cell,
      );
      const grid = before.grid.map((row) => [...row]);
      const positions = wanted.map((cell, n) => {
        const isLost = wanted.some((other, k) => k > n && same(cell, other));
        const own = before.positions[n];
        if (isLost || same(cell, own)) return own;
        grid[own[0]][own[1]] = trail(n);
        grid[cell[0]][cell[1]] = head(n);
        return cell;
      });
      const state = { grid, positions, targets: before.targets, stepCount: before.stepCount + 1 };
      state.mask = findMask(state);
      const rewards = positions.map((_, n) => {
        if (isConnected(before, n)) return 0;
        return Math.fround(Number(isConnected(state, n)) + PENALTY);
      });
      const isDone = state.mask.every((mask, n) => isConnected(state, n) || !mask.slice(1).includes(true));
      const isTruncated = !isDone && state.stepCount >= timeLimit;
      return { state, rewards, isTerminal: isDone, isTruncated };
    }

    function features(state) {
      // Compiled code multiplies by the reciprocal, which may differ in the last place.
      const scale = Math.fround(1 / (isClean ? size : size * size));
      return state.positions.map((cell, n) => {
        const aim = !isClean && isConnected(state, n) ? [0, 0] : state.targets[n];
        const lines = [];
        const targets = [];
        for (let row = -SIGHT; row <= SIGHT; row++) {
          for (let column = -SIGHT; column <= SIGHT; column++) {
            const code = at(state.grid, add(cell, [row, column]));
            const kind = code > 0 ? (code - 1) % 3 : -1;
            if (code === OUTSIDE) {
              lines.push(isClean ? -1 : 1);
              targets.push(isClean ? 0 : 1);
            } else {
              lines.push(kind === 1 ? 1 : kind === 0 ? -1 : 0);
              targets.push(kind !== 2 ? 0 : code === target(n) ? 1 : -1);
            }
          }
        }
        return [...cell, ...aim].map((place) => Math.fround(place * scale)).concat(lines, targets);
      });
    }

    const actionMask = (state) => state.mask;

    function read(fields) {
      const state = { ...fields, stepCount: fields.step_count };
      state.mask = findMask(state);
      return state;
    }

    function describe(state, names) {
      const agents = state.positions.map(([row, column], n) => {
        const [aimRow, aimColumn] = state.targets[n];
        const end = isConnected(state, n) ? "connected" : `target in row ${aimRow}, column ${aimColumn}`;
        return `${names[n]} in row ${row}, column ${column}, ${end}`;
      });
      return `${agents.join("; ")}.`;
    }

    const colours = Array.from({ length: numAgents }, (_, n) => colour(n));

    // `actions`: what the agents are about to do; null where the episode is over.
    function draw(pen, state, chosen, actions) {
      for (let row = 0; row < size; row++) {
        for (let column = 0; column < size; column++) {
          pen.fillStyle = "rgb(221, 216, 204)";
          pen.fillRect(column, row, 1, 1);
          pen.fillStyle = "rgb(244, 241, 233)";
          pen.fillRect(column, row + 0.03, 0.97, 0.97);
          const code = state.grid[row][column];
          if (code <= 0) continue;
          const agent = Math.floor((code - 1) / 3);
          const kind = (code - 1) % 3;
          pen.fillStyle = pen.strokeStyle = colours[agent];
          if (kind < 2) {
            pen.globalAlpha = 0.4;
            pen.fillRect(column, row + 0.03, 0.97, 0.97);
            pen.globalAlpha = 1;
          }
          if (kind === 2) {
            pen.lineWidth = 0.12;
            pen.strokeRect(column + 0.14, row + 0.16, 0.7, 0.7);
          } else if (kind === 1 && isConnected(state, agent)) {
            pen.fillRect(column + 0.08, row + 0.1, 0.82, 0.82);
          }
          if (kind === 1) mark(pen, column + 0.49, row + 0.51, agent, agent === chosen);
        }
      }
      state.positions.forEach(([row, column], n) => {
        const [down, right] = MOVES[actions?.[n] ?? 0];
        arrow(pen, column + 0.49, row + 0.51, [right, down]);
      });
    }

    function mark(pen, x, y, agent, isChosen) {
      pen.beginPath();
      pen.arc(x, y, 0.34, 0, 2 * Math.PI);
      pen.fillStyle = colours[agent];
      pen.fill();
      if (isChosen) {
        pen.lineWidth = 0.09;
        pen.strokeStyle = "rgb(20, 90, 200)";
        pen.beginPath();
        pen.arc(x, y, 0.4, 0, 2 * Math.PI);
        pen.stroke();
      }
      pen.fillStyle = "white";
      pen.font = "bold 0.4px sans-serif";
      pen.textAlign = "center";
      pen.textBaseline = "middle";
      pen.lineWidth = 0.07; // around the number, which is white also on yellow
      pen.strokeStyle = "rgba(0, 0, 0, 0.6)";
      pen.strokeText(String(agent), x, y + 0.03);
      pen.fillText(String(agent), x, y + 0.03);
    }

    function agentAt(state, x, y) {
      return state.positions.findIndex(([row, column]) => row === Math.floor(y) && column === Math.floor(x));
    }

    // The action that takes an agent to a point of the picture, or -1.
    function moveTo(state, agent, x, y) {
      const wanted = [Math.floor(y), Math.floor(x)];
      return MOVES.findIndex((move) => same(add(state.positions[agent], move), wanted));
    }

    return {
      numAgents,
      numActions: NUM_ACTIONS,
      ...{ step, features, actionMask, read },
      ...{ columns: size, rows: size, draw, colour: (_, n) => colours[n], describe, agentAt, moveTo },
    };
  }

  // Hues a golden section apart, so that neighbours in number are far apart in colour.
  function colour(agent) {
    const hue = (0.38 + 0.618034 * agent) % 1;
    const [saturation, value] = [[0.85, 0.75], [0.65, 0.55], [0.95, 0.95]][agent % 3];
    const lightness = value * (1 - saturation / 2);
    const chroma = (value - lightness) / Math.min(lightness, 1 - lightness);
    return `hsl(${360 * hue}, ${100 * chroma}%, ${100 * lightness}%)`;
  }

  // The head of an arrow on the edge of an agent, towards where it is about to go.
  function arrow(pen, x, y, [right, down]) {
    if (!right && !down) return;
    const [tipX, tipY] = [x + 0.6 * right, y + 0.6 * down];
    const [baseX, baseY] = [x + 0.42 * right, y + 0.42 * down];
    pen.beginPath();
    pen.moveTo(tipX, tipY);
    pen.lineTo(baseX + 0.16 * down, baseY + 0.16 * right);
    pen.lineTo(baseX - 0.16 * down, baseY - 0.16 * right);
    pen.closePath();
    pen.fillStyle = "rgb(32, 36, 44)";
    pen.fill();
  }

  return { make };
})();
