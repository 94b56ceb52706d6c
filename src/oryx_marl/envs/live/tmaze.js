// The T-Maze of envs/tmaze.py: the same rules, features and masks, and its picture.
//
// A state is {positions, greenLeft, colours, stepCount, last}: what the Python state holds, and what
// each agent sees of its last action.
const Environment = (() => {
  "use strict";
  const NUM_AGENTS = 2;
  const ARM = 2; // cells of the junction row on either side of the stem
  const MOVES = [[0, 0], [1, 0], [0, 1], [-1, 0], [0, -1]]; // stay, up, right, down, left
  const CHOOSE_0 = 5;
  const CHOOSE_1 = 6;
  const NUM_ACTIONS = 7;
  const NEIGHBOURS = [[0, 0], [0, 1], [1, 0], [1, 1], [0, -1], [-1, 0], [-1, -1], [1, -1], [-1, 1]];
  const UNDECIDED = "rgb(96, 103, 115)";
  const COLOURS = ["rgb(38, 155, 92)", "rgb(240, 138, 36)"];
  const PALE = ["rgb(172, 211, 184)", "rgb(243, 205, 164)"];
  const NAMES = ["green", "orange"];

  const add = (cell, move) => [cell[0] + move[0], cell[1] + move[1]];
  const same = (one, other) => one[0] === other[0] && one[1] === other[1];

  function make({ length = 5, width = 2, time_limit: timeLimit = 20, observation_mode: mode = "paper" }) {
    const starts = [[0, 0], [0, width - 1]];
    const goals = [[length, -ARM], [length, width - 1 + ARM]];

    function isOpen([row, column]) {
      if (row < 0 || row > length) return false;
      const arm = row === length ? ARM : 0;
      return column >= -arm && column <= width - 1 + arm;
    }

    const isTaken = (state, cell) => state.positions.some((each) => same(each, cell));

    function move(positions, actions) {
      const proposals = positions.map((cell, n) => {
        const isMove = actions[n] > 0 && actions[n] < MOVES.length;
        return add(cell, MOVES[isMove ? actions[n] : 0]);
      });
      const meet = same(proposals[0], proposals[1]);
      return positions.map((cell, n) => {
        const isFree = !positions.some((each) => same(each, proposals[n]));
        return isOpen(proposals[n]) && isFree && !meet ? proposals[n] : cell;
      });
    }

    function targets(state) {
      return state.colours.map((colour) => goals[state.greenLeft ? colour : 1 - colour]);
    }

    function step(before, actions) {
      const isChoosing = before.stepCount === 0;
      const chosen = actions.map((action) => Number(action === CHOOSE_1));
      let last = chosen.map((colour) => (isChoosing ? 1 + colour : 0));
      if (mode === "published") {
        const both = actions.every((action) => action > CHOOSE_0);
        last = chosen.map((colour) => Number(colour === 1 || both));
      }
      const state = {
        positions: isChoosing ? before.positions : move(before.positions, actions),
        greenLeft: before.greenLeft,
        colours: isChoosing ? chosen : before.colours,
        stepCount: before.stepCount + 1,
        last,
      };
      const aims = targets(state);
      const isSolved = !isChoosing && state.positions.every((cell, n) => same(cell, aims[n]));
      return {
        state,
        rewards: new Array(NUM_AGENTS).fill(Number(isSolved)),
        isTerminal: isSolved || state.stepCount >= timeLimit,
        isTruncated: false,
      };
    }

    function features(state) {
      if (state.stepCount === 0) return new Array(NUM_AGENTS).fill(new Array(NEIGHBOURS.length + 2).fill(0));
      return state.positions.map((cell, n) => {
        const seen = NEIGHBOURS.map((way, place) => {
          const there = add(cell, way);
          if (place === 0) return 1;
          if (same(there, state.positions[1 - n])) return 2;
          return isOpen(there) ? 0 : -1;
        });
        return [...seen, Number(state.greenLeft), state.last[n]];
      });
    }

    function actionMask(state) {
      const isChoosing = state.stepCount === 0;
      return state.positions.map((cell) =>
        Array.from({ length: NUM_ACTIONS }, (_, action) => {
          if (action >= MOVES.length) return isChoosing;
          if (isChoosing) return false;
          const there = add(cell, MOVES[action]);
          return action === 0 || (isOpen(there) && !isTaken(state, there));
        }),
      );
    }

    function read(fields) {
      return {
        positions: fields.positions,
        greenLeft: Boolean(fields.green_left),
        colours: fields.colours,
        stepCount: fields.step_count,
        last: [0, 0],
      };
    }

    // A start as the environment draws it: cells and sides with even chances.
    function reset(random) {
      const positions = random() < 0.5 ? [starts[1], starts[0]] : starts;
      const greenLeft = random() < 0.5;
      return { positions, greenLeft, colours: [-1, -1], stepCount: 0, last: [0, 0] };
    }

    function describe(state, names) {
      const wants = state.colours.map((colour) => (colour < 0 ? "no colour yet" : NAMES[colour]));
      const agents = state.positions.map(
        ([row, column], n) => `${names[n]} (${wants[n]}) in row ${row}, column ${column}`,
      );
      return `The green goal is on the ${state.greenLeft ? "left" : "right"}. ${agents.join("; ")}.`;
    }

    const columns = width + 2 * ARM + 2;
    const rows = length + 3;

    // The centre of a cell in cells from the top left corner of the picture.
    const centre = ([row, column]) => [column + 1 + ARM + 0.5, rows - 1 - (row + 1) + 0.5];

    const colour = (state, n) => COLOURS[state.colours[n]] ?? UNDECIDED;

    // `actions`: what the agents are about to do; null where the episode is over.
    function draw(pen, state, chosen, actions) {
      pen.fillStyle = "rgb(52, 58, 70)";
      pen.fillRect(0, 0, columns, rows);
      for (let row = 0; row <= length; row++) {
        for (let column = -ARM; column < width + ARM; column++) {
          if (!isOpen([row, column])) continue;
          const [x, y] = centre([row, column]);
          pen.fillStyle = "rgb(221, 216, 204)";
          pen.fillRect(x - 0.5, y - 0.5, 1, 1);
          pen.fillStyle = "rgb(244, 241, 233)";
          pen.fillRect(x - 0.5, y - 0.47, 0.97, 0.97);
        }
      }
      goals.forEach((cell, side) => {
        const colour = state.greenLeft ? side : 1 - side;
        const [x, y] = centre(cell);
        pen.fillStyle = COLOURS[colour];
        pen.fillRect(x - 0.45, y - 0.43, 0.88, 0.88);
        pen.fillStyle = PALE[colour];
        pen.fillRect(x - 0.36, y - 0.34, 0.7, 0.7);
      });
      state.positions.forEach((cell, n) => {
        const [x, y] = centre(cell);
        disc(pen, x, y, n === chosen ? 0.42 : 0.37, n === chosen ? "rgb(20, 90, 200)" : "rgb(32, 36, 44)");
        disc(pen, x, y, 0.31, colour(state, n));
        pen.fillStyle = "white";
        pen.font = "bold 0.4px sans-serif";
        pen.textAlign = "center";
        pen.textBaseline = "middle";
        pen.fillText(String(n), x, y + 0.03);
      });
      state.positions.forEach((cell, n) => {
        const [up, right] = MOVES[actions?.[n]] ?? [0, 0];
        arrow(pen, ...centre(cell), [right, -up]);
      });
    }

    function agentAt(state, x, y) {
      return state.positions.findIndex((cell) => {
        const [cx, cy] = centre(cell);
        return Math.abs(cx - x) < 0.5 && Math.abs(cy - y) < 0.5;
      });
    }

    // The action that takes an agent to a point of the picture, or -1.
    function moveTo(state, agent, x, y) {
      return MOVES.findIndex((move) => {
        const [cx, cy] = centre(add(state.positions[agent], move));
        return Math.abs(cx - x) < 0.5 && Math.abs(cy - y) < 0.5;
      });
    }

    return {
      numAgents: NUM_AGENTS,
      numActions: NUM_ACTIONS,
      ...{ step, features, actionMask, read, reset },
      ...{ columns, rows, draw, colour, describe, agentAt, moveTo },
    };
  }

  function disc(pen, x, y, radius, fill) {
    pen.beginPath();
    pen.arc(x, y, radius, 0, 2 * Math.PI);
    pen.fillStyle = fill;
    pen.fill();
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
