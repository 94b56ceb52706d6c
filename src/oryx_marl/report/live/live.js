// The live replay: the policy acts in this page, and the user may act for an agent.
(() => {
  "use strict";
  const find = (id) => document.getElementById(id);
  const root = find("live");
  if (!root) return;

  const data = JSON.parse(find("live-data").textContent);
  const recorded = find("viewer");
  const STEP_MS = 600; // at speed 1
  const HOLD = 4; // the end stays this many steps before the episode starts again
  const CELL = 64; // pixels of a cell on the canvas
  const FRESH = "new"; // value of the choice of a start that is drawn here

  let player;
  let agent = 0;
  let timer = 0;
  let seed = 1;
  let isSeen = false;
  let isPlaying = false;

  function start() {
    player = LivePlayer.make(data);
    // What this page plays must be what was recorded, or else the recorded pictures are shown.
    const first = player.compare(0);
    if (!first.isEqual) throw new Error(`actions differ from the recorded ones at step ${first.equal}`);
    build();
    begin();
    switchTo(true);
    listen();
    play(!matchMedia("(prefers-reduced-motion: reduce)").matches);
  }

  function switchTo(isLive) {
    root.hidden = !isLive;
    recorded.hidden = isLive;
    find("live-switch").hidden = false;
    find("live-switch-button").textContent = isLive ? "Show the recorded pictures" : "Play live again";
    document.documentElement.dataset.live = isLive ? "live" : "recorded";
    if (!isLive) play(false);
  }

  // Rows for agents and actions; they stay, only their contents change.
  function build() {
    const board = find("live-board");
    board.width = player.environment.columns * CELL;
    board.height = player.environment.rows * CELL;
    find("live-new").hidden = !player.canReset;
    find("live-new").disabled = !player.canReset;
    data.agents.forEach((name, n) => {
      const row = add(find("live-agents"), "li");
      const button = add(row, "button", "agent");
      button.type = "button";
      for (const part of ["name", "what", "chance", "shift"]) add(button, "span", part);
      button.querySelector(".name").textContent = name;
      button.addEventListener("click", () => select(n));
    });
    data.action_names.forEach((name, action) => {
      const row = add(find("live-actions"), "li");
      const button = add(row, "button", "action");
      button.type = "button";
      add(button, "kbd").textContent = action < 9 ? action + 1 : "";
      add(button, "span", "name").textContent = name;
      const bar = add(button, "span", "bar");
      add(bar, "i", "now");
      add(bar, "i", "before");
      add(button, "span", "chance");
      button.addEventListener("click", () => choose(action));
    });
  }

  function add(parent, kind, name = "") {
    const made = document.createElement(kind);
    if (name) made.className = name;
    return parent.appendChild(made);
  }

  function begin() {
    const value = find("live-start").value;
    player.begin(value === FRESH ? null : Number(value), find("live-noise").value, seed);
    show();
  }

  // A fresh draw is another one at every restart.
  function restart() {
    seed += 1;
    begin();
  }

  const percent = (chance) => `${(100 * chance).toFixed(chance > 0.0005 && chance < 0.01 ? 1 : 0)}%`;
  const plain = (number) => String(Number(number.toFixed(2))).replace("-", "−");

  function show() {
    const { now } = player;
    drawBoard();
    find("live-where").textContent = `step ${now.state.stepCount}`;
    find("live-so-far").textContent = `return so far ${plain(now.total)}`;
    find("live-step").disabled = now.isOver;
    find("live-name").textContent = data.agents[agent];
    showAgents();
    showActions();
    find("live-say").textContent = tell();
    plan();
  }

  function drawBoard() {
    const board = find("live-board");
    const pen = board.getContext("2d");
    pen.setTransform(CELL, 0, 0, CELL, 0, 0);
    pen.clearRect(0, 0, player.environment.columns, player.environment.rows);
    player.environment.draw(pen, player.now.state, agent);
    board.setAttribute("aria-label", `Board. ${player.environment.describe(player.now.state, data.agents)}`);
  }

  function showAgents() {
    const { now, hasHand } = player;
    const { actions, outputs } = now.isOver ? {} : player.plan();
    [...find("live-agents").children].forEach((row, n) => {
      const button = row.firstChild;
      const part = (name) => button.querySelector(`.${name}`);
      const isLed = player.chosen(n) !== null;
      button.setAttribute("aria-pressed", n === agent);
      part("what").textContent = now.isOver ? "–" : data.action_names[actions[n]];
      const canTell = !now.isOver && (outputs.log_probs || n === agent);
      part("chance").textContent = isLed ? "by hand" : canTell ? percent(player.probabilities(n)[actions[n]]) : "";
      const moved = hasHand && !isLed && canTell ? player.shift(n) : 0;
      part("shift").textContent = moved >= 0.005 ? `shifted ${percent(moved)}` : "";
      button.classList.toggle("led", isLed);
    });
  }

  function showActions() {
    const { now, hasHand } = player;
    const planned = now.isOver ? null : player.plan();
    const chances = planned && player.probabilities(agent);
    const isLed = player.chosen(agent) !== null;
    const before = planned && hasHand && !isLed ? player.probabilities(agent, player.plan(new Map())) : null;
    [...find("live-actions").children].forEach((row, action) => {
      const button = row.firstChild;
      const isAllowed = Boolean(planned?.mask[agent][action]);
      const chance = chances ? chances[action] : 0;
      const isHand = player.chosen(agent) === action;
      button.disabled = !isAllowed;
      button.setAttribute("aria-pressed", isHand);
      button.classList.toggle("planned", planned?.actions[agent] === action);
      button.querySelector(".now").style.width = `${100 * chance}%`;
      const mark = button.querySelector(".before");
      mark.hidden = before === null || !isAllowed;
      mark.style.left = `${100 * (before?.[action] ?? 0)}%`;
      button.querySelector(".chance").textContent = isAllowed ? percent(chance) : "not allowed";
      const words = isAllowed ? `${percent(chance)} likely` : "not allowed now";
      const hand = isHand ? ", chosen by hand" : "";
      button.setAttribute("aria-label", `${data.action_names[action]}: ${words}${hand}`);
    });
  }

  // What is to be seen, in a sentence or two.
  function tell() {
    const { now, hasHand } = player;
    if (now.isOver) return `The episode is over, return ${plain(now.total)}. ${tellRecorded()}`;
    if (!hasHand) return tellRecorded();
    const others = data.agents.map((_, n) => n).filter((n) => player.chosen(n) === null);
    const canTell = (n) => player.plan().outputs.log_probs || n === agent;
    const moved = others.filter((n) => canTell(n) && player.shift(n) >= 0.005);
    const names = moved.map((n) => data.agents[n]).join(", ");
    const reacted = moved.length
      ? `${names} reacted within this step, because this policy asks its agents one after another and each sees what those before it do.`
      : "No other agent reacts within this step; what they see changes from the next step on.";
    return `You act for ${data.agents.filter((_, n) => player.chosen(n) !== null).join(", ")}. ${reacted}`;
  }

  function tellRecorded() {
    const { now } = player;
    const isEpisode = find("live-start").value !== FRESH;
    if (!isEpisode || find("live-noise").value !== "recorded") return "The policy is acting in this page.";
    if (now.isAsRecorded) return "Same start and same noise: every action so far equals the recorded one.";
    return "This episode has left the recorded one.";
  }

  function select(next) {
    agent = (next + data.agents.length) % data.agents.length;
    show();
  }

  function choose(action) {
    play(false);
    const isSame = player.chosen(agent) === action;
    player.choose(agent, isSame ? null : action);
    show();
  }

  function giveBack() {
    data.agents.forEach((_, n) => player.choose(n, null));
    show();
  }

  function stepOnce() {
    play(false);
    player.step();
    show();
  }

  function plan() {
    clearTimeout(timer);
    if (!isPlaying || !isSeen) return;
    const isOver = player.now.isOver;
    const wait = (STEP_MS / Number(find("live-speed").value)) * (isOver ? HOLD : 1);
    timer = setTimeout(() => {
      if (isOver) return restart();
      player.step();
      show();
    }, wait);
  }

  function play(wanted) {
    isPlaying = wanted;
    find("live-play").setAttribute("aria-label", wanted ? "Pause" : "Play");
    root.classList.toggle("playing", wanted);
    // Read aloud single steps, not a film.
    find("live-caption").setAttribute("aria-live", wanted ? "off" : "polite");
    plan();
  }

  function listen() {
    find("live-play").addEventListener("click", () => play(!isPlaying));
    find("live-step").addEventListener("click", stepOnce);
    find("live-restart").addEventListener("click", () => {
      play(false);
      restart();
    });
    find("live-start").addEventListener("change", begin);
    find("live-noise").addEventListener("change", begin);
    find("live-speed").addEventListener("change", plan);
    find("live-switch-button").addEventListener("click", () => switchTo(root.hidden));
    find("live-board").addEventListener("click", (event) => {
      const box = event.target.getBoundingClientRect();
      const x = ((event.clientX - box.left) / box.width) * player.environment.columns;
      const y = ((event.clientY - box.top) / box.height) * player.environment.rows;
      const found = player.environment.agentAt(player.now.state, x, y);
      if (found >= 0) select(found);
    });
    document.addEventListener("keydown", press);
    new IntersectionObserver((entries) => {
      isSeen = entries[entries.length - 1].isIntersecting;
      plan();
    }).observe(root);
  }

  // Keys that something else on the page takes are left to it; a button takes Space and Enter.
  function press(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || !isSeen || root.hidden) return;
    const target = event.target instanceof Element ? event.target : document.body;
    if (target.closest("input, select, textarea, summary, a, [contenteditable]")) return;
    const keys = {
      ArrowRight: stepOnce,
      ArrowUp: () => select(agent - 1),
      ArrowDown: () => select(agent + 1),
      Escape: giveBack,
      r: () => find("live-restart").click(),
    };
    if (!target.closest("button")) keys[" "] = () => play(!isPlaying);
    const action = Number(event.key) - 1;
    const isAction = action >= 0 && action < data.action_names.length;
    if (isAction) keys[event.key] = () => choose(action);
    if (!(event.key in keys)) return;
    event.preventDefault();
    keys[event.key]();
  }

  // With #selfcheck in its address the page compares itself with what was recorded, for tests.
  function check() {
    const found = {
      episodes: player.episodes.map((_, n) => player.compare(n)),
      reactions: player.reactions(0),
    };
    const told = add(document.body, "pre");
    told.id = "selfcheck";
    told.textContent = JSON.stringify(found);
  }

  try {
    start();
    if (location.hash === "#selfcheck") {
      play(false);
      check();
      begin();
    }
  } catch (error) {
    root.hidden = true;
    recorded.hidden = false;
    find("live-switch").hidden = true;
    find("live-why").textContent = `The policy cannot run here (${error.message}); these are the recorded pictures.`;
    document.documentElement.dataset.live = "failed";
  }
})();
