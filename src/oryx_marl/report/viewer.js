// Plays recorded episodes: one sheet of frames per episode, drawn frame by frame on a canvas.
(() => {
  "use strict";
  const find = (id) => document.getElementById(id);
  const viewer = find("viewer");
  if (!viewer) return;

  const episodes = JSON.parse(find("replay-data").textContent);
  const canvas = find("frame");
  const pen = canvas.getContext("2d");
  const rows = [...find("actions").querySelectorAll("b")];
  const STEP_MS = 500; // at speed 1
  const HOLD = 4; // the last frame stays this many steps before the episode starts again

  let episode = episodes[0];
  let place = 0;
  let sheet = null;
  let timer = 0;
  let isSeen = true;
  let isPlaying = !matchMedia("(prefers-reduced-motion: reduce)").matches;

  function draw() {
    if (!sheet) return;
    const left = (place % episode.columns) * episode.width;
    const top = Math.floor(place / episode.columns) * episode.height;
    const x = (canvas.width - episode.width) / 2;
    const y = (canvas.height - episode.height) / 2;
    pen.clearRect(0, 0, canvas.width, canvas.height);
    pen.drawImage(sheet, left, top, episode.width, episode.height, x, y, episode.width, episode.height);
  }

  function tell() {
    const last = episode.frames - 1;
    const actions = episode.actions[place] || [];
    const isOver = place === last;
    find("where").textContent = `step ${place} of ${last}`;
    find("so-far").textContent = `return so far ${episode.so_far[Math.min(place, episode.so_far.length - 1)]}`;
    rows.forEach((row, agent) => (row.textContent = isOver ? "–" : actions[agent] ?? "–"));
    find("reward").textContent = isOver
      ? `the episode is over, return ${episode.return}`
      : `reward for this step ${episode.rewards[place] ?? "–"}`;
    find("place").max = last;
    find("place").value = place;
    find("place").setAttribute("aria-valuetext", `step ${place} of ${last}`);
    find("back").disabled = place === 0;
    find("forward").disabled = isOver;
    viewer.dataset.place = place;
  }

  function show(next) {
    place = Math.max(0, Math.min(episode.frames - 1, next));
    draw();
    tell();
    plan();
  }

  function plan() {
    clearTimeout(timer);
    if (!isPlaying || !isSeen || episode.frames < 2) return;
    const isLast = place === episode.frames - 1;
    const wait = (STEP_MS / Number(find("speed").value)) * (isLast ? HOLD : 1);
    timer = setTimeout(() => show(isLast ? 0 : place + 1), wait);
  }

  function play(wanted) {
    isPlaying = wanted;
    find("play").setAttribute("aria-label", wanted ? "Pause" : "Play");
    viewer.classList.toggle("playing", wanted);
    // Read aloud single steps, not a film.
    find("caption").setAttribute("aria-live", wanted ? "off" : "polite");
    plan();
  }

  function choose(index) {
    episode = episodes[index];
    sheet = null;
    const picture = new Image();
    const wanted = episode;
    picture.onload = () => {
      if (episode !== wanted) return;
      sheet = picture;
      draw();
    };
    picture.src = episode.sheet;
    show(0);
  }

  const stepTo = (next) => {
    play(false);
    show(next);
  };
  find("play").addEventListener("click", () => play(!isPlaying));
  find("back").addEventListener("click", () => stepTo(place - 1));
  find("forward").addEventListener("click", () => stepTo(place + 1));
  find("place").addEventListener("input", (event) => stepTo(Number(event.target.value)));
  find("episode").addEventListener("change", (event) => choose(Number(event.target.value)));
  find("speed").addEventListener("change", plan);
  canvas.addEventListener("click", () => play(!isPlaying));
  // No click is needed first; but keys that something else on the page takes are left to it, and
  // those that would scroll act only while the picture is seen, Home and End only on it.
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !isSeen) return;
    const target = event.target instanceof Element ? event.target : document.body;
    if (target.closest("input, select, textarea, button, summary, a, [contenteditable]")) return;
    const keys = {
      " ": () => play(!isPlaying),
      ArrowLeft: () => stepTo(place - 1),
      ArrowRight: () => stepTo(place + 1),
    };
    if (target === canvas) {
      keys.Home = () => stepTo(0);
      keys.End = () => stepTo(episode.frames - 1);
    }
    if (!(event.key in keys)) return;
    event.preventDefault();
    keys[event.key]();
  });
  new IntersectionObserver((entries) => {
    isSeen = entries[entries.length - 1].isIntersecting;
    plan();
  }).observe(canvas);

  play(isPlaying);
  choose(0);
})();
