// The live replay: the policy acts in this page, and the user may act for an agent.
(() => {
  "use strict";
  const find = (id) => document.getElementById(id);
  const root = find("live");
  if (!root) return;

  const data = JSON.parse(find("live-data").textContent);
  const recorded = find("viewer");
  const STEP_MS = 600; // at speed 1
  const CHECK_MS = 400; // for comparing the page with what was recorded, before it is shown
  const HOLD = 4; // the end stays this many steps before the episode starts again
  const CELL = 64; // pixels of a cell on the canvas
  const FEW = 5; // agents
  const LEAST_SHIFT = 0.005; // of an agent's chances that is told of
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
    const first = player.compare(0, CHECK_MS);
    if (!first.isAsRecorded) throw new Error(`actions differ from the recorded ones at step ${first.equal}`);
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
    find("live-why").textContent = "";
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
      for (const part of ["badge", "name", "what", "chance"]) add(button, "span", part);
      button.querySelector(".badge").textContent = n;
      button.querySelector(".name").textContent = name;
      listenTo(button, "click", () => select(n));
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
      listenTo(button, "click", () => choose(action));
    });
  }

  function add(parent, kind, name = "") {
    const made = document.createElement(kind);
    if (name) made.className = name;
    return parent.appendChild(made);
  }

  // Whatever goes wrong, also later, the recorded pictures remain.
  function listenTo(target, kind, act) {
    target.addEventListener(kind, (event) => attempt(() => act(event)));
  }

  function attempt(act) {
    try {
      act();
    } catch (error) {
      clearTimeout(timer);
      root.hidden = true;
      recorded.hidden = false;
      find("live-switch").hidden = true;
      find("live-why").textContent = `The policy cannot run here (${error.message}); these are the recorded pictures.`;
      document.documentElement.dataset.live = "failed";
    }
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
    find("live-where").textContent = `step ${now.state.stepCount}${now.isOver ? ", over" : ""}`;
    find("live-so-far").textContent = `return ${plain(now.total)}`;
    root.classList.toggle("led", player.hasHand);
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
    const { state, isOver } = player.now;
    player.environment.draw(pen, state, agent, isOver ? null : player.plan().actions);
    board.setAttribute("aria-label", `Board. ${player.environment.describe(state, data.agents)}`);
  }

  function showAgents() {
    const { now, hasHand } = player;
    const actions = now.isOver ? [] : player.plan().actions;
    [...find("live-agents").children].forEach((row, n) => {
      const button = row.firstChild;
      const part = (name) => button.querySelector(`.${name}`);
      const isLed = player.chosen(n) !== null;
      const what = now.isOver ? "–" : data.action_names[actions[n]];
      const chance = isLed ? "by hand" : now.isOver ? "" : percent(player.chance(n));
      const moved = hasHand && !isLed && canCompare(n) ? player.shift(n) : 0;
      const words = moved >= LEAST_SHIFT ? `shifted ${percent(moved)}` : chance;
      button.setAttribute("aria-pressed", n === agent);
      button.setAttribute("aria-label", [data.agents[n], what, words].filter(Boolean).join(", "));
      part("badge").style.background = player.environment.colour(now.state, n);
      part("what").textContent = what;
      part("chance").textContent = words;
      button.classList.toggle("led", isLed);
      button.classList.toggle("moved", moved >= LEAST_SHIFT);
    });
    reveal(find("live-agents"), agent);
  }

  // Whether to find out what an agent would do without the user's hand: of a policy that tells the
  // chance of one action at a time, and has many agents, of the chosen one alone.
  function canCompare(n) {
    return !player.now.isOver && (player.tellsAll || n === agent || data.agents.length <= FEW);
  }

  // Scrolls a list, and nothing else, to one of its rows.
  function reveal(list, place) {
    const row = list.children[place].getBoundingClientRect();
    const box = list.getBoundingClientRect();
    if (row.top < box.top) list.scrollTop += row.top - box.top;
    if (row.bottom > box.bottom) list.scrollTop += row.bottom - box.bottom;
  }

  function showActions() {
    const { now, hasHand } = player;
    const planned = now.isOver ? null : player.plan();
    const chances = planned && player.probabilities(agent);
    const isLed = player.chosen(agent) !== null;
    const before = planned && hasHand && !isLed ? player.probabilities(agent, player.plan(new Map())) : null;
    find("live-before").style.visibility = before ? "visible" : "hidden";
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
      mark.style.left = `calc(${before?.[action] ?? 0} * (100% - 3px))`;
      button.querySelector(".chance").textContent = isAllowed ? percent(chance) : "not allowed";
      const words = isAllowed ? `${percent(chance)} likely` : "not allowed now";
      const hand = isHand ? ", chosen by hand" : "";
      button.setAttribute("aria-label", `${data.action_names[action]}: ${words}${hand}`);
    });
  }

  // What is to be seen, in a sentence or two.
  function tell() {
    const { now, hasHand } = player;
    if (now.isOver || !hasHand) return tellRecorded();
    const all = data.agents.map((_, n) => n);
    const others = all.filter((n) => player.chosen(n) === null);
    const moved = others.filter((n) => canCompare(n) && player.shift(n) >= LEAST_SHIFT);
    const reacted = moved.length
      ? `${list(moved)} already ${moved.length > 1 ? "react" : "reacts"}: each agent knows what those before it do.`
      : others.every(canCompare)
        ? "No other agent reacts in this step; from the next one on they see what was done."
        : "Choose another agent to see whether it reacts.";
    return `You act for ${list(all.filter((n) => player.chosen(n) !== null))}; step forward to play it. ${reacted}`;
  }

  function list(numbers) {
    if (numbers.length > 3) return `${numbers.length} agents`;
    return numbers.map((n) => data.agents[n]).join(", ");
  }

  function tellRecorded() {
    const { now } = player;
    const isEpisode = find("live-start").value !== FRESH;
    if (!isEpisode || find("live-noise").value !== "recorded") return "The policy is acting in this page.";
    if (now.isAsRecorded) return "Same start, same random numbers: every action so far equals the recorded one.";
    return "This episode has taken another course than the recorded one.";
  }

  function select(next) {
    agent = (next + data.agents.length) % data.agents.length;
    show();
  }

  function choose(action) {
    play(false);
    if (player.now.isOver) return;
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
    const goOn = () => {
      player.step();
      show();
    };
    timer = setTimeout(() => attempt(isOver ? restart : goOn), wait);
  }

  function play(wanted) {
    isPlaying = wanted;
    find("live-play").setAttribute("aria-label", wanted ? "Pause" : "Play");
    root.classList.toggle("playing", wanted);
    // Read aloud single steps, not a film.
    find("live-say").setAttribute("aria-live", wanted ? "off" : "polite");
    plan();
  }

  function listen() {
    listenTo(find("live-play"), "click", () => play(!isPlaying));
    listenTo(find("live-step"), "click", stepOnce);
    listenTo(find("live-restart"), "click", () => {
      play(false);
      restart();
    });
    listenTo(find("live-start"), "change", begin);
    listenTo(find("live-noise"), "change", begin);
    listenTo(find("live-speed"), "change", plan);
    listenTo(find("live-switch-button"), "click", () => switchTo(root.hidden));
    listenTo(find("live-board"), "click", point);
    listenTo(document, "keydown", press);
    new IntersectionObserver((entries) => {
      isSeen = entries[entries.length - 1].isIntersecting;
      plan();
    }).observe(root);
  }

  // On the board an agent is chosen, or a cell beside the chosen one for it to go to.
  function point(event) {
    const { environment, now } = player;
    const box = event.target.getBoundingClientRect();
    const x = ((event.clientX - box.left) / box.width) * environment.columns;
    const y = ((event.clientY - box.top) / box.height) * environment.rows;
    const found = environment.agentAt(now.state, x, y);
    if (found >= 0) return select(found);
    const action = now.isOver ? -1 : environment.moveTo(now.state, agent, x, y);
    if (action > 0 && environment.actionMask(now.state)[agent][action]) choose(action);
  }

  // Keys that something else on the page takes are left to it; a button takes Space and Enter. Those
  // that would scroll the page, or that others may type, act only with the focus in here.
  function press(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || !isSeen || root.hidden) return;
    const target = event.target instanceof Element ? event.target : document.body;
    if (target.closest("input, select, textarea, summary, a, [contenteditable]")) return;
    const keys = { ArrowRight: stepOnce };
    if (!target.closest("button")) keys[" "] = () => play(!isPlaying);
    if (root.contains(target)) {
      keys.ArrowUp = () => select(agent - 1);
      keys.ArrowDown = () => select(agent + 1);
      keys.Escape = giveBack;
      keys.r = () => find("live-restart").click();
      data.action_names.forEach((_, action) => (keys[action + 1] = () => choose(action)));
    }
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

  attempt(() => {
    start();
    if (location.hash === "#selfcheck") {
      play(false);
      check();
      begin();
    }
  });
})();
